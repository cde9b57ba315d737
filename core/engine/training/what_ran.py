"""States what actually ran, from the live objects and not from the request."""

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.engine.data.batches import PadTexts
from core.engine.devices.choose import ResolvedRun
from core.engine.environment import process_ran
from core.engine.models.parts import base_of, count, describe_adapter, is_packed, weights_of
from core.engine.reporter import Reporter
from core.engine.training.arguments import describe_zero, zero_loss_scale
from core.engine.training.loading import live_loader
from core.engine.training.trainer import WatchedTrainer
from core.options import RunOptions
from core.options.catalogue import all_options
from core.options.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Padding, Precision, Toggle
from core.runs.events import WhatRan

START_METHODS = {
    "ForkProcess": "fork",
    "ForkServerProcess": "forkserver",
    "SpawnProcess": "spawn",
}
"""The classes of multiprocessing's processes, by which a live one tells how it was started."""


def _batches_ran(trainer: WatchedTrainer) -> dict[str, Any]:
    """The fields of `WhatRan` about batches, from the loader that trains now."""
    active = (
        trainer.accelerator.gradient_state.active_dataloader
    )  # an epoch resumed in its middle has its own
    loader: Any = live_loader(trainer.callback_handler.train_dataloader if active is None else active)
    running = list(getattr(loader._iterator, "_workers", ()))  # kept by torch for persistent workers
    sampler = _plain(loader.batch_sampler).sampler
    return {
        "workers": tuple(worker.pid for worker in running),
        "worker_start": START_METHODS.get(type(running[0]).__name__, "") if running else "",
        # torch pins where there is something to pin for
        "pinned": loader.pin_memory and torch.cuda.is_available(),
        "padded_to": _padded_to(loader.collate_fn),
        "sampling": GROUPED if isinstance(sampler, LengthGroupedSampler) else "random",
        "batches_per_step": trainer.args.gradient_accumulation_steps,
        "effective_batch": _full_step(trainer, loader),
    }


def _full_step(trainer: WatchedTrainer, loader: Any) -> int:
    """Samples of a full step: those of the last one; after an epoch's last, which may be short, as the loader batches.

    A run that goes on may have that one as its first.
    """
    counted, accumulated = trainer.last_step[0], trainer.args.gradient_accumulation_steps
    an_epoch = math.ceil(len(trainer.callback_handler.train_dataloader) / accumulated)
    if an_epoch <= 1 or trainer.state.global_step % an_epoch:
        return counted
    return max(counted, accumulated * (_plain(loader.batch_sampler).batch_size or 0))


def _padded_to(collator: Any) -> str:
    """How long rows are made; empty where they are no texts. Collators that wrap another keep it as `collate`."""
    while not isinstance(collator, PadTexts):
        collator = getattr(collator, "collate", None)
        if collator is None:
            return ""
    return "each batch's longest" if collator.length is None else f"{collator.length:,} tokens"


def _plain(batches: Any) -> Any:
    """The sampler of batches, without the one around it that skips what was trained on before."""
    return getattr(batches, "batch_sampler", batches)


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
GROUPED = "grouped by length"
IN_8_BITS = (
    Optimizer.ADAMW_8BIT,
    Optimizer.PAGED_ADAMW_8BIT,
    Optimizer.ADAMW_8BIT_TORCHAO,
    Optimizer.LION_8BIT,
)
ZERO = {DeepSpeed.OFF: "", DeepSpeed.ZERO_2: "ZeRO-2", DeepSpeed.ZERO_3: "ZeRO-3"}
OFFLOADED = ((Offload.CPU, "in main memory"), (Offload.NVME, "in NVMe"))
"""What `WhatRan.deepspeed` begins with, and what it says of each place to offload to."""
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


def differences(settled: RunOptions, ran: WhatRan) -> tuple[Difference, ...]:
    """Everything in which `ran` differs from `settled`, the options with nothing automatic left; one each option."""
    found: dict[str, Difference] = {}
    for one in (
        *_of_device(settled, ran),
        *_of_model(settled, ran),
        *_of_data(settled, ran),
        *_of_memory(settled, ran),
        *_of_training(settled, ran),
    ):
        found.setdefault(one.path, one)
    return tuple(found.values())


