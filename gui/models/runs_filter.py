"""Sorting and searching the list of runs."""

from PySide6.QtCore import QObject, QSortFilterProxyModel

from gui.models.runs_model import SEARCH_ROLE, SORT_ROLE, Index, RunsModel


class RunsFilter(QSortFilterProxyModel):
    """Sorts by raw values and keeps the runs that hold every word typed."""

    def __init__(self, model: RunsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._words: list[str] = []
        self.setSourceModel(model)
        self.setSortRole(SORT_ROLE)

    def search(self, text: str) -> None:
        """Keep the runs in which every word of `text` occurs somewhere."""
        self._words = text.casefold().split()
        self.invalidate()

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        """Whether a run holds every word."""
        place = self.sourceModel().index(source_row, 0, source_parent)
        found = str(place.data(SEARCH_ROLE)).casefold()
        return all(word in found for word in self._words)
