"""Requests a run was left, as the engine reads them."""

import _thread
import threading
from types import TracebackType

from core.engine.reporter import Reporter
from core.events import RequestAnswered
from core.run_folder import Action, RunFolder

LOOK_SECONDS = 0.3


class StopRequested(Exception):  # noqa: N818 - a request, not an error
    """Raised where work is interrupted because the person pressed Stop."""


class RequestBox:
    """Looks for stop requests and answers each once. Cheap: one listing of a folder that is nearly always empty."""

    def __init__(self, run: RunFolder, reporter: Reporter) -> None:
        self._run = run
        self._reporter = reporter
        self.stop_accepted = False

    def stop_is_asked(self) -> bool:
        """Whether a stop was asked, now or earlier; a new request is acknowledged."""
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
