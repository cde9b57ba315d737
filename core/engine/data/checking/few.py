"""Whether there is hardly anything to learn from."""

from collections.abc import Iterator

from core.engine.data.checking import kinds
from core.findings import Finding

FEW_ROWS = 10


def few_rows(usable: int, row_word: str) -> Iterator[Finding]:
    """A warning where there is hardly anything to learn from."""
    if 0 < usable < FEW_ROWS:
        yield kinds.FEW_ROWS.finding(usable, row_word)
