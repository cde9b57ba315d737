"""The trace tells of a run what the run then is: weights, gradients, state, and what is kept for the gradients."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from core.base.errors import OptionsError
from core.engine.__main__ import _prepared_for
from core.engine.capabilities import gather
from core.engine.devices import choose
from core.engine.memory import depths, fake, trace, trace_cache
from core.engine.memory.glibc_heap import GlibcHeap
from core.engine.memory.rehearsal import Rehearsed, rehearse
from core.engine.models import text
from core.engine.what_ran import bare, state_bytes
from core.memory.model import Basis, Forecast, Parts
from core.options import RunOptions
from core.options.choices import Method, Optimizer, Precision, Quantization, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from tests.fakes.tiny_bert import edit_config, save_tiny_bert
from tests.fakes.tiny_training import model, train

LENGTH = 32
FP32 = DeviceOptions(name="cpu", precision=Precision.FP32)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("trace") / "bert", num_hidden_layers=2)


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def asked(bert: Path, **sections: Any) -> RunOptions:
    return RunOptions(
        **{
            "task": Task.TEXT_CLASSIFICATION,
            "model": ModelOptions(source=str(bert)),
            "data": DataOptions(train=f"synthetic:64x{LENGTH}"),
            "device": FP32,
            "memory": MemoryOptions(batch_size=8),
            **sections,
        }
    )


def tensors(found: Forecast) -> int:
    return found.parts.total - found.parts.overhead


def kept_by_autograd(options: RunOptions) -> int:
    """Bytes a real forward pass on the CPU keeps, weights left out, each storage once; and what enters it."""
    config = text.load_config(options)
    real = text.random_model(config, options.task, attn_implementation="sdpa").train()
    own = {weight.untyped_storage().data_ptr() for weight in (*real.parameters(), *real.buffers())}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    size = options.memory.batch_size
    tokens = torch.ones(size, LENGTH, dtype=torch.int64)
    mask = tokens.clone()
    mask[0, -1] = 0  # transformers leaves out a mask that hides nothing, which a trace can't see
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        real(
            input_ids=tokens, attention_mask=mask, token_type_ids=tokens * 0, labels=torch.zeros(size).long()
        )
    return sum(storage.nbytes() for storage in saved.values())


def test_weights_and_state_are_the_model_s(bert: Path) -> None:
    found = trace.forecast(asked(bert), labels=2)
    weights = sum(
        p.numel()
        for p in text.random_model(text.load_config(asked(bert)), Task.TEXT_CLASSIFICATION).parameters()
    )
    assert found.basis is Basis.TRACE
    assert (found.length, found.longest_text) == (LENGTH, LENGTH)
    assert found.notes == ()
    assert found.room is not None
    assert found.parts.weights == pytest.approx(4 * weights, rel=0.05)  # and positions, which are no weights
    assert found.parts.optimizer == pytest.approx(8 * weights, rel=0.01)
    assert found.parts.overhead > 100e6  # torch alone


def test_activations_are_what_autograd_keeps(tmp_path: Path) -> None:
    bert = save_tiny_bert(
        tmp_path / "wide",
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=6,
        hidden_dropout_prob=0.1,
    )
    options = asked(bert, memory=MemoryOptions(batch_size=64))
    found = trace.forecast(options, labels=2)
    assert found.parts.activations == pytest.approx(kept_by_autograd(options), rel=0.05)


@pytest.mark.parametrize(
    "optimizer", [Optimizer.ADAFACTOR, Optimizer.ADAMW_8BIT, Optimizer.ADEMAMIX, Optimizer.SGD]
)
def test_the_optimizer_holds_what_a_run_s_holds(optimizer: Optimizer, tmp_path: Path) -> None:
    bert = save_tiny_bert(tmp_path / "bert", hidden_size=64, intermediate_size=128)
    training = TrainingOptions(optimizer=optimizer, epochs=1.0)
    data = DataOptions(train="synthetic:16x8")
    ran = train(tmp_path / "run", model=model(bert), training=training, data=data)
    held = sum(state_bytes(bare(ran.trainer.optimizer)).values())
    found = trace.forecast(asked(bert, training=training, data=data), labels=2)
    assert found.parts.optimizer == pytest.approx(held, rel=0.02)


def test_lora_has_gradients_of_little_and_packed_weights_take_less(tmp_path: Path) -> None:
    bert = save_tiny_bert(tmp_path / "bert", hidden_size=64, intermediate_size=256, num_hidden_layers=2)
    full, lora = (
        trace.forecast(
            asked(bert, model=ModelOptions(source=str(bert), method=method, lora_rank=2)), labels=2
        )
        for method in (Method.FULL, Method.LORA)
    )
    packed = trace.forecast(
        asked(bert, model=ModelOptions(source=str(bert), method=Method.QLORA, lora_rank=2)), labels=2
    )
    int8 = trace.forecast(
        asked(
            bert,
            model=ModelOptions(
                source=str(bert), method=Method.QLORA, lora_rank=2, quantization=Quantization.INT8
            ),
        ),
        labels=2,
    )
    assert lora.parts.optimizer < full.parts.optimizer / 4
    assert lora.parts.weights > full.parts.weights
    assert packed.parts.weights < int8.parts.weights < lora.parts.weights / 1.5
    assert int8.parts.activations > packed.parts.activations  # int8 layers keep what enters them
    assert all(not layer.name.startswith("base_model") for layer in lora.layers)


def test_checkpointing_keeps_less_and_accumulation_keeps_gradients(bert: Path) -> None:
    plain, recomputed, accumulated = (
        trace.forecast(asked(bert, memory=MemoryOptions(batch_size=64, **memory)), labels=2)
        for memory in ({}, {"activation_checkpointing": True}, {"gradient_accumulation_steps": 4})
    )
    assert recomputed.parts.activations < 0.8 * plain.parts.activations
    assert accumulated.parts.gradients > 0.95 * accumulated.parts.optimizer / 2
    assert plain.parts.gradients < accumulated.parts.gradients / 2


def test_half_precision_keeps_copies_of_weights_for_a_while(bert: Path) -> None:
    half = trace.forecast(asked(bert, device=DeviceOptions(name="cpu", precision=Precision.BF16)), labels=2)
    full = trace.forecast(asked(bert), labels=2)
    assert half.parts.activations < full.parts.activations
    assert half.parts.weights == full.parts.weights
    assert half.parts.temporary > full.parts.temporary


@pytest.mark.parametrize("checkpointing", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_deep_model_traced_at_two_depths_is_as_traced_whole(tmp_path: Path, checkpointing: bool) -> None:
    bert = save_tiny_bert(tmp_path / "deep", num_hidden_layers=14, hidden_size=32)
    memory = MemoryOptions(batch_size=16, activation_checkpointing=checkpointing)
    options = choose(gather(), asked(bert, memory=memory)).settled
    config = text.load_config(options)

    def traced(config: Any) -> Any:
        made = fake.text_model(options, config)
        blocks = depths.blocks_of(made, depths.depth_of(config))
        with fake.without_numbers("cpu") as device:
            fake.bring(made, device)
            batch = fake.batch(options, made, LENGTH, device)
            return rehearse(made, batch, options, device, blocks=blocks)

    assert depths.can_be_cut(config)
    whole, extended = traced(config), depths.extended(traced, config)
    assert extended.phases == whole.phases
    assert extended.kept == whole.kept


def test_what_the_allocator_has_unused_is_extended_too(tmp_path: Path) -> None:
    bert = save_tiny_bert(tmp_path / "deep", num_hidden_layers=24)
    config = text.load_config(RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(bert))))

    def traced(config: Any) -> Rehearsed:
        depth = depths.depth_of(config)
        return Rehearsed({"top": Parts(activations=1000 * depth)}, {}, unused=500 + 100 * depth)

    assert depths.extended(traced, config).unused == 500 + 100 * 24


def test_a_process_takes_more_than_its_tensors(bert: Path) -> None:
    options = asked(bert, memory=MemoryOptions(batch_size=64, activation_checkpointing=True))
    made = fake.text_model(options, text.load_config(options))
    with fake.without_numbers("cpu") as device:
        fake.bring(made, device)
        found = rehearse(
            made, fake.batch(options, made, LENGTH, device), options, device, allocator=GlibcHeap()
        )
    assert found.unused > 0.1 * found.most


def test_the_largest_modules_are_told(bert: Path) -> None:
    layers = trace.forecast(asked(bert), labels=2).layers
    assert [layer.bytes for layer in layers] == sorted((layer.bytes for layer in layers), reverse=True)
    assert {"bert.encoder.layer.0", "bert.encoder.layer.1", "bert.embeddings"} <= {
        layer.name for layer in layers
    }


def test_images_are_traced_too() -> None:
    options = RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18", pretrained=False),
        data=DataOptions(train="synthetic:64x64"),
        device=FP32,
        memory=MemoryOptions(batch_size=4),
    )
    found = trace.forecast(options, labels=10)
    assert (found.basis, found.length) == (Basis.TRACE, None)
    assert found.parts.weights == pytest.approx(4 * 11.2e6, rel=0.02)
    assert found.layers[0].name.startswith("network.layer4")
    twice = msgspec.structs.replace(options, memory=MemoryOptions(batch_size=8))
    assert trace.forecast(twice, labels=10).parts.activations == pytest.approx(
        2 * found.parts.activations, rel=0.05
    )


def test_a_trace_is_kept_for_the_next_question(bert: Path, own_home: Path) -> None:
    options = asked(bert)
    first = trace.forecast(options, labels=2)
    (file,) = (own_home / "cache" / "forecasts").iterdir()
    kept = msgspec.json.decode(file.read_bytes())
    kept["phases"] = {"top": {**kept["phases"]["top"], "weights": 12_345_678_901}}
    file.write_bytes(msgspec.json.encode(kept))
    assert trace.forecast(options, labels=2).parts.weights == 12_345_678_901
    shorter = msgspec.structs.replace(options, training=TrainingOptions(epochs=9.0, learning_rate=1e-3))
    assert trace.forecast(shorter, labels=2).parts.weights == 12_345_678_901  # neither matters
    larger = msgspec.structs.replace(options, memory=MemoryOptions(batch_size=9))
    assert trace.forecast(larger, labels=2).parts.weights == first.parts.weights
    edit_config(bert, hidden_act="relu")
    assert trace.forecast(options, labels=2).parts.weights == first.parts.weights
    edit_config(bert, hidden_act="gelu")
    file.write_bytes(b"{")
    assert tensors(trace.forecast(options, labels=2)) == tensors(first)


def test_only_the_newest_traces_are_kept(own_home: Path, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_cache, "MOST_KEPT", 2)
    for size in (1, 2, 3):
        trace.forecast(asked(bert, memory=MemoryOptions(batch_size=size)), labels=2)
    assert len(list((own_home / "cache" / "forecasts").iterdir())) == 2


def test_where_nothing_can_be_kept_it_is_traced_all_the_same(own_home: Path, bert: Path) -> None:
    own_home.mkdir()
    (own_home / "cache").write_text("in the way")
    assert trace.forecast(asked(bert), labels=2).basis is Basis.TRACE


def test_a_model_that_can_t_be_followed_is_told_by_formula(tmp_path: Path, bert: Path) -> None:
    folder = save_tiny_bert(tmp_path / "long")
    edit_config(
        folder, model_type="longformer", attention_window=8, max_position_embeddings=66, sep_token_id=3
    )
    found = trace.forecast(asked(folder, model=ModelOptions(source=str(folder), pretrained=False)), labels=2)
    assert found.basis is Basis.FORMULA
    assert found.length == LENGTH
    assert found.notes[0].startswith("A formula tells this, not a trace: the trace can't follow this model")


def named(options: RunOptions) -> str:
    with pytest.raises(OptionsError) as refused:
        trace.forecast(options, labels=2)
    (problem,) = refused.value.problems
    assert problem.message
    return problem.path


def test_what_is_wrong_is_named_at_its_option(tmp_path: Path, bert: Path) -> None:
    (tmp_path / "no-model").mkdir()
    (tmp_path / "no-model" / "config.json").write_text('{"colour": "blue"}')
    (tmp_path / "no-model" / "model.safetensors").touch()
    own_code = save_tiny_bert(tmp_path / "own-code")
    edit_config(own_code, model_type="mine", auto_map={"AutoConfig": "mine.Config"})
    assert named(asked(tmp_path / "no-model")) == "model.source"
    assert named(asked(own_code)) == "model.source"
    assert named(asked(bert, data=DataOptions(train="synthetic:8x65"))) == "data.train"
    targets = ModelOptions(source=str(bert), method=Method.LORA, lora_targets=("nothing",))
    assert named(asked(bert, model=targets)) == "model.lora_targets"


def test_a_batch_of_nothing_is_refused_before_anything_is_loaded(bert: Path) -> None:
    tree = msgspec.to_builtins(asked(bert))
    tree["memory"]["batch_size"] = 0
    with pytest.raises(OptionsError) as refused:
        _prepared_for(tree)
    assert [problem.path for problem in refused.value.problems] == ["memory.batch_size"]
