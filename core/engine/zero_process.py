"""DeepSpeed in one process: what a launcher would have set up, and what came of it."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
"""Without these, accelerate takes no notice of DeepSpeed, and DeepSpeed looks for MPI."""
BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
WHERE = {"cpu": "main memory", "nvme": "NVMe"}


@contextmanager
def alone(kind: str) -> Iterator[None]:
    """Be a group of one process while a run with DeepSpeed lasts.

    The group meets in this process's own memory: a launcher's would open a port, and two runs would fight for it.

    Args:
        kind: What the run computes on: `cuda` or `cpu`.
    """
    before = {name: os.environ.get(name) for name in (*ALONE, "DS_ACCELERATOR")}
    os.environ.update(ALONE, DS_ACCELERATOR=kind)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(BACKENDS[kind], store=store, rank=0, world_size=1)
    try:
        with (
            warnings.catch_warnings()
        ):  # DeepSpeed 0.19.8 calls what torch 2.13 has renamed, several times a step
            warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed.c10d_logger")
            yield
    finally:
        torch.distributed.destroy_process_group()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def describe_zero(engine: Any) -> str:
    """What a live DeepSpeed engine divides and puts where, such as "ZeRO-3, optimizer and weights in main memory".

    Args:
        engine: Trainer's `deepspeed`; None where there is none.
    """
    if engine is None:
        return ""
    optimizer, weights = (
        _device(found) for found in (engine.zero_offload_optimizer(), engine.zero_offload_param())
    )
    stage = f"ZeRO-{engine.zero_optimization_stage()}"
    if optimizer and optimizer == weights:
        return f"{stage}, optimizer and weights in {WHERE[optimizer]}"
    parts = [
        f"{what} in {WHERE[device]}"
        for what, device in (("optimizer", optimizer), ("weights", weights))
        if device
    ]
    return ", ".join((stage, *parts))


def zero_loss_scale(engine: Any) -> float | None:
    """The loss scale of fp16 in a live DeepSpeed engine; None where there is none."""
    return float(engine.optimizer.loss_scale) if engine is not None and engine.fp16_enabled() else None


def _device(offload: Any) -> str:
    """Where an offload configuration of DeepSpeed's goes; its values are enumerations."""
    device = getattr(offload, "device", None)
    found = str(getattr(device, "value", device or ""))
    return found if found in WHERE else ""
