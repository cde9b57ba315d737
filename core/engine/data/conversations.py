"""Conversations, plain texts and preference pairs from the rows of a table, in the form that chat templates take.

Columns are recognized by their names and values; the first form that fits is used. For chat:

1. a column of messages (OpenAI's `messages`, ShareGPT's `conversations`), by its name or its content;
2. a question and an answer: Alpaca's instruction, input and output, or prompt and completion under other names;
3. a column of plain text.

For preferences: a chosen and a rejected answer, with the prompt as a column of messages, as a question, or as what both
answers begin with. For KTO also a single answer, or a conversation that ends with one, beside a column that rates it.
Columns chosen in the options are fixed, and the others are found around them.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import pyarrow as pa

from core.base.errors import DataError, Fix
from core.base.formats import paragraph
from core.base.language import _
from core.engine.data.findings import FindingKind, Tally
from core.engine.data.tables import Table
from core.engine.data.text_files import is_text, listed
from core.jobs.inspect import FindingLevel
from core.options.choices import CHAT_COLUMNS, PREFERENCE_COLUMNS, ColumnRole, PreferenceLoss, Speaker, Task

R = ColumnRole
_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING

UNREADABLE = FindingKind("unparsable", _PROBLEM, _("{rows}: a value that can't be read."))
NOT_TEXT = FindingKind(
    "not-text", _PROBLEM, _("{rows}: a message with a part of type “{detail}”. Only text can be read.")
)
MISSING_KEY = FindingKind("missing-key", _PROBLEM, _("{rows}: a message without “{detail}”."))
UNKNOWN_ROLE = FindingKind("unknown-role", _PROBLEM, _("{rows}: a message with the unknown role “{detail}”."))
NO_ANSWER = FindingKind(
    "empty-answer",
    _PROBLEM,
    _("{rows}: an empty answer, or none."),
    _("Add the answers, or remove these examples"),
)
NO_RATING = FindingKind(
    "no-rating", _PROBLEM, _("{rows}: an answer without a rating."), _("Rate it, or remove these examples")
)
OTHER_RATING = FindingKind(
    "other-rating",
    _PROBLEM,
    _("{rows}: the rating “{detail}”. True and false, 1 and 0, good and bad can be read."),
)
SAME_ANSWERS = FindingKind("same-answers", _PROBLEM, _("{rows}: the same answer twice."))
EMPTY_ROW = FindingKind(
    "empty-row", _WARNING, _("{rows}: nothing to learn from. Such examples are always left out.")
)
EMPTY_PROMPT = FindingKind("empty-prompt", _WARNING, _("{rows}: an answer to an empty question."))
MERGED = FindingKind("merged", _WARNING, _("{rows}: consecutive messages of {detail}, which are joined."))

BATCH_ROWS = 1000
SAMPLE_ROWS = 200
SHOWN_CHARACTERS = 60

Message = dict[str, Any]
"""As chat templates take it: `role` and `content`, and optionally `tool_calls`, `reasoning_content`, `name` and
`tool_call_id`. The arguments of a call are an object, or text if they can't be parsed as one."""
Messages = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A conversation (`messages`), a plain `text`, or a prompt (`messages`) with two answers to compare.

    Of a prompt with a single answer (`chosen`), `liked` is its rating. `row` is its number in the file, `tools` are the
    functions the assistant can call.
    """

    row: int
    messages: Messages = ()
    chosen: Messages = ()
    rejected: Messages = ()
    liked: bool | None = None
    text: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()


# --- Columns


class ShapeKind(StrEnum):
    """The forms of conversations, as the data card names them."""

    MESSAGES = _("Messages")
    ALPACA = _("Instructions (Alpaca)")
    PROMPT = _("Questions and answers")
    TEXT = _("Plain text")
    PREFERENCE = _("Better and worse answers")
    RATED = _("Answers that were liked or not")


@dataclass(frozen=True)
class Shape:
    """A form, and the column of each role that has one."""

    kind: ShapeKind
    columns: Mapping[ColumnRole, str]


NAMES = {
    R.CONVERSATION: "messages conversations conversation dialogue dialog chat turns conv",
    R.SYSTEM: "system system_prompt system_message",
    R.PROMPT: "instruction prompt question query problem input request user human",
    R.INPUT: "input context inputs",
    R.HISTORY: "history",
    R.ANSWER: "output completion answer response reply solution target assistant gpt",
    R.CHOSEN: "chosen preferred preferred_output accepted better chosen_response response_chosen",
    R.REJECTED: "rejected dispreferred non_preferred_output worse rejected_response response_rejected",
    R.RATING: "label rating liked is_liked kto_tag desirable is_desirable feedback thumbs_up",
    R.TOOLS: "tools functions",
    R.TEXT: "text content document body story passage code",
}
"""Common names of the column of each role, likeliest first."""

Roles = tuple[ColumnRole, ...]
BESIDE: Roles = (R.SYSTEM, R.TOOLS, R.RATING)
"""A row with values of these alone is empty."""
WITH_PROMPT = (R.INPUT, R.SYSTEM, R.HISTORY, R.TOOLS)
Form = tuple[ShapeKind, Roles, Roles]
"""A form with its required and its optional roles."""
CHAT_FORMS: tuple[Form, ...] = (
    (ShapeKind.MESSAGES, (R.CONVERSATION,), (R.SYSTEM, R.TOOLS)),
    (ShapeKind.PROMPT, (R.PROMPT, R.ANSWER), WITH_PROMPT),
    (ShapeKind.TEXT, (R.TEXT,), ()),
)
PREFERENCE_FORMS: tuple[Form, ...] = (
    (ShapeKind.PREFERENCE, (R.CHOSEN, R.REJECTED, R.CONVERSATION), (R.SYSTEM, R.TOOLS)),
    (ShapeKind.PREFERENCE, (R.CHOSEN, R.REJECTED, R.PROMPT), WITH_PROMPT),
    (ShapeKind.PREFERENCE, (R.CHOSEN, R.REJECTED), (R.SYSTEM, R.TOOLS)),
)
RATED_FORMS: tuple[Form, ...] = (
    (ShapeKind.RATED, (R.RATING, R.PROMPT, R.ANSWER), WITH_PROMPT),
    (ShapeKind.RATED, (R.RATING, R.CONVERSATION, R.ANSWER), (R.SYSTEM, R.TOOLS)),
    (ShapeKind.RATED, (R.RATING, R.CONVERSATION), (R.SYSTEM, R.TOOLS)),
)


def find_shape(
    table: Table,
    *,
    preference: PreferenceLoss | None = None,
    columns: Mapping[str, str] | None = None,
) -> Shape:
    """Recognizes the form of a table.

    Args:
        preference: Look for what this loss learns from, instead of conversations.
        columns: The option `data.columns`: column by role; an empty name means that there is none.

    Raises:
        DataError: A chosen column doesn't exist, or no form fits.
    """
    columns = columns or {}
    _check_columns(table, columns, PREFERENCE_COLUMNS if preference else CHAT_COLUMNS)
    if shape := _fitting(table, columns, CHAT_FORMS if preference is None else PREFERENCE_FORMS):
        return shape
    rated = preference and _fitting(table, columns, RATED_FORMS)
    if rated and preference is PreferenceLoss.KTO:
        return rated
    fixes: tuple[Fix, ...] = (Fix(_("Set what each column is, or choose another file")),)
    if preference and rated:
        title = _("{name} has single answers with a rating, not pairs")
        needed = _("{loss} compares two answers to the same prompt; KTO learns from single ones.").format(
            loss=preference.label
        )
        fixes = (Fix(_("Use KTO"), {"training.preference_loss": PreferenceLoss.KTO.value}), *fixes)
    elif preference is PreferenceLoss.KTO:
        title = _("{name} has no answers with a rating")
        needed = _(
            "KTO needs a column with the rating of each answer (true or false), or pairs: a column with the better "
            "answer (chosen) and one with the worse (rejected)."
        )
    elif preference:
        title = _("{name} has no pairs of answers")
        needed = _(
            "{loss} needs a column with the better answer (chosen) and one with the worse (rejected)."
        ).format(loss=preference.label)
    else:
        title = _("{name} has no conversations")
        needed = _(
            "Chat needs a column of messages with role and content, or two columns such as “instruction” and "
            "“output”, or a column “text”."
        )
        if _fitting(table, {}, PREFERENCE_FORMS):
            fixes = (change_to(Task.PREFERENCE), *fixes)
    columns_are = _("{path} has the columns {columns}.").format(
        path=table.path, columns=listed(table.columns)
    )
    raise DataError(title.format(name=table.path.name), paragraph(needed, columns_are), fixes)


def change_to(task: Task) -> Fix:
    """Returns the fix that trains another task on the data."""
    return Fix(_("Change to “{task}”").format(task=task.label), {"task": task.value})


def _fitting(table: Table, columns: Mapping[str, str], forms: tuple[Form, ...]) -> Shape | None:
    """Returns the first form that fits, if any does."""
    for kind, required, optional in forms:
        found = {ColumnRole(role): name for role, name in columns.items() if name}
        if not {*found} <= {*required, *optional}:
            continue
        for role in (*required, *optional):
            if role not in columns and (name := _guess(table, role, set(found.values()))):
                found[role] = name
        if all(role in found for role in required):
            is_alpaca = found.get(R.PROMPT, "").lower() == "instruction" or R.INPUT in found
            return Shape(ShapeKind.ALPACA if kind is ShapeKind.PROMPT and is_alpaca else kind, found)
    return None


def _check_columns(table: Table, columns: Mapping[str, str], known: Roles) -> None:
    for role, name in columns.items():
        if role not in known:
            others = {key: value for key, value in columns.items() if key != role}
            raise DataError(
                _("“{role}” is not a role of a column").format(role=role),
                _("The roles in data.columns are {known}.").format(known=", ".join(known)),
                (Fix(_("Leave “{role}” out").format(role=role), {"data.columns": others}),),
            )
        if name and name not in table.columns:
            by_lower = {column.lower(): column for column in table.columns}
            close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
            fixes = [
                Fix(_("Use “{name}”").format(name=match), {"data.columns": {**columns, role: match}})
                for match in map(by_lower.__getitem__, close)
            ]
            raise DataError(
                _("{file} has no column “{name}”").format(file=table.path.name, name=name),
                _("{path} has the columns {columns}.").format(path=table.path, columns=listed(table.columns)),
                (*fixes, Fix(_("Find the columns automatically"), {"data.columns": {}})),
            )


def _guess(table: Table, role: ColumnRole, taken: set[str]) -> str | None:
    free = [name for name in table.columns if name not in taken]
    by_name = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in reversed(free)}
    named = [by_name[name] for name in NAMES[role].split() if name in by_name]
    if role is R.CONVERSATION:
        return _guess_conversation(table, named, free)
    if role is R.TEXT and not named:
        texts = [name for name in free if is_text(table.rows[name].type)]
        return texts[0] if len(texts) == 1 else None
    if role is R.RATING:
        named = [name for name in named if any(rating_of(value) is not None for value in _cells(table, name))]
    return named[0] if named else None


def _cells(table: Table, name: str) -> list[Any]:
    """Returns the first cells of a column that aren't empty."""
    return [value for value in table.rows[name].slice(0, SAMPLE_ROWS).to_pylist() if value is not None]


