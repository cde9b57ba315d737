"""What a run holds beside all tensors: the libraries, the device's context, what an allocator holds unused."""

import platform
from functools import cache

from core.memory.activations import NUMBER, Case, block_by_size, kept_bytes
from core.options import RunOptions
from core.options.choices import Method, Optimizer
from core.options.sources import parse_synthetic

# --- What the C library's heap holds of a CPU run without any use


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


# --- What a run holds beside all tensors: the libraries, the device's context


MIB = 1 << 20

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
rows were traced and played through its rules (`core.engine.memory.cuda_cache`). Never measured on a GPU by Hone."""

MPS_DRIVER = 256 * MIB
"""Metal's own buffers and compiled kernels. Never measured: no Mac was at hand."""


def overhead_bytes(case: Case) -> int:
    """What stands beside the tensors; a Mac's GPU shares the memory that the process is in."""
    process = process_bytes(case)
    return {"cuda": CUDA_CONTEXT, "mps": process + MPS_DRIVER}.get(case.kind, process + unused_bytes(case))


def cached_bytes(case: Case, tensors: int) -> int:
    """What torch's own allocator for CUDA holds beyond the tensors of the fullest moment."""
    return round(CUDA_UNUSED * tensors) if case.kind == "cuda" else 0


def process_bytes(case: Case) -> int:
    """What the process holds of the computer's memory beside tensors. Images of a person's own are not counted."""
    return libraries_bytes(case.options) + FIRST_USE + _random_images(case)


def libraries_bytes(options: RunOptions) -> int:
    """What the libraries take that a run imports."""
    if options.model.method in (Method.LORA, Method.QLORA):
        return LIBRARIES + LORA_LIBRARIES
    return LIBRARIES + (BITSANDBYTES if options.training.optimizer in BY_BITSANDBYTES else 0)


def _random_images(case: Case) -> int:
    random = parse_synthetic(case.options.data.train)
    if case.is_text or random is None:
        return 0
    samples, size = random
    return min(samples * 3 * size * size, MOST_RANDOM_PIXELS)
