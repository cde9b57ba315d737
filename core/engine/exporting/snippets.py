"""A few lines of Python for the card of an exported model, that use it without Hone."""

from pathlib import Path

from core.choices import Task
from core.engine.models.text_models import auto_class
from core.export_offers import ExportSource, base_name
from core.exporting import ExportKind

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
    if kind is ExportKind.ADAPTER:
        return f"{_block(_adapter(source, into))}\n\n{_operators(source)}"
    commands = {ExportKind.OLLAMA: OLLAMA, ExportKind.GGUF: f"llama-cli -m {source.run.name}.gguf"}
    if kind in commands:
        return _block(commands[kind], "sh")
    if kind is ExportKind.ONNX:
        return _block(ONNX)
    return f"{_block(_whole(source))}\n\n{_operators(source)}"


def _operators(source: ExportSource) -> str:
    """Transformers imports torchvision wherever it is, even one that can't be imported."""
    return OPERATORS.format(instead="" if source.options.task.reads_images else WITHOUT)


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
