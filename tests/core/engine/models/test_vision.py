"""Image models of torchvision and transformers: loaded, given a head, trained a little, saved and loaded again."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from core.base.errors import ModelError
from core.engine.data.image_files import IMAGENET_MEAN, ImageTransform
from core.engine.models.vision import (
    CheckpointedRow,
    checkpoint_rows,
    find_image_model,
    load_vision_model,
    preprocessor,
)
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.images import prepare
from core.engine.training.loss_scale import fix_loss_scaling
from core.options import RunOptions
from core.options.choices import ImageFit, Method, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions
from core.options.sources import VISION_MODELS
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.models import CONFIGS, SIZE, edit_config, save_tiny_bert, save_tiny_vision

SQUEEZENET = "torchvision:squeezenet1_0"


def asked(source: Path | str, method: Method = Method.FULL, **options: Any) -> RunOptions:
    """A run on six images of two classes."""
    pretrained = options.pop("pretrained", source != SQUEEZENET)
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=str(source), method=method, lora_rank=2, pretrained=pretrained),
        data=DataOptions(**{"train": f"synthetic:6x{SIZE}", **options}),
        memory=MemoryOptions(batch_size=2),
    )


def prepared(options: RunOptions, tmp_path: Path) -> tuple[Prepared, list[str]]:
    """And the ids of the messages."""
    run = RunFolder(tmp_path / "run")
    run.path.mkdir(exist_ok=True)
    result = prepare(options, Reporter(run))
    events = EventReader(run.events_file).read_all()
    return result, [event.id for event in events if isinstance(event, MessageRaised)]


def batch(of: Prepared) -> dict[str, torch.Tensor]:
    return of.collator([of.train[index] for index in range(4)])


def logits(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return network.eval()(pixels)["logits"]


def fill_lora(model: torch.nn.Module) -> None:
    """LoRA's second matrices begin at zero, where they change nothing."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.3)


def differing(first: torch.nn.Module, second: torch.nn.Module) -> list[str]:
    """Names of the weights that are not the same."""
    before, after = first.state_dict(), second.state_dict()
    return [name for name in before if not torch.equal(after[name], before[name])]


@pytest.fixture
def vit(tmp_path):
    return save_tiny_vision(tmp_path / "vit")


# --- torchvision's networks


@pytest.mark.parametrize("name", VISION_MODELS)
def test_every_network_of_torchvision_gets_a_head_and_activation_checkpointing(name):
    model = load_vision_model(ModelOptions(source=f"torchvision:{name}", pretrained=False), classes=3, seed=1)
    names = list(model.state_dict())
    checkpoint_rows(model.network)
    assert any(isinstance(part, CheckpointedRow) for part in model.network.children())
    assert list(model.state_dict()) == names
    with torch.no_grad():
        result = model.eval()(torch.rand(2, 3, 64, 64), torch.tensor([0, 2]))
    assert result["logits"].shape == (2, 3)
    assert result["loss"].ndim == 0


def test_weights_that_cannot_be_downloaded_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))  # nothing is cached
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing answers there
    with pytest.raises(ModelError) as refused:
        load_vision_model(ModelOptions(source="torchvision:resnet18"), classes=2, seed=1)
    assert "resnet18" in refused.value.title
    assert refused.value.fixes[0].changes == {"model.pretrained": False, "model.method": "full"}


@pytest.mark.parametrize(("size", "is_last"), [(64, False), (128, True)])
def test_channels_come_last_where_that_is_faster_and_change_nothing(size, is_last):
    model = load_vision_model(ModelOptions(source=SQUEEZENET, pretrained=False), classes=2, seed=7).eval()
    layouts: list[bool] = []
    first = next(part for part in model.modules() if isinstance(part, torch.nn.Conv2d))
    first.register_forward_pre_hook(
        lambda _part, inputs: layouts.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
    )
    pixels, labels = torch.rand(2, 3, size, size), torch.tensor([0, 1])
    loss = model(pixels, labels)["loss"]
    loss.backward()
    gradient = first.weight.grad.clone()
    model.zero_grad()
    plain = torch.nn.functional.cross_entropy(model.network(pixels), labels)
    plain.backward()
    assert layouts == [is_last, False]
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(gradient, first.weight.grad, rtol=1e-4, atol=1e-6)


# --- transformers' models


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("method", [Method.FULL, Method.LORA, Method.HEAD])
def test_every_kind_learns(kind, method, tmp_path):
    ready, _ = prepared(asked(save_tiny_vision(tmp_path / kind, kind), method), tmp_path)
    model = ready.model.train()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    learning = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert (len(learning) == len(before)) is (method is Method.FULL)
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)
    inputs = batch(ready)
    for _ in range(2):  # LoRA's second matrix is zero at the first step
        optimizer.zero_grad()
        model(**inputs)["loss"].backward()
        optimizer.step()
    moved = [name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])]
    assert set(moved) <= set(learning)
    assert len(moved) > len(learning) / 2
    assert any("lora" in name for name in moved) is (method is Method.LORA)


