"""The first rows of the data as a table, with what each column is in its header."""

from collections.abc import Mapping, Sequence, Set

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLabel, QTableView, QVBoxLayout, QWidget

from core.choices import Task
from core.column_roles import Columns, uses_for
from core.data_report import Column, ColumnKind, DataReport
from gui.theme import SPACING
from gui.widgets.plain_tip import plain_tip
from gui.widgets.role_header import HeadColumn, RoleHeader
from gui.widgets.roles import Role, set_role
from gui.widgets.segmented import Segment

WIDEST_LETTERS = 44
MOST_COLUMNS = 60
"""So many columns are shown, beside those that are used: each has a list, which costs."""
TIP_CHARACTERS = 1200
ROWS_MEASURED = 30
"""So many rows say how wide a column wants to be; measuring all of many columns takes a second."""

Index = QModelIndex | QPersistentModelIndex


class RowsPane(QWidget):
    """The table, and a line where not all of it is shown.

    Signals:
        use_chosen: The name of a column, and the key of what it shall be; an empty one: nothing.
    """

    use_chosen = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._report: DataReport | None = None
        self._known: tuple[object, ...] = ()
        self._model = RowsModel(self)
        self.table = QTableView()
        self.table.setModel(self._model)
        self.header = RoleHeader(self.table)
        self.table.setHorizontalHeader(self.header)
        self.header.use_chosen.connect(self.use_chosen)
        self.header.setResizeContentsPrecision(ROWS_MEASURED)
        self._set_up(self.table)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addWidget(self.table, 1)
        layout.addWidget(self._words)

    def show_report(self, report: DataReport | None) -> None:
        """Show the first rows of a report."""
        self._report = report
        self._known = ()
        if report is not None:
            name = self.tr("The first {count} of {rows:,} rows")
            words = name.format(count=len(report.preview), rows=report.rows)
            self.table.setAccessibleName(words)
            left_out = self.tr(
                "The first {count} of {all:,} columns; others are chosen below the table"
            ).format(count=MOST_COLUMNS, all=len(report.columns))
            told = (words if report.rows > len(report.preview) else "", left_out if self.leaves_out else "")
            self._words.setText(" · ".join(part for part in told if part))
        self._words.setVisible(bool(self._words.text()))

    @property
    def leaves_out(self) -> bool:
        """Whether there are columns that aren't shown."""
        return self._report is not None and len(self._report.columns) > MOST_COLUMNS

    def show_uses(self, task: Task, columns: Columns, guessed: Set[str]) -> None:
        """Show what each column is.

        Args:
            task: What it is for.
            columns: Columns by the keys of their roles.
            guessed: The keys that were guessed.
        """
        report, known = self._report, (task, dict(columns), frozenset(guessed))
        if report is None or known == self._known:
            return
        self._known = known
        uses = {name: key for key, name in columns.items()}
        shown = [
            index
            for index, column in enumerate(report.columns)
            if index < MOST_COLUMNS or column.name in uses
        ]
        is_other = self._model.show_rows(report, shown, uses)
        choices = [Segment(use.key, use.title, use.help) for use in uses_for(task)]
        nothing = Segment("", self.tr("Ignore"), self.tr("The model doesn't see it."))
        heads = [_head(report.columns[index].name, uses, guessed) for index in shown]
        self.header.set_columns(heads, [*choices, nothing])
        if is_other:
            self._fit_columns()

    def show_row(self, number: int) -> bool:
        """Bring the row with this number in the file into view and choose it; whether it is among those shown."""
        place = self._model.place_of(number)
        if place is None:
            return False
        self.table.selectRow(place)
        self.table.scrollTo(self._model.index(place, 0), QAbstractItemView.ScrollHint.PositionAtCenter)
        return True

    def _set_up(self, table: QTableView) -> None:
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.setTabKeyNavigation(False)
        table.setCornerButtonEnabled(False)
        table.setWordWrap(False)
        table.setShowGrid(False)
        table.setAlternatingRowColors(True)
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + SPACING)
        table.verticalHeader().setMinimumSectionSize(1)

    def _fit_columns(self) -> None:
        """Give each column what its texts want, within limits; the last takes what is left."""
        letter = self.fontMetrics().averageCharWidth()
        widest, count = WIDEST_LETTERS * letter, self._model.columnCount()
        for column in range(count):
            wanted = min(widest, self.table.sizeHintForColumn(column) + SPACING)
            self.table.setColumnWidth(column, max(wanted, self.header.least_width(column)))
        self.header.setStretchLastSection(True)


class RowsModel(QAbstractTableModel):
    """Rows of a report; columns that are not used are quiet."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._report: DataReport | None = None
        self._shown: tuple[int, ...] = ()
        self._uses: dict[str, str] = {}

    def show_rows(self, report: DataReport, shown: Sequence[int], uses: Mapping[str, str]) -> bool:
        """Show these columns of a report; whether they hold other texts than before: if not, nothing moves."""
        before, self._uses = self._report, dict(uses)
        is_same = before is not None and (before.columns, before.preview) == (report.columns, report.preview)
        if is_same and tuple(shown) == self._shown:
            self._report = report
            if self._shown and self.rowCount():
                self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, len(self._shown) - 1))
            return False
        self.beginResetModel()
        self._report, self._shown = report, tuple(shown)
        self.endResetModel()
        return True

    def place_of(self, number: int) -> int | None:
        """Where the row with this number in the file stands; None: not among those shown."""
        if self._report is None:
            return None
        numbers = row_numbers(self._report)
        return numbers.index(number) if number in numbers else None

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt has it
        """The rows shown."""
        return 0 if parent.isValid() or self._report is None else len(self._report.preview)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt has it
        """The columns shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A value on one line; all of it as the tool tip."""
        if self._report is None or not index.isValid():
            return None
        column = self._shown[index.column()]
        row = self._report.preview[index.row()]
        value = row[column] if column < len(row) else ""
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return " ".join(value.split())
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(value[:TIP_CHARACTERS])
            case Qt.ItemDataRole.ForegroundRole if self._report.columns[column].name not in self._uses:
                return QApplication.palette().color(QPalette.ColorRole.PlaceholderText)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Names of columns, numbers of rows."""
        if self._report is None or role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        if orientation is Qt.Orientation.Vertical:
            return f"{row_numbers(self._report)[section]:,}"
        column = self._report.columns[self._shown[section]]
        return column.name if role == Qt.ItemDataRole.DisplayRole else plain_tip(self._describe(column))

    def _describe(self, column: Column) -> str:
        """What a column holds, for its tool tip."""
        kinds = {
            ColumnKind.TEXT: self.tr("text"),
            ColumnKind.NUMBER: self.tr("numbers"),
            ColumnKind.OTHER: self.tr("other values"),
        }
        words = self.tr("{name}: {kind}, {distinct:,} different, {empty:,} empty")
        return words.format(
            name=column.name, kind=kinds[column.kind], distinct=column.distinct, empty=column.empty
        )


def row_numbers(report: DataReport) -> tuple[int, ...]:
    """The place each row of the preview has in the file."""
    return report.preview_rows or tuple(range(1, len(report.preview) + 1))


def _head(name: str, uses: Mapping[str, str], guessed: Set[str]) -> HeadColumn:
    use = uses.get(name, "")
    return HeadColumn(name, use, bool(use) and use in guessed)
