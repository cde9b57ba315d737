import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QLineEdit, QToolButton, QWidget

from gui.widgets.inputs import PathLabel, PathLine, end_of_path
from gui.widgets.labels import ElidedLabel

LONG = "/home/somebody/a very long folder name for the pictures/another one/56fe82f8/reviews.csv"


@pytest.fixture
def line(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.other = QLineEdit(window)
    line = PathLine("Where the data lies", window)
    line.setGeometry(0, 40, 200, 30)
    window.show()
    window.other.setFocus()
    yield line
    window.close()


def test_of_a_long_path_whole_parts_at_its_end_are_shown(qapp):
    metrics = QFontMetrics(qapp.font())
    room = metrics.horizontalAdvance("…/56fe82f8/reviews.csv") + 2
    assert end_of_path(LONG, metrics, room) == "…/56fe82f8/reviews.csv"
    tight = end_of_path(LONG, metrics, metrics.horizontalAdvance("…iews.csv") + 1)
    assert tight.startswith("…")
    assert tight.endswith("s.csv")


def test_a_path_line_shows_the_end_keeps_the_whole_and_tells_it(line):
    line.show_path(LONG)
    assert line.shown_text().startswith("…/")
    assert line.shown_text().endswith("reviews.csv")
    assert (line.text(), line.toolTip()) == (LONG, LONG)
    line.show_path("short.csv")
    assert line.shown_text() == "short.csv"
    line.clear()
    assert line.toolTip() == "Where the data lies"


def test_a_path_that_is_edited_is_shown_as_it_is(qtbot, line):
    line.show_path(LONG)
    line.setFocus()
    qtbot.waitUntil(line.hasFocus)
    assert line.shown_text() == LONG


@pytest.mark.parametrize("direction", [Qt.LayoutDirection.LeftToRight, Qt.LayoutDirection.RightToLeft])
def test_an_elided_path_leaves_the_button_that_clears_it_free(line, direction):
    line.setLayoutDirection(direction)
    line.setClearButtonEnabled(True)
    line.show_path(LONG)
    button = line.findChildren(QToolButton)[0]
    assert not line._text_rect().intersects(button.geometry())
    assert line.rect().contains(QPointF(line._text_rect().center()).toPoint())


def test_a_label_ends_in_dots_where_it_has_no_room(qtbot):
    label = ElidedLabel("A run with a very long name that nobody wants to read to its end")
    qtbot.addWidget(label)
    label.resize(120, 20)
    label.show()
    label.grab()
    assert label.shown_text().endswith("…")
    assert label.toolTip() == label.text()
    label.resize(2000, 20)
    label.grab()
    assert label.shown_text() == label.text()
    assert label.toolTip() == ""


def test_of_a_path_without_room_the_end_is_shown(qtbot):
    label = PathLabel(LONG)
    qtbot.addWidget(label)
    label.resize(200, 20)
    label.show()
    label.grab()
    assert label.shown_text().endswith("reviews.csv")
    assert label.toolTip() == LONG
    label.resize(label.sizeHint())
    label.grab()
    assert label.shown_text() == LONG
    assert label.toolTip() == ""
