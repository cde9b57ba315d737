"""Lists of words out of a table's column: as Arrow has them, written out as text, or words with spaces between them."""

import ast
import json

import pyarrow as pa
import pyarrow.compute as pc


class BadListError(Exception):
    """A cell that begins as a list and is none: the row's place in the column, and what stands there."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
        self.text = text


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists of texts or numbers; of spans of a text and the like, nothing can be made here."""
    has_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return has_lists and not pa.types.is_nested(kind.value_type)


def word_lists(column: pa.ChunkedArray) -> pa.ListArray:
    """Every row as a list of texts; a missing one is an empty list.

    Raises:
        BadListError: A cell of text begins as a list and can't be read as one.
    """
    lists, bad = read_lists(column)
    if bad:
        raise bad[0]
    return lists


def read_lists(column: pa.ChunkedArray) -> tuple[pa.ListArray, list[BadListError]]:
    """As `word_lists`; cells that can't be read are empty lists, and told."""
    if is_list(column.type):
        lists = column.cast(pa.list_(column.type.value_type)).combine_chunks()
        lists = lists.cast(pa.list_(pa.string()))
        found = (
            lists if lists.null_count == 0 else pa.array([row or [] for row in lists.to_pylist()], lists.type)
        )
        return found, []
    bad: list[BadListError] = []
    rows: list[list[str | None]] = []
    for index, text in enumerate(pc.fill_null(column.cast(pa.string()), "").to_pylist()):
        try:
            rows.append(_split(index, text))
        except BadListError as error:
            bad.append(error)
            rows.append([])
    return pa.array(rows, pa.list_(pa.string())), bad


def _split(index: int, text: str) -> list[str | None]:
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return list(text.split())
    try:
        found = _read(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise BadListError(index, text) from error
    if not isinstance(found, list) or any(isinstance(value, list | dict | tuple) for value in found):
        raise BadListError(index, text)
    return [None if value is None else str(value) for value in found]


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)  # as pandas writes lists into a CSV file; it computes nothing
