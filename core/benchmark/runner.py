"""Runs a benchmark: each variant in an engine process of its own, one at a time, while no run trains on the device."""

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.base import settings
from core.base.ceiling import RanOut
from core.base.errors import Fix, OptionsError, UserError
from core.base.jobs import EngineCrashed, JobCancelled, JobProgress, decoded
from core.base.language import _
from core.base.processes import awake, describe, signal_name
from core.base.system import SystemMemory, system_memory
from core.benchmark.conditions import Watch
from core.benchmark.plan import Plan, Variant
from core.benchmark.result import Conditions, Machine, Pass, Result, Row, Sample, SampleRequest
from core.memory.model import Parts
from core.options.device_support import DeviceReport
from core.options.validate import read_options
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.library import run_title
from core.runs.queue import Entry
from core.services.memory import GuardedJob, probable_device, room_of, too_large


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
        _("{run} is training").format(run=run_title(run)),
        _("Figures measured at the same time would be meaningless."),
        (Fix(_("Pause it (`hone pause {name}`), or wait until it is done").format(name=run.name)), beside),
    )


# --- One pass


SILENT_SECONDS = 3600.0
"""Timeout without output. The engine reports each step, and compilation precedes the first."""


class EnginePass:
    """Measures a variant once; created right before it runs, as it reads the free memory.

    Args:
        variant: The variant.
        plan: Its plan, for the number of steps.
        command: The command of the engine's job; Hone's own by default.
        system: Reads the computer's memory.
        watch: Creates the watch of a device.
    """

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
        if sample is not None and sample.device.partition(":")[0] != self._device.partition(":")[0]:
            # the power is that of an idle GPU
            conditions = msgspec.structs.replace(conditions, watts=None, power_source="")
        return Pass(begun=begun, sample=sample, problem=problem, conditions=conditions)

    def kill(self) -> None:
        """End it at once. Can be called from any thread, also before `run`."""
        self._job.kill()

    def _on_progress(self, progress: JobProgress) -> None:
        """Mark the last step of the warm-up and the last step."""
        if progress.done in (progress.total - self._request.steps, progress.total):
            self._watch.mark()


def reason_of(error: Exception) -> str:
    """An error of a pass as one line."""
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
        variant: Its variant.
        number: Which of the variant's passes, from 1.
        done: Number of passes done.
        total: Number of passes of the benchmark.
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
        plan: The plan.
        machine: This computer.
        measure: Creates the pass of a variant.
        save: Saves the result; called after every pass.
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
