"""A run that was paused goes on as if it had never stopped: the same losses, evaluations and weights, bit for bit."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file

from core.base.errors import RunFolderError
from core.engine.export.verify import read_recipe
from core.engine.training import checkpoints
from core.options import RunOptions
from core.options.choices import Method, Schedule, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, OutputOptions, TrainingOptions
from core.runs.events import CheckpointSaved, Evaluated, MessageRaised, Outcome, RequestAnswered, RunStarted
from core.runs.folder import Action, RunFolder
from core.runs.models import newest
from tests.fakes.models import (
    instructions,
    pairs,
    save_tiny_bert,
    save_tiny_talker,
    save_tiny_vision,
    write_json,
)
from tests.fakes.trained_runs import Story, attempt, in_attempts, short_run, story_of
from tests.fakes.training import model, reviews, write_reviews

ACCUMULATED = MemoryOptions(batch_size=2, gradient_accumulation_steps=2)
QUIET = OutputOptions(predictions=2)


def texts(folder: Path) -> RunOptions:
    """Dropout, an order by length that is drawn from the same random numbers, warm-up, batches that don't divide."""
    return short_run(
        model=model(save_tiny_bert(folder / "bert")),
        data=reviews(
            write_reviews(folder / "reviews.csv", 26), eval_fraction=0.25, group_by_length=Toggle.ON
        ),
        memory=ACCUMULATED,
        training=TrainingOptions(epochs=2.0, learning_rate=1e-2, warmup=0.3),
        output=QUIET,
    )


def images(folder: Path) -> RunOptions:
    """Batch norm, whose means are no weights."""
    return short_run(
        task=Task.IMAGE_CLASSIFICATION,
        model=model(save_tiny_vision(folder / "resnet", "resnet")),
        data=DataOptions(train="builtin:digits", max_train_samples=20, max_eval_samples=8),
        output=QUIET,
    )


def chats(folder: Path, *, packing: bool = False) -> RunOptions:
    return short_run(
        task=Task.CHAT,
        model=model(save_tiny_talker(folder / "talker")),
        data=DataOptions(
            train=str(write_json(folder / "chats.json", instructions(20))),
            eval_fraction=0.2,
            packing=packing,
            max_length=64,
        ),
        memory=ACCUMULATED,
        output=QUIET,
    )


def packed_chats(folder: Path) -> RunOptions:
    return chats(folder, packing=True)


def preferences(folder: Path, method: Method = Method.FULL) -> RunOptions:
    return short_run(
        task=Task.PREFERENCE,
        model=model(save_tiny_talker(folder / "talker"), method=method),
        data=DataOptions(
            train=str(write_json(folder / "pairs.json", pairs(15))), eval_fraction=0.2, max_length=128
        ),
        memory=ACCUMULATED,
        output=QUIET,
    )


def preferences_by_lora(folder: Path) -> RunOptions:
    return preferences(folder, Method.LORA)


@pytest.mark.parametrize(
    ("asked", "pauses"),
    [
        (texts, [(2, 5, 7), (10,)]),  # within an epoch, at its end, in the second; at the end of all
        (images, [(3, 7)]),
        (chats, [(3,)]),
        (packed_chats, [(2, 4)]),
        pytest.param(preferences, [(4,)], marks=pytest.mark.long),
        (preferences_by_lora, [(2, 3)]),
    ],
)
def test_a_paused_run_comes_out_as_one_that_never_stopped(asked, pauses, tmp_path):
    options = asked(tmp_path)
    whole = in_attempts(tmp_path / "whole", options)
    assert len(whole.evaluations) == 2
    for number, steps in enumerate(pauses):
        folder = tmp_path / str(number)
        status = in_attempts(folder, options, *steps)
        assert [event.from_step for event in status.of(RunStarted)] == [0, *steps]
        assert_same(status, whole)
        assert_same_weights(folder, tmp_path / "whole")
    if options.task.reads_images:  # so that a checkpoint can be exported
        assert read_recipe(whole_checkpoint(tmp_path / "whole")).labels == tuple("0123456789")


def whole_checkpoint(folder: Path) -> Path:
    """The newest checkpoint of a run."""
    saved = newest(RunFolder(folder))
    assert saved is not None
    return saved.path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def options(folder):
    return texts(folder)


@pytest.fixture(scope="module")
def whole(folder, options):
    return in_attempts(folder / "whole", options)


def test_an_evaluation_that_a_pause_interrupts_is_made_when_the_run_goes_on(folder, options, whole, tmp_path):
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {5: Action.PAUSE}, while_evaluating=True) == 0
    paused = story_of(run)
    assert paused.last is not None
    assert (paused.last.state, paused.last.steps, paused.evaluations) == (Outcome.PAUSED, 5, {})
    assert not run.model.exists()
    assert attempt(run.path, options) == 0
    assert_same(story_of(run), whole)
    assert_same_weights(run.path, folder / "whole")


