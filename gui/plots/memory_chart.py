"""The chart of memory over time."""

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication

from gui import numbers
from gui.models.run_history import RunHistory
from gui.plots.axes import clock_axis, clock_text, memory_step
from gui.plots.chart import Chart, Clockwork, Reading, Span, Stage
from gui.plots.lines import Line, Look
from gui.theme import Tokens

SHORTEST_CLOCK = 10.0
"""Seconds that the memory chart covers at least."""

CEILING_IN_PICTURE = 0.25
"""From this share of the ceiling on, the ceiling is drawn; further below it would squash what is in use."""

ABOVE, BELOW = [(1, 1), (1, 1)], [(1, 0), (1, 0)]
"""Where the ceiling's words stand: at the right end of its line."""


class MemoryChart(Chart):
    """Memory of this run under that of all other programs, and how much there is."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self.history = history
        self._ceiling = pg.InfiniteLine(
            angle=0, movable=False, label="", labelOpts={"position": 0.99, "anchors": ABOVE}
        )
        super().__init__(
            QCoreApplication.translate("MemoryChart", "Memory"),
            stage,
            x_axis=clock_axis(),
            clockwork=Clockwork(float, float),
            y_rule=memory_step,
            y_format=numbers.memory_tick,
        )
        self.add_decoration(self._ceiling)
        self.set_lines(
            [
                Line("", history.system_bytes, "others", Look.AREA),
                Line("", history.system_bytes, "others"),
                Line("", history.process_bytes, "run", Look.AREA),
                Line("", history.process_bytes, "run"),
                Line("", history.device_bytes, "gradients"),
            ]
        )

    def x_span(self) -> Span:
        """From the start until now."""
        return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)

    def y_span(self, drawn: Span) -> Span:
        """From zero; up to the ceiling unless that is far away."""
        ceiling = self.history.ceiling
        if ceiling is not None and drawn[1] >= CEILING_IN_PICTURE * ceiling:
            return 0.0, max(drawn[1], 1.04 * ceiling)
        return 0.0, 1.1 * drawn[1]

    def readings(self, x: float | None) -> list[Reading]:
        """This run, all others, the accelerator, and how much there is."""
        history = self.history
        found = [] if x is None else [Reading(clock_text(x))]
        mine, everyone = history.process_bytes.read(x), history.system_bytes.read(x)
        if mine is not None:
            found.append(Reading(self.tr("this run {}").format(numbers.memory(mine)), "run"))
        if everyone is not None:
            others = max(0.0, everyone - (mine or 0.0))
            found.append(Reading(self.tr("others {}").format(numbers.memory(others)), "others"))
        device = history.device_bytes.read(x)
        if device is not None:
            found.append(Reading(self.tr("PyTorch {}").format(numbers.memory(device)), "gradients"))
        if x is None and history.ceiling is not None and not self._ceiling.isVisible():
            found.append(Reading(self.tr("of {}").format(numbers.memory_tick(history.ceiling))))
        return found

    def empty_text(self) -> str:
        """Samples come once a second."""
        if len(self.history.system_bytes) or len(self.history.process_bytes):
            return ""
        return self.tr("Never measured") if self.is_over else self.tr("Not measured yet")

    def decorate(self, x: Span, y: Span) -> None:
        """Draw the ceiling where it is in the picture."""
        ceiling = self.history.ceiling
        self._ceiling.setVisible(ceiling is not None and ceiling <= y[1])
        if ceiling is not None:
            self._ceiling.setValue(ceiling)
            words = self.tr("this computer has {}").format(numbers.memory_tick(ceiling))
            self._ceiling.label.setFormat(words)
            room_above = (y[1] - ceiling) / (y[1] - y[0]) * self.picture_rows()
            self._ceiling.label.anchors = ABOVE if room_above > 1.2 * self.fontMetrics().height() else BELOW
            self._ceiling.label.updatePosition()

    def colour(self, tokens: Tokens) -> None:
        """Red is for ceilings."""
        self._ceiling.setPen(pg.mkPen(tokens.bad, width=1, dash=[6, 4]))
        self._ceiling.label.setColor(tokens.bad)
