"""The conditions of a measurement: load of other programs, throttling, power draw, battery."""

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

MIN_SECONDS = 0.2
"""Shortest time over which load is computed: operating systems count in hundredths of a second."""

SLACK_SECONDS = 0.2
"""A GPU's figures read this long after the last timed step still belong to it."""

SETTLED_SECONDS = 1.0
"""Power read before this time since the first timed step is an average that includes the time before.

NVML averages over the last second (NVML API reference, nvmlDeviceGetPowerUsage), Apple since the last reading.
"""

POWER = {"cuda": (Source.NVML, "NVML"), "mps": (Source.APPLE, _("Apple's GPU counters"))}
"""Where the power of a device is read; that of a CPU needs administrator rights."""

Kind = TypeVar("Kind", bound=Event)


class Load(NamedTuple):
    """CPU seconds: available on all cores, used by all programs, used by Hone's own processes."""

    total: float
    busy: float
    own: float


class LoadReader:
    """Reads the load of the CPU. The job `pid`, its children and this process count as Hone's own."""

    def __init__(self, pid: int) -> None:
        self._job = ProcessTree(pid, time.monotonic)
        self._lock = threading.Lock()

    def __call__(self) -> Load | None:
        """None once the job has ended."""
        with self._lock:
            job = [_cpu_seconds(process) for process in self._job.read()]
        if not job or job[0] is None:
            return None
        times, this = processor_times(), _cpu_seconds(psutil.Process()) or 0.0
        return Load(times.total, times.busy, sum(filter(None, job)) + this)


def _cpu_seconds(process: psutil.Process) -> float | None:
    """CPU seconds of a process and its ended children; None once it has ended."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system + times.children_user + times.children_system)


def other_load(first: Load, last: Load, cores: int) -> float | None:
    """The fraction of all cores that other programs used between two readings; None if the time was too short."""
    total = last.total - first.total
    if total < MIN_SECONDS * cores:
        return None
    return min(1.0, max(0.0, ((last.busy - first.busy) - (last.own - first.own)) / total))


class Watch:
    """Samples the machine from a thread, between `follow` and `stop`.

    The figures are those of the timed steps, between the two calls of `mark`. The load is that of the whole job if the
    timed steps took too short a time.

    Args:
        device: The job's device, as in `device.name`; never "auto".
        sampler: Creates the sampler of the machine for the job's pid.
        load: Creates the reader of the CPU's load for the job's pid.
        interval: Seconds between samples.
        clock: Returns Unix time.
    """

    def __init__(
        self,
        device: str,
        *,
        sampler: Callable[[int], Sampler] | None = None,
        load: Callable[[int], Callable[[], Load | None]] = LoadReader,
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kind = device.partition(":")[0]
        gpu = (lambda: gpu_of(device)) if self._kind == "cuda" else None
        self._new_sampler = sampler or (lambda pid: Sampler(pid, gpu))
        self._new_reader, self._interval, self._clock = load, interval, clock
        self._read_load: Callable[[], Load | None] = lambda: None
        self._loads: list[Load] = []
        self._marks: list[tuple[float, Load | None]] = []
        self._events: list[Event] = []
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def follow(self, pid: int) -> None:
        """Start sampling while the process `pid` computes."""
        self._read_load = self._new_reader(pid)
        self._add_load()
        sampler = self._new_sampler(pid)
        self._thread = threading.Thread(target=self._run, args=(sampler,), name="conditions", daemon=True)
        self._thread.start()

    def mark(self) -> None:
        """Called when the timed steps begin and when they have ended."""
        self._marks.append((self._clock(), self._add_load()))
        self._wake.set()

    def stop(self) -> Conditions:
        """Stop sampling and return the conditions."""
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        source, name = POWER.get(self._kind, (None, ""))
        devices = self._timed(DeviceSampled)
        watts = [
            event.power
            for event in devices
            if event.source is source
            and event.power is not None
            and event.time >= self._marks[0][0] + SETTLED_SECONDS
        ]
        plugged = [event.is_plugged for event in self._of(BatterySampled)]
        return Conditions(
            other_load=self._other_load(),
            gpu_others=self._gpu_others(),
            throttled=tuple(dict.fromkeys(reason for event in devices for reason in held_back(event))),
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
            self._add_load()

    def _add_load(self) -> Load | None:
        load = self._read_load()
        if load is not None:
            self._loads.append(load)
        return load

    def _other_load(self) -> float | None:
        cores = psutil.cpu_count() or 1
        timed = [load for _time, load in self._marks if load is not None]
        share = other_load(timed[0], timed[1], cores) if len(timed) == 2 else None
        if share is None and self._loads:
            share = other_load(self._loads[0], self._loads[-1], cores)
        return share

    def _gpu_others(self) -> int | None:
        """Memory of the GPU used by other programs; if unknown, all that was used before the job used any."""
        others = [
            event.bytes - event.own
            for event in self._timed(MemorySampled)
            if event.source is Source.NVML and event.own is not None
        ]
        used = [event.bytes for event in self._of(MemorySampled) if event.source is Source.NVML]
        return max(0, *others) if others else used[0] if used else None

    def _of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self._events if isinstance(event, kind)]

    def _timed(self, kind: type[Kind]) -> list[Kind]:
        if len(self._marks) < 2:
            return []
        first, last = self._marks[0][0], self._marks[1][0] + SLACK_SECONDS
        return [event for event in self._of(kind) if first <= event.time <= last]
