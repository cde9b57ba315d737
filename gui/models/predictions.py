"""What the model said of the same examples over time, as a table."""

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSize,
    Qt,
)
from PySide6.QtGui import QIcon, QPixmap

from core.events import Predicted
from core.files import file_inside
from core.predictions import Example, Said
from gui import numbers

Index = QModelIndex | QPersistentModelIndex

_translate = QCoreApplication.translate

RIGHT, WRONG = "✓", "✗"
LONGEST_LINE = 300
"""Characters of a text in a cell; all of it stands below the table."""
LONG = 40
"""Characters from which texts are compared below the table: in its cells only their beginnings are seen, all alike."""
BETWEEN_PARTS = "  ¦  "
"""What stands between the two texts of a pair on one line."""
PICTURE = 40
"""Pixels of a side of an image in a row."""


def moment_words(found: Predicted) -> str:
    """When the model was asked: `Before training`, `Step 1,150 (epoch 2.0)`."""
    if found.step == 0:
        return _translate("Predictions", "Before training")
    return _translate("Predictions", "Step {step} (epoch {epoch})").format(
        step=numbers.count(found.step), epoch=numbers.epochs(found.epoch)
    )


def are_long(examples: Iterable[Example], told: Iterable[Predicted]) -> bool:
    """Whether something that is expected or was said is longer than a label or a number."""
    expected = (example.expected for example in examples)
    said = (said.text for found in told for said in found.said)
    return any(len(text.strip()) > LONG for text in (*expected, *said))


def given_words(given: str) -> str:
    """What the model reads, on one line; the two texts of a pair stay apart."""
    parts = [" ".join(part.split()) for part in given.strip().split("\n")]
    return (BETWEEN_PARTS if len(parts) == 2 else " ").join(filter(None, parts))[:LONGEST_LINE]


def visible(text: str) -> str:
    """A text, or words for one in which there is nothing to be seen."""
    if text.strip():
        return text
    if not text:
        return _translate("Predictions", "(nothing)")
    breaks = set(text) & {"\n", "\r"}
    if breaks and set(text) <= {"\n", "\r"}:
        return _translate("Predictions", "(only line breaks)")
    return _translate("Predictions", "(only spaces and line breaks)" if breaks else "(only spaces)")


def said_words(said: Said) -> str:
    """What was said, on one line: with how sure the model was, or a mark where a text was ended by its length."""
    line = " ".join(visible(said.text).split())[:LONGEST_LINE]
    if said.sure is not None:
        return f"{line}  {numbers.whole_percent(said.sure)}"
    return f"{line} …" if said.is_cut and said.text.strip() else line


def right_words(found: Predicted) -> str:
    """How many were right, such as `11 of 16 right`; empty where that is no matter of yes or no."""
    judged = [said.right for said in found.said if said.right is not None]
    if not judged:
        return ""
    return _translate("Predictions", "{right} of {all} right").format(right=sum(judged), all=len(judged))


class Column(IntEnum):
    """What the columns are."""

    GIVEN = 0
    EXPECTED = 1
    BEFORE = 2
    AFTER = 3


class PredictionsModel(QAbstractTableModel):
    """One row an example: what was given, what was expected, what was said before training and at a chosen moment.

    Args:
        folder: The run's, where images lie.
        parent: Qt's parent.
    """

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._examples: tuple[Example, ...] = ()
        self._before: Predicted | None = None
        self._after: Predicted | None = None
        self._icons: dict[str, QIcon] = {}

    def show(self, examples: tuple[Example, ...], before: Predicted | None, after: Predicted | None) -> None:
        """Make these the rows and the columns."""
        if examples != self._examples:
            self.beginResetModel()
            self._examples, self._before, self._after = examples, before, after
            self._icons.clear()
            self.endResetModel()
        elif (before, after) != (self._before, self._after):
            self._before, self._after = before, after
            last = self.index(len(examples) - 1, Column.AFTER)
            self.dataChanged.emit(self.index(0, Column.BEFORE), last)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.BEFORE, Column.AFTER)

    def rowCount(self, parent: Index | None = None) -> int:
        """One row an example."""
        return 0 if parent is not None and parent.isValid() else len(self._examples)

    def columnCount(self, parent: Index | None = None) -> int:
        """What was given and expected, and two moments."""
        return 0 if parent is not None and parent.isValid() else len(Column)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """What a column is."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        titles = {
            Column.GIVEN: _translate("Predictions", "The model reads"),
            Column.EXPECTED: _translate("Predictions", "Expected"),
            Column.BEFORE: moment_words(self._before) if self._before else "",
            Column.AFTER: moment_words(self._after) if self._after else "",
        }
        return titles[Column(section)]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The text of a cell, the picture of an image."""
        if not index.isValid():
            return None
        example = self._examples[index.row()]
        if role == Qt.ItemDataRole.DecorationRole and index.column() == Column.GIVEN and example.image:
            return self._icon(example.image)
        if role == Qt.ItemDataRole.SizeHintRole and example.image:
            return QSize(PICTURE, PICTURE + 8)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._text(index.row(), Column(index.column()))
        return None

    def said(self, row: int, found: Predicted | None) -> Said | None:
        """What was said of an example at a moment; None where it was not asked, or asked to stop before."""
        return found.said[row] if found is not None and row < len(found.said) else None

    def _text(self, row: int, column: Column) -> str:
        example = self._examples[row]
        match column:
            case Column.GIVEN:
                return given_words(example.given)
            case Column.EXPECTED:
                return " ".join(example.expected.split())[:LONGEST_LINE]
            case Column.BEFORE | Column.AFTER:
                said = self.said(row, self._before if column is Column.BEFORE else self._after)
                if said is None:
                    return ""
                mark = "" if said.right is None else f"{RIGHT if said.right else WRONG}  "
                return mark + said_words(said)

    def _icon(self, image: str) -> QIcon:
        if image not in self._icons:
            path = file_inside(self._folder, image)
            self._icons[image] = QIcon() if path is None else QIcon(QPixmap(str(path)))
        return self._icons[image]
