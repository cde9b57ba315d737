"""What the window says about runs: their state, how they ended, what came of them, how good forecasts were."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from PySide6.QtWidgets import QWidget

from core.base import formats
from core.base.errors import Fix, FixAction
from core.base.language import _, isolated, ngettext
from core.memory.history import PastRun, teaching, typical_error
from core.options import RunOptions
from core.options.choices import DEVICE_KINDS, device_title
from core.runs.crash import Crash
from core.runs.events import SAMPLE_PREDICTIONS, Level, MessageRaised, Phase, TurnAwaited
from core.runs.folder import Connection, ExitRecord
from core.runs.related import Related, Relation
from core.runs.status import RunStatus, State
from core.runs.summary import seconds_spent
from core.runs.words import awaited_text, dtypes, out_of_memory, phase_text, word_of
from gui.base.questions import Question
from gui.widgets.form import sentence


def forecast_text(past: Sequence[PastRun]) -> str:
    """How good the memory forecasts were; empty without any."""
    runs = teaching(past)
    error = typical_error(runs)
    if error is None:
        return ""
    return ngettext(
        "The estimate of {count} run was off by {error}.",
        "The estimates of {count} runs were off by {error} (median).",
        len(runs),
    ).format(error=formats.whole_percent(error), count=formats.count(len(runs)))


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
"""Fields of `gui.base.tokens.Tokens`."""


def state_title(state: State, *, stopped_early: bool = False, is_test: bool = False) -> str:
    return formats.capitalized(word_of(state, stopped_early=stopped_early, is_test=is_test))


class BeginTurn(Enum):
    """When a run begins."""

    WAIT = auto()
    NOW = auto()
    NEVER = auto()


AskTurn = Callable[[TurnAwaited, QWidget], BeginTurn]
"""Asks when a run begins that others are ahead of."""


def question_about(
    awaited: TurnAwaited, parent: QWidget | None, *, waits: bool = False
) -> Question[BeginTurn]:
    """Whether to wait for the runs ahead; `waits`: it is queued already."""
    title = ngettext("{name} is running", "{count} runs are running or queued", awaited.ahead).format(
        name=f"“{isolated(awaited.title)}”" if awaited.title else awaited.behind, count=awaited.ahead
    )
    text = _(
        "Two runs at the same time slow each other down and share the memory. If the memory runs out, one of them "
        "fails."
    )
    waiting = {} if waits else {BeginTurn.WAIT: _("Add to queue")}
    return Question(title, text, {**waiting, BeginTurn.NOW: _("Start now")}, parent)


def ask_turn(awaited: TurnAwaited, parent: QWidget) -> BeginTurn:
    return question_about(awaited, parent).ask(BeginTurn.NEVER)


def starts_now(awaited: TurnAwaited | None, parent: QWidget) -> bool:
    """Ask whether a queued run starts now, beside the runs ahead of it."""
    return (
        awaited is None or question_about(awaited, parent, waits=True).ask(BeginTurn.NEVER) is BeginTurn.NOW
    )


DOT = " · "

GONE_SECONDS = 300.0
"""After so long without an answer a run elsewhere can be given up."""

RESULTS = (
    *("eval_loss", "eval_accuracy", "eval_f1", "eval_pearson", "eval_spearman", "eval_mae"),
    *("eval_perplexity", "eval_reward_accuracy"),
)
"""Metrics among a run's figures; the tab Metrics has all of them."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """All that a run page knows at one moment.

    `options` is None if `run.toml` can't be read. `is_gone`: the folder doesn't exist any more. `saved_step` is that of
    the checkpoint from which a run that is over can continue. `crash` explains an end that the engine didn't report.
    `is_between`: a new attempt has begun, but `status` is still that of the one before. `related` is the run that
    belongs to it. `connection` is the link to the computer it trains on, if that is another one.
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
    related: Related = field(default_factory=Related)
    connection: Connection | None = None

    @property
    def is_cut_off(self) -> bool:
        """Whether the run goes on elsewhere and Hone can't reach it now."""
        link = self.connection
        is_tried = link is not None and not link.connected and bool(link.heard or link.problem)
        return is_tried and not self.state.is_over

    @property
    def leads_to_chat(self) -> bool:
        """Whether the run has ended as the first of two, so that the second is what comes next."""
        has_ended = self.state.is_over and self.state is not State.PAUSED
        return has_ended and self.related.relation is Relation.CHAT


