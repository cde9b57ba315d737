import pytest
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from core.catalogue import all_options
from core.checks import check_tree
from core.choices import Task
from core.errors import Fix, Problem
from core.options import RunOptions
from core.run_file import to_tree
from core.starting_values import starting_options
from gui.form import Form


@pytest.fixture
def form(qtbot):
    return whole_form(qtbot, Task.TEXT_CLASSIFICATION)


def whole_form(qtbot, task):
    """A form with a row for every option."""
    host = QWidget()
    qtbot.addWidget(host)
    form = Form(task, host)
    layout = QVBoxLayout(host)
    for option in all_options():
        if option.section:
            layout.addWidget(form.add(option.path))
    form.host = host
    return form


@pytest.mark.parametrize("task", list(Task))
def test_a_run_file_goes_through_the_form_unchanged(qtbot, task):
    form = whole_form(qtbot, task)
    asked = starting_options(task)
    form.load(to_tree(asked))
    options, problems = check_tree(form.tree())
    assert options == asked
    assert [problem.path for problem in problems] in (["data.train"], [])


def test_what_a_tree_leaves_out_takes_its_default(form):
    form.load({"training": {"epochs": 7.0}})
    form.load({})
    options, _ = check_tree(form.tree())
    assert options == RunOptions(task=Task.TEXT_CLASSIFICATION)


def test_options_of_another_task_stay_out_of_the_tree(form):
    assert "max_length" in form.tree()["data"]
    form.set_task(Task.IMAGE_CLASSIFICATION)
    assert "max_length" not in form.tree()["data"]
    assert "image_size" in form.tree()["data"]


def test_a_problem_stands_at_its_row_with_its_remedy(qtbot, form):
    fix = Fix("Use bf16", {"device.precision": "bf16"})
    problem = Problem("device.precision", "fp16 needs a GPU", (fix,))
    form.show_problems([problem])
    row = form.row("device.precision")
    assert row.problems == (problem,)
    assert row.field.control.property("invalid")
    button = next(button for button in row.findChildren(QPushButton) if button.text() == "Use bf16")
    with qtbot.waitSignal(form.fix_chosen) as caught:
        button.click()
    assert caught.args == [fix]
    form.apply_fix(fix)
    assert form.tree()["device"]["precision"] == "bf16"


def test_a_mended_problem_goes_away(form):
    form.show_problems([Problem("training.epochs", "must be more")])
    form.show_problems([])
    assert form.row("training.epochs").problems == ()
    assert not form.row("training.epochs").field.control.property("invalid")


def test_an_empty_field_is_not_scolded(form):
    form.show_problems([Problem("data.train", "choose the data to train on")])
    assert form.row("data.train").problems == ()


def test_changes_name_their_option(qtbot, form):
    with qtbot.waitSignal(form.changed) as caught:
        form.field("memory.batch_size").control.setValue(5)
    assert caught.args == ["memory.batch_size"]
