"""transformers' vision models: loaded, headed, trained a little, saved, and loaded again by nobody but transformers."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from core.base.errors import ModelError
from core.engine.data.image_files import IMAGENET_MEAN, ImageTransform
from core.engine.models.vision import find_image_model
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.images import prepare
from core.engine.training.trainer import fix_loss_scaling
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.models import CONFIGS, SIZE, save_tiny_vision


def asked(folder: Path | str, method: Method = Method.FULL, **options: Any) -> RunOptions:
    """A run on six images of two classes."""
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(
            source=str(folder), method=method, lora_rank=2, pretrained=options.pop("pretrained", True)
        ),
        data=DataOptions(train=options.pop("train", f"synthetic:6x{SIZE}")),
        memory=MemoryOptions(batch_size=2),
    )


def prepared(options: RunOptions, tmp_path: Path) -> tuple[Prepared, list[str]]:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir(exist_ok=True)
    found = prepare(options, Reporter(run))
    events = EventReader(run.events_file).read_all()
    return found, [event.id for event in events if isinstance(event, MessageRaised)]


def refusal(options: RunOptions, tmp_path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        prepared(options, tmp_path)
    return caught.value


def batch(found: Prepared) -> dict[str, torch.Tensor]:
    return found.collator([found.train[index] for index in range(4)])


@pytest.fixture
def vit(tmp_path):
    return save_tiny_vision(tmp_path / "vit")


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("method", [Method.FULL, Method.LORA, Method.HEAD])
def test_every_kind_learns(kind, method, tmp_path):
    found, _ = prepared(asked(save_tiny_vision(tmp_path / kind, kind), method), tmp_path)
    model = found.model.train()
    learning = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    still = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
    assert bool(still) is (method is not Method.FULL)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    inputs = batch(found)
    for _ in range(2):  # LoRA's second matrix is zero at the first step
        optimizer.zero_grad()
        model(**inputs)["loss"].backward()
        optimizer.step()
    after = dict(model.named_parameters())
    assert all(torch.equal(after[name], before) for name, before in still.items())
    moved = [name for name, before in learning.items() if not torch.equal(after[name], before)]
    assert len(moved) > len(learning) / 2
    assert any("lora" in name for name in moved) is (method is Method.LORA)


def test_the_head_gets_the_labels_and_the_body_keeps_its_weights(tmp_path):
    folder = save_tiny_vision(tmp_path / "vit", num_labels=7)
    found, _ = prepared(asked(folder), tmp_path)
    assert found.model.config.id2label == {0: "0", 1: "1"}
    assert found.model.classifier.out_features == 2
    from safetensors.torch import load_file

    saved = load_file(folder / "model.safetensors")
    name = "vit.embeddings.patch_embeddings.projection.weight"
    assert torch.equal(found.model.state_dict()[name], saved[name])


def test_without_weights_it_starts_random_with_the_same_numbers_each_time(vit, tmp_path):
    (vit / "model.safetensors").unlink()
    first, second = (prepared(asked(vit, pretrained=False), tmp_path)[0].model for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


class TestSaved:
    def test_a_bare_script_loads_it_and_sees_what_the_model_saw(self, vit, tmp_path):
        from transformers import AutoImageProcessor, AutoModelForImageClassification

        found, _ = prepared(asked(vit), tmp_path)
        folder = tmp_path / "model"
        found.model.eval().save_pretrained(folder)
        found.save_extras(folder)
        again = AutoModelForImageClassification.from_pretrained(folder).eval()
        processor = AutoImageProcessor.from_pretrained(folder)
        noise = np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8)
        image = Image.fromarray(noise)
        theirs = processor(image, return_tensors="pt")["pixel_values"]
        ours = ImageTransform(SIZE, (0.5,) * 3, (0.5,) * 3).from_pil(image)[None]
        one_level = 2 / 255
        assert theirs.shape == ours.shape
        assert torch.allclose(theirs, ours, atol=1.01 * one_level)
        with torch.no_grad():
            torch.testing.assert_close(again(ours).logits, found.model(ours).logits)
        assert again.config.id2label == {0: "0", 1: "1"}

    def test_an_adapter_loads_beside_the_model_it_was_trained_beside(self, vit, tmp_path):
        from peft import PeftModel
        from transformers import AutoConfig, AutoModelForImageClassification

        found, _ = prepared(asked(vit, Method.LORA), tmp_path)
        with torch.no_grad():
            for name, weight in found.model.named_parameters():
                if "lora_B" in name:
                    weight.fill_(0.3)
        folder = tmp_path / "model"
        found.model.eval().save_pretrained(folder)
        base = AutoModelForImageClassification.from_pretrained(vit, config=AutoConfig.from_pretrained(folder))
        again = PeftModel.from_pretrained(base, folder).eval()
        pixels = batch(found)["pixel_values"]
        with torch.no_grad():
            torch.testing.assert_close(again(pixels).logits, found.model(pixels).logits)


class TestNormalisation:
    def test_images_are_normalised_as_the_model_says(self, vit, tmp_path):
        found, messages = prepared(asked(vit), tmp_path)
        pixels = found.train[0]["pixel_values"]
        assert -1.0 <= float(pixels.min()) < -0.9
        assert 0.9 < float(pixels.max()) <= 1.0
        assert messages == []

    def test_without_a_word_on_it_imagenets_are_taken_and_told(self, tmp_path):
        folder = save_tiny_vision(tmp_path / "vit", mean=None)
        found, messages = prepared(asked(folder), tmp_path)
        assert float(found.train[0]["pixel_values"].min()) < -1.5
        assert messages == ["normalised-as-imagenet"]

    @pytest.mark.parametrize(
        ("told", "mean", "std"),
        [
            ({"do_normalize": False}, 0.0, 1.0),
            ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "rescale_factor": 1 / 127.5}, 0.25, 0.25),
            (
                {
                    "image_mean": [0.0] * 3,
                    "image_std": [1.0] * 3,
                    "rescale_factor": 1 / 127.5,
                    "rescale_offset": True,
                },
                0.5,
                0.5,
            ),
            ({"image_mean": [0.5], "image_std": [0.5]}, IMAGENET_MEAN[0], 0.229),
            ("no json", IMAGENET_MEAN[0], 0.229),
        ],
    )
    def test_every_way_to_say_it(self, vit, told, mean, std):
        (vit / "preprocessor_config.json").write_text(told if isinstance(told, str) else json.dumps(told))
        found = find_image_model(asked(vit))
        assert math.isclose(found.mean[0], mean)
        assert math.isclose(found.std[0], std)


class TestRefused:
    def test_images_of_another_size_than_the_model_was_made_for(self, vit, tmp_path):
        error = refusal(asked(vit, train="synthetic:4x48"), tmp_path)
        assert error.title == "vit can't process images of 48 pixels"
        assert [fix.changes for fix in error.fixes] == [{"data.train": "synthetic:4x32"}]
        digits = msgspec.structs.replace(asked(vit), data=DataOptions(train="builtin:digits", image_size=40))
        assert [fix.changes for fix in refusal(digits, tmp_path).fixes] == [{"data.image_size": 32}]

    def test_a_model_that_takes_any_size_takes_them(self, tmp_path):
        folder = save_tiny_vision(tmp_path / "convnext", "convnext")
        prepared(asked(folder, train="synthetic:4x48"), tmp_path)

    def test_a_text_model(self, tmp_path):
        from tests.fakes.models import save_tiny_bert

        assert "can't be trained for" in refusal(asked(save_tiny_bert(tmp_path / "bert")), tmp_path).title

    def test_pickled_weights(self, vit, tmp_path):
        (vit / "model.safetensors").rename(vit / "pytorch_model.bin")
        assert refusal(asked(vit), tmp_path).title == "vit has only pickled weights"

    def test_code_of_its_own(self, vit, tmp_path):
        config = json.loads((vit / "config.json").read_text())
        config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}
        (vit / "config.json").write_text(json.dumps(config))
        (vit / "mine.py").write_text("raise SystemExit('it was run')")
        assert refusal(asked(vit), tmp_path).title == "vit needs its own code to run"

    def test_another_number_of_colours(self, tmp_path):
        folder = save_tiny_vision(tmp_path / "vit", num_channels=1)
        assert refusal(asked(folder), tmp_path).title == "vit is not a model for colour images"

    def test_single_images_for_a_model_that_normalises_batches(self, tmp_path):
        small = {"depths": [1] * 5, "hidden_sizes": [8] * 5}
        folder = save_tiny_vision(tmp_path / "resnet", "resnet", **small)
        options = asked(folder, train=f"synthetic:5x{SIZE}")
        found, messages = prepared(options, tmp_path)
        assert "lone-image" in messages
        assert len(found.train) == 4
        single = msgspec.structs.replace(options, memory=MemoryOptions(batch_size=1))
        assert "one image of 32 pixels" in refusal(single, tmp_path).title


@pytest.mark.parametrize("kind", CONFIGS)
def test_accumulated_losses_are_scaled_right(kind, tmp_path):
    """Whoever takes any keyword and doesn't divide by the items is flagged, so that Trainer divides."""
    found, _ = prepared(asked(save_tiny_vision(tmp_path / kind, kind)), tmp_path)
    model: Any = found.model.eval()
    fix_loss_scaling(model, batch(found))
    divides = getattr(model, "accepts_loss_kwargs", True)
    with torch.no_grad():
        one, two = (float(model(**batch(found), num_items_in_batch=n)["loss"]) for n in (1, 2))
    assert divides is not math.isclose(one, two)


