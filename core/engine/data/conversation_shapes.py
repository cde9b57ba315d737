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
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from core.base.errors import DataError, Fix
from core.engine.data.tables import Table
from core.engine.data.text_files import listed
from core.options.choices import CHAT_COLUMNS, PREFERENCE_COLUMNS, ChatTemplate, ColumnRole, Speaker
from core.services.inspect import FindingKind, FindingLevel, Tally

# --- Every kind of thing that can be wrong with conversations, each with its sentence


_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING

UNPARSABLE = FindingKind("unparsable", _PROBLEM, "{rows} {have} a conversation that can't be read.")
MIXED_TYPES = FindingKind(
    "mixed-types",
    _PROBLEM,
    "{rows} {have} something in “{detail}” that is neither text nor messages.",
    "Write a text there",
)
NOT_TEXT = FindingKind(
    "not-text", _PROBLEM, "{rows} {have} a message with {detail} in it, which a text model can't read."
)
MISSING_KEY = FindingKind("missing-key", _PROBLEM, "{rows} {have} a message without “{detail}”.")
UNKNOWN_ROLE = FindingKind(
    "unknown-role", _PROBLEM, "{rows} {have} a message of “{detail}”: it isn't known who that is."
)
BROKEN_CALL = FindingKind("broken-call", _PROBLEM, "{rows} {have} a tool call that can't be read.")
BROKEN_TOOLS = FindingKind("broken-tools", _PROBLEM, "{rows} {have} a list of tools that can't be read.")
NO_ANSWER = FindingKind(
    "no-answer", _PROBLEM, "{rows} {have} no answer of the assistant: there is nothing to learn from."
)
EMPTY_ANSWER = FindingKind(
    "empty-answer", _PROBLEM, "{rows} {have} an empty answer.", "Fill the answers in, or take these rows out"
)
EMPTY_CHOSEN = FindingKind("empty-chosen", _PROBLEM, "{rows} {have} no better answer.")
EMPTY_REJECTED = FindingKind("empty-rejected", _PROBLEM, "{rows} {have} no worse answer.")
SAME_ANSWERS = FindingKind(
    "same-answers", _PROBLEM, "{rows} {have} twice the same answer: there is nothing to prefer."
)
NOTHING_LEFT = FindingKind("nothing-left", _PROBLEM, "There is no row to learn from.", "Choose another file")
TEMPLATE_REFUSES = FindingKind(
    "template-refuses", _PROBLEM, "{rows} {are} refused by the chat template: {detail}"
)
ANSWER_LOST = FindingKind(
    "answer-lost", _PROBLEM, "The chat template doesn't show where the answers of {rows} begin."
)
ANSWER_LEFT_OUT = FindingKind(
    "answer-left-out", _PROBLEM, "The chat template leaves out what the assistant says or calls in {rows}."
)
USE_CHATML = Fix("Use ChatML", {"data.chat_template": str(ChatTemplate.CHATML)})
"""Mends whatever a model's own template can't do; the model has to learn it, which takes some more rows."""

EMPTY_ROW = FindingKind("empty-row", _WARNING, "{rows} {have} no text and {are} left out.")
EMPTY_PROMPT = FindingKind("empty-prompt", _WARNING, "{rows} {have} an answer to an empty question.")
MERGED = FindingKind(
    "merged",
    _WARNING,
    "{rows} {have} two messages of {detail} one after the other; they are joined.",
)
ASSISTANT_FIRST = FindingKind("assistant-first", _WARNING, "{rows} {have} an answer before any question.")
SYSTEM_LATE = FindingKind(
    "system-late", _WARNING, "{rows} {have} a system prompt in the middle, which some models can't read."
)
ANSWER_WITHOUT_CALL = FindingKind(
    "answer-without-call", _WARNING, "{rows} {have} a tool's answer to no call of the assistant."
)
ANSWERS_CUT = FindingKind(
    "answers-cut", _WARNING, "{rows} {have} an answer that is cut off at {detail} tokens."
)
ANSWERS_GONE = FindingKind(
    "answers-gone",
    _WARNING,
    "{rows} {are} left out: no answer of theirs begins within {detail} tokens.",
)
EARLIER_UNTRAINED = FindingKind(
    "earlier-untrained",
    _WARNING,
    "Of {rows} only the last answer is learned: the chat template rewrites earlier ones.",
)


