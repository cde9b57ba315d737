"""The Hugging Face Hub as far as options need it: which models can be trained, what is in the cache, what is allowed.

Nothing here opens a connection.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from core.base import settings
from core.base.errors import Fix, ModelError
from core.base.language import _
from core.options import RunOptions
from core.options.past_runs import is_run, model_folder
from core.options.sources import Scheme, is_scratch, scratch_model

PUBLIC = "https://huggingface.co"
VARIABLE = "HF_HUB_OFFLINE"
CONFIG = "config.json"


class RepoKind(StrEnum):
    """What a repository of the Hub holds."""

    MODEL = "model"
    DATASET = "dataset"


# --- Whether Hone can train a model of the Hub, judged by its files, tags and config


SAFE = ".safetensors"
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PART = re.compile(r"model-\d+-of-(\d+)\.safetensors")

DESCRIBING = (".json", ".txt", ".model", ".jinja")
"""File name endings of configs, tokenizers and chat templates, none of which hold code."""

NOT_DESCRIBING = ("README", "LICENSE", "NOTICE", "requirements")
OTHER_INDEXES = (".bin.index.json", ".msgpack.index.json", ".h5.index.json")

_OF_ENCODERS = ("fill-mask", "text-classification", "sentence-similarity", "feature-extraction")
PURPOSES: dict[str, tuple[str, ...]] = {
    "text-classification": _OF_ENCODERS,
    "text-regression": _OF_ENCODERS,
    "token-classification": ("token-classification", *_OF_ENCODERS),
    "causal-lm": ("text-generation",),
    "chat": ("text-generation",),
    "preference": ("text-generation",),
    "image-classification": ("image-classification", "image-feature-extraction"),
}
"""The Hub's `pipeline_tag` of the models that each task can start from."""

_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "F4": 0.5,
          "I4": 0.5, "U4": 0.5}  # fmt: skip


class Standing(NamedTuple):
    """Why a model or data set can't be used, and what to do; empty if it can."""

    refusal: str = ""
    remedy: str = ""


def standing(
    files: Collection[str], *, tags: Collection[str] = (), config: Mapping[str, Any] | None = None
) -> Standing:
    """Returns whether Hone can train a model; `config` is its config.json as far as the Hub tells."""
    if "custom_code" in tags or (config or {}).get("auto_map"):
        return Standing(
            _(
                "It needs Python code of its own, which Hone doesn't run: it could do anything on this computer."
            ),
            _("Choose another model, or a version of this one that transformers supports without code."),
        )
    top = {file for file in files if "/" not in file}
    if weights(top):
        return Standing("" if CONFIG in top else _("It has no config.json, so transformers can't load it."))
    if "adapter_model.safetensors" in top:
        return Standing(
            _("It is only a LoRA adapter, without the model it was trained with."),
            _("Choose the base model named on its page."),
        )
    if any(file.endswith((".bin", ".pt", ".pth", ".ckpt")) for file in top):
        return Standing(
            _("Its weights are pickled (.bin, .pt), which can run code when opened. Hone loads safetensors."),
            _("Look for a converted copy on its page, under Files, among the pull requests."),
        )
    if any(file.endswith((".gguf", ".onnx", ".h5", ".msgpack", ".tflite")) for file in files):
        return Standing(
            _("Its weights are for other programs (GGUF, ONNX, TensorFlow, Flax), not for PyTorch.")
        )
    return Standing(_("It has no weights in the safetensors format."))


def weights(files: Iterable[str]) -> list[str]:
    """Returns the files of a model's weights as transformers finds them: one, or the parts that an index names."""
    names = set(files)
    if WHOLE in names:
        return [WHOLE]
    if INDEX in names:
        return sorted(file for file in names if file.startswith("model-") and file.endswith(SAFE))
    return []


def has_all_weights(files: Iterable[str]) -> bool:
    """Returns whether there are as many parts as their names say."""
    parts = weights(files)
    part = PART.fullmatch(parts[0]) if parts else None
    return bool(parts) and (part is None or len(parts) == int(part[1]))


def wanted(files: Iterable[str]) -> list[str]:
    """Returns the files of a model that a run needs: safetensors, config, tokenizer; never code or pickled weights."""
    top = {file for file in files if "/" not in file}
    describing = {
        file
        for file in top
        if file.endswith(DESCRIBING)
        and not file.startswith(NOT_DESCRIBING)
        and not file.endswith(OTHER_INDEXES)
    }
    return sorted({*describing - ({INDEX} if WHOLE in top else set()), *weights(top)})


