"""Texts by a model of mlx-lm."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.generate import generate_step

from core.engine.generate.predict import ShouldStop, end_tokens


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
