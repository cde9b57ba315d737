"""What a run page says in words, made from the run's story."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from core.device_names import DEVICE_KINDS, device_title
from core.errors import Fix
from core.events import Level, MessageRaised, Phase
from core.memory.shortage import out_of_memory
from core.options import RunOptions
from core.run_folder import ExitRecord
from core.statements import dtypes
from core.story import RunStory, State
from gui import numbers
from gui.forecast_words import off_by
from gui.states import state_title

_translate = QCoreApplication.translate

DOT = " · "

RESULTS = ("eval_loss", "eval_accuracy", "eval_f1")
"""The metrics that stand among what came of a run; its table of evaluations has all of them."""


@dataclass(frozen=True)
class RunFacts:
    """All that a run page knows at one moment.

    `options` is None where `run.toml` can't be read; `is_gone` says that there is no folder of the run any more.
    """

    story: RunStory
    state: State
    options: RunOptions | None = None
    exit_record: ExitRecord | None = None
    is_gone: bool = False


def state_line(facts: RunFacts) -> str:
    """The line under a run's name."""
    story = facts.story
    match facts.state:
        case State.STARTING:
            return _phase_line(story) or _translate("run", "Starting")
        case State.STOPPING:
            return DOT.join([_translate("run", "Stopping, and keeping what is trained"), *_progress(story)])
        case State.TRAINING:
            return DOT.join([_doing(facts), *_progress(story)])
        case _:
            lasted = "" if summary(facts) else elapsed(facts, now=0.0)
            after = [_translate("run", "after {}").format(lasted)] if lasted else []
            return DOT.join([state_title(facts.state), *after, *_progress(story), *_where_computed(facts)])


def _doing(facts: RunFacts) -> str:
    if facts.story.phase in (Phase.EVALUATING, Phase.SAVING, Phase.COMPILING):
        return _phase_line(facts.story)
    where = _where_computed(facts)
    if not where:
        return _translate("run", "Training")
    is_cpu = where[0].startswith(DEVICE_KINDS["cpu"])
    words = _translate("run", "Training on the {}") if is_cpu else _translate("run", "Training on {}")
    return words.format(where[0])


def _phase_line(story: RunStory) -> str:
    words = {
        Phase.LOADING_DATA: _translate("run", "Loading the data"),
        Phase.LOADING_MODEL: _translate("run", "Loading the model"),
        Phase.TOKENIZING: _translate("run", "Splitting the texts into tokens"),
        Phase.COMPILING: _translate("run", "Compiling the model"),
        Phase.TRAINING: _translate("run", "Preparing the first step"),
        Phase.EVALUATING: _translate("run", "Evaluating on held-out data"),
        Phase.SAVING: _translate("run", "Saving"),
    }
    if story.phase is None:
        return ""
    return f"{words[story.phase]}: {story.phase_detail}" if story.phase_detail else words[story.phase]


def _where_computed(facts: RunFacts) -> list[str]:
    """Device and precision: measured where the run has said so, else as planned."""
    ran, plan = facts.story.what_ran, facts.story.plan
    if ran is not None:
        return [f"{device_title(ran.device)}, {dtypes(ran.autocast_dtype or ran.parameter_dtype)}"]
    return [device_title(plan.device)] if plan is not None and plan.device else []


def _progress(story: RunStory) -> list[str]:
    plan = story.plan
    if plan is None:
        return []
    steps = _translate("run", "step {} of {}").format(
        numbers.count(story.step), numbers.count(plan.total_steps)
    )
    passes = _translate("run", "epoch {} of {}").format(
        numbers.epochs(story.epoch), numbers.epochs(plan.epochs)
    )
    return [steps, passes]


def time_left(facts: RunFacts) -> str:
    """How long the training still takes; empty until that can be told."""
    left = facts.story.seconds_left if facts.state is State.TRAINING else None
    if left is None:
        return ""
    return _translate("run", "about {} left").format(numbers.about(left))


def elapsed(facts: RunFacts, now: float) -> str:
    """How long the run has been going, or went. `now` is unix seconds."""
    story = facts.story
    if story.started is None:
        return ""
    known_end = story.ended or (facts.exit_record.time if facts.exit_record else None)
    if facts.state.is_over and known_end is None:
        return ""
    return numbers.duration((known_end if facts.state.is_over and known_end else now) - story.started)


