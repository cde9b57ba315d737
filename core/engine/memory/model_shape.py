"""Reads off a model, built without numbers, what its memory can be forecast from.

Widths are those of its live modules: architectures call the same thing by many names in their configs. Only what has
no module of its own (heads, dropout, experts a token) is asked of the config.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from core.engine.models.parts import adaptable_layers, head_names, says_tokens, whole_names
from core.engine.models.vision import own_size, segments
from core.memory.model import ModelShape

# --- What autograd keeps of a forward pass, counted on torch's meta device


NUMBER_BYTES = 4
"""A kept number is one of fp32; what takes more, such as an index of 8 bytes, counts for as many as its bytes hold."""


class Kept:
    """Counts the numbers of the tensors that autograd saves while `listening`: each storage once, weights not at all.

    `place` may be set meanwhile: what is saved from then on is counted there.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.place: object = None
        self._weights = {_storage(weight) for weight in model.parameters()}
        self._saved: dict[int, tuple[object, float]] = {}
        self._alive: list[torch.Tensor] = []  # else the mark of a storage would be given to the next one

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count while the block runs."""
        with torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor):
            yield

    def by_place(self) -> dict[object, float]:
        """Numbers saved at each place."""
        found: dict[object, float] = {}
        for place, numbers in self._saved.values():
            found[place] = found.get(place, 0.0) + numbers
        return found

    def beside(self, output: torch.Tensor) -> float:
        """All numbers saved, but for those of `output`: whatever comes next keeps them anyway."""
        return sum(numbers for storage, (_, numbers) in self._saved.items() if storage != _storage(output))

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage not in self._weights and storage not in self._saved:
            self._alive.append(tensor)
            self._saved[storage] = (self.place, tensor.untyped_storage().nbytes() / NUMBER_BYTES)
        return tensor


def kept_for_each(layer: Any, width: int) -> float:
    """Numbers that `layer`, on the meta device, keeps for each of the `width` numbers that enter it.

    Its output is left out: whatever comes next keeps that. A layer that wants more than numbers, such as a norm with a
    condition, is taken for one that keeps what enters it.
    """
    values = torch.empty(1, 4, width, device="meta", requires_grad=True)
    kept = Kept(layer)
    try:
        with kept.listening():
            output = layer(values * 1.0)  # not the leaf itself, which no layer may write over
    except (TypeError, RuntimeError):
        return 1.0
    return kept.beside(output) / values.numel()


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


# --- What a vision model keeps and puts out for each pixel


IMAGES, PIXELS = 2, 224
"""More than one image, or batch norm refuses; of a size that every model of torchvision's takes."""


def reads_images(model: Any) -> bool:
    """Whether a model is a `VisionClassifier`, or one of transformers' that takes pixels."""
    return getattr(model, "config", None) is None or getattr(model, "main_input_name", "") == "pixel_values"


def pixel_counts(model: Any) -> dict[str, Any]:
    """The fields of `ModelShape` that are counted for each pixel.

    They are those of images of the size the model was made for: attention keeps more for each pixel of larger ones.

    Args:
        model: A `VisionClassifier`, or a vision model of transformers', on the meta device.
    """
    network = getattr(model, "network", model)
    seen = _Pass(network, adaptable_layers(network, head_names(network)))
    side = own_size(getattr(model, "config", None)) or PIXELS
    images = torch.empty(IMAGES, 3, side, side, device="meta")
    try:
        with seen.kept.listening(), FusedAttention():
            network.train()(images)
    finally:
        seen.end()
    every = {
        "kept_per_pixel": sum(seen.kept.by_place().values()),
        "recomputed_per_pixel": seen.kept_recomputing(),
        "widest_per_pixel": seen.widest,
        "inputs_per_pixel": seen.entering,
    }
    return {name: numbers / (IMAGES * side * side) for name, numbers in every.items()}


