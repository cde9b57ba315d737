"""What is known of the memory that the run in the form takes: forecast at once, refined by the engine, or measured."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from core.base.errors import UserError
from core.base.language import _
from core.memory import estimate, history
from core.memory.model import (
    Forecast,
    Measurement,
    ModelReport,
    ModelShape,
    OptionsRequest,
    Room,
    Verdict,
    key_of,
    matters,
    options_request,
    that_matter,
    verdict,
)
from core.memory.remedies import Remedy, ladder
from core.monitor.nvidia import NvidiaGpu, gpu_of
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, find_device
from core.options.method_rules import STEP_PATHS, extent, with_batch_within
from core.services import hub
from core.services.autofit import MakeDryRun, MakesMeasurement, verdict_of
from core.services.hub import ConfigFetched, ConfigRequest, is_at_hand, is_complete
from core.services.memory import DryRun, room_of
from gui.base.background import Ask, DebouncedTask, JobTask, Task
from gui.new_run.state import Checked, FormQuestions


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
    """What the window asks about memory without an engine of its own; tests answer instead."""

    forecast: Callable[..., Forecast] = estimate.forecast
    room: Callable[[DeviceReport, RunOptions], Room | None] = field(default_factory=Rooms)
    correction: Callable[[str], float] = history.correction
    dry_run: MakeDryRun = DryRun


@dataclass(frozen=True)
class KnownLength:
    """The longest text of the data of `options` has `tokens`, cut off as these options cut."""

    options: RunOptions
    tokens: int

    def of(self, options: RunOptions) -> int | None:
        """Tokens of the longest text under other options; None: it would have to be looked for again."""
        most, before = options.data.max_length, self.options.data.max_length
        was_cut = self.tokens >= before
        if _texts(options) != _texts(self.options) or (was_cut and most > before):
            return None
        return min(self.tokens, most)


def _texts(options: RunOptions) -> object:
    """What decides how long texts are before they are cut off or padded."""
    defaults = DataOptions()
    data = msgspec.structs.replace(options.data, max_length=defaults.max_length, padding=defaults.padding)
    return options.task, data, options.model.source


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
        """What a run of so many steps takes, compiling included; None: not known.

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
    None where memory ran out without it. `ran_out` tells that it ran out with it, too.
    """

    takes: int
    saves: int | None
    slower: float | None
    ran_out: bool


def gain(without: Measured | None, after: Measured) -> Gain:
    """What a remedy brings, by what was measured without it (None: nothing was) and after it."""
    found = after.measurement
    known = without.measurement if without is not None and not without.ran_out else None
    is_timed = known is not None and known.step_seconds and found.step_seconds
    return Gain(
        takes=found.peak,
        saves=known.peak - found.peak if known else None,
        slower=found.step_seconds / known.step_seconds if is_timed else None,  # type: ignore[operator, union-attr]
        ran_out=after.ran_out,
    )


@dataclass(frozen=True)
class Case:
    """What a forecast is about: options that can be read, a device that is there, a model whose shape is known.

    `steps` are those of the whole run, None where they can't be known; `is_ready` tells that the run could start,
    `is_complete` that all of the model is on this computer, and not only its config.
    """

    options: RunOptions
    device: DeviceReport
    model: ModelReport
    shape: ModelShape
    labels: int
    steps: int | None
    is_ready: bool
    is_complete: bool


def find_case(
    checked: Checked, machine: MachineReport | None, questions: FormQuestions, *, is_ready: bool
) -> Case | str:
    """What the form is about, or why nothing can be forecast yet.

    Args:
        checked: What the form says.
        machine: What this machine has; None: not known yet.
        questions: What is known of data and model.
        is_ready: Whether the run could be started.
    """
    options, model = checked.readable, questions.model
    if machine is None:
        return _("Looking at this computer…")
    if options is None or any(matters(path) for path in checked.unreadable):
        return _("Hone tells as soon as every value in the form can be read.")
    if not options.model.source:
        return _("Choose a model, and Hone tells how much memory it takes to train.")
    device = find_device(machine, options.device.name)
    if device is None or not device.available:
        return _("Choose a device that this computer has.")
    if is_elsewhere(options, questions):
        if not hub.may_be_there(options):
            return _("Hone can tell once the model is on this computer.")
        if hub.is_forbidden():
            words = _("The model isn't on this computer, and {what} forbids to fetch it.")
            return words.format(what=hub.forbidden_by())
        return _("The model isn't on this computer yet: the first run fetches it.")
    if model.shaped is None or model.shaped.shape is None:
        return (
            _("Looking at the model…")
            if model.is_waiting
            else _("What this model takes can't be told before it runs.")
        )
    data, steps = questions.data.report, None
    if data is not None and data.rows and not checked.unreadable & STEP_PATHS:
        found = extent(options, data.rows)
        steps, options = found.steps, with_batch_within(options, found.trained)
    labels = max(2, len(data.labels)) if data is not None else 2
    return Case(
        options, device, model.shaped, model.shaped.shape, labels, steps, is_ready, is_complete(options)
    )


def is_elsewhere(options: RunOptions, questions: FormQuestions) -> bool:
    """Whether nothing is known of the model because it isn't on this computer."""
    model = questions.model
    if model.shaped is not None or model.is_waiting:
        return False
    return not is_at_hand(options) or model.report == ModelReport()


