"""How much memory a run takes, at once: weights, gradients and state counted, activations by the engine's coefficients.

A step has a few moments that can be its fullest. When the backward pass begins, all activations are there and, without
accumulation, no gradient; when it ends, all gradients and no activation. The parts told are those of the fullest
moment, so that they add up to the peak. All figures are bytes.
"""

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial

import msgspec

from core.base.language import _
from core.memory.history import corrected
from core.memory.model import Basis, Forecast, Kept, KeptTensor, ModelShape, Parts, Room
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method, Offload, Optimizer, Padding, Precision, Quantization, Task
from core.options.device_support import DeviceReport, settle
from core.options.sources import parse_synthetic

MIB = 1 << 20

NUMBER, HALF_NUMBER = 4, 2
"""Bytes of a number of fp32, and of bf16 or fp16."""

NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
INT8 = 1.0
"""Bytes of a packed weight with its share of the scales."""

MOST_LIVE = 1_000_000_000
"""ZeRO-3 keeps so many weights on the device before it lets go of any (`stage3_max_live_parameters`)."""

MASTER = 4
"""DeepSpeed's own copy of each weight in fp32, from which it writes the others."""

STATE = {
    Optimizer.ADAMW: 8.0,
    Optimizer.ADAM: 8.0,
    Optimizer.ADAFACTOR: 0.04,
    Optimizer.ADAMW_8BIT: 2.03,
    Optimizer.PAGED_ADAMW_8BIT: 2.03,
    Optimizer.ADAMW_8BIT_TORCHAO: 2.03,
    Optimizer.LION_8BIT: 1.02,
    Optimizer.ADEMAMIX: 12.0,
    Optimizer.SGD: 4.0,
}
"""Bytes of state for each weight that learns. Adafactor's are of a BERT: what it takes goes by the weights' shapes, and
a model's own are in `ModelShape.factored`. 8-bit ones have a scale of 4 bytes for each 256 numbers beside these."""

TABLES_IN_32_BITS = {Optimizer.ADAMW_8BIT: 8, Optimizer.PAGED_ADAMW_8BIT: 8, Optimizer.LION_8BIT: 4}
"""Bytes of state for each weight of a table of tokens: Trainer has bitsandbytes keep those of `Embedding` in fp32."""

BESIDE_ON_CPU = {
    Optimizer.ADAMW_8BIT: (3, 5),
    Optimizer.PAGED_ADAMW_8BIT: (3, 5),
    Optimizer.LION_8BIT: (3, 5),
    Optimizer.ADEMAMIX: (4, 4),
}
"""How many copies of a weight in fp32 bitsandbytes makes on a CPU while it moves it: of one whose state is in 32 bits,
and in 8. There it has no kernels, but computes with torch's operators (`bitsandbytes/backends/cpu/ops.py` of 0.50: the
gradient scaled; the state unpacked, where it is packed; the root, and what is made of it)."""

TILE_TOKENS, TILE_WORDS, TILE_FOLDS = 4096, 32768, 6
"""So many tokens TRL multiplies with so many words at a time (`trl.kernels.chunked_logprob`); so many tiles of fp32 are
there at once in the backward pass where torch folds them: not on CUDA, which has a kernel."""

LAST_MAPS = 0.25
"""Gradients of a vision model's last layers, as a share of its widest output: traced in six models, 0.1 to 0.4."""

# --- What stands beside the tensors: measured constants

LIBRARIES = 468 * MIB
"""Python with torch, transformers and what a run imports with them, resident on a CPU before model and data (Linux)."""

LORA_LIBRARIES, BITSANDBYTES = 57 * MIB, 49 * MIB
"""PEFT with bitsandbytes, which it brings along; and bitsandbytes alone, for its optimizers."""

BY_BITSANDBYTES = (
    Optimizer.ADAMW_8BIT,
    Optimizer.PAGED_ADAMW_8BIT,
    Optimizer.LION_8BIT,
    Optimizer.ADEMAMIX,
)

FIRST_USE = 46 * MIB
"""What they take when data is read and they first compute: 26 MiB of code from disk, 20 MiB of tokenizers, tables of
data and oneDNN's compiled kernels. Measured in runs whose tensors were all mapped apart, so that they could be told."""

