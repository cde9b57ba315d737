"""What a parser makes of a file, whatever its form, and where its rows go as they are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class RowWriter(Protocol):
    """Takes the rows of one reading of a file, in order."""

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Keep further rows and the place each has in the file; blank ones are dropped."""

    def discard(self) -> None:
        """Forget them all: another reading was better."""


class Shelf(Protocol):
    """Where the rows of a table are kept while it is read: in memory, or on disk where they don't fit there."""

    is_on_disk: bool

    def writer(self, schema: pa.Schema) -> RowWriter:
        """A place for the rows of one more reading."""


@dataclass(frozen=True)
class ParsedRows:
    """Rows and named columns, with the place in the file each row has.

    Places are counted from 1 in what `row_word` says: rows of a delimited file (the header is row 1), lines of JSONL
    and CoNLL, records of JSON. `reading` says how it was read (`how_read`).
    """

    rows: RowWriter
    format: str
    row_word: str
    notes: tuple[str, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)


def without_blank_rows(rows: pa.RecordBatch, numbers: Numbers) -> tuple[pa.RecordBatch, Numbers]:
    """Drop rows in which every value is missing or an empty text, as a blank line makes them."""
    blank = None
    for column in rows.columns:
        empty = column.is_null()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            empty = pc.or_(empty, pc.equal(pc.fill_null(column, ""), ""))
        blank = empty if blank is None else pc.and_(blank, empty)
    if blank is None or not pc.any(blank).as_py():
        return rows, numbers
    keep = pc.invert(blank)
    return rows.filter(keep), numbers[keep.to_numpy(zero_copy_only=False)]
