"""A card with a bar a row, the figure at its end: what a benchmark measured, and which way is better."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QVBoxLayout, QWidget

from core.base.language import _
from gui.base.theme import Theme
from gui.base.tokens import SPACING, Tokens
from gui.charts.overlays import Legend, Reading
from gui.widgets.cards import Card
from gui.widgets.labels import mirrored, plain_tip
from gui.widgets.layout import fill

GAP = 9
"""What a row is higher than its text, in pixels."""

NAMES = 0.48
"""The most of the width that names get."""

THINNEST = 2.0
RADIUS = 3.0
WHISKER = 6.0
"""Height of the ends of a whisker."""

LEAST_CHANGE = 0.1
"""Where bars say by how much something differs there is room for this share: noise should not look large."""

MARK = "†"
"""Follows figures that were measured while something else took its share of the machine."""


@dataclass(frozen=True)
class Piece:
    """A part of a bar: how long, in the unit of the bar, and the field of `gui.base.theme.Tokens` of its colour."""

    length: float
    colour: str


@dataclass(frozen=True)
class Bar:
    """A row.

    `length` in any unit that all rows share; None: `words` stand in its place, and all of them in the tip. `figure` is
    written at its end. `lowest` and `highest` make a whisker. `pieces` add up to the length and give it colours.
    `tip` has the exact figures. `is_faint` is for what isn't this machine's own. Without `has_name` a legend says what
    the row is.
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
    is_faint: bool = False
    has_name: bool = True

    @property
    def at_end(self) -> str:
        """The figure with its sign."""
        return f"{self.figure} {MARK}" if self.is_marked else self.figure

    @property
    def spoken(self) -> str:
        """The row in words, for a screen reader."""
        return f"{self.title}: {self.words if self.length is None else self.at_end}"

    @property
    def told(self) -> str:
        """What its tip says."""
        return "\n".join(part for part in (self.title, self.tip or self.words or self.figure) if part)

    @property
    def reach(self) -> float:
        """How far it goes, its whisker included."""
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
    """All rows, and where the line across is; from the side where reading begins."""

    rows: tuple[Row, ...]
    line: QRectF | None = None


@dataclass(frozen=True)
class Line:
    """A thin line across at a value.

    `is_origin` says that bars begin there, to either side: they say by how much they differ. Else they begin at 0.
    """

    at: float
    is_origin: bool = False


def placed(
    bars: Sequence[Bar],
    width: float,
    metrics: QFontMetrics,
    line: Line | None = None,
) -> Placed:
    """Place everything in a width, in pixels, all bars at one scale."""
    height, advance = metrics.height() + GAP, metrics.horizontalAdvance
    longest_name = max((advance(bar.title) for bar in bars if bar.has_name), default=0) + 1.0
    names = min(NAMES * width, longest_name)
    left = names + SPACING
    space = max(1.0, width - left - max((advance(bar.at_end) for bar in bars), default=0) - SPACING)
    low, origin = 0.0, 0.0
    high = max([*(bar.reach for bar in bars), line.at if line else 0.0])
    if line is not None and line.is_origin:
        origin = line.at
        low = min([*(bar.length for bar in bars if bar.length is not None), (1 - LEAST_CHANGE) * origin])
        high = max(high, (1 + LEAST_CHANGE) * origin)
    pixels = space / (high - low) if high > low else 0.0

    def x_of(value: float) -> float:
        return left + (value - low) * pixels

    rows = []
    for place, bar in enumerate(bars):
        top, middle = place * height, (place + 0.5) * height
        thick, name, whisker = height - GAP - 3.0, QRectF(0, place * height, names, height), None
        if bar.length is None:
            body, after = QRectF(left, top, 0, height), left
        else:
            begin, end = sorted((x_of(origin), x_of(bar.length)))
            body = QRectF(begin, middle - thick / 2, max(THINNEST, end - begin), thick)
            after = max(body.right(), x_of(bar.reach), x_of(origin)) + SPACING - 2
            if bar.lowest is not None and bar.highest is not None and bar.lowest < bar.highest:
                wide = max(THINNEST, x_of(bar.highest) - x_of(bar.lowest))
                whisker = QRectF(x_of(bar.lowest), middle - WHISKER / 2, wide, WHISKER)
        rows.append(Row(bar, name, body, QRectF(after, top, max(0.0, width - after), height), whisker))
    across = None if line is None else QRectF(x_of(line.at) - 0.5, 0, 1, len(bars) * height)
    return Placed(tuple(rows), across)


LETTERS, FEWEST_LETTERS = 52, 34
"""Of the width it likes to have, and of the least in which a bar still says something."""

