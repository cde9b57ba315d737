"""The tabs "Predictions" (wrong examples, and the same sample at each evaluation) and "Confusion matrix"."""

from enum import IntEnum
from pathlib import Path

from PySide6.QtCore import QEvent, QItemSelection, QObject, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QHelpEvent,
    QIcon,
    QImageReader,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
    QTextCharFormat,
)
from PySide6.QtWidgets import (
    QCheckBox,
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
from core.runs.events import ConfusionCounted, Example, Judged, Predicted, Said, Validation
from core.runs.status import PredictionLog
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.widgets.bars import ChanceBars
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import plain_tip, role_label, text_label
from gui.widgets.layout import FLUSH, fill
from gui.widgets.tables import set_up_rows

RIGHT, WRONG = "✓", "✗"
LONGEST_LINE = 300
"""Characters of a text in a cell; the whole text is below the table."""
LONG = 40
"""Longer texts are compared below the table only: in its cells, only their similar beginnings could be seen."""
PAIR_SEPARATOR = "  ¦  "
PICTURE, LARGE_PICTURE = 48, 168
"""Side of an image in a row, and of the selected one, in pixels."""
SAMPLE, MISTAKES, OF_CELL = "sample", "mistakes", "cell"
"""Which examples are shown: the same ones at each evaluation, the wrong ones, those of a cell of the matrix."""


def picture(path: Path, side: int) -> QPixmap:
    """Decode an image into a square of `side` pixels; one of a few pixels keeps its hard edges."""
    reader, keep = QImageReader(str(path)), Qt.AspectRatioMode.KeepAspectRatio
    reader.setAutoTransform(True)
    if 2 * max(reader.size().width(), reader.size().height()) > side:
        reader.setScaledSize(reader.size().scaled(side, side, keep))
    image = QPixmap.fromImage(reader.read())
    return image if image.isNull() else image.scaled(side, side, keep)


def moment_text(predicted: Predicted, *, is_test: bool) -> str:
    """When the model was asked: `Before training`, `Step 1,150 (epoch 2.0)`, or in a test of it."""
    if is_test:
        return _("Test")
    if predicted.step == 0:
        return _("Before training")
    return _("Step {step} (epoch {epoch})").format(
        step=formats.count(predicted.step), epoch=formats.epochs(predicted.epoch)
    )


def expected_title(said: Said | None) -> str:
    """The title of the expected output: that of a classifier is a label."""
    return _("Expected") if said is None or said.right is None else _("True label")


def given_text(example: Example) -> str:
    """An example's input on one line, with a separator between the two texts of a pair."""
    parts = [" ".join(part.split()) for part in example.texts or example.shown.strip().split("\n")]
    return (PAIR_SEPARATOR if len(parts) == 2 else " ").join(filter(None, parts))[:LONGEST_LINE]


def visible(text: str) -> str:
    """The text, or a note if it is blank."""
    if text.strip():
        return text
    return _("(only spaces)") if text else _("(empty)")


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
    """A row per example: the input, the expected answer, the answers before training and at a chosen moment."""

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(0, len(Column), parent)
        self._folder = folder
        self._examples: tuple[Example, ...] = ()

    def show(
        self,
        examples: tuple[Example, ...],
        before: Predicted | None,
        after: Predicted | None,
        *,
        is_test: bool = False,
    ) -> None:
        if examples != self._examples:
            self._examples = examples
            self.setRowCount(0)
            for example in examples:
                given = QStandardItem(given_text(example))
                if example.image:
                    path = file_inside(self._folder, example.image)
                    icon = QIcon()
                    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
                        if path is not None:
                            icon.addPixmap(picture(path, PICTURE), mode)  # or a selected one would be tinted
                    given.setIcon(icon)
                    given.setSizeHint(QSize(PICTURE, PICTURE + 8))
                expected = QStandardItem(" ".join(example.expected.split())[:LONGEST_LINE])
                self.appendRow([given, expected, QStandardItem(), QStandardItem()])
        moments = [moment_text(one, is_test=is_test) if one else "" for one in (before, after)]
        self.setHorizontalHeaderLabels([_("Input"), expected_title(said_of(0, after)), *moments])
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
    """A confusion matrix: the more examples, the stronger a cell's colour. Numbers are in cells and tool tips."""

    opened = Signal(str, str)  # the true and the predicted label of a cell: clicked, or Return pressed

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._shown: ConfusionCounted | None = None
        self._current = (0, 0)  # row and column of the cell for the keyboard
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
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
        if self.hasFocus():
            row, column = self._current
            painter.setPen(QPen(QColor(self._theme.tokens.accent), 2))
            painter.drawRect(QRectF(left + column * side, top + row * side, side - 1, side - 1))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and self._text(*cell):
            self._current = cell
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
        elif (move := moves.get(Qt.Key(event.key()))) is not None and self._shown is not None:
            last = len(self._shown.labels) - 1
            row, column = (min(last, max(0, at + by)) for at, by in zip(self._current, move, strict=True))
            self._current = (row, column)
            self.setAccessibleDescription(self._text(row, column))
            self.update()
        else:
            super().keyPressEvent(event)

    def _open(self) -> None:
        row, column = self._current
        if self._shown is not None and self._shown.counts[row][column]:
            self.opened.emit(self._shown.labels[row], self._shown.labels[column])
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
        room = min(self.width() - self._names_width(), self.height() - self._top()) / count
        return max(SMALLEST_CELL, min(max(LARGEST_CELL, self._names_width()), room))

    def _names_width(self) -> int:
        metrics: QFontMetrics = self.fontMetrics()
        labels = self._shown.labels if self._shown else ()
        widest = max((metrics.horizontalAdvance(" ".join(label.split())) for label in labels), default=0)
        return min(widest + 2, WIDEST_NAME * metrics.averageCharWidth()) + SPACING  # the exact width elides


class RunPredictions(QWidget):
    """A table of examples, a slider through the evaluations, and the selected example in full.

    It begins with the wrong examples of the newest evaluation, if there are any. The slider goes through the
    evaluations of a sample, and follows the newest one unless it was moved away from the end.

    Args:
        predictions: Read again at each `refresh`.
    """

    def __init__(self, theme: Theme, folder: Path, predictions: PredictionLog) -> None:
        super().__init__()
        self._folder, self._predictions = folder, predictions
        self._validation: Validation | None = None
        self._cell = ("", "")
        self.filter = Segmented()
        self.filter.chosen.connect(self._show_moment)
        self.filter.hide()
        self.model = PredictionsModel(folder, self)
        self.table = self._make_table()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(_("Evaluation to show"))
        self.slider.setRange(0, 0)
        self.slider.setPageStep(1)
        self.slider.setMaximumWidth(280)
        self.slider.valueChanged.connect(self._show_moment)
        self._moment, self._right = QLabel(), role_label(Role.HINT)
        self._whole_texts: list[tuple[str, str]] = []
        self.whole = QPlainTextEdit(readOnly=True)
        self.whole.setFrameShape(QFrame.Shape.NoFrame)
        self.whole.setAccessibleName(_("The selected example"))
        self.markup = QCheckBox(_("Show template text"))
        self.markup.setToolTip(_("The whole text that the model reads, with the marks of its chat template."))
        self.markup.toggled.connect(self._show_moment)
        self.image = QLabel(alignment=Qt.AlignmentFlag.AlignTop)
        self.bars = ChanceBars(theme)
        self._empty = text_label(role=Role.MUTED)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
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
        self._empty.setText(_("This run has no predictions.") if is_over else _("Predictions appear here."))
        was_at_end = self.slider.value() == self.slider.maximum()
        blocked = self.slider.blockSignals(True)
        self.slider.setMaximum(max(0, len(predicted) - 1))
        if was_at_end:
            self.slider.setValue(self.slider.maximum())
        self.slider.blockSignals(blocked)
        self._show_moment()

    def show_validation(self, validation: Validation | None) -> None:
        """Offer the examples of the newest evaluation, and show the wrong ones unless others were chosen."""
        is_first = self._validation is None
        self._validation = validation
        self._show_filters()
        if is_first and validation is not None and validation.wrong:
            self.filter.set_value(MISTAKES)
        self._show_moment()

    def show_cell(self, true: str, predicted: str) -> None:
        """Show the examples of a cell of the confusion matrix."""
        if self._validation is not None:
            self._cell = (true, predicted)
            self._show_filters()
            self.filter.set_value(OF_CELL)
        self._show_moment()

    def _show_filters(self) -> None:
        found = self._validation
        segments = [
            Segment(SAMPLE, _("Sample"), _("The same random validation examples at each evaluation."))
        ]
        if found is not None:
            tip = _("Validation examples with a wrong prediction, the most confident one first.")
            segments.insert(
                0, Segment(MISTAKES, _("Wrong ({count})").format(count=formats.count(found.wrong)), tip)
            )
        if any(self._cell):
            true, predicted = self._cell
            tip = _("Examples of “{true}” that were predicted as “{predicted}”.")
            title = f"{true[:WIDEST_NAME]} → {predicted[:WIDEST_NAME]}"
            segments.append(Segment(OF_CELL, title, tip.format(true=true, predicted=predicted)))
        self.filter.set_segments(segments)
        self.filter.setAccessibleName(_("Examples"))
        self.filter.setVisible(len(segments) > 1)
        if not self.filter.value():
            self.filter.set_value(SAMPLE)

    @property
    def _judged(self) -> tuple[Judged, ...] | None:
        """The examples of the newest evaluation that are shown; None if the sample is."""
        if self._validation is None or self.filter.value() in ("", SAMPLE):
            return None
        judged = self._validation.examples
        if self.filter.value() == MISTAKES:
            return tuple(one for one in judged if not one.is_right)
        return tuple(one for one in judged if (one.example.expected, one.predicted) == self._cell)

    @property
    def _examples(self) -> tuple[Example, ...]:
        judged = self._judged
        return self._predictions.examples if judged is None else tuple(one.example for one in judged)

    def _lay_out(self) -> QWidget:
        bar = fill(
            QHBoxLayout(),
            self.filter,
            self._moment,
            self.slider,
            None,
            self._right,
            self.markup,
            margins=(SPACING, 0, SPACING, 0),
            spacing=2 * SPACING,
        )
        split = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        split.addWidget(self.table)
        selected = QWidget()
        beside = fill(QVBoxLayout(), self.bars, (self.whole, 1), spacing=SPACING)
        fill(
            QHBoxLayout(selected),
            self.image,
            (beside, 1),
            margins=(SPACING, SPACING, SPACING, 0),
            spacing=2 * SPACING,
        )
        split.addWidget(selected)
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
        set_up_rows(table, padding=SPACING + 2, on_card=True)
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
        """The predictions at the slider's moment, or those of the newest evaluation."""
        predicted, judged = self._predictions.predicted, self._judged
        if judged is not None and self._validation is not None:
            said = tuple(
                Said(text=one.predicted, sure=one.chances[0].chance, right=one.is_right)
                for one in judged
                if one.chances
            )
            epoch = next((one.epoch for one in predicted if one.step == self._validation.step), 0.0)
            return Predicted(step=self._validation.step, epoch=epoch, said=said)
        return predicted[min(self.slider.value(), len(predicted) - 1)] if predicted else None

    def _show_moment(self, _value: int | str = 0) -> None:
        predicted, chosen, is_sample = self._predictions.predicted, self._chosen, self._judged is None
        self._stack.setCurrentIndex(0 if chosen is None else 1)
        if chosen is None:
            return
        is_test = self._predictions.is_test
        self.model.show(self._examples, predicted[0] if predicted else None, chosen, is_test=is_test)
        self._fit_table(is_one_moment=len(predicted) == 1 or not is_sample)
        self._moment.setText("" if is_test else moment_text(chosen, is_test=False))
        self.slider.setVisible(is_sample and len(predicted) > 1)
        now, then = right_text(chosen), right_text(predicted[0]) if predicted else ""
        both = _("{now} · before training {then}").format(now=now, then=then)
        if not is_sample:
            now = self._kept_text()
        self._right.setText(both if is_sample and now and chosen is not predicted[0] else now)
        if not self.table.selectionModel().hasSelection():
            self.table.selectRow(0)
        self._show_example()

    def _kept_text(self) -> str:
        """How many of the wrong examples, or of a cell's, are shown; empty if all are."""
        kept, confusion = len(self._examples), self._predictions.confusion
        if self.filter.value() == OF_CELL and confusion is not None:
            row, column = map(confusion.labels.index, self._cell)
            text, count = _("{kept} of {count} were kept"), confusion.counts[row][column]
        else:
            text, count = _("the {kept} most confident"), self._validation.wrong if self._validation else 0
        return text.format(kept=formats.count(kept), count=formats.count(count)) if kept < count else ""

    def _fit_table(self, *, is_one_moment: bool) -> None:
        examples = self._examples
        self.markup.setVisible(any(example.asked for example in examples))
        has_images = any(example.image for example in examples)
        row = PICTURE + SPACING if has_images else self.table.fontMetrics().height() + SPACING + 2
        self.table.verticalHeader().setDefaultSectionSize(row)
        answers = [said.text for predicted in self._predictions.predicted for said in predicted.said]
        is_long = any(len(text.strip()) > LONG for text in (*answers, *(one.expected for one in examples)))
        has_expected = any(example.expected for example in examples)
        self.table.setColumnHidden(Column.BEFORE, is_one_moment or is_long)
        self.table.setColumnHidden(Column.EXPECTED, not has_expected)
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
        examples, judged = self._examples, self._judged
        row = rows[0].row() if rows else len(examples)
        path = (
            file_inside(self._folder, examples[row].image) if examples[row:] and examples[row].image else None
        )
        self.image.setVisible(path is not None)
        self.image.setPixmap(QPixmap() if path is None else picture(path, LARGE_PICTURE))
        self.bars.setVisible(bool(judged and judged[row:]))
        if judged and judged[row:]:
            self.bars.show_chances(judged[row].chances, judged[row].example.expected)
        texts = self._texts(row) if row < len(examples) else []
        self.whole.setVisible(bool(texts))
        if texts != self._whole_texts:
            scrolled = self.whole.verticalScrollBar().value()
            self._whole_texts = texts
            self._write_texts()
            self.whole.verticalScrollBar().setValue(scrolled)

    def _write_texts(self) -> None:
        """Write the texts, each below its title, or beside it if all answers are short."""
        is_short = all(len(text) <= LONG and "\n" not in text for _title, text in self._whole_texts[1:])
        self.whole.clear()
        cursor, plain, bold = self.whole.textCursor(), QTextCharFormat(), QTextCharFormat()
        bold.setFontWeight(QFont.Weight.DemiBold)
        for number, (title, text) in enumerate(self._whole_texts):
            cursor.insertText(("\n" if is_short else "\n\n") if number else "", plain)
            cursor.insertText(f"{title}:", bold)
            cursor.insertText(f" {text}" if is_short else f"\n{text}", plain)

    def _texts(self, row: int) -> list[tuple[str, str]]:
        """Titles and texts of an example: input, expected answer, the answers at the slider's moment and before it.

        Of a judged one it is the input alone: the bars show the rest.
        """
        example = self._examples[row]
        title = _("Your prompt") if example.is_own else _("Input")
        given = example.given if self.markup.isChecked() else example.shown
        cut = _("truncated at the maximum length") if example.is_cut else ""
        texts = [(" · ".join(filter(None, (title, example.where, cut))), given)] if given else []
        read = [(_("What the model read"), example.given)] if cut else []
        if self._judged is not None:
            return texts + read
        if example.expected:
            texts.append((expected_title(said_of(row, self._chosen)), visible(example.expected)))
        chosen, before = self._chosen, next(iter(self._predictions.predicted), None)
        for predicted in (chosen, before if before is not chosen else None):
            said = said_of(row, predicted)
            if predicted is not None and said is not None:
                is_cut = said.is_cut and bool(said.text.strip())
                moment = moment_text(predicted, is_test=self._predictions.is_test)
                title = _("Prediction · {moment}").format(moment=moment)
                texts.append((title, f"{visible(said.text)}{' …' if is_cut else ''}"))
        return texts + read
