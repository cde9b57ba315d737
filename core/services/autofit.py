"""Dry runs of one combination of remedies after another, until one fits ("Fit it for me"), and of each remedy alone.

Both are iterated in a thread of the caller's, a try at a time, and stopped from any other.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.memory.model import TIGHT, Forecast, Measurement, ModelReport, Room, Verdict, verdict, with_changes
from core.memory.remedies import AS_ASKED, Candidate, Remedy, asked_of, candidates
from core.options import RunOptions
from core.options.device_support import DeviceReport
from core.services.memory import DryRun

HOPELESS = 1.2
"""A forecast is off by a fifth at worst: what is forecast to take more than so many times what fits has no hope."""

MOST_FAILURES = 3
"""After so many dry runs that failed for another reason than memory, the reason is none of what was changed."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One dry run: what was changed for it (`title` in words, `changes` by path), and what came of it.

    `forecast` and `slower` are what was expected. A verdict of `fits` leaves a tenth to spare. `measurement` is missing
    where the run failed for another reason than memory, which `problem` tells; the verdict is `unknown` then.
    """

    title: str
    changes: dict[str, Any]
    forecast: Forecast
    slower: float
    verdict: Verdict
    measurement: Measurement | None = None
    problem: str = ""


class MakesMeasurement(Protocol):
    """A dry run, or what a test puts in its place."""

    def run(self) -> Measurement:
        """Measure; raises as `DryRun.run` does."""

    def kill(self) -> None:
        """End it."""


MakeDryRun = Callable[[RunOptions, Room | None], MakesMeasurement]

Began = Callable[[str], None]
"""Is told the title of each try as it begins, in the thread in which the tries are made."""


def _tell_nobody(_title: str) -> None: ...


class _Trying:
    """Runs one dry run at a time. `stopped` tells that it was told to end; `began` may be set before the first."""

    def __init__(self, options: RunOptions, room: Room | None, dry_run: MakeDryRun) -> None:
        self.began: Began = _tell_nobody
        self._options = options
        self._room = room
        self._dry_run = dry_run
        self._lock = threading.Lock()
        self._running: MakesMeasurement | None = None
        self.stopped = False

    def stop(self) -> None:
        """End the try that runs, and make no other; from any thread."""
        with self._lock:
            self.stopped = True
            if self._running is not None:
                self._running.kill()

    def attempt(self, title: str, changes: dict[str, Any], forecast: Forecast, slower: float) -> Try | None:
        """Make one dry run; None where it was stopped."""
        with self._lock:
            if self.stopped:
                return None
            self._running = self._dry_run(with_changes(self._options, changes), self._room)
        self.began(title)
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


class Fitting:
    """Finds the fastest combination that fits with a tenth to spare among those that keep the result, then among those
    that lose least.

    Which is the fastest is forecast; where another one that loses as little is forecast to fit, too, it is measured,
    and the faster one taken.

    `result` are the changed options once one was found, `changes` what was changed; None before that, and where nothing
    was found. `reason` then says why, and `is_too_large` whether memory is the reason.

    Args:
        options: What is asked.
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
        on_device = with_changes(options, {"device.name": device.name})  # whose memory the guard looks at
        self._options = options
        self._asked = asked_of(options, report, device, room, length=length, correction=correction)
        self._trying = _Trying(on_device, room, dry_run)
        self.result: RunOptions | None = None
        self.changes: dict[str, Any] | None = None
        self.reason = ""
        self.is_too_large = False

    def heed(self, began: Began) -> None:
        """Have `began` told of each try; call before the first."""
        self._trying.began = began

    def stop(self) -> None:
        """End the try that runs, and make no other; from any thread."""
        self._trying.stop()

    def tries(self) -> Iterator[Try]:
        """Try one after another, each told as it ends, until one fits; then one more that may be faster."""
        if self._asked is None:
            self.reason = (
                "The model can't be looked at before its run, so that nothing is known of its memory."
            )
            return
        waiting = _Waiting(candidates(self._asked), self._asked.room)
        while (candidate := waiting.next()) is not None:
            done = self._attempt(candidate)
            if done is None:
                self.reason = "It was stopped."
                return
            if done.verdict is Verdict.FITS:
                self._take(done)
            yield done
            if done.verdict is Verdict.FITS:
                yield from self._try_rival(waiting.rival(candidate, done), done)
                return
            waiting.learn(candidate, done)
        self.reason = waiting.reason
        self.is_too_large = not waiting.fails_otherwise

    def _try_rival(self, rival: Candidate | None, found: Try) -> Iterator[Try]:
        """Measure one that loses as little as what was found, and take it where it is faster."""
        done = self._attempt(rival) if rival is not None else None
        if done is not None:
            if done.verdict is Verdict.FITS and _is_faster(done, found):
                self._take(done)
            yield done

    def _attempt(self, candidate: Candidate) -> Try | None:
        return self._trying.attempt(candidate.title, candidate.changes, candidate.forecast, candidate.slower)

    def _take(self, done: Try) -> None:
        self.result, self.changes = with_changes(self._options, done.changes), done.changes


