"""A table of the person's: CSV, TSV, JSON, JSONL, CoNLL or Parquet, told apart by content as well as by ending.

Arrow reads the files; docs/decisions/data.md says why not `datasets`. What is large is read block by
block into a file of the cache and mapped into memory.
"""

import contextlib
import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from core.base import settings
from core.base.ceiling import Pace, reading, say
from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data import PAIR, TOKENS, delimited, json_files
from core.engine.data.splits import EVAL_SPLIT, TRAIN_SPLIT, HeldOut, files_of, header_asked
from core.engine.data.text_files import (
    ENDINGS,
    CacheUnusableError,
    Kind,
    NewWriter,
    Numbers,
    ParsedRows,
    Passes,
    Reading,
    RowWriter,
    Tell,
    TextFile,
    ending,
    first_bytes,
    is_parquet,
    listed,
    mismatch,
    of_text,
    open_text,
    refuse_repeated,
    size_of,
)
from core.options.data import DataOptions

if TYPE_CHECKING:
    from datasets import Dataset

# --- Rows of a Parquet file


BATCH_ROWS = 16_384
BATCH_BYTES = 32 * 2**20
"""Of a file with images in it, a batch has fewer rows."""


def open_parquet(path: Path) -> parquet.ParquetFile:
    """Open a file by what stands at its end.

    Raises:
        DataError: It is damaged or cut short.
    """
    try:
        return parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


def unpacked_size(file: parquet.ParquetFile) -> int:
    """How many bytes its columns take up when they aren't compressed, at the least: what repeats may count once."""
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    cells = file.metadata.num_rows * file.metadata.num_columns
    return max(sum(group.total_byte_size for group in groups), cells)


def _parse_parquet(
    path: Path, file: parquet.ParquetFile, passes: Passes, new_writer: NewWriter
) -> ParsedRows:
    """Read its rows, some thousands at a time; values that stand in a dictionary as they are.

    Raises:
        DataError: A column is damaged, or two have the same name.
    """
    refuse_repeated(path, file.schema_arrow.names, "")
    schema = file.schema_arrow
    for place, one in enumerate(schema):
        if pa.types.is_dictionary(one.type):
            schema = schema.set(place, one.with_type(one.type.value_type))
    rows, done = new_writer(schema), 0
    passes.begin()
    try:
        for batch in _batches(path, file):
            batch.validate(full=True)  # a text that isn't one would fall over whoever reads it
            numbers = np.arange(done + 1, done + batch.num_rows + 1)
            rows.add(batch.cast(schema), numbers)
            done += batch.num_rows
            passes.at(path.stat().st_size * done // max(1, file.metadata.num_rows))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    return ParsedRows(rows, "Parquet", "row")


def _batches(path: Path, file: parquet.ParquetFile) -> Iterator[pa.RecordBatch]:
    size = BATCH_BYTES * file.metadata.num_rows // max(1, unpacked_size(file))
    size = min(BATCH_ROWS, max(1, size))
    with reading(path.name):
        for number, batch in enumerate(file.iter_batches(size), 1):
            say(
                _("Row {number:,} and on of {name}").format(number=number * size + 1, name=path.name),
                Pace.SLOW,
            )
            yield batch


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        _("{name} is damaged").format(name=path.name),
        _("{path} begins as a Parquet file but can't be read: {error}").format(path=path, error=error),
        (Fix(_("Get the file again")),),
    )


# --- Tables in files of a folder, which may be removed at any time


LIMIT_BYTES = 8 * 2**30
"""All files together; the one that wasn't used for longest goes first."""
RECENT_SECONDS = 3600.0
"""Files used so recently stay: the parts of one large data set are read one after the other."""
UNFINISHED_SECONDS = 86_400.0
"""After so long a file that was never finished belongs to a process that is gone."""
FORMAT = "4"
"""Raise it whenever the same file would be read as other rows or notes."""
LOG = logging.getLogger(__name__)


