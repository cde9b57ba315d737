"""Texts as the model sees them, and how long they are: made by the functions that a run uses.

Those import torch, which takes seconds: they are imported where a tokenizer is at hand.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from typing import Any

import numpy as np

from core.base.errors import ModelError
from core.engine.data import checks
from core.engine.data.splits import held_out_of
from core.options import RunOptions
from core.options.sources import Scheme, scheme_of
from core.services.inspect import Lengths, Seen, SeenPart, Tally

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Sample:
    """A usable row: its number in the file, what the model reads of it, and the answer."""

    row: int
    inputs: tuple[str, ...]
    answer: Any = None


# --- A histogram of how long samples are, with an edge where they are cut off


BARS = 24
TOKENS, CHARACTERS = "tokens", "characters"


def histogram(lengths: Sequence[int], unit: str, limit: int | None = None) -> Lengths | None:
    """Count lengths into bars of a round width; None where there are none.

    Args:
        lengths: Of the samples.
        unit: What is counted.
        limit: Samples longer than this are cut off there; None: none is.
    """
    if not len(lengths):
        return None
    found = np.asarray(lengths)
    longest = int(found.max())
    width = _round_width(longest + 1)
    edges = np.arange(0, longest + width + 1, width)
    if limit is not None and limit < longest:
        edges = np.union1d(edges, [limit + 1])  # so that the bars beyond hold just what is cut off
    counts, _ = np.histogram(found, edges)
    return Lengths(
        unit=unit,
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        longest=longest,
        median=int(np.median(found)),
        limit=limit,
        cut=int((found > limit).sum()) if limit is not None else 0,
    )


def _round_width(span: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... of which `BARS` cover the span."""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if step * scale * BARS >= span:
                return step * scale
        scale *= 10


# --- The tokenizer of the chosen model, where it is on this computer


LIKE_IT = "The run trains a tokenizer of its own; tokens are told by one trained for this look, so about."


@dataclass(frozen=True)
class AtHand:
    """A tokenizer, and the most tokens a row gets: as many as the model sees, or as were asked for."""

    tokenizer: Any
    length: int
    is_like_it: bool = False
    """Whether the run will train one that differs a little."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of it."""
        return (LIKE_IT,) if self.is_like_it else ()


def tokenizer_at_hand(options: RunOptions, texts: Callable[[], Sequence[str]] | None = None) -> AtHand | None:
    """The model's tokenizer; of a model from scratch one that is trained on some texts, about as the run will train it.

    Args:
        options: What is asked.
        texts: Gives what a model from scratch is trained on, in pieces; None: then there is no tokenizer.

    Returns:
        None where no model is chosen, it isn't here, or it can't be read, which is told elsewhere.
    """
    source = options.model.source
    is_new = scheme_of(source) is Scheme.SCRATCH if source else False
    if (
        not source
        or (is_new and texts is None)
        or scheme_of(source) not in (None, Scheme.RUN, Scheme.SCRATCH)
    ):
        return None
    from core.engine.models import text

    try:
        tokenizer = _trained(options, texts()) if is_new and texts else text.tokenizer_at_hand(source)
        if tokenizer is None:
            return None
        longest = text.longest_text(text.load_config(options), tokenizer)
    except ModelError:
        return None
    return AtHand(tokenizer, min(options.data.max_length, longest), is_new)


def _trained(options: RunOptions, texts: Sequence[str]) -> Any:
    from core.engine.models.scratch import quick_tokenizer

    return quick_tokenizer(options, texts)


def decoded(tokenizer: Any, ids: list[int]) -> str:
    """What tokens say, special ones included."""
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


# --- Texts as the model sees them, and how long they are: made by the functions that a run uses


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
            tally.add(checks.TEXTS_CUT, sample.row, detail=cut_at)
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
    from core.engine.data.labelled_texts import spaced

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
        from core.engine.data.labelled_texts import encode_rows

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
        from core.engine.data.labelled_texts import encode_rows
        from core.engine.data.token_cache import NO_LABEL

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
    from core.engine.tasks.metrics import OUTSIDE

    pairs = zip(sample.inputs, sample.answer, strict=True)
    named = [f"{word} {label}" for word, label in pairs if label != OUTSIDE]
    more = f" and {len(named) - LABELS_SHOWN} more" if len(named) > LABELS_SHOWN else ""
    return f"{', '.join(islice(named, LABELS_SHOWN))}{more}" if named else OUTSIDE


def _shortened(text: str) -> tuple[SeenPart, ...]:
    return (SeenPart(text[:LONGEST_SHOWN]),)


# --- How many rows of tokens a text makes that is too long to be counted while somebody waits


STRETCHES = 64
STRETCH_CHARACTERS = 16 << 10
"""A million characters in all: a tokenizer is through with them in well under a second."""


@dataclass(frozen=True)
class Estimate:
    """About how many rows are trained on, and evaluated on (None: that isn't known); and a sentence that says so."""

    train: int
    eval: int | None
    note: str


def stretches(texts: Sequence[str]) -> list[str]:
    """Parts of texts, evenly spread over all of them."""
    ends = list(accumulate(map(len, texts)))
    if not ends:
        return []
    found = []
    for place in np.linspace(0, ends[-1], STRETCHES, endpoint=False).astype(int):
        index = int(np.searchsorted(ends, place, side="right"))
        start = int(place) - (ends[index - 1] if index else 0)
        found.append(texts[index][start : start + STRETCH_CHARACTERS])
    return found


def estimate_rows(options: RunOptions, some: Sequence[str], characters: int, at_hand: AtHand) -> Estimate:
    """About how many rows of tokens a text makes.

    Args:
        options: What is asked.
        some: Parts of the text, evenly chosen.
        characters: Of all of it.
        at_hand: The tokenizer, and how long rows are.
    """
    data = options.data
    part = _first(some, STRETCHES * STRETCH_CHARACTERS)
    samples = [Sample(row, (text,)) for row, text in enumerate(part)]
    tokens = sum(token_lengths(samples, at_hand.tokenizer, lambda _done, _all: None))
    rows = characters * tokens / max(1, sum(map(len, part))) / at_hand.length
    apart = held_out_of(data)
    held_out = 0.0 if apart else rows * data.eval_fraction
    train = _estimate_at_most(rows - held_out, data.max_train_samples)
    evaluated = None if apart else _estimate_at_most(held_out, data.max_eval_samples)
    return Estimate(
        train,
        evaluated,
        f"About {train:,} rows to train on, judged by a part of the text: the run counts them.",
    )


def _first(texts: Sequence[str], characters: int) -> list[str]:
    """Every so many texts, so that they come to about so many characters."""
    step = max(1, sum(map(len, texts)) // characters)
    return list(texts[::step])


def _estimate_at_most(rows: float, limit: int | None) -> int:
    found = max(1, int(rows)) if rows else 0
    return found if limit is None else min(found, limit)