def _guess_conversation(table: Table, named: list[str], free: list[str]) -> str | None:
    """Finds a column named like one with messages, or full of messages, or named like one with lists."""
    shares = {}
    for name in free:
        cells = _cells(table, name)
        shares[name] = sum(map(looks_like_messages, cells)) / max(1, len(cells))
    answers = " ".join(NAMES[role] for role in (R.PROMPT, R.ANSWER, R.CHOSEN, R.REJECTED)).split()
    candidates = (
        *(name for name in named if shares[name]),
        *(name for name in free if shares[name] >= 0.5 and name.lower() not in answers),
        *(name for name in named if pa.types.is_nested(table.rows[name].type)),
    )
    return next(iter(candidates), None)


# --- Values of cells


ROLE_KEYS = ("role", "from", "speaker")
CONTENT_KEYS = ("content", "value", "text")
LIST_KEYS = ("messages", "conversations", "conversation")
CALL_KEYS = ("tool_calls", "function_call")
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
TEXT_PARTS = ("text", "input_text", "output_text")

_SPELLINGS = {
    Speaker.SYSTEM: "system developer sys system_prompt",
    Speaker.USER: "user human prompter person usr",
    Speaker.ASSISTANT: "assistant gpt bot model chatgpt chatbot ai llm bing bard",
    Speaker.TOOL: "tool function observation ipython environment tool_response tool_result tool_output "
    "function_response function_result",
}
KNOWN_ROLES = {name: speaker for speaker, names in _SPELLINGS.items() for name in names.split()}
CALL_ROLES = ("function_call", "tool_call", "tool_calls")
"""ShareGPT's roles of a message that is a call of the assistant, written as JSON."""


