"""Asks whether the files of runs may leave for other computers."""

from collections.abc import Callable, Collection, Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from core.base.errors import UserError
from core.base.language import _
from core.hosts.sending import agree
from core.options import RunOptions
from core.services.sending import SendingRequest, request_for, to_ask
from gui.base.background import EngineWork
from gui.base.questions import Question

CHECKING = _("Checking what would be sent…")


class Sending(QObject):
    """Asks before runs are started or measured on other computers, unless all that they send was agreed to before."""

    begun = Signal()  # to check what would be sent, which takes seconds
    checked = Signal()  # the check is over or dropped; before the question, and before `failed`
    failed = Signal(object)  # a `core.base.errors.UserError`: it can't be sent

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._asked: Sequence[RunOptions] = ()
        self._then: Callable[[], object] = lambda: None
        self.checking: EngineWork[SendingRequest] = EngineWork(self, done=self._ask, failed=self.checked)
        self.checking.failed.connect(self.failed)

    def ask(
        self, asked: Sequence[RunOptions], then: Callable[[], object], chosen: Collection[str] = ()
    ) -> None:
        """Call `then` once the person agrees, at once if there is nothing to ask. What was asked before is dropped.

        Args:
            chosen: Options whose values the person has chosen here.
        """
        self.drop()
        self._asked, self._then = asked, then
        try:
            parcels = to_ask(asked, chosen)
            if parcels:
                self.checking.start(lambda _call: request_for(asked, parcels))
                self.begun.emit()
            else:
                self._go_on()
        except UserError as error:
            self.failed.emit(error)

    def drop(self) -> None:
        """Ask no more about what is being checked. Returns at once."""
        if self.checking.is_running:
            self.checking.cancel()
            self.checked.emit()

    def _ask(self, request: SendingRequest) -> None:
        self.checked.emit()
        text, answers = "\n".join(request.lines), {True: _("Send")}
        question = Question(request.title, text, answers, self._window, return_cancels=True)
        if question.ask(False):
            self._go_on()

    def _go_on(self) -> None:
        agree(self._asked)
        self._then()
