"""Runs for tests: a small valid request, a keeper with a fake engine, and waiting for what a run does."""

import contextlib
import hashlib
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import Fix
from core.base.files import write_atomically
from core.memory.model import Basis, Parts
from core.monitor.system_rules import PAGING as MESSAGE
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs import elsewhere
from core.runs import start as runs_start
from core.runs.event_log import EventWriter, RunFollower
from core.runs.events import (
    CheckpointSaved,
    DeviceSampled,
    Evaluated,
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    Outcome,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    Throttle,
    WhatRan,
    split_non_finite,
)
from core.runs.folder import Connection, ExitRecord, KeeperRecord, RunFolder
from core.runs.library import create
from core.runs.models import MARKER, STATE, FileEntry
from core.runs.start import QUEUE_FLAG

FAKES = Path(__file__).parent


def digits_options(name: str | None = "Digits") -> RunOptions:
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18", pretrained=False),
        data=DataOptions(train="builtin:digits"),
        output=OutputOptions(name=name),
    )


def new_run(folder: Path) -> RunFolder:
    return create(digits_options(), folder)


def write_events(file: Path, *events: Event, attempt: int = 1) -> None:
    """Append events to a file of a run, as its only writer would."""
    writer = EventWriter(file, attempt)
    for event in events:
        writer.write(event)
    writer.close()


def plan(**changes: Any) -> RunPlanned:
    """The plan of nine steps in one epoch."""
    known = {"total_steps": 9, "epochs": 1, "train_samples": 9, "eval_samples": 1, "effective_batch": 1}
    return RunPlanned(**{**known, **changes})


def step(number: int, **changes: Any) -> StepFinished:
    """A step of half a second with eight samples."""
    known = {"epoch": number / 10, "seconds": 0.5, "learning_rate": 1e-3, "samples": 8}
    return StepFinished(step=number, **{**known, **changes})


def what_ran(**changes: Any) -> WhatRan:
    """What runs on a CPU in fp32, with AdamW and ten parameters."""
    names = {"device": "cpu", "device_name": PROCESSOR, "parameter_dtype": "float32", "optimizer": "AdamW"}
    sizes = {"optimizer_state_bytes": 80, "trainable_parameters": 10, "total_parameters": 10}
    return WhatRan(**{**names, **sizes, "autocast_dtype": None, "effective_batch": 8, **changes})


def record_keeper(run: RunFolder, **changes: Any) -> KeeperRecord:
    """Record this process as a run's keeper, with changes; `started=0.0` makes it one that has ended."""
    record = msgspec.structs.replace(KeeperRecord.of(os.getpid()), **changes)
    run.keeper_file.write_bytes(msgspec.json.encode(record))
    return record


def link(run: RunFolder, *, is_own: bool = True, **changes: Any) -> None:
    """Record that a run trains on the computer workshop, which was heard just now, with changes.

    Unless it `is_own`, this Hone hasn't started it.
    """
    known = {"folder": run.name, "attempt": 1, "connected": True, "heard": time.time()}
    connection = Connection(**{"computer": "workshop", **known, **changes})
    write_atomically(run.connection_file, msgspec.json.encode(connection))
    if is_own:
        elsewhere.claim(run.path, connection.computer, connection.folder)


def save_checkpoint(run: RunFolder, step: int) -> None:
    """Put a complete checkpoint into a run; nothing could be loaded from it."""
    folder = run.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / STATE).write_bytes(b"{}")
    entries = {STATE: FileEntry(bytes=2, sha256=hashlib.sha256(b"{}").hexdigest())}
    (folder / MARKER).write_bytes(msgspec.json.encode(entries))


def keeper_command(run: RunFolder | Path, scenario: str, *, queued: bool = False) -> list[str]:
    """What starts the real keeper with the fake engine playing `scenario`."""
    flags = [QUEUE_FLAG] if queued else []
    folder = run.path if isinstance(run, RunFolder) else run
    return [sys.executable, "-P", str(FAKES / "keeper.py"), scenario, str(folder.absolute()), *flags]


