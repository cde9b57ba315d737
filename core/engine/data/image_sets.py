"""Images with their classes, before and after they become data sets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from core.data_report import Column
from core.engine.data.image_opening import UNREADABLE, Encoded, explained, opened
from core.engine.data.image_transform import ImageTransform, resize
from core.errors import DataError, Fix

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
