"""Weights by the names of transformers' files and by those of mlx-lm's models.

A model's `sanitize` makes the second of the first: it renames, transposes, stacks and leaves out. Those are
permutations, so that it is undone by its transpose, a vector-Jacobian product.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx import nn

Arrays = dict[str, mx.array]
Shapes = dict[str, tuple[int, ...]]
"""The weights of transformers' files."""


def sanitized(model: nn.Module, weights: Arrays) -> Arrays:
    """Returns weights of transformers' files as a model like this one takes them; the model stays as it is."""
    return sanitize(type(model)(model.args), weights)


def sanitize(model: Any, weights: Arrays) -> Arrays:
    """Returns weights of transformers' files as a model takes them, which may change the model, such as Gemma's."""
    return dict(model.sanitize(dict(weights))) if hasattr(model, "sanitize") else dict(weights)


def sources(model: nn.Module, published: Shapes) -> dict[str, str]:
    """Returns the name in transformers' files of each vector and matrix that is made of a single one of them.

    Stacked experts aren't, and to look into them takes their memory.

    Each weight of the files is replaced by a constant of its own, which shows where it went. One that `sanitize` adds 1
    to, as it does to norms of Qwen3-Next, is left out.

    Args:
        model: A model of mlx-lm.
        published: The weights of its files.
    """
    names = list(published)
    marks = constants(published)
    ends: dict[str, Any] = {
        name: mx.stack([mark[(0,) * mark.ndim], mark[(-1,) * mark.ndim]])
        for name, mark in sanitized(model, marks).items()
        if mark.ndim < 3
    }
    places = {name: found.tolist() for name, found in ends.items()}  # one by one, as some take memory
    return {
        name: names[int(first) // 2 - 1]
        for name, (first, last) in places.items()
        if first == last and first % 2 == 0 and first <= 2 * len(names)
    }


def is_undone(model: nn.Module, published: Shapes) -> bool:
    """Returns whether `as_published` can undo what `sanitize` does, found out with constants in place of weights."""
    marks = constants(published)
    carried = sanitized(model, marks)
    apply = _sanitizing(model, [*marks], [*carried])
    _out, undone = mx.vjp(apply, [*marks.values()], [*carried.values()])
    are_same = [*map(mx.array_equal, apply(*undone), carried.values())]
    del carried, undone  # they would keep what they hold
    return all(same.item() for same in are_same)


def constants(published: Shapes) -> Arrays:
    """Returns an even number for each weight of the files, twice its place, which takes no memory in any shape."""
    return {
        name: mx.broadcast_to(mx.array(2.0 * place), shape)
        for place, (name, shape) in enumerate(published.items(), 1)
    }


def _sanitizing(model: nn.Module, names: list[str], order: list[str]) -> Callable[..., list[mx.array]]:
    """Returns `sanitized` as a function of the arrays of `names` alone, with results in this order."""

    def apply(*arrays: mx.array) -> list[mx.array]:
        found = sanitized(model, dict(zip(names, arrays, strict=True)))
        return [found[name] for name in order]

    return apply


def as_published(model: nn.Module, weights: Arrays, published: Shapes) -> Arrays:
    """Returns a model's weights under the names and in the shapes of the files that it was loaded from.

    What `sanitize` leaves out is left out. Each is put in order when it is needed, and not before. Only for a model
    whose `sanitize` `is_undone`.
    """
    names = list(published)
    zeros = [mx.zeros(published[name]) for name in names]
    order = list(sanitized(model, dict(zip(names, zeros, strict=True))))
    given = [weights[name].astype(mx.float32) for name in order]
    apply = _sanitizing(model, names, order)

    def undone(arrays: list[mx.array]) -> list[mx.array]:
        return mx.vjp(apply, zeros, arrays)[1]

    are_used = [use.any() for use in undone([mx.ones(array.shape) for array in given])]
    # one by one, as each use takes memory until it is known
    return {
        name: array for name, array, use in zip(names, undone(given), are_used, strict=True) if use.item()
    }
