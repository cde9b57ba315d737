"""Notices the first loss that is no number, while there is still something to save.

The engine ends a run after three such steps in a row, and says so itself: its message takes the place of this one.
"""

import math

from core.errors import Fix
from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.recent import Recent

MESSAGE = "lost-loss"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find a loss that was NaN or infinite and hasn't been finite for long since."""
    bad = recent.bad_loss
    if bad is None or recent.failure is not None or bad.finite_since >= limits.FINITE_AGAIN:
        return None
    what = "not a number (NaN)" if math.isnan(bad.loss) else "infinite"
    return Finding(
        key=str(bad.step),
        level=Level.WARNING,
        title=f"The loss of step {bad.step:,} is {what}",
        detail="A single such step may pass. Where they go on the weights are lost, and the run ends by itself. The "
        f"usual cause is a learning rate that is too high. {_what_is_kept(recent)}",
        fixes=tuple(_fixes(recent)),
    )


def _what_is_kept(recent: Recent) -> str:
    good = recent.good_checkpoint
    if good is None:
        return "There is no checkpoint from before it."
    kept = f"The last good checkpoint is {good.path}, of step {good.step:,}."
    if recent.options is not None and recent.options.output.keep_checkpoints <= 1:
        return (
            f"{kept} The next one takes its place, also where you press Stop: copy it first if you want it."
        )
    return kept


def _fixes(recent: Recent) -> list[Fix]:
    if recent.options is None:
        return []
    rate = float(f"{recent.options.training.learning_rate / 10:.3g}")
    fixes = [Fix(f"Lower the learning rate to {rate:g}", {"training.learning_rate": rate})]
    if recent.what_ran is not None and recent.what_ran.autocast_dtype is not None:
        fixes.append(Fix("Compute in fp32", {"device.precision": "fp32"}))
    return fixes
