"""The four charts of a run page, over one shared stretch of the run."""

from PySide6.QtWidgets import QGridLayout, QWidget

from gui.models.run_history import RunHistory
from gui.plots.chart import Chart, Stage
from gui.plots.memory_chart import MemoryChart
from gui.plots.repaint_queue import RepaintQueue
from gui.plots.shared_view import SharedView
from gui.plots.step_charts import LossChart, MetricsChart, StepChart, StepTimeChart
from gui.theme import SPACING, Theme


class RunCharts(QWidget):
    """Loss and held-out metrics above step time and memory."""

    def __init__(self, theme: Theme, history: RunHistory, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.queue = RepaintQueue(self)
        self.view = SharedView(self)
        stage = Stage(theme, self.queue, self.view)
        self.loss = LossChart(stage, history)
        self.metrics = MetricsChart(stage, history)
        self.step_time = StepTimeChart(stage, history)
        self.memory = MemoryChart(stage, history)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(SPACING + SPACING // 2)
        for place, chart in enumerate(self.charts):
            grid.addWidget(chart, place // 2, place % 2)
            grid.setColumnStretch(place % 2, 1)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All four, in reading order."""
        return self.loss, self.metrics, self.step_time, self.memory

    def refresh(self, total_steps: int | None, *, is_over: bool) -> None:
        """Ask all charts to be redrawn.

        Args:
            total_steps: How long the step axis is, once known.
            is_over: Whether nothing more will come.
        """
        for chart in self.charts:
            chart.is_over = is_over
            if isinstance(chart, StepChart):
                chart.total_steps = total_steps
            chart.refresh()
