"""Opening one image, from a file or from bytes, without letting it take the computer's memory."""

import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image, UnidentifiedImageError

from core.task_guess import IMAGE_FORMATS

Encoded = Path | bytes
"""An image as it is stored: a file, or the bytes of one."""

FORMATS = tuple(dict.fromkeys(IMAGE_FORMATS.values()))

MOST_PIXELS = 89_478_485
"""Beyond it nothing is decoded: Pillow's own limit (`Image.MAX_IMAGE_PIXELS`), 358 MB of memory in RGB.

A file of a few KB can claim any size; so can one that is meant to bring a computer down.
"""

READERS = 4
"""Threads that look at images; waiting for the disk, not the processor, takes the time."""
AHEAD = 64
"""Images read ahead of what is asked for."""

Found = TypeVar("Found")

UNREADABLE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error),
    *(Image.DecompressionBombError, Image.DecompressionBombWarning),
)
"""What Pillow raises for files that are damaged or no images; UnidentifiedImageError is an OSError."""


class TooLarge(ValueError):  # noqa: N818 - nothing is wrong with the file
    """An image has more pixels than are decoded; its text says so."""


@contextmanager
def opened(image: Encoded) -> Iterator[Any]:
    """A PIL image, its header read and nothing decoded.

    Raises:
        TooLarge: It has more than `MOST_PIXELS`.
        OSError: It can't be read, or is no image; damaged ones raise any of `UNREADABLE`, maybe only when decoded.
    """
    with Image.open(image if isinstance(image, Path) else BytesIO(image), formats=FORMATS) as found:
        width, height = found.size
        if width * height > MOST_PIXELS:
            raise TooLarge(
                f"{width:,} x {height:,} pixels; at most {MOST_PIXELS // 10**6} million are decoded"
            )
        yield found


def looked_at(images: Iterable[Encoded], look: Callable[[Encoded], Found]) -> Iterator[Found]:
    """What `look` finds for each image, in their order, by a few threads that hold a few images at a time."""
    with ThreadPoolExecutor(READERS) as pool:
        waiting: deque[Future[Found]] = deque()
        for image in images:
            waiting.append(pool.submit(look, image))
            if len(waiting) >= AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def explained(image: Encoded, error: Exception) -> str:
    """What an error of Pillow's, one of `UNREADABLE`, says about an image."""
    if isinstance(image, Path) and isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(image, Path) and isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnidentifiedImageError):
        return "not an image, whatever its ending says"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"too many pixels; at most {MOST_PIXELS // 10**6} million are decoded"
    return str(error) or type(error).__name__


def size_of(image: Encoded) -> int:
    """Bytes it is stored in; 0 where it can't be found."""
    if isinstance(image, bytes):
        return len(image)
    try:
        return image.stat().st_size
    except OSError:
        return 0
