"""The page with the list of runs: what it shows, what can be done with a run, and how it reads them."""

import os
import threading
import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from core.base.errors import UserError
from core.base.settings import Appearance
from core.options import past_runs
from core.options.past_runs import RunNotes
from core.runs import notes
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.start import Extension
from gui.base import background
from gui.base.theme import Theme
from gui.run.export_dialog import ExportSheet
from gui.run.extend_dialog import ExtendSheet
from gui.runs.columns import RunColumn
from gui.runs.page import RunsPage
from gui.runs.table import PADDING, RunsReader
from gui.widgets.cards import UNDO
from tests.fakes.runs import Plot, crash, finish, keep_alive, make_folder, write_story


@pytest.fixture
def folder(tmp_path, own_home):
    older, newer = make_folder(tmp_path / "runs" / "older"), make_folder(tmp_path / "runs" / "newer")
    finish(older, Plot(), write_story(older, Plot()))
    write_story(newer, Plot(reached=20, start=time.time() - 10))
    keep_alive(newer)
    return tmp_path / "runs"


def put_away(path):
    """A trash beside the runs."""
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


def offered(page, row):
    menu = page.menu_for(page.table.model().index(row, 0))
    return [action.text() for action in menu.actions() if action.text()]


def press(page, row, words):
    menu = page.menu_for(page.table.model().index(row, 0))
    next(action for action in menu.actions() if action.text() == words).trigger()


def labels(page):
    return [label.text() for label in page.strip.findChildren(QLabel)]


def choose(page, *rows):
    page.table.clearSelection()
    selection = page.table.selectionModel()
    for row in rows:
        index = page.table.model().index(row, 0)
        selection.select(index, selection.SelectionFlag.Select | selection.SelectionFlag.Rows)


def settle(qtbot, page):
    page.panel.commit()
    page.work.end_work()
    page.refresh()
    qtbot.waitUntil(lambda: not page.reader.isRunning(), timeout=2000)


# --- The list


def test_runs_are_listed_newest_first_filtered_and_opened(qtbot, page, folder):
    assert column(page, RunColumn.STATE) == ["Training 6 %", "Finished"]
    assert column(page, RunColumn.METRIC)[1] == "98.1 %"
    qtbot.keyClicks(page.search, "finished")
    assert column(page, RunColumn.STATE) == ["Finished"]
    assert page.count.text().startswith("1 of 2 runs")
    qtbot.keyClicks(page.search, " nowhere")
    assert not page.table.isVisible()
    page.search.clear()
    assert page.table.isVisible()
    page.table.selectRow(1)
    with qtbot.waitSignal(page.run_opened, timeout=1000) as opened:
        qtbot.keyClick(page.table, Qt.Key.Key_Return)
    assert opened.args[0].path == folder / "older"
    with qtbot.waitSignal(page.run_opened, timeout=1000) as opened:
        page.table.doubleClicked.emit(page.table.model().index(0, 0))
    assert opened.args[0].path == folder / "newer"


def test_sizes_are_shown(qtbot, page, folder):
    (folder / "older" / "model").mkdir()
    (folder / "older" / "model" / "model.safetensors").write_bytes(bytes(3 << 20))
    page.refresh()
    qtbot.waitUntil(lambda: page.count.text().startswith("2 runs, 3."), timeout=3000)
    assert column(page, RunColumn.SIZE)[1].startswith("3.")
    qtbot.keyClicks(page.search, "finished")
    assert page.count.text().startswith("1 of 2 runs, 3."), "of those that are shown"
    page.search.clear()
    qtbot.keyClicks(page.search, "training")
    assert page.count.text().endswith(" KB")


