"""Rows that are left out because somebody asked for it: how to ask, and how it is told."""

from collections.abc import Iterable

import msgspec

from core.errors import Fix
from core.findings import Finding, FindingLevel

LEAVE_OUT = Fix("Leave these rows out", {"data.skip_bad_rows": True})
DROP_REPEATS = Fix("Leave the repeats out", {"data.drop_duplicates": True})


def told(count: int, row_word: str, why: str, first: str = "") -> str:
    """The note of rows that were left out.

    Args:
        count: How many.
        row_word: What they are called.
        why: What they have, after "with".
        first: Where the first of them stands; empty: that isn't said.
    """
    rows = f"1 {row_word}" if count == 1 else f"{count:,} {row_word}s"
    place = f", the first is {first}" if first else ""
    return f"Left out as asked: {rows} {why}{place}."


def repeats(count: int, row_word: str) -> tuple[str, ...]:
    """The note of repeated rows that were left out; none where there were none."""
    return (told(count, row_word, "the same as an earlier one"),) if count else ()


def offered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with the fix that leaves out the rows which stop a run; for where others are left."""
    return tuple(
        msgspec.structs.replace(finding, fixes=(*finding.fixes, LEAVE_OUT))
        if finding.level is FindingLevel.PROBLEM and LEAVE_OUT not in finding.fixes
        else finding
        for finding in findings
    )
