"""Bar charts of benchmarks: a bar per row with its figure at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QVBoxLayout, QWidget

from gui.base.theme import Theme
from gui.base.tokens import SPACING, Tokens
from gui.charts.overlays import Legend, Reading
from gui.widgets.cards import Card
from gui.widgets.labels import mirrored, plain_tip
from gui.widgets.layout import fill

GAP = 9
"""Height of a row beyond that of its text, in pixels."""

NAMES = 0.48
"""Share of the width that names get at most."""

THINNEST = 2.0
RADIUS = 3.0
WHISKER = 6.0
"""Height of the ends of a whisker."""

MARK = "†"
"""Follows figures that were measured while another program used the machine."""


@dataclass(frozen=True)
class Piece:
    """A part of a bar: its length, in the bar's unit, and the field of `gui.base.theme.Tokens` of its colour."""

    length: float
    colour: str


@dataclass(frozen=True)
class Bar:
    """A row.

    `length` is in any unit that all rows share; without it, `words` are shown in its place. `figure` is shown at its
    end, with `MARK` if `is_marked`. `lowest` and `highest` are the ends of a whisker. The lengths of `pieces` add up
    to that of the bar. `tip` has the exact figures.
    """

    title: str
    length: float | None = None
    figure: str = ""
    colour: str = "run"
    lowest: float | None = None
    highest: float | None = None
    pieces: tuple[Piece, ...] = ()
    words: str = ""
    tip: str = ""
    is_marked: bool = False

    @property
    def text(self) -> str:
        """The figure with its mark, or what is shown in place of the bar."""
        if self.length is None:
            return self.words
        return f"{self.figure} {MARK}" if self.is_marked else self.figure

    @property
    def reach(self) -> float:
        """The end of the bar or its whisker."""
        return max(self.length or 0.0, self.highest or 0.0)


@dataclass(frozen=True)
class Row:
    """Rectangles of a bar's name, the bar itself, the text after it and its whisker."""

    bar: Bar
    name: QRectF
    body: QRectF
    text: QRectF
    whisker: QRectF | None = None


@dataclass(frozen=True)
class Placed:
    """All rows and the line across, in left-to-right coordinates."""

    rows: tuple[Row, ...]
    line: QRectF | None = None


def placed(bars: Sequence[Bar], width: float, metrics: QFontMetrics, line: float | None = None) -> Placed:
    """Lay out everything in `width` pixels, all bars at one scale, with a line across all rows at a value."""
    height, advance = metrics.height() + GAP, metrics.horizontalAdvance
    longest_name = max((advance(bar.title) for bar in bars), default=0) + 1.0
    names = min(NAMES * width, longest_name)
    left = names + SPACING
    space = max(
        1.0,
        width
        - left
        - max((advance(bar.text) for bar in bars if bar.length is not None), default=0)
        - SPACING,
    )
    most = max([*(bar.reach for bar in bars), line or 0.0])
    pixels = space / most if most else 0.0

    def x_of(value: float) -> float:
        return left + value * pixels

    rows = []
    for place, bar in enumerate(bars):
        top, middle = place * height, (place + 0.5) * height
        thick, name, whisker = height - GAP - 3.0, QRectF(0, place * height, names, height), None
        if bar.length is None:
            body, after = QRectF(left, top, 0, height), left
        else:
            body = QRectF(left, middle - thick / 2, max(THINNEST, x_of(bar.length) - left), thick)
            after = max(body.right(), x_of(bar.reach)) + SPACING - 2
            if bar.lowest is not None and bar.highest is not None and bar.lowest < bar.highest:
                wide = max(THINNEST, x_of(bar.highest) - x_of(bar.lowest))
                whisker = QRectF(x_of(bar.lowest), middle - WHISKER / 2, wide, WHISKER)
        rows.append(Row(bar, name, body, QRectF(after, top, max(0.0, width - after), height), whisker))
    across = None if line is None else QRectF(x_of(line) - 0.5, 0, 1, len(bars) * height)
    return Placed(tuple(rows), across)


LETTERS, FEWEST_LETTERS = 52, 34
"""Preferred and least width."""

UNLIMITED = 1 << 20
"""The legend may wrap."""


