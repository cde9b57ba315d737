"""A card with a bar a row, the figure at its end: what a benchmark measured, and which way is better."""

from collections.abc import Sequence
from enum import Enum

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QVBoxLayout, QWidget

from gui.plots.bar_painting import GAP, Bar, BarPainter, Line, Placed, placed
from gui.plots.legend import Legend, Reading
from gui.theme import SPACING, Theme
from gui.widgets.card import Card
from gui.widgets.plain_tip import plain_tip

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
        """As high as its rows."""
        return QSize(LETTERS * self.fontMetrics().averageCharWidth(), len(self._bars) * self._row_height())

    def minimumSizeHint(self) -> QSize:
        """As high as it wants to be."""
        return QSize(FEWEST_LETTERS * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Say of the row under the pointer what it is."""
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
        """Paint names, bars and figures."""
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
        words = {Better.MORE: self.tr("more is better"), Better.LESS: self.tr("less is better")}
        self.set_trailing(words[better] if better else "")
        theme.changed.connect(self._explain)

    def set_title(self, title: str) -> None:
        """Change the title."""
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