ANY_ROOM = 1 << 20
"""The legend takes as many lines as it needs."""


class Better(Enum):
    """Which way is better."""

    MORE = "more"
    LESS = "less"


class Bars(QWidget):
    """The bars alone, at one scale, as high as they need to be; what is under the pointer says its exact figures."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._bars: tuple[Bar, ...] = ()
        self._line: Line | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    @property
    def bars(self) -> tuple[Bar, ...]:
        """What is shown."""
        return self._bars

    def show_bars(self, bars: Sequence[Bar], line: Line | None = None) -> None:
        """Show these, one below the other, and a thin line across at a value; only what is new is painted anew."""
        wanted = tuple(bars)
        if (wanted, line) == (self._bars, self._line):
            return
        grows = len(wanted) != len(self._bars)
        self._bars, self._line = wanted, line
        self.setAccessibleDescription("; ".join(bar.spoken for bar in wanted))
        if grows:
            self.updateGeometry()
        self.update()

    def placed(self) -> Placed:
        """Where everything stands now."""
        metrics, width = self.fontMetrics(), self.width()
        return placed(self._bars, width, metrics, self._line)

    def sizeHint(self) -> QSize:
        return QSize(LETTERS * self.fontMetrics().averageCharWidth(), len(self._bars) * self._row_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(FEWEST_LETTERS * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            bar = self.bar_at(event.pos().y())
            QToolTip.showText(event.globalPos(), plain_tip(bar.told if bar else ""), self)
            return True
        return super().event(event)

    def bar_at(self, y: float) -> Bar | None:
        """The row at some height; None beside them."""
        row = int(y // self._row_height())
        return self._bars[row] if y >= 0 and row < len(self._bars) else None

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, tokens, found = QPainter(self), self._theme.tokens, self.placed()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # words run as their letters do
        for row in found.rows:
            bar = row.bar
            if found.line is not None and bar.length is not None:
                part = QRectF(found.line.left(), row.name.top(), found.line.width(), row.name.height())
                painter.fillRect(mirrored(self, part), QColor(tokens.line))
            if row.name.width() and bar.has_name:
                painter.setPen(QColor(tokens.faint if bar.is_faint else tokens.muted))
                self._write(painter, row.name, bar.title, Qt.TextElideMode.ElideMiddle, is_at_end=True)
            if bar.length is not None:
                self._paint_body(painter, row, tokens)
            is_back = bar.length is None or bar.is_faint
            painter.setPen(QColor(tokens.muted if is_back else tokens.text))
            words = bar.words if bar.length is None else bar.at_end
            self._write(painter, row.text, words, Qt.TextElideMode.ElideRight, is_at_end=False)

    def _paint_body(self, painter: QPainter, row: Row, tokens: Tokens) -> None:
        bar, body = row.bar, row.body
        shape = QPainterPath()
        shape.addRoundedRect(mirrored(self, body), RADIUS, RADIUS)
        painter.save()
        painter.setClipPath(shape)
        painter.setOpacity(0.45 if bar.is_faint else 1.0)
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


class BarChart(Card):
    """Bars below a title, which way is better at its end, and what their colours mean below.

    Args:
        title: What is measured, with its unit.
        better: Which way is better; None: neither.
        theme: The colours.
        parent: Qt's parent.
    """

    def __init__(
        self, title: str, better: Better | None, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(title, parent)
        self._theme = theme
        self._meanings: tuple[Reading, ...] = ()
        self.bars = Bars(theme)
        self.bars.setAccessibleName(title)
        self.legend = Legend()
        self.legend.setWordWrap(True)
        self.legend.hide()
        column = fill(QVBoxLayout(), self.bars, self.legend, None, spacing=SPACING + 2)
        self.body.addLayout(column)
        words = {Better.MORE: _("more is better"), Better.LESS: _("less is better")}
        self.set_trailing(words[better] if better else "")
        theme.changed.connect(self._explain)

    def set_title(self, title: str) -> None:
        super().set_title(title)
        self.bars.setAccessibleName(title)

    def show_bars(
        self, bars: Sequence[Bar], *, meanings: Sequence[Reading] = (), line: Line | None = None
    ) -> None:
        """Show these.

        Args:
            bars: A bar a row.
            meanings: What each colour stands for, where there are several.
            line: A thin line across, such as at 1 where bars say how many times as fast.
        """
        self.bars.show_bars(bars, line)
        self._meanings = tuple(meanings)
        self.legend.setVisible(bool(meanings))
        self._explain()

    def _explain(self) -> None:
        if self._meanings:
            self.legend.show_readings(list(self._meanings), ANY_ROOM, self._theme.tokens)
