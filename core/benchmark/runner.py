"""Runs a benchmark: each variant in an engine process of its own, one at a time, while no run trains on the device."""

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import psutil

from core.base import settings
from core.base.ceiling import RanOut
from core.base.errors import Fix, OptionsError, UserError
from core.base.jobs import EngineCrashed, JobCancelled, JobProgress, decoded
from core.base.language import _
from core.base.processes import awake, describe, signal_name
from core.base.system import ProcessTree, SystemMemory, processor_times, system_memory
from core.benchmark.plan import Plan, Variant
from core.benchmark.result import Conditions, Machine, Pass, Result, Row, Sample, SampleRequest
from core.memory.model import Parts
from core.monitor.device_memory import room_of
from core.monitor.nvidia import gpu_of
from core.monitor.sampler import Sampler
from core.monitor.system_rules import held_back
from core.options.device_support import DeviceReport
from core.options.validate import read_options
from core.runs import queue
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Source
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.library import run_title
from core.runs.queue import Entry
from core.services.memory import GuardedJob, probable_device, too_large

# --- Conditions: load of other programs, throttling, battery


INTERVAL_SECONDS = 1.0

MIN_SECONDS = 0.2
"""Shortest time over which load is computed: operating systems count in hundredths of a second."""

SLACK_SECONDS = 0.2
"""A GPU's figures read this long after the last timed step still belong to it."""

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
        interval: Seconds between samples.
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
        gpu = (lambda: gpu_of(device)) if device.startswith("cuda") else None
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
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        devices = self._timed(DeviceSampled)
        plugged = [event.is_plugged for event in self._of(BatterySampled)]
        return Conditions(
            other_load=self._other_load(),
            gpu_others=self._gpu_others(),
            throttled=tuple(dict.fromkeys(reason for event in devices for reason in held_back(event))),
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


# --- The device of a benchmark


class DeviceBusy(UserError):  # noqa: N818 - worded as in the window
    """A run or another benchmark uses the device."""


def device_of(plan: Plan) -> str:
    """The one GPU that all variants use; otherwise `auto`: no run may train on any device, as the CPU must be idle."""
    names = {
        variant.asked.get("device", {}).get("name", "auto")
        for variant in plan.variants
        if not variant.refusal
    }
    name = str(names.pop()) if len(names) == 1 else "auto"
    return name if name.startswith("cuda") else "auto"


def _busy(other: Entry) -> DeviceBusy:
    beside = Fix(_("Measure at the same time anyway: `--beside`"))
    if other.benchmark:
        return DeviceBusy(
            _("A benchmark is being measured already"),
            _("{benchmark}. Two at once would disturb each other.").format(benchmark=other.benchmark),
            (Fix(_("Wait until it is done, or stop it")), beside),
        )
    run = RunFolder(Path(other.run))
    return DeviceBusy(
        _("{run} is running").format(run=run_title(run)),
        _("Figures measured at the same time would be meaningless."),
        (Fix(_("Pause it (`hone pause {name}`), or wait until it is done").format(name=run.name)), beside),
    )


# --- One pass


SILENT_SECONDS = 3600.0
"""Timeout without output. The engine reports each step, and compilation precedes the first."""


class EnginePass:
    """Measures a variant once; created right before it runs, as it reads the free memory."""

    def __init__(
        self,
        variant: Variant,
        plan: Plan,
        *,
        command: Sequence[str] | None = None,
        system: Callable[[], SystemMemory] = system_memory,
        watch: Callable[[str], Watch] = Watch,
    ) -> None:
        self._request = SampleRequest(asked=variant.asked, steps=plan.steps_of(variant), warm_up=plan.warm_up)
        self._options, self._problems = read_options(variant.asked)
        self._device = probable_device(self._options) if self._options else "cpu"
        self._room = room_of(DeviceReport(name=self._device, title=self._device, available=True))
        self._job = GuardedJob("sample", self._device, self._room, command=command, system=system)
        self._watch = watch(self._device)

    def run(self) -> Pass:
        """Measure, and wait for it. A failure is returned as a pass with a problem.

        Raises:
            JobCancelled: `kill` was called.
        """
        begun = time.time()
        sample, problem, conditions = None, "", Conditions()
        if self._options is None:
            return Pass(begun=begun, problem=reason_of(OptionsError(self._problems)))
        try:
            answer = self._job.ask(
                msgspec.json.encode(self._request), SILENT_SECONDS, self._on_progress, self._watch.follow
            )
            sample = decoded("sample", answer, Sample)
        except RanOut as ran_out:
            sample = Sample(
                device=self._device,
                parts=Parts(overhead=ran_out.held),
                peak=ran_out.held,
                out_of_memory=too_large(self._options, self._room, ran_out),
            )
        except (UserError, EngineCrashed, OSError) as error:
            problem = reason_of(error)
        finally:
            conditions = self._watch.stop()
        return Pass(begun=begun, sample=sample, problem=problem, conditions=conditions)

    def kill(self) -> None:
        """End it at once. Can be called from any thread, also before `run`."""
        self._job.kill()

    def _on_progress(self, progress: JobProgress) -> None:
        """Mark the last step of the warm-up and the last step."""
        if progress.done in (progress.total - self._request.steps, progress.total):
            self._watch.mark()


def reason_of(error: Exception) -> str:
    match error:
        case UserError():
            words = f"{error.title.rstrip('.:')}. {error.detail}" if error.detail else error.title
        case EngineCrashed() if signal_name(error.code):
            words = _("The engine was ended by {code}. {code_2}").format(
                code=signal_name(error.code), code_2=describe(error.code)
            )
        case EngineCrashed():
            lines = [line for line in error.report.splitlines() if line.strip()]
            words = _("The engine failed: {lines}").format(lines=lines[-1]) if lines else describe(error.code)
        case _:
            words = _("The engine can't be started: {error}").format(error=error)
    return " ".join(words.split())


# --- The benchmark


MAX_FAILURES = 2
"""Attempts at a variant that fails; running out of memory is final."""


@dataclass(frozen=True)
class Progress:
    """A pass that begins.

    Attributes:
        number: Which of the variant's passes, from 1.
        seconds_left: Estimate for this and all later passes; None before two are done.
    """

    variant: Variant
    number: int
    done: int
    total: int
    seconds_left: float | None


class Bench:
    """Runs a benchmark once.

    A variant that fails is a row with its reason, and the others go on. An interrupted pass is discarded, earlier ones
    are kept. `not_saved` is the reason why the newest result couldn't be saved.

    Args:
        beside: Whether to measure while runs train.
    """

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        *,
        measure: Callable[[Variant, Plan], EnginePass],
        save: Callable[[Result], object],
        beside: bool = False,
    ) -> None:
        self._plan, self._measure, self._save = plan, measure, save
        self._beside = beside
        self._entry = Entry(
            run=str(settings.home() / "benchmarks" / str(time.time_ns())),
            device=device_of(plan),
            keeper=KeeperRecord.of(os.getpid()),
            benchmark=plan.title,
        )
        self._lock = threading.Lock()
        self._pass: EnginePass | None = None
        self._stopped = threading.Event()
        self._seconds: dict[str, list[float]] = {}
        self.on_begin: Callable[[Progress], object] = lambda _progress: None
        self.not_saved = ""
        self.result = Result(
            plan=plan,
            machine=machine,
            begun=time.time(),
            rows=tuple(Row(variant=variant) for variant in plan.variants),
            measured_by=self._entry.keeper,
        )

    def stop(self) -> None:
        """End the current pass at once and keep the earlier ones. Can be called from any thread at any time."""
        self._stopped.set()
        with self._lock:
            if self._pass is not None:
                self._pass.kill()

    def run(self) -> Iterator[Result]:
        """Measure; yield the result after each pass and at the end. Closing the iterator stops the benchmark.

        Raises:
            DeviceBusy: A run or another benchmark uses the device.
            OSError: A process can't be started.
        """
        order = (
            (number, place)
            for number in range(1, self._plan.passes + 1)
            for place in range(len(self._plan.variants))
            if not is_given_up(self.result.rows[place])
        )
        with self._device_held(), awake():
            try:
                for number, place in order:
                    measured = self._run_pass(number, place)
                    if measured is None:
                        break
                    rows = list(self.result.rows)
                    rows[place] = msgspec.structs.replace(rows[place], passes=(*rows[place].passes, measured))
                    self.result = msgspec.structs.replace(self.result, rows=tuple(rows))
                    self._try_to_save()
                    yield self.result
            finally:
                self._finish()
        yield self.result

    @contextlib.contextmanager
    def _device_held(self) -> Iterator[None]:
        """Hold the device in the queue, as a run does; a home that can't be written to is ignored."""
        others: list[Entry] = []
        with contextlib.suppress(OSError):
            others = queue.measure(self._entry, beside=self._beside)
        if others and not self._beside:
            raise _busy(others[0])
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                queue.leave(RunFolder(Path(self._entry.run)))

    def _run_pass(self, number: int, place: int) -> Pass | None:
        """None if the benchmark was stopped."""
        with contextlib.suppress(OSError):
            if not queue.is_entered(RunFolder(Path(self._entry.run))):  # the queue's file was lost
                queue.measure(self._entry, beside=True)
        variant = self._plan.variants[place]
        with self._lock:
            if self._stopped.is_set():
                return None
            self._pass = self._measure(variant, self._plan)
        self.on_begin(self._progress(number, place))
        begun = time.monotonic()
        try:
            measured = self._pass.run()
        except JobCancelled:
            return None
        except BaseException:
            self._pass.kill()
            raise
        finally:
            with self._lock:
                self._pass = None
        if not measured.failure:
            self._seconds.setdefault(variant.name, []).append(time.monotonic() - begun)
        elif self._stopped.is_set():
            return None
        return measured

    def _finish(self) -> None:
        rows = self.result.rows
        is_whole = all(is_given_up(row) or len(row.passes) >= self._plan.passes for row in rows)
        self.result = msgspec.structs.replace(
            self.result, ended=time.time(), is_whole=is_whole, measured_by=None
        )
        if any(row.passes for row in rows):
            self._try_to_save()

    def _try_to_save(self) -> None:
        """A full disk must not cost hours of measuring."""
        self.not_saved = ""
        try:
            self._save(self.result)
        except OSError as error:
            self.not_saved = str(error)

    def _progress(self, number: int, place: int) -> Progress:
        rows = self.result.rows
        done = sum(len(row.passes) for row in rows)
        left = {
            row.variant.name: self._plan.passes - number + (index >= place)
            for index, row in enumerate(rows)
            if not is_given_up(row)
        }
        measured = [seconds for passes in self._seconds.values() for seconds in passes]
        seconds_left = None
        if len(measured) > 1:
            mean = {name: statistics.fmean(passes) for name, passes in self._seconds.items()}
            overall = statistics.fmean(measured)
            seconds_left = sum(count * mean.get(name, overall) for name, count in left.items())
        return Progress(self._plan.variants[place], number, done, done + sum(left.values()), seconds_left)


def is_given_up(row: Row) -> bool:
    """Whether a variant isn't measured (again): it is refused, ran out of memory, or failed too often."""
    failed = [one for one in row.passes if one.failure]
    ran_out = any(one.sample is not None and one.sample.out_of_memory for one in failed)
    return bool(row.variant.refusal) or ran_out or len(failed) >= MAX_FAILURES
