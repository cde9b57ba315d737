"""What the columns of a table hold, and which of them are likely the text and the label."""

import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.data_report import Column, ColumnKind
from core.engine.data.column_names import LABEL_NAMES, PAIR_NAMES, TEXT_NAMES
from core.engine.data.json_values import EXACT_FLOAT
from core.engine.data.tables import Table

EXAMPLES = 3
EXAMPLE_CHARACTERS = 120
SHOWN_BYTES = 20
EXAMPLE_ROWS = 20
"""Rows with a value in which they are looked for."""
MOST_LABELS = 1000
MOST_COUNTED = 4 * 2**20
"""Bytes of different texts that are told apart as they are; beyond, by their hashes, at 8 bytes a row."""
FEW_ROWS = 50
"""Below this, a label may well stand in one row only."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_SIDE = re.compile(r"1|2|(?<![^\W_])[abAB](?![^\W_])|(?<=[a-z])[AB]$")
"""What tells the two names of a pair apart: `#1 String`, `sentence2`, `text_a`, `textB`."""


@dataclass(frozen=True)
class Guess:
    """The likely columns: one or two of text, none where there are none; the label, or None."""

    text: tuple[str, ...]
    label: str | None


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as texts; missing ones and NaN stay missing, and 1.0 reads 1 where all values are whole."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.cast(kind.value_type))
    if pa.types.is_floating(kind):
        return _numbers_as_text(column, all(map(_are_whole, column.chunks)))
    if pa.types.is_nested(kind):
        return _each_as_text(column, lambda value: json.dumps(value, default=_written, ensure_ascii=False))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _each_as_text(column, _written)
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # a kind that Arrow can't write as text, such as a duration
        return _each_as_text(column, str)


def text_reader(column: pa.ChunkedArray) -> Callable[[pa.Array], pa.ChunkedArray]:
    """What makes texts of one part of a column after the other, the same as `as_text` makes of all of it at once."""
    if pa.types.is_floating(column.type):
        is_whole = all(map(_are_whole, column.chunks))
        return lambda part: _numbers_as_text(pa.chunked_array([part]), is_whole)
    return lambda part: as_text(pa.chunked_array([part]))


def _are_whole(numbers: pa.Array) -> bool:
    """Whether all of them could be written without a point."""
    numbers = numbers.filter(pc.invert(pc.is_nan(numbers)))
    is_whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), EXACT_FLOAT))
    return pc.all(is_whole).as_py() is not False


def _numbers_as_text(column: pa.ChunkedArray, are_whole: bool) -> pa.ChunkedArray:
    column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(pa.int64() if are_whole else column.type).cast(pa.string())


def _each_as_text(column: pa.ChunkedArray, write: Callable[[Any], str]) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        texts = [None if value is None else write(value) for value in chunk.to_pylist()]
        chunks.append(pa.array(texts, pa.string()))
    return pa.chunked_array(chunks, pa.string())


def _written(value: Any) -> str:
    """Bytes as Python writes them, long ones by their beginning and a checksum; anything else in its own words."""
    if not isinstance(value, bytes):
        return str(value)
    if len(value) <= EXAMPLE_CHARACTERS:
        return repr(value)
    return f"{value[:SHOWN_BYTES]!r}... ({len(value):,} bytes, {zlib.crc32(value):08x})"


def is_blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text is missing, empty, or white space."""
    blank = [_is_blank(chunk) for chunk in texts.chunks]
    return pa.chunked_array(blank, pa.bool_())


def _is_blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.fill_null(pc.utf8_trim_whitespace(texts), ""), "")


