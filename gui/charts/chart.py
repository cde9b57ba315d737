"""One chart: a title, what it reads right now, lines over a shared stretch of the run, and a menu to save them."""

import csv
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyqtgraph as pg
from PySide6.QtCore import QBuffer, QIODevice, QObject, QStandardPaths, Qt, QTimer
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QFontInfo,
    QGuiApplication,
    QPixmap,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QGridLayout,
    QLabel,
    QMenu,
    QMessageBox,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from core.base.errors import UserError
from core.base.files import write_atomically, writing, written_whole
from core.base.language import _
from core.runs.metrics import csv_cell
from gui.base.background import FileWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING, Tokens
from gui.base.trash import show_as_written
from gui.charts.axes import CLOCK, AxisUnit, Canvas, RoundAxis, SharedView, Stretch, XScale
from gui.charts.history import RunHistory
from gui.charts.overlays import (
    HoverBox,
    Legend,
    MarkItems,
    PhaseMarks,
    Reading,
    Span,
    interruption_marks,
    plain,
)
from gui.charts.series import DrawnLine, Floats, Line
from gui.widgets.cards import Card

HEIGHT = 96
ROWS_AT_ONCE = 20_000
HEADING_GAPS = 7 * SPACING
"""Pixels of the heading's line that are neither title, legend nor button."""

AXIS_FONT = 0.88
"""Size of the axes' figures, as a share of the page's own."""

PICTURE_SCALE = 2
"""Pixels of a copied picture for each on screen: it ends up in documents."""

TURN_MS = 25
"""The least between two turns."""

HURRIED_TURN_MS = 12
"""The same while a person moves the mouse over a chart: eight charts follow ten times a second."""

HURRY_SECONDS = 0.5

PERIOD_SECONDS = 0.1
"""No chart is redrawn more often, however often it requests it."""

SHARE = 0.04
"""Of a processor, what redrawing takes at most as long as nobody hurries."""

LONGEST_TURN_MS = 200

PAINTING = 2.0
"""Times as long as `redraw` itself takes all that follows from it: Qt paints what has changed afterwards."""


class Redrawn(Protocol):
    """What can stand in the queue."""

    def redraw(self) -> None:
        """Bring the picture up to date."""

    def is_shown(self) -> bool:
        """Whether anyone could see it."""


class RepaintQueue(QObject):
    """Redraws whoever requested it, one each turn, first come, first served.

    Who is hidden when its turn comes is passed over: it requests again when it is shown. What a redraw costs makes the
    next turn wait, so that a live run leaves the processor to the training.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: dict[Redrawn, None] = {}
        self._drawn_at: dict[Redrawn, float] = {}
        self._hurried_until = time.monotonic() + HURRY_SECONDS  # a new page is looked at
        self._turn = QTimer(self, timerType=Qt.TimerType.PreciseTimer)
        self._turn.setInterval(TURN_MS)
        self._turn.timeout.connect(self._on_turn)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for its turn: what is shown is up to date."""
        return not self._waiting

    def request(self, chart: Redrawn) -> None:
        """Let `chart` be redrawn soon; requesting twice is requesting once."""
        self._waiting[chart] = None
        if not self._turn.isActive():
            self._turn.start()

    def hurry(self) -> None:
        """Somebody waits for it: draw fast for a while, whatever it costs."""
        self._hurried_until = time.monotonic() + HURRY_SECONDS
        self._wait(min(self._turn.interval(), HURRIED_TURN_MS))

    def _on_turn(self) -> None:
        began = time.monotonic()
        for chart in list(self._waiting):
            if began - self._drawn_at.get(chart, -math.inf) < PERIOD_SECONDS:
                continue
            del self._waiting[chart]
            if chart.is_shown():
                self._drawn_at[chart] = began
                before = time.thread_time()
                chart.redraw()
                cost = time.thread_time() - before
                usual = max(TURN_MS, round(1000 * PAINTING * cost / SHARE))
                is_hurried = time.monotonic() < self._hurried_until
                self._wait(HURRIED_TURN_MS if is_hurried else min(LONGEST_TURN_MS, usual))
                return
        if not self._waiting:
            self._turn.stop()

    def _wait(self, milliseconds: int) -> None:
        if milliseconds != self._turn.interval():
            self._turn.setInterval(milliseconds)


