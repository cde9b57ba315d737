"""Asking the engine with patience: once the person pauses, about the newest wish only, and not while it is early."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from core.errors import UserError
from gui.engine_question import Ask, EngineQuestion

PATIENCE_MS = 250
"""A pause in typing after which the engine is asked."""

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer", bound=msgspec.Struct)


class PatientQuestion(QObject, Generic[Request, Answer]):
    """One kind of question that changes as the person types.

    `report` answers the newest question, `failure` says why there is no answer.

    Signals:
        changed: An answer came, or none will come; heirs say what else.

    Args:
        ask: Starts an engine job.
        job: The job's name, such as `inspect`.
        kind: The struct its answer is read as.
        parent: Qt's parent.
    """

    changed = Signal()
    patience_ms = PATIENCE_MS

    def __init__(self, ask: Ask, job: str, kind: type[Answer], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._question = EngineQuestion(ask, job, kind, self)
        self._question.answered.connect(self._take)
        self._question.failed.connect(self._fail)
        self._question.progressed.connect(self.tell_progress)
        self._request: Request | None = None
        self._is_held = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(self.patience_ms)
        self._timer.timeout.connect(self._ask)
        self.report: Answer | None = None
        self.failure: UserError | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return self._is_held or self._timer.isActive() or self._question.is_waiting

    def look_at(self, request: Request | None, *, is_early: bool = False) -> bool:
        """Ask about something; None: there is nothing to ask. The same request again changes nothing.

        Args:
            request: The question.
            is_early: It may still change, or the engine is busy: the question is asked once this is called again.

        Returns:
            Whether what was known has been forgotten.
        """
        if request == self._request and (is_early or not self._is_held):
            return False
        before, self._request = self._request, request
        self._question.forget()
        self._timer.stop()
        self.failure = None
        if not self._stays_known(before, request):
            self.report = None
        self._is_held = is_early and request is not None
        if request is not None and not is_early:
            self._timer.start()
        return True

    def hold(self) -> None:
        """Give up what is being asked, to be asked again when `look_at` is called next."""
        if self._timer.isActive() or self._question.is_waiting:
            self._timer.stop()
            self._question.forget()
            self._is_held = True

    def tell_progress(self, share: float) -> None:
        """How much of the question is done, 0 to 1; heirs may show it."""

    def close(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._timer.stop()
        self._question.close()

    def _stays_known(self, before: Request | None, request: Request | None) -> bool:
        """Whether the answer to the question before still says something."""
        return False

    def _ask(self) -> None:
        if self._request is not None:
            self._question.put(self._request)

    def _take(self, report: Answer) -> None:
        self.report, self.failure = report, None
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.report, self.failure = None, error
        self.changed.emit()
