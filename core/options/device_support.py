"""What a device supports: the engine's report about this computer, and `auto` resolved for a device."""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import msgspec

from core.base.errors import Fix, Problem
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_of
from core.options.choices import Method, Optimizer, Precision
from core.options.declare import Option
from core.options.sources import VISION_MODELS, Scheme

# --- Options that depend on device or model


OF_MACHINES: Mapping[str, tuple[str, ...]] = {
    "device.name": ("cpu",),
    "device.precision": ("fp32",),
    "device.compile": (),
    "device.compile_backend": (),
    "device.compile_mode": (),
    "device.processes": (),
    "model.method": ("lora", "head"),
    "model.attention": ("eager",),
    "data.pin_memory": ("off",),
    "memory.deepspeed": (),
    "memory.offload_optimizer": (),
    "training.optimizer": ("adam", "adafactor", "sgd"),
}
"""Options whose values some machine refuses, each with the values that none does, beside its default.

A test holds this against recorded machines.
"""

OF_MODELS = ("model.method", "model.attention", "memory.activation_checkpointing")
"""Options whose values some model refuses; none refuses their defaults."""


def machine_may_refuse(options: RunOptions) -> bool:
    """Whether some machine refuses anything of `options`."""
    return any(
        value_of(options, path) not in (options_by_path()[path].default, *values)
        for path, values in OF_MACHINES.items()
    )


def model_may_refuse(options: RunOptions) -> bool:
    """Whether some model lacks anything that `options` ask for."""
    return any(value_of(options, path) != options_by_path()[path].default for path in OF_MODELS)


# --- Report of the engine


class Instead(msgspec.Struct, frozen=True):
    """What "automatic" comes to where another option, at `path`, has the value `beside`."""

    path: str
    beside: str
    value: str
    reason: str


class Settled(msgspec.Struct, frozen=True):
    """What "automatic" comes to for one option on one device, and why; `instead`, where other options matter."""

    value: str
    reason: str
    instead: tuple[Instead, ...] = ()


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device a run could be asked for.

    `name` is what goes into `device.name`. `reason` says why it isn't available and what to do, empty where it is.
    `refusals` holds, by option and value (`{"training.optimizer": {"adamw-8bit": "..."}}`), why that choice can't be
    taken on this device, `cautions` what to know before taking it; what stands in neither works. The value `*` stands
    for every value but the option's default. `automatic` says what "auto" comes to. Bytes are bytes.
    """

    name: str
    title: str
    available: bool
    reason: str = ""
    memory_bytes: int | None = None
    refusals: dict[str, dict[str, str]] = {}
    cautions: dict[str, dict[str, str]] = {}
    automatic: dict[str, Settled] = {}


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """All devices, the available and the others, and what `device.name = "auto"` would take.

    `choices` lists the values of the options that only this PyTorch can list (`device.compile_backend`); `notes` are
    plain sentences about this machine that matter for training (an x86 Python on an Apple chip, ...).
    """

    devices: tuple[DeviceReport, ...]
    automatic: str
    choices: dict[str, tuple[str, ...]] = {}
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()


# --- Unsupported options


ANY_OTHER = "*"
"""In a report: every value but the option's default."""


def find_device(machine: MachineReport, name: str) -> DeviceReport | None:
    """The device that `device.name` stands for on this machine; None: there is no such one."""
    wanted = machine.automatic if name == "auto" else "cuda:0" if name == "cuda" else name
    return next((device for device in machine.devices if device.name == wanted), None)


def refusal(device: DeviceReport, path: str, value: object) -> str:
    """Why `value` can't be taken for the option at `path`; empty where it can."""
    return _told(device.refusals, path, value)


def caution(device: DeviceReport, path: str, value: object) -> str:
    """What to know before `value` is taken for the option at `path`; empty: nothing."""
    return _told(device.cautions, path, value)


def half_precision(device: DeviceReport) -> Precision | None:
    """bf16, or fp16 where the device has no bf16 or only imitates it; None: it has neither."""
    path, values = "device.precision", (Precision.BF16, Precision.FP16)
    offered = [value for value in values if not refusal(device, path, value)]
    return min(offered, key=lambda value: bool(caution(device, path, value)), default=None)