def play(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engines of all runs that are started play `scenario`."""
    command = partial(keeper_command, scenario=scenario)
    monkeypatch.setattr(runs_start, "keeper_command", command)


def start(run: RunFolder, scenario: str, *, queued: bool = False) -> subprocess.Popen[bytes]:
    """Start the real keeper with the fake engine playing `scenario`."""
    return runs_start.start(run, keeper_command(run, scenario, queued=queued), queued=queued)


def follow_until(
    follower: RunFollower,
    process: subprocess.Popen[bytes],
    condition: Callable[[], bool],
    seconds: float = 10.0,
) -> None:
    """Poll until `condition` holds; fails after `seconds`. Between polls it waits for `process`."""
    deadline = time.monotonic() + seconds
    follower.poll()
    while not condition():
        assert time.monotonic() < deadline, f"still {follower.state} at step {follower.status.step}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
        follower.poll()


GB = 1 << 30
VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0", "datasets": "5.2.0"}
PROCESSOR = "AMD EPYC"
PROCESSOR_BYTES = 24 * GB

OPTIONS = RunOptions(
    task=Task.IMAGE_CLASSIFICATION,
    model=ModelOptions(source="torchvision:resnet18", pretrained=False),
    data=DataOptions(train="builtin:digits", eval_fraction=0.2, image_size=32),
    memory=MemoryOptions(batch_size=32),
    training=TrainingOptions(epochs=8.0, learning_rate=1e-3),
    output=OutputOptions(name="Handwritten digits"),
)
FORECAST = MemoryForecast(
    device="cpu",
    basis=Basis.FORMULA,
    parts=Parts(weights=GB // 2, activations=2 * GB),
    fixes=(Fix("Batch size 8 (saves 700 MB)", {"memory.batch_size": 8}),),
)


def make_folder(path: Path, options: RunOptions = OPTIONS) -> RunFolder:
    """A folder in which nothing has happened yet."""
    path.mkdir(parents=True)
    run = RunFolder(path)
    run_file.write(options, run.options_file)
    return run


def warn(run: RunFolder) -> None:
    """The engine finds memory nearly used up."""
    message = MessageRaised(
        id="memory-low",
        level=Level.WARNING,
        title="Memory is nearly used up",
        detail="14.9 of 16 GB are in use. The computer starts to page, and steps become many times slower.",
        fixes=(Fix("Use batch size 8", {"memory.batch_size": 8}),),
    )
    write_events(run.events_file, message)


def crash(run: RunFolder, clock: float) -> None:
    """The engine is killed."""
    tail = "Loading builtin:digits\nTraining on cpu\n"
    run.log_file.write_text(tail)
    run.record_exit(
        ExitRecord(
            time=clock + 0.2,
            code=-9,
            signal="SIGKILL",
            reason=(
                "It was killed by another process. Often this is the operating system when memory "
                "runs out: try a smaller batch size."
            ),
            log_tail=tail,
        )
    )


def keep_alive(run: RunFolder, attempt: int = 1) -> None:
    """Let the run count as live: this very process is its keeper."""
    run.record_keeper(os.getpid(), attempt)


@dataclass(frozen=True)
class Plot:
    """How a story goes: digits in batches of 32. Times are seconds; the run starts at `start` (unix seconds).

    It has come to step `reached` of `steps`; since step `nan_from` its losses are not numbers. It learns `pace` times
    as fast as others do.
    """

    steps: int = 360
    epochs: int = 8
    reached: int = 360
    step_seconds: float = 0.21
    start: float = 1_795_230_000.0
    nan_from: int | None = None
    pace: float = 1.0
    seed: int = 7


def write_story(run: RunFolder, plot: Plot) -> float:
    """Write a run up to the step `plot.reached`; returns the unix time of its last event."""
    chance = random.Random(plot.seed)
    told = opening(plot)
    clock = told[-1].time
    per_epoch = max(1, plot.steps // plot.epochs)
    for step in range(1, plot.reached + 1):
        seconds = plot.step_seconds * (8.0 if step == 1 else 1 + 0.08 * abs(chance.gauss(0, 1)))
        clock += seconds
        told.append(_step(plot, step, clock, seconds, chance))
        if step % per_epoch == 0:
            clock += 0.8
            told += [_evaluation(plot, step, clock), _checkpoint(step, clock)]
            keep_checkpoint(run, step)
    write_events(run.events_file, *told)
    write_events(run.machine_file, *_machine_of(plot, clock))
    return clock


def finish(run: RunFolder, plot: Plot, clock: float) -> None:
    """Let the engine of a run that was written up to `clock` end well."""
    ended = RunFinished(
        time=clock + 0.5,
        state=Outcome.FINISHED,
        metrics=_evaluation(plot, plot.reached, clock).metrics,
        samples_per_second=148.7,
        seconds=clock - plot.start,
        steps=plot.reached,
        peak_bytes=int(2.6 * GB),
    )
    write_events(run.events_file, ended)
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))


def pause(run: RunFolder, plot: Plot, clock: float) -> None:
    """Let the engine of a run that was written up to `clock` save where it is, and end."""
    ended = RunFinished(time=clock + 0.5, state=Outcome.PAUSED, steps=plot.reached)
    write_events(run.events_file, _checkpoint(plot.reached, clock + 0.4), ended)
    keep_checkpoint(run, plot.reached)
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))


def keep_checkpoint(run: RunFolder, step: int) -> None:
    """Save the checkpoint of a step, and delete all others."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    save_checkpoint(run, step)


def opening(plot: Plot) -> list[Event]:
    """What happens before the first step."""
    at = plot.start
    parts = Parts(
        weights=45_000_000,
        gradients=45_000_000,
        optimizer=90_000_000,
        activations=1_610_000_000,
        temporary=210_000_000,
        overhead=650_000_000,
    )
    return [
        RunStarted(time=at, pid=0, versions=VERSIONS),
        PhaseChanged(time=at + 1, phase=Phase.LOADING_DATA, detail="builtin:digits"),
        PhaseChanged(time=at + 2, phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"),
        RunPlanned(
            time=at + 3,
            total_steps=plot.steps,
            epochs=float(plot.epochs),
            train_samples=1437,
            eval_samples=360,
            effective_batch=32,
            labels=tuple("0123456789"),
            device="cpu",
        ),
        what_ran(
            time=at + 3.2,
            autocast_dtype="bfloat16",
            optimizer="AdamW (fused)",
            optimizer_state_bytes=89_453_136,
            trainable_parameters=11_181_642,
            total_parameters=11_181_642,
            effective_batch=32,
            reasons={"precision": "bf16: this CPU computes it in hardware"},
        ),
        MemoryForecast(time=at + 3.2, device="cpu", basis=Basis.FORMULA, parts=parts),
        PhaseChanged(time=at + 3.3, phase=Phase.TRAINING),
    ]


def _step(plot: Plot, step: int, clock: float, seconds: float, chance: random.Random) -> StepFinished:
    """One step: a falling, noisy loss."""
    falling = 2.3 * math.exp(-3.2 * plot.pace * step / plot.steps) + 0.04
    loss = falling * (1 + 0.18 * chance.gauss(0, 1))
    if plot.nan_from is not None and step >= plot.nan_from:
        loss = math.nan
    value, non_finite = split_non_finite(loss)
    return StepFinished(
        time=clock,
        step=step,
        epoch=plot.epochs * step / plot.steps,
        seconds=seconds,
        learning_rate=1e-3 * 0.5 * (1 + math.cos(math.pi * step / plot.steps)),
        samples=32,
        loss=value,
        grad_norm=1.2 * falling * (1 + 0.3 * chance.random()),
        non_finite=non_finite,
        **_parts_of(seconds, chance),
    )


def _parts_of(seconds: float, chance: random.Random, *, is_waited_for: bool = True) -> dict[str, Any]:
    """Parts of a step; of one that nobody waited for, only what the data took."""
    data = seconds * (0.05 + 0.03 * chance.random())
    rest = 0.97 * (seconds - data)
    shares = {"forward_seconds": 0.31, "backward_seconds": 0.55, "optimizer_seconds": 0.14}
    computed = {name: share * rest for name, share in shares.items()} if is_waited_for else {}
    return {"data_seconds": data, **computed}


def _evaluation(plot: Plot, step: int, clock: float) -> Evaluated:
    """Held-out metrics that get better."""
    share = step / plot.steps
    accuracy = 0.982 - 0.5 * math.exp(-6 * plot.pace * share)
    loss = 2.0 * math.exp(-3.4 * plot.pace * share) + 0.08
    metrics = {"eval_loss": loss, "eval_accuracy": accuracy, "eval_f1": accuracy - 0.004}
    return Evaluated(time=clock, step=step, epoch=plot.epochs * share, metrics=metrics, seconds=0.6)


def _checkpoint(step: int, clock: float) -> CheckpointSaved:
    path = f"checkpoints/checkpoint-{step}"
    return CheckpointSaved(time=clock, step=step, path=path, bytes=134_000_000, seconds=0.2)


def _machine_of(plot: Plot, until: float) -> Iterator[Event]:
    """A CPU that is nearly always busy and grows warm, and its memory, a sample a second."""
    start = plot.start - 0.2
    for second in range(int(until - start) + 1):
        now = start + second
        mine = int(GB * (0.4 + 2.2 * (1 - math.exp(-second / 4))))
        used = mine + int(GB * (5.6 + 0.3 * math.sin(second / 9)))
        yield MemorySampled(time=now, source=Source.PROCESS, bytes=mine)
        yield MemorySampled(time=now, source=Source.SYSTEM, bytes=used, ceiling=PROCESSOR_BYTES)
        yield DeviceSampled(
            time=now,
            source=Source.SYSTEM,
            name=PROCESSOR,
            busy=0.94 + 0.05 * math.sin(second / 3) if second > 3 else 0.4,
            temperature=52 + 26 * (1 - math.exp(-second / 40)) + 1.5 * math.sin(second / 5),
            clock=3400 - 250 * (1 - math.exp(-second / 60)) + 60 * math.sin(second / 4),
            clock_limit=3700,
        )


MINUTES = 40.0
LOADED, FIRST_STEP = 14.0, 31.0
"""Seconds after the start at which the model begins to load, and at which the first step does."""


@dataclass(frozen=True)
class Machine:
    """Where a run of texts computes; bytes. `limit` is what its GPU may have."""

    device: str
    total: int
    limit: int
    others: float
    step_seconds: float


MAC = Machine(device="mps", total=16 * GB, limit=int(10.7 * GB), others=5.2 * GB, step_seconds=0.62)
PC = Machine(device="cuda:0", total=32 * GB, limit=24 * GB, others=6.1 * GB, step_seconds=0.21)


def make_memory_run(folder: Path, write: Callable[[RunFolder, float, float], None]) -> RunFolder:
    """Write the folder of a live run of texts that has gone on for `MINUTES`, its memory told by `write`."""
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source="distilbert-base-uncased"),
        data=DataOptions(train="reviews.csv"),
        memory=MemoryOptions(batch_size=32),
        output=OutputOptions(name="Reviews"),
    )
    run = make_folder(folder, options)
    write(run, time.time() - 60 * MINUTES, MINUTES)
    keep_alive(run)
    return run


