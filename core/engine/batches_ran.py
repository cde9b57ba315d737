"""States how batches really came to a run, from its live data loader."""

import math
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
    effective_batch: int


def batches_ran(trainer: WatchedTrainer) -> BatchesRan:
    """Read the loader that trains, while it runs."""
    loader: Any = live_loader(_loader_of(trainer))
    running = list(getattr(loader._iterator, "_workers", ()))  # kept by torch for persistent workers
    return BatchesRan(
        workers=tuple(worker.pid for worker in running),
        worker_start=START_METHODS.get(type(running[0]).__name__, "") if running else "",
        pinned=loader.pin_memory
        and torch.cuda.is_available(),  # torch pins where there is something to pin for
        padded_to=_padded_to(loader.collate_fn),
        sampling=_sampling(loader.batch_sampler),
        batches_per_step=trainer.args.gradient_accumulation_steps,
        effective_batch=_full_step(trainer, loader),
    )


def _full_step(trainer: WatchedTrainer, loader: Any) -> int:
    """Samples of a full step: those of the last one; after an epoch's last, which may be short, as the loader batches.

    A run that goes on may have that one as its first.
    """
    counted, accumulated = trainer.last_step[0], trainer.args.gradient_accumulation_steps
    an_epoch = math.ceil(len(trainer.callback_handler.train_dataloader) / accumulated)
    if an_epoch <= 1 or trainer.state.global_step % an_epoch:
        return counted
    return max(counted, accumulated * (_plain(loader.batch_sampler).batch_size or 0))


def _padded_to(collator: Any) -> str:
    """How long rows are made; empty where they are no texts. Collators that wrap another keep it as `collate`."""
    while not isinstance(collator, PadTexts):
        collator = getattr(collator, "collate", None)
        if collator is None:
            return ""
    return "each batch's longest" if collator.length is None else f"{collator.length:,} tokens"


def _loader_of(trainer: WatchedTrainer) -> Any:
    """The loader that trains now: an epoch that is gone on with in the middle has one of its own."""
    active = trainer.accelerator.gradient_state.active_dataloader
    return trainer.callback_handler.train_dataloader if active is None else active


def _plain(batches: Any) -> Any:
    """The sampler of batches, without the one around it that skips what was trained on before."""
    return getattr(batches, "batch_sampler", batches)


def _sampling(batches: Any) -> str:
    sampler = _plain(batches).sampler
    return "grouped by length" if isinstance(sampler, LengthGroupedSampler) else "random"
