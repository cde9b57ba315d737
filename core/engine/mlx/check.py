"""The device check's comparisons of MLX: a GPU's kernels with plain ones of the CPU.

Tolerances are as in `core.engine.devices.check`, and were measured on a CPU; nothing was measured on a Mac. In bf16,
against fp32, products and attention differ by 9e-3 at most, the gradients of a small model by 6e-2, and so does a
product with packed weights, whose terms MLX's CPU adds in bf16. From the M5 on, MLX multiplies fp32 with 10 bits
(https://github.com/ml-explore/mlx/issues/3534) unless MLX_ENABLE_TF32 is 0, as it is for the check.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import torch
from mlx import nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models import llama
from mlx_lm.models.base import create_causal_mask

from core.base.language import _
from core.engine.devices.check import FP32, DeviceProbe, Probe, Side, Tensors
from core.engine.mlx.names import Arrays
from core.engine.mlx.skeleton import tensor_of
from core.options.choices import AFFINE_GROUP

Computation = Callable[[mx.Dtype], Arrays]
"""Computes something in a dtype, of the same numbers on each side."""

VOCABULARY = 32_768
WINDOW = 48


def probe_of(compute: Computation, dtype: mx.Dtype) -> Probe:
    """Makes a probe that computes in `dtype`, its reference in fp32."""

    def probe(side: Side) -> Tensors:
        with _stream_of(side):
            found = compute(mx.float32 if side.is_reference else dtype)
            return {name: tensor_of(array) for name, array in found.items()}

    return probe


@contextmanager
def _stream_of(side: Side) -> Iterator[None]:
    """Computes on a side's device; a CPU's kernels aren't compiled, for which MLX would run a C++ compiler."""
    is_cpu = side.device == "cpu"
    (mx.disable_compile if is_cpu else mx.enable_compile)()
    with mx.stream(mx.Device(mx.cpu if is_cpu else mx.gpu)):
        yield


def numbers(*shape: int, dtype: mx.Dtype) -> mx.array:
    """Draws normal numbers that have the same value in bf16 and fp32."""
    return mx.array(torch.randn(shape).bfloat16().float().numpy()).astype(dtype)


def with_gradients(
    function: Callable[..., mx.array], inputs: dict[str, mx.array], weights: mx.array
) -> Arrays:
    """Returns a function's output, and its inputs' gradients where the output's is `weights`."""
    _outputs, found = mx.vjp(function, [*inputs.values()], [weights])
    gradients = {f"gradient of the {name}": one for name, one in zip(inputs, found, strict=True)}
    return {"output": function(*inputs.values()), **gradients}


# --- Computations


def product(dtype: mx.Dtype) -> Arrays:
    factors = {"input": numbers(192, 512, dtype=dtype), "weight": numbers(512, 320, dtype=dtype)}
    return with_gradients(mx.matmul, factors, numbers(192, 320, dtype=dtype))


def attention(dtype: mx.Dtype) -> Arrays:
    """Computes attention where two queries share a key, with a causal mask and with a window."""
    length, width = 192, 64
    inputs = {
        name: numbers(2, heads, length, width, dtype=dtype)
        for name, heads in (("queries", 4), ("keys", 2), ("values", 2))
    }
    weights = numbers(2, 4, length, width, dtype=dtype)
    found: Arrays = {}
    window = create_causal_mask(length, window_size=WINDOW)
    for name, mask in (("causal", "causal"), ("window", window)):

        def attend(*inputs: mx.array, mask: Any = mask) -> mx.array:
            return mx.fast.scaled_dot_product_attention(*inputs, scale=width**-0.5, mask=mask)

        of_mask = with_gradients(attend, inputs, weights)
        found |= {f"{name}: {tensor}": values for tensor, values in of_mask.items()}
    return found