def write_paging(run: RunFolder, start: float, minutes: float) -> None:
    """A Mac's memory fills up; for the last fifth of the time the run pages."""
    pages_from = 0.8 * minutes * 60
    message = MessageRaised(
        time=start + pages_from + 4,
        id=MESSAGE,
        level=Level.WARNING,
        title="The run is paging: a step takes 30 times as long as before",
        detail="A step has taken 19 s so far, those before took 650 ms. Meanwhile 98 % of the memory (16 GB) was in "
        "use and swap grew by 340 MB. What doesn't fit is moved out of memory and back, and so it goes on at this "
        "pace. Close other programs, or end this run and start one that takes less.",
        fixes=(Fix("Batch size 16 with accumulation: the same effective batch", {"memory.batch_size": 16}),),
    )
    _write_texts(run, MAC, start, minutes, pages_from)
    write_events(run.machine_file, *_samples_of_mac(start - 0.4, int(minutes * 60), pages_from), message)


def write_on_card(run: RunFolder, start: float, minutes: float) -> None:
    """A run on a graphics card with memory of its own, beside a game; the card gets too hot for some minutes."""
    _write_texts(run, PC, start, minutes, math.inf)
    write_events(run.machine_file, *_samples_of_pc(start - 0.4, int(minutes * 60)))


