"""Checkpoints: complete or absent, and the random numbers in them."""

import shutil
from pathlib import Path

import pytest
import torch

from core.engine.training import checkpoints
from core.engine.training.checkpoints import find_start
from core.engine.training.loading import restore_random_state, save_random_state
from core.options.sections import OutputOptions
from core.runs import models
from core.runs.folder import RunFolder
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, train


def saved(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "training_args.bin").write_bytes(b"pickle")
    return folder


def test_a_sealed_checkpoint_is_complete_and_holds_no_pickle(tmp_path: Path) -> None:
    folder = saved(tmp_path / "checkpoint-1")
    assert not models.is_complete(folder)
    assert checkpoints.seal(folder) == len(b"weights")
    assert models.is_complete(folder)
    assert not (folder / "training_args.bin").exists()


def test_a_file_cut_short_makes_it_incomplete(tmp_path: Path) -> None:
    folder = saved(tmp_path / "checkpoint-1")
    checkpoints.seal(folder)
    (folder / "model.safetensors").write_bytes(b"wei")
    assert not models.is_complete(folder)


def test_half_written_checkpoints_are_cleaned_and_whole_ones_kept(tmp_path: Path) -> None:
    whole, half = saved(tmp_path / "checkpoint-1"), saved(tmp_path / "checkpoint-2")
    checkpoints.seal(whole)
    checkpoints.clean(tmp_path)
    assert whole.exists()
    assert not half.exists()


def test_the_newest_by_step_are_kept_and_unsealed_ones_left_alone(tmp_path: Path) -> None:
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


def test_a_kill_between_two_renames_costs_neither_the_old_model_nor_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    find_start(run)
    assert (run.model / "model.safetensors").read_bytes() == b"weights"
    write_anew(b"newest")
    assert (run.model / "model.safetensors").read_bytes() == b"newest"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_checkpoint_of_old_that_was_about_to_be_replaced_is_cleaned(tmp_path: Path) -> None:
    whole = saved(tmp_path / "checkpoint-2")
    checkpoints.seal(whole)
    saved(tmp_path / ".checkpoint-1.old")
    whole.rename(tmp_path / ".checkpoint-2.old")
    checkpoints.clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2"]


def test_one_that_another_program_reads_in_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """The two functions of `torch.mps` that a checkpoint needs, with a generator of its own."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def get_rng_state(self) -> torch.Tensor:
        return self._generator.get_state()

    def set_rng_state(self, new_state: torch.Tensor) -> None:
        self._generator.set_state(new_state)

    def draw(self) -> list[float]:
        return torch.rand(5, generator=self._generator).tolist()


def test_mps_goes_on_where_the_checkpoint_was(tmp_path: Path) -> None:
    before, after = Mps(seed=1), Mps(seed=2)
    before.draw()
    save_random_state(tmp_path, "mps", before)
    assert restore_random_state(tmp_path, "mps", after)
    assert after.draw() == before.draw()


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_elsewhere_trainers_own_file_holds_everything(kind: str, tmp_path: Path) -> None:
    device = Mps(seed=1)
    save_random_state(tmp_path, kind, device)
    assert list(tmp_path.iterdir()) == []
    assert not restore_random_state(tmp_path, kind, device)


def test_a_checkpoint_from_another_device_changes_nothing(tmp_path: Path) -> None:
    device, same = Mps(seed=1), Mps(seed=1)
    assert not restore_random_state(tmp_path, "mps", device)
    assert device.draw() == same.draw()


def test_trainers_file_is_there_and_holds_no_code(tmp_path: Path) -> None:
    from transformers.trainer_pt_utils import safe_globals

    run = train(
        tmp_path / "run",
        model=model(save_tiny_bert(tmp_path / "model")),
        output=OutputOptions(keep_checkpoints=1),
    )
    [folder] = run.run.checkpoints.iterdir()
    with safe_globals():  # numpy's arrays, which Trainer allows as well
        state = torch.load(folder / "rng_state.pth", weights_only=True)
    assert {"python", "numpy", "cpu"} <= set(state)
    assert state["cpu"].dtype == torch.uint8
