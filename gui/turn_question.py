"""Starting a run while another one trains on its device: let it wait for its turn, or train both at once."""

from collections.abc import Callable
from enum import Enum, auto

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QWidget

from core import queue
from core.events import TurnAwaited
from gui.widgets.question import Question

_translate = QCoreApplication.translate


class Turn(Enum):
    """When a run begins."""

    WAIT = auto()
    NOW = auto()
    NEVER = auto()


AskTurn = Callable[[TurnAwaited, QWidget], Turn]
"""Asks when a run is to begin that others are ahead of."""


def question_about(awaited: TurnAwaited, parent: QWidget | None) -> Question[Turn]:
    """What is asked."""
    if awaited.behind == queue.BENCHMARK:
        return _about_benchmark(parent)
    words = _translate(
        "Turn",
        "Two runs at once share the device: both become slower, and together they need the memory of both. "
        "Where that runs out, one of them ends.",
    )
    one = _translate("Turn", "Start when that one is done")
    several = _translate("Turn", "Start when those are done")
    answers = {
        Turn.WAIT: one if awaited.ahead == 1 else several,
        Turn.NOW: _translate("Turn", "Start now beside it"),
    }
    return Question(_title(awaited), words, answers, parent)


def _about_benchmark(parent: QWidget | None) -> Question[Turn]:
    words = _translate(
        "Turn",
        "A run beside it would make both slower, and the benchmark's figures would say as much of the run as of what "
        "is measured.",
    )
    answers = {
        Turn.WAIT: _translate("Turn", "Start when it is done"),
        Turn.NOW: _translate("Turn", "Start now beside it"),
    }
    return Question(_translate("Turn", "A benchmark is being measured"), words, answers, parent)


def _title(awaited: TurnAwaited) -> str:
    if awaited.ahead == 1:
        return _translate("Turn", "{} uses this device").format(awaited.behind)
    return _translate("Turn", "{} runs train on this device, or wait for it").format(awaited.ahead)


def ask_turn(awaited: TurnAwaited, parent: QWidget) -> Turn:
    """Ask when the run is to begin."""
    return question_about(awaited, parent).ask(Turn.NEVER)
