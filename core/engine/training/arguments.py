"""Hone's options as Trainer's arguments: the one place where the two vocabularies meet."""

import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from core.base.language import _
from core.engine.data.batches import start_method
from core.engine.devices.choose import ResolvedRun
from core.options.choices import DeepSpeed, Offload, Optimizer, Precision, Schedule, Toggle
from core.options.trainer_args import OPTIMIZER_NAMES

OptimizerClass = tuple[type[torch.optim.Optimizer], dict[str, Any]]


def optimizer_class(resolved: ResolvedRun) -> OptimizerClass | None:
    """For Trainer's `optimizer_cls_and_kwargs`: what it has no name for; None where it has.

    Weight decay is not among the arguments: Trainer sets it for each group of parameters.
    """
    training = resolved.options.training
    numbers = {
        "lr": training.learning_rate,
        "betas": (training.beta1, training.beta2),
        "eps": training.epsilon,
    }
    if resolved.options.memory.offload_optimizer:
        # CUDA only, not tried here. It copies each gradient as soon as it is there, so neither clipping nor fp16's loss
        # scale reaches the copy; both are refused beforehand (`method_rules`, `capabilities`).
        from torchao.optim import CPUOffloadOptimizer

        return CPUOffloadOptimizer, {"optimizer_class": torch.optim.AdamW, "fused": True, **numbers}
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam, {"fused": True, **numbers}
    return None


def norm_parameters(model: torch.nn.Module) -> set[str]:
    """Names of the parameters of all normalising layers, which weight decay must not pull towards zero.

    Trainer knows LayerNorm by its type and others by their place's name only: the batch norms of torchvision's models,
    called `bn1` or `0.1`, escape it.
    """
    return {
        f"{place}.{name}"
        for place, layer in model.named_modules()
        if "norm" in type(layer).__name__.lower()
        for name, _rest in layer.named_parameters(recurse=False)
    }


FROM_TRAINER = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
)


def zero_config(resolved: ResolvedRun) -> dict[str, Any] | None:
    """What goes into `TrainingArguments(deepspeed=...)`; None where DeepSpeed is off.

    PyTorch's own optimizer is kept, also where its state is in main memory: DeepSpeed's for that purpose would be
    compiled at the first run.
    """
    memory, kind = resolved.options.memory, resolved.kind
    if memory.deepspeed is DeepSpeed.OFF:
        return None
    is_zero_3 = memory.deepspeed is DeepSpeed.ZERO_3
    zero: dict[str, Any] = {
        "stage": 3 if is_zero_3 else 2,
        "overlap_comm": kind == "cuda",
        "contiguous_gradients": True,
        "reduce_bucket_size": "auto",
    }
    if is_zero_3:
        zero["stage3_prefetch_bucket_size"] = "auto"
        zero["stage3_param_persistence_threshold"] = "auto"
        zero["stage3_gather_16bit_weights_on_model_save"] = True  # in whatever format they are
    if memory.offload is not Offload.NONE:
        where: dict[str, Any] = {"device": memory.offload.value, "pin_memory": kind == "cuda"}
        if memory.offload is Offload.NVME:
            where["nvme_path"] = memory.offload_folder
        zero["offload_optimizer"] = where
        if is_zero_3:
            zero["offload_param"] = where
    # on a GPU the weights are in 16 bits, with fp32 copies in the optimizer; on a CPU they stay fp32 under autocast,
    # of which Trainer, which refuses bf16 on a CPU under DeepSpeed, isn't told
    precision: dict[str, Any] = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
    if kind == "cpu":
        enabled = resolved.precision is Precision.BF16
        precision = {"torch_autocast": {"enabled": enabled, "dtype": "bfloat16"}}
    return {
        **dict.fromkeys(FROM_TRAINER, "auto"),
        **precision,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000_000,  # Hone reports each step
    }


ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
"""Without these, accelerate takes no notice of DeepSpeed, and DeepSpeed looks for MPI."""
BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
WHERE = {"cpu": _("main memory"), "nvme": "NVMe"}


@contextmanager
def alone(kind: str) -> Iterator[None]:
    """Be a group of one process while a run with DeepSpeed lasts.

    The group meets in this process's own memory: a launcher's would open a port, and two runs would fight for it.

    Args:
        kind: What the run computes on: `cuda` or `cpu`.
    """
    before = {name: os.environ.get(name) for name in (*ALONE, "DS_ACCELERATOR")}
    os.environ.update(ALONE, DS_ACCELERATOR=kind)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(BACKENDS[kind], store=store, rank=0, world_size=1)
    try:
        with (
            warnings.catch_warnings()
        ):  # DeepSpeed 0.19.8 calls what torch 2.13 has renamed, several times a step
            warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed.c10d_logger")
            yield
    finally:
        torch.distributed.destroy_process_group()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def describe_zero(engine: Any) -> str:
    """What a live DeepSpeed engine divides and puts where, such as "ZeRO-3, optimizer and weights in main memory".

    Args:
        engine: Trainer's `deepspeed`; None where there is none.
    """
    if engine is None:
        return ""
    optimizer, weights = (
        _device(found) for found in (engine.zero_offload_optimizer(), engine.zero_offload_param())
    )
    stage = f"ZeRO-{engine.zero_optimization_stage()}"
    if optimizer and optimizer == weights:
        return _("{stage}, optimizer and weights in {where}").format(stage=stage, where=WHERE[optimizer])
    parts = [
        _("{what} in {where}").format(what=what, where=WHERE[device])
        for what, device in (("optimizer", optimizer), ("weights", weights))
        if device
    ]
    return ", ".join((stage, *parts))


