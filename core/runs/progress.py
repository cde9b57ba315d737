"""Progress of a run in a terminal and in its log: a bar, or a line every tenth of the run."""

from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from core.base import formats
from core.base.formats import visible
from core.base.language import _
from core.runs import queue
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
from core.runs.words import message_text

LINES_WITHOUT_A_BAR = 10
"""Progress lines per run where no bar can be drawn."""

PHASES = {
    Phase.LOADING_DATA: _("Loading the data"),
    Phase.LOADING_MODEL: _("Loading the model"),
    Phase.TOKENIZING: "Tokenizing",
    Phase.COMPILING: "Compiling",
    Phase.TRAINING: "Training",
    Phase.EVALUATING: "Evaluating",
    Phase.SAVING: "Saving",
}


class Progress:
    """Shows events as they come.

    Args:
        status: The run's state, to which each event has been applied already.
        stream: Where to write; a bar is drawn if it is a terminal.
        run: The run's folder, for the commands that messages suggest.
    """

    def __init__(self, status: RunStatus, stream: TextIO, run: Path | None = None) -> None:
        self._run = run
        self._status = status
        self._stream = stream
        self._bar: tqdm | None = None
        self._told = 0
        self._raised: dict[str, str] = {}

    def show(self, event: Event) -> None:
        match event:
            case TurnAwaited(ahead=1, behind=queue.BENCHMARK):
                self.say(_("Waiting for its turn, until a benchmark is done"))
            case TurnAwaited(ahead=ahead) if ahead:
                last = event.title or event.behind
                self.say(
                    f"Waiting for its turn, {formats.counted(ahead, 'run')} ahead; it comes after {last}"
                )
            case TurnCame():
                self.say(_("Its turn has come"))
            case PhaseChanged():
                self._show_phase(event)
            case RunPlanned():
                self._show_plan(event)
            case StepFinished():
                self._show_step()
            case Evaluated():
                self.say(
                    _("Step {step}, evaluated: {metrics}").format(
                        step=event.step, metrics=formats.metrics(event.metrics)
                    )
                )
            case MessageRaised() if (
                event.level is not Level.ERROR
            ):  # errors are said last, where one looks for them
                self._raised[event.id] = event.title
                self.say(message_text(event, self._run))
            case MessageWithdrawn() if event.id in self._raised:
                self.say(_("No longer so: {id}").format(id=self._raised.pop(event.id)))

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
        words = PHASES[event.phase]
        if self._bar is not None:
            self._bar.set_description_str(words)
        elif event.phase not in (Phase.TRAINING, Phase.EVALUATING) and not self._is_checkpoint(event):
            self.say(f"{words}: {event.detail}" if event.detail else words)

    def _is_checkpoint(self, event: PhaseChanged) -> bool:
        """Whether what is saved is a checkpoint on the way, and no news."""
        return event.phase is Phase.SAVING and self._status.step < (self._status.total_steps or 0)

    def _show_plan(self, plan: RunPlanned) -> None:
        held_out = (
            _(", {eval_samples:,} held out").format(eval_samples=plan.eval_samples)
            if plan.eval_samples
            else ""
        )
        self.say(
            _("{steps}, {samples} each, on {device}: {samples_2}{held_out}, {epochs}").format(
                steps=formats.counted(plan.total_steps, "step"),
                samples=formats.counted(plan.effective_batch, "sample"),
                device=plan.device or "this computer",
                samples_2=formats.counted(plan.train_samples, "training sample"),
                held_out=held_out,
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
                desc=PHASES[Phase.TRAINING],
            )

    def _show_step(self) -> None:
        step, total = self._status.step, self._status.total_steps or 0
        loss = formats.number(self._status.loss)
        if self._bar is not None:
            self._bar.set_postfix_str(_("loss {loss}").format(loss=loss), refresh=False)
            self._bar.update(step - self._bar.n)
        elif total and step * LINES_WITHOUT_A_BAR // total > self._told:
            self._told = step * LINES_WITHOUT_A_BAR // total
            left = self._status.seconds_left
            about = (
                _(", about {left} left").format(left=formats.plain_duration(left))
                if left and left >= 1
                else ""
            )
            self.say(
                _("Step {step} of {total}, loss {loss}{about}").format(
                    step=step, total=total, loss=loss, about=about
                )
            )
