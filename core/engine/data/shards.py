"""Several files with the same columns as one table: the parts of a large one, as data sets of the Hub come."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from core.engine.data.column_names import listed
from core.engine.data.splits import EVAL_SPLIT, TRAIN_SPLIT, HeldOut, files_of, header_asked
from core.engine.data.tables import Table, read_table
from core.engine.data.text_files import Tell
from core.errors import DataError, Fix
from core.options import DataOptions

_RECENT: WeakValueDictionary[tuple[Any, ...], Table] = WeakValueDictionary()
"""Tables that somebody holds: looking into one takes several steps, and each would read it anew."""


@dataclass(frozen=True, eq=False)
class Shards(Table):
    """Several files, one after the other. Row numbers go on from file to file; `where` tells the file and its own row.

    `first_rows` has the index of each file's first row, and `last_numbers` what the numbers of those before came to.
    """

    files: tuple[Path, ...] = field(kw_only=True)
    first_rows: tuple[int, ...] = field(kw_only=True)
    last_numbers: tuple[int, ...] = field(kw_only=True)

    def where(self, index: int) -> str:
        """Where a row stands, such as "row 17 of train-00001-of-00002.parquet"."""
        at = int(np.searchsorted(self.first_rows, index, side="right")) - 1
        return f"{self.row_word} {self.numbers[index] - self.last_numbers[at]:,} of {self.files[at].name}"


def read_training(data: DataOptions, progress: Tell | None = None) -> Table:
    """The rows of a run's training data, all of them.

    Raises:
        DataError: They can't be read, or there is no such split.
    """
    files = files_of(data.train, data.train_split, TRAIN_SPLIT)
    return read_files(files, progress, header=header_asked(data.header))


def read_held_out(found: HeldOut, progress: Tell | None = None) -> Table:
    """The rows that a run is evaluated on.

    Raises:
        DataError: They can't be read, or there is no such split.
    """
    return read_files(files_of(found.source, found.split, EVAL_SPLIT), progress, header=found.header)


def read_files(files: Sequence[Path], progress: Tell | None = None, *, header: bool | None = None) -> Table:
    """One file, or several as one table.

    Args:
        files: In order.
        progress: As `read_table` takes it.
        header: As `read_table` takes it.

    Raises:
        DataError: One can't be read, or their columns differ.
    """
    key = (*_standing(files), header)
    found = _RECENT.get(key)
    if found is None:
        found = _RECENT[key] = (
            read_table(files[0], progress, header=header)
            if len(files) == 1
            else _together(files, progress, header)
        )
    return found


def _standing(files: Sequence[Path]) -> tuple[Any, ...]:
    """What says that files are still those that were read; nothing is found by it where one is missing."""
    try:
        found = [path.stat() for path in files]
    except OSError:
        return (object(),)
    return tuple((path, one.st_size, one.st_mtime_ns) for path, one in zip(files, found, strict=True))


def _together(files: Sequence[Path], progress: Tell | None, header: bool | None) -> Table:
    tables = [
        read_table(path, _part(progress, place, len(files)), header=header)
        for place, path in enumerate(files)
    ]
    first = tables[0]
    for table in tables[1:]:
        _refuse_other_columns(first, table)
    try:
        rows = pa.concat_tables([table.rows for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"The files of {files[0].parent.name} don't go together",
            f"{files[0].parent}: a column holds different kinds of values: {error}",
            (Fix("Choose one of the files"),),
        ) from error
    counts = [table.rows.num_rows for table in tables]
    ends = [int(table.numbers[-1]) for table in tables]
    before = (0, *accumulate(ends[:-1]))
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    return Shards(
        path=files[0].parent / f"{files[0].name} and {len(files) - 1} more",
        format=first.format,
        rows=rows,
        numbers=np.concatenate([table.numbers + start for table, start in zip(tables, before, strict=True)]),
        row_word=first.row_word,
        notes=tuple(notes),
        reading=first.reading,
        files=tuple(files),
        first_rows=(0, *accumulate(counts[:-1])),
        last_numbers=before,
    )


def _part(progress: Tell | None, place: int, parts: int) -> Tell | None:
    """Progress of one file of several, which count alike: their sizes unpacked aren't known before."""
    if progress is None:
        return None
    return lambda done, total: progress(place * total + done, parts * total)


def _refuse_other_columns(first: Table, other: Table) -> None:
    if set(first.columns) != set(other.columns):
        raise DataError(
            f"{other.path.name} has other columns than {first.path.name}",
            f"{other.path} has {listed(other.columns)}; {first.path.name} has {listed(first.columns)}.",
            (Fix("Choose one of the files"),),
        )
