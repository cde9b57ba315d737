"""Conversations as the model sees them; where no tokenizer is at hand, as who says what."""

from collections.abc import Iterator, Sequence

from core.conversation_words import Speaker
from core.data_report import Seen, SeenPart
from core.engine.data.conversations.rendering import Renderer
from core.engine.data.conversations.rows import Message, Pair, PlainText, Row
from core.engine.data.conversations.seeing import see
from core.engine.data.conversations.spans import TemplateRefused


def seen_rows(renderer: Renderer | None, rows: Sequence[Row], length: int) -> Iterator[Seen]:
    """Each row as it will be trained on; those the template refuses are told elsewhere."""
    for row in rows:
        if renderer is None:
            yield _told(row)
            continue
        try:
            yield see(renderer, row, length)
        except TemplateRefused:
            continue


def characters_of(row: Row) -> int:
    """How long a row is; of a pair with the longer answer."""
    if isinstance(row, PlainText):
        return len(row.text)
    if isinstance(row, Pair):
        return _size(row.prompt) + max(_size(row.chosen), _size(row.rejected))
    return _size(row.messages)


def _size(messages: Sequence[Message]) -> int:
    return sum(len(message.content) + len(message.reasoning) for message in messages)


def _told(row: Row) -> Seen:
    if isinstance(row, PlainText):
        return Seen(row=row.row, parts=(SeenPart(row.text, trained=True),))
    if isinstance(row, Pair):
        asked = tuple(_parts(row.prompt, is_trained=False))
        chosen, rejected = (tuple(_parts(said, is_trained=True)) for said in (row.chosen, row.rejected))
        return Seen(row=row.row, parts=(*asked, *chosen), rejected=(*asked, *rejected))
    return Seen(row=row.row, parts=tuple(_parts(row.messages, is_trained=True)))


def _parts(messages: Sequence[Message], *, is_trained: bool) -> Iterator[SeenPart]:
    for message in messages:
        calls = "".join(f"\n[calls {call.name}: {call.arguments}]" for call in message.tool_calls)
        yield SeenPart(f"{message.role}: ")
        yield SeenPart(f"{message.content}{calls}", is_trained and message.role is Speaker.ASSISTANT)
        yield SeenPart("\n\n")
