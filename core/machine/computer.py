"""The computer itself as sources of figures: its processes, memory, processor, battery and disk (psutil)."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from core.events import BatterySampled, DeviceSampled, DiskSampled, Event, MemorySampled, Source
from core.machine.linux_sensors import processor_sensor, read_sensor
from core.machine.memory import ProcessorLoad, resident_bytes, system_memory
from core.machine.pressure import PressureGauge
from core.machine.process_tree import ProcessTree
from core.machine.sources import Query

DEAR_SECONDS = 0.002
"""Processor time from which on a figure isn't worth reading every second.

Linux reads the clock of every core out of `/proc/cpuinfo`: 0.06 ms with 2 cores, more than this with very many.
"""


class ProcessMemory:
    """What a process and everything it started hold of the main memory."""

    def __init__(self, processes: ProcessTree) -> None:
        self._processes = processes

    def read(self) -> Sequence[Event]:
        """One sample; none once the process has gone."""
        held = resident_bytes(self._processes.read())
        return [] if held is None else [MemorySampled(source=Source.PROCESS, bytes=held)]


class MainMemory:
    """What all programs hold of the main memory, and how short of it the operating system is.

    Args:
        gauge: What tells the pressure.
        compressed: Tells the bytes that macOS keeps compressed; None: not known.
    """

    def __init__(self, gauge: PressureGauge, compressed: Callable[[], int | None]) -> None:
        self._gauge = gauge
        self._compressed = compressed

    def read(self) -> Sequence[Event]:
        """One sample."""
        system = system_memory()
        return [
            MemorySampled(
                source=Source.SYSTEM,
                bytes=system.used,
                ceiling=system.total,
                swap=system.swap,
                compressed=self._compressed(),
                pressure=self._gauge.read(),
            )
        ]


class Processor:
    """How busy the processor's cores are together, their clock and temperature where these are told."""

    def __init__(self) -> None:
        self._load = ProcessorLoad()
        self._load.read()
        self._clock = processor_clock()
        self._temperature = _processor_temperature()

    def read(self) -> Sequence[Event]:
        """One sample; none the first time, when there is no span yet over which it could be busy."""
        busy = self._load.read()
        if busy is None:
            return []
        now, limit = self._clock() or (None, None)
        return [
            DeviceSampled(
                source=Source.SYSTEM,
                name="CPU",
                busy=busy,
                clock=now,
                clock_limit=limit,
                temperature=self._temperature(),
            )
        ]


class Battery:
    """The computer's battery, where it has one."""

    def __init__(self) -> None:
        self._query = Query(_read_battery, AttributeError, OSError, RuntimeError, ValueError)

    def read(self) -> Sequence[Event]:
        """One sample."""
        found = self._query()
        if found is None or found.percent is None:
            return []
        return [BatterySampled(share=min(1.0, found.percent / 100), is_plugged=found.power_plugged)]


class Disk:
    """The disk that a folder lies on."""

    def __init__(self, folder: Path) -> None:
        self._query = Query(lambda: psutil.disk_usage(str(folder)), OSError)

    def read(self) -> Sequence[Event]:
        """One sample."""
        found = self._query()
        return [] if found is None else [DiskSampled(free=int(found.free), total=int(found.total))]


def processor_clock(
    system: str = sys.platform, cpu: Callable[[], float] = time.thread_time
) -> Query[tuple[float, float | None]]:
    """What tells the cores' mean clock and its limit in MHz; it tells nothing where reading it once took long.

    Only Linux tells the clock of this moment: psutil has the highest on a Mac and the nominal one on Windows.

    Args:
        system: The operating system, as in `sys.platform`.
        cpu: Tells the processor time that this thread has taken, in seconds.
    """
    query = Query(_clock if system == "linux" else _nothing, OSError, NotImplementedError, ValueError)
    query()  # the first time takes longer
    before = cpu()
    query()
    return query if cpu() - before <= DEAR_SECONDS else Query(_nothing)


def _clock() -> tuple[float, float | None] | None:
    found = psutil.cpu_freq()
    return (float(found.current), float(found.max) or None) if found and found.current else None


def _nothing() -> None:
    return None


def _read_battery() -> Any:
    return psutil.sensors_battery()  # AttributeError: psutil lacks it on some systems


def _processor_temperature() -> Query[float]:
    sensor = processor_sensor() if sys.platform == "linux" else None
    return Query(lambda: read_sensor(sensor) if sensor is not None else None, OSError, ValueError)
