"""The memory of a run over time, folded from its samples: who held how much, stacked, and how short of it all were."""

import math
from typing import ClassVar

from core.events import Event, MemorySampled, Pressure, RunPlanned, Source
from gui.models.growth import Grows
from gui.plots.series import Series

LEVELS = {Pressure.NORMAL: 0.0, Pressure.WARN: 1.0, Pressure.CRITICAL: 2.0}
"""Pressure as a number that can be drawn; NaN where it isn't known."""


class MemoryPicture:
    """One memory and who holds it, as the tops of bands that lie one on the other; bytes over seconds.

    From below: `tensors` of this run, what torch's allocator or Metal's driver has `held` for them, all of this `run`,
    and what everyone has `used`; what lies between that and the `ceiling` is free. `limit` is what the run may have at
    most where that is less than the ceiling. Series stay empty where nobody tells the figure.
    """

    grows: ClassVar[Grows] = Grows(series=("tensors", "held", "run", "used"), known=("ceiling", "limit"))

    def __init__(self) -> None:
        self.tensors = Series()
        self.held = Series()
        self.run = Series()
        self.used = Series()
        self.ceiling: int | None = None
        self.limit: int | None = None

    def __len__(self) -> int:
        return max(len(self.used), len(self.run))

    def add(self, clock: float, *, torch: MemorySampled | None, run: int | None, used: int | None) -> None:
        """Add a moment.

        Args:
            clock: Seconds since the run's start.
            torch: What torch holds of this memory; None: nothing is told.
            run: All that the run holds; what torch holds is part of it.
            used: What everyone holds, which is never less than what the run does.
        """
        held = 0 if torch is None else max(torch.bytes, torch.reserved or 0)
        if torch is not None:
            self.tensors.append(clock, torch.bytes)
            self.held.append(clock, held)
        if run is not None or torch is not None:
            self.run.append(clock, max(run or 0, held))
        if used is not None:
            self.used.append(clock, max(used, run or 0, held))

    def interrupt(self, clock: float) -> None:
        """Let the run hold nothing again at `clock`: its next attempt begins."""
        for series in (self.tensors, self.held, self.run):
            if series.last_x is not None:
                series.append(clock, 0.0)

    @property
    def last_clock(self) -> float:
        """Seconds from the start to the newest moment."""
        return max(series.last_x or 0.0 for series in (self.run, self.used))


class MemoryHistory:
    """All that is drawn of a run's memory. Apply its events in order; read at any time.

    `computer` is the main memory: on a Mac, and wherever else a GPU shares it, with what the GPU holds of it. `card`
    is the memory of a graphics card that has its own. `swap`, `compressed` and `pressure` (as in `LEVELS`) are those of
    the computer. `is_on_card` says whether the run computes on a card; None: that isn't known yet.

    The keeper samples process, graphics card and computer one after the other, the computer last: its sample closes a
    moment. What torch last told stands until it tells otherwise.
    """

    grows: ClassVar[Grows] = Grows(
        series=("swap", "compressed", "pressure"), known=("is_on_card",), parts=("computer", "card")
    )

    def __init__(self) -> None:
        self.computer = MemoryPicture()
        self.card = MemoryPicture()
        self.swap = Series()
        self.compressed = Series()
        self.pressure = Series()
        self._torch: MemorySampled | None = None
        self._process: int | None = None
        self.is_on_card: bool | None = None
        self._has_driver = False
        self._attempt = 1

    @property
    def picture(self) -> MemoryPicture:
        """What to look at: the card's memory where the run computes on one, else the computer's."""
        return self.card if len(self.card) and self.is_on_card is not False else self.computer

    @property
    def is_of_card(self) -> bool:
        """Whether the picture is that of a graphics card."""
        return self.picture is self.card

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than of memory are welcome too."""
        if isinstance(event, MemorySampled) and event.attempt != self._attempt:
            self._begin_attempt(event.attempt, clock)
        match event:
            case RunPlanned():
                self.is_on_card = event.device.startswith("cuda")
            case MemorySampled(source=Source.TORCH):
                self._take_torch(event, clock)
            case MemorySampled(source=Source.PROCESS):
                self._process = event.bytes
            case MemorySampled(source=Source.NVML):
                self._has_driver = True
                self.card.ceiling = event.ceiling or self.card.ceiling
                self.card.add(clock, torch=self._torch, run=event.own, used=event.bytes)
            case MemorySampled(source=Source.SYSTEM):
                self._take_system(event, clock)

    def _begin_attempt(self, attempt: int, clock: float) -> None:
        self._attempt = attempt
        self._torch = self._process = None
        for picture in (self.computer, self.card):
            picture.interrupt(clock)

    def _take_torch(self, event: MemorySampled, clock: float) -> None:
        self._torch = event
        if event.unified:
            self.is_on_card = False
            self.computer.limit = event.ceiling
        elif not self._has_driver:
            self.card.ceiling = event.ceiling
            self.card.add(clock, torch=event, run=None, used=None)

    def _take_system(self, event: MemorySampled, clock: float) -> None:
        shared = self._torch if self._torch is not None and self._torch.unified else None
        held = shared.reserved or shared.bytes if shared is not None else 0
        run = None if self._process is None else self._process + held
        self.computer.ceiling = event.ceiling or self.computer.ceiling
        self.computer.add(clock, torch=shared, run=run, used=event.bytes)
        if event.swap is not None:
            self.swap.append(clock, event.swap)
        if event.compressed is not None:
            self.compressed.append(clock, event.compressed)
        level = math.nan if event.pressure is None else LEVELS[event.pressure]
        self.pressure.append(clock, level)
