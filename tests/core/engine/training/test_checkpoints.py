"""Checkpoints: complete or absent, and the random numbers in them."""

import shutil
from pathlib import Path

import pytest
import torch

from core.engine.training import checkpoints
from core.engine.training.checkpoints import find_checkpoint
from core.engine.training.trainer import restore_random_state, save_random_state
from core.runs import models
from core.runs.folder import RunFolder


def saved(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "training_args.bin").write_bytes(b"pickle")
    return folder


def test_a_sealed_checkpoint_is_complete_and_holds_no_pickle(tmp_path):
    folder = saved(tmp_path / "checkpoint-1")
    assert not models.is_complete(folder)
    assert checkpoints.seal(folder) == len(b"weights")
    assert models.is_complete(folder)
    assert not (folder / "training_args.bin").exists()


def test_a_file_cut_short_makes_it_incomplete(tmp_path):
    folder = saved(tmp_path / "checkpoint-1")
    checkpoints.seal(folder)
    (folder / "model.safetensors").write_bytes(b"wei")
    assert not models.is_complete(folder)


def test_half_written_checkpoints_are_cleaned_and_whole_ones_kept(tmp_path):
    whole, half = saved(tmp_path / "checkpoint-1"), saved(tmp_path / "checkpoint-2")
    checkpoints.seal(whole)
    checkpoints.clean(tmp_path)
    assert whole.exists()
    assert not half.exists()


def test_the_newest_by_step_are_kept_and_unsealed_ones_left_alone(tmp_path):
    for step in (9, 10, 100):
        checkpoints.seal(saved(tmp_path / f"checkpoint-{step}"))
    saved(tmp_path / "checkpoint-101")  # being written
    checkpoints.keep(tmp_path, 2)
    assert {folder.name for folder in tmp_path.iterdir()} == {
        "checkpoint-10",
        "checkpoint-100",
        "checkpoint-101",
    }


class Killed(BaseException):
    """What a test raises where a process would be killed."""


def test_a_kill_between_two_renames_costs_neither_the_old_model_nor_the_new_one(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    saved(run.model)
    rename = Path.rename

    def die(path: Path, target: Path) -> Path:
        if path.name == ".model.new":
            raise Killed
        return rename(path, target)

    def write_anew(content: bytes) -> None:
        with checkpoints.replaced(run.model) as new:
            (new / "model.safetensors").write_bytes(content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", die)
        with pytest.raises(Killed):
            write_anew(b"newer")
        assert not run.model.exists()
        with pytest.raises(Killed):
            write_anew(b"newer")  # once more, without a start between
    find_checkpoint(run)
    assert (run.model / "model.safetensors").read_bytes() == b"weights"
    write_anew(b"newest")
    assert (run.model / "model.safetensors").read_bytes() == b"newest"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_checkpoint_of_old_that_was_about_to_be_replaced_is_cleaned(tmp_path):
    whole = saved(tmp_path / "checkpoint-2")
    checkpoints.seal(whole)
    saved(tmp_path / ".checkpoint-1.old")
    whole.rename(tmp_path / ".checkpoint-2.old")
    checkpoints.clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2"]


def test_one_that_another_program_reads_in_ends_no_run(tmp_path, monkeypatch):
    for step in (1, 2):
        checkpoints.seal(saved(tmp_path / f"checkpoint-{step}"))

    def refuse(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "It is open in another program", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        checkpoints.keep(tmp_path, 1)
        checkpoints.clean(tmp_path)
    assert [step for step in (1, 2) if models.is_complete(tmp_path / f"checkpoint-{step}")] == [2]
    checkpoints.clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2"]


class Mps:
    """The functions of `torch.mps` that a checkpoint needs, with a generator of its own."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.get_rng_state, self.set_rng_state = generator.get_state, generator.set_state
        self.draw = lambda: torch.rand(5, generator=generator).tolist()


def test_mps_goes_on_where_the_checkpoint_was(tmp_path, monkeypatch):
    device = Mps(seed=1)
    monkeypatch.setattr("torch.mps", device)
    save_random_state(tmp_path, "mps", None)
    drawn = device.draw()
    restore_random_state(tmp_path, "cuda")
    assert device.draw() != drawn
    restore_random_state(tmp_path, "mps")
    assert device.draw() == drawn


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_elsewhere_trainers_own_file_holds_everything(kind, tmp_path):
    save_random_state(tmp_path, kind, None)
    assert list(tmp_path.iterdir()) == []
