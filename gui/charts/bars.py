"""A card with a bar a row, the figure at its end: what a benchmark measured, and which way is better."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from gettext import gettext as _

from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QVBoxLayout, QWidget

from gui.base.theme import Theme
from gui.base.tokens import SPACING, Tokens
from gui.charts.overlays import Legend, Reading
from gui.widgets.cards import Card
from gui.widgets.labels import mirrored, plain_tip

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
    `tip` are the exact figures. `is_faint` is what isn't this machine's own, and stands back. `has_name` says whether
    its title stands beside it; a legend says what a row without is.
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
    """Where a bar's name, the bar itself, the text after it and its whisker stand."""

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


@dataclass(frozen=True)
class _Scale:
    """How values become pixels: bars begin at `origin`, and `low` stands at `left`."""

    left: float
    pixels: float
    origin: float
    low: float

    def x(self, value: float) -> float:
        return self.left + (value - self.low) * self.pixels


def placed(
    bars: Sequence[Bar],
    width: float,
    metrics: QFontMetrics,
    *,
    line: Line | None = None,
    has_names: bool = True,
) -> Placed:
    """Where everything stands in a width, in pixels, all bars at one scale."""
    height = metrics.height() + GAP
    longest_name = (
        max((metrics.horizontalAdvance(bar.title) for bar in bars if bar.has_name), default=0) + 1.0
    )
    names = min(NAMES * width, longest_name) if has_names else 0.0
    left = names + SPACING if has_names else 0.0
    figures = max((metrics.horizontalAdvance(bar.at_end) for bar in bars), default=0) + SPACING
    scale = _scale(bars, line, left, max(1.0, width - left - figures))
    rows = tuple(
        _row(bar, QRectF(0, place * height, names, height), width, scale) for place, bar in enumerate(bars)
    )
    across = None if line is None else QRectF(scale.x(line.at) - 0.5, 0, 1, len(bars) * height)
    return Placed(rows, across)


def _scale(bars: Sequence[Bar], line: Line | None, left: float, room: float) -> _Scale:
    highest = max([*(bar.reach for bar in bars), line.at if line else 0.0])
    if line is None or not line.is_origin:
        return _Scale(left, room / highest if highest > 0 else 0.0, 0.0, 0.0)
    low = min([*(bar.length for bar in bars if bar.length is not None), (1 - LEAST_CHANGE) * line.at])
    high = max(highest, (1 + LEAST_CHANGE) * line.at)
    return _Scale(left, room / (high - low), line.at, low)


def _row(bar: Bar, name: QRectF, width: float, scale: _Scale) -> Row:
    thick = name.height() - GAP - 3.0
    if bar.length is None:
        body = QRectF(scale.left, name.top(), 0, name.height())
        return Row(bar, name, body, QRectF(scale.left, name.top(), width - scale.left, name.height()))
    begin, end = sorted((scale.x(scale.origin), scale.x(bar.length)))
    body = QRectF(begin, name.center().y() - thick / 2, max(THINNEST, end - begin), thick)
    after = max(body.right(), scale.x(bar.reach), scale.x(scale.origin)) + SPACING - 2
    text = QRectF(after, name.top(), max(0.0, width - after), name.height())
    return Row(bar, name, body, text, _whisker(bar, name.center().y(), scale))


def _whisker(bar: Bar, middle: float, scale: _Scale) -> QRectF | None:
    if bar.lowest is None or bar.highest is None or bar.lowest >= bar.highest:
        return None
    left = scale.x(bar.lowest)
    return QRectF(left, middle - WHISKER / 2, max(THINNEST, scale.x(bar.highest) - left), WHISKER)


class BarPainter:
    """Paints rows that have been placed, mirrored where text is read from the right."""

    def __init__(self, widget: QWidget, painter: QPainter, tokens: Tokens) -> None:
        self._widget, self._painter, self._tokens = widget, painter, tokens
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # words run as their letters do

    def paint(self, found: Placed) -> None:
        for row in found.rows:
            if found.line is not None and row.bar.length is not None:
                part = QRectF(found.line.left(), row.name.top(), found.line.width(), row.name.height())
                self._painter.fillRect(self._place(part), QColor(self._tokens.line))
            self._name(row)
            if row.bar.length is not None:
                self._body(row)
            self._text(row)

    def _name(self, row: Row) -> None:
        if not row.name.width() or not row.bar.has_name:
            return
        tokens = self._tokens
        self._painter.setPen(QColor(tokens.faint if row.bar.is_faint else tokens.muted))
        shown = self._painter.fontMetrics().elidedText(
            row.bar.title, Qt.TextElideMode.ElideMiddle, int(row.name.width())
        )
        self._write(row.name, shown, is_at_end=True)

    def _body(self, row: Row) -> None:
        painter, tokens, body = self._painter, self._tokens, row.body
        shape = QPainterPath()
        shape.addRoundedRect(self._place(body), RADIUS, RADIUS)
        painter.save()
        painter.setClipPath(shape)
        painter.setOpacity(0.45 if row.bar.is_faint else 1.0)
        painter.fillRect(self._place(body), QColor(getattr(tokens, row.bar.colour)))
        left, whole = body.left(), sum(piece.length for piece in row.bar.pieces)
        for piece in row.bar.pieces:
            wide = body.width() * piece.length / whole
            part = QRectF(left, body.top(), wide, body.height())
            painter.fillRect(self._place(part), QColor(getattr(tokens, piece.colour)))
            left += wide
        painter.restore()
        if row.whisker is not None:
            self._whisker(row.whisker)

    def _whisker(self, whisker: QRectF) -> None:
        painter, place = self._painter, self._place(whisker)
        painter.setPen(QPen(QColor(self._tokens.text), 1))
        middle = place.center().y()
        painter.drawLine(QLineF(place.left(), middle, place.right(), middle))
        for x in (place.left(), place.right()):
            painter.drawLine(QLineF(x, place.top(), x, place.bottom()))

    def _text(self, row: Row) -> None:
        is_back = row.bar.length is None or row.bar.is_faint
        self._painter.setPen(QColor(self._tokens.muted if is_back else self._tokens.text))
        words = row.bar.words if row.bar.length is None else row.bar.at_end
        shown = self._painter.fontMetrics().elidedText(
            words, Qt.TextElideMode.ElideRight, int(row.text.width())
        )
        self._write(row.text, shown, is_at_end=False)

    def _write(self, rect: QRectF, words: str, *, is_at_end: bool) -> None:
        is_rtl = self._widget.layoutDirection() is Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if is_at_end != is_rtl else Qt.AlignmentFlag.AlignLeft
        align = side | Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignAbsolute
        self._painter.drawText(self._place(rect), align, words)

    def _place(self, rect: QRectF) -> QRectF:
        return mirrored(self._widget, rect)


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
        self._has_names = True
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
        return placed(self._bars, width, metrics, line=self._line, has_names=self._has_names)

    def show_names(self, are_shown: bool) -> None:
        """Show the names, or leave them away where the same rows stand beside with theirs."""
        if are_shown != self._has_names:
            self._has_names = are_shown
            self.update()

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
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        BarPainter(self, painter, self._theme.tokens).paint(self.placed())

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
        column = QVBoxLayout()
        column.setSpacing(SPACING + 2)
        column.addWidget(self.bars)
        column.addWidget(self.legend)
        column.addStretch(1)
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