class MeasuringEach:
    """A dry run of what is asked, then of each remedy alone ("Measure all"): what each really saves and costs.

    Args:
        options: What is asked.
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
        on_device = with_changes(options, {"device.name": device.name})
        self._as_asked = as_asked
        self._remedies = [remedy for remedy in remedies if remedy.changes]
        self._trying = _Trying(on_device, room, dry_run)

    def heed(self, began: Began) -> None:
        """Have `began` told of each try; call before the first."""
        self._trying.began = began

    def stop(self) -> None:
        """End the dry run that is under way, and make no other; from any thread."""
        self._trying.stop()

    def tries(self) -> Iterator[Try]:
        """One after another, each told as it ends."""
        alone = [(one.title, dict(one.changes), one.forecast, one.slower) for one in self._remedies]
        for each in [(AS_ASKED, {}, self._as_asked, 1.0), *alone]:
            done = self._trying.attempt(*each)
            if done is None:
                return
            yield done


class _Waiting:
    """Candidates not tried yet, in order. What came of one tells of the others.

    One that is forecast to take no less than one that didn't fit is not tried any more. As far as a forecast was off,
    the others are taken to be, too. Those without hope wait till the end, the smallest first: where that fails, the
    others need no try.
    """

    def __init__(self, found: Sequence[Candidate], room: Room | None) -> None:
        self._left = list(found)
        self._limit = TIGHT * room.free if room else None
        self._slack = HOPELESS
        self._factor = 1.0
        self._problems: list[str] = []

    @property
    def fails_otherwise(self) -> bool:
        """Whether so many failed for another reason than memory that no more are worth trying."""
        return len(self._problems) >= MOST_FAILURES

    @property
    def reason(self) -> str:
        """Why none is left."""
        if self.fails_otherwise:
            return f"It fails for another reason than memory. {self._problems[-1]}"
        return "Nothing that keeps this model fits: choose a smaller one, or free memory."

    def next(self) -> Candidate | None:
        """The next one to try; None where none is left."""
        if not self._left or self.fails_otherwise:
            return None
        smallest = min(self._left, key=lambda one: (one.total, one.loss, -len(one.steps)))
        chosen = next(filter(self._has_hope, self._left), smallest)
        self._left = [one for one in self._left if one is not chosen]
        return chosen

    def learn(self, candidate: Candidate, done: Try) -> None:
        """Heed what came of a candidate that isn't taken."""
        if done.measurement is None:
            self._problems.append(done.problem)
            return
        self._left = [one for one in self._left if one.total < candidate.total]
        self._learn_factor(candidate, done.measurement)

    def rival(self, found: Candidate, done: Try) -> Candidate | None:
        """What is to be measured beside a candidate that fits; None: nothing.

        It loses as little and doesn't only go further the same way. What was asked has no rival: it needs no change.
        """
        if not found.steps or done.measurement is None:
            return None
        self._learn_factor(found, done.measurement)
        alike = (one for one in self._left if one.loss == found.loss and not one.goes_further_than(found))
        return next(filter(self._has_hope, alike), None)

    def _learn_factor(self, candidate: Candidate, measurement: Measurement) -> None:
        found = measurement.peak / max(1, candidate.total)
        cut_short = bool(measurement.out_of_memory)  # it would have taken more
        self._factor = max(self._factor, found) if cut_short else found
        self._slack = 1.0

    def _has_hope(self, candidate: Candidate) -> bool:
        return self._limit is None or candidate.total * self._factor <= self._limit * self._slack


def _is_faster(one: Try, other: Try) -> bool:
    """Whether a step of `one` took less time, where both are known."""
    seconds = [done.measurement.step_seconds if done.measurement else None for done in (one, other)]
    return seconds[0] is not None and seconds[1] is not None and seconds[0] < seconds[1]


def verdict_of(measurement: Measurement | None, room: Room | None) -> Verdict:
    """Whether what was measured fits; where the room isn't known, what ran to its end does."""
    if measurement is None:
        return Verdict.UNKNOWN
    if measurement.out_of_memory:
        return Verdict.TOO_LARGE
    return verdict(measurement.peak, room) if room else Verdict.FITS
