"""Checkpoints are complete or absent, and hold the random state of MPS."""

import shutil
from pathlib import Path

import pytest
import torch

from core.engine.run import checkpoints
from core.engine.training.random_state import restore_random_state, save_random_state
from core.runs import models
from core.runs.folder import RunFolder


def write(folder: Path, *, seal: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "training_args.bin").write_bytes(b"pickle")
    if seal:
        checkpoints.seal(folder)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_sealed_checkpoint_holds_no_pickle_and_is_complete_until_a_file_is_cut_short(tmp_path):
    folder = write(tmp_path / "checkpoint-1", seal=False)
    assert not models.is_complete(folder)
    checkpoints.seal(folder)
    assert models.is_complete(folder)
    assert not (folder / "training_args.bin").exists()
    (folder / "model.safetensors").write_bytes(b"wei")
    assert not models.is_complete(folder)


def test_the_newest_are_kept_and_one_being_written_is_cleaned_at_the_next_start(tmp_path):
    for step in (9, 10, 100):
        write(tmp_path / f"checkpoint-{step}")
    write(tmp_path / "checkpoint-101", seal=False)
    checkpoints.keep(tmp_path, 2)
    assert names(tmp_path) == {"checkpoint-10", "checkpoint-100", "checkpoint-101"}
    checkpoints.clean(tmp_path)
    assert names(tmp_path) == {"checkpoint-10", "checkpoint-100"}


def test_a_kill_between_two_renames_costs_neither_the_old_model_nor_the_new_one(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    run, rename = RunFolder(tmp_path), Path.rename
    write(run.model, seal=False)

    def die(path: Path, target: Path) -> Path:
        if path.name == ".model.new":
            raise Killed
        return rename(path, target)

    def replace(content: bytes) -> None:
        with checkpoints.replaced(run.model) as new:
            (new / "model.safetensors").write_bytes(content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", die)
        for _ in range(2):  # the second time without a start between
            with pytest.raises(Killed):
                replace(b"newer")
            assert not run.model.exists()
    checkpoints.find_checkpoint(run)
    assert (run.model / "model.safetensors").read_bytes() == b"weights"
    replace(b"newest")
    assert (run.model / "model.safetensors").read_bytes() == b"newest"
    assert names(tmp_path) == {"model"}


def test_a_checkpoint_that_was_about_to_be_replaced_is_restored_or_cleaned(tmp_path):
    write(tmp_path / ".checkpoint-1.old", seal=False)
    write(tmp_path / "checkpoint-2").rename(tmp_path / ".checkpoint-2.old")
    checkpoints.clean(tmp_path)
    assert names(tmp_path) == {"checkpoint-2"}


def test_a_checkpoint_that_another_program_has_open_ends_no_run(tmp_path, monkeypatch):
    for step in (1, 2):
        write(tmp_path / f"checkpoint-{step}")

    def refuse(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "It is open in another program", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        checkpoints.keep(tmp_path, 1)
        checkpoints.clean(tmp_path)
    assert [step for step in (1, 2) if models.is_complete(tmp_path / f"checkpoint-{step}")] == [2]
    checkpoints.clean(tmp_path)
    assert names(tmp_path) == {"checkpoint-2"}


class Mps:
    """The functions of `torch.mps` that a checkpoint needs, with a generator of its own."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.get_rng_state, self.set_rng_state = generator.get_state, generator.set_state
        self.draw = lambda: torch.rand(5, generator=generator).tolist()


def test_random_numbers_of_mps_continue_where_the_checkpoint_was(tmp_path, monkeypatch):
    device = Mps()
    monkeypatch.setattr("torch.mps", device)
    for kind in ("cpu", "cuda"):  # Trainer's own file holds theirs
        save_random_state(tmp_path, kind, None)
    assert names(tmp_path) == set()
    save_random_state(tmp_path, "mps", None)
    drawn = device.draw()
    restore_random_state(tmp_path, "cuda")
    assert device.draw() != drawn
    restore_random_state(tmp_path, "mps")
    assert device.draw() == drawn
