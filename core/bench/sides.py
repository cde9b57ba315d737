"""What is held against each other in the table of devices: two devices, two precisions, or two counts of threads."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core import figures
from core.bench.sizes import cores_of
from core.capabilities import find_device, half_precision
from core.choices import Precision
from core.reports import DeviceReport, MachineReport

CPU = "cpu"


class Sides(StrEnum):
    """In what the sides differ."""

    DEVICES = "devices"
    PRECISIONS = "precisions"
    THREADS = "threads"


@dataclass(frozen=True)
class Side:
    """One of them: what a person reads, and the options that make it."""

    label: str
    changes: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What names end in: `cpu`, `1-thread`."""
        return self.label.lower().replace(" ", "-")


@dataclass(frozen=True)
class Pair:
    """The first, which the other is held against, and why these."""

    first: Side
    other: Side
    reason: str = ""

    @property
    def title(self) -> str:
        """`CPU against MPS`."""
        return f"{self.first.label} against {self.other.label}"


def pair_of(machine: MachineReport, sides: Sides | None) -> Pair:
    """What is held against each other on a machine.

    Args:
        machine: What it can train on.
        sides: In what they are to differ; None: devices where there is an accelerator. Where there is none, precisions
            where the processor computes bf16 in hardware, else threads.
    """
    match sides:
        case Sides.DEVICES:
            return Pair(_device(CPU), _device(_accelerator(machine)))
        case Sides.PRECISIONS:
            return _precisions(machine)
        case Sides.THREADS:
            return _threads(machine)
        case None:
            return _automatic(machine)


def cpu_of(machine: MachineReport) -> DeviceReport:
    """What the machine says of its processor."""
    return find_device(machine, CPU) or DeviceReport(name=CPU, title="CPU", available=True)


def _automatic(machine: MachineReport) -> Pair:
    if machine.automatic and machine.automatic != CPU:
        return Pair(_device(CPU), _device(machine.automatic))
    cpu = cpu_of(machine)
    precision = cpu.automatic.get("device.precision")
    if precision is not None and precision.value == Precision.BF16:
        why = "which this processor computes in hardware"
        found = _precisions(machine)
    elif cores_of(cpu) > 1:
        why = "for this processor has no bf16 hardware"
        found = _threads(machine)
    else:
        return _precisions(machine)
    reason = f"There is no accelerator here: {found.first.label} is held against {found.other.label}, {why}."
    return Pair(found.first, found.other, reason)


def _accelerator(machine: MachineReport) -> str:
    """The best there is; where none is available, one of which the machine says why."""
    if machine.automatic and machine.automatic != CPU:
        return machine.automatic
    return next((device.name for device in machine.devices if device.name != CPU), "cuda")


def _device(name: str) -> Side:
    kind = name.partition(":")[0]
    return Side(kind.upper(), {"device.name": name, "device.precision": Precision.FP32.value})


def _precisions(machine: MachineReport) -> Pair:
    device = find_device(machine, "auto") or cpu_of(machine)
    half = half_precision(device) or Precision.BF16
    first, other = (
        Side(value.value, {"device.name": device.name, "device.precision": value.value})
        for value in (Precision.FP32, half)
    )
    return Pair(first, other)


def _threads(machine: MachineReport) -> Pair:
    first, other = (
        Side(
            figures.counted(count, "thread"),
            {"device.name": CPU, "device.precision": Precision.FP32.value, "device.threads": count},
        )
        for count in (1, max(2, cores_of(cpu_of(machine))))
    )
    return Pair(first, other)
