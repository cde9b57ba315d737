"""Searches the Hub for models and data sets, and finds the files of each split of a data set."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import ModelInfo

from core.base.errors import DataError, UserError
from core.base.language import _
from core.engine.hub.api import Info, Subject, ask, info, not_the_hub
from core.engine.hub.token import find_token
from core.jobs import hub as hub_jobs
from core.options import hub

# --- The files of each split of a data set


CARD = "README.md"
DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".txt")
"""File name endings of data that Hone reads."""

NO_DATA = (
    "dataset_infos.json", "dataset_info.json", "requirements.txt", "LICENSE.txt", "README.txt", "state.json",
)  # fmt: skip

TRAIN = "train"
SPLIT_NAMES = {
    TRAIN: (TRAIN, "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""Words in the names of each split's files and folders."""

Splits = dict[str, list[str]]


def is_data(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return path.suffix.lower() in DATA and path.name not in NO_DATA and not hidden


def subsets(card: Mapping[str, Any], files: Iterable[str]) -> dict[str, Splits]:
    """Returns the files of each split of each subset; a data set without named subsets has one with an empty name.

    Args:
        card: The metadata at the top of the data set's README.md.
        files: Names of its files.
    """
    names = sorted(name for name in files if is_data(name))
    configs = card.get("configs")
    found: dict[str, Splits] = {}
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, Mapping) and (splits := _splits_of(config, names)):
            found[str(config.get("config_name") or "")] = splits
    return found or {"": by_names(names)}


def chosen(found: Mapping[str, Splits], subset: str, name: str) -> Splits:
    """Returns one subset: the named one, else the one called `default`, else the first.

    Raises:
        DataError: There is none of this name.
    """
    if subset and subset not in found:
        raise DataError(
            _("{name} has no subset {subset}").format(name=name, subset=subset),
            _("Its subsets: {names}").format(names=", ".join(sorted(found)[:20]) or "-"),
        )
    return found.get(subset or ("default" if "default" in found else next(iter(found), "")), {})


def by_names(names: Iterable[str]) -> Splits:
    """Returns files by the split in their names or folders; without any split, all are for training."""
    found: Splits = {}
    rest: list[str] = []
    for name in names:
        split = split_of(name)
        (found.setdefault(split, []) if split else rest).append(name)
    return found or ({TRAIN: rest} if rest else {})


def split_of(name: str) -> str:
    """Returns the split in the name of a file or of a folder above it; empty if none."""
    words = re.split(r"[^a-z]+", name.lower())[:-1]  # without the file's ending
    return next(
        (split for word in reversed(words) for split, known in SPLIT_NAMES.items() if word in known), ""
    )


def _splits_of(config: Mapping[str, Any], names: list[str]) -> Splits:
    """Reads the splits of a card's config (https://huggingface.co/docs/hub/datasets-manual-configuration)."""
    folder = str(config.get("data_dir") or "").strip("/")
    within = [name for name in names if not folder or name.startswith(f"{folder}/")]
    files = config.get("data_files")
    if files is None:
        return by_names(within)
    if isinstance(files, list) and any(isinstance(entry, Mapping) for entry in files):
        files = {
            entry.get("split") or TRAIN: entry.get("path") for entry in files if isinstance(entry, Mapping)
        }
    if not isinstance(files, Mapping):
        return by_names(_matching(files, within, folder))
    splits = {str(split): _matching(patterns, within, folder) for split, patterns in files.items()}
    return {split: matching for split, matching in splits.items() if matching}


def _matching(patterns: Any, names: list[str], folder: str) -> list[str]:
    """Returns the names that match one of the patterns; `**` stands for any folders, or none."""
    texts = [str(pattern) for pattern in (patterns if isinstance(patterns, list) else [patterns]) if pattern]
    full = [(f"{folder}/{text}" if folder else text).removeprefix("./") for text in texts]
    return [
        name
        for name in names
        if any(fnmatchcase(name, text) or fnmatchcase(name, text.replace("**/", "")) for text in full)
    ]


def cached_splits(name: str, subset: str = "") -> dict[str, tuple[Path, ...]]:
    """Returns the files of each split of a data set in the cache: Parquet, CSV, TSV, JSON or JSON Lines.

    Args:
        subset: One of its subsets; empty: `default`, or the first.

    Raises:
        DataError: It isn't on this computer, or has no such subset.
    """
    folder = hub.snapshot(name, hub.RepoKind.DATASET)
    names = [file for file in hub.names_here(name, hub.RepoKind.DATASET) if is_data(file)]
    if folder is not None and names:
        splits = chosen(subsets(card_of(folder / CARD), names), subset, name)
        return {split: tuple(folder / file for file in files) for split, files in splits.items()}
    if not hub.is_name(name):
        detail = _("Names look like “owner/name”, as on the data set's page.")
        raise DataError(_("“{name}” is not a valid name of a data set on the Hub").format(name=name), detail)
    raise DataError(
        _("The data set {name} isn't on this computer, or not all of it").format(name=name),
        _("Download it first: {command} ({page})").format(
            command=f"hone hub --data --download {name}", page=hub.page_of(name, hub.RepoKind.DATASET)
        ),
    )


