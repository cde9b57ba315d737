"""What a run's model can be exported to, why not to the rest, and how large the export gets."""

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from core.base import llama_cpp
from core.base.language import _
from core.base.processes import is_frozen
from core.jobs.export import ExportKind, NumberFormat
from core.memory.case import HALF_NUMBER
from core.options import hub
from core.options.backend_rules import MLX_ON_CPU
from core.runs.export_source import ExportSource, base_folder, base_name, config_of, is_on_hub
from core.runs.models import WEIGHTS, count_weights

EXPORTS: dict[ExportKind, tuple[str, str]] = {
    ExportKind.FOLDER: (
        _("Model folder"),
        _("For Python: the model as it was trained, to be loaded by transformers or torchvision."),
    ),
    ExportKind.ADAPTER: (
        _("LoRA adapter"),
        _("The trained matrices, to be used together with the model they were trained with."),
    ),
    ExportKind.MERGED: (
        _("Merged model"),
        _("One whole model: the LoRA matrices merged into the weights of the base model."),
    ),
    ExportKind.OLLAMA: (
        "Ollama",
        _("To chat on your own computer: a model folder with a Modelfile for “ollama create”."),
    ),
    ExportKind.GGUF: (
        "GGUF",
        _("For llama.cpp, LM Studio and the like: one file, made by llama.cpp's own converter."),
    ),
    ExportKind.MLX: (
        _("MLX folder"),
        _(
            "For a Mac with Apple silicon: a model folder that LM Studio and mlx-lm load, quantized if you like."
        ),
    ),
    ExportKind.MLX_ADAPTER: (
        _("mlx-lm adapter"),
        _("The trained matrices as mlx-lm reads them, to be used with the model they were trained with."),
    ),
    ExportKind.ONNX: (
        "ONNX",
        _("For other languages and devices, by ONNX Runtime: one graph, without Python."),
    ),
    ExportKind.COREML: (_("Core ML"), _("For apps on a Mac, iPhone or iPad: a package that Xcode opens.")),
    ExportKind.HUB: (
        _("Hugging Face Hub"),
        _("To share: a new repository under your name. The only export that uploads anything."),
    ),
}
"""Title and purpose of each kind."""


# --- The model to export, and what it can become


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
    "CohereForCausalLM": _("Command R"),
    "Olmo3ForCausalLM": "OLMo 3",
    "GptOssForCausalLM": "gpt-oss",
    "Lfm2ForCausalLM": "LFM 2",
}
"""Architectures that Ollama imports from safetensors (https://docs.ollama.com/import and its source, November 2026)."""


class FormatOffer(msgspec.Struct, frozen=True):
    """A number format, why it can't be written (`refusal`), and the approximate bytes of an export with it."""

    numbers: NumberFormat
    refusal: str = ""
    size: int = 0


@dataclass(frozen=True)
class KindOffer:
    """A kind of export, why it can't be made (`refusal`), what to know before (`caution`), and its number formats.

    `suits` says whether the model itself allows it; else only the computer or a setting stands against it.
    """

    kind: ExportKind
    refusal: str = ""
    caution: str = ""
    formats: tuple[FormatOffer, ...] = ()
    suits: bool = True


def offers(source: ExportSource, hold: llama_cpp.Hold = lambda start: start()) -> tuple[KindOffer, ...]:
    """Returns every kind, with refusals and cautions: first what can be made here, last what doesn't suit this model.

    `hold` starts llama.cpp's converter, which is asked whether it works.
    """
    found = []
    for kind in ExportKind:
        if why := unsuited(source, kind):
            found.append(KindOffer(kind, why, suits=False))
        elif why := lacking(source, kind, hold):
            found.append(KindOffer(kind, why))
        else:
            found.append(KindOffer(kind, "", caution(source, kind), tuple(_formats(source, kind))))
    return tuple(sorted(found, key=lambda offer: (not offer.suits, bool(offer.refusal))))


def _formats(source: ExportSource, kind: ExportKind) -> Iterator[FormatOffer]:
    written = default_pushed(source) if kind is ExportKind.HUB else kind
    for numbers in NumberFormat if kind in WITH_NUMBERS else [NumberFormat.AUTO]:
        if numbers.is_quantized and numbers.is_affine is not (kind is ExportKind.MLX):
            continue
        why = numbers_refusal(kind, numbers)
        yield FormatOffer(numbers, why, 0 if why else size_of(source, written, numbers))


