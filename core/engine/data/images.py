"""Images for training and evaluation, wherever they come from."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from core.base.errors import DataError, Fix
from core.base.files import without_tilde
from core.engine.data import parquet_images
from core.engine.data.columns import (
    PREVIEW_ROWS,
    as_text,
    choose_image_column,
    choose_label_column,
    describe,
    first_rows,
    is_blank,
)
from core.engine.data.image_files import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    UNREADABLE,
    Colours,
    EncodedImages,
    FoundImages,
    ImageFiles,
    ImagePixels,
    ImageSet,
    ImageTransform,
    LabelledImages,
    Rows,
    as_rgb,
    damaged_image,
    decode_small,
    explained,
    opened,
    refuse_damaged,
)
from core.engine.data.parquet_images import is_parquet_of_images, load_parquet
from core.engine.data.splits import (
    HOLD_OUT_INSTEAD,
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    indices,
    refuse_single,
    stratified_split,
)
from core.engine.data.splits import in_order as splits_in_order
from core.engine.data.tables import Table, read_table
from core.engine.data.text_files import ENDINGS, Kind, in_order, listed
from core.options import RunOptions
from core.options.presets import IMAGE_FORMATS
from core.options.sources import DIGITS, Scheme, hub_data, parse_synthetic

# --- Images that need no file: the digits that come with scikit-learn, and random ones


POOL_BYTES = 64 * 2**20


def digits() -> FoundImages:
    """The 1,797 handwritten digits of scikit-learn: scans of 8 x 8 pixels with 17 levels of grey.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (its test set).
    """
    from sklearn.datasets import load_digits

    bundled = load_digits()
    pixels = torch.from_numpy(bundled.images).mul(255 / 16).round().to(torch.uint8)
    names = [str(label) for label in bundled.target]
    return FoundImages(ImagePixels(pixels[:, None], names, "the digits"), "scikit-learn digits")


def synthetic_images(samples: int, size: int, seed: int) -> FoundImages:
    """Random colour images of `size` x `size` pixels in two classes, for timing.

    At most 64 MiB of them are drawn; more samples show the same images again, so that the data costs nothing.
    """
    drawn = max(1, min(samples, POOL_BYTES // (3 * size * size)))
    generator = torch.Generator().manual_seed(seed)
    pool = torch.randint(0, 256, (drawn, 3, size, size), dtype=torch.uint8, generator=generator)
    names = [str(number % 2) for number in range(samples)]
    return FoundImages(ImagePixels(pool, names, "the synthetic images"), "synthetic")


# --- Folders of class folders: `cats/1.jpg`, `dogs/2.jpg`, optionally below `train/` and `val/`


TRAIN_FOLDERS = ("train", "training")
EVAL_FOLDERS = ("val", "valid", "validation", "eval", "test", "testing")
SHOWN = 5


@dataclass(frozen=True)
class _Scan:
    """The images below one root, and what was passed over."""

    root: Path
    images: ImageFiles
    empty: tuple[str, ...]
    ignored: int

    def notes(self) -> tuple[str, ...]:
        """What a person may want to know about what was passed over."""
        found = []
        if self.empty:
            found.append(f"Class folders without images are left out: {listed(self.empty)}.")
        if self.ignored:
            files = "1 file that is" if self.ignored == 1 else f"{self.ignored:,} files that are"
            found.append(f"{files} no image in a class folder of {self.root.name} left out.")
        return tuple(found)


def load_class_folders(folder: Path, train: str | None = None, held_out: str | None = None) -> FoundImages:
    """Find the images of a folder; none is opened.

    Args:
        folder: The class folders are in it, or in folders in it that are called as splits are.
        train: The name of the folder to train on; None: `train`, or the folder itself.
        held_out: The name of the folder to evaluate on; None: `val` or the like, where no other was chosen.

    Raises:
        DataError: There are no class folders, or no images, or no folder of such a name.
    """
    train_root, eval_root = _roots(folder, train, held_out)
    found = _load(train_root, eval_root)
    if train_root == folder:
        return found
    return replace(found, splits=tuple(path.name for path in _folders(folder)))


def _load(train_root: Path, eval_root: Path | None) -> FoundImages:
    train = _scan(train_root)
    held_out = _scan(eval_root) if eval_root else None
    notes = train.notes()
    if held_out is None:
        return FoundImages(train.images, "class folders", notes=notes)
    notes = (*notes, *held_out.notes())
    return FoundImages(train.images, "class folders", held_out.images, held_out.root.name, notes)


def _roots(folder: Path, asked_train: str | None, asked_eval: str | None) -> tuple[Path, Path | None]:
    """Where the class folders for training and, if the folder brings them, for evaluation are."""
    by_name = {path.name.lower(): path for path in _folders(folder)}
    for name in (asked_train, asked_eval):
        if name and name.lower() not in by_name:
            raise DataError(
                f"{folder.name} has no split {name}",
                f"{folder}: there is no folder {name}; there are {listed(list(by_name)) or 'none'}.",
            )
    if asked_train:
        return by_name[asked_train.lower()], by_name[asked_eval.lower()] if asked_eval else None
    train = next((by_name[name] for name in TRAIN_FOLDERS if name in by_name), None)
    held_out = next((by_name[name] for name in EVAL_FOLDERS if name in by_name), None)
    if train is None or not _folders(train):
        return folder, None
    return train, by_name[asked_eval.lower()] if asked_eval else held_out


def _folders(folder: Path) -> list[Path]:
    """The folders in it, but for hidden ones and links back to it or above it, which would show all images again."""
    above = {folder.resolve(), *folder.resolve().parents}
    return in_order(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and path.is_dir()
        and not (path.is_symlink() and path.resolve() in above)
    )


def _scan(root: Path) -> _Scan:
    class_folders = _folders(root)
    if not class_folders:
        raise _no_class_folders(root)
    found: list[tuple[int, str, Path]] = []
    empty: list[str] = []
    ignored = sum(path.is_file() and not path.name.startswith(".") for path in root.iterdir())
    for class_folder in class_folders:
        files = _files(class_folder)
        images = [path for path in files if path.suffix.lower() in IMAGE_FORMATS]
        found += [(place, class_folder.name, path) for place, path in enumerate(images)]
        ignored += len(files) - len(images)
        if not images:
            empty.append(class_folder.name)
    if not found:
        raise DataError(
            f"{root.name} has no images in its class folders",
            f"{root}: the folders {listed(empty)} hold no {_endings()} files.",
        )
    found.sort()  # one of each class in turn: "the first 100" then holds all classes
    images_in_turn = ImageFiles([path for *_, path in found], [name for _, name, _ in found])
    return _Scan(root, images_in_turn, tuple(empty), ignored)


def _files(folder: Path) -> list[Path]:
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return in_order(path for path in found if not path.name.startswith(".") and path.name != "Thumbs.db")


def _no_class_folders(root: Path) -> DataError:
    images = sum(path.suffix.lower() in IMAGE_FORMATS for path in root.iterdir())
    count = "1 image" if images == 1 else f"{images:,} images"
    found = f"It holds {count} but no folders" if images else "There are no folders in it"
    return DataError(
        f"{root.name} has no class folders",
        f"{root}: {found}. The name of a folder is the label of the images in it: {root.name}/cat/1.jpg, "
        f"{root.name}/dog/2.jpg.",
        (Fix("Make one folder a class and move the images into them"), Fix("Choose the folder above it")),
    )


def _endings() -> str:
    return ", ".join(ending[1:] for ending in IMAGE_FORMATS)


# --- An image as it is, and as the model will see it


SIDE = 256
"""Pixels, at most, of either side."""


@dataclass(frozen=True)
class ImagePreview:
    """PNG files: what the model sees, and what it is made from. `width` and `height` are the original's, in pixels."""

    seen: bytes
    original: bytes
    width: int
    height: int


