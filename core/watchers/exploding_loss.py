"""Notices a loss that shoots up and stays there: the model loses what it has learned, and NaN is often next.

It is held against the lowest it was in this attempt, averaged over some steps, so that one easy batch is no measure;
and each of the last steps has to be above, so that one hard batch is none either. A run that explodes in its first
steps never was low for so long: it is held against its first loss.
"""

from collections.abc import Iterator

from core.choices import Task
from core.errors import Fix
from core.events import Level
from core.watchers import lost_loss
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.loss_curve import Low
from core.watchers.offers import STOP
from core.watchers.recent import Recent

MESSAGE = "exploding-loss"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find a loss that has been far above its lowest for some steps, or by so much that a few of them are enough."""
    if lost_loss.look(recent, raised="") is not None:  # which says more, and what is still to be saved
        return None
    last = list(recent.last_losses)
    for key, low, rise in _measures(recent):
        some = last[-rise.steps :]
        if raised == key and sum(last) / len(last) > _limit(low, limits.EXPLODED_OVER):
            return _finding(recent, key, low, last)
        if not raised and len(some) == rise.steps and min(some) > _limit(low, rise):
            return _finding(recent, key, low, some)
    return None


def _measures(recent: Recent) -> Iterator[tuple[str, Low, limits.Rise]]:
    """What the last losses are held against, and how far they may be above it."""
    low, first, options = recent.losses.lowest(limits.EXPLODED_LOW_STEPS), recent.losses.first, recent.options
    if low is not None:
        yield from (("up", low, rise) for rise in limits.EXPLODED)
    if first is None or options is None:
        return
    if options.task is not Task.TEXT_REGRESSION or options.effective_batch >= limits.EXPLODED_FEWEST:
        yield "up at once", first, limits.EXPLODED_AT_ONCE


def _limit(low: Low, rise: limits.Rise) -> float:
    return max(rise.times * low.loss, low.loss + rise.more)


def _finding(recent: Recent, key: str, low: Low, last: list[float]) -> Finding:
    return Finding(
        key=key,
        level=Level.WARNING,
        title="The loss has shot up",
        detail=f"It was down to {low.loss:.3g} at step {low.step:,}, and each of the last {len(last)} steps was above "
        f"{min(last):.3g}. The usual cause is a learning rate that is too high. It seldom comes back to where it was. "
        f"{_what_is_kept(recent, low)}",
        fixes=tuple(_fixes(recent)),
    )


def _what_is_kept(recent: Recent, low: Low) -> str:
    limit = _limit(low, limits.EXPLODED_OVER)
    good = [kept for kept in recent.checkpoints if (recent.losses.up_to(kept.step) or 0.0) <= limit]
    if not good:
        return "There is no checkpoint of before it."
    return f"The last checkpoint of before it is {good[-1].path}, of step {good[-1].step:,}."


def _fixes(recent: Recent) -> list[Fix]:
    if recent.options is None:
        return [STOP]
    training = recent.options.training
    rate = float(f"{training.learning_rate / 3:.2g}")
    fixes = [STOP, Fix(f"Lower the learning rate to {rate:g}", {"training.learning_rate": rate})]
    if not training.max_grad_norm:
        fixes.append(Fix("Clip gradients at 1", {"training.max_grad_norm": 1.0}))
    elif not training.warmup:
        fixes.append(Fix("Warm up for a tenth of the steps", {"training.warmup": 0.1}))
    return fixes
