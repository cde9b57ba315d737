"""What a run's evaluations are compared by, and what a run that has ended has come to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from core.base import formats
from core.base.errors import Fix, FixAction
from core.base.formats import LESS_IS_BETTER, METRICS, Metric
from core.base.language import _, ngettext
from core.options import RunOptions
from core.options.catalogue import value_of
from core.options.choices import BestMetric, PreferenceLoss, Task
from core.options.method_rules import WORTH_TRYING, pretrained_fix, rate_fixes, usual_rate
from core.options.past_runs import run_folder
from core.runs.events import Evaluated, Outcome
from core.runs.folder import RunFolder
from core.runs.status import IN_BOTH, RunStatus

# --- The best evaluation


Metrics = Mapping[str, Any]
"""The metrics of an evaluation by Trainer's names, NaN or None where there is no number."""


def judged_by(evaluations: Sequence[Metrics], by: BestMetric) -> Metric | None:
    """Returns what evaluations are compared by: `by`, else the first of METRICS that any of them has as a number."""
    had = [metric for metric in METRICS if any(map(math.isfinite, _values(evaluations, metric)))]
    return next((metric for metric in had if metric.name == f"eval_{by}"), had[0] if had else None)


def best_evaluation(evaluations: Sequence[Metrics], by: BestMetric) -> int | None:
    """Returns the place of the best evaluation, the first of equals; None if none has a number."""
    metric = judged_by(evaluations, by)
    if metric is None:
        return None
    values = _values(evaluations, metric)
    return values.index(metric.best([value for value in values if math.isfinite(value)]))


def _values(evaluations: Sequence[Metrics], metric: Metric) -> list[float]:
    """Returns the values of a metric, NaN where there is none."""
    return [math.nan if (value := one.get(metric.name)) is None else value for one in evaluations]


# --- Verdict


CERTAIN = 2.0
"""Standard errors by which an accuracy has to exceed the baseline."""
LEAST_GAIN = 0.05
"""The share of a constant prediction's mistakes that a model must avoid, however many validation examples there are."""
LEAST_CORRELATION = 0.2
"""From it on answers follow the truth, also where a constant prediction would be right as often."""
RISEN, FALLING = 1.1, 0.97
"""A validation loss has risen above this multiple of its minimum, or still falls below this one of the one before."""
LEAST_SPAN = 0.1
"""A loss is compared with one at least an epoch, and this share of the steps, earlier: closer ones differ by chance."""
STEADY = 3
"""So many of the last validation losses must fall, each below the one before, to be still falling."""
ROUNDING = 0.01
"""Trainer's epochs are fractions of steps."""
GAP, LEAST_GAP = 2.0, 0.1
"""A validation loss is well above the training loss from this multiple and this difference on."""
LEAST_CHANGE = 0.03
"""Smaller changes of a loss mean nothing, as of a model that is nearly always right."""
RIGHT = ("eval_accuracy", "eval_reward_accuracy")
"""Metrics that are shares of right answers."""
CONSTANT = 0.95
"""A mean absolute error above this share of the baseline's is no better than a constant prediction."""
UNWRITTEN = 0.7
"""A loss above this share of the first one is of a model from scratch that can't write sentences yet."""
LEAST_TEXTS = 3
"""If there are fewer generated texts, it means nothing that they are the same."""
HIGHER_RATE, LOWER_RATE = 5.0, 0.1
MUCH_LONGER = 5
"""How many times as long pretraining should be that has taught a model nothing."""
RESUME = Fix(_("Resume"), action=FixAction.RESUME)
LONGER = Fix(_("Train longer"), action=FixAction.EXTEND)
OPEN_TESTED = Fix(_("Open the run that was tested"), action=FixAction.TESTED)


class RunFinding(StrEnum):
    """What a verdict comes to."""

    RESULT = "result"
    HARDLY_LEARNED = "hardly learned"
    OVERFITS = "overfits"
    WORSENED = "worsened"
    STILL_FALLING = "still falling"
    NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True)
class RunVerdict:
    """What a run has come to: a sentence, what it is compared with, and what to try next."""

    finding: RunFinding
    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


