"""CSV and its relatives: the delimiter and the quoting are read off the content."""

import csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from core.engine.data.file_kinds import ENDINGS, mismatch
from core.engine.data.parsed_rows import ParsedRows
from core.errors import DataError, Fix

DELIMITERS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "CSV with bars"}
SAMPLE_CHARACTERS = 1 << 16
SAMPLE_ROWS = 100
BLOCK_BYTES = 16 * 2**20
"""Read at once; no single row may be longer."""
RAGGED_SHARE = 0.01
"""Up to this share, rows that don't fit the header are left out with a note; beyond, the file is refused."""

_Quoting = Literal[0, 3]
"""csv.QUOTE_MINIMAL and csv.QUOTE_NONE."""


@dataclass(frozen=True)
class _Reading:
    """A file split one way: its header, the rows that fit it, and Arrow's account of those that don't."""

    header: list[str]
    table: pa.Table
    ragged: list[Any]


def parse(path: Path, text: str) -> ParsedRows:
    """Split a text into rows and columns; every value stays a text.

    Raises:
        DataError: There are no rows below the header, column names repeat, or rows don't fit the header.
    """
    start = text.lstrip("\r\n")
    lines_before = text.count("\n", 0, len(text) - len(start))
    delimiter = _delimiter(path, start)
    reading = _read_best(path, start, delimiter)
    _refuse_repeated(path, reading.header)
    if reading.table.num_rows == 0 and not reading.ragged:
        raise DataError(
            f"{path.name} has a header but no rows",
            f"{path}: the only row names the columns {', '.join(reading.header)}.",
            (Fix("Choose a file with rows below its header"),),
        )
    _refuse_ragged(path, reading, lines_before)
    unnamed = [number for number, name in enumerate(reading.header, 1) if not name]
    names = [name or f"column {number}" for number, name in enumerate(reading.header, 1)]
    notes = [f"Column {number} has no name; it is called “column {number}”." for number in unnamed]
    if reading.ragged:
        notes.append(_ragged_note(path, reading, lines_before))
    rows = np.arange(2, reading.table.num_rows + len(reading.ragged) + 2)
    kept = np.setdiff1d(rows, [row.number for row in reading.ragged]) + lines_before
    return ParsedRows(reading.table.rename_columns(names), kept, DELIMITERS[delimiter], "row", tuple(notes))


def _delimiter(path: Path, text: str) -> str:
    """The delimiter that splits the first rows most evenly into two columns or more."""
    sample = text[:SAMPLE_CHARACTERS]
    best, best_share = "", 0.0
    for delimiter in DELIMITERS:
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            share = _even_share(sample, delimiter, quoting)
            if share > best_share:
                best, best_share = delimiter, share
    if best_share > 0.5:
        return best
    ending = path.suffix.lower()
    if ending in ENDINGS:  # a single column, or a file that will be refused with its first ragged row named
        return best or ("\t" if ending in (".tsv", ".tab") else ",")
    raise mismatch(
        path,
        "neither CSV, TSV, JSON, JSONL nor Parquet: its lines have no common columns",
        "Choose a table with a column of texts and one of labels",
    )


def _even_share(sample: str, delimiter: str, quoting: _Quoting) -> float:
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, quoting=quoting)
    try:
        rows = [row for row in islice(reader, SAMPLE_ROWS) if row]
    except csv.Error:  # a field beyond csv's limit: certainly not the right quoting
        return 0.0
    if not rows or len(rows[0]) < 2:
        return 0.0
    complete = rows[1:-1] or rows[1:] or rows  # the last one may be cut off by the sample's end
    return sum(len(row) == len(rows[0]) for row in complete) / len(complete)


def _is_well_quoted(text: str, delimiter: str) -> bool:
    """Whether every field that opens with a quote closes with one, as RFC 4180 has it."""
    mark = re.escape(delimiter)
    field = rf'(?:"(?:[^"]|"")*+"|[^"{mark}\r\n][^{mark}\r\n]*+|)'
    return re.fullmatch(rf"(?:{field}(?:[{mark}\r\n]|\Z))*+", text) is not None


def _read_best(path: Path, text: str, delimiter: str) -> _Reading:
    """Read with quotes as marks where they are used as such throughout, else as plain characters.

    Where neither holds, as when a few rows of a quoted file are broken, the reading with fewer ragged rows counts.

    Raises:
        DataError: A row is too long to be one.
    """
    if '"' not in text:
        return _read(path, text, delimiter, csv.QUOTE_NONE)
    if _is_well_quoted(text, delimiter):
        return _read(path, text, delimiter, csv.QUOTE_MINIMAL)
    plain = _read(path, text, delimiter, csv.QUOTE_NONE)
    if not plain.ragged:
        return plain
    try:
        quoted = _read(path, text, delimiter, csv.QUOTE_MINIMAL)
    except DataError:  # a quote that is never closed swallows the rest of the file
        return plain
    return quoted if len(quoted.ragged) < len(plain.ragged) else plain


def _read(path: Path, text: str, delimiter: str, quoting: _Quoting) -> _Reading:
    """Split header and rows; every value stays the text it is in the file."""
    is_quoted = quoting == csv.QUOTE_MINIMAL
    ragged: list[Any] = []

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip"

    try:
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting))
        keys = [str(number) for number in range(len(header))]
        table = arrow_csv.read_csv(
            io.BytesIO(text.encode()),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=keys, skip_rows_after_names=1
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if is_quoted else False,
                newlines_in_values=is_quoted,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False
            ),
        )
    except (csv.Error, pa.ArrowInvalid) as error:
        raise DataError(
            f"{path.name} can't be split into rows",
            f"{path}: a row seems to be longer than {BLOCK_BYTES >> 20} MiB; a quote may be left open ({error}).",
            (Fix('Close every text that begins with a " by another one'),),
        ) from error
    return _Reading([name.strip() for name in header], table, ragged)


def _refuse_repeated(path: Path, header: list[str]) -> None:
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    if repeated:
        places = [str(number) for number, name in enumerate(header, 1) if name == repeated[0]]
        raise DataError(
            f"{path.name} has two columns called “{repeated[0]}”",
            f"{path}, row 1: columns {' and '.join(places)} have the same name.",
            (Fix("Give every column a name of its own in the first row"),),
        )


def _refuse_ragged(path: Path, reading: _Reading, lines_before: int) -> None:
    ragged = reading.ragged
    if len(ragged) <= RAGGED_SHARE * (reading.table.num_rows + len(ragged)):
        return
    first, number = ragged[0], ragged[0].number + lines_before
    rows = "1 row doesn't" if len(ragged) == 1 else f"{len(ragged):,} rows don't"
    raise DataError(
        f"{path.name}, row {number:,} has {_columns(first.actual_columns)}, the header {len(reading.header)}",
        f"{path}: {rows} fit the header ({', '.join(reading.header)}). A text that contains the delimiter must "
        f"stand in double quotes. Row {number:,} begins: {first.text[:80]}",
        (Fix(f"Mend row {number:,} in a spreadsheet or a text editor"),),
    )


def _ragged_note(path: Path, reading: _Reading, lines_before: int) -> str:
    rows = "1 row was" if len(reading.ragged) == 1 else f"{len(reading.ragged):,} rows were"
    return (
        f"{rows} left out of {path.name} for a number of columns other than the header's; "
        f"the first is row {reading.ragged[0].number + lines_before:,}."
    )


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
