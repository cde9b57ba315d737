"""Runs that train or wait are followed whichever page is shown, and those found at the start are offered."""

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt, QThread
from PySide6.QtWidgets import QLineEdit, QPushButton

from core.base.errors import UserError
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.runs import crash as runs_crash
from core.runs import queue
from core.runs.crash import Interrupted
from core.runs.events import Action, TurnAwaited
from core.runs.folder import RunFolder
from core.runs.library import create_all
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import RunStatus, State
from gui.app.live_runs import LiveRunsThread
from gui.app.sidebar import Place
from gui.run.words import BeginTurn
from tests.fakes.on_screen import press
from tests.fakes.runs import (
    OPTIONS,
    Plot,
    crash,
    finish,
    keep_alive,
    link,
    make_folder,
    record_keeper,
    write_events,
    write_story,
)

HALF = Plot(reached=180)
PAIR = RunOptions(
    task=Task.CHAT, model=ModelOptions(source="scratch:llama-tiny"), data=DataOptions(train=__file__)
)


@pytest.fixture(autouse=True)
def quick_first_poll(own_home, monkeypatch):
    monkeypatch.setattr("gui.app.live_runs.FIRST_SECONDS", 0.0)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def thread(folder):
    thread = LiveRunsThread(lambda: folder)
    thread.seen, thread.ends = [], []
    thread.changed.connect(thread.seen.append)
    thread.run_ended.connect(lambda end: thread.ends.append((end.run.name, end.state)))
    yield thread
    thread.stop()


def start_training(path, plot=HALF):
    """A live run, and the time of its last event."""
    run = make_folder(path)
    keep_alive(run)
    return run, write_story(run, plot)


def wait_in_queue(run):
    keep_alive(run)
    write_events(run.machine_file, TurnAwaited(time=time.time(), ahead=1, behind="training"))
    queue.enter(run, "cpu", run.keeper_record())


def interrupt(path):
    run, clock = start_training(path, Plot(reached=100))
    crash(run, clock)
    return run


@pytest.fixture
def training(folder):
    return start_training(folder / "training", replace(HALF, start=time.time() - 60))[0]


@pytest.fixture
def open_window(qtbot, make_window):
    """A window that has polled the runs once."""

    def make(**how):
        window = make_window(is_shown=False, **how)
        with qtbot.waitSignal(window.live_runs.polled_first, timeout=5000):
            window.show()
        return window

    return make


# --- The thread


def test_a_change_and_an_end_are_each_emitted_once(qtbot, thread, folder):
    run, clock = start_training(folder / "terminal")
    assert (thread.known(), thread.trains()) == (None, False)
    thread.begin()
    qtbot.waitUntil(lambda: thread.has_polled and bool(thread.seen))
    assert (thread.known(), thread.trains()) == ([run], True)
    assert [(live.run, int(100 * live.share)) for live in thread.seen[0]] == [(run, 50)]
    finish(run, HALF, clock)
    thread.poll_soon()
    qtbot.waitUntil(lambda: thread.ends == [("terminal", State.FINISHED)])
    assert thread.seen[1:] == [()]
    assert (thread.known(), thread.trains()) == ([], False)


def test_a_run_elsewhere_whose_keeper_here_is_gone_is_followed_again(qtbot, thread, folder, monkeypatch):
    again = []
    monkeypatch.setattr("core.runs.start.follow_again", again.append)
    run, _clock = start_training(folder / "elsewhere")
    record_keeper(run, started=1.0)
    link(run)
    thread.begin()
    qtbot.waitUntil(lambda: again == [run])
    assert thread.trains()


def test_it_can_be_stopped_and_begun_again_and_follows_a_run_of_another_folder(qtbot, thread, tmp_path):
    thread.begin()
    thread.stop()
    assert thread.isFinished()
    run, _ = start_training(tmp_path / "elsewhere" / "run")
    thread.follow(run, starts=False)
    thread.begin()
    qtbot.waitUntil(lambda: bool(thread.seen))
    assert thread.seen[0][0].run == run


# --- In the window


def test_a_window_that_opens_while_a_run_trains_shows_it(qtbot, open_window, training):
    window = open_window()
    assert window.pages.run.view.run == training
    assert window.sidebar.buttons[Place.RUNS].text() == "Runs · 1 training"
    qtbot.waitUntil(lambda: len(window.pages.run.view.history.loss) == 180, timeout=5000)