class FusedAttention(TorchFunctionMode):
    """Has sdpa keep what a kernel keeps: on the meta device torch takes it apart, and would keep all scores."""

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call it, or what stands in its place."""
        if function is torch.nn.functional.scaled_dot_product_attention:
            return _Kernel.apply(*args[:3])
        return function(*args, **(kwargs or {}))


class _Kernel(torch.autograd.Function):
    """Attention's shapes: queries, keys, values and what comes of them are kept, and a number for each query."""

    @staticmethod
    def forward(ctx: Any, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        images, heads, tokens, _ = (
            queries.shape
        )  # kernels write heads side by side, as the next layer wants them
        found = queries.new_empty((images, tokens, heads, values.shape[-1])).transpose(1, 2)
        ctx.save_for_backward(queries, keys, values, found, queries.new_empty(queries.shape[:-1]))
        return found


class _Pass:
    """Listens to one pass: the widest output, what enters the layers called `adaptable`, what each segment keeps.

    A segment is what `CheckpointedRow` computes again as a whole.
    """

    def __init__(self, network: torch.nn.Module, adaptable: list[str]) -> None:
        self.kept = Kept(network)
        self.widest = 0.0
        self.entering = 0.0
        self._into_segments = 0.0
        self._hooks: list[Any] = []
        for layer in network.modules():
            self._hooks.append(layer.register_forward_hook(self._look_at_output))
        for name in adaptable:
            self._hooks.append(network.get_submodule(name).register_forward_pre_hook(self._look_at_input))
        for name, block in network.named_modules():
            if _is_block(block):
                self._watch_block(name, block)
        for name, row in network.named_children():
            if isinstance(row, torch.nn.Sequential) and name != "classifier":
                self._watch_segments(name, row)

    def end(self) -> None:
        """Listen no longer."""
        for hook in self._hooks:
            hook.remove()

    def kept_recomputing(self) -> float:
        """Numbers kept where segments are computed again: what enters them, what is outside, and the largest one."""
        by_place = self.kept.by_place()
        outside = by_place.pop(None, 0.0)
        return outside + self._into_segments + max(by_place.values(), default=0.0)

    def _watch_block(self, name: str, block: torch.nn.Module) -> None:
        place = (name, 0)
        self._hooks.append(block.register_forward_pre_hook(lambda _l, i, p=place: self._enter(p, i)))
        self._hooks.append(block.register_forward_hook(lambda *_: self._leave()))

    def _watch_segments(self, name: str, row: torch.nn.Sequential) -> None:
        for number, segment in enumerate(segments(list(row))):
            place = (name, number)
            self._hooks.append(segment[0].register_forward_pre_hook(lambda _l, i, p=place: self._enter(p, i)))
        self._hooks.append(row.register_forward_hook(lambda *_: self._leave()))

    def _enter(self, place: tuple[str, int], inputs: tuple[torch.Tensor, ...]) -> None:
        self.kept.place = place
        self._into_segments += inputs[0].numel()

    def _leave(self) -> None:
        self.kept.place = None

    def _look_at_output(self, _layer: torch.nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):  # transformers' larger parts put out several, all seen before
            self.widest = max(self.widest, output.numel())

    def _look_at_input(self, _layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self.entering += inputs[0].numel()


def _is_block(layer: torch.nn.Module) -> bool:
    """Whether transformers computes this layer again as a whole, where it is asked to."""
    return any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(layer).__mro__)


# --- Reads off a model, built without numbers, what its memory can be forecast from


DROPOUT = ("hidden_dropout_prob", "hidden_dropout", "resid_pdrop", "dropout_rate", "dropout")
ATTENTION_DROPOUT = (
    "attention_probs_dropout_prob",
    "attention_dropout",
    "attn_pdrop",
    "dropout_rate",
    "dropout",
)
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
EXPERTS_A_TOKEN = ("num_experts_per_tok", "top_k", "moe_topk")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads")
"""What configs call these; the first that a config has counts."""


def shape_of(model: Any, config: Any = None) -> ModelShape:
    """Counts and widths of a text model or a vision model, not yet wrapped for LoRA.

    Args:
        model: The model, all of it on the meta device.
        config: A text model's config; None: the model's own.
    """
    config = config if config is not None else getattr(model, "config", None)
    counts = _weight_counts(model)
    if reads_images(model):
        return ModelShape(**counts, **pixel_counts(model))
    return ModelShape(**counts, **_transformer(model, config))


def _weight_counts(model: Any) -> dict[str, Any]:
    heads = head_names(model)
    linears: dict[str, tuple[int, int]] = {}
    for name in adaptable_layers(model, heads):
        last, (inputs, outputs) = name.rpartition(".")[2], _sides(model.get_submodule(name))
        before = linears.get(last, (0, 0))
        linears[last] = (before[0] + inputs, before[1] + outputs)
    return {
        "parameters": _numbers(model.parameters()),
        "packable": 0 if reads_images(model) else _packable(model, heads),
        "head": sum(_numbers(model.get_submodule(name).parameters()) for name in whole_names(model)),
        "linear_sides": sum(map(sum, linears.values())),
        "linears": linears,
        "embeddings": _numbers(_tables(model)),
        "largest": max((weight.numel() for weight in model.parameters()), default=0),
        "factored": sum(map(_factored, model.parameters())),
    }


def _tables(model: Any) -> set[torch.nn.Parameter]:
    """The tables of tokens and positions; T5's stacks share one under three names."""
    return {part.weight for part in model.modules() if isinstance(part, torch.nn.Embedding)}


def _packable(model: Any, heads: Iterable[str]) -> int:
    """Weights of the linear layers outside the classifier: what bitsandbytes packs, biases and tables left as is."""
    return sum(
        model.get_submodule(name).weight.numel()
        for name in adaptable_layers(model, heads)
        if not isinstance(model.get_submodule(name), torch.nn.Conv2d)
    )


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


def _transformer(model: Any, config: Any) -> dict[str, Any]:
    rows = list(_rows(model))
    blocks = [block for row in rows for block in row]
    block = blocks[(len(blocks) - 1) // 2] if blocks else model  # the first may be of another kind than most
    hidden, norm = _hidden(block, config)
    all_experts, intermediate, gated = _inner(block, hidden, config)
    heads = _first(config, ("num_attention_heads",)) or 1
    table = _token_table(model)
    return {
        "layers": max(
            len(blocks), _first(config, ("num_hidden_layers",)) or 0
        ),  # ALBERT's share their weights
        "crossing": sum(map(len, rows[1:])) if getattr(config, "is_encoder_decoder", False) else 0,
        "hidden": hidden,
        "intermediate": intermediate,
        "heads": heads,
        "key_heads": 1 if getattr(config, "multi_query", False) else _first(config, KEY_HEADS) or heads,
        "head_width": _attention_width(block, hidden, intermediate) // heads,
        "gated": gated,
        "vocabulary": table.num_embeddings if table is not None else 0,
        "said": _said(model),
        "positions": _positions(config),
        "experts": (_first(config, EXPERTS_A_TOKEN) or 1) if all_experts > 1 else 1,
        "all_experts": all_experts,
        "dropout": bool(_first(config, DROPOUT)),
        "attention_dropout": bool(_first(config, ATTENTION_DROPOUT)),
        "turns_fused": _turns_fused(model, block, hidden, intermediate),
        "norm_keeps": kept_for_each(norm, hidden) if norm is not None else 1.0,
        "activation_keeps": _activation_keeps(block),
        "inner_dropped": _inner_dropped(block, hidden, intermediate),
    }


def _rows(model: Any) -> Iterator[Any]:
    """The rows of repeated blocks, encoder's and decoder's: the outermost lists of modules that hold linear layers."""
    taken: list[str] = []
    for name, part in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in taken)
        if isinstance(part, torch.nn.ModuleList) and not inside and _linears(part):
            taken.append(name)
            yield part


def _linears(part: Any) -> list[tuple[int, int]]:
    return [_sides(layer) for layer in part.modules() if _is_linear(layer)]


def _is_linear(layer: Any) -> bool:
    return isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"


def _hidden(block: Any, config: Any) -> tuple[int, Any]:
    """The width of what goes from block to block, and a layer that normalises it: norms of heads are narrower."""
    norms = [
        part
        for part in block.modules()
        if "norm" in type(part).__name__.lower() and getattr(part, "weight", None) is not None
    ]
    if not norms:
        return int(config.hidden_size), None
    widest = max(norms, key=lambda norm: norm.weight.numel())
    return widest.weight.numel(), widest


def _inner(block: Any, hidden: int, config: Any) -> tuple[int, int, bool]:
    """How many experts there are, how wide each is inside, and whether two layers feed that width."""
    asked = _first(config, EXPERTS) or 1
    tables = [weight.shape for weight in block.parameters() if weight.dim() == 3 and asked > 1]
    if tables:  # all experts in one weight: [experts, outputs, inputs]
        widths = [side for table in tables for side in table[1:] if side != hidden] or [hidden]
        return int(tables[0][0]), int(min(widths)), max(widths) == 2 * min(widths) or len(widths) > 2
    experts = max(map(len, _expert_lists(block)), default=1)
    sides = _linears(block)
    inner = [hidden, *(inputs for inputs, outputs in sides if outputs == hidden)][
        -1
    ]  # it comes after attention
    feeding = [outputs for inputs, outputs in sides if inputs == hidden]
    gated = feeding.count(inner) >= 2 * experts and inner != hidden
    return experts, inner, gated or (2 * inner in feeding and inner != hidden)


def _expert_lists(block: Any) -> Iterator[Any]:
    kinds = torch.nn.ModuleList | torch.nn.ModuleDict
    return (
        part
        for name, part in block.named_modules()
        if isinstance(part, kinds) and name.rpartition(".")[2] == "experts"
    )


def _attention_width(block: Any, hidden: int, intermediate: int) -> int:
    """What all heads are wide together: what enters the layer that brings them back to the block's width."""
    back = [inputs for inputs, outputs in _linears(block) if outputs == hidden]
    others = [inputs for inputs in back if inputs != intermediate]
    return max(others, default=intermediate if len(back) > 1 else hidden)


def _turns_fused(model: Any, block: Any, hidden: int, intermediate: int) -> bool:
    """Whether one layer computes queries, keys and values for rotary positions."""
    turns = any("rotary" in type(part).__name__.lower() for part in model.modules())
    together = _attention_width(block, hidden, intermediate) * 3
    return turns and (hidden, together) in _linears(block)


def _activation_keeps(block: Any) -> float:
    from transformers.activations import ACT2CLS

    kinds = tuple(kind[0] if isinstance(kind, tuple) else kind for kind in ACT2CLS.values())
    found = next((part for part in block.modules() if isinstance(part, kinds)), None)
    return kept_for_each(found, 8) if found is not None else 1.0


def _inner_dropped(block: Any, hidden: int, intermediate: int) -> int:
    """Numbers kept for each of the inner width's because some are left out at random there, as in T5.

    Found by asking the smallest module that holds the inner layers, with dropout and without; one that can't be asked
    alone is taken to leave none out. Dropout behind the layer that leads back keeps less than one, and is not meant.
    """
    layers = [
        part for part in block.modules() if part is not block and _leads_back(part, hidden, intermediate)
    ]
    if not layers:
        return 0
    inner = min(layers, key=lambda part: sum(1 for _ in part.modules()))
    was_training = inner.training
    with_dropout, without = (kept_for_each(inner.train(mode), hidden) for mode in (True, False))
    inner.train(was_training)
    return round((with_dropout - without) * hidden / intermediate)


def _leads_back(part: Any, hidden: int, intermediate: int) -> bool:
    sides = _linears(part)
    return (
        not _is_linear(part)
        and (intermediate, hidden) in sides
        and any(enter == hidden for enter, _ in sides)
    )


def _token_table(model: Any) -> Any:
    try:
        return model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None


def _said(model: Any) -> int:
    """How many tokens a model that writes tells apart at every place."""
    layer = model.get_output_embeddings() if says_tokens(model) else None
    return int(layer.weight.shape[0]) if layer is not None else 0


def _positions(config: Any) -> int | None:
    positions = getattr(config, "max_position_embeddings", None) or 0
    return int(positions) if positions > 0 else None  # XLNet says -1


def _first(config: Any, names: Iterable[str]) -> Any:
    """What a config has under the first of these names it knows."""
    return next((getattr(config, name) for name in names if getattr(config, name, None) is not None), None)
