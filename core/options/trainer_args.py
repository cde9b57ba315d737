"""Translate arguments of transformers' Trainer and of its example scripts to options.

Names as in TrainingArguments of transformers 5.23, in its guides of 2022 to 2024, and in the script run_glue.py.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from core.base.language import _
from core.options import SECTIONS, Tree
from core.options.catalogue import all_options, copied, put, value_at
from core.options.choices import Attention, Optimizer, Schedule
from core.options.sections import TrainingOptions

# --- Names


OPTIMIZER_NAMES = {
    Optimizer.ADAMW: "adamw_torch_fused",
    Optimizer.ADAM: "adamw_torch_fused",
    Optimizer.ADAFACTOR: "adafactor",
    Optimizer.ADAMW_8BIT: "adamw_bnb_8bit",
    Optimizer.PAGED_ADAMW_8BIT: "paged_adamw_8bit",
    Optimizer.ADAMW_8BIT_TORCHAO: "adamw_torch_8bit",
    Optimizer.LION: "adamw_torch_fused",
    Optimizer.LION_8BIT: "lion_8bit",
    Optimizer.ADEMAMIX: "ademamix",
    Optimizer.SGD: "sgd",
}
"""Names in Trainer 5.23. It has none for plain Adam, and its Lion is bitsandbytes', which not every computer has:
`core.engine.training.arguments` makes these two. Muon is MLX's."""


def schedule_name(training: TrainingOptions) -> str:
    """Returns Trainer's name of the schedule."""
    if training.schedule is Schedule.CONSTANT and training.warmup:
        return "constant_with_warmup"
    return training.schedule.value.replace("-", "_")


_OWN = (Optimizer.ADAM, Optimizer.LION)
_OPTIMIZERS = {name: kind for kind, name in OPTIMIZER_NAMES.items() if kind not in _OWN} | {
    "adamw_torch": Optimizer.ADAMW,
    "lion_32bit": Optimizer.LION,
    "adamw_hf": Optimizer.ADAMW,
    "adamw_apex_fused": Optimizer.ADAMW,
    "adamw_8bit": Optimizer.ADAMW_8BIT,
}
"""Optimizers by the names that scripts use."""

SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "training.optimizer": _OPTIMIZERS,
    "training.schedule": {
        "cosine_with_min_lr": Schedule.COSINE,
        "constant_with_warmup": Schedule.CONSTANT,
        "inverse_sqrt": Schedule.INVERSE_SQRT,
    },
    "model.attention": {"flash_attn_2": Attention.FLASH_2},
}
"""Other names of values, by the path of the option."""

OBSOLETE: Mapping[str, str] = {
    "use_mps_device": _("removed from Trainer, which selects an Apple GPU by itself"),
    "no_cuda": _("today called {name} in Trainer").format(name="use_cpu"),
    "per_gpu_train_batch_size": _("today called {name} in Trainer").format(
        name="per_device_train_batch_size"
    ),
    "gradient_checkpointing": _("today called {name} in Trainer").format(name="activation_checkpointing"),
    "warmup_ratio": _("today warmup_steps below 1 in Trainer"),
    "group_by_length": _("today called {name} in Trainer").format(name="train_sampling_strategy"),
    "adafactor": _("today called {name} in Trainer").format(name="optim"),
    "cosine_with_min_lr": _("Hone's cosine decreases to zero"),
    "adamw_hf": _("today called {name} in Trainer").format(name="adamw_torch"),
    "adamw_apex_fused": _("today called {name} in Trainer").format(name="adamw_torch_fused"),
}
"""Names and values that Hone still accepts although Trainer has dropped them, and what replaced them."""


