"""Looking at the model in the background whenever it, or what is asked of it, changes."""

from PySide6.QtCore import QObject, QTimer, Signal

from core.errors import Problem, UserError
from core.model_report import ModelReport, ModelRequest
from gui.engine_question import Ask, EngineQuestion
from gui.pages.new_run_reading import PATIENCE_MS


class ModelCheck(QObject):
    """What is known about the chosen model.

    `report` answers the newest question; `longest` is the most tokens the model can see, which stays known while only
    other options are asked about.

    Signals:
        changed: An answer came, or none will come.
    """

    changed = Signal()

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._question = EngineQuestion(ask, "check-model", ModelReport, self)
        self._question.answered.connect(self._take)
        self._question.failed.connect(self._fail)
        self._request: ModelRequest | None = None
        self._is_held = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PATIENCE_MS)
        self._timer.timeout.connect(self._ask)
        self.report: ModelReport | None = None
        self.failure: UserError | None = None
        self.longest: int | None = None

    @property
    def is_checking(self) -> bool:
        """Whether an answer is still to come."""
        return self._is_held or self._timer.isActive() or self._question.is_waiting

    def look_at(self, request: ModelRequest | None, *, is_early: bool = False) -> None:
        """Find out about a model; None: it can't be known. The same request again changes nothing.

        Args:
            request: The question.
            is_early: It may still change, since the data is being read: what was known is forgotten, and the engine
                asked once this is called again.
        """
        if request == self._request and (is_early or not self._is_held):
            return
        if _source(request) != _source(self._request):
            self.longest = None
        self._request = request
        self._question.forget()
        self._timer.stop()
        self.report = self.failure = None
        self._is_held = is_early and request is not None
        if request is not None and not is_early:
            self._timer.start()

    def problems(self) -> tuple[Problem, ...]:
        """What the model lacks. A failure to find out is none: the run would say what is wrong."""
        return self.report.problems if self.report is not None else ()

    def close(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._timer.stop()
        self._question.close()

    def _ask(self) -> None:
        if self._request is not None:
            self._question.put(self._request)

    def _take(self, report: ModelReport) -> None:
        self.report, self.longest = report, report.max_length
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.failure = error
        self.changed.emit()


def _source(request: ModelRequest | None) -> tuple[object, object] | None:
    return None if request is None else (request.asked["task"], request.asked["model"]["source"])
