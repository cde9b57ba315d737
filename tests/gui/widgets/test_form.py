"""The form: a control for each option, what can be typed, what a machine refuses, problems at their rows."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QPushButton, QVBoxLayout, QWidget

from core.base.errors import Fix, Problem
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_text
from core.options.choices import Task
from core.options.declare import Kind
from core.options.device_support import DeviceReport, MachineReport, Settled
from core.options.method_rules import starting_options
from core.options.run_file import to_tree
from core.options.validate import check_tree, read_options
from gui.widgets import fields
from gui.widgets.fields import AutomaticField, Offer, Refused, make_field, offer_of, refused
from gui.widgets.form import Form
from gui.widgets.inputs import SECOND_LINE, Segment
from tests.fakes.jobs import CPU_ONLY


@pytest.fixture
def field_of(qtbot):
    """Makes the control of an option; with `typed`, as if that was typed into it."""

    def make(path, typed=None, kind=make_field):
        field = kind(options_by_path()[path])
        qtbot.addWidget(field)
        if typed is not None:
            field.set_value(field.option.default)
            field.control.selectAll()
            qtbot.keyClicks(field.control, typed) if typed else qtbot.keyClick(
                field.control, Qt.Key.Key_Delete
            )
            qtbot.keyClick(field.control, Qt.Key.Key_Return)
        return field

    return make


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


@pytest.fixture
def form(qtbot):
    return whole_form(qtbot, Task.TEXT_CLASSIFICATION)


@pytest.mark.parametrize(
    ("path", "kind", "value"),
    [
        ("memory.batch_size", "WholeField", 48),
        ("training.max_steps", "WholeField", None),
        ("training.max_steps", "WholeField", 10),
        ("training.seed", "LineField", 2**32 - 1),
        ("training.learning_rate", "LineField", 2e-5),
        ("training.learning_rate", "LineField", "fast"),
        ("data.eval_fraction", "ShareField", 0.25),
        ("model.pretrained", "SwitchField", False),
        ("training.schedule", "ComboField", "cosine"),
        ("training.schedule", "ComboField", "no choice"),
        ("model.method", "SegmentedField", "lora"),
        ("model.method", "SegmentedField", "no choice"),
        ("output.name", "LineField", None),
        ("output.name", "LineField", "Evening run"),
        ("data.text_columns", "LineField", ["question", "answer"]),
    ],
)
def test_an_option_gets_its_control_which_keeps_its_value_and_tells_nothing(
    qtbot, field_of, path, kind, value
):
    field = field_of(path)
    with qtbot.assertNotEmitted(field.changed):
        field.set_value(value)
    assert type(field) is getattr(fields, kind)
    assert field.value() == value
    assert field.control.accessibleName() == field.option.title


def test_every_declared_option_has_a_control_that_holds_its_default(field_of):
    for option in all_options():
        field = field_of(option.path)
        if option.default is not None:
            field.set_value(option.default)
            assert field.value() == (list(option.default) if option.kind is Kind.TEXTS else option.default)
    assert {option.kind for option in all_options()} == set(Kind)


@pytest.mark.parametrize(("share", "text"), [(0.2, "20 %"), (0.125, "12.5 %"), (0.0, "0 %")])
def test_a_share_has_a_decimal_only_where_it_needs_one(field_of, share, text):
    field = field_of("data.eval_fraction")
    field.set_value(share)
    assert field.control.text() == text


@pytest.mark.parametrize(
    ("path", "text", "value", "wrong"),
    [
        ("memory.batch_size", "0", 0, "must be 1 or more, got 0"),
        ("memory.batch_size", "-3", -3, "must be 1 or more, got -3"),
        ("data.max_length", "99999999", 99_999_999, "must be 1,048,576 or less, got 99999999"),
        ("training.max_steps", "0", 0, "must be 1 or more, got 0"),
        ("data.workers", "-1", -1, "must be 0 or more, got -1"),
        ("data.eval_fraction", "95", 0.95, "must be 0.9 or less, got 0.95"),
        ("data.eval_fraction", "-5", -0.05, "must be 0 or more, got -0.05"),
        ("training.learning_rate", "3e-4", 3e-4, None),
        ("memory.batch_size", "1,024", 1024, None),
        ("memory.batch_size", "2,5", 2, None),  # a comma that sets no thousands apart is refused
        ("memory.batch_size", "", 16, None),
        ("training.max_steps", "", None, None),
    ],
)
def test_a_typed_number_stays_and_one_beyond_the_limits_is_told(field_of, path, text, value, wrong):
    field = field_of(path, text)
    assert field.value() == value
    section, name = path.split(".")
    given = {} if value is None else {section: {name: value}}
    _, problems = read_options({"task": "text-classification", **given})
    assert [problem.message for problem in problems] == ([wrong] if wrong else [])
    field.set_value(value)  # as from a run file
    assert field.value() == value


@pytest.mark.parametrize(
    ("path", "typed", "by", "value"),
    [
        ("memory.batch_size", "0", 1, 1),
        ("memory.batch_size", "1", -1, 1),
        ("data.eval_fraction", "95", -1, 0.9),
        ("data.eval_fraction", "95", -100, 0.0),
        ("training.max_steps", "2", -2, None),
        ("training.max_steps", "", 1, 1),
    ],
)
def test_arrows_keep_to_the_limits_and_lead_below_the_lowest_to_none(field_of, path, typed, by, value):
    field = field_of(path, typed)
    field.control.stepBy(by)
    assert field.value() == value


def test_the_wheel_leaves_a_number_alone_that_has_no_focus(field_of):
    field = field_of("memory.batch_size")
    field.set_value(16)
    middle = QPointF(field.control.rect().center())
    where = QPointF(field.control.mapToGlobal(middle))
    buttons, keys, phase = Qt.MouseButton(0), Qt.KeyboardModifier(0), Qt.ScrollPhase.NoScrollPhase
    up = QWheelEvent(middle, where, QPoint(), QPoint(0, 120), buttons, keys, phase, False)
    QApplication.sendEvent(field.control, up)
    assert field.value() == 16


@pytest.mark.parametrize(
    ("refusals", "why"),
    [
        (("", ""), Refused()),
        (("needs a GPU", ""), Refused("A needs a GPU")),
        (("needs a GPU", "needs a GPU"), Refused("A · B: needs a GPU")),
        (
            ("needs a GPU", "No driver."),
            Refused("Not available here: A · B", ("A needs a GPU", "No driver.")),
        ),
        (
            ("needs 1", "needs 2", "needs 3", "needs 4"),
            Refused("4 choices are not available here", ("A needs 1", "B needs 2", "C needs 3", "D needs 4")),
        ),
    ],
)
def test_one_reason_is_said_outright_and_many_are_folded_away(refusals, why):
    assert (
        refused(Segment(name, name, refusal=one) for name, one in zip("ABCD", refusals, strict=False)) == why
    )


def test_choices_that_are_refused_are_greyed_with_their_reason(qtbot, field_of):
    def offered(field):
        return field.show_offer(offer_of(field.option, CPU_ONLY, CPU_ONLY.devices[-1]))

    method, optimizer = field_of("model.method"), field_of("training.optimizer")
    assert offered(method).summary == "QLoRA needs the package bitsandbytes"
    buttons = method.segmented.buttons()
    assert (buttons["qlora"].isEnabled(), buttons["lora"].isEnabled()) == (False, True)
    assert buttons["qlora"].toolTip() == "needs the package bitsandbytes"
    assert len(offered(optimizer).details) == 2
    box = optimizer.choices
    item = box.model().item(box.findData("lion-8bit"))
    assert (item.isEnabled(), item.data(SECOND_LINE)) == (False, "needs the package bitsandbytes")
    assert box.model().item(box.findData("sgd")).isEnabled()
    optimizer.set_value("lion-8bit")
    with qtbot.assertNotEmitted(optimizer.changed):
        optimizer.show_offer(Offer())
    assert optimizer.value() == "lion-8bit"


def test_automatic_says_what_it_comes_to_where_there_is_room(field_of):
    for path, text in (("data.group_by_length", "Automatic (on)"), ("device.precision", "Automatic")):
        field = field_of(path)
        field.show_offer(offer_of(field.option, CPU_ONLY, CPU_ONLY.devices[-1]))
        assert field.segmented.buttons()["auto"].text() == text
    workers = field_of("data.workers", kind=AutomaticField)
    workers.set_value(None)
    assert workers.control.text() == "Automatic"
    workers.show_offer(Offer(automatic=Settled("3", "so it is")))
    assert (workers.control.text(), workers.value()) == ("Automatic: 3", None)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("memory.batch_size", 1024, "1,024"),
        ("training.learning_rate", 2e-5, "2e-5"),
        ("training.warmup", 0.05, "5 %"),
        ("memory.activation_checkpointing", True, "On"),
        ("model.method", "lora", "LoRA"),
        ("model.lora_targets", ["query", "value"], "query, value"),
        ("data.train", "/home/me/pairs.tsv", "pairs.tsv"),
        ("data.workers", None, "not set"),
        ("memory.batch_size", True, "True"),
        ("model.lora_targets", 5, "5"),
        ("model.method", ["lora"], "['lora']"),
        ("data.train", 7, "7"),
    ],
)
def test_values_in_words(path, value, words):
    assert value_text(options_by_path()[path], value) == words


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
    assert check_tree(form.tree())[0] == RunOptions(task=Task.TEXT_CLASSIFICATION)


def test_options_that_do_not_apply_keep_their_value_and_stay_out_of_the_tree(qtbot, form):
    form.set_values({"model.method": "lora", "model.lora_rank": 4})
    with qtbot.waitSignal(form.relevance_changed):
        form.field("model.method").segmented.buttons()["full"].click()
    assert "lora_rank" not in form.tree()["model"]
    assert form.full_tree()["model"]["lora_rank"] == 4
    with qtbot.assertNotEmitted(form.relevance_changed), qtbot.waitSignal(form.changed) as caught:
        form.field("memory.batch_size").control.setValue(5)
    assert caught.args == ["memory.batch_size"]
    form.set_values({"model.method": "lora"})
    assert form.tree()["model"]["lora_rank"] == 4
    form.set_task(Task.IMAGE_CLASSIFICATION)
    assert "max_length" not in form.tree()["data"]
    assert "image_size" in form.tree()["data"]


@pytest.mark.parametrize(("kind", "is_wrong"), [("problems", True), ("advice", False)])
def test_a_problem_or_advice_stands_at_its_row_with_its_fix(qtbot, form, kind, is_wrong):
    fix = Fix("Use bf16", {"device.precision": "bf16"})
    problem = Problem("device.precision", "fp16 needs a GPU", (fix,))
    show, row = getattr(form, f"show_{kind}"), form.row("device.precision")
    show([problem])
    assert getattr(row, kind) == (problem,)
    assert bool(row.field.control.property("invalid")) is is_wrong
    button = next(button for button in row.findChildren(QPushButton) if button.text() == "Use bf16")
    with qtbot.waitSignal(form.fix_chosen) as caught:
        button.click()
    assert caught.args == [fix]
    form.set_values(fix.changes)
    assert form.tree()["device"]["precision"] == "bf16"
    show([])
    assert getattr(row, kind) == ()
    assert not row.field.control.property("invalid")


def test_an_empty_field_is_not_marked(form):
    form.show_problems([Problem("data.train", "choose the data to train on")])
    assert form.row("data.train").problems == ()


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
    form.set_values({"data.train": "/x.csv", "model.source": "org/model", "data.text_columns": ["a"]})
    assert all(form.row(path).mark.isHidden() for path in form.paths)  # what every run has to choose


def refusing(path, **reasons):
    device = DeviceReport(name="cpu", title="CPU", available=True, refusals={path: reasons})
    return MachineReport(devices=(device,), automatic="cpu"), device


def test_a_switch_that_cant_be_on_can_be_put_back_but_not_chosen(form):
    form.set_values({"device.compile": True})
    form.show_machine(*refusing("device.compile", true="needs a compiler"))
    box, refusals = form.field("device.compile").control, form.row("device.compile").refusals
    assert box.isEnabled()
    box.click()
    assert (box.isEnabled(), box.toolTip()) == (False, "needs a compiler")
    assert refusals.summary == "Compile needs a compiler"
    form.show_machine(None, None)
    assert (box.isEnabled(), refusals.summary) == (True, "")


def test_a_number_of_which_only_the_default_is_taken_is_greyed(form):
    form.show_machine(*refusing("device.processes", **{"*": "One process trains."}))
    spin = form.field("device.processes").control
    assert not spin.isEnabled()
    assert form.row("device.processes").refusals.summary == "One process trains."
    form.load({"device": {"processes": 2}})
    assert spin.isEnabled()  # so that it can be put back


def test_what_a_number_counts_follows_its_value(form):
    for warmup, unit in ((0.0, "steps"), (0.05, "of the run"), (20.0, "steps")):
        form.load({"training": {"warmup": warmup}})
        assert form.row("training.warmup").unit == unit
