"""What a chart lies over: how its series, its axis and the seconds worked turn into each other."""

from collections.abc import Callable
from dataclasses import dataclass

from gui.models.run_history import RunHistory
from gui.plots.axes import CLOCK, EPOCH, STEP, AxisUnit
from gui.plots.reduction import Floats
from gui.plots.shared_view import XKind


def _same(values: Floats) -> Floats:
    return values


@dataclass(frozen=True)
class XScale:
    """One way to lie over something.

    Args:
        unit: How the axis is written.
        to_clock: From the axis to seconds worked; None where that isn't known yet.
        from_clock: The other way.
        to_axis: From where a series has its points to where they stand on the axis. Shape (n,), ascending.
        from_axis: From a place on the axis to one in the series.
        counts_steps: Whether the series lie over training steps.
    """

    unit: AxisUnit
    to_clock: Callable[[float], float | None]
    from_clock: Callable[[float], float | None]
    to_axis: Callable[[Floats], Floats] = _same
    from_axis: Callable[[float], float | None] = float
    counts_steps: bool = False

    def nearest(self, place: float) -> float | None:
        """Where in the series a place on the axis is: of training steps, the nearest one."""
        found = self.from_axis(place)
        return float(round(found)) if found is not None and self.counts_steps else found


SHORTEST_CLOCK = 10.0
"""Seconds that a chart over time covers at least."""

CLOCK_SCALE = XScale(CLOCK, float, float)
"""Of series over the seconds worked."""


def step_scale(history: RunHistory, kind: XKind) -> XScale:
    """Of series over training steps: drawn over these, over epochs, or over time."""
    match kind:
        case XKind.STEP:
            return XScale(STEP, history.clock_of_step, history.step_at, counts_steps=True)
        case XKind.TIME:
            return XScale(CLOCK, float, float, _to_clock(history), history.step_at, counts_steps=True)
        case XKind.EPOCH:
            return _over_epochs(history)


def epochs_a_step(history: RunHistory) -> float:
    """How much of an epoch one step is; 1 before that is known."""
    steps, epochs = history.step_epoch.last_x, history.step_epoch.last
    return epochs / steps if steps and epochs else 1.0


def _over_epochs(history: RunHistory) -> XScale:
    share = epochs_a_step(history)

    def to_clock(epoch: float) -> float | None:
        return history.clock_of_step(epoch / share)

    def from_clock(clock: float) -> float | None:
        step = history.step_at(clock)
        return None if step is None else step * share

    return XScale(
        EPOCH,
        to_clock,
        from_clock,
        lambda steps: steps * share,
        lambda epoch: epoch / share,
        counts_steps=True,
    )


def _to_clock(history: RunHistory) -> Callable[[Floats], Floats]:
    def convert(steps: Floats) -> Floats:
        return history.step_clock.along(steps) if len(history.step_clock) else steps

    return convert
