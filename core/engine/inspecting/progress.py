"""How far a look at the data is: a share over its stages, told a few times a second."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TELL_SECONDS = 0.1
WHOLE = 1000
"""What all stages come to."""

Tell = Callable[[int, int], None]


class Stages:
    """Puts the progress of stages, one after the other, together.

    Args:
        tell: Hears what is done, of `WHOLE`.
        clock: Tells the time, in seconds.
    """

    def __init__(self, tell: Tell | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._told = -TELL_SECONDS
        self._start = self._end = 0.0

    @contextmanager
    def stage(self, share: float) -> Iterator[Tell]:
        """One stage, which takes about so much of the whole: hears what is done of it, and of how much."""
        self._start, self._end = self._end, min(1.0, self._end + share)
        yield self._hear
        self._hear(1, 1)

    def _hear(self, done: int, total: int) -> None:
        now = self._clock()
        if self._tell is None or now - self._told < TELL_SECONDS:
            return
        self._told = now
        part = min(1.0, done / total) if total else 1.0
        self._tell(round(WHOLE * (self._start + part * (self._end - self._start))), WHOLE)
