"""The four charts of runs that are compared, and what is chosen for them."""

from collections.abc import Sequence

from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from core.metrics import METRIC_NAMES
from gui import numbers
from gui.pages.chart_bar import ChartBar
from gui.plots.chart import Stage
from gui.plots.compare_chart import (
    CompareChart,
    CompareLoss,
    CompareMemory,
    CompareMetric,
    CompareStepTime,
    CompareView,
    Curve,
)
from gui.plots.repaint_queue import RepaintQueue
from gui.theme import SPACING, Theme
from gui.widgets.choice_list import ChoiceList
from gui.widgets.roles import Role, set_role
from gui.widgets.segmented import Segment

LOWEST = 170
"""Pixels that a chart has at least."""

FEWEST_LETTERS = 6
"""So much of a metric's name can be read at least; a narrow window shows no more, so that what is beside it fits."""


class CompareCharts(QFrame):
    """Loss, one metric of the evaluations, step time and memory, two by two."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._curves: list[Curve] = []
        self._is_chosen = False
        queue = RepaintQueue(self)
        self.view = CompareView(self)
        stage = Stage(theme, queue, self.view)
        self.loss = CompareLoss(stage)
        self.evaluation = CompareMetric(stage)
        self.step_time = CompareStepTime(stage)
        # Memory lies over time whatever the others lie over, so that it has a cursor of its own.
        self.memory = CompareMemory(Stage(theme, queue, CompareView(self)))
        self.bar = ChartBar(self.view)
        self.bar.offer_following(False)
        self.metrics = ChoiceList()
        self.metrics.setAccessibleName(self.tr("Metric of the evaluations"))
        self.metrics.setMinimumContentsLength(FEWEST_LETTERS)
        self.metrics.activated.connect(self._take_metric)
        self._lay_out()

    @property
    def charts(self) -> tuple[CompareChart, ...]:
        """All of them, in reading order."""
        return self.loss, self.evaluation, self.step_time, self.memory

    def show_curves(self, curves: Sequence[Curve]) -> None:
        """Draw these runs."""
        self._curves = list(curves)
        for chart in self.charts:
            chart.show_curves(curves)

    def refresh(self) -> None:
        """Ask all charts to be redrawn."""
        for chart in self.charts:
            chart.refresh()

    def judge_by(self, metrics: Sequence[str | None]) -> None:
        """Draw the metric by which most of the runs are judged, unless somebody has chosen one."""
        known = [name for name in metrics if name is not None]
        if known and not self._is_chosen:
            self.evaluation.show_metric(max(known, key=known.count))
        self.offer_metrics()

    def offer_metrics(self) -> None:
        """List every metric that any of the runs was evaluated by."""
        found = {name for curve in self._curves for name in curve.history.metrics}
        ordered = [name for name in METRIC_NAMES if name in found or name == "eval_loss"]
        others = sorted(found - set(ordered))
        self.metrics.set_choices([Segment(name, numbers.metric_title(name)) for name in (*ordered, *others)])
        self.metrics.choose(self.evaluation.metric_name)

    def end_work(self) -> None:
        """Wait until every file that is being saved is whole."""
        self._is_chosen = False
        for chart in self.charts:
            chart.menu_button.end_work()

    def _take_metric(self) -> None:
        self._is_chosen = True
        self.evaluation.show_metric(str(self.metrics.currentData()))

    def _lay_out(self) -> None:
        label = QLabel(self.tr("Evaluation"))
        set_role(label, Role.MUTED)
        label.setBuddy(self.metrics)
        top = QHBoxLayout()
        top.setSpacing(SPACING)
        top.addWidget(self.bar, 1)
        top.addWidget(label)
        top.addWidget(self.metrics)
        grid = QGridLayout()
        grid.setSpacing(SPACING + SPACING // 2)
        for place, chart in enumerate(self.charts):
            grid.addWidget(chart, place // 2, place % 2)
        for line in range(2):
            grid.setColumnStretch(line, 1)
            grid.setRowStretch(line, 1)
            grid.setRowMinimumHeight(line, LOWEST)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, SPACING, 0, 0)
        column.setSpacing(SPACING)
        column.addLayout(top)
        column.addLayout(grid, 1)
