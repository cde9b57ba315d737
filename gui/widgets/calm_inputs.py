"""Qt's own inputs, made calm: the wheel scrolls the page and changes a value only where the person is typing."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QValidator, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QDoubleSpinBox, QSizePolicy, QSpinBox, QWidget

TEXT_MARGIN = 7


class CalmSpinBox(QSpinBox):
    """A whole number."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        _calm(self)
        self.setGroupSeparatorShown(True)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Step only with the focus; else let the page scroll."""
        super().wheelEvent(event) if self.hasFocus() else event.ignore()


class CalmDoubleSpinBox(QDoubleSpinBox):
    """A number with decimals; a typed comma is a decimal point, too."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        _calm(self)

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Whether a text is a number; Qt would take a comma for what sets thousands apart, and 12,5 for 125."""
        return super().validate(text.replace(",", "."), place)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Step only with the focus; else let the page scroll."""
        super().wheelEvent(event) if self.hasFocus() else event.ignore()


class CalmComboBox(QComboBox):
    """A list to choose from, no wider than the form lets it be."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Step only with the focus; else let the page scroll."""
        super().wheelEvent(event) if self.hasFocus() else event.ignore()


def _calm(spin: QAbstractSpinBox) -> None:
    spin.lineEdit().setTextMargins(TEXT_MARGIN, 0, 0, 0)  # style sheets don't pad the text of a spin box
    spin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    spin.setKeyboardTracking(True)
    spin.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
