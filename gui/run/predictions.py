"""The tab "Predictions": wrong examples, those of a cell of the matrix, and the same sample at each evaluation."""

import contextlib
from collections import OrderedDict
from enum import IntEnum
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QItemSelection, QModelIndex, QObject, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QGuiApplication,
    QIcon,
    QPixmap,
    QResizeEvent,
    QShortcut,
    QStandardItem,
    QStandardItemModel,
    QTextCharFormat,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QSlider,
    QSplitter,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.files import file_inside
from core.base.language import _
from core.options.presets import IMAGE_FORMATS
from core.runs.events import Example, Judged, Predicted, Said, Validation
from core.runs.status import PredictionLog
from gui.base.files import open_file, open_file_menu
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.widgets.bars import ChanceBars
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import isolated, plain_tip, role_label, text_label
from gui.widgets.layout import FLUSH, fill
from gui.widgets.pictures import SIDE, Picture, Tiles, picture, read_image
from gui.widgets.tables import Index, set_up_rows

RIGHT, WRONG = "✓", "✗"
LONGEST_LINE = 300
"""Characters of a text in a cell; the whole text is below the table."""
LONG = 40
"""Longer texts are compared below the table only: in its cells, only their similar beginnings could be seen."""
PAIR_SEPARATOR = "  ¦  "
PICTURE, LARGE_PICTURE = 48, 800
"""Side of an image in a row, and at most of the selected one, in pixels."""
MOST_ICONS = 400
"""Decoded pictures that are kept for the grid."""
TITLE_LETTERS = 16
"""Of each label of a cell, on the button that shows its examples."""
GRID, LIST = "grid", "list"
"""How images are shown: as pictures with names and labels, or in rows with what was predicted before."""
SAMPLE, MISTAKES, OF_CELL = "sample", "mistakes", "cell"
"""Which examples are shown: the same ones at each evaluation, the wrong ones, those of a cell of the matrix."""


def moment_text(predicted: Predicted, *, is_test: bool) -> str:
    """Name an evaluation: `Before training`, `Step 1,150 (epoch 2.0)` or `Test`."""
    if is_test:
        # Translators: a noun, data that was neither trained nor validated on
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
    """An example's input on one line, with a separator between the two texts of a pair; an image's name."""
    if example.image or example.file:
        return example.name
    parts = [" ".join(part.split()) for part in example.texts or example.shown.strip().split("\n")]
    return (PAIR_SEPARATOR if len(parts) == 2 else " ").join(filter(None, parts))[:LONGEST_LINE]


def visible(text: str) -> str:
    """The text, or a note if it is blank."""
    if text.strip():
        return text
    return _("(only spaces)") if text else _("(empty)")


def said_text(said: Said) -> str:
    """A prediction on one line, with its probability, or a mark if the text was cut at the maximum length."""
    line = isolated(" ".join(visible(said.text).split())[:LONGEST_LINE])
    if said.sure is not None:
        return f"{line}  {formats.whole_percent(said.sure)}"
    return f"{line} …" if said.is_cut and said.text.strip() else line


def right_text(predicted: Predicted) -> str:
    """`11 of 16 right`; empty if predictions aren't right or wrong."""
    judged = [said.right for said in predicted.said if said.right is not None]
    return _("{right} of {all} right").format(right=sum(judged), all=len(judged)) if judged else ""


def _same(example: Example) -> tuple[str, ...]:
    """Return what identifies an example in all evaluations."""
    return example.file, example.where, example.shown


class PredictionColumn(IntEnum):
    """Columns of the table of predictions."""

    GIVEN = 0
    EXPECTED = 1
    BEFORE = 2
    AFTER = 3


def own_file(example: Example) -> Path | None:
    """The file of an example's image, if it is on this computer.

    A run's folder may be a stranger's: no other computer is asked, and nothing but an image is shown or opened.
    """
    path = Path(example.file)
    is_of_network = example.file.replace("\\", "/").startswith("//")
    if is_of_network or path.suffix.lower() not in IMAGE_FORMATS:
        return None
    with contextlib.suppress(OSError, ValueError):
        return path if path.is_file() else None
    return None


