"""The data in the form: read, shown, its columns guessed or chosen, and what its findings change."""

import msgspec
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from core.base.errors import DataError, Fix
from core.base.jobs import JobProgress
from core.jobs.inspect import DataColumn, DataColumnKind, DataFinding, FindingLevel
from core.options.choices import Task
from core.options.presets import find_example
from gui.new_run.data_panel import FindingsPane
from gui.widgets.layout import Sheet
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import PAIRS
from tests.fakes.on_screen import press
from tests.gui.new_run.steps import (
    TEXTS,
    await_reading,
    choose,
    drop,
    load,
    load_chat,
    put,
    row,
    rows,
    settle,
    start_text,
    uses,
)

CHANGE_TO_CHAT = "Change to “Chat”"


def columns(page):
    return page.tree()["data"]["columns"]


def test_from_a_dropped_file_to_a_run_that_can_start(qtbot, page, answers, talks, model):
    load(page, source=model)
    drop(page, talks)
    press(page.offer, CHANGE_TO_CHAT)  # dropped data may propose the task
    await_reading(qtbot, page)
    assert page.tree()["task"] == "chat"
    assert page.tree()["data"]["train"] == str(talks)
    guessed = {"instruction": "Prompt · guessed", "input": "Input · guessed", "output": "Answer · guessed"}
    assert uses(page) == guessed
    assert not row(page, "data.columns").isVisible(), "columns are chosen in the table"

    choose(page, "input", "system")
    assert columns(page)["system"] == "input"
    await_reading(qtbot, page)
    assert uses(page)["input"] == "System prompt"  # no guess any more

    findings = page.options.data.findings
    assert findings.summary.text() == "1 problem, 1 warning"
    assert start_text(page) == "Fix “Training data”"
    put(page, data__roles={"ann": "user"})
    await_reading(qtbot, page)
    press(findings, "Read “bob” as the assistant")
    assert page.tree()["data"]["roles"] == {"ann": "user", "bob": "assistant"}
    await_reading(qtbot, page)
    assert findings.summary.text() == "1 warning"
    assert start_text(page) == "Start training"
    with qtbot.waitSignal(page.start_requested):
        page.start()


def test_the_engine_has_the_last_word_on_the_task_that_data_is_for(qtbot, page, answers, talks, tmp_path):
    look, table = answers.answers["inspect"], tmp_path / "table.parquet"
    table.touch()
    load(page)
    for path, is_proposed, task in ((table, False, Task.CHAT), (talks, True, Task.TEXT_CLASSIFICATION)):
        answers.answers["inspect"] = lambda body, task=task: msgspec.structs.replace(look(body), suits=task)
        drop(page, path)
        assert page.offer.isVisible() == is_proposed  # by its name
        await_reading(qtbot, page)
        assert page.offer.isVisible() != is_proposed


def test_data_that_cannot_be_read_for_a_task_proposes_the_one_it_is_for(qtbot, page, answers, tmp_path):
    scores, prose = tmp_path / "scores.csv", tmp_path / "prose.txt"
    scores.write_text("text,score\na,0.5\n")
    prose.write_text("Once upon a time\nthere was a king.\n")
    load(page, "image-classification")
    answers.answers["inspect"] = DataError("prose.txt has no column of images", "")
    drop(page, prose)
    assert page.offer.isVisible()  # by its ending
    change = Fix("Change to “Text regression”", {"task": "text-regression"})
    advice = Fix("Download or copy the file again")
    answers.answers["inspect"] = DataError("scores.csv has no column of images", "", (advice, change))
    drop(page, scores)
    qtbot.waitUntil(lambda: page.reading.failure is not None and not page.reading.is_waiting)
    assert page.offer.isVisible()  # by the engine
    assert advice.label in row(page, "data.train").note.lines
    assert page.options.data.findings.isHidden(), "it is said at the field"
    assert advice.label not in [button.text() for button in page.findChildren(QPushButton)]
    press(page.options, change.label)
    assert page.tree()["task"] == "text-regression"
    assert page.tree()["data"]["train"] == str(scores)


