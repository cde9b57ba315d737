"""How Trainer's batches are loaded, in which order; and the random numbers that checkpoints keep."""

import contextlib
import multiprocessing
import random
import signal
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as data_Dataset
from transformers import Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.base.processes import SIGNALS
from core.engine.data.batches import PRELOADED, Collator, SentCollator, SentSamples, begin_worker, received
from core.engine.data.token_cache import lengths_of


class OrderedByLength(LengthGroupedSampler):
    """Trainer's own order, drawn from the same random numbers.

    They are those that dropout uses, too, so that the order of an epoch depends on all steps before it. `begun_with` is
    where they stood when the order under way was drawn; whoever sets `begin_with` has the next one drawn from there.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begun_with: torch.Tensor | None = None
        self.begin_with: torch.Tensor | None = None

    def __iter__(self) -> Iterator[int]:
        if self.begin_with is not None:
            torch.set_rng_state(self.begin_with)
            self.begin_with = None
        self.begun_with = torch.get_rng_state()
        yield from super().__iter__()


class SameEachTime(LengthGroupedSampler):
    """Trainer's own order for what is evaluated: the same in every evaluation, also where one loader serves them all.

    In another order the batches would be others, and with them the last digits of the loss.
    """

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, generator=torch.Generator(), **kwargs)
        self._seed = seed

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self._seed)
        yield from super().__iter__()


class LoadingTrainer(Trainer):
    """Trainer, its batches and their order untouched.

    Two things differ. Workers are sent what can be sent to a new process, and import little there; and texts are
    grouped by lengths that were read from their Arrow columns at once instead of text by text.

    `train_order` is the order in which it learns, where that is drawn from the random numbers that all share.
    """

    train_order: OrderedByLength | None = None

    def _get_dataloader(self, dataset: Any, description: str, batch_size: int, **kwargs: Any) -> DataLoader:
        if not self.args.dataloader_num_workers:
            return super()._get_dataloader(dataset, description, batch_size, **kwargs)
        if self.args.dataloader_multiprocessing_context == "forkserver":
            multiprocessing.set_forkserver_preload(list(PRELOADED))
            with on_signals(signal.SIG_IGN):  # a shutdown asks every process to end; the engine ends this one
                import_module("multiprocessing.forkserver").ensure_running()
        collator: Collator = self.data_collator
        self.data_collator: Collator = SentCollator(collator)
        try:
            loader = super()._get_dataloader(SentSamples(dataset), description, batch_size, **kwargs)
        finally:
            self.data_collator = collator
        live_loader(loader).worker_init_fn = begin_worker
        if not kwargs.get("is_training") and self._has_evaluated():
            draw_no_seed(loader)
        return loader

    def _has_evaluated(self) -> bool:
        return any("eval_loss" in entry for entry in self.state.log_history)

    def _get_train_sampler(self, train_dataset: data_Dataset | None = None) -> Sampler | None:
        dataset: Any = self.train_dataset if train_dataset is None else train_dataset
        if isinstance(dataset, SentSamples):
            dataset = dataset.samples
        if self.args.train_sampling_strategy == "group_by_length":
            lengths = lengths_of(dataset)
            if lengths is not None:  # the arguments are Trainer's own
                together = self.args.train_batch_size * self.args.gradient_accumulation_steps
                self.train_order = OrderedByLength(together, lengths=lengths)
                return self.train_order
        sampler = super()._get_train_sampler(dataset)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = self.train_order = OrderedByLength(sampler.batch_size, lengths=sampler.lengths)
        return sampler

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler | None:
        if self.args.train_sampling_strategy == "group_by_length":
            samples = eval_dataset.samples if isinstance(eval_dataset, SentSamples) else eval_dataset
            lengths = lengths_of(samples)
            if lengths is not None:
                return SameEachTime(self.args.eval_batch_size, lengths=lengths, seed=self.args.seed)
        return super()._get_eval_sampler(eval_dataset)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The batches of one optimizer step.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        return super().get_batch_samples(map(received, epoch_iterator), num_batches, device)

    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Evaluate one batch.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        return super().prediction_step(model, received(inputs), *args, **kwargs)

    def stop_workers(self) -> None:
        """End the processes that prepare batches; a loader asked for more starts new ones."""
        loaders = [self.callback_handler.train_dataloader, *getattr(self, "_eval_dataloaders", {}).values()]
        for loader in filter(None, loaders):
            live_loader(loader)._iterator = None  # torch ends them where it lets go of the iterator


def live_loader(loader: Any) -> DataLoader:
    """The loader of torch's own that accelerate wraps: its iterator holds the workers."""
    return getattr(loader, "base_dataloader", loader)


