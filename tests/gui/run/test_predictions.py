"""Predictions on a run's page: the same examples through time, and the confusion matrix."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QImage, QPixmap
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from core.base.settings import Appearance
from core.engine.tasks.metrics import confusion
from core.jobs.chat import Chance
from core.runs.events import (
    ConfusionCounted,
    Example,
    ExamplesChosen,
    Judged,
    LabelCounted,
    Predicted,
    RunStarted,
    Said,
    Validation,
)
from core.runs.folder import RunFolder
from core.runs.status import MOST_CONFUSIONS, PredictionLog, RunStatus
from gui.base.files import folder_title
from gui.base.theme import Theme, contrast, readable_on
from gui.charts.series import mixed
from gui.run.confusion import ConfusionGrid, ConfusionPage, Figure
from gui.run.predictions import (
    PredictionColumn,
    PredictionsModel,
    RunPredictions,
    given_text,
    own_file,
    said_text,
    visible,
)
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
    assert page.table.isColumnHidden(PredictionColumn.BEFORE)
    assert not page.slider.isVisible()
    assert cell(page, 0, PredictionColumn.AFTER) == "✗  no  90 %"
    assert cell(page, 0, PredictionColumn.GIVEN) == "The film was fine.  ¦  I liked it."
    add(page, AFTER)
    assert cell(page, 0, PredictionColumn.AFTER) == "✓  yes  90 %"
    assert cell(page, 0, PredictionColumn.BEFORE) == "✗  no  90 %"
    assert not page.table.isColumnHidden(PredictionColumn.EXPECTED)
    assert page.right.text() == "2 of 2 right · before training 1 of 2 right"
    page.table.selectRow(1)
    words = page.whole.toPlainText()
    assert words.index("Poor story.") < words.index("Step 10") < words.index("Before training")
    page.slider.setValue(0)
    add(page, predicted(20, ("yes", True), ("yes", False)))
    assert cell(page, 0, PredictionColumn.AFTER) == "✗  no  90 %"
    page.slider.setValue(2)
    assert cell(page, 1, PredictionColumn.AFTER) == "✗  yes  90 %"


def test_long_texts_are_compared_below_the_table(page):
    add(
        page,
        ExamplesChosen(examples=(Example(given="Tell me", expected=LONG, is_own=True), EXAMPLES[1])),
        Predicted(step=10, epoch=1.0, said=(Said(text="There was"), Said(text="\n\n"))),
        Predicted(step=20, epoch=1.0, said=(Said(text="There was once"), Said(text="\n\n"))),
    )
    assert page.table.isColumnHidden(PredictionColumn.BEFORE)
    assert page.table.isColumnHidden(PredictionColumn.BEFORE)
    page.slider.setValue(1)
    words = page.whole.toPlainText()
    assert words.startswith("Your prompt:\nTell me")
    assert words.index(LONG) < words.index("Step 10") < words.index("Before training")
    assert "Step 20" not in words  # the slider stands elsewhere
    assert cell(page, 1, PredictionColumn.AFTER) == "(only spaces)"


def test_without_predictions_the_page_says_why(qtbot, tmp_path):
    page = RunPredictions(Theme(Appearance.LIGHT), tmp_path, PredictionLog())
    qtbot.addWidget(page)
    assert "appear here" in page.empty.text()
    page.refresh(is_over=True)
    assert "no predictions" in page.empty.text()


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
    assert cell(page, 0, PredictionColumn.GIVEN) == "A fine – DAY."
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
    assert model.index(0, PredictionColumn.GIVEN).data(role).availableSizes()
    assert model.index(1, PredictionColumn.GIVEN).data(role) is None


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
    matrix = details.confusion.grid
    assert matrix.accessibleDescription() == "1 of “cat” were predicted as “dog” (25.0 % of “cat”)"
    details.setCurrentIndex(tab)
    with qtbot.waitExposed(details):
        details.show()
    side, left, top = matrix._cell(), matrix._names_width(), matrix._top()
    over = QPoint(int(left + 1.5 * side), int(top + 0.5 * side))
    assert matrix.text_at(over) == "1 of “cat” were predicted as “dog” (25.0 % of “cat”)"
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
    page, grid = details.predictions, details.confusion.grid
    assert [cell(page, row, PredictionColumn.GIVEN) for row in range(page.model.rowCount())] == ["A cat"]
    grid.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Return):
        qtbot.keyClick(grid, key)
    assert details.currentWidget() is details.predictions_page
    assert [cell(page, row, PredictionColumn.GIVEN) for row in range(page.model.rowCount())] == ["A dog"]
    assert page.bars.bars[0].name == "dog"
    assert page.right.text() == "1 of 34 were kept"
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Return):
        qtbot.keyClick(grid, key)
    assert page.right.text() == "", "it has no other"


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
    assert all(place in (0, 1) for place in grid.current), "the frame stays in the matrix"


def judged(tmp_path, count=3):
    """Wrong examples with a photograph each, the first also as the model sees it; the last one's file is gone."""
    image = QImage(40, 30, QImage.Format.Format_RGB32)
    image.fill(0x00FF00)
    (tmp_path / "run" / "examples").mkdir(parents=True)
    assert image.scaled(8, 8).save(str(tmp_path / "run" / "examples" / "0.png"))
    examples = []
    for number in range(count):
        photo = tmp_path / f"IMG_{number}.png"
        if number < count - 1:
            assert image.save(str(photo))
        seen = "" if number else "examples/0.png"
        chances = (Chance("dog", 0.9 - number / 10), Chance("cat", 0.1 + number / 10))
        examples.append(Judged(example=Example(image=seen, file=str(photo), expected="cat"), chances=chances))
    return Validation(step=5, wrong=count, examples=tuple(examples))