class Bars(QWidget):
    """The rows of a bar chart; a tool tip shows the exact figures of the row under the pointer."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.bars: tuple[Bar, ...] = ()
        self._line: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_bars(self, bars: Sequence[Bar], line: float | None = None) -> None:
        self.bars, self._line = tuple(bars), line
        self.setAccessibleDescription("; ".join(f"{bar.title}: {bar.text}" for bar in bars))
        self.updateGeometry()
        self.update()

    def placed(self) -> Placed:
        return placed(self.bars, self.width(), self.fontMetrics(), self._line)

    def sizeHint(self) -> QSize:
        return QSize(LETTERS * self.fontMetrics().averageCharWidth(), len(self.bars) * self._row_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(FEWEST_LETTERS * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            bar = self.bar_at(event.pos().y())
            QToolTip.showText(event.globalPos(), plain_tip(_tip(bar) if bar else ""), self)
            return True
        return super().event(event)

    def bar_at(self, y: float) -> Bar | None:
        """The row at a height in pixels."""
        row = int(y // self._row_height())
        return self.bars[row] if y >= 0 and row < len(self.bars) else None

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, tokens, layout = QPainter(self), self._theme.tokens, self.placed()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        for row in layout.rows:
            bar = row.bar
            if layout.line is not None and bar.length is not None:
                part = QRectF(layout.line.left(), row.name.top(), layout.line.width(), row.name.height())
                painter.fillRect(mirrored(self, part), QColor(tokens.line))
            painter.setPen(QColor(tokens.muted))
            self._write(painter, row.name, bar.title, Qt.TextElideMode.ElideMiddle, is_at_end=True)
            if bar.length is not None:
                self._paint_body(painter, row, tokens)
                painter.setPen(QColor(tokens.text))
            self._write(painter, row.text, bar.text, Qt.TextElideMode.ElideRight, is_at_end=False)

    def _paint_body(self, painter: QPainter, row: Row, tokens: Tokens) -> None:
        bar, body = row.bar, row.body
        shape = QPainterPath()
        shape.addRoundedRect(mirrored(self, body), RADIUS, RADIUS)
        painter.save()
        painter.setClipPath(shape)
        left, whole = body.left(), sum(piece.length for piece in bar.pieces)
        painter.fillRect(mirrored(self, body), QColor(getattr(tokens, bar.colour)))
        for piece in bar.pieces:
            wide = body.width() * piece.length / whole
            part = QRectF(left, body.top(), wide, body.height())
            painter.fillRect(mirrored(self, part), QColor(getattr(tokens, piece.colour)))
            left += wide
        painter.restore()
        if row.whisker is not None:
            place = mirrored(self, row.whisker)
            painter.setPen(QPen(QColor(tokens.text), 1))
            painter.drawLine(QLineF(place.left(), place.center().y(), place.right(), place.center().y()))
            for x in (place.left(), place.right()):
                painter.drawLine(QLineF(x, place.top(), x, place.bottom()))

    def _write(
        self, painter: QPainter, rect: QRectF, words: str, elide: Qt.TextElideMode, *, is_at_end: bool
    ) -> None:
        is_rtl = self.layoutDirection() is Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if is_at_end != is_rtl else Qt.AlignmentFlag.AlignLeft
        align = side | Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignAbsolute
        shown = painter.fontMetrics().elidedText(words, elide, int(rect.width()))
        painter.drawText(mirrored(self, rect), align, shown)

    def _row_height(self) -> int:
        return self.fontMetrics().height() + GAP


def _tip(bar: Bar) -> str:
    return "\n".join(filter(None, (bar.title, bar.tip or bar.words or bar.figure)))


class BarChart(Card):
    """Bars with a title, a note such as "more is better", and a legend."""

    def __init__(self, title: str, note: str, theme: Theme) -> None:
        super().__init__(title)
        self._theme = theme
        self._meanings: Sequence[Reading] = ()
        self.bars = Bars(theme)
        self.bars.setAccessibleName(title)
        self.legend = Legend()
        self.legend.setWordWrap(True)
        self.legend.hide()
        self.body.addLayout(fill(QVBoxLayout(), self.bars, self.legend, None, spacing=SPACING + 2))
        self.set_trailing(note)
        theme.changed.connect(self._show_legend)

    def set_title(self, title: str) -> None:
        super().set_title(title)
        self.bars.setAccessibleName(title)

    def show_bars(
        self, bars: Sequence[Bar], *, meanings: Sequence[Reading] = (), line: float | None = None
    ) -> None:
        """Show bars; `meanings` explain their colours."""
        self.bars.show_bars(bars, line)
        self._meanings = meanings
        self._show_legend()

    def _show_legend(self) -> None:
        self.legend.setVisible(bool(self._meanings))
        self.legend.show_readings(self._meanings, UNLIMITED, self._theme.tokens)
