"""Reads off a model, built without numbers, what its memory is forecast from: weights counted, and what autograd keeps.

One forward pass under `FakeTensorMode` allocates nothing, and `saved_tensors_hooks` sees every tensor that is kept for
the gradients, whatever the architecture. Of two lengths come coefficients, with which the window computes at once.
"""

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from core.engine.models.parts import adaptable_layers, fully_trained, head_names, predicts_tokens
from core.engine.models.vision import own_size, segments
from core.memory.model import Kept, KeptTensor, ModelShape

ROWS, LENGTH = 2, 64
"""Of the longer of two passes: of one row alone, torch makes other copies. A model that sees fewer is shown as many as
it sees. The other pass is half as long."""

IMAGES, PIXELS = 2, 224
"""More than one image, or batch norm refuses; of a size that every model of torchvision's takes."""

HALF = 0.5
"""What of a vision model's tensors is kept in half precision: all layers are computed in it."""

# --- Weights


def shape_of(model: Any, kind: str = "cpu") -> ModelShape:
    """Count a text or vision model, not yet wrapped for LoRA.

    Args:
        model: The model, all of it on the meta device.
        kind: Where it would compute, `cpu`, `cuda` or `mps`: attention and dropout keep other tensors on each.
    """
    heads = head_names(model)
    layers = {name: model.get_submodule(name) for name in adaptable_layers(model, heads)}
    packable = [layer.weight.numel() for layer in layers.values() if not isinstance(layer, torch.nn.Conv2d)]
    linears: dict[str, tuple[int, int]] = {}
    for name, layer in layers.items():
        last, (inputs, outputs) = name.rpartition(".")[2], _sides(layer)
        before = linears.get(last, (0, 0))
        linears[last] = (before[0] + inputs, before[1] + outputs)
    tables = {part.weight for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    counts: dict[str, Any] = {
        "parameters": _numbers(model.parameters()),
        "head": sum(_numbers(model.get_submodule(name).parameters()) for name in fully_trained(model)),
        "linears": linears,
        "embeddings": _numbers(tables),
        "largest": max((weight.numel() for weight in model.parameters()), default=0),
        "largest_linear": max(packable, default=0),
        "factored": sum(map(_factored, model.parameters())),
    }
    if reads_images(model):
        return ModelShape(**counts, kept=_kept_of_images(model))
    config = model.config
    positions = getattr(config, "max_position_embeddings", None) or 0
    output = model.get_output_embeddings() if predicts_tokens(model) else None
    rows = list(_rows(model))
    return ModelShape(
        **counts,
        packable=sum(packable),
        layers=max(
            sum(map(len, rows)), getattr(config, "num_hidden_layers", None) or 0
        ),  # ALBERT's share weights
        hidden=int(config.hidden_size),
        vocabulary=0 if output is None else int(output.weight.shape[0]),
        positions=int(positions) if positions > 0 else None,  # XLNet says -1
        kept=_kept_of_texts(model, kind),
    )


def reads_images(model: Any) -> bool:
    """Whether a model is a `VisionClassifier`, or one of transformers' that takes pixels."""
    return getattr(model, "config", None) is None or getattr(model, "main_input_name", "") == "pixel_values"


def _factored(weight: torch.Tensor) -> int:
    """Numbers Adafactor remembers of a weight (`transformers.optimization.Adafactor`, without momentum)."""
    if weight.dim() < 2:
        return weight.numel()
    return weight.numel() // weight.shape[-1] + weight.numel() // weight.shape[-2]


def _numbers(weights: Iterable[torch.Tensor]) -> int:
    return sum(weight.numel() for weight in weights)


def _sides(layer: Any) -> tuple[int, int]:
    """Inputs and outputs, as LoRA's matrices have them: the first of a convolution looks at as many pixels as it."""
    if isinstance(layer, torch.nn.Conv2d):
        return layer.in_channels * math.prod(layer.kernel_size), layer.out_channels
    if isinstance(layer, torch.nn.Linear):
        return layer.in_features, layer.out_features
    inputs, outputs = layer.weight.shape  # GPT-2's Conv1D
    return int(inputs), int(outputs)


# --- What autograd keeps of a forward pass


@dataclass
class CountedPass:
    """Bytes that autograd saves, each storage once, the model's own left out, with the place set at the time."""

    model: torch.nn.Module
    place: Any = None
    entering: dict[Any, int] = field(default_factory=dict)
    found: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = (*self.model.parameters(), *self.model.buffers())
        self._own = {tensor.untyped_storage()._cdata for tensor in own}
        self._alive: list[torch.Tensor] = []  # else the mark of a storage would be given to the next one

    def watching(self) -> Any:
        """A context in which what is saved is counted."""
        return torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._own and storage._cdata not in self.found:
            self._alive.append(tensor)
            self.found[storage._cdata] = (self.place, storage.nbytes())
        return tensor

    def watch(self, first: torch.nn.Module, last: torch.nn.Module, place: Any) -> Iterator[Any]:
        """Have what is saved from the beginning of one module to the end of another counted at a place."""

        def enter(_module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            values = next(one for one in (*inputs, *named.values()) if isinstance(one, torch.Tensor))
            self.place = place
            self.entering[place] = self.entering.get(place, 0) + values.nbytes

        def leave(*_: Any) -> None:
            self.place = None

        yield first.register_forward_pre_hook(enter, with_kwargs=True)
        yield last.register_forward_hook(leave)


def _kept_of_texts(model: Any, kind: str) -> dict[str, Kept]:
    """What each way to train keeps: all weights or frozen ones, in single or half precision."""
    body = copy.deepcopy(getattr(model, "base_model", model)).train()
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
    """Cut rows of equal blocks to two, in place; says for how many each block left stands, by row and number."""
    copies = {}
    for row_number, row in enumerate(_rows(body)):
        blocks = len(row)
        if blocks > 2 and len({_numbers(block.parameters()) for block in row}) == 1:
            del row[2:]
        for number in range(len(row)):
            copies[row_number, number] = 1
        copies[row_number, len(row) - 1] += blocks - len(row)
    return copies


def _rows(model: Any) -> Iterator[Any]:
    """The rows of repeated blocks, encoder's and decoder's: the outermost lists of modules that hold linear layers."""
    taken: list[str] = []
    for name, part in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in taken)
        holds = any(
            isinstance(one, torch.nn.Linear) or type(one).__name__ == "Conv1D" for one in part.modules()
        )
        if isinstance(part, torch.nn.ModuleList) and not inside and holds:
            taken.append(name)
            yield part


def _bring(body: torch.nn.Module) -> None:
    """Put fake tensors in the place of all weights and buffers on the meta device; shared ones stay shared."""
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
    for row_number, row in enumerate(_rows(body)):
        for number, block in enumerate(row):
            hooks += saved.watch(block, block, (row_number, number))
    tokens = torch.zeros(ROWS, length, dtype=torch.int64)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if getattr(body.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens
    # On MPS attention has no kernel that gives gradients (`attention.cpp`).
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
    """Has functions keep what a device's kernels keep, where the CPU's would keep other tensors."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call it, or what stands in its place."""
        named = kwargs or {}
        if (
            getattr(function, "__name__", "") == "_grouped_mm"
        ):  # of experts; torch's own stand-in knows bf16 only
            offsets = named["offs"] if "offs" in named else args[2]
            return torch.ops.transformers.grouped_mm_fallback(*args[:2], offs=offsets)
        if function is torch.nn.functional.scaled_dot_product_attention and self._kind == "cuda":
            return _Kernel.apply(*args[:3], named.get("attn_mask", args[3] if len(args) > 3 else None))
        if function is torch.nn.functional.dropout and self._kind == "cuda":
            asked = dict(zip(("input", "p", "training"), args, strict=False)) | named
            is_applied = asked.get("training", True) and asked.get("p", 0.5)
            return _Dropped.apply(asked["input"]) if is_applied else asked["input"]
        return function(*args, **named)


class _Kernel(torch.autograd.Function):
    """Attention's shapes: queries, keys, values and what comes of them are kept, a number for each query, the mask."""

    @staticmethod
    def forward(ctx: Any, queries: Any, keys: Any, values: Any, mask: Any) -> torch.Tensor:
        kind = queries.device.type
        half = kind == "cpu" and torch.is_autocast_enabled(kind)
        queries, keys, values = (
            one.to(torch.get_autocast_dtype(kind)) if half else one for one in (queries, keys, values)
        )
        rows, heads, tokens, _ = (
            queries.shape
        )  # kernels write heads side by side, as the next layer wants them
        found = queries.new_empty((rows, tokens, heads, values.shape[-1])).transpose(1, 2)
        hidden = () if mask is None else (queries.new_empty(mask.shape),)
        ctx.save_for_backward(queries, keys, values, found, queries.new_empty(queries.shape[:-1]), *hidden)
        return found


class _Dropped(torch.autograd.Function):
    """Dropout's shapes."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values.new_empty(values.shape, dtype=torch.bool))
        return values.new_empty(values.shape)


# --- What a vision model keeps for each pixel


def _kept_of_images(model: Any) -> dict[str, Kept]:
    """Counted for images of the size the model was made for: attention keeps more for each pixel of larger ones."""
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
    """What is computed again as a whole, first and last module: transformers' blocks, or segments of rows."""
    for block in network.modules():
        if any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(block).__mro__):
            yield block, block
    for name, row in network.named_children():
        if isinstance(row, torch.nn.Sequential) and name != "classifier":
            for segment in segments(list(row)):
                yield segment[0], segment[-1]