def _of_device(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    device, with_zero = settled.device, settled.memory.deepspeed is not DeepSpeed.OFF
    asked = device.name.partition(":")[0]
    if not with_zero and asked not in (
        "auto",
        ran.device.partition(":")[0],
    ):  # which may keep weights elsewhere
        said = f"{device.name} was asked for, the model is on {ran.device}."
        yield Difference("device.name", "Another device computes than asked for", said)
    compiled = ""
    if device.compile:
        inductor = device.compile_backend == "inductor"
        compiled = f"{device.compile_backend}, {device.compile_mode}" if inductor else device.compile_backend
    if ran.compiled not in (
        "",
        compiled,
    ):  # one that fails has its message already (core.engine.training.compile)
        said = f"{compiled or 'No compilation'} was asked for, {ran.compiled} runs."
        yield Difference("device.compile", "The model is compiled otherwise than asked for", said)
    title = "Another precision runs than asked for"
    # on a GPU DeepSpeed holds the weights themselves in 16 bits
    in_weights = with_zero and ran.parameter_dtype != "float32"
    computes_in = ran.parameter_dtype if in_weights else ran.autocast_dtype
    if device.precision in AUTOCAST and computes_in != AUTOCAST[device.precision]:
        said = f"{device.precision} was asked for, the model computes in {ran.autocast_dtype or ran.parameter_dtype}."
        yield Difference("device.precision", title, said)
    in_16_bits = device.precision in (Precision.BF16, Precision.FP16)
    if ran.matmul and not in_16_bits and (device.precision is Precision.TF32) != (ran.matmul == "tf32"):
        said = f"{device.precision} was asked for, the GPU multiplies in {ran.matmul}."
        yield Difference("device.precision", title, said)
    if device.precision is Precision.FP16 and ran.loss_scale is None:
        said = "Small gradients may be lost; bf16 doesn't need it."
        yield Difference("device.precision", "fp16 runs without loss scaling", said)
    if device.threads is not None and ran.threads not in (None, device.threads):
        said = f"{device.threads} were asked for, {ran.threads} run."
        yield Difference("device.threads", "Another number of CPU threads runs than asked for", said)


def _of_model(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    model, title = settled.model, "Other weights are trained than asked for"
    if (model.method in (Method.LORA, Method.QLORA)) != bool(ran.adapter):
        said = f"{model.method} was asked for, and the model has {ran.adapter or 'no LoRA matrices'}."
        yield Difference("model.method", title, said)
    if model.method is not Method.FULL and ran.trainable_parameters == ran.total_parameters:
        said = f"{model.method} was asked for, and all weights of the model are trained."
        yield Difference("model.method", title, said)
    if model.method is Method.QLORA and not ran.packed_parameters:
        said = f"The frozen weights were to be quantized as {model.quantization}, and none are."
        yield Difference("model.quantization", "No weights are quantized", said)
    # a model without PyTorch's own attention runs eager in its place; that is stated, and nothing to warn of
    eager_instead = model.attention is Attention.SDPA and ran.attention == Attention.EAGER
    if settled.task.reads_text and ran.attention not in (None, model.attention) and not eager_instead:
        said = f"{model.attention} was asked for, {ran.attention} was called."
        yield Difference("model.attention", "Another attention runs than asked for", said)


def _of_data(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    data = settled.data
    if data.workers not in (None, len(ran.workers)):
        said = f"{data.workers} were asked for, {len(ran.workers)} run."
        yield Difference("data.workers", "Another number of workers runs than asked for", said)
    if data.pin_memory is not Toggle.AUTO and (data.pin_memory is Toggle.ON) != ran.pinned:
        said = f"Pinned memory was to be {data.pin_memory}, and batches are {'' if ran.pinned else 'not '}pinned."
        yield Difference("data.pin_memory", "Batches are pinned otherwise than asked for", said)
    if ran.padded_to and (data.padding is Padding.FIXED) != ran.padded_to.endswith("tokens"):
        said = f"{data.padding} was asked for, they are padded to {ran.padded_to}."
        yield Difference("data.padding", "Texts are padded otherwise than asked for", said)
    grouped, is_grouped = data.group_by_length, ran.sampling == GROUPED
    if settled.task.reads_text and grouped is not Toggle.AUTO and (grouped is Toggle.ON) != is_grouped:
        said = f"Grouping by length was to be {grouped}, their order is {ran.sampling or 'unknown'}."
        yield Difference("data.group_by_length", "Batches are grouped otherwise than asked for", said)


def _of_memory(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    memory = settled.memory
    if ran.deepspeed.partition(",")[0] != ZERO[memory.deepspeed]:
        said = f"{memory.deepspeed} was asked for, {ran.deepspeed or 'no DeepSpeed'} runs."
        yield Difference("memory.deepspeed", "DeepSpeed runs otherwise than asked for", said)
    elif ran.deepspeed and any((words in ran.deepspeed) != (memory.offload is to) for to, words in OFFLOADED):
        said = f"{memory.offload} was asked for, {ran.deepspeed} runs."
        yield Difference("memory.offload", "DeepSpeed keeps its state elsewhere than asked for", said)
    if ran.effective_batch != settled.effective_batch:
        said = f"{settled.effective_batch} samples a step were asked for, {ran.effective_batch} are taken."
        yield Difference("memory.batch_size", "Another batch size runs than asked for", said)
    if memory.activation_checkpointing and not ran.recomputed:
        said = "They were to be recomputed in the backward pass, and no layer's were."
        yield Difference("memory.activation_checkpointing", "Activations are kept", said)


def _of_training(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    training = settled.training
    asked = IN_MAIN_MEMORY if settled.memory.offload_optimizer else OPTIMIZERS[training.optimizer]
    if ran.optimizer != asked:
        said = f"{asked} was asked for, {ran.optimizer} runs."
        yield Difference("training.optimizer", "Another optimizer runs than asked for", said)
    if training.optimizer in IN_8_BITS and ran.optimizer_state and "uint8" not in ran.optimizer_state:
        said = (
            "Embeddings and tensors below 4,096 numbers keep theirs in fp32, and this run trains nothing larger: "
            "AdamW does the same here."
        )
        yield Difference("training.optimizer", "The optimizer's state is not in 8 bits", said)
    if training.weight_decay and ran.decayed_parameters == 0:
        said = "Biases and norms are left out of it, and this run trains nothing else."
        yield Difference("training.weight_decay", "Weight decay has no effect", said)
    for option in all_options():
        number = ran.optimizer_numbers.get(option.name)
        if option.section != "training" or number is None:
            continue
        wanted = float(getattr(training, option.name))
        reads = training.optimizer in option.needs.get("training.optimizer", Optimizer)
        if reads and not math.isclose(number, wanted, rel_tol=1e-6):
            said = f"{option.title} was to be {wanted:g}, the optimizer runs with {number:g}."
            yield Difference(option.path, "The optimizer runs with another number than asked for", said)
    if training.deterministic and not ran.deterministic:
        said = "PyTorch was not told to use only deterministic kernels."
        yield Difference("training.deterministic", "The run is not deterministic", said)


# torch's words: "The operator 'aten::x' is not currently supported on the MPS backend and will fall back to run on the
# CPU. This may have performance implications."
FALLBACK = re.compile(r"The operator '(?P<operator>[^']+)' is not currently supported on the MPS backend")


def report_fallbacks(reporter: Reporter) -> list[str]:
    """Turn torch's warning about each such operator into a message of the run; other warnings go on to the log.

    torch warns of the first operator only, unless told to warn always; each is reported once.

    Returns:
        The operators so far; the list grows as more of them fall back.
    """
    torch.set_warn_always(True)
    show = warnings.showwarning
    told: list[str] = []

    def listen(  # noqa: PLR0917 - the signature of warnings.showwarning
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        found = FALLBACK.search(str(message))
        if found is None:
            show(message, category, filename, lineno, file, line)
        elif (operator := found["operator"]) not in told:
            told.append(operator)
            reporter.warn(
                f"fallback-{operator}",
                f"{operator} runs on the CPU",
                "Apple's MPS lacks this operator, so its data goes to the CPU and back at every step: "
                "slower, not wrong.",
            )

    warnings.showwarning = listen
    return told


EIGHT_BITS = 8
OWN = ("torch", "transformers")
"""Packages whose optimizers go by their class alone."""
FLAGS = ("fused", "foreach", "capturable", "amsgrad", "maximize")
"""What PyTorch's optimizers keep in each group of parameters."""


def bare(optimizer: Any) -> Any:
    """The optimizer inside accelerate's wrapper, and inside DeepSpeed's."""
    found = getattr(optimizer, "optimizer", optimizer)
    return found.optimizer if type(found).__module__.startswith("deepspeed.") else found


def optimizer_name(optimizer: Any) -> str:
    """Its class and what the class doesn't tell, such as "AdamW, fused" or "AdamW, 8-bit, paged (bitsandbytes)"."""
    kind = type(optimizer)
    package = kind.__module__.partition(".")[0]
    words = [kind.__name__]
    words += [flag for flag in FLAGS if any(group.get(flag) for group in optimizer.param_groups)]
    if getattr(getattr(optimizer, "args", None), "optim_bits", None) == EIGHT_BITS:
        words.append("8-bit")
    if getattr(optimizer, "is_paged", False):
        words.append("paged")
    return ", ".join(words) + ("" if package in OWN else f" ({package})")


def optimizer_numbers(optimizer: Any) -> dict[str, float]:
    """What it runs with of the numbers of `TrainingOptions`, by their names, in a group that decays where one does."""
    group = max(optimizer.param_groups, key=lambda one: one.get("weight_decay", 0.0))
    betas = dict(zip(("beta1", "beta2"), group.get("betas", ()), strict=False))
    found = {
        "learning_rate": group.get("initial_lr"),
        **betas,
        "epsilon": group.get("eps"),
        "momentum": group.get("momentum"),
        "weight_decay": group.get("weight_decay"),
    }
    return {
        name: float(number) for name, number in found.items() if isinstance(number, (float, torch.Tensor))
    }


def state_bytes(optimizer: Any, kind: str | None = None) -> dict[str, int]:
    """Bytes of its state by dtype, such as `{"uint8": 4096}`. A table that many weights share counts once.

    Args:
        optimizer: A bare one.
        kind: Only what lies on devices of this kind (`cuda`, `mps`, `cpu`); None: wherever it lies.
    """
    found: dict[str, int] = {}
    counted = set()
    for tensor in _state_tensors(optimizer):
        here = kind is None or tensor.device.type == kind
        if here and tensor.numel() and tensor.data_ptr() not in counted:
            counted.add(tensor.data_ptr())
            name = str(tensor.dtype).removeprefix("torch.")
            found[name] = found.get(name, 0) + tensor.numel() * tensor.element_size()
    return found


def decayed_parameters(optimizer: Any) -> int:
    """How many parameters weight decay reaches."""
    return sum(
        parameter.numel()
        for group in optimizer.param_groups
        if group.get("weight_decay")
        for parameter in group["params"]
    )


def _state_tensors(optimizer: Any) -> Iterator[torch.Tensor]:
    for part in _parts(optimizer):
        for state in part.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    yield from _plain_state(value)


def _parts(optimizer: Any) -> tuple[Any, ...]:
    """The optimizers inside: torchao's `CPUOffloadOptimizer` has one a tensor, and one for all small tensors."""
    if not hasattr(optimizer, "optim_dict"):
        return (optimizer,)
    return (*optimizer.optim_dict.values(), *([optimizer.d_opt] if optimizer.d_opt else []))


def _plain_state(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors a tensor is made of: torchao's 8-bit states say they are fp32 and consist of codes and scales."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        yield from _plain_state(getattr(tensor, name))


def what_ran(trainer: WatchedTrainer, resolved: ResolvedRun) -> WhatRan:
    """Read the live trainer after its first step. Sizes are exact: bytes and numbers of parameters."""
    model = trainer.model
    parameters = [weight for _, weight in weights_of(model)]
    dtypes = sorted({_dtype_name(parameter.dtype) for parameter in parameters})
    optimizer = bare(trainer.optimizer)
    state = state_bytes(optimizer)
    scaler = trainer.accelerator.scaler
    device = str(parameters[0].device)
    return WhatRan(
        device=resolved.label if device == resolved.device.name else device,
        device_name=resolved.device.title,
        parameter_dtype=" + ".join(dtypes),
        autocast_dtype=trainer.first_batch.autocast_dtype,
        optimizer=optimizer_name(optimizer),
        optimizer_numbers=optimizer_numbers(optimizer),
        optimizer_state_bytes=sum(state.values()),
        optimizer_state=state,
        decayed_parameters=None if trainer.deepspeed else decayed_parameters(optimizer),
        loss_scale=scaler.get_scale() if scaler is not None else zero_loss_scale(trainer.deepspeed),
        trainable_parameters=sum(count(parameter) for parameter in parameters if parameter.requires_grad),
        total_parameters=sum(map(count, parameters)),
        adapter=describe_adapter(model),
        packed_parameters=sum(count(parameter) for parameter in parameters if is_packed(parameter)),
        attention=" + ".join(trainer.first_batch.attention) or None,
        recomputed=trainer.first_batch.recomputed,
        **_batches_ran(trainer),
        **process_ran(resolved.kind),
        fell_back=tuple(trainer.fell_back),
        deepspeed=describe_zero(trainer.deepspeed),
        compiled=trainer.compilation.label if trainer.compilation else "",
        compile_seconds=trainer.compilation.seconds if trainer.compilation else None,
        reasons=resolved.reasons
        | _reason_of_attention(resolved, base_of(model), trainer.first_batch.attention),
    )


def _reason_of_attention(resolved: ResolvedRun, model: Any, called: tuple[str, ...]) -> dict[str, str]:
    if resolved.options.model.attention is not Attention.SDPA or called != (Attention.EAGER,):
        return {}
    has_sdpa = getattr(model, "_supports_sdpa", False)
    its_own = "sdpa was set, and this model has it, but its own code computed attention in the first batch"
    return {"model.attention": its_own if has_sdpa else "this model has no sdpa; its own runs"}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
