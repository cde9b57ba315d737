"""A benchmark's place in the queue of runs: while it measures, none may begin on its device, nor train there."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from core import queue, settings
from core.bench.plan import Plan
from core.errors import Fix, UserError
from core.queue import Entry
from core.run_folder import KeeperRecord, RunFolder
from core.runs import run_title

AUTOMATIC = "auto"
BESIDE = Fix("Measure beside it all the same: `--beside`")


class DeviceBusy(UserError):  # noqa: N818 - said as the window says it
    """Something computes on the device; who measures all the same does so `beside` it."""


class DeviceTurn:
    """Holds the device of a benchmark in the queue, as a run does; the process that made it is the one that holds.

    Args:
        plan: What is measured.
        beside: Whether it is measured beside what trains there.
    """

    def __init__(self, plan: Plan, *, beside: bool = False) -> None:
        self._beside = beside
        self._entry = Entry(
            run=str(settings.home() / "benchmarks" / str(time.time_ns())),
            device=device_of(plan),
            keeper=KeeperRecord.of(os.getpid()),
            benchmark=plan.title,
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the device.

        A home that can't be written to keeps no run off, and no benchmark from being made.

        Raises:
            DeviceBusy: A run trains on the device, or a benchmark is measured there.
        """
        try:
            in_the_way = queue.measure(self._entry, beside=self._beside)
        except OSError:
            in_the_way = []
        if in_the_way and not self._beside:
            raise _refusal(in_the_way)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                queue.leave(self._run)

    def look_after(self) -> None:
        """Hold it again where the queue's file was lost."""
        with contextlib.suppress(OSError):
            if not queue.is_entered(self._run):
                queue.measure(self._entry, beside=True)

    @property
    def _run(self) -> RunFolder:
        return RunFolder(Path(self._entry.run))


def device_of(plan: Plan) -> str:
    """The one GPU that all rungs ask for; else `auto`, which is every device.

    What computes anywhere takes some of the processor, and a benchmark of the CPU is to have all of it.
    """
    asked = {_device(rung.asked) for rung in plan.rungs if not rung.refusal}
    name = asked.pop() if len(asked) == 1 else AUTOMATIC
    return name if name.startswith("cuda") else AUTOMATIC


def _device(asked: dict[str, object]) -> str:
    section = asked.get("device")
    return str(section.get("name", AUTOMATIC)) if isinstance(section, dict) else AUTOMATIC


def _refusal(in_the_way: list[Entry]) -> DeviceBusy:
    first = in_the_way[0]
    if first.benchmark:
        return DeviceBusy(
            "A benchmark is being measured already",
            f"{first.benchmark}. Two at once would each measure the other, too.",
            (Fix("Wait until it is done, or stop it"), BESIDE),
        )
    run = RunFolder(Path(first.run))
    return DeviceBusy(
        f"{run_title(run)} is training",
        "Figures measured beside it would be worth nothing.",
        (Fix(f"Pause it (`hone pause {run.name}`), or wait until it is done"), BESIDE),
    )
