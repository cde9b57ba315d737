"""Counts a model's weights and the tensors that autograd saves, without allocating them, for the memory forecast.

A forward pass under `FakeTensorMode` with `saved_tensors_hooks` counts the saved tensors of any architecture. Passes at
two lengths give coefficients from which the window computes forecasts without the engine.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from core.engine.models.parts import (
    adaptable_layers,
    block_lists,
    block_names,
    can_be_packed,
    frozen_layers,
    fully_trained,
    head_names,
    part_for_texts,
    predicts_tokens,
)
from core.engine.models.vision import own_size, segments
from core.memory.model import Kept, KeptTensor, ModelShape
from core.options.packing import Packing, packing

ROWS, LENGTH = 2, 64
"""The longer of two passes, limited to the model's positions; the other pass is half as long. With a single row,
torch makes other copies."""

IMAGES, PIXELS = 2, 224
"""Batch norm needs more than one image; all of torchvision's models accept this size."""

HALF = 0.5
"""The fraction of a vision model's saved bytes in half precision, which all layers use."""

# --- Weights


def shape_of(model: Any, kind: str = "cpu") -> ModelShape:
    """Counts a text or vision model on the meta device, not yet wrapped for LoRA.

    On each `kind` of device (`cpu`, `cuda`, `mps`) attention and dropout save other tensors.
    """
    heads = head_names(model)
    layers = {name: model.get_submodule(name) for name in adaptable_layers(model, heads)}
    packable = [
        layer.weight.numel()
        for layer in layers.values()
        if not isinstance(layer, torch.nn.Conv2d) and (kind != "cpu" or can_be_packed(layer))
    ]
    linears: dict[str, tuple[int, int]] = {}
    for name, layer in layers.items():
        last, (inputs, outputs) = name.rpartition(".")[2], _sides(layer)
        before = linears.get(last, (0, 0))
        linears[last] = (before[0] + inputs, before[1] + outputs)
    tables = {part.weight for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    counts: dict[str, Any] = {
        "parameters": _numbers(model.parameters()),
        "head": sum(_numbers(model.get_submodule(name).parameters()) for name in fully_trained(model)),
        "holdable": _numbers({layer.weight for layer in frozen_layers(model).values()}),
        "linears": linears,
        "embeddings": _numbers(tables),
        "largest": max((weight.numel() for weight in model.parameters()), default=0),
        "largest_linear": max(packable, default=0),
        "factored": sum(map(_factored, model.parameters())),
        "blocks": len(block_names(model if reads_images(model) else part_for_texts(model))),
        "packed": tuple(_packed(model).items()),
    }
    if reads_images(model):
        return ModelShape(**counts, kept=_kept_of_images(model))
    config = model.config.get_text_config()  # of a model that also sees, it is another one
    positions = getattr(config, "max_position_embeddings", None) or 0
    output = model.get_output_embeddings() if predicts_tokens(model) else None
    return ModelShape(
        **counts,
        packable=sum(packable),
        # ALBERT's layers share weights
        layers=max(counts["blocks"], getattr(config, "num_hidden_layers", None) or 0),
        hidden=int(config.hidden_size),
        heads=getattr(config, "num_attention_heads", None) or 0,
        vocabulary=0 if output is None else int(output.weight.shape[0]),
        positions=int(positions) if positions > 0 else None,  # XLNet says -1
        kept=_kept_of_texts(model, kind),
    )


def reads_images(model: Any) -> bool:
    """Returns whether a model is a `VisionClassifier`, or a transformers model that takes pixels."""
    return getattr(model, "config", None) is None or getattr(model, "main_input_name", "") == "pixel_values"


def _factored(weight: torch.Tensor) -> int:
    """Returns the size of Adafactor's state for a weight (`transformers.optimization.Adafactor`, without momentum)."""
    if weight.dim() < 2:
        return weight.numel()
    return weight.numel() // weight.shape[-1] + weight.numel() // weight.shape[-2]


def _packed(model: Any) -> Counter[Packing]:
    """Counts the weights that are quantized for MLX in the model's files: all matrices whose rows fill groups."""
    found: Counter[Packing] = Counter()
    quantization = getattr(getattr(model, "config", None), "quantization", None)
    for name, weight in model.named_parameters():
        one = packing(quantization, name.removesuffix(".weight"))
        if one is not None and weight.dim() > 1 and weight.shape[-1] % one.group == 0:
            found[one] += weight.numel()
    return found


def _numbers(weights: Iterable[torch.Tensor]) -> int:
    return sum(weight.numel() for weight in weights)


def _sides(layer: Any) -> tuple[int, int]:
    """Returns the numbers of inputs and outputs of LoRA's matrices; a convolution's first one has the same kernel."""
    if isinstance(layer, torch.nn.Conv2d):
        return layer.in_channels * math.prod(layer.kernel_size), layer.out_channels
    if isinstance(layer, torch.nn.Linear):
        return layer.in_features, layer.out_features
    inputs, outputs = layer.weight.shape  # GPT-2's Conv1D
    return int(inputs), int(outputs)


# --- Tensors that autograd saves in a forward pass


@dataclass
class CountedPass:
    """Counts the bytes that autograd saves: each storage once, without weights and buffers, by the current place."""

    model: torch.nn.Module
    place: Any = None
    entering: dict[Any, int] = field(default_factory=dict)
    found: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = (*self.model.parameters(), *self.model.buffers())
        self._own = {tensor.untyped_storage()._cdata for tensor in own}
        self._alive: list[torch.Tensor] = []  # else another storage could reuse the address

    def watching(self) -> Any:
        """Returns a context manager that counts saved tensors."""
        return torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._own and storage._cdata not in self.found:
            self._alive.append(tensor)
            self.found[storage._cdata] = (self.place, storage.nbytes())
        return tensor

    def watch(self, first: torch.nn.Module, last: torch.nn.Module, place: Any) -> Iterator[Any]:
        """Attributes tensors saved between the start of `first` and the end of `last` to `place`; yields the hooks."""

        def enter(_module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            values = next(one for one in (*inputs, *named.values()) if isinstance(one, torch.Tensor))
            self.place = place
            self.entering[place] = self.entering.get(place, 0) + values.nbytes

        def leave(*_: Any) -> None:
            self.place = None

        yield first.register_forward_pre_hook(enter, with_kwargs=True)
        yield last.register_forward_hook(leave)


def _kept_of_texts(model: Any, kind: str) -> dict[str, Kept]:
    """Returns saved tensors with trained and frozen weights, in single and half precision."""
    body: Any = copy.deepcopy(part_for_texts(model)).train()
    body.config.use_cache = False  # as Trainer does
    copies = _shorten(body)
    sees = getattr(body.config, "max_position_embeddings", None) or 0
    longest = min(LENGTH, sees) if sees > 0 else LENGTH
    lengths, found = (longest // 2, longest), {}
    with FakeTensorMode(), torch.device("cpu"):
        _bring(body)
        for frozen in (False, True):
            body.requires_grad_(not frozen)
            for half in (False, True):
                passes = {length: _pass(body, length, kind, frozen=frozen, half=half) for length in lengths}
                found[Kept.key(frozen=frozen, half=half)] = _coefficients(passes, copies)
    return found


def _shorten(body: Any) -> dict[tuple[int, int], int]:
    """Shortens lists of equal blocks to two, in place; returns how many blocks each remaining one represents."""
    copies = {}
    for row_number, (_name, row) in enumerate(block_lists(body)):
        blocks = len(row)
        if blocks > 2 and len({_numbers(block.parameters()) for block in row}) == 1:
            del row[2:]
        for number in range(len(row)):
            copies[row_number, number] = 1
        copies[row_number, len(row) - 1] += blocks - len(row)
    return copies


def _bring(body: torch.nn.Module) -> None:
    """Replaces all weights and buffers on the meta device by fake tensors; shared ones stay shared."""
    made: dict[int, Any] = {}
    for part in body.modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    fake = torch.empty(tensor.shape, dtype=tensor.dtype)
                    new = torch.nn.Parameter(fake) if isinstance(tensor, torch.nn.Parameter) else fake
                    held[name] = made.setdefault(id(tensor), new)


def _pass(body: Any, length: int, kind: str, *, frozen: bool, half: bool) -> CountedPass:
    saved = CountedPass(body)
    table = body.get_input_embeddings().weight
    hooks = [
        part.register_forward_hook(lambda _m, _i, output: output.requires_grad_(True))
        for part in body.modules()
        if frozen and isinstance(part, torch.nn.Embedding) and part.weight is table
    ]
    for row_number, (_name, row) in enumerate(block_lists(body)):
        for number, block in enumerate(row):
            hooks += saved.watch(block, block, (row_number, number))
    tokens = torch.zeros(ROWS, length, dtype=torch.int64)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if getattr(body.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens
    # MPS has no attention kernel with gradients (`attention.cpp`).
    backends = [SDPBackend.MATH] if kind == "mps" else list(SDPBackend.__members__.values())[1:]
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=half)
    try:
        with saved.watching(), autocast, _Kernels(kind), sdpa_kernel(backends):
            output = body(**inputs)[0]
            torch.nn.functional.linear(output, torch.empty(1, output.shape[-1], requires_grad=True))
    finally:
        for hook in hooks:
            hook.remove()
    return saved


def _coefficients(passes: dict[int, CountedPass], copies: dict[tuple[int, int], int]) -> Kept:
    (first, short), (second, long) = passes.items()
    inside: dict[tuple[float, float], int] = {}
    outside: dict[tuple[float, float], int] = {}
    by_place: dict[Any, float] = {}
    casts = 0
    for (place, few), (_, many) in zip(short.found.values(), long.found.values(), strict=True):
        times = copies.get(place, 1)
        if few == many:
            casts += times * many
            continue
        square = (many / second - few / first) / (second - first) / ROWS
        size = (round(few / first / ROWS - square * first, 3), round(square, 6))
        found = outside if place is None else inside
        found[size] = found.get(size, 0) + times
        if place is not None:
            by_place[place] = by_place.get(place, 0.0) + many
    return Kept(
        blocks=tuple(KeptTensor(*size, count) for size, count in inside.items()),
        outside=tuple(KeptTensor(*size, count) for size, count in outside.items()),
        entering=sum(copies[place] * size for place, size in long.entering.items()) / (ROWS * second),
        largest=max(by_place.values(), default=0.0)
        / max(1.0, sum(n * copies[p] for p, n in by_place.items())),
        casts=casts,
    )


class _Kernels(TorchFunctionMode):
    """Makes functions save the tensors that the kernels of a device save, where those of a CPU save others."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        # of experts; torch's fallback supports only bf16
        if getattr(function, "__name__", "") == "_grouped_mm":
            offsets = named["offs"] if "offs" in named else args[2]
            return torch.ops.transformers.grouped_mm_fallback(*args[:2], offs=offsets)
        if function is torch.nn.functional.scaled_dot_product_attention and self._kind == "cuda":
            return _Kernel.apply(*args[:3], named.get("attn_mask", args[3] if len(args) > 3 else None))
        if function is torch.nn.functional.dropout and self._kind == "cuda":
            given = dict(zip(("input", "p", "training"), args, strict=False)) | named
            is_applied = given.get("training", True) and given.get("p", 0.5)
            return _Dropped.apply(given["input"]) if is_applied else given["input"]
        return function(*args, **named)


class _Kernel(torch.autograd.Function):
    """Attention without values: saves queries, keys, values, the output, one number per query, and the mask."""

    @staticmethod
    def forward(ctx: Any, queries: Any, keys: Any, values: Any, mask: Any) -> torch.Tensor:
        kind = queries.device.type
        half = kind == "cpu" and torch.is_autocast_enabled(kind)
        if half:
            dtype = torch.get_autocast_dtype(kind)
            queries, keys, values = (tensor.to(dtype) for tensor in (queries, keys, values))
        # kernels write heads next to each other, for the next layer
        rows, heads, tokens, _size = queries.shape
        found = queries.new_empty((rows, tokens, heads, values.shape[-1])).transpose(1, 2)
        hidden = () if mask is None else (queries.new_empty(mask.shape),)
        ctx.save_for_backward(queries, keys, values, found, queries.new_empty(queries.shape[:-1]), *hidden)
        return found


class _Dropped(torch.autograd.Function):
    """Dropout without values: saves a mask of bytes."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values.new_empty(values.shape, dtype=torch.bool))
        return values.new_empty(values.shape)


# --- Tensors saved per pixel of an image


def _kept_of_images(model: Any) -> dict[str, Kept]:
    """Returns saved tensors at the model's own image size: attention saves more per pixel of larger images."""
    network = getattr(model, "network", model)
    side = own_size(getattr(model, "config", None)) or PIXELS
    saved, into_linears, hooks = CountedPass(network), [0], []

    def look_at_input(_layer: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        into_linears[0] += inputs[0].numel()

    for name in adaptable_layers(network, head_names(network)):
        hooks.append(network.get_submodule(name).register_forward_pre_hook(look_at_input))
    for place, (first, last) in enumerate(_recomputed(network)):
        hooks += saved.watch(first, last, place)
    try:
        with saved.watching(), _Kernels("cuda"):
            network.train()(torch.empty(IMAGES, 3, side, side, device="meta"))
    finally:
        for hook in hooks:
            hook.remove()
    pixels = IMAGES * side * side
    by_place: dict[Any, float] = {}
    for place, size in saved.found.values():
        if place is not None:
            by_place[place] = by_place.get(place, 0.0) + size

    def kept(share: float, casts: int) -> Kept:
        tensors = [(place, KeptTensor(share * size / pixels)) for place, size in saved.found.values()]
        return Kept(
            blocks=tuple(tensor for place, tensor in tensors if place is not None),
            outside=tuple(tensor for place, tensor in tensors if place is None),
            entering=share * sum(saved.entering.values()) / pixels,
            largest=max(by_place.values(), default=0.0) / max(1.0, sum(by_place.values())),
            into_linears=into_linears[0] / pixels,
            casts=casts,
        )

    single, half = kept(1.0, 0), kept(HALF, 2 * _numbers(network.parameters()))
    return {
        Kept.key(frozen=frozen, half=is_half): half if is_half else single
        for frozen in (False, True)
        for is_half in (False, True)
    }


def _recomputed(network: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, torch.nn.Module]]:
    """Yields first and last module of each part that is recomputed: transformers' blocks, or segments of layers."""
    for block in network.modules():
        if any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(block).__mro__):
            yield block, block
    for name, row in network.named_children():
        if isinstance(row, torch.nn.Sequential) and name != "classifier":
            for segment in segments(list(row)):
                yield segment[0], segment[-1]
