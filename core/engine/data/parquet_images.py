"""Images inside Parquet files, as the Hugging Face Hub stores them: `{bytes, path}` or plain bytes, and a label.

Parquet can be read forwards only, in pieces. For training, which asks for images in any order, they are written once
to a file that is mapped into memory, not read into it; it lies in Hone's folder and serves later runs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.data_report import Column, ColumnKind
from core.engine.data.columns import as_text, describe, is_blank
from core.engine.data.file_kinds import is_parquet
from core.engine.data.image_columns import (
    check_column,
    choose_label_column,
    first_rows,
    holds_bytes,
    no_images,
)
from core.engine.data.image_opening import Encoded
from core.engine.data.image_sets import EncodedImageSet, FoundImages, ImageSet, Rows
from core.engine.data.image_transform import ImageTransform
from core.engine.data.tables import Table
from core.engine.data.unpacked_images import Stored, unpack
from core.errors import DataError, Fix

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