def verdict(status: RunStatus, options: RunOptions | None) -> RunVerdict | None:
    """Judges a run that has ended by its recorded facts; None before the end, or if it has no result.

    The validation metric is compared with that of a constant prediction, or the loss with that of the first step.
    What an older run hasn't recorded is not compared.
    """
    finished = status.finished
    if status.is_test and finished is not None and finished.metrics:
        title, compared, is_at_chance = _result(status, options)
        if (leaked := status.messages.get(IN_BOTH)) is not None:
            compared = formats.paragraph(compared, leaked.title)
        if not is_at_chance:
            return RunVerdict(RunFinding.RESULT, title, compared)
        tested = run_folder(options.model.source) if options is not None else None
        fixes = (OPEN_TESTED,) if tested is not None and tested.is_dir() else ()
        return RunVerdict(RunFinding.HARDLY_LEARNED, title, compared, fixes)
    if finished is None or not finished.wrote_model or not finished.steps:
        return None
    onward = RESUME if _was_stopped(status) else LONGER
    if options is not None and options.task in (Task.CAUSAL_LM, Task.CHAT) and (empty := _monotony(status)):
        title = _("The model doesn't write a text of its own for each prompt yet")
        return RunVerdict(RunFinding.HARDLY_LEARNED, title, *_to_generate(empty, options, onward))
    if not status.evaluations:
        return _not_evaluated(status, options)
    title, compared, is_at_chance = _result(status, options)
    if (leaked := status.messages.get(IN_BOTH)) is not None:
        compared = formats.paragraph(compared, leaked.title)
    model_step = finished.model_step or finished.steps
    if not finished.metrics and status.evaluated_at != model_step:
        at = _(
            "Measured at step {step:,}; the model was then trained to step {model:,}, not evaluated again."
        )
        compared = formats.paragraph(compared, at.format(step=status.evaluated_at, model=model_step))

    def judged(finding: RunFinding, detail: str = "", *fixes: Fix) -> RunVerdict:
        return RunVerdict(finding, title, formats.paragraph(compared, detail), fixes)

    metric, course = _metric(status.evaluations, options), _course(status.evaluations)
    kept, evaluated = _kept(status, metric), finished.model_step or status.evaluations[-1].step
    if course is not None and not finished.waited and (is_at_chance or not _is_better(course, metric)):
        if course.overfits:
            found = _(
                "It overfits: the validation loss was lowest at epoch {epoch} ({low}) and rose to {now}, while the "
                "training loss fell from {before} to {after}."
            )
            if kept:
                return judged(RunFinding.RESULT, formats.paragraph(course.told(found), kept))
            return judged(RunFinding.OVERFITS, course.told(found), *_against_overfitting(status, options))
        if not kept and not is_at_chance:
            found = _(
                "It was better before: the validation loss was lowest at epoch {epoch} ({low}) and rose to {now}."
            )
            return judged(RunFinding.WORSENED, course.told(found), *_against_worsening(course, options))
    if is_at_chance and options is not None and options.task is Task.CAUSAL_LM:
        detail = formats.paragraph(title, compared, kept)
        title = _("The model has not learned to generate text yet")
        return RunVerdict(RunFinding.HARDLY_LEARNED, title, *_to_generate(detail, options, onward))
    if is_at_chance:
        return RunVerdict(
            RunFinding.HARDLY_LEARNED,
            _("It has hardly learned"),
            formats.paragraph(title, compared, kept, _gap(status, evaluated)),
            _to_learn(status, options),
        )
    if course is not None and not kept:
        rose = _("The validation loss rose from {low} to {now} although {metric} is better.")
        if metric in RIGHT:
            rose = _(
                "The validation loss rose from {low} to {now} although more answers are right: where the model is "
                "wrong, it is now more certain."
            )
        return judged(RunFinding.RESULT, course.told(rose, metric=formats.metric_words(metric)))
    if not finished.waited and (falling := _still_falling(status)):
        return judged(RunFinding.STILL_FALLING, falling, onward)
    return judged(RunFinding.RESULT, formats.paragraph(kept, _gap(status, evaluated)))


def _was_stopped(status: RunStatus) -> bool:
    """Returns whether a person ended the run before its last step."""
    ended, total = status.finished, status.total_steps
    return ended is not None and ended.state is Outcome.STOPPED and (total is None or ended.steps < total)


