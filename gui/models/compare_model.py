"""Runs side by side as a table: what they came to, and only what differs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)
from PySide6.QtGui import QFont

from core.run_comparison import Absent, Comparison, OptionDifference, Results
from core.sources import short_name
from gui import numbers
from gui.states import state_title
from gui.values import value_words
from gui.widgets.plain_tip import tip_of

Index = QModelIndex | QPersistentModelIndex

SOURCES = ("model.source", "data.train", "data.eval")
"""Options that name a path or where something comes from: its end says enough where the ends differ."""

_translate = QCoreApplication.translate


@dataclass(frozen=True)
class CompareRow:
    """A line: its title, a text for each run, and what its tip says. Without texts it is a heading."""

    title: str
    texts: tuple[str, ...] = ()
    tip: str = ""


class CompareModel(QAbstractTableModel):
    """A column for titles and one a run. `names` are what the runs are called."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.names: tuple[str, ...] = ()
        self.rows: tuple[CompareRow, ...] = ()

    def show(self, found: Comparison, names: Sequence[str]) -> None:
        """Show a comparison."""
        rows = tuple(rows_of(found))
        if (rows, tuple(names)) != (self.rows, self.names):
            self.beginResetModel()
            self.rows, self.names = rows, tuple(names)
            self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        """One row a line."""
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """Titles, and one a run."""
        return 0 if parent is not None and parent.isValid() else 1 + len(self.names)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """The names of the runs."""
        if orientation is not Qt.Orientation.Horizontal or not 0 < section <= len(self.names):
            return None
        name = self.names[section - 1]
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip_of(name)
        return name if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tip or font of a cell."""
        if not index.isValid():
            return None
        row, place = self.rows[index.row()], index.column() - 1
        text = row.title if place < 0 else row.texts[place] if row.texts else ""
        if role == Qt.ItemDataRole.DisplayRole:
            return text
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip_of((row.tip or text) if place < 0 else text)
        if role == Qt.ItemDataRole.FontRole and not row.texts:
            font = QFont()
            font.setWeight(QFont.Weight.DemiBold)
            return font
        return None


def rows_of(found: Comparison) -> list[CompareRow]:
    """All lines of a comparison, below their headings."""
    rows = [CompareRow(_translate("Compare", "Results")), *_results(found)]
    options = [_option_row(one) for one in found.options]
    unread = any(summary.problem for summary in found.runs)
    if options:
        rows += [CompareRow(_translate("Compare", "Options that differ")), *options]
    else:
        same, some = _translate("Compare", "All options are the same"), _translate("Compare", "Options")
        rows.append(CompareRow(some if unread else same))
    if unread:
        rows.append(
            CompareRow(
                _translate("Compare", "Run file"),
                tuple(_translate("Compare", "can't be read") if one.problem else "" for one in found.runs),
            )
        )
    if found.ran:
        rows.append(CompareRow(_translate("Compare", "What ran otherwise")))
        rows += [CompareRow(_translate("run", one.title), one.values) for one in found.ran]
    return rows


def _results(found: Comparison) -> list[CompareRow]:
    def row(title: str, write: Callable[[Results], str]) -> CompareRow:
        return CompareRow(title, tuple(map(write, found.results)))

    states = tuple(state_title(summary.state) for summary in found.runs)
    return [
        CompareRow(_translate("Compare", "State"), states),
        _best_row(found),
        row(_translate("Compare", "Steps"), lambda one: numbers.count(one.steps)),
        row(_translate("Compare", "Time"), lambda one: numbers.duration(one.seconds)),
        row(_translate("Compare", "Memory at most"), lambda one: numbers.memory(one.peak_bytes)),
        row(_translate("Compare", "Rows a second"), lambda one: _pace(one.samples_per_second)),
    ]


def _best_row(found: Comparison) -> CompareRow:
    """The best result of each; the metric stands before it where the runs aren't judged by the same one."""
    metrics = {one.metric for one in found.results if one.metric is not None}
    title = _translate("Compare", "Best result")
    if len(metrics) == 1:
        title = _translate("Compare", "Best: {}").format(numbers.metric_title(metrics.pop()))
        return CompareRow(title, tuple(map(_best, found.results)))
    named = (
        f"{numbers.metric_title(one.metric)} {_best(one)}" if one.metric else "" for one in found.results
    )
    return CompareRow(title, tuple(text or numbers.MISSING for text in named))


def _best(results: Results) -> str:
    if results.metric is None:
        return numbers.MISSING
    return numbers.metric_format(results.metric)(results.best)


def _pace(samples_per_second: float | None) -> str:
    return numbers.MISSING if samples_per_second is None else numbers.three_figures(samples_per_second)


def _option_row(found: OptionDifference) -> CompareRow:
    option = found.option
    values = _short_names(found.values) if option.path in SOURCES else found.values
    texts = tuple(
        numbers.MISSING if isinstance(value, Absent) else value_words(option, value) for value in values
    )
    tip = f"{option.path}\n{option.help}"
    return CompareRow(option.title, texts, tip)


def _short_names(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The ends of paths and ids, where these tell apart what differs."""
    short = tuple(map(_short_name, values))
    return short if len(set(short)) == len(set(values)) else values


def _short_name(value: Any) -> Any:
    return short_name(value) if isinstance(value, str) and not isinstance(value, Absent) else value
