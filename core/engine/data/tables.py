"""A table of the person's: CSV, TSV, JSON, JSONL, CoNLL or Parquet, told apart by content as well as by ending.

Arrow reads the files; docs/decisions/0008-tables-by-arrow.md says why not `datasets`. What is large is read block by
block into a file of the cache and mapped into memory.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from core import settings
from core.engine.data import conll, delimited, json_rows, parquet_rows
from core.engine.data.file_kinds import ENDINGS, Kind, ending, is_parquet, mismatch
from core.engine.data.how_read import Reading, of_text
from core.engine.data.parsed_rows import Numbers, ParsedRows, Shelf
from core.engine.data.table_cache import (
    CacheUnusableError,
    MemoryShelf,
    StoredRows,
    TableCache,
    cache_key,
)
from core.engine.data.text_encoding import open_text
from core.engine.data.text_files import Passes, Tell, TextFile, first_bytes, size_of
from core.errors import DataError, Fix

LARGE_BYTES = 32 * 2**20
"""Files that are as large when unpacked go through the cache instead of through memory."""
HEAD_CHARACTERS = 1 << 20
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and named columns as an Arrow table; delimited files hold text only.

    `numbers` says which row (or line, or record: `row_word`) of the file each row is, `reading` how it was read.
    """

    path: Path
    format: str
    rows: pa.Table = field(repr=False)
    numbers: Numbers = field(repr=False)
    row_word: str
    notes: tuple[str, ...] = ()
    reading: Reading = field(default_factory=dict)

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
        return replace(self, rows=self.rows.slice(0, count), numbers=self.numbers[:count])


def read_table(path: Path, progress: Tell | None = None, *, header: bool | None = None) -> Table:
    """Read a whole file of rows; a large one costs time and disk, but next to no memory.

    Row numbers are those of the file: a header is row 1. Rows without any value are passed over.

    Args:
        path: The file, which may be compressed with gzip.
        progress: Called with the bytes done and the bytes to go through, which is more than once the file.
        header: Whether the first row of a delimited file names the columns; None finds out.

    Raises:
        DataError: The file is missing, empty, damaged, or not what its ending says.
    """
    passes = Passes(size_of(path), progress)
    cache = TableCache(settings.home() / "cache" / "tables")
    try:
        key = cache_key(path, f"header={header}")
        found = cache.find(key) or _read(path, header, passes, cache, key)
    except FileNotFoundError as error:
        raise _changed(path) from error
    passes.end()
    if found.rows.num_rows == 0:
        raise DataError(f"{path.name} has no rows", f"{path} names columns but holds no rows.")
    return Table(path, found.format, found.rows, found.numbers, found.row_word, found.notes, found.reading)


def _read(path: Path, header: bool | None, passes: Passes, cache: TableCache, key: str) -> StoredRows:
    """Read a file whose rows aren't in the cache yet."""
    size, parse = _parser(path, header, passes)

    def rows(shelf: Shelf) -> ParsedRows:
        found = parse(shelf)
        if cache_key(path, f"header={header}") != key:
            raise _changed(path)
        return found

    if size >= LARGE_BYTES:
        try:
            with cache.shelf(key) as shelf:
                found = shelf.finish(rows(shelf))
            pa.default_memory_pool().release_unused()
        except CacheUnusableError as error:
            LOG.warning("%s is read into memory, because %s can't be written: %s", path, cache.folder, error)
        else:
            return found
    memory = MemoryShelf()
    return memory.finish(rows(memory))


def _parser(path: Path, header: bool | None, passes: Passes) -> tuple[int, Callable[[Shelf], ParsedRows]]:
    """How many bytes a file has when it is unpacked, and what puts its rows on a shelf."""
    if is_parquet(path, first_bytes(path)):
        file = parquet_rows.open_parquet(path)
        return parquet_rows.unpacked_size(file), partial(parquet_rows.parse, path, file, passes)
    source = open_text(path, passes)
    return source.size, partial(_parse_text, source, header)


def _parse_text(source: TextFile, header: bool | None, shelf: Shelf) -> ParsedRows:
    path, head = source.path, source.head(HEAD_CHARACTERS)
    expected = ENDINGS.get(ending(path))
    is_json = json_rows.looks_like_json(head)
    if expected is Kind.DELIMITED and is_json:
        raise mismatch(path, "a JSON file", "Rename it to end in .json or .jsonl")
    if expected in (Kind.JSON, Kind.JSON_LINES) or is_json:
        found = json_rows.parse(source, shelf, prefers_lines=expected is Kind.JSON_LINES)
    elif expected is Kind.CONLL or conll.looks_like_conll(path, head):
        found = conll.parse(source, shelf)
    else:
        found = delimited.parse(source, shelf, header)
    reading = {**of_text(source), **found.reading}
    return replace(found, notes=(*source.notes, *found.notes), reading=reading)


def _changed(path: Path) -> DataError:
    return DataError(
        f"{path.name} changed while it was read",
        f"{path} is being written or was replaced.",
        (Fix("Wait until it is whole, and try again"),),
    )
