"""Starting a run while another one trains on its device: let it wait for its turn, or train both at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from PySide6.QtWidgets import QWidget

from core.base import formats
from core.base.errors import Fix, FixAction
from core.base.language import _
from core.memory.history import PastRun, correction, teaching, typical_error
from core.options import RunOptions
from core.options.choices import DEVICE_KINDS, device_title
from core.runs import queue
from core.runs.crash import Crash
from core.runs.events import Level, MessageRaised, Phase, TurnAwaited
from core.runs.folder import ExitRecord
from core.runs.status import RunStatus, State
from core.runs.summary import seconds_spent
from core.runs.words import dtypes, out_of_memory
from gui.base.trash import Question

EXACT = 0.005
"""Nearer than this the percent says 0."""

MINUS = "\N{MINUS SIGN}"


def forecast_text(past: Sequence[PastRun]) -> str:
    """How good the forecasts have been, and what they have taught; empty while there were none."""
    found = teaching(past)
    error = typical_error(found)
    if error is None:
        return ""
    one = _("Memory forecast on this computer: off by {error} in one run that went through all its data")
    several = _(
        "Memory forecasts on this computer: off by {error} in the median of {count} runs that went through all "
        "their data",
    )
    said = (one if len(found) == 1 else several).format(
        error=formats.whole_percent(error), count=formats.count(len(found))
    )
    return " ".join([f"{said}.", *_lessons(found)])


def _lessons(past: Sequence[PastRun]) -> list[str]:
    """The correction of each device that has one: a sentence of its own for one, a list for several."""
    devices = dict.fromkeys(one.device for one in past)
    factors = {device: correction(device, past) for device in devices}
    learned = {device: factor - 1 for device, factor in factors.items() if abs(factor - 1) >= EXACT}
    if len(learned) > 1:
        each = ", ".join(f"{device} {_signed(change)}" for device, change in learned.items())
        return [_("New ones are corrected: {devices}.").format(devices=each)]
    more = _("New ones for {device} are raised by {share}.")
    less = _("New ones for {device} are lowered by {share}.")
    return [
        (more if change > 0 else less).format(device=device, share=formats.whole_percent(abs(change)))
        for device, change in learned.items()
    ]


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else MINUS}{formats.whole_percent(abs(share))}"


STATE_COLOURS = {
    State.QUEUED: "others",
    State.STARTING: "accent",
    State.TRAINING: "accent",
    State.PAUSING: "warn",
    State.PAUSED: "warn",
    State.STOPPING: "warn",
    State.STOPPED: "others",
    State.FINISHED: "ok",
    State.FAILED: "bad",
    State.CRASHED: "bad",
}
"""The field of `gui.base.theme.Tokens` that stands for a state."""


def state_title(state: State) -> str:
    """One word for a state."""
    titles = {
        State.QUEUED: _("Waiting"),
        State.STARTING: _("Starting"),
        State.TRAINING: _("Training"),
        State.PAUSING: _("Pausing"),
        State.PAUSED: _("Paused"),
        State.STOPPING: _("Stopping"),
        State.STOPPED: _("Stopped"),
        State.FINISHED: _("Finished"),
        State.FAILED: _("Failed"),
        State.CRASHED: _("Crashed"),
    }
    return titles[state]


class Turn(Enum):
    """When a run begins."""

    WAIT = auto()
    NOW = auto()
    NEVER = auto()


AskTurn = Callable[[TurnAwaited, QWidget], Turn]
"""Asks when a run is to begin that others are ahead of."""


def question_about(awaited: TurnAwaited, parent: QWidget | None) -> Question[Turn]:
    """What is asked: whether to wait for the runs ahead, or for a benchmark."""
    if awaited.behind == queue.BENCHMARK:
        title, wait = _("A benchmark is being measured"), _("Start when it is done")
        words = _(
            "A run beside it would make both slower, and the benchmark's figures would say as much of the run as of "
            "what is measured.",
        )
    else:
        one, several = _("{} uses this device"), _("{} runs train on this device, or wait for it")
        title = one.format(awaited.behind) if awaited.ahead == 1 else several.format(awaited.ahead)
        wait = _("Start when that one is done") if awaited.ahead == 1 else _("Start when those are done")
        words = _(
            "Two runs at once share the device: both become slower, and together they need the memory of both. "
            "Where that runs out, one of them ends.",
        )
    return Question(title, words, {Turn.WAIT: wait, Turn.NOW: _("Start now beside it")}, parent)


def ask_turn(awaited: TurnAwaited, parent: QWidget) -> Turn:
    """Ask when the run is to begin."""
    return question_about(awaited, parent).ask(Turn.NEVER)


DOT = " · "

RESULTS = (
    *("eval_loss", "eval_accuracy", "eval_f1", "eval_pearson", "eval_spearman", "eval_mae"),
    *("eval_perplexity", "eval_reward_accuracy"),
)
"""The metrics that stand among what came of a run; its table of evaluations has all of them."""


@dataclass(frozen=True)
class RunFacts:
    """All that a run page knows at one moment.

    `options` is None where `run.toml` can't be read; `is_gone` says that there is no folder of the run any more,
    `has_model` that there is a trained model to work with, `saved_step` of which step there is a checkpoint to go on
    from, once it is over, and `crash` what is known of an end without a word. `is_between` says that it goes on, while
    its story still tells of the attempt before.
    """

    status: RunStatus
    state: State
    options: RunOptions | None = None
    exit_record: ExitRecord | None = None
    is_gone: bool = False
    has_model: bool = False
    saved_step: int | None = None
    crash: Crash | None = None
    is_between: bool = False


def state_line(facts: RunFacts) -> str:
    """The line under a run's name."""
    if facts.state.is_over and facts.state is not State.PAUSED:
        lasted = "" if summary(facts) else elapsed(facts, now=0.0)
        after = [_("after {}").format(lasted)] if lasted else []
        progress = _progress(facts.status)
        return DOT.join([state_title(facts.state), *after, *progress, *_where_computed(facts)])
    return DOT.join(filter(None, _going_on(facts)))


