"""What Hone adds to Trainer's loop, on a model of one layer."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from core.base.errors import UserError
from core.engine.data.batches import stack
from core.engine.devices.memory import DeviceMemory
from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.sections import DeviceOptions, MemoryOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import (
    CheckpointSaved,
    Evaluated,
    Event,
    MessageRaised,
    Phase,
    PhaseChanged,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    StepFinished,
    WhatRan,
)
from core.runs.folder import Action, RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.trained_runs import attempt, short_run, story_of
from tests.fakes.training import model, resolved, reviews, write_reviews

prepare_torchvision()

from transformers import TrainerCallback, TrainingArguments  # noqa: E402 - torchvision must be prepared first

from core.engine.models.vision import VisionClassifier  # noqa: E402
from core.engine.training.arguments import trainer_arguments  # noqa: E402
from core.engine.training.callbacks import ReportCallback, RequestCallback, StepLog, epochs_of  # noqa: E402
from core.engine.training.requests import EndRequested, RequestBox  # noqa: E402
from core.engine.training.trainer import WatchedTrainer  # noqa: E402
from core.engine.training.what_ran import differences, what_ran  # noqa: E402


def samples(count: int, value: float | None = None) -> list[dict[str, Any]]:
    drawn = torch.Generator().manual_seed(3)
    made = []
    for row in range(count):
        pixels = torch.rand((3, 2, 2), generator=drawn) if value is None else torch.full((3, 2, 2), value)
        made.append({"pixel_values": pixels, "labels": row % 2})
    return made


class Training:
    """A trainer with Hone's callbacks on a folder of its own."""

    def __init__(self, folder: Path, train: list[dict[str, Any]], **training: Any) -> None:
        self.run = RunFolder(folder)
        self.reporter = Reporter(self.run)
        self.requests = RequestBox(self.run, self.reporter)
        self.options = RunOptions(
            task=Task.IMAGE_CLASSIFICATION,
            device=DeviceOptions(precision=Precision.FP32),
            memory=MemoryOptions(batch_size=4),
            training=TrainingOptions(**{"epochs": 2.0, "learning_rate": 0.1, **training}),
            output=OutputOptions(keep_checkpoints=1),
        )
        torch.manual_seed(0)
        model = VisionClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2)))
        arguments = trainer_arguments(resolved(self.options), self.run.checkpoints, has_eval=True)
        self.trainer = WatchedTrainer(
            model=model,
            args=TrainingArguments(**arguments),
            train_dataset=train,
            eval_dataset=samples(4),
            data_collator=stack,
        )
        self.log = StepLog(self.reporter, DeviceMemory("cpu"))
        self.trainer.add_callback(
            ReportCallback(self.trainer, resolved(self.options), self.log, ("no", "yes"))
        )
        self.trainer.add_callback(RequestCallback(self.requests, self.trainer, self.reporter))

    def events(self, kind: type) -> list[Any]:
        return [event for event in EventReader(self.run.events_file).read_all() if isinstance(event, kind)]


def test_every_step_is_told_with_its_figures(tmp_path):
    training = Training(tmp_path, samples(10))
    training.trainer.train()
    steps = training.events(StepFinished)
    assert [event.step for event in steps] == [1, 2, 3, 4, 5, 6]
    assert [event.samples for event in steps] == [4, 4, 2, 4, 4, 2]
    assert steps[0].learning_rate == pytest.approx(0.1)  # the rate that was used, not the next one
    assert steps[-1].learning_rate == pytest.approx(0.1 / 6)
    assert all(event.loss is not None and event.grad_norm is not None for event in steps)
    [plan] = training.events(RunPlanned)
    assert (plan.total_steps, plan.epochs, plan.train_samples, plan.eval_samples) == (6, 2.0, 10, 4)
    assert training.log.samples_per_second is not None
    assert training.log.samples_per_second > 0


