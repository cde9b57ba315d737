"""Warnings about the machine: battery, disk, paging, silence, data loading, throttling.

A Mac with too large a model doesn't fail, it pages; so do Linux and Windows with swap, and Windows drivers with GPU
memory. `PagingWatch` compares step times with earlier ones, and calls a slow step paging only if memory is at its limit
or swap grows.
"""

import statistics
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil

from core.base import formats
from core.base import formats as figures
from core.base.errors import Fix
from core.base.system import process_tree
from core.monitor import recent as limits
from core.monitor.apple import SLOWED_FROM, Throttle, thermal_name
from core.monitor.recent import END, REVEAL, STOP, Finding, Recent
from core.runs.events import (
    DeviceSampled,
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    RunStarted,
    Source,
    StepFinished,
)
from core.runs.words import what_was_told

# --- Processor time of a process


LOOKS = 10


class Activity:
    """Processor time of a process and everything it started, as a share of one core.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: deque[tuple[float, float]] = deque(maxlen=LOOKS)

    def read(self) -> float | None:
        """The share since the tenth call before, or the first after `forget`; None then, and where it can't be read."""
        used = self._used()
        now = time.monotonic()
        if used is None:
            return None
        self._looks.append((now, used))
        begun, before = self._looks[0]
        return max(0.0, used - before) / (now - begun) if now > begun else None

    def forget(self) -> None:
        """Begin anew with the next call."""
        self._looks.clear()

    def _used(self) -> float | None:
        total = None
        for process in process_tree(self._pid):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total = (total or 0.0) + times.user + times.system
        return total


# --- Battery


BATTERY = "battery"


def battery(recent: Recent, *, raised: str) -> Finding | None:
    """Find that the computer is unplugged: a note, or a warning once little is left."""
    since, battery = recent.unplugged_since, recent.battery
    if battery is None or since is None:
        return None
    if not raised and recent.now - since < limits.UNPLUGGED_SECONDS:
        return None
    left = f"{100 * battery.share:.0f} %"
    if battery.share < (limits.BATTERY_OVER if raised == "low" else limits.BATTERY_LOW):
        return Finding(
            key="low",
            level=Level.WARNING,
            title=f"The battery is at {left}",
            detail="Training empties a battery fast, and the computer will sleep or switch off before it is done. Plug "
            "it in, or stop: the run saves a checkpoint and ends.",
            fixes=(STOP,),
        )
    return Finding(
        key="unplugged",
        level=Level.INFO,
        title="The computer runs on its battery",
        detail=f"It is at {left}. Plugged in, most laptops train faster, and the run can't end for lack of power.",
        fixes=(STOP,),
    )


# --- Disk


DISK_FULL = "disk-full"

