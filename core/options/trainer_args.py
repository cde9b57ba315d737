"""Translate arguments of transformers' Trainer and of its example scripts.

Names as in TrainingArguments of transformers 5.23, in its guides of 2022 to 2024, and in the script run_glue.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.options import SECTIONS, Tree
from core.options.catalogue import all_options, copied, options_by_path, put, value_at
from core.options.choices import Attention, Optimizer, Schedule
from core.options.declare import Kind

# --- Names


OPTIMIZERS = {
    "adamw_torch": Optimizer.ADAMW,
    "adamw_torch_fused": Optimizer.ADAMW,
    "adamw_hf": Optimizer.ADAMW,
    "adamw_apex_fused": Optimizer.ADAMW,
    "adafactor": Optimizer.ADAFACTOR,
    "adamw_bnb_8bit": Optimizer.ADAMW_8BIT,
    "adamw_8bit": Optimizer.ADAMW_8BIT,
    "paged_adamw_8bit": Optimizer.PAGED_ADAMW_8BIT,
    "adamw_torch_8bit": Optimizer.ADAMW_8BIT_TORCHAO,
    "lion_8bit": Optimizer.LION_8BIT,
    "ademamix": Optimizer.ADEMAMIX,
    "sgd": Optimizer.SGD,
}
"""Every name somebody may have written."""

OPTIMIZER_NAMES = {
    Optimizer.ADAMW: "adamw_torch_fused",
    Optimizer.ADAM: "adamw_torch_fused",
    Optimizer.ADAFACTOR: "adafactor",
    Optimizer.ADAMW_8BIT: "adamw_bnb_8bit",
    Optimizer.PAGED_ADAMW_8BIT: "paged_adamw_8bit",
    Optimizer.ADAMW_8BIT_TORCHAO: "adamw_torch_8bit",
    Optimizer.LION_8BIT: "lion_8bit",
    Optimizer.ADEMAMIX: "ademamix",
    Optimizer.SGD: "sgd",
}
"""What Trainer 5.23 calls each; it has no name for Adam without the W, which `trainer_arguments` makes.

Fused means that one kernel updates all weights; torch has it on every device that Hone trains on.
"""

SCHEDULES = {
    "cosine_with_min_lr": Schedule.COSINE,
    "constant_with_warmup": Schedule.CONSTANT,
    "inverse_sqrt": Schedule.INVERSE_SQRT,
}
SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "training.optimizer": OPTIMIZERS,
    "training.schedule": SCHEDULES,
    "model.attention": {"flash_attn_2": Attention.FLASH_2},
}
"""Values people know, by the option they belong to."""

OBSOLETE: Mapping[str, str] = {
    "use_mps_device": "it is gone from Trainer, which takes an Apple GPU by itself",
    "no_cuda": "it is use_cpu in Trainer today",
    "per_gpu_train_batch_size": "it is per_device_train_batch_size in Trainer today",
    "gradient_checkpointing": "it is activation_checkpointing in Trainer today",
    "warmup_ratio": "it is warmup_steps below 1 in Trainer today",
    "group_by_length": 'it is train_sampling_strategy="group_by_length" in Trainer today',
    "adafactor": 'it is optim="adafactor" in Trainer today',
    "cosine_with_min_lr": "Hone's cosine falls to zero",
    "adamw_hf": "it is gone from Trainer; adamw_torch has taken its place",
    "adamw_apex_fused": "it is gone from Trainer; adamw_torch_fused has taken its place",
}
"""Names and values that Hone still understands and Trainer doesn't, and what Trainer calls them now."""

GONE: Mapping[str, str] = {
    "evaluation_strategy": "it is eval_strategy today; Hone evaluates after each epoch",
    "overwrite_output_dir": "each run has a folder of its own; nothing is overwritten",
    "fp16_backend": "there is one way left, torch's own autocast",
    "half_precision_backend": "there is one way left, torch's own autocast",
    "fp16_opt_level": "it belonged to apex; torch's autocast took its place (device.precision)",
    "sharded_ddp": "it belonged to fairscale; memory.deepspeed took its place",
    "xpu_backend": "it is ddp_backend today; Hone trains in one process",
    "tpu_num_cores": "Hone trains on CUDA, Apple's MPS and the CPU",
    "tpu_metrics_debug": "Hone trains on CUDA, Apple's MPS and the CPU",
    "push_to_hub_model_id": "it is hub_model_id today",
    "push_to_hub_token": "it is hub_token today",
    "jit_mode_eval": "it is gone from Trainer",
    "use_ipex": "it is gone from Trainer; bf16 on the CPU needs no extension today (device.precision)",
    "ipex": "it is gone from Trainer; bf16 on the CPU needs no extension today (device.precision)",
    "torchdynamo": "it is torch_compile_backend today (device.compile_backend)",
    "include_inputs_for_metrics": "it is gone from Trainer",
    "past_index": "it is gone from Trainer",
    "logging_dir": "Hone shows a run's figures itself",
}
"""Names that no longer exist, or mean nothing in Hone, and what became of them."""