def related_text(facts: RunFacts) -> str:
    """The link to the run that belongs to this one, with its state or result; empty if none does."""
    relation, other = facts.related.relation, facts.related.other
    if other is None:
        return ""
    match relation:
        case Relation.TESTED:
            text = _("Tests the model of “{run}”")
        case Relation.TEST:
            result = state_title(other.state)
            if other.metric is not None:
                result = f"{formats.metric_title(other.metric)} {formats.metric_format(other.metric)(other.result)}"
            return _("Tested on {data}: {result}").format(data=isolated(other.data), result=result)
        case Relation.PRETRAINED:
            text = _("Run 2 of 2: chat, after “{run}”")
        case _ if facts.leads_to_chat:
            text = _("Show run 2 of 2, chat: “{run}” ({state})")
        case _:
            text = _("Run 1 of 2: then “{run}” learns to chat")
    return text.format(run=isolated(other.title), state=state_title(other.state))


def state_line(facts: RunFacts) -> str:
    """The line below a run's name."""
    status, state, progress = facts.status, facts.state, progress_of(facts.status)
    link = facts.connection
    if link is not None and link.connected and link.doing and not state.is_over:
        parts = [sentence(link.doing), *progress]
    elif link is not None and facts.is_cut_off and state in (State.PAUSING, State.STOPPING):
        waits = _("{state} – once {computer} is reached").format(
            state=state_title(state), computer=link.computer
        )
        parts = [waits, *progress]
    elif state is State.STARTING:
        parts = [("" if facts.is_between else _phase_text(status)) or _("Starting – loading libraries…")]
    elif state is State.QUEUED:
        is_new = status.attempt and facts.saved_step is None
        parts = [awaited_text(status.awaited), *([_("starts from the beginning")] if is_new else progress)]
    elif state is State.PAUSED:
        parts = [_("Paused, memory released"), *progress]
    elif state in (State.PAUSING, State.STOPPING):
        parts = [*_ending_texts(facts), *progress]
    elif state is State.TRAINING:
        parts = [_training_text(facts), *progress]
    else:
        duration = "" if summary(facts) else elapsed(facts, now=0.0)
        after = [_("after {duration}").format(duration=duration)] if duration else []
        title = state_title(state, stopped_early=status.stopped_early)
        parts = [title, *after, *progress, _device_text(facts)]
    return formats.in_line(*parts)


def _ending_texts(facts: RunFacts) -> list[str]:
    """What a run still does before it has paused or stopped."""
    title, phase = state_title(facts.state), None if facts.is_between else facts.status.phase
    if phase is Phase.TRAINING:
        return [_("{state} – finishing this step…").format(state=title)]
    if phase is Phase.SAVING:
        is_pause = facts.state is State.PAUSING
        return [_("Pausing – saving checkpoint…") if is_pause else _("Stopping – saving model…")]
    return [title, "" if phase is None else _phase_text(facts.status)]


def _training_text(facts: RunFacts) -> str:
    if facts.status.is_test:
        return _testing_text(facts.status)
    if facts.status.phase in (Phase.EVALUATING, Phase.SAVING, Phase.COMPILING):
        return _phase_text(facts.status)
    device = _device_text(facts)
    if not device:
        return state_title(State.TRAINING)
    is_cpu = device.startswith(DEVICE_KINDS["cpu"])
    return (_("Training on the {device}") if is_cpu else _("Training on {device}")).format(device=device)


def _testing_text(status: RunStatus) -> str:
    """Return how far a test is, in batches."""
    if status.phase is Phase.EVALUATING and status.phase_detail == SAMPLE_PREDICTIONS:
        return _phase_text(status)
    _time, done, batches = status.evaluated[-1] if status.evaluated else (0.0, 0, 0)
    if not done:
        return state_title(State.TRAINING, is_test=True)
    return _("Testing: {done} of {batches} batches").format(
        done=formats.count(done), batches=formats.count(batches)
    )


def _phase_text(status: RunStatus) -> str:
    if status.phase is None:
        return ""
    if status.phase is Phase.TRAINING:
        return _("Preparing the first step")
    return phase_text(status.phase, status.phase_detail, status.examples)


