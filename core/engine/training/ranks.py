"""What the processes of a run do together: agree with rank 0, gather, wait. A process by itself does none of it.

Collectives of this module run over a group of their own, gloo on the CPU, so that nothing waits for a GPU. All ranks
have to call each at the same place.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed

from core.engine.launch import is_rank, rank

Value = TypeVar("Value")

BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
"""Without these, accelerate ignores DeepSpeed, and DeepSpeed looks for MPI."""
PATIENCE = timedelta(days=1)
"""For rank 0, which may write predictions or a checkpoint for long; a rank that died is noticed at once."""

_talk: Any = None


@contextmanager
def process_group(kind: str) -> Iterator[None]:
    """Sets up the run's process group; a process by itself gets one of one, for DeepSpeed, with its store in memory."""
    global _talk  # noqa: PLW0603 - a process is in one group
    if is_rank():
        os.environ["DS_ACCELERATOR"] = kind
        distributed.init_process_group(BACKENDS[kind])
        _talk = distributed.new_group(backend="gloo", timeout=PATIENCE)
        yield  # not destroyed: that would wait for the others, which may have failed
        return
    before = {name: os.environ.get(name) for name in (*ALONE, "DS_ACCELERATOR")}
    os.environ.update(ALONE, DS_ACCELERATOR=kind)
    distributed.init_process_group(BACKENDS[kind], store=distributed.HashStore(), rank=0, world_size=1)
    try:
        with warnings.catch_warnings():  # DeepSpeed 0.19.8 uses deprecated names of torch 2.13 at each step
            warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed.c10d_logger")
            yield
    finally:
        distributed.destroy_process_group()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def world_size() -> int:
    """Returns how many processes train together."""
    return distributed.get_world_size() if _talk is not None else 1


def agreed(value: Value) -> Value:
    """Returns rank 0's value."""
    if _talk is None:
        return value
    box = [value]
    distributed.broadcast_object_list(box, src=0, group=_talk)
    return box[0]


def agreed_numbers(numbers: list[int]) -> list[int]:
    """Returns rank 0's small numbers; quick enough for every step."""
    if _talk is None:
        return numbers
    told = torch.tensor(numbers, dtype=torch.int8)
    distributed.broadcast(told, src=0, group=_talk)
    return [int(number) for number in told.tolist()]


def gathered(value: Value) -> list[Value]:
    """Returns every rank's value, in the order of ranks."""
    if _talk is None:
        return [value]
    values: list[Any] = [None] * world_size()
    distributed.all_gather_object(values, value, group=_talk)
    return values


def wait_for_all() -> None:
    if _talk is not None:
        distributed.barrier(group=_talk)


def summed(figures: torch.Tensor) -> torch.Tensor:
    """Returns the sum over ranks, on the figures' device; a GPU isn't waited for."""
    if _talk is not None:
        distributed.all_reduce(figures)
    return figures


def share_buffers(model: torch.nn.Module) -> None:
    """Gives all ranks rank 0's buffers, such as the statistics of batch norms; DDP does so when a step begins."""
    for buffer in model.buffers() if _talk is not None else ():
        distributed.broadcast(buffer, src=0)


def rows_of_all(rows: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Returns the rows of all ranks' batches, one after another; `sizes` are how many count of each."""
    width = max(*sizes, len(rows))
    padded = torch.cat([rows, rows.new_zeros((width - len(rows), *rows.shape[1:]))]).contiguous()
    found = [torch.empty_like(padded) for _size in sizes]
    distributed.all_gather(found, padded)
    return torch.cat([part[:size] for part, size in zip(found, sizes, strict=True)])


class SharedEvaluation:
    """Which rows of an evaluation's batches count, of each rank: all evaluate as many, the last ones perhaps again.

    Attributes:
        sizes: The rows that count of each rank's current batch.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.sizes = [1] * world_size()
        self._batches = 0

    def begin_batch(self, samples: int, size: int) -> None:
        """Shares out the next batches of `size`, of an evaluation of so many samples."""
        rest = samples - self._batches * world_size() * size
        self.sizes = [min(size, max(0, rest - number * size)) for number in range(world_size())]
        self._batches += 1

    @property
    def counts(self) -> bool:
        """Whether anything of this rank's batch counts."""
        return bool(self.sizes[rank()])
