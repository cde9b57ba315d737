"""Images for training and evaluation, wherever they come from."""

from dataclasses import dataclass
from pathlib import Path

from core.engine.data import builtin_images, idx_images, image_folders
from core.engine.data.image_sets import FoundImages, ImageSet, LabelledImages
from core.engine.data.image_transform import ImageTransform
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
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()


def load_image_data(options: RunOptions) -> ImageData:
    """Find, check and split the images a run asks for.

    Raises:
        DataError: They can't be used; the file or folder is named.
    """
    data, seed = options.data, options.training.seed
    synthetic = parse_synthetic(data.train)
    transform = ImageTransform(synthetic[1] if synthetic else data.image_size)
    found = find_images(data.train, seed)
    images = found.train
    names = images.names[: data.max_train_samples]
    labels = in_order(names)
    if not synthetic:
        refuse_single(labels, Path(data.train).name, (USE_ALL_SAMPLES,) if data.max_train_samples else ())
    held_out = find_eval_images(data.eval, seed) if data.eval else found.eval
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


def find_images(source: str, seed: int = 0) -> FoundImages:
    """What `data.train` or `data.eval` points to, not yet decoded.

    Raises:
        DataError: There are no images, or some are damaged.
    """
    synthetic = parse_synthetic(source)
    if synthetic:
        return builtin_images.synthetic(*synthetic, seed)
    if source == DIGITS:
        return builtin_images.digits()
    path = Path(source)
    try:
        return _find_in_folder(path) if path.is_dir() else _find_in_file(path)
    except OSError as error:
        raise DataError(
            f"{path.name} can't be read", f"{error.filename or path}: {error.strerror or error}"
        ) from error


def find_eval_images(source: str, seed: int = 0) -> LabelledImages:
    """The images to evaluate on: of a source that holds both, those it means for that.

    Raises:
        DataError: There are no images, or some are damaged.
    """
    found = find_images(source, seed)
    return found.eval or found.train


def _find_in_folder(folder: Path) -> FoundImages:
    has_idx = idx_images.folder_has_idx(folder)
    return idx_images.load_folder(folder) if has_idx else image_folders.load_folder(folder)


def _find_in_file(path: Path) -> FoundImages:
    if not path.exists():
        raise DataError(f"There is no {path.name}", f"{path} is neither a file nor a folder.")
    if idx_images.is_idx(path):
        return idx_images.load_file(path)
    raise DataError(
        f"{path.name} is not an IDX file",
        f"{path}: images are read from a folder with one folder a class, or from IDX files as MNIST ships.",
        (Fix("Choose the folder that holds the class folders"),),
    )


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
