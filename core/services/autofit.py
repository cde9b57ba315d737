"""Dry runs of one combination of remedies after another, until one fits ("Fit it for me"), and of each remedy alone.

Both are iterated in a thread of the caller's, a try at a time, and stopped from any other.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.base.language import _
from core.memory.model import TIGHT, Forecast, Measurement, ModelReport, Room, Verdict, verdict
from core.memory.remedies import AS_ASKED, Candidate, Remedy, asked_of, candidates
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.device_support import DeviceReport
from core.services.memory import DryRun

HOPELESS = 1.2
"""A forecast is off by a fifth at worst: what is forecast to take more than so many times what fits has no hope."""

MOST_FAILURES = 3
"""After so many dry runs that failed for another reason than memory, the reason is none of what was changed."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One dry run: what was changed for it (`title` in words, `changes` by path), and its result.

    `forecast` and `slower` are what was expected. A verdict of `fits` leaves a tenth to spare. `measurement` is missing
    where the run failed for another reason than memory, which `problem` says; the verdict is `unknown` then.
    """

    title: str
    changes: dict[str, Any]
    forecast: Forecast
    slower: float
    verdict: Verdict
    measurement: Measurement | None = None
    problem: str = ""

    @property
    def step_seconds(self) -> float | None:
        return self.measurement.step_seconds if self.measurement else None


class MakesMeasurement(Protocol):
    """A dry run, or what a test puts in its place."""

    def run(self) -> Measurement:
        """Measure; raises as `DryRun.run` does."""

    def kill(self) -> None:
        """End it."""


MakeDryRun = Callable[[RunOptions, Room | None], MakesMeasurement]

Began = Callable[[str], None]
"""Receives the title of each try as it begins, in the thread in which the tries are made."""


class DryRuns:
    """Makes one dry run at a time on a device, whose memory the guard looks at."""

    def __init__(
        self, options: RunOptions, device: DeviceReport, room: Room | None, dry_run: MakeDryRun
    ) -> None:
        self._began: Began = lambda _title: None
        self._options = options
        self._device = device
        self._room = room
        self._dry_run = dry_run
        self._lock = threading.Lock()
        self._running: MakesMeasurement | None = None
        self._stopped = False

    def heed(self, began: Began) -> None:
        """Report each try to `began`; call before the first."""
        self._began = began

    def stop(self) -> None:
        """End the try that runs, and make no other; from any thread."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()

    def attempt(self, title: str, changes: dict[str, Any], forecast: Forecast, slower: float) -> Try | None:
        """Make one dry run; None where it was stopped."""
        options = with_changes(self._options, {"device.name": self._device.name, **changes})
        with self._lock:
            if self._stopped:
                return None
            self._running = self._dry_run(options, self._room)
        self._began(title)
        measurement, problem = None, ""
        try:
            measurement = self._running.run()
        except JobCancelled:
            return None
        except (UserError, EngineCrashed) as error:
            problem = str(error)
        return Try(
            title=title,
            changes=changes,
            forecast=forecast,
            slower=slower,
            verdict=verdict_of(measurement, self._room),
            measurement=measurement,
            problem=problem,
        )


