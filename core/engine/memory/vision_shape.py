"""What a vision model keeps and puts out for each pixel, found by passing images without numbers through it."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from core.engine.memory.keeping import Kept
from core.engine.models.checkpointing import segments
from core.engine.models.image_models import own_size
from core.engine.models.parts import adaptable_layers, head_names

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
