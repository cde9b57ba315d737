"""Requests a run was left, as the engine reads them."""

import _thread
import threading
import time
from collections.abc import Callable
from types import TracebackType

from core.engine.reporter import Reporter
from core.events import RequestAnswered
from core.run_folder import Action, RunFolder

LOOK_SECONDS = 0.3
BETWEEN_LOOKS = 0.2
"""A step may take a few milliseconds, and a look at the folder a fifth of one: so many seconds lie between two."""


class StopRequested(Exception):  # noqa: N818 - a request, not an error
    """Raised where work is interrupted because the person pressed Stop."""


class RequestBox:
    """Looks for stop requests and answers each once.

    Args:
        run: Whose requests.
        reporter: Writes the answers.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self, run: RunFolder, reporter: Reporter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run = run
        self._reporter = reporter
        self._clock = clock
        self._next_look = 0.0
        self.stop_accepted = False

    def stop_is_asked(self) -> bool:
        """Whether a stop was asked, now or earlier; a new request is acknowledged. May be asked after every step."""
        if self._clock() < self._next_look:
            return self.stop_accepted
        self._next_look = self._clock() + BETWEEN_LOOKS
        for request in self._run.open_requests():
            if request.action is Action.STOP:
                answer = RequestAnswered(request=request.id, action=request.action, accepted=True)
                self._reporter.write(answer)
                self._run.close_request(request)
                self.stop_accepted = True
        return self.stop_accepted

    def raise_if_stopped(self) -> None:
        """Interrupt work that has no other way to end.

        Raises:
            StopRequested: A stop was asked.
        """
        if self.stop_is_asked():
            raise StopRequested


class StopWhileLoading:
    """Lets a stop interrupt loading: a download, reading files, tokenizing; none of them looks for requests itself.

    A watching thread interrupts the main thread, as Ctrl-C would, and the interruption leaves as `StopRequested`.
    """

    def __init__(self, run: RunFolder, requests: RequestBox) -> None:
        self._run = run
        self._requests = requests
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="stop-while-loading", daemon=True)

    def __enter__(self) -> None:
        """Begin to watch."""
        self._watcher.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End watching.

        Raises:
            StopRequested: A stop was asked meanwhile.
        """
        self._done.set()
        self._watcher.join()
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self._requests.raise_if_stopped()

    def _watch(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            if self._run.stop_is_asked():
                _thread.interrupt_main()
                return
