"""Rows of a table as conversations, plain texts or pairs of answers, in the form that TRL and chat templates take.

Which column is what is found by names and values; the first form that fits counts. For chat:

1. a column of messages (OpenAI's `messages`, ShareGPT's `conversations`), named like one or holding messages;
2. a question and an answer: Alpaca's instruction, input and output, or prompt and completion under other names;
3. a column of plain text.

For preferences: a chosen and a rejected answer, after a column of messages, or a question, or nothing, where what both
answers begin with is the prompt. Columns that a person has chosen stand, and the rest is found around them.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import pyarrow as pa

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.tables import Table
from core.engine.data.text_files import listed
from core.options.choices import CHAT_COLUMNS, PREFERENCE_COLUMNS, ColumnRole, Speaker
from core.services.inspect import FindingKind, FindingLevel, Tally

R = ColumnRole
_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING

UNPARSABLE = FindingKind("unparsable", _PROBLEM, _("{rows} {have} a conversation that can't be read."))
MIXED_TYPES = FindingKind(
    "mixed-types",
    _PROBLEM,
    _("{rows} {have} something in “{detail}” that is neither text nor messages."),
    _("Write a text there"),
)
NOT_TEXT = FindingKind(
    "not-text", _PROBLEM, _("{rows} {have} a message with {detail} in it, which a text model can't read.")
)
MISSING_KEY = FindingKind("missing-key", _PROBLEM, _("{rows} {have} a message without “{detail}”."))
UNKNOWN_ROLE = FindingKind(
    "unknown-role", _PROBLEM, _("{rows} {have} a message of “{detail}”: it isn't known who that is.")
)
BROKEN_CALL = FindingKind("broken-call", _PROBLEM, _("{rows} {have} a tool call that can't be read."))
BROKEN_TOOLS = FindingKind("broken-tools", _PROBLEM, _("{rows} {have} a list of tools that can't be read."))
NO_ANSWER = FindingKind(
    "no-answer", _PROBLEM, _("{rows} {have} no answer of the assistant: there is nothing to learn from.")
)
EMPTY_ANSWER = FindingKind(
    "empty-answer",
    _PROBLEM,
    _("{rows} {have} an empty answer."),
    _("Fill the answers in, or take these rows out"),
)
EMPTY_CHOSEN = FindingKind("empty-chosen", _PROBLEM, _("{rows} {have} no better answer."))
EMPTY_REJECTED = FindingKind("empty-rejected", _PROBLEM, _("{rows} {have} no worse answer."))
SAME_ANSWERS = FindingKind(
    "same-answers", _PROBLEM, _("{rows} {have} twice the same answer: there is nothing to prefer.")
)
EMPTY_ROW = FindingKind("empty-row", _WARNING, _("{rows} {have} no text and {are} left out."))
EMPTY_PROMPT = FindingKind("empty-prompt", _WARNING, _("{rows} {have} an answer to an empty question."))
MERGED = FindingKind(
    "merged", _WARNING, "{rows} {have} two messages of {detail} one after the other; they are joined."
)
ASSISTANT_FIRST = FindingKind("assistant-first", _WARNING, _("{rows} {have} an answer before any question."))
SYSTEM_LATE = FindingKind(
    "system-late", _WARNING, _("{rows} {have} a system prompt in the middle, which some models can't read.")
)
ANSWER_WITHOUT_CALL = FindingKind(
    "answer-without-call", _WARNING, _("{rows} {have} a tool's answer to no call of the assistant.")
)

BATCH_ROWS = 1000
SAMPLE_ROWS = 200
SHOWN_CHARACTERS = 60

Message = dict[str, Any]
"""As chat templates take it: `role` and `content`, and where there are any `tool_calls`, `reasoning_content`, `name`
and `tool_call_id`. A call's arguments are an object, or text where they can't be read as one."""
Messages = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ChatRow:
    """One row: a conversation (`messages`), a plain `text`, or a prompt (`messages`) with two answers to compare.

    `row` is its number in the file, `tools` are the functions on offer.
    """

    row: int
    messages: Messages = ()
    chosen: Messages = ()
    rejected: Messages = ()
    text: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()

    def fingerprint(self) -> int:
        """64 bits that are the same for rows of the same content, in every process."""
        parts = [self.text, self.messages, self.chosen, self.rejected, self.tools]
        written = json.dumps(parts, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(written, digest_size=8).digest())


# --- Which column is what


class ShapeKind(StrEnum):
    """The forms of conversations that are told apart, as the data card calls them."""

    MESSAGES = "Messages (role and content)"
    SHAREGPT = "ShareGPT conversations"
    ALPACA = "Instructions (Alpaca)"
    PROMPT = "Questions and answers"
    TEXT = "Plain text"
    PREFERENCE = "Better and worse answers"


@dataclass(frozen=True)
class Shape:
    """A form, and the column of each role that has one."""

    kind: ShapeKind
    columns: Mapping[ColumnRole, str]


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

_Roles = tuple[ColumnRole, ...]
_OF_PROMPT = (R.INPUT, R.SYSTEM, R.HISTORY, R.TOOLS)
CHAT_FORMS: tuple[tuple[_Roles, _Roles], ...] = (
    ((R.CONVERSATION,), (R.SYSTEM, R.TOOLS)),
    ((R.PROMPT, R.ANSWER), _OF_PROMPT),
    ((R.TEXT,), ()),
)
PREFERENCE_FORMS: tuple[tuple[_Roles, _Roles], ...] = (
    ((R.CHOSEN, R.REJECTED, R.CONVERSATION), (R.SYSTEM, R.TOOLS)),
    ((R.CHOSEN, R.REJECTED, R.PROMPT), _OF_PROMPT),
    ((R.CHOSEN, R.REJECTED), (R.SYSTEM, R.TOOLS)),
)
"""The roles that a form needs, and those it can have besides."""


def find_shape(table: Table, *, preference: bool = False, columns: Mapping[str, str] | None = None) -> Shape:
    """The form of a table.

    Args:
        table: The rows.
        preference: Look for a better and a worse answer instead of conversations.
        columns: `data.columns`: the column of a role, as the person chose it; an empty name says that there is none.

    Raises:
        DataError: A column that was chosen isn't there, or nothing fits.
    """
    chosen = _chosen_columns(table, columns or {}, PREFERENCE_COLUMNS if preference else CHAT_COLUMNS)
    for needed, optional in PREFERENCE_FORMS if preference else CHAT_FORMS:
        roles = (*needed, *optional)
        found = {role: name for role, name in chosen.items() if name}
        if any(role not in roles for role in found):
            continue  # a column was chosen that this form has no use for
        for role in roles:
            if role not in chosen and (name := _guess(table, role, set(found.values()))):
                found[role] = name
        if all(role in found for role in needed):
            return Shape(ShapeKind.PREFERENCE if preference else _chat_kind(table, found), found)
    wanted = (
        _("Preferences need a column with the better answer (chosen) and one with the worse (rejected)")
        if preference
        else _("Chat needs a column of messages, or a question and an answer, or a text")
    )
    raise DataError(
        _("{name} has no {value}").format(
            name=table.path.name, value="pairs of answers" if preference else "conversations"
        ),
        _("{wanted}. {path} has the columns {columns}.").format(
            wanted=wanted, path=table.path, columns=listed(table.columns)
        ),
        (Fix(_("Say which column is what, or choose another file")),),
    )


def _chosen_columns(table: Table, columns: Mapping[str, str], known: _Roles) -> dict[ColumnRole, str]:
    for role, name in columns.items():
        if role not in known:
            others = {key: value for key, value in columns.items() if key != role}
            raise DataError(
                _("“{role}” is nothing a column can be here").format(role=role),
                f"data.columns says that “{name}” is “{role}”; it must be one of {', '.join(known)}.",
                (Fix(_("Leave “{role}” out").format(role=role), {"data.columns": others}),),
            )
        if name and name not in table.columns:
            by_lower = {column.lower(): column for column in table.columns}
            close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
            fixes = [
                Fix(
                    _("Use “{by_lower}”").format(by_lower=by_lower[match]),
                    {"data.columns": {**columns, role: by_lower[match]}},
                )
                for match in close
            ]
            raise DataError(
                _("{name} has no column “{name_2}”").format(name=table.path.name, name_2=name),
                f"{table.path} has the columns {listed(table.columns)}; “{name}” was to be its {role}.",
                (*fixes, Fix(_("Let Hone find it"), {"data.columns": {}})),
            )
    return {ColumnRole(role): name for role, name in columns.items()}


def _guess(table: Table, role: ColumnRole, taken: set[str]) -> str | None:
    free = [name for name in table.columns if name not in taken]
    by_name = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in reversed(free)}
    named = [by_name[name] for name in NAMES[role] if name in by_name]
    if role is R.CONVERSATION:
        return _guess_conversation(table, named, free)
    if role is R.TEXT and not named:
        texts = [name for name in free if _is_text(table.rows[name].type)]
        return texts[0] if len(texts) == 1 else None
    return named[0] if named else None


def _guess_conversation(table: Table, named: list[str], free: list[str]) -> str | None:
    """A column named like one that has messages in it; or one that is full of them; or a named one of lists."""
    shares = {
        name: sum(map(looks_like_messages, cells)) / max(1, len(cells))
        for name in free
        for cells in (_first_cells(table, name),)
    }
    answers = {*NAMES[R.PROMPT], *NAMES[R.ANSWER], *NAMES[R.CHOSEN], *NAMES[R.REJECTED]}
    full = (name for name in free if shares[name] >= 0.5 and name.lower() not in answers)
    lists = (name for name in named if pa.types.is_nested(table.rows[name].type))
    return next((name for name in named if shares[name]), None) or next(full, None) or next(lists, None)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _first_cells(table: Table, name: str) -> list[Any]:
    return [value for value in table.rows[name].slice(0, SAMPLE_ROWS).to_pylist() if value is not None]


def _chat_kind(table: Table, columns: Mapping[ColumnRole, str]) -> ShapeKind:
    if R.TEXT in columns:
        return ShapeKind.TEXT
    if R.CONVERSATION in columns:
        cells = _first_cells(table, columns[R.CONVERSATION])
        is_sharegpt = any('"from"' in (cell if isinstance(cell, str) else json.dumps(cell)) for cell in cells)
        return ShapeKind.SHAREGPT if is_sharegpt else ShapeKind.MESSAGES
    is_alpaca = columns[R.PROMPT].lower() == "instruction" or R.INPUT in columns
    return ShapeKind.ALPACA if is_alpaca else ShapeKind.PROMPT


# --- Values of cells


ROLE_KEYS = ("role", "from", "speaker")
CONTENT_KEYS = ("content", "value", "text")
LIST_KEYS = ("messages", "conversations", "conversation")
CALL_KEYS = ("tool_calls", "function_call")
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
TEXT_PARTS = ("text", "input_text", "output_text")

_SPELLINGS: dict[Speaker, str] = {
    Speaker.SYSTEM: "system developer sys system_prompt",
    Speaker.USER: "user human prompter person usr",
    Speaker.ASSISTANT: "assistant gpt bot model chatgpt chatbot ai llm bing bard",
    Speaker.TOOL: "tool function observation ipython environment tool_response tool_result tool_output "
    "function_response function_result",
}
KNOWN_ROLES = {name: speaker for speaker, names in _SPELLINGS.items() for name in names.split()}
CALL_ROLES = frozenset({"function_call", "tool_call", "tool_calls"})
"""Roles of ShareGPT whose message is a call the assistant makes, written as JSON."""


class _Unreadable(Exception):  # noqa: N818 - what is wrong with a cell or a message, not with the program
    """Something in a row can't be read: what, and in which words the first such row is reported."""

    def __init__(
        self, kind: FindingKind, detail: str = "", example: str = "", fixes: Sequence[Fix] = ()
    ) -> None:
        super().__init__(kind.code)
        self.kind, self.detail, self.example, self.fixes = kind, detail, example, tuple(fixes)