def test_a_checkpoint_is_being_saved_from_before_it_is_written(tmp_path):
    training = Training(tmp_path, samples(8))
    training.trainer.train()
    told = [
        event.phase if isinstance(event, PhaseChanged) else type(event)
        for event in EventReader(training.run.events_file).read_all()
        if isinstance(event, PhaseChanged | StepFinished | CheckpointSaved)
    ]
    steps, saving = [Phase.TRAINING, StepFinished, StepFinished], [Phase.SAVING, CheckpointSaved]
    assert told == [*steps, Phase.EVALUATING, Phase.TRAINING, *saving, *steps, Phase.EVALUATING, *saving]


@pytest.mark.parametrize(("steps", "is_told"), [(60, False), (63, True)])
def test_more_epochs_than_are_worth_their_time_are_told(tmp_path, steps, is_told):
    training = Training(tmp_path, samples(10), max_steps=steps)  # 3 steps an epoch
    training.trainer.train()
    assert ("many-epochs" in [message.id for message in training.events(MessageRaised)]) == is_told


def test_what_ran_is_read_from_the_live_objects(tmp_path):
    training = Training(tmp_path, samples(10))
    training.trainer.train()
    [ran] = training.events(WhatRan)
    parameters = 12 * 2 + 2
    assert (ran.trainable_parameters, ran.total_parameters) == (parameters, parameters)
    two_moments = 2 * 4 * parameters
    assert ran.optimizer_state_bytes == pytest.approx(two_moments, abs=16)  # and step counts
    assert (ran.optimizer, ran.parameter_dtype, ran.autocast_dtype) == ("AdamW, fused", "float32", None)
    assert training.trainer.last_step == (2, 1)  # what a run has first that continues from step 5
    after = what_ran(training.trainer, resolved(training.options))
    assert (ran.effective_batch, after.effective_batch) == (4, 4)
    assert differences(training.options, after) == differences(training.options, ran)


def test_fewer_samples_than_a_batch_are_told_as_they_are(tmp_path):
    training = Training(tmp_path, samples(3))
    training.trainer.train()
    [ran] = training.events(WhatRan)
    assert ran.effective_batch == 3


def test_one_sealed_checkpoint_is_kept(tmp_path):
    training = Training(tmp_path, samples(8))
    training.trainer.train()
    assert [event.step for event in training.events(CheckpointSaved)] == [2, 4]
    assert [folder.name for folder in training.run.checkpoints.iterdir()] == ["checkpoint-4"]
    assert (training.run.checkpoints / "checkpoint-4" / "complete.json").is_file()


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_remedy(tmp_path):
    training = Training(tmp_path, samples(4, value=float("nan")), epochs=50.0)
    with pytest.raises(UserError, match="no longer a number") as ended:
        training.trainer.train()
    assert ended.value.fixes[0].changes == {"training.learning_rate": 0.01}
    told = training.events(StepFinished)
    assert told
    assert all(event.non_finite == "nan" and event.loss is None for event in told)


def test_a_stop_ends_after_the_step_with_a_checkpoint_and_without_an_evaluation(tmp_path):
    training = Training(tmp_path, samples(40))
    training.run.request(Action.STOP)
    training.trainer.train()
    training.log.flush()
    assert [event.step for event in training.events(StepFinished)] == [1]
    assert [event.accepted for event in training.events(RequestAnswered)] == [True]
    assert [event.step for event in training.events(CheckpointSaved)] == [1]
    assert training.events(Evaluated) == []
    assert training.run.open_requests() == []


