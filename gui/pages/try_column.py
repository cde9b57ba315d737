"""One of the two models on the page Try it: its process, its conversation, and what it has answered."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QStackedWidget, QVBoxLayout, QWidget

from core.conversation_words import Speaker
from core.errors import UserError
from core.trying import (
    Answered,
    Ask,
    Load,
    Loaded,
    NotAnswered,
    Piece,
    Stop,
    Told,
    Turn,
    Which,
    Writing,
)
from core.trying_choice import Triable
from core.trying_process import Start
from gui.pages.try_judgement import Judgement
from gui.pages.try_question import Question
from gui.pages.try_transcript import Transcript
from gui.pages.try_words import which_words
from gui.theme import SPACING, Theme
from gui.try_session import TrySession
from gui.widgets.card import Card
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role


class TryColumn(Card):
    """Headed by the model's name; its process is started by the first question.

    Signals:
        settled: The question is answered, failed or was stopped.
    """

    settled = Signal()

    def __init__(self, theme: Theme, which: Which, start: Start, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.which = which
        self._start = start
        self._chosen: Triable | None = None
        self._session: TrySession | None = None
        self._ending: list[TrySession] = []
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
        head = QVBoxLayout()
        head.setSpacing(2)
        head.addWidget(self.name)
        head.addWidget(self.state)
        self.body.addLayout(head)
        self.body.addSpacing(SPACING // 2)
        self.body.addWidget(self._bodies, 1)
        self.show_model(None)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._question is not None

    @property
    def is_loaded(self) -> bool:
        """Whether its process lives, be the model ready or on its way."""
        return self._session is not None

    def show_model(self, chosen: Triable | None) -> None:
        """Show another run's model; the process of the one before ends."""
        self.end()
        self._chosen = chosen
        self.begin_conversation()
        name = "" if chosen is None else chosen.name(self.which)
        self.name.setText(name)
        self.setAccessibleName(f"{which_words(self.which)}: {name}")
        self._bodies.setCurrentWidget(self._answers)

    def begin_conversation(self) -> None:
        """Forget what was said; what is still to come of an answer is for nobody."""
        self._turns = ()
        self._question = None
        self._asked += 1
        self.transcript.clear()
        self.judgement.clear()

    def ask(self, question: Question, writing: Writing, *, on_cpu: bool = False) -> None:
        """Ask the model, loaded first where it isn't yet."""
        assert self._chosen is not None, "a run is chosen before anything is asked"
        if self._session is None:
            self._begin_session(self._chosen, on_cpu=on_cpu)
        assert self._session is not None
        self._asked += 1
        given = question.given_to(self._chosen.task, self._turns)
        self._session.say(Ask(id=self._asked, given=given, writing=writing))
        self._question = question
        self._answers.begin(question, self._chosen.name(self.which))
        if self._is_loading:
            self._answers.wait(self.tr("The model is being loaded …"))

    def stop(self) -> None:
        """End the answer early; a model that is still being loaded is let go."""
        if self._question is None or self._session is None:
            return
        if self._is_loading:
            self.end()
        else:
            self._session.say(Stop(id=self._asked))

    def end(self, why: str = "") -> None:
        """End the process, which frees its memory; what it has said stays."""
        if self._session is not None:
            session, self._session = self._session, None
            self._ending.append(session)
            session.cancel()
        self._say_state(why)
        if self._question is not None:
            self._answers.stop()
            self._settle()

    def end_work(self) -> None:
        """End, and wait until no thread is left."""
        self.end()
        for session in tuple(self._ending):
            session.wait()

    @property
    def _answers(self) -> Transcript | Judgement:
        writes = self._chosen is None or self._chosen.task.writes_text
        return self.transcript if writes else self.judgement

    def _begin_session(self, chosen: Triable, *, on_cpu: bool) -> None:
        load = Load(run=str(chosen.run.path.absolute()), which=self.which, on_cpu=on_cpu)
        self._session = TrySession(self._start, load, self)
        self._session.told.connect(self._take)
        self._session.finished.connect(self._take_end)
        self._is_loading = True
        self._say_state(self.tr("loading …"))
        self._session.start()

    def _take(self, told: Told) -> None:
        if self.sender() is not self._session:
            return
        match told:
            case Loaded():
                self._is_loading = False
                self._answers.wait("")
                self._say_state(f"{told.device}, {told.dtype}", *told.notes)
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

    def _take_end(self) -> None:
        session = self.sender()
        if not isinstance(session, TrySession):
            return
        if session in self._ending:
            self._ending.remove(session)
        elif session is self._session:
            self._session = None
            self._say_state()
            if session.failure is not None:
                self._fail(session.failure)
        session.deleteLater()

    def _say_state(self, *words: str) -> None:
        self.state.setText(" · ".join(filter(None, (which_words(self.which), *words))))