def cache_key(path: Path, *reading: str) -> str:
    """What a table depends on, as 32 hexadecimal digits: the file, its size and time, and how it is read.

    Raises:
        OSError: The file is gone.
    """
    found = path.stat()
    parts = (FORMAT, str(path.resolve()), str(found.st_size), str(found.st_mtime_ns), *reading)
    return hashlib.blake2b("\0".join(parts).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _from_cache(path: Path, kept: Path) -> "Table | None":
    """The table kept in a file; a damaged file is taken away."""
    if not kept.exists():
        return None
    try:
        found = _stored(path, pa.memory_map(str(kept)))
        os.utime(kept)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        LOG.warning("%s can't be used, the table is read again: %s", kept, error)
        with contextlib.suppress(OSError):
            kept.unlink()
        return None
    return found


def make_room(folder: Path, limit: int = LIMIT_BYTES) -> None:
    """Take the oldest files of the cache away until the rest is within the limit in bytes."""
    with contextlib.suppress(OSError):  # of another process that reads or removes it
        for path in folder.glob("*.unfinished"):
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                path.unlink(missing_ok=True)
        files = sorted(folder.glob("*.arrow"), key=lambda path: path.stat().st_mtime)
        size = sum(path.stat().st_size for path in files)
        for path in files:
            if size > limit and time.time() - path.stat().st_mtime > RECENT_SECONDS:
                size -= path.stat().st_size
                path.unlink(missing_ok=True)


def _stored(path: Path, source: Any) -> "Table":
    reader = pa.ipc.open_file(source)
    _rest, metadata = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    about = json.loads(metadata[b"about"])
    whole = reader.read_all()
    last = whole.num_columns - 1
    return Table(
        path,
        about["format"],
        whole.remove_column(last),
        whole.column(last).to_numpy(),
        about["row_word"],
        tuple(about["notes"]),
        about["reading"],
    )


# --- A table of the person's: CSV, TSV, JSON, JSONL, CoNLL or Parquet


LARGE_BYTES = 32 * 2**20
"""Files that are as large when unpacked go through the cache instead of through memory."""
HEAD_CHARACTERS = 1 << 20


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
        return _("{row_word} {numbers:,} of {name}").format(
            row_word=self.row_word, numbers=self.numbers[index], name=self.path.name
        )

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
    folder = settings.home() / "cache" / "tables"
    try:
        kept = folder / f"{cache_key(path, f'header={header}')}.arrow"
        found = _from_cache(path, kept) or _read_table(path, header, passes, kept)
    except FileNotFoundError as error:
        raise _changed(path) from error
    passes.end()
    if found.rows.num_rows == 0:
        raise DataError(
            _("{name} has no rows").format(name=path.name),
            _("{path} names columns but holds no rows.").format(path=path),
        )
    return found


def _read_table(path: Path, header: bool | None, passes: Passes, kept: Path) -> Table:
    """Read a file whose rows aren't in the cache yet: into `kept` where it is large."""
    size, parse = _parser(path, header, passes)
    if size >= LARGE_BYTES:
        try:
            found = _read_rows(path, header, parse, kept, kept.parent)
            make_room(kept.parent)
            pa.default_memory_pool().release_unused()
        except CacheUnusableError as error:
            LOG.warning("%s is read into memory, because %s can't be written: %s", path, kept.parent, error)
        else:
            return found
    return _read_rows(path, header, parse, kept, None)


def _read_rows(
    path: Path, header: bool | None, parse: Callable[[NewWriter], ParsedRows], kept: Path, folder: Path | None
) -> Table:
    """All rows, in memory, or in a file of `folder` that is called `kept` when it is whole."""
    writers: list[RowWriter] = []

    def new_writer(schema: pa.Schema) -> RowWriter:
        unfinished = folder and folder / f"{kept.stem}.{uuid.uuid4().hex[:12]}.unfinished"
        writers.append(RowWriter(schema, unfinished))
        return writers[-1]

    try:
        found = parse(new_writer)
        if cache_key(path, f"header={header}") != kept.stem:
            raise _changed(path)
        about = {
            "format": found.format,
            "row_word": found.row_word,
            "notes": list(found.notes),
            "reading": dict(found.reading),
        }
        return _stored(path, found.rows.finish(about, kept))
    finally:
        for writer in writers:
            writer.discard()


def _parser(path: Path, header: bool | None, passes: Passes) -> tuple[int, Callable[[NewWriter], ParsedRows]]:
    """How many bytes a file has when it is unpacked, and what parses its rows."""
    if is_parquet(path, first_bytes(path)):
        file = open_parquet(path)
        return unpacked_size(file), partial(_parse_parquet, path, file, passes)
    source = open_text(path, passes)
    return source.size, partial(_parse_text, source, header)


def _parse_text(source: TextFile, header: bool | None, new_writer: NewWriter) -> ParsedRows:
    path, head = source.path, source.head(HEAD_CHARACTERS)
    expected = ENDINGS.get(ending(path))
    is_json = json_files.looks_like_json(head)
    if expected is Kind.DELIMITED and is_json:
        raise mismatch(path, _("a JSON file"), _("Rename it to end in .json or .jsonl"))
    if expected in (Kind.JSON, Kind.JSON_LINES) or is_json:
        found = json_files.parse(source, new_writer, prefers_lines=expected is Kind.JSON_LINES)
    elif expected is Kind.CONLL or delimited.looks_like_conll(path, head):
        found = delimited.parse_conll(source, new_writer)
    else:
        found = delimited.parse(source, new_writer, header)
    return replace(found, notes=(*source.notes, *found.notes), reading={**of_text(source), **found.reading})


def _changed(path: Path) -> DataError:
    return DataError(
        _("{name} changed while it was read").format(name=path.name),
        _("{path} is being written or was replaced.").format(path=path),
        (Fix(_("Wait until it is whole, and try again")),),
    )


# --- Several files with the same columns as one table: the parts of a large one


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
        return _("{row_word} {numbers:,} of {name}").format(
            row_word=self.row_word,
            numbers=self.numbers[index] - self.last_numbers[at],
            name=self.files[at].name,
        )


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
            _("The files of {name} don't go together").format(name=files[0].parent.name),
            _("{parent}: a column holds different kinds of values: {error}").format(
                parent=files[0].parent, error=error
            ),
            (Fix(_("Choose one of the files")),),
        ) from error
    counts = [table.rows.num_rows for table in tables]
    ends = [int(table.numbers[-1]) for table in tables]
    before = (0, *accumulate(ends[:-1]))
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    return Shards(
        path=files[0].parent / _("{name} and {files} more").format(name=files[0].name, files=len(files) - 1),
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
            _("{name} has other columns than {name_2}").format(name=other.path.name, name_2=first.path.name),
            f"{other.path} has {listed(other.columns)}; {first.path.name} has {listed(first.columns)}.",
            (Fix(_("Choose one of the files")),),
        )