def end_children() -> None:
    """Ask all processes of the run but the engine to end, as systemd does: with SIGTERM, and at once with SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        for process in psutil.Process().children(recursive=True):
            process.send_signal(number)


def end_itself(*numbers: int) -> Callable[[], None]:
    def end() -> None:
        for number in numbers:
            os.kill(os.getpid(), number)

    return end


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")
@pytest.mark.parametrize(
    ("workers", "told"),
    [
        (0, {5: end_itself(signal.SIGTERM)}),
        (0, {5: end_itself(signal.SIGINT)}),
        (2, {1: end_children, 5: end_itself(signal.SIGTERM, signal.SIGHUP)}),
    ],
    ids=["SIGTERM", "SIGINT", "shutdown"],
)
def test_a_signal_to_end_saves_a_checkpoint_from_which_the_run_goes_on(options, tmp_path, workers, told):
    run = RunFolder(tmp_path / "run")
    asked = replace(options, data=replace(options.data, workers=workers))
    whole = in_attempts(tmp_path / "whole", asked)
    before = signal.getsignal(signal.SIGTERM)
    assert attempt(run.path, asked, told) == 0
    stopped = story_of(run).last
    assert stopped is not None
    assert (stopped.state, stopped.steps) == (Outcome.STOPPED, 5)
    saved = newest(run)
    assert saved is not None
    assert saved.step == 5
    assert signal.getsignal(signal.SIGTERM) is before
    assert attempt(run.path, asked) == 0
    assert_same(story_of(run), whole)
    assert_same_weights(run.path, tmp_path / "whole")


def test_a_checkpoint_saved_on_the_way_changes_nothing(folder, options, whole, tmp_path):
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {3: Action.SAVE, 8: Action.STOP}) == 0
    stopped = story_of(run)
    assert [event.step for event in stopped.of(CheckpointSaved)] == [3, 5, 8]
    assert all(event.accepted for event in stopped.of(RequestAnswered))
    assert run.model.is_dir()
    assert attempt(run.path, options) == 0  # a stopped run can be gone on with, too
    assert_same(story_of(run), whole)
    assert_same_weights(run.path, folder / "whole")


def test_a_finished_run_can_be_made_longer(tmp_path):
    """At a constant rate it is the longer run; else the rate follows the longer schedule from there on."""
    source, data = model(save_tiny_bert(tmp_path / "bert")), reviews(write_reviews(tmp_path / "r.csv", 16))

    def of(epochs: float, schedule: Schedule) -> RunOptions:
        asked = TrainingOptions(epochs=epochs, learning_rate=1e-2, schedule=schedule)
        return short_run(model=source, data=data, training=asked)

    long = in_attempts(tmp_path / "long", of(2.0, Schedule.CONSTANT))
    in_attempts(tmp_path / "constant", of(1.0, Schedule.CONSTANT))
    assert_same(in_attempts(tmp_path / "constant", of(2.0, Schedule.CONSTANT)), long)
    assert_same_weights(tmp_path / "constant", tmp_path / "long")

    in_attempts(tmp_path / "linear", of(1.0, Schedule.LINEAR))
    rates = [told[2] for told in in_attempts(tmp_path / "linear", of(2.0, Schedule.LINEAR)).steps.values()]
    assert rates == pytest.approx([1e-2, 7.5e-3, 5e-3, 2.5e-3, 5e-3, 3.75e-3, 2.5e-3, 1.25e-3])


def test_nothing_is_trained_where_all_is_done(tmp_path):
    """Paused after the last step: what is left is to judge and to keep the model. Trainer would take a step more."""
    options = short_run(
        model=model(save_tiny_bert(tmp_path / "bert")),
        data=reviews(write_reviews(tmp_path / "reviews.csv", 24), eval_fraction=0.25),
        training=TrainingOptions(max_steps=3, learning_rate=1e-2),
    )
    status = in_attempts(tmp_path / "run", options, 3)
    assert sorted(status.steps) == [1, 2, 3]
    assert [event.step for event in status.of(Evaluated)] == [3]
    assert RunFolder(tmp_path / "run").model.is_dir()


def test_a_pause_while_loading_ends_at_once_with_nothing_saved(options, tmp_path):
    run = RunFolder(tmp_path)
    run.request(Action.PAUSE)
    assert attempt(run.path, options) == 0
    status = story_of(run)
    assert status.last is not None
    assert (status.last.state, status.last.steps, status.steps) == (Outcome.PAUSED, 0, {})
    assert [event.accepted for event in status.of(RequestAnswered)] == [True]
    assert not run.model.exists()
    assert not run.checkpoints.exists() or not any(run.checkpoints.iterdir())


def assert_same(status: Story, whole: Story) -> None:
    """Every figure of every step and evaluation."""
    assert status.last is not None
    assert status.last.state is Outcome.FINISHED
    assert status.steps == whole.steps
    assert status.evaluations == whole.evaluations
    assert whole.last is not None
    assert status.last.metrics == whole.last.metrics


def assert_same_weights(one: Path, other: Path) -> None:
    found, expected = _weights(one), _weights(other)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    [path] = (folder / "model").glob("*.safetensors")
    found: dict[str, torch.Tensor] = load_file(path)
    return found


def test_a_pause_that_interrupts_when_loading_is_just_done_is_a_pause(tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("core.engine.training.train._train", interrupted)
    run = RunFolder(tmp_path)
    run.request(Action.PAUSE)
    assert attempt(tmp_path, short_run()) == 0
    status = story_of(run)
    assert status.last is not None
    assert status.last.state is Outcome.PAUSED
    assert run.open_requests() == []


# --- Checkpoints that are damaged, or a stranger's with code in them


class Trap:
    """Makes a folder where it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.proof),)


