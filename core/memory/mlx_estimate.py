"""The memory forecast of a run on MLX. All figures are bytes.

MLX computes a step as one graph, and frees an array after its last use. The formulas were written with the peaks that
MLX counted on a CPU (`tests/performance/forecast.py`). Metal's kernels for norms, rotary embeddings and activation
functions hold less; attention is the same there: MLX computes it unfused where there are gradients
(`scaled_dot_product_attention.cpp`). Nothing was measured on a Mac.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from core.memory.case import HALF_NUMBER, NUMBER, STATE, Case, Term, added_up
from core.memory.model import Kept, Parts
from core.options.choices import AFFINE_BITS, AFFINE_GROUP, Method, Optimizer
from core.options.packing import Packing

MIB = 1 << 20

LOGITS = 4
"""fp32 copies of the logits when the backward pass begins: logits, their exponentials, and two gradients."""

BACKWARD = 1.25
"""Arrays of the backward pass of a block, relative to what its forward pass holds: 0.95 to 1.5 in eight models."""

STEP_TABLES, STEP_LINEARS = 2.5, 10
"""Copies of the largest weight, or of the largest linear layer's weight, while an optimizer updates several at once."""

LIBRARIES = 540 * MIB
"""Resident memory of Python with PyTorch, transformers and MLX, and what they allocate at first use (CPU, Linux)."""

LORA_LIBRARIES = 57 * MIB
"""PEFT."""


def moments(case: Case) -> Iterator[Parts]:
    """Yields the parts at each moment of a step that can be the peak, from the second step on."""
    gradients = added_up(gradient_terms(case), 1)
    lasting = Parts(
        weights=added_up(weight_terms(case), 1),
        optimizer=added_up(state_terms(case), 1),
        overhead=libraries_bytes(case),
    )
    moment = partial(msgspec.structs.replace, lasting)
    earlier, copies = gradients if case.accumulates else 0, cast_bytes(case)
    block = block_bytes(case) if case.recomputes else 0
    backward = backward_bytes(case)
    yield moment(  # the gradients of the logits
        gradients=earlier,
        activations=kept_bytes(case),
        temporary=copies + logits_bytes(case) + output_layer_bytes(case),
    )
    yield moment(  # the last block
        gradients=earlier, activations=kept_bytes(case) + block, temporary=copies + backward
    )
    yield moment(  # the first block
        gradients=gradients, activations=block_bytes(case), temporary=copies + backward
    )
    yield moment(gradients=gradients, temporary=step_bytes(case))  # optimizer step


# --- Weights, gradients and the optimizer


def weight_terms(case: Case) -> tuple[Term, ...]:
    """Returns terms of the weights: quantized, frozen, and those that learn or are a reference, in fp32."""
    shape = case.shape
    if case.method is Method.FULL:
        return (Term(shape.parameters * (2 if case.options.has_reference else 1), NUMBER),)
    packed = packed_weights(case)
    return (
        *(Term(count, packing.size(case.number)) for packing, count in packed),
        Term(shape.parameters - sum(count for _packing, count in packed), case.number),
        Term(case.lora_weights, NUMBER),
    )


def packed_weights(case: Case) -> tuple[tuple[Packing, int], ...]:
    """Returns the quantized weights by format: those of the model's files, which nothing is added to, or QLoRA's."""
    if case.shape.packed or case.method is not Method.QLORA:
        return case.shape.packed
    bits = AFFINE_BITS.get(case.options.model.quantization, 4)
    return ((Packing(bits, AFFINE_GROUP), case.shape.holdable),)


def gradient_terms(case: Case) -> tuple[Term, ...]:
    return (Term(case.trainable, NUMBER),)


def state_terms(case: Case) -> tuple[Term, ...]:
    """Returns terms of the optimizer's state: Muon leaves all but matrices of blocks to AdamW, stacked experts, too."""
    left, shape = 0, case.shape
    if case.options.training.optimizer is Optimizer.MUON and case.method is Method.FULL:
        left = case.trainable - (shape.holdable - shape.embeddings - _output_layer(case))
    return (Term(case.trainable - left, case.state_each), Term(left, STATE[Optimizer.ADAMW]))


