"""States what actually ran, from the live objects and not from the options."""

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.base.language import _
from core.engine.data.batches import GROUPED, padded_to
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import memory_limit
from core.engine.environment import torch_settings
from core.engine.models.attention import evaluates_eagerly
from core.engine.models.method import describe_adapter
from core.engine.models.parts import base_of, count, is_quantized, weights_of
from core.engine.reporter import Reporter
from core.engine.training.arguments import describe_zero, shards_of
from core.engine.training.ranks import world_size
from core.engine.training.samplers import batch_sampler_of, live_loader
from core.engine.training.trainer import WatchedTrainer
from core.options.choices import Attention
from core.runs.events import WhatRan

# --- What ran


def what_ran(trainer: WatchedTrainer, resolved: ResolvedRun, fell_back: Sequence[str] = ()) -> WhatRan:
    """Reads the live trainer after its first step. Sizes are exact: bytes and numbers of parameters.

    Args:
        trainer: The trainer.
        resolved: The run.
        fell_back: Operators that the CPU has computed in MPS's place so far.
    """
    model, first_batch, compilation = trainer.model, trainer.step.first_batch, trainer.step.compilation
    parameters = [weight for _rest, weight in weights_of(model)]
    optimizer = bare(trainer.optimizer)
    state = state_bytes(optimizer)
    scaler = trainer.accelerator.scaler
    engine: Any = trainer.deepspeed
    loss_scale = scaler.get_scale() if scaler is not None else None
    if engine is not None and engine.fp16_enabled():
        loss_scale = float(engine.optimizer.loss_scale)
    device = str(parameters[0].device)
    return WhatRan(
        device=resolved.label if device == resolved.device.name else device,
        device_name=resolved.device.title,
        parameter_dtype=_dtypes(parameters),
        autocast_dtype=first_batch.autocast_dtype,
        preference_loss=getattr(trainer, "preference_loss", ""),
        optimizer=optimizer_name(optimizer),
        optimizer_numbers=optimizer_numbers(optimizer),
        optimizer_state_bytes=sum(state.values()),
        optimizer_state=state,
        decayed_parameters=None if trainer.deepspeed else decayed_parameters(optimizer),
        loss_scale=loss_scale,
        trainable_parameters=sum(count(parameter) for parameter in parameters if parameter.requires_grad),
        total_parameters=sum(map(count, parameters)),
        adapter=describe_adapter(model),
        packed_parameters=sum(count(parameter) for parameter in parameters if is_quantized(parameter)),
        frozen_dtype=_dtypes(
            one for one in parameters if one.dim() > 1 and not (one.requires_grad or is_quantized(one))
        ),
        attention=" + ".join(first_batch.attention) or None,
        recomputed=first_batch.recomputed,
        memory_limit=memory_limit(),
        empty_cache_steps=trainer.args.torch_empty_cache_steps or 0,
        **_batches(trainer),
        **torch_settings(resolved.kind),
        fell_back=tuple(fell_back),
        deepspeed=describe_zero(trainer.deepspeed),
        shards=shards_of(model),
        parallel=_parallel(trainer),
        compiled=compilation.label if compilation else "",
        compile_seconds=compilation.seconds if compilation else None,
        reasons=resolved.reasons | _reason_of_attention(trainer, resolved) | _reason_of_rate(resolved),
    )


def _parallel(trainer: WatchedTrainer) -> str:
    """Returns how several processes work together, such as "DDP, 2 processes"; empty for one."""
    name = "" if trainer.deepspeed else "FSDP2, " if trainer.is_fsdp_enabled else "DDP, "
    return f"{name}{world_size()} processes" if world_size() > 1 else ""


def _reason_of_rate(resolved: ResolvedRun) -> dict[str, str]:
    if world_size() == 1:
        return {}
    rate = resolved.options.training.learning_rate
    reason = _("the learning rate stays {rate:g}; scaled with the processes it would be {scaled:g}")
    return {"device.processes": reason.format(rate=rate, scaled=rate * world_size())}


def _reason_of_attention(trainer: WatchedTrainer, resolved: ResolvedRun) -> dict[str, str]:
    if evaluates_eagerly(trainer.model):
        reason = _("eager in evaluations: without gradients, this GPU's sdpa lets tokens see later ones")
        return {"model.attention": reason}
    called = trainer.step.first_batch.attention
    if resolved.options.model.attention is not Attention.SDPA or called != (Attention.EAGER,):
        return {}
    if getattr(base_of(trainer.model), "_supports_sdpa", False):
        return {"model.attention": _("this model has sdpa, but its own code computed the first batch")}
    return {"model.attention": _("this model has no sdpa")}


def _dtypes(weights: Iterable[torch.Tensor]) -> str:
    return " + ".join(sorted({_dtype_name(weight.dtype) for weight in weights}))


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


START_METHODS = {"ForkProcess": "fork", "ForkServerProcess": "forkserver", "SpawnProcess": "spawn"}
"""By the class of multiprocessing's processes."""