class RefinedForecast(DebouncedTask[OptionsRequest, Forecast]):
    """The engine's forecast, which knows the data's longest row. It takes a process, so that it waits longer."""

    patience_ms = 600


UNMOVED = 0.01
"""Free memory that moved by less than this share of the ceiling is taken for the same: figures should not flicker."""

TICK_MS = 1000


class MemoryState(QObject):
    """Follows the form, and has the best figure there is.

    `case` is what it is about; where that is None, `missing` says what it waits for. `room` is the memory there is now,
    `correction` what past runs on the device have taught, `failure` what stopped the last dry run. `lookup_source` is
    a model on the Hub whose size isn't known until its config is fetched, empty: there is none; `lookup_failure` says
    why that didn't work.

    Signals:
        changed: There is news that no change of the form brought.
        fetched: The model's config is on this computer now.
    """

    changed = Signal()
    fetched = Signal()

    def __init__(self, ask: Ask, tools: MemoryTools, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tools = tools
        self.case: Case | None = None
        self.missing = ""
        self.room: Room | None = None
        self.correction = 1.0
        self.failure: UserError | None = None
        self.lookup_source = ""
        self.lookup_failure: UserError | None = None
        self._formula: Forecast | None = None
        self._longest: KnownLength | None = None
        self._measured: dict[bytes, Measured] = {}
        self._is_busy = False
        self._rests = False
        self.refined = RefinedForecast(ask, "forecast", Forecast, self)
        self.refined.changed.connect(self._on_refined)
        self.lookup: JobTask[ConfigFetched] = JobTask(ask, "fetch-config", ConfigFetched, self)
        self.lookup.done.connect(self.fetched)
        self.lookup.failed.connect(self._on_lookup_failure)
        self.measuring: Task[Measurement] = Task(self)
        self.measuring.done.connect(self.take_measurement)
        self.measuring.failed.connect(self._on_failure)
        self.measuring.settled.connect(self._settle)
        self._dry_run: MakesMeasurement | None = None
        self._began = 0.0
        self._clock = QTimer(self)
        self._clock.setInterval(TICK_MS)
        self._clock.timeout.connect(self.changed)

    @property
    def forecast(self) -> Forecast | None:
        """The best figure there is, beside the room there is now; None: `missing` says why."""
        if self.case is None:
            return None
        if self.measured is not None:
            best: Forecast | None = self.measured.measurement.forecast
        elif self.refined.report is not None:
            best = history.corrected(self.refined.report, self.correction)
        else:
            best = self._formula
        return best and msgspec.structs.replace(best, room=self.room)

    @property
    def measured(self) -> Measured | None:
        """What was measured of these options; None: nothing yet."""
        return self._measured.get(key_of(self.case.options)) if self.case else None

    @property
    def ran_out(self) -> bool:
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
        if self.measured is not None:
            return self.measured.measurement.out_of_memory
        failure = self.failure or self.refined.failure
        if failure is None:
            return ""
        return ". ".join(part.rstrip(".") for part in (failure.title, failure.detail) if part) + "."

    @property
    def known_length(self) -> int | None:
        """Tokens of the longest row before padding, where the engine has told it of the same data."""
        return self._longest.of(self.case.options) if self.case and self._longest else None

    @property
    def can_measure(self) -> bool:
        case = self.case
        return case is not None and case.is_ready and case.is_complete and not self.measuring.is_running

    @property
    def measuring_seconds(self) -> float:
        return time.monotonic() - self._began

    def remedies(self) -> tuple[Remedy, ...]:
        """What would need less memory, the least loss first."""
        case = self.case
        if case is None:
            return ()
        return ladder(
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
        if forecast is None or self.ran_out:  # what it would have taken is not known
            return remedy.forecast.verdict
        return verdict(forecast.parts.total - remedy.saves, self.room)

    def _measured_after(self, remedy: Remedy) -> Measured | None:
        if self.case is None or not remedy.changes:
            return None
        return self._measured.get(key_of(with_changes(self.case.options, remedy.changes)))

    def look_at(
        self, checked: Checked, machine: MachineReport | None, questions: FormQuestions, *, is_ready: bool
    ) -> None:
        """Follow the form; what takes time is asked in the background. The arguments are those of `find_case`."""
        before, found = self.case, find_case(checked, machine, questions, is_ready=is_ready)
        self._look_up(checked.readable, questions)
        self.case = None if isinstance(found, str) else found
        self.missing = found if isinstance(found, str) else ""
        if self.case is None or before is None or before.options != self.case.options:
            self.failure = None
        if self.case is not None and (before is None or before.device != self.case.device):
            self.correction = self.tools.correction(self.case.device.title)
            self.room = self.tools.room(self.case.device, self.case.options)
        is_same = self.case and before and that_matter(before.options) == that_matter(self.case.options)
        if self.measuring.is_running and not is_same:
            self._stop_measuring()
        self._is_busy = questions.data.is_waiting or questions.model.is_waiting
        self._follow()

    def _look_up(self, options: RunOptions | None, questions: FormQuestions) -> None:
        """Offer to look up the model, where its config is on the Hub only; one before it is given up."""
        may = options is not None and hub.may_be_there(options) and not hub.is_forbidden()
        source = options.model.source if may and options and is_elsewhere(options, questions) else ""
        if source != self.lookup_source:
            self.lookup.cancel()
            self.lookup_source, self.lookup_failure = source, None

    def fetch(self) -> None:
        """Fetch the config of the model that can be looked up."""
        if self.lookup_source:
            self.lookup_failure = None
            self.lookup.put(ConfigRequest(source=self.lookup_source))
            self.changed.emit()

    def cancel_fetch(self) -> None:
        self.lookup.cancel()
        self.changed.emit()

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
        """Start a dry run, if one can start; it runs on the device that "automatic" comes to."""
        case = self.case
        if case is None or not self.can_measure:
            return
        self.read_room()
        self.failure = None
        self.refined.hold()
        options = with_changes(case.options, {"device.name": case.device.name})
        dry_run = self._dry_run = self.tools.dry_run(options, self.room)
        self._began = time.monotonic()
        self._clock.start()
        self.measuring.start(lambda _call: _run(dry_run))
        self.changed.emit()

    def cancel(self) -> None:
        """Give the dry run up."""
        self._stop_measuring()
        self._follow()
        self.changed.emit()

    def _stop_measuring(self) -> None:
        if self._dry_run is not None and self.measuring.is_running:
            self.measuring.cancel()
            self._dry_run.kill()
            self._settle()

    def _settle(self) -> None:
        self._clock.stop()
        self._follow()
        self.changed.emit()

    def rest(self) -> None:
        """Give up what runs beside the window, since something else is about to need the memory."""
        self._rests = True
        self._stop_measuring()
        self.refined.hold()

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

    def close(self) -> None:
        """Give up everything and wait for the threads."""
        self._stop_measuring()
        self.measuring.close()
        self.refined.close()
        self.lookup.close()

    def _follow(self) -> None:
        """Forecast by the formula, and ask the engine where nothing better is known."""
        case = self.case
        if case is None:
            self._formula = None
            self.refined.look_at(None)
            return
        self._formula = self.tools.forecast(
            case.options,
            case.shape,
            case.device,
            length=self.known_length,
            room=self.room,
            correction=self.correction,
        )
        is_wanted = case.is_ready and self.measured is None
        request = options_request(that_matter(case.options), case.labels) if is_wanted else None
        self.refined.look_at(request, is_early=self._is_busy or self._rests or self.measuring.is_running)

    def _on_refined(self) -> None:
        report = self.refined.report
        if self.case is not None and report is not None:
            tokens = report.longest_text
            self._longest = None if tokens is None else KnownLength(self.case.options, tokens)
        self.changed.emit()

    def _on_failure(self, error: UserError) -> None:
        self.failure = error

    def _on_lookup_failure(self, error: UserError) -> None:
        self.lookup_failure = error
        self.changed.emit()


def _run(dry_run: MakesMeasurement) -> Measurement:
    try:
        return dry_run.run()
    except OSError as error:
        raise UserError(_("Hone's engine can't be started"), str(error)) from error


def _has_moved(before: Room | None, now: Room | None) -> bool:
    if before is None or now is None:
        return before is not now
    return before.ceiling != now.ceiling or abs(before.free - now.free) > UNMOVED * now.ceiling
