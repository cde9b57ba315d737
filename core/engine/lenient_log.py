"""The log of a run on a disk that may be full: what can't be printed is left out, and training doesn't end over it."""

import contextlib
import sys
from typing import Any, TextIO


class LenientStream:
    """A text stream whose failures to write go unheard; all else is the stream's own.

    Libraries print where they like. And Python itself would end with a status of its own, 120, where it can't flush
    what is left over, so that nobody could tell how the run really ended.

    Args:
        stream: What is written to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if that can be done; returns the characters taken."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Leave nothing unwritten, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_leniently() -> None:
    """Let what is printed from now on be left out where it can't be written."""
    sys.stderr = LenientStream(sys.stderr)
