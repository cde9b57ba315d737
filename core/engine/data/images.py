"""Sources of images: a folder of class folders, a table, Parquet, IDX files, the Hub, or random images."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.files import is_plain
from core.base.formats import paragraph, titled
from core.base.language import _, ngettext
from core.base.places import without_tilde
from core.engine.data.checks import ANSWER, MOST_OFFERED, complete_rows, refuse_missing, tally_of, use
from core.engine.data.columns import (
    MOST,
    as_text,
    guess_columns,
    holds_bytes,
    is_blank,
    share_of_paths,
    tag_names,
)
from core.engine.data.findings import FindingKind
from core.engine.data.image_files import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Colours,
    ImageColumn,
    Images,
    ImageSet,
    ImageTransform,
    readable,
)
from core.engine.data.known_checks import KnownChecks
from core.engine.data.splits import (
    EVAL_SPLIT,
    HOLD_OUT_INSTEAD,
    NOTHING_HELD_OUT,
    TRAIN_SPLIT,
    USE_ALL_SAMPLES,
    files_of,
    in_order,
    no_such_split,
    refuse_labels,
    refuse_unseen_labels,
    splits_of,
    stratified_split,
)
from core.engine.data.tables import Table, read_files
from core.engine.data.text_files import ENDINGS, ZIP, first_bytes, listed, raw_blocks, unreadable
from core.engine.data.text_files import in_order as paths_in_order
from core.engine.hub.search import SPLIT_NAMES
from core.jobs.inspect import FindingLevel
from core.options import RunOptions
from core.options.choices import Augmentation
from core.options.presets import IMAGE_FORMATS
from core.options.sources import DIGITS, Scheme, parse_synthetic


@dataclass(frozen=True)
class FoundImages:
    """The images of a source, not decoded; `eval` are those of its own split for evaluation, called `eval_name`.

    `table` has the images or their paths in `image_column`, and their labels in `label_column`. `splits` are all
    splits of the source.
    """

    train: Images
    format: str
    eval: Images | None = None
    eval_name: str = ""
    table: Table | None = None
    image_column: str | None = None
    label_column: str | None = None
    splits: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageData:
    """Images ready for a model; `eval` is None if nothing is held out."""

    train: ImageSet
    eval: ImageSet | None
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Pixels of each side."""
        return self.train.transform.size


def load_image_data(
    options: RunOptions, mean: Colours = IMAGENET_MEAN, std: Colours = IMAGENET_STD
) -> ImageData:
    """Finds, checks and splits the images of a run.

    Args:
        mean: Subtracted from the colours (0 to 1).
        std: The colours are divided by it afterwards.

    Raises:
        DataError: They can't be used; it names the file or folder.
    """
    data = options.data
    synthetic = parse_synthetic(data.train)
    transform = replace(training_transform(options), mean=mean, std=std)
    found, known = find_training_images(options), KnownChecks(data.train)
    usable, notes = readable(found.train, known.check, skip=data.skip_bad_rows)
    found = replace(found, train=usable)
    labels = class_names(options, found)
    held_out = find_eval_images(options, found)
    if held_out:
        held_out, of_eval = readable(held_out, known.check, skip=data.skip_bad_rows)
        refuse_eval_labels(options, held_out, labels)
        notes = (*notes, *map(of_validation, of_eval)) if options.tells_of_training else of_eval
    known.save()
    train, rest = split_images(options, found, held_out)
    if not (held_out or synthetic or rest) and data.eval_fraction:
        notes = (*notes, NOTHING_HELD_OUT)
    elif found.eval and not data.eval:
        notes = (*notes, _("{name} is the validation data.").format(name=found.eval_name))
    number = {label: place for place, label in enumerate(labels)}

    def data_set(images: Images, chosen: Sequence[int], seen: ImageTransform) -> ImageSet:
        return ImageSet(images, chosen, [number[images.names[index]] for index in chosen], seen)

    return ImageData(
        data_set(found.train, train, transform),
        data_set(
            held_out or found.train, rest, replace(transform, augmentation=Augmentation.OFF, flips=False)
        )
        if rest
        else None,
        labels,
        notes,
    )


