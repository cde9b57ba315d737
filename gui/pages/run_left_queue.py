"""What a run page says of a run that was to go on and was taken out of the queue before its turn came."""

from PySide6.QtCore import QCoreApplication

from core.events import Level, MessageRaised
from core.state import OUTCOMES, State
from gui import numbers
from gui.pages import run_words
from gui.pages.run_words import RunFacts

_translate = QCoreApplication.translate


def left_queue_message(facts: RunFacts) -> MessageRaised | None:
    """Where the run stands, how the attempt before crashed, and that it can go on; None for any other run."""
    story, record = facts.story, facts.exit_record
    has_left = facts.state in (State.STOPPED, State.PAUSED) and record is not None and record.code is None
    is_of_before = story.finished is not None and OUTCOMES[story.finished.state] is facts.state
    if record is None or not has_left or is_of_before or not story.attempt or facts.is_gone:
        return None
    crash = facts.crash
    title = _translate("run", "It waited for its turn, and did not go on")
    before = _translate("run", "Before that: {}").format(f"{crash.title}\n{crash.reason}") if crash else ""
    parts = (record.reason, _standing(facts), before)
    return MessageRaised(
        id="left-queue",
        level=Level.WARNING if crash else Level.INFO,
        title=title,
        detail="\n".join(part for part in parts if part),
        fixes=(run_words.going_on(facts.saved_step),) if facts.options is not None else (),
    )


def _standing(facts: RunFacts) -> str:
    """At which step it stands, and from where it would go on."""
    at = _translate("run", "It stands at step {}.").format(numbers.count(facts.story.step))
    if facts.saved_step is None:
        return " ".join((at, _translate("run", "No checkpoint was saved, so it would begin anew.")))
    kept = _translate("run", "It can go on from its checkpoint of step {}.")
    return " ".join((at, kept.format(numbers.count(facts.saved_step))))