def shown(value: Any) -> str:
    """A value as a sentence shows it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "nested too deeply to show"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def joined_text(*texts: str) -> str:
    """Texts with a blank line between them; blank ones are left out."""
    return "\n\n".join(text for text in texts if text.strip())


def looks_like_messages(value: Any) -> bool:
    """Whether a cell holds messages: a list of objects that say who speaks, or such a list as text, or one of them."""
    if isinstance(value, str):
        if not value.lstrip().startswith(("[", "{")):
            return False
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    if isinstance(value, dict):
        value = _unwrapped(value)
    return isinstance(value, list) and any(
        isinstance(item, dict)
        and any(key in item for key in ROLE_KEYS)
        and any(key in item for key in (*CONTENT_KEYS, *CALL_KEYS))
        for item in value
    )


def _unwrapped(value: dict[str, Any]) -> list[Any]:
    """The list within `{"messages": [...]}`, or a list of the one message that this is."""
    return next((value[key] for key in LIST_KEYS if isinstance(value.get(key), list)), [value])


def _without_nulls(value: Any) -> Any:
    """A nested value of Arrow without the keys it fills in: every struct of a column has the keys of all of them."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _as_list(value: Any, kind: FindingKind = UNPARSABLE) -> list[Any]:
    """The list a cell holds, nested or as JSON; _Unreadable of `kind` where it holds something else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise _Unreadable(kind, example=f"{error}.") from error
        except RecursionError as error:
            raise _Unreadable(kind, example="lists are nested too deeply.") from error
    else:
        value = _without_nulls(value)
    if isinstance(value, dict):
        value = _unwrapped(value)
    if not isinstance(value, list):
        raise _Unreadable(kind, example=f"it is {shown(value)}, not a list.")
    return value


def _is_blank(value: Any) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def _first_value(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:  # called several times a message: a generator would take twice as long
        value = item.get(key)
        if value is not None:
            return value
    return None


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(item: Mapping[str, Any]) -> str:
    """What a message says. One that calls a tool may say nothing."""
    content = _first_value(item, CONTENT_KEYS)
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_text_part, content))
    if content is not None:
        raise _Unreadable(
            NOT_TEXT,
            _type_of(content),
            _("{content} must be written as text.").format(content=shown(content)),
        )
    if not any(item.get(key) for key in CALL_KEYS):
        raise _Unreadable(MISSING_KEY, "value" if "from" in item else "content")
    return ""


def _text_part(part: Any) -> str:
    """The text of one part of a content that is a list."""
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else _type_of(part)
    if kind in TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    raise _Unreadable(NOT_TEXT, _("a text part without text") if kind in TEXT_PARTS else str(kind))


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return _("true or false")
    return "a number" if isinstance(value, int | float) else "an object"


def _tool_calls(value: Any) -> list[dict[str, Any]]:
    """Calls as objects or JSON: OpenAI's with `function` inside, or name and arguments alone."""
    items = _as_list(value, BROKEN_CALL)
    if not items:
        raise _Unreadable(BROKEN_CALL, example="no function is called.")
    return [_tool_call(item) for item in items]


