"""Waiting runs are moved with the keyboard, too."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton

from core.runs.events import TurnAwaited
from core.runs.folder import Connection, RunFolder
from core.runs.queue import LiveRun, Move
from core.runs.status import State
from gui.run.words import question_about
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


def test_a_run_is_started_now_after_a_warning_but_not_before_the_model_it_needs(card, monkeypatch):
    ahead = TurnAwaited(ahead=1, behind="x", title="X")
    needs = replace(FIRST, awaited=TurnAwaited(ahead=1, behind="b", is_source=True))
    card.show_waiting((needs, replace(SECOND, awaited=ahead)))
    blocked, start = (one for one in card.rows.findChildren(QPushButton) if one.text() == "Start now")
    assert not blocked.isEnabled()
    asked, moved = [], []
    card.move_requested.connect(lambda run, to: moved.append((run, to)))
    for agreed in (False, True):
        monkeypatch.setattr(
            "gui.runs.queue_card.starts_now",
            lambda awaited, _, agreed=agreed: asked.append(awaited) or agreed,
        )
        start.click()
    assert (asked, moved) == ([ahead, ahead], [(SECOND.run, Move.NOW)])


def test_the_warning_is_that_runs_share_the_device(qtbot):
    question = question_about(TurnAwaited(ahead=1, behind="x", title="X"), None, waits=True)
    qtbot.addWidget(question)
    assert list(question.says()) == ["Start now"]
    assert "share the memory" in question.informativeText()


def test_the_queue_of_another_computer_is_not_changed_from_here(card, tmp_path):
    elsewhere = RunFolder(tmp_path)
    elsewhere.record_connection(Connection(computer="workshop"))
    card.show_waiting((FIRST, replace(SECOND, run=elsewhere)))
    start = [one for one in card.rows.findChildren(QPushButton) if one.text() == "Start now"]
    assert [one.isEnabled() for one in start] == [True, False]
    assert start[1].toolTip() == "It waits on workshop, in the queue there."
