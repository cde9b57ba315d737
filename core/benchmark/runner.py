"""A benchmark's place in the queue of runs: while it measures, none may begin on its device, nor train there."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from core.base import settings
from core.base.ceiling import RanOut
from core.base.errors import Fix, OptionsError, UserError
from core.base.jobs import EngineCrashed, JobCancelled, JobProgress, decoded
from core.base.processes import awake, describe, signal_name
from core.base.system import SystemMemory, system_memory
from core.benchmark.conditions import Lookout
from core.benchmark.plan import Plan, Rung
from core.benchmark.result import Machine, Measurer, Pass, Result, Row, Sample, SampleRequest, Surroundings
from core.memory.model import Parts, Room
from core.options import RunOptions
from core.options.device_support import DeviceReport
from core.options.validate import read_options
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.library import run_title
from core.runs.queue import Entry
from core.services.memory import GuardedJob, probable_device, room_of, too_large

# --- A benchmark's place in the queue of runs: while it measures, none may begin on its device


AUTOMATIC = "auto"
BESIDE = Fix("Measure beside it all the same: `--beside`")


class DeviceBusy(UserError):  # noqa: N818 - said as the window says it
    """Something computes on the device; who measures all the same does so `beside` it."""


class DeviceTurn:
    """Holds the device of a benchmark in the queue, as a run does; the process that made it is the one that holds.

    Args:
        plan: What is measured.
        beside: Whether it is measured beside what trains there.
    """

    def __init__(self, plan: Plan, *, beside: bool = False) -> None:
        self._beside = beside
        self._entry = Entry(
            run=str(settings.home() / "benchmarks" / str(time.time_ns())),
            device=device_of(plan),
            keeper=KeeperRecord.of(os.getpid()),
            benchmark=plan.title,
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the device.

        A home that can't be written to keeps no run off, and no benchmark from being made.

        Raises:
            DeviceBusy: A run trains on the device, or a benchmark is measured there.
        """
        try:
            in_the_way = queue.measure(self._entry, beside=self._beside)
        except OSError:
            in_the_way = []
        if in_the_way and not self._beside:
            raise _refusal(in_the_way)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                queue.leave(self._run)

    def look_after(self) -> None:
        """Hold it again where the queue's file was lost."""
        with contextlib.suppress(OSError):
            if not queue.is_entered(self._run):
                queue.measure(self._entry, beside=True)

    @property
    def _run(self) -> RunFolder:
        return RunFolder(Path(self._entry.run))


def device_of(plan: Plan) -> str:
    """The one GPU that all rungs ask for; else `auto`, which is every device.

    What computes anywhere takes some of the processor, and a benchmark of the CPU is to have all of it.
    """
    asked = {_device(rung.asked) for rung in plan.rungs if not rung.refusal}
    name = asked.pop() if len(asked) == 1 else AUTOMATIC
    return name if name.startswith("cuda") else AUTOMATIC


def _device(asked: dict[str, object]) -> str:
    section = asked.get("device")
    return str(section.get("name", AUTOMATIC)) if isinstance(section, dict) else AUTOMATIC


def _refusal(in_the_way: list[Entry]) -> DeviceBusy:
    first = in_the_way[0]
    if first.benchmark:
        return DeviceBusy(
            "A benchmark is being measured already",
            f"{first.benchmark}. Two at once would each measure the other, too.",
            (Fix("Wait until it is done, or stop it"), BESIDE),
        )
    run = RunFolder(Path(first.run))
    return DeviceBusy(
        f"{run_title(run)} is training",
        "Figures measured beside it would be worth nothing.",
        (Fix(f"Pause it (`hone pause {run.name}`), or wait until it is done"), BESIDE),
    )


# --- Takes one measurement: a rung in a fresh engine under guard


SILENT_SECONDS = 3600.0
"""How long the engine may say nothing: it tells of each step, and the first may have to be compiled before."""


