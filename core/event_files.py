"""Files of events: read as they grow, written a whole line at a time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from core.events import AnyEvent, Event, decode, decode_all, encode, is_retired
from core.files import open_plain

LARGEST_LINE = 16 << 20
"""A line of more bytes is no event: what has no end of line at all would fill the memory."""

TORN_BLOCK = 1 << 16
"""So much is read at once to find where the last whole line ends."""


class EventReader:
    """Reads a file of events from its beginning, again and again as it grows.

    A torn last line is left for the next call. Lines of unknown type, and lines that are no events, are counted in
    `skipped`; neither ends the reading. A file that doesn't exist yet has no events, nor has what can't be opened:
    `trouble` then says why. `is_at_end` tells whether the last call read all there was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.is_at_end = False
        self.trouble = ""
        self._offset = 0
        self._is_amid_line = False

    def start_at_end(self) -> None:
        """Leave out all the lines that there are by now; nothing happens where they can't be read."""
        with contextlib.suppress(OSError):
            self._offset, _ = _end_of_lines(self.path)

    def read(self, limit: int = 1 << 20) -> list[AnyEvent]:
        """The events completed since the last call, from at most about `limit` bytes."""
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
            self.trouble = "" if isinstance(error, FileNotFoundError) else f"{self.path}: {error.strerror}"
            return []
        complete = block[: block.rfind(b"\n") + 1]
        if not complete and len(block) > LARGEST_LINE:
            return self._pass_over(block)
        self._offset += len(complete)
        if self._is_amid_line:  # what is left of it
            self._is_amid_line = not complete
            complete = complete[complete.find(b"\n") + 1 :]
        return self._decoded(complete)

    def _pass_over(self, block: bytes) -> list[AnyEvent]:
        """Leave out a part of a line that is too long to be an event."""
        self.skipped += not self._is_amid_line
        self._is_amid_line = True
        self._offset += len(block)
        return []

    def read_all(self) -> list[AnyEvent]:
        """Everything up to the end of the file."""
        found: list[AnyEvent] = []
        while True:
            before = self._offset
            found += self.read()
            if self._offset == before:
                return found

    def _decoded(self, block: bytes) -> list[AnyEvent]:
        try:
            return decode_all(block)
        except msgspec.MsgspecError:
            return list(self._decoded_lines(block))

    def _decoded_lines(self, block: bytes) -> Iterator[AnyEvent]:
        """One line after the other, because not all of them can be read."""
        for line in block.splitlines():
            if not line.strip():
                continue
            try:
                event = decode(line)
                is_known = event is not None or is_retired(line)
            except msgspec.MsgspecError:
                event, is_known = None, False
            self.skipped += not is_known
            if event is not None:
                yield event


class EventWriter:
    """Appends events to a file; the only writer of that file.

    A torn last line left by a process that died is cut off, and its bytes kept beside in `NAME.torn`.
    """

    def __init__(self, path: Path, attempt: int = 1) -> None:
        self.attempt = attempt
        _cut_torn_line(path)
        self._file: BinaryIO = path.open("ab", buffering=0)

    def write(self, *events: Event) -> None:
        """Append events, stamped with this writer's attempt: all of the lines or nothing.

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
        """Close the file."""
        self._file.close()


def _cut_torn_line(path: Path) -> None:
    """Move what stands after the last end of line aside.

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
    """Where the last whole line ends, and what stands behind it; found from the end, for the file may be long.

    Raises:
        OSError: It can't be read, or is no ordinary file.
    """
    with open_plain(path) as file:
        kept = file.seek(0, os.SEEK_END)
        torn = b""
        while kept and b"\n" not in torn:
            begin = max(0, kept - max(TORN_BLOCK, len(torn)))
            file.seek(begin)
            torn, kept = file.read(kept - begin) + torn, begin
    whole = torn.rfind(b"\n") + 1
    return kept + whole, torn[whole:]
