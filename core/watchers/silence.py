"""Notices that no step has come for long, and says what the process does meanwhile.

It may only be slow, so what it offers is to end it: a stop waits for a step, and a process that is stuck makes none.
"""

import statistics
import time

from core import figures
from core.events import Level, Phase, StepFinished
from core.watchers import thresholds as limits
from core.watchers import words
from core.watchers.finding import Finding
from core.watchers.offers import END, STOP
from core.watchers.recent import Recent

MESSAGE = "silence"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find that the engine is training and has told of no step for longer than its steps take."""
    limit = _patience(recent)
    silent = _silent_for(recent)
    if silent is None or silent < limit:
        return None
    return Finding(
        key=f"{recent.heard:.3f}",
        level=Level.WARNING,
        title=f"No step for more than {figures.duration(limit)}",
        detail=f"{_usual(recent)}The last it told of was {_last_word(recent)}. {_doing(recent.engine_busy)} If it "
        "goes on by itself, this message goes; the end of the log may say more. A stop is heeded after the next step; "
        "if none comes, ending it now leaves the last checkpoint.",
        fixes=(STOP, END),
    )


def is_suspicious(recent: Recent) -> bool:
    """Whether it has been silent for long enough to look at what its process does."""
    silent = _silent_for(recent)
    return silent is not None and silent >= _patience(recent) / 2


def _silent_for(recent: Recent) -> float | None:
    """Seconds without a step; None while there are to be none: loading, compiling, evaluating, saving."""
    return recent.now - recent.heard if recent.phase is Phase.TRAINING else None


def _patience(recent: Recent) -> float:
    if recent.first_seconds is None:
        return limits.SILENT_FIRST * limits.SILENT_SECONDS
    usual = (
        limits.SILENT_STEPS * statistics.median(recent.pace)
        if recent.pace
        else limits.SILENT_FIRST * recent.first_seconds
    )
    return max(limits.SILENT_SECONDS, usual)


def _usual(recent: Recent) -> str:
    if not recent.pace:
        return ""
    return f"Steps took {words.seconds(statistics.median(recent.pace))} before. "


def _last_word(recent: Recent) -> str:
    last = recent.last_word
    if last is None:
        return "nothing"
    moment = time.strftime("%H:%M:%S", time.localtime(time.time() - (recent.now - last.time)))
    if isinstance(last, StepFinished):
        return f"step {last.step:,} at {moment}"
    return f"the phase “{last.phase.replace('_', ' ')}” at {moment}"


def _doing(busy: float | None) -> str:
    if busy is None:
        return "What its process does can't be told."
    if busy < limits.IDLE:
        return "Its process is alive and does nothing: it waits for something, such as a disk, a network or a GPU."
    return f"Its process is alive and uses {100 * busy:.0f} % of a processor core."
