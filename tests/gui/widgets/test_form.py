import pytest
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from core.base.errors import Fix, Problem
from core.options import RunOptions
from core.options.catalogue import all_options
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport
from core.options.method_rules import starting_options
from core.options.run_file import to_tree
from core.options.validate import check_tree
from gui.widgets.form import Form


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
    form.set_values(fix.changes)
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


def test_other_options_mean_something_after_a_choice(qtbot, form):
    lora = form.field("model.lora_rank").option
    assert not form.applies(lora)
    with qtbot.waitSignal(form.relevance_changed):
        form.field("model.method").segmented.buttons()["lora"].click()
    assert form.applies(lora)
    with qtbot.assertNotEmitted(form.relevance_changed):
        form.field("memory.batch_size").control.setValue(5)


def test_an_option_out_of_sight_keeps_its_value_and_stays_out_of_the_run_file(form):
    form.set_values({"model.method": "lora", "model.lora_rank": 4})
    form.set_values({"model.method": "full"})
    assert "lora_rank" not in form.tree()["model"]
    assert form.full_tree()["model"]["lora_rank"] == 4
    form.set_values({"model.method": "lora"})
    assert form.tree()["model"]["lora_rank"] == 4


def test_what_differs_from_its_default_is_marked_and_one_press_resets_it(qtbot, form):
    row = form.row("memory.batch_size")
    assert row.mark.isHidden()
    form.field("memory.batch_size").control.setValue(4)
    assert not row.mark.isHidden()
    assert row.mark.accessibleName() == "Batch size is changed; default: 16"
    with qtbot.waitSignal(form.changed) as caught:
        row.mark.click()
    assert caught.args == ["memory.batch_size"]
    assert form.tree()["memory"]["batch_size"] == 16
    assert row.mark.isHidden()


def test_what_every_run_has_to_choose_is_never_marked(form):
    form.set_values({"data.train": "/x.csv", "model.source": "org/model", "data.text_columns": ["a"]})
    marked = [path for path in form.paths if not form.row(path).mark.isHidden()]
    assert marked == []
    form.set_values({"data.workers": 2, "model.lora_targets": ["query"]})
    marked = [path for path in form.paths if not form.row(path).mark.isHidden()]
    assert marked == ["model.lora_targets", "data.workers"]


def test_advice_stands_at_its_row_and_can_be_taken(qtbot, form):
    fix = Fix("Use 8", {"memory.batch_size": 8})
    advice = Problem("memory.batch_size", "GPUs like multiples of 8", (fix,))
    form.show_advice([advice])
    row = form.row("memory.batch_size")
    assert row.advice == (advice,)
    assert not row.field.control.property("invalid")  # nothing is wrong
    button = next(button for button in row.findChildren(QPushButton) if button.text() == "Use 8")
    with qtbot.waitSignal(form.fix_chosen):
        button.click()
    form.show_advice([])
    assert row.advice == ()


def refusing(path, **reasons):
    device = DeviceReport(name="cpu", title="CPU", available=True, refusals={path: reasons})
    return MachineReport(devices=(device,), automatic="cpu"), device


def test_a_switch_that_cant_be_on_can_be_put_back_but_not_chosen(form):
    form.set_values({"device.compile": True})
    form.show_machine(*refusing("device.compile", true="needs a compiler"))
    box = form.field("device.compile").control
    assert box.isEnabled()
    box.click()
    assert not box.isEnabled()
    assert box.toolTip() == "needs a compiler"
    assert form.row("device.compile").refusals.summary == "Compile needs a compiler"


def test_a_number_of_which_only_the_default_is_taken_is_greyed(form):
    form.show_machine(*refusing("device.processes", **{"*": "One process trains."}))
    spin = form.field("device.processes").control
    assert not spin.isEnabled()
    assert form.row("device.processes").refusals.summary == "One process trains."
    form.load({"device": {"processes": 2}})
    assert spin.isEnabled()  # so that it can be mended


def test_an_unknown_machine_greys_nothing(form):
    form.show_machine(*refusing("device.compile", true="needs a compiler"))
    form.show_machine(None, None)
    assert form.field("device.compile").control.isEnabled()
    assert form.row("device.compile").refusals.summary == ""


def test_what_a_number_counts_follows_its_value(form):
    row = form.row("training.warmup")
    assert row.unit == "steps"
    form.load({"training": {"warmup": 0.05}})
    assert row.unit == "of the run"
    form.set_values({"training.warmup": 20.0})
    assert row.unit == "steps"
