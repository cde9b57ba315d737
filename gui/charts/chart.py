"""A chart: a title, a legend with current readings, lines over a shared part of the run, and a menu to save them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyqtgraph as pg
from PySide6.QtCore import QBuffer, QIODevice, QObject, QRect, QStandardPaths, Qt, QTimer
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QFontInfo,
    QGuiApplication,
    QPixmap,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QFileDialog, QGridLayout, QSizePolicy, QToolButton, QToolTip

from core.base.errors import UserError
from core.base.files import write_atomically, writing, written_whole
from core.base.language import _
from core.runs.metrics import write_columns
from gui.base.background import FileWork
from gui.base.questions import MessageBox
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING, Tokens
from gui.charts import overlays
from gui.charts.axes import AxisUnit, Canvas, RoundAxis, SharedView, XScale
from gui.charts.history import RunHistory
from gui.charts.series import FENCE, FENCE_KEPT, ChartLine, DrawnLine, Floats, Look, Span, usual_span
from gui.widgets.cards import Card
from gui.widgets.labels import ButtonMenu, meanings_in, role_label
from gui.widgets.layout import keep_place

HEIGHT = 96
HEADING_GAPS = 7 * SPACING
"""Pixels of the heading that are neither title, legend nor button."""

AXIS_FONT = 0.88
"""Font size of the axes, relative to the page's."""

PICTURE_SCALE = 2
"""Pixels of a copied picture for each on screen."""

TURN_MS = 25
"""Least interval between two redraws."""

HURRIED_TURN_MS = 12
"""The same while the mouse moves over a chart: eight charts follow ten times a second."""

HURRY_SECONDS = 0.5

TIP_MS = 600_000
"""The values at the cursor stay as long as it does."""

NO_POINTS = (np.empty(0), np.empty(0))

PERIOD_SECONDS = 0.1
"""Least interval between two redraws of the same chart."""

SHARE = 0.03
"""Share of a processor that redrawing may take unless hurried."""

LONGEST_TURN_MS = 400

PAINTING = 2.0
"""Cost of a redraw including Qt's painting afterwards, relative to that of `redraw` itself."""


DOT_ROOM = 7
"""Pixels between a dot and the edge of the plot, which would cut it."""


class Redrawn(Protocol):
    """What a `RepaintQueue` redraws."""

    def redraw(self) -> None: ...

    def is_shown(self) -> bool:
        """Whether any of it can be seen; if not, its turn is skipped, and it has to request another when shown."""


