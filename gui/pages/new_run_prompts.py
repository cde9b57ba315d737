"""Several texts, one in each line: commas are a part of them."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from core.catalogue import Option
from gui.field import Field

LINES = 4


class _Lines(QPlainTextEdit):
    """A text whose first line stands beside the label of its row."""

    def sizeHint(self) -> QSize:
        """One line of controls; its height is fixed."""
        return QSize(super().sizeHint().width(), QLineEdit().sizeHint().height())


class LinesField(Field):
    """A list of texts of which each has a line of its own."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.edit = _Lines()
        self.edit.setTabChangesFocus(True)
        self.edit.setAcceptDrops(False)  # a file dropped anywhere is the data
        self.edit.setPlaceholderText(self.tr("One in each line"))
        self.edit.setFixedHeight(LINES * self.edit.fontMetrics().lineSpacing() + 18)
        self._adopt(self.edit, stretch=True)
        self.edit.setAccessibleDescription(self.tr("One in each line"))
        self.edit.textChanged.connect(self._tell)

    def value(self) -> object:
        """The texts, empty lines left out."""
        return [line.strip() for line in self.edit.toPlainText().splitlines() if line.strip()]

    def set_value(self, value: object) -> None:
        """Show a list of texts; what is there already stays as it was typed."""
        texts = [str(text) for text in value] if isinstance(value, list | tuple) else []
        if texts == self.value():
            return
        blocked = self.edit.blockSignals(True)
        self.edit.setPlainText("\n".join(texts))
        self.edit.blockSignals(blocked)
