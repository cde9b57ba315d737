"""DeepSpeed: what it is told, and where it is installed, that it trains to the same losses."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.base import jobs
from core.engine.training.arguments import describe_zero, trainer_arguments, zero_config
from core.options import RunOptions, run_file
from core.options.choices import DeepSpeed, Offload, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised, StepFinished, WhatRan
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import model, resolved, train

STAGES = (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3)


def asked(stage: DeepSpeed, precision: Precision = Precision.BF16, **memory: Any) -> RunOptions:
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        device=DeviceOptions(precision=precision),
        memory=MemoryOptions(deepspeed=stage, **memory),
    )


def config(stage: DeepSpeed, kind: str = "cuda", **memory: Any) -> dict[str, Any]:
    found = zero_config(resolved(asked(stage, **memory), kind))
    assert found is not None
    return found


def test_what_each_stage_moves():
    assert zero_config(resolved(asked(DeepSpeed.OFF), "cuda")) is None
    zero_2 = config(DeepSpeed.ZERO_2)
    zero = zero_2["zero_optimization"]
    assert (zero["stage"], zero["offload_optimizer"]) == (2, {"device": "cpu", "pin_memory": True})
    assert not [name for name in zero if name.startswith(("offload_param", "stage3"))]
    assert (zero_2["train_batch_size"], zero_2["gradient_clipping"]) == ("auto", "auto")
    assert (zero_2["bf16"], zero_2["fp16"]) == ({"enabled": "auto"}, {"enabled": "auto"})
    zero = config(DeepSpeed.ZERO_3, offload=Offload.NVME, offload_folder="/fast")["zero_optimization"]
    expected = {"device": "nvme", "pin_memory": True, "nvme_path": "/fast"}
    assert (zero["stage"], zero["offload_optimizer"], zero["offload_param"]) == (3, expected, expected)
    assert zero["stage3_gather_16bit_weights_on_model_save"]
    zero = config(DeepSpeed.ZERO_3, offload=Offload.NONE)["zero_optimization"]
    assert not [name for name in zero if name.startswith("offload")]


@pytest.mark.parametrize(("precision", "enabled"), [(Precision.BF16, True), (Precision.FP32, False)])
def test_on_a_cpu_bf16_is_left_to_its_autocast(precision, enabled):
    """Trainer takes bf16 without `use_cpu` for a request to a GPU, and `use_cpu` for one without DeepSpeed."""
    run = resolved(asked(DeepSpeed.ZERO_2, precision))
    found = zero_config(run)
    assert found is not None
    assert found["torch_autocast"]["enabled"] is enabled
    arguments = trainer_arguments(run, Path("checkpoints"), has_eval=False)
    assert {name: arguments[name] for name in ("use_cpu", "bf16", "deepspeed")} == {
        "use_cpu": False,
        "bf16": False,
        "deepspeed": found,
    }


def test_where_it_is_not_installed_the_run_ends_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    tiny = train(tmp_path / "run", memory=MemoryOptions(deepspeed=DeepSpeed.ZERO_2))
    assert tiny.status == 1
    assert (
        "memory.deepspeed: needs the package deepspeed, which isn't installed"
        in tiny.messages["failed"].detail
    )


def train_apart(folder: Path, memory: MemoryOptions, bert: Path) -> list[Any]:
    """A run in an engine of its own, as Hone starts it: DeepSpeed can't be set up twice in one process."""
    folder.mkdir()
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=model(bert),
        data=DataOptions(train="synthetic:16x8"),
        device=DeviceOptions(name="cpu", precision=Precision.BF16),
        memory=memory,
        training=TrainingOptions(epochs=1.0, learning_rate=1e-2, weight_decay=0.01),
    )
    run = RunFolder(folder)
    run_file.write(options, run.options_file)
    subprocess.run(jobs.engine_command("train", str(folder)), check=True, capture_output=True, timeout=300)
    return EventReader(run.events_file).read_all()


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.parametrize("stage", STAGES)
def test_it_trains_to_the_same_losses(stage, tmp_path):
    bert = save_tiny_bert(tmp_path / "bert")
    batches = {"batch_size": 4, "gradient_accumulation_steps": 2}
    plain = train_apart(tmp_path / "plain", MemoryOptions(**batches), bert)
    divided = train_apart(tmp_path / "run", MemoryOptions(**batches, deepspeed=stage), bert)
    losses, expected = (
        [event.loss for event in events if isinstance(event, StepFinished)] for events in (divided, plain)
    )
    assert losses == pytest.approx(expected, rel=1e-6)
    assert not [event for event in divided if isinstance(event, MessageRaised)]
    ran, alone = (
        next(event for event in events if isinstance(event, WhatRan)) for events in (divided, plain)
    )
    assert ran.deepspeed.startswith(f"ZeRO-{2 if stage is DeepSpeed.ZERO_2 else 3}, optimizer")
    stated = ("optimizer", "total_parameters", "autocast_dtype", "attention")
    assert [getattr(ran, name) for name in stated] == [getattr(alone, name) for name in stated]


def engine(stage: int, optimizer: str = "", weights: str = "") -> Any:
    """What DeepSpeed's engine answers of its configuration."""
    places = [SimpleNamespace(device=place) if place else None for place in (optimizer, weights)]
    return SimpleNamespace(
        zero_optimization_stage=lambda: stage,
        zero_offload_optimizer=lambda: places[0],
        zero_offload_param=lambda: places[1],
    )


@pytest.mark.parametrize(
    ("live", "said"),
    [
        (None, ""),
        (engine(2), "ZeRO-2"),
        (engine(3, "none", "none"), "ZeRO-3"),
        (engine(2, "cpu"), "ZeRO-2, optimizer in main memory"),
        (engine(3, "nvme", "nvme"), "ZeRO-3, optimizer and weights in NVMe"),
        (engine(3, "nvme", "cpu"), "ZeRO-3, optimizer in NVMe, weights in main memory"),
    ],
)
def test_what_ran_is_read_from_its_engine(live, said):
    assert describe_zero(live) == said
