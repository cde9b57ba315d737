"""Start a frozen Hone as its users will: without Python's variables, by nobody in particular, in a home of its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bootstrap.errors import SetupError

HOME_NAME = "Zoë’s öld hôme 日本"
"""As people have them: with spaces, and with letters beyond ASCII."""
TEMPORARY_NAME = "t ö"
"""As odd, and short: sockets are made in there, whose paths may have 103 bytes on a Mac."""
NOBODY = 65534
PAINTED = {"HONE_QUIT_AFTER_PAINT": "1"}
"""The window closes by itself once it is painted."""
SECONDS = 1800
if TYPE_CHECKING:
    Command = Sequence[str | Path]

KEPT_AWAY = ("PYTHON", "VIRTUAL_ENV", "QT_", "HONE_", "HF_", "LD_", "XDG_", "PIP_")


class Done(NamedTuple):
    """How a program ended, and everything it said."""

    status: int
    said: str


class Person(NamedTuple):
    """Somebody who starts Hone: a home, its variables, and whether root lends the process to nobody."""

    home: Path
    environ: Mapping[str, str]
    lends: bool

    def start(
        self, command: Command, more: Mapping[str, str] | None = None, output: int | None = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start a program as this person, in its home.

        Args:
            command: The program and its arguments.
            more: Variables beside those of the person.
            output: Where what it says goes, as `subprocess` takes it; None: where ours goes.

        Raises:
            SetupError: It can't be started.
        """
        try:
            return subprocess.Popen(
                [str(part) for part in command],
                cwd=self.home,
                env={**self.environ, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                errors="replace",
                user=NOBODY if self.lends else None,
                group=NOBODY if self.lends else None,
                extra_groups=[] if self.lends else None,
            )
        except OSError as error:
            raise SetupError(f"The program doesn't start: {error}") from error

    def run(
        self,
        command: Command,
        more: Mapping[str, str] | None = None,
        output: int | None = subprocess.PIPE,
        limit: float = SECONDS,
    ) -> Done:
        """Run a program to its end; as in `start`, and `limit` is how many seconds it may take.

        Raises:
            SetupError: It can't be started, or takes too long.
        """
        process = self.start(command, more, output)
        try:
            said, complained = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise SetupError(f"The program was not done after {limit:.0f} s: {command[:3]}") from error
        return Done(process.returncode, f"{said or ''}{complained or ''}")

    def give(self, path: Path) -> None:
        """Make a file or folder the person's own."""
        if self.lends:
            os.chown(path, NOBODY, NOBODY)


@contextmanager
def somebody(*, is_us: bool = False) -> Iterator[Person]:
    """A person with a new home, which is gone afterwards. Where this is root, it isn't root, unless it `is_us`."""
    # A Mac's own folder for temporary files has 50 letters already.
    place = "/tmp" if sys.platform == "darwin" else None
    with tempfile.TemporaryDirectory(prefix="hone-trial-", dir=place, ignore_cleanup_errors=True) as folder:
        home, temporary = Path(folder) / HOME_NAME, Path(folder) / TEMPORARY_NAME
        home.mkdir()
        temporary.mkdir(0o700)
        Path(folder).chmod(0o755)
        lends = not is_us and hasattr(os, "geteuid") and os.geteuid() == 0
        environ = {name: text for name, text in os.environ.items() if not name.startswith(KEPT_AWAY)}
        environ.update(HOME=str(home), USERPROFILE=str(home), TMPDIR=str(temporary), HF_HUB_OFFLINE="1")
        if sys.platform.startswith("linux"):
            environ["QT_QPA_PLATFORM"] = "offscreen"
        person = Person(home, environ, lends)
        person.give(home)
        person.give(temporary)
        yield person


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Take everybody's leave to write in a folder away for a while; Windows has no such thing for folders."""
    if sys.platform == "win32":
        yield
        return
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def judged(done: Done, status: int, words: str = "") -> str:
    """Why an end isn't what it should be, empty where it is: its status, what it says, and no traceback."""
    said = done.said.strip()
    if "Traceback" in said:
        return f"a traceback: {said[-1500:]}"
    if done.status != status:
        return f"it ended with {done.status}, not {status}, and said: {said[-1500:]}"
    if words not in said:
        return f"it never said “{words}”, but: {said[-1500:]}"
    return ""


def said_by(person: Person, command: Command, more: Mapping[str, str]) -> str:
    """What a program says that has to succeed.

    Raises:
        SetupError: It fails.
    """
    done = person.run(command, more)
    if done.status != 0:
        tail = "\n".join(done.said.splitlines()[-15:])
        raise SetupError(
            f"{command[0]} {' '.join(map(str, command[1:2]))} ended with {done.status} and said:\n{tail}"
        )
    return done.said
