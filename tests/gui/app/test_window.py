import logging
import os
import sys
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QByteArray, QMimeData, QPoint, QPointF, QRect, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton

from core.base import settings
from core.base.jobs import EngineCrashed
from core.base.settings import Appearance, Settings
from core.runs.folder import Action, RunFolder
from gui.app.application import BugReporter
from gui.app.closing import Closing, underway
from gui.app.sidebar import Place
from gui.app.window import FRAME, MainWindow
from gui.base.theme import Theme
from gui.base.tokens import DARK, LIGHT
from gui.new_run.header import DIGITS
from gui.run.words import Turn
from tests.fakes.jobs import CPU_ONLY, FakeEngine
from tests.fakes.runs import Plot, finish, make_folder, write_story


class Asked:
    """Stands in for the question about closing; gives `answer` and keeps what it was asked about."""

    def __init__(self, answer):
        self.answer = answer
        self.runs = []

    def __call__(self, runs, _parent, **_more):
        self.runs += runs
        return self.answer


@pytest.fixture
def runs_folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def make_window(qtbot, runs_folder):
    made = []

    def make(answer=Closing.KEEP_TRAINING, engine=None):
        chosen = Settings(runs_folder=str(runs_folder), appearance=Appearance.LIGHT)
        asked = Asked(answer)
        window = MainWindow(
            Theme(Appearance.LIGHT),
            chosen,
            engine or FakeEngine(),
            asked,
            ask_turn=lambda *_: Turn.NOW,  # a run of the test before may not quite be over
        )
        window.asked = asked
        qtbot.addWidget(window)
        made.append(window)
        window.show()
        return window

    yield make
    for window in made:
        window.asked.answer = Closing.KEEP_TRAINING
        window.end_work()


@pytest.fixture
def window(make_window):
    return make_window()


def write_finished(run):
    plot = Plot(steps=16, reached=16)
    finish(run, plot, write_story(run, plot))


def live_run(runs_folder) -> RunFolder:
    """A run whose keeper is this very process."""
    run = make_folder(runs_folder / "live")
    run.record_keeper(os.getpid())
    return run


def page(window):
    return window.pages.currentWidget()


def test_it_opens_on_a_new_run_and_goes_where_the_sidebar_leads(qtbot, window):
    assert page(window) is window.new_run
    for button in window.sidebar.findChildren(QPushButton):
        button.click()
    assert page(window) is window.settings
    window.go_to(Place.RUNS)
    assert page(window) is window.runs


def test_pages_answer_to_the_keyboard(qtbot, window):
    keys = {action.shortcut().toString(): action for action in window.actions()}
    assert set(keys) == {f"Ctrl+{key}" for key in ("N", "O", "S", "Return", "1", "2", "3", "4", "5", "Q")}
    for key, name in {"2": "runs", "3": "benchmark", "5": "settings", "N": "new_run"}.items():
        keys[f"Ctrl+{key}"].trigger()
        assert page(window) is getattr(window, name)


def test_the_start_shortcut_starts_only_what_is_seen(qtbot, window):
    window.new_run.start_requested.disconnect(window.start_run)
    start = next(action for action in window.actions() if action.shortcut().toString() == "Ctrl+Return")
    window.go_to(Place.SETTINGS)
    with qtbot.assertNotEmitted(window.new_run.start_requested):
        start.trigger()
        window.go_to(Place.BENCHMARK)
        start.trigger()
    assert not window.is_measuring  # the machine isn't known yet
    window.go_to(Place.NEW_RUN)
    with qtbot.waitSignal(window.new_run.start_requested):
        start.trigger()


def test_what_the_machine_can_do_arrives_in_the_background(qtbot, window):
    window.go_to(Place.SETTINGS)
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    assert window.sidebar.machine._device.text() == "Old processor"
    assert ("PyTorch", "2.13.0") in window.settings.versions.rows()
    assert CPU_ONLY.automatic == "cpu"


