"""What Hone may ask the Hugging Face Hub before a run: one model's config.json, and only when the person wants it."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from core.choices import Task
from core.errors import ModelError
from core.options import RunOptions

CONFIG = "config.json"
"""Describes a model: of which kind, how wide, how deep. It has a few KB and holds no code and no weights."""

PUBLIC = "https://huggingface.co"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_TRUE = ("1", "ON", "YES", "TRUE")


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch the config.json of this model on the Hub, such as `google-bert/bert-base-cased`."""

    source: str


class ConfigFetched(msgspec.Struct, frozen=True, kw_only=True):
    """Where it lies now, in the Hub's cache on this computer."""

    path: str


def may_be_there(options: RunOptions) -> bool:
    """Whether the model is named as one on the Hub: not a folder, nor one of torchvision's."""
    source = options.model.source
    is_name = options.task is not Task.IMAGE_CLASSIFICATION and _NAME.fullmatch(source) is not None
    return is_name and not Path(source).is_dir()


def is_forbidden() -> bool:
    """Whether the person has told all programs to leave the Hub alone, as huggingface_hub reads it.

    https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables; transformers' own variable
    counts where the other isn't set.
    """
    said = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return said.upper() in _TRUE


def forbidden(source: str, by: str) -> ModelError:
    """The error where a model isn't here and must not be asked about; `by` is what forbids it."""
    return ModelError(
        f"{source} isn't on this computer yet",
        f"Its memory is told from its {CONFIG}, and {by} forbids to fetch that.",
    )


def host() -> str:
    """Who is asked: huggingface.co, or the mirror that `HF_ENDPOINT` names."""
    return urlsplit(os.environ.get("HF_ENDPOINT") or PUBLIC).netloc


def cached_files(source: str) -> frozenset[str]:
    """Names of the files of a model on the Hub that have been fetched before, of any of its versions.

    The cache is laid out as https://huggingface.co/docs/huggingface_hub/guides/manage-cache says.
    """
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or users / "huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    snapshots = cache / f"models--{source.replace('/', '--')}" / "snapshots"
    return frozenset(path.name for path in snapshots.glob("*/*"))
