"""An interrupted run goes on as if it had never stopped: the same losses, evaluations and weights, bit for bit."""

import os
import shutil
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file, save_file

from core.engine.run import checkpoints
from core.options import RunOptions
from core.options.choices import Augmentation, Method, Optimizer, PreferenceLoss, Schedule, Task, Toggle
from core.options.sections import OutputOptions
from core.runs.events import (
    Action,
    CheckpointSaved,
    Evaluated,
    Outcome,
    Predicted,
    RequestAnswered,
    RunFinished,
    RunStarted,
)
from core.runs.folder import RunFolder
from core.runs.models import newest
from core.runs.status import State
from core.runs.summary import status_at_end, summarize
from core.runs.words import ending_text
from tests.fakes.models import (
    instructions,
    pairs,
    save_tiny_bert,
    save_tiny_talker,
    save_tiny_vision,
    write_json,
)
from tests.fakes.trained_runs import Story, attempt, in_attempts, story_of
from tests.fakes.training import run_options, write_reviews

ACCUMULATED = {"batch_size": 2, "gradient_accumulation_steps": 2, "epochs": 2.0, "predictions": 2}


def texts(folder: Path) -> RunOptions:
    """Dropout and an order by length that share random numbers, warm-up, and batches that don't divide the rows."""
    return run_options(
        source=save_tiny_bert(folder / "bert", hidden_dropout_prob=0.1),
        train=write_reviews(folder / "reviews.csv", 26),
        eval_fraction=0.25,
        group_by_length=Toggle.ON,
        warmup=0.3,
        **ACCUMULATED,
    )


def images(folder: Path) -> RunOptions:
    """With batch norm, whose means are no weights, and images that are other ones in each epoch."""
    rows = {"train": "builtin:digits", "max_train_samples": 20, "max_eval_samples": 8, "eval_fraction": 0.2}
    source = save_tiny_vision(folder / "resnet", "resnet")
    return run_options(
        Task.IMAGE_CLASSIFICATION,
        source=source,
        augmentation=Augmentation.STRONG,
        batch_size=4,
        epochs=2.0,
        predictions=2,
        **rows,
    )


def conversations(
    folder: Path, task: Task, method: Method = Method.FULL, packing: bool = False, **more: Any
) -> RunOptions:
    rows = {"train": write_json(folder / "rows.json", instructions(20) if task is Task.CHAT else pairs(15))}
    limits = {"eval_fraction": 0.2, "max_length": 64 if packing else 128, "packing": packing}
    source, grouped = save_tiny_talker(folder / "talker"), Toggle.OFF if packing else Toggle.ON
    return run_options(
        task, source=source, method=method, group_by_length=grouped, **rows, **limits, **ACCUMULATED, **more
    )


