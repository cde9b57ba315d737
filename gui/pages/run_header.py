"""The head of a run page: its name, where it stands, what can be asked of it, how far it is."""

import time

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from core.story import State
from gui.pages import run_words
from gui.pages.run_actions import RunActions
from gui.pages.run_words import RunFacts
from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role

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
        self.progress.setAccessibleName(self.tr("Progress"))
        self.progress.setRange(0, PROGRESS_PARTS)
        self.elapsed = QLabel()
        self.time_left = QLabel(alignment=Qt.AlignmentFlag.AlignRight)
        for label in (self.elapsed, self.time_left):
            set_role(label, Role.MUTED)
        self._lay_out()

    def show_facts(self, facts: RunFacts) -> None:
        """Say where the run stands."""
        self.state_line.setText(run_words.state_line(facts))
        lasted = "" if facts.state.is_over else run_words.elapsed(facts, time.time())
        self.elapsed.setText(self.tr("{} so far").format(lasted) if lasted else "")
        self.elapsed.setHidden(facts.state.is_over)
        self.time_left.setHidden(facts.state.is_over)
        self.time_left.setText(run_words.time_left(facts))
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
