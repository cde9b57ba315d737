"""Predictions on a run's page: the same examples through time, and the confusion matrix."""

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from core.base.settings import Appearance
from core.runs.events import (
    Chance,
    ConfusionCounted,
    Example,
    ExamplesChosen,
    Judged,
    Predicted,
    RunStarted,
    Said,
    Validation,
)
from core.runs.folder import RunFolder
from core.runs.status import PredictionLog, RunStatus
from gui.base.theme import Theme
from gui.run.predictions import Column, ConfusionGrid, PredictionsModel, RunPredictions, given_text, visible
from gui.run.tabs import RunDetails
from tests.fakes.charts import EventHistory
from tests.fakes.runs import OPTIONS

EXAMPLES = (
    Example(given="The film was fine.\nI liked it.", expected="yes"),
    Example(given="Poor story.", expected="no"),
)
LONG = "There was once a king who had a daughter, and nobody could make her laugh."


def predicted(step, *answers):
    said = tuple(Said(text=text, sure=0.9, right=right) for text, right in answers)
    return Predicted(step=step, epoch=step / 10, said=said)


BEFORE = predicted(0, ("no", False), ("no", True))
AFTER = predicted(10, ("yes", True), ("no", True))


@pytest.fixture
def page(qtbot, tmp_path):
    log = PredictionLog()
    for event in (RunStarted(), ExamplesChosen(examples=EXAMPLES), BEFORE):
        log.apply(event)
    page = RunPredictions(Theme(Appearance.LIGHT), tmp_path, log)
    page.log = log
    qtbot.addWidget(page)
    page.resize(800, 400)
    page.show()
    return page


def add(page, *events):
    for event in events:
        page.log.apply(event)
    page.refresh(is_over=False)


def cell(page, row, column):
    return str(page.model.index(row, column).data())


def test_the_slider_follows_the_newest_predictions_until_it_is_moved(page):
    assert page.table.isColumnHidden(Column.BEFORE)
    assert not page.slider.isVisible()
    assert cell(page, 0, Column.AFTER) == "✗  no  90 %"
    assert cell(page, 0, Column.GIVEN) == "The film was fine.  ¦  I liked it."
    add(page, AFTER)
    assert cell(page, 0, Column.AFTER) == "✓  yes  90 %"
    assert cell(page, 0, Column.BEFORE) == "✗  no  90 %"
    assert not page.table.isColumnHidden(Column.EXPECTED)
    assert page._right.text() == "2 of 2 right · before training 1 of 2 right"
    page.table.selectRow(1)
    words = page.whole.toPlainText()
    assert words.index("Poor story.") < words.index("Step 10") < words.index("Before training")
    page.slider.setValue(0)
    add(page, predicted(20, ("yes", True), ("yes", False)))
    assert cell(page, 0, Column.AFTER) == "✗  no  90 %"
    page.slider.setValue(2)
    assert cell(page, 1, Column.AFTER) == "✗  yes  90 %"


def test_long_texts_are_compared_below_the_table(page):
    add(
        page,
        ExamplesChosen(examples=(Example(given="Tell me", expected=LONG, is_own=True), EXAMPLES[1])),
        Predicted(step=10, epoch=1.0, said=(Said(text="There was"), Said(text="\n\n"))),
        Predicted(step=20, epoch=1.0, said=(Said(text="There was once"), Said(text="\n\n"))),
    )
    assert page.table.isColumnHidden(Column.BEFORE)
    assert page.table.isColumnHidden(Column.BEFORE)
    page.slider.setValue(1)
    words = page.whole.toPlainText()
    assert words.startswith("Your prompt:\nTell me")
    assert words.index(LONG) < words.index("Step 10") < words.index("Before training")
    assert "Step 20" not in words  # the slider stands elsewhere
    assert cell(page, 1, Column.AFTER) == "(only spaces)"


def test_without_predictions_the_page_says_why(qtbot, tmp_path):
    page = RunPredictions(Theme(Appearance.LIGHT), tmp_path, PredictionLog())
    qtbot.addWidget(page)
    assert "appear here" in page._empty.text()
    page.refresh(is_over=True)
    assert "no predictions" in page._empty.text()


def test_texts_are_shown_on_one_line_and_empty_ones_in_words():
    assert [visible(text) for text in ("", "\n", " ", "a\n")] == [
        *("(empty)", "(only spaces)", "(only spaces)", "a\n")
    ]
    assert given_text(Example(given="One\nfine\nday")) == "One fine day"
    assert given_text(Example(given="one day", texts=("One\nDay",))) == "One Day"
    assert given_text(Example(given="a\nb", texts=("A\n1", "B"))) == "A 1  ¦  B"


def test_the_text_of_the_data_is_shown_and_what_was_read_of_it(page):
    cut = Example(
        given="a fine [UNK]", texts=("A fine – DAY.",), where="row 17 of films.csv", is_cut=True, expected="y"
    )
    said = Predicted(step=10, epoch=1.0, said=(Said(text="y"), Said(text="y")))
    add(page, ExamplesChosen(examples=(cut, EXAMPLES[1])), said)
    assert cell(page, 0, Column.GIVEN) == "A fine – DAY."
    page.table.selectRow(0)
    words = page.whole.toPlainText()
    assert words.startswith("Input · row 17 of films.csv · truncated at the maximum length: A fine – DAY.\n")
    assert words.endswith("What the model read: a fine [UNK]")
    page.table.selectRow(1)
    assert "What the model read" not in page.whole.toPlainText()


