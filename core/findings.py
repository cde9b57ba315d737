"""What a check of data has found: one finding a kind, with how many rows it concerns and the first of them.

Checks run over files of any length, so a tally keeps counts and the first row numbers of each kind, never rows.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from core.errors import Fix

ROWS_NAMED = 20
"""So many row numbers of a finding are kept."""
DETAILS_TOLD_APART = 20
"""So many names (of roles, of keys) are told apart in one kind of finding; further ones are counted together."""
OTHERS = "others"


class FindingLevel(StrEnum):
    """Whether a run can start: a problem stops it, a warning lets it pass."""

    PROBLEM = "problem"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing found in a file.

    `code` names the kind for programs, `message` is a sentence with the count. `rows` are the numbers, in the file, of
    the first rows concerned (at most 20), `row_word` says what is numbered: row, line or record. `count` counts rows.
    `in_eval`: they are rows of the evaluation data.
    """

    code: str
    level: FindingLevel
    message: str
    count: int
    rows: tuple[int, ...] = ()
    row_word: str = "row"
    fixes: tuple[Fix, ...] = ()
    in_eval: bool = False

    @property
    def where(self) -> str:
        """The rows in words, such as "rows 4, 17, 20 and 8 more"; empty where it concerns no single row."""
        if not self.rows:
            return ""
        shown = ", ".join(f"{row:,}" for row in self.rows)
        more = self.count - len(self.rows)
        word = self.row_word if self.count == 1 else f"{self.row_word}s"
        return f"{word} {shown} and {more:,} more" if more > 0 else f"{word} {shown}"


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding, declared once.

    `says` is its sentence with `{rows}` for the counted rows ("3 rows"), `{have}`, `{are}` and `{do}` for the fitting
    form of the verb, and `{detail}` for what tells findings of this kind apart, such as the name of a role.
    """

    code: str
    level: FindingLevel
    says: str
    advice: str = ""

    def message(self, count: int, row_word: str = "row", detail: str = "") -> str:
        """The sentence for so many rows."""
        one = count == 1
        return self.says.format(
            rows=f"{count:,} {row_word}" if one else f"{count:,} {row_word}s",
            have="has" if one else "have",
            are="is" if one else "are",
            do="does" if one else "do",
            detail=detail,
        )

    def finding(self, count: int, row_word: str = "row") -> Finding:
        """A finding about the whole file, which concerns no single row."""
        return Finding(
            code=self.code,
            level=self.level,
            message=self.message(count, row_word),
            count=count,
            row_word=row_word,
            fixes=self.fixes,
        )

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """What to do in any case, as advice."""
        return (Fix(self.advice),) if self.advice else ()


@dataclass
class _Counted:
    """What is kept of one kind (and one detail of it); `example` tells about the first row more exactly."""

    kind: FindingKind
    detail: str
    example: str
    fixes: tuple[Fix, ...]
    is_left_out: bool
    count: int = 0
    rows: list[int] = field(default_factory=list)

    def finding(self, row_word: str) -> Finding:
        message = self.kind.message(self.count, row_word, self.detail)
        if self.example:
            message = f"{message} {row_word.capitalize()} {self.rows[0]:,}: {self.example}"
        if self.is_left_out:
            message = f"{message} {'It is' if self.count == 1 else 'They are'} left out."
        return Finding(
            code=self.kind.code,
            level=FindingLevel.WARNING if self.is_left_out else self.kind.level,
            message=message,
            count=self.count,
            rows=tuple(self.rows),
            row_word=row_word,
            fixes=(*self.fixes, *self.kind.fixes),
        )


class Tally:
    """Counts what is found while rows go by; what it keeps doesn't grow with their number.

    Args:
        row_word: What the numbers count: row, line or record.
        skip: Whether rows with a problem are left out, so that it is no more than a warning.
    """

    def __init__(self, row_word: str = "row", *, skip: bool = False) -> None:
        self.row_word = row_word
        self._skip = skip
        self._counted: dict[tuple[str, str], _Counted] = {}

    def add(
        self, kind: FindingKind, row: int, *, detail: str = "", example: str = "", fixes: tuple[Fix, ...] = ()
    ) -> None:
        """Count a row once more; `example` and `fixes` of the first row of its kind and detail are kept."""
        counted = self._counted.get((kind.code, detail))
        if counted is None:
            if sum(code == kind.code for code, _ in self._counted) >= DETAILS_TOLD_APART:
                detail, fixes = OTHERS, ()
            counted = self._counted.setdefault(
                (kind.code, detail), _Counted(kind, detail, example, fixes, self._leaves_out(kind))
            )
        counted.count += 1
        if len(counted.rows) < ROWS_NAMED:
            counted.rows.append(row)

    @property
    def has_problems(self) -> bool:
        """Whether something found so far stops a run."""
        stops = (counted.kind.level is FindingLevel.PROBLEM for counted in self._counted.values())
        return not self._skip and any(stops)

    def _leaves_out(self, kind: FindingKind) -> bool:
        return self._skip and kind.level is FindingLevel.PROBLEM

    def findings(self) -> tuple[Finding, ...]:
        """All that was found, problems first, each level in the order of the first rows."""
        found = [counted.finding(self.row_word) for counted in self._counted.values()]
        return in_order(found)


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Problems before warnings, otherwise as they come."""
    return tuple(sorted(findings, key=lambda finding: finding.level is FindingLevel.WARNING))
