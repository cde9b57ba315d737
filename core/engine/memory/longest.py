"""How many tokens the longest row of the data has, found without tokenizing all of it."""

from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.choices import Padding, Task
from core.engine.models.text_models import longest_text
from core.errors import DataError, Fix, OptionsError, Problem
from core.options import RunOptions
from core.sources import parse_synthetic, synthetic, synthetic_lengths

CANDIDATES = 512
"""So many texts with the most bytes are tokenized: tokens go with bytes, but not exactly. UTF-8 needs more of them for
the writings that also need more tokens a letter."""


@dataclass(frozen=True)
class Longest:
    """Tokens of the longest row, bytes of all texts as they were read, and what was taken for granted.

    `text` is tokens of the longest text: fewer than `tokens` where rows are padded beyond it; `rows` how many there
    are, those that will be held out included. None: not known.
    """

    tokens: int
    text: int | None = None
    text_bytes: int = 0
    notes: tuple[str, ...] = ()
    rows: int | None = None


def longest_row(options: RunOptions, config: Any, tokenizer: Any) -> Longest:
    """The length of the longest row a run would see, special tokens counted, cut off as the run cuts.

    Args:
        options: What is asked, settled.
        config: The model's.
        tokenizer: The model's; None where only its config is to be had.

    Raises:
        OptionsError: Random texts were asked for that are longer than the model can see.
    """
    positions = getattr(config, "max_position_embeddings", None) or 0
    if tokenizer is not None:
        limit = longest_text(config, tokenizer)
    else:
        limit = positions if positions > 0 else options.data.max_length
    random = parse_synthetic(options.data.train)
    if random:
        _refuse_too_long(options.data.train, *random, limit)
        return Longest(_padded(options, random[1], limit), random[1], random[0] * random[1], rows=random[0])
    most = min(options.data.max_length, limit)
    notes = (
        ()
        if options.data.max_length <= limit
        else (f"Texts are cut off at {limit:,} tokens: the model sees no more.",)
    )
    if options.task is Task.CAUSAL_LM:  # rows are blocks, each as long as is allowed
        return Longest(most, most, _bytes_of(options.data.train) // 2, notes)
    try:
        found = _in_data(options, tokenizer, most)
    except DataError as error:
        return Longest(most, notes=(*notes, f"{_taken(most)}: the data can't be read ({error.title})."))
    if options.data.padding is Padding.FIXED:
        return replace(found, tokens=most, notes=notes)
    return replace(found, notes=(*notes, *found.notes))


def _bytes_of(source: str) -> int:
    """The size of a file, or of all files of a folder."""
    path = Path(source)
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _padded(options: RunOptions, length: int, limit: int) -> int:
    """Tokens of a row whose text has `length` of them, which are never cut off."""
    fixed = options.data.padding is Padding.FIXED
    return max(length, min(options.data.max_length, limit)) if fixed else length


def _taken(tokens: int) -> str:
    return f"Every row was taken to have {tokens:,} tokens"


def _refuse_too_long(source: str, samples: int, length: int, limit: int) -> None:
    if length > limit:
        shortest, _ = synthetic_lengths(source) or (limit, limit)
        fitting = synthetic(samples, limit, min(shortest, limit))
        fix = Fix(f"Use texts of {limit:,} tokens", {"data.train": fitting})
        message = f"has texts of {length:,} tokens, and the model sees {limit:,} at most"
        raise OptionsError((Problem("data.train", message, (fix,)),))


def _in_data(options: RunOptions, tokenizer: Any, most: int) -> Longest:
    if not options.data.train:
        return Longest(most, notes=(f"{_taken(most)}: no data is chosen yet.",))
    if options.task.reads_conversations:
        return _in_conversations(options, tokenizer, most)
    texts = _texts(options)
    if tokenizer is None:
        return Longest(
            most,
            text_bytes=texts.nbytes,
            notes=(f"{_taken(most)}: the model's tokenizer isn't on this computer yet.",),
            rows=texts.num_rows,
        )
    chosen = texts.take(_with_most_bytes(texts))
    columns = [chosen[name].to_pylist() for name in chosen.column_names]
    rows = tokenizer(*columns, truncation=True, max_length=most)["input_ids"]
    longest = max(map(len, rows))
    return Longest(longest, longest, texts.nbytes, rows=texts.num_rows)


def _in_conversations(options: RunOptions, tokenizer: Any, most: int) -> Longest:
    from core.engine.data.conversations.longest import longest_conversation

    found = longest_conversation(options, tokenizer, most)
    if (
        options.data.packing and options.task is Task.CHAT
    ):  # the fullest row has nearly as many as are allowed
        return Longest(most, most, found.text_bytes)
    if not found.tokens:
        why = (
            "no row can be used"
            if tokenizer is not None
            else "the model's tokenizer isn't on this computer yet"
        )
        return Longest(most, text_bytes=found.text_bytes, notes=(f"{_taken(most)}: {why}.",))
    return Longest(found.tokens, found.tokens, found.text_bytes)


def _texts(options: RunOptions) -> pa.Table:
    """The texts of the training data, one or two columns; words are put together."""
    from core.engine.data.shards import read_training

    table = read_training(options.data).first(options.data.max_train_samples)
    chosen = options.data.text_columns, options.data.label_column
    match options.task:
        case Task.TOKEN_CLASSIFICATION:
            from core.engine.data.tags import words_of

            return pa.table(
                {"text": pc.binary_join(words_of(table, *chosen, skip=options.data.skip_bad_rows), " ")}
            )
        case Task.TEXT_REGRESSION:
            from core.engine.data.scores import scored_texts

            return scored_texts(table, *chosen, skip=options.data.skip_bad_rows)
        case _:
            from core.engine.data.text import labelled_texts

            return labelled_texts(table, *chosen, skip=options.data.skip_bad_rows)


def _with_most_bytes(texts: pa.Table) -> pa.Array:
    sizes = reduce(pc.add, (pc.binary_length(texts[name]) for name in texts.column_names))
    return pc.top_k_unstable(sizes, CANDIDATES)
