"""From texts to tokens, cut off where the model's sight or the person's wish ends."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from core import settings
from core.choices import Padding
from core.engine.data.lengths import NO_LABEL, lengths_of
from core.engine.data.text import EncodedTexts, TextData
from core.engine.data.token_cache import TokenCache, cache_key, tokenizer_print
from core.engine.reporter import Reporter
from core.options import RunOptions

WORDS = "tokens"
"""The column of a data set whose texts come word by word."""


def encode_texts(
    options: RunOptions, data: TextData, tokenizer: Any, longest: int, reporter: Reporter
) -> EncodedTexts:
    """Tokenize training and evaluation data, and tell what is cut off.

    Args:
        options: What is asked.
        data: The texts, or words.
        tokenizer: The model's; a fast one where there are words.
        longest: The most tokens the model can see.
        reporter: Hears of what is lost.
    """
    length = length_limit(options, longest)
    tokenize = _tokenizing(tokenizer, length)
    train = tokenize(data.train)
    evaluation = None if data.eval is None else tokenize(data.eval)
    _tell_cut_texts(train, length, options.data.max_length, reporter)
    if WORDS in data.train.column_names:
        _tell_lost_words(data.train, train, length, reporter)
    return EncodedTexts(train, evaluation, data.labels)


def texts_of(part: Any) -> list[str]:
    """All texts of a data set, those of pairs one after the other; words with a space before each but the first."""
    names = [name for name in ("text", "text_pair", WORDS) if name in part.column_names]
    found = (part.with_format("arrow")[:][name].to_pylist() for name in names)
    return [" ".join(text) if isinstance(text, list) else text for texts in found for text in texts]


def row_length(options: RunOptions, longest: int) -> int | None:
    """Tokens of every row where padding is fixed; None: each batch decides."""
    return min(options.data.max_length, longest) if options.data.padding is Padding.FIXED else None


def length_limit(options: RunOptions, longest: int) -> int:
    """The length asked for, or the model's own limit where that is shorter."""
    return min(options.data.max_length, longest)


def _tokenizing(tokenizer: Any, length: int) -> Callable[[Any], Any]:
    """What tokenizes texts, or takes them from an earlier run with the same texts, tokenizer and length."""
    known = tokenizer_print(tokenizer)
    cache = TokenCache(settings.home() / "cache" / "tokens")

    def tokenize(part: Any) -> Any:
        if not known:
            return _tokenize(part, tokenizer, length)
        return cache.get(cache_key(part, known, length), lambda: _tokenize(part, tokenizer, length))

    return tokenize


def _tokenize(part: Any, tokenizer: Any, length: int) -> Any:
    """Replace texts by token ids, cut off at `length`; padding is left to the collator, batch by batch."""

    def encode(rows: dict[str, list[Any]]) -> dict[str, Any]:
        return encode_rows(rows, tokenizer, length)

    return part.map(encode, batched=True, remove_columns=part.column_names, keep_in_memory=True)


def encode_rows(rows: dict[str, list[Any]], tokenizer: Any, length: int) -> dict[str, Any]:
    """What the model gets of texts, or of words, by column: `input_ids`, `labels` and what else the tokenizer makes.

    Args:
        rows: The columns `text`, `text_pair` (for pairs) and `label`, or `tokens` and `label`.
        tokenizer: The model's.
        length: Tokens at which texts are cut off.
    """
    if WORDS in rows:
        return encode_words(rows[WORDS], rows["label"], tokenizer, length)
    columns = [rows[name] for name in ("text", "text_pair") if name in rows]
    encoded = tokenizer(*columns, truncation=True, max_length=length)
    return {**encoded, "labels": rows["label"]}


def encode_words(
    texts: list[list[str]], tags: list[list[int]], tokenizer: Any, length: int
) -> dict[str, list[Any]]:
    """Token ids of texts given word by word, with a label for the first token of each word and none for the others.

    A text of which no word comes to a token is left out: there is nothing to learn from it.

    Args:
        texts: The words of each text.
        tags: The class index of each word.
        tokenizer: A fast one, which can tell the word of a token.
        length: Tokens at which texts are cut off.
    """
    encoded = tokenizer(
        [spaced(words, tokenizer) for words in texts],
        is_split_into_words=True,
        truncation=True,
        max_length=length,
    )
    labels = [_at_first_tokens(encoded.word_ids(row), classes) for row, classes in enumerate(tags)]
    kept = [row for row, found in enumerate(labels) if any(label != NO_LABEL for label in found)]
    columns = {**encoded, "labels": labels}
    return {name: [values[row] for row in kept] for name, values in columns.items()}


def spaced(words: list[str], tokenizer: Any) -> list[str]:
    """The words as they stand in a running text: byte-level tokenizers take the space before a word for part of it."""
    if not _is_byte_level(tokenizer):
        return words
    return [*words[:1], *(f" {word}" if word else "" for word in words[1:])]


def _is_byte_level(tokenizer: Any) -> bool:
    steps = json.loads(tokenizer.backend_tokenizer.to_str()).get("pre_tokenizer") or {}
    all_steps = steps.get("pretokenizers", [steps])
    return any(step.get("type") == "ByteLevel" for step in all_steps)


def _at_first_tokens(words: list[int | None], classes: list[int]) -> list[int]:
    """A label for each token: that of its word where it is the word's first."""
    before = [None, *words]
    return [
        NO_LABEL if word is None or word == last else classes[word]
        for last, word in zip(before, words, strict=False)
    ]


def _tell_cut_texts(train: Any, length: int, asked: int, reporter: Reporter) -> None:
    """Say how many texts are as long as is allowed, and whether that is less than was asked for."""
    cut = sum(tokens >= length for tokens in lengths_of(train) or ())
    title = f"{cut:,} of {len(train):,} texts reach {length:,} tokens"
    if cut and length < asked:
        why = f"Anything beyond is cut off: the model can't see more. {asked:,} were asked for."
        reporter.warn("length-limit", title, why)
    elif cut:
        reporter.note("texts-cut", title, "Anything beyond is cut off.")


def _tell_lost_words(texts: Any, encoded: Any, length: int, reporter: Reporter) -> None:
    """Say how many words are not learned from."""
    words = int(pc.sum(pc.list_value_length(_column(texts, WORDS))).as_py() or 0)
    labels = pc.list_flatten(_column(encoded, "labels")).to_numpy()
    lost = words - int(np.count_nonzero(labels != NO_LABEL))
    if lost:
        count = f"{lost:,} of {words:,} words {'is' if lost == 1 else 'are'}"
        reporter.note(
            "words-lost",
            f"{count} not learned from",
            f"They lie beyond {length} tokens, or the model has no token for them.",
        )


def _column(part: Any, name: str) -> Any:
    return part.with_format("arrow")[:][name]
