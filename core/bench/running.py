"""Running a benchmark: every rung once, then every rung again (A B A B), each pass in a process of its own."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from core.awake import awake
from core.bench.device_turn import DeviceTurn
from core.bench.plan import Plan, Rung
from core.bench.result import Machine, Measurer, Pass, Result, Row
from core.jobs import JobCancelled

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
