"""What a device supports: the engine's report about this computer, and `auto` resolved for a device."""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from core.base.errors import Fix, Problem
from core.base.language import _
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_of, with_changes
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
    return _entry(device.refusals, path, value)


def caution(device: DeviceReport, path: str, value: object) -> str:
    """What to know before `value` is taken for the option at `path`; empty: nothing."""
    return _entry(device.cautions, path, value)


def _entry(table: dict[str, dict[str, str]], path: str, value: object) -> str:
    by_value = table.get(path, {})
    found = by_value.get(text_of(value), "")
    if not found and value != options_by_path()[path].default:
        found = by_value.get(ANY_OTHER, "")
    return found


def text_of(value: object) -> str:
    """A value as it stands in a report: `true`, `bf16`, `4`."""
    return str(value.value if isinstance(value, Enum) else value).lower() if value is not None else ""


def half_precision(device: DeviceReport) -> Precision | None:
    """bf16, or fp16 where the device has no bf16 or only imitates it; None: it has neither."""
    path = "device.precision"
    offered = [value for value in (Precision.BF16, Precision.FP16) if not refusal(device, path, value)]
    return min(offered, key=lambda value: bool(caution(device, path, value)), default=None)


def machine_problems(machine: MachineReport, options: RunOptions) -> Iterator[Problem]:
    """Everything in `options` that this machine can't do, each at its option and with a remedy."""
    name = options.device.name
    device = find_device(machine, name)
    if device is None or not device.available:
        reason = device.reason if device else _("{name} is not a device of this computer").format(name=name)
        if device is None and name == "auto":
            reason = _("this computer has no device that Hone can train on")
        yield Problem("device.name", reason, _back_to_default(options_by_path()["device.name"], name))
    else:
        for option, value in _that_count(options):
            reason = refusal(device, option.path, value)
            if reason:
                yield Problem(option.path, reason, _back_to_default(option, value))
    for path, values in machine.choices.items():
        option, value = options_by_path()[path], value_of(options, path)
        if values and option.applies_to(options) and value not in values:
            fix = Fix(_("Use {values}").format(values=values[0]), {path: values[0]})
            yield Problem(
                path,
                _('must be one of {values}, got "{value}"').format(values=", ".join(values), value=value),
                (fix,),
            )


def cautions(machine: MachineReport, options: RunOptions) -> Iterator[Problem]:
    """What to know about choices that work here: each at its option. They stop nothing."""
    device = find_device(machine, options.device.name)
    if device is not None and device.available:
        for option, value in _that_count(options):
            found = caution(device, option.path, value)
            if found and not refusal(device, option.path, value):
                yield Problem(option.path, found)


def _that_count(options: RunOptions) -> Iterator[tuple[Option, object]]:
    """The options that mean something in `options`, with their values."""
    for option in all_options():
        if option.applies_to(options):
            yield option, value_of(options, option.path)


def _back_to_default(option: Option, value: object) -> tuple[Fix, ...]:
    """The fix that takes the default instead; where that is refused, the one that does without the option."""
    if value == option.default:
        without = [options_by_path()[path] for path in option.needs if path != "task"]
        return tuple(
            Fix(_("Do without: {title}").format(title=other.title), {other.path: other.default})
            for other in without[:1]
        )
    label = (
        _("Let Hone choose")
        if option.default == "auto"
        else _("Use {default}").format(default=text_of(option.default))
    )
    return (Fix(label, {option.path: option.default}),)


# --- Hints


LORA_RATE = 2e-4
TILE = 8
LARGE_TILE = 64
LARGE_TILE_GPUS = ("A100", "H100", "H200", "GH200", "B100", "B200", "GB200")


def hints(options: RunOptions, machine: MachineReport | None) -> tuple[Problem, ...]:
    """Everything worth knowing about `options` on this machine, each at its option; fixes are suggestions.

    Args:
        options: The run's.
        machine: What is known of the machine; None: nothing yet.
    """
    device = find_device(machine, options.device.name) if machine else None
    found = [*_batch_multiples(options, device), *_batch_norm(options), *_learning_rate(options)]
    return (*found, *(cautions(machine, options) if machine else ()))


