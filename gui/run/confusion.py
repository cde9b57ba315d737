"""The tab "Confusion matrix": the matrix of an evaluation, and precision, recall and F1 of each label."""

from collections.abc import Callable
from enum import IntEnum

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QSizePolicy,
    QSlider,
    QTableView,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.language import _, ngettext
from core.runs.events import ConfusionCounted, LabelCounted, Validation
from core.runs.status import PredictionLog
from core.runs.words import FIGURES_OF_LABEL, figures_of
from gui.base.theme import Role, Theme, readable_on
from gui.base.tokens import SPACING
from gui.charts.series import mixed
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import isolated, plain_tip, text_label
from gui.widgets.layout import FLUSH, fill
from gui.widgets.tables import set_up_rows

CELL = 30
SMALLEST_CELL = 8
LARGEST_CELL = 56
WIDEST_NAME = 28
"""Letters of a label beside the matrix."""
LEAST_NAMES = 60
"""Pixels of the names beside a narrow matrix."""
COUNTS, SHARES = "counts", "shares"
"""What is written into the cells: how many samples, or how many of 100 of their true label."""
READABLE = 22
"""Least side of a cell with a number, in pixels."""


class ConfusionGrid(QWidget):
    """A confusion matrix: the more examples, the stronger a cell's colour. Numbers are in cells and tool tips."""

    opened = Signal(str, str)  # the true and the predicted label of a cell: clicked, or Return pressed

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.shown: ConfusionCounted | None = None
        self.current = (0, 0)  # row and column of the cell for the keyboard
        self._are_shares = self._opens = False
        self._totals: list[int] = []  # samples of the true label of each row
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_confusion(
        self, confusion: ConfusionCounted, *, are_shares: bool = False, opens: bool = True
    ) -> None:
        """Show a matrix in counts, or in per cent of each row; `opens`: the examples of its cells are kept."""
        self.shown, self._are_shares, self._opens = confusion, are_shares, opens
        true = {one.label: one.true for one in confusion.each_label}
        self._totals = [
            true.get(label, sum(row)) for label, row in zip(confusion.labels, confusion.counts, strict=True)
        ]
        last = max(0, len(confusion.labels) - 1)
        self.current = (min(last, self.current[0]), min(last, self.current[1]))
        self.setCursor(Qt.CursorShape.PointingHandCursor if opens else Qt.CursorShape.ArrowCursor)
        self.setAccessibleName(_("Confusion matrix"))
        size = range(len(confusion.labels))
        wrong = (
            (confusion.counts[row][column], row, column) for row in size for column in size if row != column
        )
        worst = sorted((cell for cell in wrong if cell[0]), reverse=True)[:5]
        self.setAccessibleDescription("; ".join(self._text(row, column) for _count, row, column in worst))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return self._size_for(CELL)

    def minimumSizeHint(self) -> QSize:
        return self._size_for(SMALLEST_CELL)

    def _size_for(self, cell: int) -> QSize:
        cells = cell * (len(self.shown.labels) if self.shown else 2)
        return QSize(LEAST_NAMES + cells + 2 * SPACING, self._top() + cells + 2 * SPACING)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.shown is None:
            return
        painter = QPainter(self)
        side, left, top = self._cell(), self._names_width(), self._top()
        for row, counts in enumerate(self.shown.counts):
            for column, count in enumerate(counts):
                box = QRectF(left + column * side, top + row * side, side - 1, side - 1)
                share, ground = self._share(row, column), self._ground(row, column)
                painter.fillRect(box, ground)
                painter.setPen(readable_on(ground))
                words = formats.whole_percent(share) if self._are_shares else f"{count:,}"
                if count and side > max(READABLE, self.fontMetrics().horizontalAdvance(words) + 4):
                    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)
        self._paint_names(painter, self.shown.labels, side, left, top)
        if self.hasFocus():
            row, column = self.current
            box = QRectF(left + column * side, top + row * side, side - 1, side - 1)
            painter.setPen(QPen(readable_on(self._ground(row, column)), 2))
            painter.drawRect(box.adjusted(2, 2, -2, -2))

    def _share(self, row: int, column: int) -> float:
        """Which share of all samples with the true label of a row is in a cell, 0 to 1."""
        assert self.shown is not None, "only asked for cells"
        return self.shown.counts[row][column] / max(1, self._totals[row])

    def _ground(self, row: int, column: int) -> QColor:
        tokens, share = self._theme.tokens, self._share(row, column)
        colour = QColor(tokens.activations if row == column else tokens.bad)
        return mixed(colour, QColor(tokens.grid), min(1.0, 0.08 + 0.8 * share) if share else 0.0)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and self._text(*cell):
            self.current = cell
            self._open()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {
            Qt.Key.Key_Up: (-1, 0),
            Qt.Key.Key_Down: (1, 0),
            Qt.Key.Key_Left: (0, -1),
            Qt.Key.Key_Right: (0, 1),
        }
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self._open()
        elif (move := moves.get(Qt.Key(event.key()))) is not None and self.shown is not None:
            last = len(self.shown.labels) - 1
            row, column = (min(last, max(0, at + by)) for at, by in zip(self.current, move, strict=True))
            self.current = (row, column)
            self.setAccessibleDescription(self._text(row, column))
            self.update()
        else:
            super().keyPressEvent(event)

    def _open(self) -> None:
        row, column = self.current
        if self._opens and self.shown is not None and self.shown.counts[row][column]:
            self.opened.emit(self.shown.labels[row], self.shown.labels[column])
        self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tip(self.text_at(event.pos())), self)
            return True
        return super().event(event)

    def text_at(self, position: QPoint) -> str:
        """The tool tip of the cell at a position; empty outside."""
        return self._text(*self._cell_at(position))

    def _cell_at(self, position: QPoint) -> tuple[int, int]:
        column, row = position.x() - self._names_width(), position.y() - self._top()
        return int(row // self._cell()), int(column // self._cell())

    def _text(self, row: int, column: int) -> str:
        shown = self.shown
        if shown is None or not (0 <= row < len(shown.labels) and 0 <= column < len(shown.labels)):
            return ""
        count = shown.counts[row][column]
        text = _("{count} of “{right}” were predicted as “{predicted}” ({share} of “{right}”)")
        return text.format(
            count=f"{count:,}",
            right=isolated(shown.labels[row]),
            predicted=isolated(shown.labels[column]),
            share=formats.share(self._share(row, column)),
        )

    def _paint_names(
        self, painter: QPainter, labels: tuple[str, ...], side: float, left: int, top: int
    ) -> None:
        metrics = self.fontMetrics()
        painter.setPen(QColor(self._theme.tokens.muted))
        if side < metrics.height() - 4:
            return
        for place, label in enumerate(labels):
            name = " ".join(label.split())
            beside = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, left - SPACING)
            row = QRectF(0, top + place * side, left - SPACING, side)
            painter.drawText(row, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, beside)
            above = QRectF(left + place * side, 0, side - 4, top - 2)
            at_bottom = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom
            wraps = Qt.TextFlag.TextWordWrap
            if painter.boundingRect(above, at_bottom | wraps, name).height() > above.height() or any(
                metrics.horizontalAdvance(word) > above.width() for word in name.split()
            ):
                name = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, int(above.width()))
            painter.drawText(above, at_bottom | wraps, name)

    def _top(self) -> int:
        """The height of the names above, of two lines."""
        return 2 * self.fontMetrics().height() + SPACING

    def _cell(self) -> float:
        count = len(self.shown.labels) if self.shown else 1
        room = min(self.width() - self._names_width(), self.height() - self._top()) / count
        return max(SMALLEST_CELL, min(max(LARGEST_CELL, self._names_width()), room))

    def _names_width(self) -> int:
        metrics: QFontMetrics = self.fontMetrics()
        labels = self.shown.labels if self.shown else ()
        widest = max((metrics.horizontalAdvance(" ".join(label.split())) for label in labels), default=0)
        most = min(WIDEST_NAME * metrics.averageCharWidth(), max(LEAST_NAMES, self.width() // 3))
        return min(widest + 2, most) + SPACING  # the exact width elides


class Figure(IntEnum):
    """Columns of the table of labels."""

    LABEL = 0
    PRECISION = 1
    RECALL = 2
    F1 = 3
    COUNT = 4


SORTED_BY = Qt.ItemDataRole.UserRole
ON_THE_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LabelFigures(QStandardItemModel):
    """A row per label that is among the true or the predicted ones, with its precision, recall, F1 and count."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(0, len(Figure), parent)
        self._shown: tuple[LabelCounted, ...] = ()
        self.setSortRole(SORTED_BY)
        tips = (
            "",
            _("The share of examples predicted as this label that have it."),
            _("The share of examples with this label that were predicted as it."),
            _("Harmonic mean of precision and recall."),
            _("The number of evaluated examples with this label."),
        )
        for column, title, tip in zip(Figure, FIGURES_OF_LABEL, tips, strict=True):
            self.setHeaderData(column, Qt.Orientation.Horizontal, title)
            self.setHeaderData(column, Qt.Orientation.Horizontal, tip, Qt.ItemDataRole.ToolTipRole)
            if column is not Figure.LABEL:
                aligned = Qt.ItemDataRole.TextAlignmentRole
                self.setHeaderData(column, Qt.Orientation.Horizontal, ON_THE_RIGHT, aligned)

    def show_labels(self, counted: tuple[LabelCounted, ...]) -> None:
        counted = tuple(one for one in counted if one.true or one.predicted)
        if counted == self._shown:
            return
        self._shown = counted
        self.setRowCount(0)
        for one in counted:
            items = [QStandardItem(text) for text in figures_of(one)]
            items[Figure.LABEL].setToolTip(plain_tip(one.label))
            shares = (-1.0 if share is None else share for share in (one.precision, one.recall, one.f1))
            keys = (one.label.casefold(), *shares, one.true)
            for item, key in zip(items, keys, strict=True):
                item.setData(key, SORTED_BY)
            for item in items[1:]:
                item.setTextAlignment(ON_THE_RIGHT)
            self.appendRow(items)


class ConfusionPage(QWidget):
    """The confusion matrix of an evaluation, a slider through the evaluations, and the figures of each label.

    It begins with the evaluation whose examples are kept, the newest or the best, and follows that one unless the
    slider was moved elsewhere.
    """

    opened = Signal(str, str)  # the true and the predicted label of a cell whose examples are kept

    def __init__(self, theme: Theme, predictions: PredictionLog) -> None:
        super().__init__()
        self._predictions = predictions
        self._shown: list[ConfusionCounted] = []
        self._kept: ConfusionCounted | None = None
        self.validation: Validation | None = None
        self.words, self._moment = text_label(role=Role.HINT), QLabel()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(_("Evaluation to show"))
        self.slider.setPageStep(1)
        self.slider.setMaximumWidth(280)
        self.slider.valueChanged.connect(self._show)
        self.unit = Segmented(
            (
                Segment(COUNTS, _("Counts")),
                Segment(
                    SHARES, _("Per cent"), _("The share of all examples with the true label of the row.")
                ),
            )
        )
        self.unit.setAccessibleName(_("Cells"))
        self.unit.set_value(COUNTS)
        self.unit.chosen.connect(self._show)
        self.grid = ConfusionGrid(theme)
        self.grid.opened.connect(self.opened)
        self.figures = LabelFigures(self)
        self.table = self._make_table()
        bar = fill(
            QHBoxLayout(),
            self.unit,
            self._moment,
            self.slider,
            (self.words, 1),
            margins=FLUSH,
            spacing=2 * SPACING,
        )
        self._both = QWidget()
        fill(QHBoxLayout(self._both), (self.grid, 1), (self.table, 1), margins=FLUSH, spacing=SPACING)
        fill(
            QVBoxLayout(self),
            bar,
            (self._both, 1),
            margins=(2 * SPACING, SPACING, SPACING, SPACING),
            spacing=SPACING,
        )
        for widget in (self.unit, self.slider, self._both):
            widget.hide()

    def refresh(self, words: str, read: Callable[[], Validation | None]) -> bool:
        """Show what is new, or these words where there is no matrix; returns whether there is something new.

        Args:
            read: Reads the examples that are kept.
        """
        confusions = self._predictions.confusions
        if not confusions:
            self.words.setText(words)
        if confusions == self._shown:
            return False
        before, kept = self._shown[self.slider.value() :][:1], self._predictions.confusion
        steps = [one.step for one in confusions]
        step = before[0].step if before and before[0] != self._kept else None
        if step not in steps:
            step = kept.step if kept is not None else steps[-1] if steps else None
        self._shown, self._kept, self.validation = [*confusions], kept, read()
        if self.validation is not None and (kept is None or self.validation.step != kept.step):
            self.validation = None
        blocked = self.slider.blockSignals(True)
        self.slider.setMaximum(max(0, len(confusions) - 1))
        if step is not None:
            self.slider.setValue(steps.index(step))
        self.slider.blockSignals(blocked)
        self._show()
        return True

    def _show(self, _value: int | str = 0) -> None:
        for widget in (self.unit, self._moment, self._both):
            widget.setVisible(bool(self._shown))
        self.slider.setVisible(len(self._shown) > 1)
        if not self._shown:
            return
        shown = self._shown[self.slider.value()]
        opens = self.validation is not None and shown == self._kept
        texts = [_("Rows: true labels, columns: predicted labels.")]
        if opens:
            texts.append(_("Click a cell to see its examples."))
        elif self.validation is not None:
            only = _("Only the examples of step {step} are kept.")
            texts.append(only.format(step=formats.count(self.validation.step)))
        if shown.left_out:
            left_out = ngettext(
                "{count} label with fewer errors is left out of the matrix.",
                "{count} labels with fewer errors are left out of the matrix.",
                shown.left_out,
            )
            texts.append(left_out.format(count=shown.left_out))
        self.words.setText(formats.paragraph(*texts))
        step = _("Step {step}").format(step=formats.count(shown.step)) if shown.step else ""
        self._moment.setText(step)
        self.grid.show_confusion(shown, are_shares=self.unit.value() == SHARES, opens=opens)
        header = self.table.horizontalHeader()
        self.figures.show_labels(shown.each_label)
        self.figures.sort(header.sortIndicatorSection(), header.sortIndicatorOrder())
        self.table.setHidden(not shown.each_label)
        self._share_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        """Let the table have what it needs so that nothing of it is cut, up to half of the width."""
        metrics = self.table.horizontalHeader().fontMetrics()
        needed = self.table.verticalScrollBar().sizeHint().width()
        for column in Figure:
            title = str(self.figures.headerData(column, Qt.Orientation.Horizontal))
            width = max(self.table.sizeHintForColumn(column), metrics.horizontalAdvance(title) + 3 * SPACING)
            self.table.setColumnWidth(column, width)
            needed += width
        self.table.setMaximumWidth(min(needed, self.width() // 2))

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.figures)
        table.setAccessibleName(_("Figures of each label"))
        set_up_rows(table, padding=SPACING + 2, on_card=True)
        table.setSortingEnabled(True)
        table.sortByColumn(Figure.F1, Qt.SortOrder.AscendingOrder)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.horizontalHeader().setSectionResizeMode(Figure.LABEL, QHeaderView.ResizeMode.Stretch)
        return table
