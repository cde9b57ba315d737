"""The controls of a form: one for each kind of option, what can be typed, and what a machine refuses."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from core.options.catalogue import all_options, options_by_path, plain_number, value_words
from core.options.declare import Kind
from core.options.device_support import Settled
from core.options.validate import read_options
from gui.widgets import fields
from gui.widgets.fields import AutomaticField, Offer, Refused, make_field, offer_of, refused
from gui.widgets.inputs import Segment
from tests.fakes.asking import CPU_ONLY


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


@pytest.mark.parametrize(
    ("path", "kind", "value"),
    [
        ("memory.batch_size", "WholeField", 48),
        ("training.max_steps", "WholeField", None),
        ("training.max_steps", "WholeField", 10),
        ("training.seed", "NumberField", 2**32 - 1),
        ("training.learning_rate", "NumberField", 2e-5),
        ("data.eval_fraction", "ShareField", 0.25),
        ("model.pretrained", "SwitchField", False),
        ("training.schedule", "ComboField", "cosine"),
        ("model.method", "SegmentedField", "lora"),
        ("output.name", "TextField", None),
        ("output.name", "TextField", "Evening run"),
        ("data.text_columns", "TextsField", ["question", "answer"]),
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


def test_typing_changes_the_value_and_says_so(qtbot, field_of):
    field = field_of("training.learning_rate")
    with qtbot.waitSignal(field.changed):
        qtbot.keyClicks(field.line, "3e-4")
    assert field.value() == 3e-4
    field.line.setText("fast")
    assert field.value() == "fast"


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


def test_arrows_keep_to_the_limits_and_lead_below_the_lowest_to_none(field_of):
    batch = field_of("memory.batch_size", "0")
    batch.control.stepUp()
    assert batch.value() == 1
    batch.control.stepDown()
    assert batch.value() == 1
    share = field_of("data.eval_fraction", "95")
    share.control.stepDown()
    assert share.value() == share.option.maximum
    share.control.stepBy(-100)
    assert share.value() == 0.0
    steps = field_of("training.max_steps", "2")
    steps.control.stepBy(-2)
    assert (steps.value(), steps.control.text()) == (None, "No limit")
    steps.control.stepUp()
    assert steps.value() == 1


def test_the_wheel_leaves_a_number_alone_that_has_no_focus(field_of):
    field = field_of("memory.batch_size")
    field.set_value(16)
    middle = QPointF(field.control.rect().center())
    buttons, keys, phase = (
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
    )
    where = QPointF(field.control.mapToGlobal(middle))
    up = QWheelEvent(middle, where, QPoint(), QPoint(0, 120), buttons, keys, phase, False)
    QApplication.sendEvent(field.control, up)
    assert field.value() == 16


@pytest.mark.parametrize("kind", [fields.SegmentedField, fields.ComboField])
def test_a_value_that_is_no_choice_is_shown_all_the_same(field_of, kind):
    field = field_of("training.schedule", kind=kind)
    field.set_value("wavy")
    assert field.value() == "wavy"


@pytest.mark.parametrize(
    ("number", "text"), [(3.0, "3"), (0.001, "0.001"), (2e-5, "2e-5"), (1e16, "1e16"), (0.1, "0.1")]
)
def test_numbers_are_written_as_people_write_them(number, text):
    assert plain_number(number) == text
    assert float(text) == number


def segments(*refusals):
    return [Segment(name, name, refusal=refusal) for name, refusal in zip("ABCD", refusals, strict=False)]


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
    assert refused(segments(*refusals)) == why


def offered(field):
    return field.show_offer(offer_of(field.option, CPU_ONLY, CPU_ONLY.devices[-1]))


def test_choices_that_are_refused_are_greyed_with_their_reason(qtbot, field_of):
    method = field_of("model.method")
    assert offered(method).summary == "QLoRA needs the package bitsandbytes"
    buttons = method.segmented.buttons()
    assert (buttons["qlora"].isEnabled(), buttons["lora"].isEnabled()) == (False, True)
    assert buttons["qlora"].toolTip() == "needs the package bitsandbytes"
    optimizer = field_of("training.optimizer")
    assert len(offered(optimizer).details) == 2
    assert optimizer.choices.refusal("lion-8bit") == "needs the package bitsandbytes"
    assert optimizer.choices.refusal("sgd") == ""
    assert optimizer.value() == "adamw"
    optimizer.set_value("lion-8bit")
    with qtbot.assertNotEmitted(optimizer.changed):
        optimizer.show_offer(Offer())
    assert (optimizer.value(), optimizer.choices.refusal("lion-8bit")) == ("lion-8bit", "")


def test_automatic_says_what_it_comes_to_where_there_is_room(field_of):
    for path, text in (("data.group_by_length", "Automatic (on)"), ("device.precision", "Automatic")):
        field = field_of(path)
        offered(field)
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
        ("training.learning_rate", "2e-", "2e-"),
        ("memory.batch_size", 2.5, "2.5"),
        ("memory.batch_size", True, "True"),
        ("memory.activation_checkpointing", "maybe", "maybe"),
        ("model.lora_targets", 5, "5"),
        ("model.method", ["lora"], "['lora']"),
        ("data.train", 7, "7"),
    ],
)
def test_values_in_words(path, value, words):
    assert value_words(options_by_path()[path], value) == words
