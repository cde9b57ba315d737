"""Looking into the data in the background whenever it, or what is asked of it, changes."""

from PySide6.QtCore import QObject

from core.errors import Problem
from core.reports import DataReport, InspectRequest
from gui.engine_question import Ask
from gui.engine_work import EngineBroke
from gui.patient_question import PatientQuestion


class DataReading(PatientQuestion[InspectRequest, DataReport]):
    """What is known about the chosen data; `changed` is sent when reading begins, too."""

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "inspect", DataReport, parent)

    @property
    def is_reading(self) -> bool:
        """Whether an answer is still to come."""
        return self.is_waiting

    @property
    def has_broken(self) -> bool:
        """Whether nothing is known because of a bug in Hone; that is no reason not to train."""
        return isinstance(self.failure, EngineBroke)

    def look_at(self, request: InspectRequest | None, *, is_early: bool = False) -> bool:
        """Find out what is in some data; None: there is none. The same request again changes nothing."""
        is_new = super().look_at(request, is_early=is_early)
        if is_new:
            self.changed.emit()
        return is_new

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
