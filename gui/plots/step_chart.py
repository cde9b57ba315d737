"""What all charts over training steps have in common."""

from gui import numbers
from gui.models.run_history import RunHistory
from gui.plots.axes import AxisUnit
from gui.plots.chart import Chart, Reading, Span, Stage
from gui.plots.lines import Line
from gui.plots.shared_view import XKind
from gui.plots.x_scale import SHORTEST_CLOCK, XScale, epochs_a_step, step_scale

ROOM_FOR_DOTS = 1.015
"""The axis goes on a little beyond the last step, so that the dot of the last evaluation is whole."""


FEWEST_STEPS = 20
"""A run that has hardly begun shows at least so many."""


def shown_of(planned: int, reached: float) -> float:
    """How many steps of a live run are shown: all, or so small a part of these that what there is can be seen.

    The part is halved, so that the axis jumps a few times and not at every step.
    """
    shown = float(planned)
    while shown / 2 >= max(FEWEST_STEPS, 4 * reached):
        shown /= 2
    return shown


class StepChart(Chart):
    """Base of the charts over training steps. They are drawn over steps, epochs or time, as the page's view says."""

    place_column = "step"

    def __init__(
        self, title: str, stage: Stage, history: RunHistory, y_unit: AxisUnit, *, can_be_log: bool = False
    ) -> None:
        self.total_steps: int | None = None
        super().__init__(title, stage, history, y_unit, can_be_log=can_be_log)

    def x_scale(self) -> XScale:
        """As the page has chosen."""
        return step_scale(self.history, self._view.x_kind)

    def x_span(self) -> Span:
        """The whole run; over time, what there is of it."""
        if self._view.x_kind is XKind.TIME:
            return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)
        reached = self.history.step_seconds.last_x or 1.0
        planned = reached if self.is_over else shown_of(self.total_steps or 1, reached)
        steps = ROOM_FOR_DOTS * max(reached, planned)
        return 0.0, steps * (epochs_a_step(self.history) if self._view.x_kind is XKind.EPOCH else 1.0)

    def empty_text(self) -> str:
        """A run without steps says so."""
        if len(self.history.step_seconds):
            return ""
        return self.tr("No step was made") if self.is_over else self.tr("No steps yet")

    def under_cursor(self, x: float | None) -> list[Reading]:
        """Names the step under the cursor."""
        return [] if x is None else [Reading(self.tr("step {}").format(numbers.count(round(x))))]

    def place_details(self, x: float) -> list[tuple[str, str]]:
        """Which step is under the cursor, and when it ended."""
        epoch, clock = self.history.epoch_of_step(x), self.history.clock_of_step(x)
        return [
            (self.tr("step"), numbers.count(round(x))),
            *([] if epoch is None else [(self.tr("epoch"), f"{epoch:.2f}")]),
            *([] if clock is None else [(self.tr("after"), numbers.duration(clock))]),
        ]

    def beside(self) -> list[Line]:
        """The epoch of each step, and when it ended."""
        history = self.history
        return [
            Line("", history.step_epoch, "", column="epoch"),
            Line("", history.step_clock, "", column="seconds"),
        ]
