"""How much memory a dry run holds and held at most, watched while it computes. All figures are bytes.

On a CPU that is what the process and its workers have in memory (resident set). On a GPU it is the device's memory:
CUDA's context and what torch's allocator reserved, on MPS what Metal's driver holds.
"""

import math
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec
import psutil
import torch
from transformers import TrainerCallback

from core.base.errors import OutOfMemory
from core.base.system import tree_bytes
from core.benchmark.result import Sample
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import process_peak
from core.engine.reporter import Reporter
from core.engine.training.failures import explain
from core.engine.training.loading import generators, remember
from core.engine.training.train import build_trainer, chosen_device, load_libraries, prepare
from core.engine.training.trainer import WatchedTrainer
from core.engine.training.what_ran import bare, report_fallbacks, state_bytes, what_ran
from core.memory.model import Parts
from core.monitor.nvidia import find_gpu
from core.options import RunOptions
from core.options.method_rules import steps_of
from core.runs.events import Phase, WhatRan, split_non_finite

# --- How much memory a dry run holds and held at most


INTERVAL_SECONDS = 0.02
WITH_WORKERS_SECONDS = 0.2
"""Looking for workers goes through all processes of the computer, which would slow the steps that are timed."""


class HeldMemory:
    """Watches from a thread of its own, between `with` and its end.

    `base` is what was held when it began.

    Args:
        kind: What is computed on: `cuda`, `mps` or `cpu`.
        with_workers: Whether other processes prepare batches.
        gpu_used_before: `gpu_used`, before torch has touched the GPU.
    """

    def __init__(self, kind: str, *, with_workers: bool = False, gpu_used_before: int | None = None) -> None:
        self._kind = kind
        self._with_workers = with_workers and kind == "cpu"
        self._gpu_used_before = gpu_used_before
        self._process = psutil.Process()
        self._highest = self._most_live = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="held-memory", daemon=True)
        self._context = cuda_context(gpu_used_before) if kind == "cuda" else 0
        self.base = self._now()[0]

    def __enter__(self) -> "HeldMemory":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def most(self) -> tuple[int, int]:
        """What was held at most so far, and what tensors took of it; on a CPU that is all that came after `base`."""
        self._sample()
        if self._kind == "cuda":  # the context grows with each kernel that is loaded
            self._context = max(self._context, cuda_context(self._gpu_used_before))
            reserved = int(torch.cuda.max_memory_reserved())
            return self._context + reserved, reserved
        if self._kind == "mps":
            return self._highest, self._most_live
        peak = max(self._highest, process_peak())
        return peak, peak - min(peak, self.base)

    def _watch(self) -> None:
        if (
            self._kind == "cuda"
        ):  # torch keeps the peak itself, and each look would take a little from what is timed
            return
        while not self._ended.wait(WITH_WORKERS_SECONDS if self._with_workers else INTERVAL_SECONDS):
            self._sample()

    def _sample(self) -> None:
        held, live = self._now()
        self._highest, self._most_live = max(self._highest, held), max(self._most_live, live)

    def _now(self) -> tuple[int, int]:
        if self._kind == "cuda":
            return self._context + torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
        if self._kind == "mps":
            return torch.mps.driver_allocated_memory(), torch.mps.current_allocated_memory()
        if self._with_workers:
            return tree_bytes(os.getpid()) or 0, 0
        return int(self._process.memory_info().rss), 0


