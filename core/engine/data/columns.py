"""What the columns of a table hold, and which of them are likely the text and the label."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data.tables import Table
from core.reports import Column, ColumnKind

EXAMPLES = 3
EXAMPLE_CHARACTERS = 120
MOST_LABELS = 1000
EXACT_FLOAT = 2.0**53
"""Below this, a float holds every whole number exactly."""
FEW_ROWS = 50
"""Below this, a label may well stand in one row only."""

LABEL_NAMES = (
    *("label", "labels", "class", "category", "target", "quality", "sentiment", "answer", "gold_label"),
    *("intent", "emotion", "topic", "is_duplicate", "toxic", "spam", "stars", "rating", "score", "y"),
)
TEXT_NAMES = (
    *("text", "sentence", "review", "content", "comment", "message", "tweet", "body", "document", "question"),
    *("title", "description", "headline", "utterance", "input"),
)
PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
)

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
        column = pc.if_else(pc.is_nan(column), None, column)
        is_whole = pc.and_(pc.equal(column, pc.floor(column)), pc.less(pc.abs(column), EXACT_FLOAT))
        return column.cast(pa.int64() if pc.all(is_whole).as_py() else kind).cast(pa.string())
    if pa.types.is_nested(kind):
        return _each_as_text(column, lambda value: json.dumps(value, default=str, ensure_ascii=False))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _each_as_text(column, repr)
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # a kind that Arrow can't write as text, such as a duration
        return _each_as_text(column, str)


def _each_as_text(column: pa.ChunkedArray, write: Callable[[Any], str]) -> pa.ChunkedArray:
    texts = [None if value is None else write(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def is_blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text is missing, empty, or white space."""
    return pc.equal(pc.fill_null(pc.utf8_trim_whitespace(texts), ""), "")


def kind_of(column: pa.ChunkedArray) -> ColumnKind:
    """Text, numbers (also written as text), or something else."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kind_of(column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnKind.NUMBER
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return ColumnKind.OTHER
    filled = column.filter(pc.invert(is_blank(column)))
    is_number = len(filled) > 0 and pc.all(pc.match_substring_regex(filled, _NUMBER)).as_py()
    return ColumnKind.NUMBER if is_number else ColumnKind.TEXT


def describe(table: Table) -> tuple[Column, ...]:
    """Every column: its kind, how many values differ, how many are empty, and the first few."""
    return tuple(_describe(name, table.rows[name]) for name in table.columns)


def _describe(name: str, column: pa.ChunkedArray) -> Column:
    texts = as_text(column)
    filled = texts.filter(pc.invert(is_blank(texts)))
    examples = filled.slice(0, 20).unique().slice(0, EXAMPLES).to_pylist()
    return Column(
        name=name,
        kind=kind_of(column),
        distinct=pc.count_distinct(filled).as_py(),
        empty=len(texts) - len(filled),
        examples=tuple(example[:EXAMPLE_CHARACTERS] for example in examples),
    )


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
    pair = _guess_pair(texts)
    if pair:
        return Guess(pair, label)
    named = [name for wanted in TEXT_NAMES for name in texts if wanted in name.lower()]
    longest = max(texts, key=lambda name: _mean_length(table, name), default=None)
    best = named[0] if named else longest
    return Guess((best,) if best else (), label)


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


def _guess_pair(texts: list[str]) -> tuple[str, ...]:
    for first, second in combinations(texts, 2):
        if _SIDE.sub("", first) == _SIDE.sub("", second):
            return (first, second)
    by_name = {name.lower(): name for name in texts}
    known = (pair for pair in PAIR_NAMES if all(name in by_name for name in pair))
    return tuple(by_name[name] for name in next(known, ()))


def _mean_length(table: Table, name: str) -> float:
    mean = pc.mean(pc.utf8_length(as_text(table.rows[name]))).as_py()
    return float(mean or 0.0)