class RowIssue(Exception):  # noqa: N818 - an issue of a row, not of the program
    """Something in a row can't be read, or is suspicious: the arguments of `Tally.add`."""

    def __init__(
        self, kind: FindingKind, detail: str = "", example: str = "", fixes: tuple[Fix, ...] = ()
    ) -> None:
        super().__init__(kind.code)
        self.kind, self.detail, self.example, self.fixes = kind, detail, example, fixes


def _unreadable(value: Any, reason: str) -> RowIssue:
    """Returns the issue for `value`, which is put as short JSON into the placeholder `{value}` of `reason`."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        text = "…"
    text = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return RowIssue(UNREADABLE, example=reason.replace("{value}", text))


def joined_text(*texts: str) -> str:
    """Joins texts by blank lines, without empty ones."""
    return "\n\n".join(text for text in texts if text.strip())


def looks_like_messages(value: Any) -> bool:
    """Returns whether a cell holds messages: objects with role and content, as a list, as JSON, or a single one."""
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
    """Returns the list in `{"messages": [...]}`, or a list of the single message that `value` is."""
    return next((value[key] for key in LIST_KEYS if isinstance(value.get(key), list)), [value])


def _without_nulls(value: Any) -> Any:
    """Removes the keys Arrow fills in: each struct of a column has the keys of all of them."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _as_list(value: Any) -> list[Any]:
    """Returns the list a cell holds, nested or as JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowIssue(UNREADABLE, example=f"{error}.") from error
    else:
        value = _without_nulls(value)
    if isinstance(value, dict):
        value = _unwrapped(value)
    if not isinstance(value, list):
        raise _unreadable(value, _("{value} is not a list."))
    return value


def _is_blank(value: Any) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def _first_value(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:  # called several times a message: a generator would take twice as long
        value = item.get(key)
        if value is not None:
            return value
    return None


_RATINGS = {
    True: "true 1 1.0 +1 yes good like liked desirable chosen positive up thumbs_up 👍",
    False: "false 0 0.0 -1 -1.0 no bad dislike disliked undesirable rejected negative down thumbs_down 👎",
}
KNOWN_RATINGS = {name: liked for liked, names in _RATINGS.items() for name in names.split()}


def rating_of(value: Any) -> bool | None:
    """Returns whether an answer is liked, by the cell that rates it; None for other values."""
    return KNOWN_RATINGS.get(str(value).strip().lower().replace(" ", "_"))


def _rating(value: Any) -> bool:
    liked = rating_of(value)
    if liked is None:
        is_missing = _is_blank(value) or (isinstance(value, float) and math.isnan(value))
        raise RowIssue(NO_RATING) if is_missing else RowIssue(OTHER_RATING, str(value)[:SHOWN_CHARACTERS])
    return liked


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(item: Mapping[str, Any]) -> str:
    """Returns the text of a message, which may be missing if the message calls a tool."""
    content = _first_value(item, CONTENT_KEYS)
    if content is None and not any(item.get(key) for key in CALL_KEYS):
        raise RowIssue(MISSING_KEY, "value" if "from" in item else "content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise _unreadable(content, _("the content {value} is not text."))
    return "".join(map(_text_part, content))


def _text_part(part: Any) -> str:
    """Returns the text of one part of a content that is a list."""
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else type(part).__name__
    if kind not in TEXT_PARTS:
        raise RowIssue(NOT_TEXT, str(kind))
    if not isinstance(part.get("text"), str):
        raise _unreadable(part, _("the part {value} has no text."))
    return str(part["text"])


def _functions(value: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Reads calls or tools, nested or as JSON: each as a whole, and its function, which OpenAI nests in `function`.

    Raises:
        RowIssue: A function has no name.
    """
    functions = []
    for item in _as_list(value):
        function = item.get("function", item) if isinstance(item, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not name:
            raise _unreadable(item, _("{value} names no function."))
        functions.append((item, function))
    return functions


def _tool_calls(value: Any) -> list[dict[str, Any]]:
    calls = []
    for item, function in _functions(value):
        arguments = _arguments(_first_value(function, ("arguments", "parameters", "args")))
        call = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
        calls.append({"id": item["id"], **call} if _text_or_empty(item.get("id")) else call)
    if not calls:
        raise _unreadable(value, _("{value} calls no function."))
    return calls


def _arguments(value: Any) -> Mapping[str, Any] | str:
    """Returns arguments as an object, as chat templates write them; OpenAI's files hold them as JSON."""
    if value is None or isinstance(value, dict):
        return value or {}
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    try:
        parsed = json.loads(value or "{}")
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, dict) else value


