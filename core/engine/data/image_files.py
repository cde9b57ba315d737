"""Labelled images: how one is opened and checked, what a model sees of it, and a set of them, decoded one by one."""

import hashlib
import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError

from core.base.errors import DataError, Fix
from core.base.language import _
from core.options.presets import IMAGE_FORMATS
from core.services.inspect import FindingKind, FindingLevel

Encoded = Path | bytes | np.ndarray[Any, np.dtype[np.uint8]]
"""An image as it is stored: a file, the bytes of one, or pixels [1 or 3, height, width]."""

FORMATS = tuple(dict.fromkeys(IMAGE_FORMATS.values()))

MAX_PIXELS = 89_478_485
"""Beyond it nothing is decoded: Pillow's own limit (`Image.MAX_IMAGE_PIXELS`), 358 MB of memory in RGB.

A file of a few KB can claim any size; so can one that is meant to bring a computer down.
"""

UNREADABLE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error),
    *(Image.DecompressionBombError, Image.DecompressionBombWarning),
)
"""What Pillow raises for files that are damaged or no images; UnidentifiedImageError is an OSError."""


class TooLarge(ValueError):  # noqa: N818 - nothing is wrong with the file
    """An image has more than `MAX_PIXELS`; its text says so."""


@contextmanager
def opened(image: Encoded | BinaryIO) -> Iterator[Any]:
    """A PIL image, its header read and nothing decoded.

    Raises:
        TooLarge: It has more than `MAX_PIXELS`.
        OSError: It can't be read, or is no image; damaged ones raise any of `UNREADABLE`, maybe only when decoded.
    """
    if isinstance(image, np.ndarray):
        yield Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
        return
    with Image.open(BytesIO(image) if isinstance(image, bytes) else image, formats=FORMATS) as found:
        width, height = found.size
        if width * height > MAX_PIXELS:
            raise TooLarge(
                f"{width:,} x {height:,} pixels; at most {MAX_PIXELS // 10**6} million are decoded"
            )
        yield found


def explained(error: Exception) -> str:
    """What an error of Pillow's, one of `UNREADABLE`, says about an image."""
    if isinstance(error, FileNotFoundError):
        return _("there is no such file")
    if isinstance(error, UnidentifiedImageError):
        return _("not an image, whatever its ending says")
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"too many pixels; at most {MAX_PIXELS // 10**6} million are decoded"
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__


# --- From an image as it is stored to the numbers a vision model takes


Colours = tuple[float, float, float]
"""Red, green and blue."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Red, green and blue of ImageNet's training images, 0 to 1: what torchvision's pretrained weights expect."""

LARGE_PIXELS = 16 * 2**20
"""Beyond it a JPEG is decoded at a half, a quarter or an eighth of its size: less memory, less time."""

PREVIEW_SIDE = 256
"""Pixels of a preview, at most, either way."""


@dataclass(frozen=True)
class ImageTransform:
    """Resizes to a square, makes three channels and normalises. `size` is in pixels."""

    size: int
    mean: Colours = IMAGENET_MEAN
    std: Colours = IMAGENET_STD

    def __call__(self, image: Encoded) -> torch.Tensor:
        """A stored image as floats [3, size, size].

        Raises:
            OSError: It can't be read, or any other of `UNREADABLE`.
        """
        if isinstance(image, np.ndarray) and image.shape[1:] == (self.size, self.size):
            return self.normalise(image)
        with opened(image) as found:
            return self.from_pil(found)

    def from_pil(self, image: Any) -> torch.Tensor:
        """A PIL image, turned upright as its EXIF says, as floats [3, size, size]."""
        decode_small(image, 2 * self.size)
        ImageOps.exif_transpose(image, in_place=True)  # a copy would double what a large image takes
        upright = image if image.mode == "L" else as_rgb(image)
        if upright.size != (self.size, self.size):
            upright = upright.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = np.asarray(upright)
        return self.normalise(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))

    def normalise(self, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> torch.Tensor:
        """Bytes [1 or 3, height, width] as floats [3, height, width] of about zero mean and unit deviation.

        The steps are those of torchvision's ToTensor and Normalize, in their order. NumPy takes them on one thread:
        torch would spread each over all cores and wait for them, while those are busy training.
        """
        scaled: Any = pixels.astype(np.float32, order="C")
        scaled /= 255
        values = scaled - np.array(self.mean, np.float32)[:, None, None]
        values /= np.array(self.std, np.float32)[:, None, None]
        return torch.from_numpy(values)

    def png(self, pixel_values: torch.Tensor) -> bytes:
        """A PNG file of what the model sees: floats [3, size, size], normalised by this transform."""
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        pixels = (pixel_values * std + mean).mul(255).round().clamp(0, 255).to(torch.uint8)
        return _png(Image.fromarray(pixels.permute(1, 2, 0).numpy()))

    def preview(self, image: Encoded) -> tuple[bytes, bytes]:
        """PNG files of what the model sees and of the original, both at most 256 pixels wide and high.

        Raises:
            OSError: It can't be read, or any other of `UNREADABLE`.
        """
        with opened(image) as found:
            decode_small(found, 2 * max(PREVIEW_SIDE, self.size))
            seen = self.png(self.from_pil(found))
            return seen, _png(found.convert("RGBA") if _has_alpha(found) else as_rgb(found))


def decode_small(image: Any, side: int) -> None:
    """Have a large JPEG decoded with fewer pixels, `side` or more each way; others come as they are."""
    width, height = image.size
    if image.format == "JPEG" and width * height > LARGE_PIXELS:
        image.draft(None, (side, side))


def as_rgb(image: Any) -> Any:
    """Three channels of a byte each; PIL's own conversion clips 16-bit greyscale instead of scaling it.

    Transparency is left out, as torchvision and transformers do: the colours beneath it are seen.
    """
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.float64) / 257  # 65,535 / 255
        image = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    return image.convert("RGB")


