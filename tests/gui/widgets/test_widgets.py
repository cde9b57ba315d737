"""Bars, cards, labels, layouts and lists of values."""

import pytest
from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.errors import Fix, UserError
from core.base.settings import Appearance
from core.runs.events import Level
from core.services.chat import Word
from gui.base.theme import Theme
from gui.widgets.bars import THINNEST, LabelBars, Part, PartsBar
from gui.widgets.cards import Card, Change, ChangesStrip, MessageStrip
from gui.widgets.inputs import PathLine, Segment, Segmented
from gui.widgets.labels import ElidedLabel, LabelledText, PathLabel, spans_of
from gui.widgets.layout import FlowLayout, PageScroll
from gui.widgets.tables import Group, KeyValue, Row

LONG = "/home/somebody/a very long folder name for the pictures/another one/56fe82f8/reviews.csv"
GB = 1 << 30
PARTS = (
    Part("weights", 2 * GB, "run", "The numbers."),
    Part("gradients", 0, "gradients"),
    Part("optimizer", 4 * GB, "optimizer"),
    Part("overhead", 1, "others"),
)
LIMITS = (Part("free now", 12 * GB, "text"), Part("in all", 16 * GB, "bad"))


@pytest.fixture
def shown(qtbot):
    """Shows a widget."""

    def show(widget, width=400, height=80):
        qtbot.addWidget(widget)
        widget.resize(width, height)
        widget.show()
        return widget

    return show


@pytest.fixture
def theme(qapp):
    return Theme(Appearance.LIGHT)


def texts(widget):
    return [label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget)]


class TestBars:
    @pytest.fixture
    def bar(self, shown, theme):
        bar = PartsBar(theme, "Memory")
        bar.show_parts(PARTS, LIMITS)
        return shown(bar)

    def test_parts_and_limits_have_one_scale_a_legend_and_words(self, bar):
        told = "free now 12.0 GB, in all 16.0 GB, weights 2.00 GB, optimizer 4.00 GB, overhead 1 B"
        assert bar.accessibleDescription() == told
        assert [label.toolTip() for label in bar.legend] == ["", "", "The numbers.", "", ""]
        assert bar.strip.places() == ([0, 50, 150, 150 + THINNEST], [300, 398])

    def test_a_run_that_is_too_large_reaches_beyond_the_limits(self, bar):
        bar.show_parts([Part("weights", 32 * GB, "run")], LIMITS)
        assert bar.strip.places() == ([0, 400], [150, 200])
        bar.show_parts([])
        assert bar.strip.places() == ([0], [])

    @pytest.mark.parametrize(("direction", "mirror"), [("LeftToRight", False), ("RightToLeft", True)])
    def test_it_paints_in_the_colours_of_the_theme(self, bar, theme, direction, mirror):
        bar.setLayoutDirection(Qt.LayoutDirection[direction])
        picture, tokens = bar.strip.grab().toImage(), theme.tokens
        for x, colour in ((20, tokens.run), (100, tokens.optimizer), (250, tokens.grid), (350, tokens.line)):
            assert picture.pixelColor(400 - x if mirror else x, 10).name() == colour

    def test_labels_are_counted_and_listed_in_two_columns(self, shown, theme):
        bars = shown(LabelBars(theme))
        bars.set_counts({"cat": 3, "dog": 9})
        assert bars.accessibleName().endswith("dog: 9, cat: 3")
        assert [label.text() for label in bars.findChildren(QLabel)] == ["dog", "9", "cat", "3"]
        bars.set_counts({str(number): number + 1 for number in range(12)})
        assert bars.findChildren(QLabel)[-1].text() == "and 2 more"
        bars.set_counts({})
        assert not bars.isVisible()


class TestCards:
    @pytest.mark.parametrize("level", list(Level))
    def test_a_strip_offers_a_button_for_each_fix_that_changes_something(self, qtbot, level):
        strip = MessageStrip(closable=True)
        qtbot.addWidget(strip)
        lower = Fix("Use batch size 8", {"memory.batch_size": 8})
        strip.show_message(level, "Out of memory", "16 GB are in use.", (lower, Fix("Close other programs")))
        assert strip.property("role") == f"strip-{level.value}"
        dismiss, use = strip.findChildren(QPushButton)
        assert use.text() == "Use batch size 8"
        assert texts(strip) == ["Out of memory", "16 GB are in use.\nClose other programs"]
        with qtbot.waitSignal(strip.fix_chosen) as caught:
            use.click()
        assert caught.args == [lower]
        with qtbot.waitSignal(strip.closed):
            dismiss.click()
        strip.show_error(UserError("Out of memory"))
        assert strip.property("role") == "strip-error"

    def test_changes_are_listed_and_can_be_undone(self, qtbot):
        strip = ChangesStrip()
        qtbot.addWidget(strip)
        strip.show_changes("Applied", "", [Change(f"o{number}", "1", "2") for number in range(12)])
        assert texts(strip)[1].endswith("o6: 1 → 2 · and 5 more")
        with qtbot.waitSignal(strip.undo_chosen):
            strip.findChildren(QPushButton)[-1].click()
        strip.show_changes("Applied", "The form already had these values.", [])
        assert len([button for button in strip.findChildren(QPushButton) if not button.isHidden()]) == 1

    def test_what_trails_a_cards_title_can_change(self, qtbot):
        card = Card("Memory")
        qtbot.addWidget(card)
        card.set_trailing("forecast")
        card.set_trailing("measured")
        assert texts(card) == ["Memory", "measured"]