def suits(purpose: str, task: str) -> bool:
    """Returns whether a model with this `pipeline_tag` can learn a task, or any task if `task` is empty."""
    return any(purpose in known for name, known in PURPOSES.items() if task in (name, ""))


def weight_bytes(parameters: Mapping[str, int]) -> int:
    """Returns the bytes of weights, from their number by format (`{"F32": 66955010}`)."""
    return int(sum(count * _BYTES.get(form, 1) for form, count in parameters.items()))


def page_of(name: str, kind: RepoKind) -> str:
    """Returns the address of a model's or data set's page."""
    return f"{PUBLIC}/{'' if kind is RepoKind.MODEL else 'datasets/'}{name}"


# --- The Hub's cache on this computer

PARTIAL = ".hone.incomplete"
"""File name ending of unfinished files. That of huggingface_hub lacks "hone": it never continues such files
(https://github.com/huggingface/huggingface_hub/pull/4228)."""


def repo_folder(name: str, kind: RepoKind) -> Path:
    """Returns the folder of a repository in the cache, whether it exists or not."""
    return settings.hub_cache() / f"{kind}s--{name.replace('/', '--')}"


def snapshot(name: str, kind: RepoKind) -> Path | None:
    """Returns the folder with the newest files of a repository; None if there are none."""
    folder = repo_folder(name, kind)
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return None
    found = folder / "snapshots" / commit
    return found if commit and found.is_dir() else None


def names_here(name: str, kind: RepoKind) -> dict[str, int]:
    """Returns sizes of the finished files by their names in the repository (`data/train.csv`)."""
    folder = snapshot(name, kind)
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


def partial_files(name: str, kind: RepoKind) -> list[Path]:
    return sorted((repo_folder(name, kind) / "blobs").glob(f"*{PARTIAL}"))


def partial_bytes(name: str, kind: RepoKind) -> int:
    return sum(path.stat().st_size for path in partial_files(name, kind))


# --- Whether connections to the Hub are allowed


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def may_be_there(options: RunOptions) -> bool:
    """Returns whether the model's source could be an id on the Hub."""
    source = options.model.source
    return is_name(source) and not Path(source).is_dir()


def is_name(source: str) -> bool:
    """Returns whether this is a valid id on the Hub: `model` or `owner/model`."""
    return _NAME.fullmatch(source) is not None


def is_forbidden() -> bool:
    return bool(forbidden_by())


def forbidden_by() -> str:
    """Returns the setting or variable that forbids connections to the Hub; empty if none does.

    The variables are read as by huggingface_hub and transformers
    (https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables).
    """
    try:
        if settings.load().offline:  # first: `forbid` sets the variable, too
            return _("“Work offline” in Settings")
    except OSError:
        pass
    value = os.environ.get(VARIABLE) or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return VARIABLE if value.upper() in ("1", "ON", "YES", "TRUE") else ""


def forbid() -> None:
    """Lets the libraries of this process and its children know if connections to the Hub are forbidden."""
    if is_forbidden():
        os.environ[VARIABLE] = "1"


def not_here(source: str, by: str = "") -> ModelError:
    """Returns the error for a model that isn't here and whose download `by`, a setting or variable, forbids."""
    by = by or forbidden_by()
    return ModelError(
        _("{source} isn't on this computer, or not all of it").format(source=source),
        _("{by} forbids its download from {host}.").format(
            by=f"{by} (--offline)" if by == VARIABLE else by, host=host()
        ),
        (
            Fix(_("Download it when online: hone hub --download {source}").format(source=source)),
            Fix(_("Choose a folder with a model in it")),
        ),
    )


def host() -> str:
    """Returns the Hub's host: huggingface.co, or the mirror in `HF_ENDPOINT`."""
    return urlsplit(os.environ.get("HF_ENDPOINT") or PUBLIC).netloc


# --- Whether a model is on this computer


def is_at_hand(options: RunOptions) -> bool:
    """Returns whether the model's architecture is known without a connection."""
    source = options.model.source
    if options.task.reads_images and Scheme.TORCHVISION.name_of(source):
        return True
    if is_scratch(source):
        return scratch_model(source) is not None
    if is_run(source):
        folder = model_folder(source)
        return folder is not None and folder.is_dir()
    return bool(source) and (CONFIG in names_here(source, RepoKind.MODEL) or Path(source).is_dir())


def is_complete(options: RunOptions) -> bool:
    """Returns whether all files of the model that a run needs are on this computer, weights of torchvision aside."""
    if not may_be_there(options):
        return True
    files = names_here(options.model.source, RepoKind.MODEL)
    has_tokenizer = bool(files.keys() - {CONFIG})
    return has_tokenizer if options.starts_random else has_all_weights(files)
