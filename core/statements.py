"""What actually ran, in words: the same statements for the window and the terminal, made from the event alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.events import WhatRan

SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "8-bit", "int8": "8-bit"}


@dataclass(frozen=True)
class Statement:
    """One line. `reason` says why it came out so, where that was left to Hone."""

    group: str
    title: str
    value: str
    reason: str = ""


def statements(ran: WhatRan, size: Callable[[float], str]) -> tuple[Statement, ...]:
    """Everything the run stated of itself, in groups.

    Args:
        ran: The event.
        size: Writes bytes as a person reads them.
    """
    return (*_device(ran), *_model(ran), *_optimizer(ran, size), *_batches(ran))


def _device(ran: WhatRan) -> Iterator[Statement]:
    group = "Device"
    name = ran.device if ran.device_name in ("", ran.device) else f"{ran.device} ({ran.device_name})"
    yield Statement(group, "Device", name, _reason(ran, "device.name"))
    yield Statement(group, "Computed in", _computed(ran), _reason(ran, "device.precision"))
    if ran.loss_scale is not None:
        yield Statement(group, "Loss scale", f"{ran.loss_scale:,.0f}")
    if ran.threads is not None:
        yield Statement(group, "CPU threads", f"{ran.threads}", _reason(ran, "device.threads"))
    if ran.compiled:
        took = f", in {ran.compile_seconds:.0f} s" if ran.compile_seconds is not None else ""
        yield Statement(group, "Compiled by", f"{ran.compiled}{took}")
    if ran.fell_back:
        yield Statement(group, "Computed on the CPU", ", ".join(ran.fell_back), "MPS lacks these operators")
    if ran.deterministic:
        yield Statement(group, "Repeatability", "only kernels that give the same bits every time")


def _model(ran: WhatRan) -> Iterator[Statement]:
    group = "Model"
    yield Statement(group, "Weights", dtypes(ran.parameter_dtype))
    share = ran.trainable_parameters / max(1, ran.total_parameters)
    of_all = f"{ran.trainable_parameters:,} of {ran.total_parameters:,} weights"
    yield Statement(group, "Trained", of_all if share == 1 else f"{of_all} ({share:.1%})")
    if ran.adapter:
        yield Statement(group, "Adapter", ran.adapter)
    if ran.packed_parameters:
        yield Statement(group, "Packed", f"{ran.packed_parameters:,} weights in 4 or 8 bits")
    if ran.attention:
        yield Statement(group, "Attention", ran.attention, _reason(ran, "model.attention"))
    if ran.recomputed:
        layers = "1 layer" if ran.recomputed == 1 else f"{ran.recomputed:,} layers"
        yield Statement(group, "Activation checkpointing", f"{layers} computed again for the gradients")


def _optimizer(ran: WhatRan, size: Callable[[float], str]) -> Iterator[Statement]:
    group = "Optimizer"
    yield Statement(group, "Optimizer", ran.optimizer, _reason(ran, "training.optimizer"))
    yield Statement(group, "Its state", _state(ran, size))
    if ran.decayed_parameters:
        yield Statement(
            group, "Weight decay", f"on {ran.decayed_parameters:,} weights; not on biases and norms"
        )
    if ran.deepspeed:
        yield Statement(group, "DeepSpeed", ran.deepspeed)


def _batches(ran: WhatRan) -> Iterator[Statement]:
    group = "Batches"
    yield Statement(group, "Effective batch", _effective(ran))
    if ran.padded_to:
        yield Statement(group, "Padded to", ran.padded_to)
    if ran.sampling:
        yield Statement(group, "Order", ran.sampling, _reason(ran, "data.group_by_length"))
    workers = (
        f"{len(ran.workers)}, by {ran.worker_start}"
        if ran.workers
        else "none: loaded by the training process"
    )
    yield Statement(group, "Workers", workers, _reason(ran, "data.workers"))
    if ran.pinned:
        yield Statement(group, "Pinned memory", "yes", _reason(ran, "data.pin_memory"))


def _computed(ran: WhatRan) -> str:
    if ran.autocast_dtype:
        return f"{dtypes(ran.autocast_dtype)} (autocast)"
    return ran.matmul or dtypes(ran.parameter_dtype)


def _state(ran: WhatRan, size: Callable[[float], str]) -> str:
    total = size(ran.optimizer_state_bytes)
    parts = ", ".join(f"{dtypes(name)} {size(count)}" for name, count in ran.optimizer_state.items())
    return (
        f"{total} ({parts})"
        if len(ran.optimizer_state) > 1
        else f"{total} {parts.partition(' ')[0]}".rstrip()
    )


def _effective(ran: WhatRan) -> str:
    if ran.batches_per_step == 1:
        return f"{ran.effective_batch:,} samples"
    each = ran.effective_batch // ran.batches_per_step
    return f"{each:,} × {ran.batches_per_step:,} = {ran.effective_batch:,} samples"


def _reason(ran: WhatRan, path: str) -> str:
    """Why an option came out so; the value it repeats is left out, and so is "as asked"."""
    told = ran.reasons.get(path, "")
    value, colon, why = told.partition(": ")
    return "" if told == "as asked" else why if colon and " " not in value else told


def dtypes(names: str) -> str:
    """PyTorch's names of number formats as people call them: `float32 + bfloat16` is `fp32 + bf16`."""
    return " + ".join(SHORT.get(name, name) for name in names.removeprefix("torch.").split(" + "))