def _not_evaluated(status: RunStatus, options: RunOptions | None) -> RunVerdict:
    detail = _("It is unknown how well the model does on new examples.")
    fixes: tuple[Fix, ...] = ()
    data = options.data if options is not None else None
    has_data = data is None or data.eval or data.eval_split or data.eval_fraction
    if _was_stopped(status):
        fixes = (RESUME,)
    elif not has_data and not (status.plan is not None and status.plan.eval_samples):
        fixes = (Fix(_("New run with a validation fraction of 10 %"), {"data.eval_fraction": 0.1}),)
    return RunVerdict(RunFinding.NOT_EVALUATED, _("This run was not evaluated"), detail, fixes)


def _kept(status: RunStatus, metric: str) -> str:
    """Returns the sentence on the model's step, if that isn't the last one."""
    finished = status.finished
    assert finished is not None, "it has ended"
    model_step = finished.model_step or finished.steps
    if finished.waited:
        return ngettext(
            "Stopped early at step {last:,}: no better for {count} evaluation; the model is from step {best:,}.",
            "Stopped early at step {last:,}: no better for {count} evaluations; the model is from step {best:,}.",
            finished.waited,
        ).format(count=finished.waited, last=finished.steps, best=model_step)
    if model_step >= finished.steps:
        return ""
    end = status.evaluations[-1]
    if end.step == model_step:
        return _("The model is from step {step:,}, the last that was evaluated.").format(step=model_step)
    kept = _("The model is from step {step:,}, the best evaluation; step {last:,} gave {value}.")
    value = formats.metric_format(metric)(end.metrics.get(metric))
    return kept.format(step=model_step, last=end.step, value=value)


# How the losses went


@dataclass(frozen=True)
class _Course:
    """A validation loss that has risen, from its `lowest` evaluation to the `last`."""

    lowest: Evaluated
    last: Evaluated

    @property
    def overfits(self) -> bool:
        """Whether the training loss fell meanwhile, below the validation loss; not, as far as it is unknown.

        With much augmentation or dropout it is above the validation loss: then no example is known by heart.
        """
        before, after, now = self.lowest.train_loss, self.last.train_loss, self.last.metrics["eval_loss"]
        if before is None or after is None or now is None:
            return False
        return after < min(before, now)

    def told(self, sentence: str, **more: str) -> str:
        return sentence.format(
            epoch=formats.epochs(self.lowest.epoch),
            low=formats.loss(self.lowest.metrics["eval_loss"]),
            now=formats.loss(self.last.metrics["eval_loss"]),
            before=formats.loss(self.lowest.train_loss),
            after=formats.loss(self.last.train_loss),
            **more,
        )


def _course(evaluations: Sequence[Evaluated]) -> _Course | None:
    """Returns the course of a validation loss that has risen; None if it hasn't, or if that may be chance.

    The last evaluation has to be far enough from the lowest one, and the one before it, if less than an epoch earlier,
    as high.
    """
    lowest, last = _lowest(evaluations), evaluations[-1]
    low = lowest.metrics.get("eval_loss")
    if low is None or last.epoch - lowest.epoch < max(1.0, LEAST_SPAN * last.epoch) - ROUNDING:
        return None
    recent = [one for one in evaluations[-2:] if last.epoch - one.epoch < 1.0 - ROUNDING]
    losses = [one.metrics.get("eval_loss") for one in recent]
    has_risen = all(loss is not None and loss > max(RISEN * low, low + LEAST_CHANGE) for loss in losses)
    return _Course(lowest, last) if has_risen else None


