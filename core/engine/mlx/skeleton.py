"""The model of transformers without weights, beside that of mlx-lm.

Its config and its adapter by PEFT decide what is trained and what is saved, so that both engines draw the same first
numbers of an adapter and write the same files.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from mlx import nn
from mlx_lm.tuner.utils import linear_to_lora_layers
from safetensors.torch import load_file
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    WeightConverter,
    WeightRenaming,
    rename_source_key,
    revert_weight_conversion,
)

from core.base.errors import ModelError
from core.base.language import _
from core.engine.mlx.names import Shapes, sources
from core.engine.models.method import apply_method
from core.engine.models.text import load_model
from core.options import RunOptions
from core.options.backend_rules import USE_TORCH
from core.options.catalogue import with_changes
from core.options.choices import FrozenPrecision, Method
from core.options.sources import MATRICES

ADAPTER = "default"
"""PEFT's name of the only adapter."""


def skeleton(options: RunOptions, config: Any, tokenizer: Any) -> Any:
    """Builds transformers' model without weights, with an adapter if the run trains one.

    Raises:
        ModelError: LoRA's targets match no layer.
    """
    return adapted(without_weights(options, config, tokenizer), options)


def adapted(model: Any, options: RunOptions) -> Any:
    """Returns a model of transformers with an adapter, if the run trains one; QLoRA's is that of LoRA."""
    is_adapted = options.model.method is not Method.FULL
    return apply_method(
        model, with_changes(options, {"model.method": Method.LORA if is_adapted else Method.FULL})
    )


def without_weights(options: RunOptions, config: Any, tokenizer: Any) -> Any:
    """Builds transformers' model without weights, and without an adapter."""
    model = on_meta(options, config, tokenizer)
    empty(model)
    return model


def on_meta(options: RunOptions, config: Any, tokenizer: Any = None) -> Any:
    """Builds transformers' model on the meta device: not even its random numbers are drawn."""
    plain = {"model.method": Method.FULL, "model.frozen_precision": FrozenPrecision.FP32}
    with torch.device("meta"):
        return load_model(with_changes(options, plain), config, (), tokenizer).model


def empty(model: torch.nn.Module) -> None:
    """Replaces each weight by a zero that stands for all of its elements; weights that are shared stay so."""
    replaced: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                zeros = torch.zeros((), dtype=weight.dtype).expand(weight.shape)
                zero = replaced.setdefault(
                    id(weight), torch.nn.Parameter(zeros, requires_grad=weight.requires_grad)
                )
                module._parameters[name] = zero


# --- Adapters


