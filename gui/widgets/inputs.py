"""Inputs. The wheel scrolls the page, and changes the value only of an input that has the focus."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from PySide6.QtCore import (
    QEvent,
    QMimeData,
    QModelIndex,
    QObject,
    QSignalBlocker,
    QSize,
    QStandardPaths,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QFocusEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPalette,
    QValidator,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QButtonGroup,
    QComboBox,
    QDialog,
    QDoubleSpinBox,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionComboBox,
    QStyleOptionViewItem,
    QWidget,
)

from core.base.formats import ascii_digits
from core.options.presets import recent
from core.options.sources import scheme_of
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import tip_of
from gui.widgets.layout import fill
from gui.widgets.tables import Index

TEXT_MARGIN = 7


class CalmSpinBox(QSpinBox):
    """A whole number. Thousands are grouped only without the focus: Qt reads a typed `2,5` as 25."""

    def __init__(self) -> None:
        super().__init__()
        _calm(self)
        self.setGroupSeparatorShown(True)

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Refuse misplaced group separators, and a minus sign, which is shown all the same."""
        text = ascii_digits(text)
        separator = self.locale().groupSeparator()
        number = text.removeprefix(self.prefix()).removesuffix(self.suffix()).strip()
        if number.startswith("-") and self.minimum() >= 0:
            return QValidator.State.Intermediate, text, place
        if separator in number and not _GROUPED.fullmatch(number.replace(separator, ",")):
            return QValidator.State.Intermediate, text, place
        return super().validate(text, place)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.setGroupSeparatorShown(False)
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.setGroupSeparatorShown(True)

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event) if self.hasFocus() else event.ignore()


_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+")


class CalmDoubleSpinBox(QDoubleSpinBox):
    """A number with decimals; a comma is a decimal point too."""

    def __init__(self) -> None:
        super().__init__()
        _calm(self)

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Read a comma as a decimal point; Qt would take it for a group separator, and 12,5 for 125."""
        return super().validate(ascii_digits(text).replace(",", "."), place)

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event) if self.hasFocus() else event.ignore()


class WheelGuard(QObject):
    """Leaves the wheel of a widget without a value, such as a tab bar or a chart's viewport, to the page.

    Args:
        parent: That widget.
        inside: What the wheel scrolls, as long as it has the focus or its window does not scroll.
    """

    def __init__(self, parent: QWidget, inside: QWidget | None = None) -> None:
        super().__init__(parent)
        self._inside = inside
        parent.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is not QEvent.Type.Wheel:
            return False
        if self._inside is not None and (
            self._inside.hasFocus() or isinstance(self._inside.window(), QDialog)
        ):
            return False
        event.ignore()
        return True


class CalmComboBox(QComboBox):
    """A list to choose from, no wider than the form lets it be."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # also with the focus: it scrolls the page

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:  # noqa: N802 - Qt's name
        """Leave out the middle of a text that is too long: names often differ at their ends."""
        super().initStyleOption(option)
        complex_, field = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(complex_, option, field, self).width()
        shown = option.fontMetrics.elidedText(option.currentText, Qt.TextElideMode.ElideMiddle, room)
        option.currentText = shown


def _calm(spin: QAbstractSpinBox) -> None:
    spin.lineEdit().setTextMargins(TEXT_MARGIN, 0, 0, 0)  # style sheets don't pad the text of a spin box
    spin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    spin.setKeyboardTracking(True)
    spin.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)


class PathLine(QLineEdit):
    """A line of text that takes a dropped file or folder as its path.

    Without the focus the end of a long path is in view; the tool tip has all of it.
    """

    left = Signal()  # for another control, not for another window or a menu

    def __init__(self, help_text: str = "") -> None:
        super().__init__()
        self._help = help_text
        self.setToolTip(help_text)
        self.textChanged.connect(self._show_tip)

    def show_path(self, path: str) -> None:
        with QSignalBlocker(self):
            self.setText(path)
        self._show_tip()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.end(False)
        if event.reason() not in (Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.PopupFocusReason):
            self.left.emit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()
        else:
            super().dragEnterEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        paths = dropped_paths(event.mimeData())
        if paths:
            self.setText(str(paths[0]))
            event.acceptProposedAction()
        else:
            super().dropEvent(event)

    def _show_tip(self) -> None:
        self.setToolTip(tip_of(self.text()) or self._help)


