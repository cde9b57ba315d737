"""The head of a run's page: its name, state and progress, buttons, a menu and figures."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum, auto
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QPalette
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import FixAction
from core.base.language import _
from core.options.method_rules import NO_TEST
from core.runs.events import Phase
from core.runs.related import Relation
from core.runs.status import State
from gui.base.theme import Role, icon, set_role
from gui.base.tokens import SPACING
from gui.run import words
from gui.run.messages import ignore_clicks
from gui.run.words import RunFacts
from gui.widgets.bars import progress_bar
from gui.widgets.form import sentence
from gui.widgets.labels import ButtonMenu, ElidedLabel, link_button, meanings_in, role_label, tip_with_keys
from gui.widgets.layout import FLUSH, FlowLayout, clear, fill, hbox


class RunFigures(QWidget):
    """Titles above values in one row, whose place is kept; what it has no room for is in the tool tip."""

    def __init__(self) -> None:
        super().__init__()
        self._row = FlowLayout(4 * SPACING, SPACING, self)
        self.shown: list[tuple[str, str]] = []
        self._values: list[QLabel] = []
        self.setFixedHeight(2 * self.fontMetrics().lineSpacing() + 2)

    def show_figures(self, figures: list[tuple[str, str]]) -> None:
        if figures == self.shown:
            return
        if [title for title, _value in figures] != [title for title, _value in self.shown]:
            clear(self._row)
            self._values = [self._add(title) for title, _value in figures]
        self.shown = figures
        self.setToolTip("\n".join(formats.titled(title, value) for title, value in figures))
        for (title, value), label in zip(figures, self._values, strict=True):
            label.setText(value)
            label.setAccessibleName(formats.titled(title, value))

    def _add(self, title: str) -> QLabel:
        name, figure, column = role_label(Role.MUTED, title), role_label(Role.STRONG), QWidget()
        figure.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        column.setToolTip(meanings_in(title))
        fill(QVBoxLayout(column), name, figure, margins=FLUSH, spacing=0)
        self._row.addWidget(column)
        return figure


PATIENCE_SECONDS = 10.0
"""How long a stop or a pause may take before "End now" is offered."""


class RunAction(StrEnum):
    """Buttons and entries of a run's page; the first ones also do what a fix of the same value does."""

    PAUSE = FixAction.PAUSE
    RESUME = FixAction.RESUME
    STOP = FixAction.STOP
    END = FixAction.END
    EXTEND = FixAction.EXTEND
    REVEAL = FixAction.REVEAL
    SAVE = auto()
    DUPLICATE = auto()
    TRY = auto()
    TEST = auto()
    EXPORT = auto()
    COMPARE = auto()
    SCRIPT = auto()
    REPORT = auto()
    SUPPORT = auto()
    TRASH = auto()
    RENAME = auto()


TITLES = {
    RunAction.PAUSE: _("Pause"),
    RunAction.RESUME: _("Resume"),
    RunAction.STOP: _("Stop and save model"),
    RunAction.END: _("End now"),
    RunAction.SAVE: _("Save now"),
    RunAction.DUPLICATE: _("Duplicate"),
    RunAction.TRY: _("Try it"),
    RunAction.TEST: _("Test…"),
    RunAction.EXPORT: _("Export…"),
    RunAction.EXTEND: _("Train longer…"),
    RunAction.COMPARE: _("Compare"),
    RunAction.SCRIPT: _("Save as a Python script…"),
    RunAction.REPORT: _("Save a report…"),
    RunAction.SUPPORT: _("Report a problem…"),
    RunAction.RENAME: _("Rename…"),
    RunAction.REVEAL: _("Show the folder"),
    RunAction.TRASH: _("Move to the trash"),
}

ICONS = {
    RunAction.PAUSE: "pause",
    RunAction.RESUME: "start",
    RunAction.STOP: "stop",
    RunAction.TRY: "chat",
    RunAction.EXPORT: "export",
}


KEYS = {
    RunAction.PAUSE: "Ctrl+P",
    RunAction.RESUME: "Ctrl+R",
    RunAction.STOP: "Ctrl+.",
    RunAction.TRY: "Ctrl+T",
    RunAction.EXPORT: "Ctrl+E",
    RunAction.DUPLICATE: "Ctrl+D",
    RunAction.RENAME: "F2",
}


