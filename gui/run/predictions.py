"""The tabs "Predictions" (of the same examples at each evaluation) and "Confusion matrix"."""

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
from gui.widgets.layout import FLUSH, fill
from gui.widgets.tables import set_up_rows

RIGHT, WRONG = "✓", "✗"
LONGEST_LINE = 300
"""Characters of a text in a cell; the whole text is below the table."""
LONG = 40
"""Longer texts are compared below the table only: in its cells, only their similar beginnings could be seen."""
PAIR_SEPARATOR = "  ¦  "
PICTURE = 40
"""Side of an image in a row, in pixels."""


def moment_text(predicted: Predicted) -> str:
    """When the model was asked: `Before training`, `Step 1,150 (epoch 2.0)`."""
    if predicted.step == 0:
        return _("Before training")
    return _("Step {step} (epoch {epoch})").format(
        step=formats.count(predicted.step), epoch=formats.epochs(predicted.epoch)
    )


def are_long(examples: Iterable[Example], predictions: Iterable[Predicted]) -> bool:
    """Whether any expected or predicted text is longer than a label or a number."""
    expected = (example.expected for example in examples)
    answers = (said.text for predicted in predictions for said in predicted.said)
    return any(len(text.strip()) > LONG for text in (*expected, *answers))


def given_text(given: str) -> str:
    """The model's input on one line, with a separator between the two texts of a pair."""
    parts = [" ".join(part.split()) for part in given.strip().split("\n")]
    return (PAIR_SEPARATOR if len(parts) == 2 else " ").join(filter(None, parts))[:LONGEST_LINE]


def visible(text: str) -> str:
    """The text, or a note if it is blank."""
    if text.strip():
        return text
    return _("(only whitespace)") if text else _("(nothing)")


def said_text(said: Said) -> str:
    """A prediction on one line, with its probability, or a mark if the text was cut at the maximum length."""
    line = " ".join(visible(said.text).split())[:LONGEST_LINE]
    if said.sure is not None:
        return f"{line}  {formats.whole_percent(said.sure)}"
    return f"{line} …" if said.is_cut and said.text.strip() else line


def right_text(predicted: Predicted) -> str:
    """`11 of 16 right`; empty if predictions aren't right or wrong."""
    judged = [said.right for said in predicted.said if said.right is not None]
    return _("{right} of {all} right").format(right=sum(judged), all=len(judged)) if judged else ""


class Column(IntEnum):
    """Columns of the table of predictions."""

    GIVEN = 0
    EXPECTED = 1
    BEFORE = 2
    AFTER = 3


class PredictionsModel(QStandardItemModel):
    """A row per example: the input, the expected answer, the answers before training and at a chosen moment.

    Args:
        folder: The run's folder, which has the images.
        parent: Qt's parent.
    """

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(0, len(Column), parent)
        self._folder = folder
        self._examples: tuple[Example, ...] = ()

    def show(self, examples: tuple[Example, ...], before: Predicted | None, after: Predicted | None) -> None:
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
        moments = [moment_text(predicted) if predicted else "" for predicted in (before, after)]
        self.setHorizontalHeaderLabels([_("Input"), _("Expected"), *moments])
        for column, predicted in ((Column.BEFORE, before), (Column.AFTER, after)):
            for row in range(self.rowCount()):
                said = said_of(row, predicted)
                mark = "" if said is None or said.right is None else f"{RIGHT if said.right else WRONG}  "
                self.item(row, column).setText("" if said is None else mark + said_text(said))


def said_of(row: int, predicted: Predicted | None) -> Said | None:
    """The prediction for an example, if there is one."""
    return predicted.said[row] if predicted is not None and row < len(predicted.said) else None


CELL = 30
SMALLEST_CELL = 8
LARGEST_CELL = 56
WIDEST_NAME = 16
"""Letters of a label."""
READABLE = 22
"""Least side of a cell with a number, in pixels."""


