"""What a run holds beside all tensors: the libraries, the device's context, what an allocator holds unused."""

from core.choices import Method, Optimizer
from core.memory.case import Case
from core.memory.heap import unused_bytes
from core.options import RunOptions
from core.sources import parse_synthetic

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
"""Random images stay in memory, up to so many bytes (`core.engine.data.builtin_images`)."""

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
