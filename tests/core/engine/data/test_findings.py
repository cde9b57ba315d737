"""Findings are counted by kind and named by their first rows."""

import msgspec

from core.base.errors import Fix
from core.engine.data.findings import FindingKind, Tally
from core.jobs.inspect import DataFinding, FindingLevel

EMPTY = FindingKind("empty", FindingLevel.WARNING, "{rows}: no text, left out.", "Fill them in")
NAMELESS = FindingKind("nameless", FindingLevel.PROBLEM, "{rows}: no “{detail}”.")


def test_a_tally_keeps_counts_and_the_first_rows():
    tally = Tally("line")
    for row in range(100, 1130):
        tally.add(EMPTY, row)
    [found] = tally.findings()
    assert found.message == "1,030 examples: no text, left out."
    assert (found.count, found.rows, found.fixes) == (1030, tuple(range(100, 120)), (Fix("Fill them in"),))
    assert found.where.startswith("lines 100, 101")
    assert found.where.endswith("119 and 1,010 more")
    tally = Tally()
    tally.add(EMPTY, 1234, example="it is blank.")
    [found] = tally.findings()
    assert found.message == "1 example: no text, left out. Row 1,234: it is blank."
    assert found.where == "row 1,234"
    assert msgspec.json.decode(msgspec.json.encode(found), type=DataFinding) == found


def test_problems_come_first_and_details_are_told_apart():
    tally = Tally()
    tally.add(EMPTY, 1)
    assert not tally.has_problems
    for row, name in enumerate(("{a}", "b", "{a}"), 2):
        tally.add(NAMELESS, row, detail=name, fixes=(Fix(name),))
    assert tally.has_problems
    assert [(finding.message, finding.rows, len(finding.fixes)) for finding in tally.findings()] == [
        ("2 examples: no “{a}”.", (2, 4), 1),
        ("1 example: no “b”.", (3,), 1),
        ("1 example: no text, left out.", (1,), 1),
    ]
