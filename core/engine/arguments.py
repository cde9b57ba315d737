"""Hone's options as Trainer's arguments: the one place where the two vocabularies meet."""

import platform
from pathlib import Path
from typing import Any

from core.choices import DeepSpeed, Precision, Schedule, Toggle
from core.engine.data.workers import start_method
from core.engine.devices import Choice
from core.engine.optimizers import optimizer_arguments
from core.engine.zero_config import zero_config
from core.options import OutputOptions, TrainingOptions

SCHEDULES = {
    Schedule.LINEAR: "linear",
    Schedule.COSINE: "cosine",
    Schedule.POLYNOMIAL: "polynomial",
    Schedule.INVERSE_SQRT: "inverse_sqrt",
    Schedule.CONSTANT: "constant",
}


def trainer_arguments(choice: Choice, checkpoints: Path, *, has_eval: bool) -> dict[str, Any]:
    """Keyword arguments of `transformers.TrainingArguments` for a run.

    Args:
        choice: The device it gets, and what was asked with everything automatic settled.
        checkpoints: Where checkpoints go.
        has_eval: Whether there is held-out data.
    """
    options = choice.settled
    memory, training = options.memory, options.training
    zero = zero_config(options, choice.kind)
    return {
        "output_dir": str(checkpoints),
        "use_cpu": choice.kind == "cpu" and zero is None,  # accelerate takes DeepSpeed for something of GPUs
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
        "lr_scheduler_type": _schedule(training),
        "warmup_steps": training.warmup,
        **optimizer_arguments(choice),
        "max_grad_norm": training.max_grad_norm,
        "seed": training.seed,
        "full_determinism": training.deterministic,
        "eval_strategy": "epoch" if has_eval else "no",
        **_saving(options.output),
        **_precision(choice),
        **_loading(choice),
        "logging_strategy": "no",  # Hone's own callback reports each step
        "logging_nan_inf_filter": False,  # it would replace NaN by an average and hide it
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }


def _saving(output: OutputOptions) -> dict[str, Any]:
    if output.save_steps and output.keep_checkpoints:
        return {"save_strategy": "steps", "save_steps": output.save_steps}
    return {"save_strategy": "epoch" if output.keep_checkpoints else "no"}


def _schedule(training: TrainingOptions) -> str:
    """Trainer's name of the schedule; its plain "constant" knows no warm-up."""
    if training.schedule is Schedule.CONSTANT and training.warmup:
        return "constant_with_warmup"
    return SCHEDULES[training.schedule]


def _precision(choice: Choice) -> dict[str, Any]:
    in_config = choice.kind == "cpu" and choice.settled.memory.deepspeed is not DeepSpeed.OFF
    found: dict[str, Any] = {
        "bf16": choice.precision is Precision.BF16 and not in_config,
        "fp16": choice.precision is Precision.FP16,
    }
    if choice.kind == "cuda":  # said outright: torch's own default has changed over the years
        found["tf32"] = choice.precision is Precision.TF32
    return found


def _loading(choice: Choice) -> dict[str, Any]:
    data = choice.settled.data
    workers = data.workers or 0
    start = start_method(platform.system()) if workers else None
    return {
        "train_sampling_strategy": "group_by_length" if data.group_by_length is Toggle.ON else "random",
        "dataloader_num_workers": workers,
        "dataloader_prefetch_factor": data.prefetch if workers else None,
        "dataloader_persistent_workers": workers > 0,
        "dataloader_multiprocessing_context": start,
        "dataloader_pin_memory": data.pin_memory is Toggle.ON,
    }
