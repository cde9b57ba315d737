"""One look at one stored image: whether it can be used, what a person may not expect of it, and what it is alike to."""

import hashlib
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from core.base.errors import DataError, Fix
from core.options.presets import IMAGE_FORMATS
from core.services.inspect import Column

# --- Opening one image, from a file or from bytes


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


# --- From an image as it lies on disk to the numbers a vision model takes


Colours = tuple[float, float, float]
"""Red, green and blue."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Red, green and blue of ImageNet's training images, 0 to 1: what torchvision's pretrained weights expect."""

LARGE_PIXELS = 16 * 2**20
"""Beyond it a JPEG is decoded at a half, a quarter or an eighth of its size: less memory, less time."""


@dataclass(frozen=True)
class ImageTransform:
    """Resizes to a square, makes three channels and normalises. `size` is in pixels."""

    size: int
    mean: Colours = IMAGENET_MEAN
    std: Colours = IMAGENET_STD

    def from_pil(self, image: Any) -> torch.Tensor:
        """A PIL image, turned upright as its EXIF says, as floats [3, size, size]."""
        from PIL import Image, ImageOps

        decode_small(image, 2 * self.size)
        ImageOps.exif_transpose(image, in_place=True)  # a copy would double what a large image takes
        upright = as_rgb(image)
        if upright.size != (self.size, self.size):
            upright = upright.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(upright, dtype=np.uint8))
        return self.normalise(pixels.permute(2, 0, 1))

    def from_pixels(self, pixels: torch.Tensor) -> torch.Tensor:
        """Bytes [1 or 3, height, width] as floats [3, size, size]."""
        return self.normalise(resize(pixels[None], self.size)[0])

    def normalise(self, pixels: torch.Tensor) -> torch.Tensor:
        """Bytes [1 or 3, height, width] as floats [3, height, width] of about zero mean and unit deviation.

        The steps are those of torchvision's ToTensor and Normalize, in their order. NumPy takes them on one thread:
        torch would spread each over all cores and wait for them, while those are busy training.
        """
        scaled = pixels.numpy().astype(np.float32, order="C")
        scaled /= 255
        values = scaled - np.array(self.mean, np.float32)[:, None, None]
        values /= np.array(self.std, np.float32)[:, None, None]
        return torch.from_numpy(values)

    def shown(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """What the model sees as bytes [3, height, width] again, for a person to look at."""
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (pixel_values * std + mean).mul(255).round().clamp(0, 255).to(torch.uint8)


def decode_small(image: Any, side: int) -> None:
    """Have a large JPEG decoded with fewer pixels, `side` or more each way; others come as they are."""
    width, height = image.size
    if image.format == "JPEG" and width * height > LARGE_PIXELS:
        image.draft(None, (side, side))


def resize(pixels: torch.Tensor, size: int) -> torch.Tensor:
    """Resize bytes [samples, channels, height, width] to `size` x `size`, bilinear, antialiased as PIL does it."""
    if pixels.shape[-2:] == (size, size):
        return pixels
    return torch.nn.functional.interpolate(
        pixels, (size, size), mode="bilinear", antialias=True, align_corners=False
    )


def as_rgb(image: Any) -> Any:
    """Three channels of a byte each; PIL's own conversion clips 16-bit greyscale instead of scaling it.

    Transparency is left out, as torchvision and transformers do: the colours beneath it are seen.
    """
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode.startswith("I"):
        from PIL import Image

        values = np.asarray(image).astype(np.float64) / 257  # 65,535 / 255
        image = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    return image.convert("RGB")


# --- One look at one stored image: whether it can be used, what a person may not expect of it


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


# --- Images with their classes, before and after they become data sets


RESIZED_AT_ONCE_BYTES = 256 * 2**20


class ImageSet(Protocol):
    """A map-style data set of `{"pixel_values": float32 [3, size, size], "labels": int}`; can be pickled."""

    @property
    def labels(self) -> Sequence[int]:
        """The class index of each image."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> dict[str, Any]: ...


class LabelledImages(Protocol):
    """Images found somewhere, not yet decoded or resized."""

    @property
    def names(self) -> Sequence[str]:
        """The class of each image."""
        ...

    def where(self, index: int) -> str:
        """Where an image stands, for a person."""
        ...

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set of the chosen images, with the class index of each."""
        ...


@runtime_checkable
class EncodedImages(LabelledImages, Protocol):
    """Images stored as files are, each to be decoded when it is asked for."""

    def encoded(self, index: int) -> Encoded:
        """One of them, to be decoded at any time and in any order; can be sent to workers."""
        ...

    def each(self) -> Iterator[Encoded]:
        """All of them in their order, without holding more than a few."""
        ...


@dataclass(frozen=True)
class FoundImages:
    """What a source holds: images to train on, and held-out ones where it brings its own.

    `columns` describes a table's columns, `image_column` and `label_column` are those that are used; `preview` are its
    first rows as text, `preview_rows` their numbers in the file. `splits` are the parts there are to choose from.
    """

    train: LabelledImages
    format: str
    eval: LabelledImages | None = None
    eval_name: str = ""
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    image_column: str | None = None
    label_column: str | None = None
    preview: tuple[tuple[str, ...], ...] = ()
    preview_rows: tuple[int, ...] = ()
    splits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rows:
    """Which row of a table each image is from. `numbers` are those of the file, `word` is what it calls a row."""

    table: str
    numbers: Sequence[int]
    word: str = "row"

    def where(self, index: int) -> str:
        """Where an image stands, such as "row 17 of labels.csv"."""
        return f"{self.word} {self.numbers[index]:,} of {self.table}"


@dataclass(frozen=True)
class ImageFiles:
    """Images in files, each decoded when it is asked for; `rows`: where a table names them."""

    paths: Sequence[Path]
    names: Sequence[str]
    rows: Rows | None = None

    def where(self, index: int) -> str:
        """The file's path, and the row that names it."""
        return f"{self.rows.where(index)}: {self.paths[index]}" if self.rows else str(self.paths[index])

    def encoded(self, index: int) -> Encoded:
        """The file's path."""
        return self.paths[index]

    def each(self) -> Iterator[Encoded]:
        """All paths."""
        return iter(self.paths)

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set that opens its files one by one."""
        rows = None
        if self.rows:
            rows = Rows(self.rows.table, [self.rows.numbers[index] for index in chosen], self.rows.word)
        kept = ImageFiles([self.paths[i] for i in chosen], [self.names[i] for i in chosen], rows)
        return EncodedImageSet(kept, labels, transform)


@dataclass(frozen=True)
class ImagePixels:
    """Images in memory: bytes [images, 1 or 3, height, width], shown again from the start if there are more names.

    `source` is what they are called.
    """

    pixels: torch.Tensor = field(repr=False)
    names: Sequence[str]
    source: str

    def where(self, index: int) -> str:
        """The image's number, counted from 1."""
        return f"image {index + 1:,} of {self.source}"

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set in memory, resized once where that takes little room."""
        used, rows = (torch.as_tensor(chosen) % len(self.pixels)).unique(return_inverse=True)
        pixels = self.pixels[used]
        if len(pixels) * pixels.shape[1] * transform.size**2 <= RESIZED_AT_ONCE_BYTES:
            pixels = resize(pixels, transform.size)
        return PixelImageSet(pixels, rows.tolist(), labels, transform)


@dataclass(frozen=True)
class EncodedImageSet:
    """Images decoded as they are needed: the sample of each is the image of the same place in `images`."""

    images: EncodedImages
    labels: list[int]
    transform: ImageTransform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        encoded = self.images.encoded(index)
        try:
            with opened(encoded) as image:
                pixel_values = self.transform.from_pil(image)
        except UNREADABLE as error:
            raise damaged_image(self.images.where(index), explained(encoded, error)) from error
        return {"pixel_values": pixel_values, "labels": self.labels[index]}


@dataclass(frozen=True)
class PixelImageSet:
    """Images in memory: bytes [images, 1 or 3, height, width], and which of them each sample is."""

    pixels: torch.Tensor = field(repr=False)
    rows: list[int]
    labels: list[int]
    transform: ImageTransform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        pixels = self.pixels[self.rows[index]]
        return {"pixel_values": self.transform.from_pixels(pixels), "labels": self.labels[index]}


def damaged_image(where: str, reason: str) -> DataError:
    """The error for one image that turned out unreadable during training; `where` is a path or a row."""
    return DataError(
        f"{Path(where).name} can't be read as an image",
        f"{where}: {reason}",
        (Fix("Remove or replace this image and start again"),),
    )


# --- Images that can't be opened, found before a run begins


SHOWN_REASONS = 5


def refuse_damaged(images: EncodedImages) -> None:
    """Look at every image.

    Raises:
        DataError: Some can't be read as images; the first are listed.
    """
    looks = enumerate(looked_at(images.each(), look))
    damaged = [(images.where(index), found.reason) for index, found in looks if found.fault]
    if not damaged:
        return
    count = "1 image can't" if len(damaged) == 1 else f"{len(damaged):,} images can't"
    lines = [f"{where}: {reason}" for where, reason in damaged[:SHOWN_REASONS]]
    if len(damaged) > SHOWN_REASONS:
        lines.append(f"... and {len(damaged) - SHOWN_REASONS:,} more")
    raise DataError(
        f"{count} be read: {Path(damaged[0][0]).name}" + (", ..." if len(damaged) > 1 else ""),
        "\n".join(lines),
        (Fix("Remove or replace these images and start again"),),
    )