def _batch_multiples(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """NVIDIA's GPUs multiply fp16 fastest where sizes are multiples of 8, on A100 of 64, and of 8 rather than of less.

    "Matrix Multiplication Background User's Guide", alignment for Tensor Cores: 16 bytes, on A100 128. Apple publishes
    no such numbers. A batch of one to three has its reasons.
    """
    if device is None or not device.name.startswith("cuda"):
        return
    size = options.memory.batch_size
    settled, precision = device.automatic.get("device.precision"), options.device.precision
    is_fp16 = (settled.value if precision is Precision.AUTO and settled else precision.value) == "fp16"
    tile = LARGE_TILE if is_fp16 and any(name in device.title for name in LARGE_TILE_GPUS) else TILE
    if size < TILE // 2 or size % tile == 0:
        return
    tiles = [each for each in (TILE, tile) if size % each and 2 * size >= each]
    better = [max(each, (size + each // 2 - 1) // each * each) for each in tiles]
    yield Problem(
        "memory.batch_size",
        _("{title} computes fastest with multiples of {tile}{value}").format(
            title=device.title, tile=tile, value=", or else of 8" if tile > TILE else ""
        ),
        tuple(
            Fix(_("Use {each}").format(each=each), {"memory.batch_size": each})
            for each in dict.fromkeys(better)
        ),
    )


def _batch_norm(options: RunOptions) -> Iterator[Problem]:
    """Each small batch is normalised by its own statistics, so the result differs from one large batch."""
    name = Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    if options.memory.gradient_accumulation_steps > 1 and limits is not None and limits.normalises_batch:
        yield Problem(
            "memory.gradient_accumulation_steps",
            _(
                "{name} normalises each small batch by itself, so this is not quite the same as one "
                "large batch"
            ).format(name=name),
        )


def _learning_rate(options: RunOptions) -> Iterator[Problem]:
    def hint(message: str, better: float) -> Problem:
        path = "training.learning_rate"
        return Problem(path, message, (Fix(_("Use {better:g}").format(better=better), {path: better}),))

    rate, optimizer, method = options.training.learning_rate, options.training.optimizer, options.model.method
    is_lion = optimizer is Optimizer.LION_8BIT
    if method in (Method.LORA, Method.QLORA) and rate < LORA_RATE / 4 and not is_lion:
        yield hint(
            f"LoRA's small matrices want a higher rate than the whole model; {LORA_RATE:g} is usual",
            LORA_RATE,
        )
    is_pretrained = method is Method.FULL and not options.starts_random and options.task.reads_text
    if is_pretrained and rate >= LORA_RATE and not is_lion and optimizer is not Optimizer.SGD:
        yield hint(
            f"{rate:g} is high for all weights of a pretrained model; 2e-5 to 5e-5 is usual",
            2e-5,
        )
    if is_lion and rate > 1e-5 and options.task.reads_text:
        yield hint(
            "Lion moves every weight by the whole rate; it wants one 3 to 10 times lower than AdamW", rate / 5
        )
    if optimizer is Optimizer.SGD and rate < 1e-3:
        yield hint(
            _("SGD moves by the gradient itself and wants a higher rate than AdamW: 1e-3 to 1e-1"), 0.01
        )


# --- Resolve `auto`


def settled_beside(found: Settled, options: RunOptions) -> Settled:
    """What an automatic option comes to beside the others that were asked for."""
    for other in found.instead:
        if text_of(value_of(options, other.path)) == other.beside:
            return Settled(other.value, other.reason)
    return found


def settle(device: DeviceReport, options: RunOptions) -> RunOptions:
    """`options` with what "automatic" comes to on `device` in place of it."""
    found = automatic_paths(device, options)
    return with_changes(options, {path: settled.value for path, settled in found.items()})


def automatic_paths(device: DeviceReport, options: RunOptions) -> dict[str, Settled]:
    """What is left to Hone in `options`, with what it comes to."""
    return {
        path: settled_beside(found, options)
        for path, found in device.automatic.items()
        if value_of(options, path) in ("auto", None) and options_by_path()[path].applies_to(options)
    }
