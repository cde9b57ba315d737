"""What a machine can't do of what was asked: the engine's report laid beside the options. It knows none by itself."""

from collections.abc import Iterator
from enum import Enum

from core.catalogue import Option, all_options, options_by_path, value_of
from core.choices import Precision
from core.errors import Fix, Problem
from core.options import RunOptions
from core.reports import DeviceReport, MachineReport, Settled

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