def _device_text(facts: RunFacts) -> str:
    """Device and precision as reported by the run, else the planned device; of another computer with its name."""
    ran, plan = facts.status.what_ran, facts.status.plan
    computers = "+".join(facts.options.device.computers) if facts.options is not None else ""
    if ran is not None:
        parts = [device_title(f"{ran.device}@{computers}"), dtypes(ran.autocast_dtype or ran.parameter_dtype)]
        if ran.engine.startswith("MLX"):
            parts.insert(1, "MLX")
        return formats.enumerated(parts)
    return device_title(f"{plan.device}@{computers}") if plan is not None and plan.device else ""


def connection_line(facts: RunFacts) -> str:
    """Whether the computer is reached that the run trains on, and what a lost connection means; empty for this one."""
    link = facts.connection
    if link is None or facts.state.is_over:
        return ""
    text = _("Connected to {computer}. Without a connection the run goes on there.")
    if facts.is_cut_off:
        text = _("No connection to {computer} now.")
    elif not link.connected:
        text = _("Connecting to {computer}…")
    return text.format(computer=link.computer)


def connection_message(facts: RunFacts, now: float) -> MessageRaised | None:
    """A message about a run elsewhere that can't be reached. `now` is unix seconds."""
    link = facts.connection
    if link is None or not facts.is_cut_off:
        return None
    title, heard = _("No connection to {computer}"), ""
    if link.heard:
        title = _("Connection to {computer} lost")
        heard = _("Last heard {duration} ago.").format(duration=formats.about(now - link.heard))
    goes_on = _(
        "The run goes on there; Hone keeps trying to connect. Pause and Stop reach it once connected."
    )
    if not link.attempt:
        goes_on = _("The run begins once it is reached; Hone keeps trying to connect.")
    fixes = [Fix(_("Try now"), action=FixAction.RECONNECT)]
    if now - link.heard > GONE_SECONDS:
        fixes.append(Fix(_("Give up…"), action=FixAction.GIVE_UP))
    return MessageRaised(
        id="connection",
        level=Level.WARNING,
        title=title.format(computer=link.computer),
        detail="\n".join((formats.paragraph(heard, goes_on), *link.problem.splitlines()[:1])),
        fixes=tuple(fixes),
    )


def progress_of(status: RunStatus) -> list[str]:
    plan = status.plan
    if plan is None or status.is_test:
        return []
    step = _("step {step} of {total}").format(
        step=formats.count(status.step), total=formats.count(plan.total_steps)
    )
    if plan.epochs < 1:
        return [step]
    epoch, planned = formats.epochs(status.epoch), formats.epochs(plan.epochs)
    if status.epoch > plan.epochs and epoch != planned:  # the last batch of an epoch may be smaller
        return [step, _("epoch {epoch}").format(epoch=epoch)]
    return [step, _("epoch {epoch} of {total}").format(epoch=epoch, total=planned)]


def time_left(facts: RunFacts, now: float) -> str:
    """Return the time left; empty unless the run trains or is about to. `now` is unix seconds."""
    status = facts.status
    if facts.state not in (State.STARTING, State.TRAINING):
        return ""
    seconds = status.seconds_left if facts.state is State.TRAINING else None
    if status.phase is Phase.EVALUATING and not status.is_test and seconds is not None:
        under_way = now - status.clock_moved - (status.last_event_time or now)
        seconds -= max(0.0, min(under_way, status.evaluation_seconds))
    if seconds is None:
        return _("working out the time")
    may_stop = facts.options is not None and facts.options.training.early_stopping_patience
    text = _("at most {duration} left") if may_stop else _("about {duration} left")
    return text.format(duration=formats.about(seconds))


def elapsed(facts: RunFacts, now: float) -> str:
    """Time worked in all attempts. `now` is unix seconds."""
    seconds = seconds_spent(facts.status, facts.state, facts.exit_record, now)
    return "" if seconds is None else formats.duration(seconds)


