"""Turns what libraries raise into what a person can act on, where Hone knows the cause."""

import torch

from core.errors import Fix, OutOfMemory, UserError
from core.options import RunOptions


def explain(error: Exception, options: RunOptions) -> UserError | None:
    """The plain error for `error`, or None where it is a bug."""
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error).lower():
        return _out_of_memory(options)
    if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
        return _out_of_memory(options)
    if isinstance(error, OSError) and error.errno == 28:
        return UserError(
            "The disk is full",
            f"{error.filename or 'A file'} couldn't be written. Make room and start again.",
        )
    return None


def _out_of_memory(options: RunOptions) -> OutOfMemory:
    memory = options.memory
    half = max(1, memory.batch_size // 2)
    fixes = []
    if half < memory.batch_size:
        changes = {
            "memory.batch_size": half,
            "memory.gradient_accumulation_steps": memory.gradient_accumulation_steps
            * (memory.batch_size // half),
        }
        fixes.append(Fix(f"Batches of {half}, accumulated to the same effect", changes))
    if options.data.max_length > 32 and options.task == "text-classification":
        shorter = options.data.max_length // 2
        fixes.append(Fix(f"Cut texts at {shorter} tokens", {"data.max_length": shorter}))
    if options.task == "image-classification" and options.data.image_size > 64:
        smaller = options.data.image_size // 2
        fixes.append(Fix(f"Images of {smaller} pixels", {"data.image_size": smaller}))
    return OutOfMemory(
        "Memory ran out",
        f"A batch of {memory.batch_size} samples didn't fit beside the model's weights, gradients and optimizer state.",
        tuple(fixes),
    )
