"""The eight charts of a run, and the bar above them: x axis, smoothing, shown part."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from core.base.language import _
from gui.base.theme import Role, Theme, set_flag, set_role
from gui.base.tokens import GUTTER, SPACING
from gui.charts.axes import SharedView, XKind
from gui.charts.chart import Chart, RepaintQueue, Stage
from gui.charts.history import RunHistory, Smoothing
from gui.charts.machine import DeviceChart, MemoryChart
from gui.charts.training import (
    LossChart,
    MetricsChart,
    StepChart,
    StepTimeChart,
    ThroughputChart,
    gradient_norm_chart,
    learning_rate_chart,
)
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.layout import QuietBar, fill, hbox


class ChartBar(QWidget):
    """Controls above the charts that show and change a `SharedView`."""

    def __init__(self, view: SharedView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self.x_kind = Segmented(
            (
                Segment(XKind.STEP, _("Steps"), _("Draw over training steps")),
                Segment(XKind.EPOCH, _("Epochs"), _("Draw over passes through the data")),
                Segment(
                    XKind.TIME,
                    _("Time"),
                    _("Draw over the time since the start, as memory and device always are"),
                ),
            )
        )
        self.x_kind.setAccessibleName(_("Charts over"))
        self.smoothing = Segmented(
            (
                Segment(Smoothing.OFF, _("Off"), _("The loss of each step")),
                Segment(Smoothing.LIGHT, _("Light"), _("Over about the last 20 steps")),
                Segment(Smoothing.STRONG, _("Strong"), _("Over about the last 100 steps")),
            )
        )
        self.smoothing.setAccessibleName(_("Smoothing of the loss"))
        self.follow = QPushButton(_("Follow the end"))
        self.follow.setCheckable(True)
        set_flag(self.follow, "stays", True)
        self.follow.setToolTip(
            _("Show the newest part and follow it. Drag across a chart to choose how much.")
        )
        self.show_all = QPushButton(_("Whole run"))
        self.show_all.setToolTip(_("A double click on a chart does the same"))
        for button in (self.follow, self.show_all):
            set_role(button, Role.LINK)
        label = QLabel(_("Smoothing"), alignment=Qt.AlignmentFlag.AlignVCenter)
        set_role(label, Role.MUTED)
        row = hbox(self.x_kind, label, self.smoothing, None, self.follow, self.show_all)
        row.setContentsMargins(0, 0, 0, 0)
        row.insertSpacing(1, SPACING)
        self.setLayout(row)
        self.x_kind.chosen.connect(lambda kind: view.set_x_kind(XKind(kind)))
        self.smoothing.chosen.connect(lambda smoothing: view.set_smoothing(Smoothing(smoothing)))
        self.follow.toggled.connect(view.follow)
        self.show_all.clicked.connect(lambda: view.zoom(None))
        view.changed.connect(self._show_view)
        self._show_view()

    def offer_following(self, is_live: bool) -> None:
        """Show the button "Follow the end", which makes no sense for a run that is over."""
        self.follow.setVisible(is_live)
        if not is_live:
            self._view.follow(False)

    def _show_view(self) -> None:
        self.x_kind.set_value(self._view.x_kind)
        self.smoothing.set_value(self._view.smoothing)
        self.follow.setChecked(self._view.follows)
        self.show_all.setEnabled(self._view.span is not None)


NARROWEST = 350
"""Width in pixels below which fewer charts are side by side."""

COLUMNS = (4, 2)
"""How many charts may be side by side, so that eight of them leave no gap."""

LOWEST = 188
"""Least height of a row of charts in pixels, before they scroll."""

GAP = SPACING + SPACING // 2


class RunCharts(QWidget):
    """The eight charts of a run, in reading order, as many side by side as fit."""

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
        self.learning_rate = learning_rate_chart(stage, history)
        self.gradient_norm = gradient_norm_chart(stage, history)
        self.charts = [chart for chart in vars(self).values() if isinstance(chart, Chart)]
        for chart in self.charts:
            chart.is_over = None
        self.bar = ChartBar(self.view)
        self.bar.offer_following(False)
        self._columns = 0
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, GUTTER, 0)
        self._grid.setSpacing(GAP)
        self._area = self._scrolling()
        fill(QVBoxLayout(self), self.bar, (self._area, 1), margins=(0, SPACING, 0, 0), spacing=SPACING)
        self._arrange(2)

    def refresh(self, total_steps: int | None, *, is_over: bool | None) -> None:
        """Redraw all charts.

        Args:
            total_steps: Number of planned steps, once known.
            is_over: Whether nothing more will come; None while the past is read.
        """
        self.view.set_end(self._history.last_clock)
        self.bar.offer_following(is_over is False)
        for chart in self.charts:
            chart.is_over = is_over
            if isinstance(chart, StepChart):
                chart.total_steps = total_steps
            chart.refresh()

    def end_work(self) -> None:
        for chart in self.charts:
            chart.end_work()

    def minimumSizeHint(self) -> QSize:
        return QSize(NARROWEST, LOWEST + self.bar.sizeHint().height() + 2 * SPACING)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        most = (self.width() - GUTTER + GAP) // (NARROWEST + GAP)
        self._arrange(next((columns for columns in COLUMNS if columns <= most), min(COLUMNS)))

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        rows = -(-len(self.charts) // columns)
        for place in range(max(COLUMNS)):
            self._grid.setColumnStretch(place, int(place < columns))
        for row in range(len(self.charts)):
            self._grid.setRowStretch(row, int(row < rows))
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
        area.setAccessibleName(_("Charts"))
        area.setWidget(inside)
        area.verticalScrollBar().valueChanged.connect(self._redraw)
        return area

    def _redraw(self) -> None:
        """Redraw charts that have come into view, whose turns were skipped before."""
        for chart in self.charts:
            chart.refresh()
