"""Hone by keyboard alone: from the Welcome page to a run that is watched, stopped and exported."""

from functools import partial

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QInputDialog, QPushButton

from core.base.errors import Fix
from core.base.settings import Appearance
from core.options.choices import Task
from core.runs.events import Level
from core.runs.status import State
from gui.app.guide import GuideWindow
from gui.app.sidebar import Place
from gui.base.theme import Theme
from gui.new_run.model_field import ModelField
from gui.run.export_dialog import ExportSheet
from gui.run.header import RunAction
from gui.runs.columns import RunColumn
from gui.runs.table import SORT_ROLE
from gui.widgets.layout import tab_stops
from tests.fakes.jobs import FakeEngine
from tests.fakes.on_screen import astray, without_ring
from tests.fakes.runs import Plot, finish, make_folder, play, write_story
from tests.screenshots.answers import make_tried


class Keyboard:
    """Sends keys to the window of the system, which gives them to the widget with the focus."""

    def __init__(self, qtbot, window):
        self.qtbot, self.window = qtbot, window
        self.return_to_window()

    def return_to_window(self):
        """Activate the window, as a desktop does when a dialog closes."""
        self.window.activateWindow()
        self.qtbot.waitUntil(self.window.isActiveWindow)

    def press(self, key, modifiers=Qt.KeyboardModifier.NoModifier):
        QTest.keyClick(QApplication.focusWindow(), key, modifiers)

    def tab_to(self, widget, most):
        """Press Tab until a widget has the focus, at most so often."""
        for _ in range(most):
            if widget.hasFocus():
                return
            self.press(Qt.Key.Key_Tab)
        assert widget.hasFocus(), (
            f"{QApplication.focusWidget()} {QApplication.focusWidget().text()} has the focus"
        )


