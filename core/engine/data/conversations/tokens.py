"""All rows as tokens, one after the other, cut to the longest allowed; what that loses is counted."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace

from core.engine.data.conversations import kinds
from core.engine.data.conversations.rendering import Rendered, RenderedPair, Renderer
from core.engine.data.conversations.rows import Pair, Row
from core.engine.data.conversations.spans import TemplateRefused
from core.findings import Tally

REASON_CHARACTERS = 200


def render_rows(
    rows: Iterable[Row],
    renderer: Renderer,
    tally: Tally,
    *,
    max_length: int | None = None,
    gone: "array[int] | None" = None,
) -> Iterator[Rendered]:
    """Conversations and plain texts as tokens; rows without anything left to learn are counted and left out.

    Args:
        rows: Conversations and plain texts; pairs go through `render_pairs`.
        renderer: The tokenizer and what is learned.
        tally: Takes what is found: refused conversations, answers that are cut off, answers that can't be told.
        max_length: Longest row in tokens, what is beyond is cut off; None: as long as they are.
        gone: Takes the tokens of each row that is left out because no answer of it begins before it is cut off.
    """
    for row in rows:
        if isinstance(row, Pair):
            raise TypeError("a pair is rendered by render_pairs")
        try:
            whole = renderer.render(row)
        except TemplateRefused as refusal:
            _count_refused(row, refusal, tally)
            continue
        cut = whole.first(max_length)
        _count(whole, cut, tally, max_length)
        if gone is not None and whole.learns and not cut.learns:
            gone.append(len(whole.input_ids))
        if cut.learns and cut.is_whole:
            yield cut


def _count_refused(row: Row, refusal: TemplateRefused, tally: Tally) -> None:
    reason = refusal.reason[:REASON_CHARACTERS]
    tally.add(kinds.TEMPLATE_REFUSES, row.row, detail=reason, fixes=(kinds.USE_CHATML,))


def _count(whole: Rendered, cut: Rendered, tally: Tally, max_length: int | None) -> None:
    if not whole.is_whole:
        tally.add(kinds.ANSWER_LEFT_OUT, whole.row, fixes=(kinds.USE_CHATML,))
    elif not whole.learns:
        tally.add(kinds.ANSWER_LOST, whole.row, fixes=(kinds.USE_CHATML,))
    elif not cut.learns:
        tally.add(kinds.ANSWERS_GONE, whole.row, detail=f"{max_length:,}")
    else:
        if cut.cut:
            tally.add(kinds.ANSWERS_CUT, whole.row, detail=f"{max_length:,}")
        if whole.skipped:
            tally.add(kinds.EARLIER_UNTRAINED, whole.row, fixes=(kinds.USE_CHATML,))


def render_pairs(
    rows: Iterable[Pair],
    renderer: Renderer,
    tally: Tally,
    *,
    max_length: int | None = None,
    gone: "array[int] | None" = None,
) -> Iterator[RenderedPair]:
    """Pairs as tokens, each answer cut so that prompt and answer have at most `max_length` tokens together.

    Pairs whose prompt leaves no room for an answer are counted and left out; `gone` takes their tokens.
    """
    for row in rows:
        try:
            pair = renderer.render_pair(row)
        except TemplateRefused as refusal:
            _count_refused(row, refusal, tally)
            continue
        if not pair.is_whole:
            tally.add(kinds.ANSWER_LEFT_OUT, row.row, fixes=(kinds.USE_CHATML,))
            continue
        room = max_length - len(pair.prompt_ids) if max_length is not None else None
        if room is not None and room < 1:
            tally.add(kinds.ANSWERS_GONE, row.row, detail=f"{max_length:,}")
            if gone is not None:
                gone.append(len(pair.prompt_ids) + max(len(pair.chosen_ids), len(pair.rejected_ids)))
            continue
        cut = replace(pair, chosen_ids=pair.chosen_ids[:room], rejected_ids=pair.rejected_ids[:room])
        if cut != pair:
            tally.add(kinds.ANSWERS_CUT, row.row, detail=f"{max_length:,}")
        yield cut
