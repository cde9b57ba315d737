"""What a device supports: the engine's report about this computer, and `auto` resolved for a device."""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from core.base.errors import Fix, Problem
from core.base.formats import capitalized
from core.base.language import _
from core.options import RunOptions
from core.options.backend_rules import ONLY_MLX, ONLY_TEXTS, why_not_mlx
from core.options.catalogue import all_options, options_by_path, use, use_default, value_of, with_changes
from core.options.choices import Backend, Method, Precision, Quantization, device_title
from core.options.declare import Option
from core.options.method_rules import pretrained_fix, rate_hint
from core.options.sources import VISION_MODELS, Scheme

# --- Options that depend on device or model


OF_MACHINES: Mapping[str, tuple[str, ...]] = {
    "device.name": ("cpu",),
    "device.backend": ("torch",),
    "device.precision": ("fp32",),
    "device.compile": (),
    "device.compile_backend": (),
    "device.compile_mode": (),
    "device.processes": (),
    "model.method": ("lora", "head"),
    "model.quantization": (),
    "model.attention": ("eager",),
    "data.pin_memory": ("off",),
    "memory.deepspeed": (),
    "memory.empty_cache_steps": (),
    "memory.fsdp": (),
    "memory.offload_optimizer": (),
    "training.optimizer": ("adam", "adafactor", "lion", "sgd"),
}
"""Options that some machine refuses, with the values that every machine supports besides the default.

A test compares this with recorded machines.
"""

OF_MODELS = ("model.method", "model.attention", "memory.activation_checkpointing")
"""Options that some model doesn't support; every model supports their defaults."""


def machine_may_refuse(options: RunOptions) -> bool:
    """Returns whether `options` must be checked against this machine."""
    return any(
        value_of(options, path) not in (options_by_path()[path].default, *values)
        for path, values in OF_MACHINES.items()
    )


def model_may_refuse(options: RunOptions) -> bool:
    """Returns whether `options` must be checked against the model."""
    return any(value_of(options, path) != options_by_path()[path].default for path in OF_MODELS)


# --- Report of the engine


class Instead(msgspec.Struct, frozen=True):
    """The value of an automatic option if another one, at `path`, has the value `when`."""

    path: str
    when: str
    value: str
    reason: str


class Settled(msgspec.Struct, frozen=True):
    """The value of an automatic option on a device, with the reason; `instead` holds exceptions, the first one wins."""

    value: str
    reason: str
    instead: tuple[Instead, ...] = ()


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device, available or not.

    `name` is its value of `device.name`; `reason` says why it isn't available and what to do. `refusals` says, by
    option and value (`{"training.optimizer": {"adamw-8bit": "..."}}`), why a choice doesn't work on this device,
    `cautions` what to know about one that works; the value `*` stands for all values but the option's default.
    `automatic` has the values of automatic options by path.
    """

    name: str
    title: str
    available: bool
    reason: str = ""
    memory_bytes: int | None = None
    refusals: dict[str, dict[str, str]] = {}
    cautions: dict[str, dict[str, str]] = {}
    automatic: dict[str, Settled] = {}

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.name.partition("@")[0].partition(":")[0]


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """All devices, and the name of the one that `device.name = "auto"` selects.

    `choices` has the values of options that depend on the installed PyTorch (`device.compile_backend`); `notes` are
    sentences about this machine that matter for training, such as an x86 Python on an Apple chip.
    """

    devices: tuple[DeviceReport, ...]
    automatic: str
    choices: dict[str, tuple[str, ...]] = {}
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()


# --- Unsupported options


ANY_OTHER = "*"
"""In a report: every value but the option's default and those that have an entry of their own."""
MORE_THAN = ">"
"""In a report, before a number: all numbers above it."""


def find_device(machine: MachineReport, name: str) -> DeviceReport | None:
    """Returns the device that a value of `device.name` selects, that of the first computer if it names several.

    Returns None if there is no such device.
    """
    there, at, computers = name.partition("@")
    place = at + computers.partition("+")[0]
    if there == "auto" and place:
        own = [device for device in machine.devices if device.name.endswith(place)]
        return next((device for device in own if device.available), own[0] if own else None)
    wanted = machine.automatic if name == "auto" else ("cuda:0" if there == "cuda" else there) + place
    unknown = f"auto{place}"  # a computer that wasn't checked yet
    return next((device for device in machine.devices if device.name in (wanted, unknown)), None)


def without_mlx(machine: MachineReport, options: RunOptions, why_not_its_model: str) -> MachineReport:
    """Returns what the devices support if MLX can't train the task or the model of `options`; otherwise `machine`.

    `why_not_its_model` is `core.memory.model.ModelReport.why_not_mlx`, empty until the model is known.
    """
    reason = capitalized(why_not_its_model if options.task.writes_text else ONLY_TEXTS)
    if not reason:
        return machine
    refused = {path: dict.fromkeys(values, reason) for path, values in ONLY_MLX.items()}
    by_model = Instead("model.source", text_of(options.model.source), Backend.TORCH.value, reason)

    def without(device: DeviceReport) -> DeviceReport:
        refusals = {path: values | device.refusals.get(path, {}) for path, values in refused.items()}
        automatic = {
            path: msgspec.structs.replace(settled, instead=(by_model,))
            for path, settled in device.automatic.items()
            if settled.value == Backend.MLX
        }
        return msgspec.structs.replace(
            device, refusals=device.refusals | refusals, automatic=device.automatic | automatic
        )

    return msgspec.structs.replace(machine, devices=tuple(map(without, machine.devices)))


