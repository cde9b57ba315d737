"""Messages and questions in windows of their own."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox, QWidget

from gui.base.theme import Role, set_role

Answer = TypeVar("Answer")

ICON_SIZE = 48


class MessageBox(QMessageBox):
    """A message with the icon of the application. Texts are shown as they are: a run may have any title."""

    def __init__(self, title: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setIconPixmap(QApplication.windowIcon().pixmap(ICON_SIZE))
        self.setText(title)
        self.setInformativeText(text)
        for label in self.findChildren(QLabel):
            label.setTextFormat(Qt.TextFormat.PlainText)
        heading = self.findChild(QLabel, "qt_msgbox_label")
        if heading is not None:
            set_role(heading, Role.STRONG)

    def showEvent(self, event: QShowEvent) -> None:
        """Draw the button that Return presses as the main one."""
        super().showEvent(event)
        set_role(self.defaultButton() or self.buttons()[0], Role.PRIMARY)


class Question(MessageBox, Generic[Answer]):
    """A question; Return gives the first answer, or cancels where none can be taken back.

    Args:
        title: What it is about, in one short sentence.
        text: What each answer does.
        answers: The texts of the buttons, by their answers.
        cancel: Of the button that gives no answer; empty: Cancel.
    """

    def __init__(
        self,
        title: str,
        text: str,
        answers: Mapping[Answer, str],
        parent: QWidget | None = None,
        *,
        return_cancels: bool = False,
        cancel: str = "",
    ) -> None:
        super().__init__(title, text, parent)
        self._answers = {
            self.addButton(label, QMessageBox.ButtonRole.AcceptRole): answer
            for answer, label in answers.items()
        }
        leave = self.addButton(QMessageBox.StandardButton.Cancel)
        if cancel:
            leave.setText(cancel)
        self.setDefaultButton(leave if return_cancels else next(iter(self._answers)))

    def says(self) -> dict[str, Answer]:
        """Return each button's answer by its text, without Cancel."""
        return {button.text(): answer for button, answer in self._answers.items()}

    def ask(self, otherwise: Answer) -> Answer:
        """Wait for the answer; `otherwise` if it was cancelled."""
        self.exec()
        clicked = self.clickedButton()
        return next((answer for button, answer in self._answers.items() if button is clicked), otherwise)


class TrashDialog(QObject):
    """Asks one question at a time without blocking; Return cancels."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.box: QMessageBox | None = None

    def ask(self, title: str, text: str, agree: str, do: Callable[[], None]) -> None:
        """Ask, and call `do` if the button `agree` is pressed."""
        box = self.box = MessageBox(title, text, self._window)
        button = box.addButton(agree, QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)

        def finish() -> None:
            self.box = None
            box.deleteLater()
            if box.clickedButton() is button:
                do()

        box.finished.connect(finish)
        box.open()

    def put_away(self) -> None:
        if self.box is not None:
            self.box.reject()
