"""Turns what libraries raise into what a person can act on, where Hone knows the cause."""

import errno
from pathlib import Path

import torch

from core.engine.disk_room import full_place, is_disk_full, what_is_full
from core.errors import Fix, UserError
from core.events import MemoryForecast
from core.memory.shortage import out_of_memory
from core.options import RunOptions

OUT_OF_MEMORY = (
    "out of memory",  # CUDA and MPS
    "can't allocate memory",  # torch on a Linux or macOS CPU
    "not enough memory",  # torch on a Windows CPU
    "cannot allocate memory",  # the operating system
    "unable to allocate",  # NumPy
    "alloc_failed",  # CUBLAS_STATUS_ALLOC_FAILED and its sisters
    "paging file is too small",  # Windows, while mapping weights
)
WORKER_ENDED = ("dataloader worker (pid",)
"""How torch says that a worker is gone: killed, or out of shared memory. What a worker raises it tells otherwise."""
NOT_DETERMINISTIC = (
    "does not have a deterministic implementation",
    "deterministic behavior was enabled with",
)
"""torch, of its own kernels and of cuBLAS."""


def explain(
    error: Exception, options: RunOptions, forecast: MemoryForecast | None = None
) -> UserError | None:
    """The plain error for `error`, or None where it is a bug.

    Args:
        error: What was raised.
        options: What was asked.
        forecast: What the run was told to take of memory, if it came that far.
    """
    if is_out_of_memory(error):
        return out_of_memory(options, forecast, str(error))
    if isinstance(error, RuntimeError) and _says(error, WORKER_ENDED):
        return UserError(
            "A worker was ended by the system",
            f"{error}\nMostly memory was short: each worker holds batches, and what it needs to make them.",
            (Fix("Load without workers", {"data.workers": 0}),),
        )
    if is_disk_full(error):
        place = full_place(error, Path())  # a run's process works in its folder
        if place is None:
            return UserError("The disk is full", f"{error}. Make room and start again.")
        title, left = what_is_full(place)
        what = (
            str(place)
            if getattr(error, "filename", None)
            else f"A file in {place}, or elsewhere on its disk,"
        )
        return UserError(
            f"{title[:1].upper()}{title[1:]}",
            f"{what} couldn't be written: {left}. Make room and start again.",
        )
    if _says(error, ("unable to jit load the async_io op",)):
        return UserError(
            "DeepSpeed can't write to the disk here",
            "Its disk access has to be compiled on this computer, with a C++ compiler and the header files of libaio.",
            (Fix("Offload to main memory", {"memory.offload": "cpu"}),),
        )
    if _says(error, NOT_DETERMINISTIC):
        first = str(error).strip().partition(".")[0]
        return UserError(
            "An operator of this model can't be computed the same way every time",
            f"Full determinism was asked for, and PyTorch says: {first}.",
            (Fix("Allow such operators", {"training.deterministic": False}),),
        )
    return None


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, whoever asked for it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):  # NumPy's and Arrow's are MemoryErrors
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError | OSError) and _says(error, OUT_OF_MEMORY)


def _says(error: Exception, phrases: tuple[str, ...]) -> bool:
    words = str(error).lower()
    return any(phrase in words for phrase in phrases)
