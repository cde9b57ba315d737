"""The foot of the page Try it: what is asked, in the form that suits the run, and the button that asks."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from core.choices import Task
from core.trying_choice import Choice
from gui.pages.try_examples import ExampleRow
from gui.pages.try_image import ImagePlace
from gui.pages.try_question import Question
from gui.pages.try_words import ask_words, hint_words
from gui.pages.try_writing import WritingSettings
from gui.theme import SPACING
from gui.widgets.card import Card
from gui.widgets.roles import Role, set_flag, set_role

LINES = 3
"""Lines of a text that are seen without scrolling."""


class AskedText(QPlainTextEdit):
    """A text field in which Return asks, and Shift+Return begins a new line.

    Signals:
        return_pressed: Ask.
    """

    return_pressed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setTabChangesFocus(True)
        frame = 2 * (self.frameWidth() + SPACING)
        self.setFixedHeight(LINES * self.fontMetrics().lineSpacing() + frame)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ask at Return."""
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.return_pressed.emit()
        else:
            super().keyPressEvent(event)


class TryInput(Card):
    """Texts, or a place for an image; examples; how a model writes; the button.

    Signals:
        asked: The `Question` to ask.
        stop_pressed: End the answers early.
        anew_pressed: Begin a new conversation.
    """

    asked = Signal(object)
    stop_pressed = Signal()
    anew_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self._task = Task.CHAT
        self._is_busy = False
        self.text = AskedText(self.tr("Text"))
        self.second = AskedText(self.tr("Second text"))
        self.image = ImagePlace()
        self.examples = ExampleRow()
        self.settings = WritingSettings()
        self.button = QPushButton()
        set_role(self.button, Role.PRIMARY)
        self.more = self._link(self.tr("Settings"))
        self.more.setCheckable(True)
        set_flag(self.more, "stays", True)
        self.anew = self._link(self.tr("New conversation"))
        self._lay_out()
        self.settings.hide()
        self.button.clicked.connect(self._press)
        self.more.toggled.connect(self.settings.setVisible)
        self.anew.clicked.connect(self.anew_pressed)
        self.image.chosen.connect(self._take_image)
        self.examples.chosen.connect(self._take_example)
        for field in (self.text, self.second):
            field.return_pressed.connect(self._ask_texts)
            field.textChanged.connect(self._show_button)

    def show_choice(self, choice: Choice) -> None:
        """Take the form that suits a run, empty."""
        chosen = choice.chosen
        if chosen is None:
            return
        task = self._task = chosen.task
        for field in (self.text, self.second):
            field.clear()
        self.text.setVisible(not task.reads_images)
        self.text.setPlaceholderText(hint_words(task))
        self.second.setVisible(choice.reads_pairs)
        self.second.setPlaceholderText(self.tr("The second text of the pair."))
        self.image.setVisible(task.reads_images)
        self.image.show_image("")
        self.more.setVisible(task.writes_text)
        self.settings.setVisible(task.writes_text and self.more.isChecked())
        self.settings.offer_system(task.reads_conversations)
        self.anew.setVisible(task.writes_text)
        self.anew.setText(self.tr("New conversation") if task.reads_conversations else self.tr("Clear"))
        self.examples.show_examples(choice.examples, chosen.run.path, task, in_pairs=choice.reads_pairs)
        self._show_button()

    def take_away(self, question: Question) -> None:
        """Clear what has been said in a conversation; a text that is judged or gone on with stays to be changed."""
        if self._task.reads_conversations and self.text.toPlainText().strip() == question.shown:
            self.text.clear()

    def show_busy(self, busy: bool) -> None:
        """Offer to stop while answers come."""
        self._is_busy = busy
        self._show_button()

    def _lay_out(self) -> None:
        texts = QHBoxLayout()
        texts.setSpacing(SPACING)
        texts.addWidget(self.text, 1)
        texts.addWidget(self.second, 1)
        texts.addWidget(self.image, 1)
        buttons = QVBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.button)
        texts.addLayout(buttons)
        below = QHBoxLayout()
        below.setSpacing(SPACING)
        below.addWidget(self.examples, 1)
        below.addStretch()
        for link in (self.anew, self.more):
            below.addWidget(link, alignment=Qt.AlignmentFlag.AlignTop)
        for row in (texts, below):
            self.body.addLayout(row)
        self.body.addWidget(self.settings)

    def _link(self, title: str) -> QPushButton:
        made = QPushButton(title)
        set_role(made, Role.LINK)
        return made

    def _press(self) -> None:
        if self._is_busy:
            self.stop_pressed.emit()
        else:
            self._ask_texts()

    def _ask_texts(self) -> None:
        texts: tuple[str, ...] = (self.text.toPlainText().strip(),)
        if self.second.isVisibleTo(self):
            texts = (*texts, self.second.toPlainText().strip())
        question = Question(texts=texts, system=self.settings.system.text())
        if self._is_busy or question.is_empty or self._task.reads_images:
            return
        self.asked.emit(question)

    def _take_image(self, path: str) -> None:
        if not self._is_busy:
            self.asked.emit(Question(image=path))

    def _take_example(self, question: Question) -> None:
        if self._is_busy:
            return
        if question.image:
            self.image.show_image(question.image)
        elif not self._task.writes_text:
            for field, text in zip((self.text, self.second), question.texts, strict=False):
                field.setPlainText(text)
        if self._task.writes_text:
            self.anew_pressed.emit()
        self.asked.emit(question)

    def _show_button(self) -> None:
        self.button.setText(self.tr("Stop") if self._is_busy else ask_words(self._task))
        has_text = bool(self.text.toPlainText().strip())
        self.button.setEnabled(self._is_busy or has_text)
        self.button.setVisible(self._is_busy or not self._task.reads_images)
