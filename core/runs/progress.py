"""Progress of a run in a terminal and in its log: a bar, or a line every tenth of the run."""

from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from core.base import formats
from core.base.formats import visible
from core.base.language import _
from core.runs.events import (
    Evaluated,
    Event,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    RunPlanned,
    StepFinished,
    TurnAwaited,
    TurnCame,
)
from core.runs.status import RunStatus
from core.runs.words import awaited_text, message_text, phase_text, phase_title

LINES_WITHOUT_A_BAR = 10
"""Progress lines per run where no bar can be drawn."""


class Progress:
    """Shows events as they come, with a bar if `stream` is a terminal; `status` has had each applied already.

    `run` is the run's folder, for the commands that messages suggest.
    """

    def __init__(self, status: RunStatus, stream: TextIO, run: Path | None = None) -> None:
        self._run = run
        self._status = status
        self._stream = stream
        self._bar: tqdm | None = None
        self._printed = 0
        self._awaited = ""
        self._raised: dict[str, str] = {}

    def show(self, event: Event) -> None:
        match event:
            case TurnAwaited(ahead=ahead) if ahead and awaited_text(event) != self._awaited:
                self._awaited = awaited_text(event)
                self.say(self._awaited)
            case TurnCame():
                self._awaited = ""
                self.say(_("Starting"))
            case PhaseChanged():
                self._show_phase(event)
            case RunPlanned():
                self._show_plan(event)
            case StepFinished():
                self._show_step()
            case Evaluated():
                if not self._status.is_test:  # whose figures come at the end
                    metrics = formats.metrics(event.metrics)
                    self.say(_("Step {step}, evaluated: {metrics}").format(step=event.step, metrics=metrics))
            case MessageRaised() if event.level is not Level.ERROR:  # errors are printed last
                self._raised[event.id] = event.title
                self.say(message_text(event, self._run))
            case MessageWithdrawn() if event.id in self._raised:
                self.say(_("Resolved: {title}").format(title=self._raised.pop(event.id)))

    def say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(visible(text), file=self._stream)
        else:
            print(visible(text), file=self._stream, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _show_phase(self, event: PhaseChanged) -> None:
        title = phase_text(event.phase, event.detail, self._status.examples)
        is_checkpoint = event.phase is Phase.SAVING and self._status.step < (self._status.total_steps or 0)
        done, _slash, batches = event.detail.partition("/")
        if self._status.is_test and event.phase is Phase.EVALUATING and batches.isdecimal():
            self._show_tenth(title, int(done), int(batches))
        elif self._bar is not None:
            self._bar.set_description_str(title)
        elif event.phase not in (Phase.TRAINING, Phase.EVALUATING) and not is_checkpoint:
            self.say(title)

    def _show_plan(self, plan: RunPlanned) -> None:
        if self._status.is_test:
            samples = formats.counted(plan.eval_samples, "example")
            self.say(_("{samples} to evaluate, on {device}").format(samples=samples, device=plan.device))
            return
        template = (
            _("{steps}, {batch} each, on {device}: {samples}, {held_out:,} for validation, {epochs}")
            if plan.eval_samples
            else _("{steps}, {batch} each, on {device}: {samples}, {epochs}")
        )
        self.say(
            template.format(
                steps=formats.counted(plan.total_steps, "step"),
                batch=formats.counted(plan.effective_batch, "example"),
                device=plan.device or _("this computer"),
                samples=formats.counted(plan.train_samples, "training example"),
                held_out=plan.eval_samples,
                epochs=formats.counted(plan.epochs, "epoch"),
            )
        )
        if self._stream.isatty():
            tqdm.monitor_interval = 0  # no watching thread for a bar that is fed ten times a second
            self._bar = tqdm(
                total=plan.total_steps,
                unit="step",
                file=self._stream,
                dynamic_ncols=True,
                desc=phase_title(Phase.TRAINING),
            )

    def _show_step(self) -> None:
        step, total = self._status.step, self._status.total_steps or 0
        loss = formats.number(self._status.loss)
        if self._bar is not None:
            self._bar.set_postfix_str(_("loss {loss}").format(loss=loss), refresh=False)
            self._bar.update(step - self._bar.n)
        elif total:
            text = _("Step {step} of {total}, loss {loss}").format(step=step, total=total, loss=loss)
            self._show_tenth(text, step, total)

    def _show_tenth(self, text: str, done: int, total: int) -> None:
        """Says how far the run is, if another tenth is done."""
        if done * LINES_WITHOUT_A_BAR // total <= self._printed:
            return
        self._printed = done * LINES_WITHOUT_A_BAR // total
        if (left := self._status.seconds_left) and left >= 1:
            text = _("{progress}, about {time} left").format(progress=text, time=formats.duration(left))
        self.say(text)
