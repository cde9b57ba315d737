"""No float64 reaches a device that doesn't have it."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.data.batches import SinglePrecision, collator_for, stack
from core.engine.environment import prepare_torchvision
from core.engine.models.vision import VisionClassifier
from core.engine.tasks import Prepared
from core.options import RunOptions
from core.options.choices import Task
from tests.fakes.building import resolved

prepare_torchvision()

SAMPLES = [{"pixel_values": torch.ones(3, 2, 2, dtype=torch.float64), "labels": row} for row in range(4)]


def no_extras(_folder: Path) -> None:
    pass


def first_batch(kind: str, folder: Path) -> dict[str, Any]:
    """What Hone's trainer would take to a device of this kind."""
    from core.engine.reporter import Reporter
    from core.engine.training.train import build_trainer

    run = resolved(RunOptions(task=Task.IMAGE_CLASSIFICATION), kind)
    network = VisionClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)))
    prepared = Prepared(
        model=network, train=SAMPLES, eval=None, collator=stack, labels=(), save_extras=no_extras
    )
    trainer = build_trainer(folder, run, prepared, Reporter(None))
    return next(iter(trainer.get_train_dataloader()))


@pytest.mark.parametrize(("kind", "dtype"), [("mps", torch.float32), ("cpu", torch.float64)])
def test_batches_for_a_device_without_float64_hold_none(
    kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    batch = first_batch(kind, tmp_path)
    assert batch["pixel_values"].dtype == dtype
    assert batch["labels"].dtype == torch.int64, "only float64 is cast"


def test_it_can_be_sent_to_a_spawned_worker() -> None:
    collator = pickle.loads(pickle.dumps(collator_for("mps", stack)))
    assert isinstance(collator, SinglePrecision)
    assert collator(SAMPLES)["pixel_values"].dtype == torch.float32
