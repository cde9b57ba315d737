"""Where images come from: a folder of class folders, a table, Parquet, IDX files, the Hub, or made-up ones."""

import gzip
import os
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.files import without_tilde
from core.base.language import _
from core.engine.data.columns import (
    as_text,
    choose_image_column,
    choose_label_column,
    holds_bytes,
    is_blank,
    tag_names,
)
from core.engine.data.image_files import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Colours,
    ImageColumn,
    Images,
    ImageSet,
    ImageTransform,
    refuse_unreadable,
)
from core.engine.data.splits import (
    EVAL_SPLIT,
    HOLD_OUT_INSTEAD,
    NOTHING_HELD_OUT,
    TRAIN_SPLIT,
    USE_ALL_SAMPLES,
    files_of,
    in_order,
    indices,
    no_such_split,
    refuse_single,
    splits_of,
    stratified_split,
)
from core.engine.data.tables import Table, read_files
from core.engine.data.text_files import ENDINGS, listed, raw_blocks
from core.engine.data.text_files import in_order as paths_in_order
from core.engine.hub.search import SPLIT_NAMES
from core.options import RunOptions
from core.options.presets import IMAGE_FORMATS
from core.options.sources import DIGITS, Scheme, parse_synthetic


@dataclass(frozen=True)
class FoundImages:
    """What a source holds, nothing of it decoded: images to train on, and held-out ones where it brings its own.

    `table` names the images or has them, in `image_column` and `label_column`. `splits` are the parts to choose from.
    """

    train: Images
    format: str
    eval: Images | None = None
    eval_name: str = ""
    notes: tuple[str, ...] = ()
    table: Table | None = None
    image_column: str | None = None
    label_column: str | None = None
    splits: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageData:
    """Images ready for a model, `eval` is None where nothing is held out.

    `size` is in pixels; `mean` and `std` are what the pixels (0 to 1) were normalised with.
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
    """Find, check and split the images of a run.

    Args:
        options: The run's.
        mean: What is taken from the colours, from 0 to 1.
        std: What they are divided by then.

    Raises:
        DataError: They can't be used; the file or folder is named.
    """
    data = options.data
    synthetic = parse_synthetic(data.train)
    transform = ImageTransform(synthetic[1] if synthetic else data.image_size, mean, std)
    found = find_training_images(options)
    refuse_unreadable(found.train)
    labels = class_names(options, found)
    held_out = find_eval_images(options, found, labels)
    if held_out:
        refuse_unreadable(held_out)
    train, rest = split_images(options, found, held_out)
    notes = found.notes
    if not (held_out or synthetic or rest) and data.eval_fraction:
        notes = (*notes, NOTHING_HELD_OUT)
    elif found.eval and not data.eval:
        notes = (*notes, _("{eval_name} is used for evaluation.").format(eval_name=found.eval_name))

    number = {label: place for place, label in enumerate(labels)}

    def data_set(images: Images, chosen: Sequence[int]) -> ImageSet:
        return ImageSet(images, chosen, [number[images.names[index]] for index in chosen], transform)

    return ImageData(
        train=data_set(found.train, train),
        eval=data_set(held_out or found.train, rest) if rest else None,
        labels=labels,
        size=transform.size,
        mean=transform.mean,
        std=transform.std,
        notes=notes,
    )


def class_names(options: RunOptions, found: FoundImages) -> tuple[str, ...]:
    """The labels that are learned, in order.

    Raises:
        DataError: There is one only.
    """
    data = options.data
    labels = in_order(found.train.names[: data.max_train_samples])
    if not parse_synthetic(data.train):
        refuse_single(labels, Path(data.train).name, (USE_ALL_SAMPLES,) if data.max_train_samples else ())
    return labels


def find_eval_images(options: RunOptions, found: FoundImages, labels: tuple[str, ...]) -> Images | None:
    """The images to evaluate on where a run or its data has any of their own.

    Raises:
        DataError: There are none where they should be, or their labels aren't all among those trained on.
    """
    data, images = options.data, found.eval
    if data.eval:
        other = find_images(
            data.eval,
            image_column=found.image_column,
            label_column=found.label_column,
            train_split=data.eval_split,
            seed=options.training.seed,
        )
        images = other.eval or other.train
    if images:
        fixes = (HOLD_OUT_INSTEAD,) if data.eval else ()
        indices(images.names[: data.max_eval_samples], labels, images.where, fixes)
    return images


def split_images(
    options: RunOptions, found: FoundImages, held_out: Images | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Which images are trained on, and which of `held_out`, or else of the rest, are evaluated on."""
    data = options.data
    names = found.train.names[: data.max_train_samples]
    number = {name: place for place, name in enumerate(in_order(names))}
    fraction = 0.0 if held_out or parse_synthetic(data.train) else data.eval_fraction
    train, rest = stratified_split([number[name] for name in names], fraction, options.training.seed)
    return train, (range(len(held_out)) if held_out else rest)[: data.max_eval_samples]


