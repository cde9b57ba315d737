"""What the engine is asked about a form: what is in the data, and whether the model can do what is asked of it."""

from PySide6.QtCore import QObject

from core.data_report import InspectRequest, inspect_request
from core.doubts import model_may_refuse
from core.model_lookup import question_about
from core.model_report import ModelRequest
from core.options import RunOptions
from gui.engine_question import Ask
from gui.pages.new_run_checking import Checked
from gui.pages.new_run_model_check import ModelCheck
from gui.pages.new_run_reading import DataReading

SOURCES_OF_OUR_OWN = ("builtin:", "synthetic:")
"""Data that needs no look before a start: nothing can be wrong with it."""

MODEL_PATHS = ("model.", "memory.activation_checkpointing")
"""Options the question about the model is made of."""


class FormQuestions(QObject):
    """Both questions, the model's asked after the data's, whose labels it counts.

    Args:
        ask: Starts an engine job (`gui.engine_question.Ask`).
        parent: Qt's parent.
    """

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.data = DataReading(ask, self)
        self.model = ModelCheck(ask, self)

    def look_at(self, checked: Checked) -> None:
        """Ask about what the form holds now, where it isn't known yet; what is known to be wrong is not asked about."""
        is_readable = not any(problem.path == "data.train" for problem in checked.problems)
        self.data.look_at(data_request(checked.readable) if is_readable else None)
        self.model.look_at(self._model_request(checked), is_early=self.data.is_reading)

    def keeps_waiting(self, options: RunOptions | None) -> bool:
        """Whether a start has to wait for an answer that may refuse it."""
        if options is None:
            return False
        is_ours = options.data.train.startswith(SOURCES_OF_OUR_OWN)
        is_model_in_doubt = self.model.is_checking and model_may_refuse(options)
        return is_model_in_doubt or (self.data.is_reading and not is_ours)

    def close(self) -> None:
        """Give up what was asked and wait for the threads."""
        self.data.close()
        self.model.close()

    def _model_request(self, checked: Checked) -> ModelRequest | None:
        has_source = not any(problem.path == "model.source" for problem in checked.problems)
        is_clear = not any(path.startswith(MODEL_PATHS) for path in checked.unreadable)
        if checked.readable is None or not has_source or not is_clear:
            return None
        report = self.data.report
        return question_about(checked.readable, len(report.labels) if report else 2)


def data_request(options: RunOptions | None) -> InspectRequest | None:
    """The question about the data of a form; None where none is chosen."""
    if options is None or not options.data.train:
        return None
    return inspect_request(options)