def message(run: RunFolder, message_id: str) -> MessageRaised:
    [found] = [told for told in story_of(run).of(MessageRaised) if told.id == message_id]
    return found


@pytest.fixture
def paused(options, tmp_path):
    """With checkpoints of the steps 5 (an epoch's) and 7."""
    run = RunFolder(tmp_path / "run")
    kept = replace(options, output=OutputOptions(keep_checkpoints=2, predictions=0))
    assert attempt(run.path, kept, {7: Action.PAUSE}) == 0
    assert whole_checkpoint(run.path).name == "checkpoint-7"
    return run


def test_a_damaged_checkpoint_is_passed_over_and_set_aside(options, paused, whole):
    weights = paused.checkpoints / "checkpoint-7" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    status = in_attempts(paused.path, options)
    assert [event.from_step for event in status.of(RunStarted)] == [0, 5]
    assert "checkpoints/damaged-7" in message(paused, "checkpoint-damaged").detail
    assert (paused.checkpoints / "damaged-7" / "model.safetensors").is_file()
    assert_same(status, whole)


@pytest.mark.parametrize("name", ["rng_state.pth", "optimizer.pt", "scheduler.pt", "pytorch_model.bin"])
def test_code_in_a_checkpoint_is_not_run(name, options, paused, tmp_path):
    checkpoint, proof = paused.checkpoints / "checkpoint-7", tmp_path / "proof"
    if name == "pytorch_model.bin":
        (checkpoint / "model.safetensors").unlink()
    torch.save({"state": Trap(proof)}, checkpoint / name)
    (checkpoint / "complete.json").unlink()
    checkpoints.seal(checkpoint)  # as whoever made it would
    assert attempt(paused.path, options) == 1
    assert not proof.exists()
    status = story_of(paused)
    assert status.last is not None
    assert (status.last.state, status.last.steps) == (Outcome.FAILED, 7)
    failed = message(paused, "failed")
    assert failed.title == "checkpoint-7 can't be resumed from"


def test_a_checkpoint_of_another_model_is_refused(options, paused):
    """Trainer would go on with untrained weights, and say so in the log only."""
    from safetensors.torch import load_file, save_file

    checkpoint = paused.checkpoints / "checkpoint-7"
    weights = load_file(checkpoint / "model.safetensors")
    weights["another.weight"] = weights.pop("classifier.weight")
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    checkpoints.seal(checkpoint)
    assert attempt(paused.path, options) == 1
    failed = message(paused, "failed")
    assert "classifier.weight" in failed.detail


@pytest.mark.parametrize("place", ["checkpoints", "model", "checkpoints/checkpoint-9", "checkpoints/.saving"])
def test_a_link_in_place_of_a_folder_is_refused(place, tmp_path):
    run, elsewhere = RunFolder(tmp_path / "run"), tmp_path / "elsewhere"
    (elsewhere / "checkpoint-1").mkdir(parents=True)
    (run.path / place).parent.mkdir(parents=True, exist_ok=True)
    (run.path / place).symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(RunFolderError, match="contains a link"):
        checkpoints.check_no_links(run)
    assert newest(run) is None


def test_weights_that_are_lost_are_not_saved_over_those_of_before(options, tmp_path):
    """Even where Stop is pressed before the run has noticed by itself."""
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {5: Action.PAUSE}) == 0
    kept = (run.checkpoints / "checkpoint-5" / "complete.json").read_bytes()
    wild = replace(options, training=TrainingOptions(epochs=2.0, learning_rate=1e-2, max_grad_norm=0.0))
    _lose_weights_after(6, run, wild)
    failed = message(run, "failed")
    assert "no longer a number" in failed.title
    assert [path.name for path in run.checkpoints.iterdir()] == ["checkpoint-5"]
    assert (run.checkpoints / "checkpoint-5" / "complete.json").read_bytes() == kept
    assert not run.model.exists()


def _lose_weights_after(step: int, run: RunFolder, options: RunOptions) -> None:
    from transformers import TrainerCallback

    from core.engine.training import train

    class Losing(TrainerCallback):
        def on_step_end(self, args: object, state: object, control: object, **kwargs: object) -> None:
            if getattr(state, "global_step", 0) == step:
                weight = next(kwargs["model"].parameters())  # type: ignore[attr-defined]
                weight.data.fill_(float("nan"))
                run.request(Action.STOP)

    build = train.build_trainer

    def build_losing(*args: object) -> object:
        trainer = build(*args)  # type: ignore[arg-type]
        trainer.add_callback(Losing())
        return trainer

    train.build_trainer = build_losing  # type: ignore[assignment]
    try:
        assert attempt(run.path, options) == 1
    finally:
        train.build_trainer = build
