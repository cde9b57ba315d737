"""How far a benchmark is: the rung under way, a bar, the time left, and a way to end it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QWidget

from gui.bench_work import Benchmarking
from gui.pages.benchmark_said import doing_words, left_words
from gui.theme import SPACING
from gui.widgets.card import Card
from gui.widgets.roles import Role, set_role


class BenchmarkProgress(Card):
    """A card with a bar in it.

    Signals:
        cancel_pressed: The person has seen enough.
    """

    cancel_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self._doing, self._left = QLabel(), QLabel()
        self._doing.setWordWrap(True)
        set_role(self._doing, Role.STRONG)
        set_role(self._left, Role.MUTED)
        self.cancel = QPushButton(self.tr("Cancel"))
        self.cancel.setToolTip(self.tr("End it now; what is measured so far is kept"))
        self.cancel.clicked.connect(self.cancel_pressed)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(self.tr("Progress of the benchmark"))
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._doing, 1)
        line.addWidget(self._left)
        line.addWidget(self.cancel)
        self.body.addLayout(line)
        self.body.addWidget(self.bar)

    @property
    def doing(self) -> str:
        """What is said to be under way."""
        return self._doing.text()

    def show_state(self, measuring: Benchmarking, waits_for: str = "") -> None:
        """Say what is under way now; `waits_for` is the run that is to pause before."""
        underway = measuring.underway
        waiting = self.tr("Waiting until “{}” has paused…").format(waits_for)
        self._doing.setText(waiting if waits_for else doing_words(measuring))
        self._left.setText("" if underway is None or measuring.is_stopping else left_words(underway))
        if measuring.is_stopping and self.window().focusWidget() is self.cancel:
            self.setFocus()  # else Qt would give it to a link far below, and scroll there
        self.cancel.setEnabled(not measuring.is_stopping)
        self.bar.setRange(0, 0 if underway is None else underway.total)
        self.bar.setValue(0 if underway is None else underway.done)
