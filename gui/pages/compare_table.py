"""The table of what the runs that are compared came to, and of what differs between them."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QTableView, QVBoxLayout, QWidget

from core.run_comparison import Comparison
from gui.models.compare_model import CompareModel
from gui.pages.compare_names import colour_of, dot
from gui.theme import SPACING, Theme
from gui.widgets.roles import Role, set_role
from gui.widgets.row_table import set_up_rows

NARROWEST_LETTERS = 10
"""A run's column has room for so many letters, or the table scrolls sideways."""

WIDEST_TITLE_LETTERS = 30


class ColouredModel(CompareModel):
    """The table with the colour of each run's curves beside its name."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """As ever, and a dot."""
        is_run = orientation is Qt.Orientation.Horizontal and 0 < section <= len(self.names)
        if is_run and role == Qt.ItemDataRole.DecorationRole:
            return dot(QColor(getattr(self._theme.tokens, colour_of(section - 1))))
        return super().headerData(section, orientation, role)


class _View(QTableView):
    """Tells when it has another width.

    Signals:
        resized: It has.
    """

    resized = Signal()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell."""
        super().resizeEvent(event)
        self.resized.emit()


class CompareTable(QFrame):
    """Headings reach across; columns share the room there is."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = ColouredModel(theme)
        self.view = _View()
        self.view.resized.connect(self._fit)
        self.view.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.view.setModel(self.model)
        self.view.setAccessibleName(self.tr("What differs"))
        set_up_rows(self.view, padding=SPACING + 4)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        set_role(self.view, Role.INSET)
        self.view.setFrameShape(QFrame.Shape.NoFrame)
        card = QFrame()
        set_role(card, Role.CARD)
        inside = QVBoxLayout(card)
        inside.setContentsMargins(2, SPACING, 2, SPACING)
        inside.addWidget(self.view)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, SPACING, 0, 0)
        column.addWidget(card)

    def show_comparison(self, found: Comparison, names: Sequence[str]) -> None:
        """Show it; the names stand above the columns."""
        self.model.show(found, names)
        self.view.clearSpans()
        for row, line in enumerate(self.model.rows):
            if not line.texts:
                self.view.setSpan(row, 0, 1, self.model.columnCount())
        self._fit()

    def _fit(self) -> None:
        runs = len(self.model.names)
        if not runs:
            return
        letter = self.view.fontMetrics().averageCharWidth()
        titles = [
            self.view.fontMetrics().horizontalAdvance(row.title) for row in self.model.rows if row.texts
        ]
        first = min(max(titles, default=0) + 3 * SPACING, WIDEST_TITLE_LETTERS * letter)
        self.view.setColumnWidth(0, first)
        share = (self.view.viewport().width() - first) // runs
        width = max(share, NARROWEST_LETTERS * letter + 2 * SPACING)
        for column in range(1, runs + 1):
            self.view.setColumnWidth(column, width)
