"""The page Benchmark in the window: carried into New run, told in the sidebar, ended as the window closes."""

import pytest
from PySide6.QtWidgets import QPushButton

from core.base.settings import Appearance, Settings
from core.benchmark.plan import Rung
from gui.app.closing import Closing
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.benchmark.page import BenchmarkPage
from tests.fakes.asking import FakeEngine
from tests.fakes.bench import plan
from tests.fakes.held_bench import HeldBenches

FAST = Rung(
    name="bf16",
    title="bf16",
    asked={"device": {"name": "cpu"}},
    changes={"training.learning_rate": 0.5, "memory.batch_size": 3},
    note="Half the bytes.",
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def benches():
    return HeldBenches()


class Asked:
    def __init__(self):
        self.answer = Closing.KEEP_TRAINING
        self.measuring = []

    def __call__(self, _runs, _parent, *, is_measuring):
        self.measuring.append(is_measuring)
        return self.answer


@pytest.fixture
def window(qtbot, tmp_path, benches):
    theme, asked = Theme(Appearance.LIGHT), Asked()
    window = MainWindow(theme, Settings(runs_folder=str(tmp_path / "runs")), FakeEngine(), asked)
    window.asked = asked
    window.pages.benchmark = BenchmarkPage(theme, lambda: window.new_run.ready, benches.tools)
    qtbot.addWidget(window)
    window.show()
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    yield window
    window.end_work()


def test_use_this_fills_the_form_and_says_what_it_changed(qtbot, window, benches):
    benches.plan = plan(FAST, passes=1)
    window.go_to(Place.BENCHMARK)
    qtbot.waitUntil(window.benchmark.methods.start.isEnabled)
    start = next(action for action in window.actions() if action.shortcut().toString() == "Ctrl+Return")
    with qtbot.waitSignal(window.benchmark.measuring.ended):
        start.trigger()
    link = next(
        button
        for button in window.benchmark.methods.view.findChildren(QPushButton)
        if button.text() == "Use this"
    )
    before = window.new_run.tree()
    link.click()
    assert window.pages.currentWidget() is window.new_run
    tree = window.new_run.tree()
    assert (tree["training"]["learning_rate"], tree["memory"]["batch_size"]) == (0.5, 3)
    strip = window.new_run._changes
    assert strip.isVisible()
    assert len(strip.changes) == 2
    strip._undo.click()
    assert window.new_run.tree() == before


def test_the_sidebar_tells_how_far_it_is_and_closing_says_what_is_kept(qtbot, window, benches):
    benches.waiting.add("bf16")
    window.go_to(Place.BENCHMARK)
    qtbot.waitUntil(window.benchmark.methods.start.isEnabled)
    window.benchmark.start()
    button = window.sidebar._group.button(Place.BENCHMARK)
    qtbot.waitUntil(lambda: button.text() == "Benchmark (50 %)")
    window.asked.answer = Closing.CANCEL
    assert not window.close()
    assert window.asked.measuring == [True]
    assert window.benchmark.measuring.is_running
    window.asked.answer = Closing.KEEP_TRAINING
    assert window.close()
    assert [row.is_measured for row in benches.kept[-1].rows] == [True, False, False]


def test_the_page_is_made_when_it_is_wanted_and_knows_the_machine(qtbot, tmp_path):
    window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path / "runs")), FakeEngine())
    qtbot.addWidget(window)
    window.show()
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    assert window.benchmark is None
    window.go_to(Place.BENCHMARK)
    tab = window.benchmark.methods
    qtbot.waitUntil(tab.start.isEnabled)
    assert "512 sequences of 512 tokens" in tab.said.text()
    window.end_work()