def find_training_images(options: RunOptions) -> FoundImages:
    """The images of `data.train`, as `find_images`."""
    data = options.data
    return find_images(
        data.train,
        image_column=data.image_column,
        label_column=data.label_column,
        train_split=data.train_split,
        eval_split=data.eval_split,
        seed=options.training.seed,
    )


def find_images(
    source: str,
    *,
    image_column: str | None = None,
    label_column: str | None = None,
    train_split: str | None = None,
    eval_split: str | None = None,
    seed: int = 0,
) -> FoundImages:
    """Find the images of a source; none is decoded.

    Args:
        source: As in the options.
        image_column: Of a table, the column of paths or of stored images; None: guessed.
        label_column: Of a table, the column of labels; None: guessed.
        train_split: Of a data set of the Hub or a folder, the part to train on; None: the one called train, or all.
        eval_split: The part to evaluate on; None: what a folder has for that, where no other split was chosen.
        seed: For random images.

    Raises:
        DataError: There are none, or no such column or split.
    """
    synthetic, path = parse_synthetic(source), Path(source)
    if synthetic:
        return synthetic_images(*synthetic, seed)
    if source == DIGITS:
        return digits()
    try:
        table = only_table(path) if path.is_dir() else path if path.suffix.lower() in ENDINGS else None
        if Scheme.HUB.name_of(source) is not None:
            return _find_splits(source, image_column, label_column, train_split, eval_split)
        if not path.exists():
            raise DataError(
                _("There is no {name}").format(name=path.name),
                _("{path} is neither a file nor a folder.").format(path=path),
            )
        if _magic(path) in (IDX_IMAGES, IDX_LABELS) or (path.is_dir() and idx_images(path)):
            return _read_idx_pairs(path)
        if table:
            return read_image_table((table,), image_column, label_column)
        if path.is_dir() and any(any(path.glob(pattern)) for pattern in ("*.parquet", "data/*.parquet")):
            return _find_splits(source, image_column, label_column, train_split, eval_split)
        if path.is_dir():
            return _find_class_folders(path, train_split, eval_split)
    except OSError as error:
        raise DataError(
            _("{name} can't be read").format(name=path.name),
            f"{error.filename or path}: {error.strerror or error}",
        ) from error
    raise DataError(
        _("{name} holds no images Hone can find").format(name=path.name),
        _(
            "{path}: images are read from a folder with one folder a class, from a table with a "
            "column of image paths "
            "(CSV, TSV, JSON, JSONL), from Parquet with images in it, or from IDX files as MNIST "
            "ships."
        ).format(path=path),
        (Fix(_("Choose the folder that holds the class folders")),),
    )


# --- Made-up images


POOL_BYTES = 64 * 2**20


def digits() -> FoundImages:
    """The 1,797 handwritten digits of scikit-learn: scans of 8 x 8 pixels with 17 levels of grey.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (its test set).
    """
    from sklearn.datasets import load_digits

    bundled = load_digits()
    pixels = (bundled.images * (255 / 16)).round().astype(np.uint8)
    return FoundImages(
        Images([str(label) for label in bundled.target], pixels[:, None], _("the digits")),
        _("scikit-learn digits"),
    )