class RepaintQueue(QObject):
    """Redraws one chart per turn, in the order of their requests.

    The cost of a redraw delays the next one, so that a live run leaves the processor to the training.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.waiting: dict[Redrawn, None] = {}
        self._drawn_at: dict[Redrawn, float] = {}
        self._hurried_until = time.monotonic() + HURRY_SECONDS
        self.turn = QTimer(self, timerType=Qt.TimerType.PreciseTimer, interval=TURN_MS)
        self.turn.timeout.connect(self._on_turn)

    def request(self, chart: Redrawn) -> None:
        self.waiting[chart] = None
        if not self.turn.isActive():
            self.turn.start()

    def hurry(self) -> None:
        """Redraw fast for a while, whatever it costs."""
        self._hurried_until = time.monotonic() + HURRY_SECONDS
        self._set_interval(min(self.turn.interval(), HURRIED_TURN_MS))

    def _on_turn(self) -> None:
        now = time.monotonic()
        for chart in list(self.waiting):
            if now - self._drawn_at.get(chart, -math.inf) < PERIOD_SECONDS:
                continue
            del self.waiting[chart]
            if chart.is_shown():
                self._drawn_at[chart] = now
                before = time.thread_time()
                chart.redraw()
                cost = time.thread_time() - before
                usual = max(TURN_MS, round(1000 * PAINTING * cost / SHARE))
                is_hurried = time.monotonic() < self._hurried_until
                self._set_interval(HURRIED_TURN_MS if is_hurried else min(LONGEST_TURN_MS, usual))
                return
        if not self.waiting:
            self.turn.stop()

    def _set_interval(self, milliseconds: int) -> None:
        if milliseconds != self.turn.interval():
            self.turn.setInterval(milliseconds)


@dataclass(frozen=True)
class Stage:
    """Shared by all charts of a page."""

    theme: Theme
    queue: RepaintQueue
    view: SharedView


class Chart(Card):
    """Base of the charts: a card with a plot, a legend, a menu, and a cursor shared with the other charts.

    A chart never draws by itself: `refresh` requests a turn of its `RepaintQueue`, which calls `redraw`. Positions `x`
    are in the series, unless they are called positions on the axis.

    `is_over`: whether nothing more will come; None while the past is read. `x_column` names the positions of its
    series in a saved table. `leaves_out`: the y axis isn't scaled to outliers, which are marked at its edge;
    `legend_lines`: so many lines below the heading are those of a legend of many names; 0: it is in the heading.
    """

    x_column = "seconds"
    leaves_out = False
    legend_lines = 0

    def __init__(
        self, title: str, stage: Stage, history: RunHistory, y_unit: AxisUnit, *, can_be_log: bool = False
    ) -> None:
        self.history = history
        self._theme = stage.theme
        self._queue = stage.queue
        self._view = stage.view
        self.drawn: list[DrawnLine] = []
        self._is_hovered = self._shows_all = False
        self.can_be_log = can_be_log
        self.is_over: bool | None = False
        super().__init__(title)
        self.explain(meanings_in(title))
        self.canvas = Canvas(RoundAxis("bottom", self.x_scale().unit), RoundAxis("left", y_unit))
        self.canvas.setAccessibleName(title)
        self.canvas.setMinimumHeight(HEIGHT)
        self.canvas.show_values(False)
        self.canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.setZValue(20)
        self.add_decoration(self._cursor)
        self._mark_items = overlays.MarkItems(self.canvas)
        self.outliers = overlays.Outliers(self.canvas)
        self.legend = overlays.Legend()
        if self.legend_lines:
            self.legend.setWordWrap(True)
            self.legend.setFixedHeight(self.legend_lines * self.legend.fontMetrics().lineSpacing())
            self.body.addWidget(self.legend)
        else:
            self.set_trailing(self.legend)
        self.empty = role_label(Role.MUTED)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        middle = QGridLayout(self.canvas)
        middle.addWidget(self.empty)
        if self.legend_lines:  # as high as in charts with none below the heading
            middle.setContentsMargins(0, 0, 0, self.legend.height() + self.body.spacing())
        self.body.addWidget(self.canvas)
        self._files = FileWork(self)
        self._files.failed.connect(self._show_error)
        self.menu_button = QToolButton()
        self._menu = ButtonMenu(self.menu_button)
        self._set_up_menu()
        self._heading.addWidget(self.menu_button)
        self.canvas.hovered.connect(self._on_hovered)
        self.canvas.selected.connect(self._on_selected)
        self.canvas.reset.connect(lambda: self._view.zoom(None))
        stage.view.changed.connect(self.refresh)
        stage.theme.changed.connect(self._on_colours)
        self._on_colours()

    def add_decoration(self, item: pg.GraphicsObject) -> None:
        """Add an item that is no line to the plot."""
        self.canvas.addItem(item, ignoreBounds=True)

    @property
    def lines(self) -> list[ChartLine]:
        return [drawn.line for drawn in self.drawn]

    @property
    def is_log(self) -> bool:
        return self.canvas.y_axis.is_log

    def set_log(self, is_log: bool) -> None:
        self.canvas.y_axis.set_unit(self.canvas.y_axis.unit, is_log=is_log and self.can_be_log)
        self.refresh()

    def show_all(self, shows_all: bool) -> None:
        """Scale the y axis to outliers, too."""
        self._shows_all = shows_all
        self.refresh()

    def x_scale(self) -> XScale:
        raise NotImplementedError

    def wanted_lines(self) -> list[ChartLine]:
        """The lines to draw now, the lowest first."""
        raise NotImplementedError

    def line_scale(self, line: ChartLine, scale: XScale) -> XScale:
        """How the points of a line lie on the axis."""
        return scale

    def x_span(self) -> Span:
        """Range of the x axis that shows the whole run."""
        raise NotImplementedError

    def readings(self, x: float | None) -> list[overlays.Reading]:
        """Readings at `x`, or the newest if it is None; the most important first."""
        raise NotImplementedError

    def empty_text(self) -> str:
        """Text in place of the plot; empty if there is something to draw."""
        raise NotImplementedError

    def position_readings(self, x: float) -> list[overlays.Reading]:
        """The position itself: the first of these is appended to the legend, all begin the box at the cursor."""
        raise NotImplementedError

    def details(self, x: float) -> list[overlays.Reading]:
        """Further readings for the box at the cursor."""
        return []

    def y_span(self, drawn: Span) -> Span:
        """Range of the y axis, given the lowest and highest value drawn that is no outlier."""
        return drawn

    def draw_more(self, low: float, high: float, scale: XScale) -> None:
        """Draw what is no line, from `low` to `high`."""

    def decorate(self, x: Span, y: Span) -> None:
        """Draw what depends on the ranges of both axes, such as ceilings."""

    def extra_columns(self) -> list[ChartLine]:
        """Series that are saved with the lines, for the positions at which these have a point."""
        return []

    def paint_with(self, tokens: Tokens) -> None:
        """Set the colours of decorations."""

    def refresh(self) -> None:
        """Request to be redrawn."""
        self._queue.request(self)

    def is_shown(self) -> bool:
        is_in_view = self.isVisible() and not self.visibleRegion().isEmpty()
        return is_in_view and not self.window().isMinimized()

    def redraw(self, thickness: float | None = None) -> None:
        """Bring the plot up to date. Only the repaint queue calls this.

        Args:
            thickness: Of the lines, in pixels of the device; None: one pixel of the page.
        """
        self._choose_lines()
        scale = self.x_scale()
        self.canvas.x_axis.set_unit(scale.unit)
        x = self._x_range(scale)
        y = self._draw_lines(x, scale, thickness or self.canvas.devicePixelRatioF())
        self.canvas.set_ranges(*x, *y)
        self.decorate(x, y)
        self._mark_items.draw(self.history.marks, scale, x, y)
        empty = self.empty_text()
        if empty and self.is_over is None:
            empty = " "  # the reason is known once all is read
        self.empty.setText(empty)
        self.empty.setVisible(bool(empty))
        self.canvas.show_values(not empty)
        cursor = None if self._view.cursor is None or empty else scale.from_clock(self._view.cursor)
        self._cursor.setVisible(cursor is not None and x[0] <= cursor <= x[1])
        position = None
        if cursor is not None:
            self._cursor.setValue(cursor)
            position = scale.nearest(cursor)
        readings = [] if empty else self.readings(position)
        self._show_legend(readings, position, empty)
        if cursor is not None and position is not None and self._is_hovered:
            shown = [*self.position_readings(position), *readings, *self.details(position)]
            values = [(reading.name, reading.value) for reading in shown if reading.name]
            values += self._mark_items.texts_near(cursor, x)
            box = overlays.table_html(values, self._theme.tokens)
            # below the plot, whose lines it explains
            QToolTip.showText(self.canvas.below(cursor), box, self.canvas, QRect(), TIP_MS)
        elif self._is_hovered:
            QToolTip.hideText()

    def _choose_lines(self) -> None:
        wanted = self.wanted_lines()
        if wanted != self.lines:
            for drawn in self.drawn:
                self.canvas.removeItem(drawn.item)
            self.drawn = [DrawnLine(line) for line in wanted]
            for depth, drawn in enumerate(self.drawn):
                drawn.item.setZValue(depth - 10)
                drawn.paint_with(self._theme.tokens)
                self.add_decoration(drawn.item)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.refresh()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self._menu.popup(event.globalPos())

    def _draw_lines(self, x: Span, scale: XScale, thickness: float) -> Span:
        """Draw all lines; returns the range of the y axis."""
        columns, curves, dots = self.canvas.columns(), [NO_POINTS], [NO_POINTS]
        for drawn in self.drawn:
            own = self.line_scale(drawn.line, scale)
            low, high = (own.from_axis(edge) for edge in x)
            if low is not None and high is not None:
                points = drawn.draw(
                    low, high, columns, to_axis=own.to_axis, is_log=self.is_log, thickness=thickness
                )
                (dots if drawn.line.look is Look.DOTS else curves).append(points)
        low, high = (scale.from_axis(edge) for edge in x)
        if low is not None and high is not None:
            self.draw_more(low, high, scale)
        at, values = np.concatenate((*curves, *dots), axis=1)
        span: Span = 0.0, 1.0
        beyond: npt.NDArray[np.bool_] = np.zeros(len(values), bool)
        if self.leaves_out and not self.is_log and not self._shows_all:
            fence = FENCE_KEPT if self.outliers.isVisible() else FENCE
            every = [line.series.y for line in self.lines if line.look is Look.DOTS]  # in view or not
            evaluated = np.concatenate((*every, np.empty(0)))
            usual = usual_span(
                np.concatenate(curves, axis=1)[1], evaluated[np.isfinite(evaluated)], fence=fence
            )
            if usual is not None:
                beyond = (values < usual[0]) | (values > usual[1])
        if len(seen := values[~beyond]):
            span = float(seen.min()), float(seen.max())
        shown = span if self.is_log else self.y_span(span)
        y = self.canvas.y_axis.frame(*shown, float(self.canvas.rows()))
        room, marked = DOT_ROOM * (y[1] - y[0]) / self.canvas.rows(), np.concatenate(dots, axis=1)[1]
        below, above = (room if (np.abs(marked - edge) < room).any() else 0.0 for edge in y)
        y = y[0] - below, y[1] + above
        beyond &= (values < y[0]) | (values > y[1])
        self.outliers.draw(at[beyond], values[beyond], x, y, self.canvas.y_axis.unit.write)
        return y

    def _x_range(self, scale: XScale) -> Span:
        if self._view.span is not None:
            low, high = map(scale.from_clock, self._view.span)
            if low is not None and high is not None:
                return (low, high) if high > low else (low - 0.5, low + 0.5)  # no step ended meanwhile
        return self.x_span()

    def _show_legend(self, readings: list[overlays.Reading], position: float | None, empty: str) -> None:
        if position is not None and readings:
            readings = [*readings, self.position_readings(position)[0]]
        taken = self._title.sizeHint().width() + self.menu_button.sizeHint().width()
        width = self.contentsRect().width() - HEADING_GAPS
        width = self.legend_lines * width if self.legend_lines else width - taken
        self.legend.show_readings(readings, width, self._theme.tokens)
        text = empty or " · ".join(reading.text for reading in readings)
        if text != self.canvas.accessibleDescription():
            self.canvas.setAccessibleDescription(text)

    def _on_colours(self) -> None:
        tokens = self._theme.tokens
        self.canvas.setBackground(tokens.surface)
        self.canvas.set_selection_colour(tokens.accent_soft)
        self._cursor.setPen(pg.mkPen(tokens.muted, width=1, dash=[2, 3]))
        font = QFont(self.font())
        font.setPixelSize(round(AXIS_FONT * QFontInfo(font).pixelSize()))
        for axis in (self.canvas.x_axis, self.canvas.y_axis):
            axis.setTextPen(pg.mkPen(tokens.muted))
            axis.setTickPen(pg.mkPen(tokens.grid))
            axis.setPen(pg.mkPen(None))
        self.canvas.set_axis_font(font)
        self._mark_items.paint_with(tokens)
        self.outliers.paint_with(tokens, font)
        for drawn in self.drawn:
            drawn.paint_with(tokens)
        self.paint_with(tokens)
        self.refresh()

    def _on_hovered(self, x: float | None) -> None:
        self._is_hovered = x is not None
        if x is None:
            QToolTip.hideText()
        self._queue.hurry()
        self._view.set_cursor(None if x is None else self.x_scale().to_clock(x))
        self.refresh()

    def _on_selected(self, low: float, high: float) -> None:
        begin, end = map(self.x_scale().to_clock, (low, high))
        if begin is not None and end is not None and end > begin:
            self._view.zoom((begin, end))

    def add_switch(self, title: str, switch: Callable[[bool], None]) -> None:
        """Add an entry to the menu that is on or off."""
        action = self._menu.addAction(title)
        action.setCheckable(True)
        action.toggled.connect(switch)

    def picture(self) -> QPixmap:
        """The whole card without its button."""
        self.redraw(PICTURE_SCALE)
        image = QPixmap(self.size() * PICTURE_SCALE)
        image.setDevicePixelRatio(PICTURE_SCALE)
        image.fill(self._theme.tokens.surface)
        self.menu_button.hide()
        self.render(image)
        self.menu_button.show()
        self.refresh()
        return image

    def copy_image(self) -> None:
        QGuiApplication.clipboard().setPixmap(self.picture())

    def save_image(self, path: Path) -> None:
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        self.picture().save(buffer, "PNG")
        try:
            with writing(path):
                write_atomically(path, bytes(buffer.data().data()))
        except UserError as error:
            self._show_error(error)

    def save_table(self, path: Path) -> None:
        """Write every point that is shown into a CSV file, in the background."""
        scale = self.x_scale()
        x = self._x_range(scale)
        columns: Columns = {}
        extra: Columns = {}
        for line in self.lines:
            columns |= _columns_of(line, x, self.line_scale(line, scale))
        for line in self.extra_columns():
            extra |= _columns_of(line, x, scale)

        def write() -> None:
            with writing(path), written_whole(path) as temporary:
                write_csv(self.x_column, columns, extra, temporary)

        self._files.put(write)

    def end_work(self) -> None:
        """Wait until its files are written."""
        self._files.end_work()

    def _set_up_menu(self) -> None:
        button = self.menu_button
        set_role(button, Role.MORE)
        button.setText("⋯")
        button.setAccessibleName(_("{chart}: copy, save, scale").format(chart=self.title))
        button.setToolTip(_("Copy, save, scale"))
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        keep_place(button)
        self._menu.addAction(_("Copy image")).triggered.connect(self.copy_image)
        save_image, save_table = (_("Save image…"), _("Save data as CSV…"))
        png, csv = _("PNG images (*.png)"), _("CSV tables (*.csv)")
        self._menu.addAction(save_image, lambda: self._ask_path(save_image, ".png", png, self.save_image))
        self._menu.addAction(save_table, lambda: self._ask_path(save_table, ".csv", csv, self.save_table))
        self._menu.addSeparator()
        if self.can_be_log:
            self.add_switch(_("Logarithmic scale"), self.set_log)
        if self.leaves_out:
            self.add_switch(_("Show all values"), self.show_all)

    def _ask_path(self, title: str, suffix: str, filters: str, save: Callable[[Path], None]) -> None:
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        name = self.title.lower().replace(" ", "-") + suffix
        path = QFileDialog.getSaveFileName(self.window(), title, str(Path(folder) / name), filters)[0]
        if path:
            save(Path(path))

    def _show_error(self, error: UserError) -> None:
        box = MessageBox(error.title, error.detail, self.window())
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()


Columns = dict[str, tuple[Floats, Floats]]
"""By the name of a column: ascending positions and their values. Shapes (n,), n differs."""


def _columns_of(line: ChartLine, x: Span, scale: XScale) -> Columns:
    low, high = (scale.from_axis(edge) for edge in x)
    if not line.column or low is None or high is None:
        return {}
    positions = line.series.x
    shown = slice(
        int(np.searchsorted(positions, low, "left")), int(np.searchsorted(positions, high, "right"))
    )
    return {line.column: (positions[shown], line.series.y[shown])}


def write_csv(x_column: str, columns: Columns, extra: Columns, path: Path) -> None:
    """Write a row for each position at which any of `columns` has a point; a cell without a value is empty.

    Raises:
        OSError: It can't be written.
    """
    positions = np.unique(np.concatenate([np.empty(0), *(x for x, _y in columns.values())]))
    table: dict[str, npt.NDArray[Any]] = {x_column: positions}
    for name, (x, y) in (extra | columns).items():
        values = np.full(len(positions), np.nan, y.dtype)
        is_known = np.isin(x, positions)
        values[np.searchsorted(positions, x[is_known])] = y[is_known]
        table[name] = values
    write_columns(table, path)
