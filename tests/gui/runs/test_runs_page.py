import dataclasses
import os
import threading
import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from core.base.errors import UserError
from core.base.settings import Appearance
from core.memory import history
from core.memory.model import Basis
from core.options import past_runs
from core.options.past_runs import RunNotes
from core.runs.folder import Action, RunFolder
from core.runs.start import Extension
from gui.base import background
from gui.base.theme import Theme
from gui.run.export_dialog import ExportSheet
from gui.run.extend_dialog import ExtendSheet
from gui.runs.columns import Column
from gui.runs.page import RunsPage
from gui.runs.table import RunsReader
from tests.fakes.runs import Plot, crash, finish, keep_alive, make_folder, write_story


@pytest.fixture
def folder(tmp_path):
    older, newer = make_folder(tmp_path / "runs" / "older"), make_folder(tmp_path / "runs" / "newer")
    finish(older, Plot(), write_story(older, Plot()))
    plot = Plot(reached=20, start=time.time() - 10)
    write_story(newer, plot)
    keep_alive(newer)
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


def put_away(path):
    """A bin beside the runs."""
    path.rename(path.parents[1] / f"binned-{path.name}")


@pytest.fixture
def page(qtbot, folder):
    page = RunsPage(Theme(Appearance.LIGHT), lambda: folder, trash=put_away)
    qtbot.addWidget(page)
    page.show()
    qtbot.waitUntil(lambda: page.model.rowCount() == 2, timeout=5000)
    yield page
    page.hide()
    page.end_work()


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


def offered(page, row):
    return [
        action.text() for action in page.menu_for(page.table.model().index(row, 0)).actions() if action.text()
    ]


def press(page, row, words):
    menu = page.menu_for(page.table.model().index(row, 0))
    next(action for action in menu.actions() if action.text() == words).trigger()


def labels(page):
    return [label.text() for label in page.strip.findChildren(QLabel)]


def test_the_menu_edits_shows_and_extends_a_run(qtbot, page, folder, monkeypatch):
    assert not {"New run from its model", "Train longer…", "Export…"} & set(offered(page, 0)), "it trains"
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as asked:
        press(page, 1, "Duplicate")
    assert asked.args[0]["model"]["source"] == "torchvision:resnet18"
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as asked:
        press(page, 1, "New run from its model")
    assert asked.args[0]["model"]["source"] == f"run:{folder / 'older'}"
    kept = RunFolder(folder / "older").checkpoints.rename(folder.parent / "kept")
    press(page, 1, "Train longer…")
    qtbot.waitUntil(page.strip.isVisible, timeout=2000)
    assert any("no checkpoint" in text for text in labels(page))
    kept.rename(RunFolder(folder / "older").checkpoints)
    press(page, 1, "Train longer…")
    qtbot.waitUntil(lambda: bool(page.findChildren(ExtendSheet)), timeout=2000)
    (sheet,) = page.findChildren(ExtendSheet)
    with qtbot.waitSignal(page.extend_requested, timeout=1000) as asked:
        sheet.start.click()
    assert (asked.args[0].name, asked.args[1]) == ("older", Extension(epochs=9.0))
    monkeypatch.setattr("gui.runs.page.reveal", lambda path: UserError("Not shown", f"It is {path}"))
    press(page, 1, "Show the folder")
    assert f"It is {folder / 'older'}" in labels(page)
    page.strip.hide()
    (folder / "older" / "run.toml").write_text("task = [")
    press(page, 1, "Duplicate")
    assert page.strip.isVisible()


def test_without_runs_it_says_what_to_do(qtbot, tmp_path):
    page = RunsPage(Theme(Appearance.LIGHT), lambda: tmp_path / "none")
    qtbot.addWidget(page)
    page.show()
    assert not page.table.isVisible()
    assert "New run" in page.words.text()
    page.hide()


