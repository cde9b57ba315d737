"""Rows as the model will see them, for the eye: their text in stretches that are learned or only read."""

from collections.abc import Sequence
from itertools import groupby

from core.data_report import Seen, SeenPart
from core.engine.data.conversations.rendering import Rendered, Renderer
from core.engine.data.conversations.rows import Pair, Row


def see(renderer: Renderer, row: Row, max_length: int | None = None) -> Seen:
    """One row as it will be trained on; of a pair both answers, each after the prompt.

    Raises:
        TemplateRefused: The chat template can't write the conversation.
    """
    if isinstance(row, Pair):
        return _see_pair(renderer, row, max_length)
    whole = renderer.render(row)
    cut = whole.first(max_length)
    return Seen(
        row=row.row,
        parts=seen_parts(renderer, cut),
        tokens=len(cut.input_ids),
        is_cut=len(cut.input_ids) < len(whole.input_ids),
    )


def seen_parts(renderer: Renderer, rendered: Rendered) -> tuple[SeenPart, ...]:
    """What the tokens of a row say, in stretches."""
    return _parts(renderer, rendered.input_ids, rendered.trained)


def _see_pair(renderer: Renderer, row: Pair, max_length: int | None) -> Seen:
    pair = renderer.render_pair(row)
    asked = len(pair.prompt_ids)
    chosen, rejected = (
        (pair.prompt_ids + answer, [False] * asked + [True] * len(answer))
        for answer in (pair.chosen_ids, pair.rejected_ids)
    )
    longest = max(len(chosen[0]), len(rejected[0]))
    return Seen(
        row=row.row,
        parts=_parts(renderer, chosen[0][:max_length], chosen[1][:max_length]),
        rejected=_parts(renderer, rejected[0][:max_length], rejected[1][:max_length]),
        tokens=longest if max_length is None else min(longest, max_length),
        is_cut=max_length is not None and longest > max_length,
    )


def _parts(renderer: Renderer, ids: Sequence[int], trained: Sequence[bool]) -> tuple[SeenPart, ...]:
    stretches = groupby(zip(ids, trained, strict=True), key=lambda token: token[1])
    return tuple(
        SeenPart(renderer.decode([token for token, _ in tokens]), learned) for learned, tokens in stretches
    )
