"""The whole chain with nothing faked: command line, keeper, engine, torch. One long run, looked at from all sides."""

from collections.abc import Iterable
from subprocess import CompletedProcess
from typing import NamedTuple, TypeVar

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

DIGITS = ROOT / "resources" / "examples" / "digits.hone"
MRPC = ROOT / "resources" / "examples" / "mrpc.hone"
EPOCHS = 2
STEPS = 90
"""Two epochs of 1,438 digits in batches of 32; the example has five."""

Kind = TypeVar("Kind")

pytestmark = pytest.mark.timeout(900)  # half a minute on two idle cores; behind everybody else on busy ones


class Trained(NamedTuple):
    """A run that was trained through the command line, and what the command said."""

    done: CompletedProcess[str]
    run: RunFolder

    def events(self, kind: type[Kind]) -> list[Kind]:
        return only(kind, EventReader(self.run.events_file).read_all())


def only(kind: type[Kind], events: Iterable[object]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The first example, cut short: the one long run of the tests."""
    folder = tmp_path_factory.mktemp("digits") / "run"
    short = ("--set", f"training.epochs={EPOCHS}")
    return Trained(hone("train", str(DIGITS), "--run-dir", str(folder), "--json", *short), RunFolder(folder))


def test_the_first_example_finishes_and_reads_digits(digits):
    assert digits.done.returncode == 0, digits.done.stderr
    (finished,) = digits.events(RunFinished)
    assert finished.state is Outcome.FINISHED
    assert finished.steps == STEPS
    assert finished.metrics["eval_accuracy"] >= 0.9
    assert f"Finished after {STEPS} steps" in digits.done.stderr
    assert read_status(digits.run).messages == {}


def test_every_step_is_told_once_on_standard_output_too(digits):
    steps = list(range(1, STEPS + 1))
    assert [event.step for event in digits.events(StepFinished)] == steps
    told = [msgspec.json.decode(line) for line in digits.done.stdout.splitlines()]
    assert [event["step"] for event in told if event["type"] == "step_finished"] == steps
    assert [event.step for event in digits.events(Evaluated)] == [45, STEPS]


def test_the_last_checkpoint_is_sealed(digits):
    (checkpoint,) = digits.run.checkpoints.iterdir()
    assert checkpoint.name == f"checkpoint-{STEPS}"
    assert is_complete(checkpoint)
    listed = set(msgspec.json.decode((checkpoint / "complete.json").read_bytes()))
    assert listed >= {
        "model.safetensors",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "trainer_state.json",
    }
    assert {path.name for path in checkpoint.iterdir()} == listed | {"complete.json"}


def test_the_model_can_be_used_without_hone(digits):
    assert {path.name for path in digits.run.model.iterdir()} == {"hone.json", "model.safetensors"}
    told = msgspec.json.decode((digits.run.model / "hone.json").read_bytes())
    assert told["architecture"] == "torchvision:resnet18"
    assert told["labels"] == [str(digit) for digit in range(10)]
    assert told["image_size"] == 32
    with safe_open(digits.run.model / "model.safetensors", framework="numpy") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118 - no mapping
    assert [10, 512] in shapes  # ResNet-18's head for ten classes


def test_what_ran_is_told(digits):
    (ran,) = digits.events(WhatRan)
    (plan,) = digits.events(RunPlanned)
    assert ran.device == plan.device
    assert ran.parameter_dtype == "float32"
    assert "AdamW" in ran.optimizer
    assert ran.total_parameters == ran.trainable_parameters == 11_181_642
    assert ran.optimizer_state_bytes >= 2 * 4 * ran.total_parameters  # two moments in fp32
    assert ran.effective_batch == 32
    left_to_hone = {"device.name", "device.precision", "device.threads", "data.pin_memory", "data.workers"}
    assert set(ran.reasons) == left_to_hone


def test_the_keeper_watched_the_memory(digits):
    samples = only(MemorySampled, EventReader(digits.run.machine_file).read_all())
    held = [sample.bytes for sample in samples if sample.source is Source.PROCESS]
    whole = [sample for sample in samples if sample.source is Source.SYSTEM]
    assert len(held) >= 5
    assert max(held) > 200 << 20  # torch alone
    assert all(0 < sample.bytes <= sample.ceiling for sample in whole)


def test_the_log_tells_the_story(digits):
    log = digits.run.log_file.read_text()
    assert "builtin:digits" in log
    assert f"Step {STEPS} of {STEPS}" in log


def test_the_run_is_listed_as_finished(digits):
    summary = summarize(digits.run)
    assert (summary.state, summary.title) == (State.FINISHED, "Handwritten digits")
    assert summary.metric == "eval_accuracy"
    assert summary.best is not None
    assert summary.best >= 0.9
    assert summary.peak_bytes is not None
    assert summary.peak_bytes > 200 << 20
    exit_record = digits.run.exit_record()
    assert exit_record is not None
    assert (exit_record.code, exit_record.signal) == (0, None)


@pytest.mark.long
@pytest.mark.data
def test_a_slice_of_mrpc_trains_a_pretrained_text_model(shared_data, minilm, tmp_path):
    settings = {
        "model.source": minilm,
        "data.train": shared_data / "mrpc" / "msr_paraphrase_train.txt",
        "data.eval": shared_data / "mrpc" / "msr_paraphrase_test.txt",
        "data.max_train_samples": 96,
        "data.max_eval_samples": 64,
        "training.epochs": 1,
        "output.keep_checkpoints": 0,
        "output.predictions": 0,
    }
    pairs = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
    folder = tmp_path / "run"
    trained = Trained(hone("train", str(MRPC), "--run-dir", str(folder), *pairs), RunFolder(folder))
    assert trained.done.returncode == 0, trained.done.stderr
    assert [event.step for event in trained.events(StepFinished)] == [1, 2, 3]
    (plan,) = trained.events(RunPlanned)
    assert (plan.train_samples, plan.eval_samples) == (96, 64)
    (evaluated,) = trained.events(Evaluated)
    assert 0.5 < evaluated.metrics["eval_accuracy"] <= 1
    assert 0.5 < evaluated.metrics["eval_f1"] <= 1
    assert evaluated.metrics["eval_loss"] < 1
    assert (trained.run.model / "tokenizer.json").is_file()


@pytest.mark.parametrize("content", ["", "text,label\n"])
def test_what_is_wrong_with_the_data_comes_back_as_a_refusal(content, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(content)
    done = hone("inspect", str(path))
    assert done.returncode == 1
    assert "data.csv" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
