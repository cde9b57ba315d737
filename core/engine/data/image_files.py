"""Labelled images: opening and checking them, the transform of a model, and data sets that decode one by one."""

import hashlib
import math
import os
import re
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pi_heif
import torch
from PIL import Image, ImageOps, UnidentifiedImageError

from core.base import formats
from core.base.errors import DataError, Fix, why
from core.base.files import open_plain
from core.base.language import _, ngettext
from core.engine.data.alike import LEAST_SIDE, look_of
from core.engine.data.checks import noted, refuse_problems
from core.engine.data.findings import FindingKind, leave_out, left_out
from core.engine.environment import prepare_torchvision
from core.jobs.inspect import DataFinding, FindingLevel, Seen
from core.options.choices import Augmentation, ImageFit
from core.options.presets import IMAGE_FORMATS

pi_heif.register_heif_opener()  # which also turns a photo as its camera was held

Encoded = Path | bytes | np.ndarray[Any, np.dtype[np.uint8]]
"""A stored image: a file, its bytes, or pixels [1 or 3, height, width]."""

FORMATS = tuple(dict.fromkeys(IMAGE_FORMATS.values()))
HEIC = "HEIF"
"""The one of `FORMATS` that Pillow reads with a plugin."""

MAX_PIXELS = 89_478_485
"""Larger images aren't decoded: Pillow's own limit (`Image.MAX_IMAGE_PIXELS`), 358 MB of memory in RGB."""

UNREADABLE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error),
    *(Image.DecompressionBombError, Image.DecompressionBombWarning, RuntimeError),
)
"""Pillow's errors for damaged files and other formats; UnidentifiedImageError is an OSError, RuntimeError libheif's."""


class TooLarge(ValueError):  # noqa: N818 - nothing is wrong with the file
    """An image has more than `MAX_PIXELS`."""


@contextmanager
def opened(image: Encoded | BinaryIO) -> Iterator[Any]:
    """Opens a PIL image; only its header is read.

    Raises:
        TooLarge: It has more than `MAX_PIXELS`.
        OSError: It can't be read, or is no image; damaged ones raise any of `UNREADABLE`, maybe only when decoded.
    """
    if isinstance(image, np.ndarray):
        yield Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
        return
    if isinstance(image, Path):
        with open_plain(image) as stored, opened(stored) as pil:
            yield pil
        return
    file: BinaryIO = BytesIO(image) if isinstance(image, bytes) else image
    try:
        found = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError as error:
        file.seek(0)
        start = file.read(START_BYTES)
        if _SIGNATURE.match(start):
            raise OSError(DAMAGED_TEXT) from error
        raise UnidentifiedImageError(what_it_is(start)) from error
    with found as pil:
        width, height = pil.size
        if width * height > MAX_PIXELS:
            raise TooLarge
        yield pil


START_BYTES = 1024
"""What tells the kind of a file that isn't an image."""
_SIGNATURE = re.compile(
    rb"\x89PNG|\xff\xd8\xff|GIF8|BM|II\*\0|MM\0\*|RIFF.{4}WEBP|.{4}ftyp(hei|hev|mif|msf|avi)", re.DOTALL
)
"""The first bytes of the formats that are read."""
_OTHERS = {
    rb"\s*(<!doctype html|<html|<head)": _("a web page (HTML)"),
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*-->\s*)?(<!doctype svg[^>]*>\s*)?<svg": _("a drawing (SVG)"),
    rb"%PDF": _("a PDF document"),
    rb"%!PS": _("a PostScript document"),
    rb"PK\x03\x04": _("a zip archive"),
    rb".{4}ftyp|\x1aE\xdf\xa3|RIFF.{4}AVI ": _("a video"),
}
"""What other files begin with."""
DAMAGED_TEXT = _("damaged or cut short")


