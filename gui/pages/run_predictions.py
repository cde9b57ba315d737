"""The same held-out examples at every evaluation, so that one sees the model learn; and what it mixes up."""

from pathlib import Path

from PySide6.QtCore import QItemSelection, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QSlider,
    QSplitter,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.events import Predicted
from core.prediction_story import PredictionStory
from core.predictions import Example
from gui.models.predictions import (
    PICTURE,
    Column,
    PredictionsModel,
    are_long,
    moment_words,
    right_words,
    visible,
)
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role
from gui.widgets.row_table import set_up_rows


class RunPredictions(QWidget):
    """A table of the examples, a slider through the evaluations, and the example chosen, its texts one below the other.

    The slider follows the newest evaluation until somebody moves it away from the end.

    Args:
        folder: The run's folder.
        predictions: What was said so far; read again at each `refresh`.
        parent: Qt's parent.
    """

    def __init__(self, folder: Path, predictions: PredictionStory, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._predictions = predictions
        self.model = PredictionsModel(folder, self)
        self.table = self._make_table()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(self.tr("Evaluation to look at"))
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
        self.whole.setAccessibleName(self.tr("The example that is chosen"))
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
        """Show what has been said since; nothing is laid out anew where nothing was."""
        told = self._predictions.told
        if (known := (self._predictions.examples, told, is_over)) == self._known:
            return
        self._known = known
        self._stack.setCurrentIndex(1 if told and self._predictions.examples else 0)
        self._empty.setText(self._why_empty(is_over=is_over))
        was_at_end = self.slider.value() == self.slider.maximum()
        blocked = self.slider.blockSignals(True)
        self.slider.setMaximum(max(0, len(told) - 1))
        if was_at_end:
            self.slider.setValue(self.slider.maximum())
        self.slider.blockSignals(blocked)
        self.slider.setVisible(len(told) > 1)
        self._show_moment()

    def _why_empty(self, *, is_over: bool) -> str:
        if is_over:
            return self.tr("No predictions were kept of this run.")
        return self.tr("What the model says of held-out examples stands here from before its first step on.")

    def _lay_out(self) -> QWidget:
        bar = QHBoxLayout()
        bar.setContentsMargins(SPACING, 0, SPACING, 0)
        bar.setSpacing(2 * SPACING)
        bar.addWidget(self._moment)
        bar.addWidget(self.slider)
        bar.addStretch()
        bar.addWidget(self._right)
        split = QSplitter(Qt.Orientation.Vertical)
        split.setChildrenCollapsible(False)
        split.addWidget(self.table)
        split.addWidget(self.whole)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(SPACING, SPACING, SPACING, SPACING)
        column.setSpacing(SPACING)
        column.addLayout(bar)
        column.addWidget(split, 1)
        return page

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.model)
        table.setAccessibleName(self.tr("Examples"))
        table.setFrameShape(QFrame.Shape.NoFrame)
        set_role(table, Role.INSET)
        set_up_rows(table, padding=SPACING + 2)
        table.setIconSize(QSize(PICTURE, PICTURE))
        header = table.horizontalHeader()
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
        self._moment.setText(moment_words(chosen))
        self._right.setText(self._right_words(told[0], chosen))
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
        """Share the width anew."""
        super().resizeEvent(event)
        self._share_width()

    def _right_words(self, before: Predicted, chosen: Predicted) -> str:
        now, then = right_words(chosen), right_words(before)
        if not now or chosen is before:
            return now
        return self.tr("{now} · before training {then}").format(now=now, then=then)

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
        title = self.tr("Your prompt") if example.is_own else self.tr("The model reads")
        told = [(title, example.given)] if example.given else []
        if example.expected:
            told.append((self.tr("Expected"), visible(example.expected)))
        chosen, before = self._chosen, next(iter(self._predictions.told), None)
        for found in (chosen, before if before is not chosen else None):
            said = self.model.said(row, found)
            if found is not None and said is not None:
                text = visible(said.text)
                goes_on = said.is_cut and bool(said.text.strip())
                told.append((moment_words(found), f"{text} …" if goes_on else text))
        return "\n\n".join(f"{title}:\n{text}" for title, text in told)
