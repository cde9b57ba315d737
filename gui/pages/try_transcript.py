"""A conversation with one model, or texts it has gone on with: questions and answers, one below the other."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from core.errors import UserError
from core.trying import Answered
from gui.pages.try_question import Question
from gui.pages.try_words import ending_words, expected_words, figures_words
from gui.theme import SPACING
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.roles import Role, set_role

PAINT_MS = 50
"""So often a text that is being written is painted anew."""
NEAR_END = 40
"""Pixels above the end at which somebody still reads along."""


class Utterance(QFrame):
    """What one side has said: who, the text, and below it what it took."""

    def __init__(self, speaker: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.speaker = QLabel(speaker)
        self.speaker.setTextFormat(Qt.TextFormat.PlainText)
        self.speaker.setWordWrap(True)
        set_role(self.speaker, Role.GROUP_TITLE)
        self.words = _text()
        self.below = _text()
        set_role(self.below, Role.HINT)
        self.below.hide()
        self.column = QVBoxLayout(self)
        self.column.setSpacing(SPACING // 2)
        for label in (self.speaker, self.words, self.below):
            self.column.addWidget(label)

    def say_below(self, *lines: str) -> None:
        """Put lines below the text; empty ones are left out."""
        self.below.setText("\n".join(filter(None, lines)))
        self.below.setVisible(bool(self.below.text()))


class Transcript(PageScroll):
    """Everything said so far; follows the end while it is written, unless somebody has scrolled back."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._content = QWidget()
        super().__init__(self._content, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(self.tr("Answers"))
        self._lines = QVBoxLayout(self._content)
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(SPACING)
        self._lines.addStretch(1)
        self._answer: Utterance | None = None
        self._text = ""
        self._paint = QTimer(self, interval=PAINT_MS, singleShot=True)
        self._paint.timeout.connect(self._show_text)
        self.verticalScrollBar().rangeChanged.connect(self._follow)
        self._reads_along = True

    def clear(self) -> None:
        """Begin anew."""
        self._paint.stop()
        self._answer = None
        while self._lines.count() > 1:
            item = self._lines.takeAt(0)
            widget = None if item is None else item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def begin(self, question: Question, name: str) -> None:
        """Show what is asked of the model `name`, and room for its answer."""
        title = self.tr("The model reads") if question.as_read else self.tr("You")
        asked = self._add(title)
        set_role(asked, Role.SAID)
        asked.words.setText(question.shown)
        asked.say_below(expected_words(question.expected))
        self._answer = self._add(name)
        set_role(self._answer, Role.ANSWER)
        self._text = ""
        self._show_text()
        self._reads_along = True

    def wait(self, words: str) -> None:
        """Say why there is no answer yet."""
        if self._answer is not None:
            self._answer.say_below(words)

    def add(self, piece: str) -> None:
        """Some more of the answer."""
        bar = self.verticalScrollBar()
        self._reads_along = bar.value() >= bar.maximum() - NEAR_END
        self._text += piece
        if not self._paint.isActive():
            self._paint.start()

    def finish(self, answered: Answered) -> None:
        """The whole answer, and what it took."""
        self._text = answered.text
        self._show_text()
        if self._answer is not None:
            silent = "" if answered.text.strip() else self.tr("It ended without a word.")
            self._answer.speaker.setText(answered.name)
            self._answer.say_below(silent, *answered.notes, ending_words(answered), figures_words(answered))

    def fail(self, error: UserError) -> None:
        """There is no answer, and why."""
        self._show_text()
        if self._answer is not None:
            self._answer.say_below(*str(error).splitlines())

    def stop(self) -> None:
        """The answer will not come."""
        if self._answer is not None and not self._text:
            self._answer.say_below(self.tr("Stopped."))

    def _add(self, speaker: str) -> Utterance:
        made = Utterance(speaker)
        self._lines.insertWidget(self._lines.count() - 1, made)
        return made

    def _show_text(self) -> None:
        self._paint.stop()
        if self._answer is not None:
            self._answer.words.setText(self._text)
            self._answer.words.setVisible(bool(self._text))

    def _follow(self, _least: int, most: int) -> None:
        if self._reads_along:
            self.verticalScrollBar().setValue(most)


def _text() -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