def what_it_is(start: bytes) -> str:
    """Names the kind of a file that isn't an image by its first bytes."""
    for pattern, name in _OTHERS.items():
        if re.match(pattern, start, re.DOTALL | re.IGNORECASE):
            return name
    try:
        start[:-3].decode()  # a character may be cut at the end
    except UnicodeDecodeError:
        return _("no image of a known format")
    return _("no image of a known format") if b"\0" in start else _("a text file")


def size_of(image: Encoded) -> tuple[int, int]:
    """Returns width and height of a stored image, as its camera was held. Raises what `opened` does."""
    with opened(image) as pil:
        width, height = pil.size
        return (height, width) if pil.getexif().get(ORIENTATION, 1) >= FIRST_ON_ITS_SIDE else (width, height)


def is_nearly_square(width: int, height: int) -> bool:
    """Returns whether squashing an image of this size to a square can hardly be seen."""
    return max(width, height) <= NEARLY_SQUARE * min(width, height)


ORIENTATION, FIRST_ON_ITS_SIDE = 0x0112, 5
"""EXIF's tag, and the first of its values that swap width and height."""
NEARLY_SQUARE = 1.1


def explained(error: Exception) -> str:
    """Says what one of `UNREADABLE` means for the person."""
    if isinstance(error, FileNotFoundError):
        return _("there is no such file")
    if isinstance(error, UnidentifiedImageError):
        return str(error)
    if isinstance(error, TOO_LARGE):
        return _("more than {count} million pixels").format(count=MAX_PIXELS // 10**6)
    return why(error) if isinstance(error, OSError) and error.strerror else DAMAGED_TEXT


TOO_LARGE = (TooLarge, Image.DecompressionBombError, Image.DecompressionBombWarning)

# --- The transform of a vision model


Colours = tuple[float, float, float]
"""Red, green and blue."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Red, green and blue of ImageNet's training images, 0 to 1, as torchvision's pretrained weights expect."""

LARGE_PIXELS = 16 * 2**20
"""Larger JPEGs are decoded at 1/2, 1/4 or 1/8 of their size, to save memory and time."""

PREVIEW_SIDE = 256
"""The most pixels of a preview's width and height."""
THUMBNAIL_SIDE = 144

CROPS = {Augmentation.LIGHT: (0.7, 1.1), Augmentation.STRONG: (0.35, 4 / 3)}
"""The least part of its area that is left of an image, and by how much it is stretched at most."""


Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a part of an image, in pixels."""


@dataclass(frozen=True)
class ImageTransform:
    """Resizes to a square, makes three channels and normalizes. `size` is in pixels, `fit` for other shapes.

    Training images are changed at random before; the same `seed`, epoch and place give the same image in any process.
    """

    size: int
    mean: Colours = IMAGENET_MEAN
    std: Colours = IMAGENET_STD
    fit: ImageFit = ImageFit.SQUASH
    augmentation: Augmentation = Augmentation.OFF
    flips: bool = False
    seed: int = 0

    def __call__(self, image: Encoded) -> torch.Tensor:
        """Converts a stored image to floats [3, size, size].

        Raises:
            OSError: It can't be read, or any other of `UNREADABLE`.
        """
        if isinstance(image, np.ndarray) and image.shape[1:] == (self.size, self.size):
            return self.normalise(image)
        with opened(image) as pil:
            return self.from_pil(pil)

    def from_pil(self, image: Any) -> torch.Tensor:
        """Converts a PIL image, rotated as its EXIF says, to floats [3, size, size]."""
        square = _upright(image, self.size)
        if square.size != (self.size, self.size):
            box = self._seen_of(square.size)
            square = square.resize((self.size, self.size), Image.Resampling.BILINEAR, box)
        pixels = np.asarray(square)
        return self.normalise(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))

    def augmented(self, image: Encoded, epoch: int, place: int) -> torch.Tensor:
        """Converts a stored training image; torch's random numbers stay as they were. Raises what `__call__` does."""
        if not self.changes:
            return self(image)
        key = np.random.SeedSequence((self.seed, epoch, place)).generate_state(1, np.uint64)
        with opened(image) as pil, torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(int(key[0]))  # torch.manual_seed would seed the GPU, too
            upright = _upright(pil, self.size)
            box = _crop(self._seen_of(upright.size), *CROPS[self.augmentation])
            square = upright.resize((self.size, self.size), Image.Resampling.BILINEAR, box)
            change, erase = _changes(self.augmentation, self.flips, round(corners(square)))
            changed: torch.Tensor = erase(self.from_pil(change(square)))
        return changed

    def _seen_of(self, size: tuple[int, int]) -> Box:
        """Returns the part of an image of this size that becomes the square: all of it, or the middle."""
        width, height = size
        if self.fit is ImageFit.SQUASH:
            return 0.0, 0.0, width, height
        side = min(size)
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    @property
    def changes(self) -> str:
        """How training images are changed; empty if they aren't."""
        flips = ", horizontal flips" if self.flips else ""
        return "" if self.augmentation is Augmentation.OFF else f"{self.augmentation}{flips}"

    def normalise(self, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> torch.Tensor:
        """Converts bytes [1 or 3, height, width] to floats [3, height, width] of about zero mean and unit deviation.

        It takes the steps of torchvision's ToTensor and Normalize, on one thread: torch would use all cores, which are
        busy training.
        """
        scaled: Any = pixels.astype(np.float32, order="C")
        scaled /= 255
        values = scaled - np.array(self.mean, np.float32)[:, None, None]
        values /= np.array(self.std, np.float32)[:, None, None]
        return torch.from_numpy(values)

    def png(self, pixel_values: torch.Tensor) -> bytes:
        """Encodes normalized floats [3, size, size] as a PNG file."""
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        pixels = (pixel_values * std + mean).mul(255).round().clamp(0, 255).to(torch.uint8)
        return _png(Image.fromarray(pixels.permute(1, 2, 0).numpy()))

    def preview(self, image: Encoded, place: int) -> tuple[tuple[bytes, ...], bytes]:
        """Encodes the model's inputs, in the first epochs if they differ, and the original as PNG files.

        Raises:
            OSError: It can't be read, or any other of `UNREADABLE`.
        """
        seen = (self.augmented(image, epoch, place) for epoch in range(Seen.EPOCHS if self.changes else 1))
        with opened(image) as pil:
            upright = _upright(pil, max(PREVIEW_SIDE, self.size), keeps_alpha=True)
            return tuple(map(self.png, seen)), _png(upright)


def _crop(whole: Box, least: float, stretch: float) -> Box:
    """Returns a random part of `whole`, about as long or wide as it, unlike torchvision's."""
    area, shape, left, top = torch.rand(4).tolist()
    area, shape = least + (1 - least) * area, stretch ** (2 * shape - 1)
    across, down = min(1, math.sqrt(area * shape)), min(1, math.sqrt(area / shape))
    left, top = left * (1 - across), top * (1 - down)
    width, height = whole[2] - whole[0], whole[3] - whole[1]
    return (
        whole[0] + left * width,
        whole[1] + top * height,
        whole[0] + min(1, left + across) * width,
        whole[1] + min(1, top + down) * height,
    )


@cache
def _changes(augmentation: Augmentation, flips: bool, fill: int) -> tuple[Any, Any]:
    """Returns the transforms of a square PIL image and of its normalized floats; `fill` is the grey beside it."""
    prepare_torchvision()  # workers begin without it
    from torchvision.transforms import InterpolationMode, v2

    flip = v2.RandomHorizontalFlip(0.5 if flips else 0.0)
    if augmentation is Augmentation.LIGHT:
        return v2.Compose([flip, v2.ColorJitter(0.2, 0.2, 0.2)]), v2.Identity()
    turned = v2.RandAugment(interpolation=InterpolationMode.BILINEAR, fill=fill)
    return v2.Compose([flip, turned]), v2.RandomErasing(0.25, (0.02, 0.2))


def _upright(image: Any, size: int, *, keeps_alpha: bool = False) -> Any:
    """Decodes a PIL image as grey or RGB, rotated as its EXIF says; a large JPEG at a fraction, 2 x `size` or more."""
    width, height = image.size
    if image.format == "JPEG" and width * height > LARGE_PIXELS:
        image.draft(None, (2 * size, 2 * size))
    ImageOps.exif_transpose(image, in_place=True)  # a copy would double what a large image takes
    if keeps_alpha and _has_alpha(image):
        return image.convert("RGBA")
    return image if image.mode == "L" else _as_rgb(image)


def _as_rgb(image: Any) -> Any:
    """Converts to RGB without transparency, as torchvision does; 16-bit greyscale is scaled, which PIL would clip."""
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.float64) / 257  # 65,535 / 255
        image = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    return image.convert("RGB")


def _has_alpha(image: Any) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info


def thumbnail(image: Path) -> bytes:
    """Returns a small PNG file of an image; empty if it can't be read."""
    try:
        with opened(image) as pil:
            return _png(_upright(pil, THUMBNAIL_SIDE), THUMBNAIL_SIDE)
    except UNREADABLE:
        return b""


def _png(image: Any, side: int = PREVIEW_SIDE) -> bytes:
    image.thumbnail((side, side))
    written = BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


# --- Dark on light, or light on dark


DARK, LIGHT, LEAST_COLOUR = 64, 191, 8
"""Levels of 255: what clearly is dark or light, and by how much the channels of a colour differ."""


def corners(image: Any) -> float:
    """Returns the brightness of most corners of a PIL image, from 0 to 255: ink may touch one."""
    return float(np.median(np.asarray(image.convert("L"))[[0, 0, -1, -1], [0, -1, 0, -1]]))


def are_light(images: Iterable[Any]) -> bool | None:
    """Returns whether grey PIL images are dark on light, as ink on paper; None unless all agree, and clearly."""
    found: set[bool] = set()
    for image in images:
        shade, colours = corners(image), np.asarray(image.convert("RGB"))
        if DARK < shade < LIGHT or np.ptp(colours, axis=-1).max() > LEAST_COLOUR:
            return None
        found.add(shade >= LIGHT)
    return found.pop() if len(found) == 1 else None


# --- Labelled images, and a data set of them


class ImageColumn(Sequence[Encoded]):
    """The images in a table, as bytes or as the Hub's pairs of bytes and path; workers read the table again."""

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
        """Returns an image, or empty bytes if a row has neither bytes nor a path."""
        value = self._column[int(self.rows[index])].as_py()
        if isinstance(value, dict):
            path = value.get("path")
            value = value.get("bytes") or (self.files[0].parent / path if path else b"")
        return value or b""


@dataclass(frozen=True)
class Images:
    """Images with their labels (`names`), decoded when they are used; can be pickled.

    `stored` is repeated if it is shorter than `names`. `rows` are their numbers in the table `source`, counted in
    `row_word`s; None if there is no table. `others` is what was found of its other rows, `notes` say what else is left
    out.
    """

    names: Sequence[str]
    stored: Sequence[Encoded] | np.ndarray[Any, np.dtype[np.uint8]] = field(repr=False)
    source: str = ""
    rows: Sequence[int] | None = None
    row_word: str = "image"
    others: tuple[DataFinding, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def encoded(self, index: int) -> Encoded:
        return self.stored[index % len(self.stored)]

    def at(self, kept: Sequence[int]) -> "Images":
        """Returns the images at these places."""
        if isinstance(self.stored, ImageColumn):
            column = self.stored
            stored: Sequence[Encoded] = ImageColumn(column.files, column.name, [column.rows[i] for i in kept])
        else:
            stored = [self.encoded(index) for index in kept]
        rows = None if self.rows is None else [self.rows[index] for index in kept]
        return replace(self, names=[self.names[index] for index in kept], stored=stored, rows=rows)

    def path(self, index: int) -> str:
        """Returns the file of an image; empty if it is stored in a table."""
        return str(self.stored[index]) if isinstance(self.stored, list) else ""

    def row(self, index: int) -> str:
        """Returns where an image is in a table or data set, as "row 3 of photos.csv"; empty if it is only a file."""
        if self.rows is None and self.path(index):
            return ""
        row = formats.places(self.row_word, (self.number(index),))
        return _("{row} of {name}").format(row=row, name=self.source)

    def where(self, index: int) -> str:
        """Returns the row of an image, its path, or both."""
        return ": ".join(filter(None, (self.row(index), self.path(index))))

    def number(self, index: int) -> int:
        """Returns the row in the table, or else the place, counted from 1."""
        return index + 1 if self.rows is None else int(self.rows[index])


@dataclass(frozen=True)
class ImageSet:
    """A map-style data set of `{"pixel_values": float32 [3, size, size], "labels": int}`.

    `chosen` are its images, `labels` the class index of each. An index may be a pair: epoch (from 0) and index.
    """

    images: Images
    chosen: Sequence[int]
    labels: Sequence[int]
    transform: ImageTransform

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: int | tuple[int, int]) -> dict[str, Any]:
        """Decodes a sample.

        Raises:
            DataError: The image can't be read (any more).
        """
        epoch, index = index if isinstance(index, tuple) else (0, index)
        place = self.chosen[index]
        try:
            pixel_values = self.transform.augmented(self.images.encoded(place), epoch, place)
        except UNREADABLE as error:
            where = self.images.where(place)
            raise DataError(
                _("{name} can't be read as an image").format(name=Path(where).name),
                f"{where}: {explained(error)}",
                (REPLACE,),
            ) from error
        return {"pixel_values": pixel_values, "labels": self.labels[index]}


# --- Checks


NAMED = 5
"""Images that are named."""
READERS = 4
"""Threads that check images; most of the time is spent waiting for the disk."""
AHEAD = 64
"""Images checked in advance."""
ENDS_BYTES = 4096
"""Bytes at the beginning and the end that tell most images apart."""
JPEG_END = b"\xff\xd9"
REPLACE = Fix(_("Remove or replace these images"))

_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING
MISSING = FindingKind("image-missing", _PROBLEM, _("{rows}: there is no such file"), _("Correct the paths"))
EMPTY = FindingKind("image-empty", _PROBLEM, _("{rows}: the file is empty"), REPLACE.label)
NOT_AN_IMAGE = FindingKind("not-an-image", _PROBLEM, _("{rows}: not an image"), REPLACE.label)
TOO_MANY_PIXELS = FindingKind(
    "image-too-large", _PROBLEM, _("{rows}: too many pixels to be decoded safely"), _("Shrink them")
)
DAMAGED = FindingKind("image-damaged", _PROBLEM, _("{rows}: damaged or cut short"), REPLACE.label)
ANIMATED = FindingKind("image-animated", _WARNING, _("{rows}: several frames; only the first is used"))
TRANSPARENT = FindingKind(
    "image-transparent",
    _WARNING,
    _("{rows}: transparency, which is ignored (the colours stored below it are used)"),
    _("If the background is wrong in the preview, save the images without transparency"),
)


@dataclass(frozen=True)
class CheckedImage:
    """The result of a check: a problem with its reason, or warnings.

    `ends` is a hash of size, beginning and end: equal images share it, and few others do. `look` is that of
    `core.engine.data.alike`; `is_square`: its sides are about as long.
    """

    findings: tuple[FindingKind, ...] = ()
    reason: str = ""
    ends: int = 0
    look: bytes = b""
    is_square: bool = True

    @property
    def is_usable(self) -> bool:
        return all(kind.level is FindingLevel.WARNING for kind in self.findings)


def check_image(image: Path | bytes) -> CheckedImage:
    """Checks an image.

    Small ones are decoded unless their format shows that they are complete: PNG has checksums, JPEG an end mark.
    """
    try:
        with BytesIO(image) if isinstance(image, bytes) else open_plain(image) as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                reason = _("there is no image") if image == b"" else _("the file is empty")
                return CheckedImage((EMPTY,), reason)
            file.seek(max(0, size - ENDS_BYTES))
            tail = file.read()
            file.seek(0)
            ends = hashlib.blake2b(size.to_bytes(8, "big") + file.read(ENDS_BYTES) + tail, digest_size=8)
            with opened(file) as pil:
                kind, is_animated = pil.format, getattr(pil, "n_frames", 1) > 1
                warnings = ((ANIMATED, is_animated), (TRANSPARENT, _has_alpha(pil)))
                is_small, look = min(pil.size) < LEAST_SIDE, b""
                is_square = is_nearly_square(*pil.size)
                if kind == "PNG":
                    pil.verify()
            is_whole = kind == "PNG" or (kind == "JPEG" and JPEG_END in tail)
            if not (is_small and is_whole):
                with opened(file) as pil:
                    look = look_of(pil)
                    if not is_whole:
                        pil.load()
    except UNREADABLE as error:
        problems = ((FileNotFoundError, MISSING), (UnidentifiedImageError, NOT_AN_IMAGE))
        problem = TOO_MANY_PIXELS if isinstance(error, TOO_LARGE) else DAMAGED
        problem = next((kind for errors, kind in problems if isinstance(error, errors)), problem)
        return CheckedImage((problem,), explained(error))
    return CheckedImage(
        tuple(kind for kind, applies in warnings if applies),
        "",
        int.from_bytes(ends.digest(), "big"),
        look,
        is_square,
    )


Check = Callable[[Path | bytes], CheckedImage]
"""`check_image`, or that of `core.engine.data.known_checks`."""


def check_each(images: Images, check: Check) -> Iterator[CheckedImage]:
    """Checks every image in order, a few at a time in threads; pixels in memory need no check."""
    if isinstance(images.stored, np.ndarray):
        return
    with ThreadPoolExecutor(READERS) as pool:
        waiting: deque[Future[CheckedImage]] = deque()
        for index in range(len(images)):
            image = images.encoded(index)
            assert not isinstance(image, np.ndarray), "checked above"
            waiting.append(pool.submit(check, image))
            if len(waiting) >= AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def readable(images: Images, check: Check, *, skip: bool) -> tuple[Images, tuple[str, ...]]:
    """Checks every image before a run; returns those that can be used, and all notes, which name the others.

    Args:
        skip: Whether the others, and incomplete rows of a table, are left out.

    Raises:
        DataError: Some can't be used, unless they are left out; it names the first.
    """
    others = [left_out(finding) if skip else finding for finding in images.others]
    refuse_problems(Path(images.source), others, len(images))
    notes = (*images.notes, *noted(others))
    bad = {index: checked for index, checked in enumerate(check_each(images, check)) if not checked.is_usable}
    if not bad:
        return images, notes
    lines = [f"{images.where(index)}: {checked.reason}" for index, checked in [*bad.items()][:NAMED]]
    if len(bad) > len(lines):
        lines.append(_("… and {count:,} more").format(count=len(bad) - len(lines)))
    if skip and len(bad) < len(images):
        note = ngettext(
            "{count:,} image that can't be read is left out: {names}",
            "{count:,} images that can't be read are left out: {names}",
            len(bad),
        )
        kept = images.at([index for index in range(len(images)) if index not in bad])
        return kept, (*notes, note.format(count=len(bad), names="; ".join(lines)))
    title = ngettext(
        "{count:,} image can't be read: {name}", "{count:,} images can't be read, such as {name}", len(bad)
    )
    title = title.format(count=len(bad), name=Path(images.where(next(iter(bad)))).name)
    fixes = (leave_out(len(bad)), REPLACE) if len(bad) < len(images) else (REPLACE,)
    raise DataError(title, "\n".join(lines), fixes)
