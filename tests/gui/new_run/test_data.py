"""From a dropped file to a run that can start: what the card about the data shows and changes."""

import msgspec
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from core.base.errors import DataError, Fix
from core.base.jobs import JobProgress
from core.options.choices import Task
from tests.fakes.data_reports import report_for
from tests.gui.new_run.steps import await_reading, choose, drop, load_chat, press, uses


def test_from_a_dropped_file_to_a_run_that_can_start(qtbot, page, answers, talks, model):
    page.load_tree({"task": "text-classification", "model": {"source": str(model)}})
    drop(page, talks)
    assert page._strip.isVisible()
    press(page._strip, "Change to “Chat”")  # dropped data may propose the task
    await_reading(qtbot, page)
    assert page.tree()["task"] == "chat"
    assert page.tree()["data"]["train"] == str(talks)
    shown = {"instruction": "Prompt · guess", "input": "Input · guess", "output": "Answer · guess"}
    assert uses(page) == shown

    choose(page, "input", "system")
    assert page.tree()["data"]["columns"]["system"] == "input"
    await_reading(qtbot, page)
    assert uses(page)["input"] == "System prompt"  # chosen: no guess any more

    findings = page._options.data.findings
    assert findings.summary.text() == "1 problem, 1 warning"
    assert page._outcome.start.text() == "Fix: Training data"
    assert not page._outcome.start.isEnabled()
    press(findings, "Read “bob” as the assistant")
    assert page.tree()["data"]["roles"] == {"bob": "assistant"}
    await_reading(qtbot, page)
    assert findings.summary.text() == "1 warning"
    assert page._outcome.start.text() == "Start training"
    with qtbot.waitSignal(page.start_requested):
        page.start()


def test_the_engine_has_the_last_word_on_what_data_is_for(qtbot, page, answers, talks, tmp_path):
    table = tmp_path / "table.parquet"
    table.touch()
    look = answers.answers["inspect"]
    answers.answers["inspect"] = lambda body: msgspec.structs.replace(look(body), suits=Task.CHAT)
    page.load_tree({"task": "text-classification"})
    drop(page, table)
    assert not page._strip.isVisible()  # its name tells nothing
    await_reading(qtbot, page)
    assert page._strip.isVisible()
    answers.answers["inspect"] = lambda body: msgspec.structs.replace(
        look(body), suits=Task.TEXT_CLASSIFICATION
    )
    drop(page, talks)
    assert page._strip.isVisible()
    await_reading(qtbot, page)
    assert not page._strip.isVisible()  # it only looked like conversations