class ConfusionGrid(QWidget):
    """A confusion matrix: the more samples, the stronger a cell's colour. Numbers are in cells and tool tips."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: ConfusionCounted | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_confusion(self, confusion: ConfusionCounted) -> None:
        self._shown = confusion
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
        cells = cell * (len(self._shown.labels) if self._shown else 2)
        return QSize(self._names_width() + cells + SPACING, self._top() + cells + 2 * SPACING)

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
            QToolTip.showText(event.globalPos(), plain_tip(self.text_at(event.pos())), self)
            return True
        return super().event(event)

    def text_at(self, position: QPoint) -> str:
        """The tool tip of the cell at a position; empty outside."""
        column, row = position.x() - self._names_width(), position.y() - self._top()
        return self._text(int(row // self._cell()), int(column // self._cell()))

    def _text(self, row: int, column: int) -> str:
        shown = self._shown
        if shown is None or not (0 <= row < len(shown.labels) and 0 <= column < len(shown.labels)):
            return ""
        text = _("{count} of “{right}” were predicted as “{predicted}”")
        return text.format(
            count=f"{shown.counts[row][column]:,}", right=shown.labels[row], predicted=shown.labels[column]
        )

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
    """A table of the examples, a slider through the evaluations, and all texts of the selected example.

    The slider follows the newest evaluation unless it was moved away from the end.

    Args:
        folder: The run's folder.
        predictions: Read again at each `refresh`.
        parent: Qt's parent.
    """

    def __init__(self, folder: Path, predictions: PredictionLog, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._predictions = predictions
        self.model = PredictionsModel(folder, self)
        self.table = self._make_table()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(_("Evaluation to show"))
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
        self.whole.setAccessibleName(_("The selected example"))
        self._empty = QLabel()
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, Role.MUTED)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._lay_out())
        fill(QVBoxLayout(self), self._stack, margins=FLUSH)
        self._shown: tuple[tuple[Example, ...], list[Predicted], bool] | None = None
        self.refresh(is_over=False)

    def refresh(self, *, is_over: bool) -> None:
        predicted = self._predictions.predicted
        if (shown := (self._predictions.examples, predicted, is_over)) == self._shown:
            return
        self._shown = shown
        self._stack.setCurrentIndex(1 if predicted and self._predictions.examples else 0)
        self._empty.setText(
            _("This run has no predictions.")
            if is_over
            else _("Predictions for validation examples appear here before the first step.")
        )
        was_at_end = self.slider.value() == self.slider.maximum()
        blocked = self.slider.blockSignals(True)
        self.slider.setMaximum(max(0, len(predicted) - 1))
        if was_at_end:
            self.slider.setValue(self.slider.maximum())
        self.slider.blockSignals(blocked)
        self.slider.setVisible(len(predicted) > 1)
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
        """The predictions at the slider's moment."""
        predicted = self._predictions.predicted
        return predicted[min(self.slider.value(), len(predicted) - 1)] if predicted else None

    def _show_moment(self, _value: int = 0) -> None:
        predicted, chosen = self._predictions.predicted, self._chosen
        if chosen is None:
            return
        self.model.show(self._predictions.examples, predicted[0], chosen)
        self._fit_table(is_one_moment=len(predicted) == 1)
        self._moment.setText(moment_text(chosen))
        now, then = right_text(chosen), right_text(predicted[0])
        both = _("{now} · before training {then}").format(now=now, then=then)
        self._right.setText(both if now and chosen is not predicted[0] else now)
        if not self.table.selectionModel().hasSelection():
            self.table.selectRow(0)
        self._show_example()

    def _fit_table(self, *, is_one_moment: bool) -> None:
        examples = self._predictions.examples
        has_images = any(example.image for example in examples)
        row = PICTURE + SPACING if has_images else self.table.fontMetrics().height() + SPACING + 2
        self.table.verticalHeader().setDefaultSectionSize(row)
        is_long = are_long(examples, self._predictions.predicted)
        has_expected = any(example.expected for example in examples)
        self.table.setColumnHidden(Column.BEFORE, is_one_moment or is_long)
        self.table.setColumnHidden(Column.EXPECTED, is_long or not has_expected)
        self._share_width()

    def _share_width(self) -> None:
        """Give columns of short answers only the width they need."""
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
        if rows and rows[0].row() < len(self._predictions.examples):
            text = self._whole_text(rows[0].row())
            if text != self.whole.toPlainText():
                scrolled = self.whole.verticalScrollBar().value()
                self.whole.setPlainText(text)
                self.whole.verticalScrollBar().setValue(scrolled)

    def _whole_text(self, row: int) -> str:
        """All texts of an example: input, expected answer, the answers at the slider's moment and before training."""
        example = self._predictions.examples[row]
        title = _("Your prompt") if example.is_own else _("Input")
        texts = [(title, example.given)] if example.given else []
        if example.expected:
            texts.append((_("Expected"), visible(example.expected)))
        chosen, before = self._chosen, next(iter(self._predictions.predicted), None)
        for predicted in (chosen, before if before is not chosen else None):
            said = said_of(row, predicted)
            if predicted is not None and said is not None:
                is_cut = said.is_cut and bool(said.text.strip())
                texts.append((moment_text(predicted), f"{visible(said.text)}{' …' if is_cut else ''}"))
        return "\n\n".join(f"{title}:\n{text}" for title, text in texts)