def preview(images: LabelledImages, index: int, transform: ImageTransform, side: int = SIDE) -> ImagePreview:
    """Show one image before and after its transform; only that one is read.

    Args:
        images: From `find_images(..., open_all=False)`.
        index: Which of them.
        transform: The one training will use: its size, mean and spread.
        side: No PNG gets wider or higher.

    Raises:
        DataError: The image can't be read.
    """
    if isinstance(images, EncodedImages):
        encoded = images.encoded(index)
        try:
            with opened(encoded) as image:
                width, height = image.size
                decode_small(image, 2 * max(side, transform.size))
                seen = transform.from_pil(image)
                return ImagePreview(
                    seen_png(transform, seen, side), _png(_original(image), side), width, height
                )
        except UNREADABLE as error:
            raise damaged_image(images.where(index), explained(encoded, error)) from error
    assert isinstance(images, ImagePixels), "images are stored, or in memory"
    pixels = images.pixels[index % len(images.pixels)]
    height, width = pixels.shape[-2:]
    seen = transform.from_pixels(pixels)
    return ImagePreview(seen_png(transform, seen, side), _png(_from_pixels(pixels), side), width, height)


def seen_png(transform: ImageTransform, pixel_values: Any, side: int = SIDE) -> bytes:
    """A PNG file of what the model sees: floats [3, size, size], normalised by `transform`."""
    return _png(_from_pixels(transform.shown(pixel_values)), side)


