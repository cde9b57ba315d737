"""What the window does with the runs of its list: compares them, goes on with one, takes what is gone off its page."""

import pytest
from PySide6.QtCore import Qt

from core.base.settings import Appearance, Settings
from core.options import past_runs
from core.options.past_runs import RunNotes
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.run.header import RunAction
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import Plot, finish, make_folder, write_story

SHORT = Plot(steps=8, reached=8, epochs=1)


@pytest.fixture
def window(qtbot, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    for name in ("one", "two"):
        run = make_folder(tmp_path / "runs" / name)
        finish(run, SHORT, write_story(run, SHORT))
    chosen = Settings(runs_folder=str(tmp_path / "runs"))
    window = MainWindow(Theme(Appearance.LIGHT), chosen, FakeEngine())
    qtbot.addWidget(window)
    window.resize(1024, 700)
    window.show()
    window.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: window.runs.model.rowCount() == 2, timeout=5000)
    yield window
    window.end_work()


def test_two_runs_chosen_are_compared_and_back_leads_to_the_list(qtbot, window):
    window.runs.table.selectAll()
    window.runs.panel.compare.click()
    page = window.compare
    assert page.isVisible()
    qtbot.waitUntil(lambda: len(page._histories[1].loss) == 8, timeout=5000)
    assert page.title.text() == "Compare 2 runs"
    page.back.click()
    assert window.runs.isVisible()


def test_a_run_that_is_moved_to_the_bin_is_shown_no_longer(qtbot, window, tmp_path):
    run = window.runs.model.summary(0).run
    window.show_run(run)
    window.run.bin._trash = lambda path: path.rename(tmp_path / path.name)
    qtbot.waitUntil(window.run.view.header.buttons.entries[RunAction.TRASH].isEnabled, timeout=5000)
    window.run.view.header.buttons.entries[RunAction.TRASH].trigger()
    qtbot.waitUntil(lambda: window.run.bin.question is not None, timeout=5000)
    next(found for found in window.run.bin.question.buttons() if "trash" in found.text()).click()
    qtbot.waitUntil(lambda: window.run.view is None, timeout=5000)
    assert window.runs.isVisible()
    assert not run.path.exists()
    qtbot.waitUntil(lambda: window.runs.model.rowCount() == 1, timeout=5000)


def test_another_name_stands_on_the_page_of_the_run(qtbot, window):
    run = window.runs.model.summary(0).run
    window.show_run(run)
    window.go_to(Place.RUNS)
    past_runs.write(run.path, RunNotes(title="Renamed"))
    window.show_run(run)
    assert window.run.view.header.name.text() == "Renamed"
    assert window.run.view.title == "Renamed"


def test_the_list_is_worked_from_the_keyboard(qtbot, window):
    table = window.runs.table
    table.setFocus()
    table.selectRow(1)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert window.run.isVisible()
