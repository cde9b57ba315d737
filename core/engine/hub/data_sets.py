"""A data set of the Hub that lies in the cache: its subsets, its splits, and the files of each. Nothing is fetched."""

from pathlib import Path
from typing import Any

from core import hub
from core.engine.hub import data_files
from core.engine.hub.data_files import Splits
from core.engine.hub.words import page_of
from core.errors import DataError
from core.hub_files import names_here, partial_files, snapshot
from core.hub_questions import Kind

CARD = "README.md"


def dataset_splits(name: str, subset: str = "") -> list[str]:
    """The splits of a data set in the cache, such as `train` and `test`.

    Args:
        name: Its id, `owner/name`.
        subset: The part of it, where it has several; empty: `default`, or the first.

    Raises:
        DataError: It isn't on this computer, or has no such subset.
    """
    return list(data_files.chosen(_found(name), subset, name)[1])


def dataset_files(name: str, subset: str = "", split: str = "") -> list[Path]:
    """The files of one split of a data set in the cache, in order: Parquet, CSV, TSV, JSON or JSON Lines.

    Args:
        name: Its id, `owner/name`.
        subset: The part of it, where it has several; empty: `default`, or the first.
        split: Which split; empty: `train`, or the only one.

    Raises:
        DataError: It isn't on this computer, or has no such subset or split.
    """
    _, splits = data_files.chosen(_found(name), subset, name)
    split = split or (
        data_files.TRAIN if data_files.TRAIN in splits or len(splits) != 1 else next(iter(splits))
    )
    if split not in splits:
        raise DataError(f"{name} has no split {split}", f"It has: {', '.join(splits)}.")
    folder = snapshot(name, Kind.DATASET)
    assert folder is not None
    return [folder / one for one in splits[split]]


def card_of(path: Path) -> dict[str, Any]:
    """What stands at the top of a data set's README.md; empty where there is none, or it can't be read."""
    import yaml  # type: ignore[import-untyped]  # comes with huggingface_hub, which reads cards with it
    from huggingface_hub import metadata_load

    if not path.is_file():
        return {}
    try:
        return metadata_load(path) or {}
    except (OSError, ValueError, yaml.YAMLError):  # a damaged card says nothing
        return {}


def _found(name: str) -> dict[str, Splits]:
    folder = snapshot(name, Kind.DATASET)
    names = [one for one in names_here(name, Kind.DATASET) if data_files.is_data(one)]
    if folder is None or not names:
        raise _not_here(name)
    return data_files.subsets(card_of(folder / CARD), names)


def _not_here(name: str) -> DataError:
    if not hub.is_name(name):
        return DataError(
            f"“{name}” is no name of a data set on the Hub",
            "Such a name is “owner/name”, as its page shows it.",
        )
    if partial_files(name, Kind.DATASET):
        return DataError(
            f"{name} has not come to its end yet", f"Go on with its download: hone hub download --data {name}"
        )
    return DataError(
        f"The data set {name} isn't on this computer",
        f"Download it first: hone hub download --data {name} ({page_of(name, Kind.DATASET)})",
    )
