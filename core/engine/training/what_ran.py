"""States what actually ran, from the live objects and not from the request."""

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.base.language import _
from core.engine.data.batches import PadTexts
from core.engine.devices.choose import ResolvedRun
from core.engine.environment import torch_settings
from core.engine.models.parts import base_of, count, describe_adapter, is_packed, weights_of
from core.engine.reporter import Reporter
from core.engine.training.arguments import describe_zero, zero_loss_scale
from core.engine.training.trainer import WatchedTrainer, live_loader
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
ZERO = {DeepSpeed.OFF: "no DeepSpeed", DeepSpeed.ZERO_2: "ZeRO-2", DeepSpeed.ZERO_3: "ZeRO-3"}
OFFLOADED = ((Offload.CPU, "in main memory"), (Offload.NVME, "in NVMe"))
"""What `WhatRan.deepspeed` begins with, and what it says of each place to offload to."""
AUTOCAST = {Precision.BF16: "bfloat16", Precision.FP16: "float16", Precision.FP32: None, Precision.TF32: None}


@dataclass(frozen=True)
class Difference:
    """Something that ran otherwise than asked: the option it is about, and what to tell the person."""

    path: str
    title: str
    detail: str


def differences(options: RunOptions, ran: WhatRan) -> tuple[Difference, ...]:
    """Everything in which `ran` differs from `options`, with nothing automatic left in these; one each option."""
    found: dict[str, Difference] = {}
    for path, what, asked, runs in (*_compared(options, ran), *_compared_numbers(options, ran)):
        if asked != runs:
            title = _("{what}: something else runs than asked for").format(what=what)
            found.setdefault(
                path,
                Difference(
                    path, title, _("{asked} was asked for, {runs} runs.").format(asked=asked, runs=runs)
                ),
            )
    for one in _without_effect(options, ran):
        found.setdefault(one.path, one)
    return tuple(found.values())


def _compared(options: RunOptions, ran: WhatRan) -> Iterator[tuple[str, str, object, object]]:
    """Path and name of an option, what was asked, and what runs; left out where the two can't be compared."""
    device, model, data, memory = options.device, options.model, options.data, options.memory
    training, zero = options.training, memory.deepspeed is not DeepSpeed.OFF
    kind = device.name.partition(":")[0]
    if kind != "auto" and not zero:  # which may keep weights elsewhere
        runs = device.name if kind == ran.device.partition(":")[0] else ran.device
        yield "device.name", "Device", device.name, runs
    compiled = "no compilation"
    if device.compile:
        inductor = device.compile_backend == "inductor"
        compiled = f"{device.compile_backend}, {device.compile_mode}" if inductor else device.compile_backend
    if ran.compiled:  # one that fails has its message already (`Compilation`)
        yield "device.compile", "Compilation", compiled, ran.compiled
    if device.precision in AUTOCAST:
        # on a GPU DeepSpeed holds the weights themselves in 16 bits
        in_weights = zero and ran.parameter_dtype != "float32"
        computed_in = ran.parameter_dtype if in_weights else ran.autocast_dtype
        if computed_in != AUTOCAST[device.precision]:
            yield "device.precision", "Precision", device.precision, computed_in or ran.parameter_dtype
    if ran.matmul and device.precision not in (Precision.BF16, Precision.FP16):
        matmul = "tf32" if device.precision is Precision.TF32 else "fp32"
        yield "device.precision", "Precision", matmul, ran.matmul
    if device.threads is not None and ran.threads is not None:
        yield "device.threads", _("CPU threads"), device.threads, ran.threads
    is_lora = model.method in (Method.LORA, Method.QLORA)
    if is_lora != bool(ran.adapter):
        yield "model.method", _("Training method"), model.method, ran.adapter or "no LoRA matrices"
    # a model without PyTorch's own attention runs eager in its place; that is stated, and nothing to warn of
    eager_instead = model.attention is Attention.SDPA and ran.attention == Attention.EAGER
    if options.task.reads_text and ran.attention is not None and not eager_instead:
        yield "model.attention", "Attention", model.attention.value, ran.attention
    if data.workers is not None:
        yield "data.workers", _("Data loader workers"), data.workers, len(ran.workers)
    if data.pin_memory is not Toggle.AUTO:
        yield "data.pin_memory", _("Pinned memory"), data.pin_memory.value, "on" if ran.pinned else "off"
    if ran.padded_to and (data.padding is Padding.FIXED) != ran.padded_to.endswith("tokens"):
        yield (
            "data.padding",
            "Padding",
            data.padding.value,
            _("to {padded_to}").format(padded_to=ran.padded_to),
        )
    if options.task.reads_text and data.group_by_length is not Toggle.AUTO:
        runs = "on" if ran.sampling == GROUPED else "off"
        yield "data.group_by_length", _("Grouping by length"), data.group_by_length.value, runs
    stage, _rest, where = ran.deepspeed.partition(", ")
    yield "memory.deepspeed", "DeepSpeed", ZERO[memory.deepspeed], stage or ZERO[DeepSpeed.OFF]
    if stage == ZERO[memory.deepspeed] and any(
        (words in where) != (memory.offload is to) for to, words in OFFLOADED
    ):
        yield "memory.offload", _("DeepSpeed's offloading"), memory.offload.value, where or "none"
    yield "memory.batch_size", _("Samples a step"), options.effective_batch, ran.effective_batch
    optimizer = IN_MAIN_MEMORY if memory.offload_optimizer else OPTIMIZERS[training.optimizer]
    yield "training.optimizer", "Optimizer", optimizer, ran.optimizer
    if training.deterministic:
        yield "training.deterministic", _("Full determinism"), "on", "on" if ran.deterministic else "off"


