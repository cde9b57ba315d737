"""Warnings about the loss: not a number, exploding, flat."""

import math
from collections.abc import Iterator

from core.base.errors import Fix
from core.monitor import recent as limits
from core.monitor.recent import END, REVEAL, STOP, Finding, Low, Recent, Trend, trend
from core.options.choices import Task
from core.runs.events import Level

# --- Not a number


LOST_LOSS = "lost-loss"


def lost_loss(recent: Recent, *, raised: str) -> Finding | None:
    """Find a loss that was NaN or infinite and hasn't been finite for long since."""
    bad = recent.bad_loss
    if bad is None or recent.failure is not None or bad.finite_since >= limits.FINITE_AGAIN:
        return None
    what = "not a number (NaN)" if math.isnan(bad.loss) else "infinite"
    return Finding(
        key=f"{bad.step}: {_kept_before_loss(recent)}",
        level=Level.WARNING,
        title=f"The loss of step {bad.step:,} is {what}",
        detail="A single such step may pass. Where they go on the weights are lost, and the run ends by itself. The "
        f"usual cause is a learning rate that is too high. {_kept_before_loss(recent)}",
        fixes=tuple(_fixes_for_lost(recent)),
    )


def _kept_before_loss(recent: Recent) -> str:
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


def _fixes_for_lost(recent: Recent) -> list[Fix]:
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


# --- Flat loss


STANDING_LOSS = "standing-loss"


def standing_loss(recent: Recent, *, raised: str) -> Finding | None:
    """Find a loss that has never fallen, or one that has stopped falling while evaluations get no better."""
    began = recent.losses.start
    middle = _middle(recent)
    later = recent.losses.since(middle)
    if began is None or len(later) < limits.STILL_BLOCKS or later[-1].last - middle < limits.STILL_STEPS:
        return None
    seen = trend(later)
    is_moving = seen.least > limits.STILL_CHANGE_OVER if raised else seen.most > limits.STILL_CHANGE
    if is_moving or seen.mean < max(limits.STILL_TINY, limits.STILL_SMALL * began):
        return None
    if not recent.from_step and seen.mean > limits.STILL_UNFALLEN * began:
        return _never_fell(recent, began, seen)
    is_stuck = recent.scores.best_step < middle and recent.scores.since_better >= limits.STILL_EVALUATIONS
    if recent.scores.count > limits.STILL_EVALUATIONS and is_stuck and (raised or _is_far_from_over(recent)):
        return _has_stopped(recent, later[0].first, seen)
    return None


def _middle(recent: Recent) -> int:
    """The step that halves those since the warm-up."""
    begun = max(recent.from_step, _warmup_steps(recent))
    return begun + max(0, recent.losses.last - begun) // 2


def _warmup_steps(recent: Recent) -> int:
    warmup = recent.options.training.warmup if recent.options is not None else 0.0
    if warmup < 1.0:
        return round(warmup * recent.plan.total_steps) if recent.plan is not None else 0
    return round(warmup)


def _is_far_from_over(recent: Recent) -> bool:
    total = recent.plan.total_steps if recent.plan is not None else 0
    return total - recent.step > limits.STILL_LEFT * total


def _never_fell(recent: Recent, began: float, seen: Trend) -> Finding:
    return Finding(
        key="never fell",
        level=Level.WARNING,
        title="The loss isn't falling",
        detail=f"It began at {began:.3g} and is at {seen.mean:.3g} after {recent.step:,} steps: the model learns "
        "nothing yet. Either the learning rate doesn't suit it, or the data doesn't tell what it should learn: look at "
        "some rows and their labels.",
        fixes=_other_rates(recent),
    )


def _has_stopped(recent: Recent, since: int, seen: Trend) -> Finding:
    return Finding(
        key="stopped",
        level=Level.INFO,
        title="The loss has stopped falling",
        detail=f"Since step {since:,} it has stayed at {seen.mean:.3g}, and evaluations have been no better since step "
        f"{recent.scores.best_step:,}. You may stop here and lose nothing, or start again with more data, a lower "
        "learning rate or a larger model.",
        fixes=(STOP,),
    )


def _other_rates(recent: Recent) -> tuple[Fix, ...]:
    """Both ways, the likelier first: a rate that is high already is rarely too low."""
    if recent.options is None:
        return ()
    rate = recent.options.training.learning_rate
    lower, higher = float(f"{rate / 10:.3g}"), min(10.0, float(f"{rate * 3:.3g}"))
    fixes = (
        Fix(f"Lower the learning rate to {lower:g}", {"training.learning_rate": lower}),
        Fix(f"Raise the learning rate to {higher:g}", {"training.learning_rate": higher}),
    )
    return fixes if rate >= 1e-3 else fixes[::-1]


# --- Exploding loss


EXPLODING_LOSS = "exploding-loss"


def exploding_loss(recent: Recent, *, raised: str) -> Finding | None:
    """Find a loss that has been far above its lowest for some steps, or by so much that a few of them are enough."""
    if lost_loss(recent, raised="") is not None:  # which says more, and what is still to be saved
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
        f"{_kept_before_explosion(recent, low)}",
        fixes=tuple(_fixes_for_exploding(recent)),
    )


def _kept_before_explosion(recent: Recent, low: Low) -> str:
    limit = _limit(low, limits.EXPLODED_OVER)
    good = [kept for kept in recent.checkpoints if (recent.losses.up_to(kept.step) or 0.0) <= limit]
    if not good:
        return "There is no checkpoint of before it."
    return f"The last checkpoint of before it is {good[-1].path}, of step {good[-1].step:,}."


def _fixes_for_exploding(recent: Recent) -> list[Fix]:
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
