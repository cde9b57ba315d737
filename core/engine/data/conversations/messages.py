"""Messages out of lists of objects: OpenAI's role and content, ShareGPT's from and value, tool calls of both."""

import json
from collections.abc import Mapping
from typing import Any

from core.conversation_words import Speaker
from core.engine.data.conversations import kinds
from core.engine.data.conversations.cells import CALL_KEYS, CONTENT_KEYS, ROLE_KEYS, RowFaults, as_list, shown
from core.engine.data.conversations.rows import Message, ToolCall
from core.engine.data.conversations.speakers import Speakers

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
        faults.add(kinds.UNPARSABLE, example=f"{shown(item)} is not a message with “role” and “content”.")
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
        faults.add(kinds.MISSING_KEY, detail="from" if "value" in item else "role")
        return None
    if not isinstance(name, str):
        faults.add(kinds.UNKNOWN_ROLE, detail=shown(name))
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
        faults.add(
            kinds.NOT_TEXT, detail=_kind_of(content), example=f"{shown(content)} must be written as text."
        )
        return None
    if not any(item.get(key) for key in CALL_KEYS):
        faults.add(kinds.MISSING_KEY, detail="value" if "from" in item else "content")
        return None
    return ""


def _part(part: Any, faults: RowFaults) -> str | None:
    """The text of one part of a content that is a list."""
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else _kind_of(part)
    if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    faults.add(kinds.NOT_TEXT, detail="a text part without text" if kind in _TEXT_PARTS else str(kind))
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
    items = as_list(value, faults, kinds.BROKEN_CALL)
    if items is None:
        return None
    if not items:
        faults.add(kinds.BROKEN_CALL, example="no function is called.")
        return None
    calls = [_read_call(item, faults) for item in items]
    return None if None in calls else tuple(call for call in calls if call is not None)


def _read_call(item: Any, faults: RowFaults) -> ToolCall | None:
    function = item.get("function", item) if isinstance(item, dict) else {}
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        faults.add(kinds.BROKEN_CALL, example=f"{shown(item)} names no function.")
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
    items = as_list(value, faults, kinds.BROKEN_TOOLS) or []
    for item in items:
        function = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            faults.add(kinds.BROKEN_TOOLS, example=f"{shown(item)} names no function.")
            return ()
    return tuple(item if "function" in item else {"type": "function", "function": item} for item in items)
