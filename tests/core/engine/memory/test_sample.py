"""A sample of a tiny model: the losses of the real run, and the times of full steps only."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from core.benchmark.plan import Kind, Plan, Variant
from core.benchmark.result import Sample
from core.benchmark.runner import EnginePass
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Method, Optimizer, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from tests.fakes.models import instructions, save_tiny_bert, save_tiny_talker, save_tiny_vision, write_json
from tests.fakes.training import SECTIONS, options, reviews, train, write_reviews

ROWS = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampling")
    save_tiny_bert(folder / "plain")
    save_tiny_bert(folder / "dropping", hidden_dropout_prob=0.3)
    write_reviews(folder / "texts.csv", ROWS)
    save_tiny_vision(folder / "resnet", "resnet")  # its batch norms keep statistics
    save_tiny_talker(folder / "writer")
    write_json(folder / "talks.json", instructions(8))
    return folder


def texts(folder: Path, model: str = "dropping", **sections: Any) -> RunOptions:
    data = reviews(folder / "texts.csv")
    return options(Task.TEXT_CLASSIFICATION, ModelOptions(source=str(folder / model)), data, **sections)


def sampled(asked: RunOptions, steps: int = 4, warm_up: int = 1, tell: Any = lambda _done: None) -> Sample:
    from core.engine.memory.measure import sample

    return sample(asked, steps=steps, warm_up=warm_up, tell=tell)


def conversations(folder: Path) -> RunOptions:
    data = DataOptions(train=str(folder / "talks.json"), eval_fraction=0.0, max_length=64)
    model = ModelOptions(source=str(folder / "writer"), method=Method.LORA, lora_rank=4)
    training = TrainingOptions(epochs=3.0, learning_rate=1e-2)
    return options(Task.CHAT, model, data, training=training, memory=MemoryOptions(batch_size=4))


def images(folder: Path) -> RunOptions:
    data = DataOptions(train="synthetic:24x32")
    return options(Task.IMAGE_CLASSIFICATION, ModelOptions(source=str(folder / "resnet")), data)


def in_eight_bits(folder: Path) -> RunOptions:
    training = TrainingOptions(epochs=4.0, optimizer=Optimizer.ADAMW_8BIT, warmup=0.5)
    memory = MemoryOptions(batch_size=2, gradient_accumulation_steps=2)
    return texts(folder, training=training, memory=memory)


@pytest.mark.parametrize("make", [conversations, images, in_eight_bits])
def test_losses_are_those_of_the_real_run(folder, tmp_path, make):
    asked = make(folder)
    run = train(tmp_path / "run", task=asked.task, **{name: getattr(asked, name) for name in SECTIONS})
    assert run.status == 0
    result = sampled(asked)
    losses = [step.loss for step in run.steps]
    count = min(len(losses), len(result.losses))
    assert count >= 5
    assert list(result.losses[:count]) == losses[:count]
    assert len(result.seconds) == 4
    assert result.samples_a_step == max(step.samples for step in run.steps)
    assert result.ran is not None
    same = {"time": 0.0, "attempt": 1, "workers": ()}
    assert msgspec.structs.replace(result.ran, **same) == msgspec.structs.replace(run.what_ran, **same)


def test_only_full_steps_are_timed(folder):
    """Ten rows in batches of 4: each third step has 2 rows."""
    done: list[int] = []
    result = sampled(texts(folder), tell=done.append)
    assert len(result.losses) == 7  # the third and the sixth aren't timed
    assert (len(result.warm_up_seconds), len(result.seconds)) == (1, 4)
    assert (result.samples_a_step, result.rows) == (4, ROWS)
    assert done == [1, 2, 3, 4, 5]
    assert result.device == result.ran.device == "cpu"
    assert (result.ran.effective_batch, result.compile_seconds) == (4, 0)
    assert result.parts.total == result.peak >= result.base > 0
    small = sampled(texts(folder, memory=MemoryOptions(batch_size=64)), steps=2)
    assert (small.samples_a_step, small.rows, len(small.losses)) == (ROWS, ROWS, 3)


def test_the_first_loss_is_that_without_dropout(folder):
    plain, dropping = sampled(texts(folder, "plain"), steps=1), sampled(texts(folder, "dropping"), steps=1)
    assert plain.first_loss == pytest.approx(plain.losses[0], rel=1e-6)
    assert dropping.first_loss == pytest.approx(plain.first_loss, rel=1e-6)
    assert dropping.losses[0] != pytest.approx(plain.losses[0], rel=1e-3)
    assert (plain.is_random, dropping.is_random) == (False, True)


def test_a_loss_that_is_nan_is_none_and_running_out_of_memory_a_result(folder, monkeypatch):
    from core.engine.memory.measure import SampledTrainer

    compute = SampledTrainer.compute_loss

    def lost(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = compute(self, *args, **kwargs)
        return loss * float("nan") if isinstance(loss, torch.Tensor) else loss

    with monkeypatch.context() as patch:
        patch.setattr(SampledTrainer, "compute_loss", lost)
        result = sampled(texts(folder))
    assert set(result.losses) == {None}
    assert len(result.seconds) == 4

    train_step, batches = SampledTrainer.training_step, iter(range(3))

    def filling(self: Any, *args: Any) -> torch.Tensor:
        if next(batches) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return train_step(self, *args)

    monkeypatch.setattr(SampledTrainer, "training_step", filling)
    result = sampled(texts(folder))
    assert "A batch of 4 examples" in result.out_of_memory
    assert (result.seconds, len(result.losses)) == ((), 2)
    assert result.parts.total == result.peak
    assert result.parts.weights > 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="several processes are refused on Windows")
def test_two_processes_are_timed_together(folder):
    asked = with_changes(
        texts(folder, "plain", memory=MemoryOptions(batch_size=2)),
        {"device.processes": 2, "device.name": "cpu"},
    )
    variant = Variant(name="processes-2", title="2 processes", asked=msgspec.to_builtins(asked))
    plan = Plan(kind=Kind.METHODS, title="Bert", variants=(variant,), steps=3, passes=1)
    result = EnginePass(variant, plan).run()
    assert result.failure == ""
    assert result.sample is not None
    assert result.sample.ran.parallel == "DDP, 2 processes"
    assert result.sample.samples_a_step == asked.effective_batch == 2 * asked.memory.batch_size
    assert len(result.sample.seconds) == 3
    assert result.sample.peak > 200 << 20
    spoilt = msgspec.to_builtins(with_changes(asked, {"data.label_column": "none"}))
    failed = EnginePass(msgspec.structs.replace(variant, asked=spoilt), plan).run()
    assert "none" in failed.failure


def test_in_a_process_of_its_own_parts_are_those_of_the_live_objects(folder):
    variant = Variant(name="plain", title="Plain", asked=msgspec.to_builtins(texts(folder, "plain")))
    plan = Plan(kind=Kind.METHODS, title="Bert", variants=(variant,), steps=3, passes=1)
    result = EnginePass(variant, plan).run()
    assert result.failure == ""
    assert result.sample is not None
    parts = result.sample.parts
    assert parts.total == result.sample.peak > result.sample.base == parts.overhead > 100 << 20
    assert parts.optimizer == pytest.approx(2 * parts.gradients, rel=0.01)
    assert 0 < parts.activations < 5 << 20
    assert result.conditions.other_load is not None
