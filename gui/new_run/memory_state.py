"""What is known about the memory of the run in the form: a forecast at once, the engine's forecast, a measurement."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import mul
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from core.base import settings
from core.base.errors import UserError
from core.base.formats import memory
from core.base.language import _, isolated
from core.jobs.hub import ConfigFetched, ConfigRequest
from core.jobs.inspect import DataReport, Lengths
from core.memory import estimate, history
from core.memory.model import (
    FitVerdict,
    Forecast,
    Measurement,
    ModelReport,
    ModelShape,
    OptionsRequest,
    Room,
    key_of,
    matters,
    options_request,
    that_matter,
)
from core.memory.remedies import Remedy, ladder
from core.monitor.device_memory import room_of
from core.monitor.nvidia import gpu_of
from core.options import RunOptions, choices, hub
from core.options.catalogue import options_by_path, with_changes
from core.options.choices import Method, Padding
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, find_device
from core.options.hub import is_at_hand, is_complete
from core.options.method_rules import SAMPLE_PATHS, STEP_PATHS, steps_of, with_batch_within
from core.options.sources import HUB_MODELS
from core.runs.library import list_runs, options_of_runs
from core.runs.summary import Timings, rough_key, steps_and_evaluations, timing_key, timings
from core.services.autofit import MakeDryRun, verdict_of
from core.services.memory import DryRun
from gui.base.background import Ask, EngineWork, FileWork
from gui.new_run.state import CheckedForm, FormQuestion, FormQuestions, failure_text, is_counted, known_extent

_gpu = cache(gpu_of)  # finding a GPU takes longer than reading its memory


def taught_as(case: "FormCase") -> str:
    return history.taught_as(case.device, case.options)


def read_room(device: DeviceReport, options: RunOptions) -> Room | None:
    """Return how much memory a device has and has free, None if unknown."""
    gpu = _gpu(device.name) if device.kind == "cuda" and "@" not in device.name else None
    return room_of(device, gpu=gpu, mps_limit=options.device.mps_memory_limit)


@dataclass(frozen=True)
class MemoryTools:
    """What the window computes about memory without the engine; tests replace it."""

    forecast: Callable[..., Forecast] = estimate.forecast
    room: Callable[[DeviceReport, RunOptions], Room | None] = read_room
    correction: Callable[[str], float] = history.correction
    dry_run: MakeDryRun = DryRun
    timings: Callable[[], Timings] = lambda: timings(list_runs(settings.runs_folder()))


def known_length(options: RunOptions, before: RunOptions, tokens: int) -> int | None:
    """Return the tokens of the longest text, None if it has to be searched again.

    Args:
        options: Options of the form.
        before: Options with which the longest text was found.
        tokens: Its length then, cut at `max_length`.
    """

    def texts(options: RunOptions) -> object:
        defaults = DataOptions()
        same = {name: getattr(defaults, name) for name in ("max_length", "padding", "pad_to_multiple_of")}
        data = msgspec.structs.replace(options.data, **same)
        return options.task, data, options.model.source

    limit, limit_before = options.data.max_length, before.data.max_length
    if texts(options) != texts(before) or (tokens >= limit_before and limit > limit_before):
        return None
    return min(tokens, limit)


def longest_example(options: RunOptions, data: DataReport) -> int | None:
    """Return the tokens of the longest example by a report on the data, None without a tokenizer or for images."""
    if options.task is choices.Task.CAUSAL_LM or (options.task is choices.Task.CHAT and options.data.packing):
        return options.data.max_length  # blocks are full
    lengths = data.lengths
    return min(lengths.longest, options.data.max_length) if lengths and lengths.unit == "tokens" else None


@dataclass(frozen=True)
class PastMeasurement:
    """A measurement, and when it was made, in unix seconds.

    `length` are the tokens of the longest example as known then, None if unknown.
    """

    measurement: Measurement
    at: float
    length: int | None = None

    @property
    def ran_out(self) -> bool:
        """Whether memory ran out, so that the figures are those of that moment."""
        return bool(self.measurement.out_of_memory)

    @property
    def pace(self) -> float | None:
        """Mean seconds per step of the whole run, None if not measured."""
        measured = self.measurement
        if measured.total_steps and measured.run_seconds is not None:
            return (measured.run_seconds - measured.compile_seconds) / measured.total_steps
        return measured.step_seconds


def training_seconds(options: RunOptions, trained: int, pace: float, validation: float) -> float:
    """Return the seconds of all steps and evaluations, at a pace per step.

    A backward pass takes about twice as long as a forward one, or as long if few weights are trained; evaluating has
    none. `validation` are validation examples per training example.
    """
    (steps, per_epoch), evaluations = steps_of(options, trained), steps_and_evaluations(options, trained)[1]
    forward = {Method.FULL: 1 / 3, Method.HEAD: 1.0}.get(options.model.method, 1 / 2)
    return pace * (steps + max(1.0, evaluations) * per_epoch * validation * forward)


@dataclass(frozen=True)
class FormCase:
    """What a forecast is about: readable options, an available device, a model of known shape.

    `trained` is the number of training examples, `validation` that of validation examples for each of them, None if
    unknown; `is_complete` if the model is on this computer. Of one that `is_listed` and isn't here, only the number of
    weights is known.
    """

    options: RunOptions
    device: DeviceReport
    model: ModelReport
    shape: ModelShape
    labels: int
    trained: int | None
    is_ready: bool
    is_complete: bool
    is_listed: bool = False
    validation: float | None = None


def find_case(
    checked: CheckedForm, machine: MachineReport | None, questions: FormQuestions, *, is_ready: bool
) -> FormCase | str:
    """Return what the form is about, or a sentence saying why nothing can be forecast yet."""
    options, model = checked.readable, questions.model
    if machine is None:
        return _("Checking this computer…")
    if options is None or any(matters(path) for path in checked.unreadable):
        return _("The estimate appears once every value of the form can be read.")
    if not options.model.source:
        return _("Choose a model to see how much memory its training takes.")
    problems = (*checked.problems, *questions.data.problems())
    if options.data.train and any(problem.path == "data.train" for problem in problems):
        return _("The estimate appears once the training data can be read.")
    device = find_device(machine, options.device.name)
    if device is None or not device.available:
        return _("Choose a device that is there.")
    listed, shaped = None, model.shaped
    if is_elsewhere(options, questions):
        listed = HUB_MODELS.get(options.model.source)
        if listed is not None and not hub.is_forbidden():
            shape = ModelShape(parameters=listed.parameters, vocabulary=listed.vocabulary)
            shaped = ModelReport(shape=shape)
        elif not hub.may_be_there(options):
            return _("The estimate needs the model on this computer.")
        elif hub.is_forbidden():
            text = _("The model isn't on this computer, and {what} prevents its download.")
            return text.format(what=hub.forbidden_by())
        else:
            return _("The model isn't on this computer yet: the first run downloads it.")
    if shaped is None or shaped.shape is None:
        if model.is_waiting:
            return _("Checking the model…")
        return _("The memory of this model isn't known before it runs.")
    data, trained, validation = questions.data.counted, None, None
    if data is not None and is_counted(options, data) and not checked.unreadable & STEP_PATHS:
        known = known_extent(options, data)
        trained, evaluated = known.trained, data.eval_rows if known.evaluated is None else known.evaluated
        validation = None if evaluated is None else evaluated / trained
        options = with_batch_within(options, trained)
    labels = max(2, len(data.labels)) if data is not None else 2
    is_here, is_listed = is_complete(options), listed is not None
    shape = shaped.shape
    return FormCase(options, device, shaped, shape, labels, trained, is_ready, is_here, is_listed, validation)


def is_elsewhere(options: RunOptions, questions: FormQuestions) -> bool:
    """Whether nothing is known about the model because it isn't on this computer."""
    model = questions.model
    if model.shaped is not None or model.is_waiting:
        return False
    return not is_at_hand(options) or model.report == ModelReport()


