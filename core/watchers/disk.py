"""Notices that the disk of the run's folder is nearly full, while the next checkpoint can still be saved."""

from core import figures
from core.errors import Fix
from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.recent import Recent

MESSAGE = "disk-full"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find that little is free: less than an operating system wants, or than two checkpoints take."""
    if recent.disk is None:
        return None
    checkpoint = recent.checkpoint.bytes if recent.checkpoint is not None else 0
    limit = max(limits.DISK_FREE, limits.DISK_CHECKPOINTS * checkpoint)
    free = recent.disk.free
    if free >= limit * (limits.DISK_OVER if raised else 1.0):
        return None
    has_room = free > checkpoint
    takes = f" A checkpoint of this run takes {figures.size(checkpoint)}." if checkpoint else ""
    return Finding(
        key="low" if has_room else "no room",
        level=Level.WARNING,
        title="The disk is nearly full" if has_room else "The disk has no room for the next checkpoint",
        detail=f"{figures.size(free)} of {figures.size(recent.disk.total)} are free where the run is kept.{takes} "
        "Runs that can't write end, so make some room: empty the bin, or remove runs you no longer want.",
        fixes=_fixes(recent),
    )


def _fixes(recent: Recent) -> tuple[Fix, ...]:
    kept = recent.options.output.keep_checkpoints if recent.options is not None else 0
    return (Fix("Keep one checkpoint only", {"output.keep_checkpoints": 1}),) if kept > 1 else ()
