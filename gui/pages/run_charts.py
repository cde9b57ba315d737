"""The eight charts of a run page, over one shared stretch of the run."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from gui.models.run_history import RunHistory
from gui.pages.chart_bar import ChartBar
from gui.plots.chart import Chart, Stage
from gui.plots.device_chart import DeviceChart
from gui.plots.memory_chart import MemoryChart
from gui.plots.rate_charts import GradientNormChart, LearningRateChart, ThroughputChart
from gui.plots.repaint_queue import RepaintQueue
from gui.plots.shared_view import SharedView
from gui.plots.step_chart import StepChart
from gui.plots.step_charts import LossChart, MetricsChart
from gui.plots.step_time_chart import StepTimeChart
from gui.theme import GUTTER, SPACING, Theme
from gui.widgets.fitting_scroll import QuietBar
from gui.widgets.roles import Role, set_role

NARROWEST = 350
"""Pixels that a chart has at least before one less stands side by side."""

COLUMNS = (4, 2)
"""How many may stand side by side: eight charts leave no gap."""

LOWEST = 188
"""Pixels that a row of charts has at least before the charts scroll."""

GAP = SPACING + SPACING // 2


class RunCharts(QWidget):
    """How well it goes, where the time goes, what the machine does; then how it is driven.

    As many stand side by side as there is room for; where not all rows fit, they scroll.
    """

    def __init__(self, theme: Theme, history: RunHistory, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._history = history
        self.queue = RepaintQueue(self)
        self.view = SharedView(self)
        stage = Stage(theme, self.queue, self.view)
        self.loss = LossChart(stage, history)
        self.metrics = MetricsChart(stage, history)
        self.step_time = StepTimeChart(stage, history)
        self.memory = MemoryChart(stage, history)
        self.device = DeviceChart(stage, history)
        self.throughput = ThroughputChart(stage, history)
        self.learning_rate = LearningRateChart(stage, history)
        self.gradient_norm = GradientNormChart(stage, history)
        for chart in self.charts:
            chart.is_over = None
        self.bar = ChartBar(self.view)
        self.bar.offer_following(False)
        self._columns = 0
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, GUTTER, 0)
        self._grid.setSpacing(GAP)
        self._area = self._scrolling()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, SPACING, 0, 0)
        column.setSpacing(SPACING)
        column.addWidget(self.bar)
        column.addWidget(self._area, 1)
        self._arrange(2)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All of them, in reading order."""
        return (
            self.loss,
            self.metrics,
            self.step_time,
            self.memory,
            self.device,
            self.throughput,
            self.learning_rate,
            self.gradient_norm,
        )

    def refresh(self, total_steps: int | None, *, is_over: bool | None) -> None:
        """Ask all charts to be redrawn.

        Args:
            total_steps: How long the step axis is, once known.
            is_over: Whether nothing more will come; None: its past is still being read.
        """
        self.view.advance(self._history.last_clock)
        self.bar.offer_following(is_over is False)
        for chart in self.charts:
            chart.is_over = is_over
            if isinstance(chart, StepChart):
                chart.total_steps = total_steps
            chart.refresh()

    def end_work(self) -> None:
        """Wait until every file that is being saved is whole."""
        for chart in self.charts:
            chart.menu_button.end_work()

    def minimumSizeHint(self) -> QSize:
        """One row and the controls; the others are scrolled to."""
        return QSize(NARROWEST, LOWEST + self.bar.sizeHint().height() + 2 * SPACING)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """As many side by side as there is room for."""
        super().resizeEvent(event)
        room = self.width() - GUTTER
        fitting = (columns for columns in COLUMNS if columns * (NARROWEST + GAP) - GAP <= room)
        self._arrange(next(fitting, min(COLUMNS)))

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        for place in range(max(COLUMNS)):
            self._grid.setColumnStretch(place, 1 if place < columns else 0)
        rows = -(-len(self.charts) // columns)
        for row in range(len(self.charts)):
            self._grid.setRowStretch(row, 1 if row < rows else 0)
            self._grid.setRowMinimumHeight(row, LOWEST if row < rows else 0)
        for place, chart in enumerate(self.charts):
            self._grid.addWidget(chart, place // columns, place % columns)
        self._columns = columns

    def _scrolling(self) -> QScrollArea:
        inside = QWidget()
        set_role(inside, Role.PAGE)
        inside.setLayout(self._grid)
        area = QScrollArea()
        set_role(area, Role.PAGE)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setVerticalScrollBar(QuietBar())
        area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        area.setAccessibleName(self.tr("Charts"))
        area.setWidget(inside)
        area.verticalScrollBar().valueChanged.connect(self._redraw)
        return area

    def _redraw(self) -> None:
        """What has come into view was passed over while nobody could see it."""
        for chart in self.charts:
            chart.refresh()
