"""What Hone may ask the Hugging Face Hub before a run: one model's config.json, and only when the person wants it."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from core import settings
from core.errors import Fix, ModelError
from core.hub_files import cache_folder
from core.options import RunOptions

CONFIG = "config.json"
"""Describes a model: of which kind, how wide, how deep. It has a few KB and holds no code and no weights."""

VARIABLE = "HF_HUB_OFFLINE"
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
    return is_name(source) and not Path(source).is_dir()


def is_name(source: str) -> bool:
    """Whether a model or data set on the Hub could be called so: `model` or `owner/model`."""
    return _NAME.fullmatch(source) is not None


def is_forbidden() -> bool:
    """Whether the person has told Hone, or all programs, to leave the Hub alone."""
    return bool(forbidden_by())


def forbidden_by() -> str:
    """What forbids to ask the Hub, in words; empty: nothing does.

    The variable counts as huggingface_hub reads it
    (https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables); transformers' own one counts
    where that isn't set.
    """
    try:
        if settings.load().offline:  # first: `forbid` sets the variable, too
            return "“Work offline” in Settings"
    except OSError:
        pass
    said = os.environ.get(VARIABLE) or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return VARIABLE if said.upper() in _TRUE else ""


def forbid() -> None:
    """Have every library in this process, and those it starts, leave the Hub alone where the person said so."""
    if is_forbidden():
        os.environ[VARIABLE] = "1"


def forbidden(source: str, by: str) -> ModelError:
    """The error where a model isn't here and must not be asked about; `by` is what forbids it."""
    return ModelError(
        f"{source} isn't on this computer yet",
        f"Its memory is told from its {CONFIG}, and {by} forbids to fetch that.",
    )


def not_here(source: str) -> ModelError:
    """The error where a run needs a model that isn't on this computer, and something forbids to fetch it."""
    by = forbidden_by()
    said = f"{by} (which --offline sets, too)" if by == VARIABLE else by
    return ModelError(
        f"{source} isn't on this computer, or not all of it",
        f"{said} forbids to fetch it from {host()}.",
        (
            Fix(f"Fetch it while that is allowed: hone hub download {source}"),
            Fix("Choose a folder with a model in it"),
        ),
    )


def host() -> str:
    """Who is asked: huggingface.co, or the mirror that `HF_ENDPOINT` names."""
    return urlsplit(os.environ.get("HF_ENDPOINT") or PUBLIC).netloc


def cached_files(source: str) -> frozenset[str]:
    """Names of the files of a model on the Hub that have been fetched before, of any of its versions.

    The cache is laid out as https://huggingface.co/docs/huggingface_hub/guides/manage-cache says.
    """
    snapshots = cache_folder() / f"models--{source.replace('/', '--')}" / "snapshots"
    return frozenset(path.name for path in snapshots.glob("*/*"))
