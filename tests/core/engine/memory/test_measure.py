"""A dry run of a tiny model: the longest batch first, memory by its source, and nothing left behind."""

import csv
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from core.base.errors import DataError, UserError
from core.base.system import ProcessorTimes
from core.engine.environment import prepare_torchvision
from core.memory.model import Measurement, Parts, Room
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Optimizer, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.services.memory import DryRun as GuardedDryRun
from tests.fakes import training as runs
from tests.fakes.models import WORDS, save_tiny_bert

prepare_torchvision()

from core.engine.memory.measure import DryBatches, DryRunCallback, DryTrainer, fitted, measure, pick  # noqa: E402

ROWS, BATCH, LONGEST = 40, 4, 30
SPECIAL = 2
"""Tokens around each text."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model and texts of 1 to 30 words, the longest in the middle."""
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_bert(folder / "bert")
    with (folder / "texts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for row in range(ROWS):
            words = LONGEST if row == ROWS // 2 else 1 + row % 7
            writer.writerow([" ".join(WORDS[(row + at) % 10] for at in range(words)), ("no", "yes")[row % 2]])
    return folder


def options(
    folder: Path, batch: int = BATCH, data: str = "texts.csv", processes: int = 1, **training: Any
) -> RunOptions:
    found = runs.options(
        Task.TEXT_CLASSIFICATION,
        ModelOptions(source=str(folder / "bert")),
        DataOptions(train=str(folder / data), eval_fraction=0.0, max_length=64),
        memory=MemoryOptions(batch_size=batch),
        training=TrainingOptions(**{"epochs": 3.0, **training}),
    )
    return with_changes(found, {"device.processes": processes})


@pytest.fixture
def widths(monkeypatch):
    """Tokens of a row of each batch that is trained on."""
    seen: list[int] = []
    compute = DryTrainer.training_step

    def watched(self: Any, model: Any, inputs: Any, *more: Any) -> torch.Tensor:
        seen.append(inputs["input_ids"].shape[1])
        return compute(self, model, inputs, *more)

    monkeypatch.setattr(DryTrainer, "training_step", watched)
    return seen


def test_the_longest_batch_comes_first_twice_then_ordinary_ones(folder, tmp_path, widths, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = measure(options(folder))
    longest = LONGEST + SPECIAL
    assert widths[:2] == [longest] * 2
    assert len(widths) == 5
    assert max(widths[2:4]) < longest
    assert (result.longest, result.longest_text) == (longest, longest)
    assert (result.total_steps, result.compile_seconds, result.train_samples) == (30, 0, ROWS)
    assert result.run_seconds > 10 * min(result.step_seconds, result.longest_step_seconds) > 0
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_slow_or_short_run_is_measured_for_fewer_steps(folder, widths, monkeypatch):
    monkeypatch.setattr("core.engine.memory.measure.PATIENCE_SECONDS", 0.0)
    assert measure(options(folder)).step_seconds is not None
    assert len(widths) == 3
    widths.clear()
    result = measure(options(folder, batch=2, max_steps=1, optimizer=Optimizer.SGD, momentum=0.0))
    assert widths == [LONGEST + SPECIAL]
    assert (result.total_steps, result.parts.optimizer) == (1, 0)
    assert result.run_seconds == result.longest_step_seconds == result.step_seconds


def test_the_load_of_other_programs_is_what_this_process_did_not_use(monkeypatch):
    run = DryRunCallback(
        SimpleNamespace(options=RunOptions(task=Task.CHAT), kind="cpu", label="cpu"), SimpleNamespace(base=0)
    )
    trainer = SimpleNamespace(
        batches=SimpleNamespace(repeats=2),
        longest=None,
        longest_text=None,
        step=SimpleNamespace(compilation=None),
    )
    run.trainer, run.seconds, run.rows = trainer, [1.0, 1.0], 0
    run._before = ProcessorTimes(busy=0.0, total=0.0), sum(os.times()[:4]) - 2.0
    monkeypatch.setattr(run, "parts", Parts)
    monkeypatch.setattr(
        "core.engine.memory.measure.processor_times", lambda: ProcessorTimes(busy=8.0, total=10.0)
    )
    assert run.result("").other_load == pytest.approx(0.6, abs=0.05)
    run.seconds = [0.1]
    assert run.result("").other_load is None


def test_the_time_of_a_step_is_without_compiling():
    run = DryRunCallback(SimpleNamespace(options=None, kind="cpu"), None)
    run.trainer = SimpleNamespace(
        step=SimpleNamespace(compile_seconds=100.0, losses=[], forget=lambda: None),
        optimizer=None,
        batches=DryBatches([0], []),
    )
    run.on_train_begin(None, None, None)
    run.on_step_end(None, None, None)
    assert -100 <= run.seconds[0] < -90


def test_running_out_of_memory_in_a_step_is_a_result_and_unusable_data_an_error(folder, monkeypatch):
    def full(*_: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 20.00 GiB. It may cause system failure."
        )

    monkeypatch.setattr("core.engine.memory.measure.DryTrainer.training_step", full)
    result = measure(options(folder))
    assert "A batch of 4 examples" in result.out_of_memory
    assert "system failure" not in result.out_of_memory
    assert result.parts.total == result.peak
    assert result.parts.weights > 0
    assert (result.step_seconds, result.total_steps) == (None, 30)
    (folder / "empty.csv").write_text("text,label\n")
    with pytest.raises(DataError):
        measure(options(folder, data="empty.csv"))


# --- Which rows a dry run trains on

LENGTHS = [3, 9, 4, 8, 5, 7, 6, 2, 30, 1, 20, 10]
ORDER = [5, 11, 0, 8, 3, 1, 10, 2, 4, 6, 9, 7]


def batches_of(size: int, accumulated: int, **training: Any) -> RunOptions:
    memory = MemoryOptions(batch_size=size, gradient_accumulation_steps=accumulated)
    return RunOptions(task=Task.TEXT_CLASSIFICATION, memory=memory, training=TrainingOptions(**training))


@pytest.mark.parametrize(
    ("memory", "training", "lengths", "longest", "repeats", "ordinary"),
    [
        ((2, 1), {}, LENGTHS, [8, 10], 2, 3),
        ((2, 2), {}, LENGTHS, [8, 10, 11, 1], 2, 3),
        ((3, 1), {}, None, ORDER[:3], 2, 3),  # rows of one length come as they are drawn
        ((2, 1), {"max_steps": 1}, LENGTHS, [8, 10], 1, 0),
        ((2, 1), {"max_steps": 3}, LENGTHS, [8, 10], 2, 1),
    ],
)
def test_rows_are_the_longest_then_some_as_the_run_draws_them(
    memory, training, lengths, longest, *, repeats, ordinary
):
    batches = pick(ORDER, lengths, batches_of(*memory, **training))
    step = len(longest)
    assert (batches.longest, batches.repeats) == (longest, repeats)
    assert batches.order[: step * repeats] == longest * repeats
    drawn = [ORDER[start : start + step] for start in range(0, 12, step)]
    assert all(rows in drawn for rows in batches.ordinary)
    assert len(batches.ordinary) == ordinary
    if lengths and memory[1] == 1:
        most = [max(lengths[row] for row in rows) for rows in batches.ordinary]
        assert most == sorted(most), "short, middling and long ones"


def test_a_step_larger_than_the_data_has_all_of_it():
    assert [fitted(batches_of(8, 4), 12), fitted(batches_of(64, 2), 12)] == [(8, 2), (12, 1)]
    longest = pick(ORDER, LENGTHS, batches_of(8, 4)).longest
    assert len(longest) == 16
    assert set(longest) == set(ORDER)


# --- In a process of its own, as the memory of this one is that of other tests, too


def dry_run(folder: Path, room: Room) -> Measurement:
    return GuardedDryRun(options(folder), room).run()


def test_it_is_ended_where_there_is_no_room(folder):
    room = Room(free=300 << 20, ceiling=64 << 30)
    result = dry_run(folder, room)
    assert result.room == room
    assert "300 MB of 64.0 GB were free" in result.out_of_memory
    assert result.peak > 0.9 * room.free


def test_of_several_processes_one_is_measured(folder, monkeypatch):
    one, both = (measure(options(folder, processes=count)) for count in (1, 2))
    assert both.total_steps == one.total_steps / 2
    assert both.parts.weights == 2 * one.parts.weights
    assert both.peak == both.parts.total > 1.7 * one.peak
    assert any("2 take 2 times as much" in note for note in both.forecast.notes)
    assert one.forecast.notes == ()


def test_gradients_are_there_from_the_beginning_as_in_buckets(folder, monkeypatch):
    found: list[list[bool]] = []
    compute = DryTrainer.training_step

    def watched(self: Any, model: Any, *more: Any) -> torch.Tensor:
        found.append([weight.grad is not None for weight in model.parameters()])
        return compute(self, model, *more)

    monkeypatch.setattr(DryTrainer, "training_step", watched)
    measure(options(folder, processes=2))
    assert all(map(all, found))
    found.clear()
    measure(options(folder))
    assert not any(map(any, found))


def test_a_divided_model_is_not_measured(folder):
    with pytest.raises(UserError, match="can't be measured"):
        measure(with_changes(options(folder, processes=2), {"memory.fsdp": True}))


@pytest.mark.long
def test_the_parts_are_those_of_the_live_objects_and_add_up(folder):
    room = Room(free=64 << 30, ceiling=64 << 30)
    result = dry_run(folder, room)
    parts = result.parts
    assert (result.room, result.out_of_memory, result.longest) == (room, "", LONGEST + SPECIAL)
    assert parts.total == result.peak > result.base > 100 << 20
    assert parts.overhead == result.base
    buffers = 2 * 8 * 64  # positions and token types, which don't learn
    assert parts.gradients == parts.weights - buffers
    assert parts.optimizer == pytest.approx(2 * parts.gradients, rel=0.01)
    assert 0 < parts.activations < 5 << 20
    assert result.peak - result.base < 300 << 20
