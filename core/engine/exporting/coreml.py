"""Core ML by Apple's coremltools, on a Mac where it is installed.

Written against its documentation (https://apple.github.io/coremltools/docs-guides/source/convert-pytorch-workflow.html)
and never run: no Mac was at hand. Nothing else depends on this module, and its check would tell where it is wrong.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.engine.exporting.agreement import APPLE
from core.engine.exporting.folders import BESIDE, copy_files
from core.engine.exporting.graphs import OUTPUT, Logits, names_of, sample
from core.engine.exporting.rows import Rows, find_rows
from core.engine.exporting.trained import load_trained, merged
from core.engine.exporting.written import Place, Tell, Written, by_logits
from core.errors import ModelError
from core.export_offers import ExportSource

PACKAGE = "model.mlpackage"
LONGEST = 512
"""Tokens a text may have: Core ML wants to know the most."""


def write_coreml(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the model as an ML program that takes one example, a text of up to 512 tokens or an image.

    Raises:
        ModelError: The model can't be read, or coremltools can't convert it.
    """
    tell("Loading the model")
    model = merged(load_trained(source))
    rows = find_rows(source)
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")
    tell("Converting to Core ML")
    try:
        _convert(model, rows, place.into / PACKAGE)
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        raise ModelError(
            "coremltools can't convert this model", str(error).strip().partition("\n")[0]
        ) from error
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    note = f"Inputs: {', '.join(names_of(rows))}; output: {OUTPUT}. One example at a time, fp32."
    return Written(
        by_logits(source.options.task, APPLE, lambda given: _run(place.into / PACKAGE, given)), notes=(note,)
    )


def _convert(model: Any, rows: Rows, path: Path) -> None:
    import coremltools

    names = names_of(rows)
    one = tuple(value[:1] for value in sample(rows))
    traced = torch.jit.trace(Logits(model, names).eval(), one, strict=False)
    converted = coremltools.convert(
        traced,
        convert_to="mlprogram",
        inputs=[_input(coremltools, name, value) for name, value in zip(names, one, strict=True)],
        outputs=[coremltools.TensorType(name=OUTPUT)],
        compute_precision=coremltools.precision.FLOAT32,
    )
    converted.save(str(path))


def _input(coremltools: Any, name: str, value: torch.Tensor) -> Any:
    if value.dtype == torch.long:
        shape = (1, coremltools.RangeDim(lower_bound=1, upper_bound=LONGEST, default=value.shape[1]))
        return coremltools.TensorType(name=name, shape=shape, dtype=np.int32)
    return coremltools.TensorType(name=name, shape=tuple(value.shape), dtype=np.float32)


def _run(path: Path, rows: Rows) -> list[torch.Tensor]:
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