def _by_name(names_by_reason: Mapping[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in names_by_reason.items() for name in names.split()}


GONE = _by_name(
    {
        _("today called eval_strategy; training.eval_steps sets it"): "evaluation_strategy",
        _("each run has its own folder; nothing is overwritten"): "overwrite_output_dir",
        _(
            "replaced by torch's autocast (device.precision)"
        ): "fp16_backend half_precision_backend fp16_opt_level",
        _("replaced by memory.deepspeed"): "sharded_ddp",
        _("Hone chooses it"): "xpu_backend",
        _("Hone trains on CUDA, Apple's MPS and the CPU"): "tpu_num_cores tpu_metrics_debug",
        _("Hone sends nothing to the Hub during training"): "push_to_hub_model_id push_to_hub_token",
        _("replaced by device.precision"): "use_ipex ipex",
        _("replaced by device.compile_backend"): "torchdynamo",
        _("removed from Trainer"): "jit_mode_eval include_inputs_for_metrics past_index",
        _("Hone shows a run's metrics itself"): "logging_dir",
    }
)
"""Names that Trainer has dropped and that are no option of Hone, with the reason."""

UNSUPPORTED = _by_name(
    {
        _("each run has its own folder"): "output_dir",
        _("a run trains and evaluates"): "do_train do_eval do_predict",
        _("training.eval_steps sets it: 0 is after each epoch"): "eval_strategy",
        _("nothing is sent anywhere; the run page shows all metrics"): "report_to project",
        _("set output.name instead"): "run_name",
        _("evaluation uses the batch size of training"): "per_device_eval_batch_size",
        _("set output.save_steps and output.keep_checkpoints instead"): "save_strategy",
        _(
            "Hone sets it for several processes"
        ): "ddp_find_unused_parameters local_rank average_tokens_across_devices "
        "log_level_replica log_on_each_node",
        _("Hone never runs code that comes with a model"): "trust_remote_code",
        _("models are stored in the cache of huggingface_hub"): "cache_dir",
        _("the labels are those of the data"): "label_names",
        _("choose your copy of this task's files as the data"): "task_name",
        _("lower memory.batch_size if memory runs out"): "auto_find_batch_size",
        _("Hone always quantizes 4-bit weights to nf4"): "bnb_4bit_quant_type",
        _("Hone decides this itself"): "bf16_full_eval fp16_full_eval remove_unused_columns disable_tqdm "
        "gradient_checkpointing_kwargs activation_checkpointing_kwargs dataloader_persistent_workers "
        "dataloader_in_order dataloader_multiprocessing_context overwrite_cache use_fast_tokenizer "
        "length_column_name skip_memory_metrics log_level use_cache ignore_mismatched_sizes",
        _(
            "Hone has no option for it"
        ): "accelerator_config batch_eval_metrics data_seed dataloader_drop_last debug "
        "enable_jit_checkpoint fsdp_config greater_is_better ignore_data_skip label_smoothing_factor "
        "liger_kernel_config lr_scheduler_kwargs neftune_noise_alpha optim_args optim_target_modules "
        "parallelism_config prediction_loss_only restore_callback_states_from_checkpoint resume_from_checkpoint "
        "use_liger_kernel",
    }
)
"""Names of today's Trainer and its scripts that are no option of Hone, with the reason."""

DECIDED_BY_HONE = ("logging_", "save_", "eval_", "hub_", "push_to_hub", "ddp_", "include_", "trackio_")
"""Beginnings of further names that are no option of Hone."""

PATHS: Mapping[str, str] = {
    "device": "device.name",
    "model_name_or_path": "model.source",
    "train_dir": "data.train",
    "train_file": "data.train",
    "validation_dir": "data.eval",
    "validation_file": "data.eval",
    "max_seq_length": "data.max_length",
    "pad_to_max_length": "data.padding",
    "train_sampling_strategy": "data.group_by_length",
    "per_gpu_train_batch_size": "memory.batch_size",
    "deepspeed": "memory.deepspeed",
    "fsdp": "memory.fsdp",
}
"""Options by names of Trainer and its scripts, besides the aliases that options declare."""

SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "fp16": {"device.precision": "fp16"},
    "bf16": {"device.precision": "bf16"},
    "tf32": {"device.precision": "tf32"},
    "use_cpu": {"device.name": "cpu"},
    "no_cuda": {"device.name": "cpu"},
    "use_mps_device": {"device.name": "mps"},
    "adafactor": {"training.optimizer": "adafactor"},
    "use_lora": {"model.method": "lora"},
    "freeze_backbone": {"model.method": "head"},
    "load_in_4bit": {"model.method": "qlora", "model.quantization": "nf4"},
    "load_in_8bit": {"model.method": "qlora", "model.quantization": "int8"},
}
"""Arguments that set these options if true, and none if false."""


# --- Translation


class Translation(NamedTuple):
    """The options that an argument sets, by path, and a note about it. A note alone says why it sets none."""

    values: dict[str, Any]
    note: str = ""


def translate(name: str, value: Any) -> Translation | None:
    """Translates an argument. Returns None if its name is unknown."""
    path = _paths_by_name().get(name)
    if name in SWITCHES:
        values = dict(SWITCHES[name]) if is_true(value) else {}
    elif path is not None:
        converted = _convert(name, path, value)
        values = {} if converted is None else {path: converted}
    else:
        reason = GONE.get(name) or UNSUPPORTED.get(name)
        if not reason and name.startswith(DECIDED_BY_HONE):
            reason = _("Hone decides this itself")
        return Translation({}, reason if value else "") if reason else None
    return Translation(values, (OBSOLETE.get(name) or OBSOLETE.get(str(value), "")) if values else "")


