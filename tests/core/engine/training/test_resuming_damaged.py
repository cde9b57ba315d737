"""A checkpoint that is damaged, or a stranger's with code in it: passed over or refused, and nothing in it is run."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from core.base.errors import RunFolderError
from core.engine.training import checkpoints
from core.options import RunOptions
from core.options.sections import OutputOptions, TrainingOptions
from core.runs.events import MessageRaised, Outcome, RunStarted
from core.runs.folder import Action, RunFolder
from core.runs.models import newest
from tests.fakes.interrupted import attempt, in_attempts, short_run, story_of
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, reviews, write_reviews


class Malice:
    """Makes a file where it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.proof),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def options(folder: Path) -> RunOptions:
    return short_run(
        model=model(save_tiny_bert(folder / "bert")),
        data=reviews(write_reviews(folder / "reviews.csv", 12)),
        training=TrainingOptions(epochs=2.0, learning_rate=1e-2),
        output=OutputOptions(keep_checkpoints=2, predictions=0),
    )


@pytest.fixture
def paused(options: RunOptions, tmp_path: Path) -> RunFolder:
    """With checkpoints of the steps 3 (an epoch's) and 4."""
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {4: Action.PAUSE}) == 0
    found = newest(run)
    assert found is not None
    assert found.step == 4
    return run


def test_a_damaged_checkpoint_is_passed_over_and_set_aside(
    options: RunOptions, paused: RunFolder, tmp_path: Path
) -> None:
    weights = paused.checkpoints / "checkpoint-4" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    story = in_attempts(paused.path, options)
    assert [event.from_step for event in story.of(RunStarted)] == [0, 3]
    [warned] = [told for told in story.of(MessageRaised) if told.id == "checkpoint-damaged"]
    assert "checkpoints/damaged-4" in warned.detail
    assert (paused.checkpoints / "damaged-4" / "model.safetensors").is_file()
    assert story.steps == in_attempts(tmp_path / "whole", options).steps


@pytest.mark.parametrize("name", ["rng_state.pth", "optimizer.pt", "scheduler.pt", "pytorch_model.bin"])
def test_code_in_a_checkpoint_is_not_run(
    name: str, options: RunOptions, paused: RunFolder, tmp_path: Path
) -> None:
    checkpoint, proof = paused.checkpoints / "checkpoint-4", tmp_path / "proof"
    if name == "pytorch_model.bin":
        (checkpoint / "model.safetensors").unlink()
    torch.save({"state": Malice(proof)}, checkpoint / name)
    (checkpoint / "complete.json").unlink()
    checkpoints.seal(checkpoint)  # as whoever made it would
    assert attempt(paused.path, options) == 1
    assert not proof.exists()
    story = story_of(paused)
    assert story.last is not None
    assert (story.last.state, story.last.steps) == (Outcome.FAILED, 4)
    [failed] = [told for told in story.of(MessageRaised) if told.id == "failed"]
    assert failed.title == "checkpoint-4 can't be gone on from"
    assert "Nothing in it was run" in failed.detail


def test_a_checkpoint_of_another_model_is_refused(options: RunOptions, paused: RunFolder) -> None:
    """Trainer would go on with untrained weights, and say so in the log only."""
    from safetensors.torch import load_file, save_file

    checkpoint = paused.checkpoints / "checkpoint-4"
    weights = load_file(checkpoint / "model.safetensors")
    weights["another.weight"] = weights.pop("classifier.weight")
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    checkpoints.seal(checkpoint)
    assert attempt(paused.path, options) == 1
    [failed] = [told for told in story_of(paused).of(MessageRaised) if told.id == "failed"]
    assert "classifier.weight" in failed.detail


@pytest.mark.parametrize("place", ["checkpoints", "model", "checkpoints/checkpoint-9", "checkpoints/.saving"])
def test_a_link_in_place_of_a_folder_is_refused(place: str, tmp_path: Path) -> None:
    run, elsewhere = RunFolder(tmp_path / "run"), tmp_path / "elsewhere"
    (elsewhere / "checkpoint-1").mkdir(parents=True)
    (run.path / place).parent.mkdir(parents=True, exist_ok=True)
    (run.path / place).symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(RunFolderError, match="leads elsewhere"):
        checkpoints.refuse_links(run)
    assert newest(run) is None


def test_weights_that_are_lost_are_not_saved_over_those_of_before(
    options: RunOptions, tmp_path: Path
) -> None:
    """Even where Stop is pressed before the run has noticed by itself."""
    import msgspec

    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options, {3: Action.PAUSE}) == 0
    kept = (run.checkpoints / "checkpoint-3" / "complete.json").read_bytes()
    wild = msgspec.structs.replace(
        options, training=TrainingOptions(epochs=3.0, learning_rate=1e-2, max_grad_norm=0.0)
    )
    _lose_weights_after(4, run, wild)
    story = story_of(run)
    [failed] = [told for told in story.of(MessageRaised) if told.id == "failed"]
    assert "no longer a number" in failed.title
    assert [path.name for path in run.checkpoints.iterdir()] == ["checkpoint-3"]
    assert (run.checkpoints / "checkpoint-3" / "complete.json").read_bytes() == kept
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
