"""Turns what libraries raise into what a person can act on, where Hone knows the cause."""

import errno
from collections.abc import Iterator

import torch

from core.choices import Method, Task
from core.errors import Fix, OutOfMemory, UserError
from core.hints import LORA_RATE
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
DISK_FULL = ("no space left on device", "storagefull", "not enough space on the disk", "disk quota exceeded")
"""safetensors says it inside an error of its own, without an errno."""
NOT_DETERMINISTIC = (
    "does not have a deterministic implementation",
    "deterministic behavior was enabled with",
)
"""torch, of its own kernels and of cuBLAS."""
DISK_FULL_NUMBERS = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
SHORTEST_TEXT = 32
SMALLEST_IMAGE = 64


def explain(error: Exception, options: RunOptions) -> UserError | None:
    """The plain error for `error`, or None where it is a bug."""
    if _is_out_of_memory(error):
        return _out_of_memory(options)
    if isinstance(error, RuntimeError) and _says(error, WORKER_ENDED):
        return UserError(
            "A worker was ended by the system",
            f"{error}\nMostly memory was short: each worker holds batches, and what it needs to make them.",
            (Fix("Load without workers", {"data.workers": 0}),),
        )
    if _is_disk_full(error):
        name = getattr(error, "filename", None) or "A file"
        return UserError("The disk is full", f"{name} couldn't be written. Make room and start again.")
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


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):  # NumPy's and Arrow's are MemoryErrors
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError | OSError) and _says(error, OUT_OF_MEMORY)


def _is_disk_full(error: Exception) -> bool:
    return (isinstance(error, OSError) and error.errno in DISK_FULL_NUMBERS) or _says(error, DISK_FULL)


def _says(error: Exception, phrases: tuple[str, ...]) -> bool:
    words = str(error).lower()
    return any(phrase in words for phrase in phrases)


def _out_of_memory(options: RunOptions) -> OutOfMemory:
    data = options.data
    fixes = [*_smaller_batches(options), *_leaner_methods(options)]
    if options.task is Task.TEXT_CLASSIFICATION and data.max_length > SHORTEST_TEXT:
        shorter = data.max_length // 2
        fixes.append(Fix(f"Cut texts at {shorter} tokens", {"data.max_length": shorter}))
    if options.task is Task.IMAGE_CLASSIFICATION and data.image_size > SMALLEST_IMAGE:
        smaller = max(SMALLEST_IMAGE, data.image_size // 2)
        fixes.append(Fix(f"Images of {smaller} pixels", {"data.image_size": smaller}))
    count = options.memory.batch_size
    batch = "A batch of 1 sample" if count == 1 else f"A batch of {count:,} samples"
    return OutOfMemory(
        "Memory ran out",
        f"{batch} didn't fit beside the model's weights, gradients and optimizer state.",
        tuple(fixes),
    )


def _smaller_batches(options: RunOptions) -> list[Fix]:
    """Half the batch, accumulated to as many samples a step as before, or as near as that comes."""
    half, before = options.memory.batch_size // 2, options.effective_batch
    if half == 0:
        return []
    steps = round(before / half)
    effect = (
        "to the same effect" if half * steps == before else f"to {half * steps} samples instead of {before}"
    )
    changes = {"memory.batch_size": half, "memory.gradient_accumulation_steps": steps}
    return [Fix(f"Batches of {half}, accumulated {effect}", changes)]


def _leaner_methods(options: RunOptions) -> Iterator[Fix]:
    """The methods that keep the result nearly as it is, the one that costs least first."""
    if not options.memory.activation_checkpointing and options.model.method is not Method.HEAD:
        yield Fix("Compute activations again", {"memory.activation_checkpointing": True})
    if options.model.method is Method.FULL and options.model.pretrained:
        yield Fix(
            "Train LoRA in place of all weights",
            {"model.method": "lora", "training.learning_rate": LORA_RATE},
        )