class SaveTwice(TrainerCallback):
    """Asks for a checkpoint at the end of an epoch, and once more while that step is evaluated."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 1:
            self._run.request(Action.SAVE)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            self._run.request(Action.SAVE)


def test_who_asks_for_a_checkpoint_that_is_there_already_hears_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("core.engine.training.requests.POLL_INTERVAL", 0.0)
    training = Training(tmp_path, samples(8))
    training.trainer.add_callback(SaveTwice(training.run))
    training.trainer.train()
    heard = [
        event.step if isinstance(event, CheckpointSaved) else event.accepted
        for event in EventReader(training.run.events_file).read_all()
        if isinstance(event, CheckpointSaved | RequestAnswered)
    ]
    assert heard == [True, 2, True, 2, 4]
    first, again, _ = training.events(CheckpointSaved)
    assert (first.path, first.bytes) == (again.path, again.bytes)


def test_a_stop_interrupts_an_evaluation(tmp_path):
    training = Training(tmp_path, samples(4))
    training.run.request(Action.STOP)
    with pytest.raises(EndRequested):
        training.trainer.evaluate()
    assert training.events(Evaluated) == []
    assert [event.accepted for event in training.events(RequestAnswered)] == [True]


def test_a_warm_up_longer_than_the_run_ends_it_before_its_first_step(tmp_path):
    training = Training(tmp_path, samples(8), warmup=100.0)
    with pytest.raises(UserError, match="longer than the run") as refused:
        training.trainer.train()
    assert refused.value.fixes[0].changes == {"training.warmup": 0.1}
    assert training.events(StepFinished) == []


def test_the_last_step_of_a_pass_may_have_fewer_batches():
    assert epochs_of(2, 7, 3) == pytest.approx(6 / 7)
    assert epochs_of(3, 7, 3) == 1.0
    assert epochs_of(5, 7, 3) == pytest.approx(1 + 6 / 7)


def test_an_attempt_ends_with_how_long_it_lasted_whatever_the_clock_was_set_to(monkeypatch):
    reporter, heard = Reporter(None), list[Event]()
    reporter.listeners.append(heard.append)
    reporter.start({})
    began, since = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: began - 7200)
    monkeypatch.setattr(time, "monotonic", lambda: since + 60)
    reporter.fail(UserError("No disk"))
    assert isinstance(heard[-1], RunFinished)
    assert heard[-1].worked == pytest.approx(60, abs=5)


def evaluated(step: int, **metrics: float) -> dict[str, float]:
    return {"step": step, "eval_loss": 1.0, **metrics}


def test_the_best_is_the_first_of_equals_by_the_metric_a_run_is_judged_by():
    from core.engine.training.callbacks import (
        best_step,  # transformers, which torchvision is prepared for by the fakes
    )

    log = [
        {"step": 1, "loss": 9.0},
        evaluated(2, eval_accuracy=0.5),
        evaluated(4, eval_accuracy=0.9),
        evaluated(6, eval_accuracy=0.9),
        evaluated(8, eval_accuracy=float("nan")),
    ]
    assert best_step(log) == 4
    assert best_step([evaluated(2, eval_perplexity=9.0), evaluated(4, eval_perplexity=3.0)]) == 4
    assert best_step([{"step": 1, "loss": 9.0}]) is None


def test_the_best_is_kept_and_becomes_the_model(tmp_path):
    """A rate at which it soon gets worse: the last evaluation is not the best."""
    options = short_run(
        model=model(save_tiny_bert(tmp_path / "bert")),
        data=reviews(write_reviews(tmp_path / "reviews.csv", 24), eval_fraction=0.25),
        memory=MemoryOptions(batch_size=8),
        training=TrainingOptions(epochs=5.0, learning_rate=0.05),
        output=OutputOptions(keep_checkpoints=1, keep_best=True, predictions=0),
    )
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options) == 0
    status = story_of(run)
    judged = {step: metrics["eval_accuracy"] for step, metrics in status.evaluations.items()}
    best = next(step for step, value in judged.items() if value == max(judged.values()))
    last = max(judged)
    assert best != last
    kept = {folder.name for folder in run.checkpoints.iterdir()}
    assert kept == {f"checkpoint-{best}", f"checkpoint-{last}"}
    trained = load_file(run.model / "model.safetensors")
    assert_same(trained, load_file(run.checkpoints / f"checkpoint-{best}" / "model.safetensors"))
    assert status.last is not None
    assert status.last.metrics["eval_accuracy"] == judged[best]
    assert any(told.id == "best-kept" for told in status.of(MessageRaised))


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