def refusal(action: RunAction, facts: RunFacts) -> str:
    """Why an action of the menu isn't possible; empty if it is."""
    state, is_over = facts.state, facts.state.is_over
    match action:
        case RunAction.SAVE:
            if state is State.TRAINING and facts.status.step:
                return ""
            if state in (State.STARTING, State.TRAINING, State.QUEUED):
                return _("There is nothing to save before the first step.")
            return _("The run isn't training.")
        case RunAction.COMPARE if facts.related.is_only:
            return _("There is no other run to compare with yet.")
        case RunAction.TRASH if not is_over:
            return _("This run is queued or running. Stop it before deleting.")
        case RunAction.EXTEND if not is_over:
            return _("Pause the run first.")
        case RunAction.TEST if facts.options is None:
            return _("Its run.toml can't be read.")
        case RunAction.TEST if facts.options is not None and facts.options.has_reference:
            return sentence(NO_TEST)
        case RunAction.TRY | RunAction.TEST | RunAction.EXPORT:
            if facts.has_model or (action is RunAction.EXPORT and is_over and facts.saved_step is not None):
                return ""
            if action is RunAction.TRY and facts.status.model_step is not None and not facts.is_gone:
                return ""  # it trains longer, and its earlier model is still there
            if not is_over:
                return _("The model is saved when the run finishes or is stopped.")
    if facts.is_gone:
        return _("Its folder no longer exists.")
    match action:
        case RunAction.TRY if facts.saved_step is not None:
            return _("The model is saved when the run ends: resume it, or export its checkpoint.")
        case RunAction.TRY | RunAction.TEST | RunAction.EXPORT:
            return _("This run has no trained model.")
        case RunAction.EXTEND if facts.saved_step is None and not facts.has_model:
            return _("There is no checkpoint to continue from.")
        case RunAction.EXTEND | RunAction.SCRIPT | RunAction.RESUME if facts.options is None:
            return _("Its run.toml can't be read.")
    return ""


NEXT = (RunAction.TRY, RunAction.TEST, RunAction.EXPORT, RunAction.EXTEND, RunAction.COMPARE)
"""What comes after a run has ended with a model: buttons then, entries of the menu before."""