def _compared_numbers(options: RunOptions, ran: WhatRan) -> Iterator[tuple[str, str, object, object]]:
    """The same for the optimizer's numbers, where it reads them."""
    for option in all_options():
        number = ran.optimizer_numbers.get(option.name)
        reads = options.training.optimizer in option.needs.get("training.optimizer", Optimizer)
        if option.section == "training" and number is not None and reads:
            wanted = float(getattr(options.training, option.name))
            if not math.isclose(number, wanted, rel_tol=1e-6):
                yield option.path, option.title, f"{wanted:g}", f"{number:g}"


def _without_effect(options: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    """What was asked for and has no effect."""
    training, method = options.training, options.model.method
    if options.device.precision is Precision.FP16 and ran.loss_scale is None:
        said = "Small gradients may be lost; bf16 doesn't need it."
        yield Difference("device.precision", _("fp16 runs without loss scaling"), said)
    if method is not Method.FULL and ran.trainable_parameters == ran.total_parameters:
        said = _("{method} was asked for, and all weights of the model are trained.").format(method=method)
        yield Difference("model.method", _("Other weights are trained than asked for"), said)
    if method is Method.QLORA and not ran.packed_parameters:
        said = _("The frozen weights were to be quantized as {quantization}, and none are.").format(
            quantization=options.model.quantization
        )
        yield Difference("model.quantization", _("No weights are quantized"), said)
    if options.memory.activation_checkpointing and not ran.recomputed:
        said = _("They were to be recomputed in the backward pass, and no layer's were.")
        yield Difference("memory.activation_checkpointing", _("Activations are kept"), said)
    if training.optimizer in IN_8_BITS and ran.optimizer_state and "uint8" not in ran.optimizer_state:
        said = _(
            "Embeddings and tensors below 4,096 numbers keep theirs in fp32, and this run trains nothing larger: "
            "AdamW does the same here."
        )
        yield Difference("training.optimizer", _("The optimizer's state is not in 8 bits"), said)
    if training.weight_decay and ran.decayed_parameters == 0:
        said = _("Biases and norms are left out of it, and this run trains nothing else.")
        yield Difference("training.weight_decay", _("Weight decay has no effect"), said)


# torch's words: "The operator 'aten::x' is not currently supported on the MPS backend and will fall back to run on the
# CPU. This may have performance implications."
FALLBACK = re.compile(r"The operator '(?P<operator>[^']+)' is not currently supported on the MPS backend")


def report_mps_fallbacks(reporter: Reporter) -> list[str]:
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
                _("{operator} runs on the CPU").format(operator=operator),
                _(
                    "Apple's MPS lacks this operator, so its data goes to the CPU and back at every step: "
                    "slower, not wrong."
                ),
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
    names, _rest = tensor.__tensor_flatten__()
    for name in names:
        yield from _plain_state(getattr(tensor, name))


def what_ran(trainer: WatchedTrainer, resolved: ResolvedRun) -> WhatRan:
    """Read the live trainer after its first step. Sizes are exact: bytes and numbers of parameters."""
    model = trainer.model
    parameters = [weight for _rest, weight in weights_of(model)]
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
        **torch_settings(resolved.kind),
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
    its_own = _("sdpa was set, and this model has it, but its own code computed attention in the first batch")
    return {"model.attention": its_own if has_sdpa else "this model has no sdpa; its own runs"}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
