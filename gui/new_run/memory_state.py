"""What the window may ask about memory without an engine of its own, in one place, so that tests can answer instead."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from gettext import gettext as _
from typing import Protocol

import msgspec
from PySide6.QtCore import QObject, QThread, QTimer, Signal

from core.base.errors import UserError
from core.memory import estimate as anatomy
from core.memory import history as record
from core.memory.explain import PartExplained, explain_parts
from core.memory.history import corrected
from core.memory.model import (
    Forecast,
    ForecastRequest,
    Measurement,
    ModelReport,
    ModelShape,
    Room,
    Verdict,
    forecast_request,
    key_of,
    matters,
    that_matter,
    verdict,
    with_changes,
)
from core.memory.remedies import Remedy, ladder
from core.monitor.nvidia import NvidiaGpu
from core.monitor.sampler import gpu_of
from core.options import RunOptions
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, find_device
from core.options.method_rules import STEP_PATHS, extent, with_batch_within
from core.services import hub
from core.services.autofit import MakeDryRun, MakesMeasurement, verdict_of
from core.services.hub import ConfigFetched, ConfigRequest, is_at_hand, is_complete
from core.services.memory import DryRun, room_of
from gui.base.background import Ask, DebouncedTask, EngineWork, JobTask
from gui.new_run.state import Checked, FormQuestions, ModelCheck


class Forecasting(Protocol):
    """The formula; `core.memory.estimate.forecast` is the real one."""

    def __call__(
        self,
        options: RunOptions,
        shape: ModelShape,
        device: DeviceReport,
        *,
        length: int | None = None,
        room: Room | None = None,
        correction: float = 1.0,
    ) -> Forecast:
        """How much memory the options take."""


class Climbing(Protocol):
    """The ladder of remedies; `core.memory.remedies.ladder` is the real one."""

    def __call__(
        self,
        options: RunOptions,
        report: ModelReport,
        device: DeviceReport,
        room: Room | None,
        *,
        length: int | None = None,
        correction: float = 1.0,
    ) -> tuple[Remedy, ...]:
        """What would need less memory, the least loss first."""


class Rooms:
    """Reads the memory of a device now; the GPU is looked for once, which takes longer than reading it."""

    def __init__(self) -> None:
        self._gpus: dict[str, NvidiaGpu | None] = {}

    def __call__(self, device: DeviceReport, options: RunOptions) -> Room | None:
        """What is free, and the ceiling; None: not known."""
        if device.name.startswith("cuda") and device.name not in self._gpus:
            self._gpus[device.name] = gpu_of(device.name)
        gpu = self._gpus.get(device.name)
        return room_of(device, gpu=gpu, mps_limit=options.device.mps_memory_limit)


@dataclass(frozen=True)
class MemoryTools:
    """All of them; none but a dry run and a fitting take longer than a moment."""

    forecast: Forecasting = anatomy.forecast
    room: Callable[[DeviceReport, RunOptions], Room | None] = field(default_factory=Rooms)
    correction: Callable[[str], float] = record.correction
    explain: Callable[[RunOptions, ModelShape, DeviceReport, Forecast], tuple[PartExplained, ...]] = (
        explain_parts
    )
    ladder: Climbing = ladder
    dry_run: MakeDryRun = DryRun


_DEFAULTS = DataOptions()


@dataclass(frozen=True)
class KnownLength:
    """What a trace has found of the data of `options`: its longest text has `tokens`, cut off as these options cut."""

    options: RunOptions
    tokens: int

    def of(self, options: RunOptions) -> int | None:
        """Tokens of the longest text under other options; None: it would have to be looked for again."""
        most, before = options.data.max_length, self.options.data.max_length
        was_cut = self.tokens >= before
        if _texts(options) != _texts(self.options) or (was_cut and most > before):
            return None
        return min(self.tokens, most)


def known_length(options: RunOptions, traced: Forecast) -> KnownLength | None:
    """What a trace of `options` tells of the longest text; None: nothing."""
    return None if traced.longest_text is None else KnownLength(options, traced.longest_text)


def _texts(options: RunOptions) -> object:
    """What decides how long texts are before they are cut off or filled up."""
    data = msgspec.structs.replace(options.data, max_length=_DEFAULTS.max_length, padding=_DEFAULTS.padding)
    return options.task, data, options.model.source


class HubLookup(QObject):
    """Fetches what describes the chosen model.

    `source` is the model that can be looked up; empty: there is none. `failure` says why that didn't work.

    Signals:
        changed: Fetching began, was given up, or failed.
        fetched: The description is on this computer now.

    Args:
        ask: Starts an engine job.
    """

    changed = Signal()
    fetched = Signal()

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._question = JobTask(ask, "fetch-config", ConfigFetched, self)
        self._question.done.connect(self.fetched)
        self._question.failed.connect(self._fail)
        self.source = ""
        self.failure: UserError | None = None

    @property
    def is_fetching(self) -> bool:
        return self._question.is_running

    def look_at(self, source: str) -> None:
        """Offer another model; what is under way for the one before is given up."""
        if source != self.source:
            self._question.cancel()
            self.source, self.failure = source, None

    def fetch(self) -> None:
        if self.source:
            self.failure = None
            self._question.put(ConfigRequest(source=self.source))
            self.changed.emit()

    def cancel(self) -> None:
        self._question.cancel()
        self.changed.emit()

    def close(self) -> None:
        self._question.close()

    def _fail(self, error: UserError) -> None:
        self.failure = error
        self.changed.emit()


@dataclass(frozen=True)
class Measured:
    """A measurement, and when it was made, in unix seconds."""

    measurement: Measurement
    at: float

    @property
    def ran_out(self) -> bool:
        """Whether memory ran out, so that the figures are those of that moment."""
        return bool(self.measurement.out_of_memory)

    @property
    def pace(self) -> float | None:
        """Seconds a step takes on the average over the whole run; None: not measured."""
        found = self.measurement
        if found.total_steps and found.run_seconds is not None:
            return (found.run_seconds - found.compile_seconds) / found.total_steps
        return found.step_seconds

    def run_seconds(self, steps: int | None) -> float | None:
        """What a run of so many steps takes, in seconds, compiling included; None: not known.

        Args:
            steps: The steps; None: as many as the dry run counted.
        """
        if steps is None or self.pace is None:
            return self.measurement.run_seconds
        return self.measurement.compile_seconds + steps * self.pace

    def steps_within(self, hours: float) -> int | None:
        """How many steps can be made in so many hours, at least one; None: no step was measured."""
        if not self.pace:
            return None
        return max(1, int((3600 * hours - self.measurement.compile_seconds) / self.pace))


@dataclass(frozen=True)
class Gain:
    """What a remedy was measured to bring.

    `takes` is bytes with it, `saves` how many fewer than without it, `slower` the factor by which a step takes longer;
    None where memory ran out without it, so that nobody knows. `ran_out` tells that it ran out with it, too.
    """

    takes: int
    saves: int | None
    slower: float | None
    ran_out: bool


def gain(without: Measured | None, after: Measured) -> Gain:
    """What a remedy brings.

    Args:
        without: What was measured without it; None: nothing.
        after: What was measured with it.
    """
    found = after.measurement
    known = without.measurement if without is not None and not without.ran_out else None
    paces = (found.step_seconds, known.step_seconds if known else None)
    return Gain(
        takes=found.peak,
        saves=known.peak - found.peak if known else None,
        slower=paces[0] / paces[1] if paces[0] and paces[1] else None,
        ran_out=after.ran_out,
    )


TICK_MS = 1000


class _Running(EngineWork):
    """One dry run; holds what it measured when it has finished."""

    def __init__(self, make: Callable[[], MakesMeasurement], parent: QObject) -> None:
        super().__init__(parent)
        self._make = make
        self._dry_run: MakesMeasurement | None = None
        self.measurement: Measurement | None = None

    def begin(self) -> None:
        self._dry_run = self._make()

    def work(self) -> None:
        assert self._dry_run is not None
        self.measurement = self._dry_run.run()

    def kill(self) -> None:
        if self._dry_run is not None:
            self._dry_run.kill()


class Measuring(QObject):
    """Measures one set of options at a time.

    Signals:
        changed: It began, was given up, or another second has passed.
        measured: The `core.memory.model.Measurement`.
        failed: A `core.base.errors.UserError`; running out of memory is none, that is measured.

    Args:
        dry_run: Makes a dry run of some options, in some room.
    """

    changed = Signal()
    measured = Signal(object)
    failed = Signal(object)

    def __init__(self, dry_run: MakeDryRun, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._dry_run = dry_run
        self._current: _Running | None = None
        self._threads: list[_Running] = []
        self._began = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self.changed)

    @property
    def is_running(self) -> bool:
        return self._current is not None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def start(self, options: RunOptions, room: Room | None) -> None:
        self.cancel()
        running = _Running(lambda: self._dry_run(options, room), self)
        running.finished.connect(self._settle)
        self._threads.append(running)
        self._current = running
        self._began = time.monotonic()
        self._timer.start()
        running.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def cancel(self) -> None:
        if self._current is not None:
            self._current.cancel()
            self._current = None
            self._timer.stop()
            self.changed.emit()

    def close(self) -> None:
        """Give up and wait until no thread is left; call before the application ends."""
        self.cancel()
        for running in self._threads:
            running.wait()

    def _settle(self) -> None:
        running = self.sender()
        if not isinstance(running, _Running):
            return
        self._threads.remove(running)
        running.deleteLater()
        if running is not self._current:
            return
        self._current = None
        self._timer.stop()
        if running.failure is not None:
            self.failed.emit(running.failure)
        elif running.measurement is not None:
            self.measured.emit(running.measurement)


@dataclass(frozen=True)
class Situation:
    """What a forecast is about: options that can be read, a device that is there, a model whose shape is known.

    `steps` are those of the whole run, None where they can't be known; `is_ready` tells that the run could start,
    `is_complete` that all of the model is on this computer, and not only what describes it.
    """

    options: RunOptions
    device: DeviceReport
    model: ModelReport
    labels: int
    steps: int | None
    is_ready: bool
    is_complete: bool

    @property
    def named_options(self) -> RunOptions:
        """The options with the device that "automatic" comes to, so that everybody measures the same."""
        named = msgspec.structs.replace(self.options.device, name=self.device.name)
        return msgspec.structs.replace(self.options, device=named)


def situation_of(
    checked: Checked, machine: MachineReport | None, questions: FormQuestions, *, is_ready: bool
) -> Situation | None:
    """What the form is about; None where anything of it isn't known.

    Args:
        checked: What the form says.
        machine: What this machine has.
        questions: What is known of data and model.
        is_ready: Whether the run could be started.
    """
    options, model = checked.readable, questions.model.shaped
    if options is None or machine is None or model is None:
        return None
    device = find_device(machine, options.device.name)
    if device is None:
        return None
    data = questions.data.report
    is_known = data is not None and data.rows and not checked.unreadable & STEP_PATHS
    steps = None
    if data is not None and is_known:
        found = extent(options, data.rows)
        steps, options = found.steps, with_batch_within(options, found.trained)
    labels = max(2, len(data.labels)) if data is not None else 2
    return Situation(options, device, model, labels, steps, is_ready, is_complete(options))


def what_is_missing(checked: Checked, machine: MachineReport | None, questions: FormQuestions) -> str:
    options, model, words = checked.readable, questions.model, ""
    if machine is None:
        words = _("Looking at this computer…")
    elif options is None or any(matters(path) for path in checked.unreadable):
        words = _("Hone tells as soon as every value in the form can be read.")
    elif not options.model.source:
        words = _("Choose a model, and Hone tells how much memory it takes to train.")
    elif not _has_device(machine, options):
        words = _("Choose a device that this computer has.")
    elif _is_elsewhere(options, model):
        words = _elsewhere_words(options)
    elif model.shaped is None and model.is_checking:
        words = _("Looking at the model…")
    elif model.shaped is None:
        words = _("What this model takes can't be told before it runs.")
    return words


def source_to_look_up(checked: Checked, questions: FormQuestions) -> str:
    """The model on the Hub whose size nobody knows until its description is fetched; empty: there is none."""
    options = checked.readable
    if options is None or not hub.may_be_there(options) or hub.is_forbidden():
        return ""
    return options.model.source if _is_elsewhere(options, questions.model) else ""


def _is_elsewhere(options: RunOptions, model: ModelCheck) -> bool:
    """Whether nothing is known of the model because it isn't on this computer."""
    if model.shaped is not None or model.is_checking:
        return False
    return not is_at_hand(options) or model.report == ModelReport()


