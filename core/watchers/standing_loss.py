"""Notices that the loss doesn't move: the model learns nothing, or nothing more.

The later half of the steps since the warm-up is judged. It stands still where even the largest change that its noise
leaves possible is small; where noise could hide a fall, nothing is said.
"""

from core.errors import Fix
from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.loss_curve import Trend, trend
from core.watchers.offers import STOP
from core.watchers.recent import Recent

MESSAGE = "standing-loss"


def look(recent: Recent, *, raised: str) -> Finding | None:
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
