"""What a bundle says where something is wrong: a line or a window that tells what to do, never silence or a traceback.

On Linux only, by means that only Linux has: rights, limits, namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bootstrap.errors import SetupError
from bootstrap.smoke import NOBODY, PAINTED, Done, Person, finished, judged, somebody

CLOSED = 'exec "$0" "$@" 0<&- 1>&- 2>&-'
NO_FILES = 'ulimit -f 0; exec "$0" "$@"'
WITHOUT_EGL = (
    'mount --bind /dev/null "$EGL"; exec setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups "$0" "$@"'
)
PATIENCE = 120.0
NO_SCREEN, NO_ANSWER = "There is no screen here", "the screen doesn't answer"
NO_FOLDER = "folder can't be made"
NO_RUN_FILE, NO_COMMAND = "problem in", "is neither a command nor a file"
IS_OPEN = "Hone is already open"
SENTENCES = (NO_SCREEN, NO_ANSWER, NO_FOLDER, NO_RUN_FILE, NO_COMMAND, IS_OPEN)
"""Parts of what Hone says; a test finds each in the catalogue of all its sentences."""
STEPS = ("--json", "--set", "training.max_steps=2", "--set", "device.name=cpu")


class NotTriedError(Exception):
    """This computer can't make it happen; says what that takes."""


class Case(NamedTuple):
    """A mishap: what it is called, and what makes it happen and returns why the program behaved badly, or nothing.

    Where it can't be made to happen, `look` raises NotTriedError.
    """

    name: str
    look: Callable[[Person, Path], str]


def run(program: Path) -> None:
    """Let everything go wrong in turn, a line each.

    Raises:
        SetupError: The program behaved badly.
    """
    if not sys.platform.startswith("linux"):
        print("What goes wrong with a bundle is tried on Linux only.")
        return
    print("\nWhat may go wrong", flush=True)
    failed = [case.name for case in CASES if not passes(case, program)]
    if failed:
        raise SetupError(f"The program behaves badly: {', '.join(failed)}.")


def passes(case: Case, program: Path) -> bool:
    """Let a mishap happen and say in a line what came of it; one that can't happen here is no failure."""
    began = time.monotonic()
    try:
        with somebody() as person:
            reason = case.look(person, program)
        word = "FAILED" if reason else "ok"
    except NotTriedError as error:
        word, reason = "not tried", str(error)
    is_bad = word == "FAILED"
    print(f"{word:9} {time.monotonic() - began:6.1f} s  {case.name}{reason and ': '}{reason}", flush=True)
    return not is_bad


def _train(person: Person, program: Path, shell: str = "", more: Mapping[str, str] | None = None) -> Done:
    example = program.parent / "_internal/resources/examples/digits.hone"
    return person.run([*_shell(shell), program, "train", example, *STEPS], more)


def _window(person: Person, program: Path, shell: str = "", more: Mapping[str, str] | None = None) -> Done:
    return person.run([*_shell(shell), program], {**PAINTED, **(more or {})}, limit=PATIENCE)


def _shell(text: str) -> Sequence[str]:
    return ["sh", "-c", text] if text else []


def no_screen(person: Person, program: Path) -> str:
    """Nothing to open a window on."""
    return judged(person.run(["env", "-u", "DISPLAY", "-u", "QT_QPA_PLATFORM", program]), 1, NO_SCREEN)


def no_such_screen(person: Person, program: Path) -> str:
    """A display that isn't there."""
    return judged(_window(person, program, more={"QT_QPA_PLATFORM": "xcb", "DISPLAY": ":987"}), 1, NO_ANSWER)


def no_libraries(person: Person, program: Path) -> str:
    """Qt's libraries are missing from the system."""
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    paths = [line.rpartition("=> ")[2] for line in found.splitlines() if "libEGL.so.1 " in line]
    if not person.lends:
        raise NotTriedError("that takes root")
    if not paths or shutil.which("unshare") is None:
        raise NotTriedError("that takes unshare, and libEGL to hide")
    lender = person._replace(lends=False)  # which only root may do; setpriv then makes it nobody
    alone = ["unshare", "-m"]
    if lender.run([*alone, "true"]).status != 0:
        raise NotTriedError("that takes mounts of one's own, which a chroot or a container may not have")
    hidden = lender.run(
        [*alone, "sh", "-c", WITHOUT_EGL, program],
        {**PAINTED, "EGL": str(Path(paths[0]).resolve()), "NOBODY": str(NOBODY)},
        limit=PATIENCE,
    )
    return judged(hidden, 1, "libegl1")


