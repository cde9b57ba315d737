"""Steps and losses of a run as columns, so that a thousand of them cost the window no more than one."""

import math
from array import array
from dataclasses import dataclass, fields

import numpy as np

from core.events import StepFinished, StepLoss
from gui.models.smoothing import RunningMedian
from gui.plots.reduction import Floats

PARTS = ("data_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")
"""The parts of a step, as `core.events.StepFinished` names them and `StepRows` does, in the order of their doing."""


@dataclass(frozen=True)
class StepRows:
    """Steps, one a row; each column is named as the series that it belongs to in `RunHistory`. Shapes (n,)."""

    step_clock: Floats
    step_epoch: Floats
    learning_rate: Floats
    step_seconds: Floats
    median_seconds: Floats
    data_seconds: Floats
    forward_seconds: Floats
    backward_seconds: Floats
    optimizer_seconds: Floats
    samples_per_second: Floats
    tokens_per_second: Floats


STEP_COLUMNS = tuple(column.name for column in fields(StepRows))


@dataclass(frozen=True)
class LossRows:
    """Losses as they were told, each with its step; NaN where one was no number. Shapes (n,) and (m,).

    `grad_norm` has steps of its own. `first_non_finite` is the first step whose loss was no number, and that loss.
    """

    loss_steps: Floats
    loss: Floats
    grad_steps: Floats
    grad_norm: Floats
    first_non_finite: tuple[int, float] | None


class StepColumns:
    """Collects steps and losses until they are taken.

    Args:
        median: Goes on from one collection to the next.
    """

    def __init__(self, median: RunningMedian) -> None:
        self._median = median
        self._steps = _numbers()
        self._columns = {name: _numbers() for name in STEP_COLUMNS}
        self._losses = _numbers(), _numbers()
        self._norms = _numbers(), _numbers()

    def add_steps(self, steps: list[StepFinished], origin: float) -> None:
        """Add steps of a run that started at `origin`, in unix seconds."""
        self._steps.extend([step.step for step in steps])
        columns = self._columns
        columns["step_clock"].extend([step.time - origin for step in steps])
        columns["step_epoch"].extend([step.epoch for step in steps])
        columns["learning_rate"].extend([step.learning_rate for step in steps])
        columns["step_seconds"].extend([step.seconds for step in steps])
        columns["median_seconds"].extend([self._median.add(step.seconds) for step in steps])
        columns["data_seconds"].extend(_known([step.data_seconds for step in steps]))
        columns["forward_seconds"].extend(_known([step.forward_seconds for step in steps]))
        columns["backward_seconds"].extend(_known([step.backward_seconds for step in steps]))
        columns["optimizer_seconds"].extend(_known([step.optimizer_seconds for step in steps]))
        columns["samples_per_second"].extend([_rate(step, step.samples) for step in steps])
        columns["tokens_per_second"].extend([_rate(step, step.tokens) for step in steps])

    def add_losses(self, told: list[StepFinished | StepLoss]) -> None:
        """Add losses and gradient norms, where they are told."""
        losses = [one for one in told if one.loss is not None or one.non_finite is not None]
        self._losses[0].extend([one.step for one in losses])
        self._losses[1].extend(_known([one.loss_value for one in losses]))
        norms = [one for one in told if one.grad_norm is not None]
        self._norms[0].extend([one.step for one in norms])
        self._norms[1].extend(_known([one.grad_norm for one in norms]))

    def take(self) -> tuple[Floats, StepRows, LossRows]:
        """The numbers of the steps, shape (n,), what is known of them, and the losses."""
        rows = StepRows(*(np.asarray(self._columns[name]) for name in STEP_COLUMNS))
        steps, losses = map(np.asarray, self._losses)
        bad = np.flatnonzero(~np.isfinite(losses))
        first = (int(steps[bad[0]]), float(losses[bad[0]])) if len(bad) else None
        norm_steps, norms = map(np.asarray, self._norms)
        told = LossRows(steps, _finite(losses), norm_steps, _finite(norms), first)
        return np.asarray(self._steps), rows, told


def _numbers() -> "array[float]":
    return array("d")


def _known(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _rate(event: StepFinished, count: int | None) -> float:
    """So many a second; NaN where that isn't known or the step is no measure of the pace."""
    if count is None or event.compile_seconds or event.seconds <= 0:
        return math.nan
    return count / event.seconds
