"""What one row of a table becomes: a conversation, a plain text, or a pair of answers to prefer between."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from core.conversation_words import Speaker


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
