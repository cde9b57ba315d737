"""Rows of a Parquet file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from core.ceiling import Pace, reading, say
from core.engine.data.headers import refuse_repeated
from core.engine.data.parsed_rows import ParsedRows, Shelf
from core.engine.data.text_files import Passes
from core.errors import DataError, Fix

BATCH_ROWS = 16_384


def open_parquet(path: Path) -> parquet.ParquetFile:
    """Open a file by what stands at its end.

    Raises:
        DataError: It is damaged or cut short.
    """
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


def unpacked_size(file: parquet.ParquetFile) -> int:
    """How many bytes its columns take up when they aren't compressed, at the least: what repeats may count once."""
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    cells = file.metadata.num_rows * file.metadata.num_columns
    return max(sum(group.total_byte_size for group in groups), cells)


def parse(path: Path, file: parquet.ParquetFile, passes: Passes, shelf: Shelf) -> ParsedRows:
    """Read its rows, some thousands at a time.

    Raises:
        DataError: A column is damaged, or two have the same name.
    """
    refuse_repeated(path, file.schema_arrow.names, "")
    schema = file.schema_arrow
    rows, done = shelf.writer(schema), 0
    passes.begin()
    try:
        for batch in _read(path, file):
            batch.validate(full=True)  # a text that isn't one would fall over whoever reads it
            numbers = np.arange(done + 1, done + batch.num_rows + 1)
            rows.add(pa.RecordBatch.from_arrays(batch.columns, schema=schema), numbers)
            done += batch.num_rows
            passes.at(path.stat().st_size * done // max(1, file.metadata.num_rows))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    return ParsedRows(rows, "Parquet", "row")


def _read(path: Path, file: parquet.ParquetFile) -> Iterator[pa.RecordBatch]:
    with reading(path.name):
        for number, batch in enumerate(file.iter_batches(BATCH_ROWS), 1):
            say(f"Row {number * BATCH_ROWS + 1:,} and on of {path.name}", Pace.SLOW)
            yield batch


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path.name} is damaged",
        f"{path} begins as a Parquet file but can't be read: {error}",
        (Fix("Get the file again"),),
    )