def quantized_product(dtype: mx.Dtype) -> Arrays:
    """Multiplies by weights in 4 bits, in groups of 64, for few rows and many, which have kernels of their own.

    The weights lie near the 16 values of their groups, -8 to 7, so that rounding moves none to another.
    """
    values = torch.randint(-8, 8, (96, 4, AFFINE_GROUP)) + 0.1 * torch.rand(96, 4, AFFINE_GROUP)
    values[..., 0], values[..., 1] = -8.0, 7.0
    weight = mx.array(values.clamp(-8.0, 7.0).flatten(1).numpy()).astype(dtype)
    packed = mx.quantize(weight, group_size=AFFINE_GROUP, bits=4)

    def multiply(rows: mx.array) -> mx.array:
        return mx.quantized_matmul(rows, *packed, transpose=True, group_size=AFFINE_GROUP, bits=4)

    found = {"weight": mx.dequantize(*packed, group_size=AFFINE_GROUP, bits=4)}
    for rows in (1, 96):
        inputs = {"input": numbers(rows, 4 * AFFINE_GROUP, dtype=dtype)}
        of_rows = with_gradients(multiply, inputs, numbers(rows, 96, dtype=dtype))
        found |= {f"{rows} x {4 * AFFINE_GROUP}: {tensor}": values for tensor, values in of_rows.items()}
    return found


def large_vocabulary(dtype: mx.Dtype) -> Arrays:
    """Computes the cross entropy of logits over many tokens; its gradient without the learned ones, the largest."""
    logits, half = numbers(64, VOCABULARY, dtype=dtype), VOCABULARY // 2
    targets = mx.array(torch.randint(half, (64,)).numpy())
    loss = with_gradients(
        lambda logits: nn.losses.cross_entropy(logits, targets), {"logits": logits}, mx.ones(64, dtype)
    )
    gradient = loss.pop("gradient of the logits")
    return {
        **loss,
        "gradient of the learned half": gradient[:, :half],
        "gradient of the other half": gradient[:, half:],
    }


def training_step(dtype: mx.Dtype) -> Arrays:
    """Computes the loss of a small Llama and the gradients of its weights."""
    model = llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=128,
            num_hidden_layers=2,
            intermediate_size=256,
            num_attention_heads=2,
            num_key_value_heads=1,
            rms_norm_eps=1e-5,
            vocab_size=500,
        )
    )

    def drawn(weight: mx.array) -> mx.array:
        return numbers(*weight.shape, dtype=dtype) / 8 if weight.ndim > 1 else weight.astype(dtype)

    model.update(tree_map(drawn, model.parameters()))
    tokens = mx.array(torch.randint(500, (6, 48)).numpy())

    def loss_of(model: nn.Module) -> mx.array:
        logits = model(tokens[:, :-1]).astype(mx.float32)
        return nn.losses.cross_entropy(logits, tokens[:, 1:], reduction="mean")

    loss, gradients = nn.value_and_grad(model, loss_of)(model)
    named: Arrays = tree_flatten(gradients, destination={})
    return {"loss": loss, **{f"gradient of {name}": values for name, values in named.items()}}


# --- The comparisons


BF16, ROUGH = 3e-2, 0.1
REMEDY = _("Choose PyTorch as the engine, or another version of MLX.")
BITS_REMEDY = _("Use LoRA without quantization, or PyTorch as the engine.")
CHECKS = (
    DeviceProbe(
        _("MLX: products in bf16"),
        _("A product of matrices and the gradients of both."),
        probe_of(product, mx.bfloat16),
        BF16,
        REMEDY,
        short=True,
    ),
    DeviceProbe(
        _("MLX: attention in bf16"),
        _("Attention where no token may see later ones, or only a window of earlier ones."),
        probe_of(attention, mx.bfloat16),
        BF16,
        REMEDY,
        short=True,
    ),
    DeviceProbe(
        _("MLX: weights in 4 bits"),
        _(
            "What weights in groups of 64 unpack to, products with them in bf16, and the gradient they pass on."
        ),
        probe_of(quantized_product, mx.bfloat16),
        ROUGH,
        BITS_REMEDY,
        short=True,
    ),
    DeviceProbe(
        _("MLX: large vocabulary"),
        _("The cross entropy over 32,768 tokens and its gradient."),
        probe_of(large_vocabulary, mx.float32),
        FP32,
        REMEDY,
        short=True,
    ),
    DeviceProbe(
        _("MLX: training step in bf16"),
        _("The loss of a small Llama and the gradients of its weights."),
        probe_of(training_step, mx.bfloat16),
        ROUGH,
        REMEDY,
        short=True,
    ),
    DeviceProbe(
        _("MLX: training step in fp32"),
        _("The loss of a small Llama and the gradients of its weights."),
        probe_of(training_step, mx.float32),
        FP32,
        REMEDY,
        short=True,
    ),
)
