"""What is drawn at random goes on from a checkpoint, on the CPU through Trainer's file and on MPS through Hone's.

No Mac was at hand: `torch.mps` is stood in for by a generator with its two functions.
"""

from pathlib import Path

import pytest
import torch

from core.engine.loading import restore_random_state, save_random_state
from core.options.sections import OutputOptions
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, train


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