@pytest.mark.parametrize("kind", CONFIGS)
def test_accumulated_losses_are_scaled_right(kind, tmp_path):
    """A model that takes any keyword and doesn't divide by the items is flagged, so that Trainer divides."""
    ready, _ = prepared(asked(save_tiny_vision(tmp_path / kind, kind)), tmp_path)
    model: Any = ready.model.eval()
    fix_loss_scaling(model, batch(ready))
    divides = getattr(model, "accepts_loss_kwargs", True)
    with torch.no_grad():
        one, two = (float(model(**batch(ready), num_items_in_batch=n)["loss"]) for n in (1, 2))
    assert divides is not math.isclose(one, two)


def test_the_head_gets_the_labels_and_the_body_keeps_its_weights(tmp_path):
    folder = save_tiny_vision(tmp_path / "vit", num_labels=7)
    model = prepared(asked(folder), tmp_path)[0].model
    assert (model.config.id2label, model.classifier.out_features) == ({0: "0", 1: "1"}, 2)
    name = "vit.embeddings.patch_embeddings.projection.weight"
    assert torch.equal(model.state_dict()[name], load_file(folder / "model.safetensors")[name])
    (folder / "model.safetensors").unlink()
    first, second = (prepared(asked(folder, pretrained=False), tmp_path)[0].model for _ in range(2))
    assert differing(first, second) == [], "random weights follow the seed"


def test_distilled_models_are_trained_without_their_teacher(tmp_path):
    folder = save_tiny_vision(tmp_path / "deit", "deit")
    edit_config(folder, architectures=["DeiTForImageClassificationWithTeacher"])
    ready, _ = prepared(asked(folder), tmp_path)
    assert type(ready.model).__name__ == "DeiTForImageClassification"
    assert ready.model(**batch(ready))["loss"].requires_grad


# --- How images are normalized


@pytest.mark.parametrize(
    ("config", "mean", "std"),
    [
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}, 0.5, 0.5),
        ({"do_normalize": False}, 0.0, 1.0),
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "rescale_factor": 1 / 127.5}, 0.25, 0.25),
        (
            {
                **{"image_mean": [0.0] * 3, "image_std": [1.0] * 3},
                **{"rescale_factor": 1 / 127.5, "rescale_offset": True},
            },
            0.5,
            0.5,
        ),
        ({"image_mean": [0.5], "image_std": [0.5]}, IMAGENET_MEAN[0], 0.229),
        ("no json", IMAGENET_MEAN[0], 0.229),
    ],
)
def test_images_are_normalised_as_the_preprocessor_says(vit, config, mean, std):
    (vit / "preprocessor_config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    model = find_image_model(asked(vit))
    assert math.isclose(model.mean[0], mean)
    assert math.isclose(model.std[0], std)


@pytest.mark.parametrize(
    ("mean", "lowest", "messages"), [((0.5,) * 3, -1.0, []), (None, -2.2, ["normalised-as-imagenet"])]
)
def test_pixels_are_normalised_and_a_guess_is_reported(tmp_path, mean, lowest, messages):
    ready, reported = prepared(asked(save_tiny_vision(tmp_path / "vit", mean=mean)), tmp_path)
    assert reported == messages
    pixels = ready.train[0]["pixel_values"]
    assert lowest <= float(pixels.min()) < lowest + 0.2


# --- Refusals


def change_to_own_code(folder: Path) -> None:
    edit_config(folder, model_type="mine", auto_map={"AutoConfig": "mine.Config"})
    (folder / "mine.py").write_text("raise SystemExit('it was run')")


def pickle_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("data", "title", "fix"),
    [
        ({"train": "synthetic:4x48"}, "images of 48 pixels", {"data.train": "synthetic:4x32"}),
        ({"train": "builtin:digits", "image_size": 40}, "images of 40 pixels", {"data.image_size": 32}),
    ],
)
def test_images_of_another_size_than_the_models_are_refused(vit, tmp_path, data, title, fix):
    with pytest.raises(ModelError, match=f"^vit can't process {title}") as refused:
        prepared(asked(vit, **data), tmp_path)
    assert [each.changes for each in refused.value.fixes] == [fix]


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (pickle_weights, "has only pickled weights"),
        (change_to_own_code, "needs its own code to run"),
        (lambda folder: edit_config(folder, num_channels=1), "is not a model for colour images"),
        (save_tiny_bert, "can't be trained for"),
    ],
    ids=["pickled", "own-code", "gray", "text-model"],
)
def test_a_model_that_cannot_be_used_is_refused(vit, tmp_path, change, title):
    change(vit)
    with pytest.raises(ModelError, match=f"^vit {title}"):
        prepared(asked(vit), tmp_path)


def test_a_model_that_takes_any_size_takes_them(tmp_path):
    folder = save_tiny_vision(tmp_path / "convnext", "convnext")
    prepared(asked(folder, train="synthetic:4x48"), tmp_path)


