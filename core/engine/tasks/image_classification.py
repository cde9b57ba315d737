"""Classify images with a torchvision model."""

from pathlib import Path
from typing import Any

import msgspec
import torch

from core.engine.data.images import load_image_data
from core.engine.models.vision_models import load_vision_model
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.events import Phase
from core.options import RunOptions
from core.run_file import write_atomically


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
        ModelError: The model can't be loaded.
    """
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    data = load_image_data(options)
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model = load_vision_model(options.model, len(data.labels), options.training.seed)
    recipe = VisionRecipe(
        architecture=options.model.source,
        labels=data.labels,
        image_size=options.data.image_size,
        mean=data.mean,
        std=data.std,
    )

    def save_extras(folder: Path) -> None:
        write_atomically(folder / "hone.json", msgspec.json.format(msgspec.json.encode(recipe)))

    return Prepared(
        model=model,
        train=data.train,
        eval=data.eval,
        collator=stack,
        labels=data.labels,
        save_extras=save_extras,
    )


def stack(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Collate samples of equal size: pixel_values [batch, 3, H, W] and labels [batch]."""
    return {
        "pixel_values": torch.stack([sample["pixel_values"] for sample in samples]),
        "labels": torch.tensor([sample["labels"] for sample in samples]),
    }
