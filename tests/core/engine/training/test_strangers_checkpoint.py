"""A checkpoint that a stranger made: what of it would run code when it is loaded is refused, and nothing is run."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.engine.training import checkpoints
from core.options import RunOptions, run_file
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from core.runs.library import create
from core.runs.models import newest
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import write_reviews

prepare_torchvision()


class Trap:
    """What makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._mark,)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of three steps with its checkpoint."""
    from core.engine.training.train import train_run

    folder = tmp_path_factory.mktemp("stranger")
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=str(save_tiny_bert(folder / "bert"))),
        data=DataOptions(train=str(write_reviews(folder / "reviews.csv")), eval_fraction=0.0),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=8),
        training=TrainingOptions(epochs=1.0),
    )
    run = create(options, folder, folder / "run")
    assert train_run(run, options, Reporter(run)) == 0
    return run


def test_what_would_run_code_is_not_loaded(trained: RunFolder, tmp_path: Path) -> None:
    from core.engine.training.train import train_run

    mark = tmp_path / "it-ran"
    options = run_file.read(trained.options_file)
    found = newest(trained)
    assert found is not None
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        whole = (found.path / name).read_bytes()
        torch.save({"state": {}, "trap": Trap(mark)}, found.path / name)
        for bait in ("pytorch_model.bin", "random_states_0.pkl", "scaler.pt"):
            (found.path / bait).write_bytes(pickle.dumps(Trap(mark)))
        checkpoints.seal(found.path)
        (found.path / "training_args.bin").write_bytes(pickle.dumps(Trap(mark)))
        before = len(EventReader(trained.events_file).read_all())
        assert train_run(trained, options, Reporter(trained), newest(trained)) == 1, name
        told = EventReader(trained.events_file).read_all()[before:]
        [refusal] = [event for event in told if isinstance(event, MessageRaised) and event.id == "failed"]
        assert "Nothing in it was run" in refusal.detail, name
        (found.path / name).write_bytes(whole)
    assert not mark.exists()
    pickle.loads((found.path / "training_args.bin").read_bytes())  # the trap is one
    assert mark.exists()