def _still_falling(status: RunStatus) -> str:
    """Returns the sentence that the validation loss was falling when training ended; empty if it wasn't."""
    evaluations: Sequence[Evaluated] = status.evaluations
    was_stopped = _was_stopped(status)
    if was_stopped and len(evaluations) > 2:
        *_earlier, begin, before, last = evaluations
        comes_early = last.step - before.step < (before.step - begin.step) / 2
        has_risen = (last.train_loss or 0.0) > RISEN * (before.train_loss or math.inf)
        if comes_early and not has_risen:  # the evaluation at the stop, too close to the one before
            evaluations = evaluations[:-1]
    losses = [loss for one in evaluations if (loss := one.metrics.get("eval_loss")) is not None]
    if len(losses) < 2:
        return ""
    now, before_it = losses[-1], min(losses[:-1])
    is_steady = all(later < earlier for earlier, later in pairwise(losses[-STEADY:]))
    if not is_steady or now >= min(FALLING * before_it, before_it - LEAST_CHANGE):
        return ""
    if not was_stopped:
        return _("The validation loss was still falling at the end: training longer may help.")
    stopped = _(
        "It was stopped at step {step:,} of {total:,} and was still learning: the validation loss had fallen from "
        "{before} to {now}."
    )
    ended = status.evaluations[-1].metrics.get("eval_loss")
    return stopped.format(
        step=status.finished.steps if status.finished is not None else 0,
        total=status.total_steps or 0,
        before=formats.loss(losses[-2]),
        now=formats.loss(now if ended is None else min(now, ended)),
    )


def _gap(status: RunStatus, step: int) -> str:
    """Returns the sentence that the model does much better on its training data, by one evaluation; else empty."""
    losses = [
        (one.metrics.get("eval_loss"), one.train_loss) for one in status.evaluations if one.step == step
    ]
    new, seen = losses[-1] if losses else (None, None)
    if new is None or seen is None or new < max(GAP * seen, seen + LEAST_GAP):
        return ""
    return _(
        "The validation loss ({new}) is well above the training loss ({seen}): the model does better on the examples "
        "that it has trained on than on new ones."
    ).format(new=formats.loss(new), seen=formats.loss(seen))


def _monotony(status: RunStatus) -> str:
    """Returns why the generated texts of the last evaluation are worth nothing; empty if they differ."""
    texts = [set(one.text.split()) for one in status.said]
    if not texts or (any(texts) and (len(texts) < LEAST_TEXTS or any(text != texts[0] for text in texts))):
        return ""
    found = _("All generated texts are the same.") if any(texts) else _("All generated texts are empty.")
    if status.epoch >= 1:
        return found
    trained = _("After {epoch} epochs it has not seen every training example yet.")
    return formats.paragraph(found, trained.format(epoch=formats.epochs(status.epoch)))


def _to_generate(found: str, options: RunOptions, onward: Fix) -> tuple[str, tuple[Fix, ...]]:
    """Returns what was found and its cause, and what makes a model generate text; `onward` trains it longer."""
    if not options.starts_random and not run_folder(options.model.source):
        return formats.paragraph(found, _("Training longer may help.")), (onward,)
    cause = _(
        "A model from scratch needs much more text, or much longer pretraining; a pretrained one can write already."
    )
    longer = onward if options.task is not Task.CHAT else _longer_pair(options)
    pretrained = pretrained_fix(options.task, _("New run with {model}"))
    return formats.paragraph(found, cause), (pretrained,) if longer is None else (longer, pretrained)


def _longer_pair(options: RunOptions) -> Fix | None:
    """Offers to pretrain and chat again, and longer; None for a model that no run of Hone has pretrained."""
    folder = run_folder(options.model.source)
    before = None if folder is None else RunFolder(folder).readable_options()
    if before is None or not before.starts_random:
        return None
    model, path = (
        before.model,
        "training.epochs" if options.training.max_steps is None else "training.max_steps",
    )
    label = _("Two new runs, {times} times as long").format(times=MUCH_LONGER)
    longer = {path: MUCH_LONGER * value_of(options, path)}
    return Fix(label, {"model.source": model.source, "model.vocabulary": model.vocabulary, **longer})