@pytest.fixture
def photos(qtbot, tmp_path):
    page = RunPredictions(Theme(Appearance.LIGHT), tmp_path / "run", PredictionLog())
    qtbot.addWidget(page)
    page.resize(900, 500)
    page.show_validation(judged(tmp_path))
    page.show()
    return page


def test_wrong_images_are_a_grid_with_names_and_labels_or_a_list(photos):
    assert photos.views.currentWidget() is photos.tiles
    assert [cell(photos, row, PredictionColumn.GIVEN) for row in range(3)] == [
        f"IMG_{row}.png" for row in range(3)
    ]
    assert [cell(photos, row, PredictionColumn.AFTER) for row in range(3)] == [
        f"✗  dog  {share} %" for share in (90, 80, 70)
    ]
    assert (
        photos.tiles.visualRect(photos.model.index(1, 0)).top()
        == photos.tiles.visualRect(photos.model.index(0, 0)).top()
    )
    photos.view.buttons()["list"].click()
    assert photos.views.currentWidget() is photos.table


def test_the_photograph_is_beside_what_the_model_sees(photos):
    photos.tiles.setCurrentIndex(photos.model.index(0, 0))
    assert (photos.photo.caption.text(), photos.seen.caption.text()) == (
        "IMG_0.png, 40 × 30",
        "What the model sees, 8 × 8",
    )
    assert photos.whole.isHidden()
    photos.tiles.setCurrentIndex(photos.model.index(1, 0))
    assert (photos.photo.isHidden(), photos.seen.isHidden()) == (False, True)
    photos.tiles.setCurrentIndex(photos.model.index(2, 0))
    assert photos.images.isHidden(), "its file is gone"
    assert "IMG_2.png" in photos.whole.toPlainText()


def ask_for_menu(view, place, reason=QContextMenuEvent.Reason.Mouse):
    watched = view if reason is QContextMenuEvent.Reason.Keyboard else view.viewport()
    QApplication.sendEvent(watched, QContextMenuEvent(reason, place, view.mapToGlobal(place)))


def test_a_file_is_offered_by_a_right_click_and_opened_by_a_double_click(qtbot, monkeypatch, photos):
    opened, menus = [], []
    monkeypatch.setattr("gui.run.predictions.open_file", lambda _parent, path: opened.append(path.name))
    monkeypatch.setattr(QMenu, "popup", lambda menu, _at: menus.append(menu))
    for view, title in ((photos.tiles, "grid"), (photos.table, "list")):
        photos.view.buttons()[title].click()
        view.doubleClicked.emit(photos.model.index(1, 0))
        ask_for_menu(view, view.visualRect(photos.model.index(0, 0)).center())
        ask_for_menu(view, QPoint(850, 450))  # beside the examples
        view.setFocus()
        view.setCurrentIndex(photos.model.index(2, 0))
        qtbot.keyClick(view, Qt.Key.Key_Return)
        ask_for_menu(view, QPoint(5, 5), QContextMenuEvent.Reason.Keyboard)
    assert opened == ["IMG_1.png"] * 2, "the file of the last one is gone"
    wanted = ["Open", folder_title(), "Copy path"]
    assert [[action.text() for action in menu.actions()] for menu in menus] == [wanted, ["Copy path"]] * 2