def _from_pixels(pixels: Any) -> Any:
    from PIL import Image

    values = pixels.permute(1, 2, 0).numpy()
    return Image.fromarray(values[:, :, 0] if values.shape[-1] == 1 else values)


def _original(image: Any) -> Any:
    """As an image viewer shows it; it stands upright since it was transformed."""
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    return image.convert("RGBA") if has_alpha else as_rgb(image)


def _png(image: Any, side: int) -> bytes:
    image.thumbnail((side, side))
    written = BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


# --- A table that names images and their labels: paths in CSV, TSV, JSON, JSONL or Parquet


def is_table(path: Path) -> bool:
    """Whether a file's ending is that of a table."""
    return path.suffix.lower() in ENDINGS


def read_image_table(
    path: Path, image_column: str | None = None, label_column: str | None = None
) -> FoundImages:
    """Find the images a table names or holds, with their labels; nothing is decoded yet.

    Args:
        path: The file. Paths in it are absolute, or start at the folder it lies in.
        image_column: The column of paths, or of stored images; None: guessed.
        label_column: The column of labels; None: guessed.

    Raises:
        DataError: It is no such table, a column is missing, or no row is complete.
    """
    if ENDINGS.get(path.suffix.lower()) is Kind.PARQUET and is_parquet_of_images(path, image_column):
        return load_parquet((path,), image_column, label_column)
    table = read_table(path)
    image = choose_image_column(table, image_column)
    label = choose_label_column(table, image, label_column)
    kept, notes = _complete_rows(table, image, label)
    paths = as_text(table.rows[image]).take(kept).to_pylist()
    names = pc.utf8_trim_whitespace(as_text(table.rows[label]).take(kept)).to_pylist()
    numbers = table.numbers[kept].tolist()
    files = ImageFiles(_located(paths, path.parent), names, Rows(path.name, numbers, table.row_word))
    return FoundImages(
        files,
        f"{table.format} of image paths",
        notes=(*table.notes, *notes),
        columns=describe(table),
        image_column=image,
        label_column=label,
        preview=first_rows(table, table.columns),
        preview_rows=tuple(table.numbers[:PREVIEW_ROWS].tolist()),
    )


