"""Asks the model about its examples before training and at every evaluation, and reports what it said."""

import sys
import time
import traceback
from typing import Any

import torch
from transformers import TrainerCallback

from core.engine.predicting.speaker import Speaker
from core.engine.reporter import Reporter
from core.engine.requests import RequestBox
from core.events import ExamplesChosen, Phase, Predicted


class PredictionCallback(TrainerCallback):
    """Add it before whatever times the steps: its own time is none of theirs.

    A model that can't be asked is told of once and trained all the same.

    Args:
        reporter: Hears what the model said.
        trainer: Whose model is asked.
        speaker: The examples.
        requests: Where a stop or a pause is looked for while the model writes.
    """

    def __init__(self, reporter: Reporter, trainer: Any, speaker: Speaker, requests: RequestBox) -> None:
        self._reporter = reporter
        self._trainer = trainer
        self._speaker = speaker
        self._requests = requests
        self._has_failed = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tell the examples, and what the model says of them untrained.

        Raises:
            EndRequested: A pause was asked.
        """
        self._reporter.write(ExamplesChosen(examples=self._speaker.examples))
        if not state.global_step or self._trainer.eval_dataset is None:  # else it was asked before the pause
            self._ask(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask again.

        Raises:
            EndRequested: A pause was asked.
        """
        self._ask(state)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask again where nothing is evaluated: there may be prompts of the person's own.

        Raises:
            EndRequested: A pause was asked.
        """
        if self._trainer.eval_dataset is None:
            self._ask(state)

    def _ask(self, state: Any) -> None:
        if self._has_failed or self._requests.ending is not None:
            return
        self._reporter.phase(Phase.EVALUATING, "examples")
        begun = time.perf_counter()
        model = self._trainer.model
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                said = self._speaker.say(model, self._requests.end_is_asked)
        except (
            RuntimeError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            NotImplementedError,
        ) as error:
            self._give_up(error)
            return
        finally:
            model.train(was_training)
        self._requests.raise_if_pausing()  # all is asked when the run goes on
        seconds = time.perf_counter() - begun
        self._reporter.write(
            Predicted(step=state.global_step, epoch=state.epoch or 0.0, said=said, seconds=seconds)
        )

    def _give_up(self, error: Exception) -> None:
        """What is only looked at must not end a run that learns."""
        self._has_failed = True
        traceback.print_exc(file=sys.stderr)
        self._reporter.warn(
            "no-predictions",
            "The model's predictions can't be shown",
            f"It was asked about its examples and gave {type(error).__name__}: {error}. Training goes on.",
        )
