"""Running text as blocks of tokens: every row as long as the next, and nothing of it is padding.

Tokens are written to a file as they come, so that a text of any size is tokenized in little memory.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from core.engine.data.lengths import TOKENS, lengths_of
from core.engine.data.running_text import Documents, pieces
from core.engine.data.token_cache import TokenCache, cache_key
from core.errors import DataError, Fix

if TYPE_CHECKING:
    from datasets import Dataset

TOGETHER_CHARACTERS = 1 << 20
"""So much is handed to the tokenizer at once, which spreads the pieces over the cores."""

UNUSED = "blocks"
"""A fingerprint for `datasets`, which would copy all rows to make one; Hone has a cache of its own."""

LEAST_TOKENS = 2
"""One to see and one to say."""


@dataclass(frozen=True)
class Blocks:
    """Rows of `length` tokens. A text shorter than that is one shorter row; `left_over` tokens at the end are in none.

    `rows` is a `datasets.Dataset` of `input_ids` [length], int32.
    """

    rows: "Dataset"
    length: int
    tokens: int

    @property
    def left_over(self) -> int:
        """Tokens at the end that fill no row."""
        return self.tokens - len(self.rows) * min(self.length, self.tokens)


def make_blocks(
    documents: Documents, tokenizer: Any, length: int, cache: TokenCache, known: str
) -> Blocks | None:
    """Tokenize documents and cut them into rows; the token that ends a text stands after each.

    Args:
        documents: The texts.
        tokenizer: The model's.
        length: Tokens of a row.
        cache: Where tokens are kept for the next run.
        known: What `tokenizer_print` told of the tokenizer; empty: nothing is kept.

    Returns:
        None where the texts have too few tokens to learn from or be measured by.
    """

    def make() -> "Dataset":
        return _rows_of(_tokens(documents, tokenizer), length)

    decides = f"{known}\0{tokenizer.eos_token_id}"  # models may share all but the token that ends a text
    key = f"blocks-{cache_key(_table(documents), decides, length)}"
    found = cache.get(key, make) if known else make()
    lengths = lengths_of(found) or []
    if sum(lengths) < LEAST_TOKENS:
        return None
    full = sum(1 for count in lengths if count == length) or 1
    rows = found if full == len(lengths) else found.select(range(full))
    return Blocks(rows.with_format("numpy"), length, sum(lengths))


def too_short(source: str) -> DataError:
    """The error for a text of which nothing can be learned."""
    return DataError(
        "The text is too short to learn from",
        f"{source}: what is trained on comes to less than two tokens.",
        (Fix("Choose a longer text"),),
    )


def _table(documents: Documents) -> "Dataset":
    from datasets import Dataset

    return Dataset(pa.table({"text": documents.texts}), fingerprint=UNUSED)


def _tokens(documents: Documents, tokenizer: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    """All tokens one after the other, in a file that is gone once nobody looks at it any more."""
    end = tokenizer.eos_token_id
    with tempfile.TemporaryFile() as file:
        for batch in _together(documents, end is not None):
            found = _ids([piece for piece, _ in batch], tokenizer)
            for ids, (_, is_last) in zip(found, batch, strict=True):
                np.asarray([*ids, end] if is_last else ids, dtype=np.int32).tofile(file)
        file.flush()
        if not file.tell():
            return np.zeros(0, np.int32)
        return np.memmap(file, dtype=np.int32, mode="r")


def _ids(texts: list[str], tokenizer: Any) -> Iterator[list[int]]:
    """The tokens of each text, without special ones.

    Asked of the tokenizer's own engine where it has one: that spares where each token stands, and half the time.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()
        return (found.ids for found in backend.encode_batch_fast(texts, add_special_tokens=False))
    # it would warn of texts that are longer than its model can see
    found = tokenizer(texts, add_special_tokens=False, verbose=False)
    return iter(found[TOKENS])


def _together(documents: Iterable[str], ends: bool) -> Iterator[list[tuple[str, bool]]]:
    """Pieces to be tokenized together, each with whether the token that ends a text follows."""
    batch: list[tuple[str, bool]] = []
    size = 0
    for text in documents:
        place = 0
        for piece in pieces(text):
            place += len(piece)
            batch.append((piece, ends and place == len(text)))
            size += len(piece)
            if size >= TOGETHER_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _rows_of(tokens: Any, length: int) -> "Dataset":
    """The tokens in rows of `length`, the last one shorter."""
    from datasets import Dataset

    places: Any = np.append(np.arange(0, len(tokens), length, dtype=np.int64), len(tokens))
    values = pa.Array.from_buffers(pa.int32(), len(tokens), [None, pa.py_buffer(tokens)])
    rows = pa.LargeListArray.from_arrays(pa.array(places), values)
    return Dataset(pa.table({TOKENS: rows}), fingerprint=UNUSED)
