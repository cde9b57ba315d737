"""How a process ended, in plain words: exit status, signal, out-of-memory kill, the end of its log."""

import signal
from pathlib import Path

from core.files import open_plain

TAIL_LINES = 40
TAIL_BYTES = 32 << 10

CANT_WRITE = 74
"""Exit status of an engine that can't even write down why it failed (EX_IOERR of sysexits.h)."""

_REASONS = {
    "SIGKILL": "It was killed from outside. Often the operating system does this when memory runs out: "
    "try a smaller batch size.",
    "SIGTERM": "It was asked to end from outside (the computer was shutting down, or somebody ended it).",
    "SIGSEGV": "A library it uses touched memory that isn't its own. This is a bug in native code.",
    "SIGABRT": "A library it uses gave up. The end of the log says why.",
    "SIGBUS": "A file it was reading went away or the disk is full.",
    "SIGILL": "A library it uses needs a newer processor than this one.",
    "SIGINT": "It was interrupted.",
}

OUT_OF_MEMORY = "The computer ran out of memory and the operating system ended it: try a smaller batch size."

_WINDOWS_ENDINGS = {
    0xC0000005: "A library it uses touched memory that isn't its own. This is a bug in native code.",
    0xC0000017: OUT_OF_MEMORY,
    0xC00000FD: "A library it uses ran out of stack. This is a bug in native code.",
    0xC000013A: "It was interrupted.",
    0xC0000409: "A library it uses gave up. The end of the log says why.",
}


def signal_name(code: int | None) -> str | None:
    """The signal behind a negative exit status as Python gives it, such as `SIGKILL`; None for others."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def is_out_of_memory(code: int, *, kills: bool) -> bool:
    """Whether a process that ended with `code` was ended for lack of memory.

    Args:
        code: Its exit status.
        kills: Whether any process was ended for that while it ran (see `out_of_memory_kills`).
    """
    return (signal_name(code) == "SIGKILL" and kills) or _WINDOWS_ENDINGS.get(code) == OUT_OF_MEMORY


def describe(code: int, *, out_of_memory: bool = False) -> str:
    """Why a process that ended with `code` ended, as far as the status tells."""
    name = signal_name(code)
    if name == "SIGKILL" and out_of_memory:
        return OUT_OF_MEMORY
    if name is not None:
        return _REASONS.get(name, f"It was ended by {name}.")
    if code == 0:
        return "It ended by itself."
    if code == CANT_WRITE:
        return "It can't write into its folder any more: the disk may be full, or the folder gone."
    if code in _WINDOWS_ENDINGS:
        return _WINDOWS_ENDINGS[code]
    return f"It ended with exit status {code}. The end of the log says why."


def log_tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last `lines` lines of a log; empty where there is none. Redrawn progress bars count as their last state."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n")]
    return "\n".join(shown[-lines:])


def out_of_memory_kills(root: Path = Path("/")) -> int | None:
    """How often the operating system has ended a process for lack of memory, here or around; None: that isn't told.

    Linux counts in the kernel's files under `root`: for this control group (v2 or v1) where it has a count of its own,
    else for the whole machine. See the kernel's documentation of `memory.events`, `memory.oom_control` and
    `/proc/vmstat`. macOS leaves a report each time it does so.
    """
    reports = _jetsam_reports(root)
    if reports is not None:
        return reports
    for path in (*_group_files(root), root / "proc/vmstat"):
        count = _count_in(path)
        if count is not None:
            return count
    return None


def _jetsam_reports(root: Path) -> int | None:
    """How many reports there are that macOS has ended processes for lack of memory; None where it keeps none.

    Apple calls them jetsam event reports. Read from documentation, never seen at work: a report may come too late to be
    counted, and the reason then is that of the signal.
    """
    try:
        names = [path.name for path in (root / "Library/Logs/DiagnosticReports").iterdir()]
    except OSError:
        return None
    return sum(name.startswith("JetsamEvent") for name in names)


def _group_files(root: Path) -> list[Path]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append(root / "sys/fs/cgroup/memory" / group.lstrip("/") / "memory.oom_control")
        elif number == "0" and group != "/":
            found.append(root / "sys/fs/cgroup" / group.lstrip("/") / "memory.events")
    return found


def _count_in(path: Path) -> int | None:
    try:
        fields = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if " " in line)
        return int(fields["oom_kill"])
    except (OSError, KeyError, ValueError):
        return None