def synthetic_images(samples: int, size: int, seed: int) -> FoundImages:
    """Random colour images of `size` x `size` pixels in two classes, for timing.

    At most 64 MiB of them are drawn; more samples show the same images again, so that the data costs nothing.
    """
    drawn = max(1, min(samples, POOL_BYTES // (3 * size * size)))
    pool = np.random.default_rng(seed).integers(0, 256, (drawn, 3, size, size), dtype=np.uint8)
    return FoundImages(
        Images([str(number % 2) for number in range(samples)], pool, _("the synthetic images")), "synthetic"
    )


# --- Folders of class folders: `cats/1.jpg`, `dogs/2.jpg`, optionally below `train/` and `val/`


def _find_class_folders(folder: Path, train_split: str | None, eval_split: str | None) -> FoundImages:
    folders = {path.name.lower(): path for path in _folders(folder)}
    for name, option in ((train_split, TRAIN_SPLIT), (eval_split, EVAL_SPLIT)):
        if name and name.lower() not in folders:
            raise no_such_split(folder.name, name, folders, option, str(folder))
    named = {
        split: next((folders[word] for word in words if word in folders), None)
        for split, words in SPLIT_NAMES.items()
    }
    train = folders[train_split.lower()] if train_split else named["train"]
    if train is None or not (train_split or _folders(train)):
        images, notes = _images_by_class(folder)
        return FoundImages(images, _("class folders"), notes=notes)
    images, notes = _images_by_class(train)
    held_out = folders[eval_split.lower()] if eval_split else named["validation"] or named["test"]
    splits = tuple(path.name for path in folders.values())
    if held_out is None or (train_split and not eval_split):
        return FoundImages(images, _("class folders"), notes=notes, splits=splits)
    eval_images, eval_notes = _images_by_class(held_out)
    return FoundImages(
        images, _("class folders"), eval_images, held_out.name, (*notes, *eval_notes), splits=splits
    )


def _folders(folder: Path) -> list[Path]:
    """The folders in it, but for hidden ones and links back to it or above it, which would show all images again."""
    above = {folder.resolve(), *folder.resolve().parents}
    return [path for path in _visible(folder) if path.is_dir() and path.resolve() not in above]


def _visible(folder: Path) -> list[Path]:
    return paths_in_order(path for path in folder.iterdir() if not path.name.startswith("."))


def _images_by_class(root: Path) -> tuple[Images, tuple[str, ...]]:
    """The images in the class folders of a folder, one of each class in turn, and notes on what was passed over.

    Raises:
        DataError: There are no class folders, or no images in them.
    """
    folders, is_image = _folders(root), lambda path: path.suffix.lower() in IMAGE_FORMATS
    endings = ", ".join(ending[1:] for ending in IMAGE_FORMATS)
    if not folders:
        count = sum(map(is_image, root.iterdir()))
        images = "1 image" if count == 1 else f"{count:,} images"
        raise DataError(
            _("{name} has no class folders").format(name=root.name),
            _(
                "{root}: {value}. The name of a "
                "folder is the label of the images in it: {name}/cat/1.jpg, {name}/dog/2.jpg."
            ).format(
                root=root,
                value=f"It holds {images} but no folders" if count else "There are no folders in it",
                name=root.name,
            ),
            (
                Fix(_("Make one folder a class and move the images into them")),
                Fix(_("Choose the folder above it")),
            ),
        )
    found: list[tuple[int, str, Path]] = []
    empty: list[str] = []
    ignored = sum(path.is_file() for path in _visible(root))
    for folder in folders:
        files = paths_in_order(
            Path(where, name)
            for where, _rest, names in os.walk(folder)
            for name in names
            if not name.startswith(".") and name != "Thumbs.db"
        )
        images_here = list(filter(is_image, files))
        found += [(place, folder.name, path) for place, path in enumerate(images_here)]
        ignored += len(files) - len(images_here)
        empty += [] if images_here else [folder.name]
    if not found:
        raise DataError(
            _("{name} has no images in its class folders").format(name=root.name),
            _("{root}: the folders {empty} hold no {endings} files.").format(
                root=root, empty=listed(empty), endings=endings
            ),
        )
    notes = (
        [_("Class folders without images are left out: {empty}.").format(empty=listed(empty))]
        if empty
        else []
    )
    if ignored:
        files_are = (
            _("1 file that is") if ignored == 1 else _("{ignored:,} files that are").format(ignored=ignored)
        )
        notes.append(
            _("{files_are} no image in a class folder of {name} left out.").format(
                files_are=files_are, name=root.name
            )
        )
    found.sort()  # "the first 100" then holds all classes
    return Images([name for _rest2, name, _rest3 in found], [path for *_rest4, path in found]), tuple(notes)


# --- A table that names images and their labels, or holds the images: CSV, TSV, JSON, JSONL or Parquet


def only_table(folder: Path) -> Path | None:
    """The one table that lies in a folder beside its images, such as labels.csv; None where there are class folders.

    Several folders beside it are taken for classes, unless it is called metadata, as the Hub's tools call it.
    """
    tables = [path for path in _visible(folder) if path.is_file() and path.suffix.lower() in ENDINGS]
    named = [path for path in tables if path.stem.lower() == "metadata"]
    if len(named) == 1:
        return named[0]
    return tables[0] if len(tables) == 1 and sum(path.is_dir() for path in _visible(folder)) < 2 else None


def _find_splits(
    source: str,
    image_column: str | None,
    label_column: str | None,
    train_split: str | None,
    eval_split: str | None,
) -> FoundImages:
    """A data set of the Hub, or a folder of Parquet files, of which test or validation files are held out."""
    splits = splits_of(source)
    train = read_image_table(files_of(source, train_split), image_column, label_column)
    train = replace(train, splits=splits)
    if not (train_split or eval_split or Scheme.HUB.name_of(source)) and "train" in splits:
        eval_split = next((name for name in ("validation", "test") if name in splits), None)
    if eval_split is None:
        return train
    held_out = read_image_table(
        files_of(source, eval_split, EVAL_SPLIT), train.image_column, train.label_column
    )
    return replace(train, eval=held_out.train, eval_name=eval_split)


def read_image_table(
    files: Sequence[Path], image_column: str | None = None, label_column: str | None = None
) -> FoundImages:
    """The images a table names or holds, with their labels.

    Args:
        files: The table's. Paths in it are absolute, or start at the folder it lies in.
        image_column: The column of paths, or of stored images; None: guessed.
        label_column: The column of labels; None: guessed.

    Raises:
        DataError: It is no such table, a column is missing, or no row is complete.
    """
    table = read_files(files)
    image = choose_image_column(table, image_column)
    label = choose_label_column(table, image, label_column)
    is_stored = holds_bytes(table.rows.schema.field(image).type)
    names = _label_names(table, label)
    paths = None if is_stored else as_text(table.rows[image])
    kept, notes = _complete_rows(table, {label: names} if paths is None else {image: paths, label: names})
    base = files[0].parent
    images = Images(
        pc.utf8_trim_whitespace(names.take(kept)).to_pylist(),
        ImageColumn(files, image, kept.tolist())
        if paths is None
        else [_locate(text.strip(), base) for text in paths.take(kept).to_pylist()],
        table.path.name,
        table.numbers[kept].tolist(),
        table.row_word,
    )
    kind = _("Parquet with images") if is_stored else _("{format} of image paths").format(format=table.format)
    return FoundImages(
        images, kind, notes=(*table.notes, *notes), table=table, image_column=image, label_column=label
    )


def _label_names(table: Table, label: str) -> pa.ChunkedArray:
    """The labels as text; missing ones, and numbers of no class where classes have names, are null."""
    column, names = table.rows[label], tag_names(table, label)
    if not names:
        return as_text(column)
    is_known = pc.and_(pc.greater_equal(column, 0), pc.less(column, len(names)))
    return pa.chunked_array(pc.take(pa.array(names), pc.if_else(is_known, column, None).combine_chunks()))


def _complete_rows(
    table: Table, needed: dict[str, pa.ChunkedArray]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """Places of the rows that have all that is needed, and a note on the others.

    Raises:
        DataError: None has.
    """
    keep = np.ones(table.rows.num_rows, dtype=bool)
    lacking = []
    for name, texts in needed.items():
        blank = is_blank(texts).to_numpy()
        if blank.any():
            rows = "1 row" if blank.sum() == 1 else f"{blank.sum():,} rows"
            lacking.append(
                _("no “{name}” in {rows}, the first is {blank}").format(
                    name=name, rows=rows, blank=table.where(int(np.argmax(blank)))
                )
            )
        keep &= ~blank
    if not keep.any():
        raise DataError(
            _("{name} has no usable rows").format(name=table.path.name),
            _("{path}: {lacking}. Files meant for tests often have no labels.").format(
                path=table.path, lacking="; ".join(lacking)
            ),
            (Fix(_("Fill in the images and labels, or choose other columns or another file")),),
        )
    return np.flatnonzero(keep), (
        _("Left out: {lacking}.").format(lacking="; ".join(lacking)),
    ) if lacking else ()


def _locate(text: str, base: Path) -> Path:
    """An absolute path; one that a Windows program wrote is read elsewhere, too."""
    if os.sep == "/" and "\\" in text and not (base / text).exists():
        text = text.replace("\\", "/")
    return base / without_tilde(text)


# --- IDX files, the form MNIST and its relatives come in: http://yann.lecun.com/exdb/mnist


IDX_IMAGES = b"\x00\x00\x08\x03"
IDX_LABELS = b"\x00\x00\x08\x01"
"""Two zeros, the type (8: unsigned bytes) and the number of dimensions."""


@dataclass(frozen=True)
class IdxPair:
    """A file of images and the file of their labels."""

    images: Path
    labels: Path


def _read_idx_pairs(path: Path) -> FoundImages:
    train, other = idx_pairs(path)
    held_out = _read_idx(other) if other else None
    return FoundImages(_read_idx(train), "IDX", held_out, other.images.name if other else "")


def idx_pairs(path: Path) -> tuple[IdxPair, IdxPair | None]:
    """The files that are trained on, and those held out where a folder has both; `path` is a folder or either file.

    Raises:
        DataError: The other file of a pair isn't there.
    """
    if not path.is_dir():
        return _idx_pair(path), None
    images = idx_images(path)
    train = next((file for file in images if "train" in file.name.lower()), images[0])
    others = [file for file in images if file != train]
    return _idx_pair(train), _idx_pair(others[0]) if others else None


def idx_images(folder: Path) -> list[Path]:
    """The IDX files of images in a folder."""
    named = sorted(path for path in folder.iterdir() if "idx" in path.name.lower())
    return [path for path in named if _magic(path) == IDX_IMAGES]


def _magic(path: Path) -> bytes:
    """The first four bytes, unpacked; none of what is no readable file."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                start = file.read(4)
    except (OSError, EOFError, zlib.error):  # BadGzipFile is an OSError
        return b""
    return start


def _idx_pair(path: Path) -> IdxPair:
    """The pair that a file belongs to, by their names."""
    kind, other = ("images", "labels") if _magic(path) == IDX_IMAGES else ("labels", "images")
    name = re.sub(kind, other, path.name, flags=re.IGNORECASE)
    numbers = {"images": "idx3", "labels": "idx1"}
    name = re.sub(numbers[kind], numbers[other], name, flags=re.IGNORECASE)
    bare = name.removesuffix(".gz")
    for candidate in (path.with_name(name), path.with_name(bare), path.with_name(bare + ".gz")):
        if candidate != path and candidate.is_file():
            return IdxPair(path, candidate) if kind == "images" else IdxPair(candidate, path)
    raise DataError(
        _("{name} has {kind} but its {other} are missing").format(name=path.name, kind=kind, other=other),
        _("Looked for {name}, with and without .gz, in {parent}.").format(name=name, parent=path.parent),
        (Fix(_("Put the file of {other} into the same folder").format(other=other)),),
    )


def _read_idx(pair: IdxPair) -> Images:
    pixels, labels = _read_array(pair.images, IDX_IMAGES), _read_array(pair.labels, IDX_LABELS)
    if len(pixels) != len(labels):
        raise DataError(
            _("Images and labels don't belong together"),
            _("{name} has {pixels:,} images, {name_2} {labels:,} labels.").format(
                name=pair.images.name, pixels=len(pixels), name_2=pair.labels.name, labels=len(labels)
            ),
            (Fix(_("Get both files from the same place")),),
        )
    return Images([str(label) for label in labels.tolist()], pixels[:, None], pair.images.name)


def _read_array(path: Path, magic: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    content = b"".join(raw_blocks(path, None))
    if content[:4] != magic:
        what = "images: 3 dimensions" if magic == IDX_IMAGES else "labels: 1 dimension"
        raise DataError(
            _("{name} is not an IDX file of {what}, of bytes").format(name=path.name, what=what),
            _("{path} begins otherwise.").format(path=path),
        )
    header = 4 + 4 * magic[3]
    shape = struct.unpack(f">{magic[3]}I", content[4:header]) if len(content) >= header else ()
    count = int(np.prod(shape, dtype=object))
    if not shape or len(content) - header < count:
        raise DataError(
            _("{name} is cut off or damaged").format(name=path.name),
            _("{path} is shorter than its header says ({content:,} bytes).").format(
                path=path, content=len(content)
            ),
            (Fix(_("Get the file again")),),
        )
    return np.frombuffer(content, np.uint8, count=count, offset=header).reshape(shape)
