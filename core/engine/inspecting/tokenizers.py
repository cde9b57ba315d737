"""The tokenizer of the chosen model, where it is on this computer: it measures texts and shows what the model sees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import ModelError
from core.options import RunOptions
from core.sources import Scheme, scheme_of

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
    from core.engine.models import text_models

    try:
        tokenizer = _trained(options, texts()) if is_new and texts else text_models.tokenizer_at_hand(source)
        if tokenizer is None:
            return None
        longest = text_models.longest_text(text_models.load_config(options), tokenizer)
    except ModelError:
        return None
    return AtHand(tokenizer, min(options.data.max_length, longest), is_new)


def _trained(options: RunOptions, texts: Sequence[str]) -> Any:
    from core.engine.models.scratch import quick_tokenizer

    return quick_tokenizer(options, texts)


def decoded(tokenizer: Any, ids: list[int]) -> str:
    """What tokens say, special ones included."""
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
