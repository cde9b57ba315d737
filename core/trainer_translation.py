"""What a name of Trainer's, or of its scripts, comes to in a run file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.catalogue import Kind, all_options, options_by_path
from core.trainer_names import BY_ITSELF, BY_ITSELF_BEGINNINGS, GONE, NO_OPTION, OBSOLETE, SPELLINGS


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
