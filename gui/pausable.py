"""What takes minutes, brings files here and can be paused: as `gui.pages.hub_transfer_line` shows it."""

from enum import Enum, auto

from PySide6.QtCore import QObject, Signal

from core.errors import UserError
from core.hub_download import Pace
from core.hub_questions import Progress


class State(Enum):
    """Where it stands. A failed one can be gone on with as a paused one can."""

    IDLE = auto()
    RUNNING = auto()
    PAUSED = auto()
    FAILED = auto()


class Pausable(QObject):
    """One transfer at a time.

    `progress` is how far it is, None before it is known; `failure` says why it ended.

    Signals:
        changed: Its state or progress is another.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = State.IDLE
        self.progress: Progress | None = None
        self.failure: UserError | None = None
        self.pace = Pace()

    @property
    def title(self) -> str:
        """What is brought here; empty: nothing."""
        raise NotImplementedError

    @property
    def doing(self) -> str:
        """What is done while it runs and nothing can be counted."""
        raise NotImplementedError

    def resume(self) -> None:
        """Go on where it ended."""
        raise NotImplementedError

    def pause(self) -> None:
        """End it; what has come stays on the disk."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Give it up, and delete what has come."""
        raise NotImplementedError
