"""Hone's options as Trainer's arguments."""

import platform
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from core.engine.data.batches import start_method
from core.engine.devices.choose import ResolvedRun
from core.engine.training.lion import Lion
from core.options.choices import DeepSpeed, Offload, Optimizer, Precision, Toggle
from core.options.trainer_args import OPTIMIZER_NAMES, schedule_name

OptimizerClass = tuple[type[torch.optim.Optimizer], dict[str, Any]]


def optimizer_class(resolved: ResolvedRun) -> OptimizerClass | None:
    """Returns Trainer's `optimizer_cls_and_kwargs` for optimizers that it can't make everywhere; otherwise None.

    Trainer itself sets weight decay, for each group of parameters.
    """
    training = resolved.options.training
    numbers = {
        "lr": training.learning_rate,
        "betas": (training.beta1, training.beta2),
        "eps": training.epsilon,
    }
    if resolved.options.memory.offload_optimizer:
        # CUDA only. It copies gradients as soon as they exist, so clipping and fp16's loss scale can't reach the
        # copies; both are refused (`method_rules`, `capabilities`).
        from torchao.optim import CPUOffloadOptimizer

        return CPUOffloadOptimizer, {"optimizer_class": torch.optim.AdamW, "fused": True, **numbers}
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam, {"fused": True, **numbers}
    if training.optimizer is Optimizer.LION:
        return Lion, {"lr": training.learning_rate, "betas": numbers["betas"]}
    return None


def norm_parameters(model: torch.nn.Module) -> set[str]:
    """Returns names of the parameters of all normalization layers, which get no weight decay.

    Trainer finds LayerNorm by type and others by name only; torchvision's batch norms are called `bn1` or `0.1`.
    """
    return {
        f"{module}.{name}"
        for module, layer in model.named_modules()
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
    """Returns the value of `TrainingArguments(deepspeed=...)`.

    PyTorch's optimizer is used, also for a state in main memory: DeepSpeed's would be compiled at the first run.
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
        zero["stage3_gather_16bit_weights_on_model_save"] = True  # whatever their dtype
    if memory.offload is not Offload.NONE:
        where: dict[str, Any] = {"device": memory.offload.value, "pin_memory": kind == "cuda"}
        if memory.offload is Offload.NVME:
            where["nvme_path"] = memory.offload_folder
        zero["offload_optimizer"] = where
        if is_zero_3:
            zero["offload_param"] = where
    # on a GPU the weights are in 16 bits, with fp32 copies in the optimizer; on a CPU they stay fp32 under autocast, as
    # Trainer refuses bf16 there
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


IN_MAIN_MEMORY, IN_NVME = "in main memory", "in NVMe"
PLACES = {"cpu": IN_MAIN_MEMORY, "nvme": IN_NVME}
"""As stored in `WhatRan.deepspeed`."""


def describe_zero(engine: Any) -> str:
    """Names the stage in Trainer's `deepspeed` and what is offloaded: "ZeRO-3, optimizer and weights in NVMe"."""
    if engine is None:
        return ""
    optimizer, weights = map(_place, (engine.zero_offload_optimizer(), engine.zero_offload_param()))
    stage = f"ZeRO-{engine.zero_optimization_stage()}"
    if optimizer and optimizer == weights:
        return f"{stage}, optimizer and weights {optimizer}"
    parts = [f"{what} {place}" for what, place in (("optimizer", optimizer), ("weights", weights)) if place]
    return ", ".join((stage, *parts))


def _place(offload: Any) -> str:
    """Returns the place of DeepSpeed's offload configuration, whose device is an enumeration; empty if it has none."""
    device = getattr(offload, "device", None)
    return PLACES.get(str(getattr(device, "value", device)), "")


def shards_of(model: torch.nn.Module) -> int:
    """Returns the number of parts into which FSDP2 has divided the weights of a model; 0: it hasn't."""
    meshes = (getattr(weight, "device_mesh", None) for weight in model.parameters())
    return max((mesh.size() for mesh in meshes if mesh is not None), default=0)


HARMLESS = {
    "deepspeed.runtime.fp16.loss_scaler": ("LossScaler", "DynamicLossScaler"),
    "deepspeed.runtime.zero.config": ("ZeroStageEnum",),
    "deepspeed.utils.tensor_fragment": ("fragment_address",),
}
"""Classes by module in the checkpoints of DeepSpeed 0.19.8."""


def allow_zero_state() -> None:
    """Lets torch.load restore DeepSpeed's own classes from a checkpoint."""
    modules = {module: import_module(module) for module in HARMLESS}
    torch.serialization.add_safe_globals(
        [
            getattr(modules[module], name)
            for module, names in HARMLESS.items()
            for name in names
            if hasattr(modules[module], name)
        ]
    )


# --- Trainer's arguments


def trainer_arguments(resolved: ResolvedRun, checkpoints: Path, *, has_eval: bool) -> dict[str, Any]:
    """Returns keyword arguments of `transformers.TrainingArguments`."""
    options = resolved.options
    memory, training = options.memory, options.training
    zero = zero_config(resolved)
    data, output = options.data, options.output
    saving: dict[str, Any] = {"save_strategy": "epoch" if output.keep_checkpoints else "no"}
    if output.save_steps and output.keep_checkpoints:
        saving = {"save_strategy": "steps", "save_steps": output.save_steps}
    evaluating: dict[str, Any] = {"eval_strategy": "epoch" if has_eval else "no"}
    if has_eval and training.eval_steps:
        evaluating = {"eval_strategy": "steps", "eval_steps": training.eval_steps}
    precision: dict[str, Any] = {
        "bf16": resolved.precision is Precision.BF16 and (zero is None or resolved.kind != "cpu"),
        "fp16": resolved.precision is Precision.FP16,
    }
    if resolved.kind == "cuda":  # torch's default differs by version
        precision["tf32"] = resolved.precision is Precision.TF32
    workers = data.workers or 0
    return {
        "output_dir": str(checkpoints),
        "use_cpu": resolved.kind == "cpu" and zero is None,  # accelerate uses DeepSpeed on GPUs only
        "deepspeed": zero,
        "fsdp": memory.fsdp or None,
        "fsdp_config": {"version": 2} if memory.fsdp else None,
        "ddp_find_unused_parameters": True,  # with activation checkpointing, too, where Trainer doesn't
        "per_device_train_batch_size": memory.batch_size,
        "per_device_eval_batch_size": memory.batch_size,
        "gradient_accumulation_steps": memory.gradient_accumulation_steps,
        "activation_checkpointing": memory.activation_checkpointing,
        "activation_checkpointing_kwargs": {"use_reentrant": False}
        if memory.activation_checkpointing
        else None,
        "torch_empty_cache_steps": memory.empty_cache_steps or None,
        "num_train_epochs": training.epochs,
        "max_steps": training.max_steps or -1,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": schedule_name(training),
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
        **evaluating,
        **saving,
        **precision,
        "train_sampling_strategy": "group_by_length" if data.group_by_length is Toggle.ON else "random",
        "dataloader_num_workers": workers,
        "dataloader_prefetch_factor": data.prefetch if workers else None,
        "dataloader_persistent_workers": workers > 0,
        "dataloader_multiprocessing_context": start_method(platform.system()) if workers else None,
        "dataloader_pin_memory": data.pin_memory is Toggle.ON,
        "logging_strategy": "no",  # Hone's own callback reports each step
        "logging_nan_inf_filter": False,  # it would hide NaN
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
