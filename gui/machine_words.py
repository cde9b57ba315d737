"""What the machine strip says of the machine, in short lines."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from core.events import DeviceSampled, MemorySampled, Pressure
from core.machine.picture import MachinePicture
from core.machine.throttling import THERMAL, Throttle
from core.watchers.held_back import held_back
from gui.numbers import memory, three_figures, whole_percent

SWAP_MATTERS = 256 << 20
"""Bytes by which the swap has grown before it is worth a line."""

_translate = QCoreApplication.translate


@dataclass(frozen=True)
class Note:
    """A line that is there only while it matters."""

    words: str
    alarms: bool = True


@dataclass(frozen=True)
class Reading:
    """A line with its bar, of which `share` is full (0 to 1), what hovering tells, and what else is to be said."""

    words: str
    share: float
    tip: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def alarms(self) -> bool:
        """Whether the bar itself is a reason for concern."""
        return any(note.alarms for note in self.notes)


def main_memory(picture: MachinePicture) -> Reading | None:
    """The computer's memory; None: not available."""
    found = picture.memory
    if found is None or not found.ceiling:
        return None
    words = _of_total(_translate("MachineStrip", "Memory {used} of {total}"), found)
    said = [*_pressure(found), *_swap(found, picture.swap_grown)]
    return Reading(words, found.bytes / found.ceiling, tip=_memory_tip(found), notes=tuple(said))


def card_memory(picture: MachinePicture) -> Reading | None:
    """A graphics card's own memory; None where there is none."""
    found = picture.card
    if found is None or not found.ceiling:
        return None
    words = _of_total(_translate("MachineStrip", "GPU {used} of {total}"), found)
    return Reading(words=words, share=found.bytes / found.ceiling)


def duty(picture: MachinePicture) -> Reading | None:
    """How busy the GPU is where there is one that tells, else the processor; None: not available.

    With it goes what holds the GPU back, where something does.
    """
    device, words = picture.gpu, _translate("MachineStrip", "GPU {percent} busy")
    if device is None or device.busy is None:
        device, words = picture.processor, _translate("MachineStrip", "CPU {percent} busy")
    if device is None or device.busy is None:
        return None
    said = _held_back(picture.gpu) if picture.gpu is not None else []
    words = words.format(percent=whole_percent(device.busy))
    return Reading(words, device.busy, tip=_device_tip(device), notes=tuple(said))


def battery(picture: MachinePicture, trains: bool) -> Note | None:
    """What is left of the battery, which matters while a run trains on it."""
    if not trains or picture.battery is None:
        return None
    words = _translate("MachineStrip", "On battery, {percent} left")
    return Note(words.format(percent=whole_percent(picture.battery.share)))


def _pressure(sample: MemorySampled) -> list[Note]:
    """A normal pressure says nothing."""
    if sample.pressure is Pressure.WARN:
        return [Note(_translate("MachineStrip", "Memory pressure high"))]
    if sample.pressure is Pressure.CRITICAL:
        return [Note(_translate("MachineStrip", "Memory pressure critical"))]
    return []


def _swap(sample: MemorySampled, grown: int) -> list[Note]:
    if grown < SWAP_MATTERS:
        return []
    return [Note(_translate("MachineStrip", "Swap grew to {}").format(memory(sample.swap)), alarms=False)]


def _held_back(gpu: DeviceSampled) -> list[Note]:
    """Why the GPU is slower than it could be; a card at its power limit does as it should."""
    reasons = set(held_back(gpu))
    if reasons & THERMAL:
        if gpu.temperature is None:
            return [Note(_translate("MachineStrip", "Slowed by heat"))]
        words = _translate("MachineStrip", "Slowed by heat, {degrees} °C")
        return [Note(words.format(degrees=f"{gpu.temperature:.0f}"))]
    if Throttle.POWER_BRAKE in reasons:
        return [Note(_translate("MachineStrip", "Slowed by its power supply"))]
    if Throttle.HARDWARE in reasons:
        return [Note(_translate("MachineStrip", "Slowed by its hardware"))]
    if Throttle.POWER_CAP in reasons:
        return [Note(_translate("MachineStrip", "Slowed much by its power limit"))]
    return []


def _of_total(words: str, sample: MemorySampled) -> str:
    """The unit is said once, and a whole total as people name it: `11.2 of 32 GB`."""
    number, _, unit = memory(sample.ceiling).partition(" ")
    used = memory(sample.bytes).removesuffix(f" {unit}")
    return words.format(used=used, total=f"{number.removesuffix('.0')} {unit}")


def _memory_tip(sample: MemorySampled) -> str:
    lines = []
    if sample.swap is not None:
        lines.append(_translate("MachineStrip", "Swap in use: {}").format(memory(sample.swap)))
    if sample.compressed is not None:
        lines.append(_translate("MachineStrip", "Compressed: {}").format(memory(sample.compressed)))
    return "\n".join(lines)


def _device_tip(device: DeviceSampled) -> str:
    """Temperature, power and clock, as far as they are known."""
    parts = []
    if device.temperature is not None:
        parts.append(f"{device.temperature:.0f} °C")
    if device.power is not None:
        parts.append(_with_limit(device.power, device.power_limit, "W"))
    if device.clock is not None:
        parts.append(_with_limit(device.clock, device.clock_limit, "MHz"))
    if device.throttled and Throttle.POWER_CAP in device.throttled:
        parts.append(_translate("MachineStrip", "at its power limit"))
    return ", ".join(parts)


def _with_limit(value: float, limit: float | None, unit: str) -> str:
    if limit is None:
        return f"{three_figures(value)} {unit}"
    words = _translate("MachineStrip", "{value} of {limit}")
    return words.format(value=three_figures(value), limit=f"{three_figures(limit)} {unit}")
