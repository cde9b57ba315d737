"""One run as the memory forecast sees it, whichever engine trains it. All figures are bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from core.memory.model import Kept, KeptTensor, ModelShape
from core.options import RunOptions
from core.options.catalogue import row_multiple
from core.options.choices import (
    Backend,
    DeepSpeed,
    Method,
    Offload,
    Optimizer,
    Padding,
    Precision,
    PreferenceLoss,
)
from core.options.device_support import DeviceReport, settle
from core.options.sources import is_scratch, parse_synthetic

NUMBER, HALF_NUMBER = 4, 2
"""Bytes of a number of fp32, and of bf16 or fp16."""

HALVES = (Precision.BF16, Precision.FP16)

STATE = {
    Optimizer.ADAMW: 8.0,
    Optimizer.ADAM: 8.0,
    Optimizer.ADAFACTOR: 0.04,
    Optimizer.ADAMW_8BIT: 2.03,
    Optimizer.PAGED_ADAMW_8BIT: 2.03,
    Optimizer.ADAMW_8BIT_TORCHAO: 2.03,
    Optimizer.LION: 4.0,
    Optimizer.LION_8BIT: 1.02,
    Optimizer.ADEMAMIX: 12.0,
    Optimizer.SGD: 4.0,
    Optimizer.MUON: 4.0,
}
"""Bytes of state per trained weight. Adafactor's is that of a BERT, used if `ModelShape.factored` is unknown; 8-bit
ones include a scale of 4 bytes per 256 numbers."""


class Term(NamedTuple):
    """So many numbers of so many bytes each: what is summed up, and what its explanation shows."""

    numbers: int
    each: float


def added_up(terms: Iterable[Term], shards: int) -> int:
    return sum(round(term.numbers * term.each) for term in terms) // shards


@dataclass(frozen=True)
class Case:
    """Resolved options, the model's shape, the kind of device (`cpu`, `cuda`, `mps`), and the `length` of the longest
    row in tokens, or of an image's side in pixels."""

    options: RunOptions
    shape: ModelShape
    kind: str
    length: int

    @property
    def is_text(self) -> bool:
        return self.options.task.reads_text

    @property
    def method(self) -> Method:
        return self.options.model.method

    @property
    def is_mlx(self) -> bool:
        return self.options.device.backend is Backend.MLX

    @property
    def has_lora(self) -> bool:
        return self.method in (Method.LORA, Method.QLORA)

    @property
    def has_dora(self) -> bool:
        return self.has_lora and self.options.model.lora_dora

    @property
    def is_half(self) -> bool:
        """Whether autocast computes in 16 bits."""
        return self.options.device.precision in HALVES

    @property
    def number(self) -> int:
        """Bytes of a number in matrix multiplications."""
        return HALF_NUMBER if self.is_half else NUMBER

    @property
    def held(self) -> int:
        """Number of frozen weights held in 16 bits."""
        is_held = str(self.options.model.frozen_precision) in HALVES
        if self.method is Method.FULL or self.zero is not DeepSpeed.OFF or not is_held:
            return 0
        return self.shape.holdable - (self.shape.packable if self.method is Method.QLORA else 0)

    @property
    def computes_as_held(self) -> bool:
        """Whether held weights need no copy for their products."""
        return str(self.options.model.frozen_precision) == self.options.device.precision

    @property
    def recomputes(self) -> bool:
        """Whether activation checkpointing has an effect; the last layer alone saves no activations."""
        return self.options.memory.activation_checkpointing and self.method is not Method.HEAD

    @property
    def accumulates(self) -> bool:
        """Whether gradients of earlier batches exist during the forward pass."""
        return self.options.memory.gradient_accumulation_steps > 1

    @property
    def processes(self) -> int:
        """Processes that train together on this computer."""
        return max(1, self.options.device.processes)

    @property
    def copies(self) -> int:
        """Processes that share the memory, each with all parts of its own: a CPU's; each GPU has one."""
        return self.processes if self.kind == "cpu" else 1

    @property
    def shards(self) -> int:
        """Parts into which gradients and optimizer state are divided; FSDP2 and ZeRO-3 divide the weights, too."""
        return self.processes if self.options.memory.fsdp or self.zero is not DeepSpeed.OFF else 1

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients exist during the forward pass: of earlier batches, or as DDP's buckets."""
        is_ddp = self.processes > 1 and self.shards == 1
        return is_ddp or self.accumulates

    @property
    def rows(self) -> int:
        """Rows of a batch with gradients; pairs have two per sample."""
        is_pairs = self.options.preference not in (None, PreferenceLoss.KTO)
        return (2 if is_pairs else 1) * self.options.memory.batch_size

    @property
    def row_places(self) -> int:
        """Tokens of a row, or pixels of an image."""
        return self.length if self.is_text else self.length * self.length

    @property
    def places(self) -> int:
        return self.rows * self.row_places

    @cached_property
    def lora_sides(self) -> tuple[int, int]:
        """Summed inputs and outputs of the layers with LoRA adapters, if all blocks have them."""
        targets, linears = self.options.model.lora_targets, self.shape.linears
        names = {target.rpartition(".")[2] for target in targets} if targets else set(linears)
        chosen = [sides for name, sides in linears.items() if name in names]
        return sum(sides[0] for sides in chosen), sum(sides[1] for sides in chosen)

    @property
    def adapted(self) -> float:
        """The share of the blocks with adapters."""
        last, blocks = self.options.model.lora_layers, self.shape.blocks
        return min(1.0, last / blocks) if self.has_lora and last and blocks else 1.0

    @property
    def passed(self) -> float:
        """The share of the blocks that gradients pass through: with Trainer, through all that it recomputes."""
        return 1.0 if self.recomputes and not self.is_mlx else self.adapted

    @cached_property
    def lora_weights(self) -> int:
        """Weights of LoRA's matrices, taken as equally many in each block."""
        lengths = self.lora_sides[1] if self.has_dora else 0
        whole = sum(self.lora_sides) * self.options.model.lora_rank + lengths
        return round(self.adapted * whole) if self.has_lora else 0

    @property
    def trainable(self) -> int:
        if self.method is Method.FULL:
            return self.shape.parameters
        return self.shape.head + self.lora_weights

    @property
    def trained_tables(self) -> int:
        return self.shape.embeddings if self.method is Method.FULL else 0

    @property
    def largest_trained(self) -> int:
        """Numbers in the largest trained weight; LoRA has no large ones."""
        return self.shape.largest if self.method is Method.FULL else 0

    @property
    def zero(self) -> DeepSpeed:
        return self.options.memory.deepspeed

    @property
    def offloads(self) -> bool:
        """Whether DeepSpeed offloads to main memory or a disk."""
        is_apart = self.kind != "cpu" and self.zero is not DeepSpeed.OFF
        return is_apart and self.options.memory.offload is not Offload.NONE

    @property
    def state_each(self) -> float:
        """Bytes of the optimizer's state per trained weight, except embeddings with 32-bit state."""
        training = self.options.training
        if training.optimizer is Optimizer.SGD and not training.momentum:
            return 0.0
        if training.optimizer is Optimizer.ADAFACTOR and self.method is Method.FULL and self.shape.factored:
            return NUMBER * self.shape.factored / self.shape.parameters
        return STATE[training.optimizer]

    @cached_property
    def kept(self) -> Kept:
        key = Kept.key(frozen=self.method is not Method.FULL, half=self.is_half)
        return self.shape.kept.get(key, Kept())

    def size(self, tensors: Iterable[KeptTensor]) -> float:
        """Returns the bytes of saved tensors for the batch."""
        return self.rows * sum(tensor.count * tensor.size(self.row_places) for tensor in tensors)


def case_of(options: RunOptions, shape: ModelShape, device: DeviceReport, length: int | None = None) -> Case:
    """Returns the case of a run, with automatic options resolved for `device`.

    `length` are tokens of the longest row; None: as many as the options and the model allow. Ignored for images.
    """
    settled = settle(device, options)
    synthetic = parse_synthetic(settled.data.train)
    if settled.task.reads_images:
        length = synthetic[1] if synthetic else settled.data.image_size
    else:
        if settled.data.padding is Padding.FIXED:
            length = settled.data.max_length
        length = length or (synthetic[1] if synthetic else settled.data.max_length)
        if is_scratch(settled.model.source):  # it gets as many as it needs
            shape = msgspec.structs.replace(shape, positions=None)
        multiple = row_multiple(settled)
        length = max(length, min(-(-length // multiple) * multiple, settled.data.max_length))
        length = min(length, shape.positions) if shape.positions else length
    return Case(settled, shape, device.kind, length)
