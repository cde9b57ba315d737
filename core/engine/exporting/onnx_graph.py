"""ONNX by torch's own exporter (https://docs.pytorch.org/docs/stable/onnx_export.html), checked with ONNX Runtime."""

import json
import warnings
from pathlib import Path
from typing import Any

import torch

from core.engine.exporting.agreement import KERNELS
from core.engine.exporting.folders import BESIDE, copy_files
from core.engine.exporting.graphs import OUTPUT, Logits, axes, names_of, sample
from core.engine.exporting.rows import Rows, find_rows
from core.engine.exporting.trained import load_trained, merged
from core.engine.exporting.written import Place, Tell, Written, by_logits
from core.errors import ModelError
from core.export_offers import ExportSource

GRAPH = "model.onnx"


def write_onnx(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the model as one graph for any number of examples, of texts of any length, and its tokenizer beside.

    Raises:
        ModelError: The model can't be read, or computes something that ONNX has no words for.
    """
    tell("Loading the model")
    model = merged(load_trained(source))
    rows = find_rows(source)
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")  # masks of the other kinds depend on what is masked
    tell("Writing the graph")
    _export(model, rows, place.into / GRAPH)
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    labels = getattr(getattr(model, "config", None), "id2label", None)
    if labels and source.options.task.has_labels:
        (place.into / "labels.json").write_text(
            json.dumps([labels[place] for place in sorted(labels)], indent=2)
        )
    names = ", ".join(names_of(rows))
    note = f"Inputs: {names}; output: {OUTPUT}. Batches of any size, fp32."
    return Written(
        by_logits(source.options.task, KERNELS, lambda given: _run(place.into / GRAPH, given)), notes=(note,)
    )


def _export(model: Any, rows: Rows, path: Path) -> None:
    names, dynamic = names_of(rows), axes(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's and onnxscript's about each other
        try:
            torch.onnx.export(
                Logits(model, names).eval(),
                sample(rows),
                str(path),
                input_names=list(names),
                output_names=[OUTPUT],
                dynamic_shapes=(
                    tuple(dict.fromkeys(dynamic[name], torch.export.Dim.DYNAMIC) for name in names),
                ),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            said = str(error.__cause__ or error).strip().splitlines()
            raise ModelError(
                "This model can't be written as ONNX", said[0] if said else type(error).__name__
            ) from error


def _run(path: Path, rows: Rows) -> list[torch.Tensor]:
    """The logits of each example by ONNX Runtime, every other one asked as the second of a batch of two."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = [one.name for one in session.get_inputs()]
    found = []
    for number, row in enumerate(rows.rows):
        times = 1 + number % 2
        given = {name: row.inputs[name].expand(times, *row.inputs[name].shape[1:]).numpy() for name in wanted}
        found.append(torch.from_numpy(session.run([OUTPUT], given)[0])[-1].float())
    return found