# --- Tokens of texts, kept between runs


TOKENS_LIMIT_BYTES = 2 * 2**30
"""All files together; the one that wasn't used for longest goes first."""
TOKENS_FORMAT = "1"
TOKENS_LIBRARIES = ("transformers", "tokenizers", "datasets")


def cached_tokens(key: str, make: Callable[[], "Dataset"]) -> "Dataset":
    """What `make` returned for this key in an earlier run, or what it returns now."""
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
    """What tokenized texts depend on, as 32 hexadecimal digits.

    Args:
        texts: The texts, with their labels.
        tokenizer: What `tokenizer_print` told of the tokenizer.
        length: Tokens at which they are cut off.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (TOKENS_FORMAT, *map(version, TOKENS_LIBRARIES), tokenizer, str(length)):
        digest.update(part.encode() + b"\0")
    with pa.ipc.new_stream(_Digesting(digest), texts.data.table.schema.remove_metadata()) as stream:
        stream.write_table(texts.data.table.replace_schema_metadata(None))
    return digest.hexdigest()


def tokenizer_print(tokenizer: Any) -> str:
    """Everything about a tokenizer that decides its tokens; empty for one that can't be told apart from others.

    Ask before it is used: tokenizing leaves the last length in it.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # written in Python: what it does stands in its code
        return ""
    parts = (type(tokenizer).__qualname__, tokenizer.truncation_side, *tokenizer.model_input_names)
    return "\0".join((*parts, hashlib.blake2b(backend.to_str().encode()).hexdigest()))


class _Digesting:
    """A file for Arrow that keeps nothing of what is written but its digest."""

    closed = False

    def __init__(self, digest: "hashlib.blake2b") -> None:
        self._digest = digest

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def lengths_of(samples: Any) -> list[int] | None:
    """Tokens of each sample of a `datasets.Dataset`, in its order; None for samples that are no texts.

    Of a pair of answers the longer one counts, with the prompt: both get rows of that length. Trainer would make lists
    of every sample for it at the start of a run.
    """
    from datasets import Dataset

    if not isinstance(samples, Dataset):
        return None
    names = set(samples.column_names)
    if TOKENS not in names and not names.issuperset(PAIR):
        return None
    table = samples.with_format("arrow")[:]  # as a table, so that a selection of rows is heeded
    if TOKENS in names:
        return list(pc.list_value_length(table[TOKENS]).to_pylist())
    prompt, chosen, rejected = (pc.list_value_length(table[name]) for name in PAIR)
    return list(pc.add(prompt, pc.max_element_wise(chosen, rejected)).to_pylist())
