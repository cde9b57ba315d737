"""The form: a control for each option, typed values, what a machine refuses, problems at their rows."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QPushButton, QTabBar, QVBoxLayout, QWidget

from core.base.errors import Fix, Problem
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_text, with_changes
from core.options.choices import Task
from core.options.declare import OptionKind
from core.options.device_support import DeviceReport, MachineReport, Settled
from core.options.method_rules import starting_options
from core.options.run_file import to_tree
from core.options.validate import check_tree
from gui.widgets.fields import AutomaticField, Offer, Refused, make_field, offer_of, refused
from gui.widgets.form import Form
from gui.widgets.inputs import SECOND_LINE, Segment, WheelGuard
from tests.fakes.jobs import CPU_ONLY

BATCH, PRECISION, METHOD = "memory.batch_size", "device.precision", "model.method"


@pytest.fixture
def field_of(qtbot):
    """Makes the control of an option; with `typed`, as if that was typed into it."""

    def make(path, typed=None, kind=make_field):
        field = kind(options_by_path()[path])
        qtbot.addWidget(field)
        if typed is not None:
            field.set_value(field.option.default)
            field.control.selectAll()
            qtbot.keyClick(field.control, Qt.Key.Key_Delete)
            qtbot.keyClicks(field.control, typed)
            qtbot.keyClick(field.control, Qt.Key.Key_Return)
        return field

    return make


@pytest.fixture(scope="module")
def whole_form(qapp):
    """A form with a row for every option."""
    host = QWidget()
    form = Form(Task.TEXT_CLASSIFICATION, host)
    layout = QVBoxLayout(host)
    for option in all_options():
        if option.section:
            layout.addWidget(form.add(option.path))
    yield form
    host.deleteLater()


@pytest.fixture
def form(whole_form):
    whole_form.set_task(Task.TEXT_CLASSIFICATION)
    whole_form.load({})
    whole_form.show_machine(None, None)
    return whole_form


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("training.seed", 2**32 - 1),
        ("training.learning_rate", "fast"),
        ("data.eval_fraction", 0.25),
        ("training.schedule", "no choice"),
        (METHOD, "no choice"),
        ("data.text_columns", ["question", "answer"]),
    ],
)
def test_any_value_that_was_set_is_returned_without_a_signal(qtbot, field_of, path, value):
    field = field_of(path)
    with qtbot.assertNotEmitted(field.changed):
        field.set_value(value)
    assert field.value() == value


def test_every_option_has_a_named_control_that_holds_its_default(form):
    for path in form.paths:
        field = form.field(path)
        assert field.control.accessibleName() == field.option.title
        if field.option.default is not None:
            value = (
                list(field.option.default) if field.option.kind is OptionKind.TEXTS else field.option.default
            )
            assert field.value() == value


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        (BATCH, "0", 0),
        ("training.max_steps", "0", 0),
        ("data.eval_fraction", "95", 0.95),
        ("training.learning_rate", "3e-4", 3e-4),
        (BATCH, "1,024", 1024),
        (BATCH, "2,5", 2),  # a comma that separates no thousands is refused
        (BATCH, "", 16),
        ("training.max_steps", "", None),
        ("output.save_steps", "", 0),
        ("training.eval_steps", "", 0),
    ],
)
def test_a_typed_number_stays_even_beyond_the_limits(field_of, path, text, value):
    assert field_of(path, text).value() == value


@pytest.mark.parametrize(
    ("path", "typed", "by", "value"),
    [
        (BATCH, "0", 1, 1),
        ("data.eval_fraction", "95", -1, 0.9),
        ("data.eval_fraction", "95", -100, 0.0),
        ("training.max_steps", "2", -2, None),
        ("training.max_steps", "", 1, 1),
        ("output.save_steps", "1", -1, 0),
        ("output.save_steps", "", 1, 1),
    ],
)
def test_arrows_stop_at_the_limits_and_lead_from_the_lowest_to_none(field_of, path, typed, by, value):
    field = field_of(path, typed)
    field.control.stepBy(by)
    assert field.value() == value


def turn_wheel(widget):
    middle = QPointF(widget.rect().center())
    where = QPointF(widget.mapToGlobal(middle))
    buttons, keys, phase = Qt.MouseButton(0), Qt.KeyboardModifier(0), Qt.ScrollPhase.NoScrollPhase
    down = QWheelEvent(middle, where, QPoint(), QPoint(0, -120), buttons, keys, phase, False)
    QApplication.sendEvent(widget, down)
    return down.isAccepted()


def test_the_wheel_does_not_change_a_number_without_focus(field_of):
    field = field_of(BATCH)
    before = field.value()
    turn_wheel(field.control)
    assert field.value() == before


def test_the_wheel_passes_a_guarded_tab_bar(qtbot):
    tabs = QTabBar()
    qtbot.addWidget(tabs)
    for title in "abc":
        tabs.addTab(title)
    WheelGuard(tabs)
    assert not turn_wheel(tabs)
    assert tabs.currentIndex() == 0


def test_the_wheel_scrolls_a_guarded_text_only_with_the_focus(qtbot):
    page = QWidget()
    text = QPlainTextEdit("line\n" * 100, page)
    qtbot.addWidget(page)
    WheelGuard(text.viewport(), text)
    page.show()
    page.setFocus()
    assert not turn_wheel(text.viewport())
    text.setFocus()
    qtbot.waitUntil(text.hasFocus)
    assert turn_wheel(text.viewport())


@pytest.mark.parametrize(
    ("refusals", "summary", "details"),
    [
        (("", ""), "", ()),
        (("needs a GPU", ""), "A needs a GPU", ()),
        (("needs a GPU", "needs a GPU"), "A · B: needs a GPU", ()),
        (("needs a GPU", "No driver."), "Not available here: A · B", ("A needs a GPU", "No driver.")),
        (("1", "2", "3", "4"), "4 choices are not available here", ("A 1", "B 2", "C 3", "D 4")),
    ],
)
def test_one_reason_is_given_outright_and_many_are_folded(refusals, summary, details):
    segments = [Segment(name, name, refusal=reason) for name, reason in zip("ABCD", refusals, strict=False)]
    assert refused(segments) == Refused(summary, details)


def test_refused_choices_are_greyed_with_their_reason(qtbot, field_of):
    def offered(field):
        return field.show_offer(offer_of(field.option, CPU_ONLY, CPU_ONLY.devices[-1]))

    method, optimizer = field_of(METHOD), field_of("training.optimizer")
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
    grouping = field_of("data.group_by_length")
    offered(grouping)
    assert grouping.segmented.buttons()["auto"].text() == "Automatic (On)"
    workers = field_of("data.workers", kind=AutomaticField)
    workers.set_value(None)
    workers.show_offer(Offer(automatic=Settled("3", "")))
    assert (workers.control.text(), workers.value()) == ("Automatic: 3", None)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("training.optimizer", "adamw-8bit", "MLX has"),
        ("device.precision", "fp16", "with MLX, a run computes in bf16 or fp32"),
        ("device.compile", "true", "MLX compiles its steps by itself"),
        ("training.optimizer", "adamw", ""),
    ],
)
def test_what_mlx_lacks_is_greyed_where_it_is_chosen(path, value, reason):
    option, machine = options_by_path()[path], CPU_ONLY
    for backend in ("mlx", "torch", "auto"):
        chosen = with_changes(RunOptions(task=Task.CHAT), {"device.backend": backend})
        given = offer_of(option, machine, machine.devices[-1], chosen).refusals.get(value, "")
        assert given.startswith(reason) if backend == "mlx" and reason else "MLX" not in given


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (BATCH, 1024, "1,024"),
        ("training.learning_rate", 2e-5, "2e-5"),
        ("training.warmup", 0.05, "5 %"),
        (METHOD, "lora", "LoRA"),
        ("model.lora_targets", ["query", "value"], "query, value"),
        ("data.train", "/home/me/pairs.tsv", "pairs.tsv"),
        (BATCH, True, "True"),
        (METHOD, ["lora"], "['lora']"),
    ],
)
def test_values_in_words(path, value, text):
    assert value_text(options_by_path()[path], value) == text


@pytest.mark.parametrize("task", Task)
def test_a_run_file_goes_through_the_form_unchanged(form, task):
    options = starting_options(task)
    form.set_task(task)
    form.load(to_tree(options))
    checked, problems = check_tree(form.tree())
    assert checked == options
    assert [problem.path for problem in problems] in (["data.train"], [])
    form.load({})
    assert check_tree(form.tree())[0] == RunOptions(task=task), "a value left out takes its default"


def test_options_that_do_not_apply_keep_their_value_and_are_not_in_the_tree(qtbot, form):
    form.set_values({METHOD: "lora", "model.lora_rank": 4})
    with qtbot.waitSignal(form.relevance_changed):
        form.field(METHOD).segmented.buttons()["full"].click()
    assert "lora_rank" not in form.tree()["model"]
    assert form.full_tree()["model"]["lora_rank"] == 4
    with qtbot.assertNotEmitted(form.relevance_changed), qtbot.waitSignal(form.changed) as caught:
        form.field(BATCH).control.setValue(5)
    assert caught.args == [{BATCH}]
    form.set_values({METHOD: "lora"})
    assert form.tree()["model"]["lora_rank"] == 4
    form.set_task(Task.IMAGE_CLASSIFICATION)
    assert "max_length" not in form.tree()["data"]
    assert "image_size" in form.tree()["data"]


@pytest.mark.parametrize(("kind", "is_wrong"), [("problems", True), ("advice", False)])
def test_a_problem_or_advice_is_at_its_row_with_its_fix(qtbot, form, kind, is_wrong):
    fix = Fix("Use bf16", {PRECISION: "bf16"})
    problem, row = Problem(PRECISION, "fp16 needs a GPU", (fix,)), form.row(PRECISION)
    show = getattr(form, f"show_{kind}")
    show([problem])
    assert getattr(row, kind) == (problem,)
    assert bool(row.field.control.property("invalid")) is is_wrong
    button = next(button for button in row.findChildren(QPushButton) if button.text() == fix.label)
    with qtbot.waitSignal(form.fix_chosen) as caught:
        button.click()
    assert caught.args == [fix]
    show([Problem("data.train", "choose the data to train on")])
    assert getattr(row, kind) == ()
    assert form.row("data.train").problems == (), "an empty field is not marked"
    show([])


def test_a_changed_option_is_marked_and_one_press_resets_it(qtbot, form):
    row = form.row(BATCH)
    assert row.mark.isHidden()
    form.field(BATCH).control.setValue(4)
    assert not row.mark.isHidden()
    assert row.mark.accessibleName() == "Batch size is changed (default: 16)"
    with qtbot.waitSignal(form.changed) as caught:
        row.mark.click()
    assert caught.args == [{BATCH}]
    assert form.tree()["memory"]["batch_size"] == 16
    form.set_values({"data.train": "/x.csv", "model.source": "org/model", "data.text_columns": ["a"]})
    assert all(form.row(path).mark.isHidden() for path in form.paths)  # what every run has to choose


def test_a_refused_switch_or_number_can_be_put_back_but_not_chosen(form):
    refusals = {"device.compile": {"true": "needs a compiler"}, "device.processes": {"*": "One process."}}
    device = DeviceReport(name="cpu", title="CPU", available=True, refusals=refusals)
    form.set_values({"device.compile": True})
    form.show_machine(MachineReport(devices=(device,), automatic="cpu"), device)
    box, spin = form.field("device.compile").control, form.field("device.processes").control
    assert box.isEnabled()
    box.click()
    assert (box.isEnabled(), box.toolTip()) == (False, "needs a compiler")
    assert form.row("device.compile").refusals.summary == "Compile needs a compiler"
    assert not spin.isEnabled()
    assert form.row("device.processes").refusals.summary == "One process."
    form.load({"device": {"processes": 2}})
    assert spin.isEnabled()
    form.show_machine(None, None)
    assert box.isEnabled()


def test_the_unit_of_a_number_follows_its_value(form):
    for warmup, unit in ((0.0, "steps"), (0.05, "of the run")):
        form.load({"training": {"warmup": warmup}})
        assert form.row("training.warmup").unit == unit
    form.load({"data": {"eval_fraction": 0.125}})
    assert form.field("data.eval_fraction").control.text() == "12.5 %"
