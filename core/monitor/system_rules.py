"""Warnings about the machine: battery, disk, paging, silence, data loading, throttling.

Each rule is a function of the attempt so far; `raised` is as in `core.monitor.loss_rules`.
"""

import contextlib
import math
import os
import statistics
import sys
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import psutil

from core.base import formats
from core.base.errors import Fix
from core.base.language import _
from core.base.system import gpu_memory_spills, process_tree
from core.monitor.recent import END, IDLE, PAUSE, REVEAL, SAMPLES_KEPT, STOP, MonitorFinding, Recent
from core.options.catalogue import options_by_path
from core.runs.events import (
    DeviceSampled,
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    Source,
    StepFinished,
    Throttle,
)
from core.runs.start import keeper_command
from core.runs.status import PACE_SECONDS, pace_of
from core.runs.words import SPILLING, forecast_sentences

BATTERY, DISK_FULL, GROWING, PAGING = "battery", "disk-full", "growing", "paging"
SILENCE, SLOWED, STARVING, THROTTLING = "silence", "slowed", "starving", "throttling"

# --- Battery

BATTERY_LOW, BATTERY_OVER = 0.3, 0.35  # below, a battery under full load lasts well under an hour
UNPLUGGED_SECONDS = 10.0  # a plug that is moved from one socket to the next is out for less


