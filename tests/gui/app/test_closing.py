"""What is asked as the window closes or the computer shuts down, and what becomes of the runs."""

import time
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel

from core.runs import queue
from core.runs.events import TurnAwaited
from core.runs.folder import Action, RunFolder
from gui.app import closing
from gui.app.closing import Closing, Underway, may_close, question_about, underway
from tests.fakes.runs import Plot, keep_alive, make_folder, write_events, write_story


def one(name, is_waiting=False):
    return Underway(RunFolder(Path(name)), name, is_waiting)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


@pytest.fixture
def training(tmp_path):
    run = make_folder(tmp_path / "runs" / "one")
    keep_alive(run)
    write_story(run, Plot(reached=20, start=time.time() - 10))
    return run


@pytest.fixture
def waiting(tmp_path):
    """A run outside the folder, which only the queue knows of."""
    run = make_folder(tmp_path / "elsewhere" / "two")
    keep_alive(run)
    write_events(run.machine_file, TurnAwaited(time=time.time(), ahead=1, behind="one"))
    queue.enter(run, "cpu", run.keeper_record())
    return run


@pytest.mark.parametrize(("choice", "action"), [(Closing.PAUSE, Action.PAUSE), (Closing.STOP, Action.STOP)])
def test_all_are_asked_to_do_the_same(tmp_path, training, waiting, choice, action):
    seen = []

    def answer(found, _parent, **_more):
        seen.extend((found.run, found.is_waiting) for found in found)
        return choice

    assert may_close(underway(tmp_path / "runs"), None, answer)
    assert seen == [(training, False), (waiting, True)]
    for run in (training, waiting):
        assert [request.action for request in run.open_requests()] == [action]


def test_going_on_and_calling_it_off_ask_nothing_of_them(tmp_path, training):
    assert may_close([], None, None), "nothing is asked where nothing goes on"
    assert may_close(underway(tmp_path / "runs"), None, lambda *_, **_more: Closing.KEEP_TRAINING)
    assert not may_close(underway(tmp_path / "runs"), None, lambda *_, **_more: Closing.CANCEL)
    assert training.open_requests() == []
    asked = []

    def answer(found, _parent, *, is_measuring):
        asked.append((list(found), is_measuring))
        return Closing.CANCEL

    assert not may_close([], None, answer, is_measuring=True)
    assert asked == [([], True)]


def test_of_runs_that_nobody_works_on_no_file_is_read(tmp_path, training, waiting, monkeypatch):
    over = make_folder(tmp_path / "runs" / "over")
    read = []
    monkeypatch.setattr(RunFolder, "exit_record", lambda run: read.append(run) and None)
    assert [found.run for found in underway(tmp_path / "runs", [training])] == [training, waiting]
    assert over not in read


def test_a_run_that_cant_be_asked_keeps_nobody_from_the_others(training, tmp_path):
    gone = one(str(tmp_path / "no such folder"))
    closing.request_all([gone, *underway(tmp_path / "runs")], Action.PAUSE)
    assert [request.action for request in training.open_requests()] == [Action.PAUSE]


MEASURING = "The benchmark ends with this window"


@pytest.mark.parametrize(
    ("runs", "is_measuring", "title", "parts"),
    [
        ([one("Digits")], False, "“Digits” is training", []),
        (
            [one("A"), one("B"), one("C", True)],
            True,
            "2 runs are training",
            ["“A”, “B”", "Waiting for their turn: “C”", "remove waiting runs", MEASURING],
        ),
        ([one("C", True)], False, "“C” waits for its turn", ["remove waiting runs"]),
        ([one(f"R{number}") for number in range(6)], False, "6 runs are training", ["“R3” and 2 more"]),
        ([], True, "A benchmark is being measured", [MEASURING]),
    ],
    ids=["one", "several", "waiting", "many", "benchmark"],
)
def test_the_question_names_what_is_unfinished(qtbot, runs, is_measuring, title, parts):
    asked = question_about(runs, None, is_measuring=is_measuring)
    qtbot.addWidget(asked)
    assert asked.text() == title
    assert all(part in asked.informativeText() for part in parts)
    assert (MEASURING in asked.informativeText()) == is_measuring
    assert ("queue" in asked.informativeText()) == any(run.is_waiting for run in runs)
    if not runs:
        assert list(asked.says()) == ["End it and close"]


def test_each_button_says_what_it_stands_for(qtbot):
    asked = question_about([one("a<b>c</b>")], None)
    qtbot.addWidget(asked)
    (named,) = [label for label in asked.findChildren(QLabel) if "<b>" in label.text()]
    assert named.textFormat() is Qt.TextFormat.PlainText
    assert asked.says() == {
        "Keep training": Closing.KEEP_TRAINING,
        "Pause": Closing.PAUSE,
        "Stop and keep": Closing.STOP,
    }
    assert asked.defaultButton().text() == "Keep training"
    QTimer.singleShot(0, next(button for button in asked.buttons() if button.text() == "Pause").click)
    assert asked.ask(Closing.CANCEL) is Closing.PAUSE
    QTimer.singleShot(0, asked.reject)
    assert asked.ask(Closing.CANCEL) is Closing.CANCEL


def test_a_shutdown_leaves_nothing_going_on(qtbot):
    asked = question_about([one("A")], None, is_shutting_down=True)
    qtbot.addWidget(asked)
    assert list(asked.says()) == ["Pause", "Stop and keep"]
    assert asked.defaultButton().text() == "Pause"


class Session:
    """Stands in for the session's manager."""

    def __init__(self, interacts):
        self._interacts, self.cancelled = interacts, False

    def allowsInteraction(self):  # noqa: N802 - Qt's name
        return self._interacts

    def cancel(self):
        self.cancelled = True

    def release(self):
        pass


def test_at_shutdown_runs_are_paused_where_nobody_may_be_asked(make_window, training):
    make_window().end_session(Session(interacts=False))
    assert [request.action for request in training.open_requests()] == [Action.PAUSE]


def test_a_shutdown_can_be_called_off(make_window, training, monkeypatch):
    monkeypatch.setattr("gui.app.window.ask_on_shutdown", lambda *_, **_more: Closing.CANCEL)
    window, session = make_window(), Session(interacts=True)
    window.end_session(session)
    assert session.cancelled
    assert window.isVisible()


@pytest.fixture
def make_window(qtbot, tmp_path):
    from core.base.settings import Appearance, Settings
    from gui.app.window import MainWindow
    from gui.base.theme import Theme
    from tests.fakes.jobs import FakeEngine

    made = []

    def make():
        chosen = Settings(runs_folder=str(tmp_path / "runs"), appearance=Appearance.LIGHT)
        window = MainWindow(
            Theme(Appearance.LIGHT), chosen, FakeEngine(), lambda *_, **_more: Closing.KEEP_TRAINING
        )
        qtbot.addWidget(window)
        window.show()
        made.append(window)
        return window

    yield make
    for window in made:
        window.end_work()
