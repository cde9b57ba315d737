"""The views of the data beside each other: rows, what the model sees, lengths, labels."""

from collections.abc import Set

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QTabWidget, QVBoxLayout, QWidget

from core.choices import Task
from core.column_roles import Columns
from core.data_report import DataReport
from gui.pages.data_lengths import LengthsPane
from gui.pages.data_rows import RowsPane
from gui.pages.data_seen import SeenPane
from gui.theme import SPACING, Theme
from gui.widgets.label_bars import LabelBars
from gui.widgets.roles import Role, set_role

LARGE = QSize(980, 640)


class DataViews(QTabWidget):
    """Tabs; one that has nothing to show is left out.

    Signals:
        use_chosen: The name of a column, and the key of what it shall be.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    use_chosen = Signal(str, str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.TABS)
        self.setAccessibleName(self.tr("The data"))
        self.rows = RowsPane()
        self.seen = SeenPane(theme)
        self.lengths = LengthsPane(theme)
        self.labels = LabelBars(theme)
        self.rows.use_chosen.connect(self.use_chosen)
        labels = QWidget()
        around = QVBoxLayout(labels)
        around.setContentsMargins(0, SPACING, 0, 0)
        around.addWidget(self.labels)
        around.addStretch(1)
        self._pages: dict[QWidget, str] = {
            self.rows: self.tr("Rows"),
            self.seen: self.tr("What the model sees"),
            self.lengths: self.tr("Lengths"),
            labels: self.tr("Labels"),
        }
        for page in self._pages:
            page.setParent(self)
            page.hide()
        self._labels = labels
        self.setTabBarAutoHide(True)

    def show_report(self, report: DataReport | None, task: Task) -> None:
        """Show what a report tells."""
        self.rows.show_report(report)
        self.seen.show_report(report, task)
        self.lengths.show_report(report)
        self.labels.set_counts(report.labels if report is not None else {})
        wanted = {
            self.rows: report is not None and bool(report.preview),
            self.seen: report is not None and bool(report.seen),
            self.lengths: report is not None and report.lengths is not None and bool(report.lengths.counts),
            self._labels: report is not None and bool(report.labels),
        }
        self._offer([page for page, is_wanted in wanted.items() if is_wanted])
        self.setVisible(self.count() > 0)

    def show_uses(self, task: Task, columns: Columns, guessed: Set[str]) -> None:
        """Show what each column is."""
        self.rows.show_uses(task, columns, guessed)

    def show_row(self, number: int) -> None:
        """Bring a row of the file into view, if it is among the first ones."""
        if self.indexOf(self.rows) >= 0 and self.rows.show_row(number):
            self.setCurrentWidget(self.rows)

    def _offer(self, pages: list[QWidget]) -> None:
        if pages == [self.widget(index) for index in range(self.count())]:
            return
        current = self.currentWidget()
        self.clear()
        for page in pages:
            self.addTab(page, self._pages[page])
        if current in pages:
            self.setCurrentWidget(current)


class DataSheet(QDialog):
    """The views in a window of their own, for as long as it is open; then they go back to where they were.

    Args:
        views: The views.
        title: What the data is called.
        parent: Qt's parent.
    """

    def __init__(self, views: DataViews, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.resize(LARGE)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * SPACING, 2 * SPACING, 2 * SPACING, 2 * SPACING)
        layout.addWidget(views, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)
