"""One model under Try it, and its answers."""

import re
import time
from itertools import count
from pathlib import Path

from PySide6.QtCore import Qt, QTemporaryDir, QTimer, Signal
from PySide6.QtWidgets import QFrame, QStackedWidget, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.language import _
from core.jobs import chat as chat_jobs
from core.options.choices import Speaker, device_title
from core.services import chat
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.run.predictions import visible
from gui.try_it.answers import FileAnswers
from gui.try_it.input import ENDINGS, TryQuestion, expected_text, which_text
from gui.try_it.process import ModelProcess
from gui.widgets.bars import ChanceBars
from gui.widgets.cards import Card
from gui.widgets.labels import ElidedLabel, LabelledText, isolated, role_label, text_label
from gui.widgets.layout import FLUSH, PageScroll, fill

TICK_MS = 500
PAINT_MS = 50
"""Interval of repaints while a text is generated."""
MOST_EARLIER, EARLIER_LETTERS = 5, 60
"""Earlier answers of a classifier that are listed, and how much of each text."""
NEAR_END = 40
"""Within this many pixels of the end, the view follows the text."""
CHECKING, STARTING = _("Checking the memory… {seconds} s"), _("Loading PyTorch… {seconds} s")
LOADING, ANSWERING = _("Loading the model… {seconds} s"), _("Answering… {seconds} s")
"""What is waited for."""

IDS = count(1)
"""Of questions: two columns may ask one process."""


