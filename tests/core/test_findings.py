"""Findings are counted by kind, named by their first rows, and said as sentences."""

import msgspec

from core.base.errors import Fix
from core.services.inspect import Finding, FindingKind, FindingLevel, Tally

EMPTY = FindingKind(
    "empty", FindingLevel.WARNING, "{rows} {have} no text and {are} left out.", "Fill them in"
)
NAMELESS = FindingKind("nameless", FindingLevel.PROBLEM, "{rows} {do} not name “{detail}”.")


def test_a_tally_keeps_counts_and_the_first_rows() -> None:
    tally = Tally("line")
    for row in range(100, 1130):
        tally.add(EMPTY, row)
    (found,) = tally.findings()
    assert found.message == "1,030 lines have no text and are left out."
    assert (found.count, found.rows) == (1030, tuple(range(100, 120)))
    assert found.where.startswith("lines 100, 101")
    assert found.where.endswith("119 and 1,010 more")
    assert found.fixes == (Fix("Fill them in"),)


def test_one_row_is_said_as_one() -> None:
    tally = Tally()
    tally.add(EMPTY, 1234, example="it is blank.")
    (found,) = tally.findings()
    assert found.message == "1 row has no text and is left out. Row 1,234: it is blank."
    assert found.where == "row 1,234"


def test_problems_come_first_and_details_are_told_apart() -> None:
    tally = Tally()
    tally.add(EMPTY, 1)
    assert not tally.has_problems
    for row, name in enumerate(("{a}", "b", "{a}"), 2):
        tally.add(NAMELESS, row, detail=name, fixes=(Fix(name),))
    assert tally.has_problems
    found = [(finding.message, finding.rows, len(finding.fixes)) for finding in tally.findings()]
    assert found == [
        ("2 rows do not name “{a}”.", (2, 4), 1),
        ("1 row does not name “b”.", (3,), 1),
        ("1 row has no text and is left out.", (1,), 1),
    ]


def test_findings_travel_as_json() -> None:
    tally = Tally()
    tally.add(NAMELESS, 1, detail="a", fixes=(Fix("Do it", {"data.roles": {"a": "user"}}),))
    (found,) = tally.findings()
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found
