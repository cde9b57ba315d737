"""Stands in for bitsandbytes' packed layers in a trace: the same bytes at the same moments, without its kernels.

Read off `MatMul4Bit` and `MatMul8bitLt` of bitsandbytes 0.50: packed weights are unpacked whole to be multiplied, for
the gradients once more; 4-bit layers keep nothing of what enters them, 8-bit layers keep it as it came.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch

from core.engine.models.parts import adaptable_layers
from core.memory.estimate import NF4
from core.options.choices import Quantization


class PackedLinear(torch.nn.Linear):
    """A frozen linear layer whose weights take as many bytes as packed ones do.

    Args:
        layer: What it stands for.
        quantization: How that is packed.
        computed_in: What it is unpacked to.
    """

    def __init__(self, layer: torch.nn.Linear, quantization: Quantization, computed_in: torch.dtype) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=False, device="meta")
        self.bias = layer.bias
        self.keeps_input = quantization is Quantization.INT8
        self.computed_in = torch.float16 if self.keeps_input else computed_in
        size = _packed_bytes(layer, quantization)
        packed = torch.empty(size, dtype=torch.uint8, device=layer.weight.device)
        self.weight = torch.nn.Parameter(packed, requires_grad=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Unpack and multiply."""
        out: torch.Tensor = _Multiply.apply(values, self)
        return out if self.bias is None else out + self.bias.to(out.dtype)

    def unpacked(self) -> torch.Tensor:
        """The weight as it is multiplied."""
        shape = (self.out_features, self.in_features)
        return torch.empty(shape, dtype=self.computed_in, device=self.weight.device)


def pack(
    model: torch.nn.Module, unpacked: Iterable[str], quantization: Quantization, computed_in: Any
) -> None:
    """Put packed layers in the place of all linear layers but those in the modules `unpacked`."""
    for name in adaptable_layers(model, unpacked):
        parent, _, last = name.rpartition(".")
        layer = model.get_submodule(name)
        if isinstance(layer, torch.nn.Linear):
            setattr(model.get_submodule(parent), last, PackedLinear(layer, quantization, computed_in))


def _packed_bytes(layer: torch.nn.Linear, quantization: Quantization) -> int:
    numbers = layer.weight.numel()
    if quantization is Quantization.INT8:
        return numbers + 4 * layer.out_features  # a scale a row
    return math.ceil(numbers * NF4)


class _Multiply(torch.autograd.Function):
    """`values @ weight.T`, with the weight unpacked for as long as it is needed."""

    @staticmethod
    def forward(
        ctx: Any,
        values: torch.Tensor,
        layer: PackedLinear,
    ) -> torch.Tensor:
        ctx.layer, ctx.entered_as = layer, values.dtype
        ctx.values = values if layer.keeps_input else None
        return torch.nn.functional.linear(values.to(layer.computed_in), layer.unpacked()).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        layer = ctx.layer
        return (gradients[0].to(layer.computed_in) @ layer.unpacked()).to(ctx.entered_as), None
