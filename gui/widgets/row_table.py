"""What tables of whole rows have in common: read, not edited; one row chosen; no grid; titles in line with texts."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QTableView

from gui.theme import SPACING


def set_up_rows(table: QTableView, *, padding: int = 2 * SPACING) -> None:
    """Make a table one of whole rows, of which one can be chosen. Widths and names are its owner's.

    Args:
        table: The table, new.
        padding: What a row is higher than its text, in pixels.
    """
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setTabKeyNavigation(False)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + padding)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter)
