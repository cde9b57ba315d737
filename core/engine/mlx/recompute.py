"""Activation checkpointing with the same dropout in both passes.

mlx-lm's `grad_checkpoint` draws other random numbers when it computes a layer again, which makes gradients wrong.
"""

import os
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_unflatten

_keys: list[mx.array] = []
"""The random key of the layer under way, while it is one that will be computed again."""


class Dropout(nn.Dropout):
    """MLX's, which draws from the key of its layer if it has one."""

    def __init__(self, p: float) -> None:
        super().__init__(p)
        self.probability = p

    def __call__(self, values: mx.array) -> mx.array:
        if not (_keys and self.training and self.probability):
            dropped: mx.array = super().__call__(values)
            return dropped
        _keys[-1], own = mx.random.split(_keys[-1])
        kept = mx.random.bernoulli(1 - self.probability, values.shape, key=own)
        return kept * values / (1 - self.probability)


def compute_depth_first() -> None:
    """Sets the order in which MLX computes; to be called before it computes anything, which is when it reads this.

    By default (mlx 0.32.4) it goes along up to 20 branches of a graph at once, and all layers are computed again before
    the gradients of any: checkpointing then saves nothing, or about half in compiled steps. Source: mlx pull request
    1568, where a training step takes 4 % longer depth first; mflux pull request 711 found the same on Metal.
    """
    os.environ["MLX_BFS_MAX_WIDTH"] = "1"


def recompute(model: Any) -> None:
    """Computes each of a model's layers again in the backward pass, from here on."""
    dropouts = [
        (name, Dropout(1 - module._p_1))
        for name, module in model.named_modules()
        if type(module) is nn.Dropout
    ]
    model.update_modules(tree_unflatten(dropouts))
    kinds = {type(layer) for layer in model.layers}
    again = {
        kind: type(kind.__name__, (kind,), {"__call__": _again(kind.__call__), "is_recomputed": True})
        for kind in kinds
    }
    for layer in model.layers:
        layer.__class__ = again.get(type(layer), type(layer))  # a layer may stand in several places


def _again(call: Any) -> Any:
    def checkpointed(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if not layer.training:  # nothing is kept, and no random number is drawn
            return call(layer, *args, **kwargs)

        def inner(weights: Any, key: mx.array, *args: Any, **kwargs: Any) -> Any:
            layer.update(weights)
            _keys.append(mx.stop_gradient(key))
            try:
                return call(layer, *args, **kwargs)
            finally:
                _keys.pop()

        key = mx.random.randint(0, 1 << 31, (2,)).astype(mx.uint32)
        return mx.checkpoint(inner)(layer.trainable_parameters(), key, *args, **kwargs)

    return checkpointed
