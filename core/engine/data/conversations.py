"""Rows of a table as conversations, texts or pairs, one after the other, with all that is wrong counted on the way."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from core.engine.data import conversation_shapes
from core.engine.data.checks import DUPLICATES, Prints64, few_rows
from core.engine.data.conversation_shapes import (
    Conversation,
    Message,
    Pair,
    PlainText,
    Row,
    RowFaults,
    Shape,
    ShapeKind,
    Speakers,
    as_list,
    check_roles,
    is_blank,
    looks_like_messages,
    read_messages,
    read_tools,
    text_of,
)
from core.engine.data.tables import Table
from core.options.choices import ColumnRole, Speaker
from core.services.inspect import ROWS_NAMED, Finding, Tally

# --- What only shows of conversations when all rows are seen


def of_the_file(usable: int, tally: Tally) -> list[Finding]:
    """What is to be said of how many rows can be used."""
    if usable == 0 and not tally.has_problems:
        return [conversation_shapes.NOTHING_LEFT.finding(0, tally.row_word)]
    return list(few_rows(usable, tally.row_word))


def repeated_rows(prints: Prints64, numbers: Sequence[int], row_word: str) -> Iterator[Finding]:
    """A warning of rows that are the same as an earlier one; `numbers` are those of all rows in the file."""
    places = prints.repeated().same
    if len(places):
        rows = tuple(numbers[place] for place in places[:ROWS_NAMED])
        yield msgspec.structs.replace(DUPLICATES.finding(len(places), row_word), rows=rows)


# --- The order of turns: what common chat templates refuse is mended where it can be, and told


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
            faults.add(conversation_shapes.MERGED, detail=message.role.in_words)
        settled[-1] = _joined_messages(before, message)
    _note_order(settled, faults)
    return tuple(settled)


def _joined_messages(first: Message, second: Message) -> Message:
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
            faults.add(conversation_shapes.SYSTEM_LATE)
        if role is Speaker.ASSISTANT and Speaker.USER not in seen:
            faults.add(conversation_shapes.ASSISTANT_FIRST)
        if role is Speaker.TOOL and not has_called:
            faults.add(conversation_shapes.ANSWER_WITHOUT_CALL)
        has_called = has_called or bool(message.tool_calls)
        seen.add(role)


def check_contents(messages: Sequence[Message], faults: RowFaults) -> None:
    """Note answers and questions that are empty; before joining, which would hide them."""
    for message in messages:
        if message.role is Speaker.ASSISTANT and is_silent(message):
            faults.add(conversation_shapes.EMPTY_ANSWER)
        if message.role is Speaker.USER and is_silent(message):
            faults.add(conversation_shapes.EMPTY_PROMPT)


# --- A better and a worse way to go on, whatever form they are written in


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
        faults.add(conversation_shapes.EMPTY_PROMPT)
    check_contents([message for message in before if message.role is Speaker.ASSISTANT], faults)
    return Pair(raw.row, settle(before, faults), _joined_answer(chosen), _joined_answer(rejected), raw.tools)


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
        faults.add(conversation_shapes.EMPTY_CHOSEN)
    if all(is_silent(message) for message in rejected):
        faults.add(conversation_shapes.EMPTY_REJECTED)
    answers = [_said(messages) for messages in (chosen, rejected)]
    if answers[0] and answers[0] == answers[1]:
        faults.add(conversation_shapes.SAME_ANSWERS)


def _said(messages: Sequence[Message]) -> list[tuple[Speaker, str, str]]:
    return [(message.role, message.content.strip(), repr(message.tool_calls)) for message in messages]


def _joined_answer(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Turns of an answer, joined as elsewhere; what is odd about their order is no matter here."""
    return settle(messages, RowFaults())


# --- Rows of a table as conversations, texts or pairs, one after the other


BATCH_ROWS = 1000
R = ColumnRole


