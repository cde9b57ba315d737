"""Writes exports for mlx-lm and programs that are built on it, such as LM Studio: model folders and adapters.

For the comparison they are loaded by mlx-lm alone, without what Hone does to load a model.
"""

import json
import math
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm import utils
from transformers import AutoConfig

from core.base.errors import ModelError
from core.base.formats import capitalized, paragraph
from core.base.language import _
from core.engine.export.formats import BESIDE, copy_files, merge_notes, name_base, write_whole
from core.engine.export.job import Writer
from core.engine.export.verify import (
    ExampleBatches,
    ExportTarget,
    Tell,
    Tolerance,
    Written,
    by_logits,
    load_trained,
)
from core.engine.mlx import model as models
from core.engine.mlx.architectures import config_as_published, read_config, why_not
from core.engine.mlx.build import folder_of, use_cpu
from core.engine.mlx.names import as_published, is_undone
from core.engine.mlx.skeleton import (
    add_adapter,
    as_saved,
    is_dora,
    lora_parameters,
    set_magnitudes,
    tensor_of,
)
from core.engine.models.past_runs import BASE, base_of, config_beside
from core.engine.models.text import random_model
from core.jobs.export import ExportKind, NumberFormat
from core.options.choices import AFFINE_BITS, AFFINE_GROUP
from core.options.sources import short_name
from core.runs.export_source import ExportSource, base_name

KERNELS = Tolerance(1e-4, _("MLX adds the same numbers in another order, which changes the last digits."))
QUANTIZED = {NumberFormat.AFFINE8: 0.2, NumberFormat.AFFINE4: 1.0}
"""Tolerances, see `Tolerance`. A small Llama was off by 14 % and 72 %. `_rounding` finds weights that are wrong."""


def unpack(source: ExportSource, into: Path, tell: Tell) -> ExportSource:
    """Writes an adapter's base model that is quantized for MLX with the same numbers in fp32, as transformers loads it.

    Returns:
        The source with that folder; one with another base as it is.

    Raises:
        ModelError: The base can't be read, or its weights can't be brought into the order of transformers.
    """
    if not source.bits:
        return source
    _prepare(source)
    tell(_("Unpacking the base model"))
    folder = folder_of(base_of(source.folder))
    model = _exact(models.load(folder))
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    for name in ("quantization", "quantization_config"):
        vars(config).pop(name, None)
    with torch.device("meta"):
        like: Any = random_model(config, source.options.task)
    shapes, can_write = as_saved(like), False
    with suppress(ValueError, KeyError):  # of a `sanitize` that finds other names than it expects
        can_write = is_undone(model, shapes)
    if not can_write:
        raise ModelError(
            _("{name} can't be exported").format(name=source.run.name),
            _(
                "Its base model is quantized for MLX, and Hone can't bring the weights into the order of transformers, "
                "with which it compares each export."
            ),
        )
    into.mkdir()
    models.write(as_published(model, tree_flatten(model.parameters(), destination={}), shapes), into)
    config.architectures = [type(like).__name__]
    config.save_pretrained(into)
    return replace(source, plain=into)


