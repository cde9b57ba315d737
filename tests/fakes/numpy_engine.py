"""A second engine, on what `core.engine.run` has for any: logistic regression in NumPy, without torch and transformers.

`python -m tests.fakes.numpy_engine train RUN` is Hone's engine process, which chooses this one; with `keep` in place of
`train` it is the keeper that starts that.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from core.engine import __main__ as engine
from core.engine.reporter import Reporter
from core.engine.run import checkpoints
from core.engine.run.attempt import attempt, finish
from core.engine.run.best import best_kept, is_evaluation, stops_early
from core.engine.run.failures import explain, writing
from core.engine.run.log import RunLog
from core.engine.run.predictions import Predictions, ShouldStop
from core.engine.run.requests import EndRequested, RequestBox, on_signals
from core.engine.run.steps import StepOnDevice, StepPart, StepParts
from core.monitor.keeper import Keeper
from core.options import RunOptions
from core.runs.events import Example, Outcome, RunPlanned, Said, StepFinished, WhatRan
from core.runs.folder import RunFolder
from core.runs.models import STATE, Checkpoint

COMMAND = [sys.executable, "-m", "tests.fakes.numpy_engine"]
ROWS, FEATURES, BATCH, AN_EPOCH = 128, 6, 16, 8
WEIGHTS = "model.safetensors"
DATA = f"synthetic:{ROWS}x{FEATURES}"
"""Runs with this data are trained by this engine."""


def train_run(
    run: RunFolder,
    options: RunOptions,
    reporter: Reporter,
    checkpoint: Checkpoint | None = None,
    _why: str = "",
) -> int:
    def train() -> None:
        Regression(run, options, reporter).train(checkpoint)

    return attempt(run, options, reporter, train, lambda error: explain(error, options))


class Regression:
    """A run. Rows are drawn, and features dropped, by random numbers that a resumed run goes on with."""

    def __init__(self, run: RunFolder, options: RunOptions, reporter: Reporter) -> None:
        self.run, self.options = run, options
        self.requests = RequestBox(run, reporter)
        self.log = RunLog(reporter, options, StepParts(None))
        self.random = np.random.default_rng(options.training.seed)
        self.rows = self.random.normal(size=(ROWS, FEATURES))
        self.labels = (self.rows @ np.arange(FEATURES) > 0).astype(float)
        example = Example(given="the first row", expected=str(self.labels[0]))
        self.predictions = Predictions(reporter, self.requests, (example,), self.predict)
        self.weights = np.zeros(FEATURES)
        self.step, self.history = 0, list[dict]()

    def train(self, checkpoint: Checkpoint | None) -> None:
        checkpoints.clean(self.run.checkpoints)
        if checkpoint is not None:
            self.load(checkpoint.path)
        training = self.options.training
        steps = training.max_steps or round(training.epochs * AN_EPOCH)
        counts = {"train_samples": ROWS, "eval_samples": ROWS, "effective_batch": BATCH}
        self.log.plan(RunPlanned(total_steps=steps, epochs=steps / AN_EPOCH, device="cpu", **counts))
        self.predictions.begin()
        start = time.perf_counter()
        with on_signals(self.requests.stop_at_signal):
            try:
                outcome = self.learn(steps)
            except EndRequested as ended:  # while it predicts
                self.save()
                outcome = ended.outcome
            if outcome is not Outcome.PAUSED:
                with writing(self.run.path), checkpoints.replaced(self.run.model) as folder:
                    save_file({"weights": self.weights}, folder / WEIGHTS)
            seconds = time.perf_counter() - start
            finish(
                self.run,
                self.log,
                self.requests,
                outcome,
                self.history,
                step=self.step,
                model_step=self.step,
                seconds=seconds,
            )

    def learn(self, steps: int) -> Outcome:
        self.requests.can_save = True
        told = False
        while True:
            is_best = self.is_due() and self.evaluate()
            ends = self.requests.end_requested()
            if ends or is_best or self.requests.save_requested():
                self.save()
            if ends:
                return self.requests.ending
            if self.step >= steps or stops_early(self.history, self.options.training):
                return Outcome.FINISHED
            self.log.begin_step()
            self.take_step()
            if not told:
                told = True
                self.log.state_what_ran(what_ran(self.weights), ())

    def is_due(self) -> bool:
        """Whether the evaluation after this step is to be made: not if it was, before a pause."""
        is_epoch = self.step > 0 and self.step % AN_EPOCH == 0
        return is_epoch and not any(is_evaluation(entry, self.step) for entry in self.history)

    def take_step(self) -> None:
        parts, rate = self.log.parts, self.options.training.learning_rate
        parts.skip()
        chosen = self.random.integers(ROWS, size=BATCH)
        rows = self.rows[chosen] * (self.random.random((BATCH, FEATURES)) > 0.1)
        parts.lap(StepPart.DATA)
        loss, errors = loss_of(rows @ self.weights, self.labels[chosen])
        parts.lap(StepPart.FORWARD)
        gradient = rows.T @ errors / BATCH
        parts.lap(StepPart.BACKWARD)
        self.weights = self.weights - rate * gradient
        self.step += 1
        parts.lap(StepPart.OPTIMIZER)
        event = StepFinished(
            step=self.step,
            epoch=self.step / AN_EPOCH,
            seconds=self.log.since_mark(),
            learning_rate=rate,
            samples=BATCH,
        )
        self.log.end_step(StepOnDevice(event, losses=[loss], grad_norm=np.linalg.norm(gradient)))

    def evaluate(self) -> bool:
        """Returns whether it was the best evaluation, whose weights are kept."""
        self.predictions.tell(self.step, self.step / AN_EPOCH)  # a pause may interrupt it
        self.log.evaluating(1, 1)
        scores = self.rows @ self.weights
        accuracy = float(((scores > 0) == self.labels).mean())
        metrics = {"eval_loss": float(loss_of(scores, self.labels)[0]), "eval_accuracy": accuracy}
        self.history.append({"step": self.step, **metrics})
        self.log.evaluated(self.step, self.step / AN_EPOCH, metrics, self.log.since_mark(), baseline=0.5)
        return self.options.keeps_best and self.best() == self.step

    def predict(self, _should_stop: ShouldStop) -> tuple[Said, ...]:
        said = float(self.rows[0] @ self.weights > 0)
        return (Said(text=str(said), right=bool(said == self.labels[0])),)

    def best(self) -> int | None:
        by = self.options.training.metric_for_best_model
        return best_kept(self.history, self.step, self.run.checkpoints, by)

    def save(self) -> None:
        self.log.begin_saving()
        with (
            writing(self.run.checkpoints),
            checkpoints.staged(self.run.checkpoints, self.step) as folder,
        ):
            save_file({"weights": self.weights}, folder / WEIGHTS)
            state = {"global_step": self.step, "history": self.history}
            (folder / STATE).write_text(json.dumps({**state, "random": self.random.bit_generator.state}))
        path = self.run.checkpoints / f"checkpoint-{self.step}"
        size = sum(file.stat().st_size for file in path.iterdir())
        self.log.saved(Checkpoint(self.step, path, size), self.best() if self.options.keeps_best else None)
        if self.requests.ending is None:  # it would seem to train on
            self.log.go_on(self.step)

    def load(self, folder: Path) -> None:
        self.weights = load_file(folder / WEIGHTS)["weights"]
        state = json.loads((folder / STATE).read_text())
        self.step, self.history = state["global_step"], state["history"]
        self.random.bit_generator.state = state["random"]


def loss_of(scores: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean cross entropy, and how far each probability is off."""
    with np.errstate(divide="ignore", over="ignore"):  # a loss may be infinite
        likely = 1 / (1 + np.exp(-scores))
        loss = -np.log(np.where(labels > 0, likely, 1 - likely)).mean()
    return loss, likely - labels


def what_ran(weights: np.ndarray) -> WhatRan:
    names = {"device": "cpu", "device_name": "", "parameter_dtype": "float64", "optimizer": "SGD (numpy)"}
    sizes = {"trainable_parameters": weights.size, "total_parameters": weights.size, "effective_batch": BATCH}
    return WhatRan(**names, **sizes, autocast_dtype=None, optimizer_state_bytes=0, optimizer_state={})


def main(job: str, run_dir: str) -> int:
    if job == "keep":
        os.chdir(run_dir)
        return Keeper(RunFolder(Path()), [*COMMAND, "train", "."]).keep().code or 0
    engine.ENGINES.insert(
        0, engine.Engine(lambda options: options.data.train == DATA, lambda _options: train_run)
    )
    return engine.main([job, run_dir])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
