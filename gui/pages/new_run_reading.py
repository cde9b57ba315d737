"""Looking into the data in the background whenever it, or what is asked of it, changes."""

import msgspec
from PySide6.QtCore import QObject, Signal

from core.choices import Task
from core.data_report import DataReport, InspectRequest
from core.errors import Problem
from core.findings import Finding, FindingLevel
from core.tree import value_at
from gui.engine_question import Ask
from gui.engine_work import EngineBroke
from gui.patient_question import PatientQuestion


class DataReading(PatientQuestion[InspectRequest, DataReport]):
    """What is known about the chosen data; `changed` is sent when reading begins, too.

    `is_cancelled` while the person has given up reading it; `progress` is the share that is done, 0 to 1, where the
    engine tells it.

    Signals:
        progressed: `progress` is another.
    """

    progressed = Signal()

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "inspect", DataReport, parent)
        self.is_cancelled = False
        self.progress: float | None = None

    @property
    def is_reading(self) -> bool:
        """Whether an answer is still to come."""
        return self.is_waiting

    @property
    def has_broken(self) -> bool:
        """Whether nothing is known because of a bug in Hone; that is no reason not to train."""
        return isinstance(self.failure, EngineBroke)

    @property
    def counted(self) -> DataReport | None:
        """The report, for who counts rows and steps.

        While the data is read anew, the rows it told to train on are those of other options: they are left out where
        samples are the rows of the file, and can be counted by the options alone.
        """
        report, request = self.report, self._request
        if report is None or request is None or not self.is_waiting or report.train_rows is None:
            return report
        is_packed = value_at(request.asked, "data.packing", False)
        if is_packed or request.asked["task"] == Task.CAUSAL_LM:
            return report
        return msgspec.structs.replace(report, train_rows=None, eval_rows=None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found in the rows."""
        return self.report.findings if self.report is not None else ()

    @property
    def stops(self) -> bool:
        """Whether something found in the rows would stop a run."""
        return self.problem_count > 0

    @property
    def problem_count(self) -> int:
        """How many kinds of problems were found in the rows."""
        return sum(finding.level is FindingLevel.PROBLEM for finding in self.findings)

    def look_at(self, request: InspectRequest | None, *, is_early: bool = False) -> bool:
        """Find out what is in some data; None: there is none. The same request again changes nothing."""
        is_new = super().look_at(request, is_early=is_early)
        if is_new:
            self.is_cancelled, self.progress = False, None
            self.changed.emit()
        return is_new

    def cancel(self) -> None:
        """Give up reading; the run itself will say what is wrong with the data."""
        if self.is_reading:
            self.hold()
            self._is_held = False
            self.is_cancelled = True
            self.changed.emit()

    def tell_progress(self, share: float) -> None:
        """Say how much of the data has been read, 0 to 1."""
        self.progress = share
        self.progressed.emit()

    def look_again(self) -> None:
        """Take up what was given up."""
        request, self._request = self._request, None
        self.look_at(request)

    def settle_on(self, request: InspectRequest) -> None:
        """Count the report at hand as the answer to `request`: its guesses have been taken over."""
        self._request = request

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the data itself."""
        if self.failure is not None and not self.has_broken:
            message = ". ".join(
                part.rstrip(".") for part in (self.failure.title, self.failure.detail) if part
            )
            return (Problem("data.train", message, self.failure.fixes),)
        return self.report.problems if self.report is not None else ()

    def _stays_known(self, before: InspectRequest | None, request: InspectRequest | None) -> bool:
        return before is not None and request is not None and before.source == request.source
