"""The writers of exports: model folders for transformers or torchvision, adapters, GGUF, Core ML, Ollama and ONNX.

Each returns how its export is checked.
"""

import json
import math
import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.base.errors import ModelError
from core.base.files import is_link
from core.base.language import _
from core.base.processes import command_line, foreign_environment
from core.engine.data.chat_tokens import TURN_END, has_chatml
from core.engine.export.verify import (
    APPLE,
    EXACT,
    HALF,
    KERNELS,
    MERGED,
    NotChecked,
    Place,
    Rows,
    Tell,
    Tolerance,
    Written,
    answers,
    by_logits,
    find_rows,
    load_trained,
    merged,
)
from core.engine.models.past_runs import BASE, base_of
from core.engine.models.refusals import auto_class
from core.engine.models.text import read_pretrained
from core.engine.models.vision import PREPROCESSOR, preprocessor, read_recipe
from core.options.choices import Task
from core.options.sources import Scheme
from core.services import export
from core.services.export import ExportSource, NumberFormat, base_name, is_on_hub

# --- torchvision's networks


PREFIX = "network."
"""Prefix of the weights' names in a run, whose model is the network inside a module that computes the loss."""


def write_network(source: ExportSource, place: Place, tell: Tell) -> Tolerance:
    """Write the weights, `config.json` (architecture, labels, size and colours of images), and the preprocessor.

    Raises:
        ModelError: The model can't be read.
    """
    from safetensors.torch import save_file

    recipe = read_recipe(source.folder)
    tell(_("Loading the model"))
    model = merged(load_trained(source))
    if place.numbers in (NumberFormat.BF16, NumberFormat.FP16):
        model = model.to(torch.bfloat16 if place.numbers is NumberFormat.BF16 else torch.float16)
    state = {name.removeprefix(PREFIX): value.contiguous() for name, value in model.state_dict().items()}
    tell(_("Writing the model"))
    save_file(state, place.into / "model.safetensors", metadata={"format": "pt"})
    config = {
        "library": "torchvision",
        "architecture": Scheme.TORCHVISION.name_of(recipe.architecture),
        "labels": list(recipe.labels),
        "image_size": recipe.image_size,
        "image_mean": list(recipe.mean),
        "image_std": list(recipe.std),
    }
    (place.into / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (place.into / PREPROCESSOR).write_bytes(preprocessor(recipe.image_size, recipe.mean, recipe.std))
    return HALF.get(place.numbers, MERGED if source.is_adapter else EXACT)


def network_answers(folder: Path, rows: Rows) -> list[torch.Tensor]:
    """The logits of an exported network, loaded as in its card."""
    import torchvision
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_bytes())
    model = torchvision.models.get_model(
        config["architecture"], weights=None, num_classes=len(config["labels"])
    )
    model.load_state_dict(load_file(folder / "model.safetensors"))
    model.eval()
    with torch.no_grad():
        return [model(row.inputs["pixel_values"])[0] for row in rows.rows]


# --- Model folders: the model as it was trained


WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "config.json")
BESIDE = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "*.model", "chat_template.jinja",
    "preprocessor_config.json", "hone.json",
)  # fmt: skip
"""Files besides the weights. Nothing else is copied: no pickles, nothing that a stranger has added."""
FROM_QUANTIZED = _(
    "It was trained with quantized weights. Here and in the comparison they are not quantized: its answers differ "
    "slightly from those during training."
)
IN_FORMAT = _(
    "The adapter was merged in fp32 into the published weights, not into those that the run held, and written in "
    "{numbers}."
)
DTYPES = {
    NumberFormat.FP32: torch.float32,
    NumberFormat.BF16: torch.bfloat16,
    NumberFormat.FP16: torch.float16,
}


