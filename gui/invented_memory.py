"""Two runs that never were, for what their memory looks like: a Mac that comes to page, and a graphics card."""

import math
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core import run_file
from core.choices import Task
from core.errors import Fix
from core.event_files import EventWriter
from core.events import (
    Event,
    Level,
    MemorySampled,
    MessageRaised,
    Phase,
    PhaseChanged,
    Pressure,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
)
from core.options import DataOptions, MemoryOptions, ModelOptions, OutputOptions, RunOptions
from core.run_folder import RunFolder
from core.watchers.paging import MESSAGE
from gui.invented_devices import of_card, of_mac, parts_of
from gui.invented_runs import GB, VERSIONS

MINUTES = 40.0

LOADED, FIRST_STEP = 14.0, 31.0
"""Seconds after the start at which the model begins to load, and at which the first step does."""


@dataclass(frozen=True)
class Machine:
    """Where the run computes; bytes. `limit` is what its GPU may have."""

    device: str
    total: int
    limit: int
    others: float
    step_seconds: float


MAC = Machine(device="mps", total=16 * GB, limit=int(10.7 * GB), others=5.2 * GB, step_seconds=0.62)
PC = Machine(device="cuda:0", total=32 * GB, limit=24 * GB, others=6.1 * GB, step_seconds=0.21)


def make_memory_run(folder: Path, write: Callable[[RunFolder, float, float], None]) -> RunFolder:
    """Write the folder of a live run of texts that has gone on for `MINUTES`, its memory told by `write`."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source="distilbert-base-uncased"),
        data=DataOptions(train="reviews.csv"),
        memory=MemoryOptions(batch_size=32),
        output=OutputOptions(name="Reviews"),
    )
    run_file.write(options, run.options_file)
    write(run, time.time() - 60 * MINUTES, MINUTES)
    run.record_keeper(os.getpid())
    return run


def write_paging(run: RunFolder, start: float, minutes: float) -> None:
    """A Mac's memory fills up; for the last fifth of the time the run pages."""
    pages_from = 0.8 * minutes * 60
    _write_events(run, MAC, start, minutes, pages_from)
    machine = EventWriter(run.machine_file)
    samples = *_samples_of_mac(start, minutes, pages_from), *of_mac(start - 0.4, minutes * 60, pages_from)
    for event in sorted(samples, key=_time):
        machine.write(event)
    machine.write(_paging_message(start + pages_from + 4))
    machine.close()


def write_on_card(run: RunFolder, start: float, minutes: float) -> None:
    """A run on a graphics card with memory of its own, beside a game."""
    _write_events(run, PC, start, minutes, math.inf)
    machine = EventWriter(run.machine_file)
    samples = *_samples_of_pc(start, minutes), *of_card(start - 0.4, minutes * 60)
    for event in sorted(samples, key=_time):
        machine.write(event)
    machine.close()


def _write_events(run: RunFolder, machine: Machine, start: float, minutes: float, pages_from: float) -> None:
    events = EventWriter(run.events_file)
    for event in sorted(
        [*_steps(machine, start, minutes, pages_from), *_torch(machine, start, minutes)], key=_time
    ):
        events.write(event)
    events.close()


def _time(event: Event) -> float:
    return event.time


def _steps(machine: Machine, start: float, minutes: float, pages_from: float) -> Iterator[Event]:
    yield RunStarted(time=start, pid=0, versions=VERSIONS)
    yield PhaseChanged(time=start + 3, phase=Phase.LOADING_DATA, detail="reviews.csv")
    yield PhaseChanged(time=start + LOADED, phase=Phase.LOADING_MODEL, detail="distilbert-base-uncased")
    steps = round(minutes * 60 / machine.step_seconds)
    yield RunPlanned(
        time=start + FIRST_STEP - 1,
        total_steps=steps,
        epochs=3.0,
        train_samples=steps * 32 // 3,
        eval_samples=400,
        effective_batch=32,
        device=machine.device,
    )
    yield PhaseChanged(time=start + FIRST_STEP, phase=Phase.TRAINING)
    chance, clock, step = random.Random(5), FIRST_STEP, 0
    while clock < minutes * 60:
        step += 1
        slow = 9.0 if step == 1 else 30.0 if clock >= pages_from else 1.0
        seconds = machine.step_seconds * slow * (1 + 0.1 * abs(chance.gauss(0, 1)))
        clock += seconds
        yield StepFinished(
            time=start + clock,
            step=step,
            epoch=3.0 * step / steps,
            seconds=seconds,
            learning_rate=2e-5,
            samples=32,
            tokens=round(32 * 90 * (1 + 0.2 * chance.gauss(0, 1))),
            loss=0.1 + 0.6 * math.exp(-3 * step / steps) * (1 + 0.1 * chance.gauss(0, 1)),
            grad_norm=0.8 + 0.5 * chance.random(),
            **parts_of(seconds, chance, is_waited_for=step % 20 == 0),
        )


