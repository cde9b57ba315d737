"""Bars, cards, labels, layouts and lists of values."""

import gc
import re

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QFocusEvent, QTextLayout
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from core.base.errors import Fix, UserError
from core.base.settings import Appearance
from core.jobs.chat import Chance, Word
from core.runs.events import Level
from gui.base.theme import Theme
from gui.widgets.bars import METER_THICKNESS, THINNEST, ChanceBars, Meter, Part, PartsBar
from gui.widgets.cards import Change, ChangesStrip, MessageStrip, NoticeStack, NoticeStrip
from gui.widgets.inputs import ChoiceList, Chooser, PathLine, Segment
from gui.widgets.labels import ElidedLabel, LabelledText, LinkLabel, isolated, spans_of
from gui.widgets.layout import FlowLayout, PageScroll, Sheet, fill, fill_dialog
from gui.widgets.tables import Group, KeyValue, TableRow

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


def test_parts_of_memory_and_limits_share_a_scale_and_are_described(shown, theme):
    bar = shown(PartsBar(theme, "Memory"))
    bar.show_parts(PARTS, LIMITS)
    spoken = "free now 12.0 GB, in all 16.0 GB, weights 2.00 GB, optimizer 4.00 GB, overhead 1 B"
    assert bar.accessibleDescription() == spoken
    assert bar.strip.places() == ([0, 50, 150, 150 + THINNEST], [300, 398])
    for direction in (Qt.LayoutDirection.LeftToRight, Qt.LayoutDirection.RightToLeft):
        bar.setLayoutDirection(direction)
        picture, tokens = bar.strip.grab().toImage(), theme.tokens
        for x, colour in ((20, tokens.run), (100, tokens.optimizer), (250, tokens.grid), (350, tokens.line)):
            place = x if direction is Qt.LayoutDirection.LeftToRight else 400 - x
            assert picture.pixelColor(place, 10).name() == colour
    bar.show_parts([Part("weights", 32 * GB, "run")], LIMITS)
    assert bar.strip.places() == ([0, 400], [150, 200])
    bar.show_parts([])
    assert bar.strip.places() == ([0], [])