FULL_NUMBER = 4
BYTES_EACH = {"float64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}
"""Bytes of a weight by `WhatRan.parameter_dtype`; of any other it is a full number."""


def disk_space(recent: Recent, *, raised: str) -> Finding | None:
    """Find that little is free: less than an operating system wants, or than two checkpoints take."""
    if recent.disk is None:
        return None
    checkpoint = _checkpoint_bytes(recent)
    limit = max(limits.DISK_FREE, limits.DISK_CHECKPOINTS * checkpoint)
    free = recent.disk.free
    if free >= limit * (limits.DISK_OVER if raised else 1.0):
        return None
    has_room = free > checkpoint
    return Finding(
        key="low" if has_room else "no room",
        level=Level.WARNING,
        title="The disk is nearly full" if has_room else "The disk has no room for the next checkpoint",
        detail=f"{figures.size(free)} of {figures.size(recent.disk.total)} are free where the run is kept."
        f"{_takes(recent, checkpoint)} Runs that can't write end, so make some room: empty the bin, or remove runs you "
        "no longer want.",
        fixes=_fixes_for_disk(recent, has_room=has_room),
    )


def _checkpoint_bytes(recent: Recent) -> int:
    """What the last one took; before it, what its weights and the optimizer's state come to; 0: not known yet."""
    if recent.checkpoint is not None:
        return recent.checkpoint.bytes
    ran = recent.what_ran
    if ran is None:
        return 0
    saved = ran.trainable_parameters if ran.adapter else ran.total_parameters
    each = max(BYTES_EACH.get(dtype, FULL_NUMBER) for dtype in ran.parameter_dtype.split(" + "))
    return saved * each + ran.optimizer_state_bytes


def _takes(recent: Recent, checkpoint: int) -> str:
    if not checkpoint:
        return ""
    verb = "takes" if recent.checkpoint is not None else "will take about"
    return f" A checkpoint of this run {verb} {figures.size(checkpoint)}."


def _fixes_for_disk(recent: Recent, *, has_room: bool) -> tuple[Fix, ...]:
    """To stop saves a checkpoint, too."""
    kept = recent.options.output.keep_checkpoints if recent.options is not None else 0
    fewer = (Fix("Keep one checkpoint only", {"output.keep_checkpoints": 1}),) if kept > 1 else ()
    return (*fewer, REVEAL, *((STOP,) if has_room else ()))


# --- Reasons of throttling


def held_back(sample: DeviceSampled) -> tuple[str, ...]:
    """Why a processor is slower than it should be; empty: it isn't, or nobody tells.

    The words are those of `Throttle`, or such as a newer driver or Hone wrote down. A GPU at its cap of power runs
    below its highest clock by design: that counts only where it is far below. One that has little to do clocks down to
    save power, not because it has to.
    """
    if sample.thermal is not None and sample.thermal >= SLOWED_FROM:
        return (Throttle.PRESSURE,)
    if sample.busy is not None and sample.busy < limits.BUSY:
        return ()
    if sample.throttled is None:
        return (Throttle.HOT,) if _is_slowed_by_heat(sample) else ()
    is_far_below = _is_below(sample, limits.CLOCK_CAPPED)
    return tuple(reason for reason in sample.throttled if reason != Throttle.POWER_CAP or is_far_below)


def _is_slowed_by_heat(sample: DeviceSampled) -> bool:
    """Whether the temperature and the clock say so."""
    is_hot = sample.temperature is not None and sample.temperature >= limits.HOT
    return is_hot and sample.source is not Source.SYSTEM and _is_below(sample, limits.CLOCK_LOW)


def _is_below(sample: DeviceSampled, share: float) -> bool:
    """Whether the clock is known and below this share of its limit."""
    if sample.clock is None or sample.clock_limit is None:
        return False
    return sample.clock < share * sample.clock_limit


# --- Paging


PAGING = "paging"
"""The id of the message."""

_OWNERS = {
    Source.SYSTEM: "the memory",
    Source.TORCH: "what the GPU may have",
    Source.NVML: "the GPU's memory",
}


@dataclass(frozen=True)
class _Look:
    """Memory at one moment: bytes of `swap`, and in words what is `full` (empty: nothing)."""

    time: float
    swap: int | None
    full: str


class PagingWatch:
    """Takes in the events of a run, its engine's and its keeper's in the order of time, and gives the messages.

    Steps are judged when the next sample of the computer's memory has come: it tells what memory did meanwhile. They
    are wall time as `step_finished` has it, so evaluations and checkpoints, which lie between steps, and compiling
    are left out; the step under way counts only while the phase is training.

    Args:
        fixes: What to offer; those of a `memory_forecast` event take their place.
    """

    def __init__(self, fixes: tuple[Fix, ...] = ()) -> None:
        self._fixes = fixes
        self._told: MemoryForecast | None = None
        self._restart()

    def _restart(self) -> None:
        self._full: dict[Source, str] = {}
        self._looks: deque[_Look] = deque()
        self._known: deque[float] = deque(maxlen=limits.PAGING_STEPS_KNOWN)
        self._waiting: list[StepFinished] = []
        self._begun: float | None = None
        self._is_warm = self._is_raised = False
        self._slow_in_a_row = self._calm_in_a_row = 0

    def apply(self, event: Event) -> list[Event]:
        """Take in one event; returns the messages to write."""
        match event:
            case RunStarted():
                self._restart()
            case RunFinished():
                self._begun = None
            case PhaseChanged():
                self._begun = event.time if event.phase is Phase.TRAINING else None
            case StepFinished():
                self._waiting.append(event)
                self._begun = event.time if self._begun is not None else None
            case MemoryForecast():
                self._fixes, self._told = event.fixes or self._fixes, event
            case MemorySampled():
                self._full[event.source] = _full_words(event)
                if event.source is Source.SYSTEM:
                    self._looks.append(
                        _Look(event.time, event.swap, ", ".join(filter(None, self._full.values())))
                    )
                    return list(self._judge(event.time))
        return []

    @property
    def _usual(self) -> float | None:
        """Median seconds of the steps so far; None before there are enough."""
        return statistics.median(self._known) if len(self._known) >= limits.PAGING_STEPS_BEFORE else None

    def _judge(self, now: float) -> Iterator[Event]:
        for step in self._waiting:
            if step.compile_seconds or not self._is_warm:
                self._is_warm = True
            elif self._is_raised:
                yield from self._look_for_calm(step)
            else:
                yield from self._look_for_paging(step)
        self._waiting.clear()
        yield from self._look_at_unfinished(now)
        self._forget_looks(self._begun if self._begun is not None else now)

    def _look_for_paging(self, step: StepFinished) -> Iterator[Event]:
        usual = self._usual
        is_slow = usual is not None and step.seconds >= limits.PAGING_SLOWER * usual
        cause = self._cause(step.time - step.seconds) if is_slow else ""
        if usual is None or not cause:
            self._slow_in_a_row = 0
            self._known.append(step.seconds)
            return
        self._slow_in_a_row += 1
        if self._slow_in_a_row >= limits.PAGING_SLOW_STEPS or step.seconds >= limits.PAGING_ALONE_SECONDS:
            yield self._raise(step.seconds, usual, cause, is_over=True)

    def _look_at_unfinished(self, now: float) -> Iterator[Event]:
        usual = self._usual
        if self._is_raised or usual is None or self._begun is None:
            return
        lasted = now - self._begun
        if lasted >= max(limits.PAGING_SLOWER * usual, limits.PAGING_ALONE_SECONDS) and (
            cause := self._cause(self._begun)
        ):
            yield self._raise(lasted, usual, cause, is_over=False)

    def _look_for_calm(self, step: StepFinished) -> Iterator[Event]:
        usual = self._usual
        is_calm = usual is not None and step.seconds < limits.PAGING_CALM * usual
        self._calm_in_a_row = self._calm_in_a_row + 1 if is_calm else 0
        if self._calm_in_a_row >= limits.PAGING_CALM_STEPS:
            self._is_raised = False
            self._slow_in_a_row = 0
            yield MessageWithdrawn(id=PAGING)

    def _cause(self, begun: float) -> str:
        """What memory has done since `begun` that makes a run page, in words; empty: nothing."""
        looks = self._looks_since(begun)
        swaps = [look.swap for look in looks if look.swap is not None]
        grown = max(swaps) - swaps[0] if swaps else 0
        full = next((look.full for look in reversed(looks) if look.full), "")
        swapped = f"swap grew by {figures.size(grown)}" if grown > limits.PAGING_SWAP_GROWTH else ""
        return " and ".join(filter(None, (full, swapped)))

    def _looks_since(self, begun: float) -> list[_Look]:
        """The looks from the last one before `begun` on."""
        later = [look for look in self._looks if look.time > begun]
        before = len(self._looks) - len(later)
        return [*([self._looks[before - 1]] if before else []), *later]

    def _forget_looks(self, begun: float) -> None:
        while len(self._looks) > 1 and self._looks[1].time <= begun:
            self._looks.popleft()

    def _raise(self, seconds: float, usual: float, cause: str, *, is_over: bool) -> MessageRaised:
        self._is_raised = True
        self._calm_in_a_row = 0
        lasted = f"A step {'took' if is_over else 'has taken'} {formats.seconds(seconds)}{'' if is_over else ' so far'}"
        return MessageRaised(
            id=PAGING,
            level=Level.WARNING,
            title=f"The run is paging: a step takes {seconds / usual:.0f} times as long as before",
            detail=" ".join(
                (
                    f"{lasted}, those before took {formats.seconds(usual)}. Meanwhile {cause}. What doesn't fit is "
                    "moved out of memory and back, and so it goes on at this pace. Close other programs, or end this "
                    "run and start one that takes less.",
                    *what_was_told(self._told),
                )
            ),
            fixes=(*self._fixes, STOP),
        )


def _owner(sample: MemorySampled) -> str | None:
    """Whose memory it is that pages when it is full; a graphics card's own does so under Windows' drivers only."""
    if sample.source is Source.TORCH and not sample.unified:
        return None
    if sample.source is Source.NVML and sys.platform != "win32":
        return None
    return _OWNERS.get(sample.source)


def _full_words(sample: MemorySampled) -> str:
    """That a memory is full, in words; empty where it isn't, or that isn't known."""
    owner, ceiling = _owner(sample), sample.ceiling
    held = max(sample.bytes, sample.reserved or 0)
    if owner and ceiling and held >= limits.PAGING_FULL * ceiling:
        return f"{100 * held / ceiling:.0f} % of {owner} ({figures.size(ceiling)}) was in use"
    return "the system was critically short of memory" if sample.pressure is Pressure.CRITICAL else ""


# --- Silence


SILENCE = "silence"

_WHILE_LOADING = (
    "A stop is taken at once; if the process is stuck, end it now. This attempt has saved nothing yet."
)
_AFTER_A_STEP = (
    "A stop is taken after the next step; if none comes, ending it now leaves the last checkpoint, if any."
)
_STOPS: dict[Phase | None, str] = {
    Phase.TRAINING: _AFTER_A_STEP,
    Phase.COMPILING: _AFTER_A_STEP,
    Phase.EVALUATING: "A stop is taken after the next batch; if none comes, ending it now leaves the last checkpoint, "
    "if there is one.",
    Phase.SAVING: "A stop is taken once it is saved; ending it now leaves the last checkpoint, if there is one.",
}
"""When a stop is taken, and what ending the process leaves."""


def silence(recent: Recent, *, raised: str) -> Finding | None:
    """Find that it trains and has told of no step for longer than its steps take, or does nothing in another phase.

    Only a step tells of training: a process may be busy and stuck. Elsewhere nothing is told until the phase is over,
    so that a process which works is left in peace.
    """
    limit, busy = _patience(recent), recent.engine_busy
    trains = recent.phase is Phase.TRAINING
    if recent.now - recent.heard < limit or not (trains or busy is not None):
        return None
    return Finding(
        key=f"{recent.heard:.3f}",
        level=Level.WARNING,
        title=f"{'No step' if trains else 'No activity'} for more than {figures.plain_duration(limit)}",
        detail=f"{_usual(recent)}The last it told of was {_last_word(recent)}. {_doing(recent.engine_busy)} If it "
        "goes on by itself, this message goes; the end of the log may say more. "
        f"{_STOPS.get(recent.phase, _WHILE_LOADING)}",
        fixes=(STOP, END),
    )


def is_suspicious(recent: Recent) -> bool:
    """Whether it has been silent for long enough to look at what its process does."""
    return recent.now - recent.heard >= _patience(recent) / 2


def _patience(recent: Recent) -> float:
    if recent.phase is not Phase.TRAINING:
        return limits.SILENT_PHASES[recent.phase]
    if recent.first_seconds is None:
        return limits.SILENT_FIRST * limits.SILENT_SECONDS
    usual = (
        limits.SILENT_STEPS * statistics.median(recent.pace)
        if recent.pace
        else limits.SILENT_FIRST * recent.first_seconds
    )
    return max(limits.SILENT_SECONDS, usual)


def _usual(recent: Recent) -> str:
    if not recent.pace:
        return ""
    return f"Steps took {formats.seconds(statistics.median(recent.pace))} before. "


def _last_word(recent: Recent) -> str:
    last = recent.last_word
    if last is None:
        return "nothing"
    moment = time.strftime("%H:%M:%S", time.localtime(time.time() - (recent.now - last.time)))
    if isinstance(last, StepFinished):
        return f"step {last.step:,} at {moment}"
    return f"the phase “{last.phase.replace('_', ' ')}” at {moment}"


def _doing(busy: float | None) -> str:
    if busy is None:
        return "What its process does can't be told."
    if busy < limits.IDLE:
        return "Its process is alive and does nothing: it waits for something, such as a disk, a network or a GPU."
    return f"Its process is alive and uses {100 * busy:.0f} % of a processor core."


# --- Data loading


STARVING = "starving"


def starving(recent: Recent, *, raised: str) -> Finding | None:
    """Find that much of the last steps was spent waiting for data."""
    waiting = _share_waiting(recent)
    limit = limits.STARVING_SHARE_OVER if raised else limits.STARVING_SHARE
    if waiting is None or waiting <= limit or _is_fed(recent):
        return None
    workers = len(recent.what_ran.workers) if recent.what_ran else 0
    return Finding(
        key="starving",
        level=Level.WARNING,
        title=f"{100 * waiting:.0f} % of each step is spent waiting for data",
        detail=f"The device has nothing to do while batches are prepared. {_remedy(recent, workers)}",
        fixes=_fixes_for_starving(recent, workers),
    )


def _share_waiting(recent: Recent) -> float | None:
    """Which share of the last steps' time went into waiting; None before enough of them were timed."""
    steps, seconds, waited = 0, 0.0, 0.0
    for part in reversed(recent.slices):
        steps, seconds = steps + part.steps, seconds + part.seconds
        waited += part.data_seconds
        if seconds >= limits.STARVING_SECONDS and steps >= limits.STARVING_STEPS:
            return waited / seconds
    return None


def _is_fed(recent: Recent) -> bool:
    """Whether the GPU is busy all the same: it computes what it was given before, while the loop waits."""
    if recent.plan is None or recent.plan.device.startswith("cpu"):
        return False
    return bool(recent.gpu_busy) and statistics.median(recent.gpu_busy) >= limits.FED


def _more_workers(recent: Recent, workers: int) -> int | None:
    """How many workers to try; None where more are no remedy: there are many, or no core to spare."""
    if workers >= limits.MANY_WORKERS or recent.cores <= 2:
        return None
    return min(2 if workers < 2 else limits.MANY_WORKERS, recent.cores - 1)


def _fixes_for_starving(recent: Recent, workers: int) -> tuple[Fix, ...]:
    more = _more_workers(recent, workers)
    if more is None or more <= workers:
        return (STOP,)
    return (Fix(f"Prepare batches in {more} workers", {"data.workers": more}),)


def _remedy(recent: Recent, workers: int) -> str:
    if (_more_workers(recent, workers) or 0) > workers:
        run = f"{workers} workers run" if workers > 1 else f"{'1' if workers else 'No'} worker runs"
        return f"{run} beside it; {'more' if workers else 'some'} would have the next batch ready in time."
    if workers:
        return (
            f"That is done in {figures.counted(workers, 'worker')} already, so the files are what is slow: copy them "
            "to a disk inside this computer, or make images smaller beforehand."
        )
    return (
        "This computer has no core to spare for workers: make images smaller beforehand, or keep the files on a disk "
        "inside this computer."
    )


# --- Throttling


THROTTLING = "throttling"


def throttling(recent: Recent, *, raised: str) -> Finding | None:
    """Find a processor that was held back for most of the last half minute."""
    share = limits.THROTTLED_SHARE_OVER if raised else limits.THROTTLED_SHARE
    for source, kept in recent.devices.items():
        samples = [sample for sample in kept if sample.time > recent.now - limits.THROTTLED_SECONDS]
        slowed = [sample for sample in samples if held_back(sample)]
        if len(samples) >= limits.THROTTLED_SAMPLES and len(slowed) >= share * len(samples):
            return _finding(source, slowed)
    return None


def _cause(sample: DeviceSampled) -> str:
    """Why a processor is held back, in words."""
    reasons = held_back(sample)
    if Throttle.PRESSURE in reasons and sample.thermal is not None:
        return f"macOS calls the thermal pressure “{thermal_name(sample.thermal)}”"
    return ", ".join(reasons)


def _finding(source: Source, slowed: Sequence[DeviceSampled]) -> Finding:
    last = slowed[-1]
    name = last.name or "The processor"
    figures = [f"{last.temperature:.0f} °C"] if last.temperature is not None else []
    if last.clock is not None and last.clock_limit is not None:
        figures.append(f"{last.clock:,.0f} of {last.clock_limit:,.0f} MHz")
    if last.power is not None and last.power_limit is not None:
        figures.append(f"{last.power:.0f} of {last.power_limit:.0f} W")
    measured = f" ({', '.join(figures)})" if figures else ""
    return Finding(
        key=source.value,
        level=Level.WARNING,
        title=f"{name} is held back, so steps take longer",
        detail=f"The reason: {_cause(last)}{measured}. Give it air: nothing on its vents, fans free of dust, no "
        "other heavy work beside it. A laptop wants the power supply it came with.",
        fixes=(STOP,),
    )
