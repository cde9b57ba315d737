"""What Hone adds to Trainer's loop, on a model of one layer."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    TrainerCallback,
    TrainingArguments,
)

from core.base.errors import UserError
from core.engine.data.batches import stack
from core.engine.models.vision import VisionClassifier
from core.engine.reporter import Reporter
from core.engine.run import log
from core.engine.run.failures import Diverged
from core.engine.run.log import RunLog
from core.engine.run.requests import RequestBox
from core.engine.tasks import Prepared
from core.engine.training.arguments import trainer_arguments
from core.engine.training.callbacks import ReportCallback, RequestCallback, epochs_of, fetched
from core.engine.training.failures import explain
from core.engine.training.resuming import Resuming
from core.engine.training.step import StepFigures
from core.engine.training.trainer import WatchedTrainer
from core.engine.training.what_ran import what_ran
from core.options.choices import Task
from core.runs.event_log import EventReader
from core.runs.events import (
    Action,
    CheckpointSaved,
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
from core.runs.folder import RunFolder
from core.runs.status import PredictionLog
from tests.fakes.models import save_tiny_bert
from tests.fakes.trained_runs import attempt, story_of
from tests.fakes.training import resolved, run_options, write_reviews


def samples(count: int, value: float = 0.5) -> list[dict[str, Any]]:
    return [{"pixel_values": torch.full((3, 2, 2), value), "labels": row % 2} for row in range(count)]


class Training:
    """A trainer with Hone's callbacks on a folder of its own."""

    def __init__(self, folder: Path, train: list[dict[str, Any]], **training: Any) -> None:
        self.run = RunFolder(folder)
        reporter = Reporter(self.run)
        usual = {"batch_size": 4, "epochs": 2.0, "learning_rate": 0.1, "keep_checkpoints": 1}
        self.resolved = resolved(run_options(Task.IMAGE_CLASSIFICATION, **{**usual, **training}))
        network = VisionClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2)))
        arguments = trainer_arguments(self.resolved, self.run.checkpoints, has_eval=True)
        step = StepFigures(self.resolved, reporter)
        self.log = RunLog(reporter, self.resolved.options, step.parts, fetched)
        resuming = Resuming("cpu", begin_saving=self.log.begin_saving)
        prepared = Prepared(network, train, samples(4), stack, lambda _: None, labels=("no", "yes"))
        self.trainer = WatchedTrainer(
            model=network,
            args=TrainingArguments(**arguments),
            train_dataset=train,
            eval_dataset=prepared.eval,
            data_collator=stack,
            step=step,
            resuming=resuming,
        )
        ran = partial(what_ran, self.trainer, self.resolved)
        report = ReportCallback(self.log, step, resuming, self.resolved, prepared, what_ran=ran)
        self.trainer.add_callback(report)
        self.trainer.add_callback(RequestCallback(RequestBox(self.run, reporter), resuming, self.log))

    def events(self, *kinds: type) -> list[Any]:
        return [event for event in EventReader(self.run.events_file).read_all() if isinstance(event, kinds)]


def test_a_run_reports_its_plan_steps_phases_checkpoints_and_what_ran(tmp_path):
    training = Training(tmp_path, samples(10))
    training.trainer.train()
    [plan] = training.events(RunPlanned)
    assert (plan.total_steps, plan.epochs, plan.train_samples, plan.eval_samples) == (6, 2.0, 10, 4)

    steps = training.events(StepFinished)
    assert [(event.step, event.samples) for event in steps] == list(
        zip(range(1, 7), (4, 4, 2) * 2, strict=True)
    )
    assert steps[0].learning_rate == pytest.approx(0.1)  # the rate that was used, not the next one
    assert steps[-1].learning_rate == pytest.approx(0.1 / 6)
    assert all(event.loss is not None and event.grad_norm is not None for event in steps)
    assert training.log.samples_per_second is not None

    order = [
        event.phase if isinstance(event, PhaseChanged) else type(event)
        for event in training.events(PhaseChanged, StepFinished, CheckpointSaved)
    ]
    epoch, saving = [Phase.TRAINING, *[StepFinished] * 3, Phase.EVALUATING], [Phase.SAVING, CheckpointSaved]
    assert order == [*epoch, Phase.TRAINING, *saving, *epoch, *saving]
    assert [event.step for event in training.events(CheckpointSaved)] == [3, 6]
    assert [folder.name for folder in training.run.checkpoints.iterdir()] == ["checkpoint-6"]


def test_a_run_that_pauses_says_no_more_that_it_trains_once_it_saves(tmp_path):
    training = Training(tmp_path, samples(10))
    training.run.request(Action.PAUSE)
    training.trainer.train()
    phases = [event.phase for event in training.events(PhaseChanged)]
    assert [event.step for event in training.events(CheckpointSaved)] == [1]
    assert phases == [Phase.TRAINING, Phase.SAVING]

    [ran] = training.events(WhatRan)
    parameters = 12 * 2 + 2
    assert (ran.trainable_parameters, ran.total_parameters) == (parameters, parameters)
    assert ran.optimizer_state_bytes == pytest.approx(
        2 * 4 * parameters, abs=16
    )  # two moments, and step counts
    assert (ran.optimizer, ran.parameter_dtype, ran.autocast_dtype) == ("AdamW, fused", "float32", None)
    after_the_smaller_step = what_ran(training.trainer, training.resolved)  # where a resumed run may begin
    assert (ran.effective_batch, after_the_smaller_step.effective_batch) == (4, 4)


