import pytest
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.errors import Fix, UserError
from core.base.settings import Appearance
from core.options.catalogue import options_by_path
from core.runs.events import Level
from gui.base.theme import Theme
from gui.widgets.bars import LabelBars
from gui.widgets.cards import Card, MessageStrip
from gui.widgets.fields import make_field
from gui.widgets.form_row import FormRow
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.layout import PageScroll
from gui.widgets.tables import Group, KeyValue, Row


def texts(widget):
    return [label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget)]


def test_a_strip_offers_a_button_for_each_fix_that_changes_something(qtbot):
    strip = MessageStrip()
    qtbot.addWidget(strip)
    lower = Fix("Use batch size 8", {"memory.batch_size": 8})
    strip.show_error(UserError("Out of memory", "16 GB are in use.", (lower, Fix("Close other programs"))))
    buttons = strip.findChildren(QPushButton)
    assert [button.text() for button in buttons] == ["Use batch size 8"]
    assert texts(strip) == ["Out of memory", "16 GB are in use.\nClose other programs"]
    with qtbot.waitSignal(strip.fix_chosen) as caught:
        buttons[0].click()
    assert caught.args == [lower]


@pytest.mark.parametrize("level", list(Level))
def test_a_strip_looks_as_loud_as_it_speaks(qtbot, level):
    strip = MessageStrip()
    qtbot.addWidget(strip)
    strip.show_message(level, "Something")
    assert strip.property("role") == f"strip-{level.value}"


def test_a_strip_can_be_put_away(qtbot):
    strip = MessageStrip(closable=True)
    qtbot.addWidget(strip)
    strip.show_message(Level.INFO, "Saved")
    with qtbot.waitSignal(strip.closed):
        strip.findChild(QPushButton).click()
    assert not strip.isVisible()


def test_rows_with_the_same_names_keep_their_labels(qtbot):
    rows = KeyValue()
    qtbot.addWidget(rows)
    rows.set_rows([("Model", "a"), ("Data", "b")])
    before = rows.findChildren(QLabel)
    rows.set_rows([("Model", "c"), ("Data", "b")])
    assert rows.findChildren(QLabel) == before
    assert rows.rows() == [("Model", "c"), ("Data", "b")]
    rows.set_rows([("Steps", "9")])
    assert rows.rows() == [("Steps", "9")]


def test_rows_stand_below_headings_with_notes(qtbot):
    rows = KeyValue()
    qtbot.addWidget(rows)
    rows.set_groups(
        [Group("Device", (Row("Device", "CPU", "as asked"),)), Group("Data", (Row("Batch", "32 samples"),))]
    )
    assert rows.headings() == ["Device", "Data"]
    assert texts(rows) == ["Device", "Device", "CPU", "as asked", "Data", "Batch", "32 samples"]
    assert rows.rows() == [("Device", "CPU"), ("Batch", "32 samples")]
    assert rows.notes() == {"Device": "as asked"}
    before = rows.findChildren(QLabel)
    rows.set_groups(
        [
            Group("Device", (Row("Device", "MPS"),)),
            Group("Data", (Row("Batch", "8 samples", "one at a time"),)),
        ]
    )
    assert rows.findChildren(QLabel) == before
    assert texts(rows) == ["Device", "Device", "MPS", "Data", "Batch", "8 samples", "one at a time"]


def test_a_unit_stands_beside_its_field_unless_the_title_says_it(qtbot):
    options = options_by_path()
    epochs, length = (FormRow(make_field(options[path])) for path in ("training.epochs", "data.max_length"))
    qtbot.addWidget(epochs)
    qtbot.addWidget(length)
    assert "epochs" not in texts(epochs)
    assert "tokens" in texts(length)


def test_what_trails_a_cards_title_can_change(qtbot):
    card = Card("Memory")
    qtbot.addWidget(card)
    card.set_trailing("forecast")
    card.set_trailing("measured")
    assert texts(card) == ["Memory", "measured"]


def test_segments_change_around_what_is_taken(qtbot):
    segmented = Segmented([Segment("auto", "Automatic"), Segment("mps", "MPS")])
    qtbot.addWidget(segmented)
    segmented.set_value("mps")
    segmented.set_segments([Segment("auto", "Automatic"), Segment("mps", "MPS", refusal="needs a Mac")])
    assert segmented.value() == "mps"
    assert not segmented.buttons()["mps"].isEnabled()
    with qtbot.waitSignal(segmented.chosen) as caught:
        segmented.buttons()["auto"].click()
    assert caught.args == ["auto"]
    segmented.set_segments([Segment("auto", "Automatic")])
    assert list(segmented.buttons()) == ["auto"]


def test_bars_speak_their_counts_and_take_two_columns(qtbot):
    bars = LabelBars(Theme(Appearance.LIGHT))
    qtbot.addWidget(bars)
    bars.set_counts({"cat": 3, "dog": 9})
    two = bars.sizeHint().height()
    assert bars.accessibleName().endswith("dog: 9, cat: 3")
    bars.set_counts({str(number): number + 1 for number in range(12)})
    assert bars.sizeHint().height() == two // 2 * 6  # five lines in two columns, and "and 2 more"
    bars.set_counts({})
    assert not bars.isVisible()


def test_wrapped_texts_keep_their_height_in_a_scroll_area(qtbot):
    content = QWidget()
    layout = QVBoxLayout(content)
    labels = []
    for _ in range(20):
        label = QLabel("some words that have to wrap in a narrow window " * 4)
        label.setWordWrap(True)
        labels.append(label)
        layout.addWidget(label)
    scroll = PageScroll(content)
    qtbot.addWidget(scroll)
    scroll.resize(200, 300)
    with qtbot.waitExposed(scroll):
        scroll.show()
    qtbot.waitUntil(lambda: content.height() > 300)
    assert all(label.height() >= label.heightForWidth(label.width()) for label in labels)
