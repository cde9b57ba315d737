"""What the columns of a table hold, and which of them are likely the texts, the labels, the words or the images."""

import ast
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.formats import capitalized
from core.engine.data.delimited import LABEL_NAMES, PAIR_NAMES, TEXT_NAMES
from core.engine.data.json_files import EXACT_FLOAT
from core.engine.data.splits import are_too_many
from core.engine.data.tables import Table
from core.engine.data.text_files import is_text
from core.jobs.inspect import DataColumn, DataColumnKind
from core.options.presets import IMAGE_FORMATS

# --- Values as texts


EXAMPLE_CHARACTERS = 120
SHOWN_BYTES = 20

Cells: TypeAlias = Any
"""A `pa.Array` or `pa.ChunkedArray`."""


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the values as texts; missing ones and NaN stay missing, and 1.0 becomes "1" if all values are whole."""
    return text_reader(column)(column)


def text_reader(column: pa.ChunkedArray) -> Callable[[Cells], pa.ChunkedArray]:
    """Returns a function for parts of a column that returns the same texts as `as_text` for all of it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        reader = text_reader(column.cast(kind.value_type))
        return lambda cells: reader(cells.cast(kind.value_type))
    if pa.types.is_floating(kind):
        target = pa.int64() if all(map(_are_whole, column.chunks)) else kind
        return lambda cells: _chunked(
            pc.if_else(pc.is_nan(cells), None, cells).cast(target).cast(pa.string())
        )
    if pa.types.is_nested(kind):
        return _each(lambda value: json.dumps(value, default=_written, ensure_ascii=False))
    if is_binary(kind):
        return _each(_written)
    return _cast


def _chunked(cells: Cells) -> pa.ChunkedArray:
    return cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])


def _are_whole(numbers: pa.Array) -> bool:
    """Returns whether all numbers can be written without a point."""
    numbers = numbers.filter(pc.invert(pc.is_nan(numbers)))
    is_whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), EXACT_FLOAT))
    return pc.all(is_whole).as_py() is not False


def _cast(cells: Cells) -> pa.ChunkedArray:
    try:
        return _chunked(cells.cast(pa.string()))
    except pa.ArrowException:  # a type that Arrow can't write as text, such as a duration
        return _each(str)(cells)


def _each(write: Callable[[Any], str]) -> Callable[[Cells], pa.ChunkedArray]:
    def read(cells: Cells) -> pa.ChunkedArray:
        chunks = [
            pa.array([None if value is None else write(value) for value in chunk.to_pylist()], pa.string())
            for chunk in _chunked(cells).chunks
        ]
        return pa.chunked_array(chunks, pa.string())

    return read


def _written(value: Any) -> str:
    """Returns bytes as Python writes them, long ones by their beginning and a checksum; anything else by `str`."""
    if not isinstance(value, bytes):
        return str(value)
    if len(value) <= EXAMPLE_CHARACTERS:
        return repr(value)
    return f"{value[:SHOWN_BYTES]!r}... ({len(value):,} bytes, {zlib.crc32(value):08x})"


def is_blank(texts: Cells) -> Cells:
    """Returns whether each text is missing, empty, or white space."""
    return pc.equal(pc.fill_null(pc.utf8_trim_whitespace(texts), ""), "")


# --- A description of each column


EXAMPLES = 3
EXAMPLE_ROWS = 20
"""Filled rows at the beginning from which examples are taken."""
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_DESCRIBED: WeakKeyDictionary[Table, tuple[DataColumn, ...]] = WeakKeyDictionary()


def describe(table: Table) -> tuple[DataColumn, ...]:
    """Returns every column: its kind, how many values differ, how many are empty, and the first few."""
    if table not in _DESCRIBED:
        _DESCRIBED[table] = tuple(_describe(name, table.rows[name]) for name in table.columns)
    return _DESCRIBED[table]