@pytest.mark.parametrize(("share", "filled"), [(0.0, 0), (0.0004, 0), (0.01, 4), (0.5, 200), (1.0, 400)])
def test_a_bar_is_as_long_as_its_share_and_of_none_nothing_is_drawn(shown, theme, share, filled):
    meter = shown(Meter(theme, "run", "Share"), height=METER_THICKNESS)
    meter.show_share(share, "run")
    picture, run = meter.grab().toImage(), theme.tokens.run
    coloured = [x for x in range(400) if picture.pixelColor(x, METER_THICKNESS // 2).name() == run]
    assert abs(len(coloured) - filled) <= 2, "its ends are round"


@pytest.mark.parametrize("level", Level)
def test_a_message_has_a_button_for_each_fix_that_changes_something(qtbot, level):
    strip = MessageStrip(closable=True)
    qtbot.addWidget(strip)
    lower = Fix("Use batch size 8", {"memory.batch_size": 8})
    strip.show_message(level, "Out of memory", "16 GB are in use.", (lower, Fix("Close other programs")))
    assert strip.property("role") == f"strip-{level.value}"
    dismiss, use = strip.findChildren(QPushButton)
    assert use.text() == lower.label
    assert texts(strip) == ["Out of memory", "16 GB are in use.\nClose other programs"]
    with qtbot.waitSignal(strip.fix_chosen) as caught:
        use.click()
    assert caught.args == [lower]
    with qtbot.waitSignal(strip.closed):
        dismiss.click()
    strip.show_error(UserError("Out of memory"))
    assert strip.property("role") == "strip-error"


def test_changes_are_listed_and_can_be_undone(qtbot):
    notices = NoticeStack(strip := ChangesStrip())
    qtbot.addWidget(notices)
    strip.show_changes("Applied", "", [Change(f"o{number}", "1", "2") for number in range(12)])
    assert strip.note.lines[1:] == tuple(f"o{number}: 1 → 2" for number in range(12))
    with qtbot.waitSignal(strip.fix_chosen):
        next(one for one in strip.findChildren(QPushButton) if one.text() == "Undo").click()
    strip.show_changes("Applied", "The form already had these values.", [])
    shown = [one.text() for one in strip.findChildren(QPushButton) if not one.isHidden()]
    assert "Undo" not in shown


def test_a_notice_has_as_many_lines_as_its_text(qtbot):
    strip = NoticeStrip()
    qtbot.addWidget(strip)
    strip.show_message(
        Level.INFO, "Leave out all examples that can't be used", "Skip invalid examples: Off → On"
    )
    strip.show()
    label = strip.note.label
    whole = " · ".join(strip.note.lines)
    line, long = label.fontMetrics().lineSpacing(), label.fontMetrics().horizontalAdvance(whole)
    heights = []
    for width in (long // 2, 2 * long, long // 2, 2 * long):
        strip.resize(width, strip.height())
        QApplication.processEvents()
        heights.append(label.height())
    assert (heights[0] > line, heights[1]) == (True, line)
    assert heights[2:] == heights[:2]


def test_a_notice_with_more_than_its_lines_ends_in_dots(qtbot):
    strip = NoticeStrip()
    qtbot.addWidget(strip)
    strip.show_message(
        Level.INFO, "Options of another run", "\n".join(f"o{number}: 1 → 2" for number in range(60))
    )
    strip.show()
    note, whole = strip.note, " · ".join(strip.note.lines)
    strip.resize(500, strip.height())
    QApplication.processEvents()
    assert note.label.text().endswith(" …")
    shown, most = note.label.text()[:-2], 3 * note.label.fontMetrics().lineSpacing()
    assert whole.startswith(shown)
    assert note.label.heightForWidth(note.label.width()) <= most
    note.label.setText(whole[: len(shown) + 20] + " …")
    note.label.setMinimumHeight(0)
    assert note.label.heightForWidth(note.label.width()) > most
    strip.resize(4 * note.label.fontMetrics().horizontalAdvance(whole), strip.height())
    QApplication.processEvents()
    assert note.label.text() == whole
    note.say(("Applied",))
    assert note.label.accessibleName() == "Applied"


def test_values_below_headings_keep_their_labels_while_the_names_are_the_same(qtbot):
    rows = KeyValue()
    qtbot.addWidget(rows)
    rows.set_groups(
        [
            Group("Device", (TableRow("Name", "CPU", "as requested"),)),
            Group("Data", (TableRow("Batch", "32"),)),
        ]
    )
    assert texts(rows) == ["Device", "Name", "CPU", "as requested", "Data", "Batch", "32"]
    before = rows.findChildren(QLabel)
    rows.set_groups(
        [Group("Device", (TableRow("Name", "MPS"),)), Group("Data", (TableRow("Batch", "8", "one"),))]
    )
    assert rows.findChildren(QLabel) == before
    assert texts(rows) == ["Device", "Name", "MPS", "Data", "Batch", "8", "one"]
    rows.set_rows([("Steps", "9")])
    assert rows.rows() == [("Steps", "9")]


def test_the_end_of_a_long_path_is_in_view_and_the_tip_has_all_of_it(shown):
    line = shown(PathLine("Where the data is"))
    for path, tip in (("", "Where the data is"), (LONG, LONG)):
        line.show_path(path)
        assert (line.text(), line.toolTip()) == (path, tip)
    line.home(False)
    QApplication.sendEvent(line, QFocusEvent(QEvent.Type.FocusOut))
    assert line.cursorPosition() == len(LONG)


def test_a_label_without_space_is_elided_and_its_tip_has_all_of_it(shown):
    label = shown(ElidedLabel(LONG), 120, 20)
    label.grab()
    assert "…" in label.shown_text()
    assert label.toolTip() == LONG
    label.resize(2000, 20)
    label.grab()
    assert (label.shown_text(), label.toolTip()) == (LONG, "")


def test_wrapped_texts_keep_their_height_in_a_scroll_area(qtbot, shown):
    content = QWidget()
    layout = QVBoxLayout(content)
    labels = [QLabel("some words that have to wrap in a narrow window " * 4) for _ in range(20)]
    for label in labels:
        label.setWordWrap(True)
        layout.addWidget(label)
    scroll = shown(PageScroll(content), 200, 300)
    qtbot.waitUntil(lambda: scroll.widget().height() > 300)
    assert all(label.height() >= label.heightForWidth(label.width()) for label in labels)


def test_adjacent_words_of_one_label_are_one_span(qtbot, theme):
    labels = ((0, 3, "B-PER"), (4, 11, "I-PER"), (12, 15, "O"), (16, 20, "S-PER"))
    words = [Word(*label, 0.9) for label in labels]
    assert spans_of(words) == [(0, 11, "PER"), (16, 20, "PER")]
    label = LabelledText(theme)
    qtbot.addWidget(label)
    label.show_words("Ada & Grace met Alan", words)
    assert "Ada &amp; Grace<small" in label.text()


def test_widgets_flow_into_lines_in_reading_direction(shown):
    parent = QWidget()
    layout = FlowLayout(10, 5, parent)
    boxes = [QWidget() for _ in range(3)]
    for box in boxes:
        box.setFixedSize(QSize(100, 20))
        layout.addWidget(box)
    shown(parent, 319, 45)
    assert [(box.x(), box.y()) for box in boxes] == [(0, 0), (110, 0), (0, 25)]
    assert [layout.heightForWidth(width) for width in (320, 319, 100)] == [20, 45, 70]
    parent.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    layout.activate()
    assert [(319 - 100 - box.x(), box.y()) for box in boxes] == [(0, 0), (110, 0), (0, 25)]


def test_a_file_dialog_opens_where_the_last_one_was_left(monkeypatch, tmp_path):
    opened = []

    def choose(_parent, _title, start, _filters):
        opened.append(start)
        return str(tmp_path / "texts.csv"), ""

    monkeypatch.setattr(Chooser, "folder", None)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", choose)
    for _time in range(2):
        assert Chooser.file(None, "A file") == str(tmp_path / "texts.csv")
    assert opened[1] == str(tmp_path) != opened[0]


@pytest.mark.parametrize("width", [160, 240, 600])
def test_names_of_bars_are_whole_up_to_half_of_the_width(qtbot, width):
    bars = ChanceBars(Theme())
    qtbot.addWidget(bars)
    long = "a class with a name that is longer than any window is wide, " * 4
    bars.show_chances([Chance(label="seven", chance=0.94), Chance(label="one", chance=0.03)])
    bars.resize(width, 100)
    bars.show()
    qtbot.waitUntil(lambda: {one.shown_text() for one in names_of(bars)} == {"seven", "one"})
    bars.show_chances([Chance(label=long, chance=0.94), Chance(label="one", chance=0.03)])
    qtbot.waitUntil(lambda: [one for one in names_of(bars) if one.width() > 0.4 * width] != [])
    assert all(one.width() <= width / 2 for one in names_of(bars))


def names_of(bars: ChanceBars) -> list[ElidedLabel]:
    return [one for one in bars.findChildren(ElidedLabel) if one.isVisible()]


@pytest.mark.parametrize("name", ["יד פתוחה 22", "سلبي"])
def test_a_name_read_from_right_to_left_turns_nothing_beside_it(qapp, name):
    def is_before_figure(line: str) -> bool:
        layout = QTextLayout(line)
        layout.beginLayout()
        drawn = layout.createLine()
        layout.endLayout()
        begin, figure = line.index(name), drawn.cursorToX(line.index("94"))[0]
        return all(drawn.cursorToX(begin + place)[0] <= figure for place in range(len(name)))

    assert is_before_figure(f"Example: {isolated(name)}  94 %")
    assert not is_before_figure(f"Example: {name}  94 %")


@pytest.mark.parametrize("name", ["cat", "22 %", "부정적", "图书", "Größe 2", ""])
def test_other_names_stay_as_they_are(name):
    assert isolated(name) == name


@pytest.mark.qt_log_ignore("This plugin does not support")  # no screen
def test_a_list_opens_at_its_first_choice_and_home_and_end_pass_over_headings(qtbot):
    shown = ChoiceList()
    qtbot.addWidget(shown)
    shown.append_heading("Texts")
    for segment in (Segment("a", "A", "first"), Segment("b", "B", refusal="not here"), Segment("c", "C")):
        shown.append(segment)
    shown.setCurrentIndex(-1)
    shown.show()
    shown.showPopup()
    view, marked = shown.view(), lambda: shown.view().currentIndex().data(Qt.ItemDataRole.UserRole)
    assert marked() == "a"
    qtbot.keyClick(view, Qt.Key.Key_Down)
    assert marked() == "c", "what is refused can't be chosen"
    qtbot.keyClick(view, Qt.Key.Key_Home)
    assert marked() == "a"
    qtbot.keyClick(view, Qt.Key.Key_End)
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert shown.currentData() == "c"
    assert shown.itemData(2, Qt.ItemDataRole.ToolTipRole) == "not here"


def test_a_list_is_filled_again_and_again(qtbot):
    shown = ChoiceList()
    qtbot.addWidget(shown)
    for number in range(50):
        shown.append_heading("Models")
        shown.setCurrentIndex(-1)
        shown.set_choices([Segment(f"{number} {place}", "m") for place in range(9)])
        gc.collect()
    assert shown.count() == 9


@pytest.mark.parametrize(
    "words", ['<a href="1">First</a> and <a href="2">second</a>', 'From <a href="1">first</a>']
)
def test_tab_goes_through_the_links_of_a_text_and_back_and_out_of_it(qtbot, words):
    sheet, label, texts = Sheet("Links"), LinkLabel(), re.findall(">(.+?)</a>", words)
    label.setText(words)
    before, after = QPushButton("before"), QPushButton("after")
    fill_dialog(sheet, before, label, after)
    qtbot.addWidget(sheet)
    sheet.open()
    qtbot.waitUntil(sheet.isActiveWindow)
    before.setFocus()
    for modifier, expected, end in (
        (Qt.KeyboardModifier.NoModifier, texts, after),
        (Qt.KeyboardModifier.ShiftModifier, texts[::-1], before),
    ):
        for text in expected:
            qtbot.keyClick(sheet.focusWidget(), Qt.Key.Key_Tab, modifier)
            assert label.hasFocus()
            assert label.selectedText() == text
        qtbot.keyClick(label, Qt.Key.Key_Tab, modifier)
        assert end.hasFocus()
    label.setText("None")
    qtbot.keyClick(before, Qt.Key.Key_Tab)
    assert after.hasFocus(), "nothing in the label can be pressed"


def test_what_tab_comes_to_is_scrolled_into_view_whole(qtbot):
    sheet, content = Sheet("A long list"), QWidget()
    lines = [QLineEdit() for _number in range(40)]
    fill(QVBoxLayout(content), *lines)
    area = PageScroll(content)
    fill_dialog(sheet, area)
    sheet.resize(300, 200)
    qtbot.addWidget(sheet)
    sheet.open()
    qtbot.waitUntil(sheet.isActiveWindow)
    lines[0].setFocus()
    for modifier, way in (
        (Qt.KeyboardModifier.NoModifier, lines[1:]),
        (Qt.KeyboardModifier.ShiftModifier, lines[-2::-1]),
    ):
        for line in way:
            qtbot.keyClick(sheet.focusWidget(), Qt.Key.Key_Tab, modifier)
            assert line.hasFocus()
            assert area.viewport().rect().contains(QRect(line.mapTo(area.viewport(), QPoint()), line.size()))
