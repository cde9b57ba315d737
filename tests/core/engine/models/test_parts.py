"""What is frozen stays as it is: weights and the statistics of batch norm."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from core.engine.models.vision import load_vision_model
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import TinyRun, model, reviews, train, write_reviews


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return save_tiny_bert(tmp_path / "bert", hidden_size=32, intermediate_size=64, num_hidden_layers=2)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_reviews(tmp_path / "reviews.csv")


def body_of(live: Any) -> dict[str, torch.Tensor]:
    """The weights and statistics of the body, by the names they had before training."""
    state = live.state_dict()
    plain = {name.replace("base_model.model.", "").replace(".base_layer", ""): state[name] for name in state}
    return {name: value for name, value in plain.items() if name.startswith(("bert.", "network."))}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], names: list[str]) -> list[bool]:
    return [torch.equal(first[name], second[name]) for name in names]


class TestLastLayer:
    def test_the_body_of_a_text_model_stays(self, bert: Path, texts: Path, tmp_path: Path) -> None:
        tiny = train(tmp_path / "run", model=model(bert, method=Method.HEAD), data=reviews(texts))
        before, after = (load_file(folder / "model.safetensors") for folder in (bert, tiny.run.model))
        unmoved = dict(zip(before, same(before, after, list(before)), strict=True))
        assert {name for name in before if not unmoved[name]} == {"classifier.weight", "classifier.bias"}
        assert tiny.what_ran.trainable_parameters == 2 * 32 + 2
        assert tiny.what_ran.adapter == ""

    def test_the_statistics_of_a_vision_model_stay_too(self, tmp_path: Path) -> None:
        before, tiny = train_images(tmp_path, Method.HEAD)
        after = load_file(tiny.run.model / "model.safetensors")
        unmoved = dict(zip(before, same(before, after, list(before)), strict=True))
        assert any("running_mean" in name for name in before)
        assert {name for name in before if not unmoved[name]} == {
            "network.classifier.1.weight",
            "network.classifier.1.bias",
        }


def train_images(
    folder: Path, method: Method, precision: Precision = Precision.FP32
) -> tuple[dict[str, torch.Tensor], TinyRun]:
    """A vision model's state before, and what came of training it."""
    asked = model("torchvision:mobilenet_v2", pretrained=False, method=method, lora_rank=2)
    before = load_vision_model(asked, classes=2, seed=TrainingOptions().seed).state_dict()
    tiny = train(
        folder / "run",
        task=Task.IMAGE_CLASSIFICATION,
        model=asked,
        data=DataOptions(train="synthetic:8x32"),
        device=DeviceOptions(name="cpu", precision=precision),
        memory=MemoryOptions(batch_size=2, gradient_accumulation_steps=2),
    )
    assert tiny.status == 0
    return before, tiny


class TestLoraOnImages:
    def test_matrices_beside_convolutions_and_nothing_else_moves(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked_the_hub = "peft.utils.save_and_load.check_file_exists_on_hf_hub"
        monkeypatch.setattr(asked_the_hub, lambda *_a, **_k: pytest.fail("saving asked the Hub"))
        before, tiny = train_images(tmp_path, Method.LORA)
        after = body_of(tiny.trainer.model)
        body = [name for name in before if "classifier" not in name]
        assert all(same(before, after, body))
        assert (
            tiny.what_ran.adapter == "LoRA, rank 2 on 35 layers"
        )  # its 17 others convolve each channel alone
        self.loads_back(tiny)

    def loads_back(self, tiny: TinyRun) -> None:
        from peft import PeftModel

        asked = model("torchvision:mobilenet_v2", pretrained=False)
        plain = load_vision_model(asked, classes=2, seed=TrainingOptions().seed)
        again = PeftModel.from_pretrained(plain, str(tiny.run.model)).eval()
        images = torch.rand((2, 3, 32, 32), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            expected = tiny.trainer.model.eval()(pixel_values=images)["logits"]
            torch.testing.assert_close(again(pixel_values=images)["logits"], expected)

    def test_autocast_is_seen_inside_the_wrapper(self, tmp_path: Path) -> None:
        _, tiny = train_images(tmp_path, Method.LORA, Precision.BF16)
        assert (tiny.what_ran.autocast_dtype, tiny.what_ran.parameter_dtype) == ("bfloat16", "float32")
