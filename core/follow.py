"""Following a run, live or long over: its new events, what they amount to, and where it stands."""

import heapq
import time
from operator import attrgetter

from core.event_files import EventReader
from core.events import Event
from core.run_folder import ExitRecord, RunFolder
from core.story import RunStory, State

LIFE_SIGN_SECONDS = 0.5
"""How often the process table is asked whether the run's processes live."""


class RunFollower:
    """Reads a run's two streams as they grow. Cheap enough to be polled ten times a second.

    `story` is the sum of all events so far and `state` where the run stood at the last poll. A long file is read in
    parts, one a poll, and the run isn't called over before all of it is read.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.story = RunStory()
        self.state = State.STARTING
        self.exit_record: ExitRecord | None = None
        self._streams = (EventReader(run.events_file), EventReader(run.machine_file))
        self._is_alive = True
        self._next_look = 0.0

    def poll(self) -> list[Event]:
        """The events written since the last poll, in the order of time; refreshes `story` and `state`."""
        self._look_for_life()  # before reading: what a process wrote is there once it is seen to be gone
        read = (stream.read() for stream in self._streams)
        events: list[Event] = list(heapq.merge(*read, key=attrgetter("time")))
        for event in events:
            self.story.apply(event)
        self.story.skipped = sum(stream.skipped for stream in self._streams)
        is_complete = all(stream.is_at_end for stream in self._streams)
        self.state = self.story.state(
            engine_ended=self.exit_record is not None and is_complete,
            keeper_alive=self._is_alive or not is_complete,
            stop_asked=self._is_alive and self.run.stop_is_asked(),
        )
        return events

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and nothing more will be written: stop polling."""
        return self.state.is_over and not self._is_alive

    def _look_for_life(self) -> None:
        if self.exit_record is None:
            self.exit_record = self.run.exit_record()
        if self.exit_record is not None:
            self._is_alive = False
        elif time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LIFE_SIGN_SECONDS
            self._is_alive = self.run.is_alive(self.story)
