"""How much memory a run takes, by formula: at once, from the model's shape alone, and each part explained.

A step has a few moments that can be its fullest. When the backward pass begins, all activations are there and, without
accumulation, no gradient; when it ends, all gradients and no activation. The parts told are those of the fullest
moment, so that they add up to the peak.
"""

from collections.abc import Iterator

import msgspec

from core.choices import DeepSpeed, Optimizer, Padding
from core.memory.activations import (
    cast_bytes,
    kept_bytes,
    last_kept_bytes,
    passing_bytes,
    recomputed_bytes,
    saying_bytes,
)
from core.memory.case import NUMBER, Case, case_of
from core.memory.forecast import Basis, Forecast, Parts, Room
from core.memory.optimizer_memory import is_elsewhere, state_bytes, step_bytes
from core.memory.overhead import cached_bytes, overhead_bytes
from core.memory.record import corrected
from core.memory.shape import ModelShape
from core.memory.weight_memory import (
    arriving_bytes,
    first_block_gradients,
    gradient_bytes,
    unpacked_bytes,
    weight_bytes,
)
from core.options import RunOptions
from core.reports import DeviceReport


def forecast(
    options: RunOptions,
    shape: ModelShape,
    device: DeviceReport,
    *,
    length: int | None = None,
    room: Room | None = None,
    correction: float = 1.0,
) -> Forecast:
    """The memory of a run on `device`, by formula. Takes well under a millisecond.

    Args:
        options: What is asked; what is left to Hone is settled for `device`.
        shape: The model's.
        device: Where it computes.
        length: Tokens of the longest row; None: as many as the options and the model allow. Of no meaning for images.
        room: The device's memory, told with the forecast.
        correction: The factor that past runs on this device have taught.
    """
    case = case_of(options, shape, device, length)
    found = Forecast(
        basis=Basis.FORMULA,
        device=device.name,
        parts=_fullest(case),
        room=room,
        length=case.length if case.is_text else None,
        notes=tuple(_notes(case, length)),
    )
    return corrected(found, correction)


def _fullest(case: Case) -> Parts:
    found = max(moments(case), key=lambda parts: parts.total)
    cached = cached_bytes(case, found.total - found.overhead)
    return msgspec.structs.replace(found, overhead=found.overhead + cached)


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