def test_a_run_is_started_watched_stopped_and_exported_with_keys_alone(qtbot, make_window, monkeypatch):
    play("wait", monkeypatch)
    engine = FakeEngine()
    window = make_window(engine)
    window.pages.go_to(Place.WELCOME)
    keyboard = Keyboard(qtbot, window)
    engine.gate.clear()
    keyboard.tab_to(window.pages.welcome.tiles["messages"], most=3)
    keyboard.press(Qt.Key.Key_Space)
    start = window.pages.new_run.outcome.start
    assert start.hasFocus()
    keyboard.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert window.pages.run is None, "the data is still read"
    engine.gate.set()
    qtbot.waitUntil(lambda: window.pages.run is not None and window.pages.run.view is not None)

    view = window.pages.run.view
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=20_000)
    view.run.model.mkdir()
    (view.run.model / "model.safetensors").touch()
    keyboard.tab_to(view.header.buttons.stop, most=3)
    keyboard.press(Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=20_000)

    qtbot.waitUntil(lambda: RunAction.EXPORT in view.header.buttons.offers())
    keyboard.press(Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    sheet = view.findChild(ExportSheet)
    qtbot.waitUntil(sheet.isActiveWindow)
    keyboard.press(Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not view.findChildren(ExportSheet))
    keyboard.return_to_window()

    keyboard.press(Qt.Key.Key_F2)
    qtbot.waitUntil(lambda: view.findChild(QInputDialog).isActiveWindow())
    for key in (Qt.Key.Key_A, Qt.Key.Key_Return):
        keyboard.press(key)
    qtbot.waitUntil(lambda: view.header.name.text() == "a")
    assert window.isVisible()


def test_new_run_begins_at_start_and_not_at_its_reset_and_return_presses_a_link(qtbot, make_window):
    window = make_window()
    window.pages.go_to(Place.RUNS)
    keyboard = Keyboard(qtbot, window)
    window.pages.new_run.header.show_restored(True)
    window.pages.runs.table.setFocus()
    keyboard.press(Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert window.pages.new_run.isVisible()
    assert window.pages.new_run.outcome.start.hasFocus()
    link = window.pages.new_run.outcome.sweep
    link.setFocus()
    with qtbot.waitSignal(link.clicked):
        keyboard.press(Qt.Key.Key_Return)


def test_tab_goes_to_the_chosen_one_of_a_few_and_arrows_move_within(qtbot, make_window):
    window = make_window()
    window.pages.go_to(Place.NEW_RUN)
    keyboard = Keyboard(qtbot, window)
    task = window.pages.new_run.header.tasks.choices
    first, second, *_others = window.pages.new_run.findChild(ModelField).place.buttons().values()
    second.click()
    task.setFocus()
    keyboard.tab_to(second, most=5)
    keyboard.press(Qt.Key.Key_Left)
    assert first.hasFocus()


def test_tab_goes_around_also_after_another_task_was_chosen_and_while_data_is_read(qtbot, make_window):
    engine = FakeEngine()
    window = make_window(engine)
    assert astray(window) == []
    engine.gate.clear()
    window.pages.new_run.header.task_chosen.emit(Task.CHAT)
    assert astray(window) == []
    engine.gate.set()
    qtbot.waitUntil(lambda: not window.pages.new_run.reading.is_waiting)
    assert astray(window) == []


def test_shift_tab_leads_back_through_the_links_of_the_guide(qtbot):
    guide = GuideWindow(Theme(Appearance.LIGHT))
    qtbot.addWidget(guide)
    guide.show()
    browser = guide.browser
    browser.show_markdown("* [one](1)\n* [two](2)\n\n[three](3), [four](4)")
    guide.activateWindow()
    qtbot.waitUntil(guide.isActiveWindow)
    browser.setFocus()
    links = ["one", "two", "three", "four"]
    for modifier, expected in (
        (Qt.KeyboardModifier.NoModifier, links),
        (Qt.KeyboardModifier.ShiftModifier, links[-2::-1]),
    ):
        for text in expected:
            QTest.keyClick(browser, Qt.Key.Key_Tab, modifier)
            assert browser.textCursor().selectedText() == text
    QTest.keyClick(browser, Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier)
    assert guide.search.hasFocus()


def test_escape_closes_what_offers_something_only_where_it_has_the_focus(qtbot, make_window):
    window = make_window()
    window.pages.go_to(Place.NEW_RUN)
    keyboard = Keyboard(qtbot, window)
    window.pages.new_run.setFocus()
    qtbot.waitUntil(lambda: not window.pages.new_run.reading.is_waiting)
    offer = window.pages.new_run.offer
    fix = Fix("Batch size 2", {"memory.batch_size": 2})
    offer.show_message(Level.INFO, "These look like texts", "", (fix,))
    keyboard.press(Qt.Key.Key_Escape)
    assert offer.isVisible()
    next(button for button in offer.findChildren(QPushButton) if button.text() == fix.label).setFocus()
    keyboard.press(Qt.Key.Key_Escape)
    assert not offer.isVisible()
    assert window.pages.new_run.outcome.start.hasFocus()


def test_the_keys_of_a_page_lead_to_where_one_writes_or_chooses(qtbot, make_window, tmp_path):
    window = make_window()
    keyboard = Keyboard(qtbot, window)
    window.pages.try_run(make_tried(tmp_path)["chat"])
    text = window.pages.try_it.input.text
    qtbot.waitUntil(text.hasFocus)
    window.pages.try_it.run_list.setFocus()
    keyboard.press(Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
    assert text.hasFocus()


def test_return_in_the_name_of_a_run_leads_back_to_the_list_where_it_opens_the_run(
    qtbot, make_window, tmp_path
):
    run = make_folder(tmp_path / "runs" / "one")
    finish(run, Plot(), write_story(run, Plot()))
    window = make_window()
    keyboard = Keyboard(qtbot, window)
    window.pages.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: len(window.pages.runs.chosen()) == 1)
    for key in (Qt.Key.Key_F2, Qt.Key.Key_A, Qt.Key.Key_Return):
        keyboard.press(key)
    assert window.pages.runs.table.hasFocus()
    qtbot.waitUntil(lambda: [run.title for run in window.pages.runs.chosen()] == ["a"])
    keyboard.press(Qt.Key.Key_Return)
    assert window.pages.run_on_screen() == run


def test_ctrl_tab_leads_into_the_tabs_of_a_run_and_the_focus_is_seen_there(
    qtbot, qapp, make_window, tmp_path
):
    run = make_folder(tmp_path / "runs" / "one")
    finish(run, Plot(), write_story(run, Plot()))
    window = make_window()
    window.theme.apply()
    keyboard = Keyboard(qtbot, window)
    window.open_path(run.path)
    details = window.pages.run.view.details
    qtbot.waitUntil(lambda: not details.metrics_table.isHidden(), timeout=10_000)
    passed = []
    while details.currentIndex() or not passed:
        keyboard.press(Qt.Key.Key_Tab, Qt.KeyboardModifier.ControlModifier)
        focused = QApplication.focusWidget()
        is_empty = not tab_stops(details.currentWidget())
        assert details.currentWidget().isAncestorOf(focused) or (is_empty and focused is details.tabBar())
        assert without_ring([focused]) == []
        focused.setFocus()
        passed.append(details.tabText(details.currentIndex()))
    assert passed[-5:] == ["Metrics", "What ran", "Log", "Options", "Charts"]
    qapp.setStyleSheet("")


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_the_menu_key_offers_to_reset_what_was_changed_and_nothing_else(qtbot, make_window):
    window = make_window()
    form = window.pages.new_run.options.form
    keyboard = Keyboard(qtbot, window)
    changed = ("training.learning_rate", "memory.batch_size", "training.optimizer")
    values = {path: form.value(path) for path in changed}
    form.set_values(
        {"training.learning_rate": 0.5, "memory.batch_size": 7, "training.optimizer": "adafactor"}
    )
    for path in (*changed, "training.epochs"):
        form.focus(path)
        control = form.field(path).control
        place = control.rect().center()
        asked = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, place, control.mapToGlobal(place))
        QApplication.sendEvent(control, asked)
        menu = QApplication.activePopupWidget()
        entries = [action.text() for action in menu.actions() if action.text().startswith("Reset")]
        assert len(entries) == (path in changed)
        if path in changed:
            QTest.keyClick(menu, Qt.Key.Key_Return)
            assert form.value(path) == values[path]
        else:
            assert "Select All" in " ".join(action.text() for action in menu.actions())
            menu.close()
    assert not form.changed_from()
    keyboard.return_to_window()


def test_home_and_end_choose_the_first_and_the_last_run_and_a_menu_sorts_them(qtbot, make_window, tmp_path):
    for place, name in enumerate(("one", "two", "three")):
        run = make_folder(tmp_path / "runs" / name)
        finish(run, Plot(start=1e9 + place), write_story(run, Plot(start=1e9 + place)))
    window = make_window()
    keyboard = Keyboard(qtbot, window)
    view = next(menu for menu in window.commands.menus if menu.title() == "&View")
    sorting = next(action.menu() for action in view.actions() if action.text() == "Sort runs by")
    view.aboutToShow.emit()
    assert not sorting.menuAction().isEnabled()
    window.pages.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: window.pages.runs.model.rowCount() == 3 and len(window.pages.runs.chosen()) == 1)
    table = window.pages.runs.table

    def chosen():
        return [index.row() for index in table.selectionModel().selectedRows()]

    for key, modifier, row in (
        (Qt.Key.Key_End, Qt.KeyboardModifier.NoModifier, 2),
        (Qt.Key.Key_Home, Qt.KeyboardModifier.NoModifier, 0),
        (Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier, 2),
        (Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier, 0),
    ):
        keyboard.press(key, modifier)
        assert (chosen(), table.currentIndex().row()) == ([row], row)
    view.aboutToShow.emit()
    assert sorting.menuAction().isEnabled()
    for in_order in (sorted, partial(sorted, reverse=True)):
        sorting.aboutToShow.emit()
        next(action for action in sorting.actions() if action.text() == "Started").trigger()
        shown = [table.model().index(row, RunColumn.STARTED).data(SORT_ROLE) for row in range(3)]
        assert shown == in_order(set(shown))
    sorting.aboutToShow.emit()
    assert [action.text() for action in sorting.actions() if action.isChecked()] == ["Started"]
