"""A run's figures as a Parquet file: the table of `core.metrics_table`, written in parts. Imports pyarrow: late."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from core.files import written_whole
from core.metrics_table import MetricsTable
from core.targets import writing

ROWS_AT_ONCE = 1 << 16

TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def save_parquet(table: MetricsTable, path: Path) -> int:
    """Save a table, whole or not at all, over whatever is at `path`; returns how many rows it has.

    Raises:
        RunFolderError: The run can't be read.
        TargetError: The table can't be written there.
        UserError: It can't be written: the disk is full.
    """
    schema = pa.schema([pa.field(column.name, TYPES[column.kind]) for column in table.columns])
    count = 0
    with (
        writing(path),
        written_whole(path) as temporary,
        parquet.ParquetWriter(temporary, schema) as file,
    ):
        for batch in _batches(table, schema):
            file.write_batch(batch)
            count += batch.num_rows
    return count


def _batches(table: MetricsTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = table.rows()
    while part := list(islice(rows, ROWS_AT_ONCE)):
        columns = zip(*part, strict=True)
        arrays = [pa.array(cells, one.type) for cells, one in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
