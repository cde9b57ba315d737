"""What the window makes of runs that it finds as it opens, and of those that wait."""

import time
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLineEdit, QPushButton

from core.base.errors import UserError
from core.base.settings import Appearance, Settings
from core.runs import crash as runs_crash
from core.runs import queue
from core.runs.crash import Interrupted
from core.runs.events import TurnAwaited
from core.runs.folder import Action, RunFolder
from core.runs.queue import LiveRun
from core.runs.status import State
from gui.app.closing import Closing
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.run.words import Turn, question_about
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import OPTIONS, Plot, crash, keep_alive, make_folder, write_events, write_story


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("gui.app.live_runs.FIRST_SECONDS", 0.0)
    (tmp_path / "home").mkdir()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def make_window(qtbot, folder):
    made = []

    def make(**how):
        chosen = Settings(runs_folder=str(folder), appearance=Appearance.LIGHT)
        window = MainWindow(
            Theme(Appearance.LIGHT), chosen, FakeEngine(), lambda *_, **_more: Closing.KEEP_TRAINING, **how
        )
        qtbot.addWidget(window)
        made.append(window)
        return window

    yield make
    for window in made:
        window.end_work()


@pytest.fixture
def training(folder):
    run = make_folder(folder / "training")
    keep_alive(run)
    write_story(run, Plot(reached=180, start=time.time() - 60))
    return run


def waiting(folder, name):
    run = make_folder(folder / name)
    keep_alive(run)
    write_events(run.machine_file, TurnAwaited(time=time.time(), ahead=1, behind="training"))
    queue.enter(run, "cpu", run.keeper_record())
    return run


def open_and_look(qtbot, window):
    with qtbot.waitSignal(window._live_runs.polled_first, timeout=5000):
        window.show()


def press(strip, title):
    next(button for button in strip.findChildren(QPushButton) if button.text() == title).click()


def test_a_window_that_opens_while_a_run_trains_shows_it(qtbot, make_window, training):
    window = make_window()
    open_and_look(qtbot, window)
    assert window.run.view.run == training
    assert window.sidebar._group.button(Place.RUNS).text() == "Runs (1)"
    qtbot.waitUntil(lambda: len(window.run.view._history.loss) == 180, timeout=5000)


def test_who_is_busy_in_the_form_is_told_of_it(qtbot, make_window, training, monkeypatch):
    monkeypatch.setattr("gui.app.live_runs.FIRST_SECONDS", 60.0)
    window = make_window()
    window.show()
    window.activateWindow()
    field = next(found for found in window.new_run.findChildren(QLineEdit) if found.isVisible())
    field.setFocus()
    qtbot.waitUntil(field.hasFocus, timeout=2000)
    with qtbot.waitSignal(window._live_runs.polled_first, timeout=5000):
        window._live_runs.poll_soon()
    strip = window.found.strip.training
    assert strip.isVisible()
    assert strip.accessibleName() == "“Handwritten digits” is training"
    assert strip.height() < 2 * strip.findChild(QPushButton).height()
    press(strip, "Show it")
    assert window.run.view.run == training
    assert not window.found.strip.isVisible()


def test_what_is_said_of_runs_ends_as_they_end_or_are_seen(qtbot, make_window, training, folder):
    other = make_folder(folder / "other")
    window = make_window()
    strip = window.found.strip
    live = [LiveRun(training, "Digits", 0.0, State.TRAINING), LiveRun(other, "Reviews", 0.0, State.TRAINING)]
    strip.show_training(live)
    assert strip.training.accessibleName() == "2 runs are training"
    window.found._on_live((live[1],))
    assert strip.training.accessibleName() == "“Reviews” is training"
    window.show_run(other)
    assert strip.isHidden()
    strip.show_training(live[:1])
    window.found._on_live((replace(live[0], state=State.QUEUED),))
    assert strip.isHidden()
    strip.show_training(live[:1])
    window.found._on_live(())
    assert strip.isHidden()


def test_an_interrupted_run_that_goes_on_or_is_seen_is_offered_no_more(make_window, training, folder):
    other = make_folder(folder / "other")
    window = make_window()
    strip, seen = window.found.strip, []
    strip.seen.connect(lambda: seen.append(True))
    strip.show_interrupted([Interrupted(training, "Digits"), Interrupted(other, "Reviews")])
    window.found._on_live((LiveRun(training, "Digits", 0.0, State.TRAINING),))
    assert strip.interrupted.accessibleName() == "“Reviews” was interrupted"
    assert not seen
    window.show_run(other)
    assert strip.isHidden()
    assert seen


def test_trouble_leaves_what_is_offered(make_window, folder):
    strip = make_window().found.strip
    strip.show_interrupted([Interrupted(make_folder(folder / "lost"), "Digits")])
    strip.show_error(UserError("The queue can't be written", "No space left"))
    assert strip.trouble.accessibleName() == "The queue can't be written"
    assert strip.interrupted.accessibleName() == "“Digits” was interrupted"