def test_an_evaluation_reports_how_many_batches_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "PROGRESS_SECONDS", 0.0)
    training = Training(tmp_path, samples(10))
    training.trainer.evaluate()
    details = [event.detail for event in training.events(PhaseChanged) if event.phase is Phase.EVALUATING]
    assert (details[0], details[-1]) == ("", f"{len(details) - 1}/{len(details) - 1}")


def test_fewer_samples_than_a_batch_are_stated_and_many_epochs_of_them_noted(tmp_path):
    training = Training(tmp_path, samples(3), max_steps=21)
    training.trainer.train()
    assert [event.effective_batch for event in training.events(WhatRan)] == [3]
    assert "many-epochs" in [message.id for message in training.events(MessageRaised)]


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_remedy(tmp_path):
    training = Training(tmp_path, samples(4, value=float("nan")), epochs=50.0)
    with pytest.raises(Diverged, match="NaN or infinite") as ended:
        training.trainer.train()
    told = explain(ended.value, run_options(learning_rate=0.001))
    assert told.title == "The loss is no longer a number"
    assert [fix.changes for fix in told.fixes] == [{"training.learning_rate": 2e-5}]
    steps = training.events(StepFinished)
    assert steps
    assert all(event.non_finite == "nan" and event.loss is None for event in steps)


def test_a_warm_up_longer_than_the_run_ends_it_before_its_first_step(tmp_path):
    training = Training(tmp_path, samples(8), warmup=100.0)
    with pytest.raises(UserError, match="never reached") as refused:
        training.trainer.train()
    assert refused.value.fixes[0].changes == {"training.warmup": 0.1}
    assert training.events(StepFinished) == []


def test_each_request_for_a_checkpoint_is_answered_with_one_also_if_it_exists_already(tmp_path, monkeypatch):
    class SavingTwice(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1:
                training.run.request(Action.SAVE)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                training.run.request(Action.SAVE)

    training = Training(tmp_path, samples(8))
    training.trainer.add_callback(SavingTwice())
    training.trainer.train()
    answers = [
        event.step if isinstance(event, CheckpointSaved) else event.accepted
        for event in training.events(CheckpointSaved, RequestAnswered)
    ]
    assert answers == [True, 2, True, 2, 4]
    first, again, _ = training.events(CheckpointSaved)
    assert (first.path, first.bytes) == (again.path, again.bytes)


def test_the_last_step_of_an_epoch_may_have_fewer_batches():
    epochs = [epochs_of(steps, 7, 3) for steps in (2, 3, 5)]
    assert epochs == pytest.approx([6 / 7, 1.0, 1 + 6 / 7])


def test_an_attempt_ends_with_how_long_it_lasted_whatever_the_clock_was_set_to(monkeypatch):
    reporter, events = Reporter(None), list[Event]()
    reporter.listeners.append(events.append)
    reporter.start({})
    began, since = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: began - 7200)
    monkeypatch.setattr(time, "monotonic", lambda: since + 60)
    reporter.fail(UserError("No disk"))
    assert isinstance(events[-1], RunFinished)
    assert events[-1].worked == pytest.approx(60, abs=5)


# --- The best model


def test_the_best_checkpoint_is_kept_and_becomes_the_model(tmp_path):
    """A rate at which it soon gets worse: the last evaluation is not the best."""
    options = run_options(
        source=save_tiny_bert(tmp_path / "bert"),
        train=write_reviews(tmp_path / "reviews.csv", 24),
        eval_fraction=0.25,
        epochs=3.0,
        learning_rate=0.05,
        keep_checkpoints=1,
        keep_best=True,
        predictions=0,
    )
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options) == 0
    status = story_of(run)
    accuracies = {step: metrics["eval_accuracy"] for step, metrics in status.evaluations.items()}
    best = max(accuracies, key=lambda step: accuracies[step])
    assert best != max(accuracies)
    kept = {folder.name for folder in run.checkpoints.iterdir()}
    assert kept == {f"checkpoint-{best}", f"checkpoint-{max(accuracies)}"}
    trained = load_file(run.model / "model.safetensors")
    saved = load_file(run.checkpoints / f"checkpoint-{best}" / "model.safetensors")
    assert all(torch.equal(trained[name], weight) for name, weight in saved.items())
    assert status.last is not None
    assert status.last.metrics["eval_accuracy"] == accuracies[best]
    validation = run.validation()
    assert validation is not None
    assert validation.step == best, "the examples are those of the model"
    predictions = PredictionLog()
    predictions.apply_all(EventReader(run.events_file).read_all())
    assert [one.step for one in predictions.confusions] == sorted(accuracies)
    assert predictions.confusion.step == best, "and so is the matrix"