# --- Turns


_JOINED_ROLES = (Speaker.SYSTEM, Speaker.USER, Speaker.ASSISTANT)

_TRANSCRIPT_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):[ ]?")
"""The speakers of transcripts as in the helpful-and-harmless data of Bai et al., 2022 (arXiv:2204.05862)."""


def _is_empty(message: Message) -> bool:
    return not message["content"].strip() and not message.get("tool_calls")


def _join_turns(messages: Sequence[Message]) -> Messages:
    """Joins consecutive messages of the same role.

    Templates such as Llama 2's, Mistral's and Gemma's refuse two turns of one role. Consecutive answers of tools are
    kept: they answer several calls.
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
        if reasoning := joined_text(last.get("reasoning_content", ""), message.get("reasoning_content", "")):
            both["reasoning_content"] = reasoning
        joined[-1] = both
    return tuple(joined)


def _from_transcript(messages: Messages) -> Messages:
    """Splits a single text with `Human:` and `Assistant:` into messages; others are returned unchanged."""
    if len(messages) != 1 or not _TRANSCRIPT_TURN.match(messages[0]["content"]):
        return messages
    parts = _TRANSCRIPT_TURN.split(messages[0]["content"])[1:]
    return tuple(
        {"role": KNOWN_ROLES[name.lower()].value, "content": text.strip()}
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    )


def _has_question(messages: Messages) -> bool:
    return any(message["role"] == Speaker.USER for message in messages)


def common_length(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Returns how many characters or tokens both sequences begin with."""
    if first == second[: len(first)]:
        return len(first)
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(first), len(second)))


