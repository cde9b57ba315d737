"""Which column of a table holds images, and which their labels."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import pyarrow as pa

from core.engine.data.column_names import listed
from core.engine.data.columns import as_text, guess_columns
from core.engine.data.tables import Table
from core.errors import DataError, Fix
from core.task_guess import IMAGE_FORMATS

IMAGE_NAMES = (
    *(
        "image",
        "img",
        "image_path",
        "img_path",
        "file_name",
        "filename",
        "path",
        "file",
        "filepath",
        "file_path",
    ),
    *("image_file", "picture", "photo", "pixels", "image_name", "image_id", "images"),
)
LOOKED_AT = 200
"""Rows at the beginning that tell what a column holds."""
MOSTLY = 0.5
PREVIEW_ROWS = 200
PREVIEW_CHARACTERS = 300


def holds_bytes(kind: pa.DataType) -> bool:
    """Whether a column's type is that of stored images: bytes, or the Hub's pair of bytes and path."""
    if pa.types.is_struct(kind):
        return any(
            field.name == "bytes" and is_binary(field.type)
            for field in (kind.field(i) for i in range(kind.num_fields))
        )
    return is_binary(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of this type are bytes."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def choose_image_column(table: Table, asked: str | None) -> str:
    """The column of image paths: the one asked for, else the one whose values look most like paths of images.

    Raises:
        DataError: There is none of that name, or none that looks like it.
    """
    if asked is not None:
        check_column(table.path.name, table.columns, asked, "data.image_column")
        return asked
    shares = {name: share_of_paths(table, name) for name in table.columns}
    best = max(shares, key=lambda name: (shares[name], _place(name)), default="")
    if best and shares[best] > MOSTLY:
        return best
    named = [name for name in sorted(table.columns, key=_place, reverse=True) if _place(name) >= 0]
    if named and not shares[best]:  # names without an ending: "cats/001"
        return named[0]
    raise no_images(table.path.name, str(table.path), table.columns)


def choose_label_column(table: Table, image: str, asked: str | None) -> str:
    """The column of labels: the one asked for, else the likeliest.

    Raises:
        DataError: There is none of that name, or none that could be it.
    """
    if asked is not None:
        check_column(table.path.name, table.columns, asked, "data.label_column")
        return asked
    found = guess_columns(table, (image,)).label
    if found is None:
        others = [name for name in table.columns if name != image]
        raise DataError(
            f"{table.path.name} has no column of labels",
            f"{table.path}: beside the images (“{image}”) there is {listed(others) or 'no other column'}. Each image "
            "needs a label that other images have, too.",
            tuple(Fix(f"Use “{name}”", {"data.label_column": name}) for name in others[:3]),
        )
    return found


def first_rows(table: Table, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The first rows as text, long values cut; a column that isn't in the table, as stored images are, is empty."""
    first = table.first(PREVIEW_ROWS).rows
    empty = [""] * first.num_rows
    columns = [as_text(first[name]).to_pylist() if name in first.column_names else empty for name in names]
    return tuple(
        tuple((value or "")[:PREVIEW_CHARACTERS] for value in row) for row in zip(*columns, strict=True)
    )


def check_column(file: str, columns: tuple[str, ...], asked: str, option: str) -> None:
    """Stop where a table has no column of this name.

    Raises:
        DataError: It has none.
    """
    if asked not in columns:
        raise DataError(
            f"{file} has no column “{asked}”",
            f"Its columns are {listed(columns)}.",
            tuple(Fix(f"Use “{name}”", {option: name}) for name in columns[:4]),
        )


def no_images(file: str, path: str, columns: tuple[str, ...]) -> DataError:
    """The error for a table in which nothing looks like an image."""
    return DataError(
        f"{file} has no column of images",
        f"{path}: in {listed(columns)} there are no paths of images (they end in {_endings()}), and no stored images.",
        (Fix("Choose a table with a column of image paths, or a folder with one folder a class"),),
    )


def share_of_paths(table: Table, name: str) -> float:
    """The share of the first values that end as files of images do."""
    values = [value for value in as_text(table.rows[name].slice(0, LOOKED_AT)).to_pylist() if value]
    fitting = sum(PurePosixPath(value.strip()).suffix.lower() in IMAGE_FORMATS for value in values)
    return fitting / len(values) if values else 0.0


def _place(name: str) -> int:
    """How much a column's name sounds like images; -1: not at all."""
    lowered = name.strip().lower()
    return len(IMAGE_NAMES) - IMAGE_NAMES.index(lowered) if lowered in IMAGE_NAMES else -1


def _endings() -> str:
    return ", ".join(IMAGE_FORMATS)
