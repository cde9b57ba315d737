"""What a person asks of a run while it trains, put into effect at Trainer's steps."""

from typing import Any

from transformers import TrainerCallback

from core.engine.callbacks import told
from core.engine.reporter import Reporter
from core.engine.requests import RequestBox
from core.engine.trainer import WatchedTrainer


class RequestCallback(TrainerCallback):
    """Ends training where the person asked for it, or saves. A run whose keeper has died goes on: no work is lost."""

    def __init__(self, requests: RequestBox, trainer: WatchedTrainer, reporter: Reporter) -> None:
        self._requests = requests
        self._trainer = trainer
        self._reporter = reporter
        self._owes_checkpoint = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After each step: end if asked, saving a checkpoint but not evaluating first; or only save one."""
        self._requests.can_save = True
        if self._requests.end_is_asked():
            control.should_training_stop = True
        elif self._is_to_save():
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A person who pressed Stop or Pause doesn't want to wait for an evaluation."""
        if self._requests.ending is not None:
            control.should_evaluate = False
            control.should_save = True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation can only be interrupted from inside.

        Raises:
            EndRequested: A stop or a pause was asked.
        """
        self._requests.raise_if_ending()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What was asked during the evaluation is done after it, and not a step later."""
        if self._requests.end_is_asked():
            control.should_training_stop = True
            control.should_save = True
        elif self._is_to_save():
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Name a checkpoint that stood there already to whoever has asked for one, and waits to hear of it."""
        saved = self._trainer.last_saved
        if self._owes_checkpoint and saved is not None and not self._trainer.saved_anew:
            self._reporter.write(told(saved, 0.0))
        self._owes_checkpoint = False

    def _is_to_save(self) -> bool:
        """Whether a checkpoint was asked for that isn't saved yet: Trainer drops what it is told before a step."""
        self._owes_checkpoint = self._requests.save_is_asked() or self._owes_checkpoint
        return self._owes_checkpoint
