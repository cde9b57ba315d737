"""What lies over the lines of a chart: legend, box at the cursor, marks, pauses, ceilings, phases, pressure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from gettext import gettext as _
from html import escape
from itertools import accumulate

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QGraphicsTextItem, QLabel, QStyleOptionGraphicsItem, QWidget

from core.base import formats
from core.runs.events import Phase
from core.runs.status import Interruption
from gui.base.theme import Role, set_role
from gui.base.tokens import Tokens
from gui.charts.axes import Canvas, XScale
from gui.charts.history import Mark, MarkKind, Pause
from gui.charts.series import Floats, Series

LINES_IN_WAY = 2.5
"""A ceiling no further below the top than so many lines of text has its words in the topmost of them."""


class CeilingLine(pg.InfiniteLine):
    """Drawn where it is in the picture. Red is for ceilings.

    Args:
        place: Where the words stand along the line, 0 to 1.
    """

    def __init__(self, place: float) -> None:
        self._above, self._below = [(place, 1.0)] * 2, [(place, 0.0)] * 2
        self._words = ""
        super().__init__(angle=0, label="", labelOpts={"position": place, "anchors": self._above})
        self.label.textItem.document().setDocumentMargin(1)
        self.setZValue(6)

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        self.setPen(pg.mkPen(tokens.bad, width=1, dash=[6, 4]))
        self.label.setColor(tokens.bad)
        self.label.fill = pg.mkBrush(tokens.surface)
        self.label.textItem.setFont(font)

    def draw(self, level: int | None, words: str, y: tuple[float, float], rows: int) -> None:
        """Draw the line, or nothing where it isn't in the picture.

        Args:
            level: Bytes; None: there is no ceiling.
            words: What to say of it, with a place for the figure.
            y: From and to of the picture.
            rows: Its height in pixels.
        """
        self.setVisible(level is not None and level <= y[1])
        if level is None:
            return
        self.setValue(level)
        room_above = (y[1] - level) / (y[1] - y[0]) * rows
        needed = QFontMetrics(self.label.textItem.font()).height()
        self._words = words.format(formats.memory_tick(level))
        self.label.anchors = self._above if room_above > needed else self._below
        self.label.setFormat(self._words)
        self.label.updatePosition()

    def taken_at_top(self, y: tuple[float, float], rows: int) -> int:
        metrics = QFontMetrics(self.label.textItem.font())
        below_top = (y[1] - self.value()) / (y[1] - y[0]) * rows
        is_in_way = self.isVisible() and below_top < LINES_IN_WAY * metrics.height()
        return metrics.horizontalAdvance(self._words) if is_in_way else 0


PAIRS_A_ROW = 2
BESIDE = 8
"""Pixels between the cursor and the box."""

MARGIN = 4
"""Pixels around the table."""


class HoverBox(QGraphicsTextItem):
    """Names and values, two pairs a row. It lies over the whole chart, axes included, in the chart's pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(1000)
        self.document().setDocumentMargin(MARGIN)
        self._tokens: Tokens | None = None
        self.hide()

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        self._tokens = tokens
        self.setFont(font)

    def show_values(self, values: list[tuple[str, str]], cursor: float, picture: QRectF) -> None:
        """Show names with their values beside the cursor, on the side that has more room; nothing hides the box.

        Args:
            values: In reading order.
            cursor: Where it is, in pixels.
            picture: What the box stands over, in pixels.
        """
        self.setVisible(bool(values) and self._tokens is not None)
        if not values or self._tokens is None:
            return
        self.setHtml(_table(values, self._tokens))
        width = self.boundingRect().width()
        left = cursor + BESIDE if cursor < picture.center().x() else cursor - BESIDE - width
        left = max(picture.left(), min(left, picture.right() - width))
        self.setPos(round(left), round(picture.top()))

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        if self._tokens is not None:
            painter.setPen(QColor(self._tokens.line))
            painter.setBrush(QColor(self._tokens.surface))
            painter.drawRect(self.boundingRect().adjusted(0.5, 0.5, -0.5, -0.5))
        super().paint(painter, option, widget)  # type: ignore[arg-type]  # Qt takes none, its stubs do not