def _held(machine: Machine, clock: float) -> tuple[int, int]:
    """What tensors take, and what is held for them: the model comes, then gradients and optimizer, then batches."""
    if clock < LOADED:
        return 0, 0
    share = min(1.0, (clock - LOADED) / (FIRST_STEP - LOADED)) * 0.16
    if clock >= FIRST_STEP:
        share = 0.52 + 0.16 * math.sin(clock) ** 2 + 0.1 * min(1.0, clock / 900)
    live = share * machine.limit
    return int(live), int(min(machine.limit, max(live * 1.08, 0.86 * machine.limit * (share > 0.3))))


def _torch(machine: Machine, start: float, minutes: float) -> Iterator[Event]:
    for clock in range(2, int(minutes * 60)):
        live, held = _held(machine, clock)
        yield MemorySampled(
            time=start + clock,
            source=Source.TORCH,
            bytes=live,
            reserved=held,
            ceiling=machine.limit,
            unified=machine is MAC,
        )


def _samples_of_mac(start: float, minutes: float, pages_from: float) -> Iterator[Event]:
    for second in range(int(minutes * 60)):
        now, held = start + second - 0.4, _held(MAC, second)[1]
        process = int(GB * (0.3 + 1.1 * min(1.0, second / 20)))
        late = max(0.0, second - 0.6 * pages_from) / pages_from
        others = MAC.others * (1 - 0.1 * late) + 0.2 * GB * math.sin(second / 60)
        used = min(int(0.985 * MAC.total), int(process + held + others))
        swap = int(0.3 * GB + 5 * GB * min(1.0, max(0.0, second - pages_from + 60) / 400))
        yield MemorySampled(time=now, source=Source.PROCESS, bytes=min(process, used - held))
        yield MemorySampled(
            time=now,
            source=Source.SYSTEM,
            bytes=used,
            ceiling=MAC.total,
            swap=swap,
            compressed=int(1.2 * GB + 2 * GB * late),
            pressure=_pressure(second, pages_from),
        )


def _pressure(second: float, pages_from: float) -> Pressure:
    if second < 0.55 * pages_from or 0.6 * pages_from < second < pages_from - 90:
        return Pressure.NORMAL
    return Pressure.CRITICAL if second > pages_from else Pressure.WARN


def _samples_of_pc(start: float, minutes: float) -> Iterator[Event]:
    for second in range(int(minutes * 60)):
        now, held = start + second - 0.4, _held(PC, second)[1]
        game = (2.4 if minutes * 25 < second < minutes * 45 else 0.7) * GB
        own = int(held + 0.6 * GB) if held else 0
        process = int(GB * (0.4 + 2.6 * min(1.0, second / 25)))
        yield MemorySampled(time=now, source=Source.PROCESS, bytes=process)
        yield MemorySampled(
            time=now, source=Source.NVML, bytes=int(own + game), ceiling=PC.limit, own=own or None
        )
        yield MemorySampled(
            time=now,
            source=Source.SYSTEM,
            bytes=int(process + PC.others),
            ceiling=PC.total,
            swap=0,
            pressure=Pressure.NORMAL,
        )


def _paging_message(moment: float) -> MessageRaised:
    return MessageRaised(
        time=moment,
        id=MESSAGE,
        level=Level.WARNING,
        title="The run is paging: a step takes 30 times as long as before",
        detail="A step has taken 19 s so far, those before took 650 ms. Meanwhile 98 % of the memory (16 GB) was in "
        "use and swap grew by 340 MB. What doesn't fit is moved out of memory and back, and so it goes on at this "
        "pace. Close other programs, or end this run and start one that takes less.",
        fixes=(Fix("Batches of 16, accumulated to the same effect", {"memory.batch_size": 16}),),
    )
