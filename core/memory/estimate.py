"""How much memory a run takes, by formula: at once, from the model's shape alone, and each part explained.

A step has a few moments that can be its fullest. When the backward pass begins, all activations are there and, without
accumulation, no gradient; when it ends, all gradients and no activation. The parts told are those of the fullest
moment, so that they add up to the peak.
"""

from collections.abc import Iterator

import msgspec

from core.memory.activations import (
    NUMBER,
    Case,
    case_of,
    cast_bytes,
    kept_bytes,
    last_kept_bytes,
    passing_bytes,
    recomputed_bytes,
    saying_bytes,
)
from core.memory.history import corrected
from core.memory.model import Basis, Forecast, ModelShape, Parts, Room
from core.memory.overhead import cached_bytes, overhead_bytes
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method, Offload, Optimizer, Padding, Quantization, Task
from core.options.device_support import DeviceReport

# --- What optimizers hold beside the weights


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

MASTER = 4
"""DeepSpeed's own copy of each weight in fp32, from which it writes the others."""


def state_bytes(case: Case) -> int:
    """The optimizer's state on the device."""
    if is_elsewhere(case):
        return 0
    rest = case.trainable - tables_apart(case)
    apart = tables_apart(case) * TABLES_IN_32_BITS.get(case.options.training.optimizer, 0)
    master = MASTER * case.trainable if case.zero is not DeepSpeed.OFF else 0
    return round(state_each(case) * rest) + apart + master


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
    if case.kind == "cpu":
        return False
    memory = case.options.memory
    return memory.offload_optimizer or (
        memory.deepspeed is not DeepSpeed.OFF and memory.offload is not Offload.NONE
    )


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
    inner = case.shape.hidden * case.shape.intermediate
    return NUMBER * max(of_full * case.largest_trained, of_packed * inner)


# --- What weights and their gradients take. All figures are bytes


NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
INT8 = 1.0
"""Bytes of a packed weight with its share of the scales."""

MOST_LIVE = 1_000_000_000
"""ZeRO-3 keeps so many weights on the device before it lets go of any (`stage3_max_live_parameters`)."""


def weight_bytes(case: Case) -> int:
    """The model's weights on the device, LoRA's matrices with them."""
    shape = case.shape
    if case.zero is not DeepSpeed.OFF:
        return stored_number(case) * (
            min(shape.parameters, MOST_LIVE) if is_fetched(case) else shape.parameters
        )
    packed = shape.packable if case.method is Method.QLORA else 0
    return round(packed_number(case) * packed) + NUMBER * (
        shape.parameters - packed + added(case) + reference(case)
    )


def reference(case: Case) -> int:
    """Weights of the copy that DPO holds a model to where all of it moves; with LoRA, the frozen model is that."""
    is_copied = case.options.task is Task.PREFERENCE and case.method is Method.FULL
    return case.shape.parameters if is_copied else 0


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
    if (
        case.kind != "cpu"
        and case.zero is not DeepSpeed.OFF
        and case.options.memory.offload is not Offload.NONE
    ):
        return 0
    return stored_number(case) * case.trainable


def first_block_gradients(case: Case) -> int:
    """Gradients that come last of all: of a transformer's first block, and of its tables of tokens and positions."""
    if case.method is not Method.FULL or not case.is_text:
        return gradient_bytes(case)
    block = (case.trainable - case.trained_tables) // max(1, case.shape.layers)
    return min(gradient_bytes(case), stored_number(case) * (block + case.trained_tables))


def is_fetched(case: Case) -> bool:
    """Whether weights lie elsewhere and come to the device when they are needed."""
    return (
        case.kind != "cpu"
        and case.zero is DeepSpeed.ZERO_3
        and case.options.memory.offload is not Offload.NONE
    )


def arriving_bytes(case: Case) -> int:
    """The gradient that is being added to the one of earlier batches: of the largest weight."""
    return NUMBER * case.largest_trained if case.accumulates else 0


