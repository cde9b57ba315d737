"""A run says what memory it should take before its first step, and remembers afterwards what it took."""

from typing import Any

import msgspec
import pytest
import torch

from core.base.errors import FixAction
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import resolve_run
from core.memory import history
from core.memory.model import Basis, Forecast, Parts, Room
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.runs.events import MemoryForecast, PhaseChanged, StepFinished
from core.runs.status import DOESNT_FIT
from core.runs.words import ONLY_IF_IT_FITS
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import train


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


@pytest.fixture
def model(tmp_path):
    return save_tiny_bert(tmp_path / "bert")


def test_told_before_the_first_step_and_remembered_after_the_last(tmp_path, model):
    done = train(tmp_path / "run", model=ModelOptions(source=str(model)))
    kinds = [type(event) for event in done.events]
    assert kinds.index(MemoryForecast) < kinds.index(StepFinished)
    told = next(event for event in done.events if isinstance(event, MemoryForecast))
    assert (told.basis, told.device, told.length) == (Basis.FORMULA, "cpu", 8)
    assert told.parts.weights == 4 * sum(weight.numel() for weight in done.trainer.model.parameters())
    assert told.room is not None
    assert told.room.free > 0
    (kept,) = history.read()
    assert kept.forecast == told.parts.total
    assert kept.measured == next(event.peak_bytes for event in done.events if hasattr(event, "peak_bytes"))
    few = TrainingOptions(max_steps=1, learning_rate=1e-2)
    assert len(train(tmp_path / "short", model=ModelOptions(source=str(model)), training=few).steps) == 1
    assert history.read() == (kept,), "one that hasn't seen all its data teaches nothing"


def test_memory_that_runs_out_is_told_with_what_was_forecast(tmp_path, model, monkeypatch):
    from core.engine.training.trainer import WatchedTrainer

    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")

    monkeypatch.setattr(WatchedTrainer, "training_step", fail)
    large = {"data": DataOptions(train="synthetic:512x64"), "memory": MemoryOptions(batch_size=512)}
    done = train(tmp_path / "run", model=ModelOptions(source=str(model)), **large)
    told = next(event for event in done.events if isinstance(event, MemoryForecast))
    message = done.messages["failed"]
    assert message.title == "Memory ran out"
    assert "A batch of 512 rows of up to 64 tokens didn't fit. The run takes" in message.detail
    assert "The largest part: overhead (libraries, context), " in message.detail
    assert "2.5 GB more" in message.detail
    assert message.fixes == told.fixes
    assert told.fixes[0].changes["memory.batch_size"] < 512
    assert history.read() == ()  # it trained nothing: there is nothing to learn


def test_what_does_not_fit_ends_before_the_model_is_loaded_where_nobody_agreed(tmp_path, model, monkeypatch):
    monkeypatch.setattr("core.engine.memory.forecast.room_of", lambda *_: Room(free=1, ceiling=1))
    options = {"model": ModelOptions(source=str(model))}
    assert train(tmp_path / "asked", **options).status == 0
    monkeypatch.setenv(ONLY_IF_IT_FITS, "1")
    done = train(tmp_path / "unasked", **options)
    assert done.status == 1
    assert done.messages[DOESNT_FIT].fixes[-1].action is FixAction.RESUME
    assert done.trainer is None
    assert not any(isinstance(event, PhaseChanged) for event in done.events)


def test_what_does_not_fit_with_rows_as_long_as_the_data_s_ends_before_it_trains(
    tmp_path, model, monkeypatch
):
    monkeypatch.setenv(ONLY_IF_IT_FITS, "1")
    options = {
        "model": ModelOptions(source=str(model)),
        "data": DataOptions(train="synthetic:64x64"),
        "memory": MemoryOptions(batch_size=64),
    }
    fits = train(tmp_path / "fits", **options)
    told = next(event for event in fits.events if isinstance(event, MemoryForecast))
    room = Room(free=0, ceiling=told.parts.total - 1)
    monkeypatch.setattr("core.engine.memory.forecast.room_of", lambda *_: room)
    done = train(tmp_path / "large", **options)
    assert DOESNT_FIT in done.messages
    assert any(isinstance(event, PhaseChanged) for event in done.events)
    assert done.steps == []


def test_a_batch_larger_than_the_data_takes_what_the_data_takes(tmp_path, model):
    told = []
    for batch, name in ((16, "all"), (65_536, "more")):
        done = train(
            tmp_path / name,
            model=ModelOptions(source=str(model)),
            data=DataOptions(train="synthetic:16x8", eval_fraction=0.0),
            memory=MemoryOptions(batch_size=batch),
        )
        told.append(next(event for event in done.events if isinstance(event, MemoryForecast)).parts)
    assert told[0] == told[1]


def test_what_was_found_out_before_the_start_goes_before_the_formula(model):
    from core.engine.memory.forecast import foretell
    from core.engine.reporter import Reporter
    from core.engine.tasks.text import prepare

    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=str(model)),
        data=DataOptions(train="synthetic:16x8"),
    )
    on_cpu = msgspec.structs.replace(options, device=msgspec.structs.replace(options.device, name="cpu"))
    resolved = resolve_run(gather(), on_cpu)
    known = Forecast(basis=Basis.MEASURED, device="cpu", parts=Parts(weights=7, activations=9))
    told = foretell(resolved, prepare(resolved.options, Reporter(None)), known)
    assert told is not None
    assert (told.basis, told.parts) == (Basis.MEASURED, known.parts)