def test_while_the_form_is_edited_no_run_is_opened(qtbot, make_window, training, monkeypatch):
    monkeypatch.setattr("gui.app.live_runs.FIRST_SECONDS", 60.0)
    window = make_window()
    window.activateWindow()
    field = next(found for found in window.pages.new_run.findChildren(QLineEdit) if found.isVisible())
    field.setFocus()
    qtbot.waitUntil(field.hasFocus, timeout=2000)
    with qtbot.waitSignal(window.live_runs.polled_first, timeout=5000):
        window.live_runs.poll_soon()
    qtbot.waitUntil(lambda: window.sidebar.buttons[Place.RUNS].text() == "Runs · 1 training")
    assert window.pages.run_on_screen() is None


def test_escape_closes_the_topmost_banner(qtbot, make_window):
    window = make_window()
    strip = window.found.strip
    strip.show_error(UserError("The queue can't be written", "No space left"))
    strip.show_aside(["b.csv"])
    for left in ([strip.aside], []):
        qtbot.keyClick(window.centralWidget(), Qt.Key.Key_Escape)
        assert [one for one in (strip.trouble, strip.aside) if one.isVisible()] == left


def test_notices_shrink_and_go_as_runs_end_or_are_shown(make_window, training, folder):
    other = make_folder(folder / "other")
    window = make_window()
    strip, seen = window.found.strip, []
    strip.seen.connect(lambda: seen.append(True))
    strip.show_interrupted([Interrupted(training, "Digits"), Interrupted(other, "Reviews")])
    window.live_runs.changed.emit((LiveRun(training, "Digits", 0.0, State.TRAINING),))
    strip.show_error(UserError("The queue can't be written", "No space left"))
    assert strip.trouble.accessibleName() == "The queue can't be written"
    assert strip.interrupted.accessibleName() == "“Reviews” crashed"
    assert not seen
    window.pages.show_run(other)
    assert strip.interrupted.isHidden()
    assert seen


def test_the_end_of_a_run_is_told_on_other_pages_until_its_page_is_shown_or_it_is_resumed(
    make_window, training, folder
):
    window = make_window()
    strip = window.found.strip.ended
    end = EndedRun(training, "Digits", State.PAUSED, RunStatus())
    window.live_runs.run_ended.emit(end)
    press(strip, "Show it")
    assert window.pages.run_on_screen() == training
    assert strip.isHidden()
    window.live_runs.run_ended.emit(end)
    assert strip.isHidden()
    window.pages.go_to(Place.NEW_RUN)
    window.live_runs.run_ended.emit(end)
    assert strip.isVisible()
    window.live_runs.changed.emit((LiveRun(training, "Digits", 0.0, State.TRAINING),))
    assert strip.isHidden()


def test_a_notice_of_an_end_moves_no_page(make_window, training):
    window = make_window()
    strip = window.found.strip
    place = window.pages.geometry()
    for state in (State.FAILED, State.FINISHED):
        window.live_runs.run_ended.emit(EndedRun(training, "Digits", state, RunStatus()))
        assert strip.ended.isVisible()
        assert window.pages.geometry() == place


def test_the_second_run_of_a_pair_is_shown_when_the_first_finishes_on_screen(qtbot, make_window, folder):
    first, second = create_all(PAIR, folder)
    window = make_window()
    window.pages.show_run(first)
    qtbot.waitUntil(lambda: window.pages.run.view.next_run == second)
    window.live_runs.run_ended.emit(EndedRun(first, "Pip", State.FAILED, RunStatus()))
    assert window.pages.run_on_screen() == first
    window.live_runs.run_ended.emit(EndedRun(first, "Pip", State.FINISHED, RunStatus()))
    qtbot.waitUntil(lambda: window.pages.run_on_screen() == second)
    window.pages.go_to(Place.NEW_RUN)
    window.live_runs.run_ended.emit(EndedRun(first, "Pip", State.FINISHED, RunStatus()))
    assert window.found.strip.ended.isVisible()


def test_an_interrupted_run_is_offered_once(qtbot, open_window, folder, monkeypatch):
    run = interrupt(folder / "lost")
    window = open_window()
    strip = window.found.strip.interrupted
    assert strip.accessibleName() == "“Handwritten digits” crashed"
    resumed = []
    monkeypatch.setattr(window.pages, "resume_run", resumed.append)
    press(strip, "Resume")
    assert resumed == [run]
    assert not strip.isVisible()
    qtbot.waitUntil(lambda: runs_crash.seen_until() > time.time() - 60, timeout=2000)


def test_several_interrupted_runs_are_resumed_one_after_the_other(qtbot, open_window, folder, monkeypatch):
    for name in ("first", "second"):
        interrupt(folder / name)
    resumed = []
    monkeypatch.setattr("core.runs.start.resume", lambda run, **how: resumed.append(how))
    window = open_window()
    press(window.found.strip.interrupted, "Resume all")
    qtbot.waitUntil(lambda: len(resumed) == 2, timeout=2000)
    assert resumed == [{"queued": True}] * 2
    assert window.pages.currentWidget() is window.pages.runs