def gpu_used() -> int | None:
    """What all programs hold of the GPU that this process sees; None where NVIDIA's driver can't tell."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    gpu = find_gpu(visible) if visible else None  # empty: this run is not to touch any
    memory = gpu.memory() if gpu else None
    return memory.used if memory else None


def cuda_context(used_before: int | None) -> int:
    """What CUDA's context takes: by how much the GPU is fuller, now that this process uses it; 0 where unknown.

    The driver tells it of no single process on Windows and in containers.

    Args:
        used_before: `gpu_used`, before torch has touched the GPU.
    """
    torch.ones(1, device="cuda").sum().item()  # makes the context, and has a kernel loaded
    used = gpu_used()
    if used is None or used_before is None:
        return 0
    return max(0, used - used_before - int(torch.cuda.memory_reserved()))


# --- What the trainers of dry runs and of measurements share: an eye on what takes the memory


HALVES = (torch.bfloat16, torch.float16)


class SavedTensors:
    """Bytes that a forward pass keeps for the gradients: each piece of memory once, the model's own left out.

    `copies` are weights in half precision, which autocast makes and keeps; `activations` all else.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        own = [*model.parameters(), *model.buffers()]
        self._own = {tensor.untyped_storage().data_ptr() for tensor in own}
        shapes = [tuple(tensor.shape) for tensor in own if tensor.dim() > 1]
        self._shapes = {*shapes, *(shape[::-1] for shape in shapes)}  # linear layers keep them transposed
        self._copies: dict[int, int] = {}
        self._activations: dict[int, int] = {}

    @property
    def activations(self) -> int:
        """Bytes of them."""
        return sum(self._activations.values())

    @property
    def copies(self) -> int:
        """Bytes of them."""
        return sum(self._copies.values())

    def watching(self) -> Any:
        """A context in which what is kept is counted."""
        return torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._own:
                is_copy = tensor.dtype in HALVES and tuple(tensor.shape) in self._shapes
                counted = self._copies if is_copy else self._activations
                counted[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would hold its own graph, and neither would ever be freed


class WeighingTrainer(WatchedTrainer):
    """Trains as a run does. `saved` is what the first batch kept for the gradients.

    It is None where the model was compiled, which hooks would cut to pieces.
    """

    saved: SavedTensors | None = None

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch; the first is watched."""
        if self.saved is not None or self.compilation is not None:
            return super().training_step(model, inputs, num_items_in_batch)
        self.saved = SavedTensors(model)
        with self.saved.watching():
            return super().training_step(model, inputs, num_items_in_batch)


class WeighingCallback(TrainerCallback):
    """Times each step, compiling left out, and weighs what stands beside the weights on the device.

    `seconds` are all steps so far; `gradients` and `optimizer` are bytes.

    Args:
        trainer: Whose steps they are.
        kind: What it computes on: `cuda`, `mps` or `cpu`.
    """

    def __init__(self, trainer: WeighingTrainer, kind: str) -> None:
        self.seconds: list[float] = []
        self.gradients = 0
        self.optimizer = 0
        self._trainer = trainer
        self._kind = kind
        self._begun = self._mark = time.perf_counter()

    @property
    def weighs(self) -> bool:
        """Whether the gradients of this step are weighed, which takes some of its time."""
        raise NotImplementedError

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        """A step has ended, whose time is the last of `seconds`; what is done here belongs to none.

        Args:
            losses: Those of its batches, on the device.
            control: Trainer's; may be told to stop.
        """
        raise NotImplementedError

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._begun = self._mark = time.perf_counter()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock anew: what is done between two epochs is no part of a step."""
        self._mark = time.perf_counter()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Weigh the gradients while all of them are there."""
        if self.weighs:
            found = (weight.grad for weight in self._trainer.model.parameters() if weight.grad is not None)
            self.gradients = max(self.gradients, sum(grad.nbytes for grad in found if self._counts(grad)))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time; weighing comes after the clock was read."""
        synchronize(self._kind)
        trainer = self._trainer
        compiling = trainer.compilation.step_seconds if trainer.compilation else 0.0
        seconds = time.perf_counter() - self._mark - compiling
        if self.weighs or not self.optimizer:  # with fp16 it may be made some steps later
            self.optimizer = state_bytes_on(self._kind, trainer.optimizer)
        self.seconds.append(seconds)
        losses = trainer.step_losses
        trainer.forget_step()
        self.ended(losses, control)
        self._mark = time.perf_counter()

    def _counts(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == self._kind


def synchronize(kind: str) -> None:
    """Wait until the device has computed all it was given."""
    if kind == "cuda":
        torch.cuda.synchronize()
    elif kind == "mps":
        torch.mps.synchronize()


def state_bytes_on(kind: str, optimizer: Any) -> int:
    """Bytes of an optimizer's state that lie on the device."""
    return sum(state_bytes(bare(optimizer), kind).values()) if optimizer is not None else 0


def weight_bytes_on(kind: str, model: torch.nn.Module) -> int:
    """Bytes of a model's weights that lie on the device, shared ones once, with what unpacks packed ones."""
    found = {
        tensor.data_ptr(): tensor.numel() * tensor.element_size()
        for tensor in _tensors(model)
        if tensor.device.type == kind
    }
    return sum(found.values())


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    for tensor in (*model.parameters(), *model.buffers()):
        yield tensor
        state = getattr(
            tensor, "quant_state", None
        )  # of bitsandbytes' 4-bit weights; what scales its scales beside
        for holder in filter(None, (state, getattr(state, "state2", None))):
            yield from (value for value in vars(holder).values() if isinstance(value, torch.Tensor))


# --- A few steps of a run in a fresh process, weighed


Answer = TypeVar("Answer")


class WeighedRun(Generic[Answer]):
    """The run in its making. What isn't there yet counts nothing, so that it can be told of at any moment.

    `options` are those of the real run, settled; `rows` how many its data has.

    Args:
        resolved: What it computes on.
        held: Watches the memory.
    """

    def __init__(self, resolved: ResolvedRun, held: HeldMemory) -> None:
        self.options = resolved.options
        self.rows = 0
        self.held = held
        self.resolved = resolved
        self._model: torch.nn.Module | None = None
        self._trainer: WeighingTrainer | None = None
        self._watch: WeighingCallback | None = None

    def shortened(self) -> RunOptions:
        """The options for the trainer of the few steps; `rows` are known."""
        raise NotImplementedError

    def trained_by(self) -> type[WeighingTrainer]:
        """The class of that trainer."""
        raise NotImplementedError

    def watched(
        self, trainer: WeighingTrainer, resolved: ResolvedRun, reporter: Reporter
    ) -> WeighingCallback:
        """What watches the trainer, which is ready to train on `resolved`."""
        raise NotImplementedError

    def answer(self, out_of_memory: str = "") -> Answer:
        """What is known by now; where memory ran out, what was asked and what there was."""
        raise NotImplementedError

    def run(self) -> None:
        """Load everything and train."""
        reporter = Reporter(None)
        prepared = prepare(self.options, reporter)
        self._model, self.rows = prepared.model, len(prepared.train)
        resolved = replace(self.resolved, options=_without_saving(self.shortened()))
        nowhere = Path(
            tempfile.gettempdir()
        )  # nothing is saved, and a folder of its own would outlive a kill
        trainer = build_trainer(nowhere, resolved, replace(prepared, eval=None), reporter, self.trained_by())
        assert isinstance(trainer, WeighingTrainer)
        self._trainer = trainer
        self._watch = self.watched(trainer, resolved, reporter)
        trainer.add_callback(self._watch)
        reporter.phase(Phase.TRAINING)
        try:
            trainer.train()
        finally:
            trainer.stop_workers()

    def compile_seconds(self) -> float:
        """What compiling took so far."""
        return self._trainer.compilation.seconds if self._trainer and self._trainer.compilation else 0.0

    def parts(self) -> Parts:
        """The peak by source. What lives as long as the run is weighed; the rest of what tensors took is temporary.

        They add up to the peak, so that where it came at a moment when not all of them were there, the last is less.
        """
        kind, watch = self.resolved.kind, self._watch
        saved = self._trainer.saved if self._trainer else None
        weighed = {
            "weights": sum(weight_bytes_on(kind, model) for model in self._models()),
            "gradients": watch.gradients if watch else 0,
            "optimizer": watch.optimizer if watch else 0,
            "activations": saved.activations if saved else 0,
        }
        peak, left = self.held.most()
        found = {"overhead": peak - left}
        for name, size in weighed.items():
            found[name] = min(size, left)
            left -= found[name]
        return Parts(**found, temporary=left)

    def _models(self) -> list[torch.nn.Module]:
        """The model, and the copy of it that preferences are learned against where all of it moves."""
        return [
            model for model in (self._model, getattr(self._trainer, "ref_model", None)) if model is not None
        ]


def weighed(options: RunOptions, make: Callable[[ResolvedRun, HeldMemory], WeighedRun[Answer]]) -> Answer:
    """Train the few steps that `make` makes of what `options` ask for. Memory that ran out is an answer too.

    Raises:
        UserError: The person can mend what stopped it.
    """
    used_before = gpu_used()
    with chosen_device(options) as resolved:
        load_libraries(options)  # before the memory is looked at: they are the base
        if resolved.kind == "mps":
            _refuse_paging(resolved.options.device.mps_memory_limit)
        workers = bool(resolved.options.data.workers)
        with HeldMemory(resolved.kind, with_workers=workers, gpu_used_before=used_before) as held:
            return _answer(make(resolved, held))


def _refuse_paging(limit: float) -> None:
    """Have Metal's allocator refuse more than macOS recommends: a Mac would page rather than fail. Never tried here.

    The guard outside sees only the resident set, which Metal's memory need not be in.

    Args:
        limit: `device.mps_memory_limit`; 0: none.
    """
    torch.mps.set_per_process_memory_fraction(min(1.0, limit or 1.0))


def _answer(run: WeighedRun[Answer]) -> Answer:
    try:
        run.run()
    except Exception as error:
        known = explain(error, run.options)
        if known is None:
            raise
        if not isinstance(known, OutOfMemory):
            raise known from error
        traceback.print_exc(file=sys.stderr)
        return run.answer(known.detail)
    return run.answer()


def _without_saving(options: RunOptions) -> RunOptions:
    change = msgspec.structs.replace
    return change(options, output=change(options.output, keep_checkpoints=0))


# --- The trainer of a measurement: that of a real run, on the rows that it draws


class SampledTrainer(WeighingTrainer):
    """Trains exactly as a run does.

    `first_loss` is that of the first batch as an evaluation computes it, dropout off, before anything was learned; None
    where it is no number, and before. `looking_seconds` is what finding that out took. `is_random` says whether the
    model drew random numbers while it computed its first batch.
    """

    first_loss: float | None = None
    looking_seconds = 0.0
    is_random = False
    _has_looked = False

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch; before the first, it is evaluated."""
        if self._has_looked:
            return super().training_step(model, inputs, num_items_in_batch)
        self._has_looked = True
        begun = time.perf_counter()
        self._look(model, inputs)
        before = self._random_state()
        self.looking_seconds = time.perf_counter() - begun
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.is_random = self._random_state() != before
        return loss

    def _look(self, model: torch.nn.Module, inputs: dict[str, Any]) -> None:
        """Evaluate the batch, and leave no trace of it: neither in the random numbers nor in what learns."""
        take_back = remember(self._kind)
        learning = [part for part in model.modules() if part.training]
        model.eval()
        loss, _, _ = self.prediction_step(model, inputs, prediction_loss_only=True)
        for part in learning:
            part.training = True
        take_back()
        self.first_loss, _ = split_non_finite(None if loss is None else float(loss))
        synchronize(self._kind)

    def _random_state(self) -> list[bytes]:
        return [generator.get_rng_state().numpy().tobytes() for generator in generators(self._kind)]

    @property
    def _kind(self) -> str:
        return str(self.args.device.type)


# --- Times the steps of a measurement, and ends it when there are enough


Tell = Callable[[int], None]
"""Hears how many steps have been made that count, those of the warm-up included."""


class SamplingCallback(WeighingCallback):
    """Follows the steps.

    `timed` are the seconds of the timed ones: full ones only, as the last step of an epoch may have fewer rows.
    `losses` are those of all steps, None where one is no number. `ran` is what ran, told after the first step.

    Args:
        trainer: Whose steps they are.
        resolved: What it computes on.
        warm_up: So many steps at the beginning aren't timed.
        steps: So many are.
        full: Rows that a full step learns from.
        tell: Hears of each step that counts.
    """

    _trainer: SampledTrainer

    def __init__(
        self,
        trainer: SampledTrainer,
        resolved: ResolvedRun,
        *,
        warm_up: int,
        steps: int,
        full: int,
        tell: Tell,
    ) -> None:
        super().__init__(trainer, resolved.kind)
        self._trainer = trainer
        self._resolved = resolved
        self._warm_up = warm_up
        self._steps = steps
        self._full = full
        self._tell = tell
        self.timed: list[float] = []
        self.losses: list[float | None] = []
        self.ran: WhatRan | None = None

    @property
    def warm_up_seconds(self) -> list[float]:
        """The steps that came before the timed ones."""
        return self.seconds[: self._warm_up]

    @property
    def weighs(self) -> bool:
        """Whether it is a step of the warm-up."""
        return len(self.seconds) < self._warm_up

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time; that of looking at the first batch is none of its step's."""
        if not self.seconds:
            self._mark += self._trainer.looking_seconds
        super().on_step_end(args, state, control, **kwargs)

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        """Take in the figures of the step, and stop after the last."""
        loss, _ = split_non_finite(sum(torch.stack(losses).tolist()))
        self.losses.append(loss)
        if self.ran is None:
            self.ran = what_ran(self._trainer, self._resolved)
        counted = len(self.seconds)
        if counted > self._warm_up:
            if self._trainer.last_step[0] < self._full:
                return
            self.timed.append(self.seconds[-1])
            counted = self._warm_up + len(self.timed)
        if len(self.timed) == self._steps:
            control.should_training_stop = True
        self._tell(counted)


# --- The engine's job `sample`: some steps of a run, timed in a fresh process


def sample(options: RunOptions, *, steps: int, warm_up: int, tell: Tell = lambda _done: None) -> Sample:
    """Train a few steps of what `options` ask for, and answer what they took. Memory that ran out is an answer too.

    Where the run is shorter than that, it is made as long.

    Args:
        options: What is asked.
        steps: How many optimizer steps are timed.
        warm_up: How many come before. One does in any case: the first is looked at from close by.
        tell: Hears how many steps were made, those of the warm-up included.

    Raises:
        UserError: The person can mend what stopped it.
    """
    return weighed(options, partial(_Sampling, steps=steps, warm_up=max(1, warm_up), tell=tell))


class _Sampling(WeighedRun[Sample]):
    """Trains as the run does."""

    _trainer: SampledTrainer | None
    _watch: SamplingCallback | None

    def __init__(
        self, resolved: ResolvedRun, held: HeldMemory, *, steps: int, warm_up: int, tell: Tell
    ) -> None:
        super().__init__(resolved, held)
        self._steps = steps
        self._warm_up = warm_up
        self._tell = tell

    @property
    def _full(self) -> int:
        """Rows of a full step: no more than the data has."""
        return min(self.options.effective_batch, self.rows)

    def shortened(self) -> RunOptions:
        """The options for the trainer: those of the run, which its schedule follows, made longer where it is too short.

        Of an epoch, only the full steps are timed.
        """
        total, an_epoch = steps_of(self.options, self.rows)
        full_ones = max(1, self.rows // self.options.effective_batch)
        enough = math.ceil((self._warm_up + self._steps) / full_ones) * an_epoch
        if total >= enough:
            return self.options
        change = msgspec.structs.replace
        return change(self.options, training=change(self.options.training, max_steps=enough))

    def trained_by(self) -> type[WeighingTrainer]:
        """That of the run, which looks at its first batch."""
        return SampledTrainer

    def watched(
        self, trainer: WeighingTrainer, resolved: ResolvedRun, reporter: Reporter
    ) -> SamplingCallback:
        """What times its steps."""
        assert isinstance(trainer, SampledTrainer)
        if resolved.kind == "mps":
            trainer.fell_back = report_fallbacks(reporter)
        return SamplingCallback(
            trainer, resolved, warm_up=self._warm_up, steps=self._steps, full=self._full, tell=self._tell
        )

    def answer(self, out_of_memory: str = "") -> Sample:
        """What is known by now; `out_of_memory` as in `Sample`."""
        parts, trainer, watch = self.parts(), self._trainer, self._watch
        return Sample(
            device=self.resolved.label,
            seconds=tuple(watch.timed) if watch and not out_of_memory else (),
            warm_up_seconds=tuple(watch.warm_up_seconds) if watch else (),
            compile_seconds=self.compile_seconds(),
            samples_a_step=self._full,
            rows=self.rows,
            losses=tuple(watch.losses) if watch else (),
            first_loss=trainer.first_loss if trainer else None,
            is_random=trainer.is_random if trainer else False,
            parts=parts,
            peak=parts.total,
            base=self.held.base,
            ran=watch.ran if watch else None,
            out_of_memory=out_of_memory,
        )
