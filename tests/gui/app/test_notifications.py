"""Progress in the window's title and on its icon, and notifications of runs that end."""

from pathlib import Path
from typing import NamedTuple

import pytest
from PySide6.QtWidgets import QMainWindow

from core.runs.events import Action, Level, MessageRaised, Outcome, RequestAnswered, RunFinished, RunStarted
from core.runs.folder import RunFolder
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import RunStatus, State
from gui.app.notifications import Notifications, was_asked
from gui.app.window import MainWindow
from tests.fakes.desktop import FakeTray


class View(NamedTuple):
    """What notifications read of a run's page."""

    run: RunFolder
    title: str


DIGITS, LETTERS = RunFolder(Path("digits")), RunFolder(Path("letters"))


def live(run, share, state=State.TRAINING, **how):
    return LiveRun(run, run.name.title(), 0.0, state, share, **how)


def ended(*events, run=DIGITS, state=State.FINISHED):
    status = RunStatus()
    status.apply_all(events)
    return EndedRun(run, run.name.title(), state, status)


DONE = ended(
    RunStarted(time=100.0, pid=1),
    RunFinished(time=160.0, state=Outcome.FINISHED, metrics={"eval_accuracy": 0.97}, steps=9),
)
FAILED = ended(
    MessageRaised(id="failed", level=Level.ERROR, title="The data can't be read"),
    RunFinished(state=Outcome.FAILED),
    state=State.FAILED,
)


class Window(QMainWindow):
    come_forward, open_paths = MainWindow.come_forward, MainWindow.open_paths


class Desktop:
    """A window, its notifications, and what they show."""

    def __init__(self, window):
        self.window, self.badges = window, []
        self.on_screen, self.is_enabled = None, True
        self.notifications = Notifications(
            window, lambda: self.is_enabled, lambda: self.on_screen, self.badges.append, FakeTray
        )
        self.notifications.clicked.connect(lambda: window.come_forward(()))

    @property
    def notes(self):
        return [note for icon in FakeTray.made for note in icon.shown]


@pytest.fixture
def desktop(qtbot, monkeypatch):
    FakeTray.made.clear()
    window = Window()
    window.setWindowTitle("Hone")
    qtbot.addWidget(window)
    return Desktop(window)


WAITING = live(LETTERS, 0.5, State.QUEUED)
BOTH = (live(LETTERS, 0.1), live(DIGITS, 0.5))


@pytest.mark.parametrize(
    ("runs", "on_screen", "title", "badge"),
    [
        ((), None, "Hone", 0),
        ((live(DIGITS, 0.629),), None, "62 % · Digits — Hone", 62),
        ((live(DIGITS, 0.629, is_test=True),), None, "Test: 62 % · Digits — Hone", 62),
        ((live(DIGITS, None, is_test=True),), None, "Testing · Digits — Hone", 0),
        ((), DIGITS, "Digits — Hone", 0),
        ((live(DIGITS, None, State.STARTING),), None, "Starting · Digits — Hone", 0),
        ((WAITING,), None, "Queued · Letters — Hone", 0),
        ((WAITING, live(DIGITS, 0.1)), None, "10 % · Digits — Hone", 10),
        ((WAITING, live(DIGITS, 0.1)), LETTERS, "10 % · Digits — Hone", 10),
        ((live(LETTERS, 0.5, State.STARTING), live(DIGITS, 0.1)), LETTERS, "10 % · Digits — Hone", 10),
        (BOTH, None, "10 % · Letters — Hone", 10),
        (BOTH, DIGITS, "50 % · Digits — Hone", 50),
        (BOTH, RunFolder(Path("over")), "10 % · Letters — Hone", 10),
    ],
)
def test_title_and_badge_show_the_run_on_screen_else_the_newest_that_trains(
    desktop, runs, on_screen, title, badge
):
    desktop.notifications.show_live((live(DIGITS, 0.3),))
    desktop.on_screen = on_screen and View(on_screen, on_screen.name.title())
    desktop.notifications.show_live(runs)
    assert (desktop.window.windowTitle(), desktop.badges[-1]) == (title, badge)


@pytest.mark.parametrize(
    ("end", "note"),
    [
        (DONE, ("Finished: Digits", "Accuracy 97.0 %, Time 1 min 00 s", True)),
        (FAILED, ("Failed: Digits", "The data can't be read", True)),
    ],
)
def test_an_end_is_notified_with_its_result_unless_notifications_are_off(desktop, end, note):
    desktop.is_enabled = False
    desktop.notifications.notify_end(end)
    assert desktop.notes == []
    desktop.is_enabled = True
    desktop.notifications.notify_end(end)
    assert desktop.notes == [note]


def test_of_the_run_on_screen_no_end_is_notified(qtbot, desktop):
    desktop.window.show()
    desktop.window.activateWindow()
    qtbot.waitUntil(desktop.window.isActiveWindow)
    desktop.on_screen = View(DIGITS, "Digits")
    desktop.notifications.notify_end(DONE)
    desktop.notifications.notify_end(ended(run=LETTERS, state=State.CRASHED))
    assert [title for title, *_ in desktop.notes] == ["Crashed: Letters"]


@pytest.mark.qt_log_ignore("does not support raise")  # no screen
def test_a_click_on_the_notification_brings_the_window_back_as_large_as_it_was(desktop):
    desktop.window.showMaximized()
    desktop.window.showMinimized()
    desktop.notifications.notify_end(DONE)
    FakeTray.made[0].messageClicked.emit()
    assert desktop.window.isVisible()
    assert not desktop.window.isMinimized()
    assert desktop.window.isMaximized()


def test_without_a_tray_no_icon_is_made(desktop, monkeypatch):
    monkeypatch.setattr(FakeTray, "can_notify", False)
    desktop.notifications.notify_end(DONE)
    assert FakeTray.made == []


def stopped(action, *, state=State.STOPPED, attempt=1):
    answered = RequestAnswered(request="r", action=action, accepted=True)
    return ended(answered, RunStarted(time=1.0, pid=1, attempt=attempt), state=state)


@pytest.mark.parametrize(
    ("end", "is_notified"),
    [
        (stopped(Action.STOP), False),
        (stopped(Action.PAUSE, state=State.PAUSED), False),
        (ended(RequestAnswered(request="r", action=Action.STOP, accepted=True), state=State.STOPPED), False),
        (ended(RunStarted(time=1.0, pid=1), state=State.PAUSED), True),  # its disk was full
        (stopped(Action.PAUSE, state=State.PAUSED, attempt=2), True),  # it was resumed since
        (stopped(Action.SAVE), True),
        (stopped(Action.STOP, state=State.FINISHED), True),  # it was done before
    ],
)
def test_what_the_person_has_asked_for_is_no_news(desktop, end, is_notified):
    desktop.notifications.notify_end(end)
    assert was_asked(end) is not is_notified
    assert bool(desktop.notes) is is_notified