def _going_on(facts: RunFacts) -> list[str]:
    """What a run does that isn't over, or that rests."""
    status = facts.status
    match facts.state:
        case State.STARTING:
            phase = "" if facts.is_between else _phase_line(status)
            return [phase or _("Starting")]
        case State.QUEUED:
            doing = _awaited(status)
            if status.attempt and facts.saved_step is None:
                return [doing, _("begins anew")]
        case State.PAUSED:
            return _resting(status)
        case State.PAUSING:
            doing = _("Pausing: saving a checkpoint, then the memory is free")
        case State.STOPPING:
            doing = _("Stopping, and keeping what is trained")
        case _:
            doing = _doing(facts)
    return [doing, *_progress(status)]


def _resting(status: RunStatus) -> list[str]:
    """Where a paused run goes on, and that nothing of it is in memory."""
    steps, *passes = _progress(status) or [""]
    paused = _("Paused at {}").format(steps) if steps else state_title(State.PAUSED)
    return [paused, *passes, _("its memory is free")]


def _awaited(status: RunStatus) -> str:
    """For whom a run waits that trains later."""
    awaited = status.awaited
    if awaited is None or not awaited.behind:
        return _("Waiting for its turn")
    others, name = awaited.ahead - 1, f"“{awaited.title}”" if awaited.title else awaited.behind
    if not others:
        return _("Waiting for its turn behind {}").format(name)
    words = _("Waiting for its turn behind {} and {} more")
    return words.format(name, formats.count(others))


