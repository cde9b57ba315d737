"""Whether Hone can train a model of the Hub, judged by its files, tags and config, before anything of it is fetched."""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.processes import is_frozen

SAFE = ".safetensors"
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt")
OTHER = (".gguf", ".onnx", ".h5", ".msgpack", ".tflite")

DESCRIBING = (".json", ".txt", ".model", ".jinja")
"""Ends of the names of configs, tokenizers and chat templates: none of them holds code that a run would execute."""

NOT_DESCRIBING = ("README", "LICENSE", "NOTICE", "requirements")
NOT_OURS = (".bin.index.json", ".msgpack.index.json", ".h5.index.json")

OWN_CODE = "custom_code"
"""The Hub's tag for a model whose repository brings the Python files that make it."""

PURPOSES: dict[str, tuple[str, ...]] = {
    "text-classification": ("fill-mask", "text-classification", "sentence-similarity", "feature-extraction"),
    "text-regression": ("fill-mask", "text-classification", "sentence-similarity", "feature-extraction"),
    "token-classification": (
        "fill-mask",
        "token-classification",
        "sentence-similarity",
        "feature-extraction",
    ),
    "causal-lm": ("text-generation",),
    "chat": ("text-generation",),
    "preference": ("text-generation",),
    "image-classification": ("image-classification", "image-feature-extraction"),
}
"""What the Hub calls the purposes (`pipeline_tag`) of models that each of Hone's tasks can start from."""

_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_HALF_BYTE = ("F4", "I4", "U4")

_CLASSES = {"text-generation": "AutoModelForCausalLM", "fill-mask": "AutoModelForMaskedLM"}


@dataclass(frozen=True)
class Standing:
    """Why a model can't be trained, what to do about it, and the command that does; empty: it can, nothing, none."""

    refusal: str = ""
    remedy: str = ""
    command: str = ""


NEEDS_CODE = Standing(
    "It needs Python code of its own, which Hone doesn't run: such code could do anything on this computer.",
    "Choose another model; of many there is a version that transformers knows by itself.",
)
NO_CONFIG = Standing("It has no config.json, so it is no model that transformers can load.")
ONLY_ADAPTER = Standing(
    "It holds only LoRA matrices, not the model they were trained beside.",
    "Choose the model that its page names as its base.",
)
FOR_OTHERS = Standing("Its weights are for other programs (GGUF, ONNX, TensorFlow, Flax), not for PyTorch.")
NO_WEIGHTS = Standing("It has no weights in the safetensors format.")


def standing(
    name: str,
    files: Collection[str],
    *,
    tags: Collection[str] = (),
    config: Mapping[str, Any] | None = None,
    purpose: str = "",
) -> Standing:
    """Judge a model.

    Args:
        name: Its id, `owner/name`.
        files: Names of its files.
        tags: What the Hub tags it with.
        config: What the Hub tells of its config.json.
        purpose: What the Hub says it is for.
    """
    if OWN_CODE in tags or (config or {}).get("auto_map"):
        return NEEDS_CODE
    top = {file for file in files if "/" not in file}
    if weights(top):
        return Standing() if "config.json" in top else NO_CONFIG
    if ADAPTER in top:
        return ONLY_ADAPTER
    if any(file.endswith(PICKLED) for file in top):
        return Standing(
            "Its weights are pickled (.bin, .pt): a format that can run code when opened. Hone loads safetensors.",
            "Somebody may have converted it: look on its page under Files, at the pull requests. Or convert it "
            "yourself, if you trust whoever made it, and choose the new folder:",
            conversion(name, purpose),
        )
    return FOR_OTHERS if any(file.endswith(OTHER) for file in files) else NO_WEIGHTS


def conversion(name: str, purpose: str = "") -> str:
    """The command that saves a model with pickled weights as safetensors, in a new folder beside.

    transformers opens such weights with torch's restricted reader (`weights_only`), which knows tensors and no code.
    """
    kind = _CLASSES.get(purpose, "AutoModel")
    folder = f"{name.rpartition('/')[2]}-safetensors"
    python = "python" if is_frozen() else sys.executable
    # beside a torch for CPUs alone, transformers can't import torchvision by itself
    ready = "" if is_frozen() else "from core.engine.torchvision_ops import prepare_torchvision as p; p(); "
    code = (
        f"{ready}from transformers import {kind} as M, AutoTokenizer as T; "
        f"[k.from_pretrained('{name}').save_pretrained('{folder}') for k in (M, T)]"
    )
    return f'{python} -c "{code}"'


def weights(files: Iterable[str]) -> list[str]:
    """The files that hold a model's weights, as transformers looks for them: one, or the parts that an index names.

    Others, such as a second copy in another format, aren't loaded and so not fetched.
    """
    names = set(files)
    if WHOLE in names:
        return [WHOLE]
    if INDEX in names:
        return sorted(file for file in names if file.startswith("model-") and file.endswith(SAFE))
    return []


def wanted(files: Iterable[str]) -> list[str]:
    """The files of a model that a run needs: safetensors, config, tokenizer. Never code, never pickled weights."""
    top = {file for file in files if "/" not in file}
    describing = {
        file
        for file in top
        if file.endswith(DESCRIBING) and not file.startswith(NOT_DESCRIBING) and not file.endswith(NOT_OURS)
    }
    if INDEX in describing and WHOLE in top:
        describing.remove(INDEX)
    return sorted({*describing, *weights(top)})


def suits(purpose: str, task: str) -> bool:
    """Whether a model of this purpose can learn a task of Hone's; with no task: any that some task can start from."""
    known = PURPOSES.get(task) or tuple(one for purposes in PURPOSES.values() for one in purposes)
    return purpose in known


def weight_bytes(parameters: Mapping[str, int]) -> int:
    """Bytes of weights of which the Hub tells how many there are of each number format (`{"F32": 66955010}`)."""
    return sum(
        count // 2 if form in _HALF_BYTE else count * _BYTES.get(form, 1)
        for form, count in parameters.items()
    )
