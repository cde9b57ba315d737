"""The methods a run uses, in words: what is trained, by which optimizer, with which attention, and how it is loaded."""

from PySide6.QtCore import QCoreApplication

from core.capabilities import settled_beside
from core.catalogue import value_of
from core.choices import DeepSpeed, Method, Padding, Toggle
from core.model_report import ModelReport
from core.option_words import plain_number
from core.options import ModelOptions, RunOptions
from core.reports import DeviceReport
from gui.numbers import compact_count
from gui.values import changed_options, value_words

_translate = QCoreApplication.translate

PATHS_OF_ROWS = {
    "model.pretrained": "Model",
    "model.method": "Trained",
    "model.quantization": "Trained",
    "model.lora_rank": "Trained",
    "model.lora_alpha": "Trained",
    "model.lora_dropout": "Trained",
    "model.lora_targets": "Trained",
    "model.attention": "Attention",
    "device.precision": "Precision",
    "memory.batch_size": "Batch",
    "memory.gradient_accumulation_steps": "Batch",
    "memory.activation_checkpointing": "Memory",
    "memory.deepspeed": "Memory",
    "memory.offload": "Memory",
    "memory.offload_folder": "Memory",
    "memory.offload_optimizer": "Memory",
    "training.epochs": "Steps",
    "training.max_steps": "Steps",
    "data.eval_fraction": "Data",
    "data.max_length": "Data",
    "data.image_size": "Data",
    "data.max_train_samples": "Data",
    "data.max_eval_samples": "Data",
}
"""The row of the summary in which an option shows; those that stand in none count with their section."""

ROWS_OF_SECTIONS = {"data": "Loading", "device": "Device", "training": "Optimizer"}


def trained_words(options: RunOptions, report: ModelReport | None = None) -> str:
    """Which weights move: `all weights`; with figures once they are known: `LoRA, rank 16 · 1,538 of 109 million`."""
    if report is None or not report.architecture or report.problems:
        return _method_words(options.model)
    trained, total = (
        compact_count(number) for number in (report.trainable_parameters, report.total_parameters)
    )
    if options.model.method is Method.FULL:
        return _translate("NewRun", "all {total} weights").format(total=total)
    text = _translate("NewRun", "{method} · {trained} of {total}")
    return text.format(method=_method_words(options.model), trained=trained, total=total)


def _method_words(model: ModelOptions) -> str:
    match model.method:
        case Method.FULL:
            return _translate("NewRun", "all weights")
        case Method.HEAD:
            return _translate("NewRun", "the last layer only")
        case Method.LORA:
            return _translate("NewRun", "LoRA, rank {rank:,}").format(rank=model.lora_rank)
        case Method.QLORA:
            text = _translate("NewRun", "QLoRA, rank {rank:,} beside {packed} weights")
            return text.format(rank=model.lora_rank, packed=model.quantization.value)


def optimizer_words(options: RunOptions) -> str:
    """The optimizer, and the rate it starts from."""
    training = options.training
    text = _translate("NewRun", "{optimizer}, learning rate {rate}")
    return text.format(optimizer=training.optimizer.label, rate=plain_number(training.learning_rate))


def attention_words(options: RunOptions) -> str:
    """How attention is computed; empty where the model has none."""
    return options.model.attention.label if options.task.reads_text else ""


def memory_words(options: RunOptions) -> str:
    """What is done to need less memory; empty: nothing."""
    memory = options.memory
    parts = []
    if memory.activation_checkpointing:
        parts.append(_translate("NewRun", "activations computed again"))
    if memory.deepspeed is not DeepSpeed.OFF:
        parts.append(f"DeepSpeed {memory.deepspeed.label}")
    if memory.offload_optimizer:
        parts.append(_translate("NewRun", "optimizer in main memory"))
    return ", ".join(parts)


def loading_words(options: RunOptions, device: DeviceReport | None, longest: int | None = None) -> str:
    """How batches are made: `grouped by length, 2 workers`. Rows grouped by length are padded dynamically.

    Args:
        options: What is asked.
        device: The device that computes; None: not known.
        longest: The most tokens the model can see; None: nothing limits it, or it isn't known.
    """
    parts = []
    if options.task.reads_text:
        is_grouped = _settled(options, device, "data.group_by_length") == Toggle.ON
        if options.data.padding is Padding.FIXED:
            text = _translate("NewRun", "padded to {length:,} tokens")
            parts.append(text.format(length=min(options.data.max_length, longest or options.data.max_length)))
        elif not is_grouped:
            parts.append(_translate("NewRun", "dynamic padding"))
        if is_grouped:
            parts.append(_translate("NewRun", "grouped by length"))
    workers = _settled(options, device, "data.workers")
    if workers not in ("", "0"):
        parts.append(_translate("NewRun", "{count} workers").format(count=workers))
    if _settled(options, device, "data.pin_memory") == Toggle.ON:
        parts.append(_translate("NewRun", "pinned memory"))
    return ", ".join(parts) or _translate("NewRun", "within the run, no workers")


def changes_by_row(options: RunOptions) -> dict[str, str]:
    """What differs from the defaults, in words, by the row of the summary it shows in."""
    found: dict[str, list[str]] = {}
    for option in changed_options(options):
        row = PATHS_OF_ROWS.get(option.path) or ROWS_OF_SECTIONS.get(option.section)
        if row:
            text = _translate("NewRun", "{option}: {value} (default: {default})")
            found.setdefault(row, []).append(
                text.format(
                    option=option.title,
                    value=value_words(option, value_of(options, option.path)),
                    default=value_words(option, option.default),
                )
            )
    return {row: "\n".join(lines) for row, lines in found.items()}


def _settled(options: RunOptions, device: DeviceReport | None, path: str) -> str:
    """What an automatic option comes to; empty where only the engine can tell."""
    value = value_of(options, path)
    if value not in (None, Toggle.AUTO):
        return str(value)
    settled = device.automatic.get(path) if device else None
    return settled_beside(settled, options).value if settled else ""
