"""Rows of a table as conversations, texts or pairs, one after the other, with all that is wrong counted on the way."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.conversation_words import ColumnRole, Speaker
from core.engine.data.conversations import kinds
from core.engine.data.conversations.cells import RowFaults, as_list, is_blank, looks_like_messages, text_of
from core.engine.data.conversations.messages import read_messages, read_tools
from core.engine.data.conversations.pairs import settle_pair
from core.engine.data.conversations.rows import Conversation, Message, Pair, PlainText, Row
from core.engine.data.conversations.shapes import Shape, ShapeKind
from core.engine.data.conversations.speakers import Speakers, check_roles
from core.engine.data.conversations.turns import check_contents, joined_text, settle
from core.engine.data.tables import Table
from core.findings import Tally

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
                    kinds.UNPARSABLE, example="an earlier turn is not a list of question and answer."
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
        cells.faults.add(kinds.EMPTY_ROW)
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
        cells.faults.add(kinds.EMPTY_ANSWER)
    elif not any(message.role is Speaker.ASSISTANT for message in raw.messages):
        cells.faults.add(kinds.NO_ANSWER)
    return replace(raw, messages=settle(raw.messages, cells.faults))
