"""Measuring while a run trains: its figures would say as much of the run as of the methods, so the person is asked."""

from collections.abc import Callable
from enum import Enum, auto

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from core import queue
from core.events import TurnAwaited
from gui.widgets.question import Question

POLL_MS = 500

_translate = QCoreApplication.translate


class BenchTurn(Enum):
    """When a benchmark begins."""

    AFTER_PAUSE = auto()
    BESIDE = auto()
    NEVER = auto()


AskBenchTurn = Callable[[TurnAwaited, QWidget], BenchTurn]
"""Asks when a benchmark is to begin on a device that runs train on, or wait for."""


def question_about(awaited: TurnAwaited, parent: QWidget | None) -> Question[BenchTurn]:
    """What is asked. Where more than one run is there, pausing one only lets the next begin."""
    is_run = awaited.behind != queue.BENCHMARK
    words = _translate(
        "Benchmark",
        "What is measured beside something else is slower than alone, has less memory, and is marked as disturbed. "
        "What it is measured beside becomes slower, too.",
    )
    beside = _translate("Benchmark", "Measure beside it anyway")
    answers = {BenchTurn.BESIDE: beside}
    if awaited.ahead == 1 and is_run:
        pause = _translate("Benchmark", "Pause it, then measure")
        answers = {BenchTurn.AFTER_PAUSE: pause, BenchTurn.BESIDE: beside}
        words += " " + _translate("Benchmark", "A paused run is resumed under Runs; it loses nothing.")
    return Question(_title(awaited), words, answers, parent)


def _title(awaited: TurnAwaited) -> str:
    if awaited.behind == queue.BENCHMARK:
        return _translate("Benchmark", "Another benchmark is being measured")
    if awaited.ahead == 1:
        name = awaited.title or awaited.behind
        return _translate("Benchmark", "“{}” trains on this device").format(name)
    return _translate("Benchmark", "{} runs train on this device, or wait for it").format(awaited.ahead)


def ask_bench_turn(awaited: TurnAwaited, parent: QWidget) -> BenchTurn:
    """Ask when the benchmark is to begin."""
    return question_about(awaited, parent).ask(BenchTurn.NEVER)


class Pausing(QObject):
    """Waits until nothing computes on a device any more.

    Signals:
        changed: It waits, or waits no longer.

    Args:
        ahead_of: What computes on a device, as `core.queue.ahead_of` says.
        parent: Qt's parent.
    """

    changed = Signal()

    def __init__(self, ahead_of: Callable[[str], TurnAwaited | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ahead_of = ahead_of
        self._then: Callable[[], None] | None = None
        self._device = ""
        self.title = ""
        self._poll = QTimer(self, interval=POLL_MS)
        self._poll.timeout.connect(self.look)

    @property
    def is_waiting(self) -> bool:
        """Whether a run is on its way to a pause."""
        return self._then is not None

    def wait_for(self, awaited: TurnAwaited, device: str, then: Callable[[], None]) -> None:
        """Call `then` once a device is free; returns at once."""
        self._device, self._then, self.title = device, then, awaited.title or awaited.behind
        self._poll.start()
        self.changed.emit()

    def forget(self) -> None:
        """Wait no longer; a run that was asked to pause does so."""
        self._poll.stop()
        if self._then is not None:
            self._then = None
            self.changed.emit()

    def look(self) -> None:
        """Begin, if the device is free by now."""
        then = self._then
        if then is not None and self._ahead_of(self._device) is None:
            self.forget()
            then()