def settled_beside(found: Settled, options: RunOptions) -> Settled:
    """What an automatic option comes to beside the others that were asked for."""
    for other in found.instead:
        if text_of(value_of(options, other.path)) == other.beside:
            return Settled(other.value, other.reason)
    return found


def machine_problems(machine: MachineReport, options: RunOptions) -> Iterator[Problem]:
    """Everything in `options` that this machine can't do, each at its option and with a remedy."""
    device = find_device(machine, options.device.name)
    if device is None:
        yield Problem(
            "device.name",
            "this computer has no device that Hone can train on"
            if options.device.name == "auto"
            else f"{options.device.name} is not a device of this computer",
            _back_to_default(options_by_path()["device.name"], options.device.name),
        )
    elif not device.available:
        fixes = _back_to_default(options_by_path()["device.name"], options.device.name)
        yield Problem("device.name", device.reason, fixes)
    else:
        yield from _refused(device, options)
    for path, values in machine.choices.items():
        yield from _unlisted(path, values, options)


def cautions(machine: MachineReport, options: RunOptions) -> Iterator[Problem]:
    """What to know about choices that work here: each at its option. They stop nothing."""
    device = find_device(machine, options.device.name)
    if device is not None and device.available:
        for option in _that_count(options):
            value = value_of(options, option.path)
            told = caution(device, option.path, value)
            if told and not refusal(device, option.path, value):
                yield Problem(option.path, told)


def _refused(device: DeviceReport, options: RunOptions) -> Iterator[Problem]:
    for option in _that_count(options):
        value = value_of(options, option.path)
        reason = refusal(device, option.path, value)
        if reason:
            yield Problem(option.path, reason, _back_to_default(option, value))


def _unlisted(path: str, values: tuple[str, ...], options: RunOptions) -> Iterator[Problem]:
    option, value = options_by_path()[path], value_of(options, path)
    if values and option.applies_to(options) and value not in values:
        fix = Fix(f"Use {values[0]}", {path: values[0]})
        yield Problem(path, f'must be one of {", ".join(values)}, got "{value}"', (fix,))


def _that_count(options: RunOptions) -> Iterator[Option]:
    return (option for option in all_options() if option.applies_to(options))


def _back_to_default(option: Option, value: object) -> tuple[Fix, ...]:
    """The fix that takes the default instead; where that is refused, the one that does without the option."""
    if value == option.default:
        without = [options_by_path()[path] for path in option.needs if path != "task"]
        return tuple(Fix(f"Do without: {other.title}", {other.path: other.default}) for other in without[:1])
    label = "Let Hone choose" if option.default == "auto" else f"Use {text_of(option.default)}"
    return (Fix(label, {option.path: option.default}),)


def _told(table: dict[str, dict[str, str]], path: str, value: object) -> str:
    by_value = table.get(path, {})
    told = by_value.get(text_of(value), "")
    if not told and value != options_by_path()[path].default:
        told = by_value.get(ANY_OTHER, "")
    return told


def text_of(value: object) -> str:
    """A value as it stands in a report: `true`, `bf16`, `4`."""
    return str(value.value if isinstance(value, Enum) else value).lower() if value is not None else ""


# --- Hints


Hint = Callable[[RunOptions, DeviceReport | None], Iterator[Problem]]

LORA_RATE = 2e-4
TILE = 8
LARGE_TILE = 64
LARGE_TILE_GPUS = ("A100", "H100", "H200", "GH200", "B100", "B200", "GB200")


def hints(options: RunOptions, machine: MachineReport | None) -> tuple[Problem, ...]:
    """Everything worth knowing about `options` on this machine, each at its option; fixes are suggestions.

    Args:
        options: What is asked.
        machine: What is known of the machine; None: nothing yet.
    """
    device = find_device(machine, options.device.name) if machine else None
    found = [hint for rule in HINTS for hint in rule(options, device)]
    return (*found, *(cautions(machine, options) if machine else ()))


