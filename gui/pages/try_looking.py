"""Looks into files for the page Try it, away from the window: which runs there are, whether there is room now."""

from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, QThread, Signal

Found = TypeVar("Found")


class _Look(QThread, Generic[Found]):
    def __init__(self, look: Callable[[], Found], parent: QObject) -> None:
        super().__init__(parent)
        self._look = look
        self.found: Found | None = None

    def run(self) -> None:
        """Look; called by Qt in the thread."""
        self.found = self._look()


class Looking(QObject, Generic[Found]):
    """Looks for one kind of thing; what was looked for before is forgotten.

    Signals:
        found: What `look` came to.
    """

    found = Signal(object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._threads: list[_Look[Found]] = []
        self._current: _Look[Found] | None = None

    @property
    def is_looking(self) -> bool:
        """Whether an answer is still to come."""
        return self._current is not None

    def look(self, look: Callable[[], Found]) -> None:
        """Call `look` in a thread."""
        thread = _Look(look, self)
        thread.finished.connect(self._settle)
        self._threads.append(thread)
        self._current = thread
        thread.start()

    def forget(self) -> None:
        """No signal comes of what is being looked for."""
        self._current = None

    def close(self) -> None:
        """Forget it, and wait until no thread is left; a look takes milliseconds."""
        self.forget()
        for thread in self._threads:
            thread.wait()

    def _settle(self) -> None:
        thread = self.sender()
        if not isinstance(thread, _Look):
            return
        self._threads.remove(thread)
        thread.deleteLater()
        if thread is self._current:
            self._current = None
            self.found.emit(thread.found)
