"""What the menu of the list of runs makes of a run that is over: a new run from its model, or a longer one."""

import time

import pytest
from PySide6.QtWidgets import QLabel

from core.base.settings import Appearance
from core.runs.folder import RunFolder
from core.runs.start import Extension
from gui.base.theme import Theme
from gui.run.extend_dialog import ExtendSheet
from gui.runs.page import RunsPage
from tests.fakes.run_stories import Plot, finish, keep_alive, make_folder, write_story


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    older, newer = make_folder(tmp_path / "runs" / "older"), make_folder(tmp_path / "runs" / "newer")
    finish(older, Plot(), write_story(older, Plot()))
    write_story(newer, Plot(reached=20, start=time.time() - 10))
    keep_alive(newer)
    return tmp_path / "runs"


@pytest.fixture
def page(qtbot, folder):
    page = RunsPage(Theme(Appearance.LIGHT), lambda: folder)
    qtbot.addWidget(page)
    page.show()
    qtbot.waitUntil(lambda: page.model.rowCount() == 2, timeout=5000)
    yield page
    page.hide()
    page.end_work()


def offered(page, row):
    return [action.text() for action in page.menu_for(page.table.model().index(row, 0)).actions()]


def press(page, row, words):
    menu = page.menu_for(page.table.model().index(row, 0))
    next(action for action in menu.actions() if action.text() == words).trigger()


def test_a_new_run_from_a_model_of_the_list(qtbot, page, folder):
    assert "New run from its model" not in offered(page, 0)
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as asked:
        press(page, 1, "New run from its model")
    assert asked.args[0]["model"]["source"] == f"run:{folder / 'older'}"


def test_a_run_of_the_list_is_trained_longer(qtbot, page, folder):
    assert "Train longer…" not in offered(page, 0)
    kept = RunFolder(folder / "older").checkpoints.rename(folder.parent / "kept")
    press(page, 1, "Train longer…")
    qtbot.waitUntil(page.strip.isVisible, timeout=2000)
    assert any("No checkpoint was saved" in label.text() for label in page.strip.findChildren(QLabel))
    kept.rename(RunFolder(folder / "older").checkpoints)
    press(page, 1, "Train longer…")
    qtbot.waitUntil(lambda: bool(page.findChildren(ExtendSheet)), timeout=2000)
    (sheet,) = page.findChildren(ExtendSheet)
    with qtbot.waitSignal(page.extend_requested, timeout=1000) as asked:
        sheet.start.click()
    assert (asked.args[0].name, asked.args[1]) == ("older", Extension(epochs=9.0))
