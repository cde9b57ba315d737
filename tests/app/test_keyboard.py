"""Hone by keyboard alone: from the Welcome page to a run that is watched, stopped and exported."""

from itertools import pairwise

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QInputDialog

from core.runs.status import State
from gui.app.sidebar import Place
from gui.new_run.data_panel import DataLine
from gui.new_run.model_field import ModelField
from gui.run.export_dialog import ExportSheet
from gui.run.header import RunAction
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import play

SAME_LINE = 30
"""Pixels by which a control may begin above the one before it, beside which it stands."""


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
    window.go_to(Place.WELCOME)
    keyboard = Keyboard(qtbot, window)
    engine.gate.clear()
    keyboard.tab_to(window.welcome.tiles["messages"], most=3)
    keyboard.press(Qt.Key.Key_Space)
    start = window.new_run._outcome.start
    assert start.hasFocus()
    keyboard.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert window.run is None, "the data is still read"
    engine.gate.set()
    qtbot.waitUntil(lambda: window.run is not None and window.run.view is not None)

    view = window.run.view
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
    assert view.header.name.text() == "a"
    assert window.isVisible()


def test_new_run_begins_at_start_and_not_at_its_reset_and_return_presses_a_link(qtbot, make_window):
    window = make_window()
    window.go_to(Place.RUNS)
    keyboard = Keyboard(qtbot, window)
    window.new_run._header.show_restored(True)
    window.runs.table.setFocus()
    keyboard.press(Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert window.new_run.isVisible()
    assert window.new_run._outcome.start.hasFocus()
    link = window.new_run._outcome.sweep
    link.setFocus()
    with qtbot.waitSignal(link.clicked):
        keyboard.press(Qt.Key.Key_Return)


def test_tab_goes_to_the_chosen_one_of_a_few_and_arrows_move_within(qtbot, make_window):
    window = make_window()
    window.go_to(Place.NEW_RUN)
    keyboard = Keyboard(qtbot, window)
    task = window.new_run._header._tasks.choices
    first, second, *_others = window.new_run.findChild(ModelField)._place.buttons().values()
    second.click()
    task.setFocus()
    keyboard.tab_to(second, most=5)
    keyboard.press(Qt.Key.Key_Left)
    assert first.hasFocus()


def test_tab_leads_through_the_form_from_top_to_bottom_and_around_the_window(qtbot, make_window):
    window = make_window()
    window.go_to(Place.NEW_RUN)
    keyboard = Keyboard(qtbot, window)
    line = window.new_run.findChild(DataLine)
    qtbot.waitUntil(lambda: line.cancel_button.isHidden() and line.isVisible(), timeout=10_000)
    window.new_run.setFocus()
    first = QApplication.focusWidget()
    passed = [first]
    while len(passed) < 100:
        keyboard.press(Qt.Key.Key_Tab)
        if QApplication.focusWidget() is first:
            break
        passed.append(QApplication.focusWidget())
    assert len(passed) < 100, "Tab comes around"
    form = window.new_run._options
    heights = [one.mapTo(form, QPoint()).y() for one in passed if form.isAncestorOf(one)]
    assert len(heights) > 10
    assert all(below - above > -SAME_LINE for above, below in pairwise(heights))
