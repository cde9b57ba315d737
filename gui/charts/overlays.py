"""What lies over the lines of a chart: legend, box at the cursor, marks, ceilings, phases, pressure."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import accumulate

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QPainter
from PySide6.QtWidgets import QGraphicsTextItem, QLabel, QStyleOptionGraphicsItem, QWidget

from core.base import formats
from core.base.language import _
from core.runs.events import Phase
from core.runs.status import Interruption
from gui.base.theme import Role, set_role
from gui.base.tokens import Tokens
from gui.charts.axes import Canvas, XScale
from gui.charts.history import Mark, MarkKind
from gui.charts.series import Floats

Span = tuple[float, float]

LINES_IN_WAY = 2.5
"""A ceiling no further below the top than so many lines of text has its words in the topmost of them."""


class CeilingLine(pg.InfiniteLine):
    """A red line at the most there is, with words above it, or below it where these don't fit.

    Args:
        place: Position of the words along the line, 0 to 1.
    """

    def __init__(self, place: float) -> None:
        super().__init__(angle=0, label="", labelOpts={"position": place})
        self.label.textItem.document().setDocumentMargin(1)
        self.setZValue(6)

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        self.setPen(pg.mkPen(tokens.bad, width=1, dash=[6, 4]))
        self.label.setColor(tokens.bad)
        self.label.fill = pg.mkBrush(tokens.surface)
        self.label.textItem.setFont(font)

    def draw(self, level: int | None, words: str, y: Span, rows: int) -> None:
        """Draw the line at `level` bytes, or nothing where that is None or above a picture of `y` in so many pixels.

        `words` have a placeholder for the level.
        """
        self.setVisible(level is not None and level <= y[1])
        if level is not None:
            self.label.setFormat(words.format(formats.memory_tick(level)))
            fits = (y[1] - level) / (y[1] - y[0]) * rows > self.label.textItem.boundingRect().height()
            self.label.anchors = [(self.label.orthoPos, 1.0 if fits else 0.0)] * 2
            self.setValue(level)
            self.label.updatePosition()

    def taken_at_top(self, y: Span, rows: int) -> float:
        """Pixels that the words take of the picture's topmost line of text."""
        words = self.label.textItem.boundingRect()
        below_top = (y[1] - self.value()) / (y[1] - y[0]) * rows
        return words.width() if self.isVisible() and below_top < LINES_IN_WAY * words.height() else 0.0


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
        """Show names with their values beside the cursor, on its wider side; no values hide the box.

        `cursor` and `picture`, over which the box stands, are in pixels.
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
    cells = [
        f"<td style='color:{tokens.muted}'>{escape(name)}&nbsp;&nbsp;</td>"
        f"<td align='right' style='color:{tokens.text}'>{escape(value).replace(' ', '&nbsp;')}&nbsp;&nbsp;</td>"
        for name, value in values
    ]
    rows = ("".join(cells[first : first + PAIRS_A_ROW]) for first in range(0, len(cells), PAIRS_A_ROW))
    return f"<table cellspacing='0' cellpadding='0'>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


@dataclass(frozen=True)
class Reading:
    """One figure. `colour` names a field of `gui.base.theme.Tokens`; empty is plain text.

    `name` is what stands for it where not all figures fit, so that no dot goes unexplained.
    """

    text: str
    colour: str = ""
    name: str = ""


def plain(readings: list[Reading]) -> str:
    """Readings as one line of text."""
    return " · ".join(reading.text for reading in readings)


class Legend(QLabel):
    """As many readings as fit, the first one at least. It never makes its chart wider."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setMinimumWidth(1)
        set_role(self, Role.MUTED)

    def show_readings(self, readings: list[Reading], room: int, tokens: Tokens) -> bool:
        """Write readings, the most important first, into `room` pixels; returns whether the text has changed."""
        html = "&nbsp;&nbsp; ".join(_as_html(reading, tokens) for reading in self._fitting(readings, room))
        if html == self.text():
            return False
        self.setText(html)
        return True

    def _fitting(self, readings: list[Reading], room: int) -> list[Reading]:
        """All of them; else those with a name by it alone; else those that fit."""
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

MOST_WORDS = 4
"""More would make the box at the cursor hide the chart."""

