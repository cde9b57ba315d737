"""Values of a table's cells: texts, numbers, nested lists, and JSON written as text."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from core.engine.data.conversations import kinds
from core.errors import Fix
from core.findings import FindingKind, FindingLevel, Tally

NAME_CHARACTERS = 60
ROLE_KEYS = ("role", "from", "speaker")
CONTENT_KEYS = ("content", "value", "text")
LIST_KEYS = ("messages", "conversations", "conversation")
CALL_KEYS = ("tool_calls", "function_call")


@dataclass
class RowFaults:
    """What is wrong with one row, each kind once."""

    found: dict[tuple[str, str], tuple[FindingKind, str, tuple[Fix, ...]]] = field(default_factory=dict)

    def add(
        self, kind: FindingKind, *, detail: str = "", example: str = "", fixes: tuple[Fix, ...] = ()
    ) -> None:
        """Note a fault; `detail` tells faults of a kind apart, `example` says it of this row more exactly."""
        self.found.setdefault((kind.code, detail), (kind, example, fixes))

    @property
    def has_problem(self) -> bool:
        """Whether the row can't be used."""
        return any(kind.level is FindingLevel.PROBLEM for kind, _, _ in self.found.values())

    def count_into(self, tally: Tally, row: int) -> None:
        """Add what was found to the tally of the file."""
        for (_, detail), (kind, example, fixes) in self.found.items():
            tally.add(kind, row, detail=detail, example=example, fixes=fixes)


def plain(value: Any) -> Any:
    """A nested value of Arrow without the keys it fills in: every struct of a column has the keys of all of them."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def is_blank(value: Any) -> bool:
    """Whether a cell holds nothing: missing, white space, an empty list."""
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def looks_like_messages(value: Any) -> bool:
    """Whether a cell holds messages: a list of objects that say who speaks, or such a list as text, or one of them."""
    if isinstance(value, str):
        value = _parsed_or_none(value)
    if isinstance(value, dict):
        value = _unwrapped(value)
    if not isinstance(value, list) or not value:
        return False
    return any(isinstance(item, dict) and _says_who(item) for item in value)


def _says_who(item: dict[str, Any]) -> bool:
    has_role = any(key in item for key in ROLE_KEYS)
    return has_role and any(key in item for key in (*CONTENT_KEYS, *CALL_KEYS))


def _parsed_or_none(text: str) -> Any:
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unwrapped(value: dict[str, Any]) -> Any:
    """The list within `{"messages": [...]}`, or a list of the one message that this is."""
    inner = next((value[key] for key in LIST_KEYS if isinstance(value.get(key), list)), None)
    return [value] if inner is None else inner


def as_list(value: Any, faults: RowFaults, kind: FindingKind = kinds.UNPARSABLE) -> list[Any] | None:
    """The list a cell holds, nested or as JSON; None, with a fault of `kind`, where it holds something else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            faults.add(kind, example=f"{error}.")
            return None
        except RecursionError:
            faults.add(kind, example="lists are nested too deeply.")
            return None
    else:
        value = plain(value)
    if isinstance(value, dict):
        value = _unwrapped(value)
    if not isinstance(value, list):
        faults.add(kind, example=f"it is {shown(value)}, not a list.")
        return None
    return value


def text_of(value: Any, column: str, faults: RowFaults) -> str:
    """A cell as text; numbers are written out. Lists and objects are a fault."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return "" if math.isnan(value) else str(value)  # NaN is how columns of floats say nothing
    faults.add(kinds.MIXED_TYPES, detail=column, example=f"it is {shown(value)}.")
    return ""


def shown(value: Any) -> str:
    """A value as a sentence shows it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "nested too deeply to show"
    return text if len(text) <= NAME_CHARACTERS else f"{text[:NAME_CHARACTERS]}…"
