"""A strip that lists what was just changed at once in the form, to be undone with one press."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gui.theme import SPACING
from gui.widgets.roles import Role, set_role

COLUMNS = 2
MOST_SHOWN = 8
"""Changes listed one by one; what is beyond is counted."""


@dataclass(frozen=True)
class Change:
    """One option: what it is called, and its value before and after, in words."""

    name: str
    before: str
    after: str


class ChangesStrip(QFrame):
    """What was changed, why, and the way back.

    Signals:
        undo_chosen: The person wants it as it was.
    """

    undo_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.STRIP_INFO)
        self._changes: tuple[Change, ...] = ()
        self._title = _label(Role.STRONG)
        self._undo = QPushButton(self.tr("Undo"))
        self._undo.clicked.connect(self.undo_chosen)
        dismiss = QPushButton(self.tr("Dismiss"))
        set_role(dismiss, Role.LINK)
        dismiss.clicked.connect(self.hide)
        heading = QHBoxLayout()
        heading.setSpacing(SPACING)
        heading.addWidget(self._title, 1)
        heading.addWidget(self._undo)
        heading.addWidget(dismiss)
        self._words = _label(Role.MUTED)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(3 * SPACING)
        self._grid.setVerticalSpacing(2)
        for column in range(COLUMNS):
            self._grid.setColumnStretch(column, 1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(2 * SPACING, SPACING + 2, 2 * SPACING, SPACING + 2)
        outer.setSpacing(SPACING // 2)
        outer.addLayout(heading)
        outer.addWidget(self._words)
        outer.addLayout(self._grid)
        self.hide()

    def show_changes(self, title: str, words: str, changes: Sequence[Change]) -> None:
        """Say what was done and what it changed; the strip that was shown before is replaced."""
        self._changes = tuple(changes)
        self.setAccessibleName(title)
        self._title.setText(title)
        self._words.setText(words)
        self._words.setVisible(bool(words))
        self._undo.setVisible(bool(changes))
        while (item := self._grid.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        for place, line in enumerate(self._lines()):
            label = _label(Role.HINT)
            label.setText(line)
            self._grid.addWidget(label, place // COLUMNS, place % COLUMNS, Qt.AlignmentFlag.AlignTop)
        self.show()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes listed."""
        return self._changes

    def _lines(self) -> list[str]:
        text = self.tr("{name}: {before} → {after}")
        lines = [
            text.format(name=change.name, before=change.before, after=change.after)
            for change in self._changes
        ]
        if len(lines) <= MOST_SHOWN:
            return lines
        rest = self.tr("and {count} more").format(count=len(lines) - MOST_SHOWN + 1)
        return [*lines[: MOST_SHOWN - 1], rest]


def _label(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label
