"""The main window: its pages and keys, what it opens, its colours, its place, and what it does when something fails."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from PySide6.QtCore import QByteArray, QEvent, QMimeData, QObject, QPoint, QPointF, QRect, Qt, QTimer, QUrl
from PySide6.QtGui import QAction, QDragEnterEvent, QDropEvent, QKeySequence
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton, QTabWidget

from core.base import settings
from core.base.errors import RunFolderError, UserError
from core.base.jobs import EngineCrashed
from core.base.settings import Appearance
from core.benchmark.plan import Benchmark, BenchmarkKind, BenchmarkRow, Plan
from core.options.past_runs import RunNotes
from core.runs import notes
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.start import Extension
from gui.app import guide
from gui.app.application import BugDialog, BugReporter
from gui.app.closing import Closing
from gui.app.sidebar import Place
from gui.app.window import FRAME, MainWindow
from gui.base.theme import GUIDE
from gui.base.tokens import DARK, LIGHT
from gui.run.header import RunAction
from gui.run.page import RunView
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import Plot, digits_options, finish, keep_alive, make_folder, write_story

SHORT = Plot(steps=8, reached=8, epochs=1)


@pytest.fixture
def window(make_window):
    return make_window()


@pytest.fixture
def listed(qtbot, make_window, tmp_path):
    """A window that lists two finished runs."""
    for name in ("one", "two"):
        run = make_folder(tmp_path / "runs" / name)
        finish(run, SHORT, write_story(run, SHORT))
    window = make_window()
    window.pages.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: window.pages.runs.model.rowCount() == 2, timeout=5000)
    return window


def page(window):
    return window.pages.currentWidget()


def shortcut(window, keys):
    return next(action for action in window.actions() if action.shortcut().toString() == keys)


# --- Pages and keys


def test_no_part_of_a_page_is_a_window_before_it_is_in_its_place(qapp, make_window):
    class Shown(QObject):
        windows: ClassVar = []

        def eventFilter(self, watched, event):  # noqa: N802 - Qt's name
            if event.type() is QEvent.Type.Show and watched.isWidgetType() and watched.isWindow():
                self.windows.append(type(watched))
            return False

    shown = Shown()
    qapp.installEventFilter(shown)
    window = make_window()
    for place in Place:
        window.pages.go_to(place)
    qapp.removeEventFilter(shown)
    assert shown.windows == [MainWindow]


def test_sidebar_and_keys_lead_to_the_pages(window):
    assert page(window) is window.pages.new_run
    for button in window.sidebar.findChildren(QPushButton):
        button.click()
    assert page(window) is window.pages.settings
    keys = [keys for action in window.actions() if (keys := action.shortcut().toString())]
    assert len(keys) == len(set(keys))
    for key, name in {
        "2": "runs",
        "3": "try_it",
        "4": "settings",
        "N": "new_run",
        ",": "settings",
    }.items():
        shortcut(window, f"Ctrl+{key}").trigger()
        assert page(window) is getattr(window.pages, name)


def test_each_key_of_the_menus_is_there_once_and_shown_by_its_name(window):
    shown = {action.text().replace("&", ""): action.shortcut().toString() for action in window.actions()}
    keys = [one.toString() for action in window.actions() for one in action.shortcuts()]
    assert len(keys) == len(set(keys))
    assert not [title for title, key in shown.items() if "Backtab" in key]
    assert shown["Previous tab"] == "Ctrl+Shift+Tab"
    assert shown["Save as…"] == "Ctrl+Shift+S"
    assert (
        shown["Full screen"] == QKeySequence("Meta+Ctrl+F" if sys.platform == "darwin" else "F11").toString()
    )


def test_the_start_key_starts_only_what_is_on_screen(qtbot, window):
    window.pages.new_run.start_requested.disconnect(window.start_run)
    with qtbot.assertNotEmitted(window.pages.new_run.start_requested):
        window.pages.go_to(Place.SETTINGS)
        shortcut(window, "Ctrl+Return").trigger()
    window.pages.go_to(Place.NEW_RUN)
    with qtbot.waitSignal(window.pages.new_run.start_requested):
        shortcut(window, "Ctrl+Return").trigger()


@pytest.mark.parametrize(
    ("place", "chapter"),
    [(Place.NEW_RUN, "options.md"), (Place.RUNS, "runs.md"), (Place.SETTINGS, "README.md")],
)
def test_help_opens_the_chapter_about_the_page_without_a_network(window, place, chapter):
    window.pages.go_to(place)
    shortcut(window, "F1").trigger()
    browser = window.commands.guide.browser
    assert browser.source().toLocalFile() == str(GUIDE / chapter)
    assert browser.toPlainText()


@pytest.mark.parametrize("chapter", sorted((GUIDE / "ar").glob("*.md")), ids=lambda path: path.stem)
def test_where_one_reads_from_the_right_a_tables_first_column_is_there(window, monkeypatch, chapter):
    def rows():
        browser = window.commands.open_guide(str(chapter)).browser
        browser.reload()
        return [
            [
                table.cellAt(row, column).firstCursorPosition().block().text()
                for column in range(table.columns())
            ]
            for table in browser.document().rootFrame().childFrames()
            for row in range(table.rows())
        ]

    found = rows()
    monkeypatch.setattr(guide, "IS_RIGHT_TO_LEFT", True)
    assert rows() == [row[::-1] for row in found]


def test_the_guide_goes_to_headings_and_by_keyboard_to_the_chapters_it_names(qtbot, window):
    opened = window.commands.open_guide("README.md")
    for key in (Qt.Key.Key_Tab, Qt.Key.Key_Tab, Qt.Key.Key_Return):
        qtbot.keyClick(opened.browser, key)
    assert opened.browser.source().toLocalFile() == str(GUIDE / "first-run.md")
    opened.resize(400, 200)
    place = QUrl.fromLocalFile(str(GUIDE / "troubleshooting.md"))
    place.setFragment("nothing-is-sent")
    opened.browser.setSource(place)
    assert opened.browser.verticalScrollBar().value() > 0
    window.end_work()
    assert not opened.isVisible()


@pytest.mark.parametrize(
    ("text", "chapters", "selected"),
    [
        (
            "queue",
            ["runs.md", "runs.md"],
            "queue",
        ),  # in its title, which the contents and the glossary have, too
        ("ollam", ["exports.md", "exports.md"], "ollam"),
        ("validation", ["charts.md", "charts.md"], "validation"),
        ("zzz", [], ""),
    ],
)
def test_what_is_found_in_the_guide_is_listed_and_return_opens_one_after_the_other(
    qtbot, window, text, chapters, selected
):
    guide = window.commands.open_guide("README.md")
    guide.search.setText(text)
    assert guide.browser.source().fileName() == "README.md"
    assert guide.hits.isHidden() is not bool(chapters)
    assert bool(guide.missing.text()) is not bool(chapters)
    for chapter in chapters:
        qtbot.keyClick(guide.search, Qt.Key.Key_Return)
        assert guide.browser.source().fileName() == chapter
        assert guide.browser.textCursor().selectedText().lower() == selected
    lines = [guide.hits.item(row).text() for row in range(guide.hits.count())]
    assert all(text in line.lower() for line in lines)
    assert not chapters or not lines[0].startswith("Glossary")
    guide.search.clear()
    assert guide.hits.isHidden()


def test_every_hit_in_the_guide_leads_to_its_line(window):
    guide = window.commands.open_guide("README.md")
    for text in ("run", "validation", "F1"):
        guide.search.setText(text)
        for row in range(guide.hits.count()):
            guide.hits.itemActivated.emit(item := guide.hits.item(row))
            assert guide.browser.textCursor().selectedText().lower() == text.lower()
            assert (
                guide.browser.textCursor().block().text().endswith(item.text().partition(": ")[2].strip("…"))
            )


def test_the_run_menu_does_what_the_selected_runs_allow(qtbot, listed):
    menu = next(menu for menu in listed.commands.menus if menu.title() == "&Run")
    listed.pages.runs.table.selectRow(0)

    def enabled():
        menu.aboutToShow.emit()
        return {
            action.text().replace("&", "")
            for action in menu.actions()
            if action.isEnabled() and action.text()
        }

    assert {"Rename…", "Duplicate"} <= enabled()
    assert not {"Compare", "Pause", "Start training"} & enabled()
    listed.pages.runs.table.selectAll()
    assert "Compare" in enabled()
    assert "Rename…" not in enabled()
    listed.pages.runs.table.selectRow(0)
    menu.aboutToHide.emit()
    shortcut(listed, "F2").trigger()
    assert listed.focusWidget() is listed.pages.runs.panel.name


def test_the_edit_menu_acts_on_the_field_with_the_focus(qtbot, listed):
    field = listed.pages.runs.search
    shortcut(listed, "Ctrl+F").trigger()
    assert listed.focusWidget() is field
    qtbot.keyClicks(field, "digits")
    shortcut(listed, "Ctrl+A").trigger()
    shortcut(listed, "Ctrl+X").trigger()
    assert field.text() == ""
    shortcut(listed, "Ctrl+Z").trigger()
    assert field.text() == "digits"


@pytest.mark.parametrize("place", [Place.RUNS, Place.TRY, Place.SETTINGS])
def test_the_edit_menu_is_grey_where_it_has_nothing_to_do(listed, place):
    listed.pages.go_to(place)
    listed.pages.currentWidget().setFocus()
    menu = next(menu for menu in listed.commands.menus if menu.title() == "&Edit")
    for action in menu.actions()[:-1]:
        action.trigger()
    menu.aboutToShow.emit()
    assert not {"Undo", "Cut", "Paste"} & {
        one.text().replace("&", "") for one in menu.actions() if one.isEnabled()
    }


def test_escape_clears_the_filter_and_leaves_a_comparison_and_keys_turn_its_tabs(qtbot, listed):
    listed.pages.runs.search.setFocus()
    qtbot.keyClicks(listed.pages.runs.search, "one")
    qtbot.keyClick(listed.pages.runs.search, Qt.Key.Key_Escape)
    assert listed.pages.runs.search.text() == ""
    shortcut(listed, "Ctrl+2").trigger()
    assert listed.focusWidget() is listed.pages.runs.table
    listed.pages.runs.table.selectAll()
    listed.pages.runs.panel.compare.click()
    (tabs,) = listed.pages.compare.findChildren(QTabWidget)
    for keys, place in (("Ctrl+Tab", 1), ("Ctrl+Shift+Tab", 0)):
        shortcut(listed, keys).trigger()
        assert tabs.currentIndex() == place
    qtbot.keyClick(listed.pages.compare, Qt.Key.Key_Escape)
    assert page(listed) is listed.pages.runs


def test_the_keyboard_goes_from_a_closed_message_to_what_the_page_is_for(listed):
    for place, part in (
        (Place.RUNS, listed.pages.runs.table),
        (Place.NEW_RUN, listed.pages.new_run.outcome.start),
    ):
        listed.pages.go_to(place)
        listed.found.strip.show_error(UserError("A message"))
        listed.found.strip.trouble.findChild(QPushButton).setFocus()
        listed.found.strip.trouble.dismiss()
        assert listed.focusWidget() is part


def test_undo_is_that_of_the_form_where_the_text_with_the_focus_has_nothing_to_undo(qtbot, window):
    form = window.pages.new_run.options.form
    rate, batch = form.field("training.learning_rate").control, form.field("memory.batch_size").control
    form.set_values({"memory.batch_size": 7})
    rate.setFocus()
    rate.selectAll()
    qtbot.keyClicks(rate, "0.5")
    shortcut(window, "Ctrl+Z").trigger()
    assert (rate.text(), batch.value()) == ("0.001", 7)
    shortcut(window, "Ctrl+Z").trigger()
    assert (rate.text(), batch.value()) == ("0.001", 32)
    assert window.focusWidget() is batch, "what was undone is in view"
    window.pages.new_run.stack.redo()
    assert batch.value() == 7


def test_what_the_machine_can_do_arrives_in_the_background(qtbot, window):
    window.pages.go_to(Place.SETTINGS)
    with qtbot.waitSignal(window.devices.done):
        window.ask_for_devices()
    assert window.sidebar.machine.device.text() == "Old processor"
    assert ("PyTorch", "2.13.0") in window.pages.settings.versions.rows()


def test_two_runs_are_compared_and_back_leads_to_the_list(qtbot, listed):
    listed.pages.runs.table.selectAll()
    listed.pages.runs.panel.compare.click()
    qtbot.waitUntil(lambda: len(listed.pages.compare.histories[1].loss) == 8, timeout=5000)
    assert page(listed) is listed.pages.compare
    listed.pages.compare.back.click()
    assert page(listed) is listed.pages.runs


def test_a_sweep_is_queued_and_its_comparison_opens_with_all_runs(qtbot, window, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("core.runs.start.start", lambda run, *, queued: started.append((run, queued)))
    options = digits_options()
    window.pages.new_run.sweep_requested.emit(options, {"training.learning_rate": "1e-4,1e-3,1e-2"})
    qtbot.waitUntil(lambda: page(window) is window.pages.compare, timeout=5000)
    assert started == [(run, True) for run in window.pages.compare.runs]
    names = "lr 0.0001", "lr 0.001", "lr 0.01"
    qtbot.waitUntil(lambda: window.pages.compare.titles == names, timeout=5000)
    window.end_work()
    (tmp_path / "runs").rename(tmp_path / "moved")
    (tmp_path / "runs").write_text("a file where the folder should be")
    window.pages.go_to(Place.NEW_RUN)
    window.pages.new_run.sweep_requested.emit(options, {"training.learning_rate": "1e-4,1e-3"})
    qtbot.waitUntil(window.pages.new_run.strip.isVisible, timeout=5000)


def test_a_sweep_is_shown_with_the_error_if_a_run_of_it_cant_be_started(qtbot, window, monkeypatch):
    started, told = [], []

    def start(run, *, queued):
        started.append(run)
        if len(started) == 2:
            raise RunFolderError("The run can't be started", "No space left on device")

    monkeypatch.setattr("core.runs.start.start", start)
    monkeypatch.setattr(window.found.strip, "show_error", told.append)
    window.pages.new_run.sweep_requested.emit(digits_options(), {"training.learning_rate": "1e-4,1e-3,1e-2"})
    qtbot.waitUntil(lambda: page(window) is window.pages.compare, timeout=5000)
    assert len(window.pages.compare.runs) == len(started) == 3
    assert [error.title for error in told] == ["The run can't be started"]


def test_a_benchmark_is_queued_shown_and_its_method_used_in_new_run(qtbot, window, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("core.runs.start.start", lambda run, *, queued: started.append((run, queued)))
    bf16 = BenchmarkRow(
        name="bf16", title="bf16", note="Half the bits.", changes={"device.precision": "bf16"}
    )
    rows = (
        BenchmarkRow(name="plain", title="plain"),
        bf16,
        BenchmarkRow(name="tf32", title="tf32", refusal="no such card"),
    )
    benchmark = Benchmark(kind=BenchmarkKind.METHODS, name="Methods, tiny", title="Tiny BERT", rows=rows)
    options = dict.fromkeys(("plain", "bf16"), digits_options())
    window.pages.new_run.benchmark_requested.emit(Plan(benchmark, options))
    qtbot.waitUntil(lambda: page(window) is window.pages.compare, timeout=5000)
    assert started == [(run, True) for run in window.pages.compare.runs]
    qtbot.waitUntil(lambda: window.pages.compare.title.text() == "Methods, tiny", timeout=5000)
    window.pages.compare.use_requested.emit(bf16)
    assert page(window) is window.pages.new_run
    assert window.pages.new_run.tree()["device"]["precision"] == "bf16"


def test_a_run_opens_by_keyboard_is_renamed_edited_and_moved_to_the_trash(qtbot, listed, tmp_path):
    window, table = listed, listed.pages.runs.table
    table.setFocus()
    table.selectRow(0)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert page(window) is window.pages.run
    run = window.pages.run.view.run
    window.pages.go_to(Place.RUNS)
    notes.write(run.path, RunNotes(title="Renamed"))
    window.open_path(run.path)
    qtbot.waitUntil(lambda: window.pages.run.view.header.name.text() == "Renamed")
    assert window.windowTitle().startswith("Renamed — ")
    window.pages.run.edit_requested.emit({"task": "image-classification", "training": {"epochs": 9.0}})
    assert page(window) is window.pages.new_run
    assert window.pages.new_run.tree()["training"]["epochs"] == 9.0
    window.pages.show_run(run)
    window.pages.runs.bin.trash = lambda path: path.rename(tmp_path / path.name)
    trash = window.pages.run.view.header.buttons.entries[RunAction.TRASH]
    qtbot.waitUntil(trash.isEnabled, timeout=5000)
    trash.trigger()
    qtbot.waitUntil(lambda: window.pages.run.view is None, timeout=5000)
    assert page(window) is window.pages.runs
    qtbot.waitUntil(lambda: window.pages.runs.model.rowCount() == 1, timeout=5000)
    shortcut(window, "Ctrl+Z").trigger()
    qtbot.waitUntil(lambda: window.pages.runs.model.rowCount() == 2, timeout=5000)
    window.pages.show_run(run)
    window.pages.run.bin_requested.emit(run)
    qtbot.waitUntil(lambda: bool(window.pages.runs.bin.waiting), timeout=5000)
    window.pages.go_to(Place.SETTINGS)
    qtbot.waitUntil(lambda: not run.path.exists(), timeout=5000)


def test_a_run_is_resumed_and_trained_longer_on_its_page(listed, tmp_path, monkeypatch):
    asked, run = [], RunFolder(tmp_path / "runs" / "one")
    monkeypatch.setattr(RunView, "resume", lambda view, longer=None: asked.append((view.run, longer)))
    listed.pages.runs.resume_requested.emit(run)
    assert listed.pages.run_on_screen() == run
    listed.pages.runs.extend_requested.emit(run, Extension(epochs=9.0))
    assert asked == [(run, None), (run, Extension(epochs=9.0))]


def test_the_device_check_opens_from_both_pages_and_ends_with_the_window(qtbot, make_window):
    engine = FakeEngine()
    window = make_window(engine)
    window.pages.new_run.check_requested.emit("cpu")
    check = window.device_check
    qtbot.waitUntil(lambda: not check.work.is_running)
    check.reject()
    assert window.device_check is None
    window.pages.go_to(Place.SETTINGS)
    engine.gate.clear()
    window.pages.settings.check_requested.emit("auto")
    assert window.device_check.work.is_running
    window.end_work()
    assert window.device_check is None


def test_escape_closes_the_message_that_is_shown_and_what_is_dragged_in_has_its_target(
    qtbot, window, tmp_path
):
    window.open_path(tmp_path / "gone.csv")
    assert window.pages.new_run.strip.isVisible()
    qtbot.keyClick(window.pages.new_run.header, Qt.Key.Key_Escape)
    assert not window.pages.new_run.strip.isVisible()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    touched = (data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    window.dragEnterEvent(QDragEnterEvent(QPoint(500, 500), Qt.DropAction.CopyAction, *touched))
    assert window.drop_target.isVisible()
    window.dropEvent(QDropEvent(QPointF(500, 500), Qt.DropAction.CopyAction, *touched))
    assert not window.drop_target.isVisible()
    assert window.pages.new_run.tree()["data"]["train"] == str(tmp_path)


# --- Failures


def test_errors_are_shown_on_the_page(qtbot, make_window, tmp_path):
    engine = FakeEngine()
    engine.answers["devices"] = EngineCrashed("devices", 1, "ImportError")
    window = make_window(engine)
    with qtbot.waitSignal(window.devices.failed):
        window.ask_for_devices()
    assert window.pages.new_run.strip.isVisible()
    window.pages.new_run.strip.hide()
    (tmp_path / "runs").write_text("a file where the folder should be")
    window.pages.new_run.start()
    assert page(window) is window.pages.new_run
    assert window.pages.new_run.strip.isVisible()


def test_settings_that_cant_be_saved_are_logged(window, monkeypatch, tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("HONE_HOME", str(blocked / "home"))
    with caplog.at_level(logging.ERROR, logger="hone"):
        assert window.close()
    assert "settings can't be saved" in caplog.text


def test_without_a_home_a_notice_shows_it_and_nothing_is_written(window, monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "none"))
    window.work_without_home(PermissionError(13, "Permission denied", "/somewhere/hone.log"))
    strip = window.found.strip.home
    assert strip.isVisible()
    assert "/somewhere/hone.log" in " ".join(label.text() for label in strip.findChildren(QLabel))
    strip.findChildren(QPushButton)[-1].click()
    assert not strip.isVisible()
    assert window.close()
    assert not (tmp_path / "none").exists()


def test_a_bug_is_logged_whole_and_shown_once(qtbot, caplog, capsys):
    reporter = BugReporter()
    try:
        raise ZeroDivisionError("a bug for the test")
    except ZeroDivisionError:
        caught = sys.exc_info()
    reporter.report(*caught)
    dialog = reporter.dialog
    qtbot.addWidget(dialog)
    assert "a bug for the test" in dialog.findChild(QPlainTextEdit).toPlainText()
    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError" in capsys.readouterr().err
    reporter.report(*caught)
    assert reporter.dialog is dialog


def test_a_bug_of_a_timer_is_shown_once_and_another_after_it(qtbot, caplog, monkeypatch):
    reporter, timer, seen = BugReporter(), QTimer(interval=5), []
    monkeypatch.setattr(sys, "excepthook", reporter.report)

    def fail():
        seen.append(1)
        raise ValueError(f"bug number {len(seen)}")

    timer.timeout.connect(fail)
    timer.start()
    qtbot.waitUntil(lambda: reporter.dialog is not None, timeout=5000)
    reporter.dialog.close()
    qtbot.waitUntil(lambda: reporter.dialog is None, timeout=5000)
    count = len(seen)
    qtbot.waitUntil(lambda: len(seen) > count + 5, timeout=5000)
    timer.stop()
    assert reporter.dialog is None
    assert caplog.text.count("ValueError") >= count + 5
    try:
        raise ValueError("elsewhere")
    except ValueError:
        reporter.report(*sys.exc_info())
    assert not reporter.dialog.isModal()
    reporter.dialog.close()


@pytest.mark.parametrize("is_in_front", [True, False])
def test_hone_ends_with_a_bug_shown(qtbot, qapp, window, is_in_front):
    dialog = BugDialog("a report")
    qtbot.addWidget(dialog)
    dialog.show()
    keys = Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier
    QTimer.singleShot(100, lambda: qtbot.keyClick(dialog, *keys) if is_in_front else window.close())
    late = QTimer(singleShot=True, interval=5000)
    late.timeout.connect(lambda: qapp.exit(1))
    late.start()
    assert qapp.exec() == 0
    late.stop()
    assert not window.isVisible()


def test_a_bug_that_recurses_is_shown_too(qtbot, caplog, monkeypatch, capsys):
    reporter, action = BugReporter(), QAction()
    monkeypatch.setattr(sys, "excepthook", reporter.report)

    def again():
        action.trigger()

    action.triggered.connect(again)
    again()
    qtbot.waitUntil(lambda: reporter.dialog is not None, timeout=2000)
    qtbot.addWidget(reporter.dialog)
    assert "RecursionError" in caplog.text
    assert "sys.excepthook" not in capsys.readouterr().err


# --- Closing and its place on the screen


def test_closing_asks_about_a_run_that_trains_and_can_be_called_off(make_window, tmp_path):
    run = make_folder(tmp_path / "runs" / "live")
    keep_alive(run)
    asked, answer = [], Closing.CANCEL

    def ask(question):
        asked.append(question.text())
        return answer

    window = make_window(on_close=ask)
    assert not window.close()
    shortcut(window, "Ctrl+Q").trigger()
    assert ["is training" in title for title in asked] == [True, True]
    assert window.isVisible()
    answer = Closing.STOP
    assert window.close()
    assert [request.action for request in run.open_requests()] == [Action.STOP]


def test_the_windows_place_and_page_are_saved(make_window):
    window = make_window()
    window.resize(1111, 777)
    window.pages.go_to(Place.SETTINGS)
    window.close()
    saved = settings.load()
    assert window.restoreGeometry(QByteArray.fromBase64(saved.window_geometry.encode()))
    assert Place[saved.last_page] is Place.SETTINGS


@pytest.mark.parametrize(
    ("screen", "size"),
    [
        (QRect(0, 0, 1366, 728), (1280, 680)),
        (QRect(0, 27, 1280, 645), (1264, 597)),  # 1920 x 1080 at 150 %
        (QRect(1920, 0, 2560, 1400), (1280, 820)),
    ],
)
def test_the_first_window_fits_the_screen_with_its_frame(make_window, monkeypatch, screen, size):
    monkeypatch.setattr(MainWindow, "screen", lambda _: SimpleNamespace(availableGeometry=lambda: screen))
    window = make_window()
    assert screen.contains(window.geometry() + FRAME)
    assert window.size().toTuple() == size


# --- Colours


def text_colours(page):
    colours = {label.palette().windowText().color().name() for label in page.findChildren(QLabel)}
    return colours & {LIGHT.text, DARK.text}


def test_new_colours_reach_the_visible_page_at_once_and_others_when_they_are_shown(
    qapp, qtbot, window, monkeypatch
):
    theme = window.theme
    theme.apply()
    try:
        for card in window.pages.new_run.options.cards:
            card.open()
        window.pages.go_to(Place.RUNS)
        window.pages.go_to(Place.SETTINGS)
        margins = {label: label.contentsMargins() for label in window.pages.new_run.findChildren(QLabel)}
        assert any(margin.top() for margin in margins.values())
        monkeypatch.setattr(
            qapp, "setStyleSheet", lambda _sheet: pytest.fail("every widget there is is polished")
        )
        with qtbot.waitSignal(theme.changed):
            window.pages.settings.appearance.buttons()["dark"].click()
        assert settings.load().appearance is Appearance.DARK
        assert text_colours(window.pages.settings) == text_colours(window.sidebar) == {DARK.text}
        assert text_colours(window.pages.runs) == text_colours(window.pages.new_run) == {LIGHT.text}
        corner = window.pages.mapTo(window, QPoint(2, 2))
        assert window.grab().toImage().pixelColor(corner).name() == DARK.background
        window.pages.go_to(Place.RUNS)
        assert text_colours(window.pages.runs) == {DARK.text}
        window.pages.go_to(Place.TRY)  # made only now
        assert text_colours(window.pages.try_it) == {DARK.text}
        window.check_device("auto")
        assert text_colours(window.device_check) == {DARK.text}
        assert window.device_check.grab().toImage().pixelColor(2, 2).name() == DARK.background
        theme.set_appearance(Appearance.LIGHT)
        assert text_colours(window.device_check) == text_colours(window.pages.try_it) == {LIGHT.text}
        window.pages.go_to(Place.NEW_RUN)
        assert {label: label.contentsMargins() for label in margins} == margins
    finally:
        monkeypatch.undo()
        qapp.setStyleSheet("")


def test_a_tile_of_the_welcome_page_leads_to_a_form_that_can_be_started(qtbot, window):
    window.pages.go_to(Place.WELCOME)
    tiles = window.pages.welcome.tiles
    assert list(tiles) == ["digits", "messages", "chat"], "examples that need nothing but Hone"
    tiles["messages"].click()
    assert page(window) is window.pages.new_run
    tree = window.pages.new_run.tree()
    assert (tree["model"]["source"], Path(tree["data"]["train"]).name) == (
        "scratch:bert-mini",
        "messages.csv",
    )
    assert not window.pages.new_run.options.form.changed_from(), "changes are counted from the example"
    window.pages.new_run.options.form.set_values({"memory.batch_size": 4})
    assert window.pages.new_run.options.form.changed_from()["memory.batch_size"].value == 8
    window.pages.new_run.stack.undo()
    window.pages.new_run.stack.undo()
    assert window.pages.new_run.tree()["data"]["train"] == "builtin:digits"
    assert not window.pages.new_run.options.form.changed_from(), "counted from the first example again"
    window.pages.new_run.stack.redo()
    assert not window.pages.new_run.options.form.changed_from()