def _tool_call(item: Any) -> dict[str, Any]:
    function = item.get("function", item) if isinstance(item, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise _Unreadable(BROKEN_CALL, example=f"{shown(item)} names no function.")
    arguments = _arguments(_first_value(function, ("arguments", "parameters", "args")))
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": item["id"], **call} if _text_or_empty(item.get("id")) else call


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


def _tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The functions on offer, each an object with a name (OpenAI's form, or that within it)."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    items = _as_list(value, BROKEN_TOOLS)
    for item in items:
        function = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _Unreadable(BROKEN_TOOLS, example=f"{shown(item)} names no function.")
    return tuple(item if "function" in item else {"type": "function", "function": item} for item in items)


# --- Turns


_JOINED_ROLES = (Speaker.SYSTEM, Speaker.USER, Speaker.ASSISTANT)

_TRANSCRIPT_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):[ ]?")
"""How transcripts name their speakers, as in the helpful-and-harmless data of Bai et al., 2022 (arXiv:2204.05862)."""


def says_nothing(message: Message) -> bool:
    """Whether a message says nothing and calls nothing."""
    return not message["content"].strip() and not message.get("tool_calls")


def join_turns(messages: Sequence[Message]) -> Messages:
    """Messages of one role that follow each other as one.

    Templates such as Llama 2's, Mistral's and Gemma's refuse two turns of one role. Several answers of tools in a row
    are left alone: they answer several calls.
    """
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is None or last["role"] != message["role"] or message["role"] not in _JOINED_ROLES:
            joined.append(message)
            continue
        both = {**last, "content": joined_text(last["content"], message["content"])}
        if calls := [*last.get("tool_calls", ()), *message.get("tool_calls", ())]:
            both["tool_calls"] = calls
        thoughts = (last.get("reasoning_content", ""), message.get("reasoning_content", ""))
        if reasoning := joined_text(*thoughts):
            both["reasoning_content"] = reasoning
        joined[-1] = both
    return tuple(joined)


def _as_transcript(messages: Messages) -> Messages:
    """A text with `Human:` and `Assistant:` in it as messages; other messages as they are."""
    if len(messages) != 1 or not _TRANSCRIPT_TURN.match(messages[0]["content"]):
        return messages
    _rest, *parts = _TRANSCRIPT_TURN.split(messages[0]["content"])
    return tuple(
        {"role": KNOWN_ROLES[name.lower()].value, "content": said.strip()}
        for name, said in zip(parts[::2], parts[1::2], strict=True)
    )


def _asks(messages: Messages) -> bool:
    return any(message["role"] == Speaker.USER for message in messages)


def _split_turns(
    before: Messages, chosen: Messages, rejected: Messages
) -> tuple[Messages, Messages, Messages]:
    """Two whole conversations: the turns both begin with are the prompt; the last of either is never among them."""
    most = min(len(chosen), len(rejected)) - 1
    shared = next((index for index in range(most) if chosen[index] != rejected[index]), most)
    has_system = shared > 0 and chosen[0]["role"] == Speaker.SYSTEM
    system = () if has_system else tuple(m for m in before if m["role"] == Speaker.SYSTEM)
    return (*system, *chosen[:shared]), chosen[shared:], rejected[shared:]


def _split_texts(
    before: Messages, chosen: Messages, rejected: Messages
) -> tuple[Messages, Messages, Messages]:
    """Two texts without a prompt: what both begin with, up to a space, is the prompt."""
    if len(chosen) != 1 or len(rejected) != 1:
        return before, chosen, rejected
    better, worse = chosen[0]["content"], rejected[0]["content"]
    cut = 0
    for place, (one, other) in enumerate(zip(better, worse, strict=False), 1):
        if one != other:
            break
        cut = place if one.isspace() else cut
    if better.strip() == worse.strip() or not better[:cut].strip():
        return before, chosen, rejected
    question = {"role": Speaker.USER.value, "content": better[:cut].strip()}
    return (
        (*before, question),
        ({**chosen[0], "content": better[cut:]},),
        ({**rejected[0], "content": worse[cut:]},),
    )


# --- Rows


class ConversationReader:
    """Iterates over the usable rows of a table, in order; memory doesn't grow with their number.

    Rows with a problem are counted in `tally` and passed over: see `tally.has_problems` when all are read.

    Args:
        table: The rows.
        shape: Which column is what.
        tally: Takes what is found.
        roles: `data.roles`: what names of speakers mean that aren't known.
        progress: Called with the number of rows read so far.

    Raises:
        DataError: `roles` maps a name to something that is no role.
    """

    def __init__(
        self,
        table: Table,
        shape: Shape,
        tally: Tally,
        roles: Mapping[str, str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.table, self.shape, self.tally = table, shape, tally
        self.roles, self.progress = roles or {}, progress
        self._row = 0
        self._is_bad = False
        self._cells: dict[ColumnRole, Any] = {}
        for name, role in self.roles.items():
            if role not in set(Speaker):
                raise DataError(
                    _("“{role}” is no role").format(role=role),
                    f"data.roles says that “{name}” is “{role}”; it must be one of {', '.join(Speaker)}.",
                    (self._role_fix(name, Speaker.ASSISTANT), self._role_fix(name, Speaker.USER)),
                )

    def __iter__(self) -> Iterator[ChatRow]:
        done = 0
        for batch in self.table.rows.select(list(self.shape.columns.values())).to_batches(BATCH_ROWS):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self._row, self._is_bad = int(self.table.numbers[done]), False
                self._cells = dict(zip(self.shape.columns, values, strict=True))
                done += 1
                try:
                    row = self._read()
                except _Unreadable as error:
                    self._report(error)
                    continue
                if row is not None and not self._is_bad:
                    yield row
            if self.progress is not None:
                self.progress(done)

    def _add(self, kind: FindingKind, detail: str = "") -> None:
        self._report(_Unreadable(kind, detail))

    def _report(self, error: _Unreadable) -> None:
        self._is_bad = self._is_bad or error.kind.level is _PROBLEM
        self.tally.add(error.kind, self._row, detail=error.detail, example=error.example, fixes=error.fixes)

    def _read(self) -> ChatRow | None:
        """The row; None where it is empty."""
        if all(_is_blank(value) for role, value in self._cells.items() if role not in (R.SYSTEM, R.TOOLS)):
            self._add(EMPTY_ROW)
            return None
        if self.shape.kind is ShapeKind.TEXT:
            return ChatRow(self._row, text=self._text(R.TEXT))
        tools = _tools(self._cells.get(R.TOOLS))
        before = self._before()
        if self.shape.kind is ShapeKind.PREFERENCE:
            chosen = self._messages(R.CHOSEN, Speaker.ASSISTANT)
            rejected = self._messages(R.REJECTED, Speaker.ASSISTANT)
            return None if self._is_bad else self._pair(before, chosen, rejected, tools)
        messages = (*before, *self._messages(R.ANSWER, Speaker.ASSISTANT))
        is_whole = not self._is_bad  # nothing is said of the order where a message couldn't be read
        self._check_contents(messages)
        if not is_whole:
            return None
        if R.ANSWER in self.shape.columns and _is_blank(self._cells[R.ANSWER]):
            self._add(EMPTY_ANSWER)
        elif not any(message["role"] == Speaker.ASSISTANT for message in messages):
            self._add(NO_ANSWER)
        return ChatRow(self._row, self._settled(messages), tools=tools)

    def _pair(self, before: Messages, chosen: Messages, rejected: Messages, tools: Any) -> ChatRow:
        """Answers may be the answer alone, or the whole conversation with it: then what both begin with is the prompt,
        and what the other columns say of it is not needed, but for a system prompt.
        """
        is_asked = _asks(before)
        if not is_asked:
            chosen, rejected = _as_transcript(chosen), _as_transcript(rejected)
        if _asks(chosen) and _asks(rejected):
            before, chosen, rejected = _split_turns(before, chosen, rejected)
        elif not is_asked:
            before, chosen, rejected = _split_texts(before, chosen, rejected)
        if all(map(says_nothing, chosen)):
            self._add(EMPTY_CHOSEN)
        if all(map(says_nothing, rejected)):
            self._add(EMPTY_REJECTED)
        said = [
            [(message["role"], message["content"].strip(), message.get("tool_calls")) for message in answer]
            for answer in (chosen, rejected)
        ]
        if said[0] and said[0] == said[1]:
            self._add(SAME_ANSWERS)
        if not any(message["role"] == Speaker.USER and not says_nothing(message) for message in before):
            self._add(EMPTY_PROMPT)
        self._check_contents([message for message in before if message["role"] == Speaker.ASSISTANT])
        return ChatRow(
            self._row, self._settled(before), join_turns(chosen), join_turns(rejected), tools=tools
        )

    def _check_contents(self, messages: Sequence[Message]) -> None:
        """Report empty answers and questions; before turns are joined, which would hide them."""
        for message in messages:
            if says_nothing(message) and message["role"] in (Speaker.ASSISTANT, Speaker.USER):
                self._add(EMPTY_ANSWER if message["role"] == Speaker.ASSISTANT else EMPTY_PROMPT)

    def _settled(self, messages: Messages) -> Messages:
        """Turns joined, and what templates may refuse about their order reported."""
        for before, message in pairwise(messages):
            role = message["role"]
            if role == before["role"] and role in _JOINED_ROLES and "tool_calls" not in before:
                self._add(MERGED, Speaker(role).in_words)
        joined = join_turns(messages)
        seen: set[str] = set()
        has_called = False
        for index, message in enumerate(joined):
            role = message["role"]
            if role == Speaker.SYSTEM and index > 0:
                self._add(SYSTEM_LATE)
            if role == Speaker.ASSISTANT and Speaker.USER not in seen:
                self._add(ASSISTANT_FIRST)
            if role == Speaker.TOOL and not has_called:
                self._add(ANSWER_WITHOUT_CALL)
            has_called = has_called or "tool_calls" in message
            seen.add(role)
        return joined

    def _before(self) -> Messages:
        """What comes before the answer: the system prompt, Alpaca's history, the messages, or the question."""
        system = self._text(R.SYSTEM)
        found: list[Message] = [{"role": Speaker.SYSTEM.value, "content": system}] if system.strip() else []
        if not _is_blank(self._cells.get(R.HISTORY)):
            for turn in _as_list(self._cells[R.HISTORY]):
                if not isinstance(turn, list) or len(turn) != 2:
                    raise _Unreadable(
                        UNPARSABLE, example="an earlier turn is not a list of question and answer."
                    )
                for role, said in zip((Speaker.USER, Speaker.ASSISTANT), turn, strict=True):
                    found.append({"role": role.value, "content": self._as_text(said, R.HISTORY)})
        found += self._messages(R.CONVERSATION, Speaker.USER)
        if looks_like_messages(self._cells.get(R.PROMPT)):
            found += self._messages(R.PROMPT, Speaker.USER)
        elif R.PROMPT in self.shape.columns:
            question = joined_text(self._text(R.PROMPT), self._text(R.INPUT))
            found.append({"role": Speaker.USER.value, "content": question})
        return tuple(found)

    def _text(self, role: ColumnRole) -> str:
        return self._as_text(self._cells.get(role), role)

    def _as_text(self, value: Any, role: ColumnRole) -> str:
        """A value as text; numbers are written out. Lists and objects are a problem."""
        if value is None or (
            isinstance(value, float) and math.isnan(value)
        ):  # NaN is empty in columns of floats
            return ""
        if isinstance(value, str | int | float):
            return str(value)
        raise _Unreadable(
            MIXED_TYPES, self.shape.columns[role], _("it is {shown}.").format(shown=shown(value))
        )

    def _messages(self, role: ColumnRole, speaker: Speaker) -> Messages:
        """The messages of a cell, or one of `speaker` with its text; those that can't be read are reported."""
        value = self._cells.get(role)
        if _is_blank(value):
            return ()
        if role is not R.CONVERSATION and not looks_like_messages(value):
            text = self._text(role)
            return ({"role": speaker.value, "content": text},) if text else ()
        found: list[Message] = []
        for item in _as_list(value):
            try:
                found.append(self._message(item, found[-1]["role"] if found else ""))
            except _Unreadable as error:
                self._report(error)
        return tuple(found)

    def _message(self, item: Any, before: str) -> Message:
        """One message: OpenAI's role and content, or ShareGPT's from and value; `before` is the role of the last."""
        if not isinstance(item, dict):
            raise _Unreadable(
                UNPARSABLE, example=f"{shown(item)} is not a message with “role” and “content”."
            )
        name = _first_value(item, ROLE_KEYS)
        if name is None:
            raise _Unreadable(MISSING_KEY, "from" if "value" in item else "role")
        if not isinstance(name, str):
            raise _Unreadable(UNKNOWN_ROLE, shown(name))
        normal = name.strip().lower().replace("-", "_").replace(" ", "_")
        is_call = normal in CALL_ROLES and name not in self.roles
        role = self.roles.get(name) or (Speaker.ASSISTANT if is_call else KNOWN_ROLES.get(normal))
        if role is None:
            raise self._unknown_role(name, before)
        calls: list[dict[str, Any]] = []
        if is_call:
            calls = _tool_calls(_first_value(item, CONTENT_KEYS))
        else:
            for key in CALL_KEYS:
                calls += _tool_calls(item[key]) if item.get(key) else []
        message: Message = {"role": str(role), "content": "" if is_call else _content(item)}
        optional = {
            "tool_calls": calls,
            "reasoning_content": _text_or_empty(_first_value(item, REASONING_KEYS)),
            "name": _text_or_empty(item.get("name")),
            "tool_call_id": _text_or_empty(item.get("tool_call_id")),
        }
        return message | {key: value for key, value in optional.items() if value}

    def _unknown_role(self, name: str, before: str) -> _Unreadable:
        """The likely roles are offered: whoever follows the user is the assistant."""
        if len(name) > SHOWN_CHARACTERS:
            return _Unreadable(UNKNOWN_ROLE, f"{name[:SHOWN_CHARACTERS]}…")
        likely = [Speaker.USER, Speaker.ASSISTANT]
        if before in (Speaker.USER, Speaker.TOOL):
            likely.reverse()
        return _Unreadable(UNKNOWN_ROLE, name, fixes=[self._role_fix(name, role) for role in likely])

    def _role_fix(self, name: str, speaker: Speaker) -> Fix:
        others = {key: role for key, role in self.roles.items() if role in set(Speaker)}
        return Fix(
            _("Read “{name}” as {in_words}").format(name=name, in_words=speaker.in_words),
            {"data.roles": {**others, name: str(speaker)}},
        )
