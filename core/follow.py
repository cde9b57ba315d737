"""Following a run, live or long over: its new events, what they amount to, and where it stands."""

import bisect
import heapq
import time
from operator import attrgetter
from pathlib import Path

from core.event_files import EventReader
from core.events import AnyEvent
from core.run_folder import ExitRecord, RunFolder
from core.story import RunStory, State

LIFE_SIGN_SECONDS = 0.5
"""How often the process table is asked whether the run's processes live."""


PIECE_BYTES = 1 << 20
"""How much of each file one poll reads."""

_TIME = attrgetter("time")


class _Stream:
    """One file of events, and those read from it that wait for the other one to come as far."""

    def __init__(self, path: Path) -> None:
        self.reader = EventReader(path)
        self.waiting: list[AnyEvent] = []

    def read(self, piece: int) -> None:
        if not self.waiting:
            self.waiting = self.reader.read(piece)

    @property
    def is_done(self) -> bool:
        """Whether all there was is read and told."""
        return self.reader.is_at_end and not self.waiting

    def take(self, until: float | None) -> list[AnyEvent]:
        """The events up to a time; None: all."""
        place = len(self.waiting) if until is None else bisect.bisect_right(self.waiting, until, key=_TIME)
        taken, self.waiting = self.waiting[:place], self.waiting[place:]
        return taken


class RunFollower:
    """Reads a run's two streams as they grow. Cheap enough to be polled ten times a second.

    `story` is the sum of all events so far and `state` where the run stood at the last poll; before the first there is
    none. A long file is read in parts, one a poll, and the run isn't called over before all of it is read. Of two long
    files, neither is told further than the other one is read.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.story = RunStory()
        self.state: State
        self.exit_record: ExitRecord | None = None
        self.attempt = 0
        self.is_caught_up = False
        self._streams = (_Stream(run.events_file), _Stream(run.machine_file))
        self._is_alive = True
        self._clock_moved = 0.0
        self._next_look = 0.0

    def poll(self, piece: int = PIECE_BYTES) -> list[AnyEvent]:
        """The events written since the last poll, in the order of time; refreshes `story` and `state`.

        Args:
            piece: So many bytes of each file are read at most, and a whole line at least.
        """
        self._look_for_life()  # before reading: what a process wrote is there once it is seen to be gone
        events = self._read(piece)
        self.story.apply_all(events)
        self.story.clock_moved = self._clock_moved
        self.story.skipped = sum(stream.reader.skipped for stream in self._streams)
        self.story.trouble = next(filter(None, (stream.reader.trouble for stream in self._streams)), "")
        self.is_caught_up = all(stream.is_done for stream in self._streams)
        self.state = self.story.state(
            engine_ended=self.exit_record is not None and self.is_caught_up,
            keeper_alive=self._is_alive or not self.is_caught_up,
            asked=self.run.actions_asked() if self._is_alive else (),
            attempt=self.attempt,
        )
        return events

    def _read(self, piece: int) -> list[AnyEvent]:
        for stream in self._streams:
            stream.read(piece)
        behind = [stream for stream in self._streams if not stream.reader.is_at_end]
        if not all(stream.waiting for stream in behind):
            return []  # a piece in which no line could be read: how far in time it goes isn't known
        slowest = min(behind, key=lambda stream: stream.waiting[-1].time, default=None)
        until = slowest.waiting[-1].time if slowest is not None else None
        taken = [stream.take(None if stream is slowest else until) for stream in self._streams]
        return list(heapq.merge(*taken, key=_TIME)) if all(taken) else [*taken[0], *taken[1]]

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and nothing more will be written: stop polling."""
        return not self._is_alive and self.state.is_over

    def look_again(self) -> None:
        """Find out at the next poll whether somebody works on the run, whatever was found last."""
        self._is_alive, self._next_look = True, 0.0

    def _look_for_life(self) -> None:
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LIFE_SIGN_SECONDS
            self._look_for_attempt()
            self._is_alive = self.exit_record is None and self.run.is_alive(self.story)
            self._clock_moved = self.run.clock_moved()
        if self.exit_record is None:
            self.exit_record = self.run.exit_record()
        if self.exit_record is not None:
            self.attempt = max(self.attempt, self.exit_record.attempt)
            self._is_alive = False

    def _look_for_attempt(self) -> None:
        """Find out whether the run is taken up again; what is known of its earlier end then counts no more."""
        attempt = self.run.attempt_kept()
        if attempt > self.attempt:
            self.attempt = attempt
            self.exit_record = None