def test_an_engine_that_does_not_start_is_said_on_the_page(qtbot, make_window):
    engine = FakeEngine()
    engine.answers["devices"] = EngineCrashed("devices", 1, "ImportError")
    window = make_window(engine=engine)
    with qtbot.waitSignal(window._devices.failed):
        window.ask_for_devices()
    assert window.new_run._strip.isVisible()


def test_a_run_that_cant_be_made_is_said_on_the_page(window, runs_folder):
    runs_folder.write_text("a file stands where the folder should go")
    window.new_run.start()
    assert page(window) is window.new_run
    assert window.new_run._strip.isVisible()


def test_a_finished_run_opens_from_its_folder(qtbot, window, runs_folder):
    run = make_folder(runs_folder / "done")
    write_finished(run)
    window.open_path(run.path)
    assert page(window) is window.run
    window.run.edit_requested.emit({"task": "image-classification", "training": {"epochs": 9.0}})
    assert page(window) is window.new_run
    assert window.new_run.tree()["training"]["epochs"] == 9.0


def test_a_run_file_fills_the_form_and_other_files_become_the_data(window, tmp_path):
    window.go_to(Place.SETTINGS)
    window.open_path(DIGITS)
    assert page(window) is window.new_run
    assert window.new_run.tree()["data"]["train"] == "builtin:digits"
    data = tmp_path / "photos"
    data.mkdir()
    drop(window, data, DIGITS)
    assert window.new_run.tree()["data"]["train"] == str(data)
    assert DIGITS.name in window.found.strip.aside._detail.text()


def drop(window, *paths):
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    none = Qt.KeyboardModifier.NoModifier
    window.dropEvent(
        QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, content, Qt.MouseButton.LeftButton, none)
    )


def test_closing_asks_about_a_run_that_trains_and_can_be_called_off(make_window, runs_folder):
    run = live_run(runs_folder)
    window = make_window(Closing.CANCEL)
    assert not window.close()
    assert [found.run for found in window.asked.runs] == [run]
    assert window.isVisible()
    next(action for action in window.actions() if action.shortcut().toString() == "Ctrl+Q").trigger()
    assert len(window.asked.runs) == 2
    for answer, requests in ((Closing.KEEP_TRAINING, []), (Closing.STOP, [Action.STOP])):
        window = make_window(answer)
        assert window.close()
        assert [request.action for request in run.open_requests()] == requests


def test_the_windows_place_is_kept(make_window):
    first = make_window()
    first.resize(1111, 777)
    first.close()
    kept = settings.load()
    assert kept.window_geometry
    assert first.restoreGeometry(QByteArray.fromBase64(kept.window_geometry.encode()))


@pytest.mark.parametrize(
    ("room", "size"),
    [
        (QRect(0, 0, 1366, 728), (1280, 680)),
        (QRect(0, 27, 1280, 645), (1264, 597)),  # 1920 x 1080 at 150 %
        (QRect(1920, 0, 2560, 1400), (1280, 820)),
    ],
)
def test_the_first_window_lies_on_the_screen_with_its_frame(make_window, monkeypatch, room, size):
    monkeypatch.setattr(MainWindow, "screen", lambda _window: SimpleNamespace(availableGeometry=lambda: room))
    window = make_window()
    assert room.contains(window.geometry() + FRAME)
    assert window.size().toTuple() == size


def test_appearance_follows_the_settings_at_once(qtbot, window):
    window.go_to(Place.SETTINGS)
    theme = window._theme
    assert theme.tokens is LIGHT
    with qtbot.waitSignal(theme.changed):
        window.settings.appearance.buttons()["dark"].click()
    assert theme.tokens is DARK
    assert settings.load().appearance is Appearance.DARK
    window.settings.appearance.buttons()["light"].click()