class PredictionsModel(QStandardItemModel):
    """A row per example: the input, the expected answer, the answers before training and at a chosen moment."""

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(0, len(PredictionColumn), parent)
        self._folder = folder
        self._icons: OrderedDict[int, QIcon] = OrderedDict()
        self._waiting: list[int] = []
        self._load = QTimer(self, interval=0)
        self._load.timeout.connect(self._load_next)
        self.examples: tuple[Example, ...] = ()

    def show(
        self,
        examples: tuple[Example, ...],
        before: Predicted | None,
        after: Predicted | None,
        *,
        is_test: bool = False,
    ) -> None:
        if examples != self.examples:
            self.examples = examples
            self._icons.clear()
            self._waiting.clear()
            self.setRowCount(0)
            for example in examples:
                given = QStandardItem(given_text(example))
                expected = QStandardItem(" ".join(example.expected.split())[:LONGEST_LINE])
                self.appendRow([given, expected, QStandardItem(), QStandardItem()])
        moments = [moment_text(one, is_test=is_test) if one else "" for one in (before, after)]
        self.setHorizontalHeaderLabels([_("Input"), expected_title(said_of(0, after)), *moments])
        for column, predicted in ((PredictionColumn.BEFORE, before), (PredictionColumn.AFTER, after)):
            for row in range(self.rowCount()):
                said = said_of(row, predicted)
                mark = "" if said is None or said.right is None else f"{RIGHT if said.right else WRONG}  "
                self.item(row, column).setText("" if said is None else mark + said_text(said))

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the data of a cell. Images are decoded when first seen; their spoken text has the labels."""
        if index.column() == PredictionColumn.GIVEN:
            if role == Qt.ItemDataRole.DecorationRole:
                return self._icon(index.row())
            if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
                example = self.examples[index.row()]
                expected, after = (
                    self.item(index.row(), column).text()
                    for column in (PredictionColumn.EXPECTED, PredictionColumn.AFTER)
                )
                true = _("True: {label}").format(label=isolated(expected)) if expected else ""
                where = example.file or example.where or given_text(example)
                words = "\n".join(filter(None, (where, after, true)))
                return words if role == Qt.ItemDataRole.AccessibleTextRole else plain_tip(words)
        return super().data(index, role)

    def seen(self, example: Example) -> Path | None:
        """The file of an image as the model sees it."""
        return file_inside(self._folder, example.image) if example.image else None

    def _icon(self, row: int) -> QIcon | None:
        """A small picture of what the model sees, or later of the file itself, which may be large."""
        example = self.examples[row]
        if row in self._icons:
            self._icons.move_to_end(row)
            return self._icons[row]
        if (seen := self.seen(example)) is not None:
            return self._keep(row, seen)
        if example.file and row not in self._waiting:
            self._waiting.append(row)
            self._load.start()
        return None

    def _keep(self, row: int, path: Path | None) -> QIcon:
        image, icon = QPixmap() if path is None else picture(path, 2 * SIDE), QIcon()  # sharp at 2x, too
        for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
            if not image.isNull():
                icon.addPixmap(image, mode)  # or a selected one would be tinted
        self._icons[row] = icon
        if len(self._icons) > MOST_ICONS:
            self._icons.popitem(last=False)
        return icon

    def _load_next(self) -> None:
        """Decode one file, the one last seen first, so that the window never waits for all."""
        if not self._waiting:
            self._load.stop()
            return
        row = self._waiting.pop()
        self._keep(row, own_file(self.examples[row]))
        index = self.index(row, PredictionColumn.GIVEN)
        self.dataChanged.emit(index, index, [Qt.ItemDataRole.DecorationRole])


def said_of(row: int, predicted: Predicted | None) -> Said | None:
    """The prediction for an example, if there is one."""
    return predicted.said[row] if predicted is not None and row < len(predicted.said) else None


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
        self.validation: Validation | None = None
        self._cell = ("", "")
        self.filter = Segmented()
        self.filter.chosen.connect(self._show_moment)
        self.filter.hide()
        self.model = PredictionsModel(folder, self)
        self.view = Segmented((Segment(GRID, _("Grid")), Segment(LIST, _("List"))))
        self.view.setAccessibleName(_("Show as"))
        self.view.set_value(GRID)
        self.view.chosen.connect(self._show_moment)
        self.table = self._make_table()
        self.tiles = self._make_tiles(theme)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(_("Evaluation to show"))
        self.slider.setRange(0, 0)
        self.slider.setPageStep(1)
        self.slider.setMaximumWidth(280)
        self.slider.valueChanged.connect(self._show_moment)
        self._moment, self.right = QLabel(), role_label(Role.HINT)
        self._whole_texts: list[tuple[str, str]] = []
        self.whole = QPlainTextEdit(readOnly=True)
        self.whole.setFrameShape(QFrame.Shape.NoFrame)
        self.whole.setAccessibleName(_("The selected example"))
        self.markup = QCheckBox(_("Show template text"))
        self.markup.setToolTip(_("The whole text that the model reads, with the marks of its chat template."))
        self.markup.toggled.connect(self._show_moment)
        self.photo, self.seen = Picture(), Picture()
        self._pictured: Example | None = None
        self.bars = ChanceBars(theme)
        self.empty = text_label(role=Role.MUTED)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._lay_out())
        fill(QVBoxLayout(self), self._stack, margins=FLUSH)
        self._shown: tuple[tuple[Example, ...], list[Predicted], bool] | None = None
        self.refresh(is_over=False)

    def refresh(self, *, is_over: bool) -> None:
        predicted = self._predictions.predicted
        if (shown := (self._predictions.examples, predicted, is_over)) == self._shown:
            return
        self._shown = shown
        self.empty.setText(_("This run has no predictions.") if is_over else _("Predictions appear here."))
        was_at_end = self.slider.value() == self.slider.maximum()
        blocked = self.slider.blockSignals(True)
        self.slider.setMaximum(max(0, len(predicted) - 1))
        if was_at_end:
            self.slider.setValue(self.slider.maximum())
        self.slider.blockSignals(blocked)
        self._show_moment()

    def show_validation(self, validation: Validation | None) -> None:
        """Offer the examples of the newest evaluation, and show the wrong ones unless others were chosen."""
        is_first = self.validation is None
        self.validation = validation
        pairs = {(one.example.expected, one.predicted) for one in validation.examples} if validation else ()
        if self._cell not in pairs:
            self._cell = ("", "")
        self._show_filters()
        if is_first and validation is not None and validation.wrong:
            self.filter.set_value(MISTAKES)
        self._show_moment()

    def show_cell(self, true: str, predicted: str) -> None:
        """Show the examples of a cell of the confusion matrix."""
        if self.validation is not None:
            self._cell = (true, predicted)
            self._show_filters()
            self.filter.set_value(OF_CELL)
        self._show_moment()

    def _show_filters(self) -> None:
        found = self.validation
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
            title = " → ".join(isolated(label[:TITLE_LETTERS]) for label in self._cell)
            segments.append(
                Segment(OF_CELL, title, tip.format(true=isolated(true), predicted=isolated(predicted)))
            )
        self.filter.set_segments(segments, keeps_value=False)
        self.filter.setAccessibleName(_("Examples"))
        self.filter.setVisible(len(segments) > 1)
        if not self.filter.value():
            self.filter.set_value(MISTAKES if found is not None and found.wrong else SAMPLE)

    @property
    def _judged(self) -> tuple[Judged, ...] | None:
        """The examples of the newest evaluation that are shown; None if the sample is."""
        if self.validation is None or self.filter.value() in ("", SAMPLE):
            return None
        judged = self.validation.examples
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
            self.view,
            self._moment,
            self.slider,
            None,
            self.right,
            self.markup,
            margins=(SPACING, 0, SPACING, 0),
            spacing=2 * SPACING,
        )
        self.views = QStackedWidget()
        self.views.addWidget(self.table)
        self.views.addWidget(self.tiles)
        self._split = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        self._split.addWidget(self.views)
        selected = QWidget()
        self.images = QWidget()
        fill(QHBoxLayout(self.images), (self.photo, 1), (self.seen, 1), margins=FLUSH, spacing=SPACING)
        beside = fill(QVBoxLayout(), self.bars, (self.whole, 1), spacing=SPACING)
        beside.setAlignment(self.bars, Qt.AlignmentFlag.AlignTop)
        self._beside = fill(
            QBoxLayout(QBoxLayout.Direction.LeftToRight, selected),
            (self.images, 1),
            (beside, 1),
            margins=(SPACING, SPACING, SPACING, 0),
            spacing=2 * SPACING,
        )
        self._split.addWidget(selected)
        self._split.setStretchFactor(0, 3)
        self._split.setStretchFactor(1, 2)
        page = QWidget()
        fill(
            QVBoxLayout(page),
            bar,
            (self._split, 1),
            margins=(SPACING, SPACING, SPACING, SPACING),
            spacing=SPACING,
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
        header.setSectionResizeMode(PredictionColumn.GIVEN, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(SPACING * 8)
        table.selectionModel().selectionChanged.connect(self._show_example)
        self._let_open(table)
        return table

    def _make_tiles(self, theme: Theme) -> Tiles:
        tiles = Tiles(theme, (PredictionColumn.EXPECTED, PredictionColumn.AFTER))
        tiles.setModel(self.model)
        tiles.setSelectionModel(self.table.selectionModel())
        tiles.setAccessibleName(_("Examples"))
        self._let_open(tiles)
        return tiles

    def _let_open(self, view: QAbstractItemView) -> None:
        """Let a double click or Return open the file of an image, and a menu offer what can be done with it."""
        view.doubleClicked.connect(self._open_file)
        opens = QShortcut(Qt.Key.Key_Return, view, context=Qt.ShortcutContext.WidgetShortcut)
        opens.activated.connect(lambda: self._open_file(view.currentIndex()))
        for watched in (view, view.viewport()):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if not isinstance(event, QContextMenuEvent):
            return super().eventFilter(watched, event)
        view, is_by_key = self.view_shown, event.reason() is QContextMenuEvent.Reason.Keyboard
        index = view.currentIndex() if is_by_key else view.indexAt(event.pos())
        if index.isValid():
            place = view.visualRect(index).center() if is_by_key else event.pos()
            self._open_menu(self.model.examples[index.row()], view.viewport().mapToGlobal(place))
        return True

    def _open_menu(self, example: Example, at: QPoint) -> None:
        if (path := own_file(example)) is not None:
            open_file_menu(self, path, at)
        elif example.file:  # elsewhere, or gone
            menu = QMenu(self)
            menu.addAction(_("Copy path"), lambda: QGuiApplication.clipboard().setText(example.file))
            menu.aboutToHide.connect(menu.deleteLater)
            menu.popup(at)

    def _open_file(self, index: QModelIndex) -> None:
        if index.isValid() and (path := own_file(self.model.examples[index.row()])) is not None:
            open_file(self, path)

    @property
    def view_shown(self) -> QAbstractItemView:
        """The grid or the list."""
        return self.tiles if self.views.currentWidget() is self.tiles else self.table

    @property
    def _chosen(self) -> Predicted | None:
        """The predictions at the slider's moment, or those of the newest evaluation."""
        predicted, judged = self._predictions.predicted, self._judged
        if judged is not None and self.validation is not None:
            said = tuple(
                Said(text=one.predicted, sure=one.chances[0].chance, right=one.is_right)
                for one in judged
                if one.chances
            )
            epoch = next((one.epoch for one in predicted if one.step == self.validation.step), 0.0)
            return Predicted(step=self.validation.step, epoch=epoch, said=said)
        return predicted[min(self.slider.value(), len(predicted) - 1)] if predicted else None

    def _show_moment(self, _value: int | str = 0) -> None:
        predicted, chosen, is_sample = self._predictions.predicted, self._chosen, self._judged is None
        self._stack.setCurrentIndex(0 if chosen is None else 1)
        if chosen is None:
            return
        is_test, view = self._predictions.is_test, self.view_shown
        selected = [index.row() for index in self.table.selectionModel().selectedRows()]
        before = [_same(self.model.examples[row]) for row in selected if row < len(self.model.examples)]
        scrolled = view.verticalScrollBar().value()
        self.model.show(self._examples, predicted[0] if predicted else None, chosen, is_test=is_test)
        self._fit_table(is_one_moment=len(predicted) == 1 or not is_sample)
        self._moment.setText("" if is_test else moment_text(chosen, is_test=False))
        self.slider.setVisible(is_sample and len(predicted) > 1)
        now, then = right_text(chosen), right_text(predicted[0]) if predicted else ""
        both = _("{now} · before training {then}").format(now=now, then=then)
        if not is_sample:
            now = self._kept_text()
        self.right.setText(both if is_sample and now and chosen is not predicted[0] else now)
        if not self.table.selectionModel().hasSelection():
            again = (row for row, example in enumerate(self._examples) if _same(example) in before)
            self.table.selectRow(next(again, 0))
            view.verticalScrollBar().setValue(scrolled)  # what is below the pointer stays, as far as it can
        self._show_example()

    def _kept_text(self) -> str:
        """How many of the wrong examples, or of a cell's, are shown; empty if all are."""
        kept, confusion = len(self._examples), self._predictions.confusion
        count = self.validation.wrong if self.validation else 0
        if self.filter.value() == OF_CELL and confusion is not None:
            try:
                row, column = map(confusion.labels.index, self._cell)
            except ValueError:  # of many labels the matrix has others now
                return ""
            count = confusion.counts[row][column]
        text = _("{kept} of {count} were kept") if kept else _("None of {count} were kept")
        if not count:
            return _("Nothing is wrong.")
        return text.format(kept=formats.count(kept), count=formats.count(count)) if kept < count else ""

    def _fit_table(self, *, is_one_moment: bool) -> None:
        examples = self._examples
        self.markup.setVisible(any(example.asked for example in examples))
        has_images = any(example.image or example.file for example in examples)
        self.view.setVisible(has_images)
        is_grid = has_images and self.view.value() == GRID
        self.views.setCurrentWidget(self.tiles if is_grid else self.table)
        orientation = Qt.Orientation.Horizontal if is_grid else Qt.Orientation.Vertical
        if orientation is not self._split.orientation():
            self._split.setOrientation(orientation)
            self._split.setSizes([760, 240] if is_grid else [600, 400])
            directions = QBoxLayout.Direction
            self._beside.setDirection(directions.TopToBottom if is_grid else directions.LeftToRight)
        row = PICTURE + SPACING if has_images else self.table.fontMetrics().height() + SPACING + 2
        self.table.verticalHeader().setDefaultSectionSize(row)
        answers = [said.text for predicted in self._predictions.predicted for said in predicted.said]
        is_long = any(len(text.strip()) > LONG for text in (*answers, *(one.expected for one in examples)))
        has_expected = any(example.expected for example in examples)
        self.table.setColumnHidden(PredictionColumn.BEFORE, is_one_moment or is_long)
        self.table.setColumnHidden(PredictionColumn.EXPECTED, not has_expected)
        self._share_width()

    def _share_width(self) -> None:
        """Give columns of short answers only the width they need."""
        shown = [each for each in PredictionColumn if not self.table.isColumnHidden(each)]
        share = self.table.viewport().width() // max(1, len(shown))
        for column in shown[1:]:
            self.table.setColumnWidth(column, min(share, self._width_of(column)))

    def _width_of(self, column: PredictionColumn) -> int:
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
        self._show_images(examples[row] if examples[row:] else None)
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

    def _show_images(self, example: Example | None) -> None:
        """Show the photograph of an example beside what the model sees of it."""
        if example == self._pictured:
            return
        self._pictured = example
        seen = None if example is None else self.model.seen(example)
        own = None if example is None else own_file(example)
        self.images.setVisible(seen is not None or own is not None)
        for shown, path, title in (
            (self.photo, own, example.name if example is not None else ""),
            (self.seen, seen, _("What the model sees")),
        ):
            image, size = (QPixmap(), (0, 0)) if path is None else read_image(path, LARGE_PICTURE)
            shown.setHidden(image.isNull())
            if example is not None and not image.isNull():
                shown.show_image(title, image, example.name, str(own or ""), size)

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
        texts = [(formats.in_line(title, example.where, cut), given)] if given else []
        if self.photo.isHidden() and (example.image or example.file):
            texts = [(_("File") if example.file else _("Image"), example.name)]
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
