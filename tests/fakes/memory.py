"""Stand-ins for what the window asks about memory: a room as a test wants it, a dry run that waits to be let go."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.base.jobs import JobCancelled
from core.jobs.hub import ConfigFetched
from core.jobs.inspect import DataReport
from core.memory import estimate
from core.memory.model import Basis, Forecast, Measurement, ModelReport, ModelShape, Parts, Room
from core.options import RunOptions
from core.options.device_support import DeviceReport, MachineReport
from core.runs.summary import Timings
from gui.new_run.memory_state import MemoryTools
from gui.new_run.page import NewRunPage
from tests.fakes.model_shapes import kept_of_images

# --- Stand-ins for what the window asks about memory: a room as a test wants it


MB, GB = 1 << 20, 1 << 30

MEASURED = Measurement(
    device="cpu",
    parts=Parts(
        weights=418 * MB, gradients=418 * MB, optimizer=836 * MB, activations=250 * MB, overhead=400 * MB
    ),
    peak=2322 * MB,
    base=400 * MB,
    longest=64,
    longest_text=64,
    longest_step_seconds=0.9,
    step_seconds=0.5,
    compile_seconds=0.0,
    total_steps=90,
    run_seconds=45.0,
)

RAN_OUT = Measurement(
    device="cpu",
    parts=Parts(overhead=3 * GB),
    peak=3 * GB,
    base=0,
    out_of_memory="A batch of 16 rows didn't fit.",
)


class FakeRoom:
    """Reads `room`, and counts how often it was read."""

    def __init__(self) -> None:
        self.room: Room | None = Room(free=8 * GB, ceiling=16 * GB)
        self.readings = 0

    def __call__(self, _device: DeviceReport, _options: RunOptions) -> Room | None:
        self.readings += 1
        return self.room


class FakeDryRuns:
    """Makes dry runs that answer `answer`, a measurement or an error, once `gate` is set; `asked` are their options."""

    def __init__(self) -> None:
        self.answer: Measurement | Exception | Callable[[RunOptions], Measurement] = MEASURED
        self.asked: list[RunOptions] = []
        self.killed = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, options: RunOptions, _room: Room | None = None) -> "FakeDryRun":
        self.asked.append(options)
        return FakeDryRun(self, options)


class FakeDryRun:
    def __init__(self, runs: FakeDryRuns, options: RunOptions) -> None:
        self._runs = runs
        self._options = options
        self._killed = threading.Event()

    def run(self) -> Measurement:
        while not self._runs.gate.wait(0.005):
            if self._killed.is_set():
                raise JobCancelled("measure")
        answer = self._runs.answer
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Measurement) else answer(self._options)

    def kill(self) -> None:
        self._runs.killed += 1
        self._killed.set()


class FakeMemory:
    """All that a page asks about memory; `forecasts` counts how often the formula was asked."""

    def __init__(self) -> None:
        self.room = FakeRoom()
        self.dry_runs = FakeDryRuns()
        self.forecasts = 0
        self.timings: Timings = {}
        self.tools = MemoryTools(
            forecast=self._forecast,
            room=self.room,
            correction=lambda _device: 1.0,
            dry_run=self.dry_runs,
            timings=lambda: self.timings,
        )

    def _forecast(
        self,
        options: RunOptions,
        shape: ModelShape,
        device: DeviceReport,
        *,
        length: int | None = None,
        room: Room | None = None,
        correction: float = 1.0,
    ) -> Forecast:
        self.forecasts += 1
        return estimate.forecast(options, shape, device, length=length, room=room, correction=correction)


def hurry(page: NewRunPage) -> None:
    """Let a page ask the engine at once, since nobody types here; a trace only once a test wants it."""
    for question in (page.questions.data, page.questions.model):
        question.delay_ms = 1
    page.fit.refined.delay_ms = 60_000


def let_trace(page: NewRunPage) -> None:
    """Let a page ask for traces at once, the one it waits for first."""
    page.fit.refined.delay_ms = 1
    page.fit.refined._delay.setInterval(1)


# --- Stand-ins for the engine and the computer where a command tells of memory


FILE = Path(__file__).parents[2] / "resources" / "examples" / "digits.hone"
CPU = DeviceReport(name="cpu", title="a processor", available=True)
SHAPE = ModelShape(parameters=11_700_000, head=5_130, kept=kept_of_images(80_000.0, 40_000.0, 64.0))
PARTS = Parts(
    weights=45 * MB,
    gradients=45 * MB,
    optimizer=90 * MB,
    activations=800 * MB,
    overhead=600 * MB,
)
TRACED = Forecast(basis=Basis.FORMULA, device="cpu", parts=PARTS)


class Engine:
    """What the engine and the computer answer; `asked` are the names of its jobs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.room = Room(free=8 * GB, ceiling=16 * GB)
        self.machine = MachineReport(devices=(CPU,), automatic="cpu")
        self.model = ModelReport(activation_checkpointing=True, shape=SHAPE)
        self.traced: Forecast | Exception = TRACED
        self.data: DataReport | Exception = DataReport(source="", format="CSV", rows=300)

        self.fetch: Callable[[str], ConfigFetched] = lambda _source: ConfigFetched(path="")

    def run_job(self, name: str, request: Any, _answer: type, *_: object, **__: object) -> Any:
        """In place of `core.base.jobs.run_job`."""
        self.asked.append(name)
        found = {
            "devices": self.machine,
            "check-model": self.model,
            "forecast": self.traced,
            "inspect": self.data,
        }
        answer = self.fetch(request.source) if name == "fetch-config" else found[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


class DryRuns:
    """Dry runs that hold what `peak` says of their options."""

    def __init__(self, peak: Callable[[RunOptions], int]) -> None:
        self._peak = peak
        self.asked: list[RunOptions] = []

    def __call__(self, options: RunOptions, room: Room | None) -> "DryRuns":
        self.asked.append(options)
        self._room = room
        return self

    def run(self) -> Measurement:
        held = self._peak(self.asked[-1])
        assert self._room is not None
        too_large = "A batch of 16 rows didn't fit." if held > self._room.free else ""
        return Measurement(
            device="cpu",
            parts=Parts(weights=45 * MB, overhead=held - 45 * MB),
            peak=held,
            base=0,
            room=self._room,
            longest_step_seconds=0.5,
            step_seconds=0.25,
            total_steps=300,
            run_seconds=75.0,
            out_of_memory=too_large,
        )

    def kill(self) -> None: ...
