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
    """Reads a slow source, or one that may hang, in a thread of its own, so that nobody waits for it.

    Each call hands out what has come meanwhile, with the time at which it was read, and begins the next reading unless
    one is under way still. A source that raises is not read again: its bug is told once.

    Args:
        source: What is read.
        every: The least time in seconds between the beginnings of two readings.
        patience: How many seconds a reading that has just begun is waited for, so that a quick one is told at once.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        source: MachineSource,
        *,
        every: float = 0.0,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source: MachineSource | None = source
        self._every = every
        self._patience = patience
        self._clock = clock
        self._next = clock()
        self._found: SimpleQueue[Event] = SimpleQueue()
        self._thread: Thread | None = None

    def read(self) -> Sequence[Event]:
        """What came since the last call, and what can be had without waiting longer than the patience is."""
        found = self._take()
        if self._is_due():
            self._next = self._clock() + self._every
            self._thread = Thread(target=self._work, name="machine source", daemon=True)
            self._thread.start()
            if self._patience:
                self.finish(self._patience)
                found += self._take()
        return found

    def finish(self, seconds: float | None = None) -> None:
        """Wait until the reading under way is done, or for so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _is_due(self) -> bool:
        is_busy = self._thread is not None and self._thread.is_alive()
        return self._source is not None and not is_busy and self._clock() >= self._next

    def _take(self) -> list[Event]:
        found: list[Event] = []
        while True:
            try:
                found.append(self._found.get_nowait())
            except Empty:
                return found

    def _work(self) -> None:
        if self._source is None:
            return
        try:
            found = self._source.read()
        except Exception:
            self._source = None
            raise  # for the process's own hook, which reports bugs of threads
        for event in found:
            self._found.put(event)