MOST_RANDOM_PIXELS = 64 * MIB
"""Random images stay in memory, up to so many bytes (`core.engine.data.images`)."""

CUDA_CONTEXT = 1343 * MIB
"""The guide "Efficient training on a single GPU" of transformers measured it on a V100; newer ones are like it."""

CUDA_UNUSED = 0.06
"""What torch's caching allocator holds without using it, as a share of the tensors: 0 to 12 % where the guide's nine
rows were played through its rules. Never measured on a GPU by Hone."""

MPS_DRIVER = 256 * MIB
"""Metal's own buffers and compiled kernels. Never measured: no Mac was at hand."""

MAPPED_FROM = 32 * MIB
"""Tensors from this size on are mapped apart, and given back at once (`DEFAULT_MMAP_THRESHOLD_MAX` of glibc). The gaps
that smaller ones leave are filled by small objects, and stay: see docs/decisions/memory.md."""

GAPS, GAPS_HALF, GAPS_LORA, GAPS_LARGE = 0.33, 0.27, 0.6, 0.12
"""Gaps among what is kept until the backward pass, as a share of it: of tensors below `MAPPED_FROM` in fp32, in 16
bits, with LoRA's small tensors among them; and of larger ones."""

GAPS_IMAGES = 0.25
"""The same among a vision model's tensors below `MAPPED_FROM`, in either precision: they are of many sizes, and nothing
but what is kept comes and goes before the backward pass."""

ACCUMULATED, ACCUMULATED_LARGE = 0.37, 0.13
"""More gaps where gradients of earlier batches lie among what is kept."""

RECOMPUTED, RECOMPUTED_LAYER, RECOMPUTED_ACCUMULATED = 1.5, 0.22, 1.2
"""Gaps as a multiple of one block's tensors where blocks are computed again: with each layer they wander further up."""

PASSING = 0.45
"""The same where nothing is kept at all and tensors only pass through: chosen by one measured run, MiniLM of 32 x 128.
What lodges in gaps is mostly autograd's, and here there is none of it."""

GAPS_OF_GRADIENTS = 1.1
"""Gaps that the gradients of the last step leave, as a share of them."""


# --- One run


@dataclass(frozen=True)
class Case:
    """What is asked (`options`, settled), of which model, on which kind of device (`cpu`, `cuda`, `mps`).

    `length` is tokens of the longest row, or pixels of an image's side.
    """

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
    def has_lora(self) -> bool:
        """Whether small matrices learn beside a frozen model."""
        return self.method in (Method.LORA, Method.QLORA)

    @property
    def is_half(self) -> bool:
        """Whether autocast computes in 16 bits."""
        return self.options.device.precision in (Precision.BF16, Precision.FP16)

    @property
    def number(self) -> int:
        """Bytes of a number that a matrix is multiplied with."""
        return HALF_NUMBER if self.is_half else NUMBER

    @property
    def recomputes(self) -> bool:
        """Whether activations are computed again for the gradients; a last layer alone has none below it to keep."""
        return self.options.memory.activation_checkpointing and self.method is not Method.HEAD

    @property
    def accumulates(self) -> bool:
        """Whether gradients of earlier batches are there while the next one is computed."""
        return self.options.memory.gradient_accumulation_steps > 1

    @property
    def rows(self) -> int:
        """Rows of a batch; of preferences there are the better and the worse answer."""
        return (2 if self.options.task is Task.PREFERENCE else 1) * self.options.memory.batch_size

    @property
    def row_places(self) -> int:
        """Tokens of a row, or pixels of an image."""
        return self.length if self.is_text else self.length * self.length

    @property
    def places(self) -> int:
        return self.rows * self.row_places

    @cached_property
    def lora_sides(self) -> tuple[int, int]:
        """Inputs and outputs of the layers that get LoRA's matrices, added up."""
        asked, linears = self.options.model.lora_targets, self.shape.linears
        names = {target.rpartition(".")[2] for target in asked} if asked else set(linears)
        chosen = [sides for name, sides in linears.items() if name in names]
        return sum(inputs for inputs, _rest in chosen), sum(outputs for _rest2, outputs in chosen)

    @cached_property
    def lora_weights(self) -> int:
        return sum(self.lora_sides) * self.options.model.lora_rank if self.has_lora else 0

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
        """Numbers in the largest weight that learns; of LoRA's, none is large."""
        return self.shape.largest if self.method is Method.FULL else 0

    @property
    def zero(self) -> DeepSpeed:
        return self.options.memory.deepspeed

    @property
    def offloads(self) -> bool:
        """Whether DeepSpeed puts into main memory or on a disk what the GPU doesn't need."""
        is_apart = self.kind != "cpu" and self.zero is not DeepSpeed.OFF
        return is_apart and self.options.memory.offload is not Offload.NONE

    @cached_property
    def kept(self) -> Kept:
        """What a pass of this kind keeps, for each place."""
        key = Kept.key(frozen=self.method is not Method.FULL, half=self.is_half)
        return self.shape.kept.get(key, Kept())

    def size(self, tensors: Iterable[KeptTensor]) -> float:
        """Bytes of such tensors, for the batch."""
        return self.rows * sum(one.count * one.size(self.row_places) for one in tensors)


