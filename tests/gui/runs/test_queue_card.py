"""The runs that wait are moved with the keyboard, too."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton

from core.runs.folder import RunFolder
from core.runs.queue import LiveRun, Move
from core.runs.status import State
from gui.runs.queue_card import QueueCard

FIRST, SECOND, THIRD = (
    LiveRun(RunFolder(Path(f"/runs/{name}")), name, 0.0, state=State.QUEUED) for name in ("a", "b", "c")
)


@pytest.fixture
def card(qtbot):
    card = QueueCard()
    qtbot.addWidget(card)
    card.show_waiting((FIRST, SECOND, THIRD))
    card.show()
    card.activateWindow()
    qtbot.waitUntil(card.isActiveWindow, timeout=2000)
    return card


def button(card, name):
    return next(found for found in card.findChildren(QPushButton) if found.accessibleName() == name)


def at():
    focus = QApplication.focusWidget()
    return "" if focus is None else focus.accessibleName()


def test_the_keyboard_stays_with_the_run_that_moves(qtbot, card):
    up = button(card, "Move up: c")
    up.setFocus()
    with qtbot.waitSignal(card.move_requested) as asked:
        qtbot.keyClick(up, Qt.Key.Key_Space)
    assert asked.args == [THIRD.run, Move.UP]
    card.show_waiting((FIRST, THIRD, SECOND))
    assert at() == "Move up: c"
    card.show_waiting((THIRD, FIRST, SECOND))  # it can't be moved further up
    assert at() == "Open: c"


def test_nothing_is_focused_where_nothing_was(card):
    card.setFocus()
    before = QApplication.focusWidget()
    card.show_waiting((SECOND, FIRST))
    assert QApplication.focusWidget() is before
