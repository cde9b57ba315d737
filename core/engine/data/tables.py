"""A table of the person's: CSV, TSV, JSON, JSONL or Parquet, told apart by content as well as by ending.

Arrow reads the files; docs/decisions/0008-tables-by-arrow.md says why not `datasets`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data import delimited, json_rows
from core.engine.data.file_kinds import ENDINGS, Kind, is_parquet, mismatch, read_text
from core.errors import DataError, Fix


@dataclass(frozen=True)
class Table:
    """Rows and named columns as an Arrow table; delimited files hold text only.

    `numbers` says which row (or line, or record: `row_word`) of the file each row is.
    """

    path: Path
    format: str
    rows: pa.Table = field(repr=False)
    numbers: np.ndarray[Any, np.dtype[np.int64]] = field(repr=False)
    row_word: str
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self.rows.column_names)

    def where(self, index: int) -> str:
        """Where a row stands, such as "row 17 of reviews.csv"."""
        return f"{self.row_word} {self.numbers[index]:,} of {self.path.name}"

    def first(self, count: int | None) -> "Table":
        """The table cut to its first `count` rows; None keeps all."""
        if count is None or count >= self.rows.num_rows:
            return self
        cut = self.rows.slice(0, count)
        return Table(self.path, self.format, cut, self.numbers[:count], self.row_word, self.notes)


def read_table(path: Path) -> Table:
    """Read a whole file of rows into memory.

    Row numbers are those of the file: a header is row 1. Rows without any value are passed over.

    Raises:
        DataError: The file is missing, empty, damaged, or not what its ending says.
    """
    try:
        content = path.read_bytes()
    except IsADirectoryError as error:
        raise DataError(
            f"{path.name} is a folder",
            f"{path}: text classification reads one file of rows.",
            (Fix("Choose a CSV, TSV, JSON, JSONL or Parquet file"),),
        ) from error
    except FileNotFoundError as error:
        raise DataError(f"There is no {path.name}", f"{path} doesn't exist.") from error
    except OSError as error:
        raise DataError(f"{path.name} can't be read", f"{path}: {error.strerror or error}") from error
    if not content:
        raise DataError(f"{path.name} is empty", f"{path} holds 0 bytes.", (Fix("Choose another file"),))
    table = _read_parquet(path) if is_parquet(path, content) else _read_text_table(path, content)
    if table.rows.num_rows == 0:
        raise DataError(f"{path.name} has no rows", f"{path} names columns but holds no rows.")
    return _without_blank_rows(table)


def _read_parquet(path: Path) -> Table:
    from pyarrow import parquet

    try:
        rows = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path.name} is damaged",
            f"{path} begins as a Parquet file but can't be read: {error}",
            (Fix("Get the file again"),),
        ) from error
    return Table(path, "Parquet", rows, np.arange(1, rows.num_rows + 1), "row")


def _read_text_table(path: Path, content: bytes) -> Table:
    text = read_text(path, content)
    notes = (text.note,) if text.note else ()
    expected = ENDINGS.get(path.suffix.lower())
    is_json = json_rows.looks_like_json(text.content)
    if expected is Kind.DELIMITED and is_json:
        raise mismatch(path, "a JSON file", "Rename it to end in .json or .jsonl")
    if expected is Kind.JSON_LINES:
        found = json_rows.parse_lines(path, text.content)
    elif expected is Kind.JSON or is_json:
        found = json_rows.parse_array(path, text.content)
    else:
        found = delimited.parse(path, text.content)
    return Table(path, found.format, found.table, found.numbers, found.row_word, (*notes, *found.notes))


def _without_blank_rows(table: Table) -> Table:
    """Drop rows in which every value is missing or an empty text, as a blank line makes them."""
    blank = None
    for column in table.rows.columns:
        empty = column.is_null()
        if pa.types.is_string(column.type):
            empty = pc.or_(empty, pc.equal(pc.fill_null(column, ""), ""))
        blank = empty if blank is None else pc.and_(blank, empty)
    if blank is None or not pc.any(blank).as_py():
        return table
    keep = pc.invert(blank)
    numbers = table.numbers[keep.to_numpy()]
    return Table(table.path, table.format, table.rows.filter(keep), numbers, table.row_word, table.notes)
