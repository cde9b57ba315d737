import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from core.errors import UserError
from core.memory import record
from core.memory.forecast import Basis
from core.settings import Appearance
from gui.invented_runs import Plot, finish, write_story
from gui.models.runs_columns import Column
from gui.pages.runs import RunsPage
from gui.pages.runs_table import share_out
from gui.theme import Theme
from tests.fakes.run_stories import crash, keep_alive, make_folder


@pytest.fixture
def folder(tmp_path):
    older, newer = make_folder(tmp_path / "runs" / "older"), make_folder(tmp_path / "runs" / "newer")
    finish(older, Plot(), write_story(older, Plot()))
    plot = Plot(reached=20, start=time.time() - 10)
    write_story(newer, plot)
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


def column(page, which):
    model = page.table.model()
    return [model.index(row, which).data() for row in range(model.rowCount())]


def test_lists_newest_first_with_state_and_result(page):
    assert column(page, Column.STATE) == ["Training", "Finished"]
    assert column(page, Column.METRIC)[1] == "98.1 %"


def test_enter_and_double_click_open(qtbot, page, folder):
    page.table.selectRow(1)
    with qtbot.waitSignal(page.run_opened, timeout=1000) as opened:
        qtbot.keyClick(page.table, Qt.Key.Key_Return)
    assert opened.args[0].path == folder / "older"
    with qtbot.waitSignal(page.run_opened, timeout=1000) as opened:
        page.table.doubleClicked.emit(page.table.model().index(0, 0))
    assert opened.args[0].path == folder / "newer"


def test_the_filter_takes_effect_while_typing(qtbot, page):
    qtbot.keyClicks(page.search, "finished")
    assert column(page, Column.STATE) == ["Finished"]
    qtbot.keyClicks(page.search, " nowhere")
    assert not page.table.isVisible()
    page.search.clear()
    assert len(column(page, Column.STATE)) == 2
    assert page.table.isVisible()


def test_a_run_that_changes_is_read_again(qtbot, page, folder):
    run = (
        page.model.summary(0).run if page.model.summary(0).run.name == "newer" else page.model.summary(1).run
    )
    crash(run, time.time())
    qtbot.waitUntil(lambda: not page._reader.isRunning(), timeout=2000)
    page.refresh()
    qtbot.waitUntil(lambda: column(page, Column.STATE) == ["Crashed", "Finished"], timeout=2000)


def test_duplicate_from_the_menu(qtbot, page):
    menu = page.menu_for(page.table.model().index(1, 0))
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as asked:
        next(action for action in menu.actions() if action.text() == "Duplicate").trigger()
    assert asked.args[0]["model"]["source"] == "torchvision:resnet18"


def test_a_folder_that_cant_be_shown_is_named(page, folder, monkeypatch):
    monkeypatch.setattr("gui.pages.runs.reveal", lambda path: UserError("Not shown", f"It is {path}"))
    menu = page.menu_for(page.table.model().index(1, 0))
    next(action for action in menu.actions() if action.text() == "Show the folder").trigger()
    assert page._strip.isVisible()
    assert f"It is {folder / 'older'}" in [label.text() for label in page._strip.findChildren(QLabel)]


def test_a_run_that_cant_be_duplicated_says_why(page, folder):
    (folder / "older" / "run.toml").write_text("task = [")
    menu = page.menu_for(page.table.model().index(1, 0))
    next(action for action in menu.actions() if action.text() == "Duplicate").trigger()
    assert page._strip.isVisible()


def test_without_runs_it_says_what_to_do(qtbot, tmp_path):
    page = RunsPage(Theme(Appearance.LIGHT), lambda: tmp_path / "none")
    qtbot.addWidget(page)
    page.show()
    assert not page.table.isVisible()
    assert "New run" in page._words.text()
    page.hide()


def test_a_folder_that_may_not_be_looked_into_is_told_of(qtbot, page, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr("gui.models.runs_reader.list_runs", refuse)
        page.refresh()
        qtbot.waitUntil(lambda: "Permission denied" in page._words.text(), timeout=2000)
    assert not page.table.isVisible()
    qtbot.waitUntil(lambda: not page._reader.isRunning(), timeout=2000)
    page.refresh()
    qtbot.waitUntil(page.table.isVisible, timeout=2000)


def test_hiding_the_page_ends_its_thread(page):
    page.refresh()
    page.hide()
    assert not page._reader.isRunning()


def test_the_list_does_not_load_the_charts():
    import subprocess
    import sys

    code = "import sys, gui.pages.runs; sys.exit('pyqtgraph' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_the_columns_fit_into_a_narrow_window(qtbot, page):
    page.resize(822, 600)
    table = page.table
    assert table.horizontalHeader().length() <= table.viewport().width()


def test_what_is_short_of_room_is_cut_alike_and_the_name_takes_the_rest():
    wanted = {Column.NAME: 300, Column.MODEL: 200, Column.DATA: 50}
    assert share_out(250, wanted) == {Column.DATA: 50, Column.MODEL: 100, Column.NAME: 100}
    assert share_out(800, wanted) == {Column.DATA: 50, Column.MODEL: 200, Column.NAME: 550}
    assert sum(share_out(-5, wanted).values()) == 0


def test_how_good_forecasts_have_been_stands_below_the_list(qtbot, page, monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    page.refresh()
    qtbot.waitUntil(lambda: not page.forecasts.isVisible(), timeout=5000)
    record.remember(record.PastRun(device="a CPU", basis=Basis.TRACE, forecast=96, measured=100))
    page.refresh()
    qtbot.waitUntil(page.forecasts.isVisible, timeout=5000)
    assert page.forecasts.text() == "Memory forecast on this computer: off by 4 % in one run."
