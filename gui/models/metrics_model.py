"""The evaluations of a run as a table."""

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)

from core.events import Evaluated
from gui import numbers

Index = QModelIndex | QPersistentModelIndex

_FIXED = 3

_translate = QCoreApplication.translate


class MetricsModel(QAbstractTableModel):
    """One row an evaluation, newest first: step, epoch, time, then every metric that any of them measured."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._evaluations: tuple[Evaluated, ...] = ()
        self._metrics: tuple[str, ...] = ()

    def show(self, evaluations: list[Evaluated]) -> None:
        """Make these the rows."""
        wanted = tuple(reversed(evaluations))
        if wanted == self._evaluations:
            return
        self.beginResetModel()
        self._evaluations = wanted
        self._metrics = tuple(dict.fromkeys(name for found in evaluations for name in found.metrics))
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        """One row an evaluation."""
        return 0 if parent is not None and parent.isValid() else len(self._evaluations)

    def columnCount(self, parent: Index | None = None) -> int:
        """Step, epoch and time, and one a metric."""
        return 0 if parent is not None and parent.isValid() else _FIXED + len(self._metrics)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """What a column is."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        fixed = (_translate("metrics", "Step"), _translate("metrics", "Epoch"), _translate("metrics", "Took"))
        return fixed[section] if section < _FIXED else numbers.metric_title(self._metrics[section - _FIXED])

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The text of a cell."""
        if not index.isValid():
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return self._text(index.row(), index.column()) if role == Qt.ItemDataRole.DisplayRole else None

    def _text(self, row: int, column: int) -> str:
        found = self._evaluations[row]
        fixed = (numbers.count(found.step), numbers.epochs(found.epoch), numbers.step_time(found.seconds))
        if column < _FIXED:
            return fixed[column]
        name = self._metrics[column - _FIXED]
        return numbers.metric_format(name)(found.metrics.get(name))