@dataclass(frozen=True)
class Stage:
    """What all charts of a page share."""

    theme: Theme
    queue: RepaintQueue
    view: SharedView


class Chart(Card):
    """Base of the charts of a run: a card with a picture, a legend, a menu, and a cursor that all charts share.

    A chart never draws by itself: it requests a turn of its `RepaintQueue`, and `redraw` does everything then.
    Subclasses say over what they lie, what the readings are, and what stands there while nothing can be drawn.

    `place_column` names the positions of its series where its data is saved.

    Args:
        title: What it shows, in a word or two.
        stage: What it shares with the others.
        history: The run.
        y_unit: What its height counts.
        can_be_log: Whether a logarithmic axis makes sense.
    """

    place_column = "seconds"

    def __init__(
        self,
        title: str,
        stage: Stage,
        history: RunHistory,
        y_unit: AxisUnit,
        *,
        can_be_log: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        self.history = history
        self._theme = stage.theme
        self._queue = stage.queue
        self._view = stage.view
        self._lines: list[DrawnLine] = []
        self._moments = PhaseMarks()
        self._is_pointed_at = False
        self.can_be_log = can_be_log
        self.is_over: bool | None = False
        super().__init__(title, parent)
        self._canvas = Canvas(RoundAxis("bottom", self.x_scale().unit), RoundAxis("left", y_unit))
        self._canvas.setAccessibleName(title)
        self._canvas.setMinimumHeight(HEIGHT)
        self._canvas.show_values(False)
        self._canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.setZValue(20)
        self.add_decoration(self._cursor)
        self._mark_items = MarkItems(self._canvas)
        self._box = HoverBox()
        self._canvas.scene().addItem(self._box)
        self._legend = Legend()
        self.set_trailing(self._legend)
        self._empty = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, Role.MUTED)
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        QGridLayout(self._canvas).addWidget(self._empty)
        self.body.addWidget(self._canvas)
        self._files = FileWork(self)
        self._files.failed.connect(self._show_error)
        self.menu_button = QToolButton()
        self._menu = QMenu(self)
        self._fill_menu()
        self.add_to_heading(self.menu_button)
        self._canvas.hovered.connect(self._point_at)
        self._canvas.selected.connect(self._zoom_to)
        self._canvas.reset.connect(self._show_all)
        stage.view.changed.connect(self.refresh)
        stage.theme.changed.connect(self._on_colours)
        self._on_colours()

    def add_decoration(self, item: pg.GraphicsObject) -> None:
        """Put something that is no line into the picture."""
        self._canvas.addItem(item, ignoreBounds=True)

    def picture(self) -> QPixmap:
        """The whole card as an image, without its button."""
        self.redraw()
        image = QPixmap(self.size() * PICTURE_SCALE)
        image.setDevicePixelRatio(PICTURE_SCALE)
        image.fill(self._theme.tokens.surface)
        self.menu_button.hide()
        self.render(image)
        self.menu_button.show()
        return image

    @property
    def lines(self) -> list[Line]:
        """What is drawn."""
        return [drawn.line for drawn in self._lines]

    @property
    def legend_text(self) -> str:
        """What the legend says, as plain text."""
        return plain(self._readings(self.x_scale()))

    @property
    def is_log(self) -> bool:
        """Whether the height counts orders of magnitude."""
        return self._canvas.y_axis.is_log

    def set_log(self, is_log: bool) -> None:
        """Let the height count orders of magnitude, or the values themselves."""
        self._canvas.y_axis.measure(self._canvas.y_axis.unit, is_log=is_log and self.can_be_log)
        self.refresh()

    def x_scale(self) -> XScale:
        """Over what it lies at the moment."""
        raise NotImplementedError

    def wanted_lines(self) -> list[Line]:
        """What is to be drawn now, the first one undermost."""
        raise NotImplementedError

    def line_scale(self, line: Line, scale: XScale) -> XScale:
        """Where the points of a line lie on the axis, which counts as `scale` does."""
        return scale

    def x_span(self) -> Span:
        """What the x axis covers when the whole run is shown."""
        raise NotImplementedError

    def readings(self, x: float | None) -> list[Reading]:
        """The legend: values at `x`, a place in the series, or the newest where it is None."""
        raise NotImplementedError

    def empty_text(self) -> str:
        """Words in place of the picture; empty when there is something to draw."""
        raise NotImplementedError

    def y_span(self, drawn: Span) -> Span:
        """What the y axis covers, given the lowest and highest value in the picture."""
        return drawn

    def draw_more(self, low: float, high: float, scale: XScale) -> None:
        """Draw what is no line, from `low` to `high` of the series."""

    def decorate(self, x: Span, y: Span) -> None:
        """Place what is no line (ceilings, bands) into the picture; both in places on the axes."""

    def details(self, x: float) -> list[tuple[str, str]]:
        """All that is known of a place in the series, as names with values, for the box at the cursor."""
        return []

    def beside(self) -> list[Line]:
        """What is saved beside the lines, of the places at which these have a point."""
        return []

    def moments(self) -> list[tuple[float, str]]:
        """What upright lines point out where it lies over time: seconds worked, with words."""
        return interruption_marks(self.history.interruptions)

    def taken_at_top(self, y: Span) -> float:
        """Pixels at the end of the picture's topmost line in which something is written."""
        return 0.0

    def colour(self, tokens: Tokens) -> None:
        """Give decorations the colours in force."""

    def refresh(self) -> None:
        """Request to be redrawn, with lines that are wanted for the first time."""
        wanted = self.wanted_lines()
        if wanted != self.lines:
            for drawn in self._lines:
                self._canvas.removeItem(drawn.item)
            self._lines = [DrawnLine(line) for line in wanted]
            for depth, drawn in enumerate(self._lines):
                drawn.item.setZValue(depth - 10)
                drawn.paint_with(self._theme.tokens)
                self.add_decoration(drawn.item)
        self._queue.request(self)

    def is_shown(self) -> bool:
        """Whether any of it can be seen."""
        is_in_view = self.isVisible() and not self.visibleRegion().isEmpty()
        return is_in_view and not self.window().isMinimized()

    def redraw(self) -> None:
        """Bring the picture up to date. Only the repaint queue calls this."""
        scale = self.x_scale()
        self._canvas.x_axis.measure(scale.unit)
        x = self._x_range(scale)
        y = self._draw_lines(x, scale)
        self._canvas.set_ranges(*x, *y)
        self.decorate(x, y)
        moments = self.moments() if scale.unit is CLOCK else []
        self._moments.draw(self._canvas, moments, x, self.taken_at_top(y))
        self._mark_items.draw(self.history.marks, scale, x, y)
        empty = self.empty_text()
        self._show_readings(
            scale, " " if empty and self.is_over is None else empty
        )  # why is known once all is read
        cursor = self._cursor_place(scale)
        self._cursor.setVisible(cursor is not None and x[0] <= cursor <= x[1] and not empty)
        if cursor is not None:
            self._cursor.setValue(cursor)
        self._show_box(cursor, scale, x)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.refresh()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self._menu.popup(event.globalPos())

    def _draw_lines(self, x: Span, scale: XScale) -> Span:
        """Draw all lines; returns the frame they stand in, in places on the y axis."""
        columns, found = self._canvas.columns(), []
        for drawn in self._lines:
            own = self.line_scale(drawn.line, scale)
            low, high = (own.from_axis(edge) for edge in x)
            if low is not None and high is not None:
                found.append(drawn.draw(low, high, columns, to_axis=own.to_axis, is_log=self.is_log))
        low, high = (scale.from_axis(edge) for edge in x)
        if low is not None and high is not None:
            self.draw_more(low, high, scale)
        spans = [span for span in found if span is not None] or [(0.0, 1.0)]
        span = min(low for low, _ in spans), max(high for _, high in spans)
        shown = span if self.is_log else self.y_span(span)
        return self._canvas.y_axis.frame(*shown, float(self._canvas.rows()))

    def _x_range(self, scale: XScale) -> Span:
        stretch = self._view.stretch
        if stretch is not None:
            low, high = scale.from_clock(stretch.low), scale.from_clock(stretch.high)
            if low is not None and high is not None:
                return (low, high) if high > low else (low - 0.5, low + 0.5)  # no step ended meanwhile
        return self.x_span()

    def _cursor_place(self, scale: XScale) -> float | None:
        return None if self._view.cursor is None else scale.from_clock(self._view.cursor)

    def _readings(self, scale: XScale) -> list[Reading]:
        cursor = self._cursor_place(scale)
        return self.readings(None if cursor is None else scale.nearest(cursor))

    def _show_readings(self, scale: XScale, empty: str) -> None:
        """Write the legend; or `empty` in place of the picture, where there is nothing to draw."""
        self._empty.setText(empty)
        self._empty.setVisible(bool(empty))
        self._canvas.show_values(not empty)
        readings = [] if empty else self._readings(scale)
        taken = self.title_width() + self.menu_button.sizeHint().width()
        room = self.contentsRect().width() - HEADING_GAPS - taken
        if self._legend.show_readings(readings, room, self._theme.tokens):
            self._canvas.setAccessibleDescription(empty or plain(readings))

    def _show_box(self, cursor: float | None, scale: XScale, x: Span) -> None:
        """All that is known of the place under the mouse; nothing where it is at another chart."""
        place = scale.nearest(cursor) if cursor is not None and self._is_pointed_at else None
        values = self.details(place) if place is not None and not self.empty_text() else []
        if cursor is None or not values:
            self._box.hide()
        else:
            values += self._mark_items.words_near(cursor, x)
            self._box.show_values(values, self._canvas.place_of(cursor), self._canvas.picture())

    def _on_colours(self) -> None:
        tokens = self._theme.tokens
        self._canvas.setBackground(tokens.surface)
        self._canvas.set_selection_colour(tokens.accent_soft)
        self._cursor.setPen(pg.mkPen(tokens.muted, width=1, dash=[2, 3]))
        font = QFont(self.font())
        font.setPixelSize(round(AXIS_FONT * QFontInfo(font).pixelSize()))
        for axis in (self._canvas.x_axis, self._canvas.y_axis):
            axis.setTextPen(pg.mkPen(tokens.faint))
            axis.setTickPen(pg.mkPen(tokens.grid))
            axis.setPen(pg.mkPen(None))
        self._canvas.set_axis_font(font)
        self._box.paint_with(tokens, font)
        self._mark_items.paint_with(tokens)
        self._moments.paint_with(tokens)
        for drawn in self._lines:
            drawn.paint_with(tokens)
        self.colour(tokens)
        self.refresh()

    def _point_at(self, x: float | None) -> None:
        self._is_pointed_at = x is not None
        self._queue.hurry()
        self._view.point_at(None if x is None else self.x_scale().to_clock(x))
        self.refresh()

    def _zoom_to(self, low: float, high: float) -> None:
        scale = self.x_scale()
        clocks = scale.to_clock(low), scale.to_clock(high)
        if clocks[0] is not None and clocks[1] is not None and clocks[1] > clocks[0]:
            self._view.zoom_to(Stretch(clocks[0], clocks[1]))

    def _show_all(self) -> None:
        self._view.zoom_to(None)

    def add_switch(self, words: str, switch: Callable[[bool], None]) -> None:
        """Offer something in its menu that is on or off."""
        action = self._menu.addAction(words)
        action.setCheckable(True)
        action.toggled.connect(switch)

    def copy_image(self) -> None:
        """Put the chart as it is on the clipboard."""
        QGuiApplication.clipboard().setPixmap(self.picture())

    def save_image(self, path: Path) -> None:
        """Write the chart as it is into a PNG file."""
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        self.picture().save(buffer, "PNG")
        try:
            with writing(path):
                write_atomically(path, bytes(buffer.data().data()))
        except UserError as error:
            self._show_error(error)

    def save_table(self, path: Path) -> None:
        """Write what the chart shows, every point of it, into a CSV file."""
        columns, beside, place = *self.columns(), self.place_column

        def write() -> None:
            with writing(path), written_whole(path) as temporary:
                write_csv(place, columns, beside, temporary)

        self._files.put(write)

    def end_work(self) -> None:
        """Wait until its files are written."""
        self._files.end_work()

    def columns(self) -> tuple["Columns", "Columns"]:
        """Every point of what is shown, and what else is known of these places."""
        scale = self.x_scale()
        x = self._x_range(scale)
        columns: Columns = {}
        for line in self.lines:
            columns |= columns_of(line, *(self.line_scale(line, scale).from_axis(edge) for edge in x))
        beside: Columns = {}
        for line in self.beside():
            beside |= columns_of(line, *(scale.from_axis(edge) for edge in x))
        return columns, beside

    def _fill_menu(self) -> None:
        button = self.menu_button
        set_role(button, Role.MORE)
        button.setText("⋯")
        button.setAccessibleName(_("{}: copy, save, scale").format(self.title))
        button.setToolTip(_("Copy, save, scale"))
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        policy = button.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # or the legend would move while a picture is taken
        button.setSizePolicy(policy)
        self._menu.addAction(_("Copy image")).triggered.connect(self.copy_image)
        self._menu.addAction(_("Save image…")).triggered.connect(self._ask_image)
        self._menu.addAction(_("Save data as CSV…")).triggered.connect(self._ask_table)
        self._menu.addSeparator()
        if self.can_be_log:
            self.add_switch(_("Logarithmic scale"), self.set_log)
        button.setMenu(self._menu)

    def _ask_image(self) -> None:
        self._ask_path(_("Save image"), ".png", _("PNG images (*.png)"), self.save_image)

    def _ask_table(self) -> None:
        self._ask_path(_("Save data"), ".csv", _("CSV tables (*.csv)"), self.save_table)

    def _ask_path(self, title: str, suffix: str, kinds: str, save: Callable[[Path], None]) -> None:
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        name = self.title.lower().replace(" ", "-") + suffix
        chosen = QFileDialog.getSaveFileName(self.window(), title, str(Path(folder) / name), kinds)[0]
        if chosen:
            save(Path(chosen))

    def _show_error(self, error: UserError) -> None:
        box = QMessageBox(QMessageBox.Icon.Warning, error.title, error.title, parent=self.window())
        box.setInformativeText(error.detail)
        show_as_written(box)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()


