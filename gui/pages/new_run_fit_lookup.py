"""Looking up a model on the Hub that isn't on this computer: its config.json is fetched once the person asks."""

from PySide6.QtCore import QObject, Signal

from core.errors import UserError
from core.hub import ConfigFetched, ConfigRequest
from gui.engine_question import Ask, EngineQuestion


class HubLookup(QObject):
    """Fetches what describes the chosen model.

    `source` is the model that can be looked up; empty: there is none. `failure` says why that didn't work.

    Signals:
        changed: Fetching began, was given up, or failed.
        fetched: The description is on this computer now.

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    changed = Signal()
    fetched = Signal()

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._question = EngineQuestion(ask, "fetch-config", ConfigFetched, self)
        self._question.answered.connect(self.fetched)
        self._question.failed.connect(self._fail)
        self.source = ""
        self.failure: UserError | None = None

    @property
    def is_fetching(self) -> bool:
        """Whether it is on its way."""
        return self._question.is_waiting

    def look_at(self, source: str) -> None:
        """Offer another model; what is under way for the one before is given up."""
        if source != self.source:
            self._question.forget()
            self.source, self.failure = source, None

    def fetch(self) -> None:
        """Fetch it."""
        if self.source:
            self.failure = None
            self._question.put(ConfigRequest(source=self.source))
            self.changed.emit()

    def cancel(self) -> None:
        """Give it up."""
        self._question.forget()
        self.changed.emit()

    def close(self) -> None:
        """Give it up and wait for its thread."""
        self._question.close()

    def _fail(self, error: UserError) -> None:
        self.failure = error
        self.changed.emit()