def test_a_row_of_a_finding_is_shown_where_it_is_among_the_first(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    views = page._options.data.views
    views.setCurrentIndex(1)
    label = next(
        label for label in page._options.data.findings.findChildren(QLabel) if 'href="17"' in label.text()
    )
    label.linkActivated.emit("17")
    assert views.currentWidget() is views.rows
    assert views.rows.table.selectionModel().selectedRows()[0].row() == 16
    texts = [label.text() for label in page._options.data.findings.findChildren(QLabel)]
    assert not any('href="401"' in text for text in texts)  # beyond the rows shown: no link


def test_moving_the_longest_text_moves_the_line_at_once(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    answers.gate.clear()
    lengths = page._options.data.views.lengths
    page._options.form.set_values({"data.max_length": 160})
    assert lengths.limit == 160
    assert lengths.text.text().startswith("About ")
    answers.gate.set()
    page._options.form.set_values({"data.max_length": 512})
    await_reading(qtbot, page)
    assert lengths.text.text().startswith("7 of ")


def test_reading_can_be_given_up_and_taken_up_again(qtbot, page, answers, talks, model):
    answers.gate.clear()
    answers.progress = (JobProgress(done=2, total=5),)
    page.load_tree({"task": "chat", "model": {"source": str(model)}})
    page.set_data(talks)
    line = page._options.data.line
    assert line.cancel_button.isVisible()
    qtbot.waitUntil(lambda: line.text.text() == "Reading and checking: 40 %")
    line.cancel_button.click()
    assert line.text.text() == "The data was not checked."
    answers.gate.set()
    qtbot.waitUntil(lambda: not page._questions.model.is_waiting)
    assert page._outcome.start.text() == "Start training"  # the run will say what is wrong
    line.again_button.click()
    await_reading(qtbot, page)
    assert page._outcome.start.text() == "Fix: Training data"


def test_the_table_stays_where_it_is_while_only_the_lengths_are_counted_anew(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    table = page._options.data.views.rows.table
    table.selectRow(40)
    page._options.form.set_values({"data.max_length": 256})
    await_reading(qtbot, page)
    assert table.selectionModel().selectedRows()[0].row() == 40


def test_the_views_in_a_window_of_their_own_come_back(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    overview = page._options.data
    press(overview, "Enlarge")
    assert overview.views.window() is overview.sheet
    overview.sheet.reject()
    assert overview.sheet is None
    assert overview.views.window() is page.window()
    assert overview.views.isVisible()


def test_what_was_trained_on_lately_stands_in_the_menu(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    page._options.form.set_values({"data.train": "builtin:digits"})
    menu = next(
        button.menu()
        for button in page._options.fields.train.findChildren(QPushButton)
        if button.menu() is not None
    )
    menu.aboutToShow.emit()
    next(action for action in menu.actions() if action.text() == "talks.json").trigger()
    assert page.tree()["data"]["train"] == str(talks)


def test_advice_of_a_problem_is_text_and_no_button(qtbot, page, answers, talks):
    answers.answers["inspect"] = DataError(
        "talks.json is cut short", "", (Fix("Download or copy the file again"),)
    )
    page.load_tree({"task": "chat", "data": {"train": str(talks)}})
    row = page._options.form.row("data.train")
    qtbot.waitUntil(lambda: bool(row.problems))
    assert "Download or copy the file again" in [
        label.text() for label in page._options.data.findChildren(QLabel)
    ]
    assert "Download or copy the file again" not in [
        button.text() for button in page.findChildren(QPushButton)
    ]


def test_the_steps_follow_an_option_at_once_and_the_look_at_the_data_later(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    answers.gate.clear()
    page._options.form.set_values({"data.eval_fraction": 0.5})
    rows = dict(page._outcome.rows.rows())
    assert "499 for training, 500 for validation" in rows["Data"]
    answers.gate.set()
    await_reading(qtbot, page)
    assert "899 for training" in dict(page._outcome.rows.rows())["Data"]  # as it told


def test_packed_rows_are_what_steps_are_made_of(qtbot, page, answers, talks):
    report = msgspec.structs.replace(report_for(Task.CHAT, str(talks)), train_rows=154, findings=())
    answers.answers["inspect"] = report
    page.load_tree({"task": "chat", "data": {"train": str(talks), "packing": True}})
    await_reading(qtbot, page)
    steps = dict(page._outcome.rows.rows())["Steps"]
    assert steps == "about 30 · 10 per epoch: 899 rows packed into 154"


def test_the_link_of_a_finding_in_the_checks_leads_to_the_list(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    link = next(check.path for check in page._outcome.checks.checks if "bob" in check.text)
    page._outcome.checks.path_chosen.emit(link)
    findings, viewport = page._options.data.findings, page._scroll.viewport()
    assert findings.isAncestorOf(page._options.focusWidget())
    qtbot.waitUntil(lambda: viewport.rect().contains(findings.mapTo(viewport, findings.rect().center())))


def test_of_running_text_nothing_is_counted_before_its_blocks_are_known(qtbot, page, answers, talks):
    report = msgspec.structs.replace(report_for(Task.CAUSAL_LM, str(talks)), train_rows=None)
    answers.answers["inspect"] = report
    page.load_tree({"task": "causal-lm", "data": {"train": str(talks)}})
    await_reading(qtbot, page)
    rows = dict(page._outcome.rows.rows())
    assert (rows["Data"], rows["Steps"]) == ("talks", "3 epochs")
    assert page._options.form.row("memory.batch_size").advice == ()


def test_a_split_of_data_that_is_not_read_yet_is_called_a_split(page):
    tree = {"task": "text-classification", "data": {"train": "hub:some/pairs", "eval_split": "validation"}}
    page.load_tree(tree)
    shown = page._options._split.choice.buttons()
    assert [button.text() for button in shown.values() if button.isChecked()] == ["A split"]
    page.load_tree({"task": "text-classification"})
    assert [button.text() for button in page._options._split.choice.buttons().values()] == [
        "A share",
        "Another file",
    ]


def test_facts_about_the_data_are_no_warnings(qtbot, page, answers, talks):
    report = report_for(Task.CAUSAL_LM, str(talks))
    answers.answers["inspect"] = msgspec.structs.replace(report, notes=("1 text of 1,115,394 characters.",))
    page.load_tree({"task": "causal-lm", "data": {"train": str(talks)}})
    await_reading(qtbot, page)
    assert page._options.data.line.notes.text() == "1 text of 1,115,394 characters."
    assert not any("1,115,394" in check.text for check in page._outcome.checks.checks)


def test_nothing_below_moves_while_data_is_read_and_once_it_is(qtbot, page, answers, talks, model):
    """Who types a learning rate must not find it in the batch size."""
    fields = [page._options.form.row(path) for path in ("training.learning_rate", "data.eval_fraction")]

    def heights():
        QApplication.sendPostedEvents()  # layouts that wait to be made anew
        return [field.mapTo(page, QPoint()).y() for field in fields]

    images, bad = talks.parent, talks.with_name("bad.json")
    bad.touch()
    for task, data in (
        (Task.TEXT_CLASSIFICATION, talks),
        (Task.CHAT, talks),
        (Task.IMAGE_CLASSIFICATION, images),
    ):
        page.load_tree({"task": task, "model": {"source": str(model)}})
        before = heights()
        answers.gate.clear()
        page._options.form.set_values({"data.train": str(data)})
        page.show_error(DataError("A banner", "comes in"))
        assert heights() == before
        answers.gate.set()
        await_reading(qtbot, page)
        assert page._options.data.views.isVisible()
        assert page._options.data.findings.isVisible() == (task is not Task.IMAGE_CLASSIFICATION)
        assert heights() == before
        look, answers.answers["inspect"] = answers.answers["inspect"], DataError("It can't be read", "Row 3")
        page._options.form.set_values({"data.train": str(bad)})
        qtbot.waitUntil(lambda: page._reading.failure is not None)
        answers.answers["inspect"] = look
        assert page._options.form.row("data.train").problems
        assert heights() == before