def case_of(options: RunOptions, shape: ModelShape, device: DeviceReport, length: int | None = None) -> Case:
    """The case of a run.

    Args:
        options: What is asked; what is left to Hone is settled for `device`.
        shape: The model's.
        device: Where it computes.
        length: Tokens of the longest row; None: as many as the options and the model allow. Of no meaning for images.
    """
    settled = settle(device, options)
    synthetic = parse_synthetic(settled.data.train)
    if settled.task.reads_images:
        length = synthetic[1] if synthetic else settled.data.image_size
    else:
        if settled.data.padding is Padding.FIXED:  # rows are as long as is allowed, whatever is in them
            length = settled.data.max_length
        length = length or (synthetic[1] if synthetic else settled.data.max_length)
        length = min(length, shape.positions) if shape.positions else length
    return Case(settled, shape, device.name.partition(":")[0], length)


def forecast(
    options: RunOptions,
    shape: ModelShape,
    device: DeviceReport,
    *,
    length: int | None = None,
    data: int = 0,
    room: Room | None = None,
    correction: float = 1.0,
) -> Forecast:
    """The memory of a run on `device`. Takes well under a millisecond.

    Args:
        options: What is asked; what is left to Hone is settled for `device`.
        shape: The model's.
        device: Where it computes.
        length: Tokens of the longest row; None: as many as the options and the model allow. Of no meaning for images.
        data: Bytes of the data that stay in memory.
        room: The device's memory, told with the forecast.
        correction: The factor that past runs on this device have taught.
    """
    case = case_of(options, shape, device, length)
    parts = max(moments(case), key=lambda parts: parts.total)
    cached = CUDA_UNUSED * (parts.total - parts.overhead) if case.kind == "cuda" else 0
    found = Forecast(
        basis=Basis.FORMULA,
        device=device.name,
        parts=msgspec.structs.replace(parts, overhead=parts.overhead + round(cached) + data),
        room=room,
        length=case.length if case.is_text else None,
        notes=tuple(_notes(case, length)),
    )
    return corrected(found, correction)


def moments(case: Case) -> Iterator[Parts]:
    """The parts at each moment of a step, from the second step on, that can be its fullest."""
    gradients, casts = gradient_bytes(case), cast_bytes(case)
    lasting = Parts(weights=weight_bytes(case), optimizer=state_bytes(case), overhead=overhead_bytes(case))
    moment = partial(msgspec.structs.replace, lasting)
    earlier = gradients if case.accumulates else 0
    block = block_bytes(case) if case.recomputes else 0
    unpacked = case.number * case.shape.largest_linear if case.method is Method.QLORA else 0
    first = 0 if case.is_text else min(gradients, NUMBER * case.largest_trained)  # a large classifier's
    if case.recomputes:  # the forward pass has ended: autocast has cast every weight, and lets go of them now
        yield moment(gradients=earlier, activations=kept_bytes(case), temporary=casts)
        casts //= max(1, case.shape.layers)
    at_the_end = passing_bytes(case) * (1 if case.is_text else LAST_MAPS)
    widest = max(round(at_the_end), saying_bytes(case) - block)  # the last block comes after the logits
    yield moment(  # the backward pass begins
        gradients=max(earlier, first),
        activations=kept_bytes(case) + block,
        temporary=casts + widest + unpacked,
    )
    yield moment(  # the first block's turn: but for its own and the tables', gradients are there
        gradients=max(earlier, gradients - _first_block_gradients(case)),
        activations=_last_kept_bytes(case),
        temporary=passing_bytes(case) + unpacked,
    )
    arriving = NUMBER * case.largest_trained if case.accumulates else 0  # added to that of earlier batches
    # it ends, and the optimizer steps
    yield moment(gradients=gradients, temporary=max(arriving, step_bytes(case)))