INSET = 5
"""Pixels between a mark and the edge of the picture."""


@dataclass(frozen=True)
class MarkLook:
    """Symbol, size in pixels and colour of marks; those of messages stand at the top."""

    symbol: str
    size: int
    colour: str
    at_top: bool = False


MARK_LOOKS = {
    MarkKind.CHECKPOINT: MarkLook("t1", 6, "muted"),
    MarkKind.EVALUATION: MarkLook("|", 13, "faint"),
    MarkKind.NOTE: MarkLook("d", 7, "muted", at_top=True),
    MarkKind.WARNING: MarkLook("d", 7, "warn", at_top=True),
    MarkKind.ERROR: MarkLook("d", 7, "bad", at_top=True),
}


class MarkItems:
    """The marks of a run in a canvas, one cloud of symbols a kind."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._marks: dict[MarkKind, list[Mark]] = {}
        self._places: dict[MarkKind, Floats] = {}
        self._drawn: dict[MarkKind, tuple[bytes, float]] = {}
        self._items = {
            kind: pg.ScatterPlotItem(symbol=look.symbol, size=look.size, pen=pg.mkPen(None))
            for kind, look in MARK_LOOKS.items()
        }
        for item in self._items.values():
            item.setZValue(8)
            canvas.addItem(item, ignoreBounds=True)

    def paint_with(self, tokens: Tokens) -> None:
        for kind, item in self._items.items():
            item.setBrush(pg.mkBrush(getattr(tokens, MARK_LOOKS[kind].colour)))

    def draw(self, marks: dict[MarkKind, list[Mark]], scale: XScale, x: Span, y: Span) -> None:
        """Draw those that lie in the picture, at most one a pixel column and kind."""
        self._marks = marks
        self._places = {kind: _places(found, scale) for kind, found in marks.items()}
        inset = INSET * (y[1] - y[0]) / self._canvas.rows()
        column = (x[1] - x[0]) / self._canvas.columns()
        for kind, places in self._places.items():
            inside = places[(places >= x[0]) & (places <= x[1])]
            shown = inside[np.unique(np.floor((inside - x[0]) / column), return_index=True)[1]]
            level = y[1] - inset if MARK_LOOKS[kind].at_top else y[0] + inset
            if (drawn := (shown.tobytes(), level)) != self._drawn.get(kind):  # setData is slow
                self._drawn[kind] = drawn
                self._items[kind].setData(shown, np.full(len(shown), level))
                self._items[kind].setVisible(len(shown) > 0)

    def words_near(self, place: float, x: Span) -> list[tuple[str, str]]:
        """Names and values of the marks at a position of the axis, which shows `x`; at most `MOST_WORDS`."""
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


def phase_text(phase: Phase) -> str:
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
        found.append((clock, phase_text(phase)))
    return found


def interruption_marks(interruptions: list[Interruption]) -> list[tuple[float, str]]:
    """Where attempts go on: seconds worked, with words."""
    paused, resumed = _("paused {}"), _("resumed")
    return [
        (one.clock, paused.format(formats.about(one.seconds)) if one.was_paused else resumed)
        for one in interruptions
    ]


LEAST_PIXELS = 6
"""Marks nearer than this to the next one, or to the left edge, are left out."""

TOP = 0.98
"""Position of the words, as a share of the height."""

GROUND_ALPHA = 140
"""What lies behind the words can be made out."""

SIDES = [(1.04, 0.0)] * 2, [(-0.04, 0.0)] * 2
"""Anchors of words that stand before their line, and behind it."""


@dataclass(frozen=True)
class PlacedMark:
    """An upright line; `words` are empty where they don't fit."""

    clock: float
    words: str
    is_before: bool = False


