"""What the model said of the same examples over time, as a table."""

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QObject,
    QPoint,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QHelpEvent,
    QIcon,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QSizePolicy,
    QSlider,
    QSplitter,
    QStackedWidget,
    QTableView,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.files import file_inside
from core.base.language import _
from core.runs.events import ConfusionCounted, Example, Predicted, Said
from core.runs.status import PredictionLog
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import plain_tip
from gui.widgets.layout import fill
from gui.widgets.tables import set_up_rows

RIGHT, WRONG = "✓", "✗"
LONGEST_LINE = 300
"""Characters of a text in a cell; all of it stands below the table."""
LONG = 40
"""Characters from which texts are compared below the table: in its cells only their beginnings are seen, all alike."""
BETWEEN_PARTS = "  ¦  "
"""What stands between the two texts of a pair on one line."""
PICTURE = 40
"""Pixels of a side of an image in a row."""


def moment_text(found: Predicted) -> str:
    """When the model was asked: `Before training`, `Step 1,150 (epoch 2.0)`."""
    if found.step == 0:
        return _("Before training")
    return _("Step {step} (epoch {epoch})").format(
        step=formats.count(found.step), epoch=formats.epochs(found.epoch)
    )


def are_long(examples: Iterable[Example], told: Iterable[Predicted]) -> bool:
    """Whether something that is expected or was said is longer than a label or a number."""
    expected = (example.expected for example in examples)
    said = (said.text for found in told for said in found.said)
    return any(len(text.strip()) > LONG for text in (*expected, *said))


def given_text(given: str) -> str:
    """What the model reads, on one line; the two texts of a pair stay apart."""
    parts = [" ".join(part.split()) for part in given.strip().split("\n")]
    return (BETWEEN_PARTS if len(parts) == 2 else " ").join(filter(None, parts))[:LONGEST_LINE]


def visible(text: str) -> str:
    """A text, or words for one in which there is nothing to be seen."""
    if text.strip():
        return text
    if not text:
        return _("(nothing)")
    breaks = set(text) & {"\n", "\r"}
    if breaks and set(text) <= {"\n", "\r"}:
        return _("(only line breaks)")
    return _("(only spaces and line breaks)") if breaks else _("(only spaces)")


def said_text(said: Said) -> str:
    """What was said, on one line: with how sure the model was, or a mark where a text was ended by its length."""
    line = " ".join(visible(said.text).split())[:LONGEST_LINE]
    if said.sure is not None:
        return f"{line}  {formats.whole_percent(said.sure)}"
    return f"{line} …" if said.is_cut and said.text.strip() else line


def right_words(found: Predicted) -> str:
    """How many were right, such as `11 of 16 right`; empty where that is no matter of yes or no."""
    judged = [said.right for said in found.said if said.right is not None]
    if not judged:
        return ""
    return _("{right} of {all} right").format(right=sum(judged), all=len(judged))


class Column(IntEnum):
    """What the columns are."""

    GIVEN = 0
    EXPECTED = 1
    BEFORE = 2
    AFTER = 3


class PredictionsModel(QStandardItemModel):
    """One row an example: what was given, what was expected, what was said before training and at a chosen moment.

    Args:
        folder: The run's, where images lie.
        parent: Qt's parent.
    """

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(0, len(Column), parent)
        self._folder = folder
        self._examples: tuple[Example, ...] = ()

    def show(self, examples: tuple[Example, ...], before: Predicted | None, after: Predicted | None) -> None:
        """Make these the rows and the columns."""
        if examples != self._examples:
            self._examples = examples
            self.setRowCount(0)
            for example in examples:
                given = QStandardItem(given_text(example.given))
                if example.image:
                    path = file_inside(self._folder, example.image)
                    given.setIcon(QIcon() if path is None else QIcon(QPixmap(str(path))))
                    given.setSizeHint(QSize(PICTURE, PICTURE + 8))
                expected = QStandardItem(" ".join(example.expected.split())[:LONGEST_LINE])
                self.appendRow([given, expected, QStandardItem(), QStandardItem()])
        moments = [moment_text(found) if found else "" for found in (before, after)]
        self.setHorizontalHeaderLabels([_("The model reads"), _("Expected"), *moments])
        for column, found in ((Column.BEFORE, before), (Column.AFTER, after)):
            for row in range(self.rowCount()):
                said = said_of(row, found)
                mark = "" if said is None or said.right is None else f"{RIGHT if said.right else WRONG}  "
                self.item(row, column).setText("" if said is None else mark + said_text(said))