def find_column(table: Table, name: str) -> DataColumn:
    return next(column for column in describe(table) if column.name == name)


def _describe(name: str, column: pa.ChunkedArray) -> DataColumn:
    if holds_bytes(column.type):  # hashing every image would take longer than reading them
        empty = column.null_count
        return DataColumn(
            name=name, kind=DataColumnKind.OTHER, distinct=len(column) - empty, empty=empty, examples=()
        )
    # 8 bytes a value: a whole column may not fit into memory
    filled, hashes = 0, list[Any]([np.zeros(0, np.int64)])
    examples = dict[str, None]()
    reader = text_reader(column)
    for chunk in column.chunks:
        texts = _filled(reader(chunk)).combine_chunks()
        if filled < EXAMPLE_ROWS:
            examples.update(dict.fromkeys(texts.slice(0, EXAMPLE_ROWS - filled).to_pylist()))
        filled += len(texts)
        distinct = texts.unique()
        hashes.append(np.fromiter(map(hash, distinct.to_pylist()), np.int64, len(distinct)))
    return DataColumn(
        name=name,
        kind=kind_of(column),
        distinct=len(np.unique(np.concatenate(hashes))),
        empty=len(column) - filled,
        examples=tuple(example[:EXAMPLE_CHARACTERS] for example in list(examples)[:EXAMPLES]),
    )


def _filled(texts: Cells) -> Cells:
    return texts.filter(pc.invert(is_blank(texts)))


def kind_of(column: pa.ChunkedArray) -> DataColumnKind:
    """Returns text, numbers (also written as text), or something else."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kind_of(column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return DataColumnKind.NUMBER
    if not is_text(kind):
        return DataColumnKind.OTHER
    has_number = False
    for texts in map(_filled, column.chunks):
        if len(texts) and not pc.all(pc.match_substring_regex(texts, _NUMBER)).as_py():
            return DataColumnKind.TEXT
        has_number = has_number or len(texts) > 0
    return DataColumnKind.NUMBER if has_number else DataColumnKind.TEXT


# --- Columns of texts and of labels


MOST_LABELS = 1000
SPARSE = 0.9
"""A column in which this share of the rows is empty can't be learned from."""
_SIDE = re.compile(r"1|2|(?<![^\W_])[abAB](?![^\W_])|(?<=[a-z])[AB]$")
"""The part in which the names of a pair differ: `#1 String`, `sentence2`, `text_a`, `textB`."""


@dataclass(frozen=True)
class Guess:
    """The likely columns: one or two of text, none if there are none; the label, or None."""

    text: tuple[str, ...]
    label: str | None


def guess_columns(table: Table, text: tuple[str, ...] = (), label: str | None = None) -> Guess:
    """Completes the columns that were chosen.

    The label is a column with a name of labels, else the one with the fewest distinct values. The texts are two columns
    whose names differ in 1 and 2 or a and b, else a column with a name of texts, else the longest texts.
    """
    columns = describe(table)
    label = label or _guess_label(columns, text, table.rows.num_rows)
    if text:
        return Guess(text, label)
    texts = [column.name for column in columns if column.kind is DataColumnKind.TEXT and column.name != label]
    pair = guess_pair(texts)
    if pair:
        return Guess(pair, label)
    return Guess(_best_text(table, texts), label)


def guess_text(table: Table) -> tuple[str, ...]:
    """Returns the likely column of texts if nothing is a label; none if there are no texts."""
    return _best_text(
        table, [column.name for column in describe(table) if column.kind is DataColumnKind.TEXT]
    )


def _best_text(table: Table, texts: list[str]) -> tuple[str, ...]:
    """Returns the filled column with a name of texts, else the one with the longest texts."""
    empty = {column.name: column.empty for column in describe(table)}
    fewest = min((empty[name] for name in texts), default=0)
    texts = [name for name in texts if empty[name] - fewest <= table.rows.num_rows / 2]
    named = (name for wanted in TEXT_NAMES for name in texts if wanted in name.lower())
    best = next(named, None) or max(texts, key=lambda name: _mean_length(table, name), default=None)
    return (best,) if best else ()