# --- What one row of a table becomes: a conversation, a plain text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function the assistant calls; `arguments` is an object by names, or text where it isn't one."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `name` and `call_id` belong to a tool's answer, `reasoning` to thoughts told apart from the answer."""

    role: Speaker
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    name: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in turn and the tools on offer; `row` is its number in the file."""

    row: int
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text without turns, learned whole."""

    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """What was said so far, and two ways to go on: one to prefer, one to turn away from."""

    row: int
    prompt: tuple[Message, ...]
    chosen: tuple[Message, ...]
    rejected: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()


Row = Conversation | PlainText | Pair


def as_dicts(messages: Sequence[Message], *, written_arguments: bool = False) -> list[dict[str, Any]]:
    """Messages as chat templates and TRL take them; what is empty is left out, but for the content.

    Args:
        messages: The messages.
        written_arguments: Write the arguments of calls as JSON, as a few templates want them.
    """
    return [_as_dict(message, written_arguments) for message in messages]


def _as_dict(message: Message, written_arguments: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"role": str(message.role), "content": message.content}
    if message.tool_calls:
        found["tool_calls"] = [_call_as_dict(call, written_arguments) for call in message.tool_calls]
    optional = {
        "reasoning_content": message.reasoning,
        "name": message.name,
        "tool_call_id": message.call_id,
    }
    return found | {key: value for key, value in optional.items() if value}


def _call_as_dict(call: ToolCall, written: bool) -> dict[str, Any]:
    is_text = isinstance(call.arguments, str)
    arguments = json.dumps(call.arguments, ensure_ascii=False) if written and not is_text else call.arguments
    function = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return {"id": call.id, **function} if call.id else function


class Unrepeated:
    """Lets the first of equal rows pass; `count` are those it left out."""

    def __init__(self) -> None:
        self.count = 0
        self._seen: set[int] = set()

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows without those that an earlier one is the same as."""
        for row in rows:
            known = len(self._seen)
            self._seen.add(fingerprint(row))
            if len(self._seen) > known:
                yield row
            else:
                self.count += 1


def fingerprint(row: Row) -> int:
    """64 bits that are the same for rows of the same content, in every process; the row's number doesn't count."""
    parts: list[Any]
    if isinstance(row, PlainText):
        parts = [row.text]
    elif isinstance(row, Conversation):
        parts = [as_dicts(row.messages), row.tools]
    else:
        parts = [*(as_dicts(part) for part in (row.prompt, row.chosen, row.rejected)), row.tools]
    written = json.dumps(parts, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(written, digest_size=8).digest())


# --- Values of a table's cells: texts, numbers, nested lists, and JSON written as text


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


def as_list(value: Any, faults: RowFaults, kind: FindingKind = UNPARSABLE) -> list[Any] | None:
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
    faults.add(MIXED_TYPES, detail=column, example=f"it is {shown(value)}.")
    return ""


def shown(value: Any) -> str:
    """A value as a sentence shows it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "nested too deeply to show"
    return text if len(text) <= NAME_CHARACTERS else f"{text[:NAME_CHARACTERS]}…"


# --- Which shape a table of conversations has, told from its columns' names and values


SAMPLE_ROWS = 200
R = ColumnRole

