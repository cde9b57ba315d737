"""From texts to tokens, which are kept between runs."""

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base import settings
from core.engine.data.batches import NO_LABEL, lengths_of
from core.engine.data.labelled_texts import WORDS, EncodedTexts, TextData
from core.engine.data.tables import make_room
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Padding

if TYPE_CHECKING:
    from datasets import Dataset

# --- Tokens that are kept between runs


LIMIT_BYTES = 2 * 2**30
"""All files together; the one that wasn't used for longest goes first."""
FORMAT = "1"
LIBRARIES = ("transformers", "tokenizers", "datasets")
LOG = logging.getLogger(__name__)


def cached_tokens(key: str, make: Callable[[], "Dataset"]) -> "Dataset":
    """What `make` returned for this key in an earlier run, or what it returns now."""
    from datasets import Dataset

    folder = settings.home() / "cache" / "tokens"
    path = folder / f"{key}.arrow"
    if path.exists():
        try:
            os.utime(path)
            return Dataset.from_file(str(path))
        except (OSError, pa.ArrowException) as error:
            LOG.warning("%s can't be used; the texts are tokenized again: %s", path, error)
    made = make()
    table = made.data.table
    if table.nbytes > LIMIT_BYTES:
        return made
    unfinished = folder / f"{key}.{uuid.uuid4().hex[:12]}.unfinished"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        unfinished.replace(path)
        make_room(folder, LIMIT_BYTES)
        return Dataset.from_file(str(path))
    except OSError as error:
        LOG.warning("Tokenized texts are not kept for the next run: %s", error)
        return made
    finally:
        if unfinished.exists():
            unfinished.unlink()


def cache_key(texts: "Dataset", tokenizer: str, length: int) -> str:
    """What tokenized texts depend on, as 32 hexadecimal digits.

    Args:
        texts: The texts, with their labels.
        tokenizer: What `tokenizer_print` told of the tokenizer.
        length: Tokens at which they are cut off.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (FORMAT, *map(version, LIBRARIES), tokenizer, str(length)):
        digest.update(part.encode() + b"\0")
    with pa.ipc.new_stream(_Digesting(digest), texts.data.table.schema.remove_metadata()) as stream:
        stream.write_table(texts.data.table.replace_schema_metadata(None))
    return digest.hexdigest()


def tokenizer_print(tokenizer: Any) -> str:
    """Everything about a tokenizer that decides its tokens; empty for one that can't be told apart from others.

    Ask before it is used: tokenizing leaves the last length in it.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # written in Python: what it does stands in its code
        return ""
    parts = (type(tokenizer).__qualname__, tokenizer.truncation_side, *tokenizer.model_input_names)
    return "\0".join((*parts, hashlib.blake2b(backend.to_str().encode()).hexdigest()))


class _Digesting:
    """A file for Arrow that keeps nothing of what is written but its digest."""

    closed = False

    def __init__(self, digest: "hashlib.blake2b") -> None:
        self._digest = digest

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


# --- From texts to tokens, cut off where the model's sight or the person's wish ends


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

    def tokenize(part: Any) -> Any:
        if not known:
            return _tokenize(part, tokenizer, length)
        return cached_tokens(cache_key(part, known, length), lambda: _tokenize(part, tokenizer, length))

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
