"""What the machine does while a pass is measured: other programs' load, heat, power, battery."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import psutil

from core.base.system import ProcessorTimes, ProcessTree, processor_times
from core.benchmark.result import Surroundings
from core.monitor.sampler import Sampler, gpu_of
from core.monitor.system_rules import held_back
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Source

INTERVAL_SECONDS = 1.0

SHORTEST_SECONDS = 0.2
"""A span over which the load of others means something: operating systems count in steps of about a hundredth."""

SLACK_SECONDS = 0.2
"""So long after the last timed step, what a GPU tells is still of that step: its driver averages over a moment."""

SETTLED_SECONDS = 1.0
"""So long after the timed steps began, a mean power is still of what was before.

NVML's is that of the last second (NVML API reference, nvmlDeviceGetPowerUsage), Apple's that since the reading before.
"""

POWER = {"cuda": (Source.NVML, "NVML"), "mps": (Source.APPLE, "Apple's GPU counters")}
"""Who tells the power of what computes; a CPU's is told to administrators only."""

Kind = TypeVar("Kind", bound=Event)


@dataclass(frozen=True)
class Busy:
    """Processor seconds since some moment: of all programs together, and of Hone's own processes."""

    all: ProcessorTimes
    own: float


class Gauge(Protocol):
    """Reads how busy the processor is, and with what; any thread may."""

    def read(self) -> Busy | None:
        """The figures of this moment; None once the job has ended."""


class Looks(Protocol):
    """Reads the machine, as `core.monitor.sampler.Sampler` does."""

    def sample(self) -> list[Event]:
        """The figures of this moment."""

    def finish(self, seconds: float | None = None) -> None:
        """Wait until nothing is read in the background any more, or for so many seconds."""


class BusyGauge:
    """Reads it of this computer.

    Args:
        pid: The job's process. It counts as Hone's own with all it started, and so does this process.
        times: Tells the times of all cores.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        pid: int,
        times: Callable[[], ProcessorTimes] = processor_times,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = ProcessTree(pid, clock)
        self._this = psutil.Process()
        self._times = times
        self._lock = threading.Lock()

    def read(self) -> Busy | None:
        """The figures of this moment; None once the job has ended."""
        with self._lock:
            spent = [_spent(process) for process in self._job.read()]
            if not spent or spent[0] is None:
                return None
            own = sum(filter(None, spent)) + (_spent(self._this) or 0.0)
            return Busy(self._times(), own)


def _spent(process: psutil.Process) -> float | None:
    """Processor seconds of a process and of the children it has seen ending; None once it has gone."""
    try:
        found = process.cpu_times()
    except psutil.Error:
        return None
    return float(found.user + found.system + found.children_user + found.children_system)


def other_load(first: Busy, last: Busy, cores: int) -> float | None:
    """The share of all cores that other programs took in between; None where that was too short to tell.

    Args:
        first: How busy the processor was at the beginning.
        last: How busy at the end.
        cores: How many it has.
    """
    total = last.all.total - first.all.total
    if total < SHORTEST_SECONDS * cores:
        return None
    others = (last.all.busy - first.all.busy) - (last.own - first.own)
    return min(1.0, max(0.0, others / total))


class Lookout:
    """Looks around about once a second, in a thread of its own, between `follow` and `stop`.

    What is told are the figures of the timed steps, from `begin_timed` to `end_timed`. Where these were too short for
    the load of others, it is that of the whole job.

    Args:
        device: What the job computes on, as in `device.name`; never "auto".
        sampler: Makes what reads the machine, given the job's process.
        gauge: Makes what reads the processor's times, given the job's process.
        interval: Seconds from one look to the next.
        clock: Tells the time in unix seconds.
    """

    def __init__(
        self,
        device: str,
        *,
        sampler: Callable[[int], Looks] | None = None,
        gauge: Callable[[int], Gauge] = BusyGauge,
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kind = device.partition(":")[0]
        has_gpu = self._kind == "cuda"
        self._new_sampler = sampler or (
            lambda pid: Sampler(pid, (lambda: gpu_of(device)) if has_gpu else None)
        )
        self._new_gauge = gauge
        self._interval = interval
        self._clock = clock
        self._gauge: Gauge | None = None
        self._span: list[float] = []
        self._marks: list[Busy | None] = []
        self._busy: list[Busy] = []
        self._events: list[Event] = []
        self._look_now = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def follow(self, pid: int) -> None:
        """Begin; `pid` is the job's process."""
        self._gauge = self._new_gauge(pid)
        self._read_load()
        self._thread = threading.Thread(
            target=self._watch, args=(self._new_sampler(pid),), name="surroundings", daemon=True
        )
        self._thread.start()

    def begin_timed(self) -> None:
        """The timed steps begin."""
        self._mark()

    def end_timed(self) -> None:
        """The last of them has ended."""
        self._mark()

    def stop(self) -> Surroundings:
        """End, and tell what was seen."""
        self._ended = True
        self._look_now.set()
        if self._thread is not None:
            self._thread.join()
        return self._told()

    def _mark(self) -> None:
        self._span.append(self._clock())
        self._marks.append(self._read_load())
        self._look_now.set()

    def _read_load(self) -> Busy | None:
        found = self._gauge.read() if self._gauge else None
        if found is not None:
            self._busy.append(found)
        return found

    def _watch(self, sampler: Looks) -> None:
        while True:
            self._events += sampler.sample()
            self._look_now.wait(self._interval)
            self._look_now.clear()
            if self._ended:
                sampler.finish(self._interval)
                self._events += sampler.sample()
                return
            self._read_load()

    def _told(self) -> Surroundings:
        devices = self._timed(DeviceSampled)
        source, named = POWER.get(self._kind, (None, ""))
        settled = self._span[0] + SETTLED_SECONDS if self._span else 0.0
        watts = [
            one.power
            for one in devices
            if one.source is source and one.power is not None and one.time >= settled
        ]
        plugged = [one.is_plugged for one in _of(BatterySampled, self._events)]
        return Surroundings(
            other_load=self._other_load(),
            gpu_others=self._gpu_others(),
            throttled=tuple(dict.fromkeys(reason for one in devices for reason in held_back(one))),
            watts=sum(watts) / len(watts) if watts else None,
            power_source=named if watts else "",
            on_battery=None if not plugged or plugged[-1] is None else not plugged[-1],
        )

    def _other_load(self) -> float | None:
        cores = psutil.cpu_count() or 1
        first, last = (*self._marks, None, None)[:2]
        if first is not None and last is not None:
            found = other_load(first, last, cores)
            if found is not None:
                return found
        return other_load(self._busy[0], self._busy[-1], cores) if self._busy else None

    def _gpu_others(self) -> int | None:
        """What others held of the GPU; what all held at first, when the job had not touched it, if nobody tells."""
        found = [one for one in self._timed(MemorySampled) if one.source is Source.NVML]
        apart = [one.bytes - one.own for one in found if one.own is not None]
        if apart:
            return max(0, *apart)
        every = [one for one in _of(MemorySampled, self._events) if one.source is Source.NVML]
        return every[0].bytes if every else None

    def _timed(self, kind: type[Kind]) -> Sequence[Kind]:
        """Samples of the timed steps; none where they never came."""
        if len(self._span) < 2:
            return ()
        first, last = self._span[0], self._span[1] + SLACK_SECONDS
        return [one for one in _of(kind, self._events) if first <= one.time <= last]


def _of(kind: type[Kind], events: Sequence[Event]) -> list[Kind]:
    return [one for one in events if isinstance(one, kind)]