class Message(QFrame):
    """A question or an answer: who it is from, the text, and notes below it."""

    def __init__(self, speaker: str, role: Role) -> None:
        super().__init__()
        set_role(self, role)
        self.speaker = text_label(speaker, Role.GROUP_TITLE)
        self.words = text_label(selectable=True)
        self.below = text_label(role=Role.HINT, selectable=True)
        self.below.hide()
        self.column = fill(QVBoxLayout(self), self.speaker, self.words, self.below, spacing=SPACING // 2)
        if role is Role.ANSWER:  # it has no background of its own
            self.column.setContentsMargins(0, 0, 0, 0)

    def show_notes(self, *lines: str, role: Role = Role.HINT) -> None:
        """Show lines below the text; empty ones are left out."""
        set_role(self.below, role)
        self.below.setText("\n".join(filter(None, lines)))
        self.below.setVisible(bool(self.below.text()))


class Transcript(PageScroll):
    """A conversation. While a text is generated the view follows its end, unless the person has scrolled back."""

    def __init__(self) -> None:
        content = QWidget()
        super().__init__(content)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        set_role(self, Role.INSET)
        self.setAccessibleName(_("Answers"))
        self.messages = fill(QVBoxLayout(content), None, margins=FLUSH, spacing=SPACING)
        self.answer: Message | None = None
        self._text = ""
        self._follows = True
        self._paint = QTimer(self, interval=PAINT_MS, singleShot=True)
        self._paint.timeout.connect(self._show_text)
        self.verticalScrollBar().rangeChanged.connect(self._scroll_to_end)

    def clear(self, kept: int = 0) -> None:
        """Remove all messages after the first `kept`."""
        self._paint.stop()
        self.answer = None
        while self.messages.count() > 1 + kept:
            item = self.messages.takeAt(kept)
            if item is not None and (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()

    def begin(self, question: TryQuestion, name: str) -> None:
        """Add a question to the model `name` and an empty answer."""
        asked = self._add(_("Input") if question.as_read else _("You"), Role.SAID)
        asked.words.setText(question.shown)
        asked.show_notes(expected_text(question.expected))
        self.answer = self._add(name, Role.ANSWER)
        self._text = ""
        self._show_text()
        self._follows = True

    def take_back(self) -> None:
        """Remove the last question and its answer."""
        self.clear(max(0, self.messages.count() - 3))

    def add(self, piece: str) -> None:
        """Append to the answer."""
        bar = self.verticalScrollBar()
        self._follows = bar.value() >= bar.maximum() - NEAR_END
        self._text += piece
        if not self._paint.isActive():
            self._paint.start()

    def finish(self, answered: chat_jobs.Answered) -> None:
        self._text = answered.text if answered.text.strip() else ""
        self._show_text()
        if self.answer is not None:
            empty = "" if self._text else visible(answered.text)
            ending = ENDINGS.get(answered.ended_by, "")
            self.answer.speaker.setText(answered.name)
            self.answer.show_notes(empty, *answered.notes, ending, answered.figures)

    def show_notes(self, *lines: str, role: Role = Role.HINT) -> None:
        """Show lines below the answer."""
        self._show_text()
        if self.answer is not None:
            self.answer.show_notes(*lines, role=role)

    def _add(self, speaker: str, role: Role) -> Message:
        message = Message(speaker, role)
        self.messages.insertWidget(self.messages.count() - 1, message)
        return message

    def _show_text(self) -> None:
        self._paint.stop()
        if self.answer is not None:
            breakable = re.sub(r"(\S{40})", "\\1\u200b", self._text)  # long words would widen the column
            self.answer.words.setText(breakable)
            self.answer.words.setVisible(bool(self._text))

    def _scroll_to_end(self, _minimum: int, maximum: int) -> None:
        if self._follows:
            self.verticalScrollBar().setValue(maximum)


class Prediction(PageScroll):
    """The last text or image with what a model predicts for it: labels, a number, or labelled words.

    Earlier ones are listed below with their answers.
    """

    def __init__(self, theme: Theme) -> None:
        content = QWidget()
        super().__init__(content)
        self._question = TryQuestion()
        self.asked = Message(_("You"), Role.SAID)
        self.answer = Message("", Role.ANSWER)
        self.answer.words.hide()
        self.answer.speaker.hide()  # the column is of one model
        self.show_notes = self.answer.show_notes
        self.bars = ChanceBars(theme)
        self.number = text_label(role=Role.PAGE_TITLE, selectable=True)
        self.labelled = LabelledText(theme)
        self._said: list[str] = []
        self.earlier = text_label(role=Role.HINT, selectable=True)
        self._results: tuple[QWidget, ...] = (self.bars, self.number, self.labelled)
        for place, widget in enumerate(self._results, start=2):
            self.answer.column.insertWidget(place, widget)
        parts = (self.asked, self.answer, self.earlier)
        fill(QVBoxLayout(content), *parts, None, margins=FLUSH, spacing=SPACING)
        self.clear()

    def clear(self) -> None:
        self.take_back()
        self._said.clear()
        self.earlier.hide()
        self._show(None)

    def begin(self, question: TryQuestion, name: str) -> None:
        """Show a question to the model `name`, without the answer to the one before."""
        self._question = question
        self._show(None)
        self.earlier.setText("\n".join((_("Earlier"), *self._said[:MOST_EARLIER])))
        self.earlier.setVisible(bool(self._said))
        self.asked.words.setText(question.shown)
        self.asked.show_notes(question.where)
        self.asked.setVisible(not question.image)
        self.answer.show()

    def take_back(self) -> None:
        """Hide the question and its answer."""
        self.asked.hide()
        self.answer.hide()

    def finish(self, answered: chat_jobs.Answered) -> None:
        if answered.chances:
            self.bars.show_chances(answered.chances, self._question.expected)
            self._show(self.bars)
        elif answered.number is not None:
            self.number.setText(formats.three_figures(answered.number))
            self._show(self.number)
        else:
            self.labelled.show_words(" ".join(self._question.texts), answered.words)
            self._show(self.labelled)
        best = "".join(
            f"{isolated(one.label)}  {formats.whole_percent(one.chance)}" for one in answered.chances[:1]
        )
        asked = " ".join(self._question.shown.split())
        if best or answered.number is not None:
            self._said.insert(0, f"{isolated(asked[:EARLIER_LETTERS])}  →  {best or self.number.text()}")
        expected = expected_text(self._question.expected, is_label=bool(answered.chances))
        notes = () if answered.image else answered.notes  # that on an image is shown beside it
        self.answer.show_notes(expected, *notes, answered.figures)

    def _show(self, result: QWidget | None) -> None:
        for widget in self._results:
            widget.setVisible(widget is result)


class ModelColumn(Card):
    """A model with its answers.

    `question` is the one whose answer is pending.
    """

    sent = Signal(object)  # a `Question`, which the loaded model answers now
    refused = Signal(object)  # a `UserError`: a model that isn't asked in a conversation can't answer
    settled = Signal()  # the question was answered, has failed or was stopped
    context_known = Signal(int)  # tokens that the model reads and generates in all; 0: unknown
    image_seen = Signal(bytes, bool)  # a PNG file of what the model sees, and whether it is `swapped`

    def __init__(self, theme: Theme, which: chat_jobs.Which, process: ModelProcess) -> None:
        super().__init__("")
        self.which = which
        self._process = process
        self._chosen: chat.Triable | None = None
        self._turns: tuple[chat_jobs.ChatTurn, ...] = ()
        self.question: TryQuestion | None = None
        self._pending: chat_jobs.Ask | None = None  # until the model is loaded
        self._last_id = 0
        self._phase = ""  # what is waited for, as a text with {seconds}
        self._began = 0.0  # the phase, by the monotonic clock
        self._tick = QTimer(self, interval=TICK_MS)
        self._tick.timeout.connect(self._show_progress)
        self.name, self.state = ElidedLabel(role=Role.CARD_TITLE), role_label(Role.HINT)
        self.transcript, self.prediction = Transcript(), Prediction(theme)
        self.files = FileAnswers(self.refused.emit)
        self._folder, self._tables = QTemporaryDir(), 0
        self._answers: Transcript | Prediction | FileAnswers = self.transcript
        self.hint = text_label(role=Role.MUTED)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack = QStackedWidget()
        for widget in (self.hint, self.transcript, self.prediction, self.files):
            self._stack.addWidget(widget)
        self.body.addLayout(fill(QVBoxLayout(), self.name, self.state, spacing=2))
        self.body.addSpacing(SPACING // 2)
        self.body.addWidget(self._stack, 1)
        self.show_model(None, process)

    @property
    def is_busy(self) -> bool:
        return self.question is not None

    @property
    def is_loaded(self) -> bool:
        """Whether the process runs; the model may still be loading."""
        return self._process.is_running

    def show_model(self, chosen: chat.Triable | None, process: ModelProcess) -> None:
        """Show another run's model, and leave the process of the last one."""
        self.end()
        self._chosen, self._process = chosen, process
        self.clear()
        name = "" if chosen is None else chosen.names[self.which]
        self.name.setText(name)
        self.setAccessibleName(f"{which_text(self.which)}: {name}")
        reads_images = chosen is not None and chosen.task.reads_images
        self.hint.setText(
            _("Choose, drop or paste an image below,\nor press an example.")
            if reads_images
            else _("Write a text below, or press an example.")
        )

    def clear(self) -> None:
        """Begin a new conversation; a pending answer is ignored."""
        self._turns = ()
        self.withdraw()
        for answers in (self.transcript, self.prediction, self.files):
            answers.clear()
        self._stack.setCurrentWidget(self.hint)

    def withdraw(self) -> None:
        """Ignore the answer to a pending question; a prediction is hidden."""
        if self.question is not None:
            self._process.say(chat_jobs.Stop(id=self._last_id))
        self.question = self._pending = None
        self._phase = self._phase if self._is_loading else ""
        self._last_id = next(IDS)
        self.prediction.answer.hide()

    def begin(self, question: TryQuestion | None) -> None:
        """Show a question, unless it is shown already, and that memory is looked for if no model is loaded."""
        if question is not None and question is not self.question:
            assert self._chosen is not None, "a run is chosen before anything is asked"
            self.withdraw()
            self.question = question
            usual = self.transcript if self._chosen.task.writes_text else self.prediction
            self._answers = self.files if question.files else usual
            self._answers.begin(question, self._chosen.names[self.which])
            self._stack.setCurrentWidget(self._answers)
        if not self.is_loaded:
            self._enter(CHECKING)
        self._show_progress()

    def refuse(self, note: str = "") -> None:
        """Show that the model isn't loaded now: a question waits for what the note says, or is taken back."""
        self._phase = ""
        self._show_state()
        if self.question is not None and note:
            self._answers.show_notes(note)
        elif self.question is not None:
            self._answers.take_back()
            self._settle()

    def load(self, *, on_cpu: bool = False) -> None:
        """Load the model, unless it is loaded, or being loaded."""
        if self._chosen is None or self._process.serves(self):
            return
        self._enter(STARTING)
        which = chat_jobs.Which.TRAINED if self._chosen.is_adapter else self.which
        path = str(self._chosen.run.path.absolute())
        self._process.serve(self, chat_jobs.Load(run=path, which=which, on_cpu=on_cpu))

    def ask(self, question: TryQuestion, writing: chat_jobs.Writing, *, on_cpu: bool = False) -> None:
        """Ask the model, which is loaded first if necessary, in place of a question without an answer yet."""
        self.begin(question)
        assert self._chosen is not None, "a run is chosen before anything is asked"
        self._tables += 1
        output = (
            self.files.new_table(Path(self._folder.filePath(f"{self._tables}.csv"))) if question.files else ""
        )
        given = question.given_to(self._chosen.task, self._turns, output)
        before = self._chosen.is_adapter and self.which is chat_jobs.Which.BEFORE
        message = chat_jobs.Ask(id=self._last_id, given=given, writing=writing, before=before)
        if self._process.serves(self) and not self._is_loading:
            self._say(message)
            self._enter(ANSWERING)
        else:
            self._pending = message
            self.load(on_cpu=on_cpu)

    def stop(self) -> None:
        """End the answer early; a model that is still loading is unloaded."""
        if self.question is None:
            return
        if self._is_loading or not self._process.serves(self):
            self.end()
        else:
            self._process.say(chat_jobs.Stop(id=self._last_id))

    def end(self) -> None:
        """Leave the process, which ends and frees its memory if no other model is asked there; answers stay."""
        if self.question is not None:
            self._process.say(chat_jobs.Stop(id=self._last_id))
        self._process.leave(self)
        self._pending, self._phase = None, ""
        self._show_state()
        if self.question is not None:
            self._answers.show_notes(_("Stopped."))
            self._settle()

    def _say(self, message: chat_jobs.Ask) -> None:
        self._process.say(message)
        self.sent.emit(self.question)

    @property
    def _is_loading(self) -> bool:
        return self._phase in (STARTING, LOADING)

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._began = time.monotonic()
        self._tick.start()
        self._show_progress()

    def _show_progress(self) -> None:
        """Say what is waited for, and for how long: below the question, or without one below the model's name."""
        text = self._phase.format(seconds=int(time.monotonic() - self._began))
        if not text:
            self._tick.stop()
            return
        if self.is_busy:
            self._answers.show_notes(text)
        if self._phase != ANSWERING:
            self._show_state("" if self.is_busy else text)

    def hear(self, message: chat_jobs.Told) -> None:
        match message:
            case chat_jobs.Loading():
                self._enter(LOADING)
            case chat_jobs.Loaded():
                self._answers.show_notes()
                self.context_known.emit(message.sees)
                self._enter(ANSWERING if self.is_busy else "")
                if self._pending is not None:
                    self._say(self._pending)
                self._pending = None
                self._show_state(f"{device_title(message.device)}, {message.dtype}", *message.notes)
            case chat_jobs.TextPiece() if message.id == self._last_id and self._answers is self.transcript:
                self.transcript.add(message.text)
            case chat_jobs.FilesPart() if message.id == self._last_id:
                phase = _("Answered {done:,} of {total:,} in {{seconds}} s")
                self._phase = phase.format(done=message.done, total=message.total)
                self._show_progress()
            case chat_jobs.Answered() if message.id == self._last_id:
                self._finish(message)
            case chat_jobs.NotAnswered() if message.id == self._last_id:
                error = UserError(message.error.title, message.error.detail, message.error.fixes)
                if self._answers is self.transcript:
                    self.fail(error)
                elif self.question is not None:
                    self.prediction.answer.hide()
                    self.files.clear()
                    self.refused.emit(error)
                    self._settle()

    def _finish(self, answered: chat_jobs.Answered) -> None:
        question = self.question
        if question is None:
            return
        self._answers.finish(answered)
        if answered.image:
            self.image_seen.emit(answered.image, answered.swapped)
        if not question.as_read:
            asked, answer = (
                chat_jobs.ChatTurn(Speaker.USER, question.shown),
                chat_jobs.ChatTurn(Speaker.ASSISTANT, answered.text),
            )
            self._turns = (*self._turns, asked, answer)
        self._settle()

    def fail(self, error: UserError) -> None:
        if self.question is not None:
            self._answers.show_notes(*str(error).splitlines(), role=Role.PROBLEM)
            self._settle()

    def _settle(self) -> None:
        self.question, self._phase = None, ""
        self.settled.emit()

    def lose(self) -> None:
        self._phase = ""
        self._show_state()

    def _show_state(self, *words: str) -> None:
        self.state.setText(formats.in_line(which_text(self.which), *words))