def _result(status: RunStatus, options: RunOptions | None) -> tuple[str, str, bool]:
    """Returns the result, what it is compared with, and whether it is no better than chance."""
    metrics, baseline = status.metrics, status.evaluations[-1].baseline
    count = status.plan.eval_samples if status.plan is not None else 0
    if (accuracy := metrics.get("eval_accuracy")) is not None:
        title = _("{accuracy} of the validation examples are right")
        if status.is_test:
            title = ngettext(
                "The model is right on {accuracy} of {count} example",
                "The model is right on {accuracy} of {count} examples",
                count,
            )
        title = title.format(accuracy=formats.share(accuracy), count=formats.count(count))
        loss, labels = metrics.get("eval_loss"), status.plan.labels if status.plan is not None else ()
        if baseline is None:
            is_chance = loss is not None and len(labels) > 1 and loss > 0.98 * math.log(len(labels))
            guessing = _("Its loss is that of guessing among {labels}.").format(
                labels=formats.counted(len(labels), "label")
            )
            return title, guessing if is_chance else "", is_chance
        compared = _("Always answering the most frequent label would be right in {share} of cases.")
        is_chance = not (_exceeds(accuracy, baseline, count) or _follows(metrics.get("eval_matthews"), count))
        return title, compared.format(share=formats.share(baseline)), is_chance
    if (error := metrics.get("eval_mae")) is not None:
        title = _("Predictions are off by {error} on average").format(error=formats.three_figures(error))
        if baseline is None:
            return title, "", False
        compared = _("Always predicting the mean would be off by {error}.")
        is_chance = error > CONSTANT * baseline and not _follows(metrics.get("eval_pearson"), count)
        return title, compared.format(error=formats.three_figures(baseline)), is_chance
    if (preferred := metrics.get("eval_reward_accuracy")) is not None:
        preference = options.preference if options is not None else PreferenceLoss.DPO
        title, compared, wider, reverse = _PREFERRED[preference or PreferenceLoss.DPO]
        guessed = 0.5
        if preference is PreferenceLoss.KTO and baseline is not None:
            guessed = baseline
            alike = _("Rewarding all of them alike would be right in {share} of cases.")
            compared = alike.format(share=formats.share(baseline))
        told, margin = [compared], metrics.get("eval_reward_margin")
        if preference is PreferenceLoss.KTO:
            told.insert(0, _A_REWARD)
        if margin is not None:
            told.append((reverse if margin < 0 else wider).format(margin=formats.number(margin)))
        compared = formats.paragraph(*told)
        return title.format(share=formats.share(preferred)), compared, not _exceeds(preferred, guessed, count)
    perplexity, loss = metrics.get("eval_perplexity"), metrics.get("eval_loss")
    if perplexity is None or loss is None:
        name = next((metric.name for metric in METRICS if metrics.get(metric.name) is not None), "eval_loss")
        title = _("{metric} {value} on the validation data")
        if status.is_test:
            title = _("{metric} {value} on the tested data")
        value = formats.metric_format(name)(metrics.get(name))
        return title.format(metric=formats.metric_title(name), value=value), "", metrics.get(name) == 0
    value = formats.three_figures(perplexity)
    title = _("Perplexity {value} on the validation data")
    if status.is_test:
        title = _("Perplexity {value} on the tested data")
    meaning = _("It is as unsure of the next token as if it chose among {value}.").format(value=value)
    if status.first_loss is None or status.first_loss > LARGEST_EXPONENT:
        return title.format(value=value), meaning, False
    compared = _("The first training batch had about {value}; lower is better.")
    is_chance = options is not None and options.starts_random and loss > UNWRITTEN * status.first_loss
    first = compared.format(value=formats.three_figures(math.exp(status.first_loss)))
    return title.format(value=value), formats.paragraph(meaning, first), is_chance


_A_REWARD = _(
    "A reward is how much likelier an answer is than before training. Liked answers should gain more than unrelated "
    "answers, others less."
)
_PREFERRED = {
    PreferenceLoss.DPO: (
        _("It leans more towards the better answer than before training in {share} of the evaluated pairs"),
        _(
            "Random changes would do so in 50 % of cases. How often the better answer is the likelier one isn't "
            "measured."
        ),
        _(
            "The reward margin, by how much more it leans towards the better answer than before training, is {margin} "
            "on average."
        ),
        _(
            "On average it leans more towards the worse answer than before training: the reward margin is negative, "
            "{margin}."
        ),
    ),
    PreferenceLoss.ORPO: (
        _("It prefers the better answer in {share} of the evaluated pairs"),
        _("Guessing would be right in 50 % of cases."),
        _("The reward margin, how much more it prefers the better answer, is {margin} on average."),
        _(
            "On average it prefers the worse answer: the reward margin, how much more it prefers the better one, is "
            "negative, {margin}."
        ),
    ),
    PreferenceLoss.KTO: (
        _("{share} of the evaluated answers get a reward on the right side"),
        _("Rewards at random would be right in 50 % of cases."),
        _("The reward margin, how much higher the rewards of liked answers are on average, is {margin}."),
        _(
            "On average, answers that aren't liked get the higher rewards: the reward margin is negative, {margin}."
        ),
    ),
}
"""Sentences on the reward accuracy, on what it is compared with, on a reward margin, and on a negative one."""

