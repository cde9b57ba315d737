import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from core.options.catalogue import Kind, Option, all_options, options_by_path, plain_number
from core.options.validate import read_options
from gui.widgets.fields import (
    ComboField,
    NumberField,
    SegmentedField,
    ShareField,
    SwitchField,
    TextField,
    TextsField,
    WholeField,
    make_field,
)


def option(path: str) -> Option:
    return options_by_path()[path]


KINDS = [
    ("memory.batch_size", WholeField, 48),
    ("training.max_steps", WholeField, None),
    ("training.max_steps", WholeField, 10),
    ("training.seed", NumberField, 2**32 - 1),
    ("training.learning_rate", NumberField, 2e-5),
    ("data.eval_fraction", ShareField, 0.25),
    ("model.pretrained", SwitchField, False),
    ("training.schedule", ComboField, "cosine"),
    ("model.method", SegmentedField, "lora"),
    ("output.name", TextField, None),
    ("output.name", TextField, "Evening run"),
    ("data.text_columns", TextsField, ["question", "answer"]),
]


@pytest.mark.parametrize(("path", "field_class", "value"), KINDS)
def test_an_option_gets_its_control_and_keeps_its_value(qtbot, path, field_class, value):
    field = make_field(option(path))
    qtbot.addWidget(field)
    field.set_value(value)
    assert type(field) is field_class
    assert field.value() == value
    assert field.control.accessibleName() == option(path).title


def test_every_declared_option_has_a_control_that_holds_its_default(qtbot):
    kinds = set()
    for declared in all_options():
        field = make_field(declared)
        qtbot.addWidget(field)
        if declared.default is not None:
            field.set_value(declared.default)
            expected = list(declared.default) if declared.kind is Kind.TEXTS else declared.default
            assert field.value() == expected, declared.path
        kinds.add(declared.kind)
    assert kinds == set(Kind)


@pytest.mark.parametrize(("share", "text"), [(0.2, "20 %"), (0.125, "12.5 %"), (0.0, "0 %")])
def test_a_share_has_a_decimal_only_where_it_needs_one(qtbot, share, text):
    field = make_field(option("data.eval_fraction"))
    qtbot.addWidget(field)
    field.set_value(share)
    assert field.control.text() == text


def test_typing_changes_the_value_and_says_so(qtbot):
    field = make_field(option("training.learning_rate"))
    qtbot.addWidget(field)
    field.set_value(1.0)
    field.line.selectAll()
    with qtbot.waitSignal(field.changed):
        qtbot.keyClicks(field.line, "3e-4")
    assert field.value() == 3e-4


def typed(qtbot, path, text):
    field = make_field(option(path))
    qtbot.addWidget(field)
    field.set_value(option(path).default)
    field.control.selectAll()
    qtbot.keyClicks(field.control, text)
    qtbot.keyClick(field.control, Qt.Key.Key_Return)
    return field


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
    ],
)
def test_a_number_beyond_the_limits_stays_as_typed_and_is_told(qtbot, path, text, value, wrong):
    field = typed(qtbot, path, text)
    assert field.value() == value
    section, name = path.split(".")
    _, problems = read_options({"task": "text-classification", section: {name: field.value()}})
    assert [problem.message for problem in problems] == [wrong]


@pytest.mark.parametrize(("path", "value"), [("memory.batch_size", 0), ("data.eval_fraction", 5.0)])
def test_a_run_file_s_number_beyond_the_limits_is_shown_as_it_is(qtbot, path, value):
    field = make_field(option(path))
    qtbot.addWidget(field)
    field.set_value(value)
    assert field.value() == value


def test_arrows_keep_to_the_limits(qtbot):
    batch = typed(qtbot, "memory.batch_size", "0")
    batch.control.stepUp()
    assert batch.value() == 1
    batch.control.stepDown()
    assert batch.value() == 1
    share = typed(qtbot, "data.eval_fraction", "95")
    share.control.stepDown()
    assert share.value() == option("data.eval_fraction").maximum
    share.control.stepBy(-100)
    assert share.value() == 0.0


def test_below_its_lowest_a_number_that_may_be_left_out_is_left_out(qtbot):
    steps = typed(qtbot, "training.max_steps", "2")
    steps.control.stepDown()
    steps.control.stepDown()
    assert (steps.value(), steps.control.text()) == (None, "No limit")
    steps.control.stepUp()
    assert steps.value() == 1


def test_an_emptied_number_that_may_be_left_out_is_left_out(qtbot):
    steps = typed(qtbot, "training.max_steps", "25")
    assert steps.value() == 25
    steps.control.selectAll()
    qtbot.keyClick(steps.control, Qt.Key.Key_Backspace)
    qtbot.keyClick(steps.control, Qt.Key.Key_Return)
    assert (steps.value(), steps.control.text()) == (None, "No limit")
    batch = typed(qtbot, "memory.batch_size", "25")
    batch.control.selectAll()
    qtbot.keyClick(batch.control, Qt.Key.Key_Backspace)
    qtbot.keyClick(batch.control, Qt.Key.Key_Return)
    assert batch.value() == 25


def test_what_is_no_number_comes_out_as_it_was_typed(qtbot):
    field = make_field(option("training.learning_rate"))
    qtbot.addWidget(field)
    field.line.setText("fast")
    assert field.value() == "fast"


def test_showing_a_value_does_not_say_that_it_changed(qtbot):
    for path, _, value in KINDS:
        field = make_field(option(path))
        qtbot.addWidget(field)
        with qtbot.assertNotEmitted(field.changed):
            field.set_value(value)


def test_the_wheel_leaves_a_number_alone_that_has_no_focus(qtbot):
    field = make_field(option("memory.batch_size"))
    qtbot.addWidget(field)
    field.set_value(16)
    middle = QPointF(field.control.rect().center())
    up = QWheelEvent(
        middle,
        QPointF(field.control.mapToGlobal(middle)),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(field.control, up)
    assert field.value() == 16


def test_a_value_that_is_no_choice_is_shown_all_the_same(qtbot):
    for field in (SegmentedField(option("training.schedule")), ComboField(option("training.schedule"))):
        qtbot.addWidget(field)
        field.set_value("wavy")
        assert field.value() == "wavy"


@pytest.mark.parametrize(
    ("number", "text"), [(3.0, "3"), (0.001, "0.001"), (2e-5, "2e-5"), (1e16, "1e16"), (0.1, "0.1")]
)
def test_numbers_are_written_as_people_write_them(number, text):
    assert plain_number(number) == text
    assert float(text) == number


def test_a_comma_that_sets_no_thousands_apart_is_refused(qtbot):
    assert typed(qtbot, "memory.batch_size", "2,5").value() == 2
    assert typed(qtbot, "memory.batch_size", "1,024").value() == 1024
