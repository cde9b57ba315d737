"""Texts by a model of mlx-lm."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache
from mlx_lm.sample_utils import make_sampler
from mlx_lm.utils import common_prefix_len

from core.engine.generate.predict import ShouldStop, Stream, end_tokens
from core.jobs.chat import Writing


def writer(model: nn.Module) -> Callable[..., list[list[int]]]:
    """Returns what writes the likeliest tokens with this model (`core.engine.generate.predict.Write`)."""

    def write(
        like: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], new_tokens: int, should_stop: ShouldStop
    ) -> list[list[int]]:
        ends = end_tokens(like, tokenizer)
        return [_continued(model, prompt, new_tokens, ends, should_stop) for prompt in prompts]

    return write


def _continued(
    model: nn.Module, prompt: Sequence[int], new_tokens: int, ends: set[int | None], should_stop: ShouldStop
) -> list[int]:
    tokens: list[int] = []
    ids = mx.array([*map(int, prompt)])
    for token, _likely in generate_step(ids, model, max_tokens=new_tokens):
        tokens.append(int(token))
        if tokens[-1] in ends or should_stop():
            break
    return tokens


class Answers:
    """Writes answers, and keeps the attention's keys and values: of a conversation, only the last turn is read."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._cache: list[Any] = []
        self._read: list[int] = []

    def __call__(
        self, ids: Sequence[int], new_tokens: int, writing: Writing, stream: Stream, should_stop: ShouldStop
    ) -> None:
        """Writes an answer to a prompt (`core.engine.generate.loading.WriteAnswer`)."""
        prompt = mx.array([*ids[self._keep(ids) :]])
        read, self._read = [*ids], []  # an error leaves the cache anywhere: it isn't gone on with
        mx.random.seed(writing.seed)
        sampler = make_sampler(writing.temperature, writing.top_p)
        for token, _likely in generate_step(
            prompt, self._model, max_tokens=new_tokens, sampler=sampler, prompt_cache=self._cache
        ):
            read.append(token)
            stream.add(token)
            if stream.ended_by is not None or should_stop():
                break
        stream.end()
        self._read = read

    def _keep(self, ids: Sequence[int]) -> int:
        """Keeps what the cache has of a prompt, but its last token; returns the number of tokens."""
        kept = min(common_prefix_len(self._read, ids), len(ids) - 1)
        if not can_trim_prompt_cache(self._cache):  # a window that slides has lost its beginning
            kept = 0
        if kept:
            trim_prompt_cache(self._cache, len(self._read) - kept)
        else:
            self._cache = make_prompt_cache(self._model)
        return kept