BY_ITSELF: Mapping[str, str] = {
    "bf16_full_eval": "evaluation is computed as training is",
    "fp16_full_eval": "evaluation is computed as training is",
    "output_dir": "each run has a folder of its own",
    "do_train": "a run always trains",
    "do_eval": "a run evaluates after each epoch",
    "do_predict": "a run evaluates after each epoch",
    "remove_unused_columns": "Hone hands on what the model takes",
    "report_to": "nothing is sent anywhere; the run page shows it all",
    "run_name": "output.name is what the run is called",
    "per_device_eval_batch_size": "evaluation takes the batch size of training",
    "eval_strategy": "a run evaluates after each epoch",
    "save_strategy": "a checkpoint is saved after each epoch (output.keep_checkpoints)",
    "gradient_checkpointing_kwargs": "the way without re-entrance is taken, which suits every model",
    "disable_tqdm": "the progress is shown anyhow",
    "ddp_find_unused_parameters": "Hone trains in one process",
    "local_rank": "Hone trains in one process",
    "dataloader_persistent_workers": "workers stay for the whole run",
    "logging_nan_inf_filter": "a loss that is no number is always told",
    "trust_remote_code": "Hone runs no code that comes with a model",
    "cache_dir": "models are kept where the Hub's own library keeps them",
    "overwrite_cache": "Hone looks after its own caches",
    "use_fast_tokenizer": "fast tokenizers are always taken",
    "activation_checkpointing_kwargs": "the way without re-entrance is taken, which suits every model",
    "average_tokens_across_devices": "Hone trains in one process",
    "dataloader_in_order": "batches always come in their order",
    "dataloader_multiprocessing_context": "workers are started in the way this system needs",
    "length_column_name": "Hone measures the texts itself",
    "skip_memory_metrics": "memory is always measured",
    "log_level": "the log has everything",
    "log_level_replica": "Hone trains in one process",
    "log_on_each_node": "Hone trains in one process",
    "label_names": "the labels are those of the data",
    "use_cache": "nothing is kept between batches while a model trains",
    "project": "nothing is sent anywhere; the run page shows it all",
    "ignore_mismatched_sizes": "a head for other labels is replaced anyhow",
}
BY_ITSELF_BEGINNINGS = (
    "logging_",
    "save_",
    "eval_",
    "hub_",
    "push_to_hub",
    "ddp_",
    "include_",
    "load_best_",
    "metric_for_",
    "trackio_",
)
"""Beginnings of the names of what Hone decides by itself."""

NO_OPTION = frozenset(
    {
        "accelerator_config",
        "batch_eval_metrics",
        "data_seed",
        "dataloader_drop_last",
        "debug",
        "enable_jit_checkpoint",
        "fsdp",
        "fsdp_config",
        "greater_is_better",
        "ignore_data_skip",
        "label_smoothing_factor",
        "liger_kernel_config",
        "lr_scheduler_kwargs",
        "neftune_noise_alpha",
        "optim_args",
        "optim_target_modules",
        "parallelism_config",
        "prediction_loss_only",
        "restore_callback_states_from_checkpoint",
        "resume_from_checkpoint",
        "torch_empty_cache_steps",
        "use_liger_kernel",
    }
)
"""Names of Trainer that Hone has nothing for."""


# --- Translation


