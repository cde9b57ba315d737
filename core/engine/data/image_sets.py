"""Images with their classes, before and after they become data sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

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


@dataclass(frozen=True)
class FoundImages:
    """What a source holds: images to train on, and held-out ones where it brings its own."""

    train: LabelledImages
    format: str
    eval: LabelledImages | None = None
    eval_name: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageFiles:
    """Images in files, each decoded when it is asked for."""

    paths: Sequence[Path]
    names: Sequence[str]

    def where(self, index: int) -> str:
        """The file's path."""
        return str(self.paths[index])

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set that opens its files one by one."""
        return FileImageSet([self.paths[index] for index in chosen], labels, transform)


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
class FileImageSet:
    """Images decoded from their files as they are needed."""

    paths: list[Path]
    labels: list[int]
    transform: ImageTransform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        from PIL import Image, UnidentifiedImageError

        path = self.paths[index]
        try:
            with Image.open(path) as image:
                pixel_values = self.transform.from_pil(image)
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            raise damaged_image(path, error) from error
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


def damaged_image(path: Path, error: Exception) -> DataError:
    """The error for one file that turned out unreadable during training."""
    return DataError(
        f"{path.name} can't be read as an image",
        f"{path}: {error or type(error).__name__}",
        (Fix("Remove or replace this file and start again"),),
    )
