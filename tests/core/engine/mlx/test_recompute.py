"""A layer that is computed again in the backward pass has the dropout that it had before, and takes less memory."""

import subprocess
import sys

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from core.engine.mlx.recompute import recompute


def model_of(kind):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [kind(), kind()]

        def __call__(self, values):
            for layer in self.layers:
                values = layer(values)
            return values

    mx.random.seed(0)
    return Model()


def layer_kind():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.dropout = nn.Dropout(0.5)

        def __call__(self, values):
            return self.dropout(mx.tanh(self.inner(values)))

    return Layer


def loss(model, values):
    return (model(values) ** 2).sum()


@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradients_are_those_of_the_dropout_of_the_forward_pass(is_compiled):
    """The derivative of the very loss, by small steps of one weight with the same random numbers."""
    model, values = model_of(layer_kind()), mx.random.normal((4, 8))
    recompute(model)
    both = nn.value_and_grad(model, loss)

    def compute(values):
        return both(model, values)

    if is_compiled:
        state = [model.state, mx.random.state]
        compute = mx.compile(compute, inputs=state, outputs=state)
    mx.random.seed(3)
    _value, gradients = compute(values)
    slope = dict(tree_flatten(gradients))["layers.0.inner.weight"][0, 0].item()
    ends = []
    for change in (1e-2, -1e-2):
        model.layers[0].inner.weight[0, 0] += change
        mx.random.seed(3)
        ends.append(loss(model, values).item())
        model.layers[0].inner.weight[0, 0] -= change
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=1e-2)


def test_each_pass_and_each_layer_drops_others():
    model, values = model_of(layer_kind()), mx.ones((64, 8))
    recompute(model)
    first, second = model.layers[0](values), model.layers[0](values)
    assert (first == 0).sum().item() == pytest.approx(256, abs=60)
    assert not mx.array_equal(first == 0, second == 0)
    model.eval()
    assert mx.array_equal(model(values), model(values))


def test_another_model_of_the_same_layers_keeps_its_own():
    kind = layer_kind()
    model, other = model_of(kind), model_of(kind)
    recompute(model)
    assert [hasattr(type(one.layers[0]), "is_recomputed") for one in (model, other)] == [True, False]


PEAK = """
import sys
from typing import Any
import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from core.engine.mlx.recompute import compute_depth_first, recompute

mx.set_default_device(mx.Device(mx.cpu))
mx.disable_compile()
if sys.argv[1] == "recompute":
    compute_depth_first()

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)
        self.outer = nn.Linear(16, 16)

    def __call__(self, values):
        for _again in range(4):
            values = mx.tanh(self.inner(mx.sigmoid(self.outer(values))))
        return values

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Layer() for _ in range(8)]

    def __call__(self, values):
        for layer in self.layers:
            values = layer(values)
        return values

model = Model()
mx.eval(model.parameters())
if sys.argv[1] == "recompute":
    recompute(model)
both = nn.value_and_grad(model, lambda model, values: model(values).sum())
mx.reset_peak_memory()
mx.eval(both(model, mx.ones((4096, 16))))
print(mx.get_peak_memory())
"""


def test_it_takes_less_memory():
    """In processes of their own: MLX reads the order of computation once."""

    def peak(how):
        found = subprocess.run([sys.executable, "-c", PEAK, how], capture_output=True, text=True, check=True)
        return int(found.stdout)

    assert peak("recompute") < peak("keep") / 2
