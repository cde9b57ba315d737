"""Which shape a table of conversations has, told from its columns' names and values.

The first that fits counts. For chat:

1. a column of messages (OpenAI's `messages`, ShareGPT's `conversations`), called like one or looking like one;
2. a question and an answer: Alpaca's instruction, input and output; prompt and completion; and what else they are
   called;
3. a column of plain text, called like one or the only one.

For preferences: a better and a worse answer, after a column of messages, or a question, or nothing, where what both
begin with is the question. What a person has chosen stands, and the rest is found around it.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from core.conversation_words import CHAT_COLUMNS, PREFERENCE_COLUMNS, ColumnRole
from core.engine.data.column_names import listed
from core.engine.data.conversations.cells import looks_like_messages
from core.engine.data.tables import Table
from core.errors import DataError, Fix

SAMPLE_ROWS = 200
R = ColumnRole

NAMES: dict[ColumnRole, tuple[str, ...]] = {
    R.CONVERSATION: (
        "messages",
        "conversations",
        "conversation",
        "dialogue",
        "dialog",
        "chat",
        "turns",
        "conv",
    ),
    R.SYSTEM: ("system", "system_prompt", "system_message"),
    R.PROMPT: ("instruction", "prompt", "question", "query", "problem", "input", "request", "user", "human"),
    R.INPUT: ("input", "context", "inputs"),
    R.HISTORY: ("history",),
    R.ANSWER: (
        "output",
        "completion",
        "answer",
        "response",
        "reply",
        "solution",
        "target",
        "assistant",
        "gpt",
    ),
    R.CHOSEN: (
        "chosen",
        "preferred",
        "preferred_output",
        "accepted",
        "better",
        "chosen_response",
        "response_chosen",
    ),
    R.REJECTED: (
        "rejected",
        "dispreferred",
        "non_preferred_output",
        "worse",
        "rejected_response",
        "response_rejected",
    ),
    R.TOOLS: ("tools", "functions"),
    R.TEXT: ("text", "content", "document", "body", "story", "passage", "code"),
}
"""What columns of each role are called, likeliest first."""


class ShapeKind(StrEnum):
    """The shapes that are told apart."""

    MESSAGES = "messages"
    SHAREGPT = "sharegpt"
    ALPACA = "alpaca"
    PROMPT = "prompt-completion"
    TEXT = "text"
    PREFERENCE = "preference"


SHAPE_TITLES = {
    ShapeKind.MESSAGES: "Messages (role and content)",
    ShapeKind.SHAREGPT: "ShareGPT conversations",
    ShapeKind.ALPACA: "Instructions (Alpaca)",
    ShapeKind.PROMPT: "Questions and answers",
    ShapeKind.TEXT: "Plain text",
    ShapeKind.PREFERENCE: "Better and worse answers",
}
"""What the data card calls each."""


@dataclass(frozen=True)
class Shape:
    """A shape and the column each role has; roles without a column are absent."""

    kind: ShapeKind
    columns: Mapping[ColumnRole, str]


@dataclass(frozen=True)
class _Recipe:
    """The roles a shape needs, and those it can do without."""

    needed: tuple[ColumnRole, ...]
    optional: tuple[ColumnRole, ...] = ()


_CHAT = (
    _Recipe((R.CONVERSATION,), (R.SYSTEM, R.TOOLS)),
    _Recipe((R.PROMPT, R.ANSWER), (R.INPUT, R.SYSTEM, R.HISTORY, R.TOOLS)),
    _Recipe((R.TEXT,)),
)
_PREFERENCE = (
    _Recipe((R.CHOSEN, R.REJECTED, R.CONVERSATION), (R.SYSTEM, R.TOOLS)),
    _Recipe((R.CHOSEN, R.REJECTED, R.PROMPT), (R.INPUT, R.SYSTEM, R.HISTORY, R.TOOLS)),
    _Recipe((R.CHOSEN, R.REJECTED), (R.SYSTEM, R.TOOLS)),
)


def find_shape(table: Table, *, preference: bool = False, columns: Mapping[str, str] | None = None) -> Shape:
    """The shape of a table.

    Args:
        table: The rows.
        preference: Look for a better and a worse answer instead of conversations.
        columns: `data.columns`: the column of a role, as the person chose it; an empty name says that there is none.

    Raises:
        DataError: A column that was chosen isn't there, or nothing fits.
    """
    chosen = _checked(table, columns or {}, PREFERENCE_COLUMNS if preference else CHAT_COLUMNS)
    for recipe in _PREFERENCE if preference else _CHAT:
        found = _filled(table, recipe, chosen)
        if found is not None:
            kind = ShapeKind.PREFERENCE if preference else _chat_kind(table, found)
            return Shape(kind, found)
    raise _nothing_fits(table, preference)


def _checked(
    table: Table, columns: Mapping[str, str], known: tuple[ColumnRole, ...]
) -> dict[ColumnRole, str]:
    for role, name in columns.items():
        if role not in known:
            left = {key: value for key, value in columns.items() if key != role}
            raise DataError(
                f"“{role}” is nothing a column can be here",
                f"data.columns says that “{name}” is “{role}”; it must be one of {', '.join(known)}.",
                (Fix(f"Leave “{role}” out", {"data.columns": left}),),
            )
        if name and name not in table.columns:
            raise _missing(table, role, name, columns)
    return {ColumnRole(role): name for role, name in columns.items()}


def _missing(table: Table, role: str, name: str, columns: Mapping[str, str]) -> DataError:
    by_lower = {column.lower(): column for column in table.columns}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    fixes = [
        Fix(f"Use “{by_lower[match]}”", {"data.columns": {**columns, role: by_lower[match]}})
        for match in close
    ]
    return DataError(
        f"{table.path.name} has no column “{name}”",
        f"{table.path} has the columns {listed(table.columns)}; “{name}” was to be its {role}.",
        (*fixes, Fix("Let Hone find it", {"data.columns": {}})),
    )


def _filled(table: Table, recipe: _Recipe, chosen: Mapping[ColumnRole, str]) -> dict[ColumnRole, str] | None:
    """The columns of a recipe's roles; None where one it needs isn't there, or it has no use for a chosen one."""
    roles = (*recipe.needed, *recipe.optional)
    if any(name and role not in roles for role, name in chosen.items()):
        return None
    found = {role: name for role, name in chosen.items() if name}
    for role in roles:
        if role not in chosen:
            name = _guess(table, role, set(found.values()))
            if name is not None:
                found[role] = name
    return found if all(role in found for role in recipe.needed) else None


def _guess(table: Table, role: ColumnRole, taken: set[str]) -> str | None:
    free = [name for name in table.columns if name not in taken]
    by_name = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in reversed(free)}
    named = [by_name[name] for name in NAMES[role] if name in by_name]
    if role is ColumnRole.CONVERSATION:
        return _guess_conversation(table, named, free)
    if role is ColumnRole.TEXT and not named:
        kinds = {name: table.rows[name].type for name in free}
        texts = [
            name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)
        ]
        return texts[0] if len(texts) == 1 else None
    return named[0] if named else None


def _guess_conversation(table: Table, named: list[str], free: list[str]) -> str | None:
    """A column called like one that has messages in it, or lists at least; else one that is full of messages."""
    shares = {name: _share_of_messages(table, name) for name in free}
    for name in named:
        if shares[name] > 0:
            return name
    answers = NAMES[ColumnRole.PROMPT] + NAMES[ColumnRole.ANSWER] + NAMES[ColumnRole.CHOSEN]
    other = [name for name in free if name.lower() not in (*answers, *NAMES[ColumnRole.REJECTED])]
    full = next((name for name in other if shares[name] >= 0.5), None)
    return full or next((name for name in named if pa.types.is_nested(table.rows[name].type)), None)


def _sample(table: Table, name: str) -> list[object]:
    values = table.rows[name].slice(0, SAMPLE_ROWS).to_pylist()
    return [value for value in values if value is not None]


def _share_of_messages(table: Table, name: str) -> float:
    values = _sample(table, name)
    return sum(looks_like_messages(value) for value in values) / len(values) if values else 0.0


def _chat_kind(table: Table, columns: Mapping[ColumnRole, str]) -> ShapeKind:
    if R.TEXT in columns:
        return ShapeKind.TEXT
    if R.CONVERSATION in columns:
        is_sharegpt = any('"from"' in _written(value) for value in _sample(table, columns[R.CONVERSATION]))
        return ShapeKind.SHAREGPT if is_sharegpt else ShapeKind.MESSAGES
    is_alpaca = columns[R.PROMPT].lower() == "instruction" or R.INPUT in columns
    return ShapeKind.ALPACA if is_alpaca else ShapeKind.PROMPT


def _written(value: object) -> str:
    """A cell in which the names of keys can be looked for."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return " ".join(f'"{key}"' for key in value[0])
    return str(value)


def _nothing_fits(table: Table, preference: bool) -> DataError:
    wanted = (
        "Preferences need a column with the better answer (chosen) and one with the worse (rejected)"
        if preference
        else "Chat needs a column of messages, or a question and an answer, or a text"
    )
    return DataError(
        f"{table.path.name} has no {'pairs of answers' if preference else 'conversations'}",
        f"{wanted}. {table.path} has the columns {listed(table.columns)}.",
        (Fix("Say which column is what, or choose another file"),),
    )