def summary(facts: RunFacts) -> list[tuple[str, str]]:
    """Titles and values of a run that has ended; empty before, also while it is paused, and if nothing was trained."""
    status, finished = facts.status, facts.status.finished
    if finished is None or not facts.state.is_over or facts.state is State.PAUSED:
        return []
    if not finished.steps and not status.is_test:
        return []
    speed = _("Throughput") if status.attempt <= 1 else _("Throughput since resume")
    return _known(
        *_results(finished.metrics, status),
        (speed, formats.rate(finished.samples_per_second)),
        (_("Time"), elapsed(facts, now=0.0)),
        (_("Peak memory"), formats.memory(status.peak_bytes)),
    )


def so_far(facts: RunFacts) -> list[tuple[str, str]]:
    """Titles and values of a run that has no result: of its newest step and evaluation; empty before the first."""
    status = facts.status
    metrics = status.evaluations[-1].metrics if status.evaluations else {}
    peak = _("Peak memory") if facts.state.is_over else _("Peak memory so far")
    return _known(
        (_("Training loss"), formats.loss(status.loss)),
        *_results(metrics, status),
        (peak, formats.memory(status.peak_bytes if status.step else None)),
    )


def _known(*rows: tuple[str, str]) -> list[tuple[str, str]]:
    return [(title, value) for title, value in rows if value not in (formats.MISSING, "")]


def _results(metrics: Mapping[str, float | None], status: RunStatus) -> list[tuple[str, str]]:
    titles = {} if status.is_test else {"eval_loss": _("Validation loss")}
    return [
        (titles.get(name, formats.metric_title(name)), formats.metric_format(name)(value))
        for name, value in metrics.items()
        if name in RESULTS
    ]


def crash_message(facts: RunFacts) -> MessageRaised | None:
    """A message about a run whose process ended without reporting it."""
    if facts.state is not State.CRASHED:
        return None
    if facts.is_gone:
        title = _("This run's folder was removed")
        detail = _("It was deleted, moved or renamed, or its disk is not connected.")
        return MessageRaised(id="crashed", level=Level.WARNING, title=title, detail=detail)
    record, crash = facts.exit_record, facts.crash
    fixes: tuple[Fix, ...] = ()
    title, reason = _("The training process has ended"), ""
    if crash is not None:
        title, reason = formats.without_stop(crash.title), crash.reason
    if record is not None and record.out_of_memory and facts.options is not None:
        shortage = out_of_memory(facts.options, facts.status.forecast)
        title, fixes = shortage.title, shortage.fixes
        reason = "\n".join(filter(None, (shortage.detail, reason)))
    saved = ""
    if facts.saved_step is not None:
        saved = _("Its checkpoint of step {step} is complete.").format(step=formats.count(facts.saved_step))
    return MessageRaised(
        id="crashed",
        level=Level.ERROR,
        title=title,
        detail="\n".join(filter(None, (reason, saved))),
        fixes=(*fixes, *_resume_fixes(facts)),
    )


def _resume_fixes(facts: RunFacts) -> tuple[Fix, ...]:
    """The button that resumes the run, from its last checkpoint or from the beginning."""
    if facts.options is None:
        return ()
    title = _("Start again")
    if facts.saved_step is not None:
        title = _("Resume from step {step}").format(step=formats.count(facts.saved_step))
    return (Fix(title, action=FixAction.RESUME),)


def left_queue_message(facts: RunFacts) -> MessageRaised | None:
    """A message about a run that left the queue before it was resumed, with the end of the attempt before."""
    status, record, crash = facts.status, facts.exit_record, facts.crash
    has_left = facts.state in (State.STOPPED, State.PAUSED) and record is not None and record.code is None
    is_earlier = status.finished is not None and State(status.finished.state) is facts.state
    if record is None or not has_left or is_earlier or not status.attempt or facts.is_gone:
        return None
    step = formats.count(status.step)
    if facts.saved_step is None:
        progress = _("It is at step {step}, without a checkpoint: it would start over.").format(step=step)
    else:
        progress = _("It is at step {step} and can be resumed from its checkpoint of step {saved}.").format(
            step=step, saved=formats.count(facts.saved_step)
        )
    before = _("Before that: {reason}").format(reason=f"{crash.title}\n{crash.reason}") if crash else ""
    return MessageRaised(
        id="left-queue",
        level=Level.WARNING if crash else Level.INFO,
        title=_("Removed from the queue before it resumed"),
        detail="\n".join(filter(None, (record.reason, progress, before))),
        fixes=_resume_fixes(facts),
    )
