"""`transformers.Trainer` with lossless checkpoints and a view into each step; the training loop is Trainer's own."""

import inspect
import math
import multiprocessing
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.data_loader import SeedableRandomSampler
from accelerate.utils import is_compiled_module, recursively_apply
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler
from transformers import PreTrainedModel, Trainer, TrainerState, set_seed
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.trainer_pt_utils import LengthGroupedSampler
from typing_extensions import override

from core.base.errors import ModelError
from core.base.files import temporary_prefix
from core.base.language import _
from core.engine.data import NO_LABEL
from core.engine.data.batches import PRELOADED, Collator, SentCollator, SentSamples, begin_worker, received
from core.engine.data.image_files import ImageSet
from core.engine.data.tables import lengths_of
from core.engine.devices.computing import wait_for
from core.engine.launch import rank
from core.engine.models.parts import base_of
from core.engine.tasks.metrics import HeldOut, Means, perplexity_metrics
from core.engine.training import checkpoints
from core.engine.training.arguments import norm_parameters
from core.engine.training.failures import check_weights_finite, reading, writing
from core.engine.training.observe import FirstBatch, Part, StepParts
from core.engine.training.ranks import agreed, gathered, rows_of_all, share_buffers, wait_for_all, world_size
from core.engine.training.requests import on_signals
from core.runs.models import STATE, Checkpoint, is_complete

if TYPE_CHECKING:
    from core.engine.training.compile import Compilation


# --- The order of samples


class OrderedByLength(LengthGroupedSampler):
    """Trainer's sampler, which draws from the global random numbers.

    Dropout draws from them too, so the order of an epoch depends on all steps before it.

    Attributes:
        begun_with: The random state when the current order was drawn.
        begin_with: The random state to draw the next order from, when an epoch is resumed.
    """

    begun_with: torch.Tensor | None = None
    begin_with: torch.Tensor | None = None

    @override
    def __iter__(self) -> Iterator[int]:
        yield from agreed(self._drawn() if rank() == 0 else [])

    def _drawn(self) -> list[int]:
        if self.begin_with is not None:
            torch.set_rng_state(self.begin_with)
            self.begin_with = None
        self.begun_with = torch.get_rng_state()
        return [*super().__iter__()]


class WithEpochs(Sampler[tuple[int, int]]):
    """accelerate's order of samples, each with its epoch: nothing else reaches workers that live on."""

    def __init__(self, samples: ImageSet) -> None:
        self._order = SeedableRandomSampler(samples)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((self._order.epoch, index) for index in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def set_epoch(self, epoch: int) -> None:
        self._order.set_epoch(epoch)


class SameEachTime(LengthGroupedSampler):
    """The same order in every evaluation: other batches would change the last digits of the loss."""

    def __init__(self, batch_size: int, lengths: list[int], seed: int) -> None:
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self._seed = seed

    @override
    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self._seed)
        yield from super().__iter__()


def one_batch_each(batches: BatchSampler, number: int, count: int) -> Iterator[list[int]]:
    """The batches of rank `number` of `count` in an evaluation: all have as many, so the last one may come again."""
    remaining = iter(batches)
    while together := [*islice(remaining, count)]:
        yield together[min(number, len(together) - 1)]


def live_loader(loader: Any) -> DataLoader:
    """The torch DataLoader inside accelerate's: its iterator holds the workers."""
    return getattr(loader, "base_dataloader", loader)


def use_own_generator(loader: Any) -> None:
    """Let a loader start its workers without drawing from the global random numbers.

    torch draws a number when workers start. They live from epoch to epoch, so that a run draws it once: a resumed run
    must not draw it again.
    """
    live_loader(loader).generator = loader.generator = torch.Generator()


# --- Random numbers


MPS_STATE = "rng_state_mps.pth"
ORDER_STATE = "rng_state_order.pth"


def save_random_state(folder: Path, kind: str, order: torch.Tensor | None) -> None:
    """Save the random states that Trainer leaves out of a checkpoint.

    `order` is the CPU's when the epoch's order was drawn from it, if it was.
    """
    if kind == "mps":
        torch.save(torch.mps.get_rng_state(), folder / MPS_STATE)
    if order is not None:
        torch.save(order, folder / ORDER_STATE)


