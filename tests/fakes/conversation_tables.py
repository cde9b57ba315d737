"""Tables of conversations, as `read_table` gives them, made of rows in a file of the test."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.engine.data.checks import Prints64
from core.engine.data.conversation_shapes import Row, find_shape, fingerprint
from core.engine.data.conversations import of_the_file, read_rows, repeated_rows
from core.engine.data.tables import Table, read_table
from core.services.inspect import Finding, FindingLevel, Tally, in_order

GOOD = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@dataclass(frozen=True)
class Checked:
    """All that is found in a table, and its usable rows."""

    first: tuple[Row, ...]
    findings: tuple[Finding, ...]

    @property
    def usable(self) -> int:
        """How many rows can be used."""
        return len(self.first)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that stop a run."""
        return tuple(finding for finding in self.findings if finding.level is FindingLevel.PROBLEM)


def json_table(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows through a JSON Lines file."""
    path = folder / "talks.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return read_table(path)


def csv_table(folder: Path, rows: Sequence[Mapping[str, str]]) -> Table:
    """The rows through a CSV file, where every value is a text."""
    path = folder / "talks.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return read_table(path)


def checked(table: Table, *, preference: bool = False, **options: Any) -> Checked:
    """All that is found in a table, and all its usable rows."""
    columns = options.pop("columns", None)
    shape = find_shape(table, preference=preference, columns=columns)
    tally = Tally(table.row_word)
    rows = tuple(read_rows(table, shape, tally, **options))
    prints = Prints64()
    prints.add(map(fingerprint, rows), [""] * len(rows))
    repeated = repeated_rows(prints, [row.row for row in rows], table.row_word)
    return Checked(rows, in_order([*tally.findings(), *repeated, *of_the_file(len(rows), tally)]))


def checked_messages(folder: Path, *conversations: Any) -> Checked:
    """What is found in a file of these conversations with good ones around them, the first in line 2."""
    rows = [GOOD, *conversations, *([{"role": "user", "content": f"{n}?"}, GOOD[1]] for n in range(10))]
    return checked(json_table(folder, [{"messages": row} for row in rows]))


def only(found: Checked, code: str) -> Finding:
    """The one finding, which must be of that kind."""
    assert [finding.code for finding in found.findings] == [code], found.findings
    return found.findings[0]
