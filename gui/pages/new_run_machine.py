"""Device and precision: what this machine offers, what it refuses, and what "automatic" comes to."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from core.capabilities import find_device
from core.catalogue import Kind, Option
from core.choices import Precision
from core.device_names import DEVICE_KINDS, device_title
from core.options import RunOptions
from core.reports import DeviceReport, MachineReport, Settled
from gui.offers import ROOM_FOR_AUTOMATIC
from gui.widgets.form_row import sentence
from gui.widgets.segmented import Segment

_translate = QCoreApplication.translate


@dataclass(frozen=True)
class Computed:
    """What a run will be computed on, in words. Empty where only the engine can tell."""

    device: str
    precision: str


def device_segments(machine: MachineReport | None) -> list[Segment]:
    """The devices to choose from; before the machine is known, all kinds."""
    automatic = Segment("auto", _translate("NewRun", "Automatic"))
    if machine is None:
        return [automatic, *(Segment(name, title) for name, title in DEVICE_KINDS.items())]
    counts = [device.name.partition(":")[0] for device in machine.devices]
    return [
        automatic,
        *(
            Segment(
                value=device.name if counts.count("cuda") > 1 else device.name.partition(":")[0],
                title=device_title(
                    device.name if counts.count("cuda") > 1 else device.name.partition(":")[0]
                ),
                help=device.title,
                refusal="" if device.available else device.reason,
            )
            for device in machine.devices
        ),
    ]


def computed(machine: MachineReport | None, options: RunOptions) -> Computed:
    """What device and precision the options come to on this machine."""
    if machine is None:
        return Computed(
            _translate("NewRun", "looking at this computer…"),
            _translate("NewRun", "looking at this computer…"),
        )
    device = find_device(machine, options.device.name)
    if device is None:
        return Computed(options.device.name, options.device.precision.value)
    kind = device_title(device.name.partition(":")[0])
    title = kind if device.title in (kind, "") else f"{kind} · {device.title}"
    return Computed(title, _precision(device, options.device.precision))


def _precision(device: DeviceReport, asked: Precision) -> str:
    settled = device.automatic.get("device.precision")
    name = settled.value if asked is Precision.AUTO and settled else asked.value
    if name == Precision.AUTO:
        return _translate("NewRun", "settled when the run starts")
    if name in (Precision.FP32, Precision.TF32):
        return name
    return _translate("NewRun", "{precision} autocast, fp32 weights").format(precision=name)


def automatic_words(option: Option, settled: Settled) -> str:
    """What "automatic" comes to and why; only why, where the control says the rest itself."""
    reason = sentence(settled.reason)
    if option.kind is Kind.WHOLE or len(option.choices) <= ROOM_FOR_AUTOMATIC:
        return reason
    text = _translate("NewRun", "Automatic: {value}, {reason}")
    return text.format(value=settled.value, reason=settled.reason)
