"""States how batches really came to a run, from its live data loader."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.engine.data.batches import PadTexts
from core.engine.loading import live_loader
from core.engine.trainer import WatchedTrainer

START_METHODS = {
    "ForkProcess": "fork",
    "ForkServerProcess": "forkserver",
    "SpawnProcess": "spawn",
}
"""The classes of multiprocessing's processes, by which a live one tells how it was started."""


@dataclass(frozen=True)
class BatchesRan:
    """What `core.events.WhatRan` tells of batches, field by field."""

    workers: tuple[int, ...]
    worker_start: str
    pinned: bool
    padded_to: str
    sampling: str
    batches_per_step: int


def batches_ran(trainer: WatchedTrainer) -> BatchesRan:
    """Read the loader that trains, while it runs."""
    loader: Any = live_loader(trainer.callback_handler.train_dataloader)
    running = list(getattr(loader._iterator, "_workers", ()))  # kept by torch for persistent workers
    return BatchesRan(
        workers=tuple(worker.pid for worker in running),
        worker_start=START_METHODS.get(type(running[0]).__name__, "") if running else "",
        pinned=loader.pin_memory
        and torch.cuda.is_available(),  # torch pins where there is something to pin for
        padded_to=_padded_to(loader.collate_fn),
        sampling=_sampling(loader.batch_sampler.sampler),
        batches_per_step=trainer.args.gradient_accumulation_steps,
    )


def _padded_to(collator: Any) -> str:
    """How long rows are made; empty where they are no texts. Collators that wrap another keep it as `collate`."""
    while not isinstance(collator, PadTexts):
        collator = getattr(collator, "collate", None)
        if collator is None:
            return ""
    return "each batch's longest" if collator.length is None else f"{collator.length:,} tokens"


def _sampling(sampler: Any) -> str:
    return "grouped by length" if isinstance(sampler, LengthGroupedSampler) else "random"