def test_values_stand_below_headings_and_rows_with_the_same_names_keep_their_labels(qtbot):
    rows = KeyValue()
    qtbot.addWidget(rows)
    rows.set_groups(
        [Group("Device", (Row("Device", "CPU", "as requested"),)), Group("Data", (Row("Batch", "32"),))]
    )
    assert texts(rows) == ["Device", "Device", "CPU", "as requested", "Data", "Batch", "32"]
    before = rows.findChildren(QLabel)
    rows.set_groups([Group("Device", (Row("Device", "MPS"),)), Group("Data", (Row("Batch", "8", "one"),))])
    assert rows.findChildren(QLabel) == before
    assert texts(rows) == ["Device", "Device", "MPS", "Data", "Batch", "8", "one"]
    rows.set_rows([("Steps", "9")])
    assert rows.rows() == [("Steps", "9")]


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


class TestTextsThatFit:
    def test_of_a_long_path_the_end_is_in_view_and_the_tip_has_all_of_it(self, shown):
        line = shown(PathLine("Where the data is"))
        for path, tip in ((LONG, LONG), ("", "Where the data is")):
            line.show_path(path)
            assert (line.text(), line.toolTip()) == (path, tip)
        line.setText(LONG)
        line.home(False)
        QApplication.sendEvent(line, QFocusEvent(QEvent.Type.FocusOut))
        assert line.cursorPosition() == len(LONG)

    @pytest.mark.parametrize("kind", [ElidedLabel, PathLabel])
    def test_a_label_without_room_is_cut_and_its_tip_has_all_of_it(self, shown, kind):
        label = shown(kind(LONG), 120, 20)
        label.grab()
        assert "…" in label.shown_text()
        assert label.shown_text().endswith("reviews.csv") is (kind is PathLabel)
        assert label.toolTip() == LONG
        label.resize(2000, 20)
        label.grab()
        assert (label.shown_text(), label.toolTip()) == (LONG, "")

    def test_wrapped_texts_keep_their_height_in_a_scroll_area(self, qtbot, shown):
        content = QWidget()
        layout = QVBoxLayout(content)
        labels = [QLabel("some words that have to wrap in a narrow window " * 4) for _ in range(20)]
        for label in labels:
            label.setWordWrap(True)
            layout.addWidget(label)
        scroll = shown(PageScroll(content), 200, 300)
        qtbot.waitUntil(lambda: scroll.widget().height() > 300)
        assert all(label.height() >= label.heightForWidth(label.width()) for label in labels)

    def test_words_of_one_kind_are_one_span(self, qtbot, theme):
        text = "Ada & Grace met Alan"
        labels = ((0, 3, "B-PER"), (4, 11, "I-PER"), (12, 15, "O"), (16, 20, "S-PER"))
        words = [Word(*one, 0.9) for one in labels]
        assert spans_of(words) == [(0, 11, "PER"), (16, 20, "PER")]
        label = LabelledText(theme)
        qtbot.addWidget(label)
        label.show_words(text, words)
        assert "Ada &amp; Grace<small" in label.text()


@pytest.mark.parametrize(
    ("width", "height", "places"),
    [
        (320, 20, [(0, 0), (110, 0), (220, 0)]),
        (319, 45, [(0, 0), (110, 0), (0, 25)]),
        (100, 70, [(0, 0), (0, 25), (0, 50)]),
    ],
)
def test_widgets_flow_into_lines_and_begin_where_reading_begins(shown, width, height, places):
    parent = QWidget()
    layout = FlowLayout(10, 5, parent)
    boxes = [QWidget() for _ in range(3)]
    for box in boxes:
        box.setFixedSize(QSize(100, 20))
        layout.addWidget(box)
    shown(parent, width, height)
    assert [(box.x(), box.y()) for box in boxes] == places
    assert layout.heightForWidth(width) == height
    assert (layout.sizeHint(), layout.minimumSize()) == (QSize(320, 20), QSize(100, 20))
    parent.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    layout.activate()
    assert [(width - 100 - box.x(), box.y()) for box in boxes] == places