def write_folder(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write a whole model as transformers, or torchvision, loads it.

    Raises:
        ModelError: The model can't be read.
    """
    tolerance = write_whole(source, place, tell)
    task, folder = source.options.task, place.into
    numbers = numbers_of(source, place)
    if numbers is NumberFormat.AUTO:
        numbers = NumberFormat.FP32
    notes = (IN_FORMAT.format(numbers=numbers),) if source.is_adapter else ()
    if source.network:
        return Written(by_logits(task, tolerance, lambda rows: network_answers(folder, rows)), notes=notes)
    check = by_logits(task, tolerance, lambda rows: answers(read_pretrained(str(folder), task).eval(), rows))
    return Written(check, notes=(*notes, FROM_QUANTIZED) if source.is_packed else notes)


def write_whole(source: ExportSource, place: Place, tell: Tell) -> Tolerance:
    """Write the weights and the files besides them; returns how far its logits may be from the trained model's."""
    if source.network:
        return write_network(source, place, tell)
    copy_files(source.folder, place.into, BESIDE)
    numbers = numbers_of(source, place)
    if not source.is_adapter and numbers is NumberFormat.AUTO:
        tell(_("Copying the model"))
        copy_files(source.folder, place.into, WEIGHTS)
        return EXACT
    tell(_("Loading the model"))
    model = merged(load_trained(source))
    tell(_("Writing the model"))
    if numbers is not NumberFormat.AUTO:
        model = model.to(DTYPES[numbers])
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(place.into)
    copy_files(source.folder, place.into, ("generation_config.json",))  # with the end tokens it has learned
    return HALF.get(numbers, MERGED if source.is_adapter else EXACT)


def numbers_of(source: ExportSource, place: Place) -> NumberFormat:
    """The format of the weights; by default, merged ones are written as the base was published."""
    if place.numbers is not NumberFormat.AUTO or not source.is_adapter or source.network:
        return place.numbers
    from transformers import AutoConfig

    published = getattr(
        AutoConfig.from_pretrained(base_of(source.folder), trust_remote_code=False), "dtype", None
    )
    return next((numbers for numbers, dtype in DTYPES.items() if dtype == published), NumberFormat.FP32)


def copy_files(folder: Path, into: Path, patterns: tuple[str, ...]) -> None:
    """Copy the files that match; links, which may lead anywhere, are skipped."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not is_link(path):
                shutil.copyfile(path, into / path.name)


def change_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    values = {**json.loads(path.read_bytes()), **changes}
    values = {name: value for name, value in values.items() if value is not None or name not in changes}
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


# --- LoRA adapters


FILES = ("adapter_config.json", "adapter_model.safetensors", "config.json", *BESIDE)


def write_adapter(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Copy the matrices, and their base model if it is a past run's.

    Raises:
        ModelError: The adapter or its base can't be read.
    """
    tell(_("Copying the adapter"))
    copy_files(source.folder, place.into, FILES)
    if (place.into / "config.json").is_file():
        change_json(place.into / "config.json", quantization_config=None)
    note = _name_base(source, place)
    exported = replace(source, folder=place.into)
    check = by_logits(source.options.task, EXACT, lambda rows: answers(load_trained(exported), rows))
    return Written(check, notes=(note,) if note else ())


def _name_base(source: ExportSource, place: Place) -> str:
    """Write the base's final place into the adapter's config; returns a note on it, or an empty text."""
    base = base_name(source.folder)
    if (source.folder / BASE).is_dir():
        (place.into / BASE).mkdir()
        copy_files(source.folder / BASE, place.into / BASE, (*WEIGHTS, *BESIDE))
        base = str(place.target / BASE)
        change_json(place.into / "adapter_config.json", base_model_name_or_path=base)
        note = _(
            "Its base is the model of a past run, in {folder}/; update adapter_config.json if you move it."
        )
        return note.format(folder=BASE)
    if is_on_hub(base) or not Path(base).is_absolute():
        return ""
    return _("Its base is the model in {base}: it is needed to use the adapter.").format(base=base)


# --- GGUF by llama.cpp's own converter, where it is installed


OUT_TYPES = {NumberFormat.FP32: "f32", NumberFormat.BF16: "bf16"}
"""Of the converter; others are written in, or made from, fp16."""
LAST_LINES = 6


def write_gguf(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write one GGUF file, and read it back into the trained model's architecture.

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
    script = (export.find_python(), export.find_converter(), place.into)
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

    def read(rows: Rows) -> list[torch.Tensor]:
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
    """Quantize a GGUF file of fp16 in its place, by the package gguf or llama.cpp, and read its weights back.

    Raises:
        ModelError: llama.cpp failed, or a weight isn't within the rounding error of its block.
    """
    full = file.rename(file.with_suffix(".fp16"))
    if numbers is NumberFormat.Q4_K_M:
        _run_llama_cpp(file, export.find_quantizer(), full, file, numbers.name)
    else:
        _write_quantized(full, file, numbers.name)
    share = _rounding(full, file)
    full.unlink()
    why = _("{numbers} rounds the weights: read back, they are off by {share:.1f} % (root mean square).")
    return Tolerance(QUANTIZED[numbers], why.format(numbers=numbers, share=100 * share))


def _write_quantized(full: Path, file: Path, name: str) -> None:
    """Quantize what the converter has stored in fp16; it leaves in fp32 what llama.cpp doesn't quantize.

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
    """The root mean square of the quantized weights' errors, relative to that of the weights."""
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
    """Run a program of llama.cpp, or Python with a script of it, that makes a file."""
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
    if missing := export.MISSING.search(done.stderr):
        raise ModelError(
            _("The Python that runs llama.cpp's converter lacks its requirements"),
            export.lacks_module(str(command[0]), missing[1]),
        )
    lines = (done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:]
    title = _("llama.cpp could not convert this model")
    raise ModelError(title, "\n".join((f"{command_line(*command[:2])}:", *lines)))


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


def sample(rows: Rows) -> tuple[torch.Tensor, ...]:
    """A batch of two for tracing: a batch size of one would become a constant."""
    longest = max(rows.rows, key=lambda row: next(iter(row.inputs.values())).shape[1])
    return tuple(torch.cat((value, value)) for value in longest.inputs.values())


def _ready_to_trace(source: ExportSource, tell: Tell) -> tuple[Any, Rows]:
    tell(_("Loading the model"))
    model = merged(load_trained(source))
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")  # masks of the other kinds depend on what is masked
    return model, find_rows(source)


# --- Core ML by Apple's coremltools, on a Mac where it is installed


PACKAGE = "model.mlpackage"
LONGEST = 512
"""The most tokens of a text: Core ML requires a limit."""


def write_coreml(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the model as an ML program for one example: a text of up to 512 tokens, or an image.

    Raises:
        ModelError: The model can't be read, or coremltools can't convert it.
    """
    model, rows = _ready_to_trace(source, tell)
    tell(_("Converting to Core ML"))
    try:
        _convert_to_coreml(model, rows, place.into / PACKAGE)
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        raise ModelError(
            _("coremltools can't convert this model"), str(error).strip().partition("\n")[0]
        ) from error
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    names = ", ".join(rows.rows[0].inputs)
    note = _("Inputs: {names}; output: {output}. One example at a time, fp32.").format(
        names=names, output=OUTPUT
    )
    return Written(
        by_logits(source.options.task, APPLE, lambda given: _run_coreml(place.into / PACKAGE, given)),
        notes=(note,),
    )


def _convert_to_coreml(model: Any, rows: Rows, path: Path) -> None:
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
    converted.save(str(path))


def _input(coremltools: Any, name: str, value: torch.Tensor) -> Any:
    if value.dtype == torch.long:
        shape = (1, coremltools.RangeDim(lower_bound=1, upper_bound=LONGEST, default=value.shape[1]))
        return coremltools.TensorType(name=name, shape=shape, dtype=np.int32)
    return coremltools.TensorType(name=name, shape=tuple(value.shape), dtype=np.float32)


def _run_coreml(path: Path, rows: Rows) -> list[torch.Tensor]:
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


# --- A model folder with a Modelfile beside, for `ollama create`


DETECTED = _(
    "Ollama recognizes well-known chat templates: “ollama show --template {name}” shows the one in use. If that is "
    "only {{{{ .Prompt }}}}, add a TEMPLATE to the Modelfile, or export GGUF: llama.cpp reads the tokenizer's own."
)


MESSAGES = """\
{{ range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
"""
"""ChatML in Ollama's Go template, as `CHATML` writes messages (https://docs.ollama.com/template, November 2026)."""


def write_ollama(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the whole model and its Modelfile: stop tokens, and the template unless it is the model's own.

    Raises:
        ModelError: The model can't be read.
    """
    from transformers import GenerationConfig

    from core.engine.models.text import load_tokenizer

    tokenizer = load_tokenizer(str(source.folder))
    written = write_folder(source, place, tell)
    ends: Any = None
    if (place.into / "generation_config.json").is_file():
        ends = GenerationConfig.from_pretrained(place.into).eos_token_id
    ids = [*([] if ends is None else [ends] if isinstance(ends, int) else ends), tokenizer.eos_token_id]
    stops = tokenizer.convert_ids_to_tokens([token for token in dict.fromkeys(ids) if token is not None])
    is_chat = source.options.task is not Task.CAUSAL_LM and bool(tokenizer.chat_template)
    is_chatml = is_chat and has_chatml(tokenizer)
    if is_chatml and TURN_END not in stops:
        stops.append(TURN_END)
    template = MESSAGES if is_chatml else "{{ .Prompt }}"
    lines = [
        "FROM .",
        *([] if is_chat and not is_chatml else [f'TEMPLATE """{template}"""']),
        # a line of a Modelfile can't hold others
        *(f'PARAMETER stop "{stop}"' for stop in stops if '"' not in stop and stop.splitlines() == [stop]),
    ]
    (place.into / "Modelfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    name = source.run.name.lower()
    steps = (("cd", place.target), ("ollama", "create", name), ("ollama", "run", name))
    commands = "\n".join(command_line(*step) for step in steps)
    note = "\n".join((_("To use it, in a terminal:"), commands))
    detected = [DETECTED.format(name=name)] if is_chat and not is_chatml else []
    checked = _("The weights were checked, Ollama itself was not run.")
    return Written(written.check, notes=(note, checked, *detected), code=commands)


# --- ONNX by torch's own exporter (https://docs.pytorch.org/docs/stable/onnx_export.html)


GRAPH = "model.onnx"


def write_onnx(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the model as one graph for any batch size and text length, with its tokenizer.

    Raises:
        ModelError: The model can't be read, or has an operator that ONNX lacks.
    """
    model, rows = _ready_to_trace(source, tell)
    tell(_("Writing the graph"))
    _export(model, rows, place.into / GRAPH)
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    labels = getattr(getattr(model, "config", None), "id2label", None)
    if labels and source.options.task.has_labels:
        (place.into / "labels.json").write_text(
            json.dumps([labels[place] for place in sorted(labels)], indent=2)
        )
    names = ", ".join(rows.rows[0].inputs)
    note = _("Inputs: {names}; output: {output}. Any batch size, fp32.").format(names=names, output=OUTPUT)
    return Written(
        by_logits(source.options.task, KERNELS, lambda given: _run_onnx(place.into / GRAPH, given)),
        notes=(note,),
    )


def _export(model: Any, rows: Rows, path: Path) -> None:
    names = tuple(rows.rows[0].inputs)
    axes = {0: "batch", 1: "sequence"} if "input_ids" in names else {0: "batch"}  # of any size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's and onnxscript's about each other
        try:
            torch.onnx.export(
                Logits(model, names).eval(),
                sample(rows),
                str(path),
                input_names=list(names),
                output_names=[OUTPUT],
                dynamic_shapes=((axes,) * len(names),),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            line = next(iter(str(error.__cause__ or error).strip().splitlines()), type(error).__name__)
            raise ModelError(_("This model can't be written as ONNX"), line) from error


def _run_onnx(path: Path, rows: Rows) -> list[torch.Tensor]:
    """The logits of each example from ONNX Runtime, every other one in a batch of two."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    found = []
    for number, row in enumerate(rows.rows):
        times = 1 + number % 2
        given = {name: row.inputs[name].expand(times, *row.inputs[name].shape[1:]).numpy() for name in names}
        found.append(torch.from_numpy(session.run([OUTPUT], given)[0])[-1].float())
    return found