def zero_loss_scale(engine: Any) -> float | None:
    """The loss scale of fp16 in a live DeepSpeed engine; None where there is none."""
    return float(engine.optimizer.loss_scale) if engine is not None and engine.fp16_enabled() else None


def _device(offload: Any) -> str:
    """Where an offload configuration of DeepSpeed's goes; its values are enumerations."""
    device = getattr(offload, "device", None)
    found = str(getattr(device, "value", device or ""))
    return found if found in WHERE else ""


HARMLESS = {
    "deepspeed.runtime.fp16.loss_scaler": ("LossScaler", "DynamicLossScaler"),
    "deepspeed.runtime.zero.config": ("ZeroStageEnum",),
    "deepspeed.utils.tensor_fragment": ("fragment_address",),
}
"""By module; seen in the files of DeepSpeed 0.19.8."""


def allow_zero_state() -> None:
    """Let torch bring back DeepSpeed's own record of a run."""
    found = [
        getattr(import_module(module), name)
        for module, names in HARMLESS.items()
        for name in names
        if hasattr(import_module(module), name)
    ]
    torch.serialization.add_safe_globals(found)


SCHEDULES = {
    Schedule.LINEAR: "linear",
    Schedule.COSINE: "cosine",
    Schedule.POLYNOMIAL: "polynomial",
    Schedule.INVERSE_SQRT: "inverse_sqrt",
    Schedule.CONSTANT: "constant",
}


def trainer_arguments(resolved: ResolvedRun, checkpoints: Path, *, has_eval: bool) -> dict[str, Any]:
    """Keyword arguments of `transformers.TrainingArguments` for a run.

    Args:
        resolved: The device it gets, and what was asked with everything automatic decided.
        checkpoints: Where checkpoints go.
        has_eval: Whether there is held-out data.
    """
    options = resolved.options
    memory, training = options.memory, options.training
    zero = zero_config(resolved)
    data, output = options.data, options.output
    saving: dict[str, Any] = {"save_strategy": "epoch" if output.keep_checkpoints else "no"}
    if output.save_steps and output.keep_checkpoints:
        saving = {"save_strategy": "steps", "save_steps": output.save_steps}
    schedule = SCHEDULES[training.schedule]
    if (
        training.schedule is Schedule.CONSTANT and training.warmup
    ):  # Trainer's plain "constant" knows no warm-up
        schedule = "constant_with_warmup"
    precision: dict[str, Any] = {
        "bf16": resolved.precision is Precision.BF16 and (zero is None or resolved.kind != "cpu"),
        "fp16": resolved.precision is Precision.FP16,
    }
    if resolved.kind == "cuda":  # said outright: torch's own default has changed over the years
        precision["tf32"] = resolved.precision is Precision.TF32
    workers = data.workers or 0
    return {
        "output_dir": str(checkpoints),
        "use_cpu": resolved.kind == "cpu"
        and zero is None,  # accelerate takes DeepSpeed for something of GPUs
        "deepspeed": zero,
        "per_device_train_batch_size": memory.batch_size,
        "per_device_eval_batch_size": memory.batch_size,
        "gradient_accumulation_steps": memory.gradient_accumulation_steps,
        "activation_checkpointing": memory.activation_checkpointing,
        "activation_checkpointing_kwargs": {"use_reentrant": False}
        if memory.activation_checkpointing
        else None,
        "num_train_epochs": training.epochs,
        "max_steps": training.max_steps or -1,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": schedule,
        "warmup_steps": training.warmup,
        "optim": OPTIMIZER_NAMES[training.optimizer],
        "optim_args": f"momentum={training.momentum!r}" if training.optimizer is Optimizer.SGD else None,
        "adam_beta1": training.beta1,
        "adam_beta2": training.beta2,
        "adam_epsilon": training.epsilon,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.max_grad_norm,
        "seed": training.seed,
        "full_determinism": training.deterministic,
        "eval_strategy": "epoch" if has_eval else "no",
        **saving,
        **precision,
        "train_sampling_strategy": "group_by_length" if data.group_by_length is Toggle.ON else "random",
        "dataloader_num_workers": workers,
        "dataloader_prefetch_factor": data.prefetch if workers else None,
        "dataloader_persistent_workers": workers > 0,
        "dataloader_multiprocessing_context": start_method(platform.system()) if workers else None,
        "dataloader_pin_memory": data.pin_memory is Toggle.ON,
        "logging_strategy": "no",  # Hone's own callback reports each step
        "logging_nan_inf_filter": False,  # it would replace NaN by an average and hide it
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
