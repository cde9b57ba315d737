"""Items over the lines of a chart: legend, values at the cursor, marks, outliers, ceilings, pressure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QFont
from PySide6.QtWidgets import QLabel

from core.base.language import IS_RIGHT_TO_LEFT, _
from gui.base.theme import Role, set_role
from gui.base.tokens import Tokens
from gui.charts.axes import Canvas, XScale
from gui.charts.history import Mark, MarkKind
from gui.charts.series import Floats, Span
from gui.widgets.labels import meanings_in


class CeilingLine(pg.InfiniteLine):
    """A red line at an upper limit, with text above it, or below it if that doesn't fit.

    Args:
        position: Position of the text along the line, 0 to 1.
    """

    def __init__(self, position: float) -> None:
        super().__init__(angle=0, label="", labelOpts={"position": position})
        self.label.textItem.document().setDocumentMargin(1)
        self.setZValue(6)

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        self.setPen(pg.mkPen(tokens.bad, width=1, dash=[6, 4]))
        self.label.setColor(tokens.bad)
        self.label.fill = pg.mkBrush(tokens.surface)
        self.label.textItem.setFont(font)

    def draw(self, level: int | None, text: str, y: Span, rows: int) -> None:
        """Draw the line at `level` bytes, or nothing if that is None or outside `y`; `rows` are pixels."""
        self.setVisible(level is not None and level <= y[1])
        if level is not None:
            self.label.setFormat(text)
            fits = (y[1] - level) / (y[1] - y[0]) * rows > self.label.textItem.boundingRect().height()
            self.label.anchors = [(self.label.orthoPos, 1.0 if fits else 0.0)] * 2
            self.setValue(level)
            self.label.updatePosition()


PAIRS_PER_ROW = 2


def table_html(values: list[tuple[str, str]], tokens: Tokens) -> str:
    """Names with their values, two pairs a row."""
    cells = [
        f"<td style='color:{tokens.muted}'>{escape(name)}&nbsp;&nbsp;</td>"
        f"<td align='right' style='color:{tokens.text}'>{escape(value).replace(' ', '&nbsp;')}&nbsp;&nbsp;</td>"
        for name, value in values
    ]
    rows = ("".join(cells[first : first + PAIRS_PER_ROW]) for first in range(0, len(cells), PAIRS_PER_ROW))
    return f"<table cellspacing='0' cellpadding='0'>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


@dataclass(frozen=True)
class Reading:
    """A figure. `colour` names a field of `gui.base.tokens.Tokens`; empty: no dot.

    `name` is shown in the box at the cursor, and in the legend if `is_named`; `note` in the legend where it fits.
    `symbol` is that of the line.
    """

    value: str
    colour: str = ""
    name: str = ""
    is_named: bool = True
    note: str = ""
    symbol: str = "o"

    @property
    def text(self) -> str:
        value = f"{self.value} {self.note}" if self.note else self.value
        return f"{self.name} {value}".rstrip() if self.name and self.is_named else value


SHAPES = {"o": "●", "s": "■", "d": "◆", "t": "▼"}
"""In a legend, by pyqtgraph's symbol."""

SHORT_NAMES = (99, 9, 7, 5)
"""Letters of names, the first for whole ones."""


