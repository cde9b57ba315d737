"""Classify images with a torchvision model."""

from pathlib import Path
from typing import Any

import msgspec

from core.engine.data.batches import stack
from core.engine.data.image_sets import ImageSet
from core.engine.data.images import ImageData, load_image_data
from core.engine.data.lone_image import leaves_one_over, without_one
from core.engine.models.adapters import apply_method
from core.engine.models.vision_models import load_vision_model
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.errors import Fix, ModelError
from core.events import Phase
from core.files import write_atomically
from core.options import RunOptions
from core.sources import Scheme, parse_synthetic, synthetic
from core.vision_models import VISION_MODELS

LARGE_ENOUGH = 64
"""Every model of `VISION_MODELS` trains on images of so many pixels, even on one at a time."""


class VisionRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """`hone.json` beside the weights: what it takes to use them. `image_size` is in pixels, square."""

    architecture: str
    labels: tuple[str, ...]
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for an image classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be loaded, or can't train on images of this size.
    """
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    data = load_image_data(options)
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    train = _trainable(data, options, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model = load_vision_model(options.model, len(data.labels), options.training.seed)
    recipe = VisionRecipe(
        architecture=options.model.source,
        labels=data.labels,
        image_size=data.size,
        mean=data.mean,
        std=data.std,
    )

    def save_extras(folder: Path) -> None:
        write_atomically(folder / "hone.json", msgspec.json.format(msgspec.json.encode(recipe)))

    return Prepared(
        model=apply_method(model, options),
        train=train,
        eval=data.eval,
        collator=stack,
        labels=data.labels,
        save_extras=save_extras,
    )


def _trainable(data: ImageData, options: RunOptions, reporter: Reporter) -> ImageSet:
    """The images to train on, without one of them where it would be left alone in an epoch's last batch.

    Raises:
        ModelError: The images are too small for the model, or each batch holds a single one.
    """
    source, batch_size = options.model.source, options.memory.batch_size
    limits = VISION_MODELS[Scheme.TORCHVISION.name_of(source) or ""]
    if data.size < limits.smallest:
        raise ModelError(
            f"Images of {data.size} pixels are too small for {source}",
            f"Its layers shrink an image step by step; below {limits.smallest} pixels nothing is left.",
            (_larger_images(options),),
        )
    if data.size >= limits.smallest_alone:
        return data.train
    if batch_size == 1 or len(data.train) == 1:
        raise ModelError(
            f"{source} can't train on one image of {data.size} pixels at a time",
            "It normalises each batch by its own mean and spread, and so small an image alone has no spread.",
            (*_larger_batches(len(data.train)), _larger_images(options)),
        )
    if not leaves_one_over(len(data.train), batch_size):
        return data.train
    reporter.note(
        "lone-image",
        "1 image is left out of training",
        f"In batches of {batch_size} it would be alone in the last one, and {source} can't train on a single image of "
        f"{data.size} pixels.",
    )
    return without_one(data.train)


def _larger_images(options: RunOptions) -> Fix:
    random = parse_synthetic(options.data.train)
    changes: dict[str, Any] = (
        {"data.train": synthetic(random[0], LARGE_ENOUGH)} if random else {"data.image_size": LARGE_ENOUGH}
    )
    return Fix(f"Use images of {LARGE_ENOUGH} pixels", changes)


def _larger_batches(samples: int) -> tuple[Fix, ...]:
    return (Fix("Use batches of 2", {"memory.batch_size": 2}),) if samples > 1 else ()
