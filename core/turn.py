"""A keeper's part in the queue: it waits for its run's turn, holds its device, and lets the next one in at the end.

Where Hone's home can't be written, a run that needn't wait trains all the same, and one that waits looks again.
"""

import contextlib
import os
import time
from collections.abc import Callable

import psutil

from core import queue
from core.events import Event, RequestAnswered, TurnAwaited, TurnCame
from core.run_folder import Action, KeeperRecord, Request, RunFolder

LOOK_SECONDS = 0.5
"""How often a waiting keeper looks: for its turn, and for what is asked of it."""

LIFE_SECONDS = 2.0
"""How often a waiting keeper looks whether those ahead of it still live; who leaves the queue is seen at once."""

CHECK_SECONDS = 10.0
"""How often a keeper whose run trains looks whether it is still entered."""

_GIVEN_UP = {
    Action.STOP: "It was taken out of the queue, as asked, before it began to train.",
    Action.KILL: "It was taken out of the queue, as asked, before it began to train.",
    Action.PAUSE: "It was paused, as asked, while it waited for its turn.",
}
_NOTHING_TO_SAVE = "It waits for its turn: there is nothing to save yet."
_REMOVED = "Its folder was removed while it waited for its turn."

Tell = Callable[[Event], None]


class Turn:
    """The place of one run in the queue.

    Args:
        run: The run.
        device: The device it asks for.
        attempt: The attempt of its keeper, which is this process.
    """

    def __init__(self, run: RunFolder, device: str, attempt: int) -> None:
        self._run = run
        self._entered = RunFolder(run.path.absolute())
        self._device = device
        self._keeper = KeeperRecord.of(os.getpid(), attempt)
        self._changed_at: int | None = None
        self._next_check = 0.0
        self._next_turn = 0.0
        self._awaited: TurnAwaited | None = None

    def wait(self, tell: Tell, wants_stop: Callable[[], bool]) -> str | None:
        """Wait until the run may train.

        Args:
            tell: Hears who is ahead whenever that changes, and what is answered to requests.
            wants_stop: Whether the keeper itself was asked to end.

        Returns:
            None: its turn has come. Otherwise why it will not train.
        """
        told: tuple[int, str] | None = None
        while True:
            if self._run.is_removed:
                return _REMOVED
            asked = (
                [Request(id="", action=Action.STOP)] if wants_stop() else self._run.open_requests(clean=True)
            )
            for request in asked:
                self._answer(request, tell)
                if request.action in _GIVEN_UP:
                    return _GIVEN_UP[request.action]
            awaited = self._take()
            if awaited is None:
                tell(TurnCame())
                return None
            if told != (awaited.ahead, awaited.behind):
                told = awaited.ahead, awaited.behind
                tell(awaited)
            time.sleep(LOOK_SECONDS)

    def _take(self) -> TurnAwaited | None:
        """Take the turn if it has come. Nothing is read where nothing was changed, but now and then for who died."""
        changed = queue.changed_at()
        if self._awaited is None or changed != self._changed_at or time.monotonic() >= self._next_check:
            self._changed_at = changed
            self._next_check = time.monotonic() + LIFE_SECONDS
            try:
                self._awaited = self._look()
            except OSError:  # a full disk, or a home that is away for a moment
                self._awaited = self._awaited or TurnAwaited(ahead=0)
        return self._awaited

    def _look(self) -> TurnAwaited | None:
        self._follow_renaming()
        if self._awaited is not None and not queue.is_entered(self._run):
            queue.enter(self._run, self._device, self._keeper)
            self._next_turn = (
                time.monotonic() + 2 * CHECK_SECONDS
            )  # those that train enter themselves again, too
        if self._awaited is not None and time.monotonic() < self._next_turn:
            return self._awaited
        return queue.take_turn(self._run, self._device, self._keeper, has_waited=self._awaited is not None)

    def _answer(self, request: Request, tell: Tell) -> None:
        is_done = request.action in _GIVEN_UP
        detail = "" if is_done else _NOTHING_TO_SAVE
        tell(RequestAnswered(request=request.id, action=request.action, accepted=is_done, detail=detail))
        with contextlib.suppress(OSError):
            self._run.close_request(request)

    def hold(self, engine: int) -> None:
        """Tell that the run trains, and which process its engine is."""
        with contextlib.suppress(psutil.Error):
            self._keeper = self._keeper.with_engine(engine)
        with contextlib.suppress(OSError, psutil.Error):
            self._run.record_engine(engine)
        self._enter()

    def look_after(self) -> None:
        """Enter the run again where the queue's file was lost; costs a look at its date now and then."""
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_SECONDS
        with contextlib.suppress(OSError):  # of the home, or of the folder, which has no name any more
            self._follow_renaming()
            changed = queue.changed_at()
            if changed is None or changed != self._changed_at:
                self._changed_at = changed
                if not queue.is_entered(self._run):
                    self._enter()

    def _follow_renaming(self) -> None:
        """Leave the queue under the name that the run's folder had before."""
        here = RunFolder(self._run.path.absolute())
        if here != self._entered:
            queue.leave(self._entered)
            self._entered = here

    def _enter(self) -> None:
        with contextlib.suppress(OSError):
            queue.hold(self._run, self._device, self._keeper)

    def leave(self) -> None:
        """Let the next one in."""
        with contextlib.suppress(OSError):
            queue.leave(self._entered)