def _doing(facts: RunFacts) -> str:
    if facts.status.phase in (Phase.EVALUATING, Phase.SAVING, Phase.COMPILING):
        return _phase_line(facts.status)
    where = _where_computed(facts)
    if not where:
        return _("Training")
    is_cpu = where[0].startswith(DEVICE_KINDS["cpu"])
    words = _("Training on the {}") if is_cpu else _("Training on {}")
    return words.format(where[0])


def _phase_line(status: RunStatus) -> str:
    words = {
        Phase.LOADING_DATA: _("Loading the data"),
        Phase.LOADING_MODEL: _("Loading the model"),
        Phase.TOKENIZING: _("Splitting the texts into tokens"),
        Phase.COMPILING: _("Compiling the model"),
        Phase.TRAINING: _("Preparing the first step"),
        Phase.EVALUATING: _("Evaluating on held-out data"),
        Phase.SAVING: _("Saving"),
    }
    if status.phase is None:
        return ""
    return f"{words[status.phase]}: {status.phase_detail}" if status.phase_detail else words[status.phase]


def _where_computed(facts: RunFacts) -> list[str]:
    """Device and precision: measured where the run has said so, else as planned."""
    ran, plan = facts.status.what_ran, facts.status.plan
    if ran is not None:
        return [f"{device_title(ran.device)}, {dtypes(ran.autocast_dtype or ran.parameter_dtype)}"]
    return [device_title(plan.device)] if plan is not None and plan.device else []


def _progress(status: RunStatus) -> list[str]:
    plan = status.plan
    if plan is None:
        return []
    steps = _("step {} of {}").format(formats.count(status.step), formats.count(plan.total_steps))
    epoch, planned = formats.epochs(status.epoch), formats.epochs(plan.epochs)
    if (
        status.epoch > plan.epochs and epoch != planned
    ):  # a last step of fewer rows: the plan's share is a little off
        return [steps, _("epoch {}").format(epoch)]
    return [steps, _("epoch {} of {}").format(epoch, planned)]


def time_left(facts: RunFacts) -> str:
    """How long the training still takes; empty until that can be told."""
    left = facts.status.seconds_left if facts.state is State.TRAINING else None
    if left is None:
        return ""
    return _("about {} left").format(formats.about(left))


def elapsed(facts: RunFacts, now: float) -> str:
    """How long the run has been worked on in all its attempts. `now` is unix seconds."""
    seconds = seconds_spent(facts.status, facts.state, facts.exit_record, now)
    return "" if seconds is None else formats.duration(seconds)


def summary(facts: RunFacts) -> list[tuple[str, str]]:
    """What came of a run that ended by itself: titles and values; empty before, and where nothing was trained."""
    done = facts.status.finished
    if done is None or not facts.state.is_over or not done.steps:
        return []
    rows = _results(done.metrics) if done.metrics else _last_evaluation(facts.status)
    speed = _("Speed of the last stretch")
    if facts.status.attempt <= 1:
        speed = _("Speed")
    rows.append((speed, formats.rate(done.samples_per_second)))
    rows.append((_("Time"), elapsed(facts, now=0.0)))
    rows.append((_("Peak memory"), formats.memory(facts.status.peak_bytes)))
    return [(title, value) for title, value in rows if value not in (formats.MISSING, "")]


def _results(metrics: dict[str, float | None]) -> list[tuple[str, str]]:
    return [
        (formats.metric_title(name), formats.metric_format(name)(value))
        for name, value in metrics.items()
        if value is not None and name in RESULTS
    ]


def _last_evaluation(status: RunStatus) -> list[tuple[str, str]]:
    """What was measured before the training went on: no result of the model that was kept."""
    measured = _results(status.metrics)
    if not measured or status.evaluated_at is None:
        return []
    title = _("Last evaluated at step {}").format(formats.count(status.evaluated_at))
    return [(title, DOT.join(f"{name} {value}" for name, value in measured))]