def numbers_refusal(kind: ExportKind, numbers: NumberFormat) -> str:
    """Returns why an export of this kind can't have weights of this format; empty if it can."""
    if not numbers.is_quantized:
        return ""
    if kind is ExportKind.MLX and not numbers.is_affine:
        return _("It is a format of llama.cpp; MLX has affine8 and affine4.")
    if numbers.is_affine:
        return "" if kind is ExportKind.MLX else _("It is a format of MLX, for an MLX folder only.")
    if kind is not ExportKind.GGUF:
        return _("Only GGUF is quantized here. Ollama does it itself: ollama create --quantize q4_K_M NAME")
    if numbers is NumberFormat.Q4_K_M and llama_cpp.find_quantizer() is None:
        return _(
            "It needs {program}, which was not found: build llama.cpp and put its programs on the PATH or set "
            "{variable} to its folder. q4_0 needs nothing more."
        ).format(program=llama_cpp.QUANTIZER, variable=llama_cpp.VARIABLE)
    return ""


def refusal(source: ExportSource, kind: ExportKind, hold: llama_cpp.Hold = lambda start: start()) -> str:
    """Returns why a model can't be exported as `kind`; empty if it can."""
    return unsuited(source, kind) or lacking(source, kind, hold)


def unsuited(source: ExportSource, kind: ExportKind) -> str:
    """Returns why `kind` is not for this model, on any computer; empty if it is."""
    task = source.options.task
    match kind:
        case ExportKind.FOLDER if source.is_adapter:
            return _("This run trained a LoRA adapter: export the adapter or the merged model.")
        case ExportKind.ADAPTER | ExportKind.MERGED | ExportKind.MLX_ADAPTER if not source.is_adapter:
            return _("This run trained no LoRA adapter: its model is whole already.")
        case ExportKind.OLLAMA | ExportKind.GGUF | ExportKind.MLX | ExportKind.MLX_ADAPTER if (
            not task.writes_text
        ):
            return _("{kind} is for models that write text; this one was trained for “{task}”.").format(
                kind=EXPORTS[kind][0], task=task.label
            )
        case ExportKind.OLLAMA if source.architecture and source.architecture not in OLLAMA_IMPORTS:
            return _("Ollama doesn't import {architecture} from safetensors, only {known}.").format(
                architecture=source.architecture, known=", ".join(OLLAMA_IMPORTS.values())
            )
        case ExportKind.ONNX | ExportKind.COREML if task.writes_text:
            return _("{kind} is not for models that write text; use Ollama or GGUF.").format(
                kind=EXPORTS[kind][0]
            )
    return ""


def lacking(source: ExportSource, kind: ExportKind, hold: llama_cpp.Hold) -> str:
    """Returns why a model can't be exported as `kind` on this computer; empty if it can."""
    if source.bits and not _has_mlx():
        return _(
            "Only on a Mac with Apple silicon and macOS 14 or later: its base model is quantized for MLX, and only MLX "
            "reads that."
        )
    match kind:
        case ExportKind.GGUF:
            return _lacking_for_gguf(hold)
        case ExportKind.MLX | ExportKind.MLX_ADAPTER if not _has_mlx():
            return _(
                "Only on a Mac with Apple silicon and macOS 14 or later: Hone checks it with MLX itself."
            )
        case ExportKind.ONNX if missing := [name for name in ONNX_PACKAGES if find_spec(name) is None]:
            if is_frozen():
                return _("It needs packages that are not part of this program; run Hone from source.")
            return _("It needs {missing}, a download of 34 MB: {executable} -m {install}").format(
                missing=", ".join(missing), executable=sys.executable, install=ONNX_INSTALL
            )
        case ExportKind.COREML if sys.platform != "darwin":
            return _("Only on a Mac: Hone checks a Core ML model with macOS itself.")
        case ExportKind.COREML if find_spec("coremltools") is None:
            return _("It needs Apple's coremltools: {executable} -m pip install coremltools").format(
                executable=sys.executable
            )
        case ExportKind.HUB if hub.is_forbidden():
            return _("{reason} forbids connections to {host}.").format(
                reason=hub.forbidden_by(), host=hub.host()
            )
    return ""


def _has_mlx() -> bool:
    is_apple_silicon = (sys.platform, platform.machine()) == ("darwin", "arm64")
    return (is_apple_silicon or os.environ.get(MLX_ON_CPU) == "1") and find_spec("mlx_lm") is not None


def _lacking_for_gguf(hold: llama_cpp.Hold) -> str:
    command, python = llama_cpp.own_environment(), llama_cpp.find_python()
    converter = llama_cpp.find_converter()
    if converter is None:
        return _(
            "llama.cpp was not found: download https://github.com/ggml-org/llama.cpp, set {variable} to its "
            "folder, and type there: {command}"
        ).format(variable=llama_cpp.VARIABLE, command=command)
    if not python:
        return _("llama.cpp's converter needs Python. In llama.cpp's folder: {command}").format(
            command=command
        )
    return llama_cpp.why_not_converted(python, converter, hold)