def why_automatic(name: str) -> str:
    """Returns why the automatic device is the one called `name` (`cuda:0`, `mps`, `cpu`)."""
    kind = name.partition(":")[0]
    reasons = {"cuda": _("there is an NVIDIA GPU"), "mps": _("there is an Apple GPU")}
    return reasons.get(kind, _("there is no GPU here that PyTorch can use"))


def refusal(device: DeviceReport, path: str, value: object, options: RunOptions | None = None) -> str:
    """Returns why the device doesn't support `value` for the option at `path`; empty if it does.

    QLoRA isn't supported where its automatic format beside the other `options` isn't, if those are given.
    """
    reason = _entry(device.refusals, path, value)
    if reason or options is None or (path, value) != ("model.method", Method.QLORA):
        return reason
    path = "model.quantization"
    packed = with_changes(options, {"model.method": Method.QLORA, path: Quantization.AUTO})
    settled = settled_beside(device, path, packed)
    return _entry(device.refusals, path, settled.value) if settled else ""


def caution(device: DeviceReport, path: str, value: object) -> str:
    """Returns what to know about `value` for the option at `path`; empty for most values."""
    return _entry(device.cautions, path, value)


def _entry(table: dict[str, dict[str, str]], path: str, value: object) -> str:
    by_value = table.get(path, {})
    if text_of(value) in by_value or value == options_by_path()[path].default:
        return by_value.get(text_of(value), "")
    for key, reason in by_value.items():
        if key.startswith(MORE_THAN) and isinstance(value, int) and value > int(key.removeprefix(MORE_THAN)):
            return reason
    return by_value.get(ANY_OTHER, "")


def text_of(value: object) -> str:
    """Returns a value as a key of `refusals`: `true`, `bf16`, `4`."""
    return str(value.value if isinstance(value, Enum) else value).lower() if value is not None else ""


def half_precision(device: DeviceReport) -> Precision | None:
    """Returns bf16, or fp16 if the device has no bf16 or only emulates it; None if it has neither."""
    path = "device.precision"
    offered = [value for value in (Precision.BF16, Precision.FP16) if not refusal(device, path, value)]
    return min(offered, key=lambda value: bool(caution(device, path, value)), default=None)


def has_mlx(device: DeviceReport) -> bool:
    """Returns whether MLX computes on a device."""
    return device.available and not refusal(device, "device.backend", Backend.MLX.value)


def machine_problems(machine: MachineReport, options: RunOptions) -> Iterator[Problem]:
    """Yields the options that this machine doesn't support, or one of several computers, with fixes."""
    there, refused = options.device.there, set()
    for name in [f"{there}@{computer}" for computer in options.device.computers] or [there]:
        device = find_device(machine, name)
        if device is None or not device.available:
            if device is not None:
                reason = device.reason
            elif name == "auto":
                reason = _("this computer has no device that Hone can train on")
            elif options.device.computers:
                computer, known = f"@{name.partition('@')[2]}", [device.name for device in machine.devices]
                reason = _(
                    "{device} is not known: add or check the computer in Settings, or with `hone hosts`"
                )
                if any(other.endswith(computer) for other in known):
                    reason = _("there is no {device}; `hone devices` lists what the computer has")
                reason = reason.format(device=device_title(name))
            else:
                reason = _("{name} is not a device of this computer").format(name=name)
            yield Problem("device.name", reason, _reset(options_by_path()["device.name"], name))
            continue
        for option, value in _applicable(options):
            if option.path not in refused and (reason := refusal(device, option.path, value, options)):
                refused.add(option.path)
                yield Problem(option.path, reason, _reset(option, value))
    if options.device.computers:
        return  # what is installed here doesn't matter
    for path, values in machine.choices.items():
        option, value = options_by_path()[path], value_of(options, path)
        if values and option.applies_to(options) and value not in values:
            message = _('must be one of {values}, not "{value}"').format(
                values=", ".join(values), value=value
            )
            yield Problem(path, message, (use(path, values[0]),))


def cautions(machine: MachineReport, options: RunOptions) -> Iterator[Problem]:
    """Yields what to know about options that work on this machine."""
    device = find_device(machine, options.device.name)
    if device is not None and device.available:
        for option, value in _applicable(options):
            message = caution(device, option.path, value)
            if message and not refusal(device, option.path, value, options):
                yield Problem(option.path, message)


def _applicable(options: RunOptions) -> Iterator[tuple[Option, object]]:
    for option in all_options():
        if option.applies_to(options):
            yield option, value_of(options, option.path)