def test_settings_that_cant_be_kept_are_logged_not_fatal(window, monkeypatch, tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("HONE_HOME", str(blocked / "home"))
    with caplog.at_level(logging.ERROR, logger="hone"):
        assert window.close()
    assert "settings can't be saved" in caplog.text


def test_without_a_home_a_strip_says_so_and_nothing_is_written(qtbot, window, monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    window.work_without_home(PermissionError(13, "Permission denied", "/somewhere/hone.log"))
    strip = window.found.strip.home
    words = " ".join(label.text() for label in strip.findChildren(QLabel))
    assert strip.isVisible()
    assert "/somewhere/hone.log: Permission denied." in words
    assert f"make {tmp_path / 'home'} a folder that you may write to" in words
    strip.findChildren(QPushButton)[-1].click()
    assert not strip.isVisible()
    assert window.close()
    assert not (tmp_path / "home").exists()


def test_a_runs_folder_that_may_not_be_looked_into_stops_nothing(window, monkeypatch, runs_folder):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("gui.app.closing.list_runs", refuse)
    assert underway(runs_folder) == []
    assert window.close()


def test_a_bug_is_logged_whole_and_shown_once(qtbot, caplog, capsys):
    reporter = BugReporter()
    try:
        raise ZeroDivisionError("a bug for the test")
    except ZeroDivisionError:
        caught = sys.exc_info()
    reporter.report(*caught)
    dialog = reporter._dialog
    qtbot.addWidget(dialog)
    assert "a bug for the test" in dialog.findChild(QPlainTextEdit).toPlainText()
    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError" in capsys.readouterr().err
    reporter.report(*caught)
    assert reporter._dialog is dialog


def test_the_device_check_opens_from_both_pages_and_ends_with_the_window(qtbot, make_window):
    engine = FakeEngine()
    window = make_window(engine=engine)
    window.new_run.check_requested.emit("cpu")
    check = window.device_check
    qtbot.waitUntil(lambda: not check.task.is_running)
    check.reject()
    assert window.device_check is None
    window.go_to(Place.SETTINGS)
    engine.gate.clear()
    window.settings.check_requested.emit("auto")
    assert window.device_check.task.is_running
    window.end_work()
    assert window.device_check is None
    engine.gate.set()


def ink_of(page):
    return {label.palette().windowText().color().name() for label in page.findChildren(QLabel)} & {
        LIGHT.text,
        DARK.text,
    }


def test_other_colours_are_taken_by_what_is_seen_at_once_and_by_a_hidden_page_when_it_is_shown(
    qapp, window, monkeypatch
):
    theme = window._theme
    theme.apply()
    try:
        window.new_run.open_more()
        window.go_to(Place.RUNS)
        window.go_to(Place.SETTINGS)
        margins = {label: label.contentsMargins() for label in window.new_run.findChildren(QLabel)}
        assert any(margin.top() for margin in margins.values())
        monkeypatch.setattr(
            qapp, "setStyleSheet", lambda _sheet: pytest.fail("every widget there is is polished")
        )
        theme.set_appearance(Appearance.DARK)
        assert ink_of(window.settings) == ink_of(window.sidebar) == {DARK.text}
        assert ink_of(window.runs) == ink_of(window.new_run) == {LIGHT.text}
        ground = window.pages.mapTo(window, QPoint(2, 2))
        assert window.grab().toImage().pixelColor(ground).name() == DARK.background
        window.go_to(Place.RUNS)
        assert ink_of(window.runs) == {DARK.text}
        window.go_to(Place.TRY)  # made only now
        assert ink_of(window.try_it) == {DARK.text}
        window.check_device("auto")
        assert ink_of(window.device_check) == {DARK.text}
        assert window.device_check.grab().toImage().pixelColor(2, 2).name() == DARK.background
        theme.set_appearance(Appearance.LIGHT)
        assert ink_of(window.device_check) == ink_of(window.try_it) == {LIGHT.text}
        window.go_to(Place.NEW_RUN)
        assert {label: label.contentsMargins() for label in margins} == margins, "nothing has moved"
    finally:
        monkeypatch.undo()
        qapp.setStyleSheet("")