def card_of(path: Path) -> dict[str, Any]:
    """Returns the metadata of a data set's README.md; empty if it is missing or damaged."""
    import yaml  # type: ignore[import-untyped]  # comes with huggingface_hub, which reads cards with it
    from huggingface_hub import metadata_load

    if not path.is_file():
        return {}
    try:
        return metadata_load(path) or {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


# --- Searching


LIMIT = 100
"""The most results of a search."""

_FIELDS = {
    hub.RepoKind.MODEL: (
        "config", "downloads", "gated", "library_name", "likes", "pipeline_tag", "private", "safetensors", "siblings",
        "tags",
    ),
    hub.RepoKind.DATASET: ("downloads", "gated", "likes", "mainSize", "private", "siblings", "tags"),
}  # fmt: skip


def search(request: hub_jobs.SearchRequest) -> hub_jobs.SearchAnswer:
    """Finds models or data sets by their names, the most downloaded first.

    Raises:
        UserError: The Hub can't be reached, or refuses.
    """
    kind, words = request.kind, request.words.strip()
    subject, expand = Subject(kind=kind), {"expand": list(_FIELDS[kind])}
    params = {"sort": "downloads", "limit": LIMIT, **expand, **({"search": words} if words else {})}
    if kind is hub.RepoKind.MODEL:
        params["filter"] = "transformers"
    answer = ask(f"/api/{kind}s", subject, params)
    if not isinstance(answer, list):
        raise not_the_hub(subject)
    records = [info(record, kind, subject) for record in answer]
    exact = [record for record in records if record.id == words]
    if not exact and hub.is_name(words) and "/" in words:  # a private one is found by its full name only
        named = Subject(words, kind)
        with contextlib.suppress(UserError):
            exact = [info(ask(f"/api/{kind}s/{words}", named, expand), kind, named)]
    others = [
        record
        for record in records
        if record.id != words
        and (not isinstance(record, ModelInfo) or hub.suits(record.pipeline_tag or "", request.task))
    ]
    found = tuple(found_of(record) for record in exact + others)
    return hub_jobs.SearchAnswer(found=found, signed_in=bool(find_token()[0]))


def found_of(record: Info) -> hub_jobs.Found:
    """Describes a model or data set, and whether Hone can use it."""
    names = [sibling.rfilename for sibling in record.siblings or ()]
    tags = record.tags or []
    parameters = None
    if isinstance(record, ModelInfo):
        kind, needed, purpose = hub.RepoKind.MODEL, hub.wanted(names), record.pipeline_tag or ""
        judged = hub.standing(names, tags=tags, config=record.config)
        tensors, size = record.safetensors, None
        if tensors:
            parameters = _parameters(tensors, record.config)
            size = hub.weight_bytes(tensors.parameters) if tensors.parameters else None
    else:
        kind, needed = hub.RepoKind.DATASET, [name for name in names if is_data(name)]
        purpose, size = _tagged(tags, "task_categories:"), record.main_size
        judged = _standing_of_data(names)
    here, partial = hub.names_here(record.id, kind), hub.partial_bytes(record.id, kind)
    if kind is hub.RepoKind.MODEL:
        complete = bool(needed) and here.keys() >= set(needed)
    else:  # one subset of it is enough
        complete = any(map(is_data, here)) and not partial
    return hub_jobs.Found(
        id=record.id,
        kind=kind,
        downloads=record.downloads,
        likes=record.likes,
        size=size,
        parameters=parameters,
        licence=_tagged(tags, "license:"),
        purpose=purpose,
        gated=bool(record.gated),
        private=bool(record.private),
        here=partial + sum(here.get(name, 0) for name in needed),
        complete=complete,
        **judged._asdict(),
    )


def _parameters(tensors: Any, config: Any) -> int | None:
    """Returns the number of weights, which isn't that of numbers if MLX packs them into words; None if unknown."""
    words = (tensors.parameters or {}).get("U32")
    if not words:
        return int(tensors.total)
    match config:  # mlx-lm writes what is under "quantization" here as well, for the Hub
        case {"quantization_config": {"bits": int(bits)}} if bits > 0:
            return int(words * 32 // bits)  # the rest are scales, and a few norms
    return None


def _standing_of_data(names: list[str]) -> hub.Standing:
    if any(map(is_data, names)):
        return hub.Standing()
    if any(name.endswith(".py") and "/" not in name for name in names):
        return hub.Standing(
            _(
                "It is Python code that makes the examples, which Hone doesn't run: it could do anything here."
            ),
            _(
                "Look on its page under Files for a branch refs/convert/parquet, download it, and choose the folder."
            ),
        )
    return hub.Standing(_("It has no Parquet, CSV or JSON files."))


def _tagged(tags: list[str], prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")
