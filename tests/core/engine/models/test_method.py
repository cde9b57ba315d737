"""What each method trains and what it leaves alone, in the live model and in what is saved."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from core.engine.environment import hide_libraries, prepare_torchvision
from core.engine.memory.model_check import check_model
from core.engine.models import parts, pretrained, text
from core.engine.models.method import apply_method
from core.engine.models.parts import base_of, is_quantized, quantization_arguments
from core.engine.models.vision import load_vision_model
from core.options import RunOptions
from core.options.choices import Method, Precision, Quantization, Task
from core.options.data import DataOptions
from core.options.presets import find_preset
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.options.validate import problems_of
from core.runs.events import CheckpointSaved
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, reviews, run_options, train, write_reviews

prepare_torchvision()

WORDS = {"input_ids": torch.tensor([[2, 5, 6, 7, 3], [2, 9, 10, 3, 0]]), "attention_mask": torch.ones(2, 5)}
LINEAR_LAYERS = 13
"""Of two layers of Bert, and its pooler."""


def save_bert(folder: Path) -> Path:
    return save_tiny_bert(folder, hidden_size=64, intermediate_size=128, num_hidden_layers=2)


@pytest.fixture
def bert(tmp_path):
    return save_bert(tmp_path / "bert")


@pytest.fixture
def texts(tmp_path):
    return write_reviews(tmp_path / "reviews.csv")


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def linear_weights(folder: Path) -> list[torch.Tensor]:
    return [
        weight
        for name, weight in weights_of(folder).items()
        if weight.ndim == 2 and "embeddings" not in name and not name.startswith("classifier")
    ]


def count_of(folder: Path) -> int:
    return sum(weight.numel() for weight in weights_of(folder).values())


def assert_reported(tiny: TinyRun, source: Any) -> None:
    """What the model's report counts before the run is what the run counted."""
    report = check_model(RunOptions(task=Task.TEXT_CLASSIFICATION, model=source))
    counted = (tiny.what_ran.total_parameters, tiny.what_ran.trainable_parameters)
    assert (report.total_parameters, report.trainable_parameters, report.problems) == (*counted, ())


def moved(before: dict[str, torch.Tensor], live: torch.nn.Module) -> set[str]:
    """Names, as they were before training, of the weights and statistics that have changed."""
    plain = {
        name.replace("base_model.model.", "").replace(".base_layer", ""): value
        for name, value in live.state_dict().items()
    }
    assert all("classifier" in name for name in before.keys() - plain.keys()), "LoRA trains a copy of it"
    return {name for name in before.keys() & plain.keys() if not torch.equal(before[name], plain[name])}


def logits(live: Any) -> torch.Tensor:
    with torch.no_grad():
        return live.eval()(**WORDS).logits


def load_with_peft(folder: Path, base: Path) -> Any:
    """The random weights of the head drawn from another seed."""
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForSequenceClassification, set_seed

    set_seed(99)
    config = AutoConfig.from_pretrained(folder)
    plain = AutoModelForSequenceClassification.from_pretrained(base, config=config, dtype=torch.float32)
    return PeftModel.from_pretrained(plain, folder)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("lora") / "bert")


@pytest.fixture(scope="module")
def tiny(base):
    source = model(base, method=Method.LORA, lora_rank=4, lora_alpha=8.0)
    return train(base.parent / "run", model=source, data=reviews(write_reviews(base.parent / "reviews.csv")))


def test_only_the_matrices_and_the_classifier_move(tiny, base):
    assert moved(weights_of(base), tiny.trainer.model) == set()
    state = tiny.trainer.model.state_dict()
    assert all(state[name].any() for name in state if "lora_B" in name)  # they begin at zero
    ran = tiny.what_ran
    matrices = 4 * sum(sum(weight.shape) for weight in linear_weights(base))
    assert ran.adapter == f"LoRA, rank 4 on {LINEAR_LAYERS} layers"
    assert ran.trainable_parameters == matrices + 2 * 64 + 2
    assert ran.total_parameters == count_of(base) + matrices
    assert (ran.packed_parameters, ran.parameter_dtype) == (0, "float32")
    assert_reported(tiny, model(base, method=Method.LORA, lora_rank=4))