def test_a_folder_that_may_not_be_looked_into_is_told_of(qtbot, page, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr("gui.runs.table.list_runs", refuse)
        page.refresh()
        qtbot.waitUntil(lambda: "Permission denied" in page.words.text(), timeout=2000)
    assert not page.table.isVisible()
    qtbot.waitUntil(lambda: not page._reader.isRunning(), timeout=2000)
    page.refresh()
    qtbot.waitUntil(page.table.isVisible, timeout=2000)


def test_the_list_does_not_load_the_charts():
    import subprocess
    import sys

    code = "import sys, gui.runs.page; sys.exit('pyqtgraph' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_a_result_with_a_long_name_is_not_cut_beside_an_empty_name(page):
    page.resize(1400, 600)
    first, second = (page.model.summary(row) for row in range(2))
    page.model.show([dataclasses.replace(first, metric="eval_mae", best=0.1234), second])
    page.table.fit_columns()
    assert "0.123 mean absolute error" in column(page, Column.METRIC)
    assert page.table.columnWidth(Column.METRIC) >= page.table.sizeHintForColumn(Column.METRIC)


def test_how_good_forecasts_have_been_stands_below_the_list(qtbot, page):
    page.refresh()
    qtbot.waitUntil(lambda: not page.forecasts.isVisible(), timeout=5000)
    history.remember(history.PastRun(device="a CPU", basis=Basis.FORMULA, forecast=96, measured=100))
    page.refresh()
    qtbot.waitUntil(page.forecasts.isVisible, timeout=5000)
    assert "off by 4 % in one" in page.forecasts.text()
    history.remember(history.PastRun(device="a CPU", basis=Basis.FORMULA, forecast=88, measured=100))
    qtbot.waitUntil(lambda: "8 % in the median of 2" in page.forecasts.text(), timeout=9000)


def choose(page, *rows):
    page.table.clearSelection()
    for row in rows:
        selection = page.table.selectionModel()
        index = page.table.model().index(row, 0)
        selection.select(index, selection.SelectionFlag.Select | selection.SelectionFlag.Rows)


def settle(qtbot, page):
    page.panel.commit()
    page.work.end_work()
    page.refresh()
    qtbot.waitUntil(lambda: not page._reader.isRunning(), timeout=2000)


def test_a_name_tags_and_a_note_are_kept_in_the_folder_and_found_by_the_filter(qtbot, page, folder):
    page.table.selectRow(1)
    panel = page.panel
    for field, words in ((panel.name, "The long one"), (panel.tags, "#night, lr"), (panel.note, "No better")):
        field.selectAll()
        qtbot.keyClicks(field, words)
    settle(qtbot, page)
    assert past_runs.read(folder / "older") == RunNotes(
        title="The long one", tags=("night", "lr"), text="No better"
    )
    qtbot.waitUntil(lambda: "The long one" in column(page, Column.NAME), timeout=2000)
    page.resize(1500, 600)
    qtbot.waitUntil(lambda: not page.table.isColumnHidden(Column.TAGS), timeout=2000)
    for words in ("tag:nig", "name:long", "note:better", "state:fin tag:lr", "better"):
        page.search.setText(words)
        assert column(page, Column.NAME) == ["The long one"], words
    page.search.setText("tag:better")
    assert column(page, Column.NAME) == []
    page.search.clear()
    choose(page, column(page, Column.NAME).index("The long one"))
    panel.name.selectAll()
    qtbot.keyClick(panel.name, Qt.Key.Key_Backspace)
    settle(qtbot, page)
    qtbot.waitUntil(lambda: "The long one" not in column(page, Column.NAME), timeout=2000)


def test_of_several_runs_the_shared_tags_are_changed(qtbot, page, folder):
    past_runs.write(folder / "older", RunNotes(tags=("both", "old")))
    past_runs.write(folder / "newer", RunNotes(tags=("Both",)))
    settle(qtbot, page)
    qtbot.waitUntil(lambda: page.model.has_tags, timeout=2000)
    choose(page, 0, 1)
    assert page.panel.tags.text().casefold() == "both"
    assert not page.panel.name.isEnabled()
    page.panel.tags.selectAll()
    qtbot.keyClicks(page.panel.tags, "shared")
    settle(qtbot, page)
    assert past_runs.read(folder / "older").tags == ("old", "shared")
    assert past_runs.read(folder / "newer").tags == ("shared",)


def test_a_note_that_cant_be_written_is_told_of(qtbot, page, folder):
    page.table.selectRow(1)
    qtbot.keyClicks(page.panel.tags, "x" * 40)
    with qtbot.waitSignal(page.work.failed, timeout=2000):
        page.panel.commit()
    assert page.strip.isVisible()
    assert past_runs.read(folder / "older") == RunNotes()


def test_two_runs_are_compared_by_the_button_and_the_menu(qtbot, page, folder):
    page.table.selectRow(0)
    assert not page.panel.compare.isEnabled()
    choose(page, 0, 1)
    assert offered(page, 0)[-2:] == ["Compare", "Move to the trash"]
    with qtbot.waitSignal(page.compare_requested, timeout=1000) as asked:
        page.panel.compare.click()
    assert [run.name for run in asked.args[0]] == ["newer", "older"]


def test_a_model_can_be_exported_from_the_list(page):
    press(page, 1, "Export…")
    (sheet,) = page.findChildren(ExportSheet)
    assert sheet.isVisible()
    page.end_work()
    assert not sheet.isVisible()


def test_what_the_menu_offers_depends_on_the_state(qtbot, page, folder):
    assert "Pause" in offered(page, 0)
    assert not {"Resume", "Try it"} & set(offered(page, 0))
    assert "Pause" not in offered(page, 1)
    press(page, 0, "Pause")
    page.work.end_work()
    assert [request.action for request in RunFolder(folder / "newer").open_requests()] == [Action.PAUSE]
    with qtbot.waitSignal(page.try_requested, timeout=1000) as asked:
        press(page, 1, "Try it")
    assert asked.args[0].name == "older"
    crash(RunFolder(folder / "newer"), time.time())
    settle(qtbot, page)
    qtbot.waitUntil(lambda: column(page, Column.STATE) == ["Crashed", "Finished"], timeout=2000)
    with qtbot.waitSignal(page.resume_requested, timeout=1000) as asked:
        press(page, 0, "Resume")
    assert asked.args[0].name == "newer"


def answer(qtbot, page, button, *, is_plain=False):
    qtbot.waitUntil(lambda: page.bin.question is not None, timeout=2000)
    question = page.bin.question
    if is_plain:
        formats = {label.textFormat() for label in question.findChildren(QLabel) if label.text()}
        assert formats == {Qt.TextFormat.PlainText}
    words = f"{question.text()} {question.informativeText()}"
    next(found for found in question.buttons() if found.text().replace("&", "") == button).click()
    return words


def test_the_delete_key_asks_once_and_moves_what_is_over_to_the_bin(qtbot, page, folder):
    choose(page, 0, 1)
    qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    assert "is training" in answer(qtbot, page, "Cancel", is_plain=True)
    page.bin.work.end_work()
    assert (folder / "older").is_dir()
    qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    with qtbot.waitSignal(page.runs_gone, timeout=2000) as gone:
        assert "“Handwritten digits”" in answer(qtbot, page, "Move to the trash")
    assert gone.args[0] == [folder / "older"]
    assert column(page, Column.STATE) == ["Training"]
    assert (folder.parent / "binned-older" / "run.toml").is_file()
    qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    qtbot.waitUntil(page.strip.isVisible, timeout=2000)
    assert (folder / "newer").is_dir()
    crash(RunFolder(folder / "newer"), time.time())
    settle(qtbot, page)
    qtbot.waitUntil(page.strip.isHidden, timeout=2000)  # what kept it is over


def test_where_there_is_no_bin_a_second_question_is_asked(qtbot, page, folder):
    def refuse(path):
        raise PermissionError(13, "No bin here", str(path))

    page.bin._trash = refuse
    page.table.selectRow(1)
    page.panel.bin.click()
    answer(qtbot, page, "Move to the trash")
    assert "No bin here" in answer(qtbot, page, "Cancel")
    assert (folder / "older").is_dir()
    page.panel.bin.click()
    answer(qtbot, page, "Move to the trash")
    with qtbot.waitSignal(page.runs_gone, timeout=2000):
        assert "cannot be undone" in answer(qtbot, page, "Delete permanently")
    assert not (folder / "older").exists()


def test_how_many_runs_there_are_and_what_they_take(qtbot, page, folder):
    (folder / "older" / "model").mkdir(exist_ok=True)
    (folder / "older" / "model" / "model.safetensors").write_bytes(bytes(3 << 20))
    page.refresh()
    qtbot.waitUntil(lambda: page.count.text().startswith("2 runs, 3."), timeout=3000)
    assert column(page, Column.SIZE)[1].startswith("3.")
    page.search.setText("finished")
    assert page.count.text().startswith("1 of 2 runs")


def test_columns_are_put_away_and_stay_so(qtbot, page, folder):
    menu = page.table.columns_menu()
    next(action for action in menu.actions() if action.text().startswith("Device")).trigger()
    assert page.table.isColumnHidden(Column.DEVICE)
    page.work.end_work()
    other = RunsPage(Theme(Appearance.LIGHT), lambda: folder)
    qtbot.addWidget(other)
    other.resize(1600, 600)
    assert other.table._hidden == {Column.DEVICE}


def test_where_room_is_short_the_least_columns_leave(page):
    page.resize(800, 600)
    table = page.table
    assert table.isColumnHidden(Column.DEVICE)
    assert not table.isColumnHidden(Column.STARTED)
    assert table.horizontalHeader().length() <= table.viewport().width()
    page.resize(1700, 600)
    assert not table.isColumnHidden(Column.DEVICE)


def test_a_long_list_comes_in_pieces(qtbot, tmp_path, monkeypatch):
    for number in range(6):
        make_folder(tmp_path / "many" / f"run-{number}")
    monkeypatch.setattr("gui.runs.table.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("gui.runs.table.REPORT_SECONDS", 0.0)
    reader = RunsReader()
    pieces = []
    reader.some_read.connect(pieces.append)
    with qtbot.waitSignal(reader.runs_read, timeout=2000) as told:
        reader.read(tmp_path / "many")
    reader.wait()
    assert [summary for piece in pieces for summary in piece] == told.args[0]
    assert len(pieces) == 6


def test_the_program_ends_though_a_run_is_read_without_end(monkeypatch, qtbot, folder):
    reading, done, ended = threading.Event(), threading.Event(), []
    monkeypatch.setattr("gui.runs.table.summarize", lambda _: reading.set() or done.wait())
    monkeypatch.setattr(background, "PATIENCE_MS", 1)
    monkeypatch.setattr(background, "_stuck", [])
    monkeypatch.setattr(os, "_exit", ended.append)
    reader = RunsReader()
    reader.read(folder)
    assert reading.wait(5)
    reader.stop()
    assert (background.end_program(3), ended) == (3, [3])
    done.set()
    assert reader.wait(5000)
    assert (background.end_program(4), ended) == (4, [3])
