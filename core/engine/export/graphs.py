"""Writes models as graphs: ONNX, and Core ML by Apple's coremltools on a Mac."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.base.errors import ModelError
from core.base.language import _
from core.engine.export.formats import BESIDE, copy_files
from core.engine.export.verify import (
    APPLE,
    KERNELS,
    ExampleBatches,
    ExportTarget,
    Tell,
    Written,
    by_logits,
    find_rows,
    load_trained,
    merged,
)
from core.engine.models.vision import read_recipe
from core.runs.export_source import ExportSource

# --- What ONNX and Core ML share: a model as a function of tensors


OUTPUT = "logits"


class Logits(torch.nn.Module):
    """A model as a function of positional tensors.

    Args:
        model: Takes the tensors by name.
        names: Their names, in order.
    """

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(**dict(zip(self.names, tensors, strict=True)))["logits"]
        return logits


def sample(rows: ExampleBatches) -> tuple[torch.Tensor, ...]:
    """Returns a batch of two for tracing: a batch size of one would become a constant."""
    longest = max(rows.rows, key=lambda row: next(iter(row.inputs.values())).shape[1])
    return tuple(torch.cat((value, value)) for value in longest.inputs.values())


def _metadata(source: ExportSource, model: Any, rows: ExampleBatches) -> dict[str, str]:
    """Returns what a program needs to know to use the graph, by name; lists are in JSON."""
    task, inputs = source.options.task, ", ".join(rows.rows[0].inputs)
    if task.reads_images:
        recipe = read_recipe(source.folder)
        return {
            "task": str(task),
            "inputs": inputs,
            "labels": json.dumps(recipe.labels, ensure_ascii=False),
            "image_size": str(recipe.image_size),
            "image_mean": json.dumps(recipe.mean),
            "image_std": json.dumps(recipe.std),
            "image_layout": "NCHW",
            "image_colors": "RGB",
            "image_range": "0 to 1, then (value - image_mean) / image_std",
            "image_resize": "bilinear",
            "image_fit": recipe.image_fit.value,
        }
    told = {"task": str(task), "inputs": inputs, "tokenizer": "tokenizer.json"}
    told |= {"max_length": str(source.options.data.max_length)}
    if task.has_labels:
        names = [name for _place, name in sorted(model.config.id2label.items())]
        told |= {"labels": json.dumps(names, ensure_ascii=False)}
    return told


def _write_beside(source: ExportSource, place: ExportTarget, metadata: Mapping[str, str]) -> None:
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    if "labels" in metadata:
        (place.into / "labels.json").write_text(metadata["labels"] + "\n", encoding="utf-8")


def _ready_to_trace(source: ExportSource, tell: Tell) -> tuple[Any, ExampleBatches]:
    tell(_("Loading the model"))
    model = merged(load_trained(source))
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")  # masks of the other kinds depend on what is masked
    return model, find_rows(source)


# --- Core ML by Apple's coremltools, on a Mac where it is installed


PACKAGE = "model.mlpackage"
LONGEST = 512
"""The most tokens of a text: Core ML requires a limit."""


def write_coreml(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes the model as an ML program for one example: a text of up to 512 tokens, or an image.

    Raises:
        ModelError: The model can't be read, or coremltools can't convert it.
    """
    model, rows = _ready_to_trace(source, tell)
    metadata = _metadata(source, model, rows)
    if "max_length" in metadata:
        metadata["max_length"] = str(min(LONGEST, int(metadata["max_length"])))
    tell(_("Converting to Core ML"))
    try:
        _convert_to_coreml(model, rows, place.into / PACKAGE, metadata)
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        raise ModelError(
            _("coremltools can't convert this model"), str(error).strip().partition("\n")[0]
        ) from error
    _write_beside(source, place, metadata)
    note = _("Inputs: {names}; output: {output}. One example at a time, fp32.").format(
        names=metadata["inputs"], output=OUTPUT
    )
    check = by_logits(source.options.task, APPLE, lambda given: _run_coreml(place.into / PACKAGE, given))
    return Written(check, notes=(note,), metadata=metadata)