def read_only_home(person: Person, program: Path) -> str:
    """Nothing can be written where a person's things are."""
    os.chown(person.home, 0, 0) if person.lends else person.home.chmod(0o555)
    said = judged(_train(person, program), 1, NO_FOLDER)
    said = said or judged(person.run([program, "runs"]), 0)
    said = said or judged(_window(person, program), 0, "first-paint")
    person.home.chmod(0o755)
    return said


def no_space(person: Person, program: Path) -> str:
    """No file may grow, as on a full disk."""
    said = judged(_train(person, program, NO_FILES), 1, NO_FOLDER)
    return said or judged(_window(person, program, NO_FILES), 0, "first-paint")


def no_temporary_folder(person: Person, program: Path) -> str:
    """The folder for temporary files isn't there; Python looks for another one."""
    return judged(_train(person, program, more={"TMPDIR": "/nowhere"}), 0, finished(2))


def closed_streams(person: Person, program: Path) -> str:
    """Whoever started it closed its standard streams."""
    said = judged(_train(person, program, CLOSED), 0)
    runs = list((person.home / ".local/share/Hone/runs").glob("*/model/model.safetensors"))
    if not said and not runs:
        return "no model was saved"
    return said or judged(_window(person, program, CLOSED), 0)


def newer_settings(person: Person, program: Path) -> str:
    """The settings were saved by a later version; they are kept beside."""
    home = person.home / ".local/share/Hone"
    home.mkdir(parents=True)
    (home / "settings.json").write_text(
        '{"schema": 99, "appearance": "sepia", "more": [1]}', encoding="utf-8"
    )
    for folder in (home, *list(home.parents)[:2]):
        person.give(folder)
    said = judged(person.run([program, "runs"]), 0) or judged(_window(person, program), 0, "first-paint")
    kept = list(home.glob("settings.*.json"))
    return said or ("" if kept else "the newer settings were not kept beside")


def damaged_run_file(person: Person, program: Path) -> str:
    """A run file that is none opens the window, which says so; the command line says it, too."""
    file = person.home / "mîne.hone"
    file.write_bytes(b"\x00\xff not toml")
    said = judged(person.run([program, "train", file]), 2, NO_RUN_FILE)
    return said or judged(person.run([program, file], PAINTED, limit=PATIENCE), 0, "first-paint")


def strange_arguments(person: Person, program: Path) -> str:
    """Data and what isn't there open the window; what is neither a path nor a command is said in plain words."""
    data = person.home / "dåta.csv"
    data.write_text("text,label\nfine,good\n", encoding="utf-8")
    asked = [program, data, person.home / "gone.csv"]
    said = judged(person.run(asked, PAINTED, limit=PATIENCE), 0, "first-paint")
    said = said or judged(person.run([program, asked[-1]], PAINTED, limit=PATIENCE), 0, "first-paint")
    return said or judged(person.run([program, "nonsense"]), 2, NO_COMMAND)


def two_at_once(person: Person, program: Path) -> str:
    """A second one, with a run file to open, hands over to the first and ends."""
    example = program.parent / "_internal/resources/examples/digits.hone"
    opened = person.start([program], output=subprocess.DEVNULL)
    try:
        time.sleep(10)
        return judged(person.run([program, example], limit=PATIENCE), 0, IS_OPEN)
    finally:
        opened.kill()
        opened.wait()


CASES = (
    Case("no screen", no_screen),
    Case("a screen that isn't there", no_such_screen),
    Case("Qt's system libraries are missing", no_libraries),
    Case("a home that can't be written to", read_only_home),
    Case("no room for a file", no_space),
    Case("no temporary folder", no_temporary_folder),
    Case("closed standard streams", closed_streams),
    Case("settings of a later version", newer_settings),
    Case("a run file that is none", damaged_run_file),
    Case("data, a path to nothing, and no path at all", strange_arguments),
    Case("two at once", two_at_once),
)