def dropped_paths(data: QMimeData) -> list[Path]:
    """The local files and folders in what is dragged."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


@dataclass(frozen=True)
class Segment:
    """One choice; with a `refusal`, which becomes its tool tip, it is greyed."""

    value: str
    title: str
    help: str = ""
    refusal: str = ""


class Chooser:
    """Dialogs for a path, empty if none is chosen; they open where the last one was left, first at the newest data."""

    folder: ClassVar[Path | None] = None

    @classmethod
    def start(cls) -> str:
        documents = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        newest = (Path(source).parent for source in recent() if scheme_of(source) is None)
        places = (cls.folder, next(newest, None), Path(documents))
        return str(next((place for place in places if place and place.is_dir()), Path.home()))

    @classmethod
    def file(cls, parent: QWidget, title: str, filters: str = "", start: str = "") -> str:
        return cls._note(QFileDialog.getOpenFileName(parent, title, start or cls.start(), filters)[0])

    @classmethod
    def files(cls, parent: QWidget, title: str, filters: str = "") -> list[str]:
        paths = QFileDialog.getOpenFileNames(parent, title, cls.start(), filters)[0]
        cls._note(paths[0] if paths else "")
        return paths

    @classmethod
    def directory(cls, parent: QWidget, title: str, start: str = "") -> str:
        return cls._note(QFileDialog.getExistingDirectory(parent, title, start or cls.start()))

    @classmethod
    def _note(cls, path: str) -> str:
        cls.folder = Path(path).parent if path else cls.folder
        return path


class Segmented(QFrame):
    """One of a few choices side by side. Tab reaches it once, the arrow keys move within it."""

    chosen = Signal(str)  # the value, by the person

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        super().__init__()
        set_role(self, Role.SEGMENTS)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._row = fill(QHBoxLayout(self), margins=(2, 2, 2, 2), spacing=2)
        self._group = QButtonGroup(self)
        self._group.buttonClicked.connect(self._on_clicked)
        self._segments: dict[str, QPushButton] = {}
        self.set_segments(segments)

    def set_segments(self, segments: Iterable[Segment], *, keeps_value: bool = True) -> None:
        """Show other choices. The value stays; one that is not among them only if `keeps_value`."""
        value_before = self.value()
        wanted = {segment.value: segment for segment in segments}
        for value in [value for value in self._segments if value not in wanted]:
            button = self._segments.pop(value)
            self._group.removeButton(button)
            self._row.removeWidget(button)
            button.hide()
            button.deleteLater()
        for index, segment in enumerate(wanted.values()):
            button = self._segments.get(segment.value) or self._add(segment.value, index)
            self._set_up(button, segment)
        self._segments = {value: self._segments[value] for value in wanted}
        if value_before and (keeps_value or value_before in self._segments):
            self.set_value(value_before)

    def value(self) -> str:
        return next((value for value, button in self._segments.items() if button.isChecked()), "")

    def set_value(self, value: str) -> None:
        """Set the value; one that is not among the choices is added. `chosen` is not emitted."""
        if value not in self._segments:
            self._set_up(self._add(value, len(self._segments)), Segment(value, value))
        self._segments[value].setChecked(True)
        self._lead_focus_to(self._segments[value])

    def buttons(self) -> dict[str, QPushButton]:
        return dict(self._segments)

    def setAccessibleName(self, name: str) -> None:  # noqa: N802 - Qt's name
        super().setAccessibleName(name)
        for button in self._segments.values():
            button.setAccessibleName(f"{name}: {button.text()}")

    def _add(self, value: str, index: int) -> QPushButton:
        button = QPushButton(self)
        button.setAutoDefault(False)  # Return in a dialog presses its default button
        button.setCheckable(True)
        button.setProperty("value", value)
        set_role(button, Role.SEGMENT)
        self._group.addButton(button)
        self._row.insertWidget(index, button)
        self._segments[value] = button
        return button

    def _set_up(self, button: QPushButton, segment: Segment) -> None:
        button.setText(segment.title)
        button.setToolTip(segment.refusal or segment.help)
        button.setEnabled(not segment.refusal)
        name = self.accessibleName()
        button.setAccessibleName(f"{name}: {segment.title}" if name else segment.title)

    def _lead_focus_to(self, chosen: QPushButton) -> None:
        """Let Tab reach the chosen one only; Qt lets it reach the one that had the focus last."""
        for button in self._segments.values():
            is_chosen = button is chosen
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus if is_chosen else Qt.FocusPolicy.ClickFocus)
        self.setFocusProxy(chosen)

    def _on_clicked(self, button: QPushButton) -> None:
        self._lead_focus_to(button)
        self.chosen.emit(str(button.property("value")))


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


FLAGS = Qt.ItemDataRole.UserRole - 1
"""The role under which a QStandardItem keeps its flags."""
NO_FLAGS, SELECTABLE = Qt.ItemFlag.NoItemFlags.value, Qt.ItemFlag.ItemIsSelectable.value


class ChoiceList(CalmComboBox):
    """One of many choices; refused ones are greyed and show why."""

    def __init__(self, choices: Iterable[Segment] = ()) -> None:
        super().__init__()
        self.setMaxVisibleItems(MOST_SHOWN)
        self.view().setItemDelegate(TwoLines(self.view()))
        self.view().installEventFilter(self)
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.set_choices(choices)

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        metrics = QFontMetrics(_smaller(self.font()))
        words = [str(self.itemData(row, SECOND_LINE) or "") for row in range(self.count())]
        needed = max((metrics.horizontalAdvance(line) for line in words), default=0) + 6 * SPACING
        self.view().setMinimumWidth(min(needed, MOST_LETTERS * metrics.averageCharWidth()))
        super().showPopup()
        if self.currentIndex() < 0:
            self._mark(self._choosable()[:1])

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Home and End lead to the first and the last choice: Qt stays at headings, which can't be chosen."""
        if watched is self.view() and event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            found = self._choosable()
            ends = {Qt.Key.Key_Home: found[:1], Qt.Key.Key_End: found[-1:]}
            if event.key() in ends:
                self._mark(ends[Qt.Key(event.key())])
                return True
        return super().eventFilter(watched, event)

    def _choosable(self) -> list[QModelIndex]:
        model = self.model()
        indexes = (model.index(row, 0) for row in range(self.count()))
        return [index for index in indexes if index.flags() & Qt.ItemFlag.ItemIsEnabled]

    def _mark(self, found: Sequence[QModelIndex]) -> None:
        for index in found:
            self.view().setCurrentIndex(index)

    def set_choices(self, choices: Iterable[Segment]) -> None:
        """Show other choices; the chosen one stays. No signal is emitted."""
        value = self.currentData()
        with QSignalBlocker(self):
            self.clear()
            for choice in choices:
                self.append(choice)
        if value is not None:
            self.choose(str(value))

    def choose(self, value: str) -> None:
        """Choose a value; one that is not in the list is added. No signal is emitted."""
        with QSignalBlocker(self):
            index = self.findData(value)
            if index < 0:
                self.append(Segment(value, value))
                index = self.count() - 1
            self.setCurrentIndex(index)

    def append(self, choice: Segment) -> None:
        words = choice.refusal or choice.help
        self.addItem(choice.title, choice.value)
        for role in (SECOND_LINE, Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleDescriptionRole):
            self.setItemData(self.count() - 1, words, role)
        if choice.refusal:
            self.setItemData(self.count() - 1, SELECTABLE, FLAGS)

    def append_heading(self, title: str) -> None:
        """Add a line in bold that can't be chosen."""
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        self.addItem(title)
        self.setItemData(self.count() - 1, font, Qt.ItemDataRole.FontRole)
        self.setItemData(self.count() - 1, NO_FLAGS, FLAGS)