NAMES: dict[ColumnRole, tuple[str, ...]] = {
    role: tuple(names.split())
    for role, names in {
        R.CONVERSATION: "messages conversations conversation dialogue dialog chat turns conv",
        R.SYSTEM: "system system_prompt system_message",
        R.PROMPT: "instruction prompt question query problem input request user human",
        R.INPUT: "input context inputs",
        R.HISTORY: "history",
        R.ANSWER: "output completion answer response reply solution target assistant gpt",
        R.CHOSEN: "chosen preferred preferred_output accepted better chosen_response response_chosen",
        R.REJECTED: "rejected dispreferred non_preferred_output worse rejected_response response_rejected",
        R.TOOLS: "tools functions",
        R.TEXT: "text content document body story passage code",
    }.items()
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


# --- Who speaks: the many spellings of the four roles


_SPELLINGS: dict[Speaker, str] = {
    Speaker.SYSTEM: "system developer sys system_prompt",
    Speaker.USER: "user human prompter person usr",
    Speaker.ASSISTANT: "assistant gpt bot model chatgpt chatbot ai llm bing bard",
    Speaker.TOOL: "tool function observation ipython environment tool_response tool_result tool_output "
    "function_response function_result",
}
KNOWN = {name: speaker for speaker, names in _SPELLINGS.items() for name in names.split()}
CALLS = frozenset({"function_call", "tool_call", "tool_calls"})
"""Roles of ShareGPT whose message is a call the assistant makes, written as JSON."""


def check_roles(roles: Mapping[str, str]) -> None:
    """Stop where `data.roles` maps a name to something that is no role.

    Raises:
        DataError: It does.
    """
    for name, role in roles.items():
        if role not in set(Speaker):
            without = {key: value for key, value in roles.items() if key != name}
            raise DataError(
                f"“{role}” is no role",
                f"data.roles says that “{name}” is “{role}”; it must be one of {', '.join(Speaker)}.",
                tuple(_fix(name, speaker, without) for speaker in (Speaker.ASSISTANT, Speaker.USER)),
            )


@dataclass(frozen=True)
class Speakers:
    """Reads the names of a file's speakers; `roles` says what names mean that aren't known."""

    roles: Mapping[str, str]

    def place(self, name: str) -> Speaker | None:
        """Who that is; None for a name that isn't known."""
        if name in self.roles:
            return Speaker(self.roles[name])
        known = KNOWN.get(name) or KNOWN.get(_normal(name))
        return Speaker.ASSISTANT if known is None and self.is_call(name) else known

    def is_call(self, name: str) -> bool:
        """Whether messages of this name are calls written as JSON."""
        return name not in KNOWN and name not in self.roles and _normal(name) in CALLS

    def add_unknown(self, name: str, before: Speaker | None, faults: RowFaults) -> None:
        """Note a name that isn't known, with the likely roles as fixes: whoever follows the user is the assistant."""
        answers = before in (Speaker.USER, Speaker.TOOL)
        likely = (Speaker.ASSISTANT, Speaker.USER) if answers else (Speaker.USER, Speaker.ASSISTANT)
        fixes = tuple(_fix(name, speaker, self.roles) for speaker in likely)
        if len(name) <= NAME_CHARACTERS:
            faults.add(UNKNOWN_ROLE, detail=name, fixes=fixes)
        else:
            faults.add(UNKNOWN_ROLE, detail=f"{name[:NAME_CHARACTERS]}…")


def _normal(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _fix(name: str, speaker: Speaker, roles: Mapping[str, str]) -> Fix:
    return Fix(f"Read “{name}” as {speaker.in_words}", {"data.roles": {**roles, name: str(speaker)}})


# --- Messages out of lists of objects: OpenAI's role and content, ShareGPT's from and value


_TEXT_PARTS = ("text", "input_text", "output_text")
_REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


def read_messages(value: Any, speakers: Speakers, faults: RowFaults) -> tuple[Message, ...]:
    """The messages of a cell, as they stand in it; what can't be read is left out and noted."""
    items = as_list(value, faults) or []
    found: list[Message] = []
    for item in items:
        message = _read(item, speakers, found[-1].role if found else None, faults)
        if message is not None:
            found.append(message)
    return tuple(found)


def _read(item: Any, speakers: Speakers, before: Speaker | None, faults: RowFaults) -> Message | None:
    if not isinstance(item, dict):
        faults.add(UNPARSABLE, example=f"{shown(item)} is not a message with “role” and “content”.")
        return None
    speaker = _speaker(item, speakers, before, faults)
    if speaker is None:
        return None
    is_call = speakers.is_call(str(_first(item, ROLE_KEYS)))
    calls = _read_calls(_first(item, CONTENT_KEYS), faults) if is_call else _own_calls(item, faults)
    content = "" if is_call else _content(item, faults)
    if calls is None or content is None:
        return None
    return Message(
        role=speaker,
        content=content,
        tool_calls=calls,
        reasoning=_text(_first(item, _REASONING_KEYS)),
        name=_text(item.get("name")),
        call_id=_text(item.get("tool_call_id")),
    )


def _speaker(
    item: Mapping[str, Any], speakers: Speakers, before: Speaker | None, faults: RowFaults
) -> Speaker | None:
    """Who says it; None, with a fault, where that isn't known."""
    name = _first(item, ROLE_KEYS)
    if name is None:
        faults.add(MISSING_KEY, detail="from" if "value" in item else "role")
        return None
    if not isinstance(name, str):
        faults.add(UNKNOWN_ROLE, detail=shown(name))
        return None
    speaker = speakers.place(name)
    if speaker is None:
        speakers.add_unknown(name, before, faults)
    return speaker


def _first(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:  # called several times a message: a generator would take twice as long
        value = item.get(key)
        if value is not None:
            return value
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(item: Mapping[str, Any], faults: RowFaults) -> str | None:
    """What is said; None, with a fault, where it isn't text. A message that calls a tool may say nothing."""
    content = _first(item, CONTENT_KEYS)
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_part(part, faults) for part in content]
        return None if None in parts else "".join(part for part in parts if part)
    if content is not None:
        faults.add(NOT_TEXT, detail=_kind_of(content), example=f"{shown(content)} must be written as text.")
        return None
    if not any(item.get(key) for key in CALL_KEYS):
        faults.add(MISSING_KEY, detail="value" if "from" in item else "content")
        return None
    return ""


def _part(part: Any, faults: RowFaults) -> str | None:
    """The text of one part of a content that is a list."""
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else _kind_of(part)
    if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    faults.add(NOT_TEXT, detail="a text part without text" if kind in _TEXT_PARTS else str(kind))
    return None


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else "an object"


def _own_calls(item: Mapping[str, Any], faults: RowFaults) -> tuple[ToolCall, ...] | None:
    """The calls that stand in a message beside its content; None, with a fault, where one can't be read."""
    found: tuple[ToolCall, ...] = ()
    for key in CALL_KEYS:
        calls = _read_calls(item[key], faults) if item.get(key) else ()
        if calls is None:
            return None
        found = (*found, *calls)
    return found


def _read_calls(value: Any, faults: RowFaults) -> tuple[ToolCall, ...] | None:
    """Calls as objects or JSON: OpenAI's with `function` inside, or name and arguments alone."""
    items = as_list(value, faults, BROKEN_CALL)
    if items is None:
        return None
    if not items:
        faults.add(BROKEN_CALL, example="no function is called.")
        return None
    calls = [_read_call(item, faults) for item in items]
    return None if None in calls else tuple(call for call in calls if call is not None)


def _read_call(item: Any, faults: RowFaults) -> ToolCall | None:
    function = item.get("function", item) if isinstance(item, dict) else {}
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        faults.add(BROKEN_CALL, example=f"{shown(item)} names no function.")
        return None
    arguments = _first(function, ("arguments", "parameters", "args"))
    return ToolCall(name, _arguments(arguments), _text(item.get("id")))


def _arguments(value: Any) -> Mapping[str, Any] | str:
    """Arguments as an object, which is how chat templates write them; OpenAI's files hold them as JSON."""
    if value is None or isinstance(value, dict):
        return value or {}
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    try:
        parsed = json.loads(value or "{}")
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, dict) else value


def read_tools(value: Any, faults: RowFaults) -> tuple[Mapping[str, Any], ...]:
    """The functions on offer, each an object with a name (OpenAI's form, or that within it)."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    items = as_list(value, faults, BROKEN_TOOLS) or []
    for item in items:
        function = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            faults.add(BROKEN_TOOLS, example=f"{shown(item)} names no function.")
            return ()
    return tuple(item if "function" in item else {"type": "function", "function": item} for item in items)