# --- Weights, gradients and the optimizer


def weight_bytes(case: Case) -> int:
    """The model's weights on the device, LoRA's matrices with them; of DPO with all weights, the copy it is held to."""
    shape = case.shape
    if case.zero is not DeepSpeed.OFF:
        is_fetched = case.offloads and case.zero is DeepSpeed.ZERO_3
        return stored_number(case) * (min(shape.parameters, MOST_LIVE) if is_fetched else shape.parameters)
    packed = shape.packable if case.method is Method.QLORA else 0
    copied = shape.parameters if case.options.task is Task.PREFERENCE and case.method is Method.FULL else 0
    return round(packed_number(case) * packed) + NUMBER * (shape.parameters - packed + added(case) + copied)


def packed_number(case: Case) -> float:
    """Bytes of a packed weight."""
    return INT8 if case.options.model.quantization is Quantization.INT8 else NF4


def stored_number(case: Case) -> int:
    """Bytes of a weight that isn't packed: 4; DeepSpeed on a GPU holds them in the precision asked for."""
    return case.number if case.zero is not DeepSpeed.OFF and case.kind != "cpu" else NUMBER


def added(case: Case) -> int:
    """Weights LoRA adds: its matrices, and the classifier's copy that learns beside the one that is kept."""
    return case.lora_weights + case.shape.head if case.has_lora else 0


def gradient_bytes(case: Case) -> int:
    """Gradients of all weights that learn. Those that ZeRO offloads leave as soon as they are there."""
    return 0 if case.offloads else stored_number(case) * case.trainable


def _first_block_gradients(case: Case) -> int:
    """Gradients that come last of all: of a transformer's first block, and of its tables of tokens and positions."""
    if case.method is not Method.FULL or not case.is_text:
        return gradient_bytes(case)
    block = (case.trainable - case.trained_tables) // max(1, case.shape.layers)
    return min(gradient_bytes(case), stored_number(case) * (block + case.trained_tables))


def state_bytes(case: Case) -> int:
    """The optimizer's state on the device."""
    if is_elsewhere(case):
        return 0
    apart = tables_apart(case)
    in_full = apart * TABLES_IN_32_BITS.get(case.options.training.optimizer, 0)
    master = MASTER * case.trainable if case.zero is not DeepSpeed.OFF else 0
    return round(state_each(case) * (case.trainable - apart)) + in_full + master


def state_each(case: Case) -> float:
    """Bytes of state for each weight that learns, those of tables in 32 bits aside."""
    training = case.options.training
    if training.optimizer is Optimizer.SGD and not training.momentum:
        return 0.0
    if training.optimizer is Optimizer.ADAFACTOR and case.method is Method.FULL and case.shape.factored:
        return NUMBER * case.shape.factored / case.shape.parameters
    return STATE[training.optimizer]


def tables_apart(case: Case) -> int:
    """How many weights are kept track of in 32 bits where the others have 8."""
    return case.trained_tables if case.options.training.optimizer in TABLES_IN_32_BITS else 0


def is_elsewhere(case: Case) -> bool:
    """Whether the state lies in main memory or on a disk while the weights are on a GPU."""
    return case.offloads or (case.kind != "cpu" and case.options.memory.offload_optimizer)


def step_bytes(case: Case) -> int:
    """What the step holds beside weights, gradients and state, of the weight that needs most.

    Adafactor's update is computed out of place: itself, its square for the norm, and its negative
    (`transformers.optimization.Adafactor.step`). bitsandbytes on a CPU makes copies. Fused kernels need none.
    """
    optimizer = case.options.training.optimizer
    if optimizer is Optimizer.ADAFACTOR:
        return 2 * NUMBER * case.largest_trained
    if case.kind != "cpu" or optimizer not in BESIDE_ON_CPU:
        return 0
    of_full, of_packed = BESIDE_ON_CPU[optimizer]
    if not case.trained_tables:
        return of_packed * NUMBER * case.largest_trained
    return NUMBER * max(of_full * case.largest_trained, of_packed * case.shape.largest_linear)


