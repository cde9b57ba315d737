"""Images inside Parquet files, as the Hugging Face Hub stores them: `{bytes, path}` or plain bytes, and a label.

Parquet can be read forwards only, in pieces. For training, which asks for images in any order, they are written once
to a file that is mapped into memory, not read into it; it lies in Hone's folder and serves later runs.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from core.base import settings
from core.base.errors import DataError, Fix
from core.base.files import written_whole
from core.engine.data.columns import (
    as_text,
    check_column,
    choose_label_column,
    describe,
    first_rows,
    holds_bytes,
    is_blank,
    no_images,
)
from core.engine.data.image_files import (
    Encoded,
    EncodedImageSet,
    FoundImages,
    ImagePixels,
    ImageSet,
    ImageTransform,
    Rows,
)
from core.engine.data.tables import Table
from core.engine.data.text_files import is_parquet, raw_blocks
from core.services.inspect import Column, ColumnKind

# --- IDX files, the form MNIST and its relatives come in: http://yann.lecun.com/exdb/mnist


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


def load_idx_folder(folder: Path) -> FoundImages:
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


# --- Images taken out of Parquet into a file that can be read in any order, kept between runs


BATCH_BYTES = 32 * 2**20
"""Written at once: what unpacking holds in memory."""
UNUSED_SECONDS = 14 * 24 * 3600
"""So long a file stays that no run has used."""
SPARE_BYTES = 512 * 2**20
"""Left free on the disk."""

SCHEMA = pa.schema([("bytes", pa.large_binary()), ("path", pa.string())])


@dataclass(frozen=True)
class Stored:
    """Images in an unpacked file. `places` are their rows in it; workers map the file themselves."""

    file: Path
    places: list[int] = field(repr=False)
    names: Sequence[str] = field(repr=False)
    rows: Rows = field(repr=False)

    def where(self, index: int) -> str:
        """Where it stands in the file it came from."""
        return self.rows.where(index)

    def encoded(self, index: int) -> Encoded:
        """One image, read from the disk or from what the system keeps of it in memory."""
        table = _mapped(self.file)
        place = self.places[index]
        path = table["path"][place].as_py()
        return Path(path) if path else table["bytes"][place].as_py()

    def each(self) -> Iterator[Encoded]:
        """All of them in order."""
        return map(self.encoded, range(len(self.places)))

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set of some of them."""
        numbers = [self.rows.numbers[index] for index in chosen]
        kept = Stored(
            self.file,
            [self.places[index] for index in chosen],
            [self.names[index] for index in chosen],
            Rows(self.rows.table, numbers, self.rows.word),
        )
        return EncodedImageSet(kept, labels, transform)


def unpack(
    files: Sequence[Path], column: str, images: Callable[[], Iterator[Encoded]], expected_bytes: int
) -> Path:
    """The file with all images of a column, written now or by an earlier run.

    Args:
        files: Where they come from; when one of them changes, they are unpacked again.
        column: Which of their columns.
        images: Gives all images in order.
        expected_bytes: About what they take.

    Raises:
        DataError: There is no room for them on the disk.
    """
    folder = settings.home() / "cache" / "images"
    path = folder / f"{_key(files, column)}.arrow"
    if path.is_file():
        os.utime(path)
        return path
    folder.mkdir(parents=True, exist_ok=True)
    _make_room(folder)
    free = shutil.disk_usage(folder).free
    if free < expected_bytes + SPARE_BYTES:
        raise DataError(
            "There is no room to unpack the images",
            f"The images of {files[0].name} take about {expected_bytes / 1e9:,.1f} GB; on the disk of {folder} "
            f"{free / 1e9:,.1f} GB are free.",
            (Fix("Make room on that disk, or set HONE_HOME to a folder on another one"),),
        )
    with written_whole(path) as unfinished:
        _write(unfinished, images())
    return path


