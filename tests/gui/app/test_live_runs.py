"""Runs that train are followed whichever page is shown, those of the terminal too."""

import pytest

from core.base.settings import Appearance, Settings
from core.runs.status import State
from gui.app.closing import Closing
from gui.app.live_runs import LiveRunsThread
from gui.app.window import MainWindow
from gui.base.theme import Theme
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import Plot, finish, keep_alive, make_folder, write_story

HALF = Plot(reached=180)


class Ear:
    """Keeps what a thread tells."""

    def __init__(self, thread):
        self.live, self.ends = [], []
        thread.changed.connect(self.live.append)
        thread.run_ended.connect(self.ends.append)

    @property
    def told(self):
        return [(end.run.name, end.state) for end in self.ends]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def thread(folder):
    thread = LiveRunsThread(lambda: folder)
    yield thread
    thread.stop()


@pytest.fixture
def window(qtbot, folder):
    chosen = Settings(runs_folder=str(folder), appearance=Appearance.LIGHT)
    window = MainWindow(
        Theme(Appearance.LIGHT), chosen, FakeEngine(), lambda *_, **_more: Closing.KEEP_TRAINING
    )
    qtbot.addWidget(window)
    window.show()
    yield window
    window.end_work()


def training(path, plot=HALF):
    """A live run, and the time at which its story has arrived."""
    run = make_folder(path)
    keep_alive(run)
    return run, write_story(run, plot)


def test_it_tells_what_it_sees_once_and_each_end(qtbot, thread, folder):
    run, clock = training(folder / "terminal")
    ear = Ear(thread)
    assert (thread.known(), thread.trains()) == (None, False), "nobody has looked"
    thread.begin()
    qtbot.waitUntil(lambda: bool(ear.live))
    qtbot.waitUntil(lambda: thread.has_polled)
    assert (thread.known(), thread.trains()) == ([run], True)
    assert [(one.run, int(100 * one.share)) for one in ear.live[0]] == [(run, 50)]
    finish(run, HALF, clock)
    thread.poll_soon()
    qtbot.waitUntil(lambda: bool(ear.ends))
    assert ear.told == [("terminal", State.FINISHED)]
    assert ear.live[1:] == [()]
    assert (thread.known(), thread.trains()) == ([], False)


def test_it_stops_and_goes_on(qtbot, thread, folder):
    ear = Ear(thread)
    thread.begin()
    thread.stop()
    assert thread.isFinished()
    training(folder / "later")
    thread.begin()
    qtbot.waitUntil(lambda: bool(ear.live))


def test_a_run_elsewhere_is_followed_once_it_was_opened(qtbot, thread, tmp_path):
    run, _ = training(tmp_path / "elsewhere" / "run")
    ear = Ear(thread)
    thread.follow(run, starts=False)
    thread.begin()
    qtbot.waitUntil(lambda: bool(ear.live))
    assert ear.live[0][0].run == run


def test_the_end_of_a_run_is_heard_while_another_one_is_shown(qtbot, window, folder):
    first, clock = training(folder / "first")
    second, _ = training(folder / "second")
    ear = Ear(window._live_runs)
    window.show_run(first)
    window.show_run(second)
    qtbot.waitUntil(lambda: any(len(live) == 2 for live in ear.live), timeout=5000)
    finish(first, HALF, clock)
    window._live_runs.poll_soon()
    qtbot.waitUntil(lambda: ear.told == [("first", State.FINISHED)], timeout=5000)
