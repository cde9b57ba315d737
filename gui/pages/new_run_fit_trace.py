"""Tracing the model in the background: a better forecast than the formula's, some seconds after the last change."""

from PySide6.QtCore import QObject

from core.memory.forecast import Forecast, ForecastRequest
from gui.engine_question import Ask
from gui.patient_question import PatientQuestion


class TracedForecast(PatientQuestion[ForecastRequest, Forecast]):
    """The newest trace; it takes a process of its own, so that it waits longer than the other questions."""

    patience_ms = 600

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "forecast", Forecast, parent)