class Legend(QLabel):
    """As much of the readings as fits. It never widens its chart."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setMinimumWidth(1)
        set_role(self, Role.MUTED)

    def show_readings(self, readings: Sequence[Reading], width: int, tokens: Tokens) -> None:
        """Show readings, the most important first, in `width` pixels; all of them are in the tool tip.

        If they don't fit, every colour is still named: what has no colour is left out, then values, and then the ends
        of names.
        """
        tip = escape(meanings_in(" · ".join(reading.name for reading in readings))).replace("\n", "<br>")
        if self._width(readings) > width:
            named = [(reading.name or reading.value, reading.value) for reading in readings]
            tip = table_html(named, tokens) + tip
            for shown in _ever_shorter(readings):
                readings = shown
                if self._width(shown) <= width:
                    break
        self.setToolTip(tip)
        html = "&nbsp;&nbsp; ".join(_as_html(reading, tokens) for reading in readings)
        if IS_RIGHT_TO_LEFT:
            html = f"&rlm;{html}"  # figures alone would begin on the left
        if html != self.text():
            self.setText(html)

    def _width(self, readings: Sequence[Reading]) -> int:
        texts = (f"●  {reading.text}   " if reading.colour else f"{reading.text}   " for reading in readings)
        return sum(map(self.fontMetrics().horizontalAdvance, texts)) + len(readings)  # as rich text rounds


def _ever_shorter(readings: Sequence[Reading]) -> Iterator[list[Reading]]:
    shown = [replace(reading, note="") for reading in readings]
    yield shown
    named = [
        replace(one, value="", is_named=True) if one.colour and one.name and place else one
        for place, one in enumerate(shown)
    ]
    while any(not one.colour for one in shown[1:]):
        yield shown
        del shown[max(place for place, one in enumerate(shown) if not one.colour)]
    yield shown
    shown = [one for place, one in enumerate(named) if one.colour or not place]
    for some in (shown, [replace(one, value="", is_named=True) if one.name else one for one in shown]):
        for letters in SHORT_NAMES:
            yield [
                replace(one, name=f"{one.name[:letters]}…")
                if one.colour and len(one.name) > letters + 1
                else one
                for one in some
            ]
    yield from (shown[:count] for count in range(len(shown) - 1, 0, -1))


def _as_html(reading: Reading, tokens: Tokens) -> str:
    text = reading.text.replace(" ", "&nbsp;")
    if not reading.colour:
        return text
    return (
        f'<span style="color:{getattr(tokens, reading.colour)}">{SHAPES[reading.symbol]}</span>&nbsp;{text}'
    )


NEAR = 8
"""Distance in pixels at which the cursor is at a mark."""

MOST_MARKS = 4
"""Number of marks in the box at the cursor."""

OUTLIER_INSETS = 17, 26
"""Pixels between the upper or lower edge of the plot and an outlier's arrow, which lies clear of the marks."""


@dataclass(frozen=True)
class MarkLook:
    """Appearance of marks: `size` in pixels, their middle `inset` pixels from the top or the bottom of the plot."""

    symbol: str
    size: int
    colour: str
    inset: int = 5
    at_top: bool = False


MARK_LOOKS = {
    MarkKind.CHECKPOINT: MarkLook("t1", 6, "muted"),
    MarkKind.EVALUATION: MarkLook("|", 7, "faint", inset=13),
    MarkKind.NOTE: MarkLook("d", 7, "muted", at_top=True),
    MarkKind.WARNING: MarkLook("d", 7, "warn", at_top=True),
    MarkKind.ERROR: MarkLook("d", 7, "bad", at_top=True),
}