def _split_prompt(
    prompt: Messages, chosen: Messages, rejected: Messages
) -> tuple[Messages, Messages, Messages]:
    """Moves what both answers begin with into the prompt, if they contain it.

    Of two whole conversations, the shared turns are the prompt (never the last turn of either), after the system prompt
    of the other columns. Of two texts without a prompt, it is their common beginning up to white space.
    """
    if not _has_question(prompt):
        chosen, rejected = _from_transcript(chosen), _from_transcript(rejected)
    if _has_question(chosen) and _has_question(rejected):
        most = min(len(chosen), len(rejected)) - 1
        shared = next((index for index in range(most) if chosen[index] != rejected[index]), most)
        has_system = shared > 0 and chosen[0]["role"] == Speaker.SYSTEM
        system = () if has_system else tuple(m for m in prompt if m["role"] == Speaker.SYSTEM)
        return (*system, *chosen[:shared]), chosen[shared:], rejected[shared:]
    if _has_question(prompt) or len(chosen) != 1 or len(rejected) != 1:
        return prompt, chosen, rejected
    better, worse = chosen[0]["content"], rejected[0]["content"]
    begin = better[: common_length(better, worse)]
    cut = len(begin) - len(re.split(r"\s", begin)[-1])
    if better.strip() == worse.strip() or not better[:cut].strip():
        return prompt, chosen, rejected
    question = {"role": Speaker.USER.value, "content": better[:cut].strip()}
    return (
        (*prompt, question),
        ({**chosen[0], "content": better[cut:]},),
        ({**rejected[0], "content": worse[cut:]},),
    )


# --- Rows


