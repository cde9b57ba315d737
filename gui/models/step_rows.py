"""Steps and losses of a run as columns, so that a thousand of them cost the window no more than one."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from core.events import StepFinished
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
    """The losses that are known, each with its step; NaN where one was no number. Shapes (n,) and (m,).

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
        self._compiled = _numbers()
        self._losses = _numbers(), _numbers()
        self._norms = _numbers(), _numbers()

    def add(self, steps: list[StepFinished], origin: float) -> None:
        """Add steps with their losses and gradient norms; clocks count from `origin`, in unix seconds."""
        self._add_steps(steps, origin)
        self._add_losses(steps)

    def take(self) -> tuple[Floats, StepRows, LossRows]:
        """The numbers of the steps, shape (n,), what is known of them, and the losses."""
        columns = {name: np.asarray(self._columns[name]) for name in STEP_COLUMNS}
        pace = _pace(columns["step_seconds"], np.asarray(self._compiled))
        for name in ("samples_per_second", "tokens_per_second"):
            columns[name] = columns[name] * pace
        steps, losses = map(np.asarray, self._losses)
        bad = np.flatnonzero(~np.isfinite(losses))
        first = (int(steps[bad[0]]), float(losses[bad[0]])) if len(bad) else None
        norm_steps, norms = map(np.asarray, self._norms)
        told = LossRows(steps, _finite(losses), norm_steps, _finite(norms), first)
        return np.asarray(self._steps), StepRows(**columns), told

    def _add_steps(self, steps: list[StepFinished], origin: float) -> None:
        self._steps.fromlist([step.step for step in steps])
        columns = self._columns
        columns["step_clock"].fromlist([step.time - origin for step in steps])
        columns["step_epoch"].fromlist([step.epoch for step in steps])
        columns["learning_rate"].fromlist([step.learning_rate for step in steps])
        seconds = [step.seconds for step in steps]
        columns["step_seconds"].fromlist(seconds)
        columns["median_seconds"].fromlist(self._median.of(seconds))
        columns["data_seconds"].fromlist(_known([step.data_seconds for step in steps]))
        columns["forward_seconds"].fromlist(_known([step.forward_seconds for step in steps]))
        columns["backward_seconds"].fromlist(_known([step.backward_seconds for step in steps]))
        columns["optimizer_seconds"].fromlist(_known([step.optimizer_seconds for step in steps]))
        columns["samples_per_second"].fromlist([step.samples for step in steps])
        columns["tokens_per_second"].fromlist(_known([step.tokens for step in steps]))
        self._compiled.fromlist([step.compile_seconds for step in steps])

    def _add_losses(self, steps: list[StepFinished]) -> None:
        """Only where they are known."""
        losses = [one for one in steps if one.loss is not None or one.non_finite is not None]
        self._losses[0].fromlist([one.step for one in losses])
        self._losses[1].fromlist(_known([one.loss_value for one in losses]))
        norms = [one for one in steps if one.grad_norm is not None]
        self._norms[0].fromlist([one.step for one in norms])
        self._norms[1].fromlist(_known([one.grad_norm for one in norms]))


def _numbers() -> "array[float]":
    return array("d")


def _known(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _pace(seconds: Floats, compiled: Floats) -> Floats:
    """Steps a second; NaN for a step that is no measure of the pace, something having been compiled in it."""
    pace: Floats = np.full(len(seconds), np.nan)
    np.divide(1.0, seconds, out=pace, where=(compiled == 0) & (seconds > 0))
    return pace