def _reset(option: Option, value: object) -> tuple[Fix, ...]:
    """Returns a fix that sets the default, or, if that is refused, resets the option that this one needs."""
    if value != option.default:
        return (use_default(option),)
    needed = next((options_by_path()[path] for path in option.needs if path != "task"), None)
    if needed is None:
        return ()
    return (Fix(_("Do without: {title}").format(title=needed.title), {needed.path: needed.default}),)


# --- Hints


TILE = 8
LARGE_TILE = 64
LARGE_TILE_GPUS = ("A100", "H100", "H200", "GH200", "B100", "B200", "GB200")


def hints(options: RunOptions, machine: MachineReport | None) -> tuple[Problem, ...]:
    """Returns advice about options that work, each with fixes as suggestions. `machine` is None until it is known."""
    device = find_device(machine, options.device.name) if machine else None
    general = (
        *_pretraining(options),
        *_batch_multiples(options, device),
        *_batch_norm(options),
        *_unsaved(options),
    )
    rate = rate_hint(options)
    return (*general, *((rate,) if rate else ()), *(cautions(machine, options) if machine else ()))


def _unsaved(options: RunOptions) -> Iterator[Problem]:
    if not options.output.save_model:
        fix = Fix(_("Save the model"), {"output.save_model": True})
        yield Problem("output.save_model", _("the trained model is not kept, only the run's figures"), (fix,))


def _pretraining(options: RunOptions) -> Iterator[Problem]:
    if options.pretrains:
        message = _(
            "a new model can't chat yet: a first run pretrains it on the text of the conversations, a second one "
            "trains it to chat"
        )
        yield Problem("model.source", message)
        message = _(
            "from a few hundred conversations it only learns to repeat pieces of them; for real answers choose a "
            "pretrained model such as SmolLM2, which is downloaded once"
        )
        yield Problem("model.source", message, (pretrained_fix(options.task, _("Use {model}")),))


def _batch_multiples(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """Advises sizes with which NVIDIA's GPUs multiply fastest: multiples of 8; on A100 and later, in fp16, of 64.

    Source: NVIDIA, "Matrix Multiplication Background User's Guide": tensor cores want 16 bytes, on A100 128. Batches
    below 4 are left alone.
    """
    size, path = options.memory.batch_size, "memory.batch_size"
    if device is None or device.kind != "cuda" or size < TILE // 2:
        return
    resolved = settle(device, options) if device.automatic else options
    is_large = resolved.device.precision == "fp16" and any(name in device.title for name in LARGE_TILE_GPUS)
    tile = LARGE_TILE if is_large else TILE
    if size % tile == 0:
        return
    message = (
        _("{title} computes fastest with multiples of {tile}")
        if tile == TILE
        else _("{title} computes fastest with multiples of {tile}, or else of 8")
    )
    multiples = [each for each in (TILE, tile) if size % each and 2 * size >= each]
    nearest = dict.fromkeys(max(each, (size + each // 2 - 1) // each * each) for each in multiples)
    fixes = tuple(use(path, each) for each in nearest)
    yield Problem(path, message.format(title=device.title, tile=tile), fixes)


def _batch_norm(options: RunOptions) -> Iterator[Problem]:
    name = Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    if options.memory.gradient_accumulation_steps > 1 and limits is not None and limits.normalises_batch:
        message = _(
            "{name} normalizes each small batch by itself, so the result differs from one large batch"
        )
        yield Problem("memory.gradient_accumulation_steps", message.format(name=name))


# --- Resolve `auto`


def settled_beside(device: DeviceReport, path: str, options: RunOptions) -> Settled | None:
    """Returns what an automatic option is on `device`, given the other options; None if only the engine knows."""
    settled = device.automatic.get(path)
    if settled is None:
        return None
    may_be_mlx = path == "device.backend" and settled.value == Backend.MLX
    if may_be_mlx and (problem := next(why_not_mlx(options), None)):
        return Settled(Backend.TORCH.value, problem.message)
    for other in settled.instead:
        if text_of(_value_beside(device, other.path, options)) == other.when:
            return Settled(other.value, other.reason)
    return settled


def _value_beside(device: DeviceReport, path: str, options: RunOptions) -> object:
    value = value_of(options, path)
    settled = settled_beside(device, path, options) if _is_automatic(path, value) else None
    return settled.value if settled else value


def _is_automatic(path: str, value: object) -> bool:
    return value in (0 if path == "device.processes" else None, "auto")


def settle(device: DeviceReport, options: RunOptions) -> RunOptions:
    """Resolves automatic options for `device`."""
    automatic = automatic_paths(device, options)
    return with_changes(options, {path: settled.value for path, settled in automatic.items()})


def automatic_paths(device: DeviceReport, options: RunOptions) -> dict[str, Settled]:
    """Returns the automatic options among `options`, by path, with their values on `device`."""
    return {
        path: settled
        for path in device.automatic
        if (settled := settled_beside(device, path, options))
        and _is_automatic(path, value_of(options, path))
        and options_by_path()[path].applies_to(options)
    }
