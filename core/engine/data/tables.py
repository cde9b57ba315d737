"""Tables: CSV, TSV, JSON, JSONL, CoNLL or Parquet, recognized by content as well as by file name extension.

Arrow reads the files; docs/decisions/data.md says why not `datasets`. What is large is read block by
block into a file of the cache and mapped into memory.
"""

import contextlib
import hashlib
import io
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from core.base import formats, settings
from core.base.ceiling import Pace, reading, say
from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data import ANSWERS, PROMPT, TOKENS, delimited, json_files
from core.engine.data.exported_chats import parse_whatsapp
from core.engine.data.splits import EVAL_SPLIT, TRAIN_SPLIT, HeldOut, files_of, header_asked
from core.engine.data.text_files import (
    ENDINGS,
    LARGE_BYTES,
    NewWriter,
    Numbers,
    ParsedRows,
    Passes,
    Progress,
    Reading,
    ReadingNote,
    RowWriter,
    TableFormat,
    TextFile,
    UnreadRows,
    ending,
    first_bytes,
    is_parquet,
    listed,
    not_readable,
    of_text,
    open_text,
    refuse_bomb,
    refuse_names,
    size_of,
)
from core.options.data import DataOptions
from core.options.presets import is_whatsapp

if TYPE_CHECKING:
    from datasets import Dataset

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and named columns of one file or several; columns of delimited files are text.

    `numbers` says which row (or line, or record: `row_word`) each is. Over several files they go on from file to file:
    `files` has each file and the number before its first row. `reading` says how the first file was read. `unread` are
    the rows that could not be read: a run stops on them, or is told to leave them out.
    """

    path: Path
    format: str
    rows: pa.Table = field(repr=False)
    numbers: Numbers = field(repr=False)
    row_word: str
    notes: tuple[ReadingNote, ...] = ()
    reading: Reading = field(default_factory=dict)
    files: tuple[tuple[Path, int], ...] = ()
    unread: tuple[UnreadRows, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows.column_names)

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(note.message for note in self.notes)

    def where(self, index: int) -> str:
        """Returns the place of a row, such as "row 17 of reviews.csv"."""
        number = int(self.numbers[index])
        path, before = next((file for file in reversed(self.files) if file[1] < number), (self.path, 0))
        row = formats.places(self.row_word, (number - before,))
        return _("{row} of {name}").format(row=row, name=path.name)

    def first(self, count: int | None) -> "Table":
        """Returns the table cut to its first `count` rows; None: all."""
        if count is None or count >= self.rows.num_rows:
            return self
        numbers = self.numbers[:count]
        before = (
            replace(rows, numbers=tuple(number for number in rows.numbers if number < numbers[-1]))
            for rows in self.unread
        )
        unread = tuple(rows for rows in before if rows.numbers)
        return replace(self, rows=self.rows.slice(0, count), numbers=numbers, unread=unread)


# --- One file


HEAD_CHARACTERS = 1 << 20


def read_table(path: Path, progress: Progress | None = None, *, header: bool | None = None) -> Table:
    """Reads a whole file of rows; a large one costs time and disk, but next to no memory.

    Row numbers are those of the file: a header is row 1. Rows without any value are passed over; those that could not
    be read are named in `unread`.

    Args:
        path: The file, which may be compressed with gzip.
        progress: Called with the bytes done and the bytes in all, which are several times those of the file.
        header: Whether the first row of a delimited file names the columns; None finds out.

    Raises:
        DataError: The file is missing, empty, damaged, or not what its extension says; or the cache can't be written.
    """
    passes = Passes(size_of(path), progress)
    folder = settings.home() / "cache" / "tables"
    stored = folder / f"{_cache_key(path, header)}.arrow"
    try:
        table = _from_cache(path, stored) or _read_file(path, header, passes, stored)
    except OSError as error:
        raise DataError(
            _("The rows of {name} can't be stored").format(name=path.name),
            _("{path} is large and is read into {folder}: {error}.").format(
                path=path, folder=folder, error=error
            ),
            (Fix(_("Allow yourself to write there, and make sure that the disk isn't full")),),
        ) from error
    passes.end()
    if table.rows.num_rows == 0:
        raise DataError(
            _("{name} has no rows").format(name=path.name),
            _("{path} names columns but contains no rows.").format(path=path),
        )
    return table


def _read_file(path: Path, header: bool | None, passes: Passes, stored: Path) -> Table:
    """Reads all rows: into memory, or if they are large into the file `stored` of the cache."""
    parse: Callable[[NewWriter], ParsedRows]
    if is_parquet(path, first_bytes(path)):
        file = open_parquet(path)
        size, parse = _unpacked_size(file), partial(_parse_parquet, path, file, passes)
    else:
        source = open_text(path, passes)
        size, parse = source.size, partial(_parse_text, source, header)
    folder = stored.parent if size >= LARGE_BYTES else None
    writers: list[RowWriter] = []

    def new_writer(schema: pa.Schema) -> RowWriter:
        unfinished = None
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f"{stored.stem}.{uuid.uuid4().hex[:12]}.unfinished"
        writers.append(RowWriter(schema, unfinished))
        return writers[-1]

    try:
        parsed = parse(new_writer)
        if _cache_key(path, header) != stored.stem:
            raise _changed(path)
        about = {
            "format": parsed.format,
            "row_word": parsed.row_word,
            "notes": [asdict(note) for note in parsed.notes],
            "reading": dict(parsed.reading),
            "unread": [asdict(rows) for rows in parsed.unread],
        }
        table = _stored_table(path, parsed.rows.finish(about, stored))
    finally:
        for writer in writers:
            writer.discard()
    if folder:
        make_room(folder)
        pa.default_memory_pool().release_unused()
    return table


def _parse_text(source: TextFile, header: bool | None, new_writer: NewWriter) -> ParsedRows:
    path, head = source.path, source.head(HEAD_CHARACTERS)
    expected = ENDINGS.get(ending(path))
    is_json = json_files.looks_like_json(head)
    if expected is TableFormat.DELIMITED and is_json:
        raise not_readable(path, _("a JSON file"), _("Rename it to end in .json or .jsonl"))
    if expected in (TableFormat.JSON, TableFormat.JSON_LINES) or is_json:
        parsed = json_files.parse(source, new_writer, prefers_lines=expected is TableFormat.JSON_LINES)
    elif expected is None and is_whatsapp(head):
        parsed = parse_whatsapp(source, new_writer)
    elif expected is TableFormat.CONLL or delimited.looks_like_conll(path, head):
        parsed = delimited.parse_conll(source, new_writer)
    else:
        parsed = delimited.parse(source, new_writer, header)
    return replace(
        parsed, notes=(*source.notes, *parsed.notes), reading={**of_text(source), **parsed.reading}
    )


def _changed(path: Path) -> DataError:
    return DataError(
        _("{name} changed while it was read").format(name=path.name),
        _("{path} is being written or was replaced.").format(path=path),
        (Fix(_("Wait until it is complete, and try again")),),
    )


# --- Parquet


BATCH_ROWS = 16_384
BATCH_BYTES = 32 * 2**20
"""Batches of a file with images in it have fewer rows."""


def open_parquet(path: Path) -> parquet.ParquetFile:
    """Opens a file, of which the footer is read.

    Raises:
        DataError: It is damaged or cut short.
    """
    try:
        return parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


def _unpacked_size(file: parquet.ParquetFile) -> int:
    """Returns how many bytes its columns have at least when they aren't compressed; repeated values may count once."""
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    cells = file.metadata.num_rows * file.metadata.num_columns
    return max(sum(group.total_byte_size for group in groups), cells)