def test_distilled_models_are_trained_without_their_teacher(tmp_path):
    folder = save_tiny_vision(tmp_path / "deit", "deit")
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["DeiTForImageClassificationWithTeacher"]
    (folder / "config.json").write_text(json.dumps(config))
    found, _ = prepared(asked(folder), tmp_path)
    assert type(found.model).__name__ == "DeiTForImageClassification"
    assert found.model(**batch(found))["loss"].requires_grad


class TestPastRuns:
    """`run:NAME` as the model: a network of torchvision's, or a model of transformers', whole or with LoRA matrices."""

    @pytest.fixture
    def past(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
        folder = tmp_path / "home" / "runs" / "past"
        (folder / "model").mkdir(parents=True)
        (folder / "run.toml").write_text('task = "image-classification"\n')
        return folder / "model"

    def test_a_network_of_torchvisions_goes_on_with_what_it_learned(self, past, tmp_path):
        from safetensors.torch import save_file

        first, _ = prepared(asked("torchvision:squeezenet1_0", pretrained=False), tmp_path)
        with torch.no_grad():
            for weight in first.model.parameters():
                weight.add_(1.0)
        save_file(first.model.state_dict(), past / "model.safetensors")
        first.save_extras(past)
        again, _ = prepared(asked("run:past"), tmp_path)
        before, after = first.model.state_dict(), again.model.state_dict()
        assert all(torch.equal(after[name], before[name]) for name in before)
        again.save_extras(tmp_path)
        assert json.loads((tmp_path / "hone.json").read_text())["architecture"] == "torchvision:squeezenet1_0"
        afresh, _ = prepared(asked("run:past", pretrained=False), tmp_path)
        assert not torch.equal(next(afresh.model.parameters()), next(again.model.parameters()))

    def test_other_labels_get_a_new_head_and_the_body_stays(self, past, tmp_path):
        from safetensors.torch import save_file

        first, _ = prepared(asked("torchvision:squeezenet1_0", pretrained=False), tmp_path)
        save_file(first.model.state_dict(), past / "model.safetensors")
        first.save_extras(past)
        digits = DataOptions(train="builtin:digits", image_size=SIZE)
        again, _ = prepared(msgspec.structs.replace(asked("run:past"), data=digits), tmp_path)
        before, after = first.model.state_dict(), again.model.state_dict()
        same = [name for name in before if torch.equal(after[name], before[name])]
        assert [name for name in before if name not in same] == [
            "network.classifier.1.weight",
            "network.classifier.1.bias",
        ]

    def test_a_model_of_transformers_and_how_it_wants_images(self, past, tmp_path):
        first, _ = prepared(asked(save_tiny_vision(tmp_path / "vit", mean=(0.1, 0.2, 0.3))), tmp_path)
        first.model.save_pretrained(past)
        first.save_extras(past)
        again, messages = prepared(asked("run:past"), tmp_path)
        before, after = first.model.state_dict(), again.model.state_dict()
        assert all(torch.equal(after[name], before[name]) for name in before)
        assert messages == []
        assert torch.equal(again.train[0]["pixel_values"], first.train[0]["pixel_values"])

    def test_lora_matrices_beside_a_model_of_transformers(self, past, vit, tmp_path):
        first, _ = prepared(asked(vit, Method.LORA), tmp_path)
        with torch.no_grad():
            for name, weight in first.model.named_parameters():
                if "lora_B" in name:
                    weight.fill_(0.3)
        first.model.eval().save_pretrained(past)
        first.save_extras(past)
        again, _ = prepared(asked("run:past"), tmp_path)
        pixels = batch(first)["pixel_values"]
        with torch.no_grad():
            torch.testing.assert_close(
                again.model.eval()(pixels).logits, first.model(pixels).logits, rtol=1e-4, atol=1e-5
            )

    def test_lora_matrices_beside_a_network_of_torchvisions_are_refused(self, past, tmp_path):
        first, _ = prepared(asked("torchvision:squeezenet1_0", Method.LORA, pretrained=False), tmp_path)
        first.model.save_pretrained(past)
        first.save_extras(past)
        assert "adapter" in refusal(asked("run:past"), tmp_path).detail

    def test_a_damaged_recipe(self, past, tmp_path):
        (past / "model.safetensors").touch()
        (past / "hone.json").write_text("{}")
        assert "hone.json" in refusal(asked("run:past"), tmp_path).detail
