"""A dry run of a tiny model: the longest batch first, what it held by source, and nothing left behind."""

import csv
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from core.base.errors import DataError
from core.engine.environment import prepare_torchvision
from core.memory.model import Measurement, Room
from core.options import RunOptions
from core.options.choices import Optimizer, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.services.memory import DryRun
from tests.fakes.models import WORDS, save_tiny_bert

prepare_torchvision()

ROWS, BATCH = 40, 4
LONGEST = 30
"""Words of the longest text; two more tokens stand around them."""


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


def options(folder: Path, **sections: Any) -> RunOptions:
    return RunOptions(
        **{
            "task": Task.TEXT_CLASSIFICATION,
            "model": ModelOptions(source=str(folder / "bert")),
            "data": DataOptions(train=str(folder / "texts.csv"), eval_fraction=0.0, max_length=64),
            "device": DeviceOptions(name="cpu", precision=Precision.FP32),
            "memory": MemoryOptions(batch_size=BATCH),
            "training": TrainingOptions(epochs=3.0),
            **sections,
        }
    )


def measure(asked: RunOptions) -> Measurement:
    from core.engine.memory.measure import measure as answer

    return answer(asked)


def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of a row of each batch that is trained on from now on."""
    from core.engine.memory.measure import DryTrainer

    seen: list[int] = []
    compute = DryTrainer.training_step

    def watched(self: Any, model: Any, inputs: Any, *more: Any) -> torch.Tensor:
        seen.append(inputs["input_ids"].shape[1])
        return compute(self, model, inputs, *more)

    monkeypatch.setattr(DryTrainer, "training_step", watched)
    return seen


def test_the_longest_batch_comes_first_twice_then_ordinary_ones(folder, monkeypatch):
    seen = widths(monkeypatch)
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    found = measure(options(folder))
    assert seen[:2] == [LONGEST + 2] * 2
    assert len(seen) == 5
    assert max(seen[2:4]) < LONGEST + 2
    assert (found.longest, found.longest_text) == (LONGEST + 2, LONGEST + 2)
    assert (found.total_steps, found.compile_seconds) == (30, 0)
    assert found.train_samples
    assert found.run_seconds > 10 * min(found.step_seconds, found.longest_step_seconds) > 0
    assert set(temporary.iterdir()) == set(), "nothing is left behind"


def test_a_slow_or_short_run_is_measured_for_fewer_steps(folder, monkeypatch):
    seen = widths(monkeypatch)
    monkeypatch.setattr("core.engine.memory.measure.PATIENCE_SECONDS", 0.0)
    assert measure(options(folder)).step_seconds is not None
    assert len(seen) == 3
    seen.clear()
    short = TrainingOptions(max_steps=1, optimizer=Optimizer.SGD, momentum=0.0)
    found = measure(options(folder, training=short, memory=MemoryOptions(batch_size=2)))
    assert seen == [LONGEST + 2]
    assert found.total_steps == 1
    assert found.parts.optimizer == 0
    assert found.run_seconds == found.longest_step_seconds == found.step_seconds


def test_the_time_of_a_step_is_without_compiling():
    from core.engine.memory.measure import DryBatches, DryRun

    run = DryRun(SimpleNamespace(options=None, kind="cpu"), None)
    run.trainer = SimpleNamespace(
        compilation=SimpleNamespace(step_seconds=100.0),
        optimizer=None,
        batches=DryBatches([0], []),
        step_losses=[],
        forget_step=lambda: None,
    )
    run.on_train_begin(None, None, None)
    run.on_step_end(None, None, None)
    assert -100 <= run.seconds[0] < -90


def test_memory_that_runs_out_in_a_step_is_the_answer(folder, monkeypatch):
    def full(*_: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 20.00 GiB. It may cause system failure."
        )

    monkeypatch.setattr("core.engine.memory.measure.DryTrainer.training_step", full)
    found = measure(options(folder))
    assert "A batch of 4 rows" in found.out_of_memory
    assert "system failure" not in found.out_of_memory
    assert found.parts.weights > 0
    assert found.parts.total == found.peak
    assert found.step_seconds is None
    assert found.total_steps == 30


def test_what_the_person_can_mend_is_raised(folder, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("text,label\n")
    with pytest.raises(DataError):
        measure(options(folder, data=DataOptions(train=str(empty))))


@pytest.mark.parametrize(
    ("half", "activations", "copies"), [(False, 2 * 4 * 8 * 4, 0), (True, None, 8 * 8 * 2)]
)
def test_saved_tensors_count_each_storage_once_and_the_models_own_not(half, activations, copies):
    from core.engine.memory.weigh import SavedTensors

    layer = torch.nn.Linear(8, 8, bias=False)
    saved = SavedTensors(layer)
    given = torch.ones(4, 8, requires_grad=True)
    with saved.watching(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        (layer(given) * given).sum().backward()  # keeps what came in, and what the layer put out
    assert saved.activations == activations or half
    assert saved.copies == copies


# --- Which rows a dry run trains on

LENGTHS = [3, 9, 4, 8, 5, 7, 6, 2, 30, 1, 20, 10]
ORDER = [5, 11, 0, 8, 3, 1, 10, 2, 4, 6, 9, 7]


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
    from core.engine.memory.measure import pick

    size, accumulated = memory
    asked = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        memory=MemoryOptions(batch_size=size, gradient_accumulation_steps=accumulated),
        training=TrainingOptions(**training),
    )
    found = pick(ORDER, lengths, asked)
    step = size * accumulated
    assert (found.longest, found.repeats) == (longest, repeats)
    assert found.order[: step * repeats] == longest * repeats
    drawn = [ORDER[start : start + step] for start in range(0, 12, step)]
    assert all(one in drawn for one in found.ordinary)
    assert len(found.ordinary) == ordinary
    if lengths and accumulated == 1:
        most = [max(lengths[row] for row in one) for one in found.ordinary]
        assert most == sorted(most), "short, middling and long ones"


def test_a_step_larger_than_the_data_has_all_of_it():
    from core.engine.memory.measure import fitted, pick

    def asked(size: int, accumulated: int) -> RunOptions:
        memory = MemoryOptions(batch_size=size, gradient_accumulation_steps=accumulated)
        return RunOptions(task=Task.TEXT_CLASSIFICATION, memory=memory)

    assert (fitted(asked(8, 4), 12), fitted(asked(64, 2), 12)) == ((8, 2), (12, 1))
    found = pick(ORDER, LENGTHS, asked(8, 4))
    assert len(found.longest) == 16
    assert set(found.longest) == set(ORDER)


class TestInAProcessOfItsOwn:
    """The memory of this process is that of other tests, too: what a run takes is read where nothing ran before."""

    def test_it_is_ended_where_there_is_no_room(self, folder):
        room = Room(free=300 << 20, ceiling=64 << 30)
        found = DryRun(options(folder), room).run()
        assert found.room == room
        assert "300 MB of 64 GB were free" in found.out_of_memory
        assert found.peak > 0.9 * room.free

    @pytest.mark.long
    def test_the_parts_are_those_of_the_live_objects_and_add_up(self, folder):
        room = Room(free=64 << 30, ceiling=64 << 30)
        found = DryRun(options(folder), room).run()
        assert (found.room, found.out_of_memory, found.longest) == (room, "", LONGEST + 2)
        assert found.parts.total == found.peak > found.base > 100 << 20
        assert found.parts.overhead == found.base
        counted = 2 * 8 * 64  # places and kinds of tokens, written out beside the weights; they don't learn
        assert found.parts.gradients == found.parts.weights - counted
        assert found.parts.optimizer == pytest.approx(2 * found.parts.gradients, rel=0.01)
        assert 0 < found.parts.activations < 5 << 20
        assert found.peak - found.base < 300 << 20
