"""What ran otherwise than the options ask, with either engine, by what it reported of its live objects."""

import math
from collections.abc import Iterator, Mapping

import torch

from core.base.language import _
from core.engine.data.batches import GROUPED, LONGEST, longest_to
from core.engine.models.parts import HELD_IN
from core.engine.run.log import RanDifferently
from core.engine.training.arguments import IN_MAIN_MEMORY, IN_NVME
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, row_multiple
from core.options.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Padding, Precision, Toggle
from core.runs.events import WhatRan

OPTIMIZERS = {
    Optimizer.ADAMW: "AdamW, fused",
    Optimizer.ADAM: "Adam, fused",
    Optimizer.ADAFACTOR: "Adafactor",
    Optimizer.ADAMW_8BIT: "AdamW, 8-bit (bitsandbytes)",
    Optimizer.PAGED_ADAMW_8BIT: "AdamW, 8-bit, paged (bitsandbytes)",
    Optimizer.ADAMW_8BIT_TORCHAO: "AdamW8bit (torchao)",
    Optimizer.LION: "Lion",
    Optimizer.LION_8BIT: "Lion, 8-bit (bitsandbytes)",
    Optimizer.ADEMAMIX: "AdEMAMix (bitsandbytes)",
    Optimizer.SGD: "SGD",
}
"""`WhatRan.optimizer` of each, with PyTorch."""
OFFLOADED_OPTIMIZER = "CPUOffloadOptimizer (torchao)"
IN_8_BITS = (
    Optimizer.ADAMW_8BIT,
    Optimizer.PAGED_ADAMW_8BIT,
    Optimizer.ADAMW_8BIT_TORCHAO,
    Optimizer.LION_8BIT,
)
ZERO = {DeepSpeed.OFF: "no DeepSpeed", DeepSpeed.ZERO_2: "ZeRO-2", DeepSpeed.ZERO_3: "ZeRO-3"}
AUTOCAST = {Precision.BF16: "bfloat16", Precision.FP16: "float16", Precision.FP32: None, Precision.TF32: None}

Compared = Iterator[tuple[str, object, object]]
"""The path of an option, what was chosen, and what runs; left out where the two can't be compared."""


def differences(
    options: RunOptions, ran: WhatRan, optimizers: Mapping[Optimizer, str] = OPTIMIZERS
) -> tuple[RanDifferently, ...]:
    """Returns all differences between `ran` and `options` without automatic values; the first for each option.

    Args:
        options: What was chosen.
        ran: What runs.
        optimizers: The `WhatRan.optimizer` of each, with this engine.
    """
    found: dict[str, RanDifferently] = {}
    compared = [
        *_compared(options, ran, optimizers),
        *(() if ran.engine else _compared_with_torch(options, ran)),
    ]
    for path, chosen, runs in compared:
        if chosen != runs:
            title = _("{option}: what runs is not what was chosen").format(
                option=options_by_path()[path].title
            )
            detail = _("{chosen} was chosen, {runs} runs.").format(chosen=chosen, runs=runs)
            found.setdefault(path, RanDifferently(path, title, detail))
    for difference in _without_effect(options, ran):
        found.setdefault(difference.path, difference)
    return tuple(found.values())


def _compared(options: RunOptions, ran: WhatRan, optimizers: Mapping[Optimizer, str]) -> Compared:
    device, model, data, memory = options.device, options.model, options.data, options.memory
    training, with_zero = options.training, memory.deepspeed is not DeepSpeed.OFF
    kind = device.name.partition(":")[0]
    if kind != "auto" and not with_zero:  # which may keep weights elsewhere
        yield "device.name", device.name, device.name if kind == ran.device.partition(":")[0] else ran.device
    if device.precision in AUTOCAST:
        # on a GPU, DeepSpeed's weights themselves are in 16 bits
        in_weights = with_zero and ran.parameter_dtype != "float32"
        computed_in = ran.parameter_dtype if in_weights else ran.autocast_dtype
        if computed_in != AUTOCAST[device.precision]:
            yield "device.precision", device.precision, computed_in or ran.parameter_dtype
    if (model.method in (Method.LORA, Method.QLORA)) != bool(ran.adapter):
        yield "model.method", model.method, ran.adapter or "no adapter"
    if ran.padded_to and (data.padding is Padding.FIXED) == ran.padded_to.startswith(LONGEST):
        yield "data.padding", data.padding.value, ran.padded_to
    if data.pad_to_multiple_of is not None and ran.padded_to.startswith(LONGEST):
        yield "data.pad_to_multiple_of", longest_to(row_multiple(options)), ran.padded_to
    if options.task.reads_text and data.group_by_length is not Toggle.AUTO:
        runs = "on" if ran.sampling == GROUPED else "off"
        yield "data.group_by_length", data.group_by_length.value, runs
    yield "memory.batch_size", options.effective_batch, ran.effective_batch
    yield "memory.empty_cache_steps", memory.empty_cache_steps, ran.empty_cache_steps
    optimizer = OFFLOADED_OPTIMIZER if memory.offload_optimizer else optimizers[training.optimizer]
    yield "training.optimizer", optimizer, ran.optimizer
    for option in all_options():
        number = ran.optimizer_numbers.get(option.name)
        is_used = training.optimizer in option.needs.get("training.optimizer", Optimizer)
        if option.section == "training" and number is not None and is_used:
            chosen_number = float(getattr(training, option.name))
            if not math.isclose(number, chosen_number, rel_tol=1e-6):
                yield option.path, f"{chosen_number:g}", f"{number:g}"


