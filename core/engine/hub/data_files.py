"""Which files of a data set on the Hub are its samples, and to which subset and split each belongs.

A data set's card may say it (`configs`, https://huggingface.co/docs/hub/datasets-manual-configuration); else the names
of files and folders do (https://huggingface.co/docs/hub/datasets-file-names-and-splits). Code that comes with a data
set is neither fetched nor run.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from core.errors import DataError
from core.hub_standing import Standing

DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".txt")
"""What the files of a data set may end with, for Hone to read them."""

NO_DATA = (
    "dataset_infos.json",
    "dataset_info.json",
    "requirements.txt",
    "LICENSE.txt",
    "README.txt",
    "state.json",
)

TRAIN = "train"
WORDS = {
    TRAIN: (TRAIN, "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""What the names of files and folders say of each split."""

Splits = dict[str, list[str]]


def is_data(name: str) -> bool:
    """Whether a file holds samples that Hone could read."""
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return path.suffix.lower() in DATA and path.name not in NO_DATA and not hidden


def script_refusal(files: Iterable[str]) -> Standing:
    """Why a data set can't be read; empty words: it can."""
    names = list(files)
    if any(is_data(name) for name in names):
        return Standing()
    if any(name.endswith(".py") and "/" not in name for name in names):
        return Standing(
            "It comes as Python code that makes the samples, which Hone doesn't run: such code could do anything on "
            "this computer.",
            "Look on its page under Files for a branch refs/convert/parquet, download that, and choose the folder.",
        )
    return Standing("It has no Parquet, CSV or JSON files.")


def subsets(card: Mapping[str, Any], files: Iterable[str]) -> dict[str, Splits]:
    """The files of each split of each subset; a data set without named subsets has one with an empty name.

    Args:
        card: What stands at the top of the data set's README.md.
        files: Names of its files.
    """
    names = sorted(name for name in files if is_data(name))
    configs = card.get("configs")
    found: dict[str, Splits] = {}
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, Mapping):
            splits = _said(config, names)
            if splits:
                found[str(config.get("config_name") or "")] = splits
    return found or {"": by_names(names)}


def chosen(found: Mapping[str, Splits], subset: str, name: str) -> tuple[str, Splits]:
    """One subset: the named one, else the one called `default`, else the first.

    Raises:
        DataError: There is none of this name.
    """
    if subset and subset not in found:
        known = ", ".join(sorted(found)[:20])
        raise DataError(f"{name} has no subset {subset}", f"It has: {known}." if known else "It names none.")
    key = subset or ("default" if "default" in found else next(iter(found), ""))
    return key, found.get(key, {})


def by_names(names: Iterable[str]) -> Splits:
    """The split of each file, told by its name or a folder above it; all are for training where none says anything."""
    found: Splits = {}
    rest: list[str] = []
    for name in names:
        split = split_of(name)
        (found.setdefault(split, []) if split else rest).append(name)
    if not found and rest:
        found[TRAIN] = rest
    return found


def split_of(name: str) -> str:
    """The split that the name of a file, or of a folder above it, speaks of; empty: none."""
    parts = re.split(r"[^a-z]+", name.lower())
    for part in reversed(parts[:-1]):  # the last is the file's ending
        for split, words in WORDS.items():
            if part in words:
                return split
    return ""


def _said(config: Mapping[str, Any], names: list[str]) -> Splits:
    """The splits of one entry of a card's `configs`."""
    folder = str(config.get("data_dir") or "").strip("/")
    within = [name for name in names if not folder or name.startswith(f"{folder}/")]
    said = config.get("data_files")
    if said is None:
        return by_names(within)
    if isinstance(said, list) and any(isinstance(entry, Mapping) for entry in said):
        entries = [entry for entry in said if isinstance(entry, Mapping)]
        splits = {
            str(entry.get("split") or TRAIN): _matching(entry.get("path"), within, folder)
            for entry in entries
        }
    elif isinstance(said, Mapping):
        splits = {str(split): _matching(pattern, within, folder) for split, pattern in said.items()}
    else:
        matching = _matching(said, within, folder)
        splits = by_names(matching)
    return {split: files for split, files in splits.items() if files}


def _matching(patterns: Any, names: list[str], folder: str) -> list[str]:
    wanted = [str(one) for one in (patterns if isinstance(patterns, list) else [patterns]) if one]
    full = [f"{folder}/{one}" if folder else one for one in wanted]
    return [name for name in names if any(_matches(name, one.removeprefix("./")) for one in full)]


def _matches(name: str, pattern: str) -> bool:
    """Whether a file's name answers to a pattern; `**` stands for any folders, or none."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern.replace("**/", ""))
