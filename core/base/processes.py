"""Starting and ending processes on every operating system: detached, at lower priority, with their children."""

import contextlib
import functools
import hashlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

import core
from core.base import settings
from core.base.files import LARGEST_SMALL, open_plain
from core.base.language import _
from core.base.system import CONTROL_GROUPS, control_groups

# --- Keep the computer awake


@contextlib.contextmanager
def awake() -> Iterator[bool]:
    """Keeps the computer from going to sleep by itself, if the settings say so.

    The operating system ends it with this process. Closing the lid or choosing Sleep still puts the computer to sleep.
    If it isn't possible, standard error says why.

    Yields:
        Whether it is kept awake.
    """
    try:
        is_wanted = settings.load().keep_awake
    except OSError:  # settings that can't be read change nothing about a run
        is_wanted = settings.Settings().keep_awake
    # on Linux the desktop lets a computer sleep, and D-Bus reaches it
    can_sleep = sys.platform in ("win32", "darwin") or "DBUS_SESSION_BUS_ADDRESS" in os.environ
    if not (is_wanted and can_sleep):
        yield False
        return
    from wakepy import keep

    stack = contextlib.ExitStack()
    mode = stack.enter_context(keep.running(on_fail="pass"))
    if not mode.active:
        print(_("This desktop has no way to keep the computer awake."), file=sys.stderr)
    try:
        yield mode.active
    finally:
        with contextlib.suppress(RuntimeError):  # the desktop has ended meanwhile
            stack.close()


# --- Exit status


TAIL_LINES = 40
TAIL_BYTES = 32 << 10

CANT_WRITE = 74
"""Exit status of an engine that can't write why it failed (EX_IOERR of sysexits.h)."""

_REASONS = {
    "SIGKILL": _(
        "It was killed by another process. Often this is the operating system when memory runs out: try "
        "a smaller batch size."
    ),
    "SIGTERM": _(
        "It was asked to end by another process (the computer was shutting down, or somebody ended it)."
    ),
    "SIGSEGV": _("A library accessed invalid memory (segmentation fault). This is a bug in native code."),
    "SIGABRT": _("A library aborted the process. The end of the log says why."),
    "SIGBUS": _("A file it was reading was removed, or the disk is full."),
    "SIGILL": _("A library needs a newer processor than this one."),
    "SIGINT": _("It was interrupted."),
}

OUT_OF_MEMORY = _(
    "The computer ran out of memory and the operating system stopped it: try a smaller batch size."
)

_WINDOWS_ENDINGS = {
    0xC0000005: _("A library accessed invalid memory (segmentation fault). This is a bug in native code."),
    0xC0000017: OUT_OF_MEMORY,
    0xC00000FD: _("A library ran out of stack memory. This is a bug in native code."),
    0xC000013A: _("It was interrupted."),
    0xC0000409: _("A library aborted the process. The end of the log says why."),
}


GPU_HELD_UP = "impactinginteractivity"
"""In what Metal prints and raises, in lower case (kIOGPUCommandBufferCallbackErrorImpactingInteractivity)."""

DISPLAY_CAME_FIRST = _(
    "macOS stopped the GPU's work because it held up the display. macOS doesn't do that while the display sleeps: "
    "let it sleep while the run trains."
)


def signal_name(code: int | None) -> str | None:
    """Returns the signal behind a negative exit status as Python gives it, such as `SIGKILL`; None for others."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return _("signal {value}").format(value=-code)


def is_out_of_memory(code: int, *, kills: bool) -> bool:
    """Returns whether a process that ended with `code` was ended for lack of memory.

    Args:
        kills: Whether any process was ended for that while it ran (see `out_of_memory_kills`).
    """
    return (signal_name(code) == "SIGKILL" and kills) or _WINDOWS_ENDINGS.get(code) == OUT_OF_MEMORY


def describe(code: int, *, out_of_memory: bool = False, log: str = "") -> str:
    """Returns why a process that ended with `code` ended, as far as the status and the end of its log tell."""
    name = signal_name(code)
    if name == "SIGKILL" and out_of_memory:
        return OUT_OF_MEMORY
    if GPU_HELD_UP in log.lower():
        return DISPLAY_CAME_FIRST
    if name is not None:
        return _REASONS.get(name, _("It was ended by {name}.").format(name=name))
    if code == 0:
        return _("It ended by itself.")
    if code == CANT_WRITE:
        return _("It can't write to its folder any more: the disk may be full, or the folder was removed.")
    if code in _WINDOWS_ENDINGS:
        return _WINDOWS_ENDINGS[code]
    return _("It ended with exit status {code}. The end of the log says why.").format(code=code)


def log_tail(path: Path, lines: int = TAIL_LINES) -> str:
    """Returns the last lines of a log; empty if there is none. Of a progress bar, only its last state counts."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n")]
    return "\n".join(shown[-lines:])


