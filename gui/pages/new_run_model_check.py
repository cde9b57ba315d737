"""Looking at the model in the background whenever it, or what is asked of it, changes."""

from PySide6.QtCore import QObject

from core.errors import Problem
from core.model_report import ModelReport, ModelRequest
from gui.engine_question import Ask
from gui.patient_question import PatientQuestion


class ModelCheck(PatientQuestion[ModelRequest, ModelReport]):
    """What is known about the chosen model.

    `longest` is the most tokens the model can see, `shaped` the newest report that tells its shape; both stay known
    while only other options are asked about.
    """

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "check-model", ModelReport, parent)
        self.longest: int | None = None
        self.shaped: ModelReport | None = None

    @property
    def is_checking(self) -> bool:
        """Whether an answer is still to come."""
        return self.is_waiting

    def look_at(self, request: ModelRequest | None, *, is_early: bool = False) -> bool:
        """Find out about a model; None: it can't be known. The same request again changes nothing.

        Early is a question while the data is being read, whose labels it counts.
        """
        if _source(request) != _source(self._request):
            self.longest = self.shaped = None
        return super().look_at(request, is_early=is_early)

    def problems(self) -> tuple[Problem, ...]:
        """What the model lacks. A failure to find out is none: the run would say what is wrong."""
        return self.report.problems if self.report is not None else ()

    def _take(self, report: ModelReport) -> None:
        self.longest = report.max_length
        if report.shape is not None:
            self.shaped = report
        super()._take(report)


def _source(request: ModelRequest | None) -> tuple[object, object] | None:
    return None if request is None else (request.asked["task"], request.asked["model"]["source"])