def _elsewhere_words(options: RunOptions) -> str:
    if not hub.may_be_there(options):
        return _("Hone can tell once the model is on this computer.")
    if hub.is_forbidden():
        words = _("The model isn't on this computer, and {what} forbids to fetch it.")
        return words.format(what=hub.forbidden_by())
    return _("The model isn't on this computer yet: the first run fetches it.")


def _has_device(machine: MachineReport, options: RunOptions) -> bool:
    device = find_device(machine, options.device.name)
    return device is not None and device.available


class TracedForecast(DebouncedTask[ForecastRequest, Forecast]):
    """The newest trace; it takes a process of its own, so that it waits longer than the other questions."""

    patience_ms = 600

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "forecast", Forecast, parent)


UNMOVED = 0.01
"""Free memory that moved by less than this share of the ceiling is taken for the same: figures should not flicker."""


class FitOutlook(QObject):
    """Follows the form, and has the best figure there is.

    `case` is what it is about; where that is None, `missing` says what it waits for. `room` is the memory there is now,
    `correction` what past runs on the device have taught, `failure` what stopped the last dry run.

    Signals:
        changed: There is news that no change of the form brought: a trace, a dry run's end, other free memory.

    Args:
        ask: Starts an engine job.
        tools: The formula, the room, the ladder, the dry run.
    """

    changed = Signal()

    def __init__(self, ask: Ask, tools: MemoryTools, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tools = tools
        self.trace = TracedForecast(ask, self)
        self.lookup = HubLookup(ask, self)
        self.measuring = Measuring(tools.dry_run, self)
        self.case: Situation | None = None
        self.missing = ""
        self.room: Room | None = None
        self.correction = 1.0
        self.failure: UserError | None = None
        self._formula: Forecast | None = None
        self._longest: KnownLength | None = None
        self._measured: dict[bytes, Measured] = {}
        self._is_busy = False
        self._rests = False
        self.trace.changed.connect(self._take_trace)
        self.lookup.changed.connect(self.changed)
        self.measuring.changed.connect(self.changed)
        self.measuring.measured.connect(self.take_measurement)
        self.measuring.failed.connect(self._fail)

    @property
    def forecast(self) -> Forecast | None:
        """The best figure there is, beside the room there is now; None: `missing` says why."""
        if self.case is None:
            return None
        measured = self.measured
        if measured is not None:
            best: Forecast | None = measured.measurement.forecast
        else:
            best = self._traced() or self._formula
        return best and msgspec.structs.replace(best, room=self.room)

    @property
    def measured(self) -> Measured | None:
        """What was measured of these options; None: nothing yet."""
        return self._measured.get(key_of(self.case.options)) if self.case else None

    @property
    def ran_out(self) -> bool:
        """Whether a dry run of these options ran out of memory."""
        return self.measured is not None and self.measured.ran_out

    @property
    def is_undivided(self) -> bool:
        """Whether only the whole is known of the memory, and not its parts."""
        return self.measured is not None and self.measured.measurement.is_undivided

    @property
    def verdict(self) -> Verdict:
        if self.ran_out:
            return Verdict.TOO_LARGE
        return self.forecast.verdict if self.forecast else Verdict.UNKNOWN

    @property
    def note(self) -> str:
        """What is to be known of the figure: what a dry run ran out of, or what failed; empty: nothing."""
        measured, failure = self.measured, self.failure or self.trace.failure
        if measured is not None:
            return measured.measurement.out_of_memory
        if failure is not None:
            return ". ".join(part.rstrip(".") for part in (failure.title, failure.detail) if part) + "."
        return ""

    @property
    def known_length(self) -> int | None:
        """Tokens of the longest row before padding, where a trace of the same data has told it."""
        return self._longest.of(self.case.options) if self.case and self._longest else None

    @property
    def can_measure(self) -> bool:
        case = self.case
        return case is not None and case.is_ready and case.is_complete and not self.measuring.is_running

    def remedies(self) -> tuple[Remedy, ...]:
        case = self.case
        if case is None:
            return ()
        return self.tools.ladder(
            case.options,
            case.model,
            case.device,
            self.room,
            length=self.known_length,
            correction=self.correction,
        )

    def gain(self, remedy: Remedy) -> Gain | None:
        """What a remedy was measured to bring; None: it wasn't measured."""
        after = self._measured_after(remedy)
        return gain(self.measured, after) if after is not None else None

    def verdict_after(self, remedy: Remedy) -> Verdict:
        """Whether it fits with a remedy: by what was measured, or what is known less what it saves by forecast."""
        forecast, after = self.forecast, self._measured_after(remedy)
        if after is not None:
            return verdict_of(after.measurement, self.room)
        if forecast is None or self.ran_out:  # nobody knows what it would have taken
            return remedy.forecast.verdict
        return verdict(forecast.parts.total - remedy.saves, self.room)

    def _measured_after(self, remedy: Remedy) -> Measured | None:
        if self.case is None or not remedy.changes:
            return None
        return self._measured.get(key_of(with_changes(self.case.options, remedy.changes)))

    def look_at(
        self,
        checked: Checked,
        machine: MachineReport | None,
        questions: FormQuestions,
        *,
        is_ready: bool,
    ) -> None:
        """Follow the form; only pure functions are called here, what takes time is asked in the background.

        Args:
            checked: What the form says.
            machine: What this machine has; None: not known yet.
            questions: What is known of data and model.
            is_ready: Whether the run could be started.
        """
        before = self.case
        self.lookup.look_at(source_to_look_up(checked, questions))
        self.missing = what_is_missing(checked, machine, questions)
        self.case = None if self.missing else situation_of(checked, machine, questions, is_ready=is_ready)
        if self.case is None or before is None or before.options != self.case.options:
            self.failure = None
        if self.case is not None and (before is None or before.device != self.case.device):
            self.correction = self.tools.correction(self.case.device.title)
            self.room = self.tools.room(self.case.device, self.case.options)
        if self.measuring.is_running and (
            self.case is None
            or before is None
            or that_matter(before.options) != that_matter(self.case.options)
        ):
            self.measuring.cancel()
        self._is_busy = questions.data.is_reading or questions.model.is_checking
        self._follow()

    def read_room(self) -> None:
        """See how much memory is free now; not while a dry run takes its part."""
        if self.case is None or self.measuring.is_running or self._rests:
            return
        room = self.tools.room(self.case.device, self.case.options)
        if _has_moved(self.room, room):
            self.room = room
            self._follow()
            self.changed.emit()

    def measure(self) -> None:
        if self.case is not None and self.can_measure:
            self.read_room()
            self.failure = None
            self.trace.hold()
            self.measuring.start(self.case.named_options, self.room)

    def cancel(self) -> None:
        self.measuring.cancel()
        self._follow()
        self.changed.emit()

    def rest(self) -> None:
        """Give up what runs beside the window, since something else is about to need the memory."""
        self._rests = True
        self.measuring.cancel()
        self.trace.hold()

    def resume(self) -> None:
        self._rests = False
        self._follow()
        self.read_room()

    def take_measurement(self, measurement: Measurement) -> None:
        """Count this as measured for the options that the form holds."""
        if self.case is not None:
            self.keep(self.case.options, measurement)

    def keep(self, options: RunOptions, measurement: Measurement) -> None:
        """Count this as measured for some options, those of the form or others."""
        self._measured[key_of(options)] = Measured(measurement, time.time())
        self._follow()
        self.changed.emit()

    def forget_measurements(self) -> None:
        self._measured.clear()

    def close(self) -> None:
        self.measuring.close()
        self.trace.close()
        self.lookup.close()

    def _follow(self) -> None:
        """Forecast by the formula, and ask for a trace where nothing better is known."""
        case = self.case
        if case is None or case.model.shape is None:
            self._formula = None
            self.trace.look_at(None)
            return
        self._formula = self.tools.forecast(
            case.options,
            case.model.shape,
            case.device,
            length=self.known_length,
            room=self.room,
            correction=self.correction,
        )
        request = _trace_request(case) if case.is_ready and self.measured is None else None
        self.trace.look_at(request, is_early=self._is_busy or self._rests or self.measuring.is_running)

    def _traced(self) -> Forecast | None:
        """The trace, with what past runs have taught, where it is one."""
        report = self.trace.report
        if report is None:
            return None
        return corrected(report, self.correction)

    def _take_trace(self) -> None:
        if self.case is not None and self.trace.report is not None:
            self._longest = known_length(self.case.options, self.trace.report)
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.failure = error
        self._follow()
        self.changed.emit()


def _trace_request(case: Situation) -> ForecastRequest:
    return forecast_request(that_matter(case.options), case.labels)


def _has_moved(before: Room | None, now: Room | None) -> bool:
    if before is None or now is None:
        return before is not now
    return before.ceiling != now.ceiling or abs(before.free - now.free) > UNMOVED * now.ceiling
