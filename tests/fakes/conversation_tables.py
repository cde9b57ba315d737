"""Tables of conversations, as `read_table` gives them, made of rows in a file of the test."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.engine.data.conversations import ChatRow, ConversationReader, find_shape
from core.engine.data.tables import Table, read_table
from core.services.inspect import Finding, FindingLevel, Tally

GOOD = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@dataclass(frozen=True)
class Checked:
    """All that is found in a table, and its usable rows."""

    rows: tuple[ChatRow, ...]
    findings: tuple[Finding, ...]

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


def checked(table: Table, *, preference: bool = False, columns: Any = None, roles: Any = None) -> Checked:
    """All that is found in a table, and all its usable rows."""
    shape = find_shape(table, preference=preference, columns=columns)
    tally = Tally(table.row_word)
    rows = tuple(ConversationReader(table, shape, tally, roles))
    return Checked(rows, tally.findings())