class Taking:
    """One pass of one rung; made anew for each, right before it runs.

    Args:
        rung: What is measured.
        plan: How many steps.
        command: What starts the engine's job, where it isn't Hone's own.
        system: Reads the computer's memory.
        lookout: Makes what watches the machine, given the device.
    """

    def __init__(
        self,
        rung: Rung,
        plan: Plan,
        *,
        command: Sequence[str] | None = None,
        system: Callable[[], SystemMemory] = system_memory,
        lookout: Callable[[str], Lookout] = Lookout,
    ) -> None:
        self._request = SampleRequest(asked=rung.asked, steps=plan.steps_of(rung), warm_up=plan.warm_up)
        self._options, self._problems = read_options(rung.asked)
        self._device = probable_device(self._options) if self._options else "cpu"
        self._room = _room(self._device)
        self._job = GuardedJob("sample", self._device, self._room, command=command, system=system)
        self._lookout = lookout(self._device)

    def run(self) -> Pass:
        """Measure, waiting until it is done; whatever stops it is an answer.

        Raises:
            JobCancelled: `kill` was called.
        """
        begun = time.time()
        if self._options is None:
            return Pass(begun=begun, problem=in_words(OptionsError(self._problems)))
        sample, problem, surroundings = None, "", Surroundings()
        try:
            sample = self._sample(self._options)
        except (UserError, EngineCrashed, OSError) as error:
            problem = in_words(error)
        finally:
            surroundings = self._lookout.stop()
        if sample is not None and _kind(sample.device) != _kind(self._device):
            surroundings = msgspec.structs.replace(
                surroundings, watts=None, power_source=""
            )  # of an idle GPU
        return Pass(begun=begun, sample=sample, problem=problem, surroundings=surroundings)

    def kill(self) -> None:
        """End it at once; may be called from another thread, also before it has begun."""
        self._job.kill()

    def _sample(self, options: RunOptions) -> Sample:
        request = msgspec.json.encode(self._request)
        try:
            answer = self._job.ask(request, SILENT_SECONDS, self._hear, self._lookout.follow)
        except RanOut as ran_out:
            return Sample(
                device=self._device,
                parts=Parts(overhead=ran_out.held),
                peak=ran_out.held,
                out_of_memory=too_large(options, self._room, ran_out),
            )
        return decoded("sample", answer, Sample)

    def _hear(self, progress: JobProgress) -> None:
        """The engine tells of each step: the last of the warm-up, and the last of all, bound the timed ones."""
        if progress.done == progress.total - self._request.steps:
            self._lookout.begin_timed()
        elif progress.done == progress.total:
            self._lookout.end_timed()


def in_words(error: Exception) -> str:
    """Why there are no figures, in a line."""
    match error:
        case UserError():
            words = f"{error.title.rstrip('.:')}. {error.detail}" if error.detail else error.title
        case EngineCrashed() if signal_name(error.code):
            words = f"The engine was ended by {signal_name(error.code)}. {describe(error.code)}"
        case EngineCrashed():
            said = [line for line in error.report.splitlines() if line.strip()]
            words = f"The engine failed: {said[-1]}" if said else describe(error.code)
        case _:
            words = f"The engine can't be started: {error}"
    return " ".join(words.split())


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _room(device: str) -> Room | None:
    """The memory of the device, as far as the driver and the operating system tell it."""
    return room_of(DeviceReport(name=device, title=device, available=True))


# --- Running a benchmark: every rung once, then every rung again (A B A B)


FEWEST_TO_TELL = 2
"""So many passes have to be measured before they say how long the rest will take."""

MOST_FAILURES = 2
"""So often a rung may fail; memory that ran out would run out again, which takes one."""


class Measured(Protocol):
    """One pass: a rung measured in a process of its own."""

    def run(self) -> Pass:
        """Measure, waiting until it is done.

        Raises:
            JobCancelled: `kill` was called.
        """

    def kill(self) -> None:
        """End it at once; may be called from another thread, also before it has begun."""


Take = Callable[[Rung, Plan], Measured]
Save = Callable[[Result], object]


@dataclass(frozen=True)
class Underway:
    """The pass that begins: of which rung, which one of it (from 1 on), and how many are `done` of how many in `total`.

    `seconds_left` is what this and all later passes will take, by those made so far; None: these say too little.
    """

    rung: Rung
    number_of_pass: int
    done: int
    total: int
    seconds_left: float | None