def _parse_parquet(
    path: Path, file: parquet.ParquetFile, passes: Passes, new_writer: NewWriter
) -> ParsedRows:
    """Reads the rows batch by batch, without dictionary encoding.

    Raises:
        DataError: A column is damaged, two have the same name, there are too many, or they unpack to too much.
    """
    refuse_names(path, file.schema_arrow.names)
    schema = file.schema_arrow
    for place, column in enumerate(schema):
        if pa.types.is_dictionary(column.type):
            schema = schema.set(place, column.with_type(column.type.value_type))
    rows, done, unpacked, total = new_writer(schema), 0, 0, file.metadata.num_rows
    batch_rows = min(BATCH_ROWS, max(1, BATCH_BYTES * total // max(1, _unpacked_size(file))))
    passes.begin()
    with reading(path.name):
        for batch in _batches(path, file, batch_rows):
            say(_("Row {number:,} and on of {name}").format(number=done + 1, name=path.name), Pace.SLOW)
            unpacked += batch.nbytes
            refuse_bomb(path, unpacked)
            rows.add(batch.cast(schema), np.arange(done + 1, done + batch.num_rows + 1))
            done += batch.num_rows
            passes.at(path.stat().st_size * done // max(1, total))
    return ParsedRows(rows, "Parquet", "row")


def _batches(path: Path, file: parquet.ParquetFile, rows: int) -> Iterator[pa.RecordBatch]:
    try:
        for batch in file.iter_batches(rows):
            batch.validate(full=True)  # invalid UTF-8 would make whatever reads it fail
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        _("{name} is damaged").format(name=path.name),
        _("{path} begins as a Parquet file but can't be read: {error}").format(path=path, error=error),
        (Fix(_("Download the file again")),),
    )


# --- The cache of tables, whose files may be removed at any time


LIMIT_BYTES = 8 * 2**30
"""Size of all files together; the least recently used are removed first."""
RECENT_SECONDS = 3600.0
"""Files used within this time stay: the parts of one large data set are read one after the other."""
UNFINISHED_SECONDS = 86_400.0
"""After this time an unfinished file belongs to a process that has ended."""
FORMAT = "9"
"""To be raised whenever the same file would be read as other rows or notes."""


def _cache_key(path: Path, header: bool | None) -> str:
    """Returns 32 hexadecimal digits for the file, its size and time, and how it is read.

    Raises:
        DataError: The file is gone.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise _changed(path) from error
    parts = (FORMAT, str(path.resolve()), str(status.st_size), str(status.st_mtime_ns), f"header={header}")
    return hashlib.blake2b("\0".join(parts).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _from_cache(path: Path, stored: Path) -> Table | None:
    """Returns the table in a file of the cache; a damaged file is removed."""
    if not stored.exists():
        return None
    try:
        table = _stored_table(path, pa.memory_map(str(stored)))
        os.utime(stored)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        LOG.warning("%s can't be used, the table is read again: %s", stored, error)
        with contextlib.suppress(OSError):
            stored.unlink()
        return None
    return table


def _stored_table(path: Path, source: Any) -> Table:
    reader = pa.ipc.open_file(source)
    _empty, metadata = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    about = json.loads(metadata[b"about"])
    rows = reader.read_all()
    last = rows.num_columns - 1
    return Table(
        path,
        about["format"],
        rows.remove_column(last),
        rows.column(last).to_numpy(),
        about["row_word"],
        tuple(ReadingNote(**note) for note in about["notes"]),
        about["reading"],
        unread=msgspec.convert(about["unread"], tuple[UnreadRows, ...]),
    )


def make_room(folder: Path, limit: int = LIMIT_BYTES) -> None:
    """Removes the least recently used files of a cache until it is within the limit in bytes."""
    with contextlib.suppress(OSError):  # another process reads or removes a file
        for path in folder.glob("*.unfinished"):
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                path.unlink(missing_ok=True)
        files = sorted(folder.glob("*.arrow"), key=lambda path: path.stat().st_mtime)
        size = sum(path.stat().st_size for path in files)
        for path in files:
            if size > limit and time.time() - path.stat().st_mtime > RECENT_SECONDS:
                size -= path.stat().st_size
                path.unlink(missing_ok=True)


# --- Several files as one table


_OPEN: WeakValueDictionary[tuple[Any, ...], Table] = WeakValueDictionary()
"""Tables in use: inspecting one takes several steps, each of which would read it again."""


def read_training(data: DataOptions, progress: Progress | None = None) -> Table:
    """Returns the rows of a run's training data.

    Raises:
        DataError: They can't be read, or there is no such split.
    """
    files = files_of(data.train, data.train_split, TRAIN_SPLIT)
    return read_files(files, progress, header=header_asked(data.header))


def read_held_out(held_out: HeldOut, progress: Progress | None = None) -> Table:
    """Returns the rows that a run is evaluated on.

    Raises:
        DataError: They can't be read, or there is no such split.
    """
    files = files_of(held_out.source, held_out.split, EVAL_SPLIT)
    return read_files(files, progress, header=held_out.header)


def read_files(
    files: Sequence[Path], progress: Progress | None = None, *, header: bool | None = None
) -> Table:
    """Reads one file, or several in order as one table; `progress` and `header` are as for `read_table`.

    Raises:
        DataError: One can't be read, or their columns differ.
    """
    sizes = tuple((size_of(path), path.stat().st_mtime_ns) for path in files)
    key = (*files, *sizes, header)
    table = _OPEN.get(key)
    if table is None:
        table = _OPEN[key] = (
            read_table(files[0], progress, header=header)
            if len(files) == 1
            else _concatenated(files, progress, header)
        )
    return table


def _concatenated(files: Sequence[Path], progress: Progress | None, header: bool | None) -> Table:
    tables: list[Table] = []
    for place, path in enumerate(files):  # files count alike: how large they are unpacked isn't known before

        def report(done: int, total: int, place: int = place) -> None:
            if progress:
                progress(place * total + done, len(files) * total)

        tables.append(read_table(path, report, header=header))
        if set(tables[-1].columns) != set(tables[0].columns):
            raise DataError(
                _("{name} has other columns than {first}").format(name=path.name, first=files[0].name),
                _("{path} has {columns}; {first} has {first_columns}.").format(
                    path=path,
                    columns=listed(tables[-1].columns),
                    first=files[0].name,
                    first_columns=listed(tables[0].columns),
                ),
                (Fix(_("Choose one of the files")),),
            )
    try:
        rows = pa.concat_tables([table.rows for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            _("The files of {name} have different types").format(name=files[0].parent.name),
            _("{parent}: a column contains different kinds of values: {error}").format(
                parent=files[0].parent, error=error
            ),
            (Fix(_("Choose one of the files")),),
        ) from error
    before = (0, *accumulate(int(table.numbers[-1]) for table in tables[:-1]))
    return replace(
        tables[0],
        path=files[0].parent / _("{name} and {files} more").format(name=files[0].name, files=len(files) - 1),
        rows=rows,
        numbers=np.concatenate([table.numbers + start for table, start in zip(tables, before, strict=True)]),
        notes=tuple(dict.fromkeys(note for table in tables for note in table.notes)),
        files=tuple(zip(files, before, strict=True)),
        unread=tuple(
            replace(rows, numbers=tuple(number + start for number in rows.numbers))
            for table, start in zip(tables, before, strict=True)
            for rows in table.unread
        ),
    )


# --- Tokens of texts, kept between runs


TOKENS_LIMIT_BYTES = 2 * 2**30
"""Size of all files together; the least recently used are removed first."""
TOKENS_FORMAT = "1"
TOKENS_LIBRARIES = ("transformers", "tokenizers", "datasets")


def cached_tokens(key: str, make: Callable[[], "Dataset"]) -> "Dataset":
    """Returns the result of `make` for this key, from the cache or made now."""
    from datasets import Dataset

    folder = settings.home() / "cache" / "tokens"
    path = folder / f"{key}.arrow"
    if path.exists():
        try:
            os.utime(path)
            return Dataset.from_file(str(path))
        except (OSError, pa.ArrowException) as error:
            LOG.warning("%s can't be used; the texts are tokenized again: %s", path, error)
    made = make()
    table = made.data.table
    if table.nbytes > TOKENS_LIMIT_BYTES:
        return made
    unfinished = folder / f"{key}.{uuid.uuid4().hex[:12]}.unfinished"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        unfinished.replace(path)
        make_room(folder, TOKENS_LIMIT_BYTES)
        return Dataset.from_file(str(path))
    except OSError as error:
        LOG.warning("Tokenized texts are not kept for the next run: %s", error)
        return made
    finally:
        if unfinished.exists():
            unfinished.unlink()


def tokens_key(texts: "Dataset", tokenizer: str, length: int) -> str:
    """Returns 32 hexadecimal digits for texts and how they are tokenized.

    Args:
        tokenizer: The result of `tokenizer_print`.
        length: Tokens at which they are cut off.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (TOKENS_FORMAT, *map(version, TOKENS_LIBRARIES), tokenizer, str(length)):
        digest.update(part.encode() + b"\0")
    with pa.ipc.new_stream(_Digesting(digest), texts.data.table.schema.remove_metadata()) as stream:
        stream.write_table(texts.data.table.replace_schema_metadata(None))
    return digest.hexdigest()


def tokenizer_print(tokenizer: Any) -> str:
    """Returns all that decides a tokenizer's tokens; empty for one written in Python, which can't be compared.

    To be called before it is used: tokenizing leaves the last length in it.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return ""
    parts = (type(tokenizer).__qualname__, tokenizer.truncation_side, *tokenizer.model_input_names)
    return "\0".join((*parts, hashlib.blake2b(backend.to_str().encode()).hexdigest()))


class _Digesting(io.RawIOBase):
    """A file for Arrow to write to, of which only the digest is kept."""

    def __init__(self, digest: "hashlib.blake2b") -> None:
        self._digest = digest

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)


def lengths_of(samples: Any) -> list[int] | None:
    """Returns tokens of each sample of a `datasets.Dataset`, in its order; None for samples that aren't texts.

    Of a pair of answers the longer one counts, with the prompt: both get rows of that length. Trainer would turn every
    sample into a list for it.
    """
    from datasets import Dataset

    if not isinstance(samples, Dataset):
        return None
    names = set(samples.column_names)
    if TOKENS not in names and PROMPT not in names:
        return None
    table = samples.with_format("arrow")[:]  # as a table, so that a selection of rows is heeded
    if TOKENS in names:
        return list(pc.list_value_length(table[TOKENS]).to_pylist())
    answers = (pc.list_value_length(table[name]) for name in ANSWERS if name in names)
    return list(pc.add(pc.list_value_length(table[PROMPT]), pc.max_element_wise(*answers)).to_pylist())
