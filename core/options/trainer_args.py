"""Translate arguments of transformers' Trainer and of its example scripts.

Names as in TrainingArguments of transformers 5.23, in its guides of 2022 to 2024, and in the script run_glue.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.base.language import _
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
    "use_mps_device": _("it is gone from Trainer, which takes an Apple GPU by itself"),
    "no_cuda": _("it is use_cpu in Trainer today"),
    "per_gpu_train_batch_size": _("it is per_device_train_batch_size in Trainer today"),
    "gradient_checkpointing": _("it is activation_checkpointing in Trainer today"),
    "warmup_ratio": _("it is warmup_steps below 1 in Trainer today"),
    "group_by_length": 'it is train_sampling_strategy="group_by_length" in Trainer today',
    "adafactor": 'it is optim="adafactor" in Trainer today',
    "cosine_with_min_lr": _("Hone's cosine falls to zero"),
    "adamw_hf": "it is gone from Trainer; adamw_torch has taken its place",
    "adamw_apex_fused": "it is gone from Trainer; adamw_torch_fused has taken its place",
}
"""Names and values that Hone still understands and Trainer doesn't, and what Trainer calls them now."""


def _by_name(advice: Mapping[str, str]) -> dict[str, str]:
    return {name: words for words, names in advice.items() for name in names.split()}


GONE = _by_name(
    {
        "it is eval_strategy today; Hone evaluates after each epoch": "evaluation_strategy",
        "each run has a folder of its own; nothing is overwritten": "overwrite_output_dir",
        "there is one way left, torch's own autocast": "fp16_backend half_precision_backend",
        "it belonged to apex; torch's autocast took its place (device.precision)": "fp16_opt_level",
        "it belonged to fairscale; memory.deepspeed took its place": "sharded_ddp",
        "it is ddp_backend today; Hone trains in one process": "xpu_backend",
        "Hone trains on CUDA, Apple's MPS and the CPU": "tpu_num_cores tpu_metrics_debug",
        "it is hub_model_id today": "push_to_hub_model_id",
        "it is hub_token today": "push_to_hub_token",
        "it is gone from Trainer; bf16 on the CPU needs no extension today (device.precision)": "use_ipex ipex",
        "it is torch_compile_backend today (device.compile_backend)": "torchdynamo",
        "it is gone from Trainer": "jit_mode_eval include_inputs_for_metrics past_index",
        "Hone shows a run's figures itself": "logging_dir",
    }
)
"""Names that no longer exist, or mean nothing in Hone, and what became of them."""

BY_ITSELF = _by_name(
    {
        "each run has a folder of its own": "output_dir",
        "a run trains, and evaluates after each epoch": "do_train do_eval do_predict eval_strategy",
        "nothing is sent anywhere; the run page shows it all": "report_to project",
        "output.name is what the run is called": "run_name",
        "evaluation takes the batch size of training": "per_device_eval_batch_size",
        "a checkpoint is saved after each epoch (output.keep_checkpoints)": "save_strategy",
        "Hone trains in one process": "ddp_find_unused_parameters local_rank average_tokens_across_devices "
        "log_level_replica log_on_each_node",
        "Hone runs no code that comes with a model": "trust_remote_code",
        "models are kept where the Hub's own library keeps them": "cache_dir",
        "the labels are those of the data": "label_names",
        "Hone decides that itself": "bf16_full_eval fp16_full_eval remove_unused_columns disable_tqdm "
        "gradient_checkpointing_kwargs activation_checkpointing_kwargs dataloader_persistent_workers "
        "dataloader_in_order dataloader_multiprocessing_context overwrite_cache use_fast_tokenizer "
        "length_column_name skip_memory_metrics log_level use_cache ignore_mismatched_sizes",
    }
)
BY_ITSELF_BEGINNINGS = (
    *("logging_", "save_", "eval_", "hub_", "push_to_hub", "ddp_", "include_", "load_best_", "metric_for_"),
    "trackio_",
)
"""Beginnings of the names of what Hone decides by itself."""

