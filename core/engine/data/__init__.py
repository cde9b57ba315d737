"""A person's files, read into what the tasks train on; each failure names file, row and column."""

from collections.abc import Sequence
from typing import Any

TOKENS = "input_ids"
NO_LABEL = -100
"""The label of a token that is not learned from, as torch's cross entropy and transformers have it."""
PROMPT = "prompt_ids"
ANSWERS = CHOSEN, REJECTED, COMPLETION = "chosen_ids", "rejected_ids", "completion_ids"
"""A pair has the first two, a single answer for KTO has the last, and its rating."""
LIKED = "label"

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""A tokenizer decodes the bytes of an incomplete character to it."""


def decoded(tokenizer: Any, ids: Sequence[int], **options: Any) -> str:
    """Decodes tokens for people to read, without a character at either end of which a part is missing.

    `options` are those of the tokenizer's `decode`.
    """
    return str(tokenizer.decode(list(ids), **options)).strip(UNFINISHED)


def decoded_whole(tokenizer: Any, ids: Sequence[int]) -> str:
    """Decodes tokens as the model sees them: with special tokens, and spaces as they are."""
    return decoded(tokenizer, ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
