"""The parts of a model: its head, layers and weights, and how frozen ones are held."""

import difflib
import logging
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from core.base.errors import Fix, ModelError
from core.base.language import _
from core.engine.devices.computing import COMPUTED_IN
from core.options import RunOptions
from core.options.catalogue import options_by_path
from core.options.choices import FrozenPrecision, Quantization

HELD_IN = {FrozenPrecision.BF16: torch.bfloat16, FrozenPrecision.FP16: torch.float16}
READ_DIRECTLY = ("dt_proj", "x_proj")
"""Layers of which Mamba's code takes the matrix itself; transformers names others that need fp32, such as T5's."""
MATRIX_LAYERS = (torch.nn.Linear, torch.nn.Embedding, torch.nn.Conv2d)


def freeze_batch_norms(model: torch.nn.Module) -> None:
    """Keeps frozen batch norms in evaluation mode.

    In training mode each forward pass would update their running mean and variance, which are buffers, so that a
    backbone that isn't saved again would differ from the one that was trained on.
    """
    for part in model.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and not any(
            weight.requires_grad for weight in part.parameters()
        ):
            part.eval()
            part.train = partial(
                lambda part, mode=True: part, part
            )  # Trainer calls model.train() before each step


# --- Parts of a model


REPLACED = ".original_module."
"""In the name of a weight that PEFT keeps next to the copy that is trained; the model doesn't use it."""


def base_of(model: Any) -> Any:
    """Returns the model without PEFT's wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def head_names(model: Any) -> tuple[str, ...]:
    """Returns names of the modules of the head.

    In a transformers model those outside its body (`classifier`, `score`, `pre_classifier`, ...), in a vision model
    the last linear layer or convolution.
    """
    body = getattr(model, "base_model_prefix", "")
    if body:
        return tuple(
            name
            for name, part in model.named_children()
            if name != body and any(True for _ in part.parameters())
        )
    layers = [
        name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear | torch.nn.Conv2d)
    ]
    return tuple(layers[-1:])


def predicts_tokens(model: Any) -> bool:
    """Returns whether the model's head is a language modeling head."""
    can_generate = getattr(base_of(model), "can_generate", None)
    return bool(can_generate and can_generate())


def fully_trained(model: Any) -> tuple[str, ...]:
    """Returns names of the modules that LoRA trains as a whole: a new classifier, but no language modeling head."""
    return () if predicts_tokens(model) else head_names(model)


def part_for_texts(model: Any) -> Any:
    """Returns the body of a model, and of one that writes texts without what it has for images and sounds."""
    writes = getattr(model, "can_generate", bool)()
    return model.get_decoder() if writes else getattr(model, "base_model", model)


def adaptable_layers(model: Any, without: Iterable[str]) -> list[str]:
    """Returns names of the layers that can have an adapter: linear ones, quantized or not, and ungrouped convolutions.

    PEFT 0.21 can't merge an adapter of a grouped convolution. Modules `without` are left out with everything in them,
    and so is what a model that writes texts has for images and sounds.
    """
    excluded = tuple(without)
    used = {*part_for_texts(model).modules()}
    return [
        name
        for name, layer in model.named_modules()
        if layer in used
        and _takes_lora(layer)
        and not any(name == whole or name.startswith(f"{whole}.") for whole in excluded)
    ]


def _takes_lora(layer: Any) -> bool:
    if isinstance(layer, torch.nn.Conv2d):
        return layer.groups == 1
    return _is_linear(layer)


def _is_linear(layer: Any) -> bool:
    return isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"  # GPT-2's linear layer


def block_lists(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields names and lists of repeated blocks (encoder, decoder): the outermost module lists with linear layers."""
    taken: list[str] = []
    for name, part in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in taken)
        if isinstance(part, torch.nn.ModuleList) and not inside and any(map(_is_linear, part.modules())):
            taken.append(name)
            yield name, part


def block_names(model: Any) -> list[str]:
    """Returns the names of a model's blocks, in order."""
    return [f"{name}.{number}" for name, blocks in block_lists(model) for number in range(len(blocks))]


def owners(weights: Iterable[str]) -> tuple[str, ...]:
    """Returns names of the modules that have these weights, in order, without duplicates."""
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name in weights))


