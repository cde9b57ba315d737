"""What is compared of a request and of what a run states of itself, one line of a table each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from core.catalogue import Option, all_options
from core.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Padding, Precision, Toggle
from core.events import WhatRan
from core.options import RunOptions

OPTIMIZERS = {
    Optimizer.ADAMW: "AdamW, fused",
    Optimizer.ADAM: "Adam, fused",
    Optimizer.ADAFACTOR: "Adafactor",
    Optimizer.ADAMW_8BIT: "AdamW, 8-bit (bitsandbytes)",
    Optimizer.PAGED_ADAMW_8BIT: "AdamW, 8-bit, paged (bitsandbytes)",
    Optimizer.ADAMW_8BIT_TORCHAO: "AdamW8bit (torchao)",
    Optimizer.LION_8BIT: "Lion, 8-bit (bitsandbytes)",
    Optimizer.ADEMAMIX: "AdEMAMix (bitsandbytes)",
    Optimizer.SGD: "SGD",
}
"""What `WhatRan.optimizer` says of each."""

IN_MAIN_MEMORY = "CPUOffloadOptimizer (torchao)"
IN_8_BITS = (
    Optimizer.ADAMW_8BIT,
    Optimizer.PAGED_ADAMW_8BIT,
    Optimizer.ADAMW_8BIT_TORCHAO,
    Optimizer.LION_8BIT,
)
WITH_ADAPTER = (Method.LORA, Method.QLORA)
GROUPED = "grouped by length"
ZERO = {DeepSpeed.OFF: "", DeepSpeed.ZERO_2: "ZeRO-2", DeepSpeed.ZERO_3: "ZeRO-3"}
OFFLOADED = ((Offload.CPU, "in main memory"), (Offload.NVME, "in NVMe"))
"""What `WhatRan.deepspeed` begins with, and what it says of each place to offload to."""
HALF = (Precision.BF16, Precision.FP16)
AUTOCAST = {Precision.BF16: "bfloat16", Precision.FP16: "float16", Precision.FP32: None, Precision.TF32: None}


@dataclass(frozen=True)
class Comparison:
    """When an option ran otherwise than asked, and what is said then.

    `differs` and `says` are given the settled options and what ran; `says` is called only where they differ.
    """

    path: str
    title: str
    differs: Callable[[RunOptions, WhatRan], bool]
    says: Callable[[RunOptions, WhatRan], str]


def _other_device(settled: RunOptions, ran: WhatRan) -> bool:
    """DeepSpeed may keep the weights elsewhere than it computes."""
    asked = settled.device.name.partition(":")[0]
    is_whole = settled.memory.deepspeed is DeepSpeed.OFF
    return is_whole and asked not in ("auto", ran.device.partition(":")[0])


def _other_padding(settled: RunOptions, ran: WhatRan) -> bool:
    """What rows are padded to is empty where they are no texts."""
    return bool(ran.padded_to) and (settled.data.padding is Padding.FIXED) != ran.padded_to.endswith("tokens")


def _other_grouping(settled: RunOptions, ran: WhatRan) -> bool:
    of_texts = settled.task.reads_text
    return of_texts and _is_otherwise(settled.data.group_by_length, ran.sampling == GROUPED)


def _is_otherwise(asked: Toggle, runs: bool) -> bool:
    return asked is not Toggle.AUTO and (asked is Toggle.ON) != runs


def _compiled_as(settled: RunOptions) -> str:
    device = settled.device
    if not device.compile:
        return ""
    inductor = device.compile_backend == "inductor"
    return f"{device.compile_backend}, {device.compile_mode}" if inductor else device.compile_backend


def _other_stage(settled: RunOptions, ran: WhatRan) -> bool:
    return ran.deepspeed.partition(",")[0] != ZERO[settled.memory.deepspeed]


def _other_place(settled: RunOptions, ran: WhatRan) -> bool:
    """Of another stage than asked for that is said, and no more."""
    if not ran.deepspeed or _other_stage(settled, ran):
        return False
    return any((words in ran.deepspeed) != (settled.memory.offload is to) for to, words in OFFLOADED)


def _optimizer_of(settled: RunOptions) -> str:
    return IN_MAIN_MEMORY if settled.memory.offload_optimizer else OPTIMIZERS[settled.training.optimizer]


def _not_in_8_bits(settled: RunOptions, ran: WhatRan) -> bool:
    in_8_bits = settled.training.optimizer in IN_8_BITS
    return in_8_bits and bool(ran.optimizer_state) and "uint8" not in ran.optimizer_state


def _other_autocast(settled: RunOptions, ran: WhatRan) -> bool:
    """On a GPU DeepSpeed holds the weights themselves in 16 bits."""
    asked, computes_in = settled.device.precision, ran.autocast_dtype
    if settled.memory.deepspeed is not DeepSpeed.OFF and ran.parameter_dtype != "float32":
        computes_in = ran.parameter_dtype
    return asked in AUTOCAST and computes_in != AUTOCAST[asked]


def _other_matmul(settled: RunOptions, ran: WhatRan) -> bool:
    asked = settled.device.precision
    return bool(ran.matmul) and asked not in HALF and (asked is Precision.TF32) != (ran.matmul == "tf32")


def _other_attention(settled: RunOptions, ran: WhatRan) -> bool:
    """A model without PyTorch's own attention runs eager in its place; that is stated, and nothing to warn of."""
    asked = settled.model.attention
    eager_instead = asked is Attention.SDPA and ran.attention == Attention.EAGER
    of_texts = settled.task.reads_text
    return of_texts and ran.attention not in (None, asked) and not eager_instead


