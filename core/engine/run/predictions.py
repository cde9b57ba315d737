"""What the model says of examples while it trains: predictions on the chosen ones, and the worst mistakes."""

import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from core.base.files import write_atomically
from core.base.language import _
from core.engine.reporter import Reporter
from core.engine.run.requests import EndRequested, RequestBox
from core.runs.events import (
    SAMPLE_PREDICTIONS,
    ConfusionCounted,
    Example,
    ExamplesChosen,
    Outcome,
    Phase,
    Predicted,
    Said,
    Validation,
)
from core.runs.folder import RunFolder

ShouldStop = Callable[[], bool]
Predict = Callable[[ShouldStop], tuple[Said, ...]]
"""Predicts all examples with the current weights; generation ends early if asked to."""


class Predictions:
    """Reports predictions on the chosen examples. A failure is reported once, and the run goes on.

    Args:
        reporter: Writes the events.
        requests: A pause interrupts the predictions.
        examples: What is predicted.
        predict: Predicts it.
        agreed: Returns rank 0's value, where several processes train together.
    """

    def __init__(
        self,
        reporter: Reporter,
        requests: RequestBox,
        examples: tuple[Example, ...],
        predict: Predict,
        agreed: Callable[[bool], bool] = bool,
    ) -> None:
        self._reporter = reporter
        self._requests = requests
        self._examples = examples
        self._predict = predict
        self._agreed = agreed
        self._has_failed = False

    def begin(self) -> None:
        """Reports which examples were chosen."""
        self._reporter.write(ExamplesChosen(examples=self._examples))

    def tell(self, step: int, epoch: float) -> None:
        """Predicts and reports.

        Raises:
            EndRequested: A pause was requested; a resumed run predicts again.
        """
        if self._has_failed or self._requests.cuts_short():
            return
        self._reporter.phase(Phase.EVALUATING, SAMPLE_PREDICTIONS)
        start = time.perf_counter()
        # before the first step there is nothing to judge: any request interrupts
        asks = self._requests.cuts_short if step else self._requests.end_requested
        said = self._predicted(partial(asks, alone=True))
        self._has_failed = self._agreed(self._has_failed)
        if self._requests.end_requested() and self._requests.ending is Outcome.PAUSED:
            raise EndRequested(Outcome.PAUSED)
        if not self._has_failed:
            seconds = time.perf_counter() - start
            self._reporter.write(Predicted(step=step, epoch=epoch, said=said, seconds=seconds))

    def _predicted(self, should_stop: ShouldStop) -> tuple[Said, ...]:
        try:
            return self._predict(should_stop)
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            self._has_failed = True
            traceback.print_exc(file=sys.stderr)
            self._reporter.warn(
                "no-predictions",
                _("The model's predictions can't be shown"),
                _("{name}: {error}. Training continues.").format(name=type(error).__name__, error=error),
            )
            return ()


def keep_mistakes(
    run: RunFolder,
    reporter: Reporter,
    confusion: ConfusionCounted | None,
    validation: Validation | None,
    *,
    is_kept: bool,
) -> None:
    """Reports an evaluation's confusion matrix, and writes its mistakes into the run's folder if its weights are kept.

    Pictures that only the mistakes of other evaluations had are deleted. Nothing is raised for a full disk, which is
    met, and reported, where checkpoints are saved.
    """
    if validation is not None:
        with suppress(OSError):
            if is_kept:
                write_atomically(run.validation_file, msgspec.json.encode(validation))
            kept = run.validation()
            named = {one.example.image for one in kept.examples} if kept is not None else set()
            for file in (run.path / "examples").glob("validation-*.png"):
                if f"examples/{file.name}" not in named:
                    file.unlink()
    if confusion is not None:
        reporter.write(confusion)
