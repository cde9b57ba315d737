"""The machine as one picture, put together from the last samples of each kind: for who wants to know how it is now."""

from collections.abc import Iterable
from dataclasses import dataclass

from core.events import BatterySampled, DeviceSampled, Event, MemorySampled, Source

STALE_SECONDS = 8.0
"""After this long without a new one a figure is no longer shown: nobody knows whether it still holds."""

BATTERY_SECONDS = 30.0
"""The same for the battery, which is read less often."""


@dataclass(frozen=True)
class MachinePicture:
    """The last samples; None: not available.

    `memory` is the computer's, `card` that of a graphics card with memory of its own. `gpu` is what the GPU does,
    `processor` what the processor does. `swap_grown` is by how many bytes the swap lies above the least that was seen.
    """

    memory: MemorySampled | None = None
    card: MemorySampled | None = None
    gpu: DeviceSampled | None = None
    processor: DeviceSampled | None = None
    battery: BatterySampled | None = None
    swap_grown: int = 0


class MachineView:
    """Keeps the last samples of each kind. Give it what comes; ask for the picture at any time, from any thread."""

    def __init__(self) -> None:
        self._memory: dict[Source, MemorySampled] = {}
        self._devices: dict[Source, DeviceSampled] = {}
        self._battery: BatterySampled | None = None
        self._least_swap: int | None = None

    def take(self, events: Iterable[Event]) -> None:
        """Take in samples in the order of time; others are welcome, too."""
        for event in events:
            match event:
                case MemorySampled():
                    self._memory[event.source] = event
                    self._take_swap(event.swap)
                case DeviceSampled():
                    self._devices[event.source] = event
                case BatterySampled():
                    self._battery = event

    def picture(self, now: float) -> MachinePicture:
        """What holds at `now` (unix seconds)."""
        memory = {event.source: event for event in list(self._memory.values()) if _holds(event, now)}
        devices = {event.source: event for event in list(self._devices.values()) if _holds(event, now)}
        battery = self._battery
        system = memory.get(Source.SYSTEM)
        return MachinePicture(
            memory=system,
            card=memory.get(Source.NVML),
            gpu=devices.get(Source.NVML) or devices.get(Source.APPLE),
            processor=devices.get(Source.SYSTEM),
            battery=battery if battery is not None and _holds(battery, now, BATTERY_SECONDS) else None,
            swap_grown=self._swap_grown(system.swap if system is not None else None),
        )

    def _swap_grown(self, swap: int | None) -> int:
        return 0 if swap is None or self._least_swap is None else swap - self._least_swap

    def _take_swap(self, swap: int | None) -> None:
        if swap is not None:
            self._least_swap = swap if self._least_swap is None else min(self._least_swap, swap)


def _holds(event: Event, now: float, seconds: float = STALE_SECONDS) -> bool:
    return now - event.time <= seconds
