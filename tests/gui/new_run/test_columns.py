"""Which column is what: guessed, chosen in the table's head, and forgotten with the data it was said of."""

import msgspec

from core.base.errors import DataError, Fix
from core.options.choices import Task
from core.services.inspect import Column, ColumnKind
from tests.fakes.data_reports import report_for
from tests.gui.new_run.steps import await_reading, choose, drop, load_chat, press


def test_columns_are_chosen_in_the_table_alone_but_a_problem_has_its_row(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    assert not page._options.form.row("data.columns").isVisible()
    page._options.form.set_values({"data.columns": {"nobody": "input"}})
    await_reading(qtbot, page)
    page.go_to_option("data.columns")
    assert page._options.form.row("data.columns").isVisible()


def test_guesses_stay_guesses_when_the_form_comes_back(qtbot, page, answers, pairs):
    page.load_tree({"task": "text-classification", "data": {"train": str(pairs)}})
    await_reading(qtbot, page)
    for there_and_back in (
        lambda: (page._change_task(Task.CHAT), page._change_task(Task.TEXT_CLASSIFICATION)),
        lambda: (page.start_afresh(), page._change_set.undo()),
    ):
        there_and_back()
        assert not page.chosen_tree()["data"].get("text_columns")
        await_reading(qtbot, page)
        assert page.tree()["data"]["label_column"] == "same"
        assert "label_column" not in page.chosen_tree()["data"]  # other data would have others


def test_names_of_columns_may_hold_commas_and_equals_signs(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    columns = {"prompt": "question, long", "answer": " a = b"}
    page._options.form.set_values({"data.columns": columns})
    assert page.tree()["data"]["columns"] == columns


def test_another_header_has_other_columns(qtbot, page, answers, pairs):
    page.load_tree({"task": "text-classification", "data": {"train": str(pairs)}})
    await_reading(qtbot, page)
    answers.gate.clear()
    page._options.form.set_values({"data.header": "off"})
    assert not page.tree()["data"].get("label_column")  # it was guessed by a name that may be there no more
    answers.gate.set()
    await_reading(qtbot, page)
    assert page.tree()["data"]["label_column"] == "same"


def test_a_fix_for_one_speaker_keeps_those_named_before(qtbot, page, answers, talks):
    load_chat(qtbot, page, talks)
    page._options.form.set_values({"data.roles": {"ann": "user"}})
    await_reading(qtbot, page)
    press(page._options.data.findings, "Read “bob” as the assistant")
    assert page.tree()["data"]["roles"] == {"ann": "user", "bob": "assistant"}


def forgets(page, path, value, nothing):
    """Whether an option that was said of one file is not said of the next."""
    page._options.form.set_values({path: value})
    assert page.chosen_tree()["data"][path.removeprefix("data.")] == value
    return lambda: page._options.form.field(path).value() == nothing


def test_what_was_said_of_one_file_is_not_said_of_the_next(qtbot, page, answers, talks, tmp_path):
    load_chat(qtbot, page, talks)
    is_forgotten = [
        forgets(page, "data.columns", {"prompt": "instruction", "input": "input", "answer": "output"}, {}),
        forgets(page, "data.roles", {"ann": "user"}, {}),
        forgets(page, "data.header", "off", "auto"),
        forgets(page, "data.eval_split", "test", None),
    ]
    other = tmp_path / "wizard.json"
    other.write_text("[]")
    drop(page, other)
    assert all(found() for found in is_forgotten)
    columns = tuple(
        Column(name=name, kind=ColumnKind.TEXT, distinct=2, empty=0, examples=("a",)) for name in ("q", "a")
    )
    roles = {"prompt": "q", "answer": "a"}
    answers.answers["inspect"] = msgspec.structs.replace(
        report_for(Task.CHAT, str(other)), columns=columns, columns_by_role=roles, findings=()
    )
    await_reading(qtbot, page)
    assert page.tree()["data"]["columns"] == roles
    assert "columns" not in page.chosen_tree()["data"]


def test_columns_chosen_for_one_file_are_chosen_in_the_next_that_has_them(
    qtbot, page, answers, talks, tmp_path
):
    load_chat(qtbot, page, talks)
    choose(page, "input", "system")
    chosen = page.tree()["data"]["columns"]
    await_reading(qtbot, page)
    more = tmp_path / "more.json"
    more.write_text("[]")
    drop(page, more)
    await_reading(qtbot, page)
    qtbot.waitUntil(lambda: page.chosen_tree()["data"].get("columns") == chosen)
    await_reading(qtbot, page)
    assert answers.inspected()[-1].asked["data"]["columns"] == chosen


def test_columns_that_come_with_the_data_are_meant_for_it(qtbot, page, answers, talks, tmp_path):
    load_chat(qtbot, page, talks)
    choose(page, "input", "system")
    columns = {"prompt": "output", "answer": "input"}
    page._options.form.set_values({"data.train": str(tmp_path / "new.json"), "data.columns": columns})
    assert page.tree()["data"]["columns"] == columns


def test_data_that_cannot_be_read_for_a_task_offers_the_one_it_is_for(qtbot, page, answers, talks, tmp_path):
    scores = tmp_path / "scores.csv"
    scores.write_text("text,score\na,0.5\n")
    change = Fix("Change to “Text regression”", {"task": "text-regression"})
    answers.answers["inspect"] = DataError("scores.csv has no column of images", "", (change,))
    page.load_tree({"task": "image-classification"})
    drop(page, scores)
    qtbot.waitUntil(page._strip.isVisible)
    press(page._strip, "Change to “Text regression”")
    assert page.tree()["task"] == "text-regression"
    assert page.tree()["data"]["train"] == str(scores)


def test_what_an_ending_proposed_is_taken_back_when_the_data_cannot_be_read(qtbot, page, answers, tmp_path):
    prose = tmp_path / "prose.txt"
    prose.write_text("Once upon a time\nthere was a king.\n")
    answers.answers["inspect"] = DataError("prose.txt has no column of images", "")
    page.load_tree({"task": "image-classification"})
    drop(page, prose)
    assert page._strip.isVisible()
    qtbot.waitUntil(lambda: not page._strip.isVisible())
