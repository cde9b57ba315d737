"""What a run says outside its page, while it trains and when it ends."""

import time

import pytest
from PySide6.QtWidgets import QMainWindow

from core.settings import Appearance
from core.story import State
from gui.attention import Attention
from gui.invented_runs import Plot, finish, write_story
from gui.pages.run import RunPage
from gui.theme import Theme
from tests.fakes.run_stories import keep_alive, make_folder


class Notified(Attention):
    """Keeps what it would have shown."""

    def __init__(self, window, may_notify):
        super().__init__(window, may_notify)
        self.shown = []

    def notify(self, title, words):
        self.shown.append((title, words))


@pytest.fixture
def window(qtbot):
    window = QMainWindow()
    window.setWindowTitle("Hone")
    qtbot.addWidget(window)
    return window


@pytest.fixture
def page(qtbot):
    page = RunPage(Theme(Appearance.LIGHT))
    qtbot.addWidget(page)
    page.resize(1000, 780)
    page.show()
    yield page
    page.close_run()


def test_the_title_tells_how_far_a_run_is(window):
    attention = Attention(window, lambda: True)
    attention.show_progress("Digits", 0.629)
    assert window.windowTitle() == "62 % · Digits – Hone"
    attention.show_progress("Digits", None)
    assert window.windowTitle() == "Hone"


def test_an_end_that_nobody_saw_is_told_where_the_person_wants_it(window):
    wanted = [True]
    attention = Notified(window, lambda: wanted[0])
    attention.tell_end("Digits", State.FINISHED, "Accuracy 97 %")
    wanted[0] = False
    attention.tell_end("Digits", State.FAILED, "")
    assert attention.shown == [("Finished: Digits", "Accuracy 97 %")]


def test_an_end_that_was_seen_needs_no_telling(qtbot, window):
    attention = Notified(window, lambda: True)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    attention.tell_end("Digits", State.FINISHED, "")
    assert attention.shown == []


def test_a_run_tells_of_each_percent_and_of_its_end(qtbot, page, tmp_path):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    told, ended = [], []
    page.progressed.connect(lambda title, share: told.append(share))
    page.run_ended.connect(lambda title, state, words: ended.append((title, state, words)))
    plot = Plot(reached=90, start=time.time() - 30)
    clock = write_story(run, plot)
    page.show_run(run)
    qtbot.waitUntil(lambda: page.view.state is State.TRAINING, timeout=5000)
    assert told == [0.25]
    finish(run, plot, clock)
    qtbot.waitUntil(lambda: bool(ended), timeout=5000)
    assert told[-1] is None
    assert ended[0][:2] == ("Handwritten digits", State.FINISHED)
    assert "Accuracy" in ended[0][2]


def test_a_run_that_was_over_before_is_silent(qtbot, page, tmp_path):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    told, ended = [], []
    page.progressed.connect(lambda title, share: told.append(share))
    page.run_ended.connect(lambda *end: ended.append(end))
    page.show_run(run)
    qtbot.waitUntil(lambda: page.view.state is State.FINISHED, timeout=5000)
    assert [share for share in told if share is not None] == []
    assert ended == []
