"""A model that FSDP2 divides among processes learns, pauses and is saved like a whole one, over gloo on the CPU."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from core.options import RunOptions, run_file
from core.options.choices import FrozenPrecision, Method, Toggle
from core.runs.events import Action, Outcome, RunFinished, WhatRan
from core.runs.folder import RunFolder
from tests.fakes.divided import COMMAND
from tests.fakes.models import save_tiny_bert
from tests.fakes.trained_runs import Story, story_of
from tests.fakes.training import run_options, write_reviews

ROOT = Path(__file__).parents[4]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="FSDP2 is offered with CUDA, that is on Linux"),
]


def asked(folder: Path, **changes: Any) -> RunOptions:
    """Dropout, an order by length, accumulation, evaluations: all that draws random numbers or adds up over ranks."""
    usual = {
        "source": save_tiny_bert(folder / "bert", hidden_dropout_prob=0.1),
        "train": write_reviews(folder / "reviews.csv", 64),
        "eval_fraction": 0.25,
        "group_by_length": Toggle.ON,
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "epochs": 2.0,
        "eval_steps": 3.0,
        "keep_best": True,
        "learning_rate": 1e-3,
        "processes": 2,
    }
    return run_options(**{**usual, **changes})


def train(folder: Path, options: RunOptions, *, pause_at: int | None = None) -> Story:
    """Train, or go on, with processes of their own; a pause is asked for once step `pause_at` is told."""
    folder.mkdir(exist_ok=True)
    run = RunFolder(folder)
    run_file.write(options, run.options_file)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    engine = subprocess.Popen([*COMMAND, "train", str(folder)], cwd=ROOT, env=environment)
    while engine.poll() is None:
        is_there = pause_at is not None and run.events_file.exists()
        if is_there and max(story_of(run).steps, default=0) >= pause_at:
            run.request(Action.PAUSE)
            pause_at = None
        time.sleep(0.02)
    assert engine.returncode == 0
    return story_of(run)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next((folder / "model").glob("*.safetensors")))


def losses(story: Story) -> list[float]:
    trained, evaluated = [figures[0] for figures in story.steps.values()], story.evaluations.values()
    return [*trained, *(metrics["eval_loss"] for metrics in evaluated)]


def test_a_divided_model_learns_pauses_and_is_saved_like_a_whole_one(tmp_path):
    options = asked(tmp_path)
    divided = asked(tmp_path, fsdp=True)
    ddp, whole = train(tmp_path / "ddp", options), train(tmp_path / "whole", divided)
    paused = train(tmp_path / "paused", divided, pause_at=4)
    assert paused.ended[0] is Outcome.PAUSED
    paused = train(tmp_path / "paused", divided)

    copies, parts = (story.of(WhatRan)[-1] for story in (ddp, whole))
    assert (copies.shards, copies.parallel) == (0, "DDP, 2 processes")
    assert (parts.shards, parts.parallel) == (2, "FSDP2, 2 processes")
    assert parts.total_parameters == copies.total_parameters
    assert parts.optimizer_state_bytes == pytest.approx(copies.optimizer_state_bytes / 2, rel=0.05)

    assert ddp.last.peak_bytes > 800 << 20, "of both processes, each over 500 MB"
    assert (len(ddp.steps), len(ddp.evaluations)) == (12, 4)
    assert losses(whole) == pytest.approx(losses(ddp), abs=1e-5)
    assert (paused.steps, paused.evaluations) == (whole.steps, whole.evaluations)
    assert paused.of(RunFinished)[-1].metrics == whole.of(RunFinished)[-1].metrics != {}
    of_ddp, of_whole, of_paused = (weights(tmp_path / name) for name in ("ddp", "whole", "paused"))
    assert of_whole.keys() == of_ddp.keys()
    assert all(torch.equal(of_paused[name], of_whole[name]) for name in of_whole)
    assert all(torch.allclose(of_whole[name], of_ddp[name], atol=1e-4) for name in of_whole)


def test_adapters_on_divided_weights_in_16_bits(tmp_path):
    lora = {
        "method": Method.LORA,
        "frozen_precision": FrozenPrecision.BF16,
        "max_steps": 4,
        "activation_checkpointing": True,
    }
    ddp, divided = (train(tmp_path / str(fsdp), asked(tmp_path, **lora, fsdp=fsdp)) for fsdp in (False, True))
    assert divided.of(WhatRan)[-1].shards == 2
    assert losses(divided) == pytest.approx(losses(ddp), abs=1e-4)
    of_ddp, of_divided = (weights(tmp_path / str(fsdp)) for fsdp in (False, True))
    assert of_divided.keys() == of_ddp.keys()
    assert all(torch.allclose(of_divided[name], of_ddp[name], atol=1e-3) for name in of_ddp)