def _batches(trainer: WatchedTrainer) -> dict[str, Any]:
    """Returns the fields of `WhatRan` about batches, from the loader that trains now."""
    active = trainer.accelerator.gradient_state.active_dataloader  # of an epoch that was resumed
    loader: Any = live_loader(trainer.callback_handler.train_dataloader if active is None else active)
    workers = list(getattr(loader._iterator, "_workers", ()))  # torch's attribute for persistent workers
    batch_sampler = batch_sampler_of(loader)
    accumulated = trainer.args.gradient_accumulation_steps
    whole: Any = trainer.callback_handler.train_dataloader
    epoch_steps = math.ceil(len(whole) / accumulated)
    samples = trainer.step.last_samples
    # an epoch's last step may be smaller
    if epoch_steps > 1 and trainer.state.global_step % epoch_steps == 0:
        samples = max(samples, accumulated * (batch_sampler.batch_size or 0))
    return {
        "workers": tuple(worker.pid for worker in workers),
        "worker_start": START_METHODS.get(type(workers[0]).__name__, "") if workers else "",
        "pinned": loader.pin_memory and torch.cuda.is_available(),  # torch pins for CUDA only
        "padded_to": padded_to(loader.collate_fn),
        "augmentation": getattr(getattr(trainer.train_dataset, "transform", None), "changes", ""),
        "sampling": GROUPED if isinstance(batch_sampler.sampler, LengthGroupedSampler) else "random",
        "batches_per_step": accumulated,
        "effective_batch": samples * world_size(),
    }


# --- The live optimizer


EIGHT_BITS = 8
FLAGS = ("fused", "foreach", "capturable", "amsgrad", "maximize")
"""Keys of the parameter groups of PyTorch's optimizers."""


def bare(optimizer: Any) -> Any:
    """Returns the optimizer inside accelerate's wrapper, and inside DeepSpeed's."""
    inner = getattr(optimizer, "optimizer", optimizer)
    return inner.optimizer if type(inner).__module__.startswith("deepspeed.") else inner


def optimizer_name(optimizer: Any) -> str:
    """Names class and settings of an optimizer, such as "AdamW, fused" or "AdamW, 8-bit (bitsandbytes)"."""
    parts = [type(optimizer).__name__]
    parts += [flag for flag in FLAGS if any(group.get(flag) for group in optimizer.param_groups)]
    if getattr(getattr(optimizer, "args", None), "optim_bits", None) == EIGHT_BITS:
        parts.append("8-bit")
    if getattr(optimizer, "is_paged", False):
        parts.append("paged")
    package = type(optimizer).__module__.partition(".")[0]
    return ", ".join(parts) + ("" if package in ("torch", "transformers", "core") else f" ({package})")


def optimizer_numbers(optimizer: Any) -> dict[str, float]:
    """Returns an optimizer's hyperparameters by `TrainingOptions`' names, of a group with weight decay if possible."""
    group = max(optimizer.param_groups, key=lambda group: group.get("weight_decay", 0.0))
    numbers = {
        "learning_rate": group.get("initial_lr"),
        **dict(zip(("beta1", "beta2"), group.get("betas", ()), strict=False)),
        "epsilon": group.get("eps"),
        "momentum": group.get("momentum"),
        "weight_decay": group.get("weight_decay"),
    }
    return {
        name: float(number) for name, number in numbers.items() if isinstance(number, (float, torch.Tensor))
    }


def state_bytes(optimizer: Any, kind: str | None = None) -> dict[str, int]:
    """Returns the bytes of a bare optimizer's state by dtype, such as `{"uint8": 4096}`; a shared tensor counts once.

    With a `kind` (`cuda`, `mps`, `cpu`), only tensors on such devices count.
    """
    sizes: dict[str, int] = {}
    counted = set()
    for tensor in _state_tensors(optimizer):
        on_device = kind is None or tensor.device.type == kind
        if on_device and tensor.numel() and tensor.data_ptr() not in counted:
            counted.add(tensor.data_ptr())
            name = _dtype_name(tensor.dtype)
            sizes[name] = sizes.get(name, 0) + tensor.numel() * tensor.element_size()
    return sizes


def decayed_parameters(optimizer: Any) -> int:
    """Returns the number of parameters that weight decay applies to."""
    return sum(
        parameter.numel()
        for group in optimizer.param_groups
        if group.get("weight_decay")
        for parameter in group["params"]
    )


def _state_tensors(optimizer: Any) -> Iterator[torch.Tensor]:
    inner = [optimizer]
    # torchao's CPUOffloadOptimizer: one a tensor, one for all small tensors
    if hasattr(optimizer, "optim_dict"):
        inner = [*optimizer.optim_dict.values(), *([optimizer.d_opt] if optimizer.d_opt else [])]
    for part in inner:
        for state in part.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    yield from _plain_tensors(value)


def _plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensors that a tensor consists of: torchao's 8-bit states claim fp32 and have codes and scales."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    names, _rest = tensor.__tensor_flatten__()
    parts = (getattr(tensor, name) for name in names)
    for part in parts:
        if isinstance(part, torch.Tensor):  # a divided tensor has the mesh of processes beside its own part
            yield from _plain_tensors(part)


# --- Operators that MPS lacks


# torch: "The operator 'aten::x' is not currently supported on the MPS backend and will fall back to run on the CPU."
FALLBACK = re.compile(r"The operator '(?P<operator>[^']+)' is not currently supported on the MPS backend")


def report_mps_fallbacks(reporter: Reporter) -> list[str]:
    """Reports each operator that torch warns about once; other warnings go to the log.

    Returns:
        The operators so far, a list that grows.
    """
    torch.set_warn_always(True)  # by default, torch warns about the first operator only
    show = warnings.showwarning
    operators: list[str] = []

    def listen(  # noqa: PLR0917 - the signature of warnings.showwarning
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        match = FALLBACK.search(str(message))
        if match is None:
            show(message, category, filename, lineno, file, line)
        elif (operator := match["operator"]) not in operators:
            operators.append(operator)
            reporter.warn(
                f"fallback-{operator}",
                _("{operator} runs on the CPU").format(operator=operator),
                _(
                    "MPS lacks this operator. Its data is copied to the CPU and back at each step, which is slower."
                ),
            )

    warnings.showwarning = listen
    return operators