Columns = dict[str, tuple[Floats, Floats]]
"""Points by the name of their column: positions, ascending, and values. Shapes (n,), n of each column its own."""


def columns_of(line: Line, low: float | None, high: float | None) -> Columns:
    """A copy of what a line has from `low` to `high`; nothing where it has no `column`, or these aren't known."""
    if not line.column or low is None or high is None:
        return {}
    x, y = line.series.x, line.series.y
    shown = slice(int(np.searchsorted(x, low, "left")), int(np.searchsorted(x, high, "right")))
    return {line.column: (x[shown], y[shown])}


def write_csv(place: str, columns: Columns, beside: Columns, path: Path) -> None:
    """Write a row for each position at which any of `columns` has a point; a cell without a value is empty.

    Raises:
        OSError: It can't be written.
    """
    places = np.unique(np.concatenate([np.empty(0), *(x for x, _y in columns.values())]))
    table: dict[str, npt.NDArray[Any]] = {place: places}
    for name, (x, y) in (beside | columns).items():
        found = np.full(len(places), np.nan, y.dtype)
        is_there = np.isin(x, places)
        found[np.searchsorted(places, x[is_there])] = y[is_there]
        table[name] = found
    digits = [np.finfo(column.dtype).precision + 1 for column in table.values()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(csv_cell, table))
        for first in range(0, len(places), ROWS_AT_ONCE):
            rows = zip(
                *(column[first : first + ROWS_AT_ONCE].tolist() for column in table.values()), strict=True
            )
            writer.writerows(
                [
                    "" if math.isnan(value) else f"{value:.{most}g}"
                    for value, most in zip(row, digits, strict=True)
                ]
                for row in rows
            )