def of_validation(message: str) -> str:
    return _("Validation data: {message}").format(message=message)


def training_transform(options: RunOptions) -> ImageTransform:
    """Returns the transform of training images, which may change them at random."""
    data, synthetic = options.data, parse_synthetic(options.data.train)
    return ImageTransform(
        synthetic[1] if synthetic else data.image_size,
        fit=data.image_fit,
        augmentation=data.augmentation,
        flips=data.horizontal_flip,
        seed=options.training.seed,
    )


def class_names(options: RunOptions, found: FoundImages) -> tuple[str, ...]:
    """Returns the classes in order.

    Raises:
        DataError: There is only one, or nearly every image has its own.
    """
    data = options.data
    labels = in_order(found.train.names[: data.max_train_samples])
    if not parse_synthetic(data.train):
        counts = Counter(found.train.names[: data.max_train_samples])
        refuse_labels(counts, Path(data.train).name, (USE_ALL_SAMPLES,) if data.max_train_samples else ())
    return labels


def find_eval_images(options: RunOptions, found: FoundImages) -> Images | None:
    """Returns the images for evaluation, if the run or its data has separate ones.

    Raises:
        DataError: They don't exist.
    """
    data = options.data
    if data.eval:
        other = find_images(
            data.eval,
            image_column=found.image_column,
            label_column=found.label_column,
            train_split=data.eval_split,
            seed=options.training.seed,
        )
        return other.eval or other.train
    return found.eval


def refuse_eval_labels(options: RunOptions, images: Images, labels: tuple[str, ...]) -> None:
    """Raises DataError if images for evaluation have labels that aren't among `labels`."""
    fixes = (HOLD_OUT_INSTEAD,) if options.data.eval and not options.only_evaluates else ()
    refuse_unseen_labels(images.names[: options.data.max_eval_samples], labels, images.where, fixes)


def split_images(
    options: RunOptions, found: FoundImages, held_out: Images | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Returns which images are for training, and which of `held_out`, or else of the rest, are for evaluation."""
    data = options.data
    names = found.train.names[: data.max_train_samples]
    number = {name: place for place, name in enumerate(in_order(names))}
    fraction = 0.0 if held_out or parse_synthetic(data.train) else data.eval_fraction
    train, rest = stratified_split([number[name] for name in names], fraction, options.training.seed)
    return train, (range(len(held_out)) if held_out else rest)[: data.max_eval_samples]


def find_training_images(options: RunOptions) -> FoundImages:
    """Finds the images of `data.train`; see `find_images`."""
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
    """Finds the images of a source without decoding them.

    Args:
        image_column: A table's column of paths or of stored images; None guesses it.
        label_column: A table's column of labels; None guesses it.
        train_split: The split of a folder or a data set of the Hub; None takes the one called train, or all images.
        eval_split: The split for evaluation; None takes the folder's own if `train_split` is None, too.
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
                _("{path} doesn't exist.").format(path=path),
            )
        if _magic(path) in (IDX_IMAGES, IDX_LABELS) or (path.is_dir() and idx_images(path)):
            train, other = idx_pairs(path)
            held_out = _read_idx(other) if other else None
            return FoundImages(_read_idx(train), "IDX", held_out, other.images.name if other else "")
        if table:
            return read_image_table((table,), image_column, label_column)
        if path.is_dir() and any(any(path.glob(pattern)) for pattern in ("*.parquet", "data/*.parquet")):
            return _find_splits(source, image_column, label_column, train_split, eval_split)
        if path.is_dir():
            return _find_class_folders(path, train_split, eval_split)
    except OSError as error:
        raise unreadable(Path(error.filename or path), error) from error
    if first_bytes(path).startswith(ZIP):
        raise DataError(
            _("{name} has to be unpacked first").format(name=path.name),
            _("{path} is a ZIP file.").format(path=path),
            (Fix(_("Unpack it, and choose the folder with the images")),),
        )
    raise DataError(
        _("{name} has no images").format(name=path.name),
        _(
            "{path}: images are read from a folder with a folder per class, a table with a column of image paths "
            "(CSV, TSV, JSON, JSONL), Parquet files with images, or IDX files (MNIST's format)."
        ).format(path=path),
        (Fix(_("Choose the folder with the class folders")),),
    )


