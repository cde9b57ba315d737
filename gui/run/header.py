"""What can be asked of the run on screen: the buttons at the head of its page, and the menu beside them."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial

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
from core.base.language import _
from core.runs.events import MessageRaised
from core.runs.status import State
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.run import words
from gui.run.words import RunFacts
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel
from gui.widgets.layout import FLUSH, FlowLayout, fill


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
    fill(QVBoxLayout(made), name, figure, margins=FLUSH, spacing=0)
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
    if facts.state is State.TRAINING and facts.status.step:
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


def not_to_trash(facts: RunFacts) -> str:
    """Why its folder can't be moved to the bin."""
    if not facts.state.is_over:
        return _("It isn’t over: stop it first.")
    return not_to_reveal(facts)


PATIENCE_SECONDS = 10.0
"""How long a stop or a pause may take before ending the process at once is offered."""


class RunAction(Enum):
    """What can be requested of a run."""

    PAUSE = auto()
    RESUME = auto()
    STOP = auto()
    END = auto()
    SAVE = auto()
    DUPLICATE = auto()
    NEW_FROM_MODEL = auto()
    EXTEND = auto()
    TRY = auto()
    EXPORT = auto()
    SCRIPT = auto()
    REPORT = auto()
    SUPPORT = auto()
    REVEAL = auto()
    TRASH = auto()