def battery(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds that the computer is unplugged: a note, or a warning once little is left."""
    since, battery = recent.unplugged_since, recent.battery
    if battery is None or since is None or (not raised and recent.now - since < UNPLUGGED_SECONDS):
        return None
    left = formats.whole_percent(battery.share)
    if battery.share < (BATTERY_OVER if raised == "low" else BATTERY_LOW):
        return MonitorFinding(
            key="low",
            title=_("Battery at {left}").format(left=left),
            detail=_(
                "Training empties a battery fast, and the computer will switch off before the run is done. Plug it in, "
                "or stop: the run saves a checkpoint and ends."
            ),
            fixes=(STOP,),
        )
    return MonitorFinding(
        key="unplugged",
        level=Level.INFO,
        title=_("The computer is running on battery"),
        detail=_("It is at {left}. Most laptops train faster when plugged in.").format(left=left),
        fixes=(STOP,),
    )


# --- Disk

DISK_FREE = 2 << 30  # bytes; below, operating systems begin to misbehave
DISK_CHECKPOINTS = 2.0  # a checkpoint is written beside the one it replaces
DISK_OVER = 1.25  # times the limit that have to be free again

WEIGHT_BYTES = {"float64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}
"""Bytes of a weight by `WhatRan.parameter_dtype`; 4 of any other."""


def disk_space(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds that little is free: less than an operating system wants, or than two checkpoints take."""
    if recent.disk is None:
        return None
    checkpoint, sentences = 0, [_("{free} of {total} are free where the run is saved.")]
    if recent.checkpoints:
        checkpoint = recent.checkpoints[-1].bytes
        sentences.append(_("A checkpoint of this run takes {checkpoint}."))
    elif (ran := recent.what_ran) is not None:
        weights = ran.trainable_parameters if ran.adapter else ran.total_parameters
        each = max(WEIGHT_BYTES.get(dtype, 4) for dtype in ran.parameter_dtype.split(" + "))
        checkpoint = weights * each + ran.optimizer_state_bytes
        sentences.append(_("A checkpoint of this run will take about {checkpoint}."))
    sentences.append(_("A run that can't write ends: empty the trash, or delete old runs."))
    free = recent.disk.free
    if free >= max(DISK_FREE, DISK_CHECKPOINTS * checkpoint) * (DISK_OVER if raised else 1.0):
        return None
    fits = free > checkpoint  # stopping saves a checkpoint, too
    fixes = [REVEAL, STOP] if fits else [REVEAL]
    if recent.options is not None and recent.options.output.keep_checkpoints > 1:
        fixes.insert(0, Fix(_("Keep one checkpoint only"), {"output.keep_checkpoints": 1}))
    return MonitorFinding(
        key="low" if fits else "no room",
        title=_("The disk is nearly full") if fits else _("The disk has no space for the next checkpoint"),
        detail=formats.paragraph(*sentences).format(
            free=formats.memory(free),
            total=formats.memory(recent.disk.total),
            checkpoint=formats.memory(checkpoint),
        ),
        fixes=tuple(fixes),
    )


# --- Silence

SILENT_SECONDS = 90.0  # without a step for so long, something may be stuck
SILENT_STEPS = 5.0  # or as long as so many steps, where those take longer
SILENT_FIRST = 2.0  # times as long as others the first steps may take: kernels are chosen, caches are empty
SILENT_PHASES = {
    None: 180.0,  # libraries are imported, from a disk that may be slow
    Phase.LOADING_DATA: 180.0,
    Phase.LOADING_MODEL: 600.0,  # it may come from the Hub, over a line that stalls
    Phase.TOKENIZING: 180.0,
    Phase.COMPILING: 180.0,
    Phase.EVALUATING: 180.0,
    Phase.SAVING: 180.0,  # a full cache is flushed to a slow disk
}
"""Seconds that a process may do nothing in a phase that reports nothing until it is over."""

_WHILE_LOADING = _(
    "Stop takes effect at once; if the process hangs, end it now. Nothing has been saved yet since the "
    "last start."
)
_AFTER_A_STEP = _(
    "Stop takes effect after the next step. If none comes, end the run now: its last checkpoint, if any, stays."
)
_STOPS: dict[Phase | None, str] = {
    Phase.TRAINING: _AFTER_A_STEP,
    Phase.COMPILING: _AFTER_A_STEP,
    Phase.EVALUATING: _(
        "Stop takes effect after the next batch. If none comes, end the run now: its last checkpoint, if any, stays."
    ),
    Phase.SAVING: _(
        "Stop takes effect once it is saved. If you end the run now, its last checkpoint, if any, stays."
    ),
}
"""When a stop is taken, and what ending the process leaves."""


class Activity:
    """Processor time of a process and everything it started, as a share of one core."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._readings: deque[tuple[float, float]] = deque(maxlen=10)

    def read(self) -> float | None:
        """Returns the share since the tenth call before, or since `reset`; None at first, and if it can't be read."""
        used: list[float] = []
        for process in process_tree(self._pid):
            try:
                times = process.cpu_times()
                used.append(times.user + times.system)
            except psutil.Error:
                continue
        if not used:
            return None
        now, total = time.monotonic(), sum(used)
        self._readings.append((now, total))
        begun, before = self._readings[0]
        return max(0.0, total - before) / (now - begun) if now > begun else None

    def reset(self) -> None:
        self._readings.clear()


def silence(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds that no step has finished for longer than steps take, or that another phase does nothing.

    In training a process may be busy and stuck: only a step counts. In other phases nothing is reported until they are
    over, so a process that computes isn't reported.
    """
    limit, busy, last = silence_limit(recent), recent.engine_busy, recent.last_event
    trains = recent.phase is Phase.TRAINING
    if recent.now - recent.last_progress < limit or not (trains or busy is not None):
        return None
    sentences = []
    if (pace := pace_of(recent.pace)) is not None:
        sentences.append(_("Steps took {pace} before.").format(pace=formats.step_time(pace)))
    if last is not None:
        when = time.strftime("%H:%M:%S", time.localtime(time.time() - (recent.now - last.time)))
        template = (
            _("The last event was step {step:,} at {time}.").format(step=last.step, time=when)
            if isinstance(last, StepFinished)
            else _("The last event was the phase “{phase}” at {time}.").format(
                phase=last.phase.replace("_", " "), time=when
            )
        )
        sentences.append(template)
    if busy is None:
        sentences.append(_("What its process does isn't known."))
    elif busy < IDLE:
        sentences.append(
            _("Its process is alive and idle: it waits for something, such as a disk or a network.")
        )
    else:
        share = formats.whole_percent(busy)
        sentences.append(_("Its process is alive and uses {share} of a processor core.").format(share=share))
    sentences.append(_("This message disappears when the run continues; the end of the log may say more."))
    sentences.append(_STOPS.get(recent.phase, _WHILE_LOADING))
    title = _("No step for more than {time}") if trains else _("No activity for more than {time}")
    return MonitorFinding(
        key=f"{recent.last_progress:.3f}",
        title=title.format(time=formats.duration(limit)),
        detail=formats.paragraph(*sentences),
        fixes=(STOP, END),
    )


def silence_limit(recent: Recent) -> float:
    if recent.phase is not Phase.TRAINING:
        return SILENT_PHASES[recent.phase]
    if recent.first_seconds is None:
        return SILENT_FIRST * SILENT_SECONDS
    pace = pace_of(recent.pace)
    patience = SILENT_FIRST * recent.first_seconds if pace is None else SILENT_STEPS * pace
    return max(SILENT_SECONDS, patience)


# --- Other programs

SLOW_FROM, SLOW_OVER = 2.0, 1.3  # times as long as usual
OTHERS_SHARE, OTHERS_OVER = 0.25, 0.1  # of the whole CPU that other programs take
NOTICEABLE = 1.5  # times as slow or as quick as was said last: then it is said anew
MOST_STEPS = 0.9  # of the last minute that have to be quicker before a quicker pace is said
BEGINNING = 20.0, 60.0  # seconds of training between which a run is judged that can't be compared with itself
CPU_FULL = 0.9  # busy share of the CPU from which on programs take time from each other
FROM_START = "from-start"
MOST_PROGRAMS = 2  # that are named
KTHREADD = 2  # the pid of the parent of Linux's kernel threads; 0 is the idle process of Windows


class OtherPrograms:
    """Processor time of all programs but Hone and what a process started, as shares of the whole CPU."""

    def __init__(self, pid: int, cores: int) -> None:
        self._pid, self._cores = pid, cores
        self._titles: dict[int, str] = {}
        self._readings: deque[tuple[float, dict[int, float]]] = deque(maxlen=10)

    def read(self) -> dict[str, float]:
        """Returns shares by the program's known name, since the tenth call before, or since `reset`."""
        own = {0, os.getpid(), os.getppid(), *(process.pid for process in process_tree(self._pid))}
        names: dict[int, str] = {}
        used: dict[int, float] = {}
        for process in psutil.process_iter(("name", "cpu_times", "ppid")):
            times = process.info["cpu_times"]
            is_kernel = sys.platform == "linux" and KTHREADD in (process.pid, process.info["ppid"])
            if times is not None and process.pid not in own and not is_kernel:
                names[process.pid], used[process.pid] = process.info["name"] or "?", times.user + times.system
        now = time.monotonic()
        self._readings.append((now, used))
        begun, before = self._readings[0]
        shares: dict[str, float] = defaultdict(float)
        for pid, seconds in used.items():
            gained = seconds - before.get(pid, seconds)
            if gained > 0:
                title = self._titles[pid] = self._titles.get(pid) or title_of(pid, names[pid])
                shares[title] += gained / max(1e-9, now - begun) / self._cores
        return dict(shares)

    def reset(self) -> None:
        self._readings.clear()
        self._titles.clear()


def title_of(pid: int, name: str) -> str:
    """Returns what a person knows a process as: another run of Hone, another part of it, or by its name."""
    flags = keeper_command(Path())[1:-1]
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if Path(name).stem.lower() == "hone" or "core.engine" in process.cmdline()[1:5]:
            name = _("another part of Hone")
        for one in (process, *process.parents()):
            if one.cmdline()[1 : len(flags) + 1] == flags:
                return _("another run of Hone")
    return name


def is_slow(recent: Recent, *, raised: bool) -> bool:
    """Returns whether steps take much longer than usual; `raised`: the warning has been raised."""
    pace, usual = pace_of(recent.pace), recent.usual_seconds
    return pace is not None and usual is not None and pace >= (SLOW_OVER if raised else SLOW_FROM) * usual


def depends_on_others(recent: Recent, *, raised: str) -> bool:
    """Returns whether it matters now what other programs do; to find out isn't free."""
    return raised == FROM_START or _is_beginning(recent) or is_slow(recent, raised=bool(raised))


def _is_beginning(recent: Recent) -> bool:
    """Returns whether a run on the CPU trains for so short a time that its own usual pace isn't known for certain."""
    if recent.trains_since is None or recent.plan is None or not recent.plan.device.startswith("cpu"):
        return False
    return recent.usual_seconds is None or recent.now - recent.trains_since < BEGINNING[1]


def slowed(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds that other programs use the CPU while steps take much longer than usual, or from a run's first step on."""
    share, pace, usual = sum(recent.others.values()), pace_of(recent.pace), recent.usual_seconds
    if share < (OTHERS_OVER if raised else OTHERS_SHARE):
        return None
    figures = {
        "share": formats.whole_percent(min(1.0, share)),
        "names": formats.enumerated(
            sorted(recent.others, key=lambda name: -recent.others[name])[:MOST_PROGRAMS]
        ),
    }
    worse = raised not in ("", FROM_START)
    if pace is not None and usual is not None and is_slow(recent, raised=worse):
        is_said = worse and not _is_pace_new(recent, float(raised) * usual, pace)
        key = raised if is_said else f"{pace / usual:.3f}"
        title = _("Steps take {now} instead of {usual}: other programs use {share} of the CPU ({names})")
        figures |= {"now": formats.step_time(pace), "usual": formats.step_time(usual)}
    elif _is_cpu_full(recent) and (raised == FROM_START or (not raised and _has_just_begun(recent))):
        key = FROM_START
        title = _("Steps take longer than they could: other programs use {share} of the CPU ({names})")
    else:
        return None
    return MonitorFinding(
        key=key,
        title=title.format(**figures),
        detail=_("Close them to train at full speed, or pause this run until they are done."),
        fixes=(PAUSE,),
    )


def _is_pace_new(recent: Recent, said: float, pace: float) -> bool:
    """Returns whether a pace isn't the one that was said; a quicker one that comes and goes isn't new."""
    spent = accumulate(reversed(recent.pace), initial=0.0)
    minute = sorted(
        one for one, before in zip(reversed(recent.pace), spent, strict=False) if before < PACE_SECONDS
    )
    nearly_all = max(pace, minute[int(MOST_STEPS * (len(minute) - 1))])
    return pace > NOTICEABLE * said or nearly_all < said / NOTICEABLE


def _has_just_begun(recent: Recent) -> bool:
    has_begun = recent.trains_since is not None and recent.now - recent.trains_since >= BEGINNING[0]
    return has_begun and _is_beginning(recent)


def _is_cpu_full(recent: Recent) -> bool:
    """Returns whether other programs take what the run would use: the CPU has no more to give."""
    busy = [sample.busy for sample in recent.devices.get(Source.SYSTEM, ()) if sample.busy is not None][-10:]
    return bool(busy) and statistics.fmean(busy) >= CPU_FULL


# --- Data loading

STARVING_SHARE, STARVING_OVER = 0.3, 0.2  # of the steps' time spent waiting for data
STARVING_SECONDS, STARVING_STEPS = 20.0, 10  # judged at least: less may be a disk that woke up
FED = 0.9  # a GPU as busy as this isn't starved, however long the loop waits: it has work left from before
MANY_WORKERS = 4  # from so many workers on, more of them don't help


def starving(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds that much of the last steps was spent waiting for data."""
    waiting = _share_waiting(recent)
    if waiting is None or waiting <= (STARVING_OVER if raised else STARVING_SHARE):
        return None
    computes_elsewhere = recent.plan is not None and not recent.plan.device.startswith("cpu")
    if computes_elsewhere and recent.gpu_busy and statistics.median(recent.gpu_busy) >= FED:
        return None
    workers = len(recent.what_ran.workers) if recent.what_ran else 0
    more = min(2 if workers < 2 else MANY_WORKERS, recent.cores - 1)
    fix = STOP
    if recent.cores > 2 and more > workers:
        remedy = _("More data loader workers would have the next batch ready in time.")
        fix = Fix(_("Prepare batches in {count} workers").format(count=more), {"data.workers": more})
    elif workers:
        remedy = _(
            "Workers prepare them already, so the files are slow: copy them to a disk inside the computer, or make "
            "images smaller beforehand."
        )
    else:
        remedy = _(
            "The computer has no core to spare for workers: make images smaller beforehand, or move the files to a "
            "disk inside the computer."
        )
    share = formats.whole_percent(waiting)
    return MonitorFinding(
        key="starving",
        title=_("{share} of each step is spent waiting for data").format(share=share),
        detail=formats.paragraph(_("The device is idle while batches are prepared."), remedy),
        fixes=(fix,),
    )


def _share_waiting(recent: Recent) -> float | None:
    """Returns the share of the last steps' time spent waiting for data; None before enough steps were timed."""
    seconds = waited = 0.0
    for steps, (lasted, data) in enumerate(reversed(recent.timed), start=1):
        seconds, waited = seconds + lasted, waited + data
        if seconds >= STARVING_SECONDS and steps >= STARVING_STEPS:
            return waited / seconds
    return None


# --- Growing memory

GROWING_SPAN = 30  # samples, a second apart, of which the highest counts
GROWING_OFTEN = 4  # of five changes that have to be a growth: a longer batch now and then is ordinary
GROWING_SHARE, GROWING_OVER = 0.1, 0.02  # of the ceiling by which what is held grows more than what is used
ROUND_MULTIPLE, EMPTY_STEPS = 64, 50  # offered


def growing(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds that more and more GPU memory is held while what is used of it stays the same.

    On MPS, torch 2.13 keeps a buffer for each size it has seen (pytorch pull request 188045). What MLX caches has a
    limit, but what macOS counts of the run may grow beyond it (mlx issue 3993).
    """
    samples = list(recent.held)
    if len(samples) < SAMPLES_KEPT:
        return None
    spans = [samples[start : start + GROWING_SPAN] for start in range(0, SAMPLES_KEPT, GROWING_SPAN)]
    held = [max(map(_kept_for_good, span)) for span in spans]
    live = [max(sample.bytes for sample in span) for span in spans]
    grown = held[-1] - held[0] - max(0, live[-1] - live[0])
    least = (GROWING_OVER if raised else GROWING_SHARE) * (samples[-1].ceiling or math.inf)
    often = sum(later > before for before, later in pairwise(held))
    if grown < least or (often < GROWING_OFTEN and not raised):
        return None
    fixes, options = [], recent.options
    engine = recent.what_ran.engine if recent.what_ran is not None else ""
    if options is not None:
        is_kept = recent.plan is not None and recent.plan.device == "mps" and not engine
        path = "data.pad_to_multiple_of"
        is_rounded = (options.data.pad_to_multiple_of or (ROUND_MULTIPLE if is_kept else 1)) >= ROUND_MULTIPLE
        if options_by_path()[path].applies_to(options) and not is_rounded:
            label = _("Pad to multiples of {count} tokens").format(count=ROUND_MULTIPLE)
            fixes.append(Fix(label, {path: ROUND_MULTIPLE}))
        if not 0 < options.memory.empty_cache_steps <= EMPTY_STEPS:
            label = _("Empty the cache every {count} steps").format(count=EMPTY_STEPS)
            fixes.append(Fix(label, {"memory.empty_cache_steps": EMPTY_STEPS}))
    title = _("The run holds more and more GPU memory: {held}, of which {live} are in use")
    detail = _(
        "It grew by {grown} in {time}. {library} keeps memory for batches of other sizes and doesn't give it back by "
        "itself. Once the memory is full, steps become slow or the run fails."
    )
    return MonitorFinding(
        key="growing",
        title=title.format(held=formats.memory(held[-1]), live=formats.memory(live[-1])),
        detail=detail.format(
            library=engine.partition(" ")[0] or "PyTorch",
            time=formats.duration(samples[-1].time - samples[0].time),
            grown=formats.memory(grown),
        ),
        fixes=(*fixes, STOP),
    )


def _kept_for_good(sample: MemorySampled) -> int:
    """Returns the bytes that are held, by the highest figure there is, without a cache that is given back if needed."""
    return max(sample.reserved or 0, sample.footprint or 0) - (sample.cached or 0)


# --- Throttling

THROTTLED_SECONDS = (
    30.0  # judged: a chip that is slowed for a second now and then loses nothing worth a message
)
THROTTLED_SAMPLES = 10  # fewer samples in that time are not judged
THROTTLED_SHARE, THROTTLED_OVER = 0.8, 0.3  # heat comes and goes in waves
BUSY = 0.5  # a processor less busy than this clocks down to save power
CLOCK_LOW = 0.75  # share of its limit below which a clock is low, where no reason is reported
CLOCK_CAPPED = (
    0.5  # the same for want of power alone: a GPU at its cap is well below its highest clock by design
)
HOT = 85.0  # degrees Celsius from which heat explains a low clock

THERMAL_NAMES = ("nominal", "moderate", "heavy", "trapping", "sleeping")
"""Apple's names of the levels, from 0 on (`OSThermalPressureLevel` in OSThermalNotification.h)."""

SLOWED_FROM = THERMAL_NAMES.index("heavy")
"""The level from which on a Mac slows down: at moderate the fans turn, but it is as fast."""


def held_back(sample: DeviceSampled) -> tuple[str, ...]:
    """Returns why a processor is slowed down: `Throttle`, or the words of a newer driver; empty if it isn't."""
    if sample.thermal is not None and sample.thermal >= SLOWED_FROM:
        return (Throttle.PRESSURE,)
    if sample.busy is not None and sample.busy < BUSY:
        return ()
    speed = sample.clock / sample.clock_limit if sample.clock is not None and sample.clock_limit else 1.0
    if sample.throttled is None:
        is_hot = sample.temperature is not None and sample.temperature >= HOT
        return (Throttle.HOT,) if is_hot and sample.source is not Source.SYSTEM and speed < CLOCK_LOW else ()
    return tuple(
        reason for reason in sample.throttled if reason != Throttle.POWER_CAP or speed < CLOCK_CAPPED
    )


def throttling(recent: Recent, *, raised: str) -> MonitorFinding | None:
    """Finds a processor that was held back for most of the last half minute."""
    share = THROTTLED_OVER if raised else THROTTLED_SHARE
    for source, kept in recent.devices.items():
        samples = [sample for sample in kept if sample.time > recent.now - THROTTLED_SECONDS]
        slowed = [sample for sample in samples if held_back(sample)]
        if len(samples) >= THROTTLED_SAMPLES and len(slowed) >= share * len(samples):
            return _throttled(source, slowed[-1])
    return None


def _throttled(source: Source, last: DeviceSampled) -> MonitorFinding:
    figures = [formats.degrees(last.temperature)] if last.temperature is not None else []
    if last.clock is not None and last.clock_limit is not None:
        clock = _("{clock:,.0f} of {limit:,.0f} MHz")
        figures.append(clock.format(clock=last.clock, limit=last.clock_limit))
    if last.power is not None and last.power_limit is not None:
        power = _("{power:.0f} of {limit:.0f} W")
        figures.append(power.format(power=last.power, limit=last.power_limit))
    measured = f" ({', '.join(figures)})" if figures else ""
    reasons = held_back(last)
    cause = formats.enumerated(reasons)
    if Throttle.PRESSURE in reasons:
        level = last.thermal or 0
        name = THERMAL_NAMES[level] if level < len(THERMAL_NAMES) else str(level)
        cause = _("macOS reports the thermal pressure “{name}”").format(name=name)
    advice = _(
        "Clear its vents and fans, and end other heavy work. A laptop needs the power supply it came with."
    )
    return MonitorFinding(
        key=source.value,
        title=_("{name} is slowed down, so steps take longer").format(name=last.name or _("The processor")),
        detail=formats.paragraph(
            _("The reason: {cause}{figures}.").format(cause=cause, figures=measured), advice
        ),
        fixes=(STOP,),
    )


# --- Paging

PAGING_SLOWER = 5.0  # times the median of the steps before it from which a step is slow
PAGING_SLOW_STEPS = 2  # slow steps in a row: one alone may have another reason
PAGING_ALONE_SECONDS = 1.0  # unless it lasts so long; then it is reported before it is over
PAGING_CALM, PAGING_CALM_STEPS = 2.0, 5  # so many steps in a row below so many times the median end it
PAGING_FULL = 0.95  # share of a ceiling from which on memory is full
PAGING_SWAP_GROWTH = 64 << 20  # bytes by which swap grows within a slow step where the run pages
PAGING_STEPS_BEFORE, PAGING_STEPS_KNOWN = 5, 50  # steps whose median is taken, not counting a run's first


class Paging:
    """Finds steps that take many times as long as those before while memory is full or swap grows.

    A Mac with too large a model doesn't fail, it pages; so do Linux and Windows with swap, and Windows drivers with GPU
    memory. Steps are judged when the next sample of the computer's memory has come. What lies between steps
    (evaluation, checkpoints, compiling) doesn't count.

    Args:
        fixes: Offered unless the run's forecast has its own.
    """

    def __init__(self, fixes: tuple[Fix, ...] = ()) -> None:
        self._fixes = fixes
        self._forecast: MemoryForecast | None = None
        self._full: dict[Source, str] = {}
        self._samples: deque[tuple[float, int | None, str]] = deque()  # time, swap in bytes, what is full
        self._usual_seconds: deque[float] = deque(maxlen=PAGING_STEPS_KNOWN)
        self._finished: deque[StepFinished] = deque()
        self._step_began: float | None = None
        self._is_warm = False
        self._slow_steps = self._calm_steps = 0
        self._found: MonitorFinding | None = None

    def apply(self, event: Event) -> None:
        match event:
            case RunFinished():
                self._step_began = None
            case PhaseChanged():
                self._step_began = event.time if event.phase is Phase.TRAINING else None
            case StepFinished():
                self._finished.append(event)
                self._step_began = event.time if self._step_began is not None else None
            case MemoryForecast():
                self._fixes, self._forecast = event.fixes or self._fixes, event
            case MemorySampled():
                self._full[event.source] = _full_memory(event)
                if event.source is Source.SYSTEM:
                    full = formats.paragraph(*self._full.values())
                    self._samples.append((event.time, event.swap, full))

    def judge(self, _recent: Recent, *, raised: str) -> MonitorFinding | None:
        now = self._samples[-1][0] if self._samples else 0.0
        while self._finished and self._finished[0].time <= now:
            self._judge_step(self._finished.popleft())
        began, usual = self._step_began, self._usual
        if self._found is None and usual is not None and began is not None:
            lasted = now - began
            if lasted >= max(PAGING_SLOWER * usual, PAGING_ALONE_SECONDS) and (cause := self._cause(began)):
                self._found = self._describe(_("A step has taken {time} so far."), lasted, cause)
        while len(self._samples) > 1 and self._samples[1][0] <= (now if began is None else began):
            self._samples.popleft()
        return self._found

    @property
    def _usual(self) -> float | None:
        """Median seconds of the steps so far; None before there are enough."""
        known = self._usual_seconds
        return statistics.median(known) if len(known) >= PAGING_STEPS_BEFORE else None

    def _judge_step(self, step: StepFinished) -> None:
        usual, seconds = self._usual, step.seconds
        if step.compile_seconds or not self._is_warm:
            self._is_warm = True
        elif self._found is not None:
            is_calm = usual is not None and seconds < PAGING_CALM * usual
            self._calm_steps = self._calm_steps + 1 if is_calm else 0
            if self._calm_steps >= PAGING_CALM_STEPS:
                self._found, self._slow_steps = None, 0
        elif (
            usual is not None
            and seconds >= PAGING_SLOWER * usual
            and (cause := self._cause(step.time - seconds))
        ):
            self._slow_steps += 1
            if self._slow_steps >= PAGING_SLOW_STEPS or seconds >= PAGING_ALONE_SECONDS:
                self._found = self._describe(_("A step took {time}."), seconds, cause)
        else:
            self._slow_steps = 0
            self._usual_seconds.append(seconds)

    def _cause(self, begun: float) -> str:
        """Explains why the run pages, by the samples since the last one before `begun`; empty if it doesn't."""
        later = [sample for sample in self._samples if sample[0] > begun]
        samples: Sequence[tuple[float, int | None, str]] = list(self._samples)[-len(later) - 1 :]
        swaps = [swap for _time, swap, _full in samples if swap is not None]
        grown = max(swaps) - swaps[0] if swaps else 0
        causes = [next((full for _time, _swap, full in reversed(samples) if full), "")]
        if grown > PAGING_SWAP_GROWTH:
            causes.append(_("The swap grew by {size}.").format(size=formats.memory(grown)))
        return formats.paragraph(*causes)

    def _describe(self, lasted: str, seconds: float, cause: str) -> MonitorFinding:
        usual = self._usual or seconds
        self._calm_steps = 0
        title = _("The run is paging: a step takes {times:.0f} times as long as before")
        sentences = (
            lasted.format(time=formats.step_time(seconds)),
            _("Those before took {time}.").format(time=formats.step_time(usual)),
            cause,
            _("What doesn't fit is moved out of memory and back, so the run stays this slow."),
            _("Close other programs, or end this run and start one that takes less memory."),
            *forecast_sentences(self._forecast),
        )
        return MonitorFinding(
            key="paging",
            title=title.format(times=seconds / usual),
            detail=formats.paragraph(*sentences),
            fixes=(*self._fixes, STOP),
        )


def _full_memory(sample: MemorySampled) -> str:
    """Returns a sentence that memory which can page is full; empty if it isn't, or that is unknown."""
    template = ""
    if sample.source is Source.SYSTEM:
        template = _("{share} of the memory ({ceiling}) was in use.")
    if sample.source is Source.TORCH and sample.unified:
        template = _("{share} of the memory that the GPU may have ({ceiling}) was in use.")
    if sample.source is Source.NVML and gpu_memory_spills():
        template = _("{share} of the GPU's memory ({ceiling}) was in use.") + f" {SPILLING}"
    used = sample.needed
    if template and sample.ceiling and used >= PAGING_FULL * sample.ceiling:
        share = formats.whole_percent(used / sample.ceiling)
        return template.format(share=share, ceiling=formats.memory(sample.ceiling))
    return _("The system was critically short of memory.") if sample.pressure is Pressure.CRITICAL else ""