class Bench:
    """One benchmark, to be run once.

    A rung that fails is a row with its reason, and the rest go on. It has a second try in the next pass, for a process
    may have been ended for what other programs did; one that lacked memory has not, nor one that failed twice: to fail
    again takes as long. What a stop interrupts is not kept, what was measured before is.

    Args:
        plan: What is measured.
        machine: On which computer.
        take: Makes what measures one pass.
        save: Keeps the result, after every pass, so that it outlives this process.
        beside: Whether it is measured beside runs that train.

    `not_kept` says why the newest result could not be saved; empty: it was.
    """

    def __init__(self, plan: Plan, machine: Machine, *, take: Take, save: Save, beside: bool = False) -> None:
        self._plan = plan
        self._take = take
        self._save = save
        self._turn = DeviceTurn(plan, beside=beside)
        self._began: Callable[[Underway], None] = _ignore
        self._lock = threading.Lock()
        self._pass: Measured | None = None
        self._stopped = threading.Event()
        self.not_kept = ""
        self._seconds: dict[str, list[float]] = {}
        self._result = Result(
            plan=plan,
            machine=machine,
            begun=time.time(),
            rows=tuple(Row(rung=rung) for rung in plan.rungs),
            measured_by=Measurer.of_this_process(),
        )

    @property
    def result(self) -> Result:
        """What is known so far: from the start a row for every rung, also for those that this machine can't do."""
        return self._result

    def heed(self, began: Callable[[Underway], None]) -> None:
        """Let `began` hear of each pass that begins, in the thread that runs the benchmark."""
        self._began = began

    def stop(self) -> None:
        """End the pass under way at once and keep what is done; may be called from any thread, at any time."""
        self._stopped.set()
        with self._lock:
            if self._pass is not None:
                self._pass.kill()

    def run(self) -> Iterator[Result]:
        """Measure; yields the result after each pass, and once more when it has `ended`.

        Whoever takes no more of them ends it, too. The computer is kept awake meanwhile.

        Raises:
            DeviceBusy: Something computes on the device, and it isn't to be measured beside that.
            OSError: A process can't be started.
        """
        with self._turn.held(), awake():
            try:
                for number, place in self._order():
                    measured = self._measure(number, place)
                    if measured is None:
                        break
                    self._add(place, measured)
                    yield self._result
            finally:
                self._end()
        yield self._result

    def _order(self) -> Iterator[tuple[int, int]]:
        """The number of a pass and the place of its rung; whether a rung is given up is asked when its turn comes."""
        for number in range(1, self._plan.passes + 1):
            for place in range(len(self._plan.rungs)):
                if not is_given_up(self._result.rows[place]):
                    yield number, place

    def _measure(self, number: int, place: int) -> Pass | None:
        """One pass; None: it was stopped."""
        self._turn.look_after()
        rung = self._plan.rungs[place]
        with self._lock:
            if self._stopped.is_set():
                return None
            self._pass = self._take(rung, self._plan)
        self._began(self._underway(number, place))
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
        if self._stopped.is_set() and measured.failure:  # it was ended in mid-way
            return None
        if not measured.failure:
            self._seconds.setdefault(rung.name, []).append(time.monotonic() - begun)
        return measured

    def _add(self, place: int, measured: Pass) -> None:
        rows = list(self._result.rows)
        rows[place] = msgspec.structs.replace(rows[place], passes=(*rows[place].passes, measured))
        self._result = msgspec.structs.replace(self._result, rows=tuple(rows))
        self._keep()

    def _end(self) -> None:
        """Keep how it ended; where nothing was measured, there is nothing to keep."""
        is_whole = all(is_given_up(row) or len(row.passes) >= self._plan.passes for row in self._result.rows)
        self._result = msgspec.structs.replace(
            self._result, ended=time.time(), is_whole=is_whole, measured_by=None
        )
        if any(row.passes for row in self._result.rows):
            self._keep()

    def _keep(self) -> None:
        """A full disk costs the file, not the hours that measuring takes."""
        try:
            self._save(self._result)
        except OSError as error:
            self.not_kept = str(error)
        else:
            self.not_kept = ""

    def _underway(self, number: int, place: int) -> Underway:
        done = sum(len(row.passes) for row in self._result.rows)
        left = self._left(number, place)
        return Underway(
            rung=self._plan.rungs[place],
            number_of_pass=number,
            done=done,
            total=done + sum(left.values()),
            seconds_left=self._seconds_left(left),
        )

    def _left(self, number: int, place: int) -> dict[str, int]:
        """How many passes each rung has before it, the one that begins included."""
        left = {}
        for other, row in enumerate(self._result.rows):
            begun = number if other >= place else number + 1
            if not is_given_up(row):
                left[row.rung.name] = self._plan.passes + 1 - begun
        return left

    def _seconds_left(self, left: dict[str, int]) -> float | None:
        """By each rung's own passes, and by those of all for a rung that has none."""
        made = [seconds for found in self._seconds.values() for seconds in found]
        if len(made) < FEWEST_TO_TELL:
            return None
        of_all = sum(made) / len(made)
        own = {name: sum(found) / len(found) for name, found in self._seconds.items()}
        return sum(count * own.get(name, of_all) for name, count in left.items())


def is_given_up(row: Row) -> bool:
    """Whether a rung is not tried (again): this machine can't do it, memory ran out, or it failed too often."""
    failed = [one for one in row.passes if one.failure]
    ran_out = any(one.sample is not None and one.sample.out_of_memory for one in failed)
    return bool(row.rung.refusal) or ran_out or len(failed) >= MOST_FAILURES


def _ignore(_underway: Underway) -> None:
    """Nobody heeds it."""
