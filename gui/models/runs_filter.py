"""Sorting and searching the list of runs."""

from PySide6.QtCore import QObject, QSortFilterProxyModel

from gui.models.runs_model import SORT_ROLE, Index, RunsModel


class RunsFilter(QSortFilterProxyModel):
    """Sorts by raw values and keeps the runs that hold every word typed.

    A word such as `state:paused` or `tag:night` looks at one of `gui.models.runs_model.FIELDS` alone.
    """

    def __init__(self, model: RunsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._words: list[str] = []
        self.setSourceModel(model)
        self.setSortRole(SORT_ROLE)

    def search(self, text: str) -> None:
        """Keep the runs in which every word of `text` occurs somewhere."""
        self._words = text.casefold().split()
        self.invalidate()

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        """Whether a run holds every word."""
        if not self._words:
            return True
        shown = self._model.shown(source_row)
        return all(shown.holds(word) for word in self._words)
