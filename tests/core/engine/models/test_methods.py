"""What each method moves and what it leaves alone, seen in the live model and in what is saved."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from core.engine.models.vision import load_vision_model
from core.options import RunOptions
from core.options.choices import Method, Precision, Quantization, Task
from core.options.data import DataOptions
from core.options.presets import find_preset as find
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from core.options.validate import problems_of
from core.runs.events import CheckpointSaved
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, reviews, train, write_reviews

WORDS = {"input_ids": torch.tensor([[2, 5, 6, 7, 3], [2, 9, 10, 3, 0]]), "attention_mask": torch.ones(2, 5)}
LINEAR_LAYERS = 13
"""Of two layers of Bert, and its pooler."""


def save_bert(folder: Path) -> Path:
    return save_tiny_bert(folder, hidden_size=32, intermediate_size=64, num_hidden_layers=2)


@pytest.fixture
def bert(tmp_path):
    return save_bert(tmp_path / "bert")


@pytest.fixture
def texts(tmp_path):
    return write_reviews(tmp_path / "reviews.csv")


def body_of(live: Any) -> dict[str, torch.Tensor]:
    """The weights and statistics of the body, by the names they had before training."""
    state = live.state_dict()
    plain = {name.replace("base_model.model.", "").replace(".base_layer", ""): state[name] for name in state}
    return {name: value for name, value in plain.items() if name.startswith(("bert.", "network."))}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], names: list[str]) -> list[bool]:
    return [torch.equal(first[name], second[name]) for name in names]


def logits(live: Any) -> torch.Tensor:
    live.eval()
    with torch.no_grad():
        return live(**WORDS).logits


def load_back(folder: Path, base: Path, seed: int = 99) -> Any:
    """As anybody would with PEFT alone, the random weights of the head drawn anew."""
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForSequenceClassification, set_seed

    set_seed(seed)
    config = AutoConfig.from_pretrained(folder)
    plain = AutoModelForSequenceClassification.from_pretrained(base, config=config, dtype=torch.float32)
    return PeftModel.from_pretrained(plain, folder)


class TestLora:
    @pytest.fixture(scope="class")
    def bert(self, tmp_path_factory):
        return save_bert(tmp_path_factory.mktemp("lora") / "bert")

    @pytest.fixture(scope="class")
    def tiny(self, bert):
        asked = model(bert, method=Method.LORA, lora_rank=4, lora_alpha=8.0)
        data = reviews(write_reviews(bert.parent / "reviews.csv"))
        return train(bert.parent / "run", model=asked, data=data)

    def test_only_the_matrices_and_the_classifier_move(self, tiny, bert):
        before, after = load_file(bert / "model.safetensors"), body_of(tiny.trainer.model)
        names = [name for name in before if name.startswith("bert.")]
        assert len(names) > 30
        assert all(same(before, after, names))
        moved = tiny.trainer.model.state_dict()
        assert all(moved[name].any() for name in moved if "lora_B" in name)  # they begin at zero

    def test_what_ran_counts_them(self, tiny, bert):
        ran = tiny.what_ran
        assert ran.adapter == f"LoRA, rank 4 on {LINEAR_LAYERS} layers"
        matrices = 4 * sum(sum(weight.shape) for weight in linear_weights(bert))
        classifier = 2 * 32 + 2
        assert ran.trainable_parameters == matrices + classifier
        assert ran.total_parameters == all_weights(bert) + matrices
        assert (ran.packed_parameters, ran.parameter_dtype) == (0, "float32")

    def test_the_result_loads_and_answers_as_before(self, tiny, bert):
        torch.testing.assert_close(logits(load_back(tiny.run.model, bert)), logits(tiny.trainer.model))

    def test_the_result_names_its_base_and_its_labels_and_holds_no_pickle(self, tiny, bert):
        folder = tiny.run.model
        adapter = json.loads((folder / "adapter_config.json").read_text())
        assert adapter["base_model_name_or_path"] == str(bert)
        assert (adapter["r"], adapter["lora_alpha"]) == (4, 8)
        assert json.loads((folder / "config.json").read_text())["id2label"] == {"0": "no", "1": "yes"}
        assert (folder / "tokenizer.json").is_file()
        assert not [path for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth")]
        assert not (folder / "model.safetensors").exists()
        assert not (folder / "README.md").exists()  # PEFT's page of blanks

    def test_the_result_is_no_model_to_start_from_and_says_so(self, tiny, tmp_path):
        again = train(tmp_path / "again", model=model(tiny.run.model))
        assert again.status == 1
        (message,) = again.messages.values()
        assert message.title == "run is not a complete model"  # by the name of its folder
        options = RunOptions(task=Task.TEXT_CLASSIFICATION, model=model(tiny.run.model))
        told = [problem for problem in problems_of(options) if problem.path == "model.source"]
        assert "choose its base model" in told[0].message

    def test_checkpoints_hold_the_adapter(self, tiny):
        saved = [event for event in tiny.events if isinstance(event, CheckpointSaved)]
        folder = tiny.run.path / saved[-1].path
        assert set(load_file(folder / "adapter_model.safetensors")) == set(
            load_file(tiny.run.model / "adapter_model.safetensors")
        )


def linear_weights(folder: Path) -> list[torch.Tensor]:
    weights = load_file(folder / "model.safetensors")
    return [
        weight
        for name, weight in weights.items()
        if weight.ndim == 2 and "embeddings" not in name and not name.startswith("classifier")
    ]


def all_weights(folder: Path) -> int:
    return sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())


def test_the_preset_for_8_gb_learns_as_without_recomputing(bert, texts, tmp_path):
    """LoRA on a frozen body whose activations are computed again: gradients must still reach the matrices."""
    preset = find("fits-in-8-gb")
    assert preset is not None
    asked = {
        "model": model(bert, **preset.tree["model"]),
        "data": reviews(texts),
        "training": TrainingOptions(epochs=1.0, **preset.tree["training"]),
    }
    memory = MemoryOptions(**preset.tree["memory"])
    kept_memory = msgspec.structs.replace(memory, activation_checkpointing=False)
    again = train(tmp_path / "again", memory=memory, **asked)
    kept = train(tmp_path / "kept", memory=kept_memory, **asked)
    assert again.status == 0
    assert again.messages == {}
    ran = again.what_ran
    assert (ran.recomputed, ran.effective_batch, ran.batches_per_step) == (2, 16, 8)
    assert (kept.what_ran.recomputed, ran.adapter) == (0, f"LoRA, rank 16 on {LINEAR_LAYERS} layers")
    moved, other = again.trainer.model.state_dict(), kept.trainer.model.state_dict()
    assert all(moved[name].any() for name in moved if "lora_B" in name)
    for name in moved:
        torch.testing.assert_close(moved[name], other[name], msg=name)


def test_a_target_that_is_no_layer_ends_the_run_plainly(bert, tmp_path):
    asked = model(bert, method=Method.LORA, lora_targets=("qurey", "value"))
    tiny = train(tmp_path / "run", model=asked)
    assert tiny.status == 1
    (message,) = tiny.messages.values()
    assert message.title == "LoRA can't be used on qurey"
    assert "query, key, value, dense" in message.detail
    assert [fix.changes for fix in message.fixes] == [
        {"model.lora_targets": ["value", "query"]},
        {"model.lora_targets": []},
    ]
    assert "Traceback" not in message.detail


def test_weights_the_checkpoint_lacks_are_trained_and_saved(bert, texts, tmp_path):
    weights = load_file(bert / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "pooler" not in name}
    save_file(kept, bert / "model.safetensors", metadata={"format": "pt"})
    tiny = train(tmp_path / "run", model=model(bert, method=Method.LORA), data=reviews(texts))
    assert tiny.what_ran.adapter == f"LoRA, rank 16 on {LINEAR_LAYERS - 1} layers"
    torch.testing.assert_close(logits(load_back(tiny.run.model, bert)), logits(tiny.trainer.model))


def test_accumulated_batches_equal_one_large_one(bert, texts, tmp_path):
    asked = model(bert, method=Method.LORA, lora_dropout=0.0)
    runs = [
        train(
            tmp_path / name,
            model=asked,
            data=reviews(texts),
            memory=MemoryOptions(batch_size=size, gradient_accumulation_steps=8 // size),
        )
        for name, size in (("large", 8), ("small", 2))
    ]
    large, small = ([(step.loss, step.grad_norm) for step in tiny.steps] for tiny in runs)
    assert len(large) == 3
    assert [loss for loss, _ in small] == pytest.approx([loss for loss, _ in large], rel=1e-3)
    assert [norm for _, norm in small] == pytest.approx([norm for _, norm in large], rel=1e-2)


class TestPacked:
    @pytest.mark.parametrize(
        ("quantization", "dtype"), [(Quantization.NF4, "uint8"), (Quantization.INT8, "int8")]
    )
    def test_the_body_is_packed_and_trains_on_after_an_evaluation(
        self, quantization, dtype, bert, texts, tmp_path
    ):
        tiny = train(
            tmp_path / "run",
            model=model(bert, method=Method.QLORA, quantization=quantization, lora_rank=4),
            data=reviews(texts, eval_fraction=0.25),
            training=TrainingOptions(epochs=2.0, learning_rate=1e-2),
        )
        ran = tiny.what_ran
        packed = linear_weights(bert)
        assert tiny.status == 0
        assert len({step.epoch > 1 for step in tiny.steps}) == 2
        assert ran.parameter_dtype == f"float32 + {dtype}"
        assert ran.packed_parameters == sum(weight.numel() for weight in packed)
        assert ran.total_parameters == all_weights(bert) + 4 * sum(sum(weight.shape) for weight in packed)
        assert ran.adapter == f"QLoRA ({quantization}), rank 4 on {LINEAR_LAYERS} layers"
        saved = load_file(tiny.run.model / "adapter_model.safetensors")
        assert {value.dtype for value in saved.values()} == {torch.float32}
        assert "base_model.model.classifier.weight" in saved

    def test_what_the_checkpoint_lacks_is_not_packed(self, bert, texts, tmp_path):
        weights = load_file(bert / "model.safetensors")
        kept = {name: weight for name, weight in weights.items() if "pooler" not in name}
        save_file(kept, bert / "model.safetensors", metadata={"format": "pt"})
        tiny = train(tmp_path / "run", model=model(bert, method=Method.QLORA), data=reviews(texts))
        assert tiny.status == 0
        saved = load_file(tiny.run.model / "adapter_model.safetensors")
        assert saved["base_model.model.bert.pooler.dense.weight"].dtype is torch.float32


class TestLastLayer:
    def test_the_body_of_a_text_model_stays(self, bert, texts, tmp_path):
        tiny = train(tmp_path / "run", model=model(bert, method=Method.HEAD), data=reviews(texts))
        before, after = (load_file(folder / "model.safetensors") for folder in (bert, tiny.run.model))
        unmoved = dict(zip(before, same(before, after, list(before)), strict=True))
        assert {name for name in before if not unmoved[name]} == {"classifier.weight", "classifier.bias"}
        assert tiny.what_ran.trainable_parameters == 2 * 32 + 2
        assert tiny.what_ran.adapter == ""

    def test_the_statistics_of_a_vision_model_stay_too(self, tmp_path):
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
    def test_matrices_beside_convolutions_and_nothing_else_moves(self, tmp_path, monkeypatch):
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

    def test_autocast_is_seen_inside_the_wrapper(self, tmp_path):
        _, tiny = train_images(tmp_path, Method.LORA, Precision.BF16)
        assert (tiny.what_ran.autocast_dtype, tiny.what_ran.parameter_dtype) == ("bfloat16", "float32")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_checkpoint_trains_in_full(dtype, bert, tmp_path):
    from transformers import AutoModelForSequenceClassification

    half = shutil.copytree(bert, tmp_path / "half")
    AutoModelForSequenceClassification.from_pretrained(bert, dtype=dtype).save_pretrained(half)
    assert {weight.dtype for weight in load_file(half / "model.safetensors").values()} == {dtype}
    tiny = train(tmp_path / "run", model=model(half))
    assert tiny.what_ran.parameter_dtype == "float32"
    assert {weight.dtype for weight in load_file(tiny.run.model / "model.safetensors").values()} == {
        torch.float32
    }