LARGEST_EXPONENT = 100.0
"""The largest exponent of a perplexity that is worth showing."""


def _exceeds(accuracy: float, baseline: float, count: int) -> bool:
    """Returns whether an accuracy on `count` examples is better than a baseline by more than chance."""
    error = math.sqrt(baseline * (1 - baseline) / count) if count else 0.0
    return accuracy - baseline > max(LEAST_GAIN * (1 - baseline), CERTAIN * error) or accuracy == 1.0


def _follows(correlation: float | None, count: int) -> bool:
    """Returns whether a correlation of answers with the truth, on `count` examples, is more than chance."""
    return correlation is not None and correlation > max(LEAST_CORRELATION, CERTAIN / math.sqrt(count or 1))


def _lowest(evaluations: Sequence[Evaluated]) -> Evaluated:
    """Returns the evaluation with the lowest validation loss."""
    losses = [one.metrics.get("eval_loss") for one in evaluations]
    return evaluations[losses.index(min((loss for loss in losses if loss is not None), default=None))]


def _metric(evaluations: Sequence[Evaluated], options: RunOptions | None) -> str:
    """Returns the name of what evaluations are compared by."""
    by = options.training.metric_for_best_model if options is not None else BestMetric.AUTO
    metric = judged_by([one.metrics for one in evaluations], by)
    return "eval_loss" if metric is None else metric.name


def _is_better(course: _Course, metric: str) -> bool:
    """Returns whether the last evaluation is better by `metric` than that with the lowest loss."""
    before, now = (one.metrics.get(metric) for one in (course.lowest, course.last))
    if before is None or now is None:
        return False
    return now < before if metric in LESS_IS_BETTER else now > before


# What to try next


def _to_learn(status: RunStatus, options: RunOptions | None) -> tuple[Fix, ...]:
    if _was_stopped(status):
        return (RESUME,)
    is_worse = status.stopped_early or status.evaluations[-1] is not _lowest(status.evaluations)
    longer = () if is_worse else (LONGER,)
    if options is None:
        return longer
    last, first = status.evaluations[-1].train_loss, status.first_loss
    if last is not None and first is not None and last > RISEN * first:
        return rate_fixes(options, LOWER_RATE)
    if _gap(status, status.evaluations[-1].step):  # it learns, but by heart
        return longer
    # towards the usual rate, and no further: else one advice would lead back to the other
    factor = usual_rate(options).value / options.training.learning_rate
    is_usual = 1 / WORTH_TRYING < factor < WORTH_TRYING
    return *longer, *(() if is_usual else rate_fixes(options, min(HIGHER_RATE, factor)))


def _against_overfitting(status: RunStatus, options: RunOptions | None) -> tuple[Fix, ...]:
    if options is None:
        return ()
    by = options.training.metric_for_best_model
    place = best_evaluation([one.metrics for one in status.evaluations], by)
    best = status.evaluations[place or 0].epoch
    epochs, fixes = max(1, math.ceil(best - ROUNDING)), []
    if options.training.max_steps is None and epochs < min(
        options.training.epochs, status.evaluations[-1].epoch
    ):
        words = ngettext("New run with {count} epoch", "New run with {count} epochs", epochs)
        fixes.append(Fix(words.format(count=epochs), {"training.epochs": epochs}))
    return *fixes, *_keeping_best(options)


def _against_worsening(course: _Course, options: RunOptions | None) -> tuple[Fix, ...]:
    if options is None:
        return ()
    before, after = course.lowest.train_loss, course.last.train_loss
    has_risen = before is not None and after is not None and after > RISEN * before
    return *_keeping_best(options), *(rate_fixes(options, LOWER_RATE) if has_risen else ())


def _keeping_best(options: RunOptions) -> tuple[Fix, ...]:
    fix = Fix(_("New run that keeps the best model"), {"output.keep_best": True})
    return () if options.keeps_best else (fix,)
