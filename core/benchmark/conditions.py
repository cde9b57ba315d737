"""What else the machine does while a pass is measured: other programs' load, reduced clocks, power, battery."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import psutil

from core.base.language import _
from core.base.system import ProcessTree, processor_times
from core.benchmark.result import Conditions
from core.monitor.nvidia import gpu_of
from core.monitor.sampler import Sampler
from core.monitor.system_rules import held_back
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Source

INTERVAL_SECONDS = 1.0

SHORTEST_SECONDS = 0.2
"""Shortest span for the load of others: operating systems count in steps of about a hundredth."""

SLACK_SECONDS = 0.2
"""For so long after the last timed step a GPU's figures are still those of that step."""

SETTLED_SECONDS = 1.0
"""For so long after the timed steps began a mean power includes the time before.

NVML averages over the last second (NVML API reference, nvmlDeviceGetPowerUsage), Apple since the last reading.
"""

POWER = {"cuda": (Source.NVML, "NVML"), "mps": (Source.APPLE, _("Apple's GPU counters"))}
"""Where the power of a device is read; that of a CPU needs administrator rights."""

Kind = TypeVar("Kind", bound=Event)


class Load(NamedTuple):
    """Processor seconds: available on all cores, used by all programs, used by Hone's own processes."""

    total: float
    busy: float
    own: float


class LoadGauge:
    """Reads the processor's load; what the job's process `pid` and this process started counts as Hone's own."""

    def __init__(self, pid: int) -> None:
        self._job = ProcessTree(pid, time.monotonic)
        self._lock = threading.Lock()

    def __call__(self) -> Load | None:
        """None once the job has ended."""
        with self._lock:
            spent = [_spent(process) for process in self._job.read()]
        if not spent or spent[0] is None:
            return None
        times = processor_times()
        return Load(times.total, times.busy, sum(filter(None, spent)) + (_spent(psutil.Process()) or 0.0))


def _spent(process: psutil.Process) -> float | None:
    """Processor seconds of a process and its ended children; None once it has gone."""
    try:
        found = process.cpu_times()
    except psutil.Error:
        return None
    return float(found.user + found.system + found.children_user + found.children_system)


def other_load(first: Load, last: Load, cores: int) -> float | None:
    """The share of all cores that other programs took between two readings; None if that was too short."""
    total = last.total - first.total
    if total < SHORTEST_SECONDS * cores:
        return None
    return min(1.0, max(0.0, ((last.busy - first.busy) - (last.own - first.own)) / total))


class Watch:
    """Reads the machine about once a second, in a thread, between `follow` and `stop`.

    The figures are those of the timed steps, between the two calls of `mark`; the load of others is that of the whole
    job where these were too short.

    Args:
        device: What the job computes on, as in `device.name`; never "auto".
        sampler: Makes what reads the machine, given the job's process.
        gauge: Makes what reads the processor's load, given the job's process.
        interval: Seconds between readings.
        clock: The time in unix seconds.
    """

    def __init__(
        self,
        device: str,
        *,
        sampler: Callable[[int], Sampler] | None = None,
        gauge: Callable[[int], Callable[[], Load | None]] = LoadGauge,
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kind = device.partition(":")[0]
        gpu = (lambda: gpu_of(device)) if self._kind == "cuda" else None
        self._new_sampler = sampler or (lambda pid: Sampler(pid, gpu))
        self._new_gauge, self._interval, self._clock = gauge, interval, clock
        self._read_load: Callable[[], Load | None] = lambda: None
        self._loads: list[Load | None] = []
        self._marks: list[tuple[float, Load | None]] = []
        self._events: list[Event] = []
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def follow(self, pid: int) -> None:
        """Begin; `pid` is the job's process."""
        self._read_load = self._new_gauge(pid)
        self._loads.append(self._read_load())
        sampler = self._new_sampler(pid)
        self._thread = threading.Thread(target=self._run, args=(sampler,), name="conditions", daemon=True)
        self._thread.start()

    def mark(self) -> None:
        """The timed steps begin, or have ended."""
        load = self._read_load()
        self._marks.append((self._clock(), load))
        self._loads.append(load)
        self._wake.set()

    def stop(self) -> Conditions:
        """End, and return what was read."""
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        source, name = POWER.get(self._kind, (None, ""))
        devices = self._timed(DeviceSampled)
        watts = [
            one.power
            for one in devices
            if one.source is source
            and one.power is not None
            and one.time >= self._marks[0][0] + SETTLED_SECONDS
        ]
        plugged = [one.is_plugged for one in self._of(BatterySampled)]
        return Conditions(
            other_load=self._other_load(),
            gpu_others=self._gpu_others(),
            throttled=tuple(dict.fromkeys(reason for one in devices for reason in held_back(one))),
            watts=sum(watts) / len(watts) if watts else None,
            power_source=name if watts else "",
            on_battery=None if not plugged or plugged[-1] is None else not plugged[-1],
        )

    def _run(self, sampler: Sampler) -> None:
        while True:
            self._events += sampler.sample()
            self._wake.wait(self._interval)
            self._wake.clear()
            if self._ended:
                sampler.finish(self._interval)
                self._events += sampler.sample()
                return
            self._loads.append(self._read_load())

    def _other_load(self) -> float | None:
        cores = psutil.cpu_count() or 1
        loads = [load for load in self._loads if load is not None]
        marked = [load for _rest, load in self._marks if load is not None]
        found = other_load(marked[0], marked[1], cores) if len(marked) == 2 else None
        return found if found is not None or not loads else other_load(loads[0], loads[-1], cores)

    def _gpu_others(self) -> int | None:
        """What others held of the GPU; if unknown, what all held at first, before the job used it."""
        others = [
            one.bytes - one.own
            for one in self._timed(MemorySampled)
            if one.source is Source.NVML and one.own is not None
        ]
        every = [one.bytes for one in self._of(MemorySampled) if one.source is Source.NVML]
        return max(0, *others) if others else every[0] if every else None

    def _of(self, kind: type[Kind]) -> list[Kind]:
        return [one for one in self._events if isinstance(one, kind)]

    def _timed(self, kind: type[Kind]) -> list[Kind]:
        if len(self._marks) < 2:
            return []
        first, last = self._marks[0][0], self._marks[1][0] + SLACK_SECONDS
        return [one for one in self._of(kind) if first <= one.time <= last]
