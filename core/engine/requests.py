"""Requests a run was left, as the engine reads them."""

from core.engine.reporter import Reporter
from core.events import RequestAnswered
from core.runs import Action, RunFolder


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
