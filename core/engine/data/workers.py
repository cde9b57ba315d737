"""Processes that prepare batches: how they are started, what they are sent, and how their errors come back.

A worker imports this module and `core.engine.data.batches`, not Trainer. torch gives each worker one
thread. It ends with the engine, however that ends.
"""

import multiprocessing
import os
import random
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from core.engine.data.single_precision import Collator
from core.errors import UserError

PRELOADED = ("core.engine.data.batches", "core.engine.data.workers")
"""What the fork server imports once, before it forks the workers: torch above all."""

REFUSED = "refused"
"""The key under which a worker sends a `UserError` in place of a batch."""


def start_method(system: str) -> str:
    """How workers are started: `forkserver` or `spawn`, never `fork`.

    By the time there are workers the engine runs threads (OpenMP, tokenizers, Arrow), holds a CUDA context or a Metal
    device; a fork copies their locks without the threads that would release them. Trainer itself would fork on MPS.

    Args:
        system: As `platform.system()` says it: `Linux`, `Darwin`, `Windows`.
    """
    return "forkserver" if system == "Linux" else "spawn"


@dataclass(frozen=True)
class SentSamples:
    """A data set on its way to workers: what stops the person's run comes back whole.

    torch makes a text of any exception of a worker, so that the title, the detail and the fixes of a `UserError` would
    be lost in a traceback.
    """

    samples: Any

    def __len__(self) -> int:
        return len(self.samples)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of one batch, or the one error that keeps them back."""
        try:
            if hasattr(self.samples, "__getitems__"):
                return list(self.samples.__getitems__(indices))
            return [self.samples[index] for index in indices]
        except UserError as error:
            return [error]


@dataclass(frozen=True)
class SentCollator:
    """The collator that goes with `SentSamples`."""

    collate: Collator

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        """A batch, or the error under its key."""
        first = samples[0]
        return {REFUSED: first} if isinstance(first, UserError) else self.collate(samples)


def received(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as it is.

    Raises:
        UserError: The worker sent one in place of it.
    """
    error = batch.get(REFUSED)
    if error is not None:
        raise error
    return batch


def begin_worker(_worker: int) -> None:
    """Called in each worker as it starts.

    Its random numbers get the seed that Trainer would give them; Trainer's own function would import transformers.
    """
    signal.signal(signal.SIGTERM, _leave_to_engine)
    threading.Thread(target=_end_with_engine, name="end-with-engine", daemon=True).start()
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _leave_to_engine(number: int, _frame: FrameType | None) -> None:
    """A shutdown asks every process to end: the engine needs its workers until it has saved. It asks a second time."""
    signal.signal(number, signal.SIG_DFL)


def _end_with_engine() -> None:
    """Wait until the engine is gone, then end.

    torch's own watchdog looks at the worker's parent. That is the fork server, which in turn waits for the workers: a
    killed engine would leave them all behind.
    """
    engine = multiprocessing.parent_process()
    if engine is not None:
        engine.join()
        os._exit(1)
