"""Trainer's arguments by their real names: what `core.engine.arguments` hands to Trainer, written out as code."""

from typing import Any

from core.choices import Optimizer, Precision, Schedule, Task, Toggle
from core.script.parts import Part, literal
from core.script.resolved import Resolved
from core.trainer_names import OPTIMIZER_NAMES

CLASSES = {Task.CHAT: "SFTConfig", Task.PREFERENCE: "DPOConfig"}
"""TRL's arguments; all other tasks take Trainer's own."""
BEST = {
    Task.TEXT_CLASSIFICATION: "accuracy",
    Task.IMAGE_CLASSIFICATION: "accuracy",
    Task.TOKEN_CLASSIFICATION: "accuracy",
    Task.TEXT_REGRESSION: "pearson",
}
"""What the best is judged by; elsewhere by the loss."""


def arguments(run: Resolved, *, has_eval: bool) -> dict[str, Any]:
    """Keyword arguments of `TrainingArguments`, those that say nothing left out."""
    options = run.options
    memory, training = options.memory, options.training
    found: dict[str, Any] = {
        "output_dir": "checkpoints",
        "use_cpu": run.kind == "cpu",
        "seed": training.seed,
        "full_determinism": training.deterministic,
        "per_device_train_batch_size": memory.batch_size,
        "per_device_eval_batch_size": memory.batch_size,
        "gradient_accumulation_steps": memory.gradient_accumulation_steps,
        "num_train_epochs": training.epochs,
        "max_steps": training.max_steps or -1,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": schedule(run),
        "warmup_steps": training.warmup,
        "optim": OPTIMIZER_NAMES[training.optimizer],
        **_numbers(run),
        "max_grad_norm": training.max_grad_norm,
        **_precision(run),
        **_checkpointing(run),
        **_compiling(run),
        **_loading(run),
        "eval_strategy": BY_EPOCH if has_eval else "no",
        **_saving(run, has_eval=has_eval),
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": "tensorboard" if options.output.tensorboard else "none",
        "remove_unused_columns": False,
        **_of_trl(run),
    }
    return {name: value for name, value in found.items() if value is not None}


def _saving(run: Resolved, *, has_eval: bool) -> dict[str, Any]:
    """When checkpoints are saved, and whether the best becomes the model."""
    output = run.options.output
    if has_eval and can_keep_best(run):
        metric = BEST.get(run.options.task, "loss")
        return {
            "save_strategy": BY_EPOCH,
            "save_total_limit": output.keep_checkpoints or 1,
            "load_best_model_at_end": IF_EVALUATED,
            "metric_for_best_model": metric,
            "greater_is_better": metric != "loss",
        }
    if not output.keep_checkpoints:
        return {"save_strategy": "no"}
    if output.save_steps:
        found: dict[str, Any] = {"save_strategy": "steps", "save_steps": output.save_steps}
    else:
        found = {"save_strategy": "epoch"}
    return {**found, "save_total_limit": output.keep_checkpoints}


def can_keep_best(run: Resolved) -> bool:
    """Whether the best is asked for, and saved where it is evaluated: after each epoch."""
    output = run.options.output
    return output.keep_best and not (output.save_steps and output.keep_checkpoints)


def _numbers(run: Resolved) -> dict[str, Any]:
    training = run.options.training
    found: dict[str, Any] = {
        "adam_beta1": training.beta1,
        "adam_beta2": training.beta2,
        "adam_epsilon": training.epsilon,
        "weight_decay": training.weight_decay,
    }
    if training.optimizer is Optimizer.SGD:
        found["optim_args"] = f"momentum={training.momentum!r}"
    return found


def schedule(run: Resolved) -> str:
    """Trainer's name of the schedule; its plain "constant" knows no warm-up."""
    training = run.options.training
    if training.schedule is Schedule.CONSTANT and training.warmup:
        return "constant_with_warmup"
    return training.schedule.value.replace("-", "_")


def _precision(run: Resolved) -> dict[str, Any]:
    precision = run.options.device.precision
    found: dict[str, Any] = {"bf16": precision is Precision.BF16, "fp16": precision is Precision.FP16}
    if run.kind == "cuda":
        found["tf32"] = precision is Precision.TF32
    return found


def _checkpointing(run: Resolved) -> dict[str, Any]:
    asked = run.options.memory.activation_checkpointing and not is_torchvision(run)
    found: dict[str, Any] = {"activation_checkpointing": asked}
    if asked:
        found["activation_checkpointing_kwargs"] = {"use_reentrant": False}
    return found


def is_torchvision(run: Resolved) -> bool:
    """Whether the model is one of torchvision's."""
    return run.options.model.source.startswith("torchvision:")


def _compiling(run: Resolved) -> dict[str, Any]:
    device = run.options.device
    if not device.compile:
        return {}
    found: dict[str, Any] = {"torch_compile": True, "torch_compile_backend": device.compile_backend}
    if device.compile_backend == "inductor":
        found["torch_compile_mode"] = device.compile_mode
    return found


def _loading(run: Resolved) -> dict[str, Any]:
    data = run.options.data
    grouped = data.group_by_length is Toggle.ON and run.options.task.reads_text
    found: dict[str, Any] = {
        "train_sampling_strategy": "group_by_length" if grouped else "random",
        "dataloader_num_workers": data.workers or 0,
        "dataloader_pin_memory": data.pin_memory is Toggle.ON,
    }
    if data.workers:
        found["dataloader_prefetch_factor"] = data.prefetch
        found["dataloader_persistent_workers"] = True
    return found


def _of_trl(run: Resolved) -> dict[str, Any]:
    match run.options.task:
        case Task.CHAT:
            return {
                "dataset_kwargs": {"skip_prepare_dataset": True},
                "max_length": NONE,
                "activation_offloading": False,
            }
        case Task.PREFERENCE:
            return {"beta": run.options.training.beta, "max_length": NONE, "disable_dropout": False}
    return {}


class _Code(str):
    """A value that is written as it stands."""


NONE = _Code("None")
IF_EVALUATED = _Code("bool(evaluation)")
BY_EPOCH = _Code('"epoch" if evaluation else "no"')

WHY = {
    "use_cpu": "the CPU, also where there is a GPU",
    "warmup_steps": "below 1 it is a share of the run",
    "logging_nan_inf_filter": "or a loss that is no number would be logged as an average",
    "remove_unused_columns": "the collator takes what it needs",
    "activation_checkpointing": "activations are computed again for the gradients",
    "dataset_kwargs": "the samples are tokens already",
    "max_length": "they are cut off already",
    "tf32": "how CUDA multiplies fp32",
}
"""What a reader may ask of an argument."""


def _code(value: Any) -> str:
    return str(value) if isinstance(value, _Code) else literal(value)


def written(run: Resolved, *, has_eval: bool) -> Part:
    """The arguments as code."""
    name = CLASSES.get(run.options.task, "TrainingArguments")
    module = "trl" if run.options.task in CLASSES else "transformers"
    found = arguments(run, has_eval=has_eval)
    lines = [f"arguments = {name}("]
    for key, value in found.items():
        why = f"  # {WHY[key]}" if key in WHY else ""
        lines.append(f"    {key}={_code(value)},{why}")
    return Part("How it is trained.", "\n".join([*lines, ")"]), (f"from {module} import {name}",))