def _filled(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    """The values that aren't blank, chunk by chunk: a whole column may not fit into memory."""
    return (chunk.filter(pc.invert(_is_blank(chunk))) for chunk in texts.chunks)


def kind_of(column: pa.ChunkedArray) -> ColumnKind:
    """Text, numbers (also written as text), or something else."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kind_of(column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnKind.NUMBER
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return ColumnKind.OTHER
    has_number = False
    for filled in _filled(column):
        if len(filled) and not pc.all(pc.match_substring_regex(filled, _NUMBER)).as_py():
            return ColumnKind.TEXT
        has_number = has_number or len(filled) > 0
    return ColumnKind.NUMBER if has_number else ColumnKind.TEXT


_DESCRIBED: WeakKeyDictionary[Table, tuple[Column, ...]] = WeakKeyDictionary()


def describe(table: Table) -> tuple[Column, ...]:
    """Every column: its kind, how many values differ, how many are empty, and the first few."""
    if table not in _DESCRIBED:
        _DESCRIBED[table] = tuple(_describe(name, table.rows[name]) for name in table.columns)
    return _DESCRIBED[table]


def _describe(name: str, column: pa.ChunkedArray) -> Column:
    filled, different = 0, _Different()
    examples = dict[str, None]()
    for texts in _filled_texts(column):
        if filled < EXAMPLE_ROWS:
            examples.update(dict.fromkeys(texts.slice(0, EXAMPLE_ROWS - filled).to_pylist()))
        filled += len(texts)
        different.add(texts)
    return Column(
        name=name,
        kind=kind_of(column),
        distinct=different.count(),
        empty=len(column) - filled,
        examples=tuple(example[:EXAMPLE_CHARACTERS] for example in list(examples)[:EXAMPLES]),
    )


def _filled_texts(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """The values as texts, chunk by chunk; all of them decide whether 1.0 reads 1."""
    read = text_reader(column)
    for chunk in column.chunks:
        yield from _filled(read(chunk))


class _Different:
    """Counts how many texts differ: as they are as long as they are few, else by their hashes."""

    def __init__(self) -> None:
        self._texts: pa.Array | None = pa.array([], pa.string())
        self._hashes: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def add(self, texts: pa.Array) -> None:
        """Count further ones in."""
        texts = texts.unique()
        if self._texts is None:
            self._hashes.append(np.fromiter(map(hash, texts.to_pylist()), np.int64, len(texts)))
            return
        self._texts = pa.concat_arrays([self._texts, texts]).unique()
        if self._texts.nbytes > MOST_COUNTED:
            texts, self._texts = self._texts, None
            self.add(texts)

    def count(self) -> int:
        """How many there are."""
        return len(np.unique(np.concatenate(self._hashes))) if self._texts is None else len(self._texts)


def guess_columns(table: Table, text: tuple[str, ...] = (), label: str | None = None) -> Guess:
    """Fill in the columns that weren't chosen.

    The label is a column called like one, else the one with the fewest distinct values. The texts are a pair of
    names that differ in 1 and 2 or a and b, else a column called like a text, else the longest texts.
    """
    columns = describe(table)
    label = label or _guess_label(columns, text, table.rows.num_rows)
    if text:
        return Guess(text, label)
    texts = [column.name for column in columns if column.kind is ColumnKind.TEXT and column.name != label]
    pair = guess_pair(texts)
    if pair:
        return Guess(pair, label)
    return Guess(_best_text(table, texts), label)


def guess_text(table: Table) -> tuple[str, ...]:
    """The likely column of texts where nothing is a label; none where there are no texts."""
    return _best_text(table, [column.name for column in describe(table) if column.kind is ColumnKind.TEXT])


def _best_text(table: Table, texts: list[str]) -> tuple[str, ...]:
    """The one called like a text, else the one with the longest."""
    named = (name for wanted in TEXT_NAMES for name in texts if wanted in name.lower())
    best = next(named, None) or max(texts, key=lambda name: _mean_length(table, name), default=None)
    return (best,) if best else ()


def may_be_label(column: Column, rows: int) -> bool:
    """Whether a column has as many distinct values as labels can have."""
    return 2 <= column.distinct <= MOST_LABELS and (rows <= FEW_ROWS or column.distinct <= rows / 2)


def _guess_label(columns: tuple[Column, ...], text: tuple[str, ...], rows: int) -> str | None:
    free = [column for column in columns if column.name not in text]
    by_name = {column.name.strip().lower(): column.name for column in free if column.distinct > 0}
    named = next((by_name[name] for name in LABEL_NAMES if name in by_name), None)
    if named:
        return named
    fitting = [column for column in free if may_be_label(column, rows) and column.distinct < rows]
    containing = [
        column
        for column in fitting
        if any(name in column.name.lower() for name in LABEL_NAMES if len(name) > 4)
    ]
    best = min(containing or fitting, key=lambda column: column.distinct, default=None)
    return best.name if best else None


def guess_pair(texts: list[str]) -> tuple[str, ...]:
    """The first two names that differ in 1 and 2 or a and b only, or are known to belong together; none otherwise."""
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
