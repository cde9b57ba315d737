"""A better and a worse way to go on, whatever form they are written in."""

import re
from collections.abc import Sequence

from core.conversation_words import Speaker
from core.engine.data.conversations import kinds
from core.engine.data.conversations.cells import RowFaults
from core.engine.data.conversations.rows import Message, Pair
from core.engine.data.conversations.turns import check_contents, is_silent, settle

_Turns = tuple[Message, ...]

_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):[ ]?")
"""How transcripts name their speakers, as in the helpful-and-harmless data of Bai et al., 2022 (arXiv:2204.05862)."""


def settle_pair(raw: Pair, faults: RowFaults) -> Pair:
    """A pair out of what stood in the columns.

    Answers may be the answer alone, or the whole conversation with it: then what both begin with is the prompt, and
    what the other columns say of it is not needed, but for a system prompt.
    """
    if faults.has_problem:  # of messages that couldn't be read nothing more can be said
        return raw
    before, chosen, rejected = raw.prompt, raw.chosen, raw.rejected
    is_asked = any(message.role is Speaker.USER for message in before)
    if not is_asked:
        chosen, rejected = _transcript(chosen), _transcript(rejected)
    if _is_whole(chosen) and _is_whole(rejected):
        before, chosen, rejected = _split_turns(before, chosen, rejected)
    elif not is_asked:
        before, chosen, rejected = _split_texts(before, chosen, rejected)
    _check_answers(chosen, rejected, faults)
    if not any(message.role is Speaker.USER and not is_silent(message) for message in before):
        faults.add(kinds.EMPTY_PROMPT)
    check_contents([message for message in before if message.role is Speaker.ASSISTANT], faults)
    return Pair(raw.row, settle(before, faults), _joined(chosen), _joined(rejected), raw.tools)


def _transcript(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A text with `Human:` and `Assistant:` in it as messages; other messages as they are."""
    if len(messages) != 1 or not _TURN.match(messages[0].content):
        return messages
    _, *parts = _TURN.split(messages[0].content)
    speakers = {"Human": Speaker.USER, "Assistant": Speaker.ASSISTANT}
    return tuple(
        Message(speakers[name], said.strip()) for name, said in zip(parts[::2], parts[1::2], strict=True)
    )


def _is_whole(messages: Sequence[Message]) -> bool:
    """Whether an answer comes with the conversation before it."""
    return any(message.role is Speaker.USER for message in messages)


def _split_turns(before: _Turns, chosen: _Turns, rejected: _Turns) -> tuple[_Turns, _Turns, _Turns]:
    """Two whole conversations: the turns both begin with are the prompt; the last of either is never among them."""
    most = min(len(chosen), len(rejected)) - 1
    shared = next((index for index in range(most) if chosen[index] != rejected[index]), most)
    has_system = shared > 0 and chosen[0].role is Speaker.SYSTEM
    told = () if has_system else tuple(message for message in before if message.role is Speaker.SYSTEM)
    return (*told, *chosen[:shared]), chosen[shared:], rejected[shared:]


def _split_texts(before: _Turns, chosen: _Turns, rejected: _Turns) -> tuple[_Turns, _Turns, _Turns]:
    """Two texts without a prompt: what both begin with, up to a space, is the prompt."""
    if len(chosen) != 1 or len(rejected) != 1 or chosen[0].content.strip() == rejected[0].content.strip():
        return before, chosen, rejected
    better, worse = chosen[0].content, rejected[0].content
    cut = _alike(better, worse)
    if not better[:cut].strip():
        return before, chosen, rejected
    return (
        (*before, Message(Speaker.USER, better[:cut].strip())),
        (Message(Speaker.ASSISTANT, better[cut:]),),
        (Message(Speaker.ASSISTANT, worse[cut:]),),
    )


def _alike(first: str, second: str) -> int:
    """How many characters two texts begin with alike, up to and with the last white space."""
    alike = 0
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            break
        if one.isspace():
            alike = place + 1
    return alike


def _check_answers(chosen: Sequence[Message], rejected: Sequence[Message], faults: RowFaults) -> None:
    if all(is_silent(message) for message in chosen):
        faults.add(kinds.EMPTY_CHOSEN)
    if all(is_silent(message) for message in rejected):
        faults.add(kinds.EMPTY_REJECTED)
    answers = [_said(messages) for messages in (chosen, rejected)]
    if answers[0] and answers[0] == answers[1]:
        faults.add(kinds.SAME_ANSWERS)


def _said(messages: Sequence[Message]) -> list[tuple[Speaker, str, str]]:
    return [(message.role, message.content.strip(), repr(message.tool_calls)) for message in messages]


def _joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Turns of an answer, joined as elsewhere; what is odd about their order is no matter here."""
    return settle(messages, RowFaults())
