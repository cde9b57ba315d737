import time

import pytest
from PySide6.QtWidgets import QPushButton

from core.base.settings import Appearance
from core.monitor.recent import END, REVEAL, STOP
from core.runs.events import Level, MessageRaised, MessageWithdrawn
from core.runs.folder import Action, ExitRecord
from gui.base.theme import Theme
from gui.run.header import RunFigures
from gui.run.page import RunView
from tests.fakes.run_stories import keep_alive, make_folder, write_paging
from tests.fakes.runs import write_events

ROWS = [
    ("Last evaluated at step 12,345", "Loss 0.147 · Accuracy 98.1 % · F1 97.7 %"),
    ("Speed", "1,149 rows/s"),
    ("Time", "3 h 12 min 40 s"),
    ("Peak memory", "21.2 GB"),
]


def test_figures_that_have_no_room_beside_each_other_take_a_second_line(qtbot):
    figures = RunFigures()
    qtbot.addWidget(figures)
    figures.show_figures(ROWS)
    line = figures.sizeHint()
    assert figures.heightForWidth(line.width()) == line.height()
    assert figures.heightForWidth(line.width() - 1) > 2 * line.height()
    assert figures.minimumSizeHint().width() < 0.6 * line.width()


def test_nothing_takes_no_room(qtbot):
    figures = RunFigures()
    qtbot.addWidget(figures)
    figures.show_figures([])
    assert figures.isHidden()


def test_what_the_keeper_finds_is_shown_as_what_the_engine_does(qtbot, tmp_path):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    write_paging(run, time.time() - 120, minutes=2.0)
    view = RunView(Theme(Appearance.LIGHT), run)
    qtbot.addWidget(view)
    try:
        qtbot.waitUntil(lambda: len(view.messages.titles()) == 1, timeout=5000)
        assert view.messages.titles()[0].startswith("The run is paging")
        with qtbot.waitSignal(view.edit_requested, timeout=2000) as asked:
            view.messages.findChild(QPushButton).click()
        assert asked.args[0]["memory"]["batch_size"] == 16
        write_events(run.machine_file, MessageWithdrawn(id="paging"))
        qtbot.waitUntil(lambda: view.messages.titles() == [], timeout=2000)
    finally:
        view.close_view()


@pytest.fixture
def offered(qtbot, tmp_path):
    """The page of a live run that may be stuck, and its buttons by what they say."""
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    message = MessageRaised(id="a", level=Level.WARNING, title="Stuck?", fixes=(STOP, END, REVEAL))
    write_events(run.machine_file, message)
    view = RunView(Theme(Appearance.LIGHT), run)
    qtbot.addWidget(view)
    qtbot.waitUntil(lambda: view.messages.titles() == ["Stuck?"], timeout=5000)
    yield view
    view.close_view()


def buttons(view):
    return {button.text(): button for button in view.messages.findChildren(QPushButton)}


def asked(view):
    return [request.action for request in view.run.open_requests()]


def test_a_message_can_stop_the_run_as_its_own_button_does(qtbot, offered):
    for _ in range(2):
        buttons(offered)["Stop and keep"].click()
    qtbot.waitUntil(lambda: asked(offered) == [Action.STOP], timeout=2000)
    assert not offered.header.buttons.stop.isEnabled()
    buttons(offered)["End now"].click()
    qtbot.waitUntil(lambda: sorted(asked(offered)) == [Action.KILL, Action.STOP], timeout=2000)


def test_a_message_can_show_the_runs_folder(offered, monkeypatch):
    shown = []
    monkeypatch.setattr("gui.run.page.reveal", shown.append)
    buttons(offered)["Show the folder"].click()
    assert shown == [offered.run.path]
    assert asked(offered) == []


def test_no_run_that_is_over_can_be_ended(qtbot, offered):
    assert list(buttons(offered)) == ["Stop and keep", "End now", "Show the folder"]
    offered.run.record_exit(ExitRecord(time=time.time(), code=-9))
    qtbot.waitUntil(lambda: sorted(buttons(offered)) == ["Show the folder", "Start again"], timeout=5000)