class Fitting(DryRuns):
    """Finds the fastest combination that fits with a tenth to spare among those that keep the result, then among those
    that lose least.

    Which is the fastest is forecast; where another one that loses as little is forecast to fit, too, it is measured,
    and the faster one taken. Each result says something of the others: what is forecast to take no less than one that
    didn't fit is not tried any more, and as far as a forecast was off, the others are taken to be, too. Those without
    hope wait till the end, the smallest first: where that fails, the others need no try.

    `result` are the changed options once one was found, `changes` what was changed; None before that, and where nothing
    was found. `reason` then says why, and `is_too_large` whether memory is the reason.

    Args:
        options: The run's.
        report: What is known of its model.
        device: Where it computes.
        room: The device's memory; without it only what runs out of memory doesn't fit.
        dry_run: What measures.
        length: Tokens of the longest row, where that is known.
        correction: As `core.memory.estimate.forecast` takes it.
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
        super().__init__(options, device, room, dry_run)
        self._asked = asked_of(options, report, device, room, length=length, correction=correction)
        self._left: list[Candidate] = []
        self._limit = TIGHT * room.free if room else None
        self._slack = HOPELESS
        self._factor = 1.0
        self._failures = 0
        self.result: RunOptions | None = None
        self.changes: dict[str, Any] | None = None
        self.reason = ""
        self.is_too_large = False

    def tries(self) -> Iterator[Try]:
        """Try one after another, each yielded as it ends, until one fits; then one more that may be faster."""
        if self._asked is None:
            self.reason = _(
                "The model can't be looked at before its run, so that nothing is known of its memory."
            )
            return
        self._left = candidates(self._asked)
        while self._left:
            candidate = self._next()
            done = self._try(candidate)
            if done is None:
                self.reason = _("It was stopped.")
                return
            if done.verdict is Verdict.FITS:
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
                self.reason = _("It fails for another reason than memory. {problem}").format(
                    problem=done.problem
                )
                return
        self.reason = _("Nothing that keeps this model fits: choose a smaller one, or free memory.")
        self.is_too_large = True

    def _next(self) -> Candidate:
        smallest = min(self._left, key=lambda one: (one.total, one.loss, -len(one.steps)))
        chosen = next(filter(self._has_hope, self._left), smallest)
        self._left = [one for one in self._left if one is not chosen]
        return chosen

    def _try(self, candidate: Candidate) -> Try | None:
        return self.attempt(candidate.title, candidate.changes, candidate.forecast, candidate.slower)

    def _take(self, done: Try) -> None:
        self.result, self.changes = with_changes(self._options, done.changes), done.changes

    def _try_rival(self, found: Candidate, done: Try) -> Iterator[Try]:
        """Measure one that loses as little and doesn't only go further the same way; take it where it is faster.

        What was asked has no rival: it needs no change.
        """
        if not found.steps or done.measurement is None:
            return
        self._learn(found, done.measurement)
        alike = (one for one in self._left if one.loss == found.loss and not one.goes_further_than(found))
        rival = next(filter(self._has_hope, alike), None)
        other = self._try(rival) if rival is not None else None
        if other is None:
            return
        one, before = other.step_seconds, done.step_seconds
        if other.verdict is Verdict.FITS and one is not None and before is not None and one < before:
            self._take(other)
        yield other

    def _learn(self, candidate: Candidate, measurement: Measurement) -> None:
        found = measurement.peak / max(1, candidate.total)
        cut_short = bool(measurement.out_of_memory)  # it would have taken more
        self._factor = max(self._factor, found) if cut_short else found
        self._slack = 1.0

    def _has_hope(self, candidate: Candidate) -> bool:
        return self._limit is None or candidate.total * self._factor <= self._limit * self._slack


class MeasuringEach(DryRuns):
    """A dry run of what is asked, then of each remedy alone ("Measure all"): what each really saves and costs.

    Args:
        options: The run's.
        remedies: Of the ladder; those that are advice only are left out.
        device: Where it computes.
        room: The device's memory.
        dry_run: What measures.
        as_asked: What is forecast of `options`.
    """

    def __init__(
        self,
        options: RunOptions,
        remedies: Sequence[Remedy],
        device: DeviceReport,
        room: Room | None,
        dry_run: MakeDryRun = DryRun,
        *,
        as_asked: Forecast,
    ) -> None:
        super().__init__(options, device, room, dry_run)
        self._as_asked = as_asked
        self._remedies = [remedy for remedy in remedies if remedy.changes]

    def tries(self) -> Iterator[Try]:
        """One after another, each yielded as it ends."""
        alone = [(one.title, dict(one.changes), one.forecast, one.slower) for one in self._remedies]
        for each in [(AS_ASKED, {}, self._as_asked, 1.0), *alone]:
            done = self.attempt(*each)
            if done is None:
                return
            yield done


def verdict_of(measurement: Measurement | None, room: Room | None) -> Verdict:
    """Whether what was measured fits; where the room isn't known, what ran to its end does."""
    if measurement is None:
        return Verdict.UNKNOWN
    if measurement.out_of_memory:
        return Verdict.TOO_LARGE
    return verdict(measurement.peak, room) if room else Verdict.FITS
