"""One row after the other as the model sees it: the text with its trained part marked, a pair, an image."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from gettext import gettext as _
from gettext import ngettext

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.options.choices import Task
from core.services.inspect import Column, ColumnKind, Columns, DataReport, Seen, SeenPart, uses_for
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.data_charts import ImagesOfOne
from gui.widgets.inputs import ChoiceList, Segment
from gui.widgets.labels import plain_tip

NARROWEST_LETTERS = 13
LIST_PADDING = 56
"""What a list has beside its text: its arrow and the room around it."""


@dataclass(frozen=True)
class HeadColumn:
    """A column: its name, what it is (a value of the choices; empty: nothing), and whether that is a guess."""

    name: str
    use: str = ""
    is_guess: bool = False


class RoleHeader(QHeaderView):
    """Names of columns, and below each a list. Tab goes from list to list; one out of sight is scrolled into view.

    Signals:
        use_chosen: The name of a column, and the value the person chose for it.

    Args:
        table: Whose header it is.
    """

    use_chosen = Signal(str, str)

    def __init__(self, table: QTableView) -> None:
        super().__init__(Qt.Orientation.Horizontal, table)
        self._table = table
        self._columns: tuple[HeadColumn, ...] = ()
        self._choices: tuple[Segment, ...] = ()
        self._lists: list[ChoiceList] = []
        self.setDefaultAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeading)
        self.setHighlightSections(False)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setMinimumSectionSize(NARROWEST_LETTERS * self.fontMetrics().averageCharWidth())
        self.sectionResized.connect(self._place)
        table.horizontalScrollBar().valueChanged.connect(self._place)

    def set_columns(self, columns: Sequence[HeadColumn], choices: Sequence[Segment]) -> None:
        is_other = [column.name for column in columns] != [column.name for column in self._columns]
        if is_other or tuple(choices) != self._choices:
            self._columns, self._choices = tuple(columns), tuple(choices)
            self._make_lists()
        self._columns = tuple(columns)
        for box, column in zip(self._lists, columns, strict=True):
            self._dress(box, column)
        self._place()

    @property
    def lists(self) -> dict[str, ChoiceList]:
        return {column.name: box for column, box in zip(self._columns, self._lists, strict=True)}

    def sizeHint(self) -> QSize:
        size = super().sizeHint()
        list_height = self._lists[0].sizeHint().height() if self._lists else 0
        return QSize(size.width(), self._name_height() + list_height + SPACING // 2)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.FocusIn and watched in self._lists:
            self.show_column(self._lists.index(watched))
        return super().eventFilter(watched, event)

    def show_column(self, column: int) -> None:
        model = self._table.model()
        if model is not None and model.rowCount():
            top = max(0, self._table.rowAt(0))
            self._table.scrollTo(model.index(top, column))

    def least_width(self, column: int) -> int:
        """Pixels in which the name of a column and what it is can be read, within reason."""
        box, metrics = self._lists[column], self.fontMetrics()
        use = box.fontMetrics().horizontalAdvance(box.currentText()) + LIST_PADDING
        name = min(
            metrics.horizontalAdvance(self._columns[column].name),
            NARROWEST_LETTERS * metrics.averageCharWidth(),
        )
        return max(use, name) + 2 * SPACING

    def _make_lists(self) -> None:
        for old in self._lists:
            old.hide()
            old.deleteLater()
        self._lists = []
        for column in self._columns:
            box = ChoiceList(self._choices, self.viewport())
            box.setProperty("column", column.name)
            box.activated.connect(self._tell)
            box.installEventFilter(self)
            box.show()
            self._lists.append(box)
        for before, after in zip([self._table, *self._lists], self._lists, strict=False):
            self._table.setTabOrder(before, after)
        self.updateGeometry()

    def _dress(self, box: ChoiceList, column: HeadColumn) -> None:
        box.choose(column.use)
        for index, choice in enumerate(self._choices):
            is_marked = column.is_guess and choice.value == column.use
            text = _("{use} · guess").format(use=choice.title) if is_marked else choice.title
            box.setItemText(index, text)
        name = _("What column {name} is, guessed") if column.is_guess else _("What column {name} is")
        box.setAccessibleName(name.format(name=column.name))
        box.setToolTip(_("Guessed from the data; choose another if it is wrong") if column.is_guess else "")

    def _place(self) -> None:
        top = self._name_height()
        for index, box in enumerate(self._lists):
            left = self.sectionViewportPosition(index) + SPACING // 2
            width = self.sectionSize(index) - SPACING
            box.setGeometry(left, top, max(1, width), box.sizeHint().height())

    def _name_height(self) -> int:
        return self.fontMetrics().height() + 2 * SPACING

    def _tell(self) -> None:
        box = self.sender()
        if isinstance(box, ChoiceList):
            self.use_chosen.emit(str(box.property("column")), str(box.currentData()))


LINES = 5


class SeenText(QPlainTextEdit):
    """A text that can be read, selected and scrolled."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parts: tuple[SeenPart, ...] = ()
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setAcceptDrops(False)
        self.setMinimumHeight(LINES * self.fontMetrics().height())
        theme.changed.connect(self._paint_parts)

    def show_parts(self, parts: Sequence[SeenPart]) -> None:
        self._parts = tuple(parts)
        learned = " … ".join(part.text for part in parts if part.trained)
        self.setAccessibleDescription(_("Learned: {text}").format(text=learned) if learned else "")
        self._paint_parts()

    @property
    def parts(self) -> tuple[SeenPart, ...]:
        return self._parts

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def _paint_parts(self) -> None:
        self.clear()
        cursor = self.textCursor()
        for part in self._parts:
            cursor.insertText(part.text, trained_format(self._theme) if part.trained else QTextCharFormat())
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        self.setTextCursor(cursor)


