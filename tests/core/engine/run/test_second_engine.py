"""An engine without torch runs, pauses, resumes, is followed and killed like any; nothing of the product is changed."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from core.engine.reporter import Reporter
from core.engine.run import steps
from core.engine.run.checkpoints import find_checkpoint
from core.engine.run.predictions import ShouldStop
from core.options import RunOptions
from core.runs import start as runs_start
from core.runs.event_log import RunFollower
from core.runs.events import Event, Outcome, Predicted, RunFinished, Said, StepFinished, WhatRan
from core.runs.folder import Action, RunFolder
from core.runs.models import newest, newest_first, trained_model
from core.runs.status import State
from tests.fakes import numpy_engine
from tests.fakes.jobs import ROOT
from tests.fakes.runs import follow_until, make_folder
from tests.fakes.trained_runs import story_of
from tests.fakes.training import run_options


def options(**changes: object) -> RunOptions:
    return run_options(
        **{"train": numpy_engine.DATA, "epochs": 3.0, "learning_rate": 0.5, "keep_checkpoints": 1, **changes}
    )


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(steps, "FLUSH_SECONDS", 0.0)


def attempt(folder: Path, asked: RunOptions, **requests: Action) -> int:
    """One attempt in this process; `at_5=Action.PAUSE` is asked after the fifth step."""
    folder.mkdir(exist_ok=True)
    run = RunFolder(folder)
    start, reporter = find_checkpoint(run), Reporter(run)
    reporter.start({}, start.step)

    def ask(event: Event) -> None:
        if isinstance(event, StepFinished) and (action := requests.get(f"at_{event.step}")) is not None:
            run.request(action)

    reporter.listeners.append(ask)
    return numpy_engine.train_run(run, asked, reporter, start.checkpoint)


@pytest.mark.parametrize("pauses", [(5,), (8,), (8, 9, 20)], ids=str)
def test_a_run_that_was_paused_goes_on_to_the_bit(pauses, tmp_path):
    for name, steps_paused in (("whole", ()), ("paused", pauses)):
        for step in steps_paused:
            assert attempt(tmp_path / name, options(), **{f"at_{step}": Action.PAUSE}) == 0
            assert story_of(RunFolder(tmp_path / name)).ended == (Outcome.PAUSED, step)
        assert attempt(tmp_path / name, options()) == 0
    whole, paused = (story_of(RunFolder(tmp_path / name)) for name in ("whole", "paused"))
    assert whole.ended == paused.ended == (Outcome.FINISHED, 24)
    assert whole.steps == paused.steps
    assert whole.evaluations == paused.evaluations
    assert whole.last.metrics["eval_accuracy"] > 0.9
    models = [(tmp_path / name / "model" / numpy_engine.WEIGHTS).read_bytes() for name in ("whole", "paused")]
    assert models[0] == models[1]


def test_a_pause_while_it_predicts_is_heard_at_once_and_the_evaluation_made_later(tmp_path, monkeypatch):
    run, predict = RunFolder(tmp_path / "run"), numpy_engine.Regression.predict

    def asking(self: numpy_engine.Regression, should_stop: ShouldStop) -> tuple[Said, ...]:
        if self.step == 16 and not newest_first(run.checkpoints):
            run.request(Action.PAUSE)
            assert should_stop()
        return predict(self, should_stop)

    monkeypatch.setattr(numpy_engine.Regression, "predict", asking)
    assert attempt(run.path, options()) == 0
    story = story_of(run)
    assert (story.ended, [*story.evaluations]) == ((Outcome.PAUSED, 16), [8])
    assert attempt(run.path, options()) == 0
    story = story_of(run)
    assert (story.ended, [*story.evaluations]) == ((Outcome.FINISHED, 24), [8, 16, 24])


def test_each_part_of_a_step_what_ran_and_predictions_are_told(tmp_path):
    assert attempt(tmp_path / "run", options(epochs=1.0), at_3=Action.SAVE) == 0
    story = story_of(RunFolder(tmp_path / "run"))
    assert all(step.data_seconds and step.optimizer_seconds for step in story.of(StepFinished))
    assert [ran.optimizer for ran in story.of(WhatRan)] == ["SGD (numpy)"]
    assert [one.step for one in story.of(Predicted)] == [8]
    assert [saved.step for saved in newest_first(tmp_path / "run" / "checkpoints")] == [3]
    assert isinstance(story.last, RunFinished)
    assert story.last.samples_per_second


def test_it_stops_early_and_keeps_the_best(tmp_path):
    asked = options(epochs=50.0, early_stopping_patience=2, early_stopping_threshold=0.5)
    assert attempt(tmp_path / "run", asked) == 0
    last = story_of(RunFolder(tmp_path / "run")).last
    assert (last.state, last.steps, last.waited) == (Outcome.FINISHED, 24, 2)
    assert newest_first(tmp_path / "run" / "checkpoints")


def test_a_run_that_took_its_last_step_has_not_stopped_early(tmp_path):
    assert attempt(tmp_path / "run", options(early_stopping_patience=2)) == 0
    last = story_of(RunFolder(tmp_path / "run")).last
    assert (last.state, last.steps, last.waited) == (Outcome.FINISHED, 24, 0)


def test_a_loss_that_is_no_number_fails_the_run_with_the_remedy(tmp_path):
    assert attempt(tmp_path / "run", options(learning_rate=1e308)) == 1
    assert "no longer a number" in story_of(RunFolder(tmp_path / "run")).messages["failed"].title


def test_its_process_is_kept_followed_paused_resumed_and_killed_like_any(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = make_folder(tmp_path / "run", options(max_steps=10**6))
    keeper = [*numpy_engine.COMMAND, "keep", str(run.path)]
    process, follower = runs_start.start(run, keeper), RunFollower(run)
    follow_until(follower, process, lambda: follower.status.step >= 3, seconds=60)
    assert follower.state is State.TRAINING
    engine = psutil.Process(follower.status.engine_pid)
    assert "tests.fakes.numpy_engine" in engine.cmdline()
    assert not any("torch" in Path(one.path).name for one in engine.memory_maps()), "it needs none"
    run.request(Action.PAUSE)
    follow_until(follower, process, lambda: follower.is_over, seconds=30)
    assert follower.state is State.PAUSED
    assert process.wait(10) == 0
    paused_at = follower.status.step
    assert newest(run).step == paused_at

    process, follower = runs_start.resume(run, keeper), RunFollower(run)
    follow_until(follower, process, lambda: follower.status.step > paused_at, seconds=60)
    psutil.Process(follower.status.engine_pid).kill()
    follow_until(follower, process, lambda: follower.is_over, seconds=30)
    assert follower.state is State.CRASHED
    assert trained_model(run).step == paused_at


def test_an_engine_needs_neither_torch_nor_transformers():
    """`core.engine.run` is imported by engines that have none."""
    files = (ROOT / "core" / "engine" / "run").glob("*.py")
    names = [file.stem for file in files if file.stem not in ("__init__", "tensorboard")]  # whose writer does
    code = f"import {', '.join(f'core.engine.run.{name}' for name in names)}, sys; "
    code += "print({'torch', 'transformers', 'accelerate'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