class TwoLines(QStyledItemDelegate):
    """Paints a choice, and below it in smaller letters what it is."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        size = super().sizeHint(option, index)
        if index.data(SECOND_LINE):
            lines = option.fontMetrics.height() * (1 + SMALLER)
            size.setHeight(round(lines) + SPACING + 2)
            size.setWidth(0)  # the second line is cut where it is too long; the tool tip has all of it
        return size

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        words = str(index.data(SECOND_LINE) or "")
        if not words:
            super().paint(painter, option, index)
            return
        shown = QStyleOptionViewItem(option)
        self.initStyleOption(shown, index)
        title, shown.text = shown.text, ""
        shown.widget.style().drawControl(QStyle.ControlElement.CE_ItemViewItem, shown, painter, shown.widget)
        is_on = bool(shown.state & QStyle.StateFlag.State_Enabled)
        room = shown.rect.adjusted(SPACING + 2, SPACING // 2, -SPACING, -SPACING // 2)
        side = QStyle.visualAlignment(shown.direction, Qt.AlignmentFlag.AlignLeft)
        colour = shown.palette.color(QPalette.ColorRole.Text)  # a style sheet gives greyed texts no other
        painter.save()
        colour.setAlphaF(1.0 if is_on else GREYED)
        painter.setPen(colour)
        painter.drawText(room, side | Qt.AlignmentFlag.AlignTop, title)
        colour.setAlphaF(QUIETER if is_on else GREYED)
        painter.setPen(colour)
        painter.setFont(_smaller(shown.font))
        cut = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, side | Qt.AlignmentFlag.AlignBottom, cut)
        painter.restore()


def _smaller(font: QFont) -> QFont:
    smaller = QFont(font)
    if font.pointSizeF() > 0:
        smaller.setPointSizeF(SMALLER * font.pointSizeF())
    else:
        smaller.setPixelSize(round(SMALLER * font.pixelSize()))
    return smaller
