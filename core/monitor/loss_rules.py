"""Warnings about the loss: not a number, exploding, flat.

Each rule is a function of the attempt so far. `raised` is the key of its current finding, or empty: the limits for
withdrawing a finding are wider, so that messages don't flicker.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from core.base.errors import Fix
from core.base.formats import paragraph
from core.base.language import _
from core.monitor.recent import END, FINITE_AGAIN, REVEAL, STOP, Low, MonitorFinding, Recent, trend
from core.options.choices import Task
from core.options.method_rules import rate_fixes
from core.runs.events import Level

LOST_LOSS, EXPLODING_LOSS, STANDING_LOSS = "lost-loss", "exploding-loss", "standing-loss"


def lost_loss(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds a loss that was NaN or infinite, unless many finite ones have followed."""
    bad, good = recent.bad_loss, recent.good_checkpoint
    if bad is None or recent.failure is not None or bad.finite_since >= FINITE_AGAIN:
        return None
    # stopping saves a checkpoint, which may take the place of the last good one
    is_full = len(recent.checkpoints) >= recent.most_checkpoints
    is_next_to_go = good is not None and recent.checkpoints[0] is good and is_full
    if good is not None:
        checkpoint = _("The last good checkpoint is {path} (step {step:,}).").format(
            path=good.path, step=good.step
        )
        if is_next_to_go:
            replaced = _(
                "The next one replaces it, also the one that a stop saves: copy it first, or end the run now."
            )
            checkpoint = paragraph(checkpoint, replaced)
    elif recent.checkpoints:
        checkpoint = _("No checkpoint from before it is left.")
    else:
        checkpoint = _("There is no checkpoint yet.")
    fixes = [END if is_next_to_go else STOP, *([REVEAL] if good is not None else [])]
    if recent.options is not None:
        fixes += rate_fixes(recent.options, 1 / 10)
        if recent.what_ran is not None and recent.what_ran.autocast_dtype is not None:
            fixes.append(Fix(_("Compute in fp32"), {"device.precision": "fp32"}))
    title = (
        _("The loss of step {step:,} is not a number (NaN)")
        if math.isnan(bad.loss)
        else _("The loss of step {step:,} is infinite")
    )
    detail = _(
        "A single such step may be harmless. If more follow, the weights become unusable and the run "
        "ends by itself. The usual cause is a learning rate that is too high."
    )
    return MonitorFinding(
        key=f"{bad.step}: {checkpoint}",
        title=title.format(step=bad.step),
        detail=paragraph(detail, checkpoint),
        fixes=tuple(fixes),
    )


# --- Flat loss

FLAT_STEPS = 100  # steps that the later half of those since the warm-up has at least
FLAT_BLOCKS = 8  # averages needed to tell a trend from noise
FLAT_CHANGE = 0.03  # share by which a flat loss changes at most
FLAT_CHANGE_OVER = 0.06  # share by which a moving one changes at least
UNFALLEN = 0.9  # share of its start above which a loss has never fallen
SMALL, TINY = 0.3, 0.05  # share of its start, and loss, below which it has fallen far enough to be flat
FLAT_EVALUATIONS = 2  # evaluations in a row without an improvement
FLAT_LEFT = 0.2  # with less than this share of the run left it isn't worth a message