def may_be_label(column: DataColumn, rows: int) -> bool:
    """Returns whether labels can have as many distinct values as a column has, and enough rows have one."""
    filled = rows - column.empty
    is_filled = filled > rows * (1 - SPARSE)
    return is_filled and 2 <= column.distinct <= MOST_LABELS and not are_too_many(column.distinct, filled)


def _guess_label(columns: tuple[DataColumn, ...], text: tuple[str, ...], rows: int) -> str | None:
    free = [column for column in columns if column.name not in text]
    by_name = {column.name.strip().lower(): column for column in free if column.distinct > 0}
    named = [by_name[name] for name in LABEL_NAMES if name in by_name]
    if filled := [column.name for column in named if column.empty < rows * SPARSE]:
        return filled[0]
    fitting = [column for column in free if may_be_label(column, rows) and column.distinct < rows]
    containing = [
        column
        for column in fitting
        if any(name in column.name.lower() for name in LABEL_NAMES if len(name) > 4)
    ]
    best = min(containing or fitting or named[:1], key=lambda column: column.distinct, default=None)
    return best.name if best else None


def guess_pair(texts: list[str]) -> tuple[str, ...]:
    """Returns the first two names that differ only in 1 and 2 or a and b, or are a known pair; else empty."""
    alike: dict[str, list[str]] = {}
    for name in texts:
        alike.setdefault(_SIDE.sub("", name), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            return (names[0], names[1])
    by_name = {name.lower(): name for name in texts}
    known = (pair for pair in PAIR_NAMES if all(name in by_name for name in pair))
    return tuple(by_name[name] for name in next(known, ()))


def _mean_length(table: Table, name: str) -> float:
    mean = pc.mean(pc.utf8_length(as_text(table.rows[name]))).as_py()
    return float(mean or 0.0)


# --- Columns of numbers to learn


SCORE_NAMES = (
    *("score", "scores", "label", "labels", "similarity", "similarity_score", "rating", "stars"),
    *("target", "value", "grade", "quality", "y"),
)
INDEX_NAMES = ("id", "idx", "index", "row", "number", "no", "year", "unnamed: 0", "")
"""Columns of numbers that count rows."""
SCORE_ROWS = 1000
"""Rows at the beginning that tell whether a column holds numbers."""
MOST = 0.5
"""A column with a larger share of numbers is one of numbers with some wrong cells."""
LARGEST = float(np.finfo(np.float32).max)


def as_number(text: str) -> float:
    """Returns the number in a cell; NaN if there is none that a model can compute with."""
    try:
        number = float(text)
    except ValueError:
        return float("nan")
    is_plain = "_" not in text and text.isascii()  # Python reads 1_000 and digits of other scripts, too
    return number if is_plain and abs(number) <= LARGEST else float("nan")


def is_number(text: str) -> bool:
    return not np.isnan(as_number(text))


def has_decimal_comma(texts: Sequence[str]) -> bool:
    return any(is_number(text.replace(",", ".", 1)) for text in texts if "," in text)


def first_cells(table: Table, name: str) -> list[str]:
    """Returns the first cells that aren't blank, as texts."""
    return _filled(as_text(table.rows[name].slice(0, SCORE_ROWS))).to_pylist()


def holds_numbers(table: Table, name: str) -> bool:
    """Returns whether most cells of a column are numbers, also with a decimal comma."""
    cells = first_cells(table, name)
    return sum(is_number(cell.strip().replace(",", ".", 1)) for cell in cells) > len(cells) * MOST


def guess_score_columns(table: Table, text: tuple[str, ...] = (), score: str | None = None) -> Guess:
    """Completes the columns that were chosen; `score` is the number to learn."""
    score = score or guess_score(table, text)
    return Guess(text or guess_columns(table, label=score).text, score)


def guess_score(table: Table, text: tuple[str, ...]) -> str | None:
    """Returns a column of numbers with a name of scores, else one of fractions, else any that doesn't count rows."""
    others = [column for column in describe(table) if column.name not in text]
    numbers = [column for column in others if column.kind is DataColumnKind.NUMBER]
    mostly = [column for column in others if column not in numbers and holds_numbers(table, column.name)]
    by_name = {column.name.strip().lower(): column.name for column in (*mostly, *numbers)}
    named = [by_name[name] for name in SCORE_NAMES if name in by_name]
    containing = [
        column.name
        for column in numbers
        if any(name in column.name.lower() for name in SCORE_NAMES if len(name) > 4)
    ]
    likely = [column for column in numbers if not counts_rows(column, table.rows.num_rows)]
    fractions = [column.name for column in likely if any("." in example for example in column.examples)]
    guesses = [*named, *containing, *fractions, *(column.name for column in (*likely, *mostly))]
    return guesses[0] if guesses else None


def counts_rows(column: DataColumn, rows: int) -> bool:
    """Returns whether a column of numbers looks like one that numbers the rows."""
    name = column.name.strip().lower()
    is_whole = not any("." in example for example in column.examples)
    return (
        name in INDEX_NAMES
        or "id" in name.replace("_", " ").split()
        or (is_whole and rows > 2 and column.distinct == rows)
    )


# --- Columns of words and of their tags


@dataclass(frozen=True)
class BadList:
    """A cell that begins as a list and can't be read as one: its index in the column, and its text."""

    index: int
    text: str


def is_list(kind: pa.DataType) -> bool:
    """Returns whether a column holds lists of texts or numbers, not lists of objects."""
    has_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return has_lists and not pa.types.is_nested(kind.value_type)


def read_lists(column: pa.ChunkedArray) -> tuple[pa.ListArray, list[BadList]]:
    """Returns every row as a list of texts; a missing one is empty, as are those cells that can't be read."""
    kind = pa.list_(pa.string())
    if is_list(column.type):
        lists = column.cast(pa.list_(column.type.value_type)).combine_chunks().cast(kind)
        return pa.array([row or [] for row in lists.to_pylist()], kind) if lists.null_count else lists, []
    bad: list[BadList] = []
    rows: list[list[str | None]] = []
    for index, text in enumerate(pc.fill_null(column.cast(pa.string()), "").to_pylist()):
        row = _split(text.strip())
        if row is None:
            bad.append(BadList(index, text.strip()))
        rows.append(row or [])
    return pa.array(rows, kind), bad


def _split(text: str) -> list[str | None] | None:
    """Splits a cell into words, separated by white space or written as a list; None if the list can't be read."""
    if not (text.startswith("[") and text.endswith("]")):
        return list(text.split())
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        try:
            values = ast.literal_eval(text)  # pandas writes lists so into a CSV file; this computes nothing
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
    if not isinstance(values, list) or any(isinstance(value, list | dict | tuple) for value in values):
        return None
    return [None if value is None else str(value) for value in values]


WORD_NAMES = ("tokens", "words", "token", "word", "sentence", "text", "form", "forms")
TAG_NAMES = (
    *("ner_tags", "tags", "ner", "labels", "label", "tag", "entities", "ner_labels", "named_entities"),
    *("pos_tags", "upos", "pos", "chunk_tags", "xpos"),
)
TAG_ROWS = 100
"""Rows at the beginning that tell whether two columns go together."""


def guess_tag_columns(table: Table, text: tuple[str, ...] = (), tags: str | None = None) -> Guess:
    """Completes the columns that were chosen: by their names, else two with lists of equal lengths."""
    names = {name.strip().lower(): name for name in table.columns}
    words = text or tuple(names[name] for name in WORD_NAMES if name in names and names[name] != tags)[:1]
    tags = tags or next(
        (names[name] for name in TAG_NAMES if name in names and names[name] not in words), None
    )
    if not words:
        schema = table.rows.schema
        lists = [name for name in table.columns if is_list(schema.field(name).type)]
        words = tuple(name for name in lists if name != tags and not _holds_integer_lists(table, name))[:1]
    if tags is None and words:
        others = (name for name in table.columns if name not in words)
        tags = next((name for name in others if _go_together(table, words[0], name)), None)
    return Guess(words, tags)


def tag_names(table: Table, column: str) -> tuple[str, ...]:
    """Returns the names of a column's numbers, if the file has them as the library `datasets` writes them; or empty."""
    kind = table.rows.schema.field(column).type
    if not (pa.types.is_integer(kind) or _holds_integer_lists(table, column)):
        return ()
    written = (table.rows.schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        feature = json.loads(written)["info"]["features"][column]
        names = feature.get("feature", feature)["names"]
        return tuple(map(str, names))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _holds_integer_lists(table: Table, name: str) -> bool:
    kind = table.rows.schema.field(name).type
    return is_list(kind) and pa.types.is_integer(kind.value_type)


def _go_together(table: Table, words: str, tags: str) -> bool:
    first = table.first(TAG_ROWS).rows
    try:
        (one, bad), (other, bad_too) = (read_lists(first[name]) for name in (words, tags))
    except pa.ArrowException:
        return False
    lengths = pc.list_value_length(one)
    is_same = not bad and not bad_too and lengths.equals(pc.list_value_length(other))
    return is_same and (pc.max(lengths).as_py() or 0) > 1


# --- Lists and objects among texts, as a file of JSON may have them


def nested_places(texts: pa.ChunkedArray) -> Iterator[int]:
    """Yields indices of texts that are a list or an object written as JSON."""
    likely = pc.fill_null(pc.match_substring_regex(texts, r"^[\[{]"), False)
    for place in np.flatnonzero(likely.to_numpy()):
        try:
            json.loads(texts[int(place)].as_py())
        except ValueError:
            continue
        except RecursionError:
            pass  # nested too deeply to be a text
        yield int(place)


# --- Columns of images


IMAGE_ROWS = 200
"""Rows at the beginning that tell what a column holds."""
PREVIEW_ROWS = 200
PREVIEW_CHARACTERS = 300


def holds_bytes(kind: pa.DataType) -> bool:
    """Returns whether a column's type is that of stored images: bytes, or the Hub's pair of bytes and path."""
    if pa.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        return any(field.name == "bytes" and is_binary(field.type) for field in fields)
    return is_binary(kind)


def is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def first_rows(table: Table) -> tuple[tuple[str, ...], ...]:
    """Returns the first rows as text, long values cut; stored images are empty."""
    first = table.first(PREVIEW_ROWS).rows
    columns = [
        [""] * first.num_rows if holds_bytes(column.type) else as_text(column).to_pylist()
        for column in first.columns
    ]
    return tuple(
        tuple(_as_turns(value or "")[:PREVIEW_CHARACTERS] for value in row)
        for row in zip(*columns, strict=True)
    )


def _as_turns(value: str) -> str:
    """Returns a list of messages as `User: … / Assistant: …`; any other text as it is."""
    if not value.startswith("[{"):
        return value
    try:
        messages = [
            (one["role"], one["content"]) if "role" in one else (one["from"], one["value"])
            for one in json.loads(value)
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return value
    return " / ".join(f"{capitalized(str(speaker))}: {text}" for speaker, text in messages)


def share_of_paths(table: Table, name: str) -> float:
    """Returns the share of the first values that have the extension of an image file."""
    values = [value for value in as_text(table.rows[name].slice(0, IMAGE_ROWS)).to_pylist() if value]
    fitting = sum(PurePosixPath(value.strip()).suffix.lower() in IMAGE_FORMATS for value in values)
    return fitting / len(values) if values else 0.0