def crash_message(facts: RunFacts) -> MessageRaised | None:
    """What to say about a run whose process ended without a word; None for any other."""
    if facts.state is not State.CRASHED:
        return None
    if facts.is_gone:
        title = _("This run's folder was removed")
        detail = _("It was deleted, moved or renamed, or its disk is not connected.")
        return MessageRaised(id="crashed", level=Level.WARNING, title=title, detail=detail)
    title, reason = _crash_text(facts)
    fixes: tuple[Fix, ...] = ()
    if facts.exit_record is not None and facts.exit_record.out_of_memory and facts.options is not None:
        shortage = out_of_memory(facts.options, facts.status.forecast)
        title, reason, fixes = shortage.title, f"{shortage.detail}\n{reason}", shortage.fixes
    kept = ""
    if facts.saved_step is not None:
        kept = _("Its checkpoint of step {} is complete.").format(formats.count(facts.saved_step))
    detail = "\n".join(part for part in (reason, kept) if part)
    if facts.options is not None:
        fixes = (*fixes, going_on(facts.saved_step))
    return MessageRaised(id="crashed", level=Level.ERROR, title=title, detail=detail, fixes=fixes)


def going_on(saved_step: int | None) -> Fix:
    """The button that takes up a run again: from its last checkpoint, or from the beginning where none was saved."""
    if saved_step is None:
        return Fix(_("Start again"), action=FixAction.RESUME)
    words = _("Go on from step {}")
    return Fix(words.format(formats.count(saved_step)), action=FixAction.RESUME)


def _crash_text(facts: RunFacts) -> tuple[str, str]:
    record, crash = facts.exit_record, facts.crash
    if record is None:
        title = _("The training process is gone")
        return (crash.title.rstrip("."), crash.reason) if crash is not None else (title, "")
    if record.signal:
        title = _("The training process was ended by {}").format(record.signal)
    elif record.code is None:
        title = _("The training process was not started")
    else:
        title = _("The training process crashed")
    return title, record.reason


def unread_message(status: RunStatus) -> MessageRaised | None:
    """A note on what of a run can't be read; None where all of it was."""
    if status.is_of_newer_hone:
        title = _("A newer Hone wrote this run")
        detail = _("There may be more to it than is shown.")
    elif status.trouble:
        title, detail = _("Not all of what happened can be read"), status.trouble
    elif status.skipped:
        one = _("A line of what happened can't be read")
        several = _("{} lines of what happened can't be read")
        title = one if status.skipped == 1 else several.format(formats.count(status.skipped))
        detail = _("What stood there is left out here.")
    else:
        return None
    return MessageRaised(id="unread", level=Level.INFO, title=title, detail=detail)


def left_queue_message(facts: RunFacts) -> MessageRaised | None:
    """Where the run stands, how the attempt before crashed, and that it can go on; None for any other run."""
    status, record = facts.status, facts.exit_record
    has_left = facts.state in (State.STOPPED, State.PAUSED) and record is not None and record.code is None
    is_of_before = status.finished is not None and State(status.finished.state) is facts.state
    if record is None or not has_left or is_of_before or not status.attempt or facts.is_gone:
        return None
    crash = facts.crash
    title = _("It waited for its turn, and did not go on")
    before = _("Before that: {}").format(f"{crash.title}\n{crash.reason}") if crash else ""
    parts = (record.reason, _standing(facts), before)
    return MessageRaised(
        id="left-queue",
        level=Level.WARNING if crash else Level.INFO,
        title=title,
        detail="\n".join(part for part in parts if part),
        fixes=(going_on(facts.saved_step),) if facts.options is not None else (),
    )


def _standing(facts: RunFacts) -> str:
    """The step it has reached, and the one it would continue from."""
    at = _("It stands at step {}.").format(formats.count(facts.status.step))
    if facts.saved_step is None:
        return " ".join((at, _("No checkpoint was saved, so it would begin anew.")))
    kept = _("It can go on from its checkpoint of step {}.")
    return " ".join((at, kept.format(formats.count(facts.saved_step))))