def standing_loss(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds a loss that has never fallen, or one that has stopped falling while evaluations don't improve."""
    options, total = recent.options, recent.plan.total_steps if recent.plan is not None else 0
    warmup = options.training.warmup if options is not None else 0.0
    begin = max(recent.from_step, round(warmup * total if warmup < 1.0 else warmup))
    middle = begin + max(0, recent.losses.last - begin) // 2
    start, later = recent.losses.start, recent.losses.since(middle)
    if start is None or len(later) < FLAT_BLOCKS or later[-1].last - middle < FLAT_STEPS:
        return None
    slope = trend(later)
    is_moving = slope.least > FLAT_CHANGE_OVER if raised else slope.most > FLAT_CHANGE
    if is_moving or slope.mean < max(TINY, SMALL * start):
        return None
    if not recent.from_step and slope.mean > UNFALLEN * start:
        fixes: tuple[Fix, ...] = ()
        if options is not None:  # the likelier one first: a high rate is rarely too low
            factors = (1 / 10, 3) if options.training.learning_rate >= 1e-3 else (3, 1 / 10)
            fixes = rate_fixes(options, *factors)
        return MonitorFinding(
            key="never fell",
            title=_("The loss isn't falling"),
            detail=_(
                "It began at {start:.3g} and is at {mean:.3g} after {step:,} steps: the model learns nothing yet. "
                "Either the learning rate doesn't suit it, or the labels don't follow from the data: check some "
                "examples."
            ).format(start=start, mean=slope.mean, step=recent.step),
            fixes=fixes,
        )
    is_stuck = recent.best_step < middle and recent.since_better >= FLAT_EVALUATIONS
    is_worth_it = bool(raised) or total - recent.step > FLAT_LEFT * total
    if recent.evaluations > FLAT_EVALUATIONS and is_stuck and is_worth_it:
        return MonitorFinding(
            key="stopped",
            level=Level.INFO,
            title=_("The loss has stopped falling"),
            detail=_(
                "It has stayed at {mean:.3g} since step {first:,}, and evaluations have been no better since step "
                "{best_step:,}. You may stop here, or start again with more data, a lower learning rate or a larger "
                "model."
            ).format(first=later[0].first, mean=slope.mean, best_step=recent.best_step),
            fixes=(STOP,),
        )
    return None


# --- Exploding loss


class Rise(NamedTuple):
    """A loss has risen if each of the last `steps` is at least `times` a low one, and above it by at least `more`."""

    steps: int
    times: float
    more: float

    def limit(self, low: Low) -> float:
        return max(self.times * low.loss, low.loss + self.more)


EXPLODED = (Rise(20, 3.0, 1.0), Rise(5, 10.0, 5.0))
"""Against the lowest loss. Losses of unrelated batches don't pass by chance: at three times the lowest one in three
might, and twenty in a row do once in billions."""

EXPLODED_AT_ONCE = Rise(10, 10.0, 5.0)
"""Against the first loss, where none before was low: 0.7, then 155 at the second step and 925 at the fortieth. No cross
entropy of a model that learns is so far above its first one."""

EXPLODED_OVER = Rise(20, 2.0, 0.5)  # it is over where the average is below this
EXPLODED_FEWEST = 8  # squared errors of fewer samples differ by as much without any explosion
LOWEST_STEPS = 10  # the lowest loss is an average of so many steps


def exploding_loss(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds a loss that has been far above its lowest for some steps, or very far for a few."""
    if lost_loss(recent, raised="") is not None:  # which says more, and what can still be saved
        return None
    last = list(recent.last_losses)
    for key, low, rise in _thresholds(recent):
        some = last[-rise.steps :]
        if raised == key and sum(last) / len(last) > EXPLODED_OVER.limit(low):
            return _exploded(recent, key, low, last)
        if not raised and len(some) == rise.steps and min(some) > rise.limit(low):
            return _exploded(recent, key, low, some)
    return None


def _thresholds(recent: Recent) -> Iterator[tuple[str, Low, Rise]]:
    low, first, options = recent.losses.lowest(LOWEST_STEPS), recent.losses.first, recent.options
    if low is not None:
        yield from (("up", low, rise) for rise in EXPLODED)
    if first is None or options is None:
        return
    if options.task is not Task.TEXT_REGRESSION or options.effective_batch >= EXPLODED_FEWEST:
        yield "up at once", first, EXPLODED_AT_ONCE


def _exploded(recent: Recent, key: str, low: Low, last: list[float]) -> MonitorFinding:
    limit = EXPLODED_OVER.limit(low)
    good = [saved for saved in recent.checkpoints if (recent.losses.at(saved.step) or 0.0) <= limit]
    checkpoint = _("No checkpoint is from before it.")
    if good:
        template = _("The last checkpoint from before it is {path}, of step {step:,}.")
        checkpoint = template.format(path=good[-1].path, step=good[-1].step)
    fixes = [STOP]
    if recent.options is not None:
        training = recent.options.training
        fixes += rate_fixes(recent.options, 1 / 3)
        if not training.max_grad_norm:
            fixes.append(Fix(_("Clip gradients at 1"), {"training.max_grad_norm": 1.0}))
        elif not training.warmup:
            fixes.append(Fix(_("Warm up for a tenth of the steps"), {"training.warmup": 0.1}))
    detail = _(
        "It was down to {lowest:.3g} at step {step:,}, and each of the last {count} steps was above {least:.3g}. The "
        "usual cause is a learning rate that is too high. It seldom recovers."
    ).format(lowest=low.loss, step=low.step, count=len(last), least=min(last))
    return MonitorFinding(
        key=key,
        title=_("The loss has risen sharply"),
        detail=paragraph(detail, checkpoint),
        fixes=tuple(fixes),
    )
