"""The whole chain with nothing faked: command line, keeper, engine, torch. One long run, seen from all sides."""

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from safetensors import safe_open

from core.runs.event_log import EventReader
from core.runs.events import (
    Evaluated,
    MemorySampled,
    Outcome,
    RunFinished,
    RunPlanned,
    Source,
    StepFinished,
    WhatRan,
)
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.models import is_complete
from core.runs.status import State
from core.runs.summary import summarize
from tests.fakes.jobs import ROOT, hone

EXAMPLES = ROOT / "resources" / "examples"
STEPS = 90
"""Two epochs of 1,438 digits in batches of 32; the example has five."""

Kind = TypeVar("Kind")

pytestmark = pytest.mark.timeout(900)  # half a minute on two idle cores


def events(path: Path, kind: type[Kind]) -> list[Kind]:
    return [event for event in EventReader(path).read_all() if isinstance(event, kind)]


def test_the_first_example_is_trained_watched_saved_and_listed(tmp_path):
    run = RunFolder(tmp_path / "run")
    digits = str(EXAMPLES / "digits.hone")
    done = hone("train", digits, "--run-dir", str(run.path), "--json", "--set", "training.epochs=2")
    assert done.returncode == 0, done.stderr

    # each step is an event, also on standard output
    steps = list(range(1, STEPS + 1))
    printed = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert [event.step for event in events(run.events_file, StepFinished)] == steps
    assert [event["step"] for event in printed if event["type"] == "step_finished"] == steps
    assert [event.step for event in events(run.events_file, Evaluated)] == [45, STEPS]
    (finished,) = events(run.events_file, RunFinished)
    assert (finished.state, finished.steps) == (Outcome.FINISHED, STEPS)
    assert finished.metrics["eval_accuracy"] >= 0.9
    assert f"Finished after {STEPS} steps" in done.stderr
    assert f"Step {STEPS} of {STEPS}" in run.log_file.read_text()
    assert read_status(run).messages == {}

    # what ran is read from the live objects
    (ran,), (plan,) = events(run.events_file, WhatRan), events(run.events_file, RunPlanned)
    assert (ran.device, ran.parameter_dtype, ran.effective_batch) == (plan.device, "float32", 32)
    assert "AdamW" in ran.optimizer
    assert ran.total_parameters == ran.trainable_parameters == 11_181_642
    assert ran.optimizer_state_bytes >= 2 * 4 * ran.total_parameters, "two moments in fp32"
    left_to_hone = {
        "device.name",
        "device.backend",
        "device.precision",
        "device.threads",
        "data.pin_memory",
        "data.workers",
    }
    assert set(ran.reasons) == left_to_hone

    # the last checkpoint is complete, and the model can be used without Hone
    (checkpoint,) = run.checkpoints.iterdir()
    assert (checkpoint.name, is_complete(checkpoint)) == (f"checkpoint-{STEPS}", True)
    listed = set(msgspec.json.decode((checkpoint / "complete.json").read_bytes()))
    parts = {"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"}
    assert listed >= parts
    assert {path.name for path in checkpoint.iterdir()} == listed | {"complete.json"}
    assert {path.name for path in run.model.iterdir()} == {"hone.json", "model.safetensors"}
    about = msgspec.json.decode((run.model / "hone.json").read_bytes())
    assert (about["architecture"], about["image_size"]) == ("torchvision:resnet18", 32)
    assert about["labels"] == [str(digit) for digit in range(10)]
    with safe_open(run.model / "model.safetensors", framework="numpy") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118 - no mapping
    assert [10, 512] in shapes, "ResNet-18's head for ten classes"

    # the keeper sampled the memory and recorded the end
    samples = events(run.machine_file, MemorySampled)
    held = [sample.bytes for sample in samples if sample.source is Source.PROCESS]
    whole = [sample for sample in samples if sample.source is Source.SYSTEM]
    assert len(held) >= 5
    assert max(held) > 200 << 20, "torch alone"
    assert all(0 < sample.bytes <= sample.ceiling for sample in whole)
    summary, record = summarize(run), run.exit_record()
    assert (summary.state, summary.title) == (State.FINISHED, "Handwritten digits")
    assert (summary.metric, summary.best >= 0.9) == ("eval_accuracy", True)
    assert summary.peak_bytes > 200 << 20
    assert (record.code, record.signal) == (0, None)


@pytest.mark.long
def test_pairs_of_texts_train_a_pretrained_model(data_sets, minilm, tmp_path):
    settings = {
        "model.source": minilm,
        "data.train": data_sets / "pairs-train.txt",
        "data.eval": data_sets / "pairs-test.txt",
        "data.max_train_samples": 96,
        "data.max_eval_samples": 64,
        "training.epochs": 1,
        "output.keep_checkpoints": 0,
        "output.predictions": 0,
    }
    changes = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
    run = RunFolder(tmp_path / "run")
    done = hone("train", str(EXAMPLES / "mrpc.hone"), "--run-dir", str(run.path), *changes)
    assert done.returncode == 0, done.stderr
    assert [event.step for event in events(run.events_file, StepFinished)] == [1, 2, 3]
    (plan,), (evaluated,) = events(run.events_file, RunPlanned), events(run.events_file, Evaluated)
    assert (plan.train_samples, plan.eval_samples) == (96, 64)
    assert 0.5 < evaluated.metrics["eval_accuracy"] <= 1
    assert 0.5 < evaluated.metrics["eval_f1"] <= 1
    assert evaluated.metrics["eval_loss"] < 1
    assert (run.model / "tokenizer.json").is_file()
