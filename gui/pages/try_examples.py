"""A run's held-out examples as buttons: one press asks about one of them."""

import re
from pathlib import Path

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from core.choices import Task
from core.files import file_inside
from core.predictions import Example
from gui.pages.try_image import small_picture
from gui.pages.try_question import Question
from gui.theme import SPACING
from gui.widgets.flow_layout import FlowLayout
from gui.widgets.plain_tip import tip_of
from gui.widgets.roles import Role, set_role

MOST_TEXTS, MOST_IMAGES = 4, 12
LETTERS = 26
"""So many letters of a text stand on its button."""
PICTURE = 28
SPECIAL = re.compile(r"<\|?[\w /-]{1,30}\|?>|\[(?:INST|/INST)\]")
"""What templates put around turns; nobody wants to read it on a button."""


class ExampleRow(QWidget):
    """A few examples; hidden where the run kept none.

    Signals:
        chosen: The `Question` of the one that was pressed.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow = FlowLayout(SPACING, SPACING // 2, self)
        self.buttons: list[QPushButton] = []
        self._title = QLabel(self.tr("Examples"))
        set_role(self._title, Role.HINT)
        self._title.setFixedHeight(self._title.fontMetrics().height() + SPACING // 2)
        self._flow.addWidget(self._title)
        self.hide()

    def show_examples(
        self, examples: tuple[Example, ...], folder: Path, task: Task, *, in_pairs: bool
    ) -> None:
        """Offer a run's examples; `in_pairs`: their texts are pairs, a line each."""
        for button in self.buttons:
            self._flow.removeWidget(button)
            button.hide()
            button.deleteLater()
        most = MOST_IMAGES if task.reads_images else MOST_TEXTS
        self.buttons = [self._button(example, folder, task, in_pairs=in_pairs) for example in examples[:most]]
        self.setVisible(bool(self.buttons))

    def _button(self, example: Example, folder: Path, task: Task, *, in_pairs: bool) -> QPushButton:
        question = question_of(example, folder, task, in_pairs=in_pairs)
        button = QPushButton()
        button.setAutoDefault(False)
        set_role(button, Role.LINK)
        if question.image:
            button.setIcon(QIcon(small_picture(question.image, 2 * PICTURE)))
            button.setIconSize(QSize(PICTURE, PICTURE))
            button.setAccessibleName(self.tr("Image that is: {}").format(example.expected))
        else:
            button.setText(short(question.shown, from_end=question.as_read))
        button.setToolTip(tip_of(example.given[:1000] or example.expected))
        button.clicked.connect(lambda: self.chosen.emit(question))
        self._flow.addWidget(button)
        return button


def question_of(example: Example, folder: Path, task: Task, *, in_pairs: bool) -> Question:
    """What an example asks: an image, a text or a pair, or, of a model that writes, exactly what it read then."""
    if example.image:
        path = file_inside(folder, example.image)
        return Question(image=str(path or folder / "none"), expected=example.expected)
    texts = tuple(example.given.split("\n", 1)) if in_pairs and not task.writes_text else (example.given,)
    is_read = task.writes_text and not example.is_own
    return Question(texts=texts, expected=example.expected, as_read=is_read)


def short(text: str, *, from_end: bool = False) -> str:
    """A text on a button: its first letters, or its last words where a template stands around it."""
    plain = " ".join(SPECIAL.sub(" ", text).split())
    if len(plain) <= LETTERS:
        return plain
    return f"… {plain[-LETTERS:].partition(' ')[2]}" if from_end else f"{plain[:LETTERS].rstrip()} …"
