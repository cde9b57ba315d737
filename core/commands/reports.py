"""`hone devices`: what this computer can train on, in the terminal."""

from core import figures
from core.capabilities import ANY_OTHER, find_device
from core.commands.gpu_pack import standing_lines
from core.commands.output import print_json, say
from core.gpu_pack.using import standing
from core.questions import ask_devices
from core.reports import DeviceReport, MachineReport

SHOWN_LABELS = 20
WIDEST = 60


def devices(*, as_json: bool) -> int:
    """Print what this computer can train on."""
    report = ask_devices()
    if as_json:
        print_json(report)
    else:
        say("\n".join([*device_lines(report), *standing_lines(standing())]))
    return 0


def device_lines(report: MachineReport) -> list[str]:
    """The report for a terminal."""
    rows = [(device.name, _device_words(device)) for device in report.devices]
    lines = [figures.table(("DEVICE", "WHAT IT IS"), rows)]
    lines += ["", *_automatic_lines(report)]
    for device in report.devices:
        lines += _limit_lines(device)
    lines += report.notes
    lines.append(", ".join(f"{name} {version}" for name, version in report.versions.items()))
    return lines


def _device_words(device: DeviceReport) -> str:
    if not device.available:
        return f"{device.title}: not available: {device.reason}"
    memory = f", {figures.size(device.memory_bytes)}" if device.memory_bytes else ""
    return f"{device.title}{memory}"


def _automatic_lines(report: MachineReport) -> list[str]:
    """What "automatic" comes to here, a line an option with its reason."""
    device = find_device(report, "auto")
    settled = device.automatic if device else {}
    rows = [("device.name", report.automatic, "CUDA comes first, then MPS, then the CPU")]
    rows += [(path, found.value, found.reason) for path, found in settled.items()]
    return [figures.table(("AUTOMATIC", "IS", "BECAUSE"), rows)]


def _limit_lines(device: DeviceReport) -> list[str]:
    """What can't be chosen on a device, and what to know before choosing."""
    if not device.available:
        return []
    tables = (("not available", device.refusals), ("note", device.cautions))
    rows = [
        (path if value == ANY_OTHER else f"{path}={value}", f"{word}: {told}")
        for word, table in tables
        for path, by_value in table.items()
        for value, told in by_value.items()
        if table is device.refusals or value not in device.refusals.get(path, {})
    ]
    return ["", figures.table((f"ON {device.name.upper()}", "WHY"), rows)] if rows else []