# --- Built-in and random images


POOL_BYTES = 64 * 2**20


def digits() -> FoundImages:
    """Returns the 1,797 handwritten digits of scikit-learn: scans of 8 x 8 pixels with 17 levels of grey.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (its test set).
    """
    from sklearn.datasets import load_digits

    bundled = load_digits()
    pixels = (bundled.images * (255 / 16)).round().astype(np.uint8)
    images = Images([str(label) for label in bundled.target], pixels[:, None], _("the digits"))
    return FoundImages(images, _("scikit-learn digits"))


def synthetic_images(samples: int, size: int, seed: int) -> FoundImages:
    """Makes random colour images of `size` x `size` pixels in two classes, for timing.

    At most 64 MiB are generated; more samples repeat them, so that the data takes no time.
    """
    count = max(1, min(samples, POOL_BYTES // (3 * size * size)))
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    labels = [str(number % 2) for number in range(samples)]
    return FoundImages(Images(labels, pixels, _("the synthetic images")), "synthetic")


# --- Class folders: `cats/1.jpg`, `dogs/2.jpg`, optionally in `train/` and `val/`


def _find_class_folders(folder: Path, train_split: str | None, eval_split: str | None) -> FoundImages:
    folders = {path.name.lower(): path for path in _folders(folder)}
    for name, option in ((train_split, TRAIN_SPLIT), (eval_split, EVAL_SPLIT)):
        if name and name.lower() not in folders:
            raise no_such_split(folder.name, name, folders, option, str(folder))
    named = {
        split: next((folders[word] for word in words if word in folders), None)
        for split, words in SPLIT_NAMES.items()
    }
    train, held_out = named["train"], named["validation"] or named["test"]
    if train_split or eval_split:
        train = folders[train_split.lower()] if train_split else train
        held_out = folders[eval_split.lower()] if eval_split else None
    if train is None or not (train_split or _folders(train)):
        train, held_out, folders = folder, None, {}
    found = FoundImages(
        _images_by_class(train), _("class folders"), splits=tuple(path.name for path in folders.values())
    )
    if held_out is None:
        return found
    return replace(found, eval=_images_by_class(held_out), eval_name=held_out.name)


def _folders(folder: Path) -> list[Path]:
    """Lists folders without hidden ones and links to `folder` or above, which would repeat all images."""
    above = {folder.resolve(), *folder.resolve().parents}
    return [path for path in _visible(folder) if path.is_dir() and path.resolve() not in above]


def _visible(folder: Path) -> list[Path]:
    return paths_in_order(path for path in folder.iterdir() if not path.name.startswith("."))


def _images_by_class(root: Path) -> Images:
    """Finds the images of class folders, one of each class in turn, and notes what is left out."""
    folders, is_image = _folders(root), lambda path: path.suffix.lower() in IMAGE_FORMATS
    if not folders:
        raise DataError(
            _("“{name}” has no class folders").format(name=root.name),
            _(
                "{root} has no folders (image files: {count:,}). The name of a folder is the label of its images: "
                "{name}/cat/1.jpg, {name}/dog/2.jpg."
            ).format(root=root, count=sum(map(is_image, root.iterdir())), name=root.name),
            (Fix(_("Move the images into a folder for each class")), Fix(_("Choose the folder above it"))),
        )
    found: list[tuple[int, str, Path]] = []
    empty: list[str] = []
    ignored = [path for path in _visible(root) if not path.is_dir()]
    for folder in folders:
        files = paths_in_order(
            Path(where, name)
            for where, _folder_names, names in os.walk(folder)
            for name in names
            if not name.startswith(".") and name != "Thumbs.db"
        )
        images = [path for path in filter(is_image, files) if is_plain(path)]
        found += [(place, folder.name, path) for place, path in enumerate(images)]
        ignored += sorted({*files} - {*images})
        empty += [] if images else [folder.name]
    if not found:
        raise DataError(
            _("“{name}” has no images in its class folders").format(name=root.name),
            _("{root}: the folders {empty} have no files of these formats: {formats}.").format(
                root=root, empty=listed(empty), formats=", ".join(ending[1:] for ending in IMAGE_FORMATS)
            ),
        )
    notes = []
    if empty:
        notes.append(_("Class folders without images are left out: {names}.").format(names=listed(empty)))
    if ignored:
        note = ngettext(
            "{count:,} file of {name} that isn't an image in a class folder is left out: {names}.",
            "{count:,} files of {name} that aren't images in a class folder are left out: {names}.",
            len(ignored),
        )
        names = [path.relative_to(root).as_posix() for path in ignored]
        notes.append(note.format(count=len(names), name=root.name, names=listed(names)))
    found.sort()  # "the first 100" then has all classes
    names, paths = [name for _place, name, _path in found], [path for *_others, path in found]
    return Images(names, paths, notes=tuple(notes))


# --- Tables with images, or with paths of images


IMAGE_NAMES = (
    *("image", "img", "image_path", "img_path", "file_name", "filename", "path", "file", "filepath"),
    *("file_path", "image_file", "picture", "photo", "pixels", "image_name", "image_id", "images"),
)


def only_table(folder: Path) -> Path | None:
    """Returns the single table of a folder, such as labels.csv, if there aren't class folders beside it.

    Several folders are classes unless the table is called metadata, as the Hub's tools call it.
    """
    tables = [path for path in _visible(folder) if path.is_file() and path.suffix.lower() in ENDINGS]
    named = [path for path in tables if path.stem.lower() == "metadata"]
    if len(named) == 1:
        return named[0]
    return tables[0] if len(tables) == 1 and sum(path.is_dir() for path in _visible(folder)) < 2 else None


NO_CLASS = FindingKind(
    "no-class", FindingLevel.PROBLEM, _("{rows}: the number in “{detail}” stands for no label.")
)


def _find_splits(
    source: str,
    image_column: str | None,
    label_column: str | None,
    train_split: str | None,
    eval_split: str | None,
) -> FoundImages:
    """Reads a data set of the Hub, or a folder of Parquet files, whose validation or test files are held out."""
    splits = splits_of(source)
    train = read_image_table(files_of(source, train_split), image_column, label_column)
    train = replace(train, splits=splits)
    if not (train_split or eval_split or Scheme.HUB.name_of(source)) and "train" in splits:
        eval_split = next((name for name in ("validation", "test") if name in splits), None)
    if eval_split is None:
        return train
    files = files_of(source, eval_split, EVAL_SPLIT)
    held_out = read_image_table(files, train.image_column, train.label_column)
    return replace(train, eval=held_out.train, eval_name=eval_split)


def read_image_table(
    files: Sequence[Path], image_column: str | None = None, label_column: str | None = None
) -> FoundImages:
    """Reads a table with images, or with paths that are absolute or relative to its folder.

    Raises:
        DataError: It can't be read, a column is missing, or no row is complete.
    """
    table = read_files(files)
    image = _choose_image_column(table, image_column)
    label = _choose_label_column(table, image, label_column)
    is_stored = holds_bytes(table.rows.schema.field(image).type)
    names = _label_names(table, label)
    paths = None if is_stored else as_text(table.rows[image])
    tally, labels = tally_of(table, skip=False), table.rows[label]
    unknown = labels.is_valid().to_numpy() & names.is_null().to_numpy() & pa.types.is_integer(labels.type)
    for number in table.numbers[unknown]:
        tally.add(NO_CLASS, int(number), detail=label)
    blanks = {
        image: (table.rows[image].is_null() if paths is None else is_blank(paths)).to_numpy(),
        label: is_blank(names).to_numpy() & ~unknown,
    }
    kept = np.flatnonzero(complete_rows(tally, table.numbers, blanks) & ~unknown)
    findings = tally.findings()
    if not len(kept):
        raise DataError(
            _("{name} has no usable examples").format(name=table.path.name),
            titled(str(table.path), paragraph(*(finding.message for finding in findings))),
            (Fix(_("Fill in the images and labels, or choose other columns or another file")),),
        )
    base = files[0].parent
    images = Images(
        pc.utf8_trim_whitespace(names.take(kept)).to_pylist(),
        ImageColumn(files, image, kept.tolist())
        if paths is None
        else [_locate(text.strip(), base) for text in paths.take(kept).to_pylist()],
        table.path.name,
        table.numbers[kept].tolist(),
        table.row_word,
        findings,
        table.messages,
    )
    kind = _("Parquet with images") if is_stored else _("{format} of image paths").format(format=table.format)
    return FoundImages(images, kind, table=table, image_column=image, label_column=label)


def _choose_image_column(table: Table, chosen: str | None) -> str:
    """Returns the column of images: the chosen one, else one that stores images, else the one most like paths."""
    if chosen is not None:
        refuse_missing(table, chosen, "data.image_column", table.columns)
        return chosen
    stored = [field.name for field in table.rows.schema if holds_bytes(field.type)]
    if stored:
        return "image" if "image" in stored else stored[0]
    shares = {name: share_of_paths(table, name) for name in table.columns}
    best = max(shares, key=lambda name: (shares[name], _name_rank(name)), default="")
    if best and shares[best] > MOST:
        return best
    named = max(table.columns, key=_name_rank, default="")
    if _name_rank(named) >= 0 and not shares[best]:  # names without an extension: "cats/001"
        return named
    raise DataError(
        _("{name} has no column of images").format(name=table.path.name),
        _(
            "{path}: {columns} hold neither stored images nor paths of images, which end in {image_formats}."
        ).format(path=table.path, columns=listed(table.columns), image_formats=", ".join(IMAGE_FORMATS)),
        (Fix(_("Choose a table with a column of image paths, or a folder with one folder per class")),),
    )


def _choose_label_column(table: Table, image: str, chosen: str | None) -> str:
    """Returns the column of labels: the chosen one, else the likeliest."""
    if chosen is not None:
        refuse_missing(table, chosen, ANSWER, table.columns)
        return chosen
    label = guess_columns(table, (image,)).label
    if label is None:
        raise DataError(
            _("{name} has no column of labels").format(name=table.path.name),
            _("{path}: none of {columns} has a few values that repeat, as labels of images do.").format(
                path=table.path, columns=listed(table.columns)
            ),
            tuple(use(ANSWER, name) for name in table.columns if name != image)[:MOST_OFFERED],
        )
    return label


def _name_rank(name: str) -> int:
    """Returns how likely a column's name is one of images; -1: not at all."""
    lowered = name.strip().lower()
    return len(IMAGE_NAMES) - IMAGE_NAMES.index(lowered) if lowered in IMAGE_NAMES else -1


def _label_names(table: Table, label: str) -> pa.ChunkedArray:
    """Returns the labels as text; missing ones, and numbers without a class name, are null."""
    column, names = table.rows[label], tag_names(table, label)
    if not names:
        return as_text(column)
    is_known = pc.and_(pc.greater_equal(column, 0), pc.less(column, len(names)))
    return pa.chunked_array(pc.take(pa.array(names), pc.if_else(is_known, column, None).combine_chunks()))


def _locate(text: str, base: Path) -> Path:
    """Returns an absolute path; Windows' backslashes are accepted everywhere."""
    if os.sep == "/" and "\\" in text and not (base / text).exists():
        text = text.replace("\\", "/")
    return base / without_tilde(text)


# --- IDX files, the format of MNIST and its relatives: http://yann.lecun.com/exdb/mnist


IDX_IMAGES = b"\x00\x00\x08\x03"
IDX_LABELS = b"\x00\x00\x08\x01"
"""Two zeros, the type (8: unsigned bytes) and the number of dimensions."""


@dataclass(frozen=True)
class IdxPair:
    """A file of images and the file of their labels."""

    images: Path
    labels: Path


def idx_pairs(path: Path) -> tuple[IdxPair, IdxPair | None]:
    """Returns the files for training and, if a folder has both, for evaluation; `path` is a folder or either file.

    Raises:
        DataError: The other file of a pair is missing.
    """
    if not path.is_dir():
        return _idx_pair(path), None
    images = idx_images(path)
    train = next((file for file in images if "train" in file.name.lower()), images[0])
    others = [file for file in images if file != train]
    return _idx_pair(train), _idx_pair(others[0]) if others else None


def idx_images(folder: Path) -> list[Path]:
    named = sorted(path for path in folder.iterdir() if "idx" in path.name.lower())
    return [path for path in named if _magic(path) == IDX_IMAGES]


def _magic(path: Path) -> bytes:
    """Returns the first four bytes, decompressed, or none if it is no readable file."""
    try:
        return first_bytes(path)[:4]
    except DataError:
        return b""


def _idx_pair(path: Path) -> IdxPair:
    """Finds the other file of a pair by its name."""
    kind, other = ("images", "labels") if _magic(path) == IDX_IMAGES else ("labels", "images")
    numbers = {"images": "idx3", "labels": "idx1"}
    name = re.sub(kind, other, path.name, flags=re.IGNORECASE)
    name = re.sub(numbers[kind], numbers[other], name, flags=re.IGNORECASE).removesuffix(".gz")
    for candidate in (path.with_name(name), path.with_name(f"{name}.gz")):
        if candidate != path and candidate.is_file():
            return IdxPair(path, candidate) if kind == "images" else IdxPair(candidate, path)
    raise DataError(
        _("{name} needs a second IDX file").format(name=path.name),
        _("There is neither {name} nor {name}.gz in {folder}.").format(name=name, folder=path.parent),
        (Fix(_("Put the files of images and labels into the same folder")),),
    )


def _read_idx(pair: IdxPair) -> Images:
    pixels, labels = _read_array(pair.images, IDX_IMAGES), _read_array(pair.labels, IDX_LABELS)
    if len(pixels) != len(labels):
        raise DataError(
            _("The numbers of images and labels differ"),
            _("{images} has {count:,} images, {labels} {label_count:,} labels.").format(
                images=pair.images.name, count=len(pixels), labels=pair.labels.name, label_count=len(labels)
            ),
            (Fix(_("Get both files from the same source")),),
        )
    return Images([str(label) for label in labels.tolist()], pixels[:, None], pair.images.name)


def _read_array(path: Path, magic: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    content = b"".join(raw_blocks(path, None))
    dimensions = magic[3]
    try:
        if not content.startswith(magic):
            raise ValueError(content[:4])
        shape = np.frombuffer(content, ">u4", dimensions, offset=4).tolist()
        count = int(np.prod(shape, dtype=object))
        return np.frombuffer(content, np.uint8, count, offset=4 + 4 * dimensions).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise DataError(
            _("{name} is cut off or damaged").format(name=path.name),
            _(
                "{path} is not an IDX file of bytes in {dimensions} dimensions, or is shorter than its "
                "header says."
            ).format(path=path, dimensions=dimensions),
            (Fix(_("Download or copy the file again")),),
        ) from error
