"""The head of the list of runs: how many there are and what they take, which columns are shown, and the filter."""

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QMenu, QPushButton, QWidget

from gui import numbers
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role

FILTER_LETTERS = 26


class RunsHead(QWidget):
    """A line above the list.

    Args:
        columns_menu: Makes the menu in which columns are chosen.
        parent: Qt's parent.
    """

    def __init__(self, columns_menu: Callable[[], QMenu], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns_menu = columns_menu
        title = QLabel(self.tr("Runs"))
        set_role(title, Role.PAGE_TITLE)
        self.count = QLabel()
        set_role(self.count, Role.MUTED)
        self.columns = QPushButton(self.tr("Columns"))
        set_role(self.columns, Role.LINK)
        self.columns.setToolTip(self.tr("Choose what the list shows"))
        self.columns.clicked.connect(self._pop_up)
        self.search = QLineEdit()
        self._dress_search()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addWidget(title)
        row.addSpacing(SPACING)
        row.addWidget(self.count, alignment=Qt.AlignmentFlag.AlignBottom)
        row.addStretch(1)
        row.addWidget(self.columns)
        row.addWidget(self.search)

    def show_count(self, shown: int, total: int, size: int | None) -> None:
        """Say how many runs there are and what they take.

        Args:
            shown: How many the filter lets through.
            total: How many there are.
            size: Bytes of all of them; None: not counted yet.
        """
        words = numbers.count(total)
        words = self.tr("1 run") if total == 1 else self.tr("{} runs").format(words)
        if shown < total:
            words = self.tr("{} of {}").format(numbers.count(shown), words)
        if size is not None:
            words = self.tr("{}, {}").format(words, numbers.memory(size))
        self.count.setText(words if total else "")
        self.columns.setVisible(total > 0)

    def _dress_search(self) -> None:
        self.search.setPlaceholderText(self.tr("Filter: words, tag:night"))
        self.search.setAccessibleName(self.tr("Filter runs"))
        self.search.setToolTip(
            self.tr(
                "Runs that hold all these words. name: state: model: data: device: tag: and note: look at one thing "
                "alone, such as state:paused."
            )
        )
        self.search.setClearButtonEnabled(True)
        letters = FILTER_LETTERS * self.search.fontMetrics().averageCharWidth()
        self.search.setFixedWidth(letters + 8 * SPACING)

    def _pop_up(self) -> None:
        menu = self._columns_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.columns.mapToGlobal(QPoint(0, self.columns.height())))
