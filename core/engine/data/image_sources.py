"""Where stored images are: a data set of the Hub, a folder, a table, Parquet, or IDX files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.engine.data import idx_images, image_folders
from core.engine.data.image_sets import FoundImages
from core.engine.data.image_tables import is_table, only_table, read_image_table
from core.engine.data.parquet_images import load_parquet
from core.errors import DataError, Fix
from core.sources import Scheme, hub_data

PARQUET = ".parquet"
EVAL_NAMES = ("validation", "val", "test")
"""What the names of files for evaluation begin with, in the Hub's data sets; the first that is there counts."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table that were chosen; None: guessed."""

    image: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Splits:
    """The parts of a source that were chosen. Without any, what a source brings for evaluation is taken for that."""

    train: str | None = None
    eval: str | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether any was."""
        return self.train is not None or self.eval is not None


WHOLE = Splits()


def find_stored(source: str, columns: Columns, splits: Splits = WHOLE) -> FoundImages:
    """Find images on this computer's disk; none is decoded.

    Raises:
        DataError: There are none, or not the chosen columns or splits.
        OSError: A file or folder can't be read.
    """
    name = Scheme.HUB.name_of(source)
    if name is not None:
        return _find_on_hub(name, columns, splits)
    path = Path(source)
    if path.is_dir():
        return _find_in_folder(path, columns, splits)
    if not path.exists():
        raise DataError(f"There is no {path.name}", f"{path} is neither a file nor a folder.")
    if idx_images.is_idx(path):
        return idx_images.load_file(path)
    if is_table(path):
        return read_image_table(path, columns.image, columns.label)
    raise DataError(
        f"{path.name} holds no images Hone can find",
        f"{path}: images are read from a folder with one folder a class, from a table with a column of image paths "
        "(CSV, TSV, JSON, JSONL), from Parquet with images in it, or from IDX files as MNIST ships.",
        (Fix("Choose the folder that holds the class folders"),),
    )


def _find_on_hub(name: str, columns: Columns, splits: Splits) -> FoundImages:
    from core.engine.hub.data_sets import dataset_files, dataset_splits

    dataset, subset = hub_data(name)
    train = _of_files(name, dataset_files(dataset, subset, splits.train or ""), columns)
    train = replace(train, splits=tuple(dataset_splits(dataset, subset)))
    if splits.eval is None:
        return train
    used = Columns(train.image_column, train.label_column)
    held_out = _of_files(name, dataset_files(dataset, subset, splits.eval), used)
    return replace(train, eval=held_out.train, eval_name=splits.eval)


def _of_files(name: str, files: Sequence[Path], columns: Columns) -> FoundImages:
    if all(path.suffix.lower() == PARQUET for path in files):
        return load_parquet(files, columns.image, columns.label)
    if len(files) == 1:
        return read_image_table(files[0], columns.image, columns.label)
    raise DataError(
        f"{name} holds no images Hone can read",
        f"Of the Hub, Hone reads images inside Parquet files; here are {', '.join(path.name for path in files[:4])}.",
    )


def _find_in_folder(folder: Path, columns: Columns, splits: Splits) -> FoundImages:
    if idx_images.folder_has_idx(folder):
        return idx_images.load_folder(folder)
    table = only_table(folder)
    if table is not None:
        return read_image_table(table, columns.image, columns.label)
    files = parquet_files(folder)
    if files:
        return _of_parquet(folder, files, columns, splits)
    return image_folders.load_folder(folder, splits.train, splits.eval)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder, or of the folder `data` in it, as a data set of the Hub has them."""
    for place in (folder, folder / "data"):
        visible = place.iterdir() if place.is_dir() else ()
        found = [path for path in visible if path.suffix.lower() == PARQUET and path.name[0] != "."]
        if found:
            return sorted(found)
    return []


def _of_parquet(folder: Path, files: list[Path], columns: Columns, splits: Splits) -> FoundImages:
    """All Parquet files of a folder as one set; those of the split for evaluation, or called test, are held out."""
    if splits.is_chosen:
        names = [name for name in (splits.eval,) if name]
    else:
        names = [name for name in EVAL_NAMES if _called(files, name)][:1]
    held_out = [path for name in names for path in _called(files, name)]
    unused = [path for name in EVAL_NAMES for path in _called(files, name)] if splits.train is None else []
    training = (
        _called(files, splits.train)
        if splits.train
        else [path for path in files if path not in held_out and path not in unused]
    )
    for name, group in ((splits.train, training), (splits.eval, held_out)):
        if name and not group:
            shown = ", ".join(path.name for path in files[:6])
            raise DataError(
                f"{folder.name} has no split {name}", f"{folder}: no file begins with {name}: {shown}."
            )
    if not training:  # all are called test
        training, held_out = files, []
    named = tuple(dict.fromkeys(path.stem.partition("-")[0] for path in files))
    train = replace(load_parquet(training, columns.image, columns.label), splits=named)
    if not held_out:
        return train
    evaluation = load_parquet(held_out, train.image_column, train.label_column)
    return replace(train, eval=evaluation.train, eval_name=held_out[0].name)


def _called(files: Sequence[Path], name: str) -> list[Path]:
    """Those files whose names begin with this word, such as train-00000-of-00002.parquet; values.parquet is no val."""
    word = re.compile(rf"{re.escape(name)}(?![A-Za-z])")
    return [path for path in files if word.match(path.name)]