def assert_same(run: Path, whole: Path, also: Collection[int] = ()) -> None:
    """Every figure of every step and evaluation, and the weights; `also` are steps of further evaluations."""
    found, expected = (story_of(RunFolder(path)) for path in (run, whole))
    assert found.ended[0] is Outcome.FINISHED
    assert found.steps == expected.steps
    evaluations = {step: told for step, told in found.evaluations.items() if step not in also}
    assert evaluations == expected.evaluations
    assert [event.metrics for event in found.of(RunFinished)][-1:] == [
        event.metrics for event in expected.of(RunFinished)
    ]
    weights, others = (load_file(next((path / "model").glob("*.safetensors"))) for path in (run, whole))
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.mark.parametrize(
    ("asked", "pauses"),
    [
        (images, (5, 7)),
        (lambda folder: conversations(folder, Task.CHAT), (3,)),
        (lambda folder: conversations(folder, Task.CHAT, packing=True, optimizer=Optimizer.LION), (1,)),
        (lambda folder: conversations(folder, Task.CHAT, Method.QLORA), (2,)),
        (lambda folder: conversations(folder, Task.PREFERENCE, Method.LORA), (2,)),
        (
            lambda folder: conversations(folder, Task.CHAT, Method.LORA, lora_dora=True, lora_rslora=True),
            (2,),
        ),
        (
            lambda folder: conversations(
                folder, Task.PREFERENCE, Method.LORA, preference_loss=PreferenceLoss.KTO
            ),
            (5,),
        ),
        (lambda folder: conversations(folder, Task.PREFERENCE, preference_loss=PreferenceLoss.ORPO), (2,)),
    ],
    ids=[
        *("images", "chats", "packed-chats", "chats-by-qlora", "preferences-by-lora", "chats-by-dora"),
        *("kto-by-lora", "orpo"),
    ],
)
def test_a_paused_run_comes_out_as_one_that_never_stopped(asked, pauses, tmp_path):
    options = asked(tmp_path)
    assert len(in_attempts(tmp_path / "whole", options).evaluations) == 2
    status = in_attempts(tmp_path / "run", options, *pauses)
    assert [event.from_step for event in status.of(RunStarted)] == [0, *pauses]
    assert_same(tmp_path / "run", tmp_path / "whole")
    if options.task.reads_images:  # a checkpoint has what using the model takes besides its weights
        assert [*(tmp_path / "run" / "checkpoints").rglob("hone.json")]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Of a run with ten steps, evaluated after the fifth and the last."""
    return texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert len(in_attempts(folder, options).evaluations) == 2
    return folder


def test_pauses_within_an_epoch_at_its_end_and_at_the_end_of_the_run(options, whole, tmp_path):
    in_attempts(tmp_path / "run", options, 2, 5, 7, 10)
    assert_same(tmp_path / "run", whole)


def test_a_pause_during_an_evaluation_and_an_evaluated_stop_after_a_saved_checkpoint(
    options, whole, tmp_path
):
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {5: Action.PAUSE}, while_evaluating=True) == 0
    paused = story_of(run)
    assert (paused.ended, paused.evaluations) == ((Outcome.PAUSED, 5), {})
    assert not run.model.exists()
    assert attempt(run.path, options, {6: Action.SAVE, 8: Action.STOP}) == 0
    stopped = story_of(run)
    assert stopped.ended == (Outcome.STOPPED, 8)
    assert [event.step for event in stopped.of(CheckpointSaved)] == [5, 6, 8]
    assert stopped.last.metrics == stopped.evaluations[8] != {}
    assert [event.step for event in stopped.of(Predicted)][-1] == 8
    assert all(event.accepted for event in stopped.of(RequestAnswered))
    assert run.model.is_dir()
    assert attempt(run.path, options) == 0
    assert_same(run.path, whole, also=[8])


def test_a_second_stop_ends_the_evaluation_and_saves_the_model(options, tmp_path):
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {5: Action.STOP}, while_evaluating=True) == 0
    assert (story_of(run).ended, story_of(run).evaluations) == ((Outcome.STOPPED, 5), {})
    assert [event.accepted for event in story_of(run).of(RequestAnswered)][:2] == [True, True]
    assert run.model.is_dir()


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")
def test_a_shutdown_saves_a_checkpoint_from_which_the_run_goes_on(options, tmp_path):
    """As by systemd, which sends SIGTERM and at once SIGHUP to all processes."""

    def send(*processes: psutil.Process) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            for process in processes:
                process.send_signal(number)

    run, engine = RunFolder(tmp_path / "run"), psutil.Process()
    with_workers = replace(options, data=replace(options.data, workers=1))
    in_attempts(tmp_path / "whole", with_workers)
    before = signal.getsignal(signal.SIGTERM)
    ends = {1: lambda: send(*engine.children(recursive=True)), 5: lambda: send(engine)}
    assert attempt(run.path, with_workers, ends) == 0
    assert story_of(run).ended == (Outcome.STOPPED, 5)
    assert signal.getsignal(signal.SIGTERM) is before
    assert attempt(run.path, with_workers) == 0
    assert_same(run.path, tmp_path / "whole")


def test_a_finished_run_can_be_made_longer(tmp_path):
    """At a constant rate it is the longer run; else the rate follows the longer schedule from there on."""
    source, data = save_tiny_bert(tmp_path / "bert"), write_reviews(tmp_path / "reviews.csv", 8)

    def run(name: str, epochs: float, schedule: Schedule) -> Story:
        options = run_options(source=source, train=data, batch_size=4, epochs=epochs, schedule=schedule)
        return in_attempts(tmp_path / name, options)

    run("long", 2.0, Schedule.CONSTANT)
    for epochs in (1.0, 2.0):
        run("constant", epochs, Schedule.CONSTANT)
        linear = run("linear", epochs, Schedule.LINEAR)
    assert_same(tmp_path / "constant", tmp_path / "long")
    rates = [figures[2] for figures in linear.steps.values()]
    assert rates == pytest.approx([1e-2, 5e-3, 5e-3, 2.5e-3])


def test_a_run_paused_after_its_last_step_is_evaluated_and_takes_no_further_step(tmp_path):
    source, data = save_tiny_bert(tmp_path / "bert"), write_reviews(tmp_path / "reviews.csv", 24)
    options = run_options(source=source, train=data, eval_fraction=0.25, max_steps=3, batch_size=4)
    status = in_attempts(tmp_path / "run", options, 3)
    assert sorted(status.steps) == [1, 2, 3]
    assert [event.step for event in status.of(Evaluated)] == [3]
    assert RunFolder(tmp_path / "run").model.is_dir()


# --- Evaluated every few steps, and stopped early


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    """Of a run that overfits within its ninth epoch of eight steps each: what is best comes within an epoch, too."""
    folder = tmp_path_factory.mktemp("early")
    return run_options(
        source=save_tiny_bert(folder / "bert", hidden_dropout_prob=0.1),
        train=write_reviews(folder / "reviews.csv", 40),
        eval_fraction=0.25,
        group_by_length=Toggle.ON,
        batch_size=4,
        epochs=9.0,
        learning_rate=3e-3,
        eval_steps=3.0,
        metric_for_best_model="loss",
        early_stopping_patience=3,
        predictions=2,
    )


@pytest.fixture(scope="module")
def stopped_early(early, tmp_path_factory):
    folder = tmp_path_factory.mktemp("early-whole") / "run"
    story = in_attempts(folder, early)
    best, last = story.last.model_step, story.last.steps
    assert list(story.evaluations) == [*range(3, last + 1, 3)]
    assert (last - best, story.last.waited, best % 8 > 0, last < 72) == (9, 3, True, True)
    assert story.last.metrics == story.evaluations[best]
    run = RunFolder(folder)
    assert "Stopped early" in ending_text(run, status_at_end(run), State.FINISHED, None)
    assert summarize(run).stopped_early
    return folder


def die() -> None:
    raise RuntimeError("killed")


@pytest.mark.parametrize(
    "where", ["at-evaluations", "in-evaluations", "killed", "killed-while-it-saves-the-model"]
)
def test_early_stopping_ends_at_the_same_step_with_the_same_model(
    where, early, stopped_early, tmp_path, monkeypatch
):
    run, whole = RunFolder(tmp_path / "run"), story_of(RunFolder(stopped_early)).last
    best, last = whole.model_step, whole.steps
    if where == "killed":
        for step in (best + 1, last - 1):
            assert attempt(run.path, early, {step: die}) == 1
    elif where == "killed-while-it-saves-the-model":
        with monkeypatch.context() as patched:
            patched.setattr("core.engine.train._save_model", lambda *_: die())
            assert attempt(run.path, early) == 1
    else:
        for step in (best, best + 4, last):
            while_evaluating = where == "in-evaluations" and step % 3 == 0
            assert attempt(run.path, early, {step: Action.PAUSE}, while_evaluating) == 0
            assert story_of(run).ended == (Outcome.PAUSED, step)
    assert attempt(run.path, early) == 0
    assert_same(run.path, stopped_early)
    ended = story_of(run).last
    assert (ended.steps, ended.model_step, ended.waited) == (last, best, 3)


def test_a_run_that_stopped_early_can_be_extended_and_counts_anew(early, stopped_early, tmp_path):
    run = RunFolder(shutil.copytree(stopped_early, tmp_path / "run"))
    last, unchecked = story_of(run).last.steps, replace(early.training, epochs=12.0)
    status = in_attempts(run.path, replace(early, training=unchecked), last + 2)
    assert status.last.steps >= last + 9


@pytest.mark.parametrize("interrupts_late", [False, True])
def test_a_pause_while_loading_ends_at_once_with_nothing_saved(
    interrupts_late, options, tmp_path, monkeypatch
):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    if interrupts_late:  # when loading is just done
        monkeypatch.setattr("core.engine.train._train", interrupted)
    run = RunFolder(tmp_path)
    run.request(Action.PAUSE)
    assert attempt(run.path, options) == 0
    status = story_of(run)
    assert (status.ended, status.steps) == ((Outcome.PAUSED, 0), {})
    assert [event.accepted for event in status.of(RequestAnswered)] == [True]
    assert run.open_requests() == []
    assert not run.model.exists()
    assert newest(run) is None


# --- Checkpoints that are damaged, or a stranger's with code in them


@pytest.fixture(scope="module")
def paused_at_7(options, tmp_path_factory):
    kept = replace(options, output=OutputOptions(keep_checkpoints=2, predictions=0))
    folder = tmp_path_factory.mktemp("paused") / "run"
    assert attempt(folder, kept, {7: Action.PAUSE}) == 0
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"checkpoint-5", "checkpoint-7"}
    return folder


@pytest.fixture
def paused(paused_at_7, tmp_path):
    return RunFolder(shutil.copytree(paused_at_7, tmp_path / "run"))


def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(options, paused, whole):
    weights = paused.checkpoints / "checkpoint-7" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    status = in_attempts(paused.path, options)
    assert [event.from_step for event in status.of(RunStarted)] == [0, 5]
    assert "checkpoints/damaged-7" in status.messages["checkpoint-damaged"].detail
    assert (paused.checkpoints / "damaged-7" / "model.safetensors").is_file()
    assert_same(paused.path, whole)


class Trap:
    """Makes a folder where it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.proof),)


