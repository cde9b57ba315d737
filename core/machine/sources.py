"""Where figures of the machine come from: one interface, and the two ways in which a source that costs much is read."""

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

from core.events import Event

Value = TypeVar("Value")


class MachineSource(Protocol):
    """Tells what some part of the machine does. What it can't tell makes no event, and is never written as zero."""

    def read(self) -> Sequence[Event]:
        """The figures since the last call, in the order of time."""


class Query(Generic[Value]):
    """One question to the machine. Drivers, laptops and containers lack different answers.

    Args:
        ask: Gives the answer; None: there is none.
        failures: What it raises where it fails. After that, or after None, it is not asked again.
    """

    def __init__(self, ask: Callable[[], Value | None], *failures: type[Exception]) -> None:
        self._ask: Callable[[], Value | None] | None = ask
        self._failures = failures

    def __call__(self) -> Value | None:
        """The answer now; None: not available."""
        if self._ask is None:
            return None
        try:
            found = self._ask()
        except self._failures:
            found = None
        if found is None:
            self._ask = None
        return found


class Every:
    """Reads a source less often than it is asked to: what changes slowly is not asked for every second.

    Args:
        seconds: The least time between two readings.
        source: What is read; the first time at once.
        clock: Tells the time in seconds.
    """

    def __init__(
        self, seconds: float, source: MachineSource, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._source = source
        self._clock = clock
        self._next = clock()

    def read(self) -> Sequence[Event]:
        """The figures, where it is time for them."""
        now = self._clock()
        if now < self._next:
            return ()
        self._next = now + self._seconds
        return self._source.read()


class InBackground:
    """Reads a slow source in a thread of its own, so that nobody waits for it.

    Each call hands out what has come meanwhile, with the time at which it was read, and begins the next reading unless
    one is under way still.
    """

    def __init__(self, source: MachineSource) -> None:
        self._source = source
        self._found: SimpleQueue[Event] = SimpleQueue()
        self._thread: Thread | None = None

    def read(self) -> Sequence[Event]:
        """What came since the last call; nothing the first time."""
        found = list(self._take())
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._work, name="machine source", daemon=True)
            self._thread.start()
        return found

    def finish(self, seconds: float | None = None) -> None:
        """Wait until the reading under way is done, or for so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _take(self) -> Sequence[Event]:
        found: list[Event] = []
        while True:
            try:
                found.append(self._found.get_nowait())
            except Empty:
                return found

    def _work(self) -> None:
        for event in self._source.read():
            self._found.put(event)
