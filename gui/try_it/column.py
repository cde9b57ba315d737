"""A model on the page Try it: its process and its answers."""

import threading

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QLabel, QStackedWidget, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.language import _
from core.options.choices import Speaker
from core.services.chat import (
    Answered,
    Ask,
    Load,
    Loaded,
    NotAnswered,
    Piece,
    Said,
    Start,
    Stop,
    Told,
    Triable,
    TryProcess,
    Turn,
    Which,
    Writing,
)
from gui.base.background import Call, Task
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.try_it.input import ENDINGS, Question, expected_text, figures_text, which_text
from gui.widgets.bars import ChanceBars
from gui.widgets.cards import Card
from gui.widgets.labels import ElidedLabel, LabelledText, text_label
from gui.widgets.layout import FLUSH, PageScroll, fill

PAINT_MS = 50
"""Interval of repaints while a text is generated."""
NEAR_END = 40
"""Within so many pixels of the end, the view follows the text."""


class Utterance(QFrame):
    """A message: the speaker, the text, and notes below it."""

    def __init__(self, speaker: str, role: Role) -> None:
        super().__init__()
        set_role(self, role)
        self.speaker = text_label(speaker, Role.GROUP_TITLE)
        self.words = text_label(selectable=True)
        self.below = text_label(role=Role.HINT, selectable=True)
        self.below.hide()
        self.column = fill(QVBoxLayout(self), self.speaker, self.words, self.below, spacing=SPACING // 2)

    def show_notes(self, *lines: str) -> None:
        """Show lines below the text, without empty ones."""
        self.below.setText("\n".join(filter(None, lines)))
        self.below.setVisible(bool(self.below.text()))


class Transcript(PageScroll):
    """A conversation; the view follows the end while a text is generated, unless the person has scrolled back."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._content = QWidget()
        super().__init__(self._content, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(_("Answers"))
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
        """Remove all messages."""
        self._paint.stop()
        self._answer = None
        while self._lines.count() > 1:
            item = self._lines.takeAt(0)
            if item is not None and (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()

    def begin(self, question: Question, name: str) -> None:
        """Show a question to the model `name`, and start its answer."""
        title = _("Input") if question.as_read else _("You")
        asked = self._add(title, Role.SAID)
        asked.words.setText(question.shown)
        asked.show_notes(expected_text(question.expected))
        self._answer = self._add(name, Role.ANSWER)
        self._text = ""
        self._show_text()
        self._reads_along = True

    def show_notes(self, *lines: str) -> None:
        """Show lines below the answer."""
        if self._answer is not None:
            self._answer.show_notes(*lines)

    def add(self, piece: str) -> None:
        """Append to the answer."""
        bar = self.verticalScrollBar()
        self._reads_along = bar.value() >= bar.maximum() - NEAR_END
        self._text += piece
        if not self._paint.isActive():
            self._paint.start()

    def finish(self, answered: Answered) -> None:
        """Show the whole answer, and its figures."""
        self._text = answered.text
        self._show_text()
        if self._answer is not None:
            silent = "" if answered.text.strip() else _("The answer is empty.")
            self._answer.speaker.setText(answered.name)
            self._answer.show_notes(
                silent,
                *answered.notes,
                ENDINGS.get(answered.ended_by, ""),
                figures_text(answered),
            )

    def fail(self, error: UserError) -> None:
        """Show why there is no answer."""
        self._show_text()
        self.show_notes(*str(error).splitlines())

    def _add(self, speaker: str, role: Role) -> Utterance:
        made = Utterance(speaker, role)
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


class Session:
    """A model's process, started in a thread by `run`; requests are queued until it has started."""

    def __init__(self, start: Start, load: Load) -> None:
        self._start, self._load = start, load
        self._lock = threading.Lock()
        self._early: list[Said] = []
        self._process: TryProcess | None = None
        self._has_ended = False

    def run(self, call: Call) -> None:
        """Start the process and report its messages until it ends; raises what `TryProcess.lines` does."""
        try:
            process = self._start(self._load)
        except OSError as error:
            raise UserError(_("Hone's engine can't be started"), str(error)) from error
        with self._lock:
            self._process = process
            for said in self._early:
                process.say(said)
            if self._has_ended:
                process.kill()
        for told in process.lines():
            call.tell(told)

    def say(self, said: Said) -> None:
        """Send a request."""
        with self._lock:
            if self._process is None:
                self._early.append(said)
            else:
                self._process.say(said)

    def kill(self) -> None:
        """End the process, which frees its memory."""
        with self._lock:
            self._has_ended = True
            if self._process is not None:
                self._process.kill()


class Judgement(PageScroll):
    """The newest question to a model that classifies or scores, and its answer."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        content = QWidget()
        super().__init__(content, parent)
        self._question = Question()
        self.asked = Utterance(_("You"), Role.SAID)
        self.answer = Utterance("", Role.ANSWER)
        self.answer.words.hide()
        self.bars = ChanceBars(theme)
        self.number = QLabel()
        self.number.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self.number, Role.PAGE_TITLE)
        self.labelled = LabelledText(theme)
        self._kinds: tuple[QWidget, ...] = (self.bars, self.number, self.labelled)
        for place, widget in enumerate(self._kinds):
            self.answer.column.insertWidget(2 + place, widget)
        fill(QVBoxLayout(content), self.asked, self.answer, None, margins=FLUSH, spacing=SPACING)
        self.clear()

    def clear(self) -> None:
        """Hide question and answer."""
        self.asked.hide()
        self.answer.hide()
        self._show(None)

    def begin(self, question: Question, name: str) -> None:
        """Show a question to the model `name`; the last answer stays until the new one comes."""
        self._question = question
        self.asked.words.setText(question.shown)
        self.asked.setVisible(bool(question.shown))
        self.answer.speaker.setText(name)
        self.answer.show()
        self.answer.show_notes()

    def show_notes(self, *lines: str) -> None:
        """Show lines below the answer."""
        self.answer.show_notes(*lines)

    def add(self, piece: str) -> None:
        """Do nothing: these models generate no text."""

    def finish(self, answered: Answered) -> None:
        """Show the answer, and its figures."""
        self.answer.speaker.setText(answered.name)
        if answered.chances:
            self.bars.show_chances(answered.chances, self._question.expected)
            self._show(self.bars)
        elif answered.number is not None:
            self.number.setText(formats.three_figures(answered.number))
            self._show(self.number)
        else:
            self.labelled.show_words(" ".join(self._question.texts), answered.words)
            self._show(self.labelled)
        self.answer.show_notes(
            expected_text(self._question.expected), *answered.notes, figures_text(answered)
        )

    def fail(self, error: UserError) -> None:
        """Show why there is no answer."""
        self._show(None)
        self.show_notes(*str(error).splitlines())

    def _show(self, widget: QWidget | None) -> None:
        for kind in self._kinds:
            kind.setVisible(kind is widget)


class TryColumn(Card):
    """A model with its answers; the first question starts its process.

    Signals:
        settled: The question was answered, has failed or was stopped.
    """

    settled = Signal()

    def __init__(self, theme: Theme, which: Which, start: Start, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.which = which
        self._start = start
        self._chosen: Triable | None = None
        self._session: Session | None = None
        self._task: Task[None] = Task(self)
        self._task.progress.connect(self._on_message)
        self._task.failed.connect(self._fail)
        self._task.settled.connect(self._on_end)
        self._turns: tuple[Turn, ...] = ()
        self._question: Question | None = None
        self._asked = 0
        self._is_loading = False
        self.name = ElidedLabel()
        set_role(self.name, Role.CARD_TITLE)
        self.state = QLabel()
        set_role(self.state, Role.HINT)
        self.transcript = Transcript()
        self.judgement = Judgement(theme)
        self._bodies = QStackedWidget()
        self._bodies.addWidget(self.transcript)
        self._bodies.addWidget(self.judgement)
        head = fill(QVBoxLayout(), self.name, self.state, spacing=2)
        self.body.addLayout(head)
        self.body.addSpacing(SPACING // 2)
        self.body.addWidget(self._bodies, 1)
        self.show_model(None)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is pending."""
        return self._question is not None

    @property
    def is_loaded(self) -> bool:
        """Whether its process runs; the model may still be loading."""
        return self._session is not None

    def show_model(self, chosen: Triable | None) -> None:
        """Show another run's model, and end the process of the last one."""
        self.end()
        self._chosen = chosen
        self.begin_conversation()
        name = "" if chosen is None else chosen.names[self.which]
        self.name.setText(name)
        self.setAccessibleName(f"{which_text(self.which)}: {name}")
        self._bodies.setCurrentWidget(self._answers)

    def begin_conversation(self) -> None:
        """Forget the conversation, and ignore a pending answer."""
        self._turns = ()
        self._question = None
        self._asked += 1
        self.transcript.clear()
        self.judgement.clear()

    def ask(self, question: Question, writing: Writing, *, on_cpu: bool = False) -> None:
        """Ask the model, which is loaded first if necessary."""
        assert self._chosen is not None, "a run is chosen before anything is asked"
        if self._session is None:
            self._begin_session(self._chosen, on_cpu=on_cpu)
        assert self._session is not None
        self._asked += 1
        given = question.given_to(self._chosen.task, self._turns)
        self._session.say(Ask(id=self._asked, given=given, writing=writing))
        self._question = question
        self._answers.begin(question, self._chosen.names[self.which])
        if self._is_loading:
            self._answers.show_notes(_("The model is being loaded …"))

    def stop(self) -> None:
        """End the answer early; a model that is still loading is unloaded."""
        if self._question is None or self._session is None:
            return
        if self._is_loading:
            self.end()
        else:
            self._session.say(Stop(id=self._asked))

    def end(self, why: str = "") -> None:
        """End the process, which frees its memory; answers stay."""
        if self._session is not None:
            self._session.kill()
            self._session = None
            self._task.cancel()
        self._show_state(why)
        if self._question is not None:
            self._answers.show_notes(_("Stopped."))
            self._settle()

    def end_work(self) -> None:
        """End the process and wait for its thread."""
        self.end()
        self._task.close()

    @property
    def _answers(self) -> Transcript | Judgement:
        writes = self._chosen is None or self._chosen.task.writes_text
        return self.transcript if writes else self.judgement

    def _begin_session(self, chosen: Triable, *, on_cpu: bool) -> None:
        load = Load(run=str(chosen.run.path.absolute()), which=self.which, on_cpu=on_cpu)
        self._session = Session(self._start, load)
        self._is_loading = True
        self._show_state(_("loading …"))
        self._task.start(self._session.run)

    def _on_message(self, told: Told) -> None:
        match told:
            case Loaded():
                self._is_loading = False
                self._answers.show_notes()
                self._show_state(f"{told.device}, {told.dtype}", *told.notes)
            case Piece() if told.id == self._asked:
                self._answers.add(told.text)
            case Answered() if told.id == self._asked:
                self._finish(told)
            case NotAnswered() if told.id == self._asked:
                self._fail(UserError(told.error.title, told.error.detail, told.error.fixes))

    def _finish(self, answered: Answered) -> None:
        question = self._question
        if question is None:
            return
        self._answers.finish(answered)
        if not question.as_read:
            said = Turn(Speaker.USER, question.shown), Turn(Speaker.ASSISTANT, answered.text)
            self._turns = (*self._turns, *said)
        self._settle()

    def _fail(self, error: UserError) -> None:
        if self._question is not None:
            self._answers.fail(error)
            self._settle()

    def _settle(self) -> None:
        self._question = None
        self.settled.emit()

    def _on_end(self) -> None:
        self._session = None
        self._show_state()

    def _show_state(self, *words: str) -> None:
        self.state.setText(" · ".join(filter(None, (which_text(self.which), *words))))
