"""Widgets side by side that go on in the next line where there is no room."""

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QWidget

from gui.widgets.layout import FlowLayout


@pytest.fixture
def filled(qtbot):
    parent = QWidget()
    qtbot.addWidget(parent)
    layout = FlowLayout(10, 5, parent)
    for _ in range(3):
        box = QWidget()
        box.setFixedSize(QSize(100, 20))
        layout.addWidget(box)
    parent.show()
    yield layout
    parent.close()


def places(layout):
    return [(box.x(), box.y()) for box in (layout.itemAt(at).widget() for at in range(layout.count()))]


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (320, 20, [(0, 0), (110, 0), (220, 0)]),
        (319, 45, [(0, 0), (110, 0), (0, 25)]),
        (100, 70, [(0, 0), (0, 25), (0, 50)]),
    ],
)
def test_a_full_line_is_followed_by_another(filled, width, height, expected):
    filled.parentWidget().resize(width, height)
    assert places(filled) == expected
    assert filled.heightForWidth(width) == height


def test_it_asks_for_a_line_and_does_with_the_widest(filled):
    assert filled.sizeHint() == QSize(320, 20)
    assert filled.minimumSize() == QSize(100, 20)


def test_it_begins_where_reading_begins(filled):
    filled.parentWidget().setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    filled.parentWidget().resize(319, 45)
    filled.activate()
    assert places(filled) == [(219, 0), (109, 0), (219, 25)]


def test_what_is_taken_is_gone(filled):
    taken = filled.takeAt(0).widget()
    assert filled.count() == 2
    assert filled.takeAt(7) is None
    taken.deleteLater()