def _key(files: Sequence[Path], column: str) -> str:
    digest = hashlib.blake2b(column.encode(), digest_size=16)
    for path in files:
        state = path.stat()
        digest.update(f"\0{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()


def _make_room(folder: Path) -> None:
    """Take away what no run has used for two weeks, and what an interrupted one left unfinished."""
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
            path.unlink(missing_ok=True)


def _write(path: Path, images: Iterator[Encoded]) -> None:
    with path.open("wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for batch in _batches(images):
            writer.write_batch(batch)


def _batches(images: Iterator[Encoded]) -> Iterator[pa.RecordBatch]:
    held: list[Encoded] = []
    size = 0
    for image in images:
        held.append(image)
        size += len(image) if isinstance(image, bytes) else 0
        if size >= BATCH_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(images: list[Encoded]) -> pa.RecordBatch:
    stored = [image if isinstance(image, bytes) else None for image in images]
    paths = [None if isinstance(image, bytes) else str(image) for image in images]
    return pa.record_batch([pa.array(stored, pa.large_binary()), pa.array(paths, pa.string())], SCHEMA)


@lru_cache(maxsize=4)
def _mapped(path: Path) -> Any:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


# --- Images inside Parquet files, as the Hugging Face Hub stores them: `{bytes


READ_AT_ONCE = 32
"""Rows. Images of 1 MB each then take 32 MB."""
BUFFER_BYTES = 1 << 20


def is_parquet_of_images(path: Path, column: str | None = None) -> bool:
    """Whether a Parquet file holds images, in the column asked for or in any.

    Raises:
        DataError: It can't be read.
    """
    schema = _opened(path).schema_arrow
    names = [column] if column in schema.names else schema.names
    return any(holds_bytes(schema.field(name).type) for name in names)


def load_parquet(
    files: Sequence[Path], image_column: str | None = None, label_column: str | None = None
) -> FoundImages:
    """The images of one or several files with the same columns, one after the other.

    Raises:
        DataError: A column is missing, or no row is complete, or a file can't be read.
    """
    schema = _opened(files[0]).schema_arrow
    name = files[0].name if len(files) == 1 else files[0].parent.name
    image = _image_column(name, files[0], schema, image_column)
    flat = [
        field.name for field in schema if not pa.types.is_nested(field.type) and not holds_bytes(field.type)
    ]
    rows = pa.concat_tables([_columns(path, flat) for path in files])
    if rows.num_rows == 0:
        raise DataError(f"{name} has no rows", f"{files[0]} names columns but holds no rows.")
    table = Table(files[0], "Parquet", rows, np.arange(1, rows.num_rows + 1), "row")
    label = choose_label_column(table, image, label_column)
    names, blank = _label_names(rows[label], _class_names(schema, label))
    kept = np.flatnonzero(~blank)
    if not len(kept):
        raise DataError(
            f"{name} has no labels",
            f"{files[0]}: column “{label}” is empty in all {rows.num_rows:,} rows; files meant for tests often are.",
            (Fix("Choose the file with the training data"),),
        )
    left_out = rows.num_rows - len(kept)
    note = (
        f"Left out: {left_out:,} rows without “{label}”, the first is row {np.argmax(blank) + 1:,} of {name}."
    )
    columns = _described(table, schema, image)
    return FoundImages(
        ParquetImages(tuple(files), image, kept, [names[row] for row in kept], name),
        "Parquet with images",
        notes=(note,) if left_out else (),
        columns=columns,
        image_column=image,
        label_column=label,
        preview=first_rows(table, [column.name for column in columns]),
    )


@dataclass(frozen=True)
class ParquetImages:
    """Images inside Parquet files. `kept` are the rows with a label, counted from 0 through all files."""

    files: tuple[Path, ...]
    column: str
    kept: np.ndarray[Any, np.dtype[np.int64]] = field(repr=False)
    names: Sequence[str] = field(repr=False)
    source: str

    @cached_property
    def rows(self) -> Rows:
        """Where the images stand."""
        return Rows(self.source, (self.kept + 1).tolist())

    def where(self, index: int) -> str:
        """The row, counted from 1 through all files."""
        return self.rows.where(index)

    def encoded(self, index: int) -> Encoded:
        """One image, read from its place in the file; what lies before it in its row group is read, too."""
        row = int(self.kept[index])
        for path in self.files:
            file = _opened(path)
            if row < file.metadata.num_rows:
                return _one(file, self.column, row, path.parent)
            row -= file.metadata.num_rows
        raise IndexError(index)

    def each(self) -> Iterator[Encoded]:
        """All images in order, a few in memory at a time."""
        wanted = iter(self.kept.tolist())
        following = next(wanted, None)
        for row, image in enumerate(self._every_row()):
            if row == following:
                yield image
                following = next(wanted, None)

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set that reads its images from the file they were unpacked to.

        Raises:
            DataError: There is no room for that on the disk.
        """
        unpacked = unpack(self.files, self.column, self._every_row, self._bytes())
        places = self.kept[list(chosen)].tolist()
        rows = Rows(self.source, [place + 1 for place in places])
        return EncodedImageSet(
            Stored(unpacked, places, [self.names[i] for i in chosen], rows), labels, transform
        )

    def _every_row(self) -> Iterator[Encoded]:
        for path in self.files:
            file = _opened(path)
            for batch in file.iter_batches(READ_AT_ONCE, columns=[self.column]):
                for value in batch.column(0):
                    yield _image(value.as_py(), path.parent)

    def _bytes(self) -> int:
        """About what the images take unpacked."""
        metadata = [_opened(path).metadata for path in self.files]
        return sum(
            part.row_group(group).total_byte_size for part in metadata for group in range(part.num_row_groups)
        )


def _image(value: Any, base: Path) -> Encoded:
    """One value of an image column: bytes, or a path where the Hub's pair has no bytes; empty where it has neither."""
    if isinstance(value, dict):
        path = value.get("path")
        return value.get("bytes") or (base / path if path else b"")
    return value or b""


def _one(file: Any, column: str, row: int, base: Path) -> Encoded:
    group = 0
    while row >= file.metadata.row_group(group).num_rows:
        row -= file.metadata.row_group(group).num_rows
        group += 1
    for batch in file.iter_batches(READ_AT_ONCE, row_groups=[group], columns=[column]):
        if row < batch.num_rows:
            return _image(batch.column(0)[row].as_py(), base)
        row -= batch.num_rows
    return b""


def _opened(path: Path) -> Any:
    from pyarrow import parquet

    try:
        with path.open("rb") as file:
            start = file.read(32)
        if not is_parquet(path, start):
            raise DataError(f"{path.name} is not a Parquet file", f"{path} begins otherwise.")
        return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"There is no {path.name}", f"{path} doesn't exist.")
    return DataError(
        f"{path.name} is damaged or cut off",
        f"{path} begins as a Parquet file but can't be read: {error}",
        (Fix("Get the file again"),),
    )


def _columns(path: Path, names: list[str]) -> pa.Table:
    try:
        return _opened(path).read(columns=names)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _image_column(name: str, path: Path, schema: pa.Schema, asked: str | None) -> str:
    if asked is not None:
        check_column(name, tuple(schema.names), asked, "data.image_column")
        return asked
    found = [field.name for field in schema if holds_bytes(field.type)]
    if not found:
        raise no_images(name, str(path), tuple(schema.names))
    return "image" if "image" in found else found[0]


def _class_names(schema: pa.Schema, label: str) -> list[str] | None:
    """What the Hub calls the classes that a column numbers: kept in the file's metadata by `datasets`."""
    try:
        told = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][label]
        return [str(name) for name in told["names"]]
    except (KeyError, TypeError, ValueError):
        return None


def _label_names(
    column: pa.ChunkedArray, classes: list[str] | None
) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.bool_]]]:
    """The label of each row, and whether it has none: -1 stands for that where classes have names."""
    if classes is not None and pa.types.is_integer(column.type):
        numbers = column.to_pylist()
        known = [number is not None and 0 <= number < len(classes) for number in numbers]
        names = [
            classes[number] if is_known else None for number, is_known in zip(numbers, known, strict=True)
        ]
        return names, ~np.array(known)
    texts = as_text(column)
    return pc.utf8_trim_whitespace(texts).to_pylist(), is_blank(texts).to_numpy()


def _described(table: Table, schema: pa.Schema, image: str) -> tuple[Column, ...]:
    """All columns in their order; of the images themselves nothing is counted."""
    known = {column.name: column for column in describe(table)}
    rows = table.rows.num_rows
    stored = {
        field.name: Column(name=field.name, kind=ColumnKind.OTHER, distinct=rows, empty=0, examples=())
        for field in schema
    }
    return tuple(known.get(name, stored[name]) for name in dict.fromkeys((image, *schema.names)))
