"""Where the rows of a table are while and after it is read: small ones in memory, large ones in a file of the cache.

A file of the cache is in Arrow's file format and mapped into memory: rows are fetched from disk as they are needed, so
that a table of any size costs next to no memory. Its last batch is empty and carries what isn't rows. It is made
under another name and renamed when it is whole; its key holds all it depends on, so that it is never out of date.
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from core.ceiling import RESERVE, RESERVE_SHARE
from core.engine.data.parsed_rows import Numbers, ParsedRows, without_blank_rows
from core.errors import DataError, Fix
from core.figures import size

LIMIT_BYTES = 8 * 2**30
"""All files together; the one that wasn't used for longest goes first."""
UNFINISHED_SECONDS = 86_400.0
"""After so long a file that was never finished belongs to a process that is gone."""
FORMAT = "3"
"""Raise it whenever the same file would be read as other rows or notes."""
LOG = logging.getLogger(__name__)


class CacheUnusableError(Exception):
    """The cache can't be written to; the table has to be read into memory."""


@dataclass(frozen=True)
class StoredRows:
    """A table's rows and all that is known of them beside the path."""

    rows: pa.Table = field(repr=False)
    numbers: Numbers = field(repr=False)
    format: str
    row_word: str
    notes: tuple[str, ...]
    reading: Mapping[str, str] = field(default_factory=dict)


class MemoryShelf:
    """Keeps rows in memory."""

    is_on_disk = False

    def writer(self, schema: pa.Schema) -> "MemoryRows":
        """A place for the rows of one more reading."""
        return MemoryRows(schema)

    def finish(self, found: ParsedRows) -> StoredRows:
        """The rows of the reading that counts."""
        assert isinstance(found.rows, MemoryRows), "it was made by this shelf"
        rows, numbers = found.rows.taken()
        return StoredRows(rows, numbers, found.format, found.row_word, found.notes, found.reading)


class MemoryRows:
    """The rows of one reading, in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._numbers: list[Numbers] = [np.zeros(0, np.int64)]

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Keep further rows."""
        rows, numbers = without_blank_rows(rows, numbers)
        self._batches.append(rows)
        self._numbers.append(numbers)

    def discard(self) -> None:
        """Forget the rows."""
        self._batches.clear()

    def taken(self) -> tuple[pa.Table, Numbers]:
        """All rows, and their places in the file."""
        return pa.Table.from_batches(self._batches, self._schema), np.concatenate(self._numbers)


@dataclass(frozen=True)
class TableCache:
    """Tables in files of a folder, which may be removed at any time. `limit` is in bytes."""

    folder: Path
    limit: int = LIMIT_BYTES

    def find(self, key: str) -> StoredRows | None:
        """The table kept for a key; a damaged file is taken away."""
        path = self.folder / f"{key}.arrow"
        if not path.exists():
            return None
        try:
            found = _stored(path)
            os.utime(path)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            LOG.warning("%s can't be used, the table is read again: %s", path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return found

    def shelf(self, key: str) -> "DiskShelf":
        """Where to keep the rows of a table while it is read; use it in a `with`, which leaves nothing unfinished."""
        return DiskShelf(self, key)

    def make_room(self, newest: Path) -> None:
        """Take the oldest files away until the rest is within the limit; the newest one stays."""
        with contextlib.suppress(OSError):  # of another process that reads or removes it
            for path in self.folder.glob("*.unfinished"):
                if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                    path.unlink(missing_ok=True)
            files = sorted(self.folder.glob("*.arrow"), key=lambda path: path.stat().st_mtime)
            size = sum(path.stat().st_size for path in files)
            for path in files:
                if size > self.limit and path != newest:
                    size -= path.stat().st_size
                    path.unlink(missing_ok=True)


class DiskShelf:
    """Keeps rows in files of the cache."""

    is_on_disk = True

    def __init__(self, cache: TableCache, key: str) -> None:
        self._cache, self._key = cache, key
        self._writers: list[DiskRows] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers:
            writer.discard()

    def writer(self, schema: pa.Schema) -> "DiskRows":
        """A place for the rows of one more reading."""
        with _as_unusable():
            self._cache.folder.mkdir(parents=True, exist_ok=True)
            path = self._cache.folder / f"{self._key}.{uuid.uuid4().hex[:12]}.unfinished"
            self._writers.append(DiskRows(path, schema))
        return self._writers[-1]

    def finish(self, found: ParsedRows) -> StoredRows:
        """The rows of the reading that counts, from the file that is kept from now on."""
        assert isinstance(found.rows, DiskRows), "it was made by this shelf"
        target = self._cache.folder / f"{self._key}.arrow"
        with _as_unusable():
            about = {"format": found.format, "row_word": found.row_word, "notes": list(found.notes)}
            found.rows.finish({**about, "reading": dict(found.reading)}, target)
            self._cache.make_room(target)
            return _stored(target)


class DiskRows:
    """The rows of one reading, in a file that isn't finished yet."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema.append(pa.field("", pa.int64()))
        self._file = path.open("xb")
        self._writer = pa.ipc.new_file(self._file, self._schema)

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Write further rows."""
        rows, numbers = without_blank_rows(rows, numbers)
        room = shutil.disk_usage(self._path.parent)
        if room.free < min(RESERVE, RESERVE_SHARE * room.total):
            raise DataError(
                "The disk has no room for the rows of this table",
                f"{size(room.free)} are free where tables are kept while they are read ({self._path.parent}).",
                (Fix("Make room there, or choose a smaller table"),),
            )
        columns = [*rows.columns, pa.array(numbers, pa.int64())]
        with _as_unusable():
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def discard(self) -> None:
        """Take the file away, where it wasn't finished."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def finish(self, about: dict[str, Any], target: Path) -> None:
        """Write what isn't rows, and give the file its name."""
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in self._schema], schema=self._schema
        )
        self._writer.write_batch(nothing, custom_metadata={"about": json.dumps(about)})
        self._writer.close()
        self._file.close()
        try:
            self._path.replace(target)
        except PermissionError:  # Windows, where another process has read and mapped the same table meanwhile
            if not target.exists():
                raise


def cache_key(path: Path, *reading: str) -> str:
    """What a table depends on, as 32 hexadecimal digits: the file, its size and time, and how it is read.

    Raises:
        OSError: The file is gone.
    """
    found = path.stat()
    parts = (FORMAT, str(path.resolve()), str(found.st_size), str(found.st_mtime_ns), *reading)
    return hashlib.blake2b("\0".join(parts).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _stored(path: Path) -> StoredRows:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    _, metadata = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    about = json.loads(metadata[b"about"])
    whole = reader.read_all()
    last = whole.num_columns - 1
    numbers = whole.column(last).to_numpy()
    rows, notes = whole.remove_column(last), tuple(about["notes"])
    return StoredRows(rows, numbers, about["format"], about["row_word"], notes, about["reading"])


@contextlib.contextmanager
def _as_unusable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CacheUnusableError(str(error)) from error
