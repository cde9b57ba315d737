"""What only shows of conversations when all rows are seen."""

from collections.abc import Iterator, Sequence

import msgspec

from core.engine.data.checking.few import few_rows
from core.engine.data.checking.kinds import DUPLICATES
from core.engine.data.checking.repeats import Prints64
from core.engine.data.conversations import kinds
from core.findings import ROWS_NAMED, Finding, Tally


def of_the_file(usable: int, tally: Tally) -> list[Finding]:
    """What is to be said of how many rows can be used."""
    if usable == 0 and not tally.has_problems:
        return [kinds.NOTHING_LEFT.finding(0, tally.row_word)]
    return list(few_rows(usable, tally.row_word))


def repeated_rows(prints: Prints64, numbers: Sequence[int], row_word: str) -> Iterator[Finding]:
    """A warning of rows that are the same as an earlier one; `numbers` are those of all rows in the file."""
    places = prints.repeated().same
    if len(places):
        rows = tuple(numbers[place] for place in places[:ROWS_NAMED])
        yield msgspec.structs.replace(DUPLICATES.finding(len(places), row_word), rows=rows)