def test_a_single_image_is_dropped_or_refused_where_batches_are_normalised(tmp_path):
    folder = save_tiny_vision(tmp_path / "resnet", "resnet", depths=[1] * 5, hidden_sizes=[8] * 5)
    options = asked(folder, train=f"synthetic:5x{SIZE}")
    ready, messages = prepared(options, tmp_path)
    assert (len(ready.train), "lone-image" in messages) == (4, True)
    single = msgspec.structs.replace(options, memory=MemoryOptions(batch_size=1))
    with pytest.raises(ModelError, match="one image of 32 pixels"):
        prepared(single, tmp_path)


# --- Saved models


def test_a_bare_script_loads_it_and_sees_what_the_model_saw(vit, tmp_path):
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    ready, _ = prepared(asked(vit), tmp_path)
    folder = tmp_path / "model"
    ready.model.save_pretrained(folder)
    ready.save_extras(folder)
    noise = np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    theirs = AutoImageProcessor.from_pretrained(folder)(image, return_tensors="pt")["pixel_values"]
    ours = ImageTransform(SIZE, (0.5,) * 3, (0.5,) * 3).from_pil(image)[None]
    one_level = 2 / 255
    torch.testing.assert_close(theirs, ours, rtol=0.0, atol=1.01 * one_level)
    again = AutoModelForImageClassification.from_pretrained(folder)
    torch.testing.assert_close(logits(again, ours), logits(ready.model, ours))
    assert again.config.id2label == {0: "0", 1: "1"}


def test_a_bare_script_sees_the_middle_where_the_model_did(tmp_path):
    from transformers import AutoImageProcessor

    (tmp_path / "preprocessor_config.json").write_bytes(
        preprocessor(SIZE, (0.5,) * 3, (0.5,) * 3, ImageFit.CROP)
    )
    smooth = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    image = Image.fromarray(smooth).resize((80, 128), Image.Resampling.BICUBIC)
    theirs = AutoImageProcessor.from_pretrained(tmp_path)(image, return_tensors="pt")["pixel_values"]
    crop, squash = (
        ImageTransform(SIZE, (0.5,) * 3, (0.5,) * 3, fit).from_pil(image)[None]
        for fit in (ImageFit.CROP, ImageFit.SQUASH)
    )
    one_level = 2 / 255
    assert float((theirs - crop).abs().mean()) < 5 * one_level  # a part of a pixel further
    assert float((theirs - squash).abs().mean()) > 10 * one_level


# --- `run:NAME` as the model


@pytest.fixture
def past(tmp_path, monkeypatch):
    """The model folder of a run called past."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "runs" / "past" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "run.toml").write_text('task = "image-classification"\n')
    return folder


def test_a_past_network_of_torchvision_keeps_what_it_learned_but_for_a_head_of_other_labels(past, tmp_path):
    first, _ = prepared(asked(SQUEEZENET), tmp_path)
    with torch.no_grad():
        for weight in first.model.parameters():
            weight.add_(1.0)
    save_file(first.model.state_dict(), past / "model.safetensors")
    first.save_extras(past)
    again, _ = prepared(asked("run:past"), tmp_path)
    assert differing(first.model, again.model) == []
    again.save_extras(tmp_path)
    assert json.loads((tmp_path / "hone.json").read_text())["architecture"] == SQUEEZENET
    other_labels, _ = prepared(asked("run:past", train="builtin:digits", image_size=SIZE), tmp_path)
    head = ["network.classifier.1.weight", "network.classifier.1.bias"]
    assert differing(first.model, other_labels.model) == head
    of_random_one, _ = prepared(asked("run:past", pretrained=False), tmp_path)
    assert differing(again.model, of_random_one.model) == []


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_a_past_model_of_transformers_keeps_its_weights_and_normalisation(past, tmp_path, method):
    first, _ = prepared(asked(save_tiny_vision(tmp_path / "vit", mean=(0.1, 0.2, 0.3)), method), tmp_path)
    fill_lora(first.model)
    first.model.save_pretrained(past)
    first.save_extras(past)
    again, messages = prepared(asked("run:past"), tmp_path)
    assert messages == []
    pixels = again.train[0]["pixel_values"][None]
    assert torch.equal(pixels[0], first.train[0]["pixel_values"])
    expected = logits(first.model, pixels)
    torch.testing.assert_close(logits(again.model, pixels), expected, rtol=1e-4, atol=1e-5)


def test_an_adapter_of_torchvision_and_a_damaged_recipe_are_refused(past, tmp_path):
    first, _ = prepared(asked(SQUEEZENET, Method.LORA), tmp_path)
    first.model.save_pretrained(past)
    first.save_extras(past)
    with pytest.raises(ModelError) as adapter:
        prepared(asked("run:past"), tmp_path)
    (past / "model.safetensors").touch()
    (past / "hone.json").write_text("{}")
    with pytest.raises(ModelError) as damaged:
        prepared(asked("run:past"), tmp_path)
    assert ["adapter" in adapter.value.detail, "hone.json" in damaged.value.detail] == [True, True]
