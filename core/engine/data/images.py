"""Images for training and evaluation, wherever they come from."""

from dataclasses import dataclass
from pathlib import Path

from core.engine.data import builtin_images
from core.engine.data.image_damage import refuse_damaged
from core.engine.data.image_sets import EncodedImages, FoundImages, ImageSet, LabelledImages
from core.engine.data.image_sources import WHOLE, Columns, Splits, find_stored
from core.engine.data.image_transform import IMAGENET_MEAN, IMAGENET_STD, Colours, ImageTransform
from core.engine.data.labels import (
    HOLD_OUT_INSTEAD,
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    in_order,
    indices,
    refuse_single,
)
from core.engine.data.split import stratified_split
from core.errors import DataError, Fix
from core.options import RunOptions
from core.sources import DIGITS, parse_synthetic


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
    labels = in_order(names)
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
        return builtin_images.synthetic(*synthetic, seed)
    if source == DIGITS:
        return builtin_images.digits()
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
