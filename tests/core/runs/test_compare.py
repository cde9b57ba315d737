from pathlib import Path

import msgspec
import pytest

from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.compare import Absent, compare, differing_options
from core.runs.events import Evaluated, Outcome, RunFinished, RunPlanned, RunStarted, StepFinished, WhatRan
from core.runs.folder import RunFolder
from core.runs.library import create
from tests.fakes.runs import digits_options, write_events

PLAIN = digits_options()
OTHER = msgspec.structs.replace(
    PLAIN,
    memory=MemoryOptions(batch_size=4),
    training=TrainingOptions(epochs=2.0),
    output=OutputOptions(name="Another"),
)


def paths(*asked: RunOptions | None) -> dict[str, tuple[object, ...]]:
    return {row.option.path: row.values for row in differing_options(asked)}


def test_only_what_differs_with_defaults_filled_in():
    assert paths(PLAIN, OTHER, PLAIN) == {
        "memory.batch_size": (PLAIN.memory.batch_size, 4, PLAIN.memory.batch_size),
        "training.epochs": (PLAIN.training.epochs, 2.0, PLAIN.training.epochs),
    }
    assert paths(PLAIN, PLAIN) == {}


def test_an_option_that_means_nothing_to_a_run_is_no_value_of_it():
    texts = msgspec.structs.replace(PLAIN, task=Task.TEXT_CLASSIFICATION)
    assert paths(PLAIN, texts)["data.image_size"][1] is Absent.NO_MEANING


def test_pretrained_weights_mean_nothing_to_a_model_from_scratch():
    scratch, loaded = (
        msgspec.structs.replace(
            PLAIN, task=Task.CAUSAL_LM, model=ModelOptions(source=source, pretrained=is_pretrained)
        )
        for source, is_pretrained in (("scratch:llama-tiny", True), ("gpt2", False))
    )
    found = paths(scratch, loaded)
    assert found["model.pretrained"] == (Absent.NO_MEANING, False)
    assert found["model.vocabulary"] == (1024, Absent.NO_MEANING)


def test_a_run_file_that_cant_be_read_differs_in_nothing_known():
    assert paths(PLAIN, None) == {}
    assert paths(PLAIN, None, OTHER)["memory.batch_size"] == (PLAIN.memory.batch_size, Absent.UNREADABLE, 4)


def written(folder: Path, options: RunOptions, torch: str, device: str, *, ends: bool) -> RunFolder:
    run = create(options, folder)
    write_events(
        run.events_file,
        RunStarted(time=100, versions={"torch": torch, "python": "3.11"}),
        RunPlanned(
            total_steps=9,
            epochs=1,
            train_samples=9,
            eval_samples=1,
            effective_batch=8,
            device="cpu",
            time=101,
        ),
        WhatRan(
            time=102,
            device="cpu",
            device_name=device,
            parameter_dtype="float32",
            autocast_dtype=None,
            optimizer="AdamW",
            optimizer_state_bytes=80,
            trainable_parameters=10,
            total_parameters=10,
            effective_batch=8,
        ),
        StepFinished(step=5, epoch=1, seconds=0.5, learning_rate=1, samples=8, loss=0.5, time=103),
        Evaluated(step=5, epoch=1, metrics={"eval_accuracy": 0.9}, seconds=1, time=104),
        *(
            [RunFinished(state=Outcome.FINISHED, time=160, steps=9, peak_bytes=70, samples_per_second=33)]
            if ends
            else []
        ),
    )
    return run


@pytest.fixture
def runs(tmp_path):
    return [
        written(tmp_path, PLAIN, "2.13.0", "One CPU", ends=True),
        written(tmp_path, OTHER, "2.12.0", "Another CPU", ends=False),
    ]


def test_results_machines_and_versions(runs):
    found = compare(runs)
    assert [summary.title for summary in found.runs] == ["Digits", "Another"]
    first, second = found.runs
    assert (first.metric, first.best, first.seconds, first.peak_bytes) == ("eval_accuracy", 0.9, 60, 70)
    assert (first.samples_per_second, first.steps) == (33, 9)
    assert (second.samples_per_second, second.steps) == (16, 5)  # eight samples in half a second
    ran = {row.title: row.values for row in found.ran}
    assert ran["Version of torch"] == ("2.13.0", "2.12.0")
    assert ran["Device"] == ("CPU (One CPU)", "CPU (Another CPU)")
    assert "Version of python" not in ran
    assert "Optimizer" not in ran


def test_a_folder_with_nothing_in_it_is_compared_as_far_as_it_goes(runs, tmp_path):
    (tmp_path / "empty").mkdir()
    found = compare([runs[0], RunFolder(tmp_path / "empty")])
    assert (found.options, found.ran) == ((), ())
    assert found.runs[1].best is None