def trained_format(theme: Theme) -> QTextCharFormat:
    made = QTextCharFormat()
    made.setBackground(QColor(theme.tokens.accent_soft))
    made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
    made.setUnderlineColor(QColor(theme.tokens.accent))
    return made


class Mark(QWidget):
    """A small piece of what a trained part looks like, for a legend."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        line = self.fontMetrics().height()
        self.setFixedSize(2 * line, line)
        theme.changed.connect(self.update)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        box = QRectF(0, 1, self.width(), self.height() - 2)
        painter.fillRect(box, QColor(self._theme.tokens.accent_soft))
        painter.setPen(QPen(QColor(self._theme.tokens.accent), 1, Qt.PenStyle.SolidLine))
        painter.drawLine(box.bottomLeft(), box.bottomRight())


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
        self._report = report
        self._known = ()
        if report is not None:
            name = _("The first {count} of {rows:,} rows")
            words = name.format(count=len(report.preview), rows=report.rows)
            self.table.setAccessibleName(words)
            left_out = _("The first {count} of {all:,} columns; others are chosen below the table").format(
                count=MOST_COLUMNS, all=len(report.columns)
            )
            told = (words if report.rows > len(report.preview) else "", left_out if self.leaves_out else "")
            self._words.setText(" · ".join(part for part in told if part))
        self._words.setVisible(bool(self._words.text()))

    @property
    def leaves_out(self) -> bool:
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
        nothing = Segment("", _("Ignore"), _("The model doesn't see it."))
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
        return 0 if parent.isValid() or self._report is None else len(self._report.preview)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt has it
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
        if self._report is None or role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        if orientation is Qt.Orientation.Vertical:
            return f"{row_numbers(self._report)[section]:,}"
        column = self._report.columns[self._shown[section]]
        return column.name if role == Qt.ItemDataRole.DisplayRole else plain_tip(self._describe(column))

    def _describe(self, column: Column) -> str:
        kinds = {
            ColumnKind.TEXT: _("text"),
            ColumnKind.NUMBER: _("numbers"),
            ColumnKind.OTHER: _("other values"),
        }
        words = _("{name}: {kind}, {distinct:,} different, {empty:,} empty")
        return words.format(
            name=column.name, kind=kinds[column.kind], distinct=column.distinct, empty=column.empty
        )


def row_numbers(report: DataReport) -> tuple[int, ...]:
    """The place each row of the preview has in the file."""
    return report.preview_rows or tuple(range(1, len(report.preview) + 1))


def _head(name: str, uses: Mapping[str, str], guessed: Set[str]) -> HeadColumn:
    use = uses.get(name, "")
    return HeadColumn(name, use, bool(use) and use in guessed)


SIDE_BY_SIDE_LETTERS = 84
"""Two answers stand side by side where there is room for so many letters, else one below the other."""


class SeenPane(QWidget):
    """What the model sees of the first samples, with a way to the next one."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._seen: tuple[Seen, ...] = ()
        self._place = 0
        self._has_rows = False
        self._texts = TextsOfOne(theme)
        self._images = ImagesOfOne()
        self._stack = QStackedWidget()
        self._stack.addWidget(self._texts)
        self._stack.addWidget(self._images)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(self._top_line())
        layout.addWidget(self._stack, 1)

    def show_report(self, report: DataReport | None, task: Task) -> None:
        """Show the samples of a report; the place among them stays."""
        seen = report.seen if report is not None else ()
        if seen is self._seen:
            return
        self._seen = seen
        self._has_rows = report is not None and bool(report.columns) and task is not Task.CAUSAL_LM
        self._place = min(self._place, max(0, len(seen) - 1))
        self._texts.set_task(task)
        self._show()

    @property
    def words(self) -> str:
        return self._words.text()

    @property
    def texts(self) -> "TextsOfOne":
        return self._texts

    def step(self, by: int) -> None:
        self._place = max(0, min(len(self._seen) - 1, self._place + by))
        self._show()

    def _top_line(self) -> QHBoxLayout:
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._back = self._button(_("Previous"), _("Previous row"), -1)
        self._on = self._button(_("Next"), _("Next row"), 1)
        line = QHBoxLayout()
        line.setSpacing(SPACING // 2)
        line.addWidget(self._words, 1)
        line.addWidget(self._back, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self._on, 0, Qt.AlignmentFlag.AlignTop)
        return line

    def _button(self, text: str, name: str, by: int) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(name)
        button.clicked.connect(self._go_on if by > 0 else self._go_back)
        set_role(button, Role.LINK)
        return button

    def _go_on(self) -> None:
        self.step(1)

    def _go_back(self) -> None:
        self.step(-1)

    def _show(self) -> None:
        self._back.setEnabled(self._place > 0)
        self._on.setEnabled(self._place < len(self._seen) - 1)
        if not self._seen:
            return
        seen = self._seen[self._place]
        self._words.setText(self._describe(seen))
        if seen.image:
            self._images.show_sample(seen)
        else:
            self._texts.show_sample(seen)
        self._stack.setCurrentWidget(self._images if seen.image else self._texts)

    def _describe(self, seen: Seen) -> str:
        parts = [_("{place} of {count}").format(place=self._place + 1, count=len(self._seen))]
        if self._has_rows:
            parts.append(_("row {row:,}").format(row=seen.row))
        if seen.tokens is not None:
            parts.append(
                ngettext("{count:,} token", "{count:,} tokens", seen.tokens).format(count=seen.tokens)
            )
        if seen.is_cut:
            parts.append(_("cut off at its end"))
        if seen.label:
            parts.append(_("answer: {label}").format(label=seen.label))
        return " · ".join(parts)


class TextsOfOne(QWidget):
    """A text, or the two answers of a pair, with a legend where a part of it is trained on."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.first, self.second = SeenText(theme), SeenText(theme)
        self.second.setAccessibleName(_("The worse answer, as the model sees it"))
        self._better, self._worse = QLabel(_("Chosen")), QLabel(_("Rejected"))
        self._columns = QHBoxLayout()
        self._columns.setSpacing(SPACING)
        self._sides = (QWidget(), QWidget())
        headings, texts = (self._better, self._worse), (self.first, self.second)
        for side, heading, text in zip(self._sides, headings, texts, strict=True):
            set_role(heading, Role.GROUP_TITLE)
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(2)
            column.addWidget(heading)
            column.addWidget(text, 1)
            self._columns.addWidget(side, 1)
        self.legend = Legend(theme)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(self._columns, 1)
        layout.addWidget(self.legend)

    def set_task(self, task: Task) -> None:
        self.legend.set_task(task)

    def show_sample(self, seen: Seen) -> None:
        is_pair = bool(seen.rejected)
        is_all = not is_pair and all(part.trained for part in seen.parts)
        self.first.show_parts([SeenPart(part.text) for part in seen.parts] if is_all else seen.parts)
        self.legend.show_whole(is_all)
        self.second.show_parts(seen.rejected)
        for widget in (self._better, self._sides[1]):
            widget.setVisible(is_pair)
        name = _("The better answer, as the model sees it") if is_pair else _("What the model sees")
        self.first.setAccessibleName(name)
        self.legend.setVisible(any(part.trained for part in (*seen.parts, *seen.rejected)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_wide = self.width() >= SIDE_BY_SIDE_LETTERS * self.fontMetrics().averageCharWidth()
        across, down = QHBoxLayout.Direction.LeftToRight, QHBoxLayout.Direction.TopToBottom
        self._columns.setDirection(across if is_wide else down)


class Legend(QWidget):
    """Which part is learned and which is only read."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING // 2)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._mark = Mark(theme)
        self._task = Task.CHAT
        line.addWidget(self._mark)
        line.addWidget(self._words, 1)
        self.show_whole(False)

    @property
    def words(self) -> str:
        return self._words.text()

    def set_task(self, task: Task) -> None:
        """Speak of what the marked part is for in a task."""
        self._task = task

    def show_whole(self, is_all: bool) -> None:
        """Say that all of it is learned, which needs no mark, or what the mark means."""
        self._mark.setVisible(not is_all)
        if is_all:
            self._words.setText(_("All of it is learned."))
        elif self._task is Task.PREFERENCE:
            self._words.setText(
                _("tinted and underlined: made likelier on the better side, unlikelier on the worse one")
            )
        else:
            self._words.setText(_("tinted and underlined: learned; all else is only read"))
