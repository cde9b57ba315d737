"""The head of a run page: its name, where it stands, what can be asked of it, how far it is."""

import time

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.story import State
from gui.pages import run_words
from gui.pages.run_words import RunFacts
from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role

PATIENCE_SECONDS = 10.0
"""How long a stop may take before ending the process at once is offered."""

PROGRESS_PARTS = 10_000


class RunHeader(QWidget):
    """Shows `RunFacts`; knows nothing of its own but how long it has been waiting for a stop.

    Signals:
        stop_pressed: Stop, and keep what is trained.
        end_pressed: End the process at once.
        duplicate_pressed: Open a new run with the same options.
        reveal_pressed: Show the run's folder.
    """

    stop_pressed = Signal()
    end_pressed = Signal()
    duplicate_pressed = Signal()
    reveal_pressed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stopping_since: float | None = None
        self.name = ElidedLabel(name)
        set_role(self.name, Role.PAGE_TITLE)
        self.state_line = ElidedLabel()
        set_role(self.state_line, Role.MUTED)
        self.reveal_button = QPushButton(self.tr("Show the folder"))
        self.duplicate_button = QPushButton(self.tr("Duplicate"))
        self.stop_button = QPushButton(self.tr("Stop and keep"))
        self.stop_button.setToolTip(self.tr("Ends after the step at hand and keeps the model as it is then."))
        self.end_button = QPushButton(self.tr("End now"))
        self.end_button.setToolTip(
            self.tr("Ends the process at once. What was trained since the last checkpoint is lost.")
        )
        self.end_button.hide()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Progress"))
        self.progress.setRange(0, PROGRESS_PARTS)
        self.elapsed = QLabel()
        self.time_left = QLabel(alignment=Qt.AlignmentFlag.AlignRight)
        for label in (self.elapsed, self.time_left):
            set_role(label, Role.MUTED)
        self._lay_out()
        self.stop_button.clicked.connect(self.ask_stop)
        self.end_button.clicked.connect(self.end_pressed)
        self.duplicate_button.clicked.connect(self.duplicate_pressed)
        self.reveal_button.clicked.connect(self.reveal_pressed)

    def show_facts(self, facts: RunFacts) -> None:
        """Say where the run stands."""
        self.state_line.setText(run_words.state_line(facts))
        lasted = run_words.elapsed(facts, time.time())
        self.elapsed.setText(self.tr("{} so far").format(lasted) if lasted else "")
        self.time_left.setText(run_words.time_left(facts))
        self._show_progress(facts)
        self._show_buttons(facts.state)

    def _show_progress(self, facts: RunFacts) -> None:
        story = facts.story
        self._bar.setVisible(not facts.state.is_over)
        waits = story.plan is None
        if waits != (self.progress.maximum() == 0):
            self.progress.setRange(0, 0 if waits else PROGRESS_PARTS)
        if story.plan is not None:
            self.progress.setValue(round(PROGRESS_PARTS * story.step / max(1, story.plan.total_steps)))

    def _show_buttons(self, state: State) -> None:
        if state is State.STOPPING:
            self._stopping_since = self._stopping_since or time.monotonic()
        elif state.is_over:
            self._stopping_since = None
        waited = 0.0 if self._stopping_since is None else time.monotonic() - self._stopping_since
        self.stop_button.setVisible(not state.is_over)
        self.stop_button.setEnabled(self._stopping_since is None)
        self.end_button.setVisible(not state.is_over and waited > PATIENCE_SECONDS)

    def ask_stop(self) -> None:
        """Do what the button does; a second press asks nothing more."""
        if self._stopping_since is not None:
            return
        # From the press on: an engine that never answers must not keep "End now" away.
        self._stopping_since = time.monotonic()
        self.stop_button.setEnabled(False)
        self.stop_pressed.emit()

    def _lay_out(self) -> None:
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(self.name)
        names.addWidget(self.state_line)
        top = QHBoxLayout()
        top.setSpacing(SPACING)
        top.addLayout(names, 1)
        for button in (self.reveal_button, self.duplicate_button, self.stop_button, self.end_button):
            top.addWidget(button, alignment=Qt.AlignmentFlag.AlignTop)
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