class MarkItems:
    """The marks of a run in a canvas, one scatter plot per kind."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._marks: dict[MarkKind, list[Mark]] = {}
        self._positions: dict[MarkKind, Floats] = {}
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
        """Draw the marks inside the plot, at most one per pixel column and kind."""
        self._marks = marks
        self._positions = {kind: _positions(of_kind, scale) for kind, of_kind in marks.items()}
        pixel = (y[1] - y[0]) / self._canvas.rows()
        column = (x[1] - x[0]) / self._canvas.columns()
        for kind, positions in self._positions.items():
            inside = positions[(positions >= x[0]) & (positions <= x[1])]
            shown = inside[np.unique(np.floor((inside - x[0]) / column), return_index=True)[1]]
            inset = MARK_LOOKS[kind].inset * pixel
            level = y[1] - inset if MARK_LOOKS[kind].at_top else y[0] + inset
            if (drawn := (shown.tobytes(), level)) != self._drawn.get(kind):  # setData is slow
                self._drawn[kind] = drawn
                self._items[kind].setData(shown, np.full(len(shown), level))
                self._items[kind].setVisible(len(shown) > 0)

    def texts_near(self, position: float, x: Span) -> list[tuple[str, str]]:
        """Names and values of the marks near a position on the axis, whose range is `x`."""
        reach = NEAR * (x[1] - x[0]) / self._canvas.columns()
        near = [
            self._marks[kind][index]
            for kind, positions in self._positions.items()
            for index in np.flatnonzero(abs(positions - position) <= reach)[:MOST_MARKS]
        ]
        near.sort(key=lambda mark: mark.clock)
        return list(dict.fromkeys(map(_mark_text, near)))[:MOST_MARKS]


class Outliers(pg.ScatterPlotItem):
    """Arrows at the upper or lower edge where values lie beyond it, with the farthest of them in figures."""

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(size=18, pen=pg.mkPen(None))
        self._canvas = canvas
        self._text = pg.TextItem()
        self._drawn: tuple[bytes, Span] | None = None
        for item in (self, self._text):
            item.setZValue(9)
            item.hide()
            canvas.addItem(item, ignoreBounds=True)

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        self.setBrush(pg.mkBrush(tokens.text))
        self._text.setColor(tokens.text)
        self._text.fill = pg.mkBrush(tokens.surface)
        self._text.setFont(font)

    def draw(self, at: Floats, values: Floats, x: Span, y: Span, write: Callable[[float], str]) -> None:
        """Mark values outside `y`, at most one per width of an arrow. Shapes (n,)."""
        if (drawn := (at.tobytes() + values.tobytes(), y)) == self._drawn:  # setData is slow
            return
        self._drawn = drawn
        for item in (self, self._text):
            item.setVisible(len(at) > 0)
        if not len(at):
            return
        is_above = values > y[1]
        pixel = (y[1] - y[0]) / self._canvas.rows()
        levels = np.where(is_above, y[1] - OUTLIER_INSETS[0] * pixel, y[0] + OUTLIER_INSETS[1] * pixel)
        column = 10 * (x[1] - x[0]) / self._canvas.columns()
        shown = np.unique(np.floor((at - x[0]) / column), return_index=True)[1]
        self.setData(
            at[shown], levels[shown], symbol=np.where(is_above[shown], "arrow_up", "arrow_down").tolist()
        )
        farthest = int(np.argmax(np.abs(values - levels)))
        self._text.setText(write(float(values[farthest])))
        self._text.setAnchor((-0.1 if at[farthest] < (x[0] + x[1]) / 2 else 1.1, 0.5))
        self._text.setPos(at[farthest], levels[farthest])


def _positions(marks: list[Mark], scale: XScale) -> Floats:
    """Positions of marks of one kind on the axis; NaN if not known yet. Shape (n,)."""
    if scale.is_over_steps and marks and marks[0].step is not None:
        return scale.to_axis(np.array([float(mark.step or 0) for mark in marks]))
    return np.array([scale.from_clock(mark.clock) for mark in marks], np.float64)


def _mark_text(mark: Mark) -> tuple[str, str]:
    step = "" if mark.step is None else _("step {step}").format(step=f"{mark.step:,}")
    names = {
        MarkKind.CHECKPOINT: _("checkpoint"),
        MarkKind.EVALUATION: _("evaluated"),
        MarkKind.NOTE: _("note"),
        MarkKind.WARNING: _("warning"),
        MarkKind.ERROR: _("error"),
    }
    title = _("{title} (no longer so)").format(title=mark.title) if mark.is_over else mark.title
    return names[mark.kind], title or step


BAND_HEIGHT = 5
"""Pixels."""

LAST_SECONDS = 1.0
"""Assumed duration of the newest sample."""


def level_spans(x: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """Begin, end and level of each stretch of a level above 0; NaN counts as 0.

    Args:
        x: Times of the samples, ascending; each level lasts until the next sample.
    """
    known = np.nan_to_num(levels)
    starts = np.flatnonzero(np.diff(known, prepend=np.nan) != 0)
    begins, values = x[starts], known[starts]
    ends: Floats = np.append(begins[1:], x[-1:] + LAST_SECONDS)
    is_raised = values > 0
    return begins[is_raised], ends[is_raised], values[is_raised]


class PressureBand(pg.BarGraphItem):
    """A band at the bottom of the plot: amber at level 1, red at level 2."""

    def __init__(self) -> None:
        super().__init__(x0=[0.0], x1=[0.0], y0=[0.0], y1=[0.0], pen=None)
        self.setZValue(10)
        self._colours: dict[float, QBrush] = {}
        self.hide()

    def paint_with(self, tokens: Tokens) -> None:
        self._colours = {1.0: pg.mkBrush(tokens.warn), 2.0: pg.mkBrush(tokens.bad)}

    def draw(self, spans: tuple[Floats, Floats, Floats], x: Span, y: Span, canvas: Canvas) -> None:
        """Draw `level_spans` in a plot with the ranges `x` and `y`."""
        begins, ends, levels = spans
        self.setVisible(len(levels) > 0)
        if len(levels):
            pixel, top = (x[1] - x[0]) / canvas.columns(), y[0] + (y[1] - y[0]) * BAND_HEIGHT / canvas.rows()
            self.setOpts(
                x0=begins,
                x1=np.maximum(ends, begins + pixel),
                y0=np.full(len(begins), y[0]),
                y1=np.full(len(begins), top),
                brushes=[self._colours[float(level)] for level in levels],
            )
