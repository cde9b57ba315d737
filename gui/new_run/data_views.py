"""The views of the data: its first rows, what the model sees of them, how long they are, and its labels."""

import html
from collections.abc import Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QColor,
    QFont,
    QPalette,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSizePolicy,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.base.formats import enumerated, in_line, paragraph
from core.base.language import _, ngettext
from core.jobs.inspect import DataColumn, DataColumnKind, DataReport, Lengths, Seen, SeenPart
from core.options.choices import Task
from core.services.columns import Columns, uses_for
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.widgets.bars import Meter, NamesGrid
from gui.widgets.inputs import WheelGuard
from gui.widgets.labels import ElidedLabel, isolated, link_button, plain_tip, text_label
from gui.widgets.layout import FLUSH, PageScroll, clear, fill, hbox, vbox
from gui.widgets.pictures import Picture, decoded
from gui.widgets.tables import Index, set_up_rows

WIDEST_LETTERS, NARROW_LETTERS = 44, 10
"""Width of a column at most, and at least if there is no room for all of them."""
TIP_CHARACTERS = 1200
ROWS_SHOWN = 5
"""At least so many rows are visible, below a header of two lines."""
ROWS_MEASURED = 30
"""How many rows determine a column's width; measuring all of many columns takes a second."""

MARGINS = (0, SPACING // 2, 0, 0)


class RowsModel(QAbstractTableModel):
    """The first rows of a report, with the use of each column below its name. Unused columns are muted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.report: DataReport | None = None
        self._uses: Mapping[str, str] = {}
        self._named: Mapping[str, str] = {}
        self._shown: object = None

    def show_report(self, report: DataReport | None, named: Mapping[str, str]) -> bool:
        """Show another report, or other names of its labels; returns whether its rows are different."""
        shown = (report.columns, report.preview, report.label_column, named) if report else None
        self.report, self._named = report, named
        if shown and shown == self._shown:
            return False
        self._shown = shown
        self.beginResetModel()
        self._uses = {}
        self.endResetModel()
        return True

    def show_uses(self, uses: Mapping[str, str]) -> None:
        """Show what columns are used for, by their names."""
        if uses != self._uses and self.columnCount() and self.rowCount():
            self._uses = dict(uses)
            last = self.index(self.rowCount() - 1, self.columnCount() - 1)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last.column())
            self.dataChanged.emit(self.index(0, 0), last)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt has it
        return 0 if parent.isValid() or self.report is None else len(self.report.preview)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt has it
        return 0 if parent.isValid() or self.report is None else len(self.report.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A value on one line, with all of it as the tool tip."""
        if self.report is None or not index.isValid():
            return None
        row = self.report.preview[index.row()]
        value = row[index.column()] if index.column() < len(row) else ""
        match role:
            case Qt.ItemDataRole.DisplayRole:
                is_label = self.report.columns[index.column()].name == self.report.label_column
                text = " ".join(value.split())
                return isolated(self._named.get(text, text) if is_label else text)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(value[:TIP_CHARACTERS])
            case Qt.ItemDataRole.ForegroundRole:
                if self.report.columns[index.column()].name not in self._uses:
                    return QApplication.palette().color(QPalette.ColorRole.PlaceholderText)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if self.report is None or role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        if orientation is Qt.Orientation.Vertical:
            return f"{row_numbers(self.report)[section]:,}"
        column = self.report.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            use = self._uses.get(column.name, _("Ignored"))
            return f"{column.name}\n{use} ▾"
        return plain_tip("\n".join((column_text(column), _("Click to choose what it is used for."))))


def column_text(column: DataColumn) -> str:
    kinds = {
        DataColumnKind.TEXT: _("text"),
        DataColumnKind.NUMBER: _("numbers"),
        DataColumnKind.OTHER: _("other values"),
    }
    text = _("{name}: {kind}, {distinct:,} different, {empty:,} empty")
    name, kind = isolated(column.name), kinds[column.kind]
    return text.format(name=name, kind=kind, distinct=column.distinct, empty=column.empty)


def row_numbers(report: DataReport) -> tuple[int, ...]:
    """Return the number of each row of the preview in the file."""
    return report.preview_rows or tuple(range(1, len(report.preview) + 1))


class RowsPane(QWidget):
    """The table of rows; a click on a column's header, or Return in a cell, opens a menu of uses."""

    use_chosen = Signal(str, str)  # the name of a column, and the key of its use; empty: none

    def __init__(self) -> None:
        super().__init__()
        self._task = Task.TEXT_CLASSIFICATION
        self._keys: dict[str, str] = {}
        self._wanted: list[int] = []
        self.model = RowsModel(self)
        self.table = QTableView()
        self.table.setModel(self.model)
        set_up_rows(self.table, padding=SPACING)
        WheelGuard(self.table.viewport(), self.table)
        self.table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.table.setCornerButtonEnabled(False)
        self.table.setAlternatingRowColors(True)
        self.table.verticalHeader().show()
        self.table.activated.connect(lambda index: self._open_menu(index.column()))
        header = self.table.horizontalHeader()
        header.setSectionsClickable(True)
        header.setResizeContentsPrecision(ROWS_MEASURED)
        header.sectionClicked.connect(self._open_menu)
        self.table.setMinimumHeight((ROWS_SHOWN + 3) * self.table.verticalHeader().defaultSectionSize())
        self.model.headerDataChanged.connect(self._measure)
        self._count = text_label(role=Role.HINT)
        fill(QVBoxLayout(self), (self.table, 1), self._count, margins=MARGINS, spacing=SPACING // 2)

    def show_report(self, report: DataReport | None, named: Mapping[str, str]) -> None:
        """Show a report; `named` are its labels with the names given to them."""
        is_other = self.model.show_report(report, named)
        if report is None:
            return
        text = _("The first {count:,} of {rows:,} examples").format(
            count=len(report.preview), rows=report.rows
        )
        self.table.setAccessibleName(text)
        self._count.setText(text)
        self._count.setVisible(report.rows > len(report.preview))
        if is_other:
            self._measure()

    def _measure(self) -> None:
        """Find how wide each column has to be for its rows and its header."""
        header = self.table.horizontalHeader()
        self._wanted = [
            max(self.table.sizeHintForColumn(column), header.sectionSizeHint(column)) + SPACING
            for column in range(self.model.columnCount())
        ]
        self._set_widths()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_widths()

    def _set_widths(self) -> None:
        """Give each column what its content needs, up to a limit; the longest has what is left.

        If that is too much, unused and empty columns become narrow, and the others share what is left.
        """
        letter, report = self.fontMetrics().averageCharWidth(), self.model.report
        widths = [min(WIDEST_LETTERS * letter + SPACING, wanted) for wanted in self._wanted]
        if widths and report is not None:
            room, longest = self.table.viewport().width(), self._wanted.index(max(self._wanted))
            widths[longest] += max(0, room - sum(widths))
            if sum(widths) > room:
                kept = [one.name in self._keys and one.empty < report.rows for one in report.columns]
                order = sorted(range(len(widths)), key=lambda column: (kept[column], widths[column]))
                for place, column in enumerate(order):
                    share = (room - sum(widths[one] for one in order[:place])) // (len(order) - place)
                    most = max(NARROW_LETTERS * letter, share) if kept[column] else NARROW_LETTERS * letter
                    widths[column] = min(widths[column], most)
        for column, width in enumerate(widths):
            self.table.setColumnWidth(column, width)

    def show_uses(self, task: Task, columns: Columns, guessed: Set[str]) -> None:
        """Show the use of each column.

        Args:
            columns: Columns by the keys of their roles.
            guessed: The keys that were guessed.
        """
        self._task, self._keys = task, {name: key for key, name in columns.items()}
        titles = {use.key: use.title for use in uses_for(task)}
        uses = {name: titles.get(key, key) for name, key in self._keys.items()}
        guess = _("{use} · guessed")
        self.model.show_uses(
            {
                name: guess.format(use=use) if self._keys[name] in guessed else use
                for name, use in uses.items()
            }
        )

    def use_menu(self, column: int) -> QMenu:
        """Return the menu of what a column can be used for."""
        assert self.model.report is not None
        name = self.model.report.columns[column].name
        menu = QMenu(_("Use of column {name}").format(name=name), self)
        menu.setToolTipsVisible(True)
        group = QActionGroup(menu)
        uses = [(use.key, use.title, use.help) for use in uses_for(self._task)]
        for key, title, tip in (*uses, ("", _("Ignored"), _("The model doesn't use it."))):
            action = QAction(title, group, checkable=True, checked=self._keys.get(name, "") == key)
            action.setToolTip(tip)
            action.setData(key)
            menu.addAction(action)
        group.triggered.connect(lambda action: self.use_chosen.emit(name, str(action.data())))
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def _open_menu(self, column: int) -> None:
        header = self.table.horizontalHeader()
        below = QPoint(header.sectionViewportPosition(column), header.height())
        self.use_menu(column).popup(header.viewport().mapToGlobal(below))

    def show_row(self, number: int) -> bool:
        """Select the row with this number in the file; returns whether it is among those shown."""
        report = self.model.report
        numbers = row_numbers(report) if report is not None else ()
        if number not in numbers:
            return False
        place = numbers.index(number)
        self.table.selectRow(place)
        used = (
            [column for column, one in enumerate(report.columns) if one.name in self._keys] if report else []
        )
        empty = (column for column in used if not str(self.model.index(place, column).data() or ""))
        column = next(empty, used[-1] if used else 0)  # problems are of empty cells, or of labels and answers
        self.table.scrollTo(self.model.index(place, column), QAbstractItemView.ScrollHint.PositionAtCenter)
        return True


def trained_format(theme: Theme) -> QTextCharFormat:
    style = QTextCharFormat()
    style.setBackground(QColor(theme.tokens.accent_soft))
    style.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
    style.setUnderlineColor(QColor(theme.tokens.accent))
    return style


class SeenPane(QWidget):
    """What the model sees of the first examples, one at a time; what it learns is tinted and underlined."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._seen: tuple[Seen, ...] = ()
        self._named: Mapping[str, str] = {}
        self._place = 0
        self._has_rows = self._is_outdated = False
        self._task = Task.CHAT
        self.text, self.legend = QPlainTextEdit(), text_label(role=Role.HINT)
        self.text.setReadOnly(True)
        WheelGuard(self.text.viewport(), self.text)
        self.text.setTabChangesFocus(True)
        self.text.setAcceptDrops(False)  # a file dropped anywhere is the data
        self.text.setAccessibleName(_("What the model sees"))
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.before, self.after = Picture(), tuple(Picture() for _epoch in range(Seen.EPOCHS))
        texts, images = QWidget(), QWidget()
        self._images = images
        fill(QVBoxLayout(texts), self.text, self.legend, margins=FLUSH, spacing=SPACING // 2)
        first, later = ((self.before, 1), (self.after[0], 1)), ((picture, 1) for picture in self.after[1:])
        self._later = QWidget()
        self._later.setLayout(hbox(*later, spacing=SPACING // 2))
        images.setLayout(
            vbox((hbox(*first, spacing=SPACING // 2), 1), (self._later, 1), spacing=SPACING // 2)
        )
        self._stack = QStackedWidget()
        self._stack.addWidget(texts)
        self._stack.addWidget(images)
        self.facts = text_label(role=Role.HINT)
        self._back = link_button(_("Previous"), lambda: self.step(-1), name=_("Previous example"))
        self._next = link_button(_("Next"), lambda: self.step(1), name=_("Next example"))
        head = hbox((self.facts, 1), self._back, self._next, spacing=SPACING // 2)
        fill(QVBoxLayout(self), head, (self._stack, 1), margins=MARGINS, spacing=SPACING // 2)
        theme.changed.connect(lambda: self.step(0))

    def show_report(self, report: DataReport | None, task: Task, named: Mapping[str, str]) -> None:
        """Show the examples of a report, their labels as `named`; the place among them stays."""
        seen = report.seen if report is not None else ()
        if seen is self._seen and named == self._named:
            return
        self._seen, self._task, self._named = seen, task, named
        self._has_rows = report is not None and bool(report.columns) and task is not Task.CAUSAL_LM
        self.step(0)

    def set_outdated(self, is_outdated: bool) -> None:
        """Show whether images are made anew, after a change of options."""
        if is_outdated != self._is_outdated:
            self._is_outdated = is_outdated
            self.step(0)

    def step(self, by: int) -> None:
        """Show another example."""
        last = max(0, len(self._seen) - 1)
        self._place = max(0, min(last, self._place + by))
        self._back.setEnabled(self._place > 0)
        self._next.setEnabled(self._place < last)
        if not self._seen:
            return
        seen = self._seen[self._place]
        facts = [_("{place} of {count}").format(place=self._place + 1, count=len(self._seen))]
        if self._has_rows:
            facts.append(_("row {row:,}").format(row=seen.row))
        if seen.tokens is not None:
            tokens = ngettext("{count:,} token", "{count:,} tokens", seen.tokens)
            facts.append(tokens.format(count=seen.tokens))
        if seen.is_cut:
            facts.append(_("truncated"))
        if seen.file:
            facts.append(isolated(Path(seen.file).name))
        if seen.label:
            label = isolated(self._named.get(seen.label, seen.label))
            facts.append(_("label: {label}").format(label=label))
        if seen.images and self._is_outdated:
            facts = [_("Being updated…"), *facts]
        self.facts.setText(in_line(*facts))
        self._images.setEnabled(not self._is_outdated)
        if seen.images:
            self.before.show_image(_("In the file"), decoded(seen.original), seen.label, seen.file, seen.size)
            title = _("Epoch {number}") if len(seen.images) > 1 else _("What the model sees")
            for number, (picture, png) in enumerate(zip(self.after, seen.images, strict=False), 1):
                picture.show_image(title.format(number=number), decoded(png), seen.label)
            self._later.setVisible(len(seen.images) > 1)
        else:
            self._show_text(seen)
        self._stack.setCurrentIndex(1 if seen.images else 0)

    def _show_text(self, seen: Seen) -> None:
        """Show a text, or below its heading each answer of a pair, or one that is rated."""
        heading = QTextCharFormat()
        heading.setFontWeight(QFont.Weight.DemiBold)
        is_all = not seen.rejected and all(part.trained for part in seen.parts)
        titles = {True: _("Liked answer"), False: _("Answer that was not liked"), None: _("Chosen answer")}
        self.text.clear()
        cursor = self.text.textCursor()

        def insert(title: str, parts: tuple[SeenPart, ...]) -> None:
            if seen.rejected or seen.liked is not None:
                cursor.insertText(f"{title}\n", heading)
            for part in parts:
                is_marked = part.trained and not is_all
                cursor.insertText(part.text, trained_format(self._theme) if is_marked else QTextCharFormat())

        insert(titles[seen.liked], seen.parts)
        if seen.rejected:
            cursor.insertText("\n\n", QTextCharFormat())
            insert(_("Rejected answer"), seen.rejected)
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        self.text.setTextCursor(cursor)
        learned = " … ".join(part.text for part in (*seen.parts, *seen.rejected) if part.trained)
        self.text.setAccessibleDescription(
            _("Trained on: {text}").format(text=learned) if learned and not is_all else ""
        )
        style = f"background-color: {self._theme.tokens.accent_soft}; text-decoration: underline"
        marked = html.escape(_("Highlighted"))
        mark = f'<span style="{style}">{marked}</span>'
        text = _("{mark}: trained on (loss). The rest is context.")
        if self._task is Task.PREFERENCE:
            text = _("{mark}: made more likely in the chosen answer, less likely in the rejected one")
        if seen.liked is not None:
            text = _("{mark}: made more likely") if seen.liked else _("{mark}: made less likely")
        self.legend.setText(_("All tokens are trained on.") if is_all else text.format(mark=mark))
        self.legend.setVisible(bool(learned))


BEYOND = 1.3
"""The limit is drawn up to this multiple of the longest example; further away it would squash the bars."""


def cut_by(lengths: Lengths, limit: int) -> tuple[int, bool]:
    """Return how many examples are longer than `limit`, and whether that is exact or interpolated within a bar."""
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
    """A histogram in which truncated examples are grey; its line follows the option before the data is read again."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._lengths: Lengths | None = None
        self._limit: int | None = None
        self._plot: Any = None  # a pyqtgraph.PlotWidget, which is slow to import
        self.text = text_label(role=Role.HINT)
        self._layout = fill(QVBoxLayout(self), self.text, margins=MARGINS, spacing=SPACING // 2)
        theme.changed.connect(self._show)

    def show_report(self, report: DataReport | None) -> None:
        self._lengths = report.lengths if report is not None else None
        self._show()

    def set_limit(self, limit: int | None) -> None:
        self._limit = limit
        self._show()

    @property
    def limit(self) -> int | None:
        """Where examples are truncated, in tokens."""
        lengths = self._lengths
        if lengths is None or lengths.unit != TOKENS or lengths.limit is None:
            return None
        return self._limit or lengths.limit

    @property
    def has_line(self) -> bool:
        lengths, limit = self._lengths, self.limit
        return lengths is not None and limit is not None and limit <= BEYOND * lengths.edges[-1]

    def _show(self) -> None:
        lengths, limit = self._lengths, self.limit
        if lengths is None:
            return
        unit = _("tokens") if lengths.unit == TOKENS else _("characters")
        text = _("Half have {median:,} {unit} or fewer, the longest has {longest:,}.")
        text = text.format(median=lengths.median, longest=lengths.longest, unit=unit)
        if limit is not None:
            count, is_exact = cut_by(lengths, limit)
            if not count:
                cut = _("None is truncated at {limit:,} {unit}.")
            elif is_exact:
                cut = _("{count:,} of {rows:,} are truncated at {limit:,} {unit}.")
            else:
                cut = _("About {count:,} of {rows:,} are truncated at {limit:,} {unit}.")
            rows = sum(lengths.counts)
            text = paragraph(cut.format(count=count, rows=rows, limit=limit, unit=unit), text)
        self.text.setText(text)
        self._draw(lengths, limit)
        self._plot.setAccessibleName(_("Lengths of the examples: {text}").format(text=text))

    def _draw(self, lengths: Lengths, limit: int | None) -> None:
        import pyqtgraph as pg

        tokens = self._theme.tokens
        if self._plot is None:
            self._plot = pg.PlotWidget()
            self._plot.setMenuEnabled(False)
            self._plot.setMouseEnabled(False, False)
            self._plot.hideButtons()
            self._plot.hideAxis("left")
            WheelGuard(self._plot.viewport())
            self._layout.insertWidget(0, self._plot, 1)
        self._plot.setBackground(None)
        self._plot.clear()
        axis = self._plot.getAxis("bottom")
        axis.setPen(tokens.line)
        axis.setTextPen(tokens.muted)
        starts, ends = lengths.edges[:-1], lengths.edges[1:]
        colours = [tokens.others if limit is not None and start >= limit else tokens.run for start in starts]
        self._plot.addItem(
            pg.BarGraphItem(x0=starts, x1=ends, y0=0, y1=lengths.counts, brushes=colours, pen=pg.mkPen(None))
        )
        end = max(lengths.edges[-1], limit or 0) if self.has_line else lengths.edges[-1]
        highest = max(lengths.counts) or 1
        self._plot.setRange(xRange=(lengths.edges[0], end), yRange=(0, highest), padding=0.02)
        if self.has_line:
            pen = pg.mkPen(tokens.bad, width=1.5, style=Qt.PenStyle.DashLine)
            label = _("truncated at {limit:,}").format(limit=limit)
            options = {
                "position": 0.9,
                "color": tokens.bad,
                "anchors": [(1, 0.5), (1, 0.5)],
                "fill": tokens.surface,
            }
            self._plot.addItem(pg.InfiniteLine(limit, pen=pen, label=label, labelOpts=options))


BOX_LETTERS = 18


class LabelsPane(QWidget):
    """A line for each label, the rarest first: what is too rare is what the person has to see."""

    named = Signal(str, str)  # a label, and its name; empty: none

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._counts: Mapping[str, int] = {}
        self._is_editable = False
        self.boxes: dict[str, QLineEdit] = {}
        content = QWidget()
        self._grid = NamesGrid()
        self._grid.setHorizontalSpacing(SPACING)
        self._grid.setVerticalSpacing(SPACING // 2)
        self._grid.setColumnStretch(2, 1)
        self._help = text_label(
            _("The trained model answers with these names. Without a name it answers with the label."),
            Role.HINT,
        )
        fill(QVBoxLayout(content), self._grid, None, margins=(0, 0, SPACING, 0))
        fill(QVBoxLayout(self), self._help, (PageScroll(content), 1), margins=MARGINS, spacing=SPACING)

    def show_labels(self, counts: Mapping[str, int], names: Mapping[str, str], *, is_editable: bool) -> None:
        """Show how many examples each label has, and the names given to them."""
        if (counts, is_editable) != (self._counts, self._is_editable):
            self._counts, self._is_editable = dict(counts), is_editable
            self._build()
        self._help.setVisible(is_editable)
        for label, box in self.boxes.items():
            if not box.hasFocus():
                box.setText(names.get(label, ""))

    def focus_first(self) -> None:
        """Let the person type the first name."""
        next(iter(self.boxes.values())).setFocus()

    def _build(self) -> None:
        clear(self._grid)
        self.boxes.clear()
        most = max(self._counts.values(), default=0)
        letter = self.fontMetrics().averageCharWidth()
        ordered = sorted(self._counts.items(), key=lambda pair: pair[1])
        for line, (label, count) in enumerate(ordered):
            text = " ".join(label.split())
            name, meter, figure = ElidedLabel(text), Meter(self._theme, "run", text), QLabel(f"{count:,}")
            meter.show_share(count / most if most else 0.0, "run")
            meter.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
            figure.setAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
            for part in (name, figure):
                set_role(part, Role.MUTED)
            for column, widget in ((0, name), (2, meter), (3, figure)):
                self._grid.addWidget(widget, line, column)
            if self._is_editable:
                box = self.boxes[label] = QLineEdit(placeholderText=_("Name"))
                box.setAccessibleName(_("Name of label {label}").format(label=text))
                box.setFixedWidth(BOX_LETTERS * letter)
                box.setAcceptDrops(False)  # a file dropped anywhere is the data
                box.editingFinished.connect(partial(self._on_edited, label))
                name.setBuddy(box)
                self._grid.addWidget(box, line, 1)
        spoken = enumerated(f"{label}: {count:,}" for label, count in ordered)
        self.setAccessibleName(_("Examples per label: {counts}").format(counts=spoken))

    def _on_edited(self, label: str) -> None:
        self.named.emit(label, self.boxes[label].text().strip())