def _other_number(option: Option, settled: RunOptions, ran: WhatRan) -> bool:
    """Not every optimizer reads every number."""
    reads = settled.training.optimizer in option.needs.get("training.optimizer", Optimizer)
    runs = ran.optimizer_numbers.get(option.name)
    return reads and runs is not None and not math.isclose(runs, _number(option, settled), rel_tol=1e-6)


def _says_number(option: Option, settled: RunOptions, ran: WhatRan) -> str:
    asked, runs = _number(option, settled), ran.optimizer_numbers[option.name]
    return f"{option.title} was to be {asked:g}, the optimizer runs with {runs:g}."


def _number(option: Option, settled: RunOptions) -> float:
    return float(getattr(settled.training, option.name))


COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        "device.name",
        "Another device computes than asked for",
        _other_device,
        lambda settled, ran: f"{settled.device.name} was asked for, the model lies on {ran.device}.",
    ),
    Comparison(
        "model.method",
        "Other weights learn than asked for",
        lambda settled, ran: (settled.model.method in WITH_ADAPTER) != bool(ran.adapter),
        lambda settled, ran: (
            f"{settled.model.method} was asked for, and the model has {ran.adapter or 'no LoRA matrices'}."
        ),
    ),
    Comparison(
        "model.method",
        "Other weights learn than asked for",
        lambda settled, ran: (
            settled.model.method is not Method.FULL and ran.trainable_parameters == ran.total_parameters
        ),
        lambda settled, _: f"{settled.model.method} was asked for, and all weights of the model learn.",
    ),
    Comparison(
        "model.quantization",
        "No weights are packed",
        lambda settled, ran: settled.model.method is Method.QLORA and not ran.packed_parameters,
        lambda settled, _: (
            f"The frozen weights were to be packed as {settled.model.quantization}, and none are."
        ),
    ),
    Comparison(
        "data.workers",
        "Another number of workers runs than asked for",
        lambda settled, ran: settled.data.workers not in (None, len(ran.workers)),
        lambda settled, ran: f"{settled.data.workers} were asked for, {len(ran.workers)} run.",
    ),
    Comparison(
        "data.pin_memory",
        "Batches are pinned otherwise than asked for",
        lambda settled, ran: _is_otherwise(settled.data.pin_memory, ran.pinned),
        lambda settled, ran: (
            f"Pinned memory was to be {settled.data.pin_memory}, and batches are {'' if ran.pinned else 'not '}pinned."
        ),
    ),
    Comparison(
        "data.padding",
        "Texts are padded otherwise than asked for",
        _other_padding,
        lambda settled, ran: f"{settled.data.padding} was asked for, they are padded to {ran.padded_to}.",
    ),
    Comparison(
        "data.group_by_length",
        "Batches are put together otherwise than asked for",
        _other_grouping,
        lambda settled, ran: (
            f"Grouping by length was to be {settled.data.group_by_length}, their order is {ran.sampling or 'unknown'}."
        ),
    ),
    Comparison(  # a compilation that fails has its message already (core.engine.compiling)
        "device.compile",
        "The model is compiled otherwise than asked for",
        lambda settled, ran: ran.compiled not in ("", _compiled_as(settled)),
        lambda settled, ran: (
            f"{_compiled_as(settled) or 'No compilation'} was asked for, {ran.compiled} runs."
        ),
    ),
    Comparison(
        "memory.deepspeed",
        "DeepSpeed runs otherwise than asked for",
        _other_stage,
        lambda settled, ran: (
            f"{settled.memory.deepspeed} was asked for, {ran.deepspeed or 'no DeepSpeed'} runs."
        ),
    ),
    Comparison(
        "memory.offload",
        "DeepSpeed keeps its state elsewhere than asked for",
        _other_place,
        lambda settled, ran: f"{settled.memory.offload} was asked for, {ran.deepspeed} runs.",
    ),
    Comparison(
        "training.optimizer",
        "Another optimizer runs than asked for",
        lambda settled, ran: ran.optimizer != _optimizer_of(settled),
        lambda settled, ran: f"{_optimizer_of(settled)} was asked for, {ran.optimizer} runs.",
    ),
    Comparison(
        "training.optimizer",
        "The optimizer's state is not in 8 bits",
        _not_in_8_bits,
        lambda *_: (
            "Embeddings and tensors below 4,096 numbers keep theirs in fp32, and this run trains nothing larger: "
            "AdamW does the same here."
        ),
    ),
    Comparison(
        "training.weight_decay",
        "Weight decay reaches nothing",
        lambda settled, ran: bool(settled.training.weight_decay) and ran.decayed_parameters == 0,
        lambda *_: "Biases and norms are left out of it, and this run trains nothing else.",
    ),
    *(
        Comparison(
            option.path,
            "The optimizer runs with another number than asked for",
            partial(_other_number, option),
            partial(_says_number, option),
        )
        for option in all_options()
        if option.section == "training"
    ),
    Comparison(
        "device.precision",
        "Another precision runs than asked for",
        _other_autocast,
        lambda settled, ran: (
            f"{settled.device.precision} was asked for, "
            f"the model computes in {ran.autocast_dtype or ran.parameter_dtype}."
        ),
    ),
    Comparison(
        "device.precision",
        "Another precision runs than asked for",
        _other_matmul,
        lambda settled, ran: f"{settled.device.precision} was asked for, the GPU multiplies in {ran.matmul}.",
    ),
    Comparison(
        "device.precision",
        "fp16 runs without loss scaling",
        lambda settled, ran: settled.device.precision is Precision.FP16 and ran.loss_scale is None,
        lambda *_: "Small gradients may be lost; bf16 doesn't need it.",
    ),
    Comparison(
        "memory.batch_size",
        "Another batch size runs than asked for",
        lambda settled, ran: ran.effective_batch != settled.effective_batch,
        lambda settled, ran: (
            f"{settled.effective_batch} samples a step were asked for, {ran.effective_batch} are taken."
        ),
    ),
    Comparison(
        "memory.activation_checkpointing",
        "Activations are kept",
        lambda settled, ran: settled.memory.activation_checkpointing and not ran.recomputed,
        lambda *_: "They were to be computed again for the gradients, and no layer's were.",
    ),
    Comparison(
        "model.attention",
        "Another attention runs than asked for",
        _other_attention,
        lambda settled, ran: f"{settled.model.attention} was asked for, {ran.attention} was called.",
    ),
    Comparison(
        "device.threads",
        "Another number of CPU threads runs than asked for",
        lambda settled, ran: (
            settled.device.threads is not None and ran.threads not in (None, settled.device.threads)
        ),
        lambda settled, ran: f"{settled.device.threads} were asked for, {ran.threads} run.",
    ),
    Comparison(
        "training.deterministic",
        "The run is not deterministic",
        lambda settled, ran: settled.training.deterministic and not ran.deterministic,
        lambda *_: "PyTorch was not told to use such kernels only.",
    ),
)
"""Of those about one option, the first that differs is told."""