class RunActions(QWidget):
    """The buttons of a run's state, and a menu with all other actions.

    While it trains these are Pause, Stop and save model, and End now if it hangs; once it has ended with a
    model, those of `NEXT`.
    """

    requested = Signal(object)  # a `RunAction`

    def __init__(self) -> None:
        super().__init__()
        self._waiting_since: float | None = None
        self._can_skip = self._has_skipped = False
        shown = (RunAction.RESUME, RunAction.PAUSE, RunAction.STOP, RunAction.END, *NEXT)
        self.buttons = {action: QPushButton(TITLES[action]) for action in shown}
        self.resume, self.pause, self.stop, self.end, *_next = self.buttons.values()
        self.end.setToolTip(
            _("Ends the process at once. What was trained since the last checkpoint is lost.")
        )
        self.more = QPushButton(_("More"))
        self.menu = ButtonMenu(self.more)
        self.entries: dict[RunAction, QAction] = {}
        self._fill_menu()
        self.more.setEnabled(False)
        pauses = _(
            "Saves a checkpoint and releases the memory: a run that is queued for this device starts then. Resume "
            "continues exactly there."
        )
        for action, button in self.buttons.items():
            if action in ICONS:
                button.setIcon(icon(ICONS[action]))
            if action in KEYS:
                button.setToolTip(tip_with_keys(KEYS[action], pauses if action is RunAction.PAUSE else ""))
            button.clicked.connect(partial(self.request, action))
            button.hide()
        self.buttons[RunAction.TEST].setToolTip(_("Evaluates the model on a file or folder of your own."))
        self.buttons[RunAction.TRY].setIcon(icon("chat", QPalette.ColorRole.HighlightedText))
        set_role(self.buttons[RunAction.TRY], Role.PRIMARY)
        places = (self.end, self.resume, self.pause, self.stop, *_next, self.more)
        fill(QHBoxLayout(self), *places, margins=FLUSH, spacing=SPACING)

    def show_facts(self, facts: RunFacts, *, is_narrow: bool = False) -> None:
        """Show the buttons that make sense in the run's state; disabled menu entries say why.

        Where there `is_narrow` room beside the run's name, Compare is in the menu.
        """
        before = self._visible()
        with self._keyboard_kept(facts.state):
            self._show_buttons(facts)
        self.more.setEnabled(True)
        has_result = (facts.has_model or facts.status.is_test) and facts.state in (
            State.FINISHED,
            State.STOPPED,
        )
        for action, entry in self.entries.items():
            reason = refusal(action, facts)
            entry.setEnabled(not reason)
            entry.setToolTip(reason)
            if action in NEXT:
                is_button = has_result and (not reason or action is RunAction.COMPARE)
                is_button &= action is not RunAction.EXTEND or self.resume.isHidden()
                is_button &= action is not RunAction.COMPARE or not is_narrow
                self.buttons[action].setVisible(is_button)
                self.buttons[action].setEnabled(not reason)
                if action is RunAction.COMPARE:
                    self.buttons[action].setToolTip(reason)
                entry.setVisible(not is_button)
        if self._visible() != before and self.underMouse():
            ignore_clicks(self)  # another button has come below the pointer

    def _visible(self) -> set[RunAction]:
        return {action for action, button in self.buttons.items() if not button.isHidden()}

    def request(self, action: RunAction) -> None:
        """Do what the button or the entry of the menu does, unless it is disabled."""
        if action in self.entries:
            self.entries[action].trigger()
            return
        if not self.buttons[action].isEnabled():
            return
        with self._keyboard_kept():
            if action in (RunAction.STOP, RunAction.PAUSE):
                # from the press on, as the engine may never answer
                self._waiting_since = time.monotonic()
                self.pause.setEnabled(False)
                self._has_skipped = self._can_skip
            if action in (RunAction.STOP, RunAction.RESUME):
                self.buttons[action].setEnabled(False)
        self.requested.emit(action)

    def offers(self) -> set[RunAction]:
        """The actions that are possible now."""
        entries = {action for action, entry in self.entries.items() if entry.isEnabled()}
        return entries | {action for action in self._visible() if self.buttons[action].isEnabled()}

    def _show_buttons(self, facts: RunFacts) -> None:
        state, saved, is_working = facts.state, facts.saved_step, not facts.state.is_over
        if state.is_over:
            self._waiting_since, self._has_skipped = None, False
        is_evaluating = facts.status.phase is Phase.EVALUATING
        self._can_skip = state is State.STOPPING and is_evaluating and not self._has_skipped
        if self._can_skip or (self._waiting_since is None and state in (State.STOPPING, State.PAUSING)):
            self._waiting_since = time.monotonic()
        since = self._waiting_since
        is_stuck = since is not None and time.monotonic() - since > PATIENCE_SECONDS
        if not self.stop.minimumWidth():
            self.stop.ensurePolished()  # its longest text: places stay the same
            self.stop.setMinimumWidth(self.stop.sizeHint().width())
            tallest = self.buttons[RunAction.TRY]
            tallest.ensurePolished()
            self.setFixedHeight(tallest.sizeHint().height())
        self.pause.setVisible(is_working)
        self.pause.setEnabled(since is None and state is State.TRAINING)
        awaited = facts.status.awaited
        is_here = facts.connection is None  # the queue of another computer is its own
        can_start = state is State.QUEUED and is_here and awaited is not None and not awaited.is_source
        self.resume.setVisible((state.can_resume or can_start) and not facts.is_gone)
        self.resume.setEnabled(since is None and facts.options is not None)
        again = _("Start again") if saved is None else _("Resume")
        self.resume.setText(_("Start now") if can_start else again)
        tip = _("Continues from the checkpoint of step {step}.").format(step=formats.count(saved or 0))
        if saved is None:
            tip = _("It has no checkpoint, so it starts over in the same folder.")
        if can_start:
            tip = _(
                "Starts it now, while other runs train on the same device. They slow each other down and share the "
                "memory."
            )
        self.resume.setToolTip(tip_with_keys(KEYS[RunAction.RESUME], refusal(RunAction.RESUME, facts) or tip))
        texts = {
            State.QUEUED: (_("Remove from the queue"), _("It will not train. It can be started later.")),
            State.STARTING: (_("Stop"), _("Ends before it trains. It can be started again later.")),
        }
        trained = (
            TITLES[RunAction.STOP],
            _("Ends after the current step, evaluates the model as it is then, and saves it."),
        )
        skip = _("Skip evaluation"), _("Saves the model at once. How good it is stays unknown.")
        if facts.status.is_test:
            trained = _("Stop"), _("Ends the test without a result.")
        text, tip = skip if self._can_skip else texts.get(state, trained)
        self.stop.setVisible(is_working or (not self.resume.isHidden() and not facts.has_model))
        self.stop.setEnabled(is_working and (since is None or state is State.PAUSING or self._can_skip))
        self.stop.setText(text)
        self.stop.setToolTip(tip_with_keys(KEYS[RunAction.STOP], tip))
        self.end.setVisible(is_working and is_stuck and not facts.is_cut_off)

    @contextmanager
    def _keyboard_kept(self, state: State | None = None) -> Iterator[None]:
        """Take the focus if its button is disabled or hidden, so that a second press can't hit the next button.

        It moves to Resume once the run is paused.
        """
        window = self.window()
        focused = window.focusWidget()
        yield
        is_ours = isinstance(focused, QPushButton) and self.isAncestorOf(focused)
        if is_ours and (focused.isHidden() or not focused.isEnabled()):
            self.setFocus()
        if window.focusWidget() is self and state is State.PAUSED and self.resume.isEnabled():
            self.resume.setFocus()

    def _fill_menu(self) -> None:
        groups = (
            (RunAction.SAVE,),
            (RunAction.RENAME, RunAction.DUPLICATE),
            NEXT,
            (RunAction.SCRIPT, RunAction.REPORT, RunAction.SUPPORT),
            (RunAction.REVEAL, RunAction.TRASH),
        )
        for group in groups:
            if self.entries:
                self.menu.addSeparator()
            for action in group:
                entry = self.entries[action] = self.menu.addAction(TITLES[action])
                entry.triggered.connect(partial(self.requested.emit, action))