def draw_no_seed(loader: Any) -> None:
    """Let a loader start its workers without moving the random numbers that all share.

    torch draws a number when workers start. They live from one epoch to the next, so that a run draws it once: one that
    goes on must not draw it a second time.
    """
    live_loader(loader).generator = loader.generator = torch.Generator()


# --- Signals


Handler = Callable[[int, FrameType | None], object] | int


@contextlib.contextmanager
def on_signals(handler: Handler) -> Iterator[None]:
    """Let `handler` take the signals that ask this process to end, but for those that it was started to ignore."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    taken = {number: found for number, found in before.items() if found not in (None, signal.SIG_IGN)}
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, found in taken.items():
            signal.signal(number, found)


# --- Random numbers, kept in checkpoints where Trainer forgets them


MPS_STATE = "rng_state_mps.pth"
ORDER_STATE = "rng_state_order.pth"


class RandomDevice(Protocol):
    """What `torch.mps` offers: its state is a tensor of bytes on the CPU."""

    def get_rng_state(self) -> torch.Tensor:
        """The state of its generator."""

    def set_rng_state(self, new_state: torch.Tensor) -> None:
        """Continue from a state."""


def save_random_state(folder: Path, kind: str, device: RandomDevice = torch.mps) -> None:
    """Write into a checkpoint what Trainer left out; call it before the checkpoint is sealed.

    Args:
        folder: The checkpoint.
        kind: What the run computes on: `cuda`, `mps` or `cpu`.
        device: Torch's module for MPS.
    """
    if kind == "mps":
        torch.save(device.get_rng_state(), folder / MPS_STATE)


def restore_random_state(folder: Path, kind: str, device: RandomDevice = torch.mps) -> bool:
    """Continue the device's random numbers from a checkpoint, once Trainer has restored the others.

    Returns:
        Whether there was a state: none is written where Trainer's own file holds everything.
    """
    path = folder / MPS_STATE
    if kind != "mps" or not path.is_file():
        return False
    device.set_rng_state(torch.load(path, weights_only=True))
    return True


def save_order(folder: Path, state: torch.Tensor | None) -> None:
    """Write into a checkpoint the CPU's random numbers as they were when the epoch's order was drawn from them."""
    if state is not None:
        torch.save(state, folder / ORDER_STATE)


def load_order(folder: Path) -> torch.Tensor | None:
    """What `save_order` wrote; None where the order wasn't drawn so."""
    path = folder / ORDER_STATE
    if not path.is_file():
        return None
    state: torch.Tensor = torch.load(path, weights_only=True)
    return state


def generators(kind: str) -> tuple[Any, ...]:
    """Torch's modules that draw random numbers where a model computes on a device of this kind."""
    return (torch,) if kind == "cpu" else (torch, torch.get_device_module(kind))


def remember(kind: str, device: RandomDevice = torch.mps) -> Callable[[], None]:
    """Note where all random numbers stand; returns what takes them back there."""
    of_python, of_numpy, of_cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    of_cuda = torch.cuda.get_rng_state() if kind == "cuda" else None
    of_mps = device.get_rng_state() if kind == "mps" else None

    def restore() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        torch.set_rng_state(of_cpu)
        if of_cuda is not None:
            torch.cuda.set_rng_state(of_cuda)
        if of_mps is not None:
            device.set_rng_state(of_mps)

    return restore
