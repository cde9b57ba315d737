"""What became of a run whose processes ended without a word: also where nobody was left to write down how."""

from dataclasses import dataclass

from core import checkpoint_files
from core.run_folder import ExitRecord, RunFolder
from core.story import RunStory

SWITCHED_OFF = "The computer was restarted or switched off while it trained."
SWITCHED_OFF_WAITING = "The computer was restarted or switched off while it waited for its turn."
KEEPER_GONE = (
    "Its keeper is gone, too: somebody ended both, or the operating system did, for lack of memory or because the "
    "person logged out."
)
KEEPER_GONE_WAITING = "Its keeper was ended from outside while it waited for its turn."
NEVER_KEPT = "It was never started, or all trace of that is lost."
ELSEWHERE = "It was trained on another computer, {}, and nothing has been heard of it since."


@dataclass(frozen=True)
class Crash:
    """How a run ended that didn't say so itself.

    `reason` is one or two plain sentences, empty where `log_tail`, the last lines it printed, has to tell. `step` is
    the one it would go on from, that of the newest complete checkpoint; None: it would begin anew.
    """

    title: str
    reason: str
    log_tail: str = ""
    out_of_memory: bool = False
    step: int | None = None


def crash_of(run: RunFolder, story: RunStory, record: ExitRecord | None) -> Crash:
    """What is known of a crash; reads a small file or two.

    Args:
        run: The run.
        story: Its events.
        record: How its engine ended, as far as its keeper saw it.
    """
    checkpoint = checkpoint_files.newest(run)
    step = None if checkpoint is None else checkpoint.step
    if record is None:
        return Crash(title=_unseen_title(run, story), reason=_unseen_reason(run, story), step=step)
    return Crash(
        title=_title(record),
        reason=record.reason,
        log_tail=record.log_tail,
        out_of_memory=record.out_of_memory,
        step=step,
    )


def crash_before(run: RunFolder, story: RunStory, record: ExitRecord | None) -> Crash | None:
    """How the newest attempt that trained ended without a word, where another one waited since and never began.

    Args:
        run: The run.
        story: Its events.
        record: How the attempt that waited ended.
    """
    before = record.of_engine if record is not None and record.code is None else None
    if before is None or story.finished is not None or before.attempt < story.attempt:
        return None
    return crash_of(run, story, before)


def _title(record: ExitRecord) -> str:
    if record.out_of_memory:
        return "The operating system ended the training process for lack of memory."
    if record.signal is not None:
        return f"The training process was ended by {record.signal}."
    return "The training process ended before the run was over."


def _unseen_title(run: RunFolder, story: RunStory) -> str:
    if _waited(run, story):
        return "The run waited for its turn, which never came."
    return "The training process is gone, and nobody was left to see how."


def _unseen_reason(run: RunFolder, story: RunStory) -> str:
    keeper = run.keeper_record()
    waited = _waited(run, story)
    if keeper is None:
        return NEVER_KEPT
    if not keeper.is_here:
        return ELSEWHERE.format(keeper.host)
    if not keeper.is_of_this_boot:
        return SWITCHED_OFF_WAITING if waited else SWITCHED_OFF
    return KEEPER_GONE_WAITING if waited else KEEPER_GONE


def _waited(run: RunFolder, story: RunStory) -> bool:
    """Whether the newest attempt was still waiting for its turn."""
    return story.awaited is not None and story.awaited.attempt >= max(run.attempt_kept(), story.attempt)
