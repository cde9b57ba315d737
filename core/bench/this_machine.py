"""This computer, as a result tells on what it was measured."""

import platform

import psutil

from core import figures
from core.bench.result import Machine
from core.reports import DeviceReport, MachineReport
from core.version import VERSION


def this_machine(report: MachineReport) -> Machine:
    """What this computer is called and has; its own name, which may be a person's, is left out.

    Args:
        report: What it can train on, see `core.questions.ask_devices`.
    """
    processor = next((device.title for device in report.devices if device.name == "cpu"), "")
    processor = processor or platform.processor() or platform.machine()
    accelerator = _accelerator(report)
    memory = int(psutil.virtual_memory().total)
    return Machine(
        title=f"{accelerator or processor}, {figures.size(memory)}",
        processor=processor,
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 0,
        memory=memory,
        accelerator=accelerator,
        system=_system(),
        versions={"hone": VERSION, **report.versions},
    )


def _accelerator(report: MachineReport) -> str:
    """What trains beside the processor; several are counted. Empty: nothing."""
    found = [device for device in report.devices if device.available and device.name != "cpu"]
    if not found:
        return ""
    first = _with_memory(found[0])
    return first if len(found) == 1 else f"{len(found)} x {first}"


def _with_memory(device: DeviceReport) -> str:
    memory = f", {figures.size(device.memory_bytes)}" if device.memory_bytes else ""
    return f"{device.title}{memory}"


def _system() -> str:
    mac = platform.mac_ver()[0]
    return f"macOS {mac}" if mac else f"{platform.system()} {platform.release()}"