def _batch_multiples(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """NVIDIA's GPUs multiply fp16 fastest where sizes are multiples of 8, on A100 of 64, and of 8 rather than of less.

    "Matrix Multiplication Background User's Guide", alignment for Tensor Cores: 16 bytes, on A100 128. Apple publishes
    no such numbers. A batch of one to three has its reasons.
    """
    if device is None or not device.name.startswith("cuda"):
        return
    size = options.memory.batch_size
    is_large = any(name in device.title for name in LARGE_TILE_GPUS)
    tile = LARGE_TILE if is_large and _precision(options, device) == Precision.FP16 else TILE
    if size < TILE // 2 or size % tile == 0:
        return
    tiles = [each for each in (TILE, tile) if size % each and 2 * size >= each]
    better = [max(each, (size + each // 2 - 1) // each * each) for each in tiles]
    yield Problem(
        "memory.batch_size",
        f"{device.title} computes fastest with multiples of {tile}{', or else of 8' if tile > TILE else ''}",
        tuple(Fix(f"Use {each}", {"memory.batch_size": each}) for each in dict.fromkeys(better)),
    )


def _batch_norm(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """Each small batch is normalised by its own statistics, so the result differs from one large batch."""
    name = Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    if options.memory.gradient_accumulation_steps > 1 and limits is not None and limits.normalises_batch:
        yield Problem(
            "memory.gradient_accumulation_steps",
            f"{name} normalises each small batch by itself, so this is not quite the same as one large batch",
        )


def _lora_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    is_lora = options.model.method in (Method.LORA, Method.QLORA)
    rate = options.training.learning_rate
    if is_lora and rate < LORA_RATE / 4 and options.training.optimizer is not Optimizer.LION_8BIT:
        yield Problem(
            "training.learning_rate",
            f"LoRA's small matrices want a higher rate than the whole model; {LORA_RATE:g} is usual",
            (Fix(f"Use {LORA_RATE:g}", {"training.learning_rate": LORA_RATE}),),
        )


def _full_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """A rate that suits LoRA's small matrices makes a whole pretrained text model forget what it has learned."""
    rate = options.training.learning_rate
    is_whole = options.model.method is Method.FULL and not options.starts_random
    adamw = options.training.optimizer not in (Optimizer.SGD, Optimizer.LION_8BIT)
    if is_whole and adamw and options.task.reads_text and rate >= LORA_RATE:
        yield Problem(
            "training.learning_rate",
            f"{rate:g} is high for all weights of a pretrained model; 2e-5 to 5e-5 is usual",
            (Fix("Use 2e-05", {"training.learning_rate": 2e-5}),),
        )


def _lion_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    training = options.training
    if (
        training.optimizer is Optimizer.LION_8BIT
        and training.learning_rate > 1e-5
        and options.task.reads_text
    ):
        lower = training.learning_rate / 5
        yield Problem(
            "training.learning_rate",
            "Lion moves every weight by the whole rate; it wants one 3 to 10 times lower than AdamW",
            (Fix(f"Use {lower:g}", {"training.learning_rate": lower}),),
        )


def _sgd_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    training = options.training
    if training.optimizer is Optimizer.SGD and training.learning_rate < 1e-3:
        yield Problem(
            "training.learning_rate",
            "SGD moves by the gradient itself and wants a higher rate than AdamW: 1e-3 to 1e-1",
            (Fix("Use 0.01", {"training.learning_rate": 0.01}),),
        )


def _precision(options: RunOptions, device: DeviceReport) -> str:
    settled = device.automatic.get("device.precision")
    asked = options.device.precision
    return settled.value if asked is Precision.AUTO and settled else asked.value


HINTS: tuple[Hint, ...] = (_batch_multiples, _batch_norm, _lora_rate, _full_rate, _lion_rate, _sgd_rate)


# --- Resolve `auto`


def settle(device: DeviceReport, options: RunOptions) -> RunOptions:
    """`options` with what "automatic" comes to on `device` in place of it."""
    for path, found in automatic_paths(device, options).items():
        section, _, name = path.partition(".")
        value = msgspec.convert(found.value, options_by_path()[path].value_type, strict=False)
        changed = msgspec.structs.replace(getattr(options, section), **{name: value})
        options = msgspec.structs.replace(options, **{section: changed})
    return options


def automatic_paths(device: DeviceReport, options: RunOptions) -> dict[str, Settled]:
    """What is left to Hone in `options`, with what it comes to."""
    return {
        path: settled_beside(found, options)
        for path, found in device.automatic.items()
        if value_of(options, path) in ("auto", None) and options_by_path()[path].applies_to(options)
    }