def test_interrupted_runs_are_offered_once(qtbot, make_window, folder):
    run = make_folder(folder / "lost")
    keep_alive(run)
    crash(run, write_story(run, Plot(reached=100)))
    window = make_window()
    open_and_look(qtbot, window)
    strip = window.found.strip.interrupted
    assert strip.accessibleName() == "“Handwritten digits” was interrupted"
    resumed = []
    window.resume_run = resumed.append
    press(strip, "Resume")
    assert resumed == [run]
    assert not strip.isVisible()
    qtbot.waitUntil(lambda: runs_crash.seen_until() > time.time() - 60, timeout=2000)


def test_several_interrupted_runs_go_on_one_after_the_other(qtbot, make_window, folder, monkeypatch):
    for name in ("first", "second"):
        run = make_folder(folder / name)
        keep_alive(run)
        crash(run, write_story(run, Plot(reached=100)))
    asked = []
    monkeypatch.setattr("core.runs.start.resume", lambda run, **how: asked.append((run.name, how)))
    window = make_window()
    open_and_look(qtbot, window)
    strip = window.found.strip.interrupted
    assert strip.accessibleName() == "2 runs were interrupted"
    press(strip, "Resume all")
    qtbot.waitUntil(lambda: len(asked) == 2, timeout=2000)
    assert all(how == {"queued": True} for _, how in asked)
    assert window.pages.currentWidget() is window.runs


def test_those_that_wait_stand_in_their_order_and_can_be_moved(qtbot, make_window, training, folder):
    first, second = waiting(folder, "a"), waiting(folder, "b")
    window = make_window()
    open_and_look(qtbot, window)
    window.go_to(Place.RUNS)
    card = window.runs.queue
    qtbot.waitUntil(lambda: [live.run for live in card._waiting] == [first, second], timeout=5000)
    assert card.isVisible()
    assert card._waiting[0].state is State.QUEUED
    up = [button for button in card._rows.findChildren(QPushButton) if button.text() == "Move up"]
    assert [button.isEnabled() for button in up] == [False, True]
    up[1].click()
    qtbot.waitUntil(lambda: [live.run for live in card._waiting] == [second, first], timeout=5000)
    leave = [button for button in card._rows.findChildren(QPushButton) if button.text() == "Leave the queue"]
    leave[0].click()
    qtbot.waitUntil(lambda: bool(second.open_requests()), timeout=5000)
    assert [request.action for request in second.open_requests()] == [Action.STOP]
    queue.leave(first)
    queue.leave(second)
    window._live_runs.poll_soon()
    qtbot.waitUntil(card.isHidden, timeout=5000)


@pytest.mark.parametrize(("turn", "queued"), [(Turn.WAIT, True), (Turn.NOW, False)])
def test_a_start_beside_another_run_is_asked_about(make_window, training, turn, queued, monkeypatch):
    queue.enter(training, "cpu", training.keeper_record())
    asked, begun = [], []
    monkeypatch.setattr("core.runs.start.start", lambda run, **how: begun.append(how))
    window = make_window(ask_turn=lambda awaited, _: asked.append(awaited) or turn)
    window.found._on_live((LiveRun(training, "Handwritten digits", 0.0, State.TRAINING),))
    monkeypatch.setattr(window, "show_run", lambda run, begin: begin())
    window.start_run(OPTIONS)
    assert (asked[0].ahead, asked[0].behind) == (1, "“Handwritten digits”")
    assert begun == [{"queued": queued}]


def test_a_start_that_was_called_off_leaves_nothing(make_window, training, folder):
    queue.enter(training, "cpu", training.keeper_record())
    make_window(ask_turn=lambda *_: Turn.NEVER).start_run(OPTIONS)
    assert [found.name for found in folder.iterdir()] == ["training"]


def test_waiting_is_what_is_offered_first(qtbot):
    asked = question_about(TurnAwaited(ahead=1, behind="“Digits”"), None)
    qtbot.addWidget(asked)
    assert asked.says() == {"Start when that one is done": Turn.WAIT, "Start now as well": Turn.NOW}
    assert asked.defaultButton().text() == "Start when that one is done"
    assert asked.text() == "“Digits” uses this device"
    assert "memory" in asked.informativeText()


def test_a_run_that_somebody_else_resumed_goes_on_where_it_is_shown(qtbot, make_window, folder):
    run = make_folder(folder / "lost")
    crash(run, write_story(run, Plot(reached=100)))
    window = make_window()
    open_and_look(qtbot, window)
    window.show_run(RunFolder(run.path))
    qtbot.waitUntil(lambda: window.run.view.state is State.CRASHED, timeout=5000)
    keep_alive(run, attempt=2)
    window._live_runs.poll_soon()
    qtbot.waitUntil(lambda: window.run.view.state is State.STARTING, timeout=5000)
