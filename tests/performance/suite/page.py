"""The table in docs/benchmarks.md, between two marks, made from the newest results kept."""

from pathlib import Path

import msgspec

from tests.performance.suite.record import Form, Record
from tests.performance.suite.tables import markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"
BEGIN = "<!-- benchmarks: made by `python3 start.py bench --page` -->"
END = "<!-- benchmarks: end -->"
NONE_KEPT = "No results are kept yet."


def block(record: Record | None) -> str:
    """What stands between the marks; short forms have nothing to tell."""
    whole = [one for one in record.outcomes if one.form is Form.FULL] if record is not None else []
    if record is None or not whole:
        return NONE_KEPT
    return markdown(msgspec.structs.replace(record, outcomes=tuple(whole)))


def put(text: str, inner: str) -> str:
    """A page with `inner` between its marks.

    Raises:
        ValueError: It hasn't got them.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/benchmarks.md has no line {BEGIN} with {END} after it")
    return f"{before}{BEGIN}\n\n{inner}\n\n{END}{after}"


def rewrite(record: Record | None) -> None:
    """Put a record into docs/benchmarks.md."""
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), block(record)), encoding="utf-8")
