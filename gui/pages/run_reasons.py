"""Why something can't be asked of a run as it stands; an empty text where it can."""

from PySide6.QtCore import QCoreApplication

from core.story import State
from gui.pages.run_words import RunFacts

_translate = QCoreApplication.translate


def not_to_save(facts: RunFacts) -> str:
    """Why no checkpoint can be saved now."""
    if facts.state is State.TRAINING and facts.story.step:
        return ""
    if facts.state in (State.STARTING, State.TRAINING, State.QUEUED):
        return _translate("run", "There is nothing to save before the first step.")
    return _translate("run", "It isn’t training.")


def not_to_reveal(facts: RunFacts) -> str:
    """Why nothing can be done with what stands in its folder."""
    return _translate("run", "Its folder is gone.") if facts.is_gone else ""


def not_to_copy(facts: RunFacts) -> str:
    """Why its options can't be written in another form."""
    unread = _translate("run", "Its run.toml can’t be read.")
    return not_to_reveal(facts) or ("" if facts.options is not None else unread)


def not_to_use_model(facts: RunFacts) -> str:
    """Why nothing can be begun with its trained model."""
    if facts.has_model:
        return ""
    if facts.state.is_over:
        none = _translate("run", "It has no trained model.")
        if facts.saved_step is not None:
            none = _translate(
                "run", "Resume it, and its model is written when it ends; or export its checkpoint."
            )
        return not_to_reveal(facts) or none
    return _translate("run", "Its model is there once it has finished or was stopped.")


def not_to_export(facts: RunFacts) -> str:
    """Why neither its trained model nor a checkpoint in its place can be exported."""
    return "" if facts.state.is_over and facts.saved_step is not None else not_to_use_model(facts)


def not_to_extend(facts: RunFacts) -> str:
    """Why it can't train longer than was planned."""
    if not facts.state.is_over:
        return _translate("run", "Pause it first: what it has begun it does as planned.")
    if facts.saved_step is None:
        return not_to_reveal(facts) or _translate("run", "No checkpoint was saved to go on from.")
    return not_to_copy(facts)


def not_to_bin(facts: RunFacts) -> str:
    """Why its folder can't be moved to the bin."""
    if not facts.state.is_over:
        return _translate("run", "It isn’t over: stop it first.")
    return not_to_reveal(facts)