# --- Activations, and what is held for a moment beside them


def kept_bytes(case: Case) -> int:
    """What is kept when the forward pass has ended, activation checkpointing heeded."""
    if case.method is Method.HEAD:
        return 0
    inside = case.places * case.kept.entering if case.recomputes else _blocks_bytes(case)
    if not case.is_text:
        others = (
            case.options.memory.gradient_accumulation_steps
        )  # a step's batches, and one that is looked ahead to
        return round(inside + case.size(case.kept.outside) + case.places * others * 3 * NUMBER)
    return round(inside + case.size(case.kept.outside) + case.places * _said_each(case))


def _blocks_bytes(case: Case) -> float:
    """What all blocks keep together; beside frozen layers, what enters LoRA's matrices and its dropout's masks."""
    kept = case.size(case.kept.blocks)
    if not case.has_lora:
        return kept
    inputs = case.lora_sides[0] if case.is_text else case.kept.into_linears
    mask = (1 if case.kind == "cuda" else NUMBER) if case.options.model.lora_dropout else 0
    return kept + case.places * inputs * (case.number + mask)


def block_bytes(case: Case) -> int:
    """What one block keeps, the largest, while it is computed."""
    return round(case.kept.largest * _blocks_bytes(case))


def _last_kept_bytes(case: Case) -> int:
    """What is still kept when the backward pass has reached the first block; of a vision model nothing is counted."""
    if case.method is Method.HEAD or not case.is_text:
        return 0
    return block_bytes(case) + round(case.size(case.kept.outside))


def _said_each(case: Case) -> int:
    """Logarithms of the probabilities of all tokens, which the loss keeps in fp32 for each place; TRL keeps none."""
    return 0 if case.options.task.reads_conversations else NUMBER * case.shape.said


def saying_bytes(case: Case) -> int:
    """What is held for a moment while their gradients are computed, in fp32: of them, and of the logits.

    TRL computes them in tiles, which hold a tile of logits and the gradient of the layer that says them.
    """
    if not case.options.task.reads_conversations:
        return 2 * _said_each(case) * case.places if case.is_text else 0
    # On a CPU, memory is taken where it is written to: only as wide as there are words.
    columns = TILE_WORDS if case.kind == "cuda" else min(case.shape.said, TILE_WORDS)
    folds = 0 if case.kind == "cuda" else TILE_FOLDS
    learned = case.shape.said * case.shape.hidden if case.method is Method.FULL else 0
    return min(case.places, TILE_TOKENS) * columns * (case.number + folds * NUMBER) + NUMBER * learned


def passing_bytes(case: Case) -> int:
    """What is held for a moment at the widest place of the model, beside what is kept.

    In the backward pass that is the gradient which comes in and the one which goes out. Those of attention's scores are
    larger, but come when the inner layers behind them are done with. Where nothing is kept, the forward pass has its
    widest moment: in attention, or in the inner layers. Of an image it is the widest map.
    """
    if not case.is_text:
        single = case.shape.kept.get(Kept.key(frozen=False, half=False), Kept())
        return round(case.places * max((one.each for one in (*single.blocks, *single.outside)), default=0))
    wide, scores = _widest(case)
    if case.method is Method.HEAD:
        return round(max(2 * wide, 3 * scores) + 6 * NUMBER * case.places * case.shape.hidden)
    return round(max(2 * wide, scores - 2 * wide - 4 * NUMBER * case.places * case.shape.hidden))


def _widest(case: Case) -> tuple[float, float]:
    """Bytes of the widest tensor that grows with the length, and of the widest that grows with its square."""
    wide = max((one.each for one in case.kept.blocks if not one.square), default=0.0)
    return case.places * wide, case.rows * max(
        (one.size(case.row_places) for one in case.kept.blocks if one.square), default=0.0
    )


def cast_bytes(case: Case) -> int:
    """Copies of weights in 16 bits that autocast makes and the backward pass needs: 2 bytes a weight.

    With them, mixed precision takes 6 bytes a weight, as the guide counts. A layer that is never asked for gradients
    keeps none.
    """
    if not case.is_half or case.method is Method.HEAD:
        return 0
    casts = 0 if case.method is Method.QLORA else case.kept.casts
    return casts + HALF_NUMBER * case.lora_weights