def _has_alpha(image: Any) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info


def _png(image: Any) -> bytes:
    image.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    written = BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


# --- Labelled images, and the data set made of some of them


class ImageColumn(Sequence[Encoded]):
    """The images a table holds: bytes, or the Hub's pairs of bytes and path. Workers open the table anew.

    Args:
        files: The table's files.
        name: The column.
        rows: The places of those rows that count.
    """

    def __init__(self, files: Sequence[Path], name: str, rows: Sequence[int]) -> None:
        self.files, self.name, self.rows = tuple(files), name, rows

    @cached_property
    def _column(self) -> Any:
        from core.engine.data.tables import read_files

        return read_files(self.files).rows[self.name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_column"}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        """One image; empty bytes where a row has neither bytes nor a path."""
        value = self._column[int(self.rows[index])].as_py()
        if isinstance(value, dict):
            path = value.get("path")
            value = value.get("bytes") or (self.files[0].parent / path if path else b"")
        return value or b""


@dataclass(frozen=True)
class Images:
    """Images with the label of each, decoded when they are needed; can be pickled.

    `stored` begins anew where it is shorter than `names`. `rows` are their numbers in the table called `source`, which
    calls them `row_word`; None where no table names them.
    """

    names: Sequence[str]
    stored: Sequence[Encoded] | np.ndarray[Any, np.dtype[np.uint8]] = field(repr=False)
    source: str = ""
    rows: Sequence[int] | None = None
    row_word: str = "image"

    def __len__(self) -> int:
        return len(self.names)

    def encoded(self, index: int) -> Encoded:
        """One of them, as it is stored."""
        return self.stored[index % len(self.stored)]

    def where(self, index: int) -> str:
        """Where an image stands: its row, its path, or both."""
        row = (
            ""
            if self.rows is None
            else _("{row_word} {rows:,} of {source}").format(
                row_word=self.row_word, rows=self.rows[index], source=self.source
            )
        )
        if not isinstance(self.stored, list):
            return row or _("image {index:,} of {source}").format(index=index + 1, source=self.source)
        return f"{row}: {self.stored[index]}" if row else str(self.stored[index])

    def number(self, index: int) -> int:
        """Its row in the table, else its place, counted from 1."""
        return index + 1 if self.rows is None else int(self.rows[index])


@dataclass(frozen=True)
class ImageSet:
    """A map-style data set of `{"pixel_values": float32 [3, size, size], "labels": int}`.

    `chosen` says which images it has, `labels` the class index of each.
    """

    images: Images
    chosen: Sequence[int]
    labels: Sequence[int]
    transform: ImageTransform

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """A sample.

        Raises:
            DataError: The image can't be read (any more).
        """
        place = self.chosen[index]
        try:
            pixel_values = self.transform(self.images.encoded(place))
        except UNREADABLE as error:
            where = self.images.where(place)
            raise DataError(
                _("{name} can't be read as an image").format(name=Path(where).name),
                f"{where}: {explained(error)}",
                (Fix(_("Remove or replace this image and start again")),),
            ) from error
        return {"pixel_values": pixel_values, "labels": self.labels[index]}


# --- Whether each image can be used, and what a person may not expect of it


READERS = 4
"""Threads that check images; waiting for the disk, not the processor, takes the time."""
AHEAD = 64
"""Images read ahead of what is asked for."""
ENDS_BYTES = 4096
"""So many bytes at the beginning and at the end tell most images apart."""
JPEG_END = b"\xff\xd9"

_PROBLEM, _WARNING, _REPLACE = FindingLevel.PROBLEM, FindingLevel.WARNING, _("Remove or replace these images")
MISSING = FindingKind("image-missing", _PROBLEM, _("{rows} {are} not there"), _("Correct the paths"))
EMPTY = FindingKind("image-empty", _PROBLEM, _("{rows} {have} no content (0 bytes)"), _REPLACE)
NOT_AN_IMAGE = FindingKind(
    "not-an-image", _PROBLEM, _("{rows} {are} of no format that can be read"), _REPLACE
)
TOO_LARGE = FindingKind(
    "image-too-large", _PROBLEM, _("{rows} {have} too many pixels to be decoded safely"), _("Shrink them")
)
DAMAGED = FindingKind("image-damaged", _PROBLEM, _("{rows} {are} damaged or cut short"), _REPLACE)
ANIMATED = FindingKind("image-animated", _WARNING, "{rows} {have} several frames; only the first is used")
TRANSPARENT = FindingKind(
    "image-transparent",
    _WARNING,
    _("{rows} {have} transparency, which is left out: the colours saved beneath it are seen"),
    "Look at the preview; where the background is wrong, save the images without transparency",
)


@dataclass(frozen=True)
class CheckedImage:
    """What was found about one image: one problem with its reason, or warnings.

    `ends` is a hash of its size, beginning and end: equal images share it, and few others.
    """

    findings: tuple[FindingKind, ...] = ()
    reason: str = ""
    ends: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether it can be trained on."""
        return all(found.level is FindingLevel.WARNING for found in self.findings)


def check_image(image: Path | bytes) -> CheckedImage:
    """Check one image.

    It is decoded unless its format tells otherwise whether it is whole: PNG has checksums, JPEG a mark at its end.
    """
    try:
        with BytesIO(image) if isinstance(image, bytes) else image.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                return CheckedImage(
                    (EMPTY,), _("there is no image") if image == b"" else _("the file is empty")
                )
            file.seek(max(0, size - ENDS_BYTES))
            tail = file.read()
            file.seek(0)
            ends = hashlib.blake2b(size.to_bytes(8, "big") + file.read(ENDS_BYTES) + tail, digest_size=8)
            with opened(file) as found:
                kind, is_animated = found.format, getattr(found, "n_frames", 1) > 1
                warnings = ((ANIMATED, is_animated), (TRANSPARENT, _has_alpha(found)))
                if kind == "PNG":
                    found.verify()
            if kind != "PNG" and not (kind == "JPEG" and JPEG_END in tail):
                with opened(file) as found:
                    found.load()
    except UNREADABLE as error:
        return CheckedImage((_problem(error),), explained(error))
    return CheckedImage(
        tuple(kind for kind, applies in warnings if applies), "", int.from_bytes(ends.digest(), "big")
    )


def _problem(error: Exception) -> FindingKind:
    match error:
        case FileNotFoundError():
            return MISSING
        case UnidentifiedImageError():
            return NOT_AN_IMAGE
        case TooLarge() | Image.DecompressionBombError() | Image.DecompressionBombWarning():
            return TOO_LARGE
        case _:
            return DAMAGED


def check_each(images: Images) -> Iterator[CheckedImage]:
    """Every image in order, checked by a few threads that hold a few images at a time; none of pixels in memory."""
    if isinstance(images.stored, np.ndarray):
        return
    with ThreadPoolExecutor(READERS) as pool:
        waiting: deque[Future[CheckedImage]] = deque()
        for index in range(len(images)):
            image = images.encoded(index)
            assert not isinstance(image, np.ndarray), "of pixels in memory all are"
            waiting.append(pool.submit(check_image, image))
            if len(waiting) >= AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def refuse_unreadable(images: Images) -> None:
    """Check every image before a run.

    Raises:
        DataError: Some can't be used; the first are named.
    """
    bad = [(index, found) for index, found in enumerate(check_each(images)) if not found.is_usable]
    if not bad:
        return
    count = _("1 image can't") if len(bad) == 1 else _("{bad:,} images can't").format(bad=len(bad))
    lines = [f"{images.where(index)}: {found.reason}" for index, found in bad[:5]]
    if len(bad) > len(lines):
        lines.append(_("... and {bad:,} more").format(bad=len(bad) - len(lines)))
    raise DataError(
        _("{count} be read: {name}").format(count=count, name=Path(images.where(bad[0][0])).name)
        + (", ..." if len(bad) > 1 else ""),
        "\n".join(lines),
        (Fix(_("Remove or replace these images and start again")),),
    )
