"""The sentences of the page Try it that are made of figures and names."""

from PySide6.QtCore import QCoreApplication

from core.choices import Task
from core.trying import Answered, EndedBy, Which
from gui import numbers

_translate = QCoreApplication.translate


def which_words(which: Which) -> str:
    """Which of the two models it is."""
    if which is Which.TRAINED:
        return _translate("Try", "Trained")
    return _translate("Try", "Before training")


def ask_words(task: Task) -> str:
    """What the button says."""
    match task:
        case Task.CHAT | Task.PREFERENCE:
            return _translate("Try", "Ask")
        case Task.CAUSAL_LM:
            return _translate("Try", "Go on")
        case Task.TEXT_REGRESSION:
            return _translate("Try", "Score")
        case Task.TOKEN_CLASSIFICATION:
            return _translate("Try", "Label the words")
        case Task.TEXT_CLASSIFICATION | Task.IMAGE_CLASSIFICATION:
            return _translate("Try", "Classify")


def hint_words(task: Task) -> str:
    """What stands in the empty field."""
    match task:
        case Task.CHAT | Task.PREFERENCE:
            return _translate("Try", "Say something. Return sends it, Shift+Return begins a new line.")
        case Task.CAUSAL_LM:
            return _translate("Try", "How the text begins. Return sends it, Shift+Return begins a new line.")
        case _:
            return _translate("Try", "Write or paste a text. Return sends it.")


def expected_words(expected: str) -> str:
    """What a held-out example says; empty where nobody knows."""
    return _translate("Try", "Expected: {}").format(expected) if expected else ""


def figures_words(answered: Answered) -> str:
    """What an answer took, such as "41 tokens in 1.2 s · 34 tokens/s · cpu, bf16"."""
    took = numbers.step_time(answered.seconds)
    where = f"{answered.device}, {answered.dtype}"
    speed = answered.tokens_per_second
    if speed is None:
        return f"{took} · {where}"
    wrote = _translate("Try", "%n tokens in {seconds}", None, answered.tokens).format(seconds=took)
    pace = _translate("Try", "{speed} tokens/s").format(speed=numbers.three_figures(speed))
    return f"{wrote} · {pace} · {where}"


def ending_words(answered: Answered) -> str:
    """Why a written answer ended, where that isn't the model's own doing; empty where it is."""
    match answered.ended_by:
        case EndedBy.LENGTH:
            return _translate("Try", "Ended by the most tokens it may write.")
        case EndedBy.STOP_TEXT:
            return _translate("Try", "Ended by a text to stop at.")
        case EndedBy.PERSON:
            return _translate("Try", "Stopped.")
        case _:
            return ""