def _table(values: list[tuple[str, str]], tokens: Tokens) -> str:
    rows = [values[first : first + PAIRS_A_ROW] for first in range(0, len(values), PAIRS_A_ROW)]
    cells = ("".join(_pair(name, value, tokens) for name, value in row) for row in rows)
    return f"<table cellspacing='0' cellpadding='0'>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _pair(name: str, value: str, tokens: Tokens) -> str:
    shown = escape(value).replace(" ", "&nbsp;")
    return (
        f"<td style='color:{tokens.muted}'>{escape(name)}&nbsp;&nbsp;</td>"
        f"<td align='right' style='color:{tokens.text}'>{shown}&nbsp;&nbsp;</td>"
    )


@dataclass(frozen=True)
class Reading:
    """One figure. `colour` names a field of `gui.base.theme.Tokens`; empty is plain text.

    `name` is what stands for it where there is no room for all figures, so that no dot goes unexplained.
    """

    text: str
    colour: str = ""
    name: str = ""


def plain(readings: list[Reading]) -> str:
    """Readings as one line of text."""
    return " · ".join(reading.text for reading in readings)


class Legend(QLabel):
    """As many readings as there is room for, the first one at least. It never makes its chart wider."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setMinimumWidth(1)
        set_role(self, Role.MUTED)

    def show_readings(self, readings: list[Reading], room: int, tokens: Tokens) -> bool:
        """Write them; returns whether what stands there has changed.

        Args:
            readings: In the order of their weight.
            room: Pixels at hand.
            tokens: The colours in force.
        """
        html = "&nbsp;&nbsp; ".join(_as_html(reading, tokens) for reading in self._fitting(readings, room))
        if html == self.text():
            return False
        self.setText(html)
        return True

    def _fitting(self, readings: list[Reading], room: int) -> list[Reading]:
        """All of them; else those with a name by it alone; else those that there is room for."""
        widths = [self._width(reading) for reading in readings]
        if sum(widths) <= room:
            return readings
        named = [Reading(reading.name, reading.colour) for reading in readings if reading.name]
        if len(named) > 1 and _count_fitting(widths, room) < len(named):
            readings, widths = named, [self._width(reading) for reading in named]
        return readings[: max(1, _count_fitting(widths, room))]

    def _width(self, reading: Reading) -> int:
        text = f"●  {reading.text}   " if reading.colour else f"{reading.text}   "
        return self.fontMetrics().horizontalAdvance(text)


def _count_fitting(widths: list[int], room: int) -> int:
    return sum(total <= room for total in accumulate(widths))


def _as_html(reading: Reading, tokens: Tokens) -> str:
    text = reading.text.replace(" ", "&nbsp;")
    if not reading.colour:
        return text
    return f'<span style="color:{getattr(tokens, reading.colour)}">●</span>&nbsp;{text}'


NEAR = 5
"""Pixels within which the cursor is at a mark."""

SIZES = {"|": 13, "t1": 6}
"""Pixels; a stroke is told from the triangle before it by its length."""

MOST_WORDS = 4
"""More would make the box at the cursor hide the chart."""

INSET = 5
"""Pixels between a mark and the edge of the picture."""


@dataclass(frozen=True)
class _Look:
    symbol: str
    colour: str
    at_top: bool = False


_LOOKS = {
    MarkKind.CHECKPOINT: _Look("t1", "muted"),
    MarkKind.EVALUATION: _Look("|", "faint"),
    MarkKind.NOTE: _Look("d", "muted", at_top=True),
    MarkKind.WARNING: _Look("d", "warn", at_top=True),
    MarkKind.ERROR: _Look("d", "bad", at_top=True),
}


class MarkItems:
    """One cloud of symbols a kind, in a canvas."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._marks: dict[MarkKind, list[Mark]] = {}
        self._places: dict[MarkKind, Floats] = {}
        self._drawn: dict[MarkKind, tuple[bytes, float]] = {}
        self._items = {
            kind: pg.ScatterPlotItem(symbol=look.symbol, size=SIZES.get(look.symbol, 7), pen=pg.mkPen(None))
            for kind, look in _LOOKS.items()
        }
        for item in self._items.values():
            item.setZValue(8)
            canvas.addItem(item, ignoreBounds=True)

    def paint_with(self, tokens: Tokens) -> None:
        for kind, item in self._items.items():
            item.setBrush(pg.mkBrush(getattr(tokens, _LOOKS[kind].colour)))

    def draw(
        self, marks: dict[MarkKind, list[Mark]], scale: XScale, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        """Draw those that lie in the picture, at most one a pixel column and kind."""
        self._marks = marks
        self._places = {kind: _places(found, scale) for kind, found in marks.items()}
        inset = INSET * (y[1] - y[0]) / self._canvas.rows()
        for kind, places in self._places.items():
            shown = _thinned(places, x, self._canvas.columns())
            level = y[1] - inset if _LOOKS[kind].at_top else y[0] + inset
            drawn = (shown.tobytes(), level)
            if drawn != self._drawn.get(kind):  # the cloud's own way to take places is slow
                self._drawn[kind] = drawn
                self._items[kind].setData(shown, np.full(len(shown), level))
                self._items[kind].setVisible(len(shown) > 0)

    def words_near(self, place: float, x: tuple[float, float]) -> list[tuple[str, str]]:
        """What the marks at a place of the axis stand for, as names with values; at most `MOST_WORDS`.

        Args:
            place: Where.
            x: From and to of the picture.
        """
        reach = NEAR * (x[1] - x[0]) / self._canvas.columns()
        near = [
            self._marks[kind][index]
            for kind, places in self._places.items()
            for index in np.flatnonzero(abs(places - place) <= reach)[:MOST_WORDS]
        ]
        near.sort(key=lambda mark: mark.clock)
        return list(dict.fromkeys(map(_words, near)))[:MOST_WORDS]


def _places(marks: list[Mark], scale: XScale) -> Floats:
    """Where marks of one kind stand on the axis; NaN where that isn't known yet. Shape (n,)."""
    if scale.counts_steps and marks and marks[0].step is not None:
        return scale.to_axis(np.array([float(mark.step or 0) for mark in marks]))
    placed = (scale.from_clock(mark.clock) for mark in marks)
    return np.array([np.nan if place is None else place for place in placed])


def _thinned(places: Floats, x: tuple[float, float], columns: int) -> Floats:
    inside = places[(places >= x[0]) & (places <= x[1])]
    if len(inside) <= 1:
        return inside
    _, first = np.unique(np.floor((inside - x[0]) / (x[1] - x[0]) * columns), return_index=True)
    return inside[first]


def _words(mark: Mark) -> tuple[str, str]:
    step = "" if mark.step is None else _("step {}").format(f"{mark.step:,}")
    names = {
        MarkKind.CHECKPOINT: _("checkpoint"),
        MarkKind.EVALUATION: _("evaluated"),
        MarkKind.NOTE: _("note"),
        MarkKind.WARNING: _("warning"),
        MarkKind.ERROR: _("error"),
    }
    return names[mark.kind], mark.title or step


class PauseLines(pg.PlotDataItem):
    """Lines from zero up. A pause that takes longer than the picture is high runs out at its top."""

    def __init__(self) -> None:
        super().__init__(connect="pairs")
        self.setZValue(-5)

    def paint_with(self, tokens: Tokens) -> None:
        self.setPen(pg.mkPen(tokens.gradients, width=1))

    def draw(self, pauses: Sequence[Pause], low: float, high: float, scale: XScale) -> None:
        """Draw those after the steps from `low` to `high`."""
        shown = [pause for pause in pauses if low <= pause.step <= high]
        places = scale.to_axis(np.array([float(pause.step) for pause in shown])) if shown else np.empty(0)
        heights = [height for pause in shown for height in (0.0, pause.seconds)]
        self.setData(np.repeat(places, 2), np.array(heights))


def share_between(pauses: Sequence[Pause], low: float, high: float, begun: float, ended: float) -> float:
    """What pauses after the steps from `low` to `high` take of the seconds from `begun` to `ended`, 0 to 1."""
    taken = sum(pause.seconds for pause in pauses if low <= pause.step <= high)
    return min(1.0, taken / (ended - begun)) if ended > begun else 0.0


LEAST_PIXELS = 6
"""Marks nearer than this to the next one, or to the edge, are left out."""

TOP = 0.98
"""Where the words stand, as a share of the height."""

GROUND_ALPHA = 140
"""What lies behind the words can be made out."""

BEHIND, BEFORE = [(-0.04, 0.0)] * 2, [(1.04, 0.0)] * 2
"""Where words hang on to a line: after it as a rule, before the newest one where there is no room."""


def phase_words(phase: Phase) -> str:
    """What the engine is busy with, in two or three words."""
    words = {
        Phase.LOADING_DATA: _("loading the data"),
        Phase.LOADING_MODEL: _("loading the model"),
        Phase.TOKENIZING: _("splitting texts"),
        Phase.COMPILING: _("compiling"),
        Phase.TRAINING: _("training"),
        Phase.EVALUATING: _("evaluating"),
        Phase.SAVING: _("saving"),
    }
    return words[phase]


def marks(phases: list[tuple[float, Phase]]) -> list[tuple[float, str]]:
    """What happens before the first step, and that step's beginning: seconds worked, with words."""
    found: list[tuple[float, str]] = []
    for clock, phase in phases:
        if phase is Phase.TRAINING:
            return [*found, (clock, _("first step"))]
        found.append((clock, phase_words(phase)))
    return found


def interruption_marks(interruptions: list[Interruption]) -> list[tuple[float, str]]:
    """Where attempts go on: seconds worked, with words."""
    paused, resumed = _("paused {}"), _("resumed")
    return [
        (one.clock, paused.format(formats.about(one.seconds)) if one.was_paused else resumed)
        for one in interruptions
    ]


def placed(
    found: list[tuple[float, str]],
    low: float,
    high: float,
    columns: int,
    width: Callable[[str], int],
    *,
    taken: int = 0,
) -> list[tuple[float, str]]:
    """Those marks that have room from `low` to `high`, the last ones first; without words where these have none.

    Args:
        found: As `marks` gives them.
        low: Where the picture begins, in seconds.
        high: Where it ends.
        columns: Its pixels.
        width: Measures words, in pixels.
        taken: Pixels at the end of the line of words in which something else is written.
    """
    shown: list[tuple[float, str]] = []
    scale = columns / (high - low)
    edge = high
    for clock, words in reversed(found):
        room = (edge - clock) * scale
        room_for_words = min(room, (high - clock) * scale - taken)
        if low + LEAST_PIXELS / scale <= clock <= high and room >= LEAST_PIXELS:
            shown.append((clock, words if room_for_words >= width(words) + 2 * LEAST_PIXELS else ""))
            edge = clock
    return shown


def has_room_before(
    found: list[tuple[float, str]],
    shown: list[tuple[float, str]],
    low: float,
    scale: float,
    width: Callable[[str], int],
) -> bool:
    """Whether the newest of all marks, which has no room for its words behind it, has some before it.

    Args:
        found: All marks.
        shown: What `placed` made of them.
        low: Where the picture begins, in seconds.
        scale: Pixels a second.
        width: Measures words, in pixels.
    """
    if not shown or shown[0] != (found[-1][0], ""):
        return False
    clock, words = shown[1] if len(shown) > 1 else (low, "")
    room = (shown[0][0] - clock) * scale - (width(words) if words else 0)
    return room >= width(found[-1][1]) + 4 * LEAST_PIXELS


class PhaseMarks:
    """Draws the marks into a canvas."""

    def __init__(self) -> None:
        self._lines: list[pg.InfiniteLine] = []
        self._tokens: Tokens | None = None

    def draw(
        self, canvas: Canvas, found: list[tuple[float, str]], low: float, high: float, taken: int
    ) -> None:
        """Draw those marks that lie in the picture from `low` to `high`; `taken` is as in `placed`."""
        width = QFontMetrics(canvas.axis_font).horizontalAdvance
        shown = placed(found, low, high, canvas.columns(), width, taken=taken) if found else []
        scale = canvas.columns() / (high - low)
        is_before = (
            has_room_before(found, shown, low, scale, width) and (high - found[-1][0]) * scale >= taken
        )
        while len(self._lines) < len(shown):
            self._lines.append(self._new_line(canvas))
        for number, line in enumerate(self._lines):
            line.setVisible(number < len(shown))
            if number < len(shown):
                words = found[-1][1] if is_before and not number else shown[number][1]
                line.setValue(shown[number][0])
                line.label.setFormat(words)
                line.label.setVisible(bool(words))
                line.label.anchors = BEFORE if is_before and not number else BEHIND
                line.label.updatePosition()

    def paint_with(self, tokens: Tokens) -> None:
        self._tokens = tokens
        for line in self._lines:
            self._paint(line)

    def _new_line(self, canvas: Canvas) -> pg.InfiniteLine:
        line = pg.InfiniteLine(angle=90, label="", labelOpts={"position": TOP, "anchors": BEHIND})
        line.setZValue(5)
        line.label.textItem.document().setDocumentMargin(1)
        line.label.textItem.setFont(canvas.axis_font)
        canvas.addItem(line, ignoreBounds=True)
        self._paint(line)
        return line

    def _paint(self, line: pg.InfiniteLine) -> None:
        if self._tokens is not None:
            line.setPen(pg.mkPen(self._tokens.muted, width=1, dash=[1, 3]))
            line.label.setColor(self._tokens.muted)
            ground = QColor(self._tokens.surface)
            ground.setAlpha(GROUND_ALPHA)
            line.label.fill = pg.mkBrush(ground)


HEIGHT = 5
"""Pixels."""

LAST_SECONDS = 1.0
"""How long the newest sample stands."""


def stretches(x: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """Where a level above 0 stands: from, to and how high it is, a row each.

    Args:
        x: When each level was sampled, ascending; it stands until the next one is.
        levels: The levels; NaN is not known, and no more drawn than 0.
    """
    held = np.nan_to_num(levels)
    starts = np.flatnonzero(np.diff(held, prepend=np.nan) != 0)
    begins, values = x[starts], held[starts]
    ends: Floats = np.append(begins[1:], x[-1:] + LAST_SECONDS)
    is_short = values > 0
    return begins[is_short], ends[is_short], values[is_short]


class PressureBand(pg.BarGraphItem):
    """Amber where memory was short (level 1), red where it was critically so (2), nothing where it was neither."""

    def __init__(self) -> None:
        super().__init__(x0=[0.0], x1=[0.0], y0=[0.0], y1=[0.0], pen=None)
        self.setZValue(10)
        self._colours: dict[float, QBrush] = {}
        self.hide()

    def paint_with(self, tokens: Tokens) -> None:
        self._colours = {1.0: pg.mkBrush(tokens.warn), 2.0: pg.mkBrush(tokens.bad)}

    def draw(
        self, pressure: Series, x: tuple[float, float], y: tuple[float, float], size: tuple[int, int]
    ) -> None:
        """Draw what lies within the picture.

        Args:
            pressure: Levels over time.
            x: From and to of the picture.
            y: From and to of the picture.
            size: Its columns and rows, in pixels.
        """
        self.show_stretches(stretches(*pressure.reduced(*x, size[0])), x, y, size)

    def show_stretches(
        self,
        shown: tuple[Floats, Floats, Floats],
        x: tuple[float, float],
        y: tuple[float, float],
        size: tuple[int, int],
    ) -> None:
        """Draw stretches: where they begin and end, and the level of each; the rest is as in `draw`."""
        begins, ends, levels = shown
        self.setVisible(len(levels) > 0)
        if not len(levels):
            return
        pixel = (x[1] - x[0]) / size[0]
        top = y[0] + (y[1] - y[0]) * HEIGHT / size[1]
        self.setOpts(
            x0=begins,
            x1=np.maximum(ends, begins + pixel),
            y0=np.full(len(begins), y[0]),
            y1=np.full(len(begins), top),
            brushes=[self._colours[float(level)] for level in levels],
        )
