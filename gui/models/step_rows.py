"""Steps and losses of a run as columns, so that a thousand of them cost the window no more than one."""

import math
from collections.abc import Iterable
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
        self._steps: list[int] = []
        self._columns: dict[str, list[float | None]] = {name: [] for name in STEP_COLUMNS}
        self._losses: list[tuple[int, float | None]] = []
        self._norms: list[tuple[int, float]] = []
        self._first_non_finite: tuple[int, float] | None = None

    def add_steps(self, steps: list[StepFinished], origin: float) -> None:
        """Add steps of a run that started at `origin`, in unix seconds."""
        self._steps += [step.step for step in steps]
        columns = self._columns
        columns["step_clock"] += [step.time - origin for step in steps]
        columns["step_epoch"] += [step.epoch for step in steps]
        columns["learning_rate"] += [step.learning_rate for step in steps]
        columns["step_seconds"] += [step.seconds for step in steps]
        columns["median_seconds"] += [self._median.add(step.seconds) for step in steps]
        columns["data_seconds"] += [step.data_seconds for step in steps]
        columns["forward_seconds"] += [step.forward_seconds for step in steps]
        columns["backward_seconds"] += [step.backward_seconds for step in steps]
        columns["optimizer_seconds"] += [step.optimizer_seconds for step in steps]
        columns["samples_per_second"] += [_rate(step, step.samples) for step in steps]
        columns["tokens_per_second"] += [_rate(step, step.tokens) for step in steps]

    def add_losses(self, told: Iterable[StepFinished | StepLoss]) -> None:
        """Add losses and gradient norms, where they are told."""
        for one in told:
            if one.grad_norm is not None:
                self._norms.append((one.step, one.grad_norm))
            if one.loss is None and one.non_finite is None:
                continue
            self._losses.append((one.step, one.loss))
            if self._first_non_finite is None and not math.isfinite(one.loss_value or 0.0):
                self._first_non_finite = one.step, one.loss_value or math.nan

    def take(self) -> tuple[Floats, StepRows, LossRows]:
        """The numbers of the steps, shape (n,), what is known of them, and the losses."""
        steps = np.array(self._steps, np.float64)
        rows = StepRows(*(np.array(self._columns[name], np.float64) for name in STEP_COLUMNS))
        return steps, rows, LossRows(*_pairs(self._losses), *_pairs(self._norms), self._first_non_finite)


def _pairs(told: list[tuple[int, float | None]] | list[tuple[int, float]]) -> tuple[Floats, Floats]:
    """Steps and values; None and infinity become NaN."""
    rows = np.array(told, np.float64).reshape(-1, 2)
    return rows[:, 0], np.where(np.isfinite(rows[:, 1]), rows[:, 1], np.nan)


def _rate(event: StepFinished, count: int | None) -> float:
    """So many a second; NaN where that isn't known or the step is no measure of the pace."""
    if count is None or event.compile_seconds or event.seconds <= 0:
        return math.nan
    return count / event.seconds
