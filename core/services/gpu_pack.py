"""Looks at a GPU pack from inside: `python -P -s check.py LIBRARIES OWN_SOURCE MODULE…`, answering with JSON.

Imports PyTorch and the modules named, calls what is named as MODULE:FUNCTION, and computes a little on the card.
Standard library only, but for what it checks.
"""

import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base import format as figures
from core.base.errors import Fix, UserError
from core.base.jobs import EngineJob, JobCancelled
from core.base.processes import kill_with_children, start_worker

# --- Looks at a GPU pack from inside: `python -P -s check.py LIBRARIES OWN_SOURCE MODULE…`


def check(modules: list[str]) -> dict[str, str | None]:
    """What is found, as `core.base.jobs.Checked` reads it; what can't be imported ends the process."""
    torch = importlib.import_module("torch")
    for name in modules:
        module, _, function = name.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()
    device, problem = _computed(torch) if torch.cuda.is_available() else ("", "")
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "device": device, "problem": problem}


def _computed(torch: Any) -> tuple[str, str]:
    """The name of the card that eight ones were added up on, and what went wrong."""
    try:
        total = torch.ones(8, device="cuda").sum().item()
    except RuntimeError as error:
        return "", str(error)
    return (torch.cuda.get_device_name(0), "") if total == 8 else ("", f"eight ones came to {total}")


if __name__ == "__main__":
    answer_to = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    sys.path[:0] = sys.argv[1:3]
    found = json.dumps(check(sys.argv[3:]))
    os.write(answer_to, found.encode())


# --- One child process after the other, each of which can be ended from another thread


JOB = "gpu-pack"
LOOK_SECONDS = 1.0
"""How often is looked how far a child is."""

LARGEST_SAID = 1 << 16
"""Bytes of the end of a log that are read to find out what went wrong."""


class Child:
    """Runs programs until it is killed.

    Args:
        log: Where all they print is appended.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._is_killed = False

    def run(
        self,
        command: Sequence[str],
        watch: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run a program to its end.

        Args:
            command: The program and its arguments.
            watch: Called every second meanwhile.
            environment: Variables set besides the usual ones.

        Returns:
            Its exit status and the end of what it printed.

        Raises:
            JobCancelled: `kill` was called.
            OSError: It can't be started, or the log not be written.
        """
        with self._log.open("ab") as log:
            begin = log.tell()
            process = self._start(command, log.fileno(), environment)
            try:
                code = _waited(process, watch)
            except BaseException:  # Ctrl-C: what it fills is deleted next
                kill_with_children(process)
                process.wait()
                raise
        self.refuse_killed()
        with self._log.open("rb") as log:
            log.seek(max(begin, log.seek(0, 2) - LARGEST_SAID))
            return code, log.read().decode(errors="replace")

    def ask(self, job: str, request: bytes) -> bytes:
        """Ask the engine; see `EngineJob.ask` for what it raises."""
        with self._lock:
            self.refuse_killed()
            asked = EngineJob(job)
            self._end = asked.kill
        return asked.ask(request)

    def kill(self) -> None:
        """End what runs, and let nothing begin any more; may be called from any thread."""
        with self._lock:
            self._is_killed = True
            if self._end is not None:
                self._end()

    def refuse_killed(self) -> None:
        """Go no further where `kill` was called.

        Raises:
            JobCancelled: It was.
        """
        if self._is_killed:
            raise JobCancelled(JOB)

    def _start(
        self, command: Sequence[str], output: int, environment: Mapping[str, str] | None
    ) -> "subprocess.Popen[bytes]":
        with self._lock:
            self.refuse_killed()
            process = start_worker(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, environment=environment
            )
            self._end = lambda: kill_with_children(process)
            return process


def _waited(process: "subprocess.Popen[bytes]", watch: Callable[[], None]) -> int:
    """Wait for the end of a program, looking every second how far it is; returns its exit status."""
    while True:
        try:
            return process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            watch()


# --- Starts the engine in a GPU pack