def test_without_runs_or_a_readable_folder_the_page_says_why(qtbot, page, tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    empty = RunsPage(Theme(Appearance.LIGHT), lambda: tmp_path / "none")
    qtbot.addWidget(empty)
    empty.show()
    assert not empty.table.isVisible()
    qtbot.waitUntil(lambda: "New run" in empty.words.text(), timeout=2000)
    empty.hide()
    with monkeypatch.context() as patch:
        patch.setattr("gui.runs.table.list_runs", refuse)
        page.refresh()
        qtbot.waitUntil(lambda: "Permission denied" in page.words.text(), timeout=2000)
    assert not page.table.isVisible()
    qtbot.waitUntil(lambda: not page.reader.isRunning(), timeout=2000)
    page.refresh()
    qtbot.waitUntil(page.table.isVisible, timeout=2000)


def test_columns_leave_where_room_is_short(page):
    table = page.table
    page.resize(800, 600)
    assert table.isColumnHidden(RunColumn.DEVICE)
    assert table.horizontalHeader().length() <= table.viewport().width()
    page.resize(1700, 600)
    assert not table.isColumnHidden(RunColumn.DEVICE)


def test_until_the_runs_are_read_it_does_not_say_that_there_are_none(qtbot, folder):
    page = RunsPage(Theme(Appearance.LIGHT), lambda: folder)
    qtbot.addWidget(page)
    assert page.words.text() == "Reading the runs…"


def shown_names(page):
    """The names as they are drawn in the table."""
    room = page.table.columnWidth(RunColumn.NAME) - PADDING
    elide = page.table.textElideMode()
    return {page.table.fontMetrics().elidedText(name, elide, room) for name in column(page, RunColumn.NAME)}


@pytest.mark.parametrize("width", [1280 - 204, 1024 - 204])
@pytest.mark.parametrize("begin", ["resnet18 on signs-heldout", "resnet18 on signs-heldout" * 4])
def test_names_have_the_room_that_other_columns_leave_and_keep_both_ends(qtbot, page, folder, width, begin):
    names = {f"{begin} · lr 0.003", f"{begin} · lr 0.0003"}
    for name, title in zip(("older", "newer"), names, strict=True):
        notes.write(folder / name, RunNotes(title=title))
    page.resize(width, 660)
    page.refresh()
    qtbot.waitUntil(lambda: set(column(page, RunColumn.NAME)) == names, timeout=5000)
    if len(begin) < 30:
        assert shown_names(page) == names
    else:
        assert {one[-7:] for one in shown_names(page)} == {"r 0.003", " 0.0003"}
        assert all(one.startswith("resnet18") and "…" in one for one in shown_names(page))


def test_of_texts_with_as_many_letters_the_widest_sets_the_width_of_a_column(page):
    page.resize(1700, 600)
    page.model.longest_texts = lambda which: ["liiii", "MMMMM"] if which is RunColumn.MODEL else []
    page.table.fit_columns()
    assert page.table.columnWidth(RunColumn.MODEL) > page.table.fontMetrics().horizontalAdvance("MMMMM")


# --- What can be done with a run


def test_the_menu_offers_what_the_state_allows(qtbot, page, folder):
    assert "Pause" in offered(page, 0)
    assert not {"Resume", "Try it", "Train longer…", "Export…"} & set(offered(page, 0))
    assert "Pause" not in offered(page, 1)
    press(page, 0, "Pause")
    page.work.end_work()
    assert [request.action for request in RunFolder(folder / "newer").open_requests()] == [Action.PAUSE]
    with qtbot.waitSignal(page.try_requested, timeout=1000) as requested:
        press(page, 1, "Try it")
    assert requested.args[0].name == "older"
    choose(page, 0)
    assert not page.panel.compare.isEnabled()
    choose(page, 0, 1)
    assert offered(page, 0)[-2:] == ["Compare", "Move to the trash"]
    with qtbot.waitSignal(page.compare_requested, timeout=1000) as requested:
        page.panel.compare.click()
    assert [run.name for run in requested.args[0]] == ["newer", "older"]
    crash(RunFolder(folder / "newer"), time.time())
    settle(qtbot, page)
    qtbot.waitUntil(lambda: column(page, RunColumn.STATE) == ["Crashed", "Finished"], timeout=2000)
    choose(page, 0)
    with qtbot.waitSignal(page.resume_requested, timeout=1000) as requested:
        press(page, 0, "Resume")
    assert requested.args[0].name == "newer"


def test_the_menu_duplicates_extends_exports_and_shows_a_run(qtbot, page, folder, monkeypatch):
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as requested:
        press(page, 1, "Duplicate")
    assert requested.args[0]["model"]["source"] == "torchvision:resnet18"
    moved = RunFolder(folder / "older").checkpoints.rename(folder.parent / "moved")
    press(page, 1, "Train longer…")
    qtbot.waitUntil(page.strip.isVisible, timeout=2000)
    assert any("no checkpoint" in text for text in labels(page))
    moved.rename(RunFolder(folder / "older").checkpoints)
    press(page, 1, "Train longer…")
    qtbot.waitUntil(lambda: bool(page.findChildren(ExtendSheet)), timeout=2000)
    (sheet,) = page.findChildren(ExtendSheet)
    with qtbot.waitSignal(page.extend_requested, timeout=1000) as requested:
        sheet.start.click()
    assert (requested.args[0].name, requested.args[1]) == ("older", Extension(epochs=9.0))
    monkeypatch.setattr("gui.runs.page.reveal", lambda path: UserError("Not shown", f"It is {path}"))
    press(page, 1, "Show the folder")
    assert f"It is {folder / 'older'}" in labels(page)
    page.strip.hide()
    (folder / "older" / "run.toml").write_text("task = [")
    press(page, 1, "Duplicate")
    assert page.strip.isVisible()
    press(page, 1, "Export…")
    (sheet,) = page.findChildren(ExportSheet)
    assert sheet.isVisible()
    page.end_work()
    assert not sheet.isVisible()


def test_a_name_tags_and_a_note_are_saved_in_the_folder_and_found_by_the_filter(qtbot, page, folder):
    page.table.selectRow(1)
    panel = page.panel
    for field, words in ((panel.name, "The long one"), (panel.tags, "#night, lr"), (panel.note, "No better")):
        field.selectAll()
        qtbot.keyClicks(field, words)
    settle(qtbot, page)
    assert past_runs.read(folder / "older") == RunNotes(
        title="The long one", tags=("night", "lr"), text="No better"
    )
    qtbot.waitUntil(lambda: bool(page.model.summary(0).note or page.model.summary(1).note), timeout=2000)
    for words in ("tag:nig", "name:long", "note:better", "state:fin tag:lr", "better"):
        page.search.setText(words)
        assert column(page, RunColumn.NAME) == ["The long one"], words
    page.search.setText("tag:better")
    assert column(page, RunColumn.NAME) == []
    page.search.clear()
    choose(page, column(page, RunColumn.NAME).index("The long one"))
    panel.name.selectAll()
    qtbot.keyClick(panel.name, Qt.Key.Key_Backspace)
    settle(qtbot, page)
    qtbot.waitUntil(lambda: "The long one" not in column(page, RunColumn.NAME), timeout=2000)


def test_of_several_runs_the_shared_tags_are_changed_and_a_long_tag_is_refused(qtbot, page, folder):
    notes.write(folder / "older", RunNotes(tags=("both", "old")))
    notes.write(folder / "newer", RunNotes(tags=("Both",)))
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
    page.panel.tags.selectAll()
    qtbot.keyClicks(page.panel.tags, "x" * 40)
    with qtbot.waitSignal(page.work.failed, timeout=2000):
        page.panel.commit()
    assert page.strip.isVisible()
    assert past_runs.read(folder / "newer").tags == ("shared",)


# --- The trash


def answer(qtbot, page, button):
    """Press a button of the question; returns the question."""
    qtbot.waitUntil(lambda: page.bin.question is not None, timeout=2000)
    question = page.bin.question
    formats = {label.textFormat() for label in question.findChildren(QLabel) if label.text()}
    assert formats == {Qt.TextFormat.PlainText}
    words = f"{question.text()} {question.informativeText()}"
    next(found for found in question.buttons() if found.text().replace("&", "") == button).click()
    return words


def test_deleted_runs_can_be_kept_until_the_page_is_left(qtbot, page, folder):
    choose(page, 1)
    with qtbot.waitSignal(page.runs_gone, timeout=2000) as gone:
        qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    assert gone.args[0] == [folder / "older"]
    settle(qtbot, page)
    assert column(page, RunColumn.STATE) == ["Training 6 %"]
    assert not page.chosen(), "Delete pressed twice moves no other run"
    page.strip.fix_chosen.emit(UNDO)
    assert not page.bin.waiting
    qtbot.waitUntil(lambda: page.model.rowCount() == 2, timeout=2000)
    assert [run.run.path for run in page.chosen()] == [folder / "older"]
    with qtbot.waitSignal(page.runs_gone, timeout=2000):
        qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    assert (folder / "older").is_dir()
    page.hide()
    qtbot.waitUntil((folder.parent / "binned-older" / "run.toml").is_file, timeout=2000)


def test_a_run_that_trains_keeps_all_from_the_trash(qtbot, page, folder):
    choose(page, 0, 1)
    assert not page.panel.bin.isEnabled()
    qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    qtbot.waitUntil(page.strip.isVisible, timeout=2000)
    assert not page.bin.waiting
    crash(RunFolder(folder / "newer"), time.time())
    settle(qtbot, page)
    qtbot.waitUntil(page.strip.isHidden, timeout=2000)  # the reason no longer holds


def test_without_a_trash_a_question_offers_to_delete(qtbot, page, folder):
    def refuse(path):
        raise PermissionError(13, "No bin here", str(path))

    page.bin.trash = refuse
    page.table.selectRow(1)
    page.panel.bin.click()
    qtbot.waitUntil(lambda: bool(page.bin.waiting), timeout=2000)
    page.strip.dismiss()
    assert "No bin here" in answer(qtbot, page, "Cancel")
    settle(qtbot, page)
    page.table.selectRow(1)
    page.panel.bin.click()
    qtbot.waitUntil(lambda: bool(page.bin.waiting), timeout=2000)
    page.strip.dismiss()
    with qtbot.waitSignal(page.runs_gone, timeout=2000):
        answer(qtbot, page, "Delete permanently")
    assert not (folder / "older").exists()


# --- The thread that reads the runs


def test_a_long_list_is_read_in_pieces(qtbot, tmp_path, monkeypatch):
    for number in range(6):
        make_folder(tmp_path / "many" / f"run-{number}")
    monkeypatch.setattr("gui.runs.table.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("gui.runs.table.REPORT_SECONDS", 0.0)
    reader = RunsReader()
    pieces = []
    reader.some_read.connect(pieces.append)
    with qtbot.waitSignal(reader.runs_read, timeout=2000) as read:
        reader.read(tmp_path / "many")
    reader.wait()
    assert [summary for piece in pieces for summary in piece] == read.args[0]
    assert len(pieces) == 6


def test_the_program_ends_though_reading_a_run_never_does(monkeypatch, qtbot, folder):
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
