"""A table that names images and their labels: paths in CSV, TSV, JSON, JSONL or Parquet, or images inside Parquet."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from core.engine.data.columns import as_text, describe, is_blank
from core.engine.data.file_kinds import ENDINGS, Kind
from core.engine.data.image_columns import PREVIEW_ROWS, choose_image_column, choose_label_column, first_rows
from core.engine.data.image_sets import FoundImages, ImageFiles, Rows
from core.engine.data.parquet_images import is_parquet_of_images, load_parquet
from core.engine.data.tables import Table, read_table
from core.engine.data.text_files import in_order
from core.errors import DataError, Fix
from core.files import without_tilde


def is_table(path: Path) -> bool:
    """Whether a file's ending is that of a table."""
    return path.suffix.lower() in ENDINGS


def read_image_table(
    path: Path, image_column: str | None = None, label_column: str | None = None
) -> FoundImages:
    """Find the images a table names or holds, with their labels; nothing is decoded yet.

    Args:
        path: The file. Paths in it are absolute, or start at the folder it lies in.
        image_column: The column of paths, or of stored images; None: guessed.
        label_column: The column of labels; None: guessed.

    Raises:
        DataError: It is no such table, a column is missing, or no row is complete.
    """
    if ENDINGS.get(path.suffix.lower()) is Kind.PARQUET and is_parquet_of_images(path, image_column):
        return load_parquet((path,), image_column, label_column)
    table = read_table(path)
    image = choose_image_column(table, image_column)
    label = choose_label_column(table, image, label_column)
    kept, notes = _complete_rows(table, image, label)
    paths = as_text(table.rows[image]).take(kept).to_pylist()
    names = pc.utf8_trim_whitespace(as_text(table.rows[label]).take(kept)).to_pylist()
    numbers = table.numbers[kept].tolist()
    files = ImageFiles(_located(paths, path.parent), names, Rows(path.name, numbers, table.row_word))
    return FoundImages(
        files,
        f"{table.format} of image paths",
        notes=(*table.notes, *notes),
        columns=describe(table),
        image_column=image,
        label_column=label,
        preview=first_rows(table, table.columns),
        preview_rows=tuple(table.numbers[:PREVIEW_ROWS].tolist()),
    )


def only_table(folder: Path) -> Path | None:
    """The one table that lies in a folder beside its images, such as labels.csv; None where there are class folders.

    Several folders beside it are taken for classes, unless it is called metadata, as the Hub's tools call it.
    """
    tables = [path for path in _visible(folder) if path.is_file() and is_table(path)]
    folders = [path for path in _visible(folder) if path.is_dir()]
    named = [path for path in tables if path.stem.lower() == "metadata"]
    if len(named) == 1:
        return named[0]
    return tables[0] if len(tables) == 1 and len(folders) < 2 else None


def _visible(folder: Path) -> list[Path]:
    return in_order(path for path in folder.iterdir() if not path.name.startswith("."))


def _complete_rows(
    table: Table, image: str, label: str
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Places of the rows that have both, and a note on the others.

    Raises:
        DataError: None has.
    """
    keep = np.ones(table.rows.num_rows, dtype=bool)
    lacking = []
    for name in (image, label):
        blank = is_blank(as_text(table.rows[name])).to_numpy()
        if blank.any():
            rows = "1 row" if blank.sum() == 1 else f"{blank.sum():,} rows"
            lacking.append(f"no “{name}” in {rows}, the first is {table.where(int(np.argmax(blank)))}")
        keep &= ~blank
    if not keep.any():
        raise DataError(
            f"{table.path.name} has no usable rows",
            f"{table.path}: {'; '.join(lacking)}.",
            (Fix("Fill in the images and labels, or choose other columns"),),
        )
    return np.flatnonzero(keep), (f"Left out: {'; '.join(lacking)}.",) if lacking else ()


def _located(paths: Sequence[str], base: Path) -> list[Path]:
    """Absolute paths; those a Windows program wrote are read elsewhere, too."""
    return [_locate(path.strip(), base) for path in paths]


def _locate(text: str, base: Path) -> Path:
    if os.sep == "/" and "\\" in text and not (base / text).exists():
        text = text.replace("\\", "/")
    return base / without_tilde(text)
