"""Which columns of a table hold words and their tags."""

import json
from itertools import islice

import pyarrow as pa

from core.engine.data.column_names import listed
from core.engine.data.columns import Guess
from core.engine.data.tables import Table
from core.engine.data.text_checks import missing_column
from core.engine.data.word_lists import BadListError, is_list, word_lists
from core.errors import DataError, Fix

WORD_NAMES = ("tokens", "words", "token", "word", "sentence", "text", "form", "forms")
TAG_NAMES = (
    *("ner_tags", "tags", "ner", "labels", "label", "tag", "entities", "ner_labels", "named_entities"),
    *("pos_tags", "upos", "pos", "chunk_tags", "xpos"),
)
LOOKED_AT = 100
"""Rows by which it is told whether two columns go together."""


def guess_tag_columns(table: Table, text: tuple[str, ...] = (), tags: str | None = None) -> Guess:
    """Fill in the columns that weren't chosen: by what such columns are called, else two with lists of equal length."""
    names = {name.strip().lower(): name for name in table.columns}
    words = text or tuple(
        islice((names[name] for name in WORD_NAMES if name in names and names[name] != tags), 1)
    )
    called = [names[name] for name in TAG_NAMES if name in names and names[name] not in words]
    tags = tags or next(iter(called), None)
    lists = [name for name in table.columns if is_list(table.rows.schema.field(name).type)]
    if not words:
        texts = [name for name in lists if name != tags and not _holds_numbers(table, name)]
        words = tuple(texts[:1])
    if tags is None and words:
        fitting = (
            name for name in table.columns if name not in words and _go_together(table, words[0], name)
        )
        tags = next(fitting, None)
    return Guess(words, tags)


def check_tag_columns(table: Table, guess: Guess) -> None:
    """Stop where words or tags can't be what was chosen.

    Raises:
        DataError: A column is missing, two of them are to hold the words, or what is in one is no list.
    """
    if len(guess.text) > 1:
        raise DataError(
            "Words stand in one column",
            f"{listed(guess.text)} were chosen; labelling words reads one column of words and one of tags.",
            (Fix(f"Use “{guess.text[0]}”", {"data.text_columns": [guess.text[0]]}),),
        )
    if not guess.text or guess.label is None:
        what = "words" if not guess.text else "tags"
        raise DataError(
            f"{table.path.name} has no column of {what}",
            f"{table.path} has the columns {listed(table.columns)}. Labelling words needs two columns with a list in "
            "each row: words such as tokens, and as many tags such as ner_tags; or a CoNLL file.",
            (Fix("Choose the columns yourself, or another file"),),
        )
    likely = guess_tag_columns(table)
    if guess.text[0] not in table.columns:
        raise missing_column(
            table, guess.text[0], "data.text_columns", guess.text, next(iter(likely.text), None)
        )
    if guess.label not in table.columns:
        raise missing_column(table, guess.label, "data.label_column", (guess.label,), likely.label)
    for name in (guess.text[0], guess.label):
        kind = table.rows.schema.field(name).type
        if not is_list(kind) and not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
            what = "words" if name == guess.text[0] else "tags"
            raise DataError(
                f"Column “{name}” of {table.path.name} holds no lists of {what}",
                f"{table.path}: labelling words needs a list of words and a list of as many tags in each row.",
                (Fix("Choose the columns yourself, or another file"),),
            )


def tag_names(table: Table, column: str) -> tuple[str, ...]:
    """What the numbers of a column stand for, where the file says so as the library `datasets` writes it; or empty."""
    if not _holds_numbers(table, column):
        return ()
    written = (table.rows.schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        feature = json.loads(written)["info"]["features"][column]
        names = feature.get("feature", feature)["names"]
        return tuple(map(str, names))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _holds_numbers(table: Table, name: str) -> bool:
    kind = table.rows.schema.field(name).type
    return is_list(kind) and pa.types.is_integer(kind.value_type)


def _go_together(table: Table, words: str, tags: str) -> bool:
    first = table.first(LOOKED_AT).rows
    try:
        lengths = [[len(row) for row in word_lists(first[name]).to_pylist()] for name in (words, tags)]
    except (BadListError, pa.ArrowException):
        return False
    return lengths[0] == lengths[1] and max(lengths[0], default=0) > 1