def _convert(name: str, path: str, value: Any) -> Any:
    """Converts the value of an argument to one of the option at `path`. Returns None if it sets nothing."""
    match name, value:
        # as many as there are epochs; no warm-up
        case ("max_steps", -1 | "-1") | ("warmup_steps", 0 | "0" | "0.0"):
            return None
        case "pad_to_multiple_of", "auto" | "none":  # TRL's
            return None
        case "warmup_ratio", 1 | "1" | "1.0":  # Hone reads 1 as one step
            return 0.999
        case "target_modules", "all-linear":
            return []
        case "target_modules", str() if "," not in value:
            return [value]
        case "metric_for_best_model", str():
            return value.removeprefix("eval_")
        case "dataloader_pin_memory", _value:
            return "auto" if is_true(value) else "off"
        case "pad_to_max_length", _value:
            return "fixed" if is_true(value) else "dynamic"
        case "train_sampling_strategy", _value:
            return "on" if value == "group_by_length" else "off"
        case "deepspeed", {"zero_optimization": {"stage": 3}}:
            return "zero-3"
        case "deepspeed", _value:  # a file with settings isn't read: the stage is unknown
            return "zero-2" if value else None
        case "fsdp", _value:  # older ones name the kind of division
            return bool(value)
    return spelling(path, value)


def spelling(path: str, value: Any) -> Any:
    """Returns the name that Hone uses for a value of the option at `path`; other values are returned unchanged."""
    return str(SPELLINGS.get(path, {}).get(value, value)) if isinstance(value, str) else value


def is_true(value: Any) -> bool:
    """Returns whether a switch of JSON, TOML or a command line is on."""
    return value is True or str(value).lower() in ("true", "1", "yes", "on")


@cache
def _paths_by_name() -> dict[str, str]:
    """Returns paths of options by alias, and by their own name if only one option has it."""
    options = all_options()[1:]
    names = [option.name for option in options]
    unique = {option.name: option.path for option in options if names.count(option.name) == 1}
    return unique | {alias: option.path for option in options for alias in option.aliases} | dict(PATHS)


# --- Trainer's names in run files


def rename_arguments(tree: Tree) -> tuple[Tree, tuple[str, ...]]:
    """Replaces Trainer's names and values in a copy of a run file.

    Returns:
        The copy, and a note for each name that was replaced. Names that contradict another entry or that Hone doesn't
        support are left where they are, so that validation reports them (see `explain_argument`).
    """
    tree, notes = copied(tree), []
    for path in SPELLINGS:
        value = value_at(tree, path)
        if spelling(path, value) != value:
            put(tree, {path: spelling(path, value)})
            notes.append(
                _("{name} is {values} here").format(name=value, values=f"{path} = {value_at(tree, path)}")
            )
    for section, name in list(_foreign_names(tree)):
        entries = tree[section] if section else tree
        translation = translate(name, entries[name])
        if translation is None or explain_argument(tree, section, name):
            continue
        del entries[name]
        put(tree, translation.values)
        values = ", ".join(f"{path} = {_shown(value)}" for path, value in translation.values.items())
        note = _("{name} is {values} here").format(name=name, values=values or _("left out"))
        notes.append(f"{note}: {translation.note}" if translation.note else note)
    return tree, tuple(notes)


def explain_argument(tree: Tree, section: str, name: str) -> str:
    """Explains why an argument of Trainer can't be used in a run file. Empty if it can, or if its name is unknown."""
    translation = translate(name, (tree[section] if section else tree)[name])
    if translation is None or name in _option_names():
        return ""
    if translation.note and not translation.values:
        return _("is an argument of Trainer and no option of Hone: {reason}").format(reason=translation.note)
    for path, value in translation.values.items():
        other = value_at(tree, path)
        if other not in (None, value):
            return _("asks for {path} = {value}, but {path} = {other} is given too; keep one").format(
                path=path, value=_shown(value), other=_shown(other)
            )
    return ""


def _foreign_names(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yields section and name of each entry whose name is no option's; the section is empty at the top level."""
    for key, value in tree.items():
        if key in SECTIONS:
            names = value if isinstance(value, dict) else ()
            yield from ((key, name) for name in names if name not in _option_names())
        elif key != "schema" and key not in _option_names():
            yield "", key


@cache
def _option_names() -> frozenset[str]:
    return frozenset(option.name for option in all_options())


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