def test_images_are_shown_unless_they_are_outside_the_run(qtbot, tmp_path):
    folder = tmp_path / "run"
    (folder / "examples").mkdir(parents=True)
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    image.fill(0xFF0000)
    assert image.save(str(folder / "examples" / "0.png"))
    assert image.save(str(tmp_path / "private.png"))
    model = PredictionsModel(folder)
    model.show((Example(image="examples/0.png"), Example(image="../private.png")), BEFORE, BEFORE)
    role = Qt.ItemDataRole.DecorationRole
    assert model.index(0, Column.GIVEN).data(role).availableSizes()
    assert not model.index(1, Column.GIVEN).data(role).availableSizes()


def test_the_confusion_matrix_has_a_tab_from_the_beginning(qtbot, tmp_path):
    history = EventHistory()
    details = RunDetails(Theme(Appearance.LIGHT), tmp_path, QWidget(), history)
    qtbot.addWidget(details)
    details.resize(600, 400)
    details.refresh(RunStatus(), is_over=False)
    tab = next(at for at in range(details.count()) if details.tabText(at) == "Confusion matrix")
    assert not details.isTabVisible(tab), "the task is not known"
    details.show_task(OPTIONS)
    assert details.isTabVisible(tab)
    history.apply(ConfusionCounted(step=5, labels=("cat", "dog"), counts=((3, 1), (0, 4))))
    details.refresh(RunStatus(), is_over=False)
    assert details.isTabVisible(tab)
    matrix = details.confusion
    assert matrix.accessibleDescription() == "1 of “cat” were predicted as “dog”"
    details.setCurrentIndex(tab)
    with qtbot.waitExposed(details):
        details.show()
    side, left, top = matrix._cell(), matrix._names_width(), matrix._top()
    over = QPoint(int(left + 1.5 * side), int(top + 0.5 * side))
    assert matrix.text_at(over) == "1 of “cat” were predicted as “dog”"
    assert matrix.text_at(QPoint(0, 0)) == ""


def test_a_cell_of_the_matrix_opens_its_examples_and_the_wrong_ones_come_first(qtbot, tmp_path):
    chances = (Chance("dog", 0.8), Chance("cat", 0.2))
    judged = [
        Judged(example=Example(given=f"A {label}", expected=label), chances=chances)
        for label in ("cat", "dog")
    ]
    found = Validation(step=5, wrong=1, examples=tuple(judged))
    RunFolder(tmp_path).validation_file.write_bytes(msgspec.json.encode(found))
    history = EventHistory()
    details = RunDetails(Theme(Appearance.LIGHT), tmp_path, QWidget(), history)
    qtbot.addWidget(details)
    history.apply(ConfusionCounted(step=5, labels=("cat", "dog"), counts=((0, 1), (0, 34))))
    details.refresh(RunStatus(), is_over=True)
    page, grid = details.predictions, details.confusion
    assert [cell(page, row, Column.GIVEN) for row in range(page.model.rowCount())] == ["A cat"]
    grid.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Return):
        qtbot.keyClick(grid, key)
    assert details.currentWidget() is details._predictions_page
    assert [cell(page, row, Column.GIVEN) for row in range(page.model.rowCount())] == ["A dog"]
    assert page.bars.bars[0].name == "dog"
    assert page._right.text() == "1 of 34 were kept"
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Return):
        qtbot.keyClick(grid, key)
    assert page._right.text() == "", "it has no other"


@pytest.mark.parametrize(
    ("column", "row", "button", "opened"),
    [
        (1, 0, Qt.MouseButton.LeftButton, [("cat", "dog")]),
        (1, 0, Qt.MouseButton.RightButton, []),
        (0, 0, Qt.MouseButton.LeftButton, []),  # an empty cell
        (2, 0, Qt.MouseButton.LeftButton, []),
        (0, 2, Qt.MouseButton.LeftButton, []),
        (-1, 0, Qt.MouseButton.LeftButton, []),
        (0, -1, Qt.MouseButton.LeftButton, []),
    ],
)
def test_a_click_opens_a_cell_and_beside_the_matrix_does_nothing(qtbot, column, row, button, opened):
    grid, heard = ConfusionGrid(Theme(Appearance.LIGHT)), []
    qtbot.addWidget(grid)
    grid.show_confusion(ConfusionCounted(step=5, labels=("cat", "dog"), counts=((0, 3), (1, 4))))
    grid.resize(600, 400)
    grid.opened.connect(lambda *labels: heard.append(labels))
    side = grid._cell()
    x, y = grid._names_width() + (column + 0.5) * side, grid._top() + (row + 0.5) * side
    qtbot.mouseClick(grid, button, pos=QPoint(int(x), int(y)))
    assert heard == opened
    assert all(place in (0, 1) for place in grid._current), "the frame stays in the matrix"


def test_a_conversation_shows_what_the_user_asked_and_its_marks_on_demand(page):
    marked = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    add(page, ExamplesChosen(examples=(Example(given=marked, asked="Why?", expected="So."), EXAMPLES[1])))
    assert cell(page, 0, Column.GIVEN) == "Why?"
    assert "im_start" not in page.whole.toPlainText()
    page.markup.setChecked(True)
    assert "im_start" in page.whole.toPlainText()