@dataclass(frozen=True)
class Known:
    """A name that a run file has another word for: options by their paths. `note` says what else there is to know."""

    values: dict[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Gone:
    """A name with nothing to take its place: `advice` says what became of it."""

    advice: str


def _switch(path: str, value: Any) -> Callable[[Any], Known]:
    """A name that asks for one value of an option where it is true, and for nothing where it is false."""
    return lambda given: Known({path: value} if is_true(given) else {})


def _label_of_device(value: Any) -> Known:
    return Known({"device.name": str(value)})


def _warm_up_share(value: Any) -> Known:
    if value in (1, 1.0, "1", "1.0"):
        return Known(
            {"training.warmup": 0.999}, "a share of 1 would be one step in Hone, so it is just below"
        )
    return Known({"training.warmup": value})


def _steps(value: Any) -> Known:
    return Known({} if value in (-1, "-1") else {"training.max_steps": value})  # -1: by epochs


def _sampling(value: Any) -> Known:
    return Known({"data.group_by_length": "on" if value == "group_by_length" else "off"})


def _padding(value: Any) -> Known:
    return Known({"data.padding": "fixed" if is_true(value) else "dynamic"})


def _pinned(value: Any) -> Known:
    """Trainer pins memory unless told not to; Hone does where it helps."""
    return Known({"data.pin_memory": "auto" if is_true(value) else "off"})


def _targets(value: Any) -> Known:
    if value == "all-linear":  # PEFT's word for what Hone takes anyhow
        return Known({"model.lora_targets": []})
    return Known({"model.lora_targets": [value] if isinstance(value, str) else value})


def _warm_up_steps(value: Any) -> Known:
    return Known({} if value in (0, 0.0, "0", "0.0") else {"training.warmup": value})


def _deepspeed(value: Any) -> Known:
    """DeepSpeed's settings, or where they are kept."""
    if not value:
        return Known({})
    zero = value.get("zero_optimization", {}) if isinstance(value, dict) else {}
    stage = zero.get("stage", 2) if isinstance(zero, dict) else 2
    told = "Hone writes DeepSpeed's other settings itself"
    if not isinstance(value, dict):
        told = "the file isn't read: choose between ZeRO-2 and ZeRO-3; Hone writes the settings itself"
    return Known({"memory.deepspeed": "zero-3" if stage == 3 else "zero-2"}, told)


SPECIAL: Mapping[str, Callable[[Any], Known]] = {
    "fp16": _switch("device.precision", "fp16"),
    "bf16": _switch("device.precision", "bf16"),
    "tf32": _switch("device.precision", "tf32"),
    "use_cpu": _switch("device.name", "cpu"),
    "no_cuda": _switch("device.name", "cpu"),
    "use_mps_device": _switch("device.name", "mps"),
    "device": _label_of_device,
    "adafactor": _switch("training.optimizer", "adafactor"),
    "load_in_4bit": lambda given: Known(
        {"model.method": "qlora", "model.quantization": "nf4"} if is_true(given) else {}
    ),
    "load_in_8bit": lambda given: Known(
        {"model.method": "qlora", "model.quantization": "int8"} if is_true(given) else {}
    ),
    "bnb_4bit_quant_type": lambda given: Known(
        {}, "" if given == "nf4" else f"Hone packs 4 bits as nf4, which is more exact than {given}"
    ),
    "task_name": lambda given: Known({}, f"choose your copy of the files of {given} as the data"),
    "train_dir": lambda given: Known({"data.train": str(given)}),
    "validation_dir": lambda given: Known({"data.eval": str(given)}),
    "use_lora": _switch("model.method", "lora"),
    "freeze_backbone": _switch("model.method", "head"),
    "warmup_ratio": _warm_up_share,
    "warmup_steps": _warm_up_steps,
    "dataloader_pin_memory": _pinned,
    "target_modules": _targets,
    "deepspeed": _deepspeed,
    "max_steps": _steps,
    "train_sampling_strategy": _sampling,
    "pad_to_max_length": _padding,
    "model_name_or_path": lambda given: Known({"model.source": str(given)}),
    "train_file": lambda given: Known({"data.train": str(given)}),
    "validation_file": lambda given: Known({"data.eval": str(given)}),
    "max_seq_length": lambda given: Known({"data.max_length": given}),
    "per_gpu_train_batch_size": lambda given: Known({"memory.batch_size": given}),
    "auto_find_batch_size": lambda _given: Known({}, "lower memory.batch_size where memory runs out"),
}
"""Names that are no mere other word for an option."""


def translate(name: str, value: Any) -> Known | Gone | None:
    """What a name and its value come to in a run file; None for a name nobody knows."""
    if name in SPECIAL:
        known = SPECIAL[name](value)
        return Known(known.values, "; ".join(filter(None, (known.note, OBSOLETE.get(name, "")))))
    path = _paths_by_name().get(name)
    if path is not None:
        return Known({path: spelling(path, value)}, OBSOLETE.get(name) or OBSOLETE.get(str(value), ""))
    if name in NO_OPTION and not value:
        return Known({})
    advice = _what_became_of(name)
    return Gone(advice) if advice else None


def _what_became_of(name: str) -> str:
    """Why a name of Trainer's is no option; empty for a name nobody knows."""
    if name in NO_OPTION:
        return "Hone has no option for it"
    decided = "Hone decides that itself" if name.startswith(BY_ITSELF_BEGINNINGS) else ""
    return GONE.get(name) or BY_ITSELF.get(name) or decided


def spelling(path: str, value: Any) -> Any:
    """Hone's word for a value of the option at `path`; any other value as it is."""
    if not isinstance(value, str):
        return value
    return str(SPELLINGS.get(path, {}).get(value, value))


def is_true(value: Any) -> bool:
    """Whether a switch is on, as JSON, TOML or a command line says it."""
    return value is True or str(value).lower() in ("true", "1", "yes", "on")


@cache
def _paths_by_name() -> dict[str, str]:
    """Options by their aliases and by their own names; a name that several have stands for none."""
    found: dict[str, str] = {}
    for option in all_options():
        for alias in option.aliases:
            found[alias] = option.path
    names = [option.name for option in all_options()]
    for option in all_options():
        if option.section and names.count(option.name) == 1:
            found.setdefault(option.name, option.path)
    return found


def typed(path: str, text: str) -> Any:
    """A value from a command line as the option at `path` takes it; text that doesn't fit stays text."""
    kind = options_by_path()[path].kind
    try:
        match kind:
            case Kind.WHOLE:
                return int(float(text)) if float(text) == int(float(text)) else float(text)
            case Kind.NUMBER:
                return float(text)
            case Kind.SWITCH:
                return is_true(text)
            case Kind.TEXTS:
                return [part.strip() for part in text.split(",") if part.strip()]
            case _:
                return text
    except (ValueError, OverflowError):
        return text


# --- Trainer's names in run files


PLAIN_KEYS = ("task", "schema")


@dataclass(frozen=True)
class Renamed:
    """A run file in Hone's words. `notes` say which names were put in which words."""

    tree: Tree
    notes: tuple[str, ...]


def in_our_words(tree: Tree) -> Renamed:
    """A copy of `tree` with Trainer's names replaced; those that contradict what else is said stay as they are."""
    copy = copied(tree)
    notes = [*_respelt(copy)]
    for where, name in list(_foreign(copy)):
        home = copy[where] if where else copy
        known = translate(name, home[name])
        if isinstance(known, Known) and not _contradicts(copy, known):
            del home[name]
            put(copy, known.values)
            notes.append(_note(name, known))
    return Renamed(copy, tuple(notes))


def _respelt(tree: Tree) -> Iterator[str]:
    """Put known values such as `adamw_torch` in Hone's words; says which."""
    for path in SPELLINGS:
        value = value_at(tree, path)
        ours = spelling(path, value)
        if ours != value:
            put(tree, {path: ours})
            yield f"{value} is {path} = {ours} here"


def explanation(tree: Tree, where: str, name: str) -> str:
    """What is to be said of a foreign name that could not be replaced; empty for a name nobody knows."""
    if name in _own_names():
        return ""
    home = tree[where] if where else tree
    known = translate(name, home[name])
    if isinstance(known, Gone):
        return f"is Trainer's, and no option of Hone: {known.advice}"
    if known is None or not known.values:
        return ""
    path = next(path for path, value in known.values.items() if value_at(tree, path) not in (None, value))
    asked, other = _shown(known.values[path]), _shown(value_at(tree, path))
    return f"asks for {path} = {asked}, but {path} = {other} is asked for too; keep one"


def _foreign(tree: Tree) -> Iterator[tuple[str, str]]:
    """Every name in the tree that is no option where it stands, and no option of Hone elsewhere: section and name."""
    for key, value in tree.items():
        if key in SECTIONS and isinstance(value, dict):
            for name in value:
                if f"{key}.{name}" not in options_by_path() and name not in _own_names():
                    yield key, name
        elif key not in PLAIN_KEYS and key not in SECTIONS and key not in _own_names():
            yield "", key


def _own_names() -> frozenset[str]:
    return frozenset(option.name for option in all_options())


def _contradicts(tree: Tree, known: Known) -> bool:
    sections = [tree.get(path.partition(".")[0], {}) for path in known.values]
    if not all(isinstance(section, dict) for section in sections):
        return True
    return any(value_at(tree, path) not in (None, value) for path, value in known.values.items())


def _note(name: str, known: Known) -> str:
    words = ", ".join(f"{path} = {_shown(value)}" for path, value in known.values.items())
    return ": ".join(part for part in (f"{name} is {words or 'left out'} here", known.note) if part)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