def test_a_run_that_is_resumed_elsewhere_goes_on_where_it_is_shown(qtbot, open_window, folder):
    run = interrupt(folder / "lost")
    window = open_window()
    window.pages.show_run(RunFolder(run.path))
    qtbot.waitUntil(lambda: window.pages.run.view.state is State.CRASHED, timeout=5000)
    keep_alive(run, attempt=2)
    window.live_runs.poll_soon()
    qtbot.waitUntil(lambda: window.pages.run.view.state is State.STARTING, timeout=5000)


def test_waiting_runs_are_listed_in_their_order_moved_and_removed(qtbot, open_window, training, folder):
    first, second = make_folder(folder / "a"), make_folder(folder / "b")
    for run in (first, second):
        wait_in_queue(run)
    window = open_window()
    window.pages.go_to(Place.RUNS)
    card = window.pages.runs.queue

    def buttons(title):
        return [button for button in card.rows.findChildren(QPushButton) if button.text() == title]

    qtbot.waitUntil(lambda: [live.run for live in card.waiting] == [first, second], timeout=5000)
    assert card.isVisible()
    assert [button.isEnabled() for button in buttons("Move up")] == [False, True]
    buttons("Move up")[1].click()
    qtbot.waitUntil(lambda: [live.run for live in card.waiting] == [second, first], timeout=5000)
    buttons("Remove from the queue")[0].click()
    qtbot.waitUntil(lambda: bool(second.open_requests()), timeout=5000)
    assert [request.action for request in second.open_requests()] == [Action.STOP]
    queue.leave(first)
    queue.leave(second)
    window.live_runs.poll_soon()
    qtbot.waitUntil(card.isHidden, timeout=5000)


def test_a_queued_run_is_started_from_its_page_beside_the_window(
    qtbot, open_window, training, folder, monkeypatch
):
    queue.hold(training, "cpu", training.keeper_record())
    run, threads, move = make_folder(folder / "a"), [], queue.move
    wait_in_queue(run)
    monkeypatch.setattr("gui.run.page.starts_now", lambda _awaited, _: True)
    monkeypatch.setattr(
        "core.runs.queue.move", lambda *how: threads.append(QThread.currentThread()) or move(*how)
    )
    window = open_window()
    window.pages.show_run(run)
    view = window.pages.run.view
    qtbot.waitUntil(lambda: view.state is State.QUEUED, timeout=5000)
    view.header.buttons.resume.click()
    qtbot.waitUntil(lambda: queue.training() == [training, run], timeout=5000)
    assert threads == [window.live_runs]
    view.move_requested.emit(run, queue.Move.NOW)
    trouble = window.found.strip.trouble
    qtbot.waitUntil(lambda: trouble.accessibleName().endswith("is no longer queued"), timeout=5000)


# --- A start beside another run


@pytest.mark.parametrize(
    ("turn", "started"),
    [(BeginTurn.WAIT, [{"queued": True}]), (BeginTurn.NOW, [{"queued": False}]), (BeginTurn.NEVER, [])],
)
def test_a_start_on_a_busy_device_is_asked_about(make_window, training, turn, started, monkeypatch):
    queue.enter(training, "cpu", training.keeper_record())
    asked, begun = [], []
    monkeypatch.setattr("core.runs.start.start", lambda run, **how: begun.append(how))
    window = make_window(is_shown=False, ask_turn=lambda awaited, _: asked.append(awaited) or turn)
    monkeypatch.setattr(window.pages, "show_run", lambda run, begin: begin())
    window.start_run(OPTIONS)
    assert (asked[0].ahead, asked[0].title) == (1, "Handwritten digits")
    assert begun == started
    assert len(list(training.path.parent.iterdir())) == 1 + len(started)


def test_a_test_of_a_model_waits_and_fails_as_a_run_does(qtbot, make_window, training, monkeypatch):
    queue.enter(training, "cpu", training.keeper_record())
    begun = []
    monkeypatch.setattr("core.runs.start.start", lambda run, **how: begun.append(how))
    window = make_window(is_shown=False, ask_turn=lambda _awaited, _: BeginTurn.WAIT)
    window.pages.show_run(training)
    view = window.pages.run_page().view
    monkeypatch.setattr(window.pages, "show_run", lambda run, begin: begin())
    view.test_requested.emit(OPTIONS)
    assert begun == [{"queued": True}]
    monkeypatch.setattr("core.runs.library.create", lambda *_: raise_error())
    view.test_requested.emit(OPTIONS)
    assert begun == [{"queued": True}]
    qtbot.waitUntil(lambda: "No room" in view.messages.titles(), timeout=5000)


def raise_error():
    raise UserError("No room")
