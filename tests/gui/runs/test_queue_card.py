"""Waiting runs are moved with the keyboard, too."""

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


def test_the_focus_stays_with_the_run_that_moves_and_is_taken_from_nothing_else(qtbot, card):
    up = next(found for found in card.findChildren(QPushButton) if found.accessibleName() == "Move up: c")
    up.setFocus()
    with qtbot.waitSignal(card.move_requested) as requested:
        qtbot.keyClick(up, Qt.Key.Key_Space)
    assert requested.args == [THIRD.run, Move.UP]
    for order, focus in (((FIRST, THIRD, SECOND), "Move up: c"), ((THIRD, FIRST, SECOND), "Open: c")):
        card.show_waiting(order)  # the first one can't be moved further up
        assert QApplication.focusWidget().accessibleName() == focus
    card.setFocus()
    before = QApplication.focusWidget()
    card.show_waiting((SECOND, FIRST))
    assert QApplication.focusWidget() is before
