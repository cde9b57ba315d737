"""Searching the Hub from the window, and what is on this computer where the Hub isn't or mustn't be asked."""

from PySide6.QtCore import QObject, Signal

from core import hub
from core.errors import UserError
from core.hub_questions import CacheReport, Found, Kind, SearchAnswer, SearchRequest
from gui.engine_question import Ask, EngineQuestion


class HubSearch(QObject):
    """What was found, or lies here.

    `answer` is that of the last search, None before one; `here` are models on this computer; `failure` says why the
    last search brought nothing.

    Signals:
        changed: Something came, began or failed.

    Args:
        ask: Starts an engine job.
        kind: Models or data sets.
        parent: Qt's parent.
    """

    changed = Signal()

    def __init__(self, ask: Ask, kind: Kind = Kind.MODEL, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kind = kind
        self._search = EngineQuestion(ask, "hub-search", SearchAnswer, self)
        self._search.answered.connect(self._take)
        self._search.failed.connect(self._fail)
        self._cached = EngineQuestion(ask, "hub-cached", CacheReport, self)
        self._cached.answered.connect(self._take_cached)
        self.asked: SearchRequest | None = None
        self.answer: SearchAnswer | None = None
        self.here: tuple[Found, ...] = ()
        self.failure: UserError | None = None

    @property
    def is_searching(self) -> bool:
        """Whether the Hub is being asked."""
        return self._search.is_waiting

    @property
    def signed_in(self) -> bool:
        """Whether a token was sent along."""
        return self.answer is not None and self.answer.signed_in

    def search(self, words: str, task: str) -> None:
        """Ask the Hub, unless that is forbidden."""
        if hub.is_forbidden():
            return
        self.asked = SearchRequest(words=words, kind=self._kind, task=task)
        self.failure = None
        self._search.put(self.asked)
        self.changed.emit()

    def again(self) -> None:
        """Ask the same again: what is here, or who is signed in, may be another."""
        self.look_here()
        if self.asked is not None:
            self.search(self.asked.words, self.asked.task)

    def stop(self) -> None:
        """Give up what was asked."""
        self._search.forget()
        self.changed.emit()

    def look_here(self) -> None:
        """See what lies on this computer; nobody else is asked."""
        self._cached.put()

    def close(self) -> None:
        """Give up and wait until no thread is left."""
        self._search.close()
        self._cached.close()

    def _take(self, answer: SearchAnswer) -> None:
        self.answer = answer
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.answer, self.failure = None, error
        self.changed.emit()

    def _take_cached(self, report: CacheReport) -> None:
        self.here = tuple(
            Found(
                id=repo.id,
                kind=repo.kind,
                size=repo.size if repo.complete else None,
                here=repo.size + repo.partial,
                complete=repo.complete,
            )
            for repo in report.repos
            if repo.kind is self._kind
        )
        self.changed.emit()
