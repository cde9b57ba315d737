"""What code that computes has to know of a device: data types, waiting, random numbers, errors."""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from core.engine.run.failures import says
from core.options.choices import Precision

COMPUTED_IN = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
"""What a model computes in under autocast; float32 for other precisions."""


@contextmanager
def _random_numbers_from(state: torch.Tensor) -> Iterator[None]:
    now = torch.mps.get_rng_state()
    torch.mps.set_rng_state(state)
    try:
        yield
    finally:
        torch.mps.set_rng_state(now)


def same_random_numbers(kind: str) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Returns contexts of a first pass and its recomputation: `context_fn` of `torch.utils.checkpoint.checkpoint`.

    torch gives both the same random numbers only where the device's module says that it is initialized, which
    `torch.mps` never does (https://github.com/pytorch/pytorch/issues/127676): dropout would draw another mask, and
    gradients be wrong.
    """
    again = _random_numbers_from(torch.mps.get_rng_state()) if kind == "mps" else nullcontext()
    return nullcontext(), again


Wait = Callable[[], None]


def wait_for(kind: str) -> Wait | None:
    """Returns the function that waits for a device of this kind (`cuda`, `mps`, `cpu`); None if it needs no waiting."""
    if kind == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if kind == "mps" else None


OUT_OF_MEMORY = (
    "out of memory",  # CUDA and MPS
    "can't allocate memory",  # torch on a Linux or macOS CPU
    "not enough memory",  # torch on a Windows CPU
    "cannot allocate memory",  # the operating system
    "unable to allocate",  # NumPy
    "alloc_failed",  # CUBLAS_STATUS_ALLOC_FAILED and the like
    "paging file is too small",  # Windows, while mapping weights
    "[metal::malloc]",  # MLX
    "[malloc_or_wait]",
    "insufficient memory",
)


def is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):  # NumPy's and Arrow's are MemoryErrors
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError | OSError) and says(error, OUT_OF_MEMORY)
