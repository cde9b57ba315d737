"""Every vision model at its smallest images, whatever is left over for the last batch."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from PIL import Image
from torch.func import functional_call

from core.base.errors import ModelError
from core.engine.data.image_files import ImageSet, ImageTransform
from core.engine.data.images import load_image_data, synthetic_images
from core.engine.models.vision import VisionClassifier, VisionRecipe, load_vision_model
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.images import LARGE_ENOUGH, files_in_both, prepare, without_one
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Task
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS
from core.runs.events import Event, MessageRaised
from tests.fakes.models import SIZE, save_tiny_vision
from tests.fakes.training import options_of, train


def options(source: str | Path, images: str, batch_size: int = 2, **changes: Any) -> RunOptions:
    usual = {"source": source, "train": images, "batch_size": batch_size, "pretrained": False}
    return options_of(Task.IMAGE_CLASSIFICATION, **usual, **changes)


def prepared(source: str | Path, images: str) -> tuple[Prepared, list[str]]:
    """What Trainer would get, and the ids of the messages on the way."""
    reporter, events = Reporter(None), list[Event]()
    reporter.listeners.append(events.append)
    found = prepare(options(source, images), reporter)
    return found, [event.id for event in events if isinstance(event, MessageRaised)]


def train_one_epoch(found: Prepared) -> int:
    """Forward and backward in batches of 2; returns how many samples there were."""
    seen = 0
    for start in range(0, len(found.train), 2):
        rows = range(start, min(start + 2, len(found.train)))
        batch = found.collator([found.train[row] for row in rows])
        found.model(**batch)["loss"].backward()
        seen += len(batch["labels"])
    return seen


@pytest.mark.parametrize(
    ("name", "size", "used"), [("resnet18", 32, 4), ("resnet18", LARGE_ENOUGH, 5), ("vit", 32, 5)]
)
def test_one_image_over_is_left_out_where_batch_norm_needs_two(name, size, used, tmp_path):
    source = save_tiny_vision(tmp_path / "vit") if name == "vit" else f"torchvision:{name}"
    found, messages = prepared(source, f"synthetic:5x{size}")
    assert train_one_epoch(found) == used
    assert ("lone-image" in messages) is (used == 4)


@pytest.mark.parametrize(
    ("refused", "message", "changes"),
    [
        (
            options("torchvision:resnet18", "synthetic:4x32", batch_size=1),
            "one image of 32 pixels",
            [{"memory.batch_size": 2}, {"data.train": f"synthetic:4x{LARGE_ENOUGH}"}],
        ),
        (
            options("torchvision:resnet18", "synthetic:1x32", batch_size=8),
            "one image of 32 pixels",
            [{"data.train": f"synthetic:1x{LARGE_ENOUGH}"}],
        ),
        (
            options("torchvision:alexnet", "synthetic:4x32", image_size=32),
            "Images of 32 pixels are too small",
            [{"data.train": f"synthetic:4x{LARGE_ENOUGH}"}],
        ),
        (
            options("torchvision:alexnet", "builtin:digits", image_size=32),
            "Images of 32 pixels are too small",
            [{"data.image_size": LARGE_ENOUGH}],
        ),
    ],
    ids=["batches-of-one", "one-image", "too-small", "too-small-files"],
)
def test_images_that_a_model_can_not_be_trained_on_are_refused(refused, message, changes):
    with pytest.raises(ModelError, match=message) as caught:
        prepare(refused, Reporter(None))
    assert [fix.changes for fix in caught.value.fixes] == changes


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
    limits = VISION_MODELS[name]
    source = ModelOptions(source=f"torchvision:{name}", pretrained=False)
    with torch.device("meta"):
        model = load_vision_model(source, classes=2, seed=1)
    assert trains(model, 2, limits.smallest)
    assert limits.smallest == 1 or not trains(model, 2, limits.smallest - 1)
    assert trains(model, 1, limits.smallest_alone)
    assert not trains(model, 1, limits.smallest_alone - 1)
    assert limits.smallest_alone <= LARGE_ENOUGH


def test_the_image_left_out_is_one_its_class_can_spare():
    images = ImageSet(synthetic_images(3, 32, seed=1).train, [0, 2, 1], [0, 0, 1], ImageTransform(32))
    kept = without_one(images)
    assert [kept[index]["labels"] for index in range(len(kept))] == [0, 1]
    assert torch.equal(kept[0]["pixel_values"], images[0]["pixel_values"])


def test_a_vision_transformer_is_trained_and_saved_with_what_it_saw(tmp_path):
    rows = {"train": "builtin:digits", "image_size": SIZE, "max_train_samples": 16, "max_eval_samples": 8}
    batches = {"batch_size": 4, "gradient_accumulation_steps": 2, "activation_checkpointing": True}
    vit = save_tiny_vision(tmp_path / "vit")
    run = train(tmp_path / "run", task=Task.IMAGE_CLASSIFICATION, source=vit, **rows, **batches)
    assert run.status == 0
    model: Path = run.run.model
    saved = {path.name for path in model.iterdir()}
    assert saved == {"config.json", "hone.json", "model.safetensors", "preprocessor_config.json"}
    recipe = msgspec.json.decode((model / "hone.json").read_bytes(), type=VisionRecipe)
    assert (recipe.labels, recipe.image_size) == (tuple("0123456789"), SIZE)


def test_images_that_are_evaluated_and_trained_on_are_found(tmp_path):
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (32, 32), (40 * number, 9, 9)).save(tmp_path / "pets" / label / f"{number}.png")
    other = shutil.copytree(tmp_path / "pets", tmp_path / "other")
    asked = options("resnet18", str(tmp_path / "pets"))
    for evaluation, count in ((None, 0), (str(tmp_path / "pets"), 12), (str(other), 0)):
        given = with_changes(asked, {"data.eval": evaluation, "data.eval_fraction": 0.25})
        assert len(files_in_both(load_image_data(given))) == count


def test_examples_of_images_have_their_file_and_those_of_a_table_their_row(tmp_path):
    files = []
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number in range(6):
            files.append(tmp_path / "pets" / label / f"{number}.png")
            Image.new("RGB", (32, 32), (40 * number, 9, 9)).save(files[-1])
    found, _ids = prepared("torchvision:resnet18", str(tmp_path / "pets"))
    shown = [found.origin(index) for index in range(len(found.eval))]
    assert {Path(example.file) for example in shown} < set(files)
    assert all(not example.where and example.name == Path(example.file).name for example in shown)
    table = tmp_path / "pets.csv"
    rows = (f"{file.relative_to(tmp_path).as_posix()},{file.parent.name}" for file in files)
    table.write_text("\n".join(["image,label", *rows]))
    found, _ids = prepared("torchvision:resnet18", str(table))
    shown = [found.origin(index) for index in range(len(found.eval))]
    numbers = [int(example.where.removeprefix("row ").removesuffix(" of pets.csv")) for example in shown]
    assert [Path(example.file) for example in shown] == [files[number - 2] for number in numbers]
    found, _ids = prepared("torchvision:resnet18", "builtin:digits")
    assert found.origin(0).name.startswith("image "), "they have no file"