@pytest.mark.parametrize("name", ["rng_state.pth", "optimizer.pt", "scheduler.pt", "pytorch_model.bin"])
def test_code_in_a_checkpoint_is_not_run(name, options, paused, tmp_path):
    checkpoint, proof = paused.checkpoints / "checkpoint-7", tmp_path / "proof"
    if name == "pytorch_model.bin":
        (checkpoint / "model.safetensors").unlink()
    torch.save({"state": Trap(proof)}, checkpoint / name)
    checkpoints.seal(checkpoint)  # as whoever made it would
    assert attempt(paused.path, options) == 1
    assert not proof.exists()
    status = story_of(paused)
    assert status.ended == (Outcome.FAILED, 7)
    assert status.messages["failed"].title == "checkpoint-7 can't be resumed from"


def test_an_error_in_the_first_batch_is_not_blamed_on_the_checkpoint(options, paused, monkeypatch):
    def fail(*_args: object, **_inputs: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("core.engine.training.trainer.WatchedTrainer._compute", fail)
    assert attempt(paused.path, options) == 1
    failed = story_of(paused).messages["failed"]
    assert "no such kernel" in failed.detail
    assert "checkpoint" not in f"{failed.title} {failed.detail}"


def test_a_checkpoint_of_another_model_is_refused(options, paused):
    """Trainer would go on with untrained weights, and say so in the log only."""
    checkpoint = paused.checkpoints / "checkpoint-7"
    weights = load_file(checkpoint / "model.safetensors")
    weights["another.weight"] = weights.pop("classifier.weight")
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    checkpoints.seal(checkpoint)
    assert attempt(paused.path, options) == 1
    assert "classifier.weight" in story_of(paused).messages["failed"].detail


def test_lost_weights_are_not_saved_even_if_stop_is_pressed_before_the_run_notices(
    options, paused, monkeypatch
):
    from core.engine import train

    build, trainers = train.build_trainer, list[Any]()
    monkeypatch.setattr(train, "build_trainer", lambda *args: trainers.append(build(*args)) or trainers[0])

    def lose_weights() -> None:
        next(trainers[0].model.parameters()).data.fill_(float("nan"))
        paused.request(Action.STOP)

    before = sorted(paused.checkpoints.rglob("*"))
    unclipped = replace(options, training=replace(options.training, max_grad_norm=0.0))
    assert attempt(paused.path, unclipped, {8: lose_weights}) == 1
    assert "no longer a number" in story_of(paused).messages["failed"].title
    assert sorted(paused.checkpoints.rglob("*")) == before
    assert not paused.model.exists()


def test_a_model_whose_weights_are_saved_under_older_names_resumes(tmp_path):
    vit = run_options(
        Task.IMAGE_CLASSIFICATION,
        source=save_tiny_vision(tmp_path / "vit", hidden_dropout_prob=0.0),
        train="builtin:digits",
        max_train_samples=20,
        image_size=32,
        batch_size=4,
    )
    whole, paused = in_attempts(tmp_path / "whole", vit), in_attempts(tmp_path / "paused", vit, 2)
    assert paused.ended == whole.ended
    assert paused.steps == whole.steps