def adapted_layers(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields the names of the layers with an adapter, in transformers' model, and PEFT's layers."""
    from peft.tuners.lora import LoraLayer

    for name, layer in model.get_base_model().named_modules():
        if isinstance(layer, LoraLayer):
            yield name, layer


def add_adapter(model: nn.Module, like: Any, published: Shapes) -> dict[str, Any]:
    """Freezes a model of mlx-lm and gives it the adapter of the skeleton `like`, number by number.

    Args:
        model: The model.
        like: A skeleton with an adapter.
        published: The weights of the files that `model` was loaded from.

    Returns:
        PEFT's layer of each path in `model` that has an adapter now.

    Raises:
        ModelError: MLX computes a layer with an adapter together with others.
    """
    found = places(model, like, published)
    model.freeze()
    linear_to_lora_layers(model, 0, lora_parameters(found), use_dora=is_dora(found))
    set_matrices(model, found)
    return found


def places(model: nn.Module, like: Any, published: Shapes) -> dict[str, Any]:
    """Returns PEFT's layer of each path in `model` that is to have an adapter; see `add_adapter`."""
    named = as_loaded(like.get_base_model(), published)
    paths = {named[source]: path for path, source in sources(model, published).items()}
    found = {}
    for name, layer in adapted_layers(like):
        path = paths.get(f"{name}.weight")
        if path is None:
            raise ModelError(
                _("MLX can't train an adapter of {layer}").format(layer=name),
                _("mlx-lm's model has no such layer by itself."),
                (USE_TORCH,),
            )
        found[path.removesuffix(".weight")] = layer
    return found


def freeze_buffers(model: nn.Module, like: Any, published: Shapes) -> None:
    """Freezes what is no parameter in transformers' model: MLX takes each array for one, such as Gemma 4's scalars."""
    named, buffers = as_loaded(like, published), dict(like.named_buffers())
    modules = dict(model.named_modules())
    for path, source in sources(model, published).items():
        if named[source] in buffers:
            name, _dot, leaf = path.rpartition(".")
            modules[name].freeze(keys=[leaf], recurse=False)


def as_loaded(model: Any, names: Iterable[str]) -> dict[str, str]:
    """Returns the name in a model of transformers, which may have an adapter, of each weight in files."""
    transforms = get_model_conversion_mapping(model)
    renamings = [one for one in transforms if isinstance(one, WeightRenaming)]
    converters = [one for one in transforms if isinstance(one, WeightConverter)]
    own = {name.replace(".base_layer.", "."): True for name in model.state_dict()}
    return {
        name: rename_source_key(name, renamings, converters, model.base_model_prefix, own)[0]
        for name in names
    }


def as_saved(model: Any, *, is_part: bool = False) -> Shapes:
    """Returns the shapes of the weights in the files of a model of transformers without an adapter.

    Args:
        model: The model.
        is_part: It is the part for texts of the model in the files, whose names say so.
    """
    own = {name: one for name, one in model.state_dict().items() if name not in model.all_tied_weights_keys}
    if is_part:
        model._weight_conversions = get_model_conversion_mapping(model, add_legacy=False)
    return {name: tuple(one.shape) for name, one in revert_weight_conversion(model, own).items()}


def lora_parameters(layers: dict[str, Any]) -> dict[str, Any]:
    """Returns the adapter's numbers as mlx-lm names them, from `layers` as `add_adapter` returns them."""
    first = next(iter(layers.values()))
    return {
        "rank": first.r[ADAPTER],
        "scale": first.scaling[ADAPTER],
        "dropout": getattr(first.lora_dropout[ADAPTER], "p", 0.0),
        "keys": [*layers],
    }


def set_matrices(model: nn.Module, layers: dict[str, Any]) -> None:
    """Gives adapters the matrices of PEFT's `layers`, as `add_adapter` returned them."""
    modules = dict(model.named_modules())
    for path, layer in layers.items():
        modules[path].lora_a = mx.array(layer.lora_A[ADAPTER].weight.detach().numpy().T)
        modules[path].lora_b = mx.array(layer.lora_B[ADAPTER].weight.detach().numpy().T)


def set_magnitudes(model: nn.Module, layers: dict[str, Any]) -> None:
    """Gives DoRA's adapters the magnitudes of PEFT's `layers`, as `add_adapter` returned them; others have none."""
    modules = dict(model.named_modules())
    for path, layer in layers.items() if is_dora(layers) else ():
        modules[path].m = mx.array(layer.lora_magnitude_vector[ADAPTER].weight.detach().numpy())


def is_dora(layers: dict[str, Any]) -> bool:
    return any(layer.use_dora[ADAPTER] for layer in layers.values())


def save_adapter(model: nn.Module, layers: dict[str, Any], like: Any, folder: Path) -> None:
    """Saves the adapter of a model of mlx-lm in PEFT's format.

    Args:
        model: The model.
        layers: PEFT's layers, as `add_adapter` returned them; they get the numbers.
        like: The skeleton they belong to.
        folder: Where it is saved.
    """
    modules = dict(model.named_modules())
    for path, layer in layers.items():
        trained = modules[path]
        layer.lora_A[ADAPTER].weight.data = tensor_of(trained.lora_a.T)
        layer.lora_B[ADAPTER].weight.data = tensor_of(trained.lora_b.T)
        if layer.use_dora[ADAPTER]:
            layer.lora_magnitude_vector[ADAPTER].weight.data = tensor_of(trained.m)
    like.save_pretrained(str(folder))


def take_adapter(model: nn.Module, layers: dict[str, Any], like: Any, folder: Path) -> None:
    """Gives a model of mlx-lm what `save_adapter` has saved.

    Raises:
        ValueError: It is another adapter.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    found = load_file(folder / MATRICES)
    expected = get_peft_model_state_dict(like, save_embedding_layers=False)
    if {name: one.shape for name, one in found.items()} != {
        name: one.shape for name, one in expected.items()
    }:
        raise ValueError(_("its weights differ from the run's"))
    set_peft_model_state_dict(like, found)
    set_matrices(model, layers)
    set_magnitudes(model, layers)


def tensor_of(array: mx.array) -> torch.Tensor:
    """Returns an array as a tensor in fp32."""
    return torch.from_numpy(np.array(array.astype(mx.float32)))
