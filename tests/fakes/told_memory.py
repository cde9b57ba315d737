"""Stand-ins for the engine and the computer where a command tells of memory: they answer from a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.memory.model import Basis, Forecast, Measurement, ModelReport, ModelShape, Parts, Room
from core.options import RunOptions
from core.options.device_support import DeviceReport, MachineReport
from core.services.hub import ConfigFetched
from tests.fakes.asked_of_bert import kept_of_images

MB, GB = 1 << 20, 1 << 30
FILE = Path(__file__).parents[2] / "resources" / "examples" / "digits.hone"
CPU = DeviceReport(name="cpu", title="a processor", available=True)
SHAPE = ModelShape(parameters=11_700_000, head=5_130, kept=kept_of_images(80_000.0, 40_000.0, 64.0))
PARTS = Parts(weights=45 * MB, gradients=45 * MB, optimizer=90 * MB, activations=800 * MB, overhead=600 * MB)
TRACED = Forecast(basis=Basis.FORMULA, device="cpu", parts=PARTS)


class Engine:
    """What the engine and the computer answer; `asked` are the names of its jobs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.room = Room(free=8 * GB, ceiling=16 * GB)
        self.model = ModelReport(activation_checkpointing=True, shape=SHAPE)
        self.traced: Forecast | Exception = TRACED

        self.fetch: Callable[[str], ConfigFetched] = lambda _source: ConfigFetched(path="")

    def run_job(self, name: str, request: Any, _answer: type, *_: object, **__: object) -> Any:
        """In place of `core.base.jobs.run_job`."""
        self.asked.append(name)
        found = {
            "devices": MachineReport(devices=(CPU,), automatic="cpu"),
            "check-model": self.model,
            "forecast": self.traced,
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