def write_folder(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes a whole model as mlx-lm loads it.

    Raises:
        ModelError: The model can't be read, or mlx-lm has no such architecture.
    """
    _prepare(source)
    numbers, whole = place.numbers, place.into / "whole"
    whole.mkdir()
    scales = NumberFormat.BF16  # as mlx-lm computes with them
    unpacked = replace(place, into=whole, numbers=scales if numbers.is_quantized else numbers)
    tolerance = max(KERNELS, write_whole(source, unpacked, tell), key=lambda one: one.share)
    tell(_("Converting to MLX"))
    _convert(whole, place.into, AFFINE_BITS.get(numbers))
    if numbers.is_quantized:
        share = _rounding(models.load(whole), _plain(place.into))
        why = _("{numbers} rounds the weights: read back, they are off by {share:.1f} % (root mean square).")
        tolerance = Tolerance(QUANTIZED[numbers], why.format(numbers=numbers, share=100 * share))
    shutil.rmtree(whole)
    check = by_logits(source.options.task, tolerance, lambda rows: _answers(_exact(_plain(place.into)), rows))
    return Written(check, notes=merge_notes(source, unpacked))


def write_adapter(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes the trained matrices, and their base model if it is a past run's.

    Raises:
        ModelError: The adapter or its base can't be read, or mlx-lm alone can't load the base as it is.
    """
    _prepare(source)
    tell(_("Loading the model"))
    base = folder_of(base_of(source.folder))
    if (source.folder / BASE).is_dir():
        (place.into / BASE).mkdir()
        _convert(base, place.into / BASE)
        base = place.into / BASE
    elif not _loads_alone(base):
        raise ModelError(
            _("The adapter would be of no use to mlx-lm"),
            _("mlx-lm can't load its base model {base} as it is. Export an MLX folder.").format(
                base=short_name(base_name(source.folder))
            ),
        )
    model = models.load(base)
    layers = add_adapter(model, load_trained(source), models.published(base))
    set_magnitudes(model, layers)
    tell(_("Writing the adapter"))
    matrices = tree_flatten(model.trainable_parameters(), destination={})
    mx.save_safetensors(str(place.into / "adapters.safetensors"), matrices)
    config = {
        "fine_tune_type": "dora" if is_dora(layers) else "lora",
        "lora_parameters": lora_parameters(layers),
        "model": base_name(source.folder),
        "num_layers": len(model.layers),
    }
    (place.into / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    copy_files(source.folder, place.into, BESIDE)
    note = name_base(source, place, "model")

    def read(rows: ExampleBatches) -> list[torch.Tensor]:
        adapted = utils.load_adapters(_plain(base), str(place.into))
        return _answers(_exact(adapted), rows)

    return Written(by_logits(source.options.task, KERNELS, read), notes=(note,) if note else ())


WRITERS: Mapping[ExportKind, Writer] = {
    ExportKind.MLX: write_folder,
    ExportKind.MLX_ADAPTER: write_adapter,
}


def _prepare(source: ExportSource) -> None:
    """Has MLX compute on the CPU: a run that trains keeps the GPU, on which fp32 may be rounded.

    Raises:
        ModelError: mlx-lm has no such architecture.
    """
    use_cpu()
    config = config_as_published(config_beside(source.folder))
    if reason := why_not(config, source.options.data.max_length):
        raise ModelError(
            _("{name} can't be exported for MLX").format(name=source.run.name),
            paragraph(capitalized(reason)),
        )


def _convert(folder: Path, into: Path, bits: int | None = None) -> None:
    """Writes a model of transformers as mlx-lm does, with what mlx-lm misses in its config."""
    config, model = read_config(folder), models.load(folder)
    if bits:
        model, config = utils.quantize_model(model, config, AFFINE_GROUP, bits)
    utils.save_model(into, model)
    utils.save_config(config, into / "config.json")
    copy_files(folder, into, BESIDE)


def _plain(folder: Path) -> nn.Module:
    """Loads a model by mlx-lm alone."""
    model, _config = utils.load_model(folder, lazy=True)
    return model


def _loads_alone(folder: Path) -> bool:
    """Returns whether mlx-lm alone loads the model that it is with what mlx-lm misses in its config."""
    try:
        return bool(_plain(folder).args == models.load(folder).args)
    except (ValueError, KeyError, TypeError):
        return False


def _exact(model: nn.Module) -> nn.Module:
    """Returns a model for the comparison: in fp32 and not quantized, with the same numbers."""
    model.set_dtype(mx.float32)
    model = models.exactly_scaled(utils.dequantize_model(model))
    model.eval()
    return model


def _rounding(model: nn.Module, packed: nn.Module) -> float:
    """Returns the root mean square of the errors of packed weights, relative to that of the weights.

    Raises:
        ModelError: A weight is farther off than rounding explains.
    """
    weights = tree_flatten(model.parameters(), destination={})
    packed.set_dtype(mx.float32)
    wrong = total = 0.0
    for path, module in packed.named_modules():
        if not hasattr(module, "bits"):
            continue
        weight = weights[f"{path}.weight"].astype(mx.float32)
        read = mx.dequantize(module.weight, module.scales, module.biases, AFFINE_GROUP, module.bits)
        errors, steps = mx.abs(read - weight), mx.abs(module.scales)
        # by up to a whole step, and by the rounding of scale and offset to bf16
        farthest = 1.01 * steps + (2**module.bits * steps + mx.abs(module.biases)) / 512
        if not (errors <= mx.repeat(farthest, AFFINE_GROUP, axis=-1)).all().item():
            raise ModelError(_("The quantized weights differ from the trained ones"), path)
        wrong += float(np.array(mx.square(errors).sum()))
        total += float(np.array(mx.square(weight).sum()))
    return math.sqrt(wrong / total) if total else 0.0


def _answers(model: nn.Module, rows: ExampleBatches) -> list[torch.Tensor]:
    """Returns logits of the new tokens of each example, as `core.engine.export.verify.answers`."""
    found = []
    for row in rows.rows:
        logits = model(mx.array(row.inputs["input_ids"].numpy()))
        found.append(tensor_of(logits[0])[row.start : -1])
    return found