def _write_texts(run: RunFolder, machine: Machine, start: float, minutes: float, pages_from: float) -> None:
    told = [*_steps(machine, start, minutes, pages_from), *_torch(machine, start, minutes)]
    write_events(run.events_file, *sorted(told, key=attrgetter("time")))


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
            **_parts_of(seconds, chance, is_waited_for=step % 20 == 0),
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


def _samples_of_mac(start: float, seconds: int, pages_from: float) -> Iterator[Event]:
    """The GPU is hot for a while, and waits for memory once the run pages."""
    for second in range(seconds):
        now, held = start + second, _held(MAC, second)[1]
        process = int(GB * (0.3 + 1.1 * min(1.0, second / 20)))
        late = max(0.0, second - 0.6 * pages_from) / pages_from
        others = MAC.others * (1 - 0.1 * late) + 0.2 * GB * math.sin(second / 60)
        used = min(int(0.985 * MAC.total), int(process + held + others))
        is_hot = 0.5 * pages_from < second < 0.7 * pages_from
        yield MemorySampled(time=now, source=Source.PROCESS, bytes=min(process, used - held))
        yield MemorySampled(
            time=now,
            source=Source.SYSTEM,
            bytes=used,
            ceiling=MAC.total,
            swap=int(0.3 * GB + 5 * GB * min(1.0, max(0.0, second - pages_from + 60) / 400)),
            compressed=int(1.2 * GB + 2 * GB * late),
            pressure=_pressure(second, pages_from),
        )
        yield DeviceSampled(
            time=now,
            source=Source.APPLE,
            name="Apple M2 Pro",
            busy=0.02 if second < 31 else 0.2 if second > pages_from else 0.97 - 0.2 * is_hot,
            thermal=2 if is_hot else 0,
        )


