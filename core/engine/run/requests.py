"""Requests in the run's folder, and signals that ask this process to end."""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from core.base.language import _
from core.base.processes import SIGNALS
from core.engine.launch import is_rank, rank
from core.engine.reporter import Reporter
from core.runs.events import Action, Outcome, RequestAnswered
from core.runs.folder import Request, RunFolder

LOADING_POLL_SECONDS = 0.3

OUTCOMES = {Action.STOP: Outcome.STOPPED, Action.PAUSE: Outcome.PAUSED}

Handler = Callable[[int, FrameType | None], object] | int


@contextmanager
def on_signals(handler: Handler) -> Iterator[None]:
    """Handles the signals that ask this process to end, except those that it was started to ignore."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = {number: old for number, old in before.items() if old not in (None, signal.SIG_IGN)}
    for number in handled:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in handled.items():
            signal.signal(number, old)


class EndRequested(Exception):  # noqa: N818 - a request, not an error
    """Interrupts work on a request to stop or pause; `outcome` is which."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class RequestBox:
    """Reads requests and answers each once; requests for the keeper are left to it.

    The folder is read at each question, which takes 25 µs: so a run ends with the step under way, however short its
    steps are. `agreed_numbers` returns rank 0's, where several processes train together.

    Attributes:
        ending: The requested outcome, if any; a stop replaces an earlier pause.
        evaluates: Whether the run is evaluated before it ends: at a stop, until a second one or a signal.
        can_save: Whether there is anything to save yet.
        is_test: Whether the evaluation is all there is, so that a stop ends it.
    """

    def __init__(
        self,
        run: RunFolder,
        reporter: Reporter,
        agreed_numbers: Callable[[list[int]], list[int]] = list,
    ) -> None:
        self._run = run
        self._reporter = reporter
        self._agreed_numbers = agreed_numbers
        self._save_requested = self._is_signalled = False
        self.ending: Outcome | None = None
        self.evaluates = False
        self.can_save = False
        self.is_test = False

    def stop_at_signal(self, number: int, _frame: FrameType | None) -> None:
        """Requests a stop; the same signal again ends the process at once."""
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        if is_rank():
            self._is_signalled = True  # until the next step, so that all ranks end after the same one
        else:
            self.ending, self.evaluates = self.ending or Outcome.STOPPED, False

    def end_requested(self, *, alone: bool = False) -> bool:
        """Returns whether a stop or a pause was requested so far; cheap enough for every step.

        Rank 0 decides for all, unless it asks `alone`.
        """
        if rank() == 0:
            self._poll()
        if not alone:
            self._agree()
        return self.ending is not None

    def cuts_short(self, *, alone: bool = False) -> bool:
        """Returns whether an evaluation has to end at once."""
        return self.end_requested(alone=alone) and not self.evaluates

    def save_requested(self) -> bool:
        """Returns whether a checkpoint was requested since the last call; of several ranks, until `end_requested`."""
        if not is_rank():
            self._poll()
        is_asked, self._save_requested = self._save_requested, False
        return is_asked

    def raise_if_ending(self) -> None:
        """Raises EndRequested if a stop or a pause was requested, as of the last question."""
        if self.ending is not None:
            raise EndRequested(self.ending)

    def refuse_rest(self) -> None:
        """Refuses requests that came too late."""
        for request in self._run.open_requests():
            if request.action is not Action.KILL:
                self._answer(request, refusal=_("The run has just ended."))

    def _agree(self) -> None:
        outcomes = [None, *OUTCOMES.values()]
        ending, evaluates, saves = self._agreed_numbers(
            [outcomes.index(self.ending), self.evaluates, self._save_requested]
        )
        self.ending, self.evaluates, self._save_requested = outcomes[ending], bool(evaluates), bool(saves)

    def _poll(self) -> None:
        if self._is_signalled:
            self.ending, self.evaluates = self.ending or Outcome.STOPPED, False
        for request in self._run.open_requests():
            refusal = ""
            if request.action in OUTCOMES:
                outcome = OUTCOMES[request.action]
                if self.ending is Outcome.STOPPED and outcome is Outcome.PAUSED:
                    refusal = _("The run is stopping already.")
                else:
                    is_first_stop = outcome is Outcome.STOPPED and self.ending is not outcome
                    self.evaluates = is_first_stop and not self.is_test
                    self.ending = outcome
            elif request.action is not Action.SAVE:
                continue
            elif self.ending is not None:
                refusal = _("The run is ending, and saves a checkpoint then.")
            elif not self.can_save:
                refusal = _("There is nothing to save yet.")
            else:
                self._save_requested = True
            self._answer(request, refusal)

    def _answer(self, request: Request, refusal: str) -> None:
        self._reporter.write(
            RequestAnswered(request=request.id, action=request.action, accepted=not refusal, detail=refusal)
        )
        self._run.close_request(request)


@contextmanager
def end_while_loading(run: RunFolder, requests: RequestBox) -> Iterator[None]:
    """Lets a stop or a pause interrupt loading: a thread interrupts the main thread, as Ctrl-C would.

    Of several processes, rank 0 ends, and the agent the others.

    A process that a shell started in the background ignores Ctrl-C; while loading, it doesn't.

    Raises:
        EndRequested: A stop or a pause was requested meanwhile.
    """
    done = threading.Event()

    def watch() -> None:
        while rank() == 0 and not done.wait(LOADING_POLL_SECONDS):
            if any(request.action in OUTCOMES for request in run.open_requests()):
                _thread.interrupt_main()
                return

    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    watcher = threading.Thread(target=watch, name="end-while-loading", daemon=True)
    watcher.start()
    interruption: KeyboardInterrupt | None = None
    try:
        yield
    except KeyboardInterrupt as error:
        interruption = error
    finally:
        done.set()
        watcher.join()
        if is_ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    if rank() == 0 and requests.end_requested(alone=True):
        requests.raise_if_ending()
    if interruption is not None:
        raise interruption
