"""The order of turns: what common chat templates refuse is mended where it can be, and told."""

from collections.abc import Sequence
from dataclasses import replace

from core.conversation_words import Speaker
from core.engine.data.conversations import kinds
from core.engine.data.conversations.cells import RowFaults
from core.engine.data.conversations.rows import Message

_JOINED = (Speaker.SYSTEM, Speaker.USER, Speaker.ASSISTANT)


def is_silent(message: Message) -> bool:
    """Whether a message says nothing and calls nothing."""
    return not message.content.strip() and not message.tool_calls


def settle(messages: Sequence[Message], faults: RowFaults) -> tuple[Message, ...]:
    """Join messages of one speaker that follow each other, and note what templates may stumble over.

    Templates such as Llama 2's, Mistral's and Gemma's refuse two turns of one role, and most are written for user and
    assistant by turns. Several answers of tools in a row are left alone: they answer several calls.
    """
    settled: list[Message] = []
    for message in messages:
        before = settled[-1] if settled else None
        if before is None or before.role is not message.role or message.role not in _JOINED:
            settled.append(message)
            continue
        if not before.tool_calls:
            faults.add(kinds.MERGED, detail=message.role.in_words)
        settled[-1] = _joined(before, message)
    _note_order(settled, faults)
    return tuple(settled)


def _joined(first: Message, second: Message) -> Message:
    return replace(
        first,
        content=joined_text(first.content, second.content),
        reasoning=joined_text(first.reasoning, second.reasoning),
        tool_calls=(*first.tool_calls, *second.tool_calls),
    )


def joined_text(*texts: str) -> str:
    """Texts with a blank line between them; blank ones are left out."""
    return "\n\n".join(text for text in texts if text.strip())


def _note_order(messages: Sequence[Message], faults: RowFaults) -> None:
    seen: set[Speaker] = set()
    has_called = False
    for index, message in enumerate(messages):
        role = message.role
        if role is Speaker.SYSTEM and index > 0:
            faults.add(kinds.SYSTEM_LATE)
        if role is Speaker.ASSISTANT and Speaker.USER not in seen:
            faults.add(kinds.ASSISTANT_FIRST)
        if role is Speaker.TOOL and not has_called:
            faults.add(kinds.ANSWER_WITHOUT_CALL)
        has_called = has_called or bool(message.tool_calls)
        seen.add(role)


def check_contents(messages: Sequence[Message], faults: RowFaults) -> None:
    """Note answers and questions that are empty; before joining, which would hide them."""
    for message in messages:
        if message.role is Speaker.ASSISTANT and is_silent(message):
            faults.add(kinds.EMPTY_ANSWER)
        if message.role is Speaker.USER and is_silent(message):
            faults.add(kinds.EMPTY_PROMPT)
