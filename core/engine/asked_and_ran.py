"""Where what ran is not what was asked for: pure functions over the settled options and `WhatRan`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Padding, Precision, Task, Toggle
from core.events import WhatRan
from core.options import RunOptions

OPTIMIZERS = {
    Optimizer.ADAMW: "AdamW",
    Optimizer.ADAM: "Adam",
    Optimizer.ADAFACTOR: "Adafactor",
    Optimizer.ADAMW_8BIT: "AdamW, 8-bit (bitsandbytes)",
    Optimizer.PAGED_ADAMW_8BIT: "AdamW, 8-bit, paged (bitsandbytes)",
    Optimizer.ADAMW_8BIT_TORCHAO: "AdamW8bit (torchao)",
    Optimizer.LION_8BIT: "Lion, 8-bit (bitsandbytes)",
    Optimizer.ADEMAMIX: "AdEMAMix (bitsandbytes)",
    Optimizer.SGD: "SGD",
}
"""What `WhatRan.optimizer` says of each, whether fused or not."""

IN_MAIN_MEMORY = "CPUOffloadOptimizer (torchao)"
IN_8_BITS = (
    Optimizer.ADAMW_8BIT,
    Optimizer.PAGED_ADAMW_8BIT,
    Optimizer.ADAMW_8BIT_TORCHAO,
    Optimizer.LION_8BIT,
)
GROUPED = "grouped by length"
ZERO = {DeepSpeed.OFF: "", DeepSpeed.ZERO_2: "ZeRO-2", DeepSpeed.ZERO_3: "ZeRO-3"}
OFFLOADED = ((Offload.CPU, "in main memory"), (Offload.NVME, "in NVMe"))
"""What `WhatRan.deepspeed` begins with, and what it says of each place to offload to."""
HALF = (Precision.BF16, Precision.FP16)
AUTOCAST = {Precision.BF16: "bfloat16", Precision.FP16: "float16", Precision.FP32: None, Precision.TF32: None}


@dataclass(frozen=True)
class Difference:
    """Something that ran otherwise than asked: the option it is about, and what to tell the person."""

    path: str
    title: str
    detail: str

    @property
    def message_id(self) -> str:
        """The id of its message, one for each option."""
        return f"ran-differently-{self.path}"


Check = Callable[[RunOptions, WhatRan], Iterator[Difference]]


def differences(settled: RunOptions, ran: WhatRan) -> tuple[Difference, ...]:
    """Everything in which `ran` differs from `settled`, the options with nothing automatic left in them."""
    return tuple(found for check in CHECKS for found in check(settled, ran))


def _optimizer(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    asked = settled.training.optimizer
    expected = IN_MAIN_MEMORY if settled.memory.offload_optimizer else OPTIMIZERS[asked]
    if ran.optimizer.replace(", fused", "") != expected:
        yield Difference(
            "training.optimizer",
            "Another optimizer runs than asked for",
            f"{expected} was asked for, {ran.optimizer} runs.",
        )
    elif asked in IN_8_BITS and ran.optimizer_state and "uint8" not in ran.optimizer_state:
        yield Difference(
            "training.optimizer",
            "The optimizer's state is not in 8 bits",
            "Embeddings and tensors below 4,096 numbers keep theirs in fp32, and this run trains nothing larger: "
            "AdamW does the same here.",
        )


def _weight_decay(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    if settled.training.weight_decay and ran.decayed_parameters == 0:
        yield Difference(
            "training.weight_decay",
            "Weight decay reaches nothing",
            "Biases and norms are left out of it, and this run trains nothing else.",
        )


def _method(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    method = settled.model.method
    if (method in (Method.LORA, Method.QLORA)) != bool(ran.adapter):
        yield Difference(
            "model.method",
            "Other weights learn than asked for",
            f"{method} was asked for, and the model has {ran.adapter or 'no LoRA matrices'}.",
        )
    elif method is not Method.FULL and ran.trainable_parameters == ran.total_parameters:
        yield Difference(
            "model.method",
            "Other weights learn than asked for",
            f"{method} was asked for, and all weights of the model learn.",
        )


def _packed(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    if settled.model.method is Method.QLORA and not ran.packed_parameters:
        yield Difference(
            "model.quantization",
            "No weights are packed",
            f"The frozen weights were to be packed as {settled.model.quantization}, and none are.",
        )


def _device(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    """DeepSpeed may keep the weights elsewhere than it computes."""
    asked = settled.device.name.partition(":")[0]
    is_whole = settled.memory.deepspeed is DeepSpeed.OFF
    if is_whole and asked not in ("auto", ran.device.partition(":")[0]):
        yield Difference(
            "device.name",
            "Another device computes than asked for",
            f"{settled.device.name} was asked for, the model lies on {ran.device}.",
        )


def _workers(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    asked = settled.data.workers
    if asked is not None and len(ran.workers) != asked:
        yield Difference(
            "data.workers",
            "Another number of workers runs than asked for",
            f"{asked} were asked for, {len(ran.workers)} run.",
        )


def _pinning(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    asked = settled.data.pin_memory
    if asked is not Toggle.AUTO and (asked is Toggle.ON) != ran.pinned:
        yield Difference(
            "data.pin_memory",
            "Batches are pinned" if ran.pinned else "Batches are not pinned",
            f"Pinned memory was to be {asked}.",
        )


def _padding(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    """What rows are padded to is empty where they are no texts."""
    asked_fixed = settled.data.padding is Padding.FIXED
    if ran.padded_to and asked_fixed != ran.padded_to.endswith("tokens"):
        yield Difference(
            "data.padding",
            "Texts are padded otherwise than asked for",
            f"{settled.data.padding} was asked for, they are padded to {ran.padded_to}.",
        )


def _grouping(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    asked = settled.data.group_by_length
    of_texts = settled.task is Task.TEXT_CLASSIFICATION
    if of_texts and asked is not Toggle.AUTO and (asked is Toggle.ON) != (ran.sampling == GROUPED):
        yield Difference(
            "data.group_by_length",
            "Batches are put together otherwise than asked for",
            f"Grouping by length was to be {asked}, their order is {ran.sampling or 'unknown'}.",
        )


def _compiled(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    """A compilation that fails has its message already (`core.engine.compiling`)."""
    device = settled.device
    inductor = device.compile_backend == "inductor"
    label = f"{device.compile_backend}, {device.compile_mode}" if inductor else device.compile_backend
    expected = label if device.compile else ""
    if ran.compiled and ran.compiled != expected:
        yield Difference(
            "device.compile",
            "The model is compiled otherwise than asked for",
            f"{expected or 'No compilation'} was asked for, {ran.compiled} runs.",
        )


def _deepspeed(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    memory = settled.memory
    if ran.deepspeed.partition(",")[0] != ZERO[memory.deepspeed]:
        yield Difference(
            "memory.deepspeed",
            "DeepSpeed runs otherwise than asked for",
            f"{memory.deepspeed} was asked for, {ran.deepspeed or 'no DeepSpeed'} runs.",
        )
    elif ran.deepspeed and any((words in ran.deepspeed) != (memory.offload is to) for to, words in OFFLOADED):
        yield Difference(
            "memory.offload",
            "DeepSpeed keeps its state elsewhere than asked for",
            f"{memory.offload} was asked for, {ran.deepspeed} runs.",
        )


def _precision(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    asked = settled.device.precision
    computes_in = ran.autocast_dtype
    if settled.memory.deepspeed is not DeepSpeed.OFF and ran.parameter_dtype != "float32":
        computes_in = ran.parameter_dtype  # on a GPU DeepSpeed holds the weights themselves in 16 bits
    if asked in AUTOCAST and computes_in != AUTOCAST[asked]:
        yield Difference(
            "device.precision",
            "Another precision runs than asked for",
            f"{asked} was asked for, the model computes in {ran.autocast_dtype or ran.parameter_dtype}.",
        )
    elif ran.matmul and (asked is Precision.TF32) != (ran.matmul == "tf32") and asked not in HALF:
        yield Difference(
            "device.precision",
            "Another precision runs than asked for",
            f"{asked} was asked for, the GPU multiplies in {ran.matmul}.",
        )
    elif asked is Precision.FP16 and ran.loss_scale is None:
        yield Difference(
            "device.precision",
            "fp16 runs without loss scaling",
            "Small gradients may be lost; bf16 doesn't need it.",
        )


def _batch(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    if ran.effective_batch != settled.effective_batch:
        yield Difference(
            "memory.batch_size",
            "Another batch size runs than asked for",
            f"{settled.effective_batch} samples a step were asked for, {ran.effective_batch} are taken.",
        )


def _recomputed(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    if settled.memory.activation_checkpointing and not ran.recomputed:
        yield Difference(
            "memory.activation_checkpointing",
            "Activations are kept",
            "They were to be computed again for the gradients, and no layer's were.",
        )


def _attention(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    """A model without PyTorch's own attention runs eager in its place; that is stated, and nothing to warn of."""
    asked = settled.model.attention
    eager_instead = asked is Attention.SDPA and ran.attention == Attention.EAGER
    if settled.task is Task.TEXT_CLASSIFICATION and ran.attention not in (None, asked) and not eager_instead:
        yield Difference(
            "model.attention",
            "Another attention runs than asked for",
            f"{asked} was asked for, {ran.attention} was called.",
        )


def _threads(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    if settled.device.threads is not None and ran.threads not in (None, settled.device.threads):
        yield Difference(
            "device.threads",
            "Another number of CPU threads runs than asked for",
            f"{settled.device.threads} were asked for, {ran.threads} run.",
        )


def _deterministic(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    if settled.training.deterministic and not ran.deterministic:
        yield Difference(
            "training.deterministic",
            "The run is not deterministic",
            "PyTorch was not told to use such kernels only.",
        )


CHECKS: tuple[Check, ...] = (
    _device,
    _method,
    _packed,
    _workers,
    _pinning,
    _padding,
    _grouping,
    _compiled,
    _deepspeed,
    _optimizer,
    _weight_decay,
    _precision,
    _batch,
    _recomputed,
    _attention,
    _threads,
    _deterministic,
)
