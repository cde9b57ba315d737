"""Two processes train as one does at the same global batch, and pause, resume and fail together; real ones, on gloo."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from msgspec.structs import replace
from transformers import Trainer

from core.base.errors import FixAction, UserError
from core.base.jobs import engine_command
from core.base.processes import child_environment, end_group
from core.engine import train
from core.engine.tasks.metrics import Means
from core.engine.training.failures import require_processes
from core.engine.training.samplers import one_batch_each
from core.options import RunOptions, run_file
from core.options.choices import Task, Toggle
from core.runs.events import (
    Action,
    CheckpointSaved,
    MessageRaised,
    Outcome,
    PhaseChanged,
    RunPlanned,
    WhatRan,
)
from core.runs.folder import RunFolder
from core.runs.models import newest
from tests.core.engine.training.test_resuming import assert_same
from tests.fakes.models import save_tiny_bert, save_tiny_llama, write_text
from tests.fakes.trained_runs import Story, attempt, story_of
from tests.fakes.training import built, run_options, write_reviews

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="several processes are started on Linux here")

SECONDS = 180.0


def texts(folder: Path, **changes: Any) -> RunOptions:
    """Two epochs of four steps, without dropout, in an order by length; five samples to evaluate on."""
    return run_options(
        source=save_tiny_bert(folder / "bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        train=write_reviews(folder / "reviews.csv", 37),
        eval_fraction=5 / 37,
        group_by_length=Toggle.ON,
        epochs=2.0,
        predictions=2,
        **changes,
    )


class Together:
    """A run of the engine in a process of its own, as the keeper starts it."""

    def __init__(self, folder: Path, options: RunOptions) -> None:
        self.run = RunFolder(folder)
        folder.mkdir(exist_ok=True)
        run_file.write(options, self.run.options_file)
        with self.run.log_file.open("ab") as log:
            self.engine = subprocess.Popen(
                engine_command("train", str(folder)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment({"OMP_NUM_THREADS": "1"}),
                process_group=0,
            )

    @property
    def story(self) -> Story:
        return story_of(self.run)

    def until(self, happened: Callable[[Story], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not happened(self.story):
            assert self.engine.poll() is None, self.run.log_file.read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def ranks(self) -> list[psutil.Process]:
        found = []
        for child in psutil.Process(self.engine.pid).children():
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                if child.cmdline()[-2:] == ["train", "."]:
                    found.append(child)
        return sorted(found, key=lambda one: one.pid)

    def end(self, status: int = 0) -> Story:
        """Wait for the end, after which none of its processes may be left."""
        ranks = self.ranks()
        try:
            assert self.engine.wait(SECONDS) == status, self.run.log_file.read_text()[-3000:]
        finally:
            end_group(self.engine.pid)
        _gone, left = psutil.wait_procs(ranks, 10)
        assert not left
        return self.story


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return texts(tmp_path_factory.mktemp("texts"), batch_size=4, processes=2, keep_best=True, eval_steps=4.0)


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """Two processes, never interrupted."""
    run = Together(tmp_path_factory.mktemp("whole") / "run", options)
    run.end()
    return run


def test_two_processes_train_as_one_does_at_the_same_global_batch(options, whole, tmp_path):
    one = replace(
        options,
        device=replace(options.device, processes=1),
        memory=replace(options.memory, batch_size=8),
    )
    assert attempt(tmp_path / "alone", one) == 0
    alone, found = story_of(RunFolder(tmp_path / "alone")), whole.story
    assert len(found.steps) == len(alone.steps) == 8
    for step, (loss, norm, *others) in alone.steps.items():
        assert found.steps[step][:2] == (pytest.approx(loss, abs=1e-6), pytest.approx(norm, abs=1e-5))
        assert [*found.steps[step][2:]] == others
    assert {
        step: pytest.approx(told, abs=1e-6) for step, told in alone.evaluations.items()
    } == found.evaluations
    [plan], [ran] = found.of(RunPlanned), found.of(WhatRan)
    assert (plan.effective_batch, plan.train_samples, plan.eval_samples) == (8, 32, 5)
    assert (ran.parallel, ran.effective_batch, ran.threads) == ("DDP, 2 processes", 8, 1)
    assert "0.02" in ran.reasons["device.processes"], "the rate that linear scaling would take"
    assert not found.messages, "as chosen"
    assert found.last is not None
    assert (found.last.peak_bytes or 0) > 800 << 20, "of both"
    assert whole.run.log_file.read_text().count("Step 8 of 8") == 1


def test_a_pause_of_both_resumes_bit_for_bit_and_not_with_another_number(options, whole, tmp_path):
    run = Together(tmp_path / "run", options)
    run.until(lambda story: story.of(PhaseChanged))
    run.until(lambda story: 2 in story.steps)
    run.run.request(Action.PAUSE)
    paused = run.end()
    assert paused.ended[0] is Outcome.PAUSED
    kept = newest(run.run)
    assert kept is not None
    assert kept.step == paused.ended[1] == paused.of(CheckpointSaved)[-1].step
    states = {path.name for path in kept.path.glob("rng_state_*")}
    assert states == {"rng_state_0.pth", "rng_state_1.pth", "rng_state_order.pth"}
    with pytest.raises(UserError, match="2 processes") as refused:
        require_processes(kept, 1)
    assert refused.value.fixes[0].changes == {"device.processes": 2}
    Together(tmp_path / "run", options).end()
    assert_same(tmp_path / "run", whole.run.path)


def test_processes_wait_for_the_last_one_that_loads(options, tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr(train, "wait_for_all", lambda: plans.append(story_of(run).of(RunPlanned)))
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, replace(options, device=replace(options.device, processes=1))) == 0
    assert plans == [[]], "the first step, in which they would wait for minutes only, comes later"


def test_a_killed_process_ends_both_with_its_reason_and_the_run_goes_on(options, tmp_path):
    longer = replace(options, training=replace(options.training, epochs=200.0))
    run = Together(tmp_path / "run", longer)
    run.until(lambda story: story.of(CheckpointSaved))
    run.ranks()[1].kill()
    killed = time.monotonic()
    failed = run.end(1)
    assert time.monotonic() - killed < 20
    [message] = [one for one in failed.of(MessageRaised) if one.id == "failed"]
    assert message.title.startswith("Process 2 of 2 ended")
    assert "killed by another process" in message.detail
    assert message.fixes[0].action is FixAction.RESUME
    assert failed.ended[0] is Outcome.FAILED
    run = Together(tmp_path / "run", longer)
    run.until(lambda story: len(story.of(WhatRan)) == 2)
    ranks = run.ranks()
    os.killpg(run.engine.pid, 9)  # as the keeper ends an engine
    run.engine.wait()
    assert not psutil.wait_procs(ranks, 10)[1]


@pytest.mark.long
def test_a_stop_while_loading_ends_all(options, tmp_path):
    run = Together(tmp_path / "run", options)
    run.until(lambda story: story.of(PhaseChanged))
    run.run.request(Action.STOP)
    assert run.end().ended == (Outcome.STOPPED, 0)


@pytest.mark.parametrize("batches", [0, 1, 4, 5])
def test_each_process_evaluates_as_many_batches_and_each_batch_is_there(batches):
    made = [[number] for number in range(batches)]
    shares = [[*one_batch_each(made, rank, 3)] for rank in range(3)]  # type: ignore[arg-type]
    assert len({len(share) for share in shares}) == 1
    assert sorted({batch[0] for share in shares for batch in share}) == list(range(batches))


def test_the_loss_of_an_evaluated_batch_is_the_mean_of_its_own_labels(tmp_path, monkeypatch):
    text, seen = write_text(tmp_path / "text.txt"), []
    source = save_tiny_llama(tmp_path / "llama")
    trainer = built(
        run_options(Task.CAUSAL_LM, source=source, train=text, eval_fraction=0.2), tmp_path / "checkpoints"
    )
    trainer.args.average_tokens_across_devices = True

    def compute(self, *_args, **_kwargs):
        seen.append(self.args.average_tokens_across_devices)
        return torch.ones(()), None, None

    monkeypatch.setattr(Trainer, "prediction_step", compute)
    trainer.evaluate()
    assert set(seen) == {False}, "of both ranks' together, batches of different sizes would count wrongly"
    assert trainer.args.average_tokens_across_devices, "in training, all labels of a step count alike"


def test_means_of_all_processes_are_those_of_one():
    parts, one = (Means(), Means(), Means()), Means()
    for number, (weight, loss) in enumerate(((3.0, 1.0), (1.0, 5.0), (4.0, 2.0))):
        parts[number % 2].add(weight, loss=loss)
        one.add(weight, loss=loss)
    assert Means.of_all(parts).all() == pytest.approx(one.all())
