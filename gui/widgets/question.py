"""A question about something that is about to happen, with an answer a button, and Cancel."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox, QWidget

from gui.widgets.roles import Role, set_role

Answer = TypeVar("Answer")

ICON_SIZE = 48


def show_as_written(box: QMessageBox) -> None:
    """Take none of its words for HTML: a run may be called anything. Call it once the texts are set."""
    for label in box.findChildren(QLabel):
        label.setTextFormat(Qt.TextFormat.PlainText)


class Question(QMessageBox, Generic[Answer]):
    """Asks; the first answer is what Return gives.

    Args:
        title: What is at stake, in one short sentence.
        words: What each answer does.
        answers: What each button says, by what it stands for.
        parent: The window it is about.
    """

    def __init__(
        self, title: str, words: str, answers: Mapping[Answer, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setIconPixmap(QApplication.windowIcon().pixmap(ICON_SIZE))
        self.setText(title)
        self.setInformativeText(words)
        show_as_written(self)
        heading = self.findChild(QLabel, "qt_msgbox_label")
        if heading is not None:
            set_role(heading, Role.STRONG)
        self._answers = {
            self.addButton(says, QMessageBox.ButtonRole.AcceptRole): answer
            for answer, says in answers.items()
        }
        self.setDefaultButton(next(iter(self._answers)))
        self.addButton(QMessageBox.StandardButton.Cancel)

    def says(self) -> dict[str, Answer]:
        """What each button stands for, by its words; Cancel left out."""
        return {button.text(): answer for button, answer in self._answers.items()}

    def ask(self, otherwise: Answer) -> Answer:
        """Wait for the answer; `otherwise` where it was called off."""
        self.exec()
        return next(
            (answer for button, answer in self._answers.items() if button is self.clickedButton()), otherwise
        )
