"""Hone's options as Trainer's arguments: the one place where the two vocabularies meet."""

from pathlib import Path
from typing import Any

from core.engine.devices import Choice
from core.options import Precision, RunOptions


def trainer_arguments(
    options: RunOptions, choice: Choice, checkpoints: Path, *, has_eval: bool
) -> dict[str, Any]:
    """Keyword arguments of `transformers.TrainingArguments` for a run.

    Args:
        options: What was asked.
        choice: The device and precision it gets.
        checkpoints: Where checkpoints go.
        has_eval: Whether there is held-out data.
    """
    data, memory, training = options.data, options.memory, options.training
    return {
        "output_dir": str(checkpoints),
        "use_cpu": choice.kind == "cpu",
        "bf16": choice.precision is Precision.BF16,
        "fp16": choice.precision is Precision.FP16,
        "per_device_train_batch_size": memory.batch_size,
        "per_device_eval_batch_size": memory.batch_size,
        "gradient_accumulation_steps": memory.gradient_accumulation_steps,
        "num_train_epochs": training.epochs,
        "max_steps": training.max_steps or -1,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": training.schedule.value,
        "warmup_steps": training.warmup,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.max_grad_norm,
        "seed": training.seed,
        "train_sampling_strategy": "group_by_length" if data.group_by_length else "random",
        "eval_strategy": "epoch" if has_eval else "no",
        "save_strategy": "epoch" if options.output.keep_checkpoints else "no",
        "dataloader_pin_memory": choice.kind == "cuda",
        "logging_strategy": "no",  # Hone's own callback reports each step
        "logging_nan_inf_filter": False,  # it would replace NaN by an average and hide it
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
