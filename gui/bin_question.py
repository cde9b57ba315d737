"""The question before something goes to the bin, shared by whatever can be moved there."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

from gui.widgets.question import show_as_written


class BinQuestion(QObject):
    """Asks one question at a time; Cancel is what Return gives.

    Args:
        window: What the questions belong to.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.box: QMessageBox | None = None

    @property
    def is_open(self) -> bool:
        """Whether one is being asked."""
        return self.box is not None

    def ask(
        self, words: str, details: str, agree: str, do: Callable[[], None], *, is_grave: bool = False
    ) -> None:
        """Ask, and do it where the person agrees. Returns at once.

        Args:
            words: The question.
            details: What a person has to know before answering.
            agree: What the button says that agrees.
            do: What is done then.
            is_grave: Whether it can't be put back.
        """
        icon = QMessageBox.Icon.Warning if is_grave else QMessageBox.Icon.Question
        box = QMessageBox(icon, "", words, parent=self._window)
        box.setInformativeText(details)
        show_as_written(box)
        button = box.addButton(agree, QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        box.finished.connect(lambda _: self._take_answer(box, button, do))
        self.box = box
        box.open()

    def put_away(self) -> None:
        """Take it as answered with no."""
        if self.box is not None:
            self.box.reject()

    def _take_answer(self, box: QMessageBox, agree: QPushButton, do: Callable[[], None]) -> None:
        self.box = None
        if box.clickedButton() is agree:
            do()
        box.deleteLater()