def out_of_memory_kills(root: Path = Path("/")) -> int | None:
    """Returns how often the operating system has ended a process for lack of memory; None if unknown.

    Linux counts for this control group (v2 or v1) if that has a count of its own, else for the whole machine. See the
    kernel's documentation of `memory.events`, `memory.oom_control` and `/proc/vmstat`, here below `root`. macOS writes
    a report each time.
    """
    reports = _jetsam_reports(root)
    if reports is not None:
        return reports
    groups = [folder for folder in control_groups(root) if folder != root / CONTROL_GROUPS]
    files = [folder / name for folder in groups for name in ("memory.events", "memory.oom_control")]
    for path in (*files, root / "proc/vmstat"):
        with contextlib.suppress(OSError, KeyError, ValueError):
            fields = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if " " in line)
            return int(fields["oom_kill"])
    return None


def _jetsam_reports(root: Path) -> int | None:
    """Counts macOS's jetsam event reports, one for each process ended for lack of memory; None elsewhere.

    By documentation, untested: a report may come too late to be counted; the reason given is then that of the signal.
    """
    try:
        names = [path.name for path in (root / "Library/Logs/DiagnosticReports").iterdir()]
    except OSError:
        return None
    return sum(name.startswith("JetsamEvent") for name in names)


# --- Start and end processes


SOURCE_ROOT = Path(core.__file__).resolve().parents[1]


def source_files() -> dict[str, Path]:
    """Returns this Hone's own files, core and resources, by their relative paths."""
    files = (path for part in ("core", "resources") for path in (SOURCE_ROOT / part).rglob("*"))
    own = (path for path in files if path.is_file() and path.suffix != ".pyc")
    return dict(sorted((path.relative_to(SOURCE_ROOT).as_posix(), path) for path in own))


@functools.cache
def source_digest() -> str:
    """Returns the SHA-256 of this Hone's own files: two computers with the same one run the same code."""
    found = hashlib.sha256()
    for name, path in source_files().items():
        found.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
"""Signals that end a process: Ctrl-C, a shutdown (systemd sends SIGTERM, then SIGHUP), Ctrl-Break."""

ASKER = "HONE_ASKER"
"""Environment variable of a job: the process id of whoever started it."""

NICENESS = 5
"""POSIX niceness of the engine: at 10 a busy machine gave it a tenth of a core."""

if sys.platform == "win32":
    _WORKER_FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.BELOW_NORMAL_PRIORITY_CLASS
else:
    _WORKER_FLAGS = 0


def is_frozen() -> bool:
    """Returns whether this is the bundled program and not Python on source files."""
    return bool(getattr(sys, "frozen", False))


def own_program() -> str:
    """Returns the executable of the bundle; on Windows the one of the two that has standard streams."""
    with_streams = Path(sys.executable).with_name("hone-cli.exe")
    return str(with_streams) if sys.platform == "win32" and with_streams.is_file() else sys.executable


def command_line(*arguments: str | Path) -> str:
    """Returns a command quoted for this system's terminal."""
    words = [str(argument) for argument in arguments]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of Hone's own child processes.

    They are the same program, so library paths of a bundle stay. A source checkout that isn't installed is made
    importable, since `-P` leaves out the working folder.
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
    """Returns the environment for other programs, without the variables that a bundle sets for itself.

    PyInstaller saves the original value of a variable as `…_ORIG`
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
    """Starts a process in `folder` that outlives this one and appends its output to `log`.

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
    """Returns the environment of a worker; the Python of a GPU pack must not load a bundle's libraries."""
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
    """Starts a child in a process group of its own, at lower priority than the window.

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


def converse(process: subprocess.Popen[bytes], request: bytes, on_line: Callable[[bytes], None]) -> bytes:
    """Sends a worker its request and reads its output until it ends; returns the last line, its answer.

    Args:
        process: Started with pipes for input and output; it is killed if anything is raised here (Ctrl-C).
    """
    assert process.stdin is not None
    assert process.stdout is not None
    last = b""
    with process:
        try:
            process.stdin.write(request)
        except OSError:
            pass  # it has ended, which its messages explain
        finally:
            with contextlib.suppress(OSError):  # what is left to be written fails once more
                process.stdin.close()
        try:
            while line := process.stdout.readline(LARGEST_SMALL):
                last = line
                on_line(line)
                if len(line) == LARGEST_SMALL:  # of another computer's job: no answer is as long
                    kill_with_children(process)
        except BaseException:
            kill_with_children(process)
            raise
    return last


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    process.kill()


def end_group(pid: int) -> None:
    """Kills what a worker left running (data loaders outlive a killed engine). POSIX only."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
