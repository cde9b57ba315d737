"""Texts as the model sees them, and how long they are: made by the functions that a run uses.

Those import torch, which takes seconds: they are imported where a tokenizer is at hand.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from core.data_report import Lengths, Seen, SeenPart
from core.engine.data.checking import kinds
from core.engine.entities import OUTSIDE
from core.engine.inspecting.lengths import CHARACTERS, TOKENS, histogram
from core.engine.inspecting.progress import Tell
from core.engine.inspecting.samples import Sample
from core.engine.inspecting.tokenizers import AtHand, decoded
from core.findings import Tally

TOGETHER = 500
LONGEST_SHOWN = 4000
"""Characters of a sample where no tokenizer cuts it off."""
LABELS_SHOWN = 12


def measure(
    samples: Sequence[Sample], at_hand: AtHand | None, tally: Tally, tell: Tell, *, words: bool, of_all: bool
) -> Lengths | None:
    """How long samples are, in tokens where a tokenizer is at hand; those that are cut off are counted into the tally.

    Args:
        samples: Of all rows, or of some.
        at_hand: The tokenizer and the length where texts are cut off.
        tally: Takes the rows that are cut off.
        tell: Hears how many samples are done.
        words: Whether each is a list of words.
        of_all: Whether the samples are all rows.
    """
    if at_hand is None:
        return histogram([sum(map(len, sample.inputs)) for sample in samples], CHARACTERS)
    lengths = token_lengths(samples, at_hand.tokenizer, tell, words=words)
    cut_at = f"{at_hand.length:,} tokens" + ("" if of_all else f", out of {len(samples):,} looked at")
    for sample, length in zip(samples, lengths, strict=True):
        if length > at_hand.length:
            tally.add(kinds.TEXTS_CUT, sample.row, detail=cut_at)
    return histogram(lengths, TOKENS, at_hand.length)


def token_lengths(samples: Sequence[Sample], tokenizer: Any, tell: Tell, *, words: bool = False) -> list[int]:
    """Tokens of each sample, whole; `tell` hears how many samples are done."""
    lengths: list[int] = []
    for start in range(0, len(samples), TOGETHER):
        some = samples[start : start + TOGETHER]
        lengths += _tokens(some, tokenizer, words=words)
        tell(start + len(some), len(samples))
    return lengths


def _tokens(samples: Sequence[Sample], tokenizer: Any, *, words: bool) -> list[int]:
    """Tokens of each sample, whole."""
    from core.engine.data.encoding import spaced

    if words:
        inputs: list[Any] = [[spaced(list(sample.inputs), tokenizer) for sample in samples]]
    else:
        inputs = [list(texts) for texts in zip(*(sample.inputs for sample in samples), strict=True)]
    found = tokenizer(
        *inputs,
        is_split_into_words=words,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,  # it would warn that they are longer than the model can see
    )
    return [len(ids) for ids in found["input_ids"]]


def see_texts(samples: Sequence[Sample], at_hand: AtHand | None) -> Iterator[Seen]:
    """Texts or pairs with the answer that is to be given."""
    for sample in samples:
        answer = f"{sample.answer:g}" if isinstance(sample.answer, float) else str(sample.answer)
        if at_hand is None:
            yield Seen(row=sample.row, parts=_shortened(" | ".join(sample.inputs)), label=answer)
            continue
        from core.engine.data.encoding import encode_rows

        names = ("text", "text_pair")
        rows: dict[str, list[Any]] = {name: [text] for name, text in zip(names, sample.inputs, strict=False)}
        ids = encode_rows({**rows, "label": [0]}, at_hand.tokenizer, at_hand.length)["input_ids"][0]
        yield Seen(
            row=sample.row,
            parts=(SeenPart(decoded(at_hand.tokenizer, ids)),),
            tokens=len(ids),
            is_cut=_tokens([sample], at_hand.tokenizer, words=False)[0] > len(ids),
            label=answer,
        )


def see_words(samples: Sequence[Sample], at_hand: AtHand | None) -> Iterator[Seen]:
    """Words with their labels; the tokens that carry a label are those that are learned."""
    for sample in samples:
        label = _labels(sample)
        if at_hand is None or not at_hand.tokenizer.is_fast:
            yield Seen(row=sample.row, parts=_shortened(" ".join(sample.inputs)), label=label)
            continue
        from core.engine.data.encoding import encode_rows
        from core.engine.data.lengths import NO_LABEL

        rows: dict[str, list[Any]] = {
            "tokens": [list(sample.inputs)],
            "label": [list(range(len(sample.inputs)))],
        }
        encoded = encode_rows(rows, at_hand.tokenizer, at_hand.length)
        if not encoded["input_ids"]:
            continue
        ids, labels = encoded["input_ids"][0], encoded["labels"][0]
        stretches = groupby(zip(ids, labels, strict=True), key=lambda token: token[1] != NO_LABEL)
        yield Seen(
            row=sample.row,
            parts=tuple(
                SeenPart(decoded(at_hand.tokenizer, [token for token, _ in tokens]) + " ", learned)
                for learned, tokens in stretches
            ),
            tokens=len(ids),
            is_cut=_tokens([sample], at_hand.tokenizer, words=True)[0] > len(ids),
            label=label,
        )


def _labels(sample: Sample) -> str:
    pairs = zip(sample.inputs, sample.answer, strict=True)
    named = [f"{word} {label}" for word, label in pairs if label != OUTSIDE]
    more = f" and {len(named) - LABELS_SHOWN} more" if len(named) > LABELS_SHOWN else ""
    return f"{', '.join(islice(named, LABELS_SHOWN))}{more}" if named else OUTSIDE


def _shortened(text: str) -> tuple[SeenPart, ...]:
    return (SeenPart(text[:LONGEST_SHOWN]),)
