"""States what ran, from MLX's live objects."""

from collections.abc import Iterable
from importlib.metadata import version
from string import digits
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.dora import DoRALinear

from core.base.language import ngettext
from core.engine.data.batches import GROUPED, padded_to
from core.engine.devices.choose import ResolvedRun
from core.engine.mlx.batches import Batches
from core.engine.mlx.build import MlxModel, packed
from core.engine.mlx.losses import ADAPTERS
from core.engine.mlx.optimizers import (
    ClippedOptimizer,
    decayed_parameters,
    optimizer_name,
    optimizer_numbers,
    state_bytes,
)
from core.runs.events import WhatRan


def what_ran(
    loaded: MlxModel,
    optimizer: ClippedOptimizer,
    batches: Batches,
    computed_in: mx.Dtype,
    resolved: ResolvedRun,
) -> WhatRan:
    """Reads the live objects after the first step.

    Args:
        loaded: The model.
        optimizer: Its optimizer.
        batches: What it is trained on.
        computed_in: The format of its activations.
        resolved: The run.
    """
    model: Any = loaded.model
    options = resolved.options
    trained = tree_flatten(model.trainable_parameters(), destination={})
    weights = tree_flatten(model.parameters(), destination={})
    quantized = packed(model)
    scales = {f"{name}.{part}" for name in quantized for part in ("weight", "scales", "biases")}
    frozen = [
        one for name, one in weights.items() if name not in trained and name not in scales and one.ndim > 1
    ]
    state = state_bytes(optimizer)
    whole = sum(one.size for name, one in weights.items() if name not in scales)
    packed_parameters = sum(one.weight.size * 32 // one.bits for one in quantized.values())
    places = next(batches.places_after(0))
    is_gpu = mx.default_device() == mx.Device(mx.gpu)
    return WhatRan(
        engine=f"MLX {version('mlx')}, mlx-lm {version('mlx-lm')}",
        device=resolved.label if is_gpu else "cpu",
        device_name=resolved.device.title,
        parameter_dtype=_dtypes(trained.values()),
        autocast_dtype=None if computed_in == mx.float32 else _name(computed_in),
        preference_loss=options.preference.label if options.preference else "",
        optimizer=optimizer_name(optimizer),
        optimizer_numbers=optimizer_numbers(optimizer),
        optimizer_state_bytes=sum(state.values()),
        optimizer_state=state,
        decayed_parameters=decayed_parameters(optimizer, model),
        trainable_parameters=sum(one.size for one in trained.values()),
        total_parameters=whole + packed_parameters,
        adapter=_adapter(model, quantized),
        packed_parameters=packed_parameters,
        frozen_dtype=_dtypes(frozen),
        attention="mlx",
        recomputed=sum(hasattr(type(layer), "is_recomputed") for layer in model.layers),
        compiled="mlx" if is_gpu else "",
        empty_cache_steps=options.memory.empty_cache_steps,
        batches_per_step=len(places),
        effective_batch=sum(map(len, places)),
        padded_to=padded_to(batches.collator),
        sampling=GROUPED if batches.is_grouped else "random",
        reasons={path: why for path, why in resolved.reasons.items() if path != "device.threads"},
    )


def _dtypes(arrays: Iterable[mx.array]) -> str:
    return " + ".join(sorted({_name(one.dtype) for one in arrays}))


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def _adapter(model: nn.Module, quantized: dict[str, Any]) -> str:
    """Returns the adapter of a live model, such as "QLoRA (affine4, groups of 64), rank 16 on 12 layers"."""
    layers = [module for _name, module in model.named_modules() if isinstance(module, ADAPTERS)]
    if not layers:
        return ""
    # modes such as mxfp4 end in their bits
    bits = sorted(
        {f"{one.mode.rstrip(digits)}{one.bits}, groups of {one.group_size}" for one in quantized.values()}
    )
    method = f"QLoRA ({'; '.join(bits)})" if bits else "LoRA"
    ranks = sorted({one.lora_b.shape[0] for one in layers})
    text = ngettext(
        "{method}, rank {rank} on {count} layer", "{method}, rank {rank} on {count} layers", len(layers)
    ).format(method=method, rank=", ".join(map(str, ranks)), count=len(layers))
    return text + (", DoRA" if any(isinstance(one, DoRALinear) for one in layers) else "")
