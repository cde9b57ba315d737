"""A fault that was made on purpose and what came of it, and the table of many."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

WRONG = "wrong"


@dataclass
class Case:
    """One fault of a `kind`: how it ended, all that went wrong, and words about it."""

    kind: str
    outcome: str
    wrong: list[str] = field(default_factory=list)
    words: str = ""


def table(cases: Sequence[Case], kinds: Sequence[str]) -> str:
    """How many cases of each kind ended how; `wrong` where anything went wrong."""
    outcomes = [*dict.fromkeys(case.outcome for case in cases if not case.wrong), WRONG]
    rows = [f"| kind | faults | {' | '.join(outcomes)} |", "|---" * (len(outcomes) + 2) + "|"]
    for kind in (*kinds, "all"):
        some = [case for case in cases if kind in ("all", case.kind)]
        ended = Counter(WRONG if case.wrong else case.outcome for case in some)
        rows.append(f"| {kind} | {len(some)} | {' | '.join(str(ended[name]) for name in outcomes)} |")
    return "\n".join(rows)