def test_the_untouched_form_takes_the_task_of_the_first_data_and_undo_brings_it_back(
    qtbot, page, answers, talks, tmp_path
):
    first = page.tree()["task"]
    drop(page, talks)
    assert page.tree()["task"] == "chat"
    assert page.changes.isVisible()
    press(page.changes, "Undo")
    assert page.tree()["task"] == first
    page.load_example(find_example("digits"))
    scores = tmp_path / "scores.csv"
    scores.write_text("text,score\na,0.5\n")
    change = Fix("Change to “Text regression”", {"task": "text-regression"})
    answers.answers["inspect"] = DataError("scores.csv has no column of images", "", (change,))
    drop(page, scores)
    qtbot.waitUntil(lambda: page.tree()["task"] == "text-regression")
    assert page.tree()["data"]["train"] == str(scores)
    page.load_example(find_example("digits"))
    put(page, training__epochs=2.0)
    drop(page, talks)
    assert page.tree()["task"] == first, "the person has begun to choose"
    assert page.offer.isVisible()


def test_a_file_never_changes_the_task_that_the_person_came_for_in_either_direction(
    qtbot, page, answers, tmp_path
):
    picture, table = tmp_path / "photo.jpg", tmp_path / "ratings.txt"
    picture.touch()
    table.write_text("id\ttext\tlabel\n1\tgood\t1\n")
    texts = Fix("Change to “Text classification”", {"task": "text-classification"})
    answers.answers["inspect"] = DataError("photo.jpg is neither a table nor a text", "")
    page.load_example(find_example("messages"))
    drop(page, picture)
    assert page.tree()["task"] == "text-classification"
    press(page.offer, "Keep “Text classification”")
    assert not page.offer.isVisible()
    assert page.tree()["task"] == "text-classification"
    drop(page, table)
    picture = picture.with_name("another.jpg")
    picture.touch()
    drop(page, picture)
    assert page.offer.isVisible()
    drop(page, table)
    assert not page.offer.isVisible(), "it was about the picture"
    drop(page, picture)
    press(page.offer, "Change to “Image classification”")
    assert page.tree()["task"] == "image-classification"
    answers.answers["inspect"] = DataError("ratings.txt has no images", "", (texts,))
    drop(page, table)
    qtbot.waitUntil(page.offer.isVisible)
    assert page.tree()["task"] == "image-classification"
    press(page.offer, texts.label)
    assert page.tree()["task"] == "text-classification"
    assert page.tree()["data"]["train"] == str(table)


def test_what_is_listed_of_a_former_file_goes_with_it(page, answers, talks, pairs):
    drop(page, talks)
    assert page.changes.isVisible()
    drop(page, pairs)
    assert not page.changes.isVisible()


def test_the_form_is_reset_to_the_beginning_of_its_task(page, pairs):
    load(page, data=pairs, training={"epochs": 9})
    page.start_afresh()
    tree = page.tree()
    assert (tree["task"], tree["data"]["train"], tree["training"]["epochs"]) == (TEXTS, "", 3)
    page.stack.undo()
    assert page.tree()["training"]["epochs"] == 9


def test_the_dialog_for_files_offers_what_the_task_reads(page):
    for task, first, missing in ((TEXTS, "*.csv", "*.bmp"), ("image-classification", "*.bmp", "*.txt")):
        load(page, task)
        for path in ("data.train", "data.eval"):
            known, _all = row(page, path).field.filters.split(";;")
            assert first in known
            assert missing not in known


