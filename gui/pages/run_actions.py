"""What can be asked of the run on screen: the buttons at the head of its page, and the menu beside them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QWidget

from core.story import State
from gui import numbers
from gui.pages import run_reasons
from gui.pages.run_words import RunFacts
from gui.theme import SPACING

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
        self.pause = self._button(self.tr("Pause"), self.ask_pause)
        self.pause.setToolTip(
            self.tr("Saves a checkpoint and frees the memory. Resume goes on exactly there.")
        )
        self.resume = self._button(self.tr("Resume"), self.ask_resume)
        self.stop = self._button(self.tr("Stop and keep"), self.ask_stop)
        self.end = self._button(self.tr("End now"), self._ask_end)
        self.end.setToolTip(
            self.tr("Ends the process at once. What was trained since the last checkpoint is lost.")
        )
        self.more = QPushButton(self.tr("More"))
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
        self.resume.setText(self.tr("Start again") if saved is None else self.tr("Resume"))
        if facts.options is None:
            self.resume.setToolTip(run_reasons.not_to_copy(facts))
            return
        self.resume.setToolTip(
            self.tr("No checkpoint was saved, so it begins anew in the same folder.")
            if saved is None
            else self.tr("Goes on from the checkpoint of step {}.").format(numbers.count(saved))
        )

    def _name_stop(self, state: State) -> None:
        waits = state is State.QUEUED
        self.stop.setText(self.tr("Leave the queue") if waits else self.tr("Stop and keep"))
        self.stop.setToolTip(
            self.tr("It will not train. It can be started later.")
            if waits
            else self.tr("Ends after the step at hand and keeps the model as it is then.")
        )

    def _fill_menu(self) -> None:
        self._entries: dict[QAction, Callable[[RunFacts], str]] = {}
        self.save = self._entry(self.tr("Save now"), self.save_pressed.emit, run_reasons.not_to_save)
        self.menu.addSeparator()
        self.duplicate = self._entry(
            self.tr("Duplicate"), self.duplicate_pressed.emit, run_reasons.not_to_reveal
        )
        self.new_from_model = self._entry(
            self.tr("New run from its model"), self.new_from_model_pressed.emit, run_reasons.not_to_use_model
        )
        self.extend = self._entry(
            self.tr("Train longer…"), self.extend_pressed.emit, run_reasons.not_to_extend
        )
        self.menu.addSeparator()
        self.try_it = self._entry(self.tr("Try it"), self.try_pressed.emit, run_reasons.not_to_use_model)
        self.export = self._entry(self.tr("Export…"), self.export_pressed.emit, run_reasons.not_to_export)
        self.menu.addSeparator()
        self.script = self._entry(
            self.tr("Copy as Python script"), self.script_pressed.emit, run_reasons.not_to_copy
        )
        self.report = self._entry(
            self.tr("Save a report…"), self.report_pressed.emit, run_reasons.not_to_reveal
        )
        self.support = self._entry(
            self.tr("Support file…"), self.support_pressed.emit, run_reasons.not_to_reveal
        )
        self.menu.addSeparator()
        self.reveal = self._entry(
            self.tr("Show the folder"), self.reveal_pressed.emit, run_reasons.not_to_reveal
        )
        self.bin = self._entry(self.tr("Move to the bin"), self.bin_pressed.emit, run_reasons.not_to_bin)

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
