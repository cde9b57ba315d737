"""Runs a benchmark: every variant in a fresh guarded engine, one after the other, while no run trains on the device."""

import contextlib
import os
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

# --- A benchmark's place in the queue of runs: no run trains on its device while it measures


class DeviceBusy(UserError):  # noqa: N818 - said as the window says it
    """Something computes on the device."""


def device_of(plan: Plan) -> str:
    """The one GPU that all variants use; else `auto`, every device: the CPU is to be free of other runs."""
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


# --- One measurement: a variant in a fresh engine under guard


SILENT_SECONDS = 3600.0
"""Timeout without output: the engine reports each step, and the first may be compiled before."""


class EnginePass:
    """One pass of one variant; made right before it runs.

    Args:
        variant: What is measured.
        plan: How many steps.
        command: What starts the engine's job, if not Hone's own.
        system: Reads the computer's memory.
        watch: Makes what watches the machine, given the device.
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
        """Measure, waiting until it is done; whatever stops it is an answer.

        Raises:
            JobCancelled: `kill` was called.
        """
        begun = time.time()
        sample, problem, conditions = None, "", Conditions()
        if self._options is None:
            return Pass(begun=begun, problem=reason_of(OptionsError(self._problems)))
        try:
            answer = self._job.ask(
                msgspec.json.encode(self._request), SILENT_SECONDS, self._hear, self._watch.follow
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
        """End it at once, from any thread, also before it has begun."""
        self._job.kill()

    def _hear(self, progress: JobProgress) -> None:
        """The last step of the warm-up and the last of all bound the timed steps."""
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


# --- A benchmark: every variant once, then every variant again (A B A B)


MOST_FAILURES = 2
"""Tries of a variant that fails; one that ran out of memory has a single one."""


@dataclass(frozen=True)
class Progress:
    """A pass that begins: of which variant, which one (from 1), and how many of the `total` are `done`.

    `seconds_left` is the estimate for this and all later passes; None until two are made.
    """

    variant: Variant
    number: int
    done: int
    total: int
    seconds_left: float | None


class Bench:
    """One benchmark, to be run once.

    A variant that fails is a row with its reason, and the rest go on. What a stop interrupts is not kept, what was
    measured before is. `not_saved` says why the newest result could not be saved.

    Args:
        plan: What is measured.
        machine: On which computer.
        measure: Makes what measures one pass.
        save: Saves the result, after every pass.
        beside: Whether it is measured beside runs that train.
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
        """End the running pass at once and keep what is done; from any thread, at any time."""
        self._stopped.set()
        with self._lock:
            if self._pass is not None:
                self._pass.kill()

    def run(self) -> Iterator[Result]:
        """Measure; yields the result after each pass, and once more when it has ended. Closing the iterator ends it.

        Raises:
            DeviceBusy: Something computes on the device.
            OSError: A process can't be started.
        """
        order = (
            (number, place)
            for number in range(1, self._plan.passes + 1)
            for place in range(len(self._plan.variants))
            if not is_given_up(self.result.rows[place])
        )
        with self._device(), awake():
            try:
                for number, place in order:
                    measured = self._one_pass(number, place)
                    if measured is None:
                        break
                    rows = list(self.result.rows)
                    rows[place] = msgspec.structs.replace(rows[place], passes=(*rows[place].passes, measured))
                    self.result = msgspec.structs.replace(self.result, rows=tuple(rows))
                    self._keep()
                    yield self.result
            finally:
                self._end()
        yield self.result

    @contextlib.contextmanager
    def _device(self) -> Iterator[None]:
        """Hold the device in the queue, as a run does. A home that can't be written to prevents no benchmark."""
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

    def _one_pass(self, number: int, place: int) -> Pass | None:
        """None: it was stopped."""
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
        if self._stopped.is_set() and measured.failure:
            return None
        if not measured.failure:
            self._seconds.setdefault(variant.name, []).append(time.monotonic() - begun)
        return measured

    def _end(self) -> None:
        rows = self.result.rows
        is_whole = all(is_given_up(row) or len(row.passes) >= self._plan.passes for row in rows)
        self.result = msgspec.structs.replace(
            self.result, ended=time.time(), is_whole=is_whole, measured_by=None
        )
        if any(row.passes for row in rows):
            self._keep()

    def _keep(self) -> None:
        """A full disk costs the file, not the hours that measuring takes."""
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
        made = [seconds for found in self._seconds.values() for seconds in found]
        seconds_left = None
        if len(made) > 1:
            mean = {name: sum(found) / len(found) for name, found in self._seconds.items()}
            overall = sum(made) / len(made)
            seconds_left = sum(count * mean.get(name, overall) for name, count in left.items())
        return Progress(self._plan.variants[place], number, done, done + sum(left.values()), seconds_left)


def is_given_up(row: Row) -> bool:
    """Whether a variant is not tried (again): it is refused, ran out of memory, or failed too often."""
    failed = [one for one in row.passes if one.failure]
    ran_out = any(one.sample is not None and one.sample.out_of_memory for one in failed)
    return bool(row.variant.refusal) or ran_out or len(failed) >= MOST_FAILURES