def cast_bytes(case: Case) -> int:
    """Returns the copies in bf16 with which full fine-tuning computes."""
    return HALF_NUMBER * case.trainable if case.method is Method.FULL and case.is_half else 0


def step_bytes(case: Case) -> int:
    """Returns what the optimizer step holds besides gradients, weights and state.

    A table that is the output layer as well is updated when about half of the other gradients are gone, unless MLX
    computes depth first. Lion's weights don't need its new state, for which all gradients wait beside the new weights.
    """
    if case.method is not Method.FULL:
        return 0
    shape = case.shape
    gone = 0 if case.recomputes or _output_layer(case) else (shape.parameters - shape.largest) / 2
    new = shape.parameters if case.options.training.optimizer is Optimizer.LION else 0
    return round(NUMBER * max(STEP_TABLES * shape.largest - gone, STEP_LINEARS * shape.largest_linear, new))


def _output_layer(case: Case) -> int:
    """Returns the weights of the output layer; 0 if they are those of the tokens' table."""
    has_own = case.shape.holdable - case.shape.packable > case.shape.embeddings
    return case.shape.vocabulary * case.shape.hidden if has_own else 0


# --- Activations


def kept_bytes(case: Case) -> int:
    """Returns the activations at the end of the forward pass, without logits."""
    inside = case.places * case.kept.entering if case.recomputes else _blocks_bytes(case)
    return round(case.passed * inside + outside_bytes(case))


def outside_bytes(case: Case) -> float:
    """Returns the activations outside of the blocks."""
    return case.size(case.kept.outside)


def block_bytes(case: Case) -> int:
    """Returns the activations of the largest block."""
    return round(case.kept.largest * _blocks_bytes(case))


def _blocks_bytes(case: Case) -> float:
    """Returns the activations of all blocks: about what PyTorch saves, attention scores, and what LoRA adds.

    In fp32, LoRA's layers hold inputs that training the weights would hold as well; in bf16, a copy of each in fp32.
    """
    each = _each(case.kept) + scores_each(case)
    if case.has_lora:
        inputs, all_inputs = case.lora_sides[0], sum(sides[0] for sides in case.shape.linears.values())
        trained = case.shape.kept.get(Kept.key(frozen=False, half=False), Kept())
        share = inputs / max(1, all_inputs)
        copies = NUMBER * inputs if case.is_half else share * (_each(trained) - _each(case.kept))
        masks = inputs * (1 + case.number) if case.options.model.lora_dropout else 0
        each += copies + masks
    return case.places * each


def _each(kept: Kept) -> float:
    """Returns the bytes for each token that PyTorch saves in all blocks, without attention scores."""
    return sum(tensor.each * tensor.count for tensor in kept.blocks)


def scores_each(case: Case) -> int:
    """Returns the bytes of attention scores for each token in all blocks."""
    return case.shape.layers * case.shape.heads * case.length * case.number


def backward_bytes(case: Case) -> int:
    """Returns the arrays of the backward pass of a block."""
    return round(BACKWARD * block_bytes(case))


def logits_bytes(case: Case) -> int:
    """Returns the logits when the backward pass begins, with their gradients."""
    return case.places * case.shape.vocabulary * logit_bytes(case)


def logit_bytes(case: Case) -> int:
    """Returns the bytes of a logit: its copies in fp32, and in bf16 itself and its gradient."""
    return LOGITS * NUMBER + (2 * HALF_NUMBER if case.is_half else 0)


def output_layer_bytes(case: Case) -> int:
    """Returns the gradient of an output layer with weights of its own, twice: depth first it comes with the logits."""
    is_there = case.recomputes and case.method is Method.FULL
    return 2 * NUMBER * _output_layer(case) if is_there else 0


# --- Overhead


def libraries_bytes(case: Case) -> int:
    return LIBRARIES + (LORA_LIBRARIES if case.has_lora else 0)
