"""Notices that the device waits for data: the loop prepares the next batch while nothing is computed."""

import statistics

from core import figures
from core.errors import Fix
from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.offers import STOP
from core.watchers.recent import Recent

MESSAGE = "starving"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find that much of the last steps was spent waiting for data."""
    waiting = _share_waiting(recent)
    limit = limits.STARVING_SHARE_OVER if raised else limits.STARVING_SHARE
    if waiting is None or waiting <= limit or _is_fed(recent):
        return None
    workers = len(recent.what_ran.workers) if recent.what_ran else 0
    return Finding(
        key="starving",
        level=Level.WARNING,
        title=f"{100 * waiting:.0f} % of each step is spent waiting for data",
        detail=f"The device has nothing to do while batches are prepared. {_remedy(recent, workers)}",
        fixes=_fixes(recent, workers),
    )


def _share_waiting(recent: Recent) -> float | None:
    """Which share of the last steps' time went into waiting; None before enough of them were timed."""
    steps, seconds, waited = 0, 0.0, 0.0
    for part in reversed(recent.slices):
        steps, seconds = steps + part.steps, seconds + part.seconds
        waited += part.data_seconds
        if seconds >= limits.STARVING_SECONDS and steps >= limits.STARVING_STEPS:
            return waited / seconds
    return None


def _is_fed(recent: Recent) -> bool:
    """Whether the GPU is busy all the same: it computes what it was given before, while the loop waits."""
    if recent.plan is None or recent.plan.device.startswith("cpu"):
        return False
    return bool(recent.gpu_busy) and statistics.median(recent.gpu_busy) >= limits.FED


def _more_workers(recent: Recent, workers: int) -> int | None:
    """How many workers to try; None where more are no remedy: there are many, or no core to spare."""
    if workers >= limits.MANY_WORKERS or recent.cores <= 2:
        return None
    return min(2 if workers < 2 else limits.MANY_WORKERS, recent.cores - 1)


def _fixes(recent: Recent, workers: int) -> tuple[Fix, ...]:
    more = _more_workers(recent, workers)
    if more is None or more <= workers:
        return (STOP,)
    return (Fix(f"Prepare batches in {more} workers", {"data.workers": more}),)


def _remedy(recent: Recent, workers: int) -> str:
    if (_more_workers(recent, workers) or 0) > workers:
        run = f"{workers} workers run" if workers > 1 else f"{'1' if workers else 'No'} worker runs"
        return f"{run} beside it; {'more' if workers else 'some'} would have the next batch ready in time."
    if workers:
        return (
            f"That is done in {figures.counted(workers, 'worker')} already, so the files are what is slow: copy them "
            "to a disk inside this computer, or make images smaller beforehand."
        )
    return (
        "This computer has no core to spare for workers: make images smaller beforehand, or keep the files on a disk "
        "inside this computer."
    )
