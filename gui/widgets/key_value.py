"""Rows of a name and what it is, divided by hairlines."""

from collections.abc import Iterable

from PySide6.QtGui import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QWidget

from gui.theme import SPACING
from gui.widgets.roles import Role, set_role


class KeyValue(QWidget):
    """A list of names with their values. Values wrap and may be selected and copied.

    Args:
        name_width: Least width of the names in pixels, to stand in line with other rows.
        parent: Qt's parent.
    """

    def __init__(self, name_width: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: list[str] = []
        self._values: list[QLabel] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * SPACING)
        self._grid.setVerticalSpacing(SPACING - 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnMinimumWidth(0, name_width)

    def set_rows(self, rows: Iterable[tuple[str, str]]) -> None:
        """Show these (name, value) pairs; rows whose names stay the same are only given their new values."""
        pairs = list(rows)
        if [name for name, _ in pairs] != self._names:
            self._rebuild([name for name, _ in pairs])
        for label, (_, value) in zip(self._values, pairs, strict=True):
            if label.text() != value:
                label.setText(value)

    def rows(self) -> list[tuple[str, str]]:
        """What is shown."""
        return [(name, label.text()) for name, label in zip(self._names, self._values, strict=True)]

    def _rebuild(self, names: list[str]) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        self._names = names
        self._values = []
        for index, name in enumerate(names):
            if index:
                self._grid.addWidget(_hairline(), 2 * index - 1, 0, 1, 2)
            self._add(2 * index, name)

    def _add(self, row: int, name: str) -> None:
        title = QLabel(name)
        set_role(title, Role.MUTED)
        value = QLabel()
        value.setWordWrap(True)
        value.setTextFormat(Qt.TextFormat.PlainText)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        value.setAccessibleName(name)
        top = Qt.AlignmentFlag.AlignTop
        self._grid.addWidget(title, row, 0, top)
        self._grid.addWidget(value, row, 1, top)
        self._values.append(value)


def _hairline() -> QFrame:
    line = QFrame()
    line.setFixedHeight(1)
    set_role(line, Role.RULE)
    return line