def said_of(row: int, found: Predicted | None) -> Said | None:
    """What was said of an example at a moment; None where it was not predicted, or not up to this row."""
    return found.said[row] if found is not None and row < len(found.said) else None


CELL = 30
SMALLEST_CELL = 8
LARGEST_CELL = 56
WIDEST_NAME = 16
"""Letters of a label's name."""
READABLE = 22
"""Pixels from which a cell has room for its number."""


class ConfusionGrid(QWidget):
    """Painted cells, the more samples the stronger; what is right in one colour, what is wrong in another.

    The numbers stand in the cells where they fit, and in each cell's tip.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: ConfusionCounted | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_confusion(self, found: ConfusionCounted | None) -> None:
        """Show a matrix."""
        if found is self._shown:
            return
        self._shown = found
        self.setAccessibleName(_("Which labels were taken for which"))
        self.setAccessibleDescription(self._spoken())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        count = len(self._shown.labels) if self._shown else 2
        names = self._names_width()
        return QSize(names + count * CELL + SPACING, names + count * CELL + 2 * self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        count = len(self._shown.labels) if self._shown else 2
        names = self._names_width()
        return QSize(names + count * SMALLEST_CELL, 3 * self.fontMetrics().height() + count * SMALLEST_CELL)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._shown is None:
            return
        painter = QPainter(self)
        side, left, top = self._cell(), self._names_width(), self._top()
        totals = [max(1, sum(row)) for row in self._shown.counts]
        for row, counts in enumerate(self._shown.counts):
            for column, count in enumerate(counts):
                box = QRectF(left + column * side, top + row * side, side - 1, side - 1)
                self._paint_cell(painter, box, count, count / totals[row], is_right=row == column)
        self._paint_names(painter, self._shown.labels, side, left, top)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tip(self.words_at(event.pos())), self)
            return True
        return super().event(event)

    def words_at(self, place: QPoint) -> str:
        """What the cell at a place counts; empty where there is none."""
        column, row = place.x() - self._names_width(), place.y() - self._top()
        return self._words(int(row // self._cell()), int(column // self._cell()))

    def _words(self, row: int, column: int) -> str:
        shown = self._shown
        if shown is None or not (0 <= row < len(shown.labels) and 0 <= column < len(shown.labels)):
            return ""
        count, right, said = shown.counts[row][column], shown.labels[row], shown.labels[column]
        if row == column:
            return _("{count} of “{right}” were told right").format(count=f"{count:,}", right=right)
        return _("{count} of “{right}” were taken for “{said}”").format(
            count=f"{count:,}", right=right, said=said
        )

    def _spoken(self) -> str:
        """The worst confusions in words, for a screen reader."""
        shown = self._shown
        if shown is None:
            return ""
        wrong = sorted(
            (
                (count, row, column)
                for row, counts in enumerate(shown.counts)
                for column, count in enumerate(counts)
                if row != column and count
            ),
            reverse=True,
        )
        return "; ".join(self._words(row, column) for _, row, column in wrong[:5])

    def _paint_cell(
        self, painter: QPainter, box: QRectF, count: int, share: float, *, is_right: bool
    ) -> None:
        tokens = self._theme.tokens
        colour = QColor(tokens.activations if is_right else tokens.bad)
        colour.setAlphaF(min(1.0, 0.08 + 0.8 * share) if count else 0.0)
        painter.fillRect(box, QColor(tokens.grid))
        painter.fillRect(box, colour)
        words = f"{count:,}"
        if count and box.width() >= max(READABLE, self.fontMetrics().horizontalAdvance(words) + 4):
            painter.setPen(QColor(tokens.text))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)

    def _paint_names(
        self, painter: QPainter, labels: tuple[str, ...], side: float, left: int, top: int
    ) -> None:
        metrics = self.fontMetrics()
        painter.setPen(QColor(self._theme.tokens.muted))
        if side < metrics.height() - 4:
            return
        for place, label in enumerate(labels):
            name = metrics.elidedText(" ".join(label.split()), Qt.TextElideMode.ElideRight, left - SPACING)
            row = QRectF(0, top + place * side, left - SPACING, side)
            painter.drawText(row, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
            above = metrics.elidedText(name, Qt.TextElideMode.ElideRight, int(side) - 4)
            column = QRectF(left + place * side, top - metrics.height() - 2, side, metrics.height())
            painter.drawText(column, Qt.AlignmentFlag.AlignCenter, above)

    def _top(self) -> int:
        return self.fontMetrics().height() + SPACING

    def _cell(self) -> float:
        count = len(self._shown.labels) if self._shown else 1
        room = min((self.width() - self._names_width()) / count, (self.height() - self._top()) / count)
        return max(SMALLEST_CELL, min(LARGEST_CELL, room))

    def _names_width(self) -> int:
        metrics: QFontMetrics = self.fontMetrics()
        labels = self._shown.labels if self._shown else ()
        widest = max((metrics.horizontalAdvance(" ".join(label.split())) for label in labels), default=0)
        return min(widest, WIDEST_NAME * metrics.averageCharWidth()) + SPACING


class RunPredictions(QWidget):
    """A table of the examples, a slider through the evaluations, and the example chosen, its texts one below the other.

    The slider follows the newest evaluation until somebody moves it away from the end.

    Args:
        folder: The run's folder.
        predictions: What was said so far; read again at each `refresh`.
        parent: Qt's parent.
    """

    def __init__(self, folder: Path, predictions: PredictionLog, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._predictions = predictions
        self.model = PredictionsModel(folder, self)
        self.table = self._make_table()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(_("Evaluation to look at"))
        self.slider.setRange(0, 0)
        self.slider.setPageStep(1)
        self.slider.setMaximumWidth(280)
        self.slider.valueChanged.connect(self._show_moment)
        self._moment = QLabel()
        self._right = QLabel()
        set_role(self._right, Role.HINT)
        self.whole = QPlainTextEdit()
        self.whole.setReadOnly(True)
        self.whole.setFrameShape(QFrame.Shape.NoFrame)
        self.whole.setAccessibleName(_("The example that is chosen"))
        self._empty = QLabel()
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, Role.MUTED)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._lay_out())
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._stack)
        self._known: tuple[tuple[Example, ...], list[Predicted], bool] | None = None
        self.refresh(is_over=False)

    def refresh(self, *, is_over: bool) -> None:
        told = self._predictions.told
        if (known := (self._predictions.examples, told, is_over)) == self._known:
            return
        self._known = known
        self._stack.setCurrentIndex(1 if told and self._predictions.examples else 0)
        self._empty.setText(
            _("No predictions were kept of this run.")
            if is_over
            else _("What the model says of held-out examples stands here from before its first step on.")
        )
        was_at_end = self.slider.value() == self.slider.maximum()
        blocked = self.slider.blockSignals(True)
        self.slider.setMaximum(max(0, len(told) - 1))
        if was_at_end:
            self.slider.setValue(self.slider.maximum())
        self.slider.blockSignals(blocked)
        self.slider.setVisible(len(told) > 1)
        self._show_moment()

    def _lay_out(self) -> QWidget:
        bar = fill(
            QHBoxLayout(),
            self._moment,
            self.slider,
            None,
            self._right,
            margins=(SPACING, 0, SPACING, 0),
            spacing=2 * SPACING,
        )
        split = QSplitter(Qt.Orientation.Vertical)
        split.setChildrenCollapsible(False)
        split.addWidget(self.table)
        split.addWidget(self.whole)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        page = QWidget()
        fill(
            QVBoxLayout(page), bar, (split, 1), margins=(SPACING, SPACING, SPACING, SPACING), spacing=SPACING
        )
        return page

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.model)
        table.setAccessibleName(_("Examples"))
        table.setFrameShape(QFrame.Shape.NoFrame)
        set_role(table, Role.INSET)
        table.setEditTriggers(QTableView.EditTrigger.NoEditTriggers)
        set_up_rows(table, padding=SPACING + 2)
        table.setIconSize(QSize(PICTURE, PICTURE))
        header = table.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setSectionResizeMode(Column.GIVEN, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(SPACING * 8)
        table.selectionModel().selectionChanged.connect(self._show_example)
        return table

    @property
    def _chosen(self) -> Predicted | None:
        """The moment the slider stands at."""
        told = self._predictions.told
        return told[min(self.slider.value(), len(told) - 1)] if told else None

    def _show_moment(self, _value: int = 0) -> None:
        told, chosen = self._predictions.told, self._chosen
        if chosen is None:
            return
        self.model.show(self._predictions.examples, told[0], chosen)
        self._fit_table(is_one_moment=len(told) == 1)
        self._moment.setText(moment_text(chosen))
        now, then = right_words(chosen), right_words(told[0])
        both = _("{now} · before training {then}").format(now=now, then=then)
        self._right.setText(both if now and chosen is not told[0] else now)
        if not self.table.selectionModel().hasSelection():
            self.table.selectRow(0)
        self._show_example()

    def _fit_table(self, *, is_one_moment: bool) -> None:
        examples = self._predictions.examples
        has_images = any(example.image for example in examples)
        row = PICTURE + SPACING if has_images else self.table.fontMetrics().height() + SPACING + 2
        self.table.verticalHeader().setDefaultSectionSize(row)
        is_long = are_long(examples, self._predictions.told)
        has_expected = any(example.expected for example in examples)
        self.table.setColumnHidden(Column.BEFORE, is_one_moment or is_long)
        self.table.setColumnHidden(Column.EXPECTED, is_long or not has_expected)
        self._share_width()

    def _share_width(self) -> None:
        """Short answers leave their room to what the model reads; long ones get as much as that."""
        shown = [each for each in Column if not self.table.isColumnHidden(each)]
        share = self.table.viewport().width() // max(1, len(shown))
        for column in shown[1:]:
            self.table.setColumnWidth(column, min(share, self._width_of(column)))

    def _width_of(self, column: Column) -> int:
        metrics, model = self.table.fontMetrics(), self.model
        title = str(model.headerData(column, Qt.Orientation.Horizontal) or "")
        cells = (str(model.index(row, column).data() or "") for row in range(model.rowCount()))
        return max(metrics.horizontalAdvance(text) for text in (title, *cells)) + 3 * SPACING

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def _show_example(self, _selected: QItemSelection | None = None) -> None:
        rows = self.table.selectionModel().selectedRows()
        if not rows or rows[0].row() >= len(self._predictions.examples):
            return
        words = self._whole_words(rows[0].row())
        if words != self.whole.toPlainText():
            place = self.whole.verticalScrollBar().value()
            self.whole.setPlainText(words)
            self.whole.verticalScrollBar().setValue(place)

    def _whole_words(self, row: int) -> str:
        """One example: what is read, expected, said at the moment the slider stands at, and before training."""
        example = self._predictions.examples[row]
        title = _("Your prompt") if example.is_own else _("The model reads")
        told = [(title, example.given)] if example.given else []
        if example.expected:
            told.append((_("Expected"), visible(example.expected)))
        chosen, before = self._chosen, next(iter(self._predictions.told), None)
        for found in (chosen, before if before is not chosen else None):
            said = said_of(row, found)
            if found is not None and said is not None:
                text = visible(said.text)
                goes_on = said.is_cut and bool(said.text.strip())
                told.append((moment_text(found), f"{text} …" if goes_on else text))
        return "\n\n".join(f"{title}:\n{text}" for title, text in told)