def test_a_new_evaluation_leaves_the_selected_example_and_the_place_in_the_list(photos, tmp_path):
    photos.tiles.setCurrentIndex(photos.model.index(1, 0))
    before = photos.validation.examples
    photos.show_validation(Validation(step=9, wrong=3, examples=(before[2], before[0], before[1])))
    assert [index.row() for index in photos.table.selectionModel().selectedRows()] == [2]
    assert photos.photo.caption.text().startswith("IMG_1.png")
    photos.show_validation(Validation(step=12, wrong=1, examples=before[2:]))
    assert [index.row() for index in photos.table.selectionModel().selectedRows()] == [0], "it is right now"


def test_a_photograph_is_decoded_later_and_once(qtbot, photos, monkeypatch):
    role = Qt.ItemDataRole.DecorationRole
    assert photos.model.index(0, 0).data(role).availableSizes(), "what the model sees is small"
    qtbot.waitUntil(lambda: photos.model.index(1, 0).data(role) is not None)
    read = []
    monkeypatch.setattr("gui.run.predictions.read_image", lambda *_: read.append(1) or (QPixmap(), (0, 0)))
    photos.tiles.setCurrentIndex(photos.model.index(1, 0))
    photos._show_moment()
    assert len(read) == 1


@pytest.mark.parametrize(
    "name",
    [
        *("//server/share/a.png", "\\\\server\\share\\a.png", "\\/server/a.png", "", "/dev/null"),
        *("/home/me/photo.jpg.desktop", "/tmp/run.exe", f"/tmp/{'a' * 300}.png", "/tmp/\0.png"),
    ],
)
def test_no_other_computer_and_no_device_is_asked_for_a_photograph(monkeypatch, name):
    if len(name) < 100 and "\0" not in name:
        monkeypatch.setattr(Path, "is_file", lambda path: path != Path("/dev/null"))
    assert own_file(Example(file=name)) is None


def test_each_label_has_its_figures_the_worst_first_and_every_evaluation_its_matrix(qtbot):
    log = PredictionLog()
    first = ConfusionCounted(step=5, labels=("cat", "dog"), counts=((3, 1), (0, 4)))
    later = ConfusionCounted(step=9, labels=("cat", "dog"), counts=((0, 4), (0, 4)), is_kept=False)
    page = ConfusionPage(Theme(Appearance.LIGHT), log)
    qtbot.addWidget(page)
    kept = Validation(step=5, wrong=1, examples=())
    assert not page.refresh("No matrix yet.", lambda: kept)
    assert page.words.text() == "No matrix yet."
    assert page.table.isHidden() or not page.table.isVisible()
    for event in (first, later):
        log.apply(event)
    assert page.refresh("", lambda: kept)
    assert page.grid.shown == first, "the examples and the model of the first are kept"

    def rows():
        figures = page.figures
        return [[figures.index(row, column).data() for column in Figure] for row in range(figures.rowCount())]

    assert rows() == [
        ["cat", "100.0 %", "75.0 %", "85.7 %", "4"],
        ["dog", "80.0 %", "100.0 %", "88.9 %", "4"],
    ]
    page.slider.setValue(1)
    assert rows() == [["cat", "–", "0.0 %", "0.0 %", "4"], ["dog", "50.0 %", "100.0 %", "66.7 %", "4"]]
    assert "Only the examples of step 5 are kept." in page.words.text()
    heard = []
    page.opened.connect(lambda *labels: heard.append(labels))
    page.grid.current = (0, 1)
    qtbot.keyClick(page.grid, Qt.Key.Key_Return)
    assert not heard, "there are no examples of it"
    page.slider.setValue(0)
    qtbot.keyClick(page.grid, Qt.Key.Key_Return)
    assert heard == [("cat", "dog")]
    page.slider.setValue(1)
    log.apply(ConfusionCounted(step=12, labels=("cat", "dog"), counts=((4, 0), (0, 4)), is_kept=False))
    assert page.refresh("", lambda: kept)
    assert page.grid.shown == later, "the slider stays where it was put"
    page.slider.setValue(0)
    newest = ConfusionCounted(step=15, labels=("cat", "dog"), counts=((4, 0), (0, 4)))
    log.apply(newest)
    assert page.refresh("", lambda: kept)
    assert page.grid.shown == newest, "but follows what is kept"
    assert "Click" not in page.words.text(), "the examples are those of another step"
    page.table.sortByColumn(Figure.COUNT, Qt.SortOrder.DescendingOrder)
    log.apply(RunStarted(from_step=4))
    assert log.confusion is None, "the resume undoes both"