NO_OPTION = _by_name(
    {
        "Hone has no option for it": "accelerator_config batch_eval_metrics data_seed dataloader_drop_last debug "
        "enable_jit_checkpoint fsdp fsdp_config greater_is_better ignore_data_skip label_smoothing_factor "
        "liger_kernel_config lr_scheduler_kwargs neftune_noise_alpha optim_args optim_target_modules "
        "parallelism_config prediction_loss_only restore_callback_states_from_checkpoint resume_from_checkpoint "
        "torch_empty_cache_steps use_liger_kernel"
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


Translation = Callable[[Any], Known]


def _switch(**values: Any) -> Translation:
    """A name that asks for values of options (`section__name`) where it is true, and for nothing where it is false."""
    changes = {path.replace("__", "."): value for path, value in values.items()}
    return lambda given: Known(changes if is_true(given) else {})


def _either(path: str, on: str, off: str) -> Translation:
    return lambda given: Known({path: on if is_true(given) else off})


def _unless(path: str, ignored: tuple[Any, ...]) -> Translation:
    """A name that asks for nothing with some values, such as -1 for "by epochs"."""
    return lambda given: Known({} if given in ignored else {path: given})


def _note(words: str) -> Translation:
    return lambda given: Known({}, words.format(given))


def _warm_up_ratio(value: Any) -> Known:
    if value in (1, 1.0, "1", "1.0"):
        note = _("a fraction of 1 would be one step in Hone, so it is just below")
        return Known({"training.warmup": 0.999}, note)
    return Known({"training.warmup": value})


def _targets(value: Any) -> Known:
    if value == "all-linear":  # PEFT's word for Hone's default
        return Known({"model.lora_targets": []})
    return Known({"model.lora_targets": [value] if isinstance(value, str) else value})


def _deepspeed(value: Any) -> Known:
    """DeepSpeed's settings, or where they are kept."""
    if not value:
        return Known({})
    zero = value.get("zero_optimization", {}) if isinstance(value, dict) else {}
    stage = zero.get("stage", 2) if isinstance(zero, dict) else 2
    note = _("Hone writes DeepSpeed's other settings itself")
    if not isinstance(value, dict):
        note = "the file isn't read: choose between ZeRO-2 and ZeRO-3; Hone writes the settings itself"
    return Known({"memory.deepspeed": "zero-3" if stage == 3 else "zero-2"}, note)


SPECIAL: Mapping[str, Translation] = {
    "fp16": _switch(device__precision="fp16"),
    "bf16": _switch(device__precision="bf16"),
    "tf32": _switch(device__precision="tf32"),
    "use_cpu": _switch(device__name="cpu"),
    "no_cuda": _switch(device__name="cpu"),
    "use_mps_device": _switch(device__name="mps"),
    "adafactor": _switch(training__optimizer="adafactor"),
    "use_lora": _switch(model__method="lora"),
    "freeze_backbone": _switch(model__method="head"),
    "load_in_4bit": _switch(model__method="qlora", model__quantization="nf4"),
    "load_in_8bit": _switch(model__method="qlora", model__quantization="int8"),
    "bnb_4bit_quant_type": lambda given: Known(
        {},
        ""
        if given == "nf4"
        else _("Hone packs 4 bits as nf4, which is more exact than {given}").format(given=given),
    ),
    "task_name": _note(_("choose your copy of the files of {} as the data")),
    "auto_find_batch_size": _note(_("lower memory.batch_size where memory runs out")),
    "device": lambda given: Known({"device.name": str(given)}),
    "model_name_or_path": lambda given: Known({"model.source": str(given)}),
    "train_dir": lambda given: Known({"data.train": str(given)}),
    "train_file": lambda given: Known({"data.train": str(given)}),
    "validation_dir": lambda given: Known({"data.eval": str(given)}),
    "validation_file": lambda given: Known({"data.eval": str(given)}),
    "max_seq_length": lambda given: Known({"data.max_length": given}),
    "per_gpu_train_batch_size": lambda given: Known({"memory.batch_size": given}),
    "warmup_ratio": _warm_up_ratio,
    "warmup_steps": _unless("training.warmup", (0, 0.0, "0", "0.0")),
    "max_steps": _unless("training.max_steps", (-1, "-1")),  # by epochs
    "target_modules": _targets,
    "deepspeed": _deepspeed,
    "dataloader_pin_memory": _either("data.pin_memory", "auto", "off"),  # Hone pins where it helps
    "pad_to_max_length": _either("data.padding", "fixed", "dynamic"),
    "train_sampling_strategy": lambda given: Known(
        {"data.group_by_length": "on" if given == "group_by_length" else "off"}
    ),
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
    if name in NO_OPTION:
        return Gone(NO_OPTION[name]) if value else Known({})
    advice = GONE.get(name) or BY_ITSELF.get(name)
    if not advice and name.startswith(BY_ITSELF_BEGINNINGS):
        advice = _("Hone decides that itself")
    return Gone(advice) if advice else None


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


def typed(path: str, text: Any) -> Any:
    """A value from a command line as the option at `path` takes it; what doesn't fit, or is no text, stays."""
    if not isinstance(text, str):
        return text
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


@dataclass(frozen=True)
class Renamed:
    """A run file in Hone's words. `notes` say which names were replaced."""

    tree: Tree
    notes: tuple[str, ...]


def in_our_words(tree: Tree) -> Renamed:
    """A copy of `tree` with Trainer's names replaced; those that contradict what else is said stay as they are."""
    copy, notes = copied(tree), []
    for path in SPELLINGS:
        value = value_at(copy, path)
        ours = spelling(path, value)
        if ours != value:
            put(copy, {path: ours})
            notes.append(f"{value} is {path} = {ours} here")
    for where, name in list(_foreign(copy)):
        home = copy[where] if where else copy
        known = translate(name, home[name])
        if isinstance(known, Known) and not _contradicts(copy, known):
            del home[name]
            put(copy, known.values)
            words = ", ".join(f"{path} = {_shown(value)}" for path, value in known.values.items())
            notes.append(
                ": ".join(
                    filter(
                        None,
                        (
                            _("{name} is {words} here").format(name=name, words=words or "left out"),
                            known.note,
                        ),
                    )
                )
            )
    return Renamed(copy, tuple(notes))


def explanation(tree: Tree, where: str, name: str) -> str:
    """What is to be said of a foreign name that could not be replaced; empty for a name nobody knows."""
    if name in _own_names():
        return ""
    known = translate(name, (tree[where] if where else tree)[name])
    if isinstance(known, Gone):
        return _("is Trainer's, and no option of Hone: {advice}").format(advice=known.advice)
    if known is None or not known.values:
        return ""
    path = next(path for path, value in known.values.items() if value_at(tree, path) not in (None, value))
    asked, other = _shown(known.values[path]), _shown(value_at(tree, path))
    return f"asks for {path} = {asked}, but {path} = {other} is asked for too; keep one"


def _foreign(tree: Tree) -> Iterator[tuple[str, str]]:
    """Every name in the tree that is no option where it stands, and no option of Hone elsewhere: section and name."""
    for key, value in tree.items():
        if key in SECTIONS:
            names = value if isinstance(value, dict) else ()
            yield from ((key, name) for name in names if name not in _own_names())
        elif key != "schema" and key not in _own_names():
            yield "", key


def _own_names() -> frozenset[str]:
    return frozenset(option.name for option in all_options())


def _contradicts(tree: Tree, known: Known) -> bool:
    if not all(isinstance(tree.get(path.partition(".")[0], {}), dict) for path in known.values):
        return True
    return any(value_at(tree, path) not in (None, value) for path, value in known.values.items())


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