def test_nothing_changes_by_a_path_that_is_still_typed(qtbot, page, answers, talks):
    field, folder = page.options.fields.train, talks.parent
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        (folder / name / "a.png").touch()
    settle(qtbot, page)
    before, asked = page.tree(), len(answers.inspected())
    page.stack.clear()
    for path, end in (
        (folder, lambda: qtbot.keyClick(field.line, Qt.Key.Key_Return)),
        (talks, field.pause.timeout.emit),
        (folder, lambda: field.line.focusOutEvent(QFocusEvent(QEvent.Type.FocusOut))),
        (folder.parent, page.start),
    ):
        field.line.selectAll()
        for letter in str(path):
            qtbot.keyClicks(field.line, letter)
            if str(path) != field.line.text():
                field.pause.timeout.emit()  # a long pause
            assert page.tree() == before
        assert not page.reading.is_waiting
        assert len(answers.inspected()) == asked
        end()
        assert page.tree()["data"]["train"] == str(path)
        page.stack.setIndex(0)
        assert page.tree() == before
        settle(qtbot, page)
        asked = len(answers.inspected())


def test_the_button_back_to_the_task_restores_all_that_an_automatic_change_replaced(
    qtbot, page, answers, talks
):
    before, prose = page.tree(), talks.with_name("prose.txt")
    prose.write_text("Once upon a time\nthere was a king.\n")
    change = Fix("Change to “Image classification”", {"task": "image-classification"})
    answers.answers["inspect"] = DataError("prose.txt can't be used", "", (change,))
    drop(page, prose)
    assert page.tree()["task"] == "causal-lm"
    qtbot.waitUntil(lambda: page.reading.failure is not None and not page.reading.is_waiting)
    press(page.options, change.label)
    after = page.tree()
    assert {**after, "data": None} == {**before, "data": None}
    assert after["data"]["train"] == str(prose)


def with_found(report, fix):
    finding = DataFinding(code="unused-split", level=FindingLevel.WARNING, message="", count=1, fixes=(fix,))
    return msgspec.structs.replace(report, findings=(finding,))


def test_of_many_findings_the_first_are_in_the_page_and_all_in_a_window(qtbot):
    fix = Fix("Leave them out", {"data.skip_bad_rows": True})
    found = [
        DataFinding(
            code=f"f{number}",
            level=FindingLevel.WARNING,
            message=f"Finding {number}",
            count=1,
            fixes=(fix,) if number == 6 else (),
        )
        for number in range(7)
    ]
    pane = FindingsPane(5)
    qtbot.addWidget(pane)
    pane.show_findings(found[:5])
    assert [label for label in texts_of(pane) if "Finding" in label] == [
        f"Finding {number}" for number in range(5)
    ]
    assert not pane.findChildren(QPushButton)
    pane.show_findings(found)
    pane.show()
    press(pane, "Show all 7…")
    sheet = pane.findChild(Sheet)
    assert [label for label in texts_of(sheet) if "Finding" in label][-1] == "Finding 6"
    with qtbot.waitSignal(pane.fix_chosen) as chosen:
        press(sheet, "Leave them out")
    assert chosen.args == [fix]
    assert not sheet.isVisible()


def test_long_findings_are_whole_and_the_views_make_room(qtbot, page, answers, talks):
    files = ", ".join(f"a folder with a name/a photograph {number}.jpg" for number in range(9))
    found = tuple(
        DataFinding(code=f"f{number}", level=FindingLevel.WARNING, message=f"{number}: {files}", count=9)
        for number in range(5)
    )
    answers.answers["inspect"] = msgspec.structs.replace(report_for(Task.CHAT, str(talks)), findings=found)
    load(page, "chat", data=talks)
    await_reading(qtbot, page)
    pane = page.options.data.findings
    qtbot.waitUntil(lambda: pane.height() >= pane.heightForWidth(pane.width()))
    said = [label for label in pane.findChildren(QLabel) if "photograph" in label.text()]
    assert len(said) == 5
    qtbot.waitUntil(lambda: all(label.height() >= label.heightForWidth(label.width()) for label in said))
    assert page.options.data.views.height() >= page.options.data.views.minimumHeight()


def texts_of(widget):
    return [label.text() for label in widget.findChildren(QLabel)]


