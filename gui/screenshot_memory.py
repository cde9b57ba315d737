"""The invented memory of the screenshots: how much is free, what models take traced, and what dry runs measure."""

import threading

import msgspec

from core.checks import read_options
from core.jobs import JobCancelled
from core.memory import anatomy
from core.memory.forecast import Basis, Forecast, ForecastRequest, LayerMemory, Measurement, Parts, Room
from core.options import RunOptions
from core.reports import DeviceReport
from gui.invented_models import DISTILBERT, RESNET, SMOL
from gui.memory_tools import MemoryTools

GB = 1 << 30
PLENTY = Room(free=17_200_000_000, ceiling=24 * GB)

LAYERS = (
    LayerMemory("distilbert.embeddings", 412_000_000),
    LayerMemory("distilbert.transformer.layer.0", 188_000_000),
    LayerMemory("distilbert.transformer.layer.1", 188_000_000),
    LayerMemory("pre_classifier", 7_200_000),
)


class InventedMemory:
    """As much room as `room` says; dry runs measure nearly what is forecast, or wait where `waits` is set."""

    def __init__(self) -> None:
        self.room = PLENTY
        self.waits = False
        self.tools = MemoryTools(room=self._read, correction=lambda _device: 1.0, dry_run=self._dry_run)

    def _read(self, _device: DeviceReport, _options: RunOptions) -> Room:
        return self.room

    def _dry_run(self, options: RunOptions, room: Room | None) -> "InventedDryRun":
        return InventedDryRun(options, room, waits=self.waits)


class InventedDryRun:
    """Answers at once, or when it is ended."""

    def __init__(self, options: RunOptions, room: Room | None, *, waits: bool) -> None:
        self._options = options
        self._room = room
        self._ended = threading.Event()
        if not waits:
            self._ended.set()
        self._waits = waits

    def run(self) -> Measurement:
        """What the formula says, and a time that grows with the batch."""
        self._ended.wait()
        if self._waits:
            raise JobCancelled("measure")
        return measured(self._options, self._room)

    def kill(self) -> None:
        """End it."""
        self._ended.set()


def measured(options: RunOptions, room: Room | None) -> Measurement:
    """An invented measurement of these options."""
    parts = forecast_of(options).parts
    again = 1.3 if options.memory.activation_checkpointing else 1.0
    step = 0.021 * options.effective_batch * again
    runs_out = room is not None and parts.total > room.free
    return Measurement(
        device="cpu",
        parts=parts,
        peak=parts.total,
        base=parts.overhead,
        room=room,
        longest=128,
        step_seconds=step,
        total_steps=440,
        run_seconds=440 * step,
        out_of_memory="It was ended before it took memory from other programs." if runs_out else "",
    )


def traced(request: bytes) -> Forecast:
    """An invented trace of what is asked about."""
    options, _ = read_options(msgspec.json.decode(request, type=ForecastRequest).asked)
    assert options is not None
    return msgspec.structs.replace(
        forecast_of(options), basis=Basis.TRACE, layers=LAYERS if options.data.text_columns else (), notes=()
    )


def forecast_of(options: RunOptions) -> Forecast:
    """The formula's figure, for a machine of no special kind."""
    shape = RESNET if options.task.reads_images else SMOL if options.task.writes_text else DISTILBERT
    device = DeviceReport(name="cpu", title="CPU", available=True)
    return anatomy.forecast(options, shape, device, length=min(128, options.data.max_length))


def ran_out(options: RunOptions, room: Room) -> Measurement:
    """A dry run of these options that was ended for lack of memory."""
    return msgspec.structs.replace(
        measured(options, room),
        parts=Parts(overhead=room.free),
        peak=room.free,
        out_of_memory="A batch of 16 rows didn't fit. It was ended before it took memory from other programs.",
    )