def test_the_figures_of_labels_agree_with_those_of_scikit_learn():
    from sklearn.metrics import precision_recall_fscore_support

    rng = np.random.default_rng(0)
    true, predicted_labels = rng.integers(0, 60, 500), rng.integers(0, 60, 500)
    names = tuple(f"label {number}" for number in range(60))
    counted = confusion(predicted_labels.tolist(), true.tolist(), names)
    assert (len(counted.labels), len(counted.each_label)) == (50, 60)
    known = precision_recall_fscore_support(true, predicted_labels, labels=range(60), zero_division=0)
    for place, one in enumerate(counted.each_label):
        figures = (one.precision or 0, one.recall or 0, one.f1 or 0, one.true)
        assert figures == pytest.approx([column[place] for column in known])


def test_the_matrix_that_is_kept_stays_however_many_come_after_it():
    log = PredictionLog()
    for step in range(1, MOST_CONFUSIONS + 50):
        counts = ((step, 0), (0, 1))
        log.apply(ConfusionCounted(step=step, labels=("a", "b"), counts=counts, is_kept=step == 1))
    assert log.confusion.step == 1
    assert len(log.confusions) == MOST_CONFUSIONS
    assert log.confusions[-1].step == MOST_CONFUSIONS + 49


@pytest.mark.parametrize("counts", [((1, 2), (1,)), ((1,),), (), ((1, 2, 3), (4, 5, 6), (7, 8, 9))])
def test_a_matrix_from_elsewhere_is_made_square(qtbot, counts):
    found = ConfusionCounted(step=1, labels=("a", "b"), counts=counts).within_limits()
    assert [len(row) for row in found.counts] == [2, 2]
    assert len(found.each_label) == 2
    grid = ConfusionGrid(Theme(Appearance.LIGHT))
    qtbot.addWidget(grid)
    grid.show_confusion(found)
    assert not grid.grab().isNull()


@pytest.mark.parametrize("appearance", [Appearance.LIGHT, Appearance.DARK])
def test_numbers_in_the_matrix_can_be_read_in_every_colour(appearance):
    tokens = Theme(appearance).tokens
    for colour in (tokens.activations, tokens.bad):
        for strength in range(101):
            ground = mixed(QColor(colour), QColor(tokens.grid), strength / 100)
            assert contrast(ground, readable_on(ground)) >= 4.5


def test_a_page_with_many_long_labels_is_no_wider_than_its_window(qtbot):
    names = tuple(f"a label that is rather long, {number}" for number in range(50))
    log = PredictionLog()
    log.apply(ConfusionCounted(step=5, labels=names, counts=((1,) * 50,) * 50))
    page = ConfusionPage(Theme(Appearance.LIGHT), log)
    qtbot.addWidget(page)
    page.refresh("", lambda: None)
    page.show()
    for width in (1400, 760):
        page.resize(width, 500)
        QApplication.processEvents()
        assert page.minimumSizeHint().width() <= 760
    assert page.table.width() <= page.width() // 2


def test_shares_are_of_all_samples_of_a_label_also_where_columns_are_left_out(qtbot):
    counted = tuple(LabelCounted(label=name, true=4, predicted=4, right=1) for name in ("a", "b", "c"))
    found = ConfusionCounted(
        step=1, labels=("a", "b"), counts=((1, 1), (1, 1)), left_out=1, of_labels=counted
    )
    grid = ConfusionGrid(Theme(Appearance.LIGHT))
    qtbot.addWidget(grid)
    grid.show_confusion(found)
    assert grid._text(0, 0) == "1 of “a” were predicted as “a” (25.0 % of “a”)"


def test_shares_beside_labels_from_right_to_left_stay_in_one_piece():
    assert said_text(Said(text="קטה", sure=0.95)) == "\u2068קטה\u2069  95 %"
    assert said_text(Said(text="cat", sure=0.95)) == "cat  95 %"


def test_a_cell_without_examples_is_no_filter_any_more(photos):
    photos.show_cell("cat", "dog")
    assert photos.filter.value() == "cell"
    photos.show_validation(Validation(step=9, wrong=0, examples=()))
    assert photos.filter.value() == "sample"
    photos.filter.buttons()["mistakes"].click()
    assert photos.right.text() == "Nothing is wrong."
    photos.show_validation(None)
    assert photos.filter.value() == "sample"


def test_a_conversation_shows_what_the_user_asked_and_its_marks_on_demand(page):
    marked = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    add(page, ExamplesChosen(examples=(Example(given=marked, asked="Why?", expected="So."), EXAMPLES[1])))
    assert cell(page, 0, PredictionColumn.GIVEN) == "Why?"
    assert "im_start" not in page.whole.toPlainText()
    page.markup.setChecked(True)
    assert "im_start" in page.whole.toPlainText()