def unpacked_bytes(case: Case) -> int:
    """The largest packed weight, unpacked to be multiplied: of the layer with the widest sides."""
    if case.method is not Method.QLORA:
        return 0
    shape = case.shape
    return case.number * shape.hidden * max(shape.intermediate, shape.heads * shape.head_width)


# --- How much memory a run takes, by formula: at once, from the model's shape alone


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
    """The memory of a run on `device`, by formula. Takes well under a millisecond.

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
    found = Forecast(
        basis=Basis.FORMULA,
        device=device.name,
        parts=_fullest(case, data),
        room=room,
        length=case.length if case.is_text else None,
        notes=tuple(_notes(case, length)),
    )
    return corrected(found, correction)


def _fullest(case: Case, data: int) -> Parts:
    found = max(moments(case), key=lambda parts: parts.total)
    cached = cached_bytes(case, found.total - found.overhead)
    return msgspec.structs.replace(found, overhead=found.overhead + cached + data)


def moments(case: Case) -> Iterator[Parts]:
    """The parts at each moment of a step, from the second step on, that can be its fullest."""
    weights, gradients, state = weight_bytes(case), gradient_bytes(case), state_bytes(case)
    overhead, casts = overhead_bytes(case), cast_bytes(case)
    earlier = gradients if case.accumulates else 0
    block = recomputed_bytes(case)
    passing = passing_bytes(case) + unpacked_bytes(case)
    first = (
        0 if case.is_text else min(gradients, NUMBER * case.largest_trained)
    )  # a classifier's, if it is large
    if case.recomputes:
        yield Parts(  # the forward pass has ended: autocast has cast every weight, and lets go of them now
            weights=weights,
            gradients=earlier,
            optimizer=state,
            activations=kept_bytes(case),
            temporary=casts,
            overhead=overhead,
        )
        casts //= max(1, case.shape.layers)
    widest = max(
        passing_bytes(case, begins=True), saying_bytes(case) - block
    )  # the last block comes after the logits
    yield Parts(  # the backward pass begins
        weights=weights,
        gradients=max(earlier, first),
        optimizer=state,
        activations=kept_bytes(case) + block,
        temporary=casts + widest + unpacked_bytes(case),
        overhead=overhead,
    )
    yield Parts(  # the first block's turn: but for its own and the tables', gradients are there
        weights=weights,
        gradients=max(earlier, gradients - first_block_gradients(case)),
        optimizer=state,
        activations=last_kept_bytes(case),
        temporary=passing,
        overhead=overhead,
    )
    yield Parts(  # it ends, and the optimizer steps
        weights=weights,
        gradients=gradients,
        optimizer=state,
        temporary=max(arriving_bytes(case), step_bytes(case)),
        overhead=overhead,
    )


def _notes(case: Case, length: int | None) -> Iterator[str]:
    """What the formulas took for granted, in sentences."""
    options = case.options
    if case.is_text and length is None:
        padded = options.data.padding is Padding.FIXED
        yield (
            f"Every row was taken to have {case.length:,} tokens"
            f"{'' if padded else ', the most that is allowed; batches of shorter texts take less'}."
        )
    positions = case.shape.positions
    if case.is_text and positions and options.data.max_length > positions:
        yield (
            f"data.max_length is {options.data.max_length:,}, and the model sees {positions:,} tokens at most: texts "
            "are cut off there."
        )
    if case.zero is not DeepSpeed.OFF:
        yield "DeepSpeed's own buffers are not in the formulas: take the figure as a rough one."
    if is_elsewhere(case):
        yield "The optimizer's state lies in main memory or on a disk and is not counted here."
    if options.training.optimizer is Optimizer.PAGED_ADAMW_8BIT:
        yield "Paged state makes room where the GPU is short of it; it is counted as if it stayed."
    if options.device.compile:
        yield "A compiled model fuses operators and usually takes less than is counted here."
    if case.shape.all_experts > case.shape.experts:
        some, every = case.shape.experts, case.shape.all_experts
        yield f"{some} of {every} experts compute each token; the weights of all are held."
    if case.kind == "mps":
        yield "The formulas were never held against a Mac's measured peak."
