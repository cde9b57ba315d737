"""The results of image checks, kept: no file is opened again that hasn't changed, whatever else has."""

import contextlib
import hashlib
from pathlib import Path

import msgspec

from core.base import settings
from core.base.files import write_atomically
from core.engine.data import image_files
from core.engine.data.image_files import CheckedImage

MOST_SOURCES = 10
"""The results for so many sources are kept, the newest."""


class _Known(msgspec.Struct, frozen=True, array_like=True):
    """The result for a file of this size and time of change (in nanoseconds)."""

    size: int
    changed: int
    checked: CheckedImage


class KnownChecks:
    """The results for the files of `source`."""

    def __init__(self, source: str) -> None:
        name = hashlib.blake2b(f"{settings.VERSION}\n{source}".encode(), digest_size=16).hexdigest()
        self._file = settings.home() / "checked-images" / name
        self._before: dict[str, _Known] = {}
        self._now: dict[str, _Known] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self._before = msgspec.msgpack.decode(self._file.read_bytes(), type=dict[str, _Known])

    def check(self, image: Path | bytes) -> CheckedImage:
        """Checks an image, unless that is known. A problem is looked at again: its cause may be elsewhere."""
        if isinstance(image, bytes):
            return image_files.check_image(image)
        known, stamp = self._before.get(str(image)), _stamp(image)
        if known is None or (known.size, known.changed) != stamp:
            known = _Known(*stamp, image_files.check_image(image))
        if known.checked.is_usable:
            self._now[str(image)] = known
        return known.checked

    def save(self) -> None:
        """Writes what is known now; where that fails, the next check takes longer."""
        if self._now == self._before:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, msgspec.msgpack.encode(self._now))
            files = sorted(self._file.parent.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
            for file in files[MOST_SOURCES:]:
                file.unlink()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError:
        return -1, 0
    return stat.st_size, stat.st_mtime_ns
