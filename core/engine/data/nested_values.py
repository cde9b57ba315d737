"""Lists and objects among the texts of a column, as a file of JSON may have them: nothing that a model can read."""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data.columns import as_text
from core.engine.data.json_values import Why
from core.engine.data.leaving_out import LEAVE_OUT
from core.engine.data.tables import Table
from core.errors import DataError, Fix


def refuse_nested(table: Table, names: tuple[str, ...]) -> None:
    """Stop where a column of texts holds lists or objects in some rows.

    Raises:
        DataError: It does.
    """
    for name in names:
        found = nested_rows(table, name)
        if found:
            raise nested_values(table, name, found[0], len(found))


def nested_rows(table: Table, name: str) -> list[int]:
    """Which rows of a column hold lists or objects among texts."""
    return list(nested_places(as_text(table.rows[name]))) if is_mixed(table, name) else []


def is_mixed(table: Table, name: str) -> bool:
    """Whether a column of JSON had several kinds of values, which were made texts."""
    return any(note.startswith(f"Column “{name}” {Why.MIXED.value}") for note in table.notes)


def nested_places(texts: pa.ChunkedArray) -> Iterator[int]:
    """Places of texts that are a list or an object written as JSON."""
    likely = pc.fill_null(pc.match_substring_regex(texts, r"^[\[{]"), False)
    for place in np.flatnonzero(likely.to_numpy()):
        try:
            json.loads(texts[int(place)].as_py())
        except ValueError:
            continue
        except RecursionError:
            pass  # nested so deeply that nobody meant it as a text
        yield int(place)


def nested_values(table: Table, name: str, index: int, count: int) -> DataError:
    """The error for lists or objects among texts: the first of them, and how many there are."""
    others = f" So it is in {count:,} rows." if count > 1 else ""
    return DataError(
        f"“{name}” holds a list or an object in {table.where(index)}",
        f"{table.path}: a model reads texts, and in other rows there is one.{others}",
        (Fix("Write a text there, or choose another column"), LEAVE_OUT),
    )
