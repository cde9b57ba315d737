"""How likely a model finds each label, as bars."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from core.trying import Chance
from gui import numbers
from gui.theme import SPACING, Theme
from gui.widgets.direction import mirrored

MOST_BARS = 10
BAR = 6
NAMES = 0.4
"""The most of the width that names get."""


class ChanceBars(QWidget):
    """One line a label: its name, a bar from 0 to 1, its share in per cent; the likeliest first, at most ten."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._chances: tuple[Chance, ...] = ()
        self._expected = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_chances(self, chances: Sequence[Chance], expected: str = "") -> None:
        """Show these, the likeliest first; the label that was expected is green."""
        self._chances = tuple(chances[:MOST_BARS])
        self._expected = expected
        spoken = ", ".join(f"{one.label}: {numbers.share(one.chance)}" for one in self._chances)
        self.setAccessibleName(self.tr("Probabilities: {}").format(spoken))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        return QSize(24 * self.fontMetrics().averageCharWidth(), max(1, len(self._chances)) * self._line())

    def minimumSizeHint(self) -> QSize:
        """As high as it wants to be."""
        return QSize(12 * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint names, bars and shares."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = self.fontMetrics()
        longest = max((metrics.horizontalAdvance(one.label) for one in self._chances), default=0)
        names = min(round(self.width() * NAMES), longest + SPACING)
        shares = metrics.horizontalAdvance("100.0 %") + SPACING
        for index, one in enumerate(self._chances):
            self._paint_line(painter, index, one, (names, shares))

    def _paint_line(self, painter: QPainter, index: int, one: Chance, widths: tuple[int, int]) -> None:
        tokens, top, height = self._theme.tokens, index * self._line(), self._line()
        names, shares = widths
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if index == 0 else QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(QColor(tokens.text if index == 0 else tokens.muted))
        name = painter.fontMetrics().elidedText(
            " ".join(one.label.split()), Qt.TextElideMode.ElideRight, names
        )
        middle, right = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignRight
        painter.drawText(self._placed(0, top, names, height), middle, name)
        end = self._placed(self.width() - shares, top, shares, height)
        painter.drawText(end, middle | right, numbers.share(one.chance))
        room = max(1, self.width() - names - shares - SPACING)
        groove = QRectF(0, 0, room, BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        for length, colour in ((groove.width(), tokens.grid), (room * one.chance, self._colour(one))):
            painter.setBrush(QColor(colour))
            bar = self._placed(names + SPACING, top + (height - BAR) / 2, max(2.0, length), BAR)
            painter.drawRoundedRect(bar, BAR / 2, BAR / 2)

    def _colour(self, one: Chance) -> str:
        tokens = self._theme.tokens
        return tokens.ok if one.label == self._expected else tokens.run

    def _placed(self, left: float, top: float, width: float, height: float) -> QRectF:
        return mirrored(self, QRectF(left, top, width, height))

    def _line(self) -> int:
        return self.fontMetrics().height() + SPACING
