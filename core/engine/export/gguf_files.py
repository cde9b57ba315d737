"""Writes GGUF files by llama.cpp's own converter, where it is installed, and reads them back."""

import math
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.base import llama_cpp
from core.base.errors import ModelError
from core.base.language import _
from core.base.processes import command_line, foreign_environment
from core.engine.export.formats import write_whole
from core.engine.export.verify import (
    HALF,
    ExampleBatches,
    ExportTarget,
    NotChecked,
    Tell,
    Tolerance,
    Written,
    answers,
    by_logits,
)
from core.engine.models.refusals import auto_class
from core.jobs.export import NumberFormat
from core.runs.export_source import ExportSource

OUT_TYPES = {NumberFormat.FP32: "f32", NumberFormat.BF16: "bf16"}
"""The converter's names of formats; others are written in, or made from, fp16."""
LAST_LINES = 6


def write_gguf(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes one GGUF file, and reads it back into the trained model's architecture.

    Raises:
        ModelError: The model can't be read, or llama.cpp failed.
    """
    from transformers import AutoConfig

    numbers, name = place.numbers, f"{source.run.name}.gguf"
    whole = replace(place, numbers=NumberFormat.AUTO) if numbers.is_quantized else place
    tolerance = write_whole(source, whole, tell)
    tell(_("Converting to GGUF"))
    config, file = AutoConfig.from_pretrained(place.into, trust_remote_code=False), place.into / name
    if numbers is NumberFormat.AUTO:
        numbers = NumberFormat.BF16 if config.dtype == torch.bfloat16 else NumberFormat.FP16
    script = (llama_cpp.find_python(), llama_cpp.find_converter(), place.into)
    _run_llama_cpp(file, *script, "--outfile", file, "--outtype", OUT_TYPES.get(numbers, "f16"))
    for path in place.into.iterdir():
        if path != file:
            path.unlink()  # the one file has all of it
    if numbers.is_quantized:
        tell(_("Quantizing to {numbers}").format(numbers=numbers))
        tolerance = _quantize(file, numbers)
    tolerance = HALF.get(numbers, tolerance)
    command = command_line("llama-cli", "-m", place.target / name)
    checked = _("The weights were checked, llama.cpp itself was not run.")
    notes = (_("To use it: {command}").format(command=command), checked)

    def read(rows: ExampleBatches) -> list[torch.Tensor]:
        try:
            model, info = auto_class(source.options.task).from_pretrained(
                place.into, gguf_file=name, config=config, dtype=torch.float32, output_loading_info=True
            )
        except (ValueError, NotImplementedError, KeyError):
            info = {"missing_keys": config.architectures}
        if info["missing_keys"]:
            raise NotChecked(_("Not checked: transformers can't read a GGUF file of this architecture."))
        return answers(model.eval(), rows)

    return Written(by_logits(source.options.task, tolerance, read), notes, code=command)


QUANTIZED = {NumberFormat.Q8_0: 0.05, NumberFormat.Q4_0: 0.5, NumberFormat.Q4_K_M: 0.5}
"""Tolerances, see `Tolerance`."""
FARTHEST = {"Q8_0": 0.57, "Q4_0": 1.01}
"""The largest error of a weight in steps of its block: half a step, and 127 or 8 roundings of the step to fp16. In Q4_0
a block has from -8 to 7 steps, so that a weight near 8 steps is off by up to a whole one."""


def _quantize(file: Path, numbers: NumberFormat) -> Tolerance:
    """Quantizes a GGUF file of fp16 in its place, by the package gguf or llama.cpp, and reads its weights back.

    Raises:
        ModelError: llama.cpp failed, or a weight isn't within the rounding error of its block.
    """
    full = file.rename(file.with_suffix(".fp16"))
    if numbers is NumberFormat.Q4_K_M:
        _run_llama_cpp(file, llama_cpp.find_quantizer(), full, file, numbers.name)
    else:
        _write_quantized(full, file, numbers.name)
    share = _rounding(full, file)
    full.unlink()
    why = _("{numbers} rounds the weights: read back, they are off by {share:.1f} % (root mean square).")
    return Tolerance(QUANTIZED[numbers], why.format(numbers=numbers, share=100 * share))


def _write_quantized(full: Path, file: Path, name: str) -> None:
    """Quantizes what the converter has stored in fp16; it leaves in fp32 what llama.cpp doesn't quantize.

    Rows that don't divide into blocks stay in fp16. Q4_0 has an output layer of Q8_0; llama.cpp keeps 6 bits of it.
    """
    import gguf

    reader, kinds = gguf.GGUFReader(full), gguf.GGMLQuantizationType
    head = next((one.name for one in reader.tensors if one.name == "output.weight"), "token_embd.weight")
    writer = gguf.GGUFWriter(file, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1])
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{name}"])
    for tensor in reader.tensors:
        kind, data = tensor.tensor_type, tensor.data
        if kind == kinds.F16 and data.shape[-1] % gguf.GGML_QUANT_SIZES[kinds[name]][0] == 0:
            kind = kinds.Q8_0 if tensor.name == head else kinds[name]
            data = gguf.quantize(data, kind)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rounding(full: Path, file: Path) -> float:
    """Returns the root mean square of the quantized weights' errors, relative to that of the weights."""
    import gguf

    exact = {tensor.name: tensor for tensor in gguf.GGUFReader(full).tensors}
    wrong = whole = 0.0
    for tensor in gguf.GGUFReader(file).tensors:
        before, kind = exact[tensor.name], tensor.tensor_type
        if kind == before.tensor_type:
            continue
        weights = gguf.dequantize(before.data, before.tensor_type)
        errors = np.abs(gguf.dequantize(tensor.data, kind) - weights)
        wrong, whole = wrong + float(np.square(errors).sum()), whole + float(np.square(weights).sum())
        if kind.name in FARTHEST:  # its blocks begin with their step in fp16
            blocks = tensor.data.reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
            steps = np.abs(blocks[:, :2].copy().view(np.float16).astype(np.float32))
            steps = np.maximum(steps, np.finfo(np.float16).tiny)  # smaller ones have few bits
            if (errors.reshape(len(blocks), -1) > FARTHEST[kind.name] * steps).any():
                raise ModelError(_("The quantized weights differ from the trained ones"), tensor.name)
    return math.sqrt(wrong / whole) if whole else 0.0


def _run_llama_cpp(made: Path, *command: Any) -> None:
    """Runs a program of llama.cpp, or Python with a script of it, that makes a file."""
    done = subprocess.run(
        list(command),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        env=foreign_environment(),
    )
    if not done.returncode and made.is_file():
        return
    if missing := llama_cpp.MISSING.search(done.stderr):
        raise ModelError(
            _("The Python that runs llama.cpp's converter lacks its requirements"),
            llama_cpp.lacks_module(str(command[0]), missing[1]),
        )
    lines = (done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:]
    title = _("llama.cpp could not convert this model")
    raise ModelError(title, "\n".join((f"{command_line(*command[:2])}:", *lines)))
