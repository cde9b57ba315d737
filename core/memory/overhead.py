"""What a run holds beside all tensors: the libraries, the device's context, what an allocator holds unused."""

from core.memory.case import Case

MIB = 1 << 20

LIBRARIES = 620 * MIB
"""Python with torch, transformers and what a run imports with them, resident on a CPU before model and data."""

FIRST_USE = 60 * MIB
"""What they take in addition the first time they compute: code read from disk, oneDNN's compiled kernels, threads."""

CUDA_CONTEXT = 1343 * MIB
"""The guide "Efficient training on a single GPU" of transformers measured it on a V100; newer ones are like it."""

MPS_DRIVER = 256 * MIB
"""Metal's own buffers and compiled kernels. Never measured: no Mac was at hand."""


def overhead_bytes(case: Case) -> int:
    """What stands beside the tensors; a Mac's GPU shares the memory that the process is in."""
    process = LIBRARIES + FIRST_USE
    return {"cuda": CUDA_CONTEXT, "mps": process + MPS_DRIVER}.get(case.kind, process)