def summary(facts: RunFacts) -> list[tuple[str, str]]:
    """What came of a run that ended by itself: titles and values; empty before, and where nothing was trained."""
    done = facts.story.finished
    if done is None or not facts.state.is_over or not done.steps:
        return []
    rows = _results(done.metrics) if done.metrics else _last_evaluation(facts.story)
    rows.append((_translate("run", "Speed"), numbers.rate(done.samples_per_second)))
    if done.seconds:  # a run that failed doesn't tell it
        rows.append((_translate("run", "Time"), numbers.duration(done.seconds)))
    rows.append((_translate("run", "Peak memory"), _memory_words(facts.story)))
    return [(title, value) for title, value in rows if value != numbers.MISSING]


def _memory_words(story: RunStory) -> str:
    """The most that was held, and how far off the forecast was: `2.6 GB · forecast 2.5 GB (4 % too low)`."""
    measured, error = numbers.memory(story.peak_bytes), story.forecast_error
    if error is None:
        return measured
    told = _translate("run", "forecast {} ({})")
    return DOT.join([measured, told.format(numbers.memory(story.forecast_bytes), off_by(error))])


def _results(metrics: dict[str, float | None]) -> list[tuple[str, str]]:
    return [
        (numbers.metric_title(name), numbers.metric_format(name)(value))
        for name, value in metrics.items()
        if value is not None and name in RESULTS
    ]


def _last_evaluation(story: RunStory) -> list[tuple[str, str]]:
    """What was measured before the training went on: no result of the model that was kept."""
    measured = _results(story.metrics)
    if not measured or story.evaluated_at is None:
        return []
    title = _translate("run", "Last evaluated at step {}").format(numbers.count(story.evaluated_at))
    return [(title, DOT.join(f"{name} {value}" for name, value in measured))]


def crash_message(facts: RunFacts) -> MessageRaised | None:
    """What to say about a run whose process ended without a word; None for any other."""
    if facts.state is not State.CRASHED:
        return None
    if facts.is_gone:
        title = _translate("run", "This run's folder was removed")
        detail = _translate("run", "It was deleted, moved or renamed, or its disk is not connected.")
        return MessageRaised(id="crashed", level=Level.WARNING, title=title, detail=detail)
    title, reason = _crash_words(facts.exit_record)
    fixes: tuple[Fix, ...] = ()
    if facts.exit_record is not None and facts.exit_record.out_of_memory and facts.options is not None:
        shortage = out_of_memory(facts.options, facts.story.forecast)
        title, reason, fixes = shortage.title, f"{shortage.detail}\n{reason}", shortage.fixes
    detail = "\n".join(part for part in (reason, _kept(facts.story)) if part)
    return MessageRaised(id="crashed", level=Level.ERROR, title=title, detail=detail, fixes=fixes)


def _crash_words(record: ExitRecord | None) -> tuple[str, str]:
    if record is None:
        title = _translate("run", "The training process is gone")
        return title, _translate(
            "run", "It ended without saying why: the computer was switched off, perhaps."
        )
    if record.signal:
        title = _translate("run", "The training process was ended by {}").format(record.signal)
    elif record.code is None:
        title = _translate("run", "The training process was not started")
    else:
        title = _translate("run", "The training process crashed")
    return title, record.reason


def _kept(story: RunStory) -> str:
    """What of a crashed run's work is still there."""
    saved = story.last_checkpoint
    if saved is None:
        return ""
    words = _translate("run", "The checkpoint of step {} was kept: {}")
    return words.format(numbers.count(saved.step), saved.path)


def unread_message(story: RunStory) -> MessageRaised | None:
    """A note on what of a run can't be read; None where all of it was."""
    if story.is_of_newer_hone:
        title = _translate("run", "A newer Hone wrote this run")
        detail = _translate("run", "There may be more to it than is shown.")
    elif story.skipped:
        one = _translate("run", "A line of what happened can't be read")
        several = _translate("run", "{} lines of what happened can't be read")
        title = one if story.skipped == 1 else several.format(numbers.count(story.skipped))
        detail = _translate("run", "What stood there is left out here.")
    else:
        return None
    return MessageRaised(id="unread", level=Level.INFO, title=title, detail=detail)
