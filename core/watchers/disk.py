"""Notices that the disk of the run's folder is nearly full, while the next checkpoint can still be saved."""

from core import figures
from core.errors import Fix
from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.offers import REVEAL, STOP
from core.watchers.recent import Recent

MESSAGE = "disk-full"

FULL_NUMBER = 4
BYTES_EACH = {"float64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}
"""Bytes of a weight by `WhatRan.parameter_dtype`; of any other it is a full number."""


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find that little is free: less than an operating system wants, or than two checkpoints take."""
    if recent.disk is None:
        return None
    checkpoint = _checkpoint_bytes(recent)
    limit = max(limits.DISK_FREE, limits.DISK_CHECKPOINTS * checkpoint)
    free = recent.disk.free
    if free >= limit * (limits.DISK_OVER if raised else 1.0):
        return None
    has_room = free > checkpoint
    return Finding(
        key="low" if has_room else "no room",
        level=Level.WARNING,
        title="The disk is nearly full" if has_room else "The disk has no room for the next checkpoint",
        detail=f"{figures.size(free)} of {figures.size(recent.disk.total)} are free where the run is kept."
        f"{_takes(recent, checkpoint)} Runs that can't write end, so make some room: empty the bin, or remove runs you "
        "no longer want.",
        fixes=_fixes(recent, has_room=has_room),
    )


def _checkpoint_bytes(recent: Recent) -> int:
    """What the last one took; before it, what its weights and the optimizer's state come to; 0: not known yet."""
    if recent.checkpoint is not None:
        return recent.checkpoint.bytes
    ran = recent.what_ran
    if ran is None:
        return 0
    saved = ran.trainable_parameters if ran.adapter else ran.total_parameters
    each = max(BYTES_EACH.get(dtype, FULL_NUMBER) for dtype in ran.parameter_dtype.split(" + "))
    return saved * each + ran.optimizer_state_bytes


def _takes(recent: Recent, checkpoint: int) -> str:
    if not checkpoint:
        return ""
    verb = "takes" if recent.checkpoint is not None else "will take about"
    return f" A checkpoint of this run {verb} {figures.size(checkpoint)}."


def _fixes(recent: Recent, *, has_room: bool) -> tuple[Fix, ...]:
    """To stop saves a checkpoint, too."""
    kept = recent.options.output.keep_checkpoints if recent.options is not None else 0
    fewer = (Fix("Keep one checkpoint only", {"output.keep_checkpoints": 1}),) if kept > 1 else ()
    return (*fewer, REVEAL, *((STOP,) if has_room else ()))
