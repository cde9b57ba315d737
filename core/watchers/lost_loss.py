"""Notices the first loss that is no number, while there is still something to save.

The engine ends a run after three such steps in a row, and says so itself: its message takes the place of this one.
"""

import math

from core.errors import Fix
from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.offers import END, REVEAL, STOP
from core.watchers.recent import Recent

MESSAGE = "lost-loss"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find a loss that was NaN or infinite and hasn't been finite for long since."""
    bad = recent.bad_loss
    if bad is None or recent.failure is not None or bad.finite_since >= limits.FINITE_AGAIN:
        return None
    what = "not a number (NaN)" if math.isnan(bad.loss) else "infinite"
    return Finding(
        key=f"{bad.step}: {_what_is_kept(recent)}",
        level=Level.WARNING,
        title=f"The loss of step {bad.step:,} is {what}",
        detail="A single such step may pass. Where they go on the weights are lost, and the run ends by itself. The "
        f"usual cause is a learning rate that is too high. {_what_is_kept(recent)}",
        fixes=tuple(_fixes(recent)),
    )


def _what_is_kept(recent: Recent) -> str:
    good = recent.good_checkpoint
    if good is None:
        return (
            "There is no checkpoint of before it any more."
            if recent.checkpoint
            else "There is no checkpoint yet."
        )
    kept = f"The last good checkpoint is {good.path}, of step {good.step:,}."
    if _is_next_to_go(recent):
        return (
            f"{kept} The next one takes its place, also where you stop and keep: copy it first if you want it, or end "
            "the run now."
        )
    return kept


def _is_next_to_go(recent: Recent) -> bool:
    """Whether the good checkpoint is removed as soon as the next is saved, which a stop does."""
    return (
        recent.good_checkpoint is not None
        and recent.checkpoints[0] is recent.good_checkpoint
        and recent.is_full
    )


def _fixes(recent: Recent) -> list[Fix]:
    ending = [END if _is_next_to_go(recent) else STOP]
    if recent.good_checkpoint is not None:
        ending.append(REVEAL)
    if recent.options is None:
        return ending
    rate = float(f"{recent.options.training.learning_rate / 10:.3g}")
    fixes = [Fix(f"Lower the learning rate to {rate:g}", {"training.learning_rate": rate})]
    if recent.what_ran is not None and recent.what_ran.autocast_dtype is not None:
        fixes.append(Fix("Compute in fp32", {"device.precision": "fp32"}))
    return [*ending, *fixes]
