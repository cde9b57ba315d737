"""A Mac's GPU and heat as a source of figures. It starts programs, so it is read in the background."""

import time
from collections.abc import Callable, Sequence

from core.events import DeviceSampled, Event, MemorySampled, Source
from core.machine.apple import AppleFigures, AppleGpu
from core.machine.apple_power import GpuPower

SLOW_SECONDS = 5.0
"""How often heat and compressed memory are asked for. Each costs the start of a program, and changes slowly."""

STALE_SECONDS = 15.0
"""How long the last figure of compressed memory stands where a new one can't be had."""


class AppleSource:
    """What a Mac's GPU does and holds.

    Args:
        figures: Asks macOS.
        power: Tells the GPU's watts.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        figures: AppleFigures,
        power: GpuPower | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._figures = figures
        self._power = power or GpuPower()
        self._clock = clock
        self._next_slow = clock()
        self._thermal: int | None = None
        self._compressed: tuple[float, int] | None = None
        self._name = "Apple GPU"

    def compressed(self) -> int | None:
        """The bytes that macOS kept compressed when last asked; may be called from any thread."""
        known = self._compressed
        return known[1] if known is not None and self._clock() - known[0] <= STALE_SECONDS else None

    def read(self) -> Sequence[Event]:
        """The memory that the GPU holds, and what it does."""
        self._ask_slow()
        gpu = self._figures.gpu()
        found: list[Event] = []
        if gpu is not None and gpu.memory is not None:
            found.append(MemorySampled(source=Source.APPLE, bytes=gpu.memory))
        return [*found, *self._device(gpu)]

    def _device(self, gpu: AppleGpu | None) -> Sequence[Event]:
        power, busy = self._power.read(), None
        if gpu is not None:
            self._name, busy = gpu.name, gpu.busy
        if power is None and busy is None and self._thermal is None:
            return []
        device = DeviceSampled(
            source=Source.APPLE, name=self._name, busy=busy, power=power, thermal=self._thermal
        )
        return [device]

    def _ask_slow(self) -> None:
        now = self._clock()
        if now < self._next_slow:
            return
        self._next_slow = now + SLOW_SECONDS
        self._thermal = self._figures.thermal()
        compressed = self._figures.compressed()
        if compressed is not None:
            self._compressed = (now, compressed)