def _convert_to_coreml(model: Any, rows: ExampleBatches, path: Path, metadata: Mapping[str, str]) -> None:
    import coremltools

    names = tuple(rows.rows[0].inputs)
    one = tuple(value[:1] for value in sample(rows))
    traced = torch.jit.trace(Logits(model, names).eval(), one, strict=False)
    converted = coremltools.convert(
        traced,
        convert_to="mlprogram",
        inputs=[_input(coremltools, name, value) for name, value in zip(names, one, strict=True)],
        outputs=[coremltools.TensorType(name=OUTPUT)],
        compute_precision=coremltools.precision.FLOAT32,
    )
    for name, value in metadata.items():
        converted.user_defined_metadata[name] = value
    converted.save(str(path))


def _input(coremltools: Any, name: str, value: torch.Tensor) -> Any:
    if value.dtype == torch.long:
        shape = (1, coremltools.RangeDim(lower_bound=1, upper_bound=LONGEST, default=value.shape[1]))
        return coremltools.TensorType(name=name, shape=shape, dtype=np.int32)
    return coremltools.TensorType(name=name, shape=tuple(value.shape), dtype=np.float32)


def _run_coreml(path: Path, rows: ExampleBatches) -> list[torch.Tensor]:
    import coremltools

    model = coremltools.models.MLModel(str(path))
    found = []
    for row in rows.rows:
        given = {
            name: value.numpy().astype(np.int32 if value.dtype == torch.long else np.float32)
            for name, value in row.inputs.items()
        }
        found.append(torch.from_numpy(np.asarray(model.predict(given)[OUTPUT]))[0].float())
    return found


# --- ONNX by torch's own exporter (https://docs.pytorch.org/docs/stable/onnx_export.html)


GRAPH = "model.onnx"


def write_onnx(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes the model as one graph for any batch size and text length, with its tokenizer.

    Raises:
        ModelError: The model can't be read, or has an operator that ONNX lacks.
    """
    model, rows = _ready_to_trace(source, tell)
    tell(_("Writing the graph"))
    metadata = _metadata(source, model, rows)
    _export(model, rows, place.into / GRAPH, metadata)
    _write_beside(source, place, metadata)
    note = _("Inputs: {names}; output: {output}. Any batch size, fp32.").format(
        names=metadata["inputs"], output=OUTPUT
    )
    check = by_logits(source.options.task, KERNELS, lambda given: _run_onnx(place.into / GRAPH, given))
    return Written(check, notes=(note,), metadata=metadata)


def _export(model: Any, rows: ExampleBatches, path: Path, metadata: Mapping[str, str]) -> None:
    names = tuple(rows.rows[0].inputs)
    axes = {0: "batch", 1: "sequence"} if "input_ids" in names else {0: "batch"}  # of any size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's and onnxscript's about each other
        try:
            program = torch.onnx.export(
                Logits(model, names).eval(),
                sample(rows),
                input_names=list(names),
                output_names=[OUTPUT],
                dynamic_shapes=((axes,) * len(names),),
                dynamo=True,
                verbose=False,
            )
            assert program is not None, "None is of the exporter before dynamo"
            program.model.metadata_props.update(metadata)
            program.save(path, external_data=False)
        except torch.onnx.errors.OnnxExporterError as error:
            line = next(iter(str(error.__cause__ or error).strip().splitlines()), type(error).__name__)
            raise ModelError(_("This model can't be written as ONNX"), line) from error


def _run_onnx(path: Path, rows: ExampleBatches) -> list[torch.Tensor]:
    """Returns the logits of each example from ONNX Runtime, every other one in a batch of two."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    found = []
    for number, row in enumerate(rows.rows):
        times = 1 + number % 2
        given = {name: row.inputs[name].expand(times, *row.inputs[name].shape[1:]).numpy() for name in names}
        found.append(torch.from_numpy(session.run([OUTPUT], given)[0])[-1].float())
    return found
