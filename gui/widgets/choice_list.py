"""A list of choices that says below each what it is, or why it can't be taken."""

from collections.abc import Iterable

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPalette, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gui.theme import SPACING
from gui.widgets.calm_inputs import CalmComboBox
from gui.widgets.segmented import Segment

SMALLER = 0.92
"""Size of the second line beside the first."""

QUIETER = 0.65
"""Opacity of the second line."""

GREYED = 0.45
"""Opacity of what can't be chosen."""

SECOND_LINE = Qt.ItemDataRole.UserRole + 1
MOST_SHOWN = 12
MOST_LETTERS = 76
"""Width of the opened list at most, in letters."""

Index = QModelIndex | QPersistentModelIndex


class ChoiceList(CalmComboBox):
    """One of many choices; those that can't be taken are greyed and say why."""

    def __init__(self, choices: Iterable[Segment] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMaxVisibleItems(MOST_SHOWN)
        self.view().setItemDelegate(TwoLines(self.view()))
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.set_choices(choices)

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        """Open the list, wide enough for what its choices say, within reason."""
        metrics = QFontMetrics(_smaller(self.font()))
        words = [str(self._items().item(row).data(SECOND_LINE) or "") for row in range(self.count())]
        needed = max((metrics.horizontalAdvance(line) for line in words), default=0) + 6 * SPACING
        self.view().setMinimumWidth(min(needed, MOST_LETTERS * metrics.averageCharWidth()))
        super().showPopup()

    def set_choices(self, choices: Iterable[Segment]) -> None:
        """Show other choices; what is chosen stays chosen. Nobody is told."""
        taken = self.currentData()
        blocked = self.blockSignals(True)
        self.clear()
        for choice in choices:
            self._append(choice)
        self.blockSignals(blocked)
        if taken is not None:
            self.choose(str(taken))

    def choose(self, value: str) -> None:
        """Choose a value without telling anybody; one that is not in the list is added as it is."""
        blocked = self.blockSignals(True)
        index = self.findData(value)
        if index < 0:
            self._append(Segment(value, value))
            index = self.count() - 1
        self.setCurrentIndex(index)
        self.blockSignals(blocked)

    def refusal(self, value: str) -> str:
        """Why a value can't be taken; empty where it can."""
        index = self.findData(value)
        item = self._items().item(index)
        return "" if item is None or item.isEnabled() else str(item.data(SECOND_LINE))

    def _append(self, choice: Segment) -> None:
        words = choice.refusal or choice.help
        item = QStandardItem(choice.title)
        item.setData(choice.value, Qt.ItemDataRole.UserRole)
        item.setData(words, SECOND_LINE)
        item.setData(words, Qt.ItemDataRole.ToolTipRole)
        item.setData(words, Qt.ItemDataRole.AccessibleDescriptionRole)
        item.setEnabled(not choice.refusal)
        self._items().appendRow(item)

    def _items(self) -> QStandardItemModel:
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        return model


class TwoLines(QStyledItemDelegate):
    """Paints a choice, and below it in smaller letters what it is."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Room for two lines where there are two."""
        size = super().sizeHint(option, index)
        if index.data(SECOND_LINE):
            lines = option.fontMetrics.height() * (1 + SMALLER)
            size.setHeight(round(lines) + SPACING + 2)
            size.setWidth(0)  # the second line is cut where it is too long; the tool tip has all of it
        return size

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint the row's background as ever, then the two lines."""
        words = str(index.data(SECOND_LINE) or "")
        if not words:
            super().paint(painter, option, index)
            return
        shown = QStyleOptionViewItem(option)
        self.initStyleOption(shown, index)
        title, shown.text = shown.text, ""
        widget = shown.widget
        widget.style().drawControl(QStyle.ControlElement.CE_ItemViewItem, shown, painter, widget)
        painter.save()
        is_on = bool(shown.state & QStyle.StateFlag.State_Enabled)
        self._lines(painter, shown, title, words, is_on=is_on)
        painter.restore()

    def _lines(
        self, painter: QPainter, shown: QStyleOptionViewItem, title: str, words: str, *, is_on: bool
    ) -> None:
        room = shown.rect.adjusted(SPACING + 2, SPACING // 2, -SPACING, -SPACING // 2)
        side = QStyle.visualAlignment(shown.direction, Qt.AlignmentFlag.AlignLeft)
        colour = shown.palette.color(QPalette.ColorRole.Text)  # a style sheet gives greyed texts no other
        colour.setAlphaF(1.0 if is_on else GREYED)
        painter.setPen(colour)
        painter.drawText(room, side | Qt.AlignmentFlag.AlignTop, title)
        colour.setAlphaF(QUIETER if is_on else GREYED)
        painter.setPen(colour)
        painter.setFont(_smaller(shown.font))
        cut = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, side | Qt.AlignmentFlag.AlignBottom, cut)


def _smaller(font: QFont) -> QFont:
    smaller = QFont(font)
    if font.pointSizeF() > 0:
        smaller.setPointSizeF(SMALLER * font.pointSizeF())
    else:
        smaller.setPixelSize(round(SMALLER * font.pixelSize()))
    return smaller
