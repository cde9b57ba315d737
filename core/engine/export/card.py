"""The README.md of an exported model: what it learned from, how, how well, and how to use it.

Its front matter is what the Hub reads: https://huggingface.co/docs/hub/model-cards. Paths of this computer and the
person's own prompts are left out.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.base import formats
from core.base.formats import METRIC_TITLES
from core.base.settings import VERSION
from core.engine.models.refusals import auto_class
from core.options.catalogue import all_options, value_of, with_unit
from core.options.choices import Task
from core.options.declare import Option
from core.options.past_runs import data_name, model_name, title_of
from core.options.sources import Scheme, hub_data, is_scratch, short_name
from core.runs.event_log import EventReader
from core.runs.events import Evaluated
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.models import step_of
from core.runs.status import RunStatus
from core.runs.words import statements
from core.services.export import (
    ExportKind,
    ExportReport,
    ExportSource,
    agreement_text,
    base_folder,
    base_name,
    is_on_hub,
)

TORCHVISION = """\
import json
import torch, torchvision
from PIL import Image
from safetensors.torch import load_file
from torchvision.transforms.v2 import functional as F

folder = "."  # where this README.md lies
config = json.load(open(f"{folder}/config.json"))
model = torchvision.models.get_model(config["architecture"], weights=None, num_classes=len(config["labels"]))
model.load_state_dict(load_file(f"{folder}/model.safetensors"))
model.eval()

image = Image.open("image.png").convert("RGB").resize([config["image_size"]] * 2, Image.Resampling.BILINEAR)
pixels = F.normalize(F.pil_to_tensor(image) / 255, config["image_mean"], config["image_std"])
with torch.no_grad():
    print(config["labels"][model(pixels[None]).argmax()])"""

IMAGES = """\
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

folder = "."  # where this README.md lies
model = AutoModelForImageClassification.from_pretrained(folder)
processor = AutoImageProcessor.from_pretrained(folder)
with torch.no_grad():
    logits = model(**processor(Image.open("image.png"), return_tensors="pt")).logits
print(model.config.id2label[int(logits.argmax())])"""

TEXTS = """\
import torch
from transformers import {model}, AutoTokenizer

folder = "."  # where this README.md lies
model = {model}.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
with torch.no_grad():
    logits = model(**tokenizer("A text.", return_tensors="pt")).logits
