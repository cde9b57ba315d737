"""Looking into the data in the background whenever it, or what is asked of it, changes."""

from PySide6.QtCore import QObject, QTimer, Signal

from core.errors import Problem, UserError
from core.reports import DataReport, InspectRequest
from gui.engine_question import Ask, EngineBroke, EngineQuestion

PATIENCE_MS = 250
"""A pause in typing after which the data is looked at."""


class DataReading(QObject):
    """What is known about the chosen data.

    Signals:
        changed: Reading began, ended or failed.
    """

    changed = Signal()

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._question = EngineQuestion(ask, "inspect", DataReport, self)
        self._question.answered.connect(self._take)
        self._question.failed.connect(self._fail)
        self._request: InspectRequest | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PATIENCE_MS)
        self._timer.timeout.connect(self._ask)
        self.report: DataReport | None = None
        self.failure: UserError | None = None

    @property
    def is_reading(self) -> bool:
        """Whether an answer is still to come."""
        return self._timer.isActive() or self._question.is_waiting

    @property
    def has_broken(self) -> bool:
        """Whether nothing is known because of a bug in Hone; that is no reason not to train."""
        return isinstance(self.failure, EngineBroke)

    def look_at(self, request: InspectRequest | None) -> None:
        """Find out what is in some data; None: there is none. The same request again changes nothing."""
        if request == self._request:
            return
        is_other_data = request is None or self._request is None or request.source != self._request.source
        self._request = request
        self._question.forget()
        self.failure = None
        if is_other_data:
            self.report = None
        if request is None:
            self._timer.stop()
        else:
            self._timer.start()
        self.changed.emit()

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

    def close(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._timer.stop()
        self._question.close()

    def _ask(self) -> None:
        if self._request is not None:
            self._question.put(self._request)

    def _take(self, report: DataReport) -> None:
        self.report, self.failure = report, None
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.report, self.failure = None, error
        self.changed.emit()
