"""The engine's job `measure`: a few real steps in a process of its own.

It is a dry run with the longest batch first: a run that is too large fails in the first two steps, not hours later.

The memory is, on a CPU, the resident set of the process and its workers; with CUDA, the context and what torch's
allocator has reserved; on MPS, what Metal's driver has allocated. All figures are in bytes.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil
import torch
from transformers import TrainerCallback
from transformers import TrainerControl as Control
from transformers import TrainerState as State
from transformers import TrainingArguments as Arguments
from typing_extensions import override

from core.base.errors import Fix, OutOfMemory, UserError
from core.base.language import _
from core.base.system import process_tree, processor_times, resident_bytes
from core.engine.data.tables import lengths_of
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import mps_peaks, process_peak
from core.engine.reporter import Reporter
from core.engine.training.build import build_trainer, chosen_device, load_libraries, prepare
from core.engine.training.failures import explain
from core.engine.training.resuming import Resuming
from core.engine.training.step import StepFigures
from core.engine.training.trainer import WatchedTrainer
from core.engine.training.what_ran import bare, report_mps_fallbacks, state_bytes
from core.memory.estimate import scaled
from core.memory.model import Measurement, Parts
from core.monitor.nvidia import find_gpu
from core.options import RunOptions
from core.options.method_rules import steps_of
from core.runs.events import Phase

INTERVAL_SECONDS = 0.02
WITH_WORKERS_SECONDS = 0.2
"""Longer, because finding the workers lists all processes of the computer, which would slow the timed steps."""


# --- Memory in use


class CurrentMemory:
    """Samples the memory of this process from a thread, on a CPU optionally with that of the data loader's workers.

    `base` is the memory in use when it was created, `gpu_used_before` is `gpu_used()` before torch used the GPU.
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

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def most(self) -> tuple[int, int]:
        """Returns the peak so far, and how much of it is tensors; on a CPU, everything above `base`."""
        self._sample()
        if self._kind == "cuda":  # the context grows with every loaded kernel
            self._context = max(self._context, cuda_context(self._gpu_used_before))
            reserved = int(torch.cuda.max_memory_reserved())
            return self._context + reserved, reserved
        if self._kind == "mps":
            heaps, live = mps_peaks()
            return max(self._highest, heaps), max(self._most_live, live)
        peak = max(self._highest, process_peak())
        return peak, max(0, peak - self.base)

    def _watch(self) -> None:
        if self._kind == "cuda":  # torch keeps the peak itself
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
            return resident_bytes(process_tree(os.getpid())) or 0, 0
        return int(self._process.memory_info().rss), 0


