"""The views of the data: its first rows, what the model sees of them, and how long they are."""

import html
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
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
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
    QSizePolicy,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.options.choices import Task
from core.services.inspect import Column, ColumnKind, Columns, DataReport, Lengths, Seen, SeenPart, uses_for
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.widgets.inputs import ChoiceList, Segment
from gui.widgets.labels import link_button, plain_tip, text_label

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
        """Show what each column is, of these choices."""
        is_other = [column.name for column in columns] != [column.name for column in self._columns]
        if is_other or tuple(choices) != self._choices:
            self._columns, self._choices = tuple(columns), tuple(choices)
            self._make_lists()
        self._columns = tuple(columns)
        for box, column in zip(self._lists, columns, strict=True):
            box.choose(column.use)
            for index, choice in enumerate(choices):
                is_marked = column.is_guess and choice.value == column.use
                box.setItemText(
                    index, _("{use} · guess").format(use=choice.title) if is_marked else choice.title
                )
            name = _("What column {name} is, guessed") if column.is_guess else _("What column {name} is")
            box.setAccessibleName(name.format(name=column.name))
            tip = _("Guessed from the data; choose another if it is wrong")
            box.setToolTip(tip if column.is_guess else "")
        self._place()

    @property
    def lists(self) -> dict[str, ChoiceList]:
        """The lists by the names of their columns."""
        return {column.name: box for column, box in zip(self._columns, self._lists, strict=True)}

    def sizeHint(self) -> QSize:
        size = super().sizeHint()
        list_height = self._lists[0].sizeHint().height() if self._lists else 0
        return QSize(size.width(), self._name_height() + list_height + SPACING // 2)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Bring the column into view whose list gets the focus."""
        model = self._table.model()
        if event.type() is QEvent.Type.FocusIn and watched in self._lists and model and model.rowCount():
            top = max(0, self._table.rowAt(0))
            self._table.scrollTo(model.index(top, self._lists.index(watched)))
        return super().eventFilter(watched, event)

    def least_width(self, column: int) -> int:
        """Pixels in which the name of a column and what it is can be read, within reason."""
        box, metrics = self._lists[column], self.fontMetrics()
        use = box.fontMetrics().horizontalAdvance(box.currentText()) + LIST_PADDING
        widest = NARROWEST_LETTERS * metrics.averageCharWidth()
        return max(use, min(metrics.horizontalAdvance(self._columns[column].name), widest)) + 2 * SPACING

    def _make_lists(self) -> None:
        for old in self._lists:
            old.hide()
            old.deleteLater()
        self._lists = []
        for column in self._columns:
            box = ChoiceList(self._choices, self.viewport())
            box.activated.connect(
                lambda _index, name=column.name, box=box: self.use_chosen.emit(name, str(box.currentData()))
            )
            box.installEventFilter(self)
            box.show()
            self._lists.append(box)
        for before, after in zip([self._table, *self._lists], self._lists, strict=False):
            self._table.setTabOrder(before, after)
        self.updateGeometry()

    def _place(self) -> None:
        for index, box in enumerate(self._lists):
            left = self.sectionViewportPosition(index) + SPACING // 2
            width = max(1, self.sectionSize(index) - SPACING)
            box.setGeometry(left, self._name_height(), width, box.sizeHint().height())

    def _name_height(self) -> int:
        return self.fontMetrics().height() + 2 * SPACING


class SeenText(QPlainTextEdit):
    """A text as the model sees it, to be read and selected: what it learns to say is tinted and underlined."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.parts: tuple[SeenPart, ...] = ()
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setAcceptDrops(False)
        self.setMinimumHeight(5 * self.fontMetrics().height())
        theme.changed.connect(self._paint_parts)

    def show_parts(self, parts: Sequence[SeenPart]) -> None:
        """Show these stretches of text, one after the other."""
        self.parts = tuple(parts)
        learned = " … ".join(part.text for part in parts if part.trained)
        self.setAccessibleDescription(_("Learned: {text}").format(text=learned) if learned else "")
        self._paint_parts()

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def _paint_parts(self) -> None:
        self.clear()
        cursor = self.textCursor()
        for part in self.parts:
            cursor.insertText(part.text, trained_format(self._theme) if part.trained else QTextCharFormat())
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        self.setTextCursor(cursor)


def trained_format(theme: Theme) -> QTextCharFormat:
    made = QTextCharFormat()
    made.setBackground(QColor(theme.tokens.accent_soft))
    made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
    made.setUnderlineColor(QColor(theme.tokens.accent))
    return made


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
        self._words = text_label(role=Role.HINT)
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
        heads = []
        for index in shown:
            name = report.columns[index].name
            heads.append(HeadColumn(name, uses.get(name, ""), name in uses and uses[name] in guessed))
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


SIDE_BY_SIDE_LETTERS = 84
"""Two answers stand side by side where there is room for so many letters, else one below the other."""


class SeenPane(QWidget):
    """What the model sees of the first samples, one after the other."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._seen: tuple[Seen, ...] = ()
        self._place = 0
        self._has_rows = False
        self.texts = TextsOfOne(theme)
        self._images = ImagesOfOne()
        self._stack = QStackedWidget()
        self._stack.addWidget(self.texts)
        self._stack.addWidget(self._images)
        self._words = text_label(role=Role.HINT)
        self._back = link_button(_("Previous"), lambda: self.step(-1))
        self._back.setAccessibleName(_("Previous row"))
        self._on = link_button(_("Next"), lambda: self.step(1))
        self._on.setAccessibleName(_("Next row"))
        line = QHBoxLayout()
        line.setSpacing(SPACING // 2)
        line.addWidget(self._words, 1)
        line.addWidget(self._back, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self._on, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(line)
        layout.addWidget(self._stack, 1)

    def show_report(self, report: DataReport | None, task: Task) -> None:
        """Show the samples of a report; the place among them stays."""
        seen = report.seen if report is not None else ()
        if seen is self._seen:
            return
        self._seen = seen
        self._has_rows = report is not None and bool(report.columns) and task is not Task.CAUSAL_LM
        self.texts.task = task
        self.step(0)

    @property
    def words(self) -> str:
        return self._words.text()

    def step(self, by: int) -> None:
        """Show another sample."""
        last = max(0, len(self._seen) - 1)
        self._place = max(0, min(last, self._place + by))
        self._back.setEnabled(self._place > 0)
        self._on.setEnabled(self._place < last)
        if not self._seen:
            return
        seen = self._seen[self._place]
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
        self._words.setText(" · ".join(parts))
        shown = self._images if seen.image else self.texts
        shown.show_sample(seen)
        self._stack.setCurrentWidget(shown)


class TextsOfOne(QWidget):
    """A text, or the two answers of a pair, with a legend where a part of it is trained on."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.task = Task.CHAT
        self._theme = theme
        self._is_all = False
        self.first, self.second = SeenText(theme), SeenText(theme)
        self.second.setAccessibleName(_("The worse answer, as the model sees it"))
        self._better, self._worse = QLabel(_("Better answer")), QLabel(_("Worse answer"))
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
        self.legend = QLabel()
        self.legend.setWordWrap(True)
        set_role(self.legend, Role.HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(self._columns, 1)
        layout.addWidget(self.legend)
        theme.changed.connect(self._paint_legend)

    def show_sample(self, seen: Seen) -> None:
        is_pair = bool(seen.rejected)
        self._is_all = not is_pair and all(part.trained for part in seen.parts)
        self.first.show_parts([SeenPart(part.text) for part in seen.parts] if self._is_all else seen.parts)
        self.second.show_parts(seen.rejected)
        for widget in (self._better, self._sides[1]):
            widget.setVisible(is_pair)
        name = _("The better answer, as the model sees it") if is_pair else _("What the model sees")
        self.first.setAccessibleName(name)
        self._paint_legend()
        self.legend.setVisible(any(part.trained for part in (*seen.parts, *seen.rejected)))

    def _paint_legend(self) -> None:
        """Say that all of it is learned, or what is, in the looks of what is."""
        look = f"background-color: {self._theme.tokens.accent_soft}; text-decoration: underline"
        mark = f'<span style="{look}">{html.escape(_("tinted and underlined"))}</span>'
        if self._is_all:
            self.legend.setText(_("All of it is learned."))
        elif self.task is Task.PREFERENCE:
            words = _("{mark}: made likelier on the better side, unlikelier on the worse one")
            self.legend.setText(words.format(mark=mark))
        else:
            self.legend.setText(_("{mark}: learned; all else is only read").format(mark=mark))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the answers of a pair side by side where there is room."""
        super().resizeEvent(event)
        is_wide = self.width() >= SIDE_BY_SIDE_LETTERS * self.fontMetrics().averageCharWidth()
        across, down = QHBoxLayout.Direction.LeftToRight, QHBoxLayout.Direction.TopToBottom
        self._columns.setDirection(across if is_wide else down)


class ImagesOfOne(QWidget):
    """An image as it is in the file, and as the model sees it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.before, self.after = Picture(_("In the file")), Picture(_("What the model sees"))
        arrow = QLabel("→" if self.layoutDirection() is Qt.LayoutDirection.LeftToRight else "←")
        set_role(arrow, Role.MUTED)
        font = QFont(arrow.font())
        font.setPointSizeF(1.5 * font.pointSizeF())
        arrow.setFont(font)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING)
        line.addWidget(self.before, 1)
        line.addWidget(arrow)
        line.addWidget(self.after, 1)

    def show_sample(self, seen: Seen) -> None:
        self.before.show_png(seen.original, seen.label)
        self.after.show_png(seen.image, seen.label)


class Picture(QWidget):
    """An image as large as there is room, with a caption that names its size."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._pixmap = QPixmap()
        self._picture, self._caption = QLabel(), QLabel()
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._picture.setMinimumSize(64, 64)
        self._picture.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self._caption.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._caption.setWordWrap(True)
        set_role(self._caption, Role.HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._picture, 1)
        layout.addWidget(self._caption)

    def show_png(self, content: bytes, label: str) -> None:
        self._pixmap = QPixmap()
        self._pixmap.loadFromData(content)
        size = self._pixmap.size()
        self._caption.setText(
            _("{title}, {width} × {height}").format(
                title=self._title, width=size.width(), height=size.height()
            )
        )
        self._picture.setAccessibleName(f"{self._caption.text()} {label}".strip())
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        if self._pixmap.isNull():
            return
        ratio = self.devicePixelRatioF()
        room = self._picture.size() * ratio
        is_tiny = self._pixmap.width() * 2 <= room.width()  # pixels of a tiny image are to be seen as such
        mode = Qt.TransformationMode
        scaled = self._pixmap.scaled(
            room,
            Qt.AspectRatioMode.KeepAspectRatio,
            mode.FastTransformation if is_tiny else mode.SmoothTransformation,
        )
        scaled.setDevicePixelRatio(ratio)
        self._picture.setPixmap(scaled)


HEIGHT_LINES = 9
GAP = 1.0
ROOM_BEYOND = 1.3
"""The limit is drawn where it is no further than this beyond the longest sample; else the bars would be squashed."""


class LengthBars(QWidget):
    """A histogram. What is longer than the limit is grey: it is not seen."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lengths: Lengths | None = None
        self.limit: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_lengths(self, lengths: Lengths | None, limit: int | None) -> None:
        """Show these lengths, and a line at `limit`, in the same unit; None: no line."""
        self._lengths, self.limit = lengths, limit
        self.update()

    @property
    def has_line(self) -> bool:
        limit, lengths = self.limit, self._lengths
        return limit is not None and lengths is not None and limit <= ROOM_BEYOND * lengths.edges[-1]

    def sizeHint(self) -> QSize:
        return QSize(30 * self.fontMetrics().averageCharWidth(), HEIGHT_LINES * self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(10 * self.fontMetrics().averageCharWidth(), 2 * self.sizeHint().height() // 3)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._lengths is None or not self._lengths.counts:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        plot = self._plot()
        self._paint_bars(painter, plot, self._lengths)
        self._paint_axis(painter, plot, self._lengths)
        if self.has_line:
            self._paint_line(painter, plot)

    def _plot(self) -> QRectF:
        line = self.fontMetrics().height()
        return QRectF(1, line + SPACING / 2, self.width() - 2, self.height() - 2 * line - SPACING)

    def _paint_bars(self, painter: QPainter, plot: QRectF, lengths: Lengths) -> None:
        tokens, highest = self._theme.tokens, max(lengths.counts) or 1
        painter.setPen(Qt.PenStyle.NoPen)
        for index, count in enumerate(lengths.counts):
            left, right = (self._x(plot, edge) for edge in lengths.edges[index : index + 2])
            height = max(2.0, plot.height() * count / highest) if count else 0.0
            bar = QRectF(min(left, right), plot.bottom() - height, abs(right - left), height)
            bar.adjust(GAP / 2, 0, -GAP / 2, 0)
            is_cut = self.limit is not None and lengths.edges[index] >= self.limit
            painter.setBrush(QColor(tokens.others if is_cut else tokens.run))
            painter.drawRect(bar)

    def _paint_axis(self, painter: QPainter, plot: QRectF, lengths: Lengths) -> None:
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        painter.setPen(QColor(tokens.line))
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        painter.setPen(QColor(tokens.muted))
        taken = 0.0
        for value in _round_values(lengths.edges[0], self._end(lengths)):
            text, x = f"{value:,}", self._x(plot, value)
            width = metrics.horizontalAdvance(text)
            left = min(max(0.0, x - width / 2), self.width() - width)
            if taken and abs(left - taken) < 2 * width:
                continue
            taken = left
            painter.drawText(QPointF(left, plot.bottom() + metrics.ascent() + 2), text)

    def _paint_line(self, painter: QPainter, plot: QRectF) -> None:
        assert self.limit is not None
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        x = self._x(plot, self.limit)
        painter.setPen(QPen(QColor(tokens.bad), 1.5, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, plot.top() - 2), QPointF(x, plot.bottom()))
        text = _("cut off at {limit:,}").format(limit=self.limit)
        width = metrics.horizontalAdvance(text)
        left = min(max(0.0, x - width / 2), self.width() - width)
        painter.setPen(QColor(tokens.bad))
        painter.drawText(QPointF(left, metrics.ascent()), text)

    def _end(self, lengths: Lengths) -> int:
        return max(lengths.edges[-1], self.limit or 0) if self.has_line else lengths.edges[-1]

    def _x(self, plot: QRectF, value: float) -> float:
        assert self._lengths is not None
        first, last = self._lengths.edges[0], self._end(self._lengths)
        share = (value - first) / max(1, last - first)
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            share = 1 - share
        return plot.left() + share * plot.width()


def _round_values(first: int, last: int) -> list[int]:
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step <= 6)
    return list(range(-(-first // step) * step, last + 1, step))


def cut_by(lengths: Lengths, limit: int) -> tuple[int, bool]:
    """How many samples are longer than `limit`, and whether that is exact: within a bar it is shared out evenly."""
    if lengths.limit == limit:
        return lengths.cut, True
    if limit >= lengths.longest:
        return 0, True
    longer, exact = 0.0, True
    for index, count in enumerate(lengths.counts):
        start, end = lengths.edges[index], lengths.edges[index + 1]
        if start > limit:
            longer += count
        elif end > limit + 1 and count:
            longer += count * (end - limit - 1) / (end - start)
            exact = False
    return round(longer), exact


TOKENS = "tokens"


class LengthsPane(QWidget):
    """Bars and words; the line follows the option at once, before the data has been counted anew."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lengths: Lengths | None = None
        self._limit: int | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        self._words = text_label(role=Role.HINT)
        self.bars = LengthBars(theme)
        layout.addWidget(self.bars, 1)
        layout.addWidget(self._words)

    def show_report(self, report: DataReport | None) -> None:
        self._lengths = report.lengths if report is not None else None
        self._show()

    def set_limit(self, limit: int | None) -> None:
        self._limit = limit
        self._show()

    @property
    def words(self) -> str:
        return self._words.text()

    def _show(self) -> None:
        lengths = self._lengths
        if lengths is None:
            return
        unit = _("tokens") if lengths.unit == TOKENS else _("characters")
        is_cut = lengths.unit == TOKENS and lengths.limit is not None
        limit = (self._limit or lengths.limit) if is_cut else None
        self.bars.show_lengths(lengths, limit)
        words = _("Half have {median:,} {unit} or fewer, the longest has {longest:,}.")
        words = words.format(median=lengths.median, longest=lengths.longest, unit=unit)
        if limit is not None:
            count, is_exact = cut_by(lengths, limit)
            if not count:
                cut = _("None is cut off at {limit:,} {unit}.")
            elif is_exact:
                cut = _("{count:,} of {rows:,} are cut off at {limit:,} {unit}.")
            else:
                cut = _("About {count:,} of {rows:,} are cut off at {limit:,} {unit}.")
            rows = sum(lengths.counts)
            words = f"{cut.format(count=count, rows=rows, limit=limit, unit=unit)} {words}"
        self._words.setText(words)
        self.bars.setAccessibleName(_("Lengths of the rows: {words}").format(words=words))