def only_table(folder: Path) -> Path | None:
    """The one table that lies in a folder beside its images, such as labels.csv; None where there are class folders.

    Several folders beside it are taken for classes, unless it is called metadata, as the Hub's tools call it.
    """
    tables = [path for path in _visible(folder) if path.is_file() and is_table(path)]
    folders = [path for path in _visible(folder) if path.is_dir()]
    named = [path for path in tables if path.stem.lower() == "metadata"]
    if len(named) == 1:
        return named[0]
    return tables[0] if len(tables) == 1 and len(folders) < 2 else None


def _visible(folder: Path) -> list[Path]:
    return in_order(path for path in folder.iterdir() if not path.name.startswith("."))


def _complete_rows(
    table: Table, image: str, label: str
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Places of the rows that have both, and a note on the others.

    Raises:
        DataError: None has.
    """
    keep = np.ones(table.rows.num_rows, dtype=bool)
    lacking = []
    for name in (image, label):
        blank = is_blank(as_text(table.rows[name])).to_numpy()
        if blank.any():
            rows = "1 row" if blank.sum() == 1 else f"{blank.sum():,} rows"
            lacking.append(f"no “{name}” in {rows}, the first is {table.where(int(np.argmax(blank)))}")
        keep &= ~blank
    if not keep.any():
        raise DataError(
            f"{table.path.name} has no usable rows",
            f"{table.path}: {'; '.join(lacking)}.",
            (Fix("Fill in the images and labels, or choose other columns"),),
        )
    return np.flatnonzero(keep), (f"Left out: {'; '.join(lacking)}.",) if lacking else ()


def _located(paths: Sequence[str], base: Path) -> list[Path]:
    """Absolute paths; those a Windows program wrote are read elsewhere, too."""
    return [_locate(path.strip(), base) for path in paths]


def _locate(text: str, base: Path) -> Path:
    if os.sep == "/" and "\\" in text and not (base / text).exists():
        text = text.replace("\\", "/")
    return base / without_tilde(text)


# --- Where stored images are: a data set of the Hub, a folder, a table, Parquet, or IDX files


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
    if parquet_images.is_idx(path):
        return parquet_images.load_file(path)
    if is_table(path):
        return read_image_table(path, columns.image, columns.label)
    raise DataError(
        f"{path.name} holds no images Hone can find",
        f"{path}: images are read from a folder with one folder a class, from a table with a column of image paths "
        "(CSV, TSV, JSON, JSONL), from Parquet with images in it, or from IDX files as MNIST ships.",
        (Fix("Choose the folder that holds the class folders"),),
    )


def _find_on_hub(name: str, columns: Columns, splits: Splits) -> FoundImages:
    from core.engine.hub.search import dataset_files, dataset_splits

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
    if parquet_images.folder_has_idx(folder):
        return parquet_images.load_idx_folder(folder)
    table = only_table(folder)
    if table is not None:
        return read_image_table(table, columns.image, columns.label)
    files = parquet_files(folder)
    if files:
        return _of_parquet(folder, files, columns, splits)
    return load_class_folders(folder, splits.train, splits.eval)


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


# --- Images for training and evaluation, wherever they come from


@dataclass(frozen=True)
class ImageData:
    """Images ready for a model.

    `train` and `eval` are map-style data sets of `{"pixel_values": float32 [3, size, size], "labels": int}`; `eval` is
    None where nothing is held out. `size` is in pixels; `mean` and `std` are what the pixels (0 to 1) were normalised
    with.
    """

    train: ImageSet
    eval: ImageSet | None
    labels: tuple[str, ...]
    size: int
    mean: Colours
    std: Colours
    notes: tuple[str, ...] = ()


def load_image_data(
    options: RunOptions, mean: Colours = IMAGENET_MEAN, std: Colours = IMAGENET_STD
) -> ImageData:
    """Find, check and split the images a run asks for.

    Args:
        options: What is asked.
        mean: What is taken from the colours, from 0 to 1.
        std: What they are divided by then.

    Raises:
        DataError: They can't be used; the file or folder is named.
    """
    data, seed = options.data, options.training.seed
    synthetic = parse_synthetic(data.train)
    transform = ImageTransform(synthetic[1] if synthetic else data.image_size, mean, std)
    splits = Splits(data.train_split, data.eval_split)
    found = find_images(data.train, seed, data.image_column, data.label_column, splits=splits)
    images = found.train
    names = images.names[: data.max_train_samples]
    labels = splits_in_order(names)
    if not synthetic:
        refuse_single(labels, Path(data.train).name, (USE_ALL_SAMPLES,) if data.max_train_samples else ())
    used = (found.image_column, found.label_column)
    held_out = find_eval_images(data.eval, seed, *used, split=data.eval_split) if data.eval else found.eval
    fraction = 0.0 if held_out or synthetic else data.eval_fraction
    train, rest = stratified_split(indices(names, labels, images.where), fraction, seed)
    evaluated, chosen = (held_out, list(range(len(held_out.names)))) if held_out else (images, rest)
    chosen = chosen[: data.max_eval_samples]
    fixes = (HOLD_OUT_INSTEAD,) if data.eval else ()
    return ImageData(
        train=_select(images, train, labels, transform),
        eval=_select(evaluated, chosen, labels, transform, fixes) if chosen else None,
        labels=labels,
        size=transform.size,
        mean=transform.mean,
        std=transform.std,
        notes=(*found.notes, *_eval_notes(data.eval, found, nothing_held_out=bool(fraction) and not rest)),
    )


def _eval_notes(source: str | None, found: FoundImages, *, nothing_held_out: bool) -> tuple[str, ...]:
    if nothing_held_out:
        return (NOTHING_HELD_OUT,)
    return (f"{found.eval_name} is used for evaluation.",) if found.eval and not source else ()


def find_images(
    source: str,
    seed: int = 0,
    image_column: str | None = None,
    label_column: str | None = None,
    *,
    splits: Splits = WHOLE,
    open_all: bool = True,
) -> FoundImages:
    """What `data.train` or `data.eval` points to, not yet decoded.

    Args:
        source: As in the options.
        seed: For random images.
        image_column: Of a table, the column of paths or of stored images; None: guessed.
        label_column: Of a table, the column of labels; None: guessed.
        splits: Of a data set of the Hub or a folder, the parts to train and to evaluate on.
        open_all: Whether each image is opened, and those that can't be refused.

    Raises:
        DataError: There are no images, or some are damaged.
    """
    synthetic = parse_synthetic(source)
    if synthetic:
        return synthetic_images(*synthetic, seed)
    if source == DIGITS:
        return digits()
    path, columns = Path(source), Columns(image_column, label_column)
    try:
        found = find_stored(source, columns, splits)
        if open_all:
            for images in (found.train, found.eval):
                if isinstance(images, EncodedImages):
                    refuse_damaged(images)
    except OSError as error:
        raise DataError(
            f"{path.name} can't be read", f"{error.filename or path}: {error.strerror or error}"
        ) from error
    return found


def find_eval_images(
    source: str,
    seed: int = 0,
    image_column: str | None = None,
    label_column: str | None = None,
    *,
    split: str | None = None,
) -> LabelledImages:
    """The images to evaluate on: of a source that holds both, those it means for that; as `find_images`.

    Raises:
        DataError: There are no images, or some are damaged.
    """
    found = find_images(source, seed, image_column, label_column, splits=Splits(split))
    return found.eval or found.train


def _select(
    images: LabelledImages,
    chosen: list[int],
    labels: tuple[str, ...],
    transform: ImageTransform,
    fixes: tuple[Fix, ...] = (),
) -> ImageSet:
    names = [images.names[index] for index in chosen]
    classes = indices(names, labels, lambda number: images.where(chosen[number]), fixes)
    return images.select(chosen, classes, transform)
