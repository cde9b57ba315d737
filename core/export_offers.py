"""What a run's model can be exported as, and why not as the rest; told from names and small files alone."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core import checkpoint_files, hub, llama_cpp
from core.choices import Method
from core.errors import OptionsError, UserError
from core.exporting import ExportKind
from core.files import read_small
from core.hub_files import snapshot
from core.hub_questions import Kind
from core.options import RunOptions
from core.processes import is_frozen
from core.run_folder import RunFolder
from core.run_models import holds_adapter
from core.sources import Scheme
from core.trained_model import trained_model

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
ONNX_INSTALL = 'pip install "onnx==1.23.2" "onnxscript==0.7.2" "onnxruntime==1.31.1"'

OLLAMA_IMPORTS = {
    "LlamaForCausalLM": "Llama",
    "MistralForCausalLM": "Mistral",
    "MixtralForCausalLM": "Mixtral",
    "GemmaForCausalLM": "Gemma",
    "Gemma2ForCausalLM": "Gemma 2",
    "Gemma3ForCausalLM": "Gemma 3",
    "Phi3ForCausalLM": "Phi 3",
    "Qwen2ForCausalLM": "Qwen 2",
    "Qwen3ForCausalLM": "Qwen 3",
    "CohereForCausalLM": "Command R",
    "Olmo3ForCausalLM": "OLMo 3",
    "GptOssForCausalLM": "gpt-oss",
    "Lfm2ForCausalLM": "LFM 2",
}
"""The architectures of text models that Ollama makes of safetensors (https://docs.ollama.com/import and the converters
in its source, November 2026); not tried here."""


@dataclass(frozen=True)
class Offer:
    """One kind of export of one run; `refusal` says why it can't be made, `caution` what to know of it before."""

    kind: ExportKind
    refusal: str = ""
    caution: str = ""


@dataclass(frozen=True)
class ExportSource:
    """A run's model as it lies there: what was asked of the run, its folder, and what is known of it unopened.

    `architecture` is the class that transformers loads it as; empty: not known, or a network of torchvision's.
    """

    run: RunFolder
    options: RunOptions
    folder: Path
    is_adapter: bool
    architecture: str = ""

    @property
    def network(self) -> str:
        """ "torchvision" for one of its networks: a model of images without a config; empty for all others."""
        is_bare = self.options.task.reads_images and not (self.folder / "config.json").is_file()
        return "torchvision" if is_bare else ""

    @property
    def told(self) -> str:
        """Which weights these are, in a sentence; empty for the trained model."""
        if self.folder == self.run.model:
            return ""
        return f"The weights are those of its checkpoint of step {checkpoint_files.step_of(self.folder):,}."

    @property
    def is_packed(self) -> bool:
        """Whether it was trained beside packed weights."""
        return self.options.model.method is Method.QLORA


def find_source(run: RunFolder, checkpoint: str = "") -> ExportSource:
    """The model of a run; the newest checkpoint in its place where that was trained further.

    Args:
        run: The run.
        checkpoint: The name of a checkpoint to take; empty: the newest weights (`core.trained_model`).

    Raises:
        UserError: There is no model, or nobody knows what it learned.
    """
    try:
        options = run.options()
    except OptionsError as error:
        raise UserError(f"Nobody knows what {run.name} learned", str(error)) from error
    folder = _folder_of(run, checkpoint)
    is_adapter = holds_adapter(folder)
    return ExportSource(run, options, folder, is_adapter, _architecture(folder, is_adapter=is_adapter))


def _folder_of(run: RunFolder, checkpoint: str) -> Path:
    known = {one.path.name: one.path for one in checkpoint_files.newest_first(run.checkpoints)}
    if checkpoint and checkpoint not in known:
        there = f"There are {', '.join(known)}." if known else "It has none."
        raise UserError(f"{run.name} has no complete checkpoint {checkpoint}", there)
    if checkpoint:
        return known[checkpoint]
    newest = trained_model(run)
    if newest is not None:
        return newest.folder
    raise UserError(
        f"{run.name} has no model to export",
        "It didn't end, or its model was deleted; it has no checkpoint either.",
    )


def _architecture(folder: Path, *, is_adapter: bool) -> str:
    config = config_of(folder)
    if is_adapter and not config:
        base = base_folder(folder)
        config = config_of(base) if base else {}
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def base_name(folder: Path) -> str:
    """What LoRA matrices say they were trained beside: a folder, an id on the Hub, or `torchvision:NAME`."""
    return str(_read(folder / "adapter_config.json").get("base_model_name_or_path") or "")


