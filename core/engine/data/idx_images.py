"""IDX files, the form MNIST and its relatives come in: http://yann.lecun.com/exdb/mnist."""

import gzip
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from core.engine.data.image_sets import FoundImages, ImagePixels
from core.engine.data.text_files import raw_blocks
from core.errors import DataError, Fix

GZIP = b"\x1f\x8b"
IMAGES = b"\x00\x00\x08\x03"
LABELS = b"\x00\x00\x08\x01"
"""Two zeros, the type (8: unsigned bytes) and the number of dimensions."""


@dataclass(frozen=True)
class Pair:
    """A file of images and the file of their labels."""

    images: Path
    labels: Path


def is_idx(path: Path) -> bool:
    """Whether the file begins as an IDX file of bytes does, compressed or not."""
    return _magic(path) in (IMAGES, LABELS)


def folder_has_idx(folder: Path) -> bool:
    """Whether IDX files of images lie in the folder itself."""
    return any(_magic(path) == IMAGES for path in _candidates(folder))


def load_file(path: Path) -> FoundImages:
    """Images and labels, given either file of the pair.

    Raises:
        DataError: The other file isn't there, a file is cut off, or their counts differ.
    """
    return FoundImages(_read(_pair_of(path)), "IDX")


def load_folder(folder: Path) -> FoundImages:
    """The pair in a folder; of two pairs the one called train is trained on and the other held out.

    Raises:
        DataError: As for `load_file`.
    """
    train, other = pairs_at(folder)
    held_out = _read(other) if other else None
    return FoundImages(_read(train), "IDX", held_out, other.images.name if other else "")


def pairs_at(path: Path) -> tuple[Pair, Pair | None]:
    """The files that are trained on, and those held out where a folder has both; `path` is a folder or either file.

    Raises:
        DataError: The other file of a pair isn't there.
    """
    if not path.is_dir():
        return _pair_of(path), None
    images = [file for file in _candidates(path) if _magic(file) == IMAGES]
    train = next((file for file in images if "train" in file.name.lower()), images[0])
    others = [file for file in images if file != train]
    return _pair_of(train), _pair_of(others[0]) if others else None


def _candidates(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and "idx" in path.name.lower())


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start[:2] == GZIP:
            with gzip.open(path) as file:
                start = file.read(4)
    except (OSError, EOFError, zlib.error):  # BadGzipFile is an OSError
        return b""
    return start


def _pair_of(path: Path) -> Pair:
    is_images = _magic(path) == IMAGES
    swaps = (
        (("images", "labels"), ("idx3", "idx1")) if is_images else (("labels", "images"), ("idx1", "idx3"))
    )
    name = path.name
    for old, new in swaps:
        name = re.sub(old, new, name, flags=re.IGNORECASE)
    bare = name.removesuffix(".gz")
    for candidate in (path.with_name(name), path.with_name(bare), path.with_name(bare + ".gz")):
        if candidate != path and candidate.is_file():
            return Pair(path, candidate) if is_images else Pair(candidate, path)
    kind, other = ("images", "labels") if is_images else ("labels", "images")
    raise DataError(
        f"{path.name} has {kind} but its {other} are missing",
        f"Looked for {name}, with and without .gz, in {path.parent}.",
        (Fix(f"Put the file of {other} into the same folder"),),
    )


def _read(pair: Pair) -> ImagePixels:
    pixels = _read_array(pair.images, IMAGES)
    labels = _read_array(pair.labels, LABELS)
    if len(pixels) != len(labels):
        raise DataError(
            "Images and labels don't belong together",
            f"{pair.images.name} has {len(pixels):,} images, {pair.labels.name} {len(labels):,} labels.",
            (Fix("Get both files from the same place"),),
        )
    return ImagePixels(pixels[:, None], [str(label) for label in labels.tolist()], pair.images.name)


def _read_array(path: Path, magic: bytes) -> torch.Tensor:
    content = _content(path)
    if content[:4] != magic:
        what = "images: 3 dimensions" if magic == IMAGES else "labels: 1 dimension"
        raise DataError(f"{path.name} is not an IDX file of {what}, of bytes", f"{path} begins otherwise.")
    dimensions = magic[3]
    header = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", content[4:header]) if len(content) >= header else ()
    if not shape or len(content) - header < np.prod(shape, dtype=object):
        raise _cut_off(path, f"{len(content):,} bytes")
    values = np.frombuffer(content, np.uint8, count=int(np.prod(shape)), offset=header)
    return torch.from_numpy(values.reshape(shape).copy())


def _content(path: Path) -> bytes:
    return b"".join(raw_blocks(path, None))


def _cut_off(path: Path, found: str) -> DataError:
    return DataError(
        f"{path.name} is cut off or damaged",
        f"{path} is shorter than its header says ({found}).",
        (Fix("Get the file again"),),
    )
