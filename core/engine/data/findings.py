"""Findings of checks: their kinds, their fixes, and a tally over rows."""

from dataclasses import dataclass, field

import msgspec

from core.base import formats
from core.base.errors import Fix
from core.base.language import ngettext
from core.jobs.inspect import DataFinding, FindingLevel

ROWS_NAMED = 20
"""Maximum number of row numbers in a finding."""


MOST_DETAILS = 20
"""Maximum number of details (names of roles or keys) of one kind of finding; further ones are counted together."""


OTHERS = "others"


SKIP_PROBLEMS = {"data.skip_bad_rows": True}


def leave_out(count: int) -> Fix:
    """Returns the fix that leaves out what would stop a run."""
    label = ngettext("Leave it out", "Leave these {count:,} out", count)
    return Fix(label.format(count=count), SKIP_PROBLEMS)


FILES_NAMED = 200


def left_out(finding: DataFinding) -> DataFinding:
    """Returns a problem as a warning that says what becomes of its rows; warnings are unchanged."""
    if finding.level is FindingLevel.WARNING:
        return finding
    text = ngettext("It is left out.", "They are left out.", finding.count)
    message = formats.paragraph(finding.message, text)
    fixes = tuple(fix for fix in finding.fixes if fix.changes)
    return msgspec.structs.replace(finding, level=FindingLevel.WARNING, message=message, fixes=fixes)


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    `says` is its sentence with `{rows}` for what is counted ("3 examples", or another `noun`) and `{detail}` for the
    name of a role or key.
    """

    code: str
    level: FindingLevel
    says: str
    advice: str = ""
    noun: str = "example"

    def message(self, count: int, row_word: str = "row", detail: str = "") -> str:
        """Returns the sentence for `count` rows."""
        noun = "image" if row_word == "image" else self.noun
        return self.says.format(rows=formats.counted(count, noun), detail=detail)

    def finding(self, count: int, row_word: str = "row") -> DataFinding:
        """Returns a finding about the whole file."""
        return DataFinding(
            code=self.code,
            level=self.level,
            message=self.message(count, row_word),
            count=count,
            row_word=row_word,
            fixes=self.fixes,
        )

    @property
    def fixes(self) -> tuple[Fix, ...]:
        return (Fix(self.advice),) if self.advice else ()


@dataclass
class _Counted:
    """Rows with one kind of finding and one detail; `example` describes the first row."""

    kind: FindingKind
    detail: str
    example: str
    fixes: tuple[Fix, ...]
    count: int = 0
    last: int = -1
    rows: list[int] = field(default_factory=list)


class Tally:
    """Counts findings row by row in constant memory.

    Args:
        row_word: What is numbered: row, line or record.
        skip: Whether rows with a problem are skipped, which makes the problem a warning.
    """

    def __init__(self, row_word: str = "row", *, skip: bool = False) -> None:
        self.row_word = row_word
        self._skip = skip
        self._counted: dict[tuple[str, str], _Counted] = {}

    def add(
        self, kind: FindingKind, row: int, *, detail: str = "", example: str = "", fixes: tuple[Fix, ...] = ()
    ) -> None:
        """Counts a row once per kind and detail; rows come in order. The first one's `example` and `fixes` are used."""
        counted = self._counted.get((kind.code, detail))
        if counted is None:
            if sum(code == kind.code for code, _rest in self._counted) >= MOST_DETAILS:
                detail, fixes = OTHERS, ()
            new = _Counted(kind, detail, example, fixes)
            counted = self._counted.setdefault((kind.code, detail), new)
        if counted.last == row:
            return
        counted.last = row
        counted.count += 1
        if len(counted.rows) < ROWS_NAMED:
            counted.rows.append(row)

    @property
    def has_problems(self) -> bool:
        return any(finding.level is FindingLevel.PROBLEM for finding in self.findings())

    def findings(self) -> tuple[DataFinding, ...]:
        """Returns all findings, problems first, otherwise in the order of their first rows."""
        return in_order([self._finding(counted) for counted in self._counted.values()])

    def _finding(self, counted: _Counted) -> DataFinding:
        kind = counted.kind
        message = kind.message(counted.count, self.row_word, counted.detail)
        if counted.example:
            place = formats.places(self.row_word, counted.rows[:1]).capitalize()
            message = formats.paragraph(message, formats.titled(place, counted.example))
        finding = DataFinding(
            code=kind.code,
            level=kind.level,
            message=message,
            count=counted.count,
            rows=tuple(counted.rows),
            row_word=self.row_word,
            fixes=(*counted.fixes, *kind.fixes),
        )
        return left_out(finding) if self._skip else finding


def in_order(findings: list[DataFinding]) -> tuple[DataFinding, ...]:
    """Returns problems before warnings, otherwise unchanged."""
    return tuple(sorted(findings, key=lambda finding: finding.level is FindingLevel.WARNING))
