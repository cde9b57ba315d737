"""What is known of the memory a run takes: forecast at once, traced meanwhile, measured on request. No widgets."""

import time

import msgspec
from PySide6.QtCore import QObject, Signal

from core.errors import UserError
from core.memory.changes import with_changes
from core.memory.fitting import verdict_of
from core.memory.forecast import (
    Basis,
    Forecast,
    ForecastRequest,
    Measurement,
    Room,
    Verdict,
    forecast_request,
    verdict,
)
from core.memory.ladder import Remedy
from core.memory.matters import key_of, that_matter
from core.memory.record import corrected
from core.options import RunOptions
from core.reports import MachineReport
from gui.engine_question import Ask
from gui.memory_tools import MemoryTools
from gui.pages.new_run_checking import Checked
from gui.pages.new_run_fit_length import KnownLength, known_length
from gui.pages.new_run_fit_lookup import HubLookup
from gui.pages.new_run_fit_measured import Gain, Measured, gain
from gui.pages.new_run_fit_measuring import Measuring
from gui.pages.new_run_fit_situation import Situation, situation_of, source_to_look_up, what_is_missing
from gui.pages.new_run_fit_trace import TracedForecast
from gui.pages.new_run_questions import FormQuestions

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
        parent: Qt's parent.
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
        """Whether it fits, as far as that is known."""
        if self.ran_out:
            return Verdict.TOO_LARGE
        return self.forecast.verdict if self.forecast else Verdict.UNKNOWN

    @property
    def note(self) -> str:
        """What is to be known of the figure: what a dry run ran out of, or why there is no trace; empty: nothing."""
        measured, failure = self.measured, self.failure or self.trace.failure
        if measured is not None:
            return measured.measurement.out_of_memory
        if failure is not None:
            return ". ".join(part.rstrip(".") for part in (failure.title, failure.detail) if part) + "."
        report = self.trace.report
        return " ".join(report.notes) if report is not None and report.basis is Basis.FORMULA else ""

    @property
    def known_length(self) -> int | None:
        """Tokens of the longest row before padding, where a trace of the same data has told it."""
        return self._longest.of(self.case.options) if self.case and self._longest else None

    @property
    def can_measure(self) -> bool:
        """Whether a dry run could start now."""
        case = self.case
        return case is not None and case.is_ready and case.is_complete and not self.measuring.is_running

    def remedies(self) -> tuple[Remedy, ...]:
        """What would need less memory, the least loss first."""
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
        """Start a dry run, if one can start."""
        if self.case is not None and self.can_measure:
            self.read_room()
            self.failure = None
            self.trace.hold()
            self.measuring.start(self.case.named_options, self.room)

    def cancel(self) -> None:
        """Give the dry run up."""
        self.measuring.cancel()
        self._follow()
        self.changed.emit()

    def rest(self) -> None:
        """Give up what runs beside the window, since something else is about to need the memory."""
        self._rests = True
        self.measuring.cancel()
        self.trace.hold()

    def resume(self) -> None:
        """Go on after a rest."""
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
        """Count nothing as measured any more."""
        self._measured.clear()

    def close(self) -> None:
        """Give up everything and wait for the threads."""
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
