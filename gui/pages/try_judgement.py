"""What one model says of a text or an image: bars of probabilities, a number, or the text with its words labelled."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.errors import UserError
from core.trying import Answered
from gui import numbers
from gui.pages.try_question import Question
from gui.pages.try_transcript import Utterance
from gui.pages.try_words import expected_words, figures_words
from gui.theme import SPACING, Theme
from gui.widgets.chance_bars import ChanceBars
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.labelled_text import LabelledText
from gui.widgets.roles import Role, set_role


class Judgement(PageScroll):
    """The newest question and its answer, headed by the model's name, in place of those before."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        content = QWidget()
        super().__init__(content, parent)
        self._question = Question()
        self.asked = Utterance(self.tr("You"))
        set_role(self.asked, Role.SAID)
        self.answer = Utterance("")
        set_role(self.answer, Role.ANSWER)
        self.answer.words.hide()
        self.bars = ChanceBars(theme)
        self.number = QLabel()
        self.number.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self.number, Role.PAGE_TITLE)
        self.labelled = LabelledText(theme)
        self._kinds: tuple[QWidget, ...] = (self.bars, self.number, self.labelled)
        for place, widget in enumerate(self._kinds):
            self.answer.column.insertWidget(2 + place, widget)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING)
        layout.addWidget(self.asked)
        layout.addWidget(self.answer)
        layout.addStretch(1)
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.asked.hide()
        self.answer.hide()
        self._show(None)

    def begin(self, question: Question, name: str) -> None:
        """A question to the model `name`; an answer before it stays until the new one comes."""
        self._question = question
        self.asked.words.setText(question.shown)
        self.asked.setVisible(bool(question.shown))
        self.answer.speaker.setText(name)
        self.answer.show()
        self.answer.say_below()

    def wait(self, words: str) -> None:
        """Say why there is no answer yet."""
        self.answer.say_below(words)

    def add(self, piece: str) -> None:
        """These models write no text."""

    def finish(self, answered: Answered) -> None:
        """The answer, and what it took."""
        self.answer.speaker.setText(answered.name)
        if answered.chances:
            self.bars.show_chances(answered.chances, self._question.expected)
            self._show(self.bars)
        elif answered.number is not None:
            self.number.setText(numbers.three_figures(answered.number))
            self._show(self.number)
        else:
            self.labelled.show_words(" ".join(self._question.texts), answered.words)
            self._show(self.labelled)
        self.answer.say_below(
            expected_words(self._question.expected), *answered.notes, figures_words(answered)
        )

    def fail(self, error: UserError) -> None:
        """There is no answer, and why."""
        self._show(None)
        self.answer.say_below(*str(error).splitlines())

    def stop(self) -> None:
        """The answer will not come."""
        self.answer.say_below(self.tr("Stopped."))

    def _show(self, widget: QWidget | None) -> None:
        for kind in self._kinds:
            kind.setVisible(kind is widget)