def weights_of(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Returns all weights that the model uses, with their names."""
    return ((name, weight) for name, weight in model.named_parameters() if REPLACED not in name)


def count(weight: Any) -> int:
    """Counts the elements of a weight: in 4 bits, two share a byte; under ZeRO-3 the tensor is empty."""
    state = getattr(weight, "quant_state", None)
    partitioned: int | None = getattr(weight, "ds_numel", None)
    return math.prod(state.shape) if state is not None else int(partitioned or weight.numel())


def is_quantized(weight: torch.nn.Parameter) -> bool:
    """Returns whether bitsandbytes has quantized the weight to 4 or 8 bits."""
    return weight.dtype in (torch.uint8, torch.int8)


# --- Quantized weights, for QLoRA


def quantization_arguments(options: RunOptions, unpacked: Sequence[str]) -> dict[str, Any]:
    """Returns arguments of `from_pretrained` that quantize the weights as they are read, but not `unpacked` modules."""
    from transformers import BitsAndBytesConfig

    # or it says for each layer and batch that int8 multiplies in fp16
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    if options.model.quantization is Quantization.INT8:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=list(unpacked))
    else:
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=COMPUTED_IN.get(options.device.precision, torch.float32),
            llm_int8_skip_modules=list(unpacked),
        )
    arguments: dict[str, Any] = {"quantization_config": config}
    # by default transformers takes an NVIDIA GPU, or else the CPU
    if options.device.name == "cpu" or torch.backends.mps.is_available():
        arguments["device_map"] = {"": "cpu" if options.device.name == "cpu" else "mps"}
    return arguments


BLOCK = 64
"""Weights that share a scale in 4 bits."""


def left_unpacked(model: Any, options: RunOptions) -> tuple[str, ...]:
    """Returns the modules that QLoRA doesn't quantize: the head, which learns, and what a CPU would unpack wrongly.

    On CPUs, bitsandbytes 0.50.2 gives wrong weights for 4-bit layers with a width that is no multiple of 64.
    """
    heads = head_names(model)
    if options.device.name != "cpu" or options.model.quantization is Quantization.INT8:
        return heads
    layers = adaptable_layers(model, heads)
    return (*heads, *(name for name in layers if not can_be_packed(model.get_submodule(name))))


def can_be_packed(layer: Any) -> bool:
    """Returns whether a CPU unpacks this layer's weights rightly from 4 bits."""
    return bool(layer.weight.shape[0 if type(layer).__name__ == "Conv1D" else 1] % BLOCK == 0)


def prepare_quantized(model: Any) -> None:
    """Prepares a quantized model for LoRA.

    On CPUs with AVX512_BF16, bitsandbytes would repack 4-bit weights the first time they are used without gradients,
    into a form that has no backward pass: the first evaluation would end the training.
    """
    for part in model.modules():
        if hasattr(part, "support_avx512bf16_for_cpu"):
            part.support_avx512bf16_for_cpu = False
    # On a CPU, weights that aren't quantized are views of the mapped file, which keep all of its pages in memory:
    # 326 MB of a BERT of base size, instead of 41 MB.
    for weight in model.parameters():
        if weight.device.type == "cpu" and not is_quantized(weight):
            weight.data = weight.data.clone()


# --- Frozen weights in 16 bits


def frozen_dtype(options: RunOptions) -> torch.dtype:
    """Returns the format in which matrices that don't learn are held: float32 where all learn."""
    is_frozen = options_by_path()["model.frozen_precision"].applies_to(options)
    return HELD_IN.get(options.model.frozen_precision, torch.float32) if is_frozen else torch.float32


def frozen_layers(model: Any) -> dict[str, Any]:
    """Returns, by name, the layers whose matrices never learn with a frozen base and aren't quantized.

    Biases, norms and single parameters are not among them: they take under 1 % of the memory, and layers that add or
    multiply by them directly need them in fp32.
    """
    trained = tuple(f"{name}." for name in fully_trained(model))
    exact = {*READ_DIRECTLY, *(getattr(base_of(model), "_keep_in_fp32_modules", None) or ())}
    return {
        name: layer
        for name, layer in model.named_modules()
        if (isinstance(layer, MATRIX_LAYERS) or type(layer).__name__ == "Conv1D")
        and type(layer.weight) is torch.nn.Parameter
        and not f"{name}.".startswith(trained)
        and name.rpartition(".")[2] not in exact
    }


@contextmanager
def loading_frozen_in(dtype: torch.dtype) -> Iterator[None]:
    """Has transformers read the matrices of `frozen_layers` in `dtype`, and all else in fp32.

    Its own `dtype` would round new heads and norms, too. In fp32 first, the model would take twice the memory. The
    method is private in transformers 5.23, which reads there what a model's class keeps in fp32.
    """
    from transformers import PreTrainedModel

    def plan(model: Any, _dtype: torch.dtype) -> dict[str, torch.dtype]:
        return {f"^{re.escape(name)}\\.weight$": dtype for name in frozen_layers(model)}

    usual = PreTrainedModel._get_dtype_plan
    if dtype is not torch.float32:
        PreTrainedModel._get_dtype_plan = plan  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        PreTrainedModel._get_dtype_plan = usual  # type: ignore[method-assign]


def hold_frozen(model: Any, dtype: torch.dtype, fresh: Iterable[str] = ()) -> None:
    """Holds the matrices of `frozen_layers` in `dtype`, whatever the model computes in; `fresh` modules learn.

    All that passes between layers keeps the format that it has with fp32 weights: embeddings return fp32, and a layer
    computes in autocast's format, or without it in fp32, with a copy of its matrix that lasts as long as its product.
    """
    if dtype is torch.float32:
        return
    learning = tuple(f"{module}." for module in fresh)
    for name, layer in frozen_layers(model).items():
        if f"{name}.".startswith(learning):
            continue
        layer.weight.data = layer.weight.data.to(dtype)
        if isinstance(layer, torch.nn.Embedding):
            layer.register_forward_hook(lambda _layer, _inputs, values: values.float())
        else:
            layer.forward = partial(_product, layer)
    for weight in model.parameters():  # as in `prepare_quantized`
        if weight.device.type == "cpu" and weight.dtype is torch.float32:
            weight.data = weight.data.clone()


def _product(layer: Any, values: torch.Tensor) -> torch.Tensor:
    kind = values.device.type
    computed_in = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32
    if computed_in == layer.weight.dtype:
        found: torch.Tensor = type(layer).forward(layer, values)  # under autocast
        return found
    values = values.to(computed_in)
    if isinstance(layer, torch.nn.Conv2d) and (
        isinstance(layer.padding, str) or layer.padding_mode != "zeros"
    ):
        bias = None if layer.bias is None else layer.bias.to(computed_in)
        return layer._conv_forward(values, layer.weight.to(computed_in), bias)
    result: torch.Tensor = _Product.apply(values, layer)
    return result


class _Product(torch.autograd.Function):
    """A layer's product with a copy of its matrix in the format of the input, which autograd would keep."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, layer: Any) -> torch.Tensor:
        ctx.layer, ctx.shape = layer, values.shape
        matrix, bias = layer.weight.to(values.dtype), None
        if layer.bias is not None:
            bias = layer.bias.to(values.dtype)
        if isinstance(layer, torch.nn.Conv2d):
            return layer._conv_forward(values, matrix, bias)
        return torch.nn.functional.linear(
            values, matrix if isinstance(layer, torch.nn.Linear) else matrix.t(), bias
        )

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        layer, matrix = ctx.layer, ctx.layer.weight.to(gradient.dtype)
        if isinstance(layer, torch.nn.Conv2d):
            sizes = (layer.stride, layer.padding, layer.dilation, layer.groups)
            return torch.nn.grad.conv2d_input(ctx.shape, matrix, gradient, *sizes), None
        return gradient @ (matrix if isinstance(layer, torch.nn.Linear) else matrix.t()), None


# --- LoRA's target layers


SHOWN = 8
ALL_LAYERS = Fix(_("Use LoRA on all layers that support it"), {"model.lora_targets": ()})
USUAL = ("query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "query_proj", "value_proj", "c_attn", "Wqkv")
"""What models call the layers that the paper on LoRA (arXiv 2106.09685) adapts."""


class LoraTargetError(ModelError):
    """LoRA's targets match no layer; `path` is the option to change."""

    path = "model.lora_targets"


class LoraBlocksError(LoraTargetError):
    """The last blocks have no such layer, or the model has no blocks."""

    path = "model.lora_layers"


def find_targets(model: Any, names: Iterable[str], trained_whole: Iterable[str], last: int = 0) -> list[str]:
    """Returns full names of the layers that get an adapter.

    Args:
        model: The model, not yet wrapped; its weights may be on the meta device.
        names: The value of `model.lora_targets`: ends of names, so that `query` means every layer called that. Empty
            for all layers.
        trained_whole: Modules that are trained as a whole, such as the classifier, and get no adapter.
        last: Number of the model's last blocks whose layers get one; 0 for all layers, also those outside of blocks.

    Raises:
        LoraTargetError: A name matches no layer that supports it, or there is no such layer at all.
    """
    names, layers = tuple(names), adaptable_layers(model, trained_whole)
    if not layers:
        raise LoraTargetError(
            _("This model has no layer for LoRA"),
            _("It has no linear layer and no convolution outside its classifier."),
            (Fix(_("Train everything"), {"model.method": "full"}),),
        )
    unknown = [name for name in names if not any(_ends_in(layer, name) for layer in layers)]
    if unknown:
        usable = list(dict.fromkeys(map(_last_name, layers)))
        raise LoraTargetError(
            _("LoRA can't be used on {names}").format(names=_listed(unknown)),
            _("Layers of this model that support it are called {names}.").format(names=_listed(usable)),
            _target_fixes(names, unknown, usable),
        )
    found = [layer for layer in layers if not names or any(_ends_in(layer, name) for name in names)]
    if last:
        blocks = tuple(f"{block}." for block in block_names(model)[-last:])
        found = [layer for layer in found if layer.startswith(blocks)]
    if not found:
        raise LoraBlocksError(
            _("LoRA finds no layer in the last blocks"),
            _("They have none that supports it and is a target, or this model isn't made of blocks."),
            (Fix(_("Use LoRA in the whole model"), {"model.lora_layers": 0}),),
        )
    return found


def _ends_in(layer: str, name: str) -> bool:
    """Returns whether `name` is the last part or parts of a layer's name, as PEFT reads it."""
    return layer == name or layer.endswith(f".{name}")


def _last_name(layer: str) -> str:
    """Returns the last part of a layer's name, with the part before a number: `query`, `downsample.0`."""
    parts = layer.split(".")
    return ".".join(parts[-2:]) if parts[-1].isdecimal() else parts[-1]


def _target_fixes(names: Sequence[str], unknown: list[str], usable: list[str]) -> tuple[Fix, ...]:
    close = [match for name in unknown for match in difflib.get_close_matches(name, usable, n=1)]
    known = [name for name in names if name not in unknown]
    offered = tuple(dict.fromkeys([*known, *close] if close else [name for name in usable if name in USUAL]))
    if not offered:
        return (ALL_LAYERS,)
    use = Fix(_("Use {offered}").format(offered=", ".join(offered)), {"model.lora_targets": offered})
    return (use, ALL_LAYERS)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