def _compared_with_torch(options: RunOptions, ran: WhatRan) -> Compared:
    """Compares what MLX leaves no choice of."""
    device, model, data, memory = options.device, options.model, options.data, options.memory
    if ran.compiled:  # a failure is reported by `Compilation`
        chosen = "no compilation"
        if device.compile:
            chosen = device.compile_backend
            chosen += f", {device.compile_mode}" if chosen == "inductor" else ""
        yield "device.compile", chosen, ran.compiled
    if ran.matmul and device.precision not in (Precision.BF16, Precision.FP16):
        yield "device.precision", "tf32" if device.precision is Precision.TF32 else "fp32", ran.matmul
    if device.threads is not None and ran.threads is not None:
        yield "device.threads", device.threads, ran.threads
    if ran.frozen_dtype and options_by_path()["model.frozen_precision"].applies_to(options):
        held = str(HELD_IN.get(model.frozen_precision, torch.float32)).removeprefix("torch.")
        # experts and single parameters stay fp32
        is_so = held in ran.frozen_dtype.split(" + ")
        yield "model.frozen_precision", held, held if is_so else ran.frozen_dtype
    # a model without sdpa, the default, uses its own
    has_no_sdpa = model.attention is Attention.SDPA and ran.attention == Attention.EAGER
    if options.task.reads_text and ran.attention is not None and not has_no_sdpa:
        yield "model.attention", model.attention.value, ran.attention
    if data.workers is not None:
        yield "data.workers", data.workers, len(ran.workers)
    if data.pin_memory is not Toggle.AUTO:
        yield "data.pin_memory", data.pin_memory.value, "on" if ran.pinned else "off"
    stage, _rest, places = ran.deepspeed.partition(", ")
    yield "memory.deepspeed", ZERO[memory.deepspeed], stage or ZERO[DeepSpeed.OFF]
    offloads = (IN_MAIN_MEMORY in places, IN_NVME in places)
    if stage == ZERO[memory.deepspeed] and offloads != (
        memory.offload is Offload.CPU,
        memory.offload is Offload.NVME,
    ):
        yield "memory.offload", memory.offload.value, places or "none"
    yield "memory.fsdp", "FSDP2" if memory.fsdp else "no FSDP2", "FSDP2" if ran.shards else "no FSDP2"
    if options.training.deterministic:
        yield "training.deterministic", "on", "on" if ran.deterministic else "off"


def _without_effect(options: RunOptions, ran: WhatRan) -> Iterator[RanDifferently]:
    training, method = options.training, options.model.method
    if options.device.precision is Precision.FP16 and ran.loss_scale is None:
        detail = _("Small gradients may be lost; bf16 doesn't need it.")
        yield RanDifferently("device.precision", _("fp16 runs without loss scaling"), detail)
    if method is not Method.FULL and ran.trainable_parameters == ran.total_parameters:
        detail = _("{method} was chosen, and all weights are trained.").format(method=method)
        yield RanDifferently("model.method", _("Other weights are trained than chosen"), detail)
    if method is Method.QLORA and not ran.packed_parameters:
        detail = _("The frozen weights were to be quantized as {quantization}.").format(
            quantization=options.model.quantization
        )
        yield RanDifferently("model.quantization", _("No weights are quantized"), detail)
    if options.memory.activation_checkpointing and not ran.recomputed:
        detail = _("No layer was recomputed in the backward pass.")
        title = _("Activation checkpointing has no effect")
        yield RanDifferently("memory.activation_checkpointing", title, detail)
    if training.optimizer in IN_8_BITS and ran.optimizer_state and "uint8" not in ran.optimizer_state:
        detail = _(
            "Embeddings and tensors below 4,096 elements keep theirs in fp32, and this run trains nothing larger: "
            "AdamW does the same here."
        )
        yield RanDifferently("training.optimizer", _("The optimizer's state is not in 8 bits"), detail)
    if training.weight_decay and ran.decayed_parameters == 0:
        detail = _("It doesn't apply to biases and norms, and this run trains nothing else.")
        yield RanDifferently("training.weight_decay", _("Weight decay has no effect"), detail)
