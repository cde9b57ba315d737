"""Every vision model at its smallest images, whatever is left over for the last batch."""

from pathlib import Path

import msgspec
import pytest
import torch
from torch.func import functional_call

from core.base.errors import ModelError
from core.engine.data.image_files import ImageSet, ImageTransform
from core.engine.data.images import synthetic_images as synthetic
from core.engine.models.vision import VisionClassifier, VisionRecipe, load_vision_model
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.images import LARGE_ENOUGH, prepare, without_one
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import VISION_MODELS
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.models import SIZE, save_tiny_vision
from tests.fakes.training import train

SINGLE_REFUSED = ("resnet18", "mobilenet_v2", "efficientnet_b0")
"""These normalise batches, and shrink 32 pixels to one."""


def options(name: str, images: str, batch_size: int) -> RunOptions:
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=f"torchvision:{name}", pretrained=False),
        data=DataOptions(train=images),
        memory=MemoryOptions(batch_size=batch_size),
    )


def prepared(asked: RunOptions, folder: Path) -> tuple[Prepared, list[str]]:
    """What Trainer would get, and the ids of the messages on the way."""
    run = RunFolder(folder)
    found = prepare(asked, Reporter(run))
    events = EventReader(run.events_file).read_all()
    return found, [event.id for event in events if isinstance(event, MessageRaised)]


def train_one_epoch(found: Prepared, batch_size: int) -> int:
    """Forward and backward through every batch; returns how many samples there were."""
    seen = 0
    for start in range(0, len(found.train), batch_size):
        last = min(start + batch_size, len(found.train))
        batch = found.collator([found.train[index] for index in range(start, last)])
        found.model(**batch)["loss"].backward()
        seen += len(batch["labels"])
    return seen


@pytest.mark.parametrize("name", VISION_MODELS)
def test_one_image_over_at_the_smallest_size(name, tmp_path):
    size = max(32, VISION_MODELS[name].smallest)
    found, messages = prepared(options(name, f"synthetic:5x{size}", batch_size=2), tmp_path)
    left_out = name in SINGLE_REFUSED
    assert train_one_epoch(found, 2) == (4 if left_out else 5)
    assert ("lone-image" in messages) is left_out


def test_no_image_is_left_out_where_the_model_can_see_a_single_one(tmp_path):
    found, messages = prepared(options("resnet18", f"synthetic:3x{LARGE_ENOUGH}", batch_size=2), tmp_path)
    assert train_one_epoch(found, 2) == 3
    assert messages == []


@pytest.mark.parametrize(("images", "batch_size"), [("synthetic:4x32", 1), ("synthetic:1x32", 8)])
def test_single_images_throughout_are_refused(images, batch_size, tmp_path):
    with pytest.raises(ModelError, match="one image of 32 pixels") as refused:
        prepared(options("resnet18", images, batch_size), tmp_path)
    changes = [fix.changes for fix in refused.value.fixes]
    assert ({"memory.batch_size": 2} in changes) is (batch_size == 1)
    assert {"data.train": images.replace("x32", f"x{LARGE_ENOUGH}")} in changes


@pytest.mark.parametrize(
    ("images", "changes"),
    [
        ("synthetic:4x32", {"data.train": f"synthetic:4x{LARGE_ENOUGH}"}),
        ("builtin:digits", {"data.image_size": LARGE_ENOUGH}),
    ],
)
def test_images_too_small_for_the_layers_are_refused(images, changes, tmp_path):
    asked = options("alexnet", images, batch_size=2)
    small = msgspec.structs.replace(asked, data=msgspec.structs.replace(asked.data, image_size=32))
    with pytest.raises(ModelError, match="Images of 32 pixels are too small") as refused:
        prepared(small, tmp_path)
    assert [fix.changes for fix in refused.value.fixes] == [changes]


def build(name: str) -> VisionClassifier:
    return load_vision_model(ModelOptions(source=f"torchvision:{name}", pretrained=False), classes=2, seed=1)


def trains(model: VisionClassifier, batch: int, size: int) -> bool:
    """Whether a forward pass in training mode goes through; shapes alone are computed, on the meta device."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    shapes = {name: tensor.to("meta") for name, tensor in tensors}
    try:
        functional_call(model, shapes, (torch.empty(batch, 3, size, size, device="meta"),))
    except (ValueError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("name", VISION_MODELS)
def test_the_declared_limits_are_the_models_own(name):
    model, limits = build(name), VISION_MODELS[name]
    assert trains(model, 2, limits.smallest)
    assert limits.smallest == 1 or not trains(model, 2, limits.smallest - 1)
    assert trains(model, 1, limits.smallest_alone)
    assert not trains(model, 1, limits.smallest_alone - 1)
    assert limits.smallest_alone <= LARGE_ENOUGH


def test_the_image_left_out_is_one_its_class_can_spare():
    images = ImageSet(synthetic(3, 32, seed=1).train, [0, 2, 1], [0, 0, 1], ImageTransform(32))
    kept = without_one(images)
    assert [kept[index]["labels"] for index in range(len(kept))] == [0, 1]
    assert torch.equal(kept[0]["pixel_values"], images[0]["pixel_values"])


def test_what_is_saved_beside_the_weights_says_what_was_seen(tmp_path):
    found, _ = prepared(options("resnet18", "synthetic:4x48", batch_size=2), tmp_path)
    found.save_extras(tmp_path)
    recipe = msgspec.json.decode((tmp_path / "hone.json").read_bytes(), type=VisionRecipe)
    assert (recipe.architecture, recipe.labels, recipe.image_size) == ("torchvision:resnet18", ("0", "1"), 48)


def test_a_vision_transformer_trains_with_accumulated_batches(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    folder = save_tiny_vision(tmp_path / "vit")
    run = train(
        tmp_path / "run",
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=str(folder)),
        data=DataOptions(train="builtin:digits", image_size=SIZE, max_train_samples=80),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=2, activation_checkpointing=True),
        training=TrainingOptions(epochs=1.0, learning_rate=1e-3),
    )
    assert run.status == 0
    saved = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert saved == {"config.json", "hone.json", "model.safetensors", "preprocessor_config.json"}
