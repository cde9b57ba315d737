"""Image classification with a model of torchvision or transformers."""

from collections import Counter
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
from core.engine.models.method import apply_method
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
from core.engine.tasks import Prepared, named, refuse_other_labels
from core.engine.tasks.metrics import classification_metrics
from core.options import RunOptions
from core.options.sources import Scheme, parse_synthetic, synthetic
from core.runs.events import Example, Phase

LARGE_ENOUGH = 64
"""Pixels on which every model of `VISION_MODELS` trains, even one image at a time."""


def files_in_both(data: ImageData) -> set[Path]:
    """Returns the image files that are trained on and evaluated."""
    files = [
        {stored for place in one.chosen if isinstance(stored := one.images.encoded(place), Path)}
        for one in (data.train, data.eval)
        if one is not None
    ]
    return set.intersection(*files) if len(files) > 1 else set()


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Loads data and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be loaded, or can't be trained on images of this size.
    """
    if Scheme.TORCHVISION.name_of(options.model.source) is None:
        reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config
    model = find_image_model(options)
    reporter.phase(Phase.LOADING_DATA, options.data_name)
    data = load_image_data(options, model.mean, model.std)
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    reporter.warn_if_in_both(len(files_in_both(data)), len(data.eval or ()), options)
    if not model.has_normalisation and options.model.pretrained:
        reporter.note(
            "normalised-as-imagenet",
            _("Images are normalized with ImageNet's mean and standard deviation"),
            _("{source} has no file {name} that names its own.").format(
                source=model.source, name=PREPROCESSOR
            ),
        )
    train = _trainable(data, model, options, reporter)
    transform = data.train.transform
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    labels = named(data.labels, options)
    refuse_other_labels(labels, model.labels, options)
    loaded = load_image_model(options, model, labels)
    recipe = VisionRecipe(
        architecture=model.architecture,
        labels=labels,
        image_size=data.size,
        mean=model.mean,
        std=model.std,
        image_fit=options.data.image_fit,
    )

    def save_extras(folder: Path) -> None:
        write_atomically(folder / RECIPE, msgspec.json.format(msgspec.json.encode(recipe)))
        if model.config is not None:
            write_atomically(
                folder / PREPROCESSOR, preprocessor(data.size, model.mean, model.std, options.data.image_fit)
            )

    def origin(index: int) -> Example:
        if data.eval is None:
            return Example()
        images, place = data.eval.images, data.eval.chosen[index]
        path = images.path(place)
        return Example(file=str(Path(path).absolute()) if path else "", where=images.row(place))

    return Prepared(
        model=apply_method(loaded.model, options, loaded.fresh),
        train=train,
        eval=data.eval,
        collator=stack,
        labels=labels,
        save_extras=save_extras,
        metrics=classification_metrics,
        picture=lambda sample: transform.png(sample["pixel_values"]),
        origin=origin,
    )


def _trainable(data: ImageData, model: ImageModel, options: RunOptions, reporter: Reporter) -> ImageSet:
    """Returns the training images, without one that would be alone in the last batch of a model with batch norm."""
    source, batch_size, count = options.model.source, options.memory.batch_size, len(data.train)
    try:
        limits = limits_of(options, model, data.size)
    except WrongSize as error:
        error.fixes = (_images_of(options, error.wanted),) if error.wanted else ()
        raise
    if data.size < limits.smallest:
        raise ModelError(
            _("Images of {size} pixels are too small for {source}").format(size=data.size, source=source),
            _("It needs at least {smallest} pixels.").format(smallest=limits.smallest),
            (_images_of(options, LARGE_ENOUGH),),
        )
    if data.size >= limits.smallest_alone:
        return data.train
    if batch_size == 1 or count == 1:
        fixes = [Fix(_("Use batches of 2"), {"memory.batch_size": 2})] if count > 1 else []
        raise ModelError(
            _("{source} can't be trained on one image of {size} pixels at a time").format(
                source=source, size=data.size
            ),
            _("Its batch normalization needs more than one value per channel."),
            (*fixes, _images_of(options, LARGE_ENOUGH)),
        )
    if count <= batch_size or count % batch_size != 1 or options.only_evaluates:
        return data.train
    reporter.note(
        "lone-image",
        _("1 image is left out of training"),
        _("It would be alone in the last batch, and the batch normalization of {source} needs two.").format(
            source=source
        ),
    )
    return without_one(data.train)


def without_one(images: ImageSet) -> ImageSet:
    """Returns all images but the last one of the most frequent class."""
    most = Counter(images.labels).most_common(1)[0][0]
    left_out = max(index for index, label in enumerate(images.labels) if label == most)
    kept = [index for index in range(len(images)) if index != left_out]
    return replace(
        images,
        chosen=[images.chosen[index] for index in kept],
        labels=[images.labels[index] for index in kept],
    )


def _images_of(options: RunOptions, size: int) -> Fix:
    random = parse_synthetic(options.data.train)
    changes: dict[str, Any] = {"data.image_size": size}
    if random:
        changes = {"data.train": synthetic(random[0], size)}
    return Fix(_("Use images of {size} pixels").format(size=size), changes)
