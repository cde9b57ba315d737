"""Whether a delimited file names its columns in its first row, or begins with data at once."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from core.engine.data.column_names import ALL_NAMES
from core.errors import DataError, Fix

LONG_TEXT = 40
"""Characters that a column's name hardly ever has."""
FEWEST_ROWS = 3
"""Below the first one; with fewer, the first row counts as the header."""

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?\s*")


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns.

    It does unless something in it looks like the rows below, such as a number where there are numbers or a label that
    comes again, and nothing in it looks like a name.
    """
    first = [value.strip() for value in rows[0]]
    below = [[value.strip() for value in row] for row in rows[1:] if len(row) == len(first)]
    below = [row for row in below if row != first]
    if len(below) < FEWEST_ROWS or any(value.lower() in ALL_NAMES for value in first):
        return True
    signs = [_sign(value, [row[place] for row in below]) for place, value in enumerate(first)]
    return max(signs) == 1 or min(signs) == 0


def _sign(first: str, below: list[str]) -> int:
    """1 where the first value of a column looks like its name, -1 where it looks like those below, else 0."""
    filled = [value for value in below if value]
    if not first or not filled:
        return 0
    if all(map(_NUMBER.fullmatch, filled)):
        return -1 if _NUMBER.fullmatch(first) else 1
    distinct = set(filled)
    if len(distinct) <= len(filled) / 2:
        return -1 if first in distinct else 0
    return -1 if len(first) > LONG_TEXT and sum(map(len, filled)) / len(filled) > LONG_TEXT else 0


def named(header: Sequence[str]) -> list[str]:
    """The columns' names; those without one are called "column 3"."""
    return [name or f"column {number}" for number, name in enumerate(header, 1)]


def refuse_repeated(path: Path, header: Sequence[str], where: str = ", row 1") -> None:
    """Stop where two columns have the same name.

    Raises:
        DataError: They have.
    """
    repeated = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if repeated:
        places = [str(number) for number, name in enumerate(header, 1) if name == repeated[0]]
        raise DataError(
            f"{path.name} has two columns called “{repeated[0]}”",
            f"{path}{where}: columns {' and '.join(places)} have the same name.",
            (Fix("Give every column a name of its own"),),
        )
