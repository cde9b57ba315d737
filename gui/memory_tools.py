"""What the window may ask about memory without an engine of its own, in one place, so that tests can answer instead."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from core.machine.nvidia import NvidiaGpu
from core.machine.sampler import gpu_of
from core.memory import anatomy, record
from core.memory.explanations import PartExplained, explain_parts
from core.memory.fitting import MakeDryRun
from core.memory.forecast import Forecast, Room
from core.memory.ladder import Remedy, ladder
from core.memory.measuring import DryRun
from core.memory.room import room_of
from core.memory.shape import ModelShape
from core.model_report import ModelReport
from core.options import RunOptions
from core.reports import DeviceReport


class Forecasting(Protocol):
    """The formula; `core.memory.anatomy.forecast` is the real one."""

    def __call__(
        self,
        options: RunOptions,
        shape: ModelShape,
        device: DeviceReport,
        *,
        length: int | None = None,
        room: Room | None = None,
        correction: float = 1.0,
    ) -> Forecast:
        """How much memory the options take."""


class Climbing(Protocol):
    """The ladder of remedies; `core.memory.ladder.ladder` is the real one."""

    def __call__(
        self,
        options: RunOptions,
        report: ModelReport,
        device: DeviceReport,
        room: Room | None,
        *,
        length: int | None = None,
        correction: float = 1.0,
    ) -> tuple[Remedy, ...]:
        """What would need less memory, the least loss first."""


class Rooms:
    """Reads the memory of a device now; the GPU is looked for once, which takes longer than reading it."""

    def __init__(self) -> None:
        self._gpus: dict[str, NvidiaGpu | None] = {}

    def __call__(self, device: DeviceReport, options: RunOptions) -> Room | None:
        """What is free, and the ceiling; None: not known."""
        if device.name.startswith("cuda") and device.name not in self._gpus:
            self._gpus[device.name] = gpu_of(device.name)
        gpu = self._gpus.get(device.name)
        return room_of(device, gpu=gpu, mps_limit=options.device.mps_memory_limit)


@dataclass(frozen=True)
class MemoryTools:
    """All of them; none but a dry run and a fitting take longer than a moment."""

    forecast: Forecasting = anatomy.forecast
    room: Callable[[DeviceReport, RunOptions], Room | None] = field(default_factory=Rooms)
    correction: Callable[[str], float] = record.correction
    explain: Callable[[RunOptions, ModelShape, DeviceReport, Forecast], tuple[PartExplained, ...]] = (
        explain_parts
    )
    ladder: Climbing = ladder
    dry_run: MakeDryRun = DryRun
