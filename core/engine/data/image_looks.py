"""One look at one stored image: whether it can be used, what a person may not expect of it, and what it is alike to."""

import hashlib
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from core.engine.data.image_opening import (
    UNREADABLE,
    Encoded,
    TooLarge,
    explained,
    opened,
    size_of,
)

ENDS_BYTES = 4096
"""So many bytes at the beginning and at the end tell most images apart."""
JPEG_END = b"\xff\xd9"


class Fault(Enum):
    """Why an image can't be used."""

    MISSING = auto()
    EMPTY = auto()
    NO_IMAGE = auto()
    TOO_LARGE = auto()
    DAMAGED = auto()


class Trait(Enum):
    """What an image has that the model won't see."""

    ANIMATED = auto()
    TRANSPARENT = auto()


@dataclass(frozen=True)
class Look:
    """What one look has found. `ends` is a number that equal images share, and few others."""

    fault: Fault | None = None
    reason: str = ""
    traits: tuple[Trait, ...] = ()
    ends: int = 0


def look(image: Encoded) -> Look:
    """Look at one image.

    It is decoded unless its format tells otherwise whether it is whole: PNG has checksums, JPEG a mark at its end.
    """
    if size_of(image) == 0:
        return _absent(image)
    try:
        ends = _ends(image)
        with opened(image) as found:
            kind, traits = found.format, _traits(found)
            if kind == "PNG":
                found.verify()
        if kind != "PNG" and not (kind == "JPEG" and JPEG_END in _tail(image)):
            with opened(image) as found:
                found.load()
    except UNREADABLE as error:
        return Look(_fault(error), explained(image, error))
    return Look(traits=traits, ends=ends)


def digest(image: Encoded) -> bytes:
    """What two images share only if they are the same, byte by byte; empty for one that can't be read."""
    try:
        content = image if isinstance(image, bytes) else image.read_bytes()
    except OSError:
        return b""
    return hashlib.blake2b(content, digest_size=16).digest()


def _absent(image: Encoded) -> Look:
    if isinstance(image, bytes):
        return Look(Fault.EMPTY, "there is no image")
    try:
        image.stat()
    except FileNotFoundError:
        return Look(Fault.MISSING, "there is no such file")
    except OSError as error:
        return Look(Fault.DAMAGED, error.strerror or str(error))
    return Look(Fault.EMPTY, "the file is empty")


def _fault(error: Exception) -> Fault:
    if isinstance(error, UnidentifiedImageError):
        return Fault.NO_IMAGE
    bombs = (TooLarge, Image.DecompressionBombError, Image.DecompressionBombWarning)
    return Fault.TOO_LARGE if isinstance(error, bombs) else Fault.DAMAGED


def _traits(image: Any) -> tuple[Trait, ...]:
    animated = (Trait.ANIMATED,) if getattr(image, "n_frames", 1) > 1 else ()
    has_alpha = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    return (*animated, Trait.TRANSPARENT) if has_alpha else animated


def _ends(image: Encoded) -> int:
    if isinstance(image, Path):
        with image.open("rb") as file:
            start = file.read(ENDS_BYTES)
        content = start + _tail(image)
    else:
        content = image[:ENDS_BYTES] + _tail(image)
    size = size_of(image).to_bytes(8, "big")
    return int.from_bytes(hashlib.blake2b(size + content, digest_size=8).digest(), "big")


def _tail(image: Encoded) -> bytes:
    if isinstance(image, bytes):
        return image[-ENDS_BYTES:]
    with image.open("rb") as file:
        file.seek(max(0, size_of(image) - ENDS_BYTES))
        return file.read()
