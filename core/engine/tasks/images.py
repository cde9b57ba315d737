"""Classify images with a model of torchvision's or of transformers'."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Fix, ModelError
from core.base.files import write_atomically
from core.base.language import _
from core.engine.data.batches import stack
from core.engine.data.image_files import ImageSet
from core.engine.data.images import ImageData, load_image_data
from core.engine.models.parts import apply_method
from core.engine.models.vision import (
    PREPROCESSOR,
    RECIPE,
    ImageModel,
    VisionRecipe,
    WrongSize,
    find_image_model,
    limits_of,
    load_image_model,
    preprocessor,
)
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.metrics import classification_metrics
from core.options import RunOptions
from core.options.sources import Scheme, parse_synthetic, synthetic
from core.runs.events import Phase


def leaves_one_over(samples: int, batch_size: int) -> bool:
    """Whether the last batch of an epoch holds a single sample beside full batches."""
    return 1 < batch_size < samples and samples % batch_size == 1


def without_one(images: ImageSet) -> ImageSet:
    """All images but the last one of the class that has most, so that no class loses more than it can spare."""
    most = Counter(images.labels).most_common(1)[0][0]
    spared = max(index for index, label in enumerate(images.labels) if label == most)
    kept = [index for index in range(len(images)) if index != spared]
    return replace(
        images,
        chosen=[images.chosen[index] for index in kept],
        labels=[images.labels[index] for index in kept],
    )


LARGE_ENOUGH = 64
"""Every model of `VISION_MODELS` trains on images of so many pixels, even on one at a time."""


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for an image classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be loaded, or can't train on images of this size.
    """
    if Scheme.TORCHVISION.name_of(options.model.source) is None:
        reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config, maybe from the Hub
    found = find_image_model(options)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    data = load_image_data(options, found.mean, found.std)
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    if not found.is_told and options.model.pretrained:
        reporter.note(
            "normalised-as-imagenet",
            _("Images are normalised as ImageNet's are"),
            _("{source} has no {preprocessor} that says how it was trained.").format(
                source=found.source, preprocessor=PREPROCESSOR
            ),
        )
    train = _trainable(data, found, options, reporter)
    transform = data.train.transform
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    loaded = load_image_model(options, found, data.labels)
    return Prepared(
        model=apply_method(loaded.model, options, loaded.fresh),
        train=train,
        eval=data.eval,
        collator=stack,
        labels=data.labels,
        save_extras=_saving(data, found),
        metrics=classification_metrics,
        picture=lambda sample: transform.png(sample["pixel_values"]),
    )


def _saving(data: ImageData, found: ImageModel) -> Callable[[Path], None]:
    """What writes beside the weights how images become what the model sees."""
    recipe = VisionRecipe(
        architecture=found.architecture,
        labels=data.labels,
        image_size=data.size,
        mean=found.mean,
        std=found.std,
    )

    def save(folder: Path) -> None:
        write_atomically(folder / RECIPE, msgspec.json.format(msgspec.json.encode(recipe)))
        if found.config is not None:
            write_atomically(folder / PREPROCESSOR, preprocessor(data.size, found.mean, found.std))

    return save


def _trainable(data: ImageData, found: ImageModel, options: RunOptions, reporter: Reporter) -> ImageSet:
    """The images to train on, without one of them where it would be left alone in an epoch's last batch.

    Raises:
        ModelError: The images are too small for the model, or of a size it can't see, or each batch holds a single one.
    """
    source, batch_size = options.model.source, options.memory.batch_size
    try:
        limits = limits_of(options, found, data.size)
    except WrongSize as error:
        error.fixes = (_images_of(options, error.wanted),) if error.wanted else ()
        raise
    if data.size < limits.smallest:
        raise ModelError(
            _("Images of {size} pixels are too small for {source}").format(size=data.size, source=source),
            _("Its layers shrink an image step by step; below {smallest} pixels nothing is left.").format(
                smallest=limits.smallest
            ),
            (_images_of(options, LARGE_ENOUGH),),
        )
    if data.size >= limits.smallest_alone:
        return data.train
    if batch_size == 1 or len(data.train) == 1:
        raise ModelError(
            _("{source} can't train on one image of {size} pixels at a time").format(
                source=source, size=data.size
            ),
            _(
                "It normalises each batch by its own mean and spread, and so small an image alone "
                "has no spread."
            ),
            (
                *((Fix(_("Use batches of 2"), {"memory.batch_size": 2}),) if len(data.train) > 1 else ()),
                _images_of(options, LARGE_ENOUGH),
            ),
        )
    if not leaves_one_over(len(data.train), batch_size):
        return data.train
    reporter.note(
        "lone-image",
        _("1 image is left out of training"),
        _(
            "In batches of {batch_size} it would be alone in the last one, and {source} can't "
            "train on a single image of "
            "{size} pixels."
        ).format(batch_size=batch_size, source=source, size=data.size),
    )
    return without_one(data.train)


def _images_of(options: RunOptions, size: int) -> Fix:
    random = parse_synthetic(options.data.train)
    changes: dict[str, Any] = (
        {"data.train": synthetic(random[0], size)} if random else {"data.image_size": size}
    )
    return Fix(_("Use images of {size} pixels").format(size=size), changes)
