"""Starting and ending processes on every operating system: detached, at lower priority, with their children."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

import core

SOURCE_ROOT = Path(core.__file__).resolve().parents[1]

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
"""What asks a process to end: Ctrl-C, a shutdown (systemd's sends SIGTERM, and SIGHUP after it), Ctrl-Break."""

ASKER = "HONE_ASKER"
"""In the environment of a job that answers a question: the number of the process that asked."""

NICENESS = 5
"""How far the engine steps back behind the window (POSIX niceness): at 10 a busy machine gave it a tenth of a core."""

if sys.platform == "win32":
    _WORKER_FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.BELOW_NORMAL_PRIORITY_CLASS
else:
    _WORKER_FLAGS = 0


def is_frozen() -> bool:
    """Whether this is the bundled program and not Python on source files."""
    return bool(getattr(sys, "frozen", False))


def own_program() -> str:
    """The frozen program as it is started for work: on Windows the one of its two that has standard streams."""
    with_streams = Path(sys.executable).with_name("hone-cli.exe")
    return str(with_streams) if sys.platform == "win32" and with_streams.is_file() else sys.executable


def command_line(*arguments: str | Path) -> str:
    """A command as a person can copy it into this system's terminal, with what has spaces in it in quotes."""
    words = [str(argument) for argument in arguments]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of Hone's own child processes.

    They are the same program, frozen or not, so library paths of a bundle are kept. In a source checkout that isn't
    installed the checkout is made importable, since `-P` keeps the working folder out.
    """
    environment = {**os.environ, "PYTHONUTF8": "1"}
    if not is_frozen() and (SOURCE_ROOT / "pyproject.toml").is_file():
        known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(SOURCE_ROOT), *known]))
    return {**environment, **(extra or {})}


_OF_A_BUNDLE = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "QT_PLUGIN_PATH",
    "QML2_IMPORT_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
)


def foreign_environment() -> dict[str, str]:
    """The environment for programs that aren't Hone: the person's own, without what a bundle sets for itself.

    PyInstaller keeps what stood in a variable as `…_ORIG`
    (https://pyinstaller.org/en/stable/runtime-information.html#ld-library-path-libpath-considerations).
    """
    if not is_frozen():
        return dict(os.environ)
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in _OF_A_BUNDLE and not name.startswith(("_PYI_", "_MEI"))
    }
    kept = {name: own.pop(f"{name}_ORIG", "") for name in _OF_A_BUNDLE}
    return own | {name: value for name, value in kept.items() if value}


def start_detached(command: Sequence[str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one, its output appended to `log`, working in `folder`.

    Raises:
        OSError: It can't be started.
    """
    environment = child_environment()
    with log.open("ab") as output:

        def start(flags: int = 0) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
                creationflags=flags,
            )

        if sys.platform == "win32":
            flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
            try:  # a terminal may hold its programs in a job that ends with it; leaving isn't always allowed
                return start(flags | subprocess.CREATE_BREAKAWAY_FROM_JOB)
            except PermissionError:
                return start(flags)
        else:
            return start()


def _environment_for(program: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a worker; the Python of a GPU pack must not load a bundle's libraries."""
    if is_frozen() and program not in (sys.executable, own_program()):
        return {**foreign_environment(), "PYTHONUTF8": "1", **(extra or {})}
    return child_environment(extra)


def start_worker(
    command: Sequence[str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child that computes: in a process group of its own, at lower priority than the window.

    In a bundle a program other than Hone itself gets the person's own environment.

    Args:
        command: What to start.
        stdin: As `subprocess` takes it, like the two below: a constant or a file number.
        stdout: Where its output goes.
        stderr: Where its messages go.
        folder: Its working folder.
        environment: Variables set besides the usual ones.

    Raises:
        OSError: It can't be started.
    """
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=folder,
        env=_environment_for(command[0], environment),
        process_group=None if sys.platform == "win32" else 0,
        creationflags=_WORKER_FLAGS,
    )
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, process.pid, NICENESS)
    return process


def converse(process: subprocess.Popen[bytes], request: bytes, hear: Callable[[bytes], None]) -> bytes:
    """Send a worker its request and pass on each line it says until it ends; returns the last one, its answer.

    Args:
        process: Started with pipes at its input and output; it is ended where anything is raised here (Ctrl-C).
        request: All it gets.
        hear: Hears each line.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    last = b""
    with process:
        try:
            process.stdin.write(request)
        except OSError:
            pass  # it has ended; its messages say why
        finally:
            with contextlib.suppress(OSError):  # what is left to be written fails once more
                process.stdin.close()
        try:
            for line in process.stdout:
                last = line
                hear(line)
        except BaseException:
            kill_with_children(process)
            raise
    return last


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """End a worker and everything it started, at once."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    process.kill()


def end_group(pid: int) -> None:
    """End what a worker left running (data loaders outlive a killed engine). POSIX only; elsewhere nothing."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