class RunActions(QWidget):
    """Pause or Resume, Stop and keep, End now where it hangs, and a menu with all else.

    Signals:
        requested: A `RunAction`.
    """

    requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._waiting_since: float | None = None
        self.pause = QPushButton(_("Pause"))
        self.pause.setToolTip(_("Saves a checkpoint and frees the memory. Resume goes on exactly there."))
        self.resume = QPushButton(_("Resume"))
        self.stop = QPushButton(_("Stop and keep"))
        self.end = QPushButton(_("End now"))
        self.end.setToolTip(
            _("Ends the process at once. What was trained since the last checkpoint is lost.")
        )
        self._buttons = {
            RunAction.RESUME: self.resume,
            RunAction.PAUSE: self.pause,
            RunAction.STOP: self.stop,
            RunAction.END: self.end,
        }
        self.more = QPushButton(_("More"))
        self.more.setProperty("hasMenu", True)
        self.menu = QMenu(self.more)
        self.menu.setToolTipsVisible(True)
        self.entries: dict[RunAction, QAction] = {}
        self._why_not: dict[QAction, Callable[[RunFacts], str]] = {}
        self._fill_menu()
        self.more.setMenu(self.menu)
        self.more.setEnabled(False)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        for action, button in self._buttons.items():
            button.clicked.connect(partial(self.request, action))
            button.hide()
            row.addWidget(button)
        row.addWidget(self.more)

    def show_facts(self, facts: RunFacts) -> None:
        """Offer what makes sense in the run's state; the rest is disabled and says why."""
        with self._keyboard_kept(facts.state):
            self._show_buttons(facts)
        self.more.setEnabled(True)
        for action, why_not in self._why_not.items():
            reason = why_not(facts)
            action.setEnabled(not reason)
            action.setToolTip(reason)

    def request(self, action: RunAction) -> None:
        """Do what the button does; a second press requests nothing more."""
        if not self._buttons[action].isEnabled():
            return
        with self._keyboard_kept():
            if action in (RunAction.STOP, RunAction.PAUSE):
                # From the press on: an engine that never answers must not keep "End now" away.
                self._waiting_since = time.monotonic()
                self.pause.setEnabled(False)
            if action in (RunAction.STOP, RunAction.RESUME):
                self._buttons[action].setEnabled(False)
        self.requested.emit(action)

    def _show_buttons(self, facts: RunFacts) -> None:
        state, saved, is_working = facts.state, facts.saved_step, not facts.state.is_over
        if state.is_over:
            self._waiting_since = None
        elif state in (State.STOPPING, State.PAUSING):
            self._waiting_since = self._waiting_since or time.monotonic()
        since = self._waiting_since
        waited = 0.0 if since is None else time.monotonic() - since
        self.pause.setVisible(is_working and state is not State.QUEUED)
        self.pause.setEnabled(since is None)
        self.resume.setVisible(state.can_resume and not facts.is_gone)
        self.resume.setEnabled(since is None and facts.options is not None)
        self.resume.setText(_("Start again") if saved is None else _("Resume"))
        if facts.options is None:
            self.resume.setToolTip(not_to_copy(facts))
        elif saved is None:
            self.resume.setToolTip(_("No checkpoint was saved, so it begins anew in the same folder."))
        else:
            words = _("Goes on from the checkpoint of step {}.")
            self.resume.setToolTip(words.format(formats.count(saved)))
        waits = state is State.QUEUED
        self.stop.setVisible(is_working)
        self.stop.setEnabled(since is None or state is State.PAUSING)
        self.stop.setText(_("Leave the queue") if waits else _("Stop and keep"))
        self.stop.setToolTip(
            _("It will not train. It can be started later.")
            if waits
            else _("Ends after the step at hand and keeps the model as it is then.")
        )
        self.end.setVisible(is_working and waited > PATIENCE_SECONDS)

    @contextmanager
    def _keyboard_kept(self, state: State | None = None) -> Iterator[None]:
        """Keep the keyboard off the next button where its own is disabled or hidden: a second press would do harm.

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

    def _fill_menu(self) -> None:
        groups = (
            ((RunAction.SAVE, _("Save now"), not_to_save),),
            (
                (RunAction.DUPLICATE, _("Duplicate"), not_to_reveal),
                (RunAction.NEW_FROM_MODEL, _("New run from its model"), not_to_use_model),
                (RunAction.EXTEND, _("Train longer…"), not_to_extend),
            ),
            (
                (RunAction.TRY, _("Try it"), not_to_use_model),
                (RunAction.EXPORT, _("Export…"), not_to_export),
            ),
            (
                (RunAction.SCRIPT, _("Copy as Python script"), not_to_copy),
                (RunAction.REPORT, _("Save a report…"), not_to_reveal),
                (RunAction.SUPPORT, _("Support file…"), not_to_reveal),
            ),
            (
                (RunAction.REVEAL, _("Show the folder"), not_to_reveal),
                (RunAction.TRASH, _("Move to the bin"), not_to_trash),
            ),
        )
        for group in groups:
            for action, title, why_not in group:
                entry = self.entries[action] = self.menu.addAction(title)
                entry.triggered.connect(partial(self.requested.emit, action))
                self._why_not[entry] = why_not
            if group is not groups[-1]:
                self.menu.addSeparator()


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
        self.buttons.show_facts(facts)
        status = facts.status
        self._bar.setVisible(not facts.state.is_over or facts.state is State.PAUSED)
        waits = status.plan is None and facts.state is not State.QUEUED
        if waits != (self.progress.maximum() == 0):
            self.progress.setRange(0, 0 if waits else PROGRESS_PARTS)
        if status.plan is not None:
            self.progress.setValue(round(PROGRESS_PARTS * status.step / max(1, status.plan.total_steps)))

    def _lay_out(self) -> None:
        names = fill(QVBoxLayout(), self.name, self.state_line, spacing=2)
        top = QHBoxLayout()
        top.setSpacing(SPACING)
        top.addLayout(names, 1)
        top.addWidget(self.buttons, alignment=Qt.AlignmentFlag.AlignTop)
        times = fill(QHBoxLayout(), self.elapsed, None, self.time_left)
        self._bar = QWidget()
        fill(QVBoxLayout(self._bar), self.progress, times, margins=FLUSH, spacing=SPACING // 2)
        fill(QVBoxLayout(self), top, self._bar, margins=FLUSH, spacing=SPACING)
        self._bar.hide()