def times(
    options: RunOptions, past: Timings, device: str = "", trained: int | None = None
) -> list[tuple[float | None, str]]:
    """Seconds of each run of a form, None if unknown, and how they are known by a past run.

    Args:
        device: As in `Timings`.
        trained: The training examples of the last run, if known.
    """
    found: list[tuple[float | None, str]] = []
    runs = options_of_runs(options)
    for one in runs:
        seconds, words, timing = None, "", past.get((timing_key(one), device))
        if timing is not None:
            seconds, words = timing.seconds_of(one), _("estimated from the run “{name}”")
        elif (timing := past.get((rough_key(one), device))) is not None:
            examples = trained if trained and one is runs[-1] else timing.examples
            seconds = timing.roughly(one, examples)
            words = _("roughly, by the time that the run “{name}” took per example")
        found.append(
            (seconds, "" if seconds is None or timing is None else words.format(name=isolated(timing.title)))
        )
    return found


FORECAST_DELAY_MS = 600
"""Delay of the engine's forecast after a change of the form: it needs a process."""

ROOM_CHANGE = 0.01
"""Smaller changes of the free memory, as a share of the ceiling, are ignored so that figures don't flicker."""

TICK_MS = 1000


class MemoryState(QObject):
    """The best figure there is about the memory of the run in the form.

    `case` is what it is about; if that is None, `missing` says why. `room` is the memory there is now, `correction`
    the factor learned from past runs on the device. `lookup_source` is a model on the Hub whose config could be
    fetched, empty if there is none.
    """

    changed = Signal()  # something changed without a change of the form
    fetched = Signal()  # the model's config is on this computer now

    def __init__(self, ask: Ask, tools: MemoryTools, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tools = tools
        self.case: FormCase | None = None
        self.missing = ""
        self.room: Room | None = None
        self.correction = 1.0
        self.lookup_source = ""
        self._formula: Forecast | None = None
        self._pair: tuple[Forecast, ...] = ()  # of both runs, if one that pretrains precedes the chat
        self._blocks = 0  # of text in the first of them, if known
        self._longest: tuple[RunOptions, int] | None = None
        self.lengths: Lengths | None = None  # of the examples, in tokens
        self._measured: dict[bytes, PastMeasurement] = {}
        self._is_checking = False
        self._is_paused = False
        self.refined: FormQuestion[OptionsRequest, Forecast] = FormQuestion(
            ask, "forecast", Forecast, self, delay_ms=FORECAST_DELAY_MS
        )
        """The engine's forecast, which knows the longest row of the data."""
        self.refined.changed.connect(self._on_refined)
        self._ask = ask
        self.lookup: EngineWork[ConfigFetched] = EngineWork(self, done=self.fetched, failed=self.changed)
        self.measuring: EngineWork[Measurement] = EngineWork(
            self, done=self._on_measurement, settled=self._on_measuring_over
        )
        self.minutes = 0  # of an unchanged example
        self._timings: Timings = {}
        self._files = FileWork(self)
        self._dry_run: DryRun | None = None
        self.before_sending: Callable[[RunOptions, Callable[[], None]], None] = lambda _options, then: then()
        """Calls the second once the files of a run may leave for its computer."""
        self._began = 0.0
        self._clock = QTimer(self, interval=TICK_MS)
        self._clock.timeout.connect(self.changed)

    @property
    def forecast(self) -> Forecast | None:
        """The best figure, with the memory there is now."""
        if self.case is None:
            return None
        refined = self.refined.report
        best = self._formula
        if self.measured is not None:  # of the second run of a pair: the first one may need more
            measured = self.measured.measurement.forecast
            if best is None or not self._pair or self.ran_out or measured.parts.total > best.parts.total:
                best = measured
        elif refined is not None and (refined.longest_text is not None or self.known_length is None):
            best = estimate.corrected(refined, self.correction)  # else it assumes lengths that are known
        return best and msgspec.structs.replace(best, room=self.room)

    @property
    def measured(self) -> PastMeasurement | None:
        """The measurement of these options and examples as long as now, None if there is none yet."""
        timed, length = self.timed, self.known_length
        is_other = timed is not None and timed.length is not None and length not in (None, timed.length)
        return None if is_other else timed

    @property
    def timed(self) -> PastMeasurement | None:
        """Return the measurement that gives the step time, also one with shorter or longer examples."""
        return self._measured.get(_key(self.case.options)) if self.case else None

    @property
    def ran_out(self) -> bool:
        return self.measured is not None and self.measured.ran_out

    @property
    def is_undivided(self) -> bool:
        """Whether only the whole of the memory is known, and not its parts."""
        return self.measured is not None and self.measured.measurement.is_undivided

    @property
    def is_upper_bound(self) -> bool:
        """Whether the forecast assumes that all examples have the maximum length, since theirs isn't known."""
        case = self.case
        return (
            case is not None
            and not case.is_listed
            and case.options.task.reads_text
            and case.options.data.padding is Padding.DYNAMIC
            and self.measured is None
            and self.known_length is None
        )

    @property
    def is_reading(self) -> bool:
        """Whether the lengths of the examples are still to come."""
        return self.is_upper_bound and (self._is_checking or self.refined.is_waiting)

    @property
    def verdict(self) -> FitVerdict:
        if self.ran_out:
            return FitVerdict.TOO_LARGE
        found = self.forecast.verdict if self.forecast else FitVerdict.UNKNOWN
        return found if found is FitVerdict.FITS or not self.is_reading else FitVerdict.UNKNOWN

    @property
    def note(self) -> str:
        """Why memory ran out or no better figure is known; empty if there is nothing to say."""
        if self.measured is not None:
            return self.measured.measurement.out_of_memory
        failure = self.measuring.failure or self.refined.failure
        return failure_text(failure) if failure else ""

    @property
    def pair(self) -> str:
        """What each run of a pair needs by the formula; empty for one run."""
        if not self._pair:
            return ""
        first, second = (memory(one.parts.total) for one in self._pair)
        return _("Run 1, pretraining: {first}. Run 2, chat: {second}.").format(first=first, second=second)

    @property
    def known_length(self) -> int | None:
        """Tokens of the longest row before padding, if the engine found it in the same data."""
        return known_length(self.case.options, *self._longest) if self.case and self._longest else None

    @property
    def expected(self) -> list[tuple[float | None, str]]:
        """Seconds of each run of the form, None if unknown, and by which past run, empty if measured."""
        return self._expected(self.case, self.case.options) if self.case else []

    def _expected(self, case: FormCase, options: RunOptions) -> list[tuple[float | None, str]]:
        timed, found = self.timed, times(options, self._timings, case.device.title, case.trained)
        if timed is not None and not timed.ran_out and timed.pace is not None:
            measured, validation = timed.measurement, case.validation or 0.0
            found[-1] = measured.run_seconds, ""
            if trained := case.trained or measured.train_samples:
                seconds = training_seconds(options, trained, timed.pace, validation)
                found[-1] = measured.compile_seconds + seconds, ""
            blocks = self._blocks or (options.training.max_steps if options.pretrains else 0)
            if blocks and measured.longest and measured.longest_step_seconds and found[0][0] is None:
                pace = (
                    measured.longest_step_seconds * options.data.max_length / measured.longest
                )  # full blocks
                found[0] = training_seconds(options, blocks, pace, validation), ""
        return found

    def steps_within(self, minutes: float) -> tuple[int | None, float]:
        """Return `training.max_steps` with which all runs end in time, None for all epochs, and their seconds.

        They become neither longer than they are or than their epochs, nor shorter than a step. The seconds are infinite
        if a run's aren't known.
        """
        case, timed, change = self.case, self.timed, msgspec.structs.replace
        if case is None or timed is None:
            return None, math.inf
        options, training = case.options, case.options.training

        def seconds(steps: int | None) -> float:
            changed = change(options, training=change(training, max_steps=steps))
            return sum(math.inf if one is None else one for one, _title in self._expected(case, changed))

        steps, trained = training.max_steps, case.trained or timed.measurement.train_samples
        if trained is None or options.only_evaluates or seconds(1) == math.inf:
            return steps, seconds(steps)
        most = max(steps or 0, math.ceil(training.epochs * steps_of(options, trained)[1]))
        steps = steps if steps == most else None
        if seconds(steps) > 60 * minutes:
            steps = max(1, bisect_right(range(1, most + 1), 60 * minutes, key=seconds))
        return steps, seconds(steps)

    def outlook(self, runs: Mapping[str, RunOptions]) -> tuple[float | None, list[str]]:
        """The seconds of these runs, None if unknown, and which may not fit, by what they add to the form's.

        All are taken to train as many examples per second as the form's.
        """
        case, known = self.case, self.expected
        if case is None:
            return None, []
        too_large, factor = FitVerdict.TOO_LARGE, self._factor
        large = [words for words, one in runs.items() if self._verdict_of(one, factor) is too_large]
        trained = case.trained or (self.timed and self.timed.measurement.train_samples)
        if not trained or any(seconds is None for seconds, _title in known):
            return None, large
        own, *others = (
            steps_of(one, trained)[0] * one.effective_batch for one in (case.options, *runs.values())
        )
        return sum(seconds or 0.0 for seconds, _title in known) * sum(others) / own, large

    @property
    def can_measure(self) -> bool:
        case = self.case
        return case is not None and case.is_ready and case.is_complete and not self.measuring.is_running

    @property
    def measuring_seconds(self) -> float:
        return time.monotonic() - self._began

    def remedies(self) -> tuple[Remedy, ...]:
        """Return what would need less memory, the least loss first."""
        case = self.case
        if case is None:
            return ()
        length = self._formula.length if self._pair and self._formula else self.known_length
        return ladder(
            case.options, case.model, case.device, self.room, length=length, correction=self._cautious_factor
        )

    def may_fit(self, changes: Mapping[str, Any]) -> bool:
        """Return whether the run isn't known to be too large with other values of options."""
        if self.case is None:
            return True
        changed = with_changes(self.case.options, changes)
        return self._verdict_of(changed, self._cautious_factor) is not FitVerdict.TOO_LARGE

    def _verdict_of(self, options: RunOptions, factor: float) -> FitVerdict:
        """The verdict on other options than those of the form, by the formula times a factor."""
        if self.case is None:
            return FitVerdict.UNKNOWN
        needs = partial(self.tools.forecast, room=self.room, length=self.known_length, correction=factor)
        return needs(options, self.case.shape, self.case.device).verdict

    @property
    def _factor(self) -> float:
        """The correction with which the formula gives the best figure there is."""
        best, formula = self.forecast, self._formula
        if best is None or formula is None or self._pair:
            return self.correction
        total = best.parts.total
        if self.ran_out and self.room is not None:  # before it came to its peak
            total = max(total, self.room.free)
        return formula.correction_to(total)

    @property
    def _cautious_factor(self) -> float:
        """Return the larger of the correction and `_factor`: whether changed options fit is judged with care."""
        return max(self.correction, self._factor)

    def measured_after(self, remedy: Remedy) -> PastMeasurement | None:
        """Return what was measured with a remedy, None if nothing was."""
        if self.case is None or not remedy.changes:
            return None
        return self._measured.get(_key(with_changes(self.case.options, remedy.changes)))

    def verdict_after(self, remedy: Remedy) -> FitVerdict:
        """Return whether it fits with a remedy, as measured or by forecast."""
        if (after := self.measured_after(remedy)) is not None:
            return verdict_of(after.measurement, self.room)
        found = remedy.forecast.verdict
        is_vague = self.case is not None and self.case.is_listed and found is FitVerdict.TIGHT
        return FitVerdict.UNKNOWN if is_vague else found

    def update(
        self, checked: CheckedForm, machine: MachineReport | None, questions: FormQuestions, *, is_ready: bool
    ) -> None:
        """Follow the form; see `find_case`."""
        before, case = self.case, find_case(checked, machine, questions, is_ready=is_ready)
        self.case, self.missing = (None, case) if isinstance(case, str) else (case, "")
        options = checked.readable
        may_fetch = options is not None and hub.may_be_there(options) and not hub.is_forbidden()
        source = options.model.source if may_fetch and options and is_elsewhere(options, questions) else ""
        if source != self.lookup_source:
            self.lookup.cancel()
            failure, last = self.lookup.failure, self.lookup_source
            if failure is not None and last and last in failure.title:  # else the Hub can't be reached
                self.lookup.failure = None
            self.lookup_source = source
        if self.case is None or before is None or before.options != self.case.options:
            self.measuring.failure = None
        if self.case is not None and (before is None or taught_as(before) != taught_as(self.case)):
            self.correction = self.tools.correction(taught_as(self.case))
        if self.case is not None and (before is None or before.device != self.case.device):
            self.room = self.tools.room(self.case.device, self.case.options)
        is_same = self.case and before and that_matter(before.options) == that_matter(self.case.options)
        if not is_same:
            self._kill_dry_run()
        self._is_checking = questions.data.is_waiting or questions.model.is_waiting
        data = questions.data.report
        self.lengths = data.lengths if data and data.lengths and data.lengths.unit == "tokens" else None
        if self.case and self.known_length is None and data is not None and not questions.data.is_waiting:
            tokens = longest_example(self.case.options, data)
            self._longest = None if tokens is None else (self.case.options, tokens)
        self._follow()

    def fetch(self) -> None:
        """Fetch the config of `lookup_source`."""
        if self.lookup_source:
            self.lookup.ask(
                self._ask, "fetch-config", ConfigFetched, ConfigRequest(source=self.lookup_source)
            )
            self.changed.emit()

    def cancel_fetch(self) -> None:
        self.lookup.cancel()
        self.changed.emit()

    def read_room(self) -> None:
        """Read how much memory is free, except while a dry run uses it."""
        if self.case is None or self.measuring.is_running or self._is_paused:
            return
        room, before = self.tools.room(self.case.device, self.case.options), self.room
        if room is None or before is None:
            has_changed = room is not before
        else:
            is_far = abs(room.free - before.free) > ROOM_CHANGE * room.ceiling
            has_changed = is_far or room.ceiling != before.ceiling
        if has_changed:
            self.room = room
            self._follow()
            self.changed.emit()

    def measure(self) -> None:
        """Start a dry run, if one can start, on the device that "automatic" resolves to."""
        case = self.case
        if case is None or not self.can_measure:
            return
        options = with_changes(case.options, {"device.name": case.device.name})
        self.before_sending(options, partial(self._measure, options))

    def _measure(self, options: RunOptions) -> None:
        self.read_room()
        self.refined.hold()
        dry_run = self._dry_run = self.tools.dry_run(options, self.room)
        self._began = time.monotonic()
        self._clock.start()
        self.measuring.start(lambda _call: _run(dry_run))
        self.changed.emit()

    def cancel(self) -> None:
        """End the dry run."""
        self._kill_dry_run()
        self._follow()
        self.changed.emit()

    def pause(self) -> None:
        """End the engine's work, since something else is about to need the memory."""
        self._is_paused = True
        self._kill_dry_run()
        self.refined.hold()

    def resume(self) -> None:
        self._is_paused = False
        self._follow()
        self.read_room()
        self._files.put(self.tools.timings, self._on_timings)

    def add_measurement(self, options: RunOptions, measurement: Measurement) -> None:
        self._measured[_key(options)] = PastMeasurement(measurement, time.time(), self.known_length)
        self._follow()
        self.changed.emit()

    def close(self) -> None:
        """End everything and wait for the threads."""
        self._kill_dry_run()
        for work in (self.measuring, self.refined, self.lookup):
            work.close()
        self._files.end_work()

    def _kill_dry_run(self) -> None:
        if self._dry_run is not None and self.measuring.is_running:
            self.measuring.cancel()
            self._dry_run.kill()
            self._on_measuring_over()

    def _on_measuring_over(self) -> None:
        self._clock.stop()
        self._follow()
        self.changed.emit()

    def _follow(self) -> None:
        """Update the formula's forecast, and ask the engine unless there is a measurement."""
        case = self.case
        if case is None:
            self._formula, self._pair = None, ()
            self.refined.set_request(None)
            return
        what, length = (case.shape, case.device), self.known_length
        forecast = partial(self.tools.forecast, room=self.room, correction=self.correction)
        self._formula, self._pair = forecast(case.options, *what, length=length), ()
        self._blocks = 0
        if case.options.pretrains:  # in blocks of the full length, of which there may be fewer than examples
            options, longest, lengths = case.options, case.options.data.max_length, self.lengths
            if length is not None and lengths is not None and case.trained is not None:
                mean = sum(map(mul, lengths.counts, lengths.edges[1:])) / sum(lengths.counts)
                self._blocks = math.ceil(mean * case.trained / longest)
                options = with_batch_within(options, self._blocks)
            self._pair = forecast(options, *what, length=longest), self._formula
            self._formula = max(self._pair, key=lambda each: each.parts.total)
        is_wanted = case.is_ready and not case.is_listed and self.measured is None and not self._pair
        request = options_request(that_matter(case.options), case.labels) if is_wanted else None
        is_busy = self._is_checking or self._is_paused or self.measuring.is_running
        self.refined.set_request(request, is_deferred=is_busy)

    def _on_refined(self) -> None:
        report = self.refined.report
        if self.case is not None and report is not None and report.longest_text is not None:
            self._longest = self.case.options, report.longest_text
        self.changed.emit()

    def _on_timings(self, found: Timings) -> None:
        self._timings = found
        self.changed.emit()

    def _on_measurement(self, measurement: Measurement) -> None:
        if self.case is not None:
            self.add_measurement(self.case.options, measurement)


def _key(options: RunOptions) -> bytes:
    """A key of measurements, whatever the number of examples."""
    return key_of(with_changes(options, {path: options_by_path()[path].default for path in SAMPLE_PATHS}))


def _run(dry_run: DryRun) -> Measurement:
    try:
        return dry_run.run()
    except OSError as error:
        raise UserError(_("Hone's engine can't be started"), str(error)) from error