def caution(source: ExportSource, kind: ExportKind) -> str:
    """Returns what to know before a model is exported as `kind`; empty for most."""
    if kind is ExportKind.MERGED and source.is_packed:
        return _(
            "It was trained with quantized weights; the merged ones are not quantized and answer slightly differently."
        )
    if source.bits and kind is ExportKind.ADAPTER:
        return _(
            "PEFT can't read that model, quantized for MLX: it comes along with plain weights, in “base”."
        )
    if source.bits and kind in (ExportKind.MERGED, ExportKind.OLLAMA, ExportKind.MLX):
        return _("Its base model has {bits}-bit weights; those of the merged one are not quantized.").format(
            bits=source.bits
        )
    if kind.is_adapter and (source.folder / "base").is_dir():
        return _("That model is a past run's: it comes along whole, in the folder “base”.")
    return ""


def default_pushed(source: ExportSource) -> ExportKind:
    """Returns what is sent to the Hub by default: the adapter if its base is on the Hub, too, else the whole model."""
    if not source.is_adapter:
        return ExportKind.FOLDER
    adapter = ExportKind.MLX_ADAPTER if source.bits else ExportKind.ADAPTER
    return adapter if is_on_hub(base_name(source.folder)) else ExportKind.MERGED


# --- Disk space


SMALL_FILES = 16 << 20

WITH_NUMBERS = (
    *(ExportKind.FOLDER, ExportKind.MERGED, ExportKind.OLLAMA, ExportKind.GGUF),
    *(ExportKind.MLX, ExportKind.HUB),
)
"""Kinds whose number format can be chosen."""
BITS = {
    NumberFormat.FP32: (32.0, 32.0),
    NumberFormat.BF16: (16.0, 16.0),
    NumberFormat.FP16: (16.0, 16.0),
    NumberFormat.Q8_0: (8.5, 8.5),
    NumberFormat.Q4_0: (4.5, 8.5),
    NumberFormat.Q4_K_M: (4.8, 6.6),
    NumberFormat.AFFINE8: (8.5, 8.5),
    NumberFormat.AFFINE4: (4.5, 4.5),
}
"""Bits of a weight with its share of the scales, and of one of the output layer."""


def size_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """Returns the approximate size of an export's weights."""
    base = None if kind.is_adapter or not source.is_adapter else base_folder(source.folder)
    files = [*(base or source.folder).glob(WEIGHTS)]
    if kind.is_adapter:
        files += (source.folder / "base").glob(WEIGHTS)
    elif kind in (ExportKind.ONNX, ExportKind.COREML):
        numbers = NumberFormat.FP32
    elif numbers is NumberFormat.AUTO and (source.bits or kind is ExportKind.GGUF):
        numbers = NumberFormat.FP16  # or bf16
    size = sum(path.stat().st_size for path in files)
    if kind is ExportKind.ADAPTER and source.bits:
        return size + size_of(source, ExportKind.MERGED, NumberFormat.AUTO)
    if numbers is NumberFormat.AUTO or kind.is_adapter:
        return size
    count, (bits, bits_of_head) = count_weights(files), BITS[numbers]
    if source.packing:
        count = round(size / source.packing.size(HALF_NUMBER))
    config = config_of(base or source.folder)
    sides = config.get("vocab_size"), config.get("hidden_size")
    head = sides[0] * sides[1] if isinstance(sides[0], int) and isinstance(sides[1], int) else 0
    return round(bits * (count - head) + bits_of_head * head) // 8


def bytes_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """Estimates an export's bytes, with all that it is made from.

    That is a folder for GGUF and MLX, GGUF's file in 16 bits, and the plain weights of a base model in fp32 that is
    quantized for MLX.
    """
    plain = size_of(source, ExportKind.MERGED, NumberFormat.FP32) if source.bits else 0
    if kind is ExportKind.MLX:
        folder = NumberFormat.BF16 if numbers.is_quantized else numbers
        return (
            plain + size_of(source, ExportKind.FOLDER, folder) + size_of(source, kind, numbers) + SMALL_FILES
        )
    if kind is not ExportKind.GGUF:
        return plain + size_of(source, kind, numbers) + SMALL_FILES
    folder = NumberFormat.AUTO if numbers.is_quantized else numbers
    converted = NumberFormat.FP16 if numbers.is_quantized else numbers
    return plain + size_of(source, ExportKind.FOLDER, folder) + size_of(source, kind, converted) + SMALL_FILES