def _pressure(second: float, pages_from: float) -> Pressure:
    if second < 0.55 * pages_from or 0.6 * pages_from < second < pages_from - 90:
        return Pressure.NORMAL
    return Pressure.CRITICAL if second > pages_from else Pressure.WARN


def _samples_of_pc(start: float, seconds: int) -> Iterator[Event]:
    for second in range(seconds):
        now, held = start + second, _held(PC, second)[1]
        game = (2.4 if seconds * 25 < second * 60 < seconds * 45 else 0.7) * GB
        own = int(held + 0.6 * GB) if held else 0
        process = int(GB * (0.4 + 2.6 * min(1.0, second / 25)))
        is_hot, is_busy = 0.45 * seconds < second < 0.62 * seconds, second > 30
        power = 348 if is_hot else 300 + 18 * math.sin(second / 7)
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
        yield DeviceSampled(
            time=now,
            source=Source.NVML,
            name="NVIDIA GeForce RTX 4090",
            busy=0.96 + 0.03 * math.sin(second / 5) if is_busy else 0.02,
            power=power if is_busy else 31,
            power_limit=350,
            temperature=88 if is_hot else 38 + 33 * (1 - math.exp(-max(0, second - 30) / 200)),
            clock=(2310 if is_hot else 2640) if is_busy else 210,
            clock_limit=2760,
            throttled=(Throttle.THERMAL_HARDWARE,) if is_hot else (),
        )
