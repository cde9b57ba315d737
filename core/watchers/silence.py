"""Notices that no step has come for long, or that another phase stands still, and says what the process does.

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

_WHILE_LOADING = (
    "A stop is taken at once; if the process is stuck, end it now. This attempt has saved nothing yet."
)
_AFTER_A_STEP = (
    "A stop is taken after the next step; if none comes, ending it now leaves the last checkpoint, if any."
)
_STOPS: dict[Phase | None, str] = {
    Phase.TRAINING: _AFTER_A_STEP,
    Phase.COMPILING: _AFTER_A_STEP,
    Phase.EVALUATING: "A stop is taken after the next batch; if none comes, ending it now leaves the last checkpoint, "
    "if there is one.",
    Phase.SAVING: "A stop is taken once it is saved; ending it now leaves the last checkpoint, if there is one.",
}
"""When a stop is taken, and what ending the process leaves."""


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find that it trains and has told of no step for longer than its steps take, or does nothing in another phase.

    Only a step tells of training: a process may be busy and stuck. Elsewhere nothing is told until the phase is over,
    so that a process which works is left in peace.
    """
    limit, busy = _patience(recent), recent.engine_busy
    trains = recent.phase is Phase.TRAINING
    if recent.now - recent.heard < limit or not (trains or busy is not None):
        return None
    return Finding(
        key=f"{recent.heard:.3f}",
        level=Level.WARNING,
        title=f"{'No step' if trains else 'No activity'} for more than {figures.duration(limit)}",
        detail=f"{_usual(recent)}The last it told of was {_last_word(recent)}. {_doing(recent.engine_busy)} If it "
        "goes on by itself, this message goes; the end of the log may say more. "
        f"{_STOPS.get(recent.phase, _WHILE_LOADING)}",
        fixes=(STOP, END),
    )


def is_suspicious(recent: Recent) -> bool:
    """Whether it has been silent for long enough to look at what its process does."""
    return recent.now - recent.heard >= _patience(recent) / 2


def _patience(recent: Recent) -> float:
    if recent.phase is not Phase.TRAINING:
        return limits.SILENT_PHASES[recent.phase]
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
