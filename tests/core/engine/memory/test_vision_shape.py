"""What is told of transformers' vision models before they are loaded is what they then are."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.data import image_files
from core.engine.memory.forecast import _data_bytes, forecast
from core.engine.memory.model_shape import CountedPass
from core.engine.models.check import check_model
from core.engine.models.parts import apply_method, count, weights_of
from core.engine.models.vision import find_image_model, load_image_model
from core.memory.model import Basis
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from tests.fakes.tiny_training import train
from tests.fakes.tiny_vision import CONFIGS, SIZE, save_tiny_vision


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def asked(folder: Path, batch: int = 2, **model: Any) -> RunOptions:
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=str(folder), **model),
        data=DataOptions(train=f"synthetic:16x{SIZE}"),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=batch),
    )


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_model_is_told_as_it_will_be(kind, tmp_path):
    options = asked(save_tiny_vision(tmp_path / kind, kind))
    report = check_model(options, labels=3)
    found = find_image_model(options)
    model = load_image_model(options, found, ("a", "b", "c")).model
    assert report.problems == ()
    assert report.architecture == type(model).__name__
    assert report.total_parameters == sum(weight.numel() for weight in model.parameters())
    assert report.shape is not None
    assert report.shape.layers == 0
    assert report.shape.kept["full"].blocks or kind in ("convnext", "resnet")  # nothing is computed again


def test_pixels_keep_what_a_real_pass_keeps(tmp_path):
    options = asked(save_tiny_vision(tmp_path / "vit", num_hidden_layers=3))
    shape = check_model(options).shape
    assert shape is not None
    model = load_image_model(options, find_image_model(options), ("a", "b")).model
    saved = CountedPass(model)
    with saved.watching():
        model.train()(pixel_values=torch.zeros(2, 3, SIZE, SIZE), labels=torch.tensor([0, 1]))
    kept = shape.kept["full"]
    told = 2 * sum(one.count * one.size(SIZE * SIZE) for one in (*kept.blocks, *kept.outside))
    assert told == pytest.approx(sum(size for _, size in saved.found.values()), rel=0.05)
    assert kept.largest == pytest.approx(1 / 3, rel=0.1)


def test_lora_moves_as_many_weights_as_told(tmp_path):
    options = asked(save_tiny_vision(tmp_path / "vit"), method=Method.LORA, lora_rank=2)
    report = check_model(options)
    model = load_image_model(options, find_image_model(options), ("a", "b")).model
    weights = [weight for _, weight in weights_of(apply_method(model, options))]
    assert report.trainable_parameters == sum(count(w) for w in weights if w.requires_grad)


def test_a_run_of_one_is_forecast(tmp_path):
    folder = save_tiny_vision(tmp_path / "vit")
    found = forecast(asked(folder), labels=2)
    assert found.basis is Basis.FORMULA
    twice = forecast(asked(folder, batch=4), labels=2)
    assert twice.parts.activations == pytest.approx(2 * found.parts.activations, rel=0.05)


def test_it_trains_to_the_end_with_accumulated_batches(tmp_path):
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


def test_images_are_not_opened_to_foretell_memory(tmp_path, monkeypatch):
    opened: list[object] = []
    monkeypatch.setattr(image_files.Image, "open", opened.append)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "0.png").write_text("no image")
    data = DataOptions(train=str(tmp_path / "pets"), image_size=SIZE)
    assert _data_bytes(RunOptions(task=Task.IMAGE_CLASSIFICATION, data=data), 0) == 0
    assert opened == []