def test_validation_data_that_comes_with_chosen_data_is_used_until_it_is_undone_or_other_data_chosen(
    qtbot, page, answers, pairs, tmp_path
):
    dev = {"data.eval": str(pairs.with_name("dev.tsv"))}
    found = msgspec.structs.replace(PAIRS, source=str(pairs))
    answers.answers["inspect"] = with_found(found, Fix("Use dev", dev))
    form = page.options.form
    page.load_tree({"task": "text-classification", "data": {"train": str(pairs)}})
    await_reading(qtbot, page)
    assert form.value("data.eval") is None, "a run file keeps its meaning"

    def choose_again():
        page.load_tree({"task": "text-classification"})
        drop(page, pairs)
        qtbot.waitUntil(lambda: form.value("data.eval") is not None)

    choose_again()
    press(page.changes, "Undo")
    await_reading(qtbot, page)
    assert (form.value("data.eval"), form.value("data.train")) == (None, str(pairs))
    choose_again()
    (tmp_path / "more").mkdir()
    put(page, data__train=str(tmp_path / "more"))
    assert form.value("data.eval") is None
    await_reading(qtbot, page)
    page.load_tree({"task": "text-classification"})
    put(page, data__eval_fraction=0.3)
    drop(page, pairs)
    await_reading(qtbot, page)
    assert form.value("data.eval") is None, "the person chose a fraction"


