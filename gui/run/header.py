"""What can be asked of the run on screen: the buttons at the head of its page, and the menu beside them."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from gettext import gettext as _

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.runs.events import MessageRaised
from core.runs.status import State
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.run import words
from gui.run.words import RunFacts
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel
from gui.widgets.layout import FlowLayout


class RunFigures(QWidget):
    """Titles above values, in a row, and in a second one where the window is narrow; hidden while there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = FlowLayout(4 * SPACING, SPACING, self)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._shown: list[tuple[str, str]] = []
        self.hide()

    def show_figures(self, figures: list[tuple[str, str]]) -> None:
        """Show these titles and values."""
        self.setVisible(bool(figures))
        if figures == self._shown:
            return
        self._shown = figures
        while (item := self._row.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        for title, value in figures:
            self._row.addWidget(_figure(title, value))

    @property
    def text(self) -> str:
        """Everything shown, as one line."""
        return ", ".join(f"{title} {value}" for title, value in self._shown)


def _figure(title: str, value: str) -> QWidget:
    name, figure = QLabel(title), QLabel(value)
    set_role(name, Role.MUTED)
    set_role(figure, Role.STRONG)
    figure.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    figure.setAccessibleName(f"{title}: {value}")
    made = QWidget()
    column = QVBoxLayout(made)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(name)
    column.addWidget(figure)
    return made


class RunMessages(QWidget):
    """Keeps one strip a message id; hidden while there are none.

    Signals:
        fix_chosen: The `core.base.errors.Fix` that was pressed.
    """

    fix_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(SPACING)
        self._strips: dict[str, MessageStrip] = {}
        self._shown: dict[str, MessageRaised] = {}
        self.hide()

    def show_messages(self, messages: Iterable[MessageRaised], *, is_over: bool = False) -> None:
        """Show these, in this order; strips of other messages go away. No run that is over can be ended."""
        wanted = {message.id: _after_the_end(message) if is_over else message for message in messages}
        for gone in self._shown.keys() - wanted.keys():
            self._strips.pop(gone).deleteLater()
        for place, (name, message) in enumerate(wanted.items()):
            if self._shown.get(name) != message:
                self._strip(name, place).show_message(
                    message.level, message.title, message.detail, message.fixes
                )
        self._shown = wanted
        self.setVisible(bool(wanted))

    def titles(self) -> list[str]:
        """What stands there now."""
        return [message.title for message in self._shown.values()]

    def _strip(self, name: str, place: int) -> MessageStrip:
        if name not in self._strips:
            strip = MessageStrip(self)
            strip.fix_chosen.connect(self.fix_chosen)
            self._strips[name] = strip
            self._column.insertWidget(place, strip)
        return self._strips[name]


def _after_the_end(message: MessageRaised) -> MessageRaised:
    """The message without what would end the run."""
    left = tuple(fix for fix in message.fixes if fix.action is None or not fix.action.is_end)
    return msgspec.structs.replace(message, fixes=left)


def not_to_save(facts: RunFacts) -> str:
    """Why no checkpoint can be saved now."""
    if facts.state is State.TRAINING and facts.story.step:
        return ""
    if facts.state in (State.STARTING, State.TRAINING, State.QUEUED):
        return _("There is nothing to save before the first step.")
    return _("It isn’t training.")


def not_to_reveal(facts: RunFacts) -> str:
    """Why nothing can be done with what stands in its folder."""
    return _("Its folder is gone.") if facts.is_gone else ""


def not_to_copy(facts: RunFacts) -> str:
    """Why its options can't be written in another form."""
    unread = _("Its run.toml can’t be read.")
    return not_to_reveal(facts) or ("" if facts.options is not None else unread)


def not_to_use_model(facts: RunFacts) -> str:
    """Why nothing can be begun with its trained model."""
    if facts.has_model:
        return ""
    if facts.state.is_over:
        none = _("It has no trained model.")
        if facts.saved_step is not None:
            none = _("Resume it, and its model is written when it ends; or export its checkpoint.")
        return not_to_reveal(facts) or none
    return _("Its model is there once it has finished or was stopped.")


def not_to_export(facts: RunFacts) -> str:
    """Why neither its trained model nor a checkpoint in its place can be exported."""
    return "" if facts.state.is_over and facts.saved_step is not None else not_to_use_model(facts)


def not_to_extend(facts: RunFacts) -> str:
    """Why it can't train longer than was planned."""
    if not facts.state.is_over:
        return _("Pause it first: what it has begun it does as planned.")
    if facts.saved_step is None:
        return not_to_reveal(facts) or _("No checkpoint was saved to go on from.")
    return not_to_copy(facts)


def not_to_bin(facts: RunFacts) -> str:
    """Why its folder can't be moved to the bin."""
    if not facts.state.is_over:
        return _("It isn’t over: stop it first.")
    return not_to_reveal(facts)


PATIENCE_SECONDS = 10.0
"""How long a stop or a pause may take before ending the process at once is offered."""


class RunActions(QWidget):
    """Pause or Resume, Stop and keep, End now where it hangs, and a menu with all else; each has a signal.

    Signals:
        pause_pressed: Save, and free the memory.
        resume_pressed: Go on, or start again where nothing was saved.
        stop_pressed: Stop, and keep what is trained.
        end_pressed: End the process at once.
        save_pressed: Save a checkpoint now, and train on.
        duplicate_pressed: Open a new run with the same options.
        new_from_model_pressed: Open a new run that starts from this one's model.
        extend_pressed: Train longer than was planned.
        try_pressed: Try what the model answers.
        export_pressed: Export the model.
        script_pressed: Copy the run as a Python script.
        report_pressed: Save a page that tells of the run.
        support_pressed: Save what somebody needs who helps.
        reveal_pressed: Show the run's folder.
        bin_pressed: Move the run to the bin.
    """

    pause_pressed = Signal()
    resume_pressed = Signal()
    stop_pressed = Signal()
    end_pressed = Signal()
    save_pressed = Signal()
    duplicate_pressed = Signal()
    new_from_model_pressed = Signal()
    extend_pressed = Signal()
    try_pressed = Signal()
    export_pressed = Signal()
    script_pressed = Signal()
    report_pressed = Signal()
    support_pressed = Signal()
    reveal_pressed = Signal()
    bin_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._waiting_since: float | None = None
        self.pause = self._button(_("Pause"), self.ask_pause)
        self.pause.setToolTip(_("Saves a checkpoint and frees the memory. Resume goes on exactly there."))
        self.resume = self._button(_("Resume"), self.ask_resume)
        self.stop = self._button(_("Stop and keep"), self.ask_stop)
        self.end = self._button(_("End now"), self._ask_end)
        self.end.setToolTip(
            _("Ends the process at once. What was trained since the last checkpoint is lost.")
        )
        self.more = QPushButton(_("More"))
        self.more.setProperty("hasMenu", True)
        self.menu = QMenu(self.more)
        self.menu.setToolTipsVisible(True)
        self._fill_menu()
        self.more.setMenu(self.menu)
        self.more.setEnabled(False)
        self._lay_out()

    def show_facts(self, facts: RunFacts) -> None:
        """Offer what makes sense where the run stands; what doesn't is grey and says why."""
        with self._keyboard_kept(facts.state):
            self._show_buttons(facts)
        self.more.setEnabled(True)
        for action, told in self._entries.items():
            why_not = told(facts)
            action.setEnabled(not why_not)
            action.setToolTip(why_not)

    def _show_buttons(self, facts: RunFacts) -> None:
        state = facts.state
        self._keep_time(state)
        is_asked = self._waiting_since is not None
        is_working = not state.is_over
        self.pause.setVisible(is_working and state is not State.QUEUED)
        self.pause.setEnabled(not is_asked)
        self.resume.setVisible(state.can_resume and not facts.is_gone)
        self.resume.setEnabled(not is_asked and facts.options is not None)
        self._name_resume(facts)
        self.stop.setVisible(is_working)
        self.stop.setEnabled(not is_asked or state is State.PAUSING)
        self._name_stop(state)
        self.end.setVisible(is_working and self._waited() > PATIENCE_SECONDS)

    def ask_stop(self) -> None:
        """Do what the button does; a second press asks nothing more."""
        if self.stop.isEnabled():
            with self._keyboard_kept():
                self._begin_waiting()
                self.stop.setEnabled(False)
            self.stop_pressed.emit()

    def ask_pause(self) -> None:
        """Do what the button does; a second press asks nothing more."""
        if self.pause.isEnabled():
            with self._keyboard_kept():
                self._begin_waiting()
            self.pause_pressed.emit()

    def ask_resume(self) -> None:
        """Do what the button does; a second press asks nothing more."""
        if self.resume.isEnabled():
            with self._keyboard_kept():
                self.resume.setEnabled(False)
            self.resume_pressed.emit()

    def _ask_end(self) -> None:
        self.end_pressed.emit()

    @contextmanager
    def _keyboard_kept(self, state: State | None = None) -> Iterator[None]:
        """Keep the keyboard off the next button where its own goes grey or away: a second press would do harm.

        It then rests beside the buttons, and goes to Resume once a run is paused.
        """
        window = self.window()
        held = window.focusWidget()
        yield
        is_ours = isinstance(held, QPushButton) and held.parent() is self
        if is_ours and (held.isHidden() or not held.isEnabled()):
            self.setFocus()
        if window.focusWidget() is self and state is State.PAUSED and self.resume.isEnabled():
            self.resume.setFocus()

    def _begin_waiting(self) -> None:
        # From the press on: an engine that never answers must not keep "End now" away.
        self._waiting_since = time.monotonic()
        self.pause.setEnabled(False)

    def _keep_time(self, state: State) -> None:
        if state in (State.STOPPING, State.PAUSING):
            self._waiting_since = self._waiting_since or time.monotonic()
        elif state.is_over:
            self._waiting_since = None

    def _waited(self) -> float:
        return 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since

    def _name_resume(self, facts: RunFacts) -> None:
        saved = facts.saved_step
        self.resume.setText(_("Start again") if saved is None else _("Resume"))
        if facts.options is None:
            self.resume.setToolTip(not_to_copy(facts))
            return
        self.resume.setToolTip(
            _("No checkpoint was saved, so it begins anew in the same folder.")
            if saved is None
            else _("Goes on from the checkpoint of step {}.").format(formats.count(saved))
        )

    def _name_stop(self, state: State) -> None:
        waits = state is State.QUEUED
        self.stop.setText(_("Leave the queue") if waits else _("Stop and keep"))
        self.stop.setToolTip(
            _("It will not train. It can be started later.")
            if waits
            else _("Ends after the step at hand and keeps the model as it is then.")
        )

    def _fill_menu(self) -> None:
        self._entries: dict[QAction, Callable[[RunFacts], str]] = {}
        self.save = self._entry(_("Save now"), self.save_pressed.emit, not_to_save)
        self.menu.addSeparator()
        self.duplicate = self._entry(_("Duplicate"), self.duplicate_pressed.emit, not_to_reveal)
        self.new_from_model = self._entry(
            _("New run from its model"), self.new_from_model_pressed.emit, not_to_use_model
        )
        self.extend = self._entry(_("Train longer…"), self.extend_pressed.emit, not_to_extend)
        self.menu.addSeparator()
        self.try_it = self._entry(_("Try it"), self.try_pressed.emit, not_to_use_model)
        self.export = self._entry(_("Export…"), self.export_pressed.emit, not_to_export)
        self.menu.addSeparator()
        self.script = self._entry(_("Copy as Python script"), self.script_pressed.emit, not_to_copy)
        self.report = self._entry(_("Save a report…"), self.report_pressed.emit, not_to_reveal)
        self.support = self._entry(_("Support file…"), self.support_pressed.emit, not_to_reveal)
        self.menu.addSeparator()
        self.reveal = self._entry(_("Show the folder"), self.reveal_pressed.emit, not_to_reveal)
        self.bin = self._entry(_("Move to the bin"), self.bin_pressed.emit, not_to_bin)

    def _entry(self, title: str, do: Callable[[], object], told: Callable[[RunFacts], str]) -> QAction:
        action = self.menu.addAction(title)
        action.triggered.connect(lambda _checked: do())
        self._entries[action] = told
        return action

    def _button(self, title: str, do: Callable[[], None]) -> QPushButton:
        button = QPushButton(title)
        button.clicked.connect(do)
        button.hide()
        return button

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        for button in (self.resume, self.pause, self.stop, self.end, self.more):
            row.addWidget(button)


PROGRESS_PARTS = 10_000


class RunHeader(QWidget):
    """Shows `RunFacts`; `buttons` are what can be asked."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons = RunActions()
        self.name = ElidedLabel(name)
        set_role(self.name, Role.PAGE_TITLE)
        self.state_line = ElidedLabel()
        set_role(self.state_line, Role.MUTED)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(_("Progress"))
        self.progress.setRange(0, PROGRESS_PARTS)
        self.elapsed = QLabel()
        self.time_left = QLabel(alignment=Qt.AlignmentFlag.AlignRight)
        for label in (self.elapsed, self.time_left):
            set_role(label, Role.MUTED)
        self._lay_out()

    def show_facts(self, facts: RunFacts) -> None:
        """Say where the run stands."""
        self.state_line.setText(words.state_line(facts))
        lasted = "" if facts.state.is_over else words.elapsed(facts, time.time())
        self.elapsed.setText(_("{} so far").format(lasted) if lasted else "")
        self.elapsed.setHidden(facts.state.is_over)
        self.time_left.setHidden(facts.state.is_over)
        self.time_left.setText(words.time_left(facts))
        self._show_progress(facts)
        self.buttons.show_facts(facts)

    def _show_progress(self, facts: RunFacts) -> None:
        story = facts.story
        self._bar.setVisible(not facts.state.is_over or facts.state is State.PAUSED)
        waits = story.plan is None and facts.state is not State.QUEUED
        if waits != (self.progress.maximum() == 0):
            self.progress.setRange(0, 0 if waits else PROGRESS_PARTS)
        if story.plan is not None:
            self.progress.setValue(round(PROGRESS_PARTS * story.step / max(1, story.plan.total_steps)))

    def _lay_out(self) -> None:
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(self.name)
        names.addWidget(self.state_line)
        top = QHBoxLayout()
        top.setSpacing(SPACING)
        top.addLayout(names, 1)
        top.addWidget(self.buttons, alignment=Qt.AlignmentFlag.AlignTop)
        times = QHBoxLayout()
        times.addWidget(self.elapsed)
        times.addStretch(1)
        times.addWidget(self.time_left)
        self._bar = QWidget()
        bar = QVBoxLayout(self._bar)
        bar.setContentsMargins(0, 0, 0, 0)
        bar.setSpacing(SPACING // 2)
        bar.addWidget(self.progress)
        bar.addLayout(times)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING)
        layout.addLayout(top)
        layout.addWidget(self._bar)
        self._bar.hide()