def test_the_result_is_what_peft_saves_without_pickles_and_blanks(tiny, base):
    folder = tiny.run.model
    torch.testing.assert_close(logits(load_with_peft(folder, base)), logits(tiny.trainer.model))
    adapter = json.loads((folder / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == str(base)
    assert (adapter["r"], adapter["lora_alpha"]) == (4, 8)
    assert json.loads((folder / "config.json").read_text())["id2label"] == {"0": "no", "1": "yes"}
    names = {path.name for path in folder.iterdir()}
    assert "tokenizer.json" in names
    assert not names & {"model.safetensors", "README.md"}  # the latter would be PEFT's page of blanks
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth"))]
    checkpoint = next(event for event in tiny.events[::-1] if isinstance(event, CheckpointSaved)).path
    saved, result = (
        load_file(path / "adapter_model.safetensors") for path in (tiny.run.path / checkpoint, folder)
    )
    assert saved.keys() == result.keys()


@pytest.mark.parametrize("method", [Method.LORA, Method.QLORA])
def test_dora_trains_lengths_and_rslora_scales_by_the_root(method, base, tmp_path):
    """On a CPU, with dropout, which takes another path through DoRA; evaluated in between."""
    plain = {"lora_rank": 4, "lora_alpha": 8.0, "lora_dropout": 0.1}
    source = model(base, method=method, **plain, lora_dora=True, lora_rslora=True)
    texts = write_reviews(tmp_path / "reviews.csv")
    tiny = train(tmp_path / "run", model=source, data=reviews(texts, eval_fraction=0.25))
    assert tiny.status == 0
    ran, weights = tiny.what_ran, linear_weights(base)
    assert ran.adapter.endswith(f"rank 4 on {LINEAR_LAYERS} layers, rsLoRA, DoRA")
    lengths = sum(weight.shape[0] for weight in weights)
    assert ran.trainable_parameters == 4 * sum(sum(w.shape) for w in weights) + lengths + 2 * 64 + 2
    assert_reported(tiny, source)
    state, layer = tiny.trainer.model.state_dict(), next(iter(adapted(tiny.trainer.model)))
    assert layer.scaling["default"] == 8.0 / 4**0.5
    learned = {name: value for name, value in state.items() if "magnitude" in name}
    assert len(learned) == LINEAR_LAYERS
    saved = load_file(tiny.run.model / "adapter_model.safetensors")
    assert sum("magnitude" in name for name in saved) == LINEAR_LAYERS
    if method is Method.LORA:
        before = weights_of(base)["bert.encoder.layer.0.attention.self.query.weight"].norm(dim=1)
        after = next(value for name, value in learned.items() if "layer.0.attention.self.query" in name)
        assert not torch.allclose(before, after, rtol=1e-4)
        torch.testing.assert_close(logits(load_with_peft(tiny.run.model, base)), logits(tiny.trainer.model))


def adapted(live: torch.nn.Module) -> list[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [part for part in live.modules() if isinstance(part, BaseTunerLayer)]


def test_the_result_is_no_model_to_start_from_and_says_so(tiny, tmp_path):
    again = train(tmp_path / "again", model=model(tiny.run.model))
    assert again.status == 1
    (message,) = again.messages.values()
    assert message.title == "run is not a complete model"  # by the name of its folder
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, model=model(tiny.run.model))
    (problem,) = [problem for problem in problems_of(options) if problem.path == "model.source"]
    assert "choose its base model" in problem.message


def test_the_preset_for_8_gb_learns_as_without_recomputing(bert, texts, tmp_path):
    """LoRA on a frozen body whose activations are recomputed: gradients must still reach the matrices."""
    preset = find_preset("fits-in-8-gb")
    assert preset is not None
    sections = {
        "model": model(bert, **preset.tree["model"]),
        "data": reviews(texts),
        "training": TrainingOptions(epochs=1.0, **preset.tree["training"]),
    }
    memory = MemoryOptions(**preset.tree["memory"])
    kept_memory = msgspec.structs.replace(memory, activation_checkpointing=False)
    again = train(tmp_path / "again", memory=memory, **sections)
    kept = train(tmp_path / "kept", memory=kept_memory, **sections)
    ran = again.what_ran
    assert (again.status, again.messages) == (0, {})
    assert (ran.recomputed, ran.effective_batch, ran.batches_per_step) == (2, 16, 8)
    assert (kept.what_ran.recomputed, ran.adapter) == (0, f"LoRA, rank 16 on {LINEAR_LAYERS} layers")
    state, other = again.trainer.model.state_dict(), kept.trainer.model.state_dict()
    assert all(state[name].any() for name in state if "lora_B" in name)
    for name in state:
        torch.testing.assert_close(state[name], other[name], msg=name)


def test_a_target_that_is_no_layer_ends_the_run_plainly(bert, tmp_path):
    tiny = train(tmp_path / "run", model=model(bert, method=Method.LORA, lora_targets=("qurey", "value")))
    assert tiny.status == 1
    (message,) = tiny.messages.values()
    assert message.title == "LoRA can't be used on qurey"
    assert "query, key, value, dense" in message.detail
    assert "Traceback" not in message.detail
    assert [fix.changes["model.lora_targets"] for fix in message.fixes] == [["value", "query"], []]


# --- QLoRA


@pytest.mark.parametrize(
    ("quantization", "dtype"), [(Quantization.NF4, "uint8"), (Quantization.INT8, "int8")]
)
def test_the_body_is_quantized_and_trains_on_after_an_evaluation(quantization, dtype, bert, texts, tmp_path):
    tiny = train(
        tmp_path / "run",
        model=model(bert, method=Method.QLORA, quantization=quantization, lora_rank=4),
        data=reviews(texts, eval_fraction=0.25),
        training=TrainingOptions(epochs=2.0, learning_rate=1e-2),
    )
    ran, quantized = tiny.what_ran, linear_weights(bert)
    assert tiny.status == 0
    assert len({step.epoch > 1 for step in tiny.steps}) == 2
    assert ran.parameter_dtype == f"float32 + {dtype}"
    assert ran.packed_parameters == sum(weight.numel() for weight in quantized)
    assert ran.total_parameters == count_of(bert) + 4 * sum(sum(weight.shape) for weight in quantized)
    assert ran.adapter == f"QLoRA ({quantization}), rank 4 on {LINEAR_LAYERS} layers"
    saved = load_file(tiny.run.model / "adapter_model.safetensors")
    assert {value.dtype for value in saved.values()} == {torch.float32}
    assert "base_model.model.classifier.weight" in saved


@pytest.mark.parametrize(
    ("device", "is_mac", "placed"),
    [
        ("auto", True, "mps"),
        ("mps", True, "mps"),
        ("cpu", True, "cpu"),
        ("cpu", False, "cpu"),
        ("auto", False, None),
    ],
)
def test_quantized_weights_are_read_onto_the_device_of_the_run(device, is_mac, placed, monkeypatch):
    """By default they would be read onto the CPU of a Mac, and Trainer doesn't move them."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: is_mac)
    options = RunOptions(task=Task.CHAT, device=DeviceOptions(name=device))
    found = quantization_arguments(options, ())
    assert found.get("device_map") == (placed and {"": placed})


def test_what_packs_weights_on_apple_gpus_agrees_with_the_cpu_and_downloads_nothing(monkeypatch, tmp_path):
    """It is computed with torch's operators, unless the package `kernels` brings others."""
    ops = pytest.importorskip("bitsandbytes.backends.mps.ops")
    functional = importlib.import_module("bitsandbytes.functional")
    (tmp_path / "kernels.py").write_text("raise SystemExit('it would download')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    monkeypatch.setattr(ops, "_kernel_load_failed", False)  # as on macOS 26
    hide_libraries(RunOptions(task=Task.CHAT, model=ModelOptions(method=Method.QLORA)))
    weight = torch.randn(96, 128, generator=torch.Generator().manual_seed(0))
    packed, scales = ops._quantize_4bit_fallback(weight, 64, "nf4", torch.uint8)
    expected, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    assert torch.equal(packed, expected)
    unpacked = ops._dequantize_4bit_impl(packed, scales, 64, "nf4", weight.shape, torch.float32)
    torch.testing.assert_close(unpacked, functional.dequantize_4bit(expected, state))
    assert sys.modules["kernels"] is None
    assert ops._get_kernel() is None


NARROW = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
"""Two layers of this Bert have a width of 96: the second ones of its feed-forward blocks."""


def wrongly_unpacked(layer: Any) -> float:
    """The error of the weights as the layer multiplies by them, relative to those that were quantized."""
    with torch.no_grad():
        seen = layer(torch.eye(layer.in_features)).T - layer.bias[:, None]
    return float((seen - layer.before).norm() / layer.before.norm())


@pytest.mark.parametrize(("quantization", "count"), [(Quantization.NF4, 2), (Quantization.INT8, 0)])
def test_layers_that_a_cpu_would_unpack_wrongly_stay_as_they_are_and_are_named(
    quantization, count, texts, tmp_path
):
    bert = save_tiny_bert(tmp_path / "bert", **NARROW)
    qlora = model(bert, method=Method.QLORA, quantization=quantization, lora_targets=("query",))
    tiny = train(tmp_path / "run", model=qlora, data=reviews(texts))
    note = tiny.messages.get("unpacked")
    assert (note is not None) is bool(count)
    assert ("2 layers not quantized" in tiny.what_ran.adapter) is bool(count)
    if note is not None:
        assert note.title == "2 layers aren't quantized, such as bert.encoder.layer.0.output.dense"
        assert "no multiples of 64" in note.detail
    saved, live = weights_of(bert), base_of(tiny.trainer.model)
    errors = {}
    for name, layer in live.named_modules():
        if name.startswith("bert.encoder") and isinstance(layer, torch.nn.Linear) and ".lora_" not in name:
            layer.before = saved[f"{name.removesuffix('.base_layer')}.weight"]
            errors[name] = wrongly_unpacked(layer)
    narrow = [
        error for name, error in errors.items() if name.endswith("output.dense") and "attention" not in name
    ]
    assert max(errors.values()) < 0.15, "nf4 rounds by about 9 %"
    assert (narrow == [0.0, 0.0]) is bool(count)


def test_a_layer_left_packed_would_be_wrong(texts, tmp_path, monkeypatch):
    """What the rule is for: bitsandbytes 0.50.2 on a CPU. It can go when this fails."""
    monkeypatch.setattr(parts, "can_be_packed", lambda _layer: True)
    bert = save_tiny_bert(tmp_path / "bert", **NARROW)
    options = run_options(model=model(bert, method=Method.QLORA))
    config, tokenizer = text.load_config(options), pretrained.load_tokenizer(str(bert))
    live: Any = text.load_model(options, config, ("0", "1"), tokenizer).model
    parts.prepare_quantized(live)
    layer = live.bert.encoder.layer[0].output.dense
    layer.before = weights_of(bert)["bert.encoder.layer.0.output.dense.weight"]
    assert wrongly_unpacked(layer) > 0.18


@pytest.mark.parametrize(
    ("device", "quantization", "count"),
    [("cpu", Quantization.NF4, 2), ("cpu", Quantization.INT8, 0), ("mps", Quantization.NF4, 0)],
)
def test_only_4_bits_on_a_cpu_leave_layers_unpacked(device, quantization, count, tmp_path):
    asked = model(save_tiny_bert(tmp_path / "bert", **NARROW), quantization=quantization)
    options = run_options(model=asked, device=DeviceOptions(name=device))
    with torch.device("meta"):
        live = text.random_model(text.load_config(options), Task.TEXT_CLASSIFICATION)
    assert len(parts.left_unpacked(live, options)) == 1 + count


def test_weights_the_checkpoint_lacks_are_trained_and_saved_and_not_quantized(bert, texts, tmp_path):
    kept = {name: weight for name, weight in weights_of(bert).items() if "pooler" not in name}
    save_file(kept, bert / "model.safetensors", metadata={"format": "pt"})
    tiny = train(tmp_path / "run", model=model(bert, method=Method.QLORA), data=reviews(texts))
    assert tiny.status == 0
    assert tiny.what_ran.adapter.endswith(f"on {LINEAR_LAYERS - 1} layers")
    saved = load_file(tiny.run.model / "adapter_model.safetensors")
    assert saved["base_model.model.bert.pooler.dense.weight"].dtype is torch.float32


@pytest.mark.skipif(sys.platform != "linux", reason="reads the mapped files from /proc")
def test_no_weight_of_a_quantized_model_is_a_view_of_its_file(bert):
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=model(bert, method=Method.QLORA),
        device=DeviceOptions(name="cpu"),
    )
    config, tokenizer = text.load_config(options), pretrained.load_tokenizer(str(bert))
    loaded = text.load_model(options, config, ("0", "1"), tokenizer)
    assert views_of(bert, loaded.model)  # as transformers loads it
    live = apply_method(loaded.model, options, loaded.fresh)
    assert any(is_quantized(weight) for weight in live.parameters())
    assert not views_of(bert, live)


def views_of(folder: Path, live: torch.nn.Module) -> list[str]:
    """Names of the weights that are in memory where a file of this folder is mapped."""
    lines = (line.split() for line in Path("/proc/self/maps").read_text().splitlines())
    mapped = [line[0].split("-") for line in lines if line[-1].startswith(str(folder))]
    ranges = [(int(begin, 16), int(end, 16)) for begin, end in mapped]
    return [
        name
        for name, weight in live.named_parameters()
        if any(begin <= weight.data_ptr() < end for begin, end in ranges)
    ]


# --- Last layer, images, precision


def test_only_the_last_layer_of_a_text_model_moves(bert, texts, tmp_path):
    tiny = train(tmp_path / "run", model=model(bert, method=Method.HEAD), data=reviews(texts))
    head = {"classifier.weight", "classifier.bias"}
    assert moved(weights_of(bert), tiny.trainer.model) == head
    assert set(weights_of(tiny.run.model)) == set(weights_of(bert))
    assert (tiny.what_ran.trainable_parameters, tiny.what_ran.adapter) == (2 * 64 + 2, "")
    assert_reported(tiny, model(bert, method=Method.HEAD))


@pytest.mark.parametrize(
    ("method", "precision", "dora"),
    [(Method.HEAD, Precision.FP32, False), (Method.LORA, Precision.BF16, False), (Method.LORA, "fp32", True)],
)
def test_the_body_of_an_image_model_stays_with_its_running_statistics(
    method, precision, dora, tmp_path, monkeypatch
):
    hub = "peft.utils.save_and_load.check_file_exists_on_hf_hub"
    monkeypatch.setattr(hub, lambda *_a, **_k: pytest.fail("saving asked the Hub"))
    whole = {"pretrained": False, "frozen_precision": "fp32"}
    source = model("torchvision:mobilenet_v2", method=method, lora_rank=2, lora_dora=dora, **whole)
    initial = load_vision_model(source, classes=2, seed=TrainingOptions().seed)
    before = {name: value.clone() for name, value in initial.state_dict().items()}
    tiny = train(
        tmp_path / "run",
        task=Task.IMAGE_CLASSIFICATION,
        model=source,
        data=DataOptions(train="synthetic:8x32"),
        device=DeviceOptions(name="cpu", precision=Precision(precision)),
        memory=MemoryOptions(batch_size=2, gradient_accumulation_steps=2),
    )
    assert tiny.status == 0
    assert any("running_mean" in name for name in before)
    head = {"network.classifier.1.weight", "network.classifier.1.bias"}
    assert moved(before, tiny.trainer.model) == (head if method is Method.HEAD else set())
    ran = tiny.what_ran
    if method is Method.LORA:
        from peft import PeftModel

        # its 17 others convolve each channel alone
        assert ran.adapter == f"LoRA, rank 2 on 35 layers{', DoRA' * dora}"
        assert (ran.autocast_dtype, ran.parameter_dtype) == (None if dora else "bfloat16", "float32")
        again = PeftModel.from_pretrained(initial, str(tiny.run.model)).state_dict()
        trained = tiny.trainer.model.state_dict()
        assert again.keys() == trained.keys()
        assert all(torch.equal(again[name], trained[name]) for name in trained)


def test_a_half_precision_checkpoint_trains_in_full(bert, tmp_path):
    from transformers import AutoModelForSequenceClassification

    half = shutil.copytree(bert, tmp_path / "half")
    AutoModelForSequenceClassification.from_pretrained(bert, dtype=torch.float16).save_pretrained(half)
    assert {weight.dtype for weight in weights_of(half).values()} == {torch.float16}
    tiny = train(tmp_path / "run", model=model(half))
    assert tiny.what_ran.parameter_dtype == "float32"
    assert {weight.dtype for weight in weights_of(tiny.run.model).values()} == {torch.float32}
