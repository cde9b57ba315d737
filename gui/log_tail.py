"""The end of a run's log as text, read as it grows."""

import re
from pathlib import Path

from core.files import open_plain

FIRST_BYTES = 256 << 10
"""Of a log that is longer when first read, only so much of its end is shown."""

BLOCK_BYTES = 256 << 10

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LogTail:
    """Reads whole lines; of a line that redraws itself (a progress bar) only what it showed last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset: int | None = None
        self._rest = b""

    def read(self) -> str:
        """The lines completed since the last call, newlines included; empty where there are none (yet)."""
        try:
            with open_plain(self._path) as file:
                if self._offset is None:
                    self._offset = self._skip_to_end(file.seek(0, 2))
                    file.seek(self._offset)
                    if self._offset:
                        file.readline()
                        self._offset = file.tell()
                file.seek(self._offset)
                block = file.read(BLOCK_BYTES)
        except OSError:  # it isn't there yet, or can't be read
            return ""
        self._offset += len(block)
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()[-BLOCK_BYTES:]
        return "".join(f"{_as_shown(line)}\n" for line in lines)

    def read_rest(self) -> str:
        """What stands after the last newline; for a log that nobody writes any more."""
        rest, self._rest = self._rest, b""
        return _as_shown(rest)

    @staticmethod
    def _skip_to_end(size: int) -> int:
        return max(0, size - FIRST_BYTES)


def _as_shown(line: bytes) -> str:
    text = _ESCAPES.sub("", line.decode(errors="replace")).rstrip("\r\n")
    return text.rpartition("\r")[2]