def base_folder(folder: Path) -> Path | None:
    """Where the model beside LoRA matrices lies; None where it isn't on this computer, or is torchvision's."""
    named = base_name(folder)
    cached = snapshot(named, Kind.MODEL) if hub.is_name(named) else None
    places = (folder / "base", Path(named), cached)
    return next((place for place in places if place and (place / "config.json").is_file()), None)


def config_of(folder: Path) -> dict[str, Any]:
    """What a model's folder says of it; nothing where that can't be read."""
    return _read(folder / "config.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def offers(source: ExportSource) -> tuple[Offer, ...]:
    """Every kind, and what speaks against it for this model on this computer."""
    return tuple(Offer(kind, refusal(source, kind), caution(source, kind)) for kind in ExportKind)


def refusal(source: ExportSource, kind: ExportKind) -> str:
    """Why a model can't be exported as `kind`; empty: it can."""
    return _REFUSALS[kind](source)


def caution(source: ExportSource, kind: ExportKind) -> str:
    """What to know before a model is exported as `kind`; empty: nothing."""
    if kind is ExportKind.GGUF and not refusal(source, kind) and llama_cpp.find_converter() is None:
        return "llama.cpp isn't installed here: you get the model folder that it takes, and are told how to go on."
    if kind is ExportKind.MERGED and source.is_packed:
        return (
            "It was trained beside packed weights; the merged ones are full, and answer a little differently."
        )
    return ""


def _folder(source: ExportSource) -> str:
    whole = "This run trained LoRA matrices beside a frozen model: take the adapter, or the merged model."
    return whole if source.is_adapter else ""


def _adapter(source: ExportSource) -> str:
    return "" if source.is_adapter else "This run trained no LoRA matrices: its model is whole already."


def _hub(_source: ExportSource) -> str:
    return f"{hub.forbidden_by()} forbids to ask {hub.host()} for anything." if hub.is_forbidden() else ""


def _ollama(source: ExportSource) -> str:
    known = ", ".join(OLLAMA_IMPORTS.values())
    if source.architecture and source.architecture not in OLLAMA_IMPORTS and source.options.task.writes_text:
        return f"Ollama doesn't import {source.architecture} from safetensors; it knows {known}."
    return _writes(source, "Ollama runs models that write text")


def _writes(source: ExportSource, what: str) -> str:
    return "" if source.options.task.writes_text else f"{what}; this one does “{source.options.task.label}”."


def _says(source: ExportSource, what: str) -> str:
    if source.options.task.writes_text:
        return f"Hone writes {what} of models that classify, score or label; for one that writes, take Ollama or GGUF."
    return ""


def _onnx_missing() -> str:
    missing = [name for name in ONNX_PACKAGES if find_spec(name) is None]
    if not missing:
        return ""
    if is_frozen():
        return (
            "It takes packages that this program doesn't bring along; Hone started from its source can do it."
        )
    return f"It takes {', '.join(missing)}, 34 MB to download: {sys.executable} -m {ONNX_INSTALL}"


def _coreml_missing() -> str:
    is_mac = sys.platform == "darwin"
    if not is_mac:
        return "It needs a Mac: there Apple's coremltools writes it and macOS checks it."
    if find_spec("coremltools") is None:
        return f"It takes Apple's coremltools: {sys.executable} -m pip install coremltools"
    return ""


def default_pushed(source: ExportSource) -> ExportKind:
    """What is sent to the Hub where nobody says otherwise: the adapter where its base is there, too; else the model."""
    if not source.is_adapter:
        return ExportKind.FOLDER
    return ExportKind.ADAPTER if is_on_hub(base_name(source.folder)) else ExportKind.MERGED


def is_on_hub(base: str) -> bool:
    """Whether LoRA matrices name a model of the Hub as what they were trained beside."""
    is_plain = Scheme.TORCHVISION.name_of(base) is None and not Path(base).is_absolute()
    return is_plain and hub.is_name(base) and "/" in base


_REFUSALS: dict[ExportKind, Callable[[ExportSource], str]] = {
    ExportKind.FOLDER: _folder,
    ExportKind.ADAPTER: _adapter,
    ExportKind.MERGED: _adapter,
    ExportKind.OLLAMA: _ollama,
    ExportKind.GGUF: lambda source: _writes(source, "GGUF is for models that write text"),
    ExportKind.ONNX: lambda source: _says(source, "ONNX") or _onnx_missing(),
    ExportKind.COREML: lambda source: _says(source, "Core ML") or _coreml_missing(),
    ExportKind.HUB: _hub,
}