PROGRESS_PARTS = 10_000
NARROW = 800
"""Pixels; the smallest window leaves less."""


class RunHeader(QWidget):
    """Name, state, progress and buttons of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.buttons = RunActions()
        self.name = ElidedLabel(role=Role.PAGE_TITLE)
        self.state_line = ElidedLabel(role=Role.MUTED)
        self.connection = ElidedLabel(role=Role.HINT)
        self.other = link_button("", flush=True)
        self.other.hide()
        self.bar = QWidget()  # placed by the page
        self.progress = progress_bar(_("Progress"), PROGRESS_PARTS)
        self.elapsed, self.time_left = role_label(Role.MUTED), role_label(Role.MUTED)
        self._lay_out()

    def show_facts(self, facts: RunFacts) -> None:
        self.state_line.setText(words.state_line(facts))
        self.connection.setText(words.connection_line(facts))
        self.connection.setVisible(bool(self.connection.text()))
        elapsed = words.elapsed(facts, time.time())
        self.elapsed.setText(_("{duration} so far").format(duration=elapsed) if elapsed else "")
        left = words.time_left(facts, time.time())
        places = {Relation.CHAT: _("Run 1 of 2"), Relation.PRETRAINED: _("Run 2 of 2")}
        place = places.get(facts.related.relation)
        self.time_left.setText(formats.titled(place, left) if place and left else left)
        set_role(self.other, None if facts.leads_to_chat else Role.LINK)
        self.other.setText(words.related_text(facts))
        self.other.setVisible(bool(self.other.text()))
        self.buttons.show_facts(facts, is_narrow=self.width() < NARROW)
        status = facts.status
        self.bar.setVisible(not facts.state.is_over or facts.state is State.PAUSED)
        is_starting = facts.state is State.STARTING  # 0: something goes on
        self.progress.setMaximum(0 if is_starting else PROGRESS_PARTS)
        self.progress.setValue(round(PROGRESS_PARTS * (status.share_done or 0.0)))

    def _lay_out(self) -> None:
        below = fill(QVBoxLayout(), self.state_line, self.connection, spacing=2)
        below.addWidget(self.other, alignment=Qt.AlignmentFlag.AlignLeft)
        top = hbox((self.name, 1), self.buttons)
        times = fill(QHBoxLayout(), self.elapsed, None, self.time_left)
        fill(QVBoxLayout(self.bar), None, self.progress, times, None, margins=FLUSH, spacing=SPACING // 2)
        fill(QVBoxLayout(self), top, below, margins=FLUSH, spacing=SPACING // 2)
        self.bar.hide()
