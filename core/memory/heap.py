"""What the C library's heap holds of a CPU run without any use: the gaps that tensors leave. All figures are bytes.

glibc finds no room for an aligned tensor in the gap that one of the same size left, and never gives a gap back;
`core.engine.memory.glibc_heap` plays that through. How much it comes to was read off 192 runs of BERT played through it
(3 to 24 layers, 4 to 128 rows, 64 to 512 tokens, 2 precisions, 5 optimizers): with these shares the formula is off by
4 % of a run's memory in the median, by 11 % in one of ten, at worst by 32 %; without them by 25 % to 60 %. macOS and
Windows map large blocks apart and have no such gaps.
"""

import platform
from functools import cache

from core.choices import Method
from core.memory.activations import block_by_size, kept_bytes
from core.memory.case import NUMBER, Case

MAPPED_FROM = 32 << 20
"""Tensors from this size on are mapped apart, and given back at once (`DEFAULT_MMAP_THRESHOLD_MAX` of glibc)."""

KEPT, KEPT_HALF, KEPT_LORA, KEPT_LARGE = 0.33, 0.27, 0.6, 0.12
"""Gaps among what is kept until the backward pass, as a share of it: of tensors below `MAPPED_FROM` in fp32, in 16
bits, with LoRA's small tensors among them; and of larger ones."""

KEPT_IMAGES = 0.25
"""The same among a vision model's tensors below `MAPPED_FROM`, in either precision: they are of many sizes, and nothing
but what is kept comes and goes before the backward pass. Read off 66 runs of the six models played through the heap,
where it went from 0.1 (MobileNet) to 0.5 (ResNet)."""

ACCUMULATED, ACCUMULATED_LARGE = 0.37, 0.13
"""More gaps where gradients of earlier batches lie among what is kept."""

RECOMPUTED, RECOMPUTED_LAYER, RECOMPUTED_ACCUMULATED = 1.5, 0.22, 1.2
"""Gaps as a multiple of one block's tensors where blocks are computed again: with each layer they wander further up."""

PASSING = 0.45
"""The same where nothing is kept at all and tensors only pass through: chosen by one measured run, MiniLM of 32 x 128.
What lodges in gaps is mostly autograd's, and here there is none of it."""

GRADIENTS = 1.1
"""Gaps that the gradients of the last step leave, as a share of them."""


def unused_bytes(case: Case) -> int:
    """What the heap holds beyond the tensors at a run's fullest moment; 0 where memory is given back."""
    if case.kind != "cpu" or not uses_glibc():
        return 0
    gradients = GRADIENTS * NUMBER * _small_weights(case)
    if not case.is_text:
        return round(gradients + _among_images(case))
    return round(gradients + _among_texts(case))


@cache
def uses_glibc() -> bool:
    """Whether this Python's memory comes from glibc."""
    return platform.libc_ver()[0] == "glibc"


def _small_weights(case: Case) -> int:
    """How many weights learn, without the largest one where its gradient is mapped apart."""
    largest = case.largest_trained
    return case.trainable - (largest if largest * NUMBER >= MAPPED_FROM else 0)


def _among_texts(case: Case) -> float:
    sizes = block_by_size(case)
    small = case.places * sum(each for tensor, each in sizes if tensor < MAPPED_FROM)
    large = case.places * sum(each for tensor, each in sizes if tensor >= MAPPED_FROM)
    if case.method is Method.HEAD:
        return PASSING * (small + large / 2)
    if case.recomputes:
        times = RECOMPUTED + RECOMPUTED_LAYER * case.shape.layers
        return times * (RECOMPUTED_ACCUMULATED if case.accumulates else 1.0) * (small + large / 2)
    shares = _kept_share(case), KEPT_LARGE
    if case.accumulates:
        shares = shares[0] + ACCUMULATED, shares[1] + ACCUMULATED_LARGE
    return case.shape.layers * (shares[0] * small + shares[1] * large)


def _among_images(case: Case) -> float:
    """Of a vision model's tensors only the widest is known: the further beyond `MAPPED_FROM`, the more are as large."""
    shape = case.shape
    widest = case.places * shape.widest_per_pixel * case.number
    if not widest or not shape.kept_per_pixel:
        return 0.0
    small = min(1.0, MAPPED_FROM / widest)
    if case.method is Method.HEAD:
        return PASSING * 2 * widest * small
    recomputes = case.recomputes and shape.recomputed_per_pixel > 0
    kept = kept_bytes(case) * (shape.kept_per_pixel / shape.recomputed_per_pixel if recomputes else 1.0)
    share = KEPT_IMAGES * small + KEPT_LARGE * (1 - small)
    return share * kept * (2 if case.recomputes else 1)


def _kept_share(case: Case) -> float:
    if case.has_lora:
        return KEPT_LORA
    return KEPT_HALF if case.is_half else KEPT
