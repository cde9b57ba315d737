"""Files of events: read as they grow, written a whole line at a time."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from core.events import AnyEvent, Event, decode, decode_all, encode, is_retired


class EventReader:
    """Reads a file of events from its beginning, again and again as it grows.

    A torn last line is left for the next call. Lines of unknown type, and lines that are no events, are counted in
    `skipped`; neither ends the reading. A file that doesn't exist yet has no events. `is_at_end` tells whether the
    last call read all there was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.is_at_end = False
        self._offset = 0

    def read(self, limit: int = 1 << 20) -> list[AnyEvent]:
        """The events completed since the last call, from at most about `limit` bytes."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                block = file.read(limit)
                if b"\n" not in block:
                    block += file.readline()
                self.is_at_end = not file.read(1)
        except FileNotFoundError:
            self.is_at_end = True
            return []
        complete = block[: block.rfind(b"\n") + 1]
        self._offset += len(complete)
        return self._decoded(complete)

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
    if not path.exists():
        return
    content = path.read_bytes()
    kept = content.rfind(b"\n") + 1
    if kept < len(content):
        with path.with_name(path.name + ".torn").open("ab") as aside:
            aside.write(content[kept:] + b"\n")
        with path.open("r+b") as file:
            file.truncate(kept)