def launch() -> None:
    """Become `python -m core.engine`."""
    libraries, own, *arguments = sys.argv[1:]
    sys.path[:0] = [libraries, own]
    os.environ["PYTHONPATH"] = os.pathsep.join((libraries, own))
    sys.argv[1:] = arguments
    runpy.run_module("core.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    launch()


# --- What goes wrong while a GPU pack is installed, in words, each with what to do


TITLE = "The GPU pack wasn't installed"
GO_ON = Fix("Then press Go on (hone gpu --install): what has been downloaded is kept")
AGAIN = Fix("Then install it again")

_CAUSES: tuple[tuple[str, str, tuple[Fix, ...]], ...] = (
    (
        r"No space left|not enough space|Errno 28|os error (28|112)",
        "The disk is full.",
        (Fix("Make room on it"), GO_ON),
    ),
    (
        r"\b407\b|[Pp]roxy",
        "A proxy stands between this computer and the internet, and refused.",
        (Fix("Set HTTPS_PROXY to its address, with name and password where it wants them"), GO_ON),
    ),
    (
        r"certificate|CERTIFICATE|UnknownIssuer",
        "The certificate of the server isn't one that this system trusts.",
        (
            Fix("Set SSL_CERT_FILE to the certificates of your network, where it looks into connections"),
            GO_ON,
        ),
    ),
    (
        r"No matching distribution|No solution found|ResolutionImpossible|no version of|not found in the",
        "A library that Hone needs isn't there in a build for this computer.",
        (Fix("Take a folder that holds all wheels, or leave --from away"),),
    ),
    (
        r"dns error|[Cc]onnect|[Tt]imed? ?out|getaddrinfo|Name or service|error sending request|Network|offline"
        r"|response body|end of file before message",
        "The internet can't be reached, or is too slow.",
        (Fix("See that this computer is online, and HTTPS_PROXY is set where it needs a proxy"), GO_ON),
    ),
    (
        r"Permission denied|Access is denied|os error (5|13)\b",
        "A file couldn't be read or written.",
        (Fix("See that Hone's folder belongs to you, and that no other program guards it"), GO_ON),
    ),
    (
        r"HASH|[Hh]ash mismatch|BadZipFile|[Ii]nvalid zip|CRC|Wheel .* is invalid|corrupt|Failed to (read|extract)"
        r"|deflate|end of central directory",
        "A file arrived damaged.",
        (Fix("Remove what has come, with Cancel (hone gpu --remove)"), AGAIN),
    ),
)
"""What programs print, as patterns, what it means, and what to do. The first that is found counts.

A file counts as damaged only where nothing else kept it from coming whole: uv says "Failed to extract" of those, too.
"""


def explain(said: str, log: Path) -> UserError:
    """The error where a program failed, told from the end of what it printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|cause|×|├|╰)|.*\bError\b", line, re.IGNORECASE)]
    shown = "\n".join(lines[-3:])
    for text in ("\n".join(errors), said):
        for pattern, cause, fixes in _CAUSES:
            if re.search(pattern, text):
                return UserError(TITLE, f"{cause}\n{shown}\nAll of it is in {log}", fixes)
    return UserError(TITLE, f"{shown}\nAll of it is in {log}", (AGAIN,))


def refused(error: OSError, log: Path) -> UserError:
    """The error where the system refused something."""
    where = f"{error.filename}: " if error.filename else ""
    return explain(f"{where}{error.strerror or error} [Errno {error.errno}]", log)


def no_room(free: int, needed: int, folder: Path) -> UserError:
    """The error where the disk has too little room from the start."""
    detail = f"{figures.size(free)} are free on the disk of {folder}, and it takes {figures.size(needed)}."
    return UserError(TITLE, detail, (Fix("Make room on it"), AGAIN))


def not_working(said: str, log: Path) -> UserError:
    """The error where all was installed and then didn't run."""
    return _unchecked(
        "The GPU pack was installed but doesn't work", "It was taken away again.", said, log, AGAIN
    )


def works_no_more(said: str, log: Path) -> UserError:
    """The error where a pack that was there didn't pass the check when it was renewed."""
    again = Fix("Press Go on (hone gpu --install): all of it is brought anew")
    return _unchecked(
        "The GPU pack doesn't work any more", "Hone computes without it from now on.", said, log, again
    )


def _unchecked(title: str, what_became: str, said: str, log: Path, fix: Fix) -> UserError:
    shown = "\n".join(said.strip().splitlines()[-3:])
    return UserError(title, f"{what_became}\n{shown}\nAll of it is in {log}", (fix,))


def lacking(folder: Path, *names: str) -> UserError:
    """The error where a folder that all is to be taken from lacks something."""
    said = f"This is missing in {folder}: {', '.join(names)}"
    tells = Fix("Put it there (hone gpu --needs FOLDER tells where it comes from), or leave --from away")
    return UserError(TITLE, said, (tells,))


def in_use(folder: Path) -> UserError:
    """The error where programs run from the pack that is to go."""
    return UserError(
        "The GPU pack is in use",
        f"Hone trains, or answers, from {folder}.",
        (Fix("Wait until runs are over, or pause them; close Try it and Benchmark"),),
    )


def busy() -> UserError:
    """The error where another Hone is at it."""
    return UserError("The GPU pack is being installed already", "Another window or terminal of Hone does it.")