# --- What stands beside the tensors


def overhead_bytes(case: Case) -> int:
    """What stands beside the tensors; a Mac's GPU shares the memory that the process is in."""
    process = process_bytes(case)
    return {"cuda": CUDA_CONTEXT, "mps": process + MPS_DRIVER}.get(case.kind, process + unused_bytes(case))


def process_bytes(case: Case) -> int:
    """What the process holds of the computer's memory beside tensors. Images of a person's own are not counted."""
    random = None if case.is_text else parse_synthetic(case.options.data.train)
    pixels = min(random[0] * 3 * random[1] ** 2, MOST_RANDOM_PIXELS) if random else 0
    return libraries_bytes(case.options) + FIRST_USE + pixels


def libraries_bytes(options: RunOptions) -> int:
    """What the libraries take that a run imports."""
    if options.model.method in (Method.LORA, Method.QLORA):
        return LIBRARIES + LORA_LIBRARIES
    return LIBRARIES + (BITSANDBYTES if options.training.optimizer in BY_BITSANDBYTES else 0)


def unused_bytes(case: Case) -> int:
    """What glibc's heap holds beyond the tensors at a CPU run's fullest moment; 0 where memory is given back."""
    if case.kind != "cpu" or not uses_glibc():
        return 0
    largest = case.largest_trained
    small_weights = case.trainable - (largest if largest * NUMBER >= MAPPED_FROM else 0)
    return round(GAPS_OF_GRADIENTS * NUMBER * small_weights + _gaps(case))


@cache
def uses_glibc() -> bool:
    """Whether this Python's memory comes from glibc."""
    return platform.libc_ver()[0] == "glibc"


def _gaps(case: Case) -> float:
    """Gaps among what the blocks keep; of a vision model, among all that is kept."""
    tensors = case.kept.blocks if case.is_text else (*case.kept.blocks, *case.kept.outside)
    whole = _blocks_bytes(case) + (0 if case.is_text else case.size(case.kept.outside))
    large = case.size(one for one in tensors if case.rows * one.size(case.row_places) >= MAPPED_FROM)
    small = whole - large
    one_block = case.kept.largest * (small + large / 2)
    if case.method is Method.HEAD:
        return PASSING * (one_block if case.is_text else 2 * passing_bytes(case) * small / max(1.0, whole))
    if not case.is_text:
        return (GAPS_IMAGES * small + GAPS_LARGE * large) * (2 if case.recomputes else 1)
    if case.recomputes:
        times = RECOMPUTED + RECOMPUTED_LAYER * case.shape.layers
        return times * (RECOMPUTED_ACCUMULATED if case.accumulates else 1.0) * one_block
    share = GAPS_LORA if case.has_lora else GAPS_HALF if case.is_half else GAPS
    if case.accumulates:
        return (share + ACCUMULATED) * small + (GAPS_LARGE + ACCUMULATED_LARGE) * large
    return share * small + GAPS_LARGE * large


def _notes(case: Case, length: int | None) -> Iterator[str]:
    """What was taken for granted, in sentences."""
    options = case.options
    if case.is_text and length is None:
        padded = options.data.padding is Padding.FIXED
        yield (
            _("Every row was taken to have {length:,} tokens{value}.").format(
                length=case.length,
                value="" if padded else ", the most that is allowed; batches of shorter texts take less",
            )
        )
    positions = case.shape.positions
    if case.is_text and positions and options.data.max_length > positions:
        yield (
            f"data.max_length is {options.data.max_length:,}, and the model sees {positions:,} tokens at most: texts "
            "are cut off there."
        )
    if case.zero is not DeepSpeed.OFF:
        yield _("DeepSpeed's own buffers are not in the formulas: take the figure as a rough one.")
    if is_elsewhere(case):
        yield _("The optimizer's state lies in main memory or on a disk and is not counted here.")
    if options.training.optimizer is Optimizer.PAGED_ADAMW_8BIT:
        yield "Paged state makes room where the GPU is short of it; it is counted as if it stayed."
    if options.device.compile:
        yield _("A compiled model fuses operators and usually takes less than is counted here.")
    if case.kind == "mps":
        yield _("The formulas were never held against a Mac's measured peak.")
