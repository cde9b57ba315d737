"""What weights and their gradients take. All figures are bytes.

Sources: the guide "Model training anatomy" of transformers (fp32 weights 4, gradients 4 bytes a weight); the paper on
QLoRA (arXiv 2305.14314, section 3: blocks of 64 weights share a scale of 8 bits, 256 scales one of 32); DeepSpeed's
page "ZeRO" for what its stages leave on the device.
"""

from core.choices import DeepSpeed, Method, Offload, Quantization, Task
from core.memory.case import NUMBER, Case

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
