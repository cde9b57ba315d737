"""Where a run can stand."""

from enum import StrEnum

from core.events import Outcome


class State(StrEnum):
    """Where a run stands. There is no other idea of it anywhere."""

    QUEUED = "queued"
    STARTING = "starting"
    TRAINING = "training"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    CRASHED = "crashed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself: nobody works on the run."""
        return self in (State.PAUSED, State.STOPPED, State.FINISHED, State.FAILED, State.CRASHED)

    @property
    def can_resume(self) -> bool:
        """Whether the run ended before it was done, so that it may go on from where it was saved."""
        return self.is_over and self is not State.FINISHED


OUTCOMES = {
    Outcome.FINISHED: State.FINISHED,
    Outcome.STOPPED: State.STOPPED,
    Outcome.PAUSED: State.PAUSED,
    Outcome.FAILED: State.FAILED,
}
"""Where a run stands that ended by itself."""