class ConversationReader:
    """Iterates over the usable rows of a table in order, in constant memory.

    Rows with a problem are counted in `tally` and skipped.

    Args:
        roles: The option `data.roles`: the role of further names of speakers.
        progress: Called with the number of rows read so far.

    Raises:
        DataError: `roles` maps a name to an unknown role.
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
        self._cells: dict[ColumnRole, Any] = {}
        self._issues: list[RowIssue] = []
        for name, role in self.roles.items():
            if role not in set(Speaker):
                raise DataError(
                    _("“{role}” is not a role").format(role=role),
                    _("The roles in data.roles are {known}.").format(known=", ".join(Speaker)),
                    (self._role_fix(name, Speaker.ASSISTANT), self._role_fix(name, Speaker.USER)),
                    option="data.roles",
                )

    def __iter__(self) -> Iterator[ChatRow]:
        done = 0
        for batch in self.table.rows.select(list(self.shape.columns.values())).to_batches(BATCH_ROWS):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number, row = int(self.table.numbers[done]), None
                self._cells, self._issues = dict(zip(self.shape.columns, values, strict=True)), []
                done += 1
                try:
                    row = self._read(number)
                except RowIssue as unreadable:
                    self._issues.append(unreadable)
                for issue in self._issues:
                    self.tally.add(
                        issue.kind, number, detail=issue.detail, example=issue.example, fixes=issue.fixes
                    )
                if row is not None and not self._has_problem:
                    yield row
            if self.progress is not None:
                self.progress(done)

    @property
    def _has_problem(self) -> bool:
        return any(issue.kind.level is _PROBLEM for issue in self._issues)

    def _add(self, kind: FindingKind, detail: str = "") -> None:
        self._issues.append(RowIssue(kind, detail))

    def _read(self, number: int) -> ChatRow | None:
        """Returns None for an empty row; one with a problem may be returned, too."""
        if all(_is_blank(value) for role, value in self._cells.items() if role not in BESIDE):
            self._add(EMPTY_ROW)
            return None
        if self.shape.kind is ShapeKind.TEXT:
            return ChatRow(number, text=self._text(R.TEXT))
        cell = self._cells.get(R.TOOLS)
        tools = tuple(
            item if "function" in item else {"type": "function", "function": item}
            for item, _function in ([] if _is_blank(cell) else _functions(cell))
        )
        prompt = self._prompt()
        chosen, rejected, answer = (
            self._messages(role, Speaker.ASSISTANT) for role in (R.CHOSEN, R.REJECTED, R.ANSWER)
        )
        messages = (*prompt, *answer)
        liked = _rating(self._cells[R.RATING]) if self.shape.kind is ShapeKind.RATED else None
        is_whole = not self._has_problem  # the order of turns isn't judged if a message is missing
        if self.shape.kind is ShapeKind.PREFERENCE and is_whole:
            messages, chosen, rejected = _split_prompt(prompt, chosen, rejected)
            self._check_pair(messages, chosen, rejected)
        self._check_contents(messages)
        if not is_whole:
            return None
        if self.shape.kind is ShapeKind.RATED:
            is_apart = R.ANSWER in self.shape.columns
            messages, chosen = (prompt, answer) if is_apart else (messages[:-1], messages[-1:])
            if any(message["role"] != Speaker.ASSISTANT for message in chosen[-1:]):
                self._add(NO_ANSWER)
            if not _has_question(messages):
                self._add(EMPTY_PROMPT)
        if not chosen and (
            (R.ANSWER in self.shape.columns and not answer)
            or not any(message["role"] == Speaker.ASSISTANT for message in messages)
        ):
            self._add(NO_ANSWER)
        for before, message in pairwise(messages):
            role = message["role"]
            if role == before["role"] and role in _JOINED_ROLES and "tool_calls" not in before:
                self._add(MERGED, Speaker(role).in_words)
        answers = (_join_turns(chosen), _join_turns(rejected))
        return ChatRow(number, _join_turns(messages), *answers, liked, tools=tools)

    def _check_pair(self, prompt: Messages, chosen: Messages, rejected: Messages) -> None:
        if all(map(_is_empty, chosen)) or all(map(_is_empty, rejected)):
            self._add(NO_ANSWER)
        better, worse = (
            [(message["role"], message["content"].strip(), message.get("tool_calls")) for message in answer]
            for answer in (chosen, rejected)
        )
        if better and better == worse:
            self._add(SAME_ANSWERS)
        if not _has_question(prompt):
            self._add(EMPTY_PROMPT)

    def _check_contents(self, messages: Sequence[Message]) -> None:
        """Finds empty answers and questions before turns are joined, which would hide them."""
        kinds: dict[str, FindingKind] = {Speaker.ASSISTANT: NO_ANSWER, Speaker.USER: EMPTY_PROMPT}
        for message in messages:
            if _is_empty(message) and (kind := kinds.get(message["role"])):
                self._add(kind)

    def _prompt(self) -> Messages:
        """Returns what precedes the answer: the system prompt, Alpaca's history, the messages, the question."""
        system = self._text(R.SYSTEM)
        messages: list[Message] = (
            [{"role": Speaker.SYSTEM.value, "content": system}] if system.strip() else []
        )
        history = self._cells.get(R.HISTORY)
        for turn in [] if _is_blank(history) else _as_list(history):
            if not isinstance(turn, list) or len(turn) != 2:
                raise _unreadable(turn, _("the earlier turn {value} is not a list of question and answer."))
            for role, text in zip((Speaker.USER, Speaker.ASSISTANT), turn, strict=True):
                messages.append({"role": role.value, "content": self._as_text(text, R.HISTORY)})
        messages += self._messages(R.CONVERSATION, Speaker.USER)
        if looks_like_messages(self._cells.get(R.PROMPT)):
            messages += self._messages(R.PROMPT, Speaker.USER)
        elif R.PROMPT in self.shape.columns:
            question = joined_text(self._text(R.PROMPT), self._text(R.INPUT))
            messages.append({"role": Speaker.USER.value, "content": question})
        begins = [message["content"].strip() for message in messages[:2] if message["role"] == Speaker.SYSTEM]
        if len(begins) == 2 and begins[0] == begins[1]:
            del messages[0]  # it stands in a column, and again as the first turn
        return tuple(messages)

    def _text(self, role: ColumnRole) -> str:
        return self._as_text(self._cells.get(role), role)

    def _as_text(self, value: Any, role: ColumnRole) -> str:
        """Converts a text or a number; an empty cell of a column of floats is NaN."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if isinstance(value, str | int | float):
            return str(value)
        raise _unreadable(value, f"“{self.shape.columns[role]}”: {{value}}")

    def _messages(self, role: ColumnRole, speaker: Speaker) -> Messages:
        """Reads the messages of a cell, or makes its text one of `speaker`; unreadable ones become issues."""
        value = self._cells.get(role)
        if _is_blank(value):
            return ()
        if role is not R.CONVERSATION and not looks_like_messages(value):
            text = self._text(role)
            return ({"role": speaker.value, "content": text},) if text else ()
        messages: list[Message] = []
        for item in _as_list(value):
            try:
                messages.append(self._message(item, messages[-1]["role"] if messages else ""))
            except RowIssue as issue:
                self._issues.append(issue)
        return tuple(messages)

    def _message(self, item: Any, before: str) -> Message:
        """Reads OpenAI's role and content, or ShareGPT's from and value; `before` is the role of the last message."""
        if not isinstance(item, dict):
            raise _unreadable(item, _("{value} is not a message with “role” and “content”."))
        name = _first_value(item, ROLE_KEYS)
        if name is None:
            raise RowIssue(MISSING_KEY, "from" if "value" in item else "role")
        normal = str(name).strip().lower().replace("-", "_").replace(" ", "_")
        is_call = normal in CALL_ROLES and name not in self.roles
        role = self.roles.get(str(name)) or (Speaker.ASSISTANT if is_call else KNOWN_ROLES.get(normal))
        if role is None:
            raise self._unknown_role(str(name), before)
        calls: list[dict[str, Any]] = []
        for value in [_first_value(item, CONTENT_KEYS)] if is_call else map(item.get, CALL_KEYS):
            calls += _tool_calls(value) if value or is_call else []
        optional = {
            "tool_calls": calls,
            "reasoning_content": _text_or_empty(_first_value(item, REASONING_KEYS)),
            "name": _text_or_empty(item.get("name")),
            "tool_call_id": _text_or_empty(item.get("tool_call_id")),
        }
        message: Message = {"role": str(role), "content": "" if is_call else _content(item)}
        return message | {key: value for key, value in optional.items() if value}

    def _unknown_role(self, name: str, before: str) -> RowIssue:
        """Offers the user and the assistant as roles; after the user, the assistant is likelier."""
        if len(name) > SHOWN_CHARACTERS:
            return RowIssue(UNKNOWN_ROLE, f"{name[:SHOWN_CHARACTERS]}…")
        likely = [Speaker.USER, Speaker.ASSISTANT]
        if before in (Speaker.USER, Speaker.TOOL):
            likely.reverse()
        return RowIssue(UNKNOWN_ROLE, name, fixes=tuple(self._role_fix(name, role) for role in likely))

    def _role_fix(self, name: str, speaker: Speaker) -> Fix:
        others = {key: role for key, role in self.roles.items() if role in set(Speaker)}
        return Fix(
            _("Read “{name}” as {role}").format(name=name, role=speaker.in_words),
            {"data.roles": {**others, name: str(speaker)}},
        )
