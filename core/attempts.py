"""Attempts of a run: the first, and one more each time the run is resumed."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from core.event_files import LARGEST_LINE
from core.files import open_plain
from core.run_folder import RunFolder
from core.run_records import Attempt

BLOCK_BYTES = 64 << 10


class _Line(msgspec.Struct):
    """What every line of a file of events has."""

    attempt: Attempt


_DECODER = msgspec.json.Decoder(_Line)


def current_attempt(run: RunFolder) -> int:
    """The number of the attempt that is under way, for its keeper and its engine.

    Whoever starts a run writes it into `keeper.json`; a keeper or an engine that is started without that counts on.
    """
    return max(run.attempt_kept(), next_attempt(run.events_file))


def next_attempt(events_file: Path) -> int:
    """One more than the newest attempt that the file tells of; only its end is read."""
    for line in _lines_from_the_end(events_file):
        with contextlib.suppress(ValueError, RecursionError):
            return _DECODER.decode(line).attempt + 1
    return 1


def _lines_from_the_end(path: Path) -> Iterator[bytes]:
    """The complete lines of a file, the last one first; none where it can't be read."""
    try:
        with open_plain(path) as file:
            place = file.seek(0, os.SEEK_END)
            rest = b""
            while place:
                begin = max(0, place - BLOCK_BYTES)
                file.seek(begin)
                block = file.read(place - begin) + rest
                rest, *lines = block.split(b"\n")
                yield from reversed(lines)
                rest, place = rest if len(rest) <= LARGEST_LINE else b"", begin
            yield rest
    except OSError:
        return