def restore_random_state(folder: Path, kind: str) -> None:
    """Restore MPS's random state from a checkpoint; Trainer restores the others."""
    path = folder / MPS_STATE
    if kind == "mps" and path.is_file():
        torch.mps.set_rng_state(torch.load(path, weights_only=True))


def generators(kind: str) -> tuple[Any, ...]:
    """Torch's modules with a random state that a model on this kind of device uses."""
    return (torch,) if kind == "cpu" else (torch, torch.get_device_module(kind))


def remember_random_state(kind: str) -> Callable[[], None]:
    """Returns a function that restores all random states of this moment."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    of_torch = [(module, module.get_rng_state()) for module in generators(kind)]

    def restore() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for module, state in of_torch:
            module.set_rng_state(state)

    return restore


# --- The trainer


EXTENDED_TO = "extended_to"
"""Key of an entry of Trainer's log: from this step on the run has so many steps."""


class WatchedTrainer(Trainer):
    """Trainer that resumes bit for bit, and keeps the figures of the current step without waiting for the device.

    Workers start by sending only what a new process needs, and lengths to group by are read from Arrow columns. A
    checkpoint is complete or absent, and holds every random state.

    Attributes:
        when_saving: Called before a checkpoint is written.
        save_extras: Writes what using the model takes besides its weights into a checkpoint.
        last_saved: The checkpoint of the last save.
        saved_anew: Whether that was written then; it may have existed already.
        checkpoint_bytes: The size of a checkpoint, as far as known.
        train_order: The sampler, if its order is drawn from the global random numbers.
        first_batch: How the first batch was computed.
        parts: Times the parts of a step; callbacks begin a step and end its optimizer part.
        compilation: The compiled model, if any.
        fell_back: Operators that the CPU has computed in MPS's place so far.
        evaluates_eagerly: Whether attention is eager where no gradients are recorded, because sdpa is wrong there.
        step_losses: A detached scalar for each batch of the step, divided by the accumulation steps.
        step_tokens: A scalar for each batch of the step: its tokens without padding.
        step_samples: Samples of the step.
        batch_sizes: Of an evaluation, how many samples of each rank's batch count.
        grad_norm: The gradient norm of the step before clipping.
        last_step: Samples and batches of the step before.
    """

    model: Any  # it always has one

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.when_saving: Callable[[], None] = lambda: None
        self.save_extras: Callable[[Path], None] = lambda _folder: None
        self.last_saved: Checkpoint | None = None
        self.saved_anew = False
        self.checkpoint_bytes = 0
        self.train_order: OrderedByLength | None = None
        self.first_batch = FirstBatch(self.args.device.type)
        self.parts = StepParts(wait_for(self.args.device.type))
        self.compilation: Compilation | None = None
        self.fell_back: list[str] = []
        self.evaluates_eagerly = False
        self.has_trained = False
        self.batch_sizes = [1]
        self._evaluated = 0
        self._stage: Path | None = None
        self._undo_evaluation: Callable[[], None] = lambda: None
        self._restore_random_state: Callable[[], None] | None = None
        self.forget_step()

    # Several processes

    @override
    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        """Trainer's, for DDP without a second copy of all gradients, for FSDP2 with fp32 where it counts.

        Weights that are put together in 16 bits need no copies of autocast's, which would stay until the backward
        pass; gradients are added, and losses computed, in fp32.
        """
        found: dict[str, Any] = super()._build_accelerator_args(**kwargs)
        for handler in found["kwargs_handlers"]:
            handler.gradient_as_bucket_view = True
        if plugin := found["fsdp_plugin"]:
            blocks = (
                module for module in self.model.modules() if isinstance(module, GradientCheckpointingLayer)
            )
            plugin.transformer_cls_names_to_wrap = sorted({type(block).__name__ for block in blocks})
            if dtype := {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.args.mixed_precision):
                plugin.mixed_precision_policy = MixedPrecisionPolicy(dtype, torch.float32, torch.float32)
        return found

    @override
    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> Any:
        if self.is_fsdp_enabled:  # the one case in which accelerate doesn't start it in the model's forward
            return self.accelerator.autocast()
        return super().autocast_smart_context_manager(cache_enabled)

    # Data loaders

    @override
    def get_train_dataloader(self) -> Any:
        """Trainer's own; the time that is spent waiting for it is measured."""
        loader = super().get_train_dataloader()
        self.parts.timed(live_loader(loader))
        return loader

    @override
    def _get_dataloader(
        self,
        dataset: Any,
        description: str,
        batch_size: int,
        sampler_fn: Callable[[Any], Any] | None = None,
        is_training: bool = False,
        dataloader_key: str | None = None,
    ) -> DataLoader:
        more = (description, batch_size, sampler_fn, is_training, dataloader_key)
        if not self.args.dataloader_num_workers:
            return self._share_out(super()._get_dataloader(dataset, *more), is_training)
        if self.args.dataloader_multiprocessing_context == "forkserver":
            multiprocessing.set_forkserver_preload(list(PRELOADED))
            with on_signals(signal.SIG_IGN):  # at a shutdown the engine ends the fork server
                import_module("multiprocessing.forkserver").ensure_running()
        collator: Collator = self.data_collator
        self.data_collator: Collator = SentCollator(collator)
        try:
            loader = super()._get_dataloader(SentSamples(dataset), *more)
        finally:
            self.data_collator = collator
        live_loader(loader).worker_init_fn = begin_worker
        self._share_out(loader, is_training)
        if not is_training and any("eval_loss" in entry for entry in self.state.log_history):
            use_own_generator(loader)
        return loader

    def _share_out(self, loader: DataLoader, is_training: bool) -> DataLoader:
        """Of an evaluation, give each rank batches as one process would make them; accelerate's would be filled up."""
        if world_size() > 1 and not is_training:
            shard: Any = live_loader(loader).batch_sampler
            shard._iter_with_no_split = partial(one_batch_each, shard.batch_sampler, rank(), world_size())
        return loader

    @override
    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler | None:
        dataset = _samples(self.train_dataset if train_dataset is None else train_dataset)
        if isinstance(dataset, ImageSet):
            return WithEpochs(dataset)
        if self.args.train_sampling_strategy == "group_by_length":
            lengths = lengths_of(dataset)
            if lengths is not None:
                self.train_order = OrderedByLength(self.step_size, lengths=lengths)  # as in Trainer
                return self.train_order
        sampler = super()._get_train_sampler(dataset)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = self.train_order = OrderedByLength(self.step_size, lengths=sampler.lengths)
        return sampler

    @override
    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler | None:
        if self.args.train_sampling_strategy == "group_by_length":
            lengths = lengths_of(_samples(eval_dataset))
            if lengths is not None:
                return SameEachTime(self.args.eval_batch_size, lengths=lengths, seed=self.args.seed)
        return super()._get_eval_sampler(eval_dataset)

    def stop_workers(self) -> None:
        """End the data loader workers; a loader that is used again starts new ones."""
        loaders = [self.callback_handler.train_dataloader, *getattr(self, "_eval_dataloaders", {}).values()]
        for loader in filter(None, loaders):
            live_loader(loader)._iterator = None  # torch ends them when the iterator is deleted

    # Steps

    @property
    def step_size(self) -> int:
        """Samples of an optimizer step, of all ranks."""
        return int(self.args.train_batch_size * self.args.gradient_accumulation_steps * world_size())

    @property
    def is_divided(self) -> bool:
        """Whether no rank has all weights, so that all take part in whatever computes with them or saves them."""
        return bool(self.is_fsdp_enabled or (self.is_deepspeed_enabled and is_deepspeed_zero3_enabled()))

    def forget_step(self) -> None:
        self.last_step = (getattr(self, "step_samples", 0), len(getattr(self, "step_losses", ())))
        self.step_losses: list[torch.Tensor] = []
        self.step_tokens: list[torch.Tensor] = []
        self.step_samples = 0
        self.grad_norm: torch.Tensor | float | None = None
        if self.compilation is not None:
            self.compilation.forget_step()

    @override
    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The batches of one optimizer step.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        self.parts.skip()
        batches = super().get_batch_samples(map(received, epoch_iterator), num_batches, device)
        self.parts.lap(Part.DATA)
        return batches

    @override
    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if model.training:  # not in an evaluation
            self.parts.lap(Part.FORWARD)
        return loss

    @override
    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Trainer's forward and backward pass of one batch; remembers its figures."""
        self.parts.skip()
        self.step_samples += self.count_samples(inputs)
        tokens = self.count_tokens(inputs)
        if tokens is not None:
            self.step_tokens.append(tokens)
        compute = partial(self._compute, inputs=inputs, num_items_in_batch=num_items_in_batch)
        loss = self.compilation.run(model, compute) if self.compilation else compute(model)
        self.has_trained = True
        self.step_losses.append(loss)
        self.parts.lap(Part.BACKWARD)
        return loss

    def _compute(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> torch.Tensor:
        # observing would break a compiled graph, which is read instead
        observes = not self.has_trained and not is_compiled_module(model)
        with self.first_batch.watching(self.model) if observes else nullcontext():
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def count_samples(self, inputs: dict[str, Any]) -> int:
        return len(inputs["labels"])

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Tokens of a batch without padding, as a scalar on the device; None for images."""
        mask = inputs.get("attention_mask")
        return None if mask is None else mask.sum()

    @override
    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        # Trainer gives the norm to its logger only, which would wait for the device at each step
        self.grad_norm = super()._get_grad_norm(model, grad_norm)
        return self.grad_norm

    @override
    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Trainer's, without the batch norms that it overlooks."""
        norms = norm_parameters(model)
        return [name for name in super().get_decay_parameter_names(model) if name not in norms]

    @override
    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """No count: it would take 0.3 ms a batch, and Hone shows no FLOPs."""
        return 0

    # Evaluation

    @override
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        self._undo_evaluation = remember_random_state(self.args.device.type)
        metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        self._undo_evaluation = lambda: None
        return metrics

    @override
    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Evaluate one batch.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        if world_size() > 1:
            first, size = self._evaluated * world_size(), self.args.eval_batch_size
            loader: Any = self.callback_handler.eval_dataloader
            rest = len(loader.dataset) - first * size
            self.batch_sizes = [min(size, max(0, rest - number * size)) for number in range(world_size())]
            self._evaluated += 1
        return super().prediction_step(model, received(inputs), *args, **kwargs)

    @override
    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as Trainer does; of several ranks' batches as if one process had computed them."""
        self._evaluated = 0
        if world_size() > 1:
            share_buffers(self.model)
            self.gather_function = lambda found: recursively_apply(rows_of_all, found, self.batch_sizes)
        averages = self.args.average_tokens_across_devices
        self.args.average_tokens_across_devices = False  # a batch's loss is the mean of its own labels
        try:
            output = super().evaluation_loop(*args, **kwargs)
        finally:
            self.args.average_tokens_across_devices = averages
        return output._replace(metrics=agreed(output.metrics))

    def undo_evaluation(self) -> None:
        """Undo an interrupted evaluation, which the resumed run makes again."""
        self._undo_evaluation()
        step = self.state.global_step
        self.state.log_history = [
            entry for entry in self.state.log_history if not _is_evaluation(entry, step)
        ]

    def evaluate_if_due(self, *, is_end: bool = False) -> None:
        """Evaluate if the run ends here, or was paused before the evaluation of its last step."""
        step = self.state.global_step
        is_test = not self.state.max_steps
        if self.eval_dataset is None or not (step or is_test):
            return
        every = self.state.eval_steps
        if self.args.eval_strategy == "epoch":
            loader: Any = self.callback_handler.train_dataloader
            batches = len(loader)
            every = max(1, math.ceil(batches / self.args.gradient_accumulation_steps))
        is_due = is_end or step >= self.state.max_steps or step % every == 0
        if is_due and not any(_is_evaluation(entry, step) for entry in self.state.log_history):
            self.evaluate()

    # Checkpoints

    def save_checkpoint(self) -> None:
        """Save a checkpoint now, also where training was interrupted between two of Trainer's own.

        Raises:
            CantSave: It can't be written.
            Diverged: A weight is NaN or infinite.
        """
        self._save_checkpoint(self.model, trial=None)
        self.control: Any = self.callback_handler.on_save(self.args, self.state, self.control)

    def checkpoint_at(self, step: int) -> Path:
        return Path(str(self.args.output_dir)) / f"checkpoint-{step}"

    def load_weights(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint only."""
        if self.is_deepspeed_enabled:
            from transformers.integrations.deepspeed import deepspeed_load_checkpoint

            deepspeed_load_checkpoint(self.model_wrapped, str(checkpoint))
        else:
            self._load_from_checkpoint(str(checkpoint))

    @override
    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        self.last_saved, self.saved_anew = None, False
        step = self.state.global_step
        path = self.checkpoint_at(step)
        folder = path.parent
        if agreed(is_complete(path)):
            self.last_saved = Checkpoint(step, path, _size(path))
            return
        self.when_saving()  # Trainer calls its callbacks afterwards, which may be minutes later
        check_weights_finite(self.model, self.args)
        with writing(folder, self.checkpoint_bytes), self._staged(folder, step) as stage:
            self._stage = stage.parent
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._stage = None
            wait_for_all()
            if rank() == 0:
                self.save_extras(stage)  # a checkpoint can be exported, too
                order = self.train_order.begun_with if self.train_order else None
                save_random_state(stage, self.args.device.type, order)
        wait_for_all()
        self.checkpoint_bytes = agreed(_size(path))
        self.last_saved, self.saved_anew = Checkpoint(step, path, self.checkpoint_bytes), True

    @contextmanager
    def _staged(self, folder: Path, step: int) -> Iterator[Path]:
        """The folder that all ranks write a checkpoint into, which rank 0 makes and completes."""
        if rank():
            wait_for_all()
            yield folder / checkpoints.STAGE / f"checkpoint-{step}"
            return
        with checkpoints.staged(folder, step) as stage:
            wait_for_all()
            yield stage

    @override
    def _save_rng_state(self, output_dir: str) -> None:
        """Save as Trainer does; rank 0 writes the states of all, which may be on other computers."""
        if world_size() == 1:
            super()._save_rng_state(output_dir)
            return
        with TemporaryDirectory(prefix=temporary_prefix("states")) as own:
            super()._save_rng_state(own)
            files = {path.name: path.read_bytes() for path in Path(own).iterdir()}
        for states in gathered(files):
            for name, content in states.items() if rank() == 0 else ():
                (Path(output_dir) / name).write_bytes(content)

    @override
    def _get_output_dir(self, trial: Any) -> str:
        return str(self._stage) if self._stage is not None else super()._get_output_dir(trial)

    @override
    def _init_training_state(
        self,
        max_steps: int,
        num_update_steps_per_epoch: int,
        num_train_epochs: int,
        resume_from_checkpoint: str | None,
        trial: Any,
    ) -> tuple[int, int]:
        """Load the state as Trainer does, and note in its log where the run was extended."""
        with reading(resume_from_checkpoint):
            begun = super()._init_training_state(
                max_steps, num_update_steps_per_epoch, num_train_epochs, resume_from_checkpoint, trial
            )
            state = Path(resume_from_checkpoint) / STATE if resume_from_checkpoint else None
            planned = TrainerState.load_from_json(str(state)).max_steps if state else max_steps
        if max_steps > planned:
            self.state.log_history.append({"step": self.state.global_step, EXTENDED_TO: max_steps})
        self.state.compute_steps(self.args, max_steps)  # intervals may be fractions of the run
        return begun

    @override
    def _run_epoch(
        self,
        model: torch.nn.Module,
        epoch: int,
        train_dataloader: Any,
        steps_in_epoch: int,
        num_update_steps_per_epoch: int,
        trial: Any,
        ignore_keys_for_eval: list[str] | None,
        start_time: float,
        resume_from_checkpoint: str | None,
        epochs_trained: int,
        steps_trained_in_current_epoch: int,
    ) -> None:
        """Run an epoch; not where the run is done already, for which Trainer would make one step too many."""
        if self.control.should_training_stop or self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        checkpoint, is_first = resume_from_checkpoint, epoch == epochs_trained
        if checkpoint is not None and is_first:
            if self.args.dataloader_num_workers:
                use_own_generator(train_dataloader)
            order = Path(checkpoint) / ORDER_STATE
            if steps_trained_in_current_epoch and self.train_order and order.is_file():
                with reading(checkpoint):
                    self.train_order.begin_with = torch.load(order, weights_only=True)
            self._load_rng_state(checkpoint)
            self.evaluate_if_due()
            if self.control.should_training_stop:  # by that evaluation
                return
            self._restore_random_state = remember_random_state(self.args.device.type)
        elif is_first and rank():  # or dropout would take the same places from each rank's samples
            set_seed(self.args.seed + rank())
        super()._run_epoch(
            model,
            epoch,
            train_dataloader,
            steps_in_epoch,
            num_update_steps_per_epoch,
            trial,
            ignore_keys_for_eval,
            start_time,
            resume_from_checkpoint,
            epochs_trained,
            steps_trained_in_current_epoch,
        )

    @override
    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: torch.nn.Module | None = None
    ) -> None:
        renamed = isinstance(self.model, PreTrainedModel) and getattr(self.model, "_weight_conversions", None)
        with reading(resume_from_checkpoint):
            if not renamed or self.is_fsdp_enabled:
                super()._load_from_checkpoint(resume_from_checkpoint, model)
                return
            # saved under other names, such as ViT's older ones, which Trainer doesn't translate (transformers 43701)
            found = type(self.model).from_pretrained(resume_from_checkpoint, dtype=self.model.dtype)
            self._issue_warnings_after_load(self.model.load_state_dict(found.state_dict(), strict=False))

    @override
    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> Any:
        with reading(resume_from_checkpoint):  # states of the optimizer, the schedule and DeepSpeed
            return super()._prepare_for_training(max_steps, train_dataloader, resume_from_checkpoint)

    @override
    def _load_rng_state(self, checkpoint: str | None) -> None:
        if self._restore_random_state is not None:  # that after the evaluation that was due
            self._restore_random_state()
            return
        with reading(checkpoint):
            super()._load_rng_state(checkpoint)
            if checkpoint is not None:
                restore_random_state(Path(checkpoint), self.args.device.type)

    @override
    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load as Trainer does, and compute the learning rate again: the run may have been extended."""
        super()._load_optimizer_and_scheduler(checkpoint)
        schedule = self.lr_scheduler
        if checkpoint is None or not isinstance(schedule, LambdaLR):
            return
        groups = zip(schedule.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True)
        for group, base, factor in groups:
            group["lr"] = base * factor(schedule.last_epoch)  # torch's own formula: the same bits

    @override
    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Refuse a checkpoint that lacks weights; Trainer would only warn."""
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        missing = set(load_result.missing_keys)
        loaded = {weight.data_ptr() for name, weight in parameters.items() if name not in missing}
        lost = [
            name
            for name in sorted(missing)
            if name in parameters and parameters[name].data_ptr() not in loaded
        ]
        if lost or load_result.unexpected_keys:
            raise ModelError(
                _("The checkpoint is of another model"),
                _("Its weights differ from the run's: {names}.").format(
                    names=", ".join((lost or load_result.unexpected_keys)[:3])
                ),
            )


def _samples(dataset: Any) -> Any:
    return dataset.samples if isinstance(dataset, SentSamples) else dataset


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _is_evaluation(entry: dict[str, Any], step: int) -> bool:
    """Whether an entry of Trainer's log is the evaluation after `step`."""
    return entry.get("step") == step and "eval_loss" in entry


class WeightedTrainer(WatchedTrainer):
    """Evaluates by means over batches, `means`, each batch weighted by its size; for subclasses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.means = Means()
        super().__init__(*args, **kwargs)

    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Add a batch of an evaluation to the means."""
        raise NotImplementedError

    def eval_metrics(self) -> dict[str, float]:
        """The metrics of the evaluation that has just ended, without `eval_`."""
        return self.means.all()

    @override
    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as Trainer does, with the metrics of `eval_metrics`."""
        self.means = Means()
        output = super().evaluation_loop(*args, **kwargs)
        self.means = Means.of_all(gathered(self.means))
        output.metrics.update({f"eval_{name}": value for name, value in self.eval_metrics().items()})
        return output

    @override
    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        result = super().compute_loss(model, inputs, *args, **kwargs)
        if not model.training and self.batch_sizes[rank()]:
            self.add_eval_batch(result[0] if isinstance(result, tuple) else result, inputs)
        return result


class LanguageTrainer(WeightedTrainer):
    """Trains a causal language model on blocks of text.

    Evaluation computes the loss only: the logits of a small text would take more memory than the model. `held_out` is
    the size of the validation text.
    """

    def __init__(self, *args: Any, held_out: HeldOut | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held_out = held_out

    @override
    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """All tokens: blocks have no padding."""
        return torch.tensor(inputs["input_ids"].numel())

    @override
    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Weighted by tokens."""
        self.means.add(inputs["labels"][:, 1:].numel(), loss=float(loss))

    @override
    def eval_metrics(self) -> dict[str, float]:
        """Loss and perplexity of a token."""
        means = self.means.all()
        return {**means, **perplexity_metrics(means["loss"], self._held_out)} if means else {}


# --- The scale of the loss under gradient accumulation


ROUTER_WEIGHTS = ("router_aux_loss_coef", "aux_loss_coef")
"""Names of the weight of the router's loss in transformers' models; the latter is JetMoE's."""
MANY_ITEMS = 1 << 30


def fix_loss_scaling(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Have Trainer divide the loss if it expects `model` to do so and `model` doesn't.

    Args:
        model: Takes `batch` as keyword arguments and returns a mapping with "loss".
        batch: A small batch with labels, on the model's device.

    Returns:
        Whether the model was flagged (`accepts_loss_kwargs = False`, which Trainer reads).
    """
    inner = base_of(model)  # PEFT's wrapper takes any keyword; Trainer looks inside, too
    parameters = inspect.signature(inner.forward).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if not takes_any or _divides_by_items(model, batch):
        return False
    inner.accepts_loss_kwargs = False
    return True


def _divides_by_items(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Whether the loss decreases with `num_items_in_batch`; a router's loss doesn't.

    Without any label, a sum is 0 and a mean is NaN.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        one = model(**batch, num_items_in_batch=1)["loss"]
        many = model(**batch, num_items_in_batch=MANY_ITEMS)["loss"]
    model.train(was_training)
    return bool(one == 0 or many < one * 0.999)


def loss_by_label(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Cross entropy for `Trainer.compute_loss_func`: the sum over a batch's labels, divided by those of the step.

    Args:
        outputs: What the model returned: "logits" [batch, tokens, classes].
        labels: [batch, tokens] of class indices, -100 where there is none.
        num_items_in_batch: Labels in all batches of the step; None for this one's.
    """
    logits = outputs["logits"]
    summed = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        labels.reshape(-1),
        ignore_index=NO_LABEL,
        reduction="sum",
    )
    count = (labels != NO_LABEL).sum() if num_items_in_batch is None else num_items_in_batch
    return summed / count


def share_router_loss(model: torch.nn.Module, batches: Callable[[], int]) -> None:
    """Divide the router's loss by `batches()`, those of the step, while `model` trains."""
    inner = base_of(model)
    for name in ROUTER_WEIGHTS:
        if weight := getattr(inner, name, None):

            def share(*_rest: Any, name: str = name, weight: float = weight) -> None:
                setattr(inner, name, weight / batches() if inner.training else weight)

            model.register_forward_pre_hook(share)