def gpu_used() -> int | None:
    """Returns the memory of the visible GPU used by all programs; None if NVIDIA's driver doesn't report it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    gpu = find_gpu(visible) if visible else None  # empty: no GPU may be used
    memory = gpu.memory() if gpu else None
    return memory.used if memory else None


def cuda_context(used_before: int | None) -> int:
    """Returns the memory of CUDA's context: the increase of `gpu_used()` since torch used the GPU; 0 if unknown.

    On Windows and in containers the driver doesn't report memory per process.
    """
    torch.ones(1, device="cuda").sum().item()  # creates the context and loads a kernel
    used = gpu_used()
    if used is None or used_before is None:
        return 0
    return max(0, used - used_before - int(torch.cuda.memory_reserved()))


class SavedTensors:
    """Counts the bytes that autograd saves in a forward pass: each storage once, without weights and buffers.

    `copies` are the weights that autocast converted to half precision, `activations` all others.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        own = [*model.parameters(), *model.buffers()]
        self._own = {tensor.untyped_storage().data_ptr() for tensor in own}
        shapes = [tuple(tensor.shape) for tensor in own if tensor.dim() > 1]
        self._shapes = {*shapes, *(shape[::-1] for shape in shapes)}  # linear layers save them transposed
        self._copies: dict[int, int] = {}
        self._activations: dict[int, int] = {}

    @property
    def activations(self) -> int:
        return sum(self._activations.values())

    @property
    def copies(self) -> int:
        return sum(self._copies.values())

    def watching(self) -> Any:
        """Returns a context manager that counts saved tensors."""
        return torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._own:
                is_half = tensor.dtype in (torch.bfloat16, torch.float16)
                is_copy = is_half and tuple(tensor.shape) in self._shapes
                counted = self._copies if is_copy else self._activations
                counted[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would hold its graph in a cycle


def state_bytes_on(kind: str, optimizer: Any) -> int:
    """Returns the bytes of an optimizer's state on a kind of device."""
    return sum(state_bytes(bare(optimizer), kind).values()) if optimizer is not None else 0


def weight_bytes_on(kind: str, model: torch.nn.Module) -> int:
    """Returns the bytes of a model's weights on a kind of device, shared ones once, including quantization states."""
    return sum(
        {
            tensor.data_ptr(): tensor.numel() * tensor.element_size()
            for tensor in _tensors(model)
            if tensor.device.type == kind
        }.values()
    )


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    for tensor in (*model.parameters(), *model.buffers()):
        yield tensor
        state = getattr(tensor, "quant_state", None)  # of bitsandbytes' 4-bit weights, and of its scales
        for holder in filter(None, (state, getattr(state, "state2", None))):
            yield from (value for value in vars(holder).values() if isinstance(value, torch.Tensor))


# --- The dry run


def synchronize(kind: str) -> None:
    """Waits until the device has finished all its work."""
    if kind != "cpu":
        torch.get_device_module(kind).synchronize()


@contextlib.contextmanager
def weighing(options: RunOptions) -> Iterator[tuple[ResolvedRun, CurrentMemory]]:
    """Selects the device, loads the libraries, and samples the memory from then on.

    Raises:
        UserError: The device is not available.
    """
    used_before = gpu_used()
    with chosen_device(options) as resolved:
        load_libraries(options)  # they are part of the base
        with_workers = bool(resolved.options.data.workers)
        with CurrentMemory(resolved.kind, with_workers=with_workers, gpu_used_before=used_before) as held:
            yield resolved, held


LONGEST_STEPS = 2
"""Only in the backward pass of the second step does the optimizer's state exist besides everything else."""

ORDINARY_STEPS = 3
"""Steps from the shortest, middle and longest third of the run's batches, for the mean time."""

PATIENCE_SECONDS = 60.0
"""After this time, a single ordinary step is measured."""


def measure(options: RunOptions) -> Measurement:
    """Trains a few steps and returns their memory and time, also if memory runs out.

    Raises:
        UserError: The options or the data can't be used, or FSDP2 would divide the model.
    """
    if options.memory.fsdp:
        text = _(
            "Measure trains in one process, where nothing can be divided. The forecast says what each GPU takes."
        )
        raise UserError(
            _("A divided model can't be measured"), text, (Fix(_("Off"), {"memory.fsdp": False}),)
        )
    with weighing(options) as (resolved, held):
        run = DryRunCallback(resolved, held)
        return run.result(run.train())


@dataclass(frozen=True)
class DryBatches:
    """Indices of the rows of the longest step, which is done `repeats` times, and of each ordinary step."""

    longest: list[int]
    ordinary: list[list[int]]
    repeats: int = LONGEST_STEPS

    @property
    def order(self) -> list[int]:
        return [*self.longest * self.repeats, *(row for step in self.ordinary for row in step)]


def fitted(options: RunOptions, rows: int) -> tuple[int, int]:
    """Limits batch size and accumulation steps to `rows`; the last batch of a step is filled up."""
    size = min(options.memory.batch_size, rows)
    return size, min(options.memory.gradient_accumulation_steps, -(-rows // size))


def pick(order: Sequence[int], lengths: Sequence[int] | None, options: RunOptions) -> DryBatches:
    """Chooses among all rows, in the order of the run's sampler, by their numbers of tokens; None: all are equal."""
    total, _ = steps_of(options, len(order))
    size, accumulated = fitted(options, len(order))
    step = size * accumulated
    by_length = list(order)
    drawn = [list(order[start : start + step]) for start in range(0, len(order) - step + 1, step)]
    if lengths is not None:

        def padded(rows: list[int]) -> int:
            """Returns the number of tokens of a step whose batches are padded to their longest row."""
            batches = [rows[start : start + size] for start in range(0, len(rows), size)]
            return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)

        by_length.sort(key=lambda row: -lengths[row])
        drawn.sort(key=padded)
    repeats = min(LONGEST_STEPS, total)
    count = min(ORDINARY_STEPS, total - repeats) if drawn else 0
    spread = [drawn[len(drawn) * (2 * index + 1) // (2 * count)] for index in range(count)]
    return DryBatches(list(islice(cycle(by_length), step)), spread, repeats)


class DryTrainer(WatchedTrainer):
    """Trains on the rows of `batches`.

    Attributes:
        saved: Counts the first batch; None if the model is compiled, because hooks would break its graph.
        longest: Padded length of the first batch in tokens; None without texts.
        longest_text: Length of the longest text in tokens; None without texts.
    """

    options: RunOptions
    batches: DryBatches
    saved: SavedTensors | None = None
    longest: int | None = None
    longest_text: int | None = None

    @override
    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        if self.saved is not None or self.step.compilation is not None:
            return super().training_step(model, inputs, num_items_in_batch)
        self.saved = SavedTensors(model)
        with self.saved.watching():
            return super().training_step(model, inputs, num_items_in_batch)

    @override
    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        own = super()._get_train_sampler(train_dataset)
        lengths = lengths_of(self.train_dataset)
        self.longest_text = max(lengths or (), default=None)
        self.batches = pick(list(own or ()), lengths, self.options)
        return self.batches.order

    @override
    def _prepare_inputs(self, inputs: Any) -> Any:
        if self.longest is None and "input_ids" in inputs:
            self.longest = int(inputs["input_ids"].shape[1])
        return super()._prepare_inputs(inputs)


class DryRunCallback(TrainerCallback):
    """The dry run of a run: each step is timed without compilation.

    Of several processes it is one: all gradients exist before the first step, like DDP's buckets, and on a CPU memory
    and time are those of all.

    Attributes:
        gradients: Bytes of the gradients on the device.
        optimizer: Bytes of the optimizer's state on the device.
    """

    def __init__(self, resolved: ResolvedRun, held: CurrentMemory) -> None:
        self.options = resolved.options
        self.rows = 0
        self.seconds: list[float] = []
        self.gradients = self.optimizer = 0
        self.resolved = resolved
        self.held = held
        self.model: torch.nn.Module | None = None
        self.trainer: Any = None
        self.fell_back: list[str] = []
        self._begun = self._mark = time.perf_counter()

    def train(self) -> str:
        """Loads everything and trains; returns an explanation if memory ran out, otherwise an empty string.

        Raises:
            UserError: The options or the data can't be used.
        """
        try:
            self._train()
        except Exception as error:
            known = explain(error, self.options)
            if known is None:
                raise
            if not isinstance(known, OutOfMemory):
                raise known from error
            traceback.print_exc(file=sys.stderr)
            return known.detail
        return ""

    def _train(self) -> None:
        reporter = Reporter(None)
        prepared = prepare(self.options, reporter)
        self.model, self.rows = prepared.model, len(prepared.train)
        options, change = self._shortened(), msgspec.structs.replace
        options = change(options, output=change(options.output, keep_checkpoints=0))
        # nothing is saved; a temporary folder would remain after a kill
        nowhere, resolved = Path(tempfile.gettempdir()), replace(self.resolved, options=options)
        if resolved.kind == "mps":
            report_mps_fallbacks(reporter)
        step, resuming = StepFigures(resolved, reporter), Resuming(resolved.kind)
        prepared = replace(prepared, eval=None)
        trainer = build_trainer(nowhere, resolved, prepared, step, resuming, kind=DryTrainer)
        assert isinstance(trainer, DryTrainer)
        trainer.options = self.options
        self.trainer = trainer
        trainer.add_callback(self)
        reporter.phase(Phase.TRAINING)
        try:
            trainer.train()
        finally:
            trainer.stop_workers()

    @property
    def compile_seconds(self) -> float:
        compilation = self.trainer.step.compilation if self.trainer else None
        return compilation.seconds if compilation else 0.0

    def parts(self) -> Parts:
        """Returns the peak memory by source; tensors that aren't counted as one of the others are temporary.

        The parts add up to the peak; if not all of them existed at that moment, the last ones are reduced.
        """
        models = [self.model, getattr(self.trainer, "ref_model", None)]  # the reference is DPO's
        saved = self.trainer.saved if self.trainer else None
        weighed = {
            "weights": sum(
                weight_bytes_on(self.resolved.kind, model) for model in models if model is not None
            ),
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": saved.activations if saved else 0,
        }
        peak, left = self.held.most()
        found = {"overhead": peak - left}
        for name, size in weighed.items():
            found[name] = min(size, left)
            left -= found[name]
        return Parts(**found, temporary=left)

    def _shortened(self) -> RunOptions:
        """Returns one epoch of the selected rows; called when `rows` is known."""
        size, accumulated = fitted(self.options, self.rows)
        change, options = msgspec.structs.replace, self.options
        return change(
            options,
            memory=change(options.memory, batch_size=size, gradient_accumulation_steps=accumulated),
            device=change(options.device, processes=1),
            training=change(options.training, epochs=1.0, max_steps=None),
        )

    @property
    def _weighs(self) -> bool:
        """Whether the gradients of this step are measured, which adds to its time."""
        return len(self.seconds) < self.trainer.batches.repeats

    # Trainer's events

    @override
    def on_train_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._begun = self._mark = time.perf_counter()
        self._before = processor_times(), sum(os.times()[:4])

    @override
    def on_step_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        if self.options.device.processes > 1:
            for weight in self.trainer.model.parameters():
                if weight.requires_grad and weight.grad is None:
                    weight.grad = torch.zeros_like(weight)

    @override
    def on_epoch_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._mark = time.perf_counter()  # work between two epochs isn't part of a step

    @override
    def on_pre_optimizer_step(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        if self._weighs:  # all gradients exist now
            gradients = (weight.grad for weight in self.trainer.model.parameters() if weight.grad is not None)
            sizes = (grad.nbytes for grad in gradients if grad.device.type == self.resolved.kind)
            self.gradients = max(self.gradients, sum(sizes))

    @override
    def on_step_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        synchronize(self.resolved.kind)
        trainer = self.trainer
        seconds = time.perf_counter() - self._mark - trainer.step.compile_seconds
        if self._weighs or not self.optimizer:  # with fp16 it may be made some steps later
            self.optimizer = state_bytes_on(self.resolved.kind, trainer.optimizer)
        self.seconds.append(seconds)
        trainer.step.forget()
        is_ordinary = len(self.seconds) > trainer.batches.repeats
        if is_ordinary and time.perf_counter() - self._begun > PATIENCE_SECONDS:
            control.should_training_stop = True
        self._mark = time.perf_counter()

    def result(self, out_of_memory: str) -> Measurement:
        """Returns the figures so far; `out_of_memory` as in `Measurement`."""
        processes = self.options.device.processes
        copies = processes if self.resolved.kind == "cpu" else 1
        parts, trainer = scaled(self.parts(), copies), self.trainer
        seconds = [one * copies for one in self.seconds]
        # the last step on the longest batch: the first includes one-time work
        longest = seconds[: trainer.batches.repeats][-1] if seconds else None
        ordinary = (seconds[trainer.batches.repeats :] or seconds[-1:]) if seconds else []
        mean = statistics.fmean(ordinary) if ordinary else None
        steps = steps_of(self.options, self.rows)[0] if self.rows else None
        load = None
        if sum(self.seconds) > 0.3 and not self.compile_seconds:  # its processes would count as others
            now, (before, own) = processor_times(), self._before
            others = now.busy - before.busy - (sum(os.times()[:4]) - own)
            load = min(1.0, max(0.0, others / (now.total - before.total)))
        return Measurement(
            device=self.resolved.label,
            parts=parts,
            peak=parts.total,
            base=self.held.base,
            longest=trainer.longest if trainer else None,
            longest_text=trainer.longest_text if trainer else None,
            longest_step_seconds=longest,
            step_seconds=mean,
            compile_seconds=self.compile_seconds,
            train_samples=self.rows or None,
            total_steps=steps,
            run_seconds=self.compile_seconds + steps * mean if mean is not None and steps else None,
            processes=processes,
            other_load=load,
            out_of_memory=out_of_memory,
        )