def placed(
    found: list[tuple[float, str]], x: Span, columns: int, width: Callable[[str], int], taken: float = 0.0
) -> list[PlacedMark]:
    """Place marks, the newest ones first; their words behind the line where these fit, or else before it.

    Args:
        found: Seconds worked, with words; ascending.
        x: From and to of the picture, in seconds.
        columns: Its pixels.
        width: Measures words, in pixels.
        taken: Pixels at the end of the line of words in which something else is written.
    """
    shown: list[PlacedMark] = []
    scale = columns / (x[1] - x[0])
    line, end = float(columns), columns - taken  # where the next line and the next words begin
    pixels = [(clock - x[0]) * scale for clock, _words in found]
    for number in reversed(range(len(found))):
        clock, words = found[number]
        at, needed = pixels[number], width(words) + 2 * LEAST_PIXELS
        if not LEAST_PIXELS <= at <= line - LEAST_PIXELS:
            continue
        line = at
        before = pixels[number - 1] + width(found[number - 1][1]) + 2 * LEAST_PIXELS if number else 0.0
        if at + needed <= end:
            shown.append(PlacedMark(clock, words))
        elif number == len(found) - 1 and at <= end and at - needed >= before:
            shown.append(PlacedMark(clock, words, is_before=True))
        else:
            shown.append(PlacedMark(clock, ""))
        end = min(end, at)
    return shown


class PhaseMarks:
    """Draws the marks into a canvas."""

    def __init__(self) -> None:
        self._lines: list[pg.InfiniteLine] = []
        self._tokens: Tokens | None = None

    def draw(self, canvas: Canvas, found: list[tuple[float, str]], x: Span, taken: float) -> None:
        """Draw those marks that lie in the picture; `taken` is as in `placed`."""
        shown = placed(found, x, canvas.columns(), canvas.axis_metrics.horizontalAdvance, taken)
        while len(self._lines) < len(shown):
            self._lines.append(self._new_line(canvas))
        for line in self._lines[len(shown) :]:
            line.hide()
        for mark, line in zip(shown, self._lines, strict=False):
            line.show()
            line.label.anchors = SIDES[0 if mark.is_before else 1]
            line.label.setFormat(mark.words)
            line.label.setVisible(bool(mark.words))
            line.setValue(mark.clock)
            line.label.updatePosition()

    def paint_with(self, tokens: Tokens) -> None:
        self._tokens = tokens
        for line in self._lines:
            self._paint(line, tokens)

    def _new_line(self, canvas: Canvas) -> pg.InfiniteLine:
        line = pg.InfiniteLine(angle=90, label="", labelOpts={"position": TOP, "anchors": SIDES[1]})
        line.setZValue(5)
        line.label.textItem.document().setDocumentMargin(1)
        line.label.textItem.setFont(canvas.axis_font)
        canvas.addItem(line, ignoreBounds=True)
        if self._tokens is not None:
            self._paint(line, self._tokens)
        return line

    @staticmethod
    def _paint(line: pg.InfiniteLine, tokens: Tokens) -> None:
        line.setPen(pg.mkPen(tokens.muted, width=1, dash=[1, 3]))
        line.label.setColor(tokens.muted)
        ground = QColor(tokens.surface)
        ground.setAlpha(GROUND_ALPHA)
        line.label.fill = pg.mkBrush(ground)


HEIGHT = 5
"""Pixels."""

LAST_SECONDS = 1.0
"""How long the newest sample stands."""


def stretches(x: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """From, to and level of each stretch in which a level above 0 stands.

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
    """A band at the bottom: amber where something was short (level 1), red where it was critically so (2)."""

    def __init__(self) -> None:
        super().__init__(x0=[0.0], x1=[0.0], y0=[0.0], y1=[0.0], pen=None)
        self.setZValue(10)
        self._colours: dict[float, QBrush] = {}
        self.hide()

    def paint_with(self, tokens: Tokens) -> None:
        self._colours = {1.0: pg.mkBrush(tokens.warn), 2.0: pg.mkBrush(tokens.bad)}

    def draw(self, shown: tuple[Floats, Floats, Floats], x: Span, y: Span, canvas: Canvas) -> None:
        """Draw `stretches` into a picture that shows `x` and `y`."""
        begins, ends, levels = shown
        self.setVisible(len(levels) > 0)
        if len(levels):
            pixel, top = (x[1] - x[0]) / canvas.columns(), y[0] + (y[1] - y[0]) * HEIGHT / canvas.rows()
            self.setOpts(
                x0=begins,
                x1=np.maximum(ends, begins + pixel),
                y0=np.full(len(begins), y[0]),
                y1=np.full(len(begins), top),
                brushes=[self._colours[float(level)] for level in levels],
            )
