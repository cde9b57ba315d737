"""What runs say outside their page, while they train and when they end."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QMainWindow

from core.runs.events import Level, MessageRaised, Outcome, RunFinished, RunStarted
from core.runs.folder import RunFolder
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import RunStatus, State
from gui.app.live_runs import Notifications
from tests.fakes.desktop import FakeTray

DIGITS, LETTERS = RunFolder(Path("digits")), RunFolder(Path("letters"))


def live(run, share, state=State.TRAINING):
    return LiveRun(run, run.name.title(), 0.0, state, share)


def ended(*events, run=DIGITS, state=State.FINISHED):
    status = RunStatus()
    status.apply_all(events)
    return EndedRun(run, run.name.title(), state, status)


DONE = ended(
    RunStarted(time=100.0, pid=1),
    RunFinished(time=160.0, state=Outcome.FINISHED, metrics={"eval_accuracy": 0.97}, steps=9),
)


class Told:
    """A window, its notifications, and all that this has shown."""

    def __init__(self, window):
        self.window = window
        self.badges = []
        self.on_screen = None
        self.wants = True
        self.attention = Notifications(
            window, lambda: self.wants, lambda: self.on_screen, self.badges.append, FakeTray
        )

    @property
    def notes(self):
        return [note for icon in FakeTray.made for note in icon.shown]


@pytest.fixture
def told(qtbot):
    FakeTray.made.clear()
    FakeTray.can_notify = True
    window = QMainWindow()
    window.setWindowTitle("Hone")
    qtbot.addWidget(window)
    return Told(window)


WAITING = live(LETTERS, 0.5, State.QUEUED)
BOTH = (live(LETTERS, 0.1), live(DIGITS, 0.5))


@pytest.mark.parametrize(
    ("runs", "on_screen", "title", "badge"),
    [
        ((), None, "Hone", 0),
        ((live(DIGITS, 0.629),), None, "62 % · Digits – Hone", 62),
        ((live(DIGITS, None, State.STARTING),), None, "Starting · Digits – Hone", 0),
        ((WAITING,), None, "Waiting · Letters – Hone", 0),
        ((WAITING, live(DIGITS, 0.1)), None, "10 % · Digits – Hone", 10),
        ((WAITING, live(DIGITS, 0.1)), LETTERS, "Waiting · Letters – Hone", 0),
        (BOTH, None, "10 % · Letters – Hone", 10),
        (BOTH, DIGITS, "50 % · Digits – Hone", 50),
        (BOTH, RunFolder(Path("over")), "10 % · Letters – Hone", 10),
    ],
)
def test_title_and_badge_show_the_run_on_screen_else_the_newest_that_trains(
    told, runs, on_screen, title, badge
):
    told.attention.show_live((live(DIGITS, 0.3),))
    told.on_screen = on_screen
    told.attention.show_live(runs)
    assert (told.window.windowTitle(), told.badges[-1]) == (title, badge)


def test_an_end_that_nobody_saw_is_told_where_the_person_wants_it(told):
    told.attention.notify_end(DONE)
    told.wants = False
    told.attention.notify_end(ended(state=State.FAILED))
    assert told.notes == [("Finished: Digits", "Accuracy 97.0 %, Time 1 min 00 s", True)]


def test_a_failure_is_told_with_its_reason(told):
    why = MessageRaised(id="failed", level=Level.ERROR, title="The data can't be read")
    told.attention.notify_end(ended(why, RunFinished(state=Outcome.FAILED), state=State.FAILED))
    assert told.notes == [("Failed: Digits", "The data can't be read", True)]


def test_an_end_that_was_seen_needs_no_telling_and_one_beside_it_does(qtbot, told):
    told.window.show()
    told.window.activateWindow()
    qtbot.waitUntil(told.window.isActiveWindow)
    told.on_screen = DIGITS
    told.attention.notify_end(DONE)
    assert told.notes == []
    told.attention.notify_end(ended(run=LETTERS, state=State.CRASHED))
    assert [title for title, *_ in told.notes] == ["Crashed: Letters"]


@pytest.mark.qt_log_ignore("does not support raise")  # no screen
def test_a_press_on_the_note_brings_the_window_back(told):
    told.window.showMinimized()
    told.attention.notify_end(DONE)
    FakeTray.made[0].messageClicked.emit()
    assert told.window.isVisible()
    assert not told.window.isMinimized()


def test_where_there_is_no_tray_nothing_is_made(told):
    FakeTray.can_notify = False
    told.attention.notify_end(DONE)
    assert FakeTray.made == []