@dataclass(frozen=True)
class Cells:
    """One row's values by the role of their column, and how to read them."""

    shape: Shape
    speakers: Speakers
    values: Mapping[ColumnRole, Any]
    faults: RowFaults

    def text(self, role: ColumnRole) -> str:
        """A cell as text; empty where the shape has no such column."""
        return text_of(self.values.get(role), self.shape.columns.get(role, ""), self.faults)

    def messages(self, role: ColumnRole, speaker: Speaker) -> tuple[Message, ...]:
        """A cell as messages: those it holds, or one of `speaker` with its text; none where it is blank."""
        value = self.values.get(role)
        if is_blank(value):
            return ()
        if role is R.CONVERSATION or looks_like_messages(value):
            return read_messages(value, self.speakers, self.faults)
        text = self.text(role)
        return (Message(speaker, text),) if text else ()

    def before(self) -> tuple[Message, ...]:
        """What comes before the answer: the system prompt, earlier turns, the messages or the question."""
        system = self.text(R.SYSTEM)
        told = (Message(Speaker.SYSTEM, system),) if system.strip() else ()
        conversation = self.messages(R.CONVERSATION, Speaker.USER)
        return (*told, *self._earlier(), *conversation, *self._question())

    def _earlier(self) -> Iterator[Message]:
        """Alpaca's history: pairs of a question and its answer."""
        if is_blank(self.values.get(R.HISTORY)):
            return
        for turn in as_list(self.values[R.HISTORY], self.faults) or []:
            if not isinstance(turn, list) or len(turn) != 2:
                self.faults.add(
                    conversation_shapes.UNPARSABLE,
                    example="an earlier turn is not a list of question and answer.",
                )
                return
            for speaker, said in zip((Speaker.USER, Speaker.ASSISTANT), turn, strict=True):
                yield Message(speaker, text_of(said, self.shape.columns[R.HISTORY], self.faults))

    def _question(self) -> tuple[Message, ...]:
        """The question with its material after it."""
        if R.PROMPT not in self.shape.columns:
            return ()
        if looks_like_messages(self.values.get(R.PROMPT)):
            return self.messages(R.PROMPT, Speaker.USER)
        return (Message(Speaker.USER, joined_text(self.text(R.PROMPT), self.text(R.INPUT))),)


def read_rows(
    table: Table,
    shape: Shape,
    tally: Tally,
    *,
    roles: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """The rows that can be used, in order; memory doesn't grow with their number.

    Rows with a problem are counted and passed over: look at `tally.has_problems` when all are read.

    Args:
        table: The rows.
        shape: Which column is what.
        tally: Takes what is found.
        roles: `data.roles`: what names of speakers mean that aren't known.
        progress: Told the number of rows looked at, now and then.

    Raises:
        DataError: `roles` maps a name to something that is no role.
    """
    check_roles(roles or {})
    speakers = Speakers(roles or {})
    names = list(shape.columns.values())
    looked_at = 0
    for batch in table.rows.select(names).to_batches(max_chunksize=BATCH_ROWS):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            faults = RowFaults()
            cells = Cells(shape, speakers, dict(zip(shape.columns, values, strict=True)), faults)
            number = int(table.numbers[looked_at])
            row = read_row(cells, number)
            faults.count_into(tally, number)
            looked_at += 1
            if row is not None and not faults.has_problem:
                yield row
        if progress is not None:
            progress(looked_at)


def read_row(cells: Cells, number: int) -> Row | None:
    """One row; None where it is empty."""
    if all(is_blank(cells.values[role]) for role in cells.shape.columns if role not in (R.SYSTEM, R.TOOLS)):
        cells.faults.add(conversation_shapes.EMPTY_ROW)
        return None
    if cells.shape.kind is ShapeKind.TEXT:
        return PlainText(number, cells.text(R.TEXT))
    tools = read_tools(cells.values.get(R.TOOLS), cells.faults)
    if cells.shape.kind is ShapeKind.PREFERENCE:
        chosen = cells.messages(R.CHOSEN, Speaker.ASSISTANT)
        rejected = cells.messages(R.REJECTED, Speaker.ASSISTANT)
        return settle_pair(Pair(number, cells.before(), chosen, rejected, tools), cells.faults)
    messages = (*cells.before(), *cells.messages(R.ANSWER, Speaker.ASSISTANT))
    return _settled(Conversation(number, messages, tools), cells)


def _settled(raw: Conversation, cells: Cells) -> Conversation:
    """The conversation with its turns in order; where a message couldn't be read, nothing is said of the order."""
    is_partial = cells.faults.has_problem
    check_contents(raw.messages, cells.faults)
    if is_partial:
        return raw
    if R.ANSWER in cells.shape.columns and is_blank(cells.values[R.ANSWER]):
        cells.faults.add(conversation_shapes.EMPTY_ANSWER)
    elif not any(message.role is Speaker.ASSISTANT for message in raw.messages):
        cells.faults.add(conversation_shapes.NO_ANSWER)
    return replace(raw, messages=settle(raw.messages, cells.faults))
