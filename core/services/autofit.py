"""Dry runs of combinations of remedies until one fits ("Fit it for me").

They are iterated in a thread of the caller, and may be stopped from another one.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.base.language import _
from core.memory.model import TIGHT, FitVerdict, Forecast, Measurement, ModelReport, Room, verdict
from core.memory.remedies import Candidate, candidates, request_of
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.device_support import DeviceReport
from core.services.memory import DryRun

HOPELESS = 1.2
"""Forecasts are at most 20 % too high: what is forecast to take more than this factor of what fits is not tried."""

MOST_TRIES = 6
"""Fitting makes at most so many dry runs; the last is that of the smallest combination, or of a rival."""

MOST_FAILURES = 3
"""After so many dry runs that failed for other reasons than memory, the search is given up."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One dry run: what was changed for it (`title`, `changes` by path), what was expected, and its result.

    If the run failed for another reason than memory, `problem` is the reason, `measurement` is None and the verdict is
    `unknown`.
    """

    title: str
    changes: dict[str, Any]
    forecast: Forecast
    slower: float
    verdict: FitVerdict
    measurement: Measurement | None = None
    problem: str = ""

    @property
    def step_seconds(self) -> float | None:
        return self.measurement.step_seconds if self.measurement else None


MakeDryRun = Callable[[RunOptions, Room | None], DryRun]


class Begun(msgspec.Struct, frozen=True):
    """A try that begins: its number from 1, and the titles of the plan: its own, and those that may follow it."""

    number: int
    plan: tuple[str, ...]

    @property
    def most(self) -> int:
        return self.number - 1 + len(self.plan)


OnBegin = Callable[[Begun], None]
"""Called as each try begins, in the thread that iterates."""


class Fitting:
    """Find the fastest combination of remedies that fits with 10 % to spare, among those that lose least.

    Candidates are tried in the order of their forecasts. Each result improves the others' forecasts: candidates that
    are forecast to take no less than one that didn't fit are dropped, and a forecast's error is applied to the others.
    Candidates that are forecast not to fit come last, the smallest first. If a combination fits, one other that loses
    as little and is forecast to fit is measured too, and the faster one is chosen. There are at most `MOST_TRIES`; if
    all but one failed, the last is the smallest combination.

    Attributes:
        result: The changed options, None until a combination was found.
        changes: What was changed, None likewise.
        reason: Why nothing was found.
        is_too_large: Whether memory is that reason.

    Args:
        room: The device's memory; if None, everything fits that doesn't run out of memory.
        length: Tokens of the longest row, None if unknown.
    """

    def __init__(
        self,
        options: RunOptions,
        report: ModelReport,
        device: DeviceReport,
        room: Room | None,
        dry_run: MakeDryRun = DryRun,
        *,
        length: int | None = None,
        correction: float = 1.0,
    ) -> None:
        self._on_begin: OnBegin = lambda _begun: None
        self._count = 0
        self._options = options
        self._device = device
        self._room = room
        self._dry_run = dry_run
        self._lock = threading.Lock()
        self._running: DryRun | None = None
        self._stopped = False
        self._request = request_of(options, report, device, room, length=length, correction=correction)
        self._left: list[Candidate] = []
        self._limit = TIGHT * room.free if room else None
        self._slack = HOPELESS
        self._factor = 1.0
        self._failures = 0
        self.result: RunOptions | None = None
        self.changes: dict[str, Any] | None = None
        self.reason = ""
        self.is_too_large = False

    def on_begin(self, callback: OnBegin) -> None:
        self._on_begin = callback

    def stop(self) -> None:
        """Ends the current try and makes no other; may be called from any thread."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()

    def tries(self) -> Iterator[Try]:
        """Makes one dry run after the other until a combination fits."""
        if self._request is None:
            self.reason = _("The model can't be inspected before its run, so its memory can't be estimated.")
            return
        self._left = candidates(self._request)
        while plan := self._plan():
            candidate, *others = plan
            self._left = [one for one in self._left if one is not candidate]
            done = self._try(candidate, [other.title for other in others])
            if done is None:
                self.reason = _("It was stopped.")
                return
            if done.verdict is FitVerdict.FITS:
                self._take(done)
                yield done
                yield from self._try_rival(candidate, done)
                return
            yield done
            if done.measurement is not None:
                self._left = [one for one in self._left if one.total < candidate.total]
                self._learn(candidate, done.measurement)
                continue
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                self.reason = _("It fails for other reasons than memory: {problem}").format(
                    problem=done.problem
                )
                return
        self.reason = _("No change makes this model fit: choose a smaller one, or free memory.")
        self.is_too_large = True

    def _plan(self) -> list[Candidate]:
        """Returns the next tries if each fails to fit: those that have hope, and at last the smallest."""
        left, plan = self._left, list[Candidate]()
        while left and self._count + len(plan) < MOST_TRIES:
            smallest = min(left, key=lambda one: (one.total, one.loss, -len(one.steps)))
            hopeful = next(filter(self._has_hope, left), smallest)
            plan.append(smallest if self._count + len(plan) == MOST_TRIES - 1 else hopeful)
            left = [one for one in left if one.total < plan[-1].total]
        return plan

    def _try(self, candidate: Candidate, then: Sequence[str] = ()) -> Try | None:
        """Makes one dry run; `then` are the titles of those that may follow. Returns None if it was stopped."""
        changes = {"device.name": self._device.name, **candidate.changes}
        with self._lock:
            if self._stopped:
                return None
            self._running = self._dry_run(with_changes(self._options, changes), self._room)
        self._count += 1
        self._on_begin(Begun(self._count, (candidate.title, *then)))
        measurement, problem = None, ""
        try:
            measurement = self._running.run()
        except JobCancelled:
            return None
        except (UserError, EngineCrashed) as error:
            problem = str(error)
        return Try(
            title=candidate.title,
            changes=candidate.changes,
            forecast=candidate.forecast,
            slower=candidate.slower,
            verdict=verdict_of(measurement, self._room),
            measurement=measurement,
            problem=problem,
        )

    def _take(self, done: Try) -> None:
        self.result, self.changes = with_changes(self._options, done.changes), done.changes

    def _try_rival(self, found: Candidate, done: Try) -> Iterator[Try]:
        """Measures a candidate that loses as little without only adding changes; chooses it if it is faster."""
        if not found.steps or done.measurement is None or self._count == MOST_TRIES:
            return
        self._learn(found, done.measurement)
        alike = (one for one in self._left if one.loss == found.loss and not one.goes_further_than(found))
        rival = next(filter(self._has_hope, alike), None)
        other = self._try(rival) if rival is not None else None
        if other is None:
            return
        one, before = other.step_seconds, done.step_seconds
        if other.verdict is FitVerdict.FITS and one is not None and before is not None and one < before:
            self._take(other)
        yield other

    def _learn(self, candidate: Candidate, measurement: Measurement) -> None:
        ratio = measurement.peak / max(1, candidate.total)  # too low if memory ran out
        self._factor = max(self._factor, ratio) if measurement.out_of_memory else ratio
        self._slack = 1.0

    def _has_hope(self, candidate: Candidate) -> bool:
        return self._limit is None or candidate.total * self._factor <= self._limit * self._slack


def verdict_of(measurement: Measurement | None, room: Room | None) -> FitVerdict:
    """Returns whether a measured run fits. If `room` is None, every run fits that didn't run out of memory."""
    if measurement is None:
        return FitVerdict.UNKNOWN
    if measurement.out_of_memory:
        return FitVerdict.TOO_LARGE
    return verdict(measurement.peak, room) if room else FitVerdict.FITS
