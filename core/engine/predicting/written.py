"""Texts: what a causal model writes on from a beginning."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from core.engine.predicting.speaker import in_portions
from core.predictions import Example, Said

NEW_TOKENS = 64
"""So many at most: an evaluation is not to wait long for them."""


@dataclass(frozen=True)
class Written:
    """Beginnings that the model goes on from, each as token ids, without a random choice (greedily)."""

    examples: tuple[Example, ...]
    prompts: tuple[tuple[int, ...], ...]
    tokenizer: Any
    new_tokens: int = NEW_TOKENS

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """What it writes after each beginning; of one that leaves too little room for that, after the end of it."""
        portions = in_portions(self.prompts)
        return tuple(said for some in portions for said in self._written(model, some, is_asked_to_stop))

    def _written(
        self, model: Any, asked: Sequence[tuple[int, ...]], is_asked_to_stop: Callable[[], bool]
    ) -> Iterator[Said]:
        new_tokens = min(self.new_tokens, positions(model) // 2)
        room = positions(model) - new_tokens
        prompts = [prompt[-room:] for prompt in asked]
        longest = max(map(len, prompts))
        rows = [_on_left(prompt, longest, self._pad) for prompt in prompts]
        device = next(model.parameters()).device
        written = model.generate(
            input_ids=torch.tensor([ids for ids, _ in rows], device=device),
            attention_mask=torch.tensor([mask for _, mask in rows], device=device),
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            pad_token_id=self._pad,
            stopping_criteria=[Stop(is_asked_to_stop)],
        )
        ends = {self._pad, self.tokenizer.eos_token_id, *ends_of(model)}
        return (self._said(row[longest:], ends) for row in written.tolist())

    @property
    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)

    def _said(self, tokens: list[int], ends: set[int]) -> Said:
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        text = self.tokenizer.decode(tokens[:end], skip_special_tokens=True)
        return Said(text=text, is_cut=end is None)


class Stop:
    """Ends writing where the person wants the run to stop; transformers asks it after each token."""

    def __init__(self, is_asked_to_stop: Callable[[], bool]) -> None:
        self._is_asked_to_stop = is_asked_to_stop

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """For each text whether it ends here; the arguments are as transformers hands them over."""
        stop = self._is_asked_to_stop()
        return torch.full((len(input_ids),), stop, dtype=torch.bool, device=input_ids.device)


def positions(model: Any) -> int:
    """The most tokens it can see: beyond, one with learned positions fails, on a GPU for good."""
    limit: int = getattr(model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize
    return limit


def ends_of(model: Any) -> list[int]:
    """The tokens at which it stops by itself: the end of text, and of a turn where it learns to chat."""
    found = model.generation_config.eos_token_id
    return [] if found is None else [found] if isinstance(found, int) else list(found)


def _on_left(prompt: tuple[int, ...], length: int, pad: int) -> tuple[list[int], list[int]]:
    """Token ids filled up at their beginning, and the mask that hides the filling."""
    filling = length - len(prompt)
    return [pad] * filling + list(prompt), [0] * filling + [1] * len(prompt)
