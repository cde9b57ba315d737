"""Read, write and follow the event files of a run."""

import bisect
import contextlib
import heapq
import os
import time
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from core.base.errors import why
from core.base.files import open_plain
from core.runs.events import Event, decode, decode_all, encode
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import RunStatus, State

LARGEST_LINE = 16 << 20
"""Bytes; a longer line is no event."""

BLOCK_BYTES = 64 << 10
LIFE_SIGN_SECONDS = 0.5
"""How often a follower checks the run's processes."""

PIECE_BYTES = 1 << 20
"""How much of each file one poll reads."""

_TIME = attrgetter("time")


class EventReader:
    """Reads a growing file of events from its beginning.

    An incomplete last line is left for the next call. Lines that are no events, or of unknown type, are counted in
    `skipped`. A file that doesn't exist has no events; if it can't be opened, `trouble` says why. `is_at_end`:
    whether the last call reached the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.is_at_end = False
        self.trouble = ""
        self._offset = 0
        self._is_amid_line = False

    def start_at_end(self) -> None:
        """Skips all existing lines."""
        with contextlib.suppress(OSError):
            self._offset, _ = _end_of_lines(self.path)

    def read(self, limit: int = 1 << 20) -> list[Event]:
        """Returns the events completed since the last call, from at most about `limit` bytes."""
        try:
            with open_plain(self.path) as file:
                file.seek(self._offset)
                block = file.read(limit)
                if b"\n" not in block:
                    block += file.readline(LARGEST_LINE)
                self.is_at_end = not file.read(1)
            self.trouble = ""
        except OSError as error:
            self.is_at_end = True
            self.trouble = "" if isinstance(error, FileNotFoundError) else f"{self.path}: {why(error)}"
            return []
        complete = block[: block.rfind(b"\n") + 1]
        if not complete and len(block) > LARGEST_LINE:  # a part of a line that is too long to be an event
            self.skipped += not self._is_amid_line
            self._is_amid_line = True
            self._offset += len(block)
            return []
        self._offset += len(complete)
        if self._is_amid_line:  # what is left of it
            self._is_amid_line = not complete
            complete = complete[complete.find(b"\n") + 1 :]
        try:
            return decode_all(complete)
        except msgspec.MsgspecError:  # not all of them can be read
            return list(self._decoded_lines(complete))

    def read_all(self) -> list[Event]:
        found = self.read()
        while not self.is_at_end:
            before = self._offset
            found += self.read()
            if self._offset == before:
                break
        return found

    def _decoded_lines(self, block: bytes) -> Iterator[Event]:
        for line in block.splitlines():
            if line.strip():
                try:
                    event = decode(line)
                except msgspec.MsgspecError:
                    event = None
                if event is None:
                    self.skipped += 1
                else:
                    yield event


class EventWriter:
    """Appends events to a file; the only writer of that file.

    An incomplete last line of a process that died is moved to `NAME.torn`.
    """

    def __init__(self, path: Path, attempt: int = 1) -> None:
        self.attempt = attempt
        cut_torn_line(path)
        self._file: BinaryIO = path.open("ab", buffering=0)

    def write(self, *events: Event) -> None:
        """Appends events, stamped with this writer's attempt: all of the lines or nothing.

        Raises:
            OSError: They can't be written (the disk is full, the folder is gone).
        """
        lines = b"".join(encode(msgspec.structs.replace(event, attempt=self.attempt)) for event in events)
        begun = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(lines)
            while written < len(lines):  # an unbuffered file may take only a part
                written += self._file.write(lines[written:])
        except OSError:
            self._file.truncate(begun)
            raise

    def close(self) -> None:
        self._file.close()


def cut_torn_line(path: Path) -> None:
    """Moves what follows the last end of line to `NAME.torn`.

    Raises:
        OSError: It can't be read, or is no ordinary file.
    """
    if not path.exists():
        return
    kept, torn = _end_of_lines(path)
    if torn:
        with contextlib.suppress(OSError), path.with_name(path.name + ".torn").open("ab") as aside:
            aside.write(torn + b"\n")  # on a full disk they are lost, not the run
        os.truncate(path, kept)


def _end_of_lines(path: Path) -> tuple[int, bytes]:
    """Returns the offset of the end of the last complete line, and what follows it; searched from the end.

    Raises:
        OSError: It can't be read, or is no ordinary file.
    """
    with open_plain(path) as file:
        kept = file.seek(0, os.SEEK_END)
        torn = b""
        while kept and b"\n" not in torn:
            begin = max(0, kept - max(BLOCK_BYTES, len(torn)))
            file.seek(begin)
            torn, kept = file.read(kept - begin) + torn, begin
    whole = torn.rfind(b"\n") + 1
    return kept + whole, torn[whole:]


# --- Following a run


class _Stream:
    """One file of events, and those read from it that wait until the other file is read as far in time."""

    def __init__(self, path: Path) -> None:
        self.reader = EventReader(path)
        self.waiting: list[Event] = []

    def take(self, until: float | None) -> list[Event]:
        """Returns the events up to a time; None: all."""
        index = len(self.waiting) if until is None else bisect.bisect_right(self.waiting, until, key=_TIME)
        taken, self.waiting = self.waiting[:index], self.waiting[index:]
        return taken


class RunFollower:
    """Reads a run's two files of events as they grow. Cheap enough to be polled ten times a second.

    `status` is the sum of all events so far and `state` the state at the last poll. A long file is read in parts, one a
    poll, and the run isn't over before all of it is read. Of two long files, neither is applied further in time than
    the other one is read.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.status = RunStatus()
        self.state: State
        self.exit_record: ExitRecord | None = None
        self.attempt = 0
        self.is_caught_up = False
        self._streams = (_Stream(run.events_file), _Stream(run.machine_file))
        self._is_alive = True
        self._next_look = 0.0

    def poll(self, piece: int = PIECE_BYTES) -> list[Event]:
        """Returns the events written since the last poll, in the order of time; refreshes `status` and `state`.

        So many bytes of each file are read at most, and a whole line at least.
        """
        self._check_processes()  # before reading: what a process wrote is there once it is seen to be gone
        had_waiting = any(stream.waiting for stream in self._streams)
        events = self._read(piece)
        if had_waiting and not any(stream.waiting for stream in self._streams):
            events += self._read(piece)  # the file whose events waited wasn't read yet
        readers = [stream.reader for stream in self._streams]
        self.status.apply_all(events)
        self.status.skipped = sum(reader.skipped for reader in readers)
        self.status.trouble = next(filter(None, (reader.trouble for reader in readers)), "")
        self.is_caught_up = all(one.reader.is_at_end and not one.waiting for one in self._streams)
        self.state = self.status.state(
            engine_ended=self.exit_record is not None and self.is_caught_up,
            keeper_alive=self._is_alive or not self.is_caught_up,
            requested=self.run.requested() if self._is_alive else (),
            attempt=self.attempt,
        )
        return events

    def _read(self, piece: int) -> list[Event]:
        for stream in self._streams:
            if not stream.waiting:
                stream.waiting = stream.reader.read(piece)
        behind = [stream for stream in self._streams if not stream.reader.is_at_end]
        if not all(stream.waiting for stream in behind):
            return []  # a piece in which no line could be read: how far in time it goes isn't known
        slowest = min(behind, key=lambda stream: stream.waiting[-1].time, default=None)
        until = slowest.waiting[-1].time if slowest is not None else None
        taken = [stream.take(None if stream is slowest else until) for stream in self._streams]
        return list(heapq.merge(*taken, key=_TIME)) if all(taken) else [*taken[0], *taken[1]]

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and nothing more will be written."""
        return not self._is_alive and self.state.is_over

    def look_again(self) -> None:
        """Checks the run's processes again at the next poll, even if it was over."""
        self._is_alive, self._next_look, self.exit_record = True, 0.0, None

    def _check_processes(self) -> None:
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LIFE_SIGN_SECONDS
            attempt = self.run.attempt_kept()
            if attempt > self.attempt:  # it was resumed: the record of its earlier end counts no more
                self.attempt, self.exit_record = attempt, None
            self._is_alive = self.exit_record is None and self.run.is_alive()
            self.status.clock_moved = self.run.clock_moved()
        if self.exit_record is None:
            self.exit_record = self.run.exit_record()
        if self.exit_record is not None:
            self.attempt = max(self.attempt, self.exit_record.attempt)
            self._is_alive = False