print({answer})"""

ANSWERS = {
    Task.TEXT_CLASSIFICATION: "model.config.id2label[int(logits.argmax())]",
    Task.TEXT_REGRESSION: "float(logits)",
    Task.TOKEN_CLASSIFICATION: "[model.config.id2label[int(one)] for one in logits[0].argmax(-1)]",
}

WRITER = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # where this README.md lies
model = AutoModelForCausalLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
inputs = {inputs}
written = model.generate(**inputs, max_new_tokens=100)
print(tokenizer.decode(written[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""

PROMPT = 'tokenizer("Once", return_tensors="pt")'
CHAT = """tokenizer.apply_chat_template(
    [{"role": "user", "content": "Hello!"}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
)"""

ADAPTER = """\
from peft import PeftModel
from transformers import {model}, AutoConfig, AutoTokenizer

folder = "."  # where this README.md lies
base = {model}.from_pretrained({base!r}, config=AutoConfig.from_pretrained({config}), ignore_mismatched_sizes=True)
model = PeftModel.from_pretrained(base, folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)"""

ONNX = """\
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
print([(one.name, one.shape, one.type) for one in session.get_inputs()])
# logits, = session.run(["logits"], {name: array, ...})"""

OLLAMA = """\
ollama create my-model   # in this folder
ollama run my-model"""


OPERATORS = """\
If it fails with “operator torchvision::nms does not exist”, that torchvision was built for another PyTorch: install \
both anew from one place (`pip install --force-reinstall torch torchvision`){instead}."""
WITHOUT = ", or take torchvision out, which this model doesn't need (`pip uninstall torchvision`)"


def snippet(source: ExportSource, kind: ExportKind, into: Path) -> str:
    """How to use an export of this kind, as a block of code, and what may be in its way."""
    if kind is ExportKind.COREML:
        return "Drag `model.mlpackage` into a project in Xcode."
    if kind is ExportKind.ADAPTER and source.network:
        return (
            f"Load {base_name(source.folder)} by torchvision, then this adapter by PEFT; or export it merged."
        )
    commands = {ExportKind.OLLAMA: OLLAMA, ExportKind.GGUF: f"llama-cli -m {source.run.name}.gguf"}
    if kind in commands:
        return _block(commands[kind], "sh")
    if kind is ExportKind.ONNX:
        return _block(ONNX)
    code = _adapter(source, into) if kind is ExportKind.ADAPTER else _whole(source)
    # transformers imports torchvision wherever it is, even one that can't be imported
    operators = OPERATORS.format(instead="" if source.options.task.reads_images else WITHOUT)
    return f"{_block(code)}\n\n{operators}"


def _whole(source: ExportSource) -> str:
    task = source.options.task
    if task.reads_images:
        return TORCHVISION if source.network else IMAGES
    if task.writes_text:
        return WRITER.format(inputs=PROMPT if task is Task.CAUSAL_LM else CHAT)
    return TEXTS.format(model=auto_class(task).__name__, answer=ANSWERS[task])


def _adapter(source: ExportSource, into: Path) -> str:
    base = "base" if (into / "base").is_dir() else base_name(source.folder)
    config = "folder" if (into / "config.json").is_file() else repr(base)
    code = ADAPTER.format(model=auto_class(source.options.task).__name__, base=base, config=config)
    if source.options.task.reads_images:
        return code.replace("AutoTokenizer", "AutoImageProcessor").replace("tokenizer", "processor")
    return code


def _block(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}\n```"


PURPOSES = {
    Task.TEXT_CLASSIFICATION: "text-classification",
    Task.TEXT_REGRESSION: "text-classification",
    Task.TOKEN_CLASSIFICATION: "token-classification",
    Task.CAUSAL_LM: "text-generation",
    Task.CHAT: "text-generation",
    Task.PREFERENCE: "text-generation",
    Task.IMAGE_CLASSIFICATION: "image-classification",
}
"""What the Hub calls Hone's tasks (`pipeline_tag`)."""

OWN = ("output.", "data.text_columns", "model.source", "data.train", "task")
"""Options that say nothing of how the model came about, or are told elsewhere."""


def write_card(source: ExportSource, report: ExportReport, into: Path) -> None:
    """Write README.md into an export."""
    status = read_status(source.run)
    parts = (
        _front_matter(source, report.kind, status),
        f"# {title_of(source.run.path, source.options)}",
        _about(source),
        "## How to use it",
        snippet(source, report.kind, into),
        *_results(source, status),
        *_training(source, status),
        "## This export",
        _check(report),
        "## Licence",
        _licence_text(source),
    )
    (into / "README.md").write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def _front_matter(source: ExportSource, kind: ExportKind, status: RunStatus) -> str:
    """YAML, of which JSON is a part: each value is written so."""
    base, task = _base_on_hub(source), source.options.task
    library = {ExportKind.ADAPTER: "peft", ExportKind.ONNX: "onnx", ExportKind.COREML: "coreml"}.get(kind)
    data = Scheme.HUB.name_of(source.options.data.train)
    told: dict[str, Any] = {
        "library_name": library or source.network or "transformers",
        "pipeline_tag": PURPOSES[task],
        "tags": ["hone", *(["lora"] if source.is_adapter else [])],
        "base_model": base or None,
        "base_model_relation": {ExportKind.ADAPTER: "adapter"}.get(kind, "finetune") if base else None,
        "datasets": [hub_data(data)[0]] if data else None,
        "metrics": [name.removeprefix("eval_") for name in status.metrics if name in METRIC_TITLES] or None,
        "license": _licence(source) or None,
    }
    known = {name: json.dumps(value, ensure_ascii=False) for name, value in told.items() if value is not None}
    return "\n".join(("---", *(f"{name}: {value}" for name, value in known.items()), "---"))


def _about(source: ExportSource) -> str:
    began = model_name(source.options)
    start = (
        "made from scratch" if is_scratch(source.options.model.source) else f"fine-tuned from {_code(began)}"
    )
    task = source.options.task.label
    data = _code(data_name(source.options))
    about = f"A model for “{task}”, {start} on {data} with Hone {VERSION}, on one computer."
    return f"{about} {source.told}".rstrip()


def _results(source: ExportSource, status: RunStatus) -> Iterator[str]:
    """What was measured of this very model; nothing for a checkpoint of a step that wasn't."""
    is_model = source.folder == source.run.model
    step = (status.evaluated_at or status.step) if is_model else step_of(source.folder)
    metrics = status.metrics if is_model else _metrics_at(source.run, step)
    rows = [
        (METRIC_TITLES[name], formats.metric(name, value).removeprefix(METRIC_TITLES[name]).strip())
        for name, value in metrics.items()
        if name in METRIC_TITLES and value is not None
    ]
    if rows:
        held_out = (
            f"Measured on {status.plan.eval_samples:,} held-out examples" if status.plan else "Measured"
        )
        yield "## Results"
        is_best = is_model and source.options.output.keep_best  # measured at its own step, not at the last
        yield f"{held_out}." if is_best else f"{held_out}, after step {step:,}."
        yield _table(("metric", "value"), rows)


def _metrics_at(run: RunFolder, step: int) -> dict[str, float | None]:
    """What the last evaluation after a step gave; what a run tells at its end is of the model that it kept."""
    told = [event for event in EventReader(run.events_file).read_all() if isinstance(event, Evaluated)]
    return next((dict(event.metrics) for event in reversed(told) if event.step == step), {})


def _training(source: ExportSource, status: RunStatus) -> Iterator[str]:
    yield "## How it was trained"
    options = source.options
    changed = [
        (option.title, _shown(option, value_of(options, option.path)))
        for option in all_options()
        if not option.path.startswith(OWN)
        and option.acts_in(options)
        and value_of(options, option.path) != option.default
    ]
    if changed:
        yield "Options that differ from Hone's defaults:"
        yield _table(("option", "value"), changed)
    ran = [(one.title, one.value) for one in statements(status.what_ran, formats.size, status.versions)]
    if ran:
        yield "What ran:"
        yield _table(("", ""), ran)
    if status.versions:
        yield "Versions: " + ", ".join(f"{name} {number}" for name, number in status.versions.items()) + "."


def _check(report: ExportReport) -> str:
    if report.agreement is None:
        return f"It was not compared with the trained model. {report.unchecked}"
    return f"Compared with the trained model: {agreement_text(report.agreement)} {report.agreement.why}"


def _shown(option: Option, value: Any) -> str:
    """A value in words, without its folder on this computer."""
    return short_name(str(value)) if option.is_path else with_unit(option, value)


def _table(titles: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {titles[0]} | {titles[1]} |", "|---|---|"]
    for row in rows:
        one, other = (text.replace("|", "\\|").replace("\n", " ") for text in row)
        lines.append(f"| {one} | {other} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{text.replace('`', '')}`"


def _base_on_hub(source: ExportSource) -> str:
    """The id of what it was trained from, where that is on the Hub."""
    named = base_name(source.folder) if source.is_adapter else source.options.model.source
    return named if is_on_hub(named) and not Path(named).exists() else ""


def _licence(source: ExportSource) -> str:
    """As the card of what it started from names it, where that card is on this computer; empty: not known."""
    base = base_folder(source.folder) if source.is_adapter else Path(source.options.model.source)
    try:
        head = (base / "README.md").read_text(encoding="utf-8").split("\n---", 1)[0] if base else ""
    except (OSError, ValueError):
        return ""
    lines = head.splitlines() if head.startswith("---") else []
    said = next((line.partition(":")[2].strip() for line in lines if line.startswith("license:")), "")
    return said if said.replace("-", "").replace(".", "").isalnum() else ""


def _licence_text(source: ExportSource) -> str:
    known = _licence(source)
    if known:
        return f"What it started from is under {known}, as its card says; the data may have terms of its own."
    if is_scratch(source.options.model.source):
        return "It started from random weights, so only the training data may have terms."
    return (
        "Not known: look up the terms of the model it started from, and of the data, before you pass it on."
    )
