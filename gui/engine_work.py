"""A thread in which something slow is done by an engine process; what goes wrong there becomes an answer too."""

import logging
import threading

from PySide6.QtCore import QObject, QThread

from core.errors import UserError
from core.jobs import EngineCrashed, JobCancelled

log = logging.getLogger("hone")


class EngineBroke(UserError):  # noqa: N818 - said as the window says it
    """The engine ended without an answer: a bug, whose report is in Hone's log."""

    def __init__(self) -> None:
        super().__init__(
            "Hone's engine ended without an answer",
            "This is a bug. The report is in Hone's log; Settings says where that is.",
        )


class EngineWork(QThread):
    """Does one thing and ends; `failure` says what went wrong, None: nothing, or it was cancelled."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self.cancelled = False
        self.failure: UserError | None = None

    def run(self) -> None:
        """Do it; called by Qt in the thread."""
        try:
            with self._lock:
                if self.cancelled:
                    return
                self.begin()
            self.work()
        except JobCancelled:
            return
        except UserError as error:
            self.failure = error
        except EngineCrashed as error:
            log.error("%s", error)
            self.failure = EngineBroke()
        except OSError as error:
            self.failure = UserError("Hone's engine can't be started", str(error))

    def cancel(self) -> None:
        """End it; may be called from any thread, before it has begun too."""
        with self._lock:
            self.cancelled = True
            self.kill()

    def begin(self) -> None:
        """Start the process; it is not cancelled meanwhile."""
        raise NotImplementedError

    def work(self) -> None:
        """Wait for what the process says."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the process, if it has been started."""
        raise NotImplementedError
