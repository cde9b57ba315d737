"""Memory of models that generate text: the longest row, the forecast, and the dry run beside it."""

from pathlib import Path
from typing import Any

import pytest

from core.engine.devices.capabilities import gather
from core.engine.devices.choose import resolve_run
from core.engine.environment import prepare_torchvision
from core.engine.memory.forecast import longest_row
from core.engine.models import text
from core.engine.models.check import check_model
from core.memory import estimate
from core.memory.model import Basis, Forecast
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions
from tests.fakes.building import built, options
from tests.fakes.tiny_talker import instructions, pairs, save_tiny_talker, write_json
from tests.fakes.tiny_writer import save_tiny_llama, write_text

prepare_torchvision()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model wide enough for what it holds to be told apart from noise."""
    folder = tmp_path_factory.mktemp("memory")
    save_tiny_talker(folder / "writer", hidden_size=128, intermediate_size=256)
    write_json(folder / "talks.json", instructions(40))
    write_json(folder / "pairs.json", pairs(40))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def asked(folder: Path, task: Task, method: Method = Method.FULL, size: int = 4, **data: Any) -> RunOptions:
    file = "talks.json" if task is Task.CHAT else "pairs.json"
    return options(
        task,
        ModelOptions(source=str(folder / "writer"), method=method),
        DataOptions(**{"train": str(folder / file), "max_length": 128, "eval_fraction": 0.0, **data}),
        memory=MemoryOptions(batch_size=size),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
    )


def forecast_of(asked_for: RunOptions) -> Forecast:
    from core.engine.memory.forecast import forecast

    return forecast(asked_for, 2)


@pytest.mark.parametrize("task", [Task.CHAT, Task.PREFERENCE])
def test_the_longest_row_is_that_of_the_run(folder, task):
    from core.engine.data.tables import lengths_of
    from core.engine.reporter import Reporter
    from core.engine.training.train import prepare

    longest = max(lengths_of(prepare(asked(folder, task), Reporter(None)).train) or ())
    told = forecast_of(asked(folder, task))
    assert (told.basis, told.length) == (Basis.FORMULA, longest)


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
@pytest.mark.parametrize("task", [Task.CHAT, Task.PREFERENCE])
def test_a_forecast_counts_what_is_kept(folder, tmp_path, task, method):
    """In the trainer of a dry run, whose first batch has the longest rows."""
    from core.engine.memory.measure import DryTrainer
    from core.engine.memory.weigh import state_bytes_on, weight_bytes_on

    asked_for = asked(folder, task, method)
    trainer = built(asked_for, tmp_path, DryTrainer)
    trainer.options = asked_for
    trainer.train()
    told = forecast_of(asked_for).parts
    assert told.activations == pytest.approx(trainer.saved.activations, rel=0.1)
    assert told.optimizer == pytest.approx(state_bytes_on("cpu", trainer.optimizer), rel=0.01)
    reference = getattr(trainer, "ref_model", None)
    models = [model for model in (trainer.model, reference) if model is not None]
    assert len(models) == (2 if (task, method) == (Task.PREFERENCE, Method.FULL) else 1)
    assert told.weights == pytest.approx(sum(weight_bytes_on("cpu", model) for model in models), rel=0.001)


@pytest.mark.parametrize("task", [Task.CHAT, Task.PREFERENCE])
def test_a_dry_run_trains_on_the_longest_rows(folder, task):
    from core.engine.memory.measure import measure

    weighed = measure(asked(folder, task))
    assert weighed.out_of_memory == ""
    assert weighed.longest == forecast_of(asked(folder, task)).length
    assert weighed.total_steps == 10


def test_a_pair_takes_two_rows(folder):
    lora, length = Method.LORA, "synthetic:64x64"
    chat = forecast_of(asked(folder, Task.CHAT, lora, size=8, train=length)).parts
    preference = forecast_of(asked(folder, Task.PREFERENCE, lora, size=4, train=length)).parts
    assert preference.activations == pytest.approx(chat.activations, rel=0.1)


def by_formula(vocabulary: int) -> Forecast:
    options = RunOptions(
        task=Task.CAUSAL_LM,
        model=ModelOptions(source="scratch:llama-tiny", vocabulary=vocabulary),
        data=DataOptions(train="synthetic:64x128", max_length=128),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=4),
    )
    report = check_model(options)
    assert report.shape is not None
    device = resolve_run(gather(with_compilers=False), options).device
    return estimate.forecast(options, report.shape, device, length=128)


def test_every_token_it_can_say_takes_memory_at_every_place():
    small, large = by_formula(1_000), by_formula(11_000)
    places = 4 * 128
    assert large.parts.activations - small.parts.activations == 4 * 10_000 * places
    assert large.parts.temporary - small.parts.temporary > 7 * 10_000 * places


def test_rows_of_a_text_are_as_long_as_is_allowed(tmp_path):
    llama = save_tiny_llama(tmp_path / "llama")
    data = DataOptions(train=str(write_text(tmp_path / "text.txt")), max_length=48)
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source=str(llama)), data=data)
    config = text.load_config(options)
    assert longest_row(options, config, None).tokens == 48
    assert longest_row(options, config, text.load_tokenizer(str(llama))).tokens == 48
