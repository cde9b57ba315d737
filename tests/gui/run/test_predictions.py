"""Predictions on a run's page: the same examples through time, and what is mixed up."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from core.base.settings import Appearance
from core.runs.events import ConfusionCounted, Example, ExamplesChosen, Predicted, RunStarted, Said
from core.runs.status import PredictionLog, RunStatus
from gui.base.theme import Theme
from gui.charts.history import RunHistory
from gui.run.predictions import Column, PredictionsModel, RunPredictions, given_text, visible
from gui.run.tabs import RunDetails

EXAMPLES = (
    Example(given="The film was fine.\nI liked it.", expected="yes"),
    Example(given="Poor story.", expected="no"),
)


def told(step: int, *answers: tuple[str, bool]) -> Predicted:
    said = tuple(Said(text=text, sure=0.9, right=right) for text, right in answers)
    return Predicted(step=step, epoch=step / 10, said=said)


BEFORE = told(0, ("no", False), ("no", True))
AFTER = told(10, ("yes", True), ("no", True))


@pytest.fixture
def predictions():
    found = PredictionLog()
    for event in (RunStarted(), ExamplesChosen(examples=EXAMPLES), BEFORE):
        found.apply(event)
    return found


@pytest.fixture
def page(qtbot, tmp_path, predictions):
    page = RunPredictions(tmp_path, predictions)
    qtbot.addWidget(page)
    page.resize(800, 400)
    page.show()
    return page


def cell(page: RunPredictions, row: int, column: Column) -> str:
    return str(page.model.index(row, column).data())


def test_a_prompt_of_ones_own_is_called_so(page, predictions):
    predictions.apply(ExamplesChosen(examples=(Example(given="Sing!", is_own=True), EXAMPLES[1])))
    page.refresh(is_over=False)
    assert page.whole.toPlainText().startswith("Your prompt:\nSing!")


def test_before_training_there_is_one_moment(page):
    assert page.table.isColumnHidden(Column.BEFORE)
    assert not page.slider.isVisible()
    assert cell(page, 0, Column.AFTER) == "✗  no  90 %"
    assert "Before training" in str(page.model.headerData(Column.AFTER, Qt.Orientation.Horizontal))


def test_the_slider_follows_the_newest_until_it_is_moved(page, predictions):
    predictions.apply(AFTER)
    page.refresh(is_over=False)
    assert cell(page, 0, Column.AFTER) == "✓  yes  90 %"
    assert cell(page, 0, Column.BEFORE) == "✗  no  90 %"
    assert not page.table.isColumnHidden(Column.EXPECTED)
    assert not page.table.isColumnHidden(Column.BEFORE)
    assert page._right.text() == "2 of 2 right · before training 1 of 2 right"
    page.slider.setValue(0)
    predictions.apply(told(20, ("yes", True), ("yes", False)))
    page.refresh(is_over=False)
    assert cell(page, 0, Column.AFTER) == "✗  no  90 %"
    page.slider.setValue(2)
    assert cell(page, 1, Column.AFTER) == "✗  yes  90 %"


def test_all_that_was_said_of_the_chosen_example_stands_below(page, predictions):
    predictions.apply(AFTER)
    page.refresh(is_over=False)
    page.table.selectRow(1)
    words = page.whole.toPlainText()
    assert words.index("Poor story.") < words.index("Step 10") < words.index("Before training")


LONG = "There was once a king who had a daughter, and nobody could make her laugh."


def test_long_texts_are_compared_below_the_table(page, predictions):
    predictions.apply(ExamplesChosen(examples=(Example(given="Tell me", expected=LONG), EXAMPLES[1])))
    for step, words in ((10, "There was"), (20, "There was once")):
        predictions.apply(Predicted(step=step, epoch=1.0, said=(Said(text=words), Said(text="\n\n"))))
    page.refresh(is_over=False)
    assert page.table.isColumnHidden(Column.EXPECTED)
    assert page.table.isColumnHidden(Column.BEFORE)
    page.slider.setValue(1)
    words = page.whole.toPlainText()
    places = [words.index(part) for part in ("Tell me", LONG, "Step 10", "Before training")]
    assert places == sorted(places)
    assert "Step 20" not in words  # the slider stands elsewhere
    assert cell(page, 1, Column.AFTER) == "(only whitespace)"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "(nothing)"), ("\n", "(only whitespace)"), (" ", "(only whitespace)"), ("a\n", "a\n")],
)
def test_an_answer_without_a_letter_is_told_in_words(text, words):
    assert visible(text) == words


def test_the_texts_of_a_pair_stay_apart_on_one_line(page):
    assert cell(page, 0, Column.GIVEN) == "The film was fine.  ¦  I liked it."
    assert given_text("One\nfine\nday") == "One fine day"


def test_without_predictions_it_says_why(qtbot, tmp_path):
    page = RunPredictions(tmp_path, PredictionLog())
    qtbot.addWidget(page)
    assert "before the first step" in page._empty.text()
    page.refresh(is_over=True)
    assert "no predictions" in page._empty.text()


def test_images_stand_in_the_rows_and_none_from_elsewhere(qtbot, tmp_path):
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


def test_what_is_mixed_up_is_a_tab_once_it_is_known(qtbot, tmp_path):
    history = RunHistory()
    details = RunDetails(Theme(Appearance.LIGHT), tmp_path, QWidget(), history)
    qtbot.addWidget(details)
    details.resize(600, 400)
    details.refresh(RunStatus(), is_over=False)
    place = next(at for at in range(details.count()) if details.tabText(at) == "Confusion matrix")
    assert not details.isTabVisible(place)
    counted = ConfusionCounted(step=5, labels=("cat", "dog"), counts=((3, 1), (0, 4)))
    history.apply(counted)
    details.refresh(RunStatus(), is_over=False)
    assert details.isTabVisible(place)
    grid = details.confusion
    assert grid.accessibleDescription() == "1 of “cat” were predicted as “dog”"
    details.setCurrentIndex(place)
    with qtbot.waitExposed(details):
        details.show()
    side, left, top = grid._cell(), grid._names_width(), grid._top()
    over = QPoint(int(left + 1.5 * side), int(top + 0.5 * side))
    assert grid.text_at(over) == "1 of “cat” were predicted as “dog”"
    assert grid.text_at(QPoint(0, 0)) == ""