def test_rows_lengths_and_findings_of_conversations(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    overview = page.options.data
    views, findings, lengths = overview.views, overview.findings, overview.views.lengths
    texts = {label.text(): label for label in findings.findChildren(QLabel)}
    assert not any('href="401"' in text for text in texts), "beyond the rows shown"
    views.setCurrentIndex(1)
    next(label for text, label in texts.items() if 'href="17"' in text).linkActivated.emit("17")
    assert views.currentWidget() is views.rows
    assert selected_row(views) == 16

    answers.gate.clear()
    put(page, data__max_length=160)
    assert lengths.limit == 160
    assert lengths.text.text().startswith("About ")  # until it is counted again
    answers.gate.set()
    put(page, data__max_length=512)
    await_reading(qtbot, page)
    assert lengths.text.text().startswith("7 of ")
    assert selected_row(views) == 16

    press(overview, "Enlarge")
    assert views.window() is overview.sheet
    overview.sheet.reject()
    assert views.window() is page.window()
    assert views.isVisible()

    link = next(check.path for check in page.outcome.checks.checks if "bob" in check.text)
    page.outcome.checks.path_chosen.emit(link)
    viewport = page.scroll_area.viewport()
    assert findings.isAncestorOf(page.options.focusWidget())
    qtbot.waitUntil(lambda: viewport.rect().contains(findings.mapTo(viewport, findings.rect().center())))


def selected_row(views):
    return views.rows.table.selectionModel().selectedRows()[0].row()


def test_reading_can_be_stopped_and_repeated(qtbot, page, answers, talks, model):
    answers.gate.clear()
    answers.progress = (JobProgress(done=2, total=5),)
    load(page, "chat", model)
    page.set_data(talks)
    line = page.options.data.line
    qtbot.waitUntil(lambda: line.text.text() == "Reading and checking: 40 %")
    line.cancel_button.click()
    assert line.text.text() == "The data was not checked."
    answers.gate.set()
    qtbot.waitUntil(lambda: not page.questions.model.is_waiting)
    assert start_text(page) == "Start training"  # the run will report what is wrong
    line.again_button.click()
    await_reading(qtbot, page)
    assert start_text(page) == "Fix “Training data”"


def test_recent_data_is_in_the_menu(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    put(page, data__train="builtin:digits")
    menu = page.options.fields.train.menu
    menu.aboutToShow.emit()
    next(action for action in menu.actions() if action.text() == "talks.json").trigger()
    assert page.tree()["data"]["train"] == str(talks)


def test_steps_follow_an_option_at_once_and_the_report_later(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    answers.gate.clear()
    put(page, data__eval_fraction=0.5)
    assert "499 for training, 500 for validation" in rows(page)["Data"]
    answers.gate.set()
    await_reading(qtbot, page)
    assert "899 for training" in rows(page)["Data"]
    packed = msgspec.structs.replace(report_for(Task.CHAT, str(talks)), train_rows=154, findings=())
    answers.answers["inspect"] = packed
    load(page, "chat", data=talks, of_data={"packing": True})
    await_reading(qtbot, page)
    assert rows(page)["Steps"] == "30 · 10 per epoch: 899 examples packed into 154"
    prose = report_for(Task.CAUSAL_LM, str(talks))
    note = "1 text of 1,115,394 characters."
    answers.answers["inspect"] = msgspec.structs.replace(prose, train_rows=None, notes=(note,))
    load(page, "causal-lm", data=talks)
    await_reading(qtbot, page)
    assert (rows(page)["Data"], rows(page)["Steps"]) == ("talks.json", "3 epochs"), (
        "blocks aren't counted yet"
    )
    assert row(page, "memory.batch_size").advice == ()
    assert page.options.data.line.notes.text() == note
    assert not any(note in check.text for check in page.outcome.checks.checks)


def test_nothing_below_the_data_moves_while_it_is_read(qtbot, page, answers, talks, model):
    """Whoever types a learning rate must not find it in the batch size."""

    def heights():
        QApplication.sendPostedEvents()  # layouts that wait to be updated
        form = page.options.form
        shown = [path for path in form.paths if row(page, path).isVisible()]
        return {path: row(page, path).mapTo(page, QPoint()).y() for path in shown}

    bad = talks.with_name("bad.json")
    bad.touch()
    load(page, "chat", model)
    answers.gate.clear()
    put(page, data__train=str(talks))
    before = heights()
    assert "training.learning_rate" in before
    page.show_error(DataError("A banner", "appears"))
    assert heights() == before
    answers.gate.set()
    await_reading(qtbot, page)
    assert page.options.data.views.isVisible()
    assert heights() == before
    answers.answers["inspect"] = DataError("It can't be read", "Row 3")
    put(page, data__train=str(bad))
    qtbot.waitUntil(lambda: bool(row(page, "data.train").problems))
    assert heights() == before


def test_guesses_stay_guesses(qtbot, page, answers, pairs):
    load(page, data=pairs)
    await_reading(qtbot, page)
    for there_and_back in (
        lambda: (
            page.header.task_chosen.emit(Task.CHAT),
            page.header.task_chosen.emit(Task.TEXT_CLASSIFICATION),
        ),
        lambda: (page.start_afresh(), page.stack.undo()),
    ):
        there_and_back()
        assert not page.chosen_tree()["data"].get("text_columns")
        await_reading(qtbot, page)
        assert page.tree()["data"]["label_column"] == "same"
        assert "label_column" not in page.chosen_tree()["data"]  # other data would have others
    answers.gate.clear()
    put(page, data__header="off")
    assert not page.tree()["data"].get("label_column")  # other names of columns
    answers.gate.set()
    await_reading(qtbot, page)
    assert page.tree()["data"]["label_column"] == "same"


def test_options_of_one_file_are_not_those_of_the_next(qtbot, page, answers, talks, tmp_path):
    load_chat(qtbot, page, talks)
    asked = {"prompt": "instruction", "input": "input", "answer": "output"}
    chosen = {"columns": asked, "roles": {"ann": "user"}, "header": "off", "eval_split": "test"}
    put(page, **{f"data__{name}": value for name, value in chosen.items()})
    assert chosen.items() <= page.chosen_tree()["data"].items()
    other = tmp_path / "wizard.json"
    other.write_text("[]")
    drop(page, other)
    left = {name: page.options.form.field(f"data.{name}").value() for name in chosen}
    assert left == {"columns": {}, "roles": {}, "header": "auto", "eval_split": None}
    text = {"kind": DataColumnKind.TEXT, "distinct": 2, "empty": 0, "examples": ("a",)}
    answers.answers["inspect"] = msgspec.structs.replace(
        report_for(Task.CHAT, str(other)),
        columns=(DataColumn(name="q", **text), DataColumn(name="a", **text)),
        columns_by_role={"prompt": "q", "answer": "a"},
        findings=(),
    )
    await_reading(qtbot, page)
    assert columns(page) == {"prompt": "q", "answer": "a"}
    assert "columns" not in page.chosen_tree()["data"]


def test_columns_chosen_for_one_file_are_chosen_in_the_next_that_has_them(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    choose(page, "input", "system")
    chosen = columns(page)
    await_reading(qtbot, page)
    more = talks.with_name("more.json")
    more.write_text("[]")
    drop(page, more)
    qtbot.waitUntil(lambda: page.chosen_tree()["data"].get("columns") == chosen)
    settle(qtbot, page)
    assert answers.inspected()[-1].asked["data"]["columns"] == chosen
    own = {"prompt": "output, long", "answer": " a = b"}
    put(page, data__train=str(talks.with_name("new.json")), data__columns=own)
    assert columns(page) == own, "columns that come with other data are meant for it"
    page.go_to_option("data.columns")
    assert row(page, "data.columns").isVisible(), "where a link leads to them"


def test_what_was_found_for_another_task_is_not_shown_while_the_data_is_read_again(
    qtbot, page, answers, talks
):
    load_chat(qtbot, page, talks)
    assert page.reading.findings
    answers.gate.clear()
    page.header.task_chosen.emit(Task.CAUSAL_LM)
    assert (page.reading.is_waiting, page.reading.findings) == (True, ())
    assert page.options.data.findings.isHidden()


def test_labels_are_named_in_boxes_the_rarest_first_and_the_data_is_not_read_again(
    qtbot, page, answers, pairs
):
    counts = {"0": 900, "1": 700, **{f"rare {number}": number for number in range(14, 0, -1)}}
    answers.answers["inspect"] = msgspec.structs.replace(PAIRS, source=str(pairs), labels=counts)
    load(page, data=pairs, of_data={"label_names": {"1": "good", "elsewhere": "other"}})
    settle(qtbot, page)
    views, asked = page.options.data.views, len(answers.inspected())
    press(page.options.data, "Name the labels…")
    assert views.currentWidget() is views.labels
    boxes = views.labels.boxes
    assert list(boxes) == list(counts)[::-1], "none is hidden, however many there are"
    assert page.focusWidget() is boxes["rare 1"]
    assert (boxes["1"].text(), boxes["0"].text()) == ("good", "")
    qtbot.keyClicks(boxes["0"], " bad ")
    boxes["0"].editingFinished.emit()
    assert page.tree()["data"]["label_names"] == {"0": "bad", "1": "good", "elsewhere": "other"}
    assert boxes["0"].text() == "bad"
    boxes["1"].clear()
    boxes["1"].editingFinished.emit()
    assert page.tree()["data"]["label_names"] == {"0": "bad", "elsewhere": "other"}
    assert not page.reading.is_waiting
    assert len(answers.inspected()) == asked, "names are only shown"
    page.stack.undo()
    assert boxes["1"].text() == "good"
    load(page, "text-regression", data=pairs)
    settle(qtbot, page)
    assert views.labels.boxes == {}


@pytest.mark.parametrize("most", [1000, 800, 100, None])
def test_a_limit_of_validation_examples_without_effect_says_so(qtbot, page, answers, pairs, most):
    evaluated = min(800, most or 800)
    answers.answers["inspect"] = msgspec.structs.replace(PAIRS, source=str(pairs), eval_rows=evaluated)
    load(page, data=pairs, of_data={"max_eval_samples": most})
    await_reading(qtbot, page)
    hints = [line for line in row(page, "data.max_eval_samples").note.lines if "No effect" in line]
    assert bool(hints) == (most == 1000)
