"""The page Benchmark: what is chosen, started, followed and cancelled, and a variant used in New run."""

import os
import threading
from functools import partial

import pytest
from PySide6.QtWidgets import QApplication, QPushButton

from core.base.errors import OptionsError, Problem
from core.base.settings import Appearance
from core.benchmark.plan import Kind, Variant
from core.options import RunOptions
from core.options.choices import Task
from core.runs import queue
from core.runs.folder import KeeperRecord
from gui.app.closing import Closing
from gui.app.sidebar import Place
from gui.base.theme import Theme
from gui.benchmark.page import Benchmarking, BenchmarkPage
from gui.widgets.layout import PageScroll
from tests.fakes.bench import HeldBenches, always, plan
from tests.fakes.jobs import CPU_ONLY
from tests.gui.new_run.steps import press


@pytest.fixture
def benches():
    return HeldBenches()


@pytest.fixture
def page(qtbot, benches, own_home):
    page = BenchmarkPage(Theme(Appearance.LIGHT), lambda: page.form, benches.tools)
    page.form = None
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    yield page
    page.end_work()


@pytest.fixture
def ready(qtbot, page):
    """A page that knows the machine and what it would measure."""
    page.set_machine(CPU_ONLY)
    qtbot.waitUntil(lambda: page.methods.planned is not None)
    return page


def choose(box, value):
    box.setCurrentIndex(box.findData(value))


# --- The thread


@pytest.fixture
def measuring(qtbot):
    measuring = Benchmarking()
    measuring.results = []
    measuring.measured.connect(measuring.results.append)
    yield measuring
    measuring.close()


def test_cancelled_before_its_plan_is_made_nothing_is_measured(qtbot, measuring, benches):
    is_wanted = threading.Event()
    measuring.start(Kind.DEVICES, lambda: (is_wanted.wait(), benches.plan)[1], benches.make)
    with qtbot.waitSignal(measuring.ended) as ended:
        measuring.cancel()
        is_wanted.set()
    assert (ended.args, benches.beside, measuring.results) == ([True], [], [])


def test_a_plan_that_cant_be_made_and_a_result_that_cant_be_saved_are_reported(qtbot, measuring, benches):
    def refuse():
        raise OptionsError((Problem("model.source", "isn't there"),), "The benchmark")

    with qtbot.waitSignals([measuring.failed, measuring.ended]):
        measuring.start(Kind.METHODS, refuse, benches.make)
    benches.is_full = True
    with qtbot.waitSignal(measuring.failed) as failed:
        measuring.start(Kind.METHODS, always(benches.plan), benches.make)
    assert "No space left" in failed.args[0].detail
    assert measuring.results[-1].rows[1].is_measured


# --- What to measure


def test_before_the_machine_is_known_nothing_can_be_started(qtbot, page):
    tab = page.methods
    assert not tab.start.isEnabled()
    assert tab.status.text() == "Detecting what this computer can do…"
    page.start()
    assert not page.measuring.is_running
    page.set_machine(CPU_ONLY)
    qtbot.waitUntil(tab.start.isEnabled)
    assert tab.status.text().startswith(
        "Tiny BERT, 64 rows: 2 measurements, one pass of 4 timed steps. One more"
    )


def test_what_is_chosen_is_what_is_planned(qtbot, ready, benches):
    setup = ready.methods.setup
    choose(setup.models, "minilm")
    choose(setup.devices, "cpu")
    setup.passes.setValue(2)
    setup.steps.setValue(7)
    qtbot.waitUntil(lambda: benches.asked[-1]["steps"] == 7)
    asked = benches.asked[-1]
    assert (asked["size"], asked["device"], asked["passes"], asked["options"]) == ("minilm", "cpu", 2, None)


def test_options_of_the_form_have_to_be_valid(qtbot, ready, benches):
    setup, tab = ready.methods.setup, ready.methods
    choose(setup.models, "form")
    assert "contains errors" in tab.status.text()
    ready.form = RunOptions(task=Task.IMAGE_CLASSIFICATION)
    ready.hide()
    ready.show()
    qtbot.waitUntil(lambda: benches.asked[-1]["options"] == ready.form)
    assert tab.start.isEnabled()


def test_why_no_plan_can_be_made_is_shown(qtbot, ready, monkeypatch):
    def refuse(*_, **_options):
        raise OptionsError((Problem("model.source", "isn't there"),), "The benchmark")

    tab = ready.methods
    monkeypatch.setattr(tab.setup, "_make_plan", refuse)
    tab.setup.passes.setValue(2)
    qtbot.waitUntil(lambda: "isn't there" in tab.status.text())
    assert not tab.start.isEnabled()


def test_devices_are_planned_as_chosen_and_mistakes_are_named(qtbot, ready, benches):
    tab, setup = ready.devices, ready.devices.setup
    for name, box in setup.models.items():
        box.setChecked(name in ("resnet18", "alexnet"))
    for wrong in ("4, x", "0", ""):
        setup.batches.setText(wrong)
        assert tab.status.text().startswith("Batches are whole numbers")
        assert not tab.start.isEnabled()
    setup.batches.setText("8,16, 8")
    setup.images.setValue(64)
    qtbot.waitUntil(lambda: any(asked["images"] == 64 for asked in benches.asked_devices))
    asked = benches.asked_devices[-1]
    assert (asked["batches"], set(asked["models"])) == ((8, 16), {"resnet18", "alexnet"})
    for box in setup.models.values():
        box.setChecked(False)
    assert tab.status.text() == "Choose a model."


# --- While it is measured


def test_figures_appear_row_by_row_with_the_variant_that_is_measured(qtbot, ready, benches):
    benches.waiting.add("bf16")
    shares = []
    ready.progressed.connect(shares.append)
    tab = ready.methods
    tab.start.setFocus()
    tab.start.click()
    assert ready.focusWidget() is tab.cancel
    qtbot.waitUntil(lambda: tab.doing.text() == "Measuring: Bf16")
    assert tab.progress.isVisible()
    assert not tab.card.isVisible()
    assert ready.devices.status.text() == "Methods is running. Only one benchmark can run at a time."
    assert ready.head.text() == "Tiny BERT, 64 rows · 1 of 2 done"
    assert [row.is_measured for row in tab.view.result.rows] == [True, False, False]
    with qtbot.waitSignal(ready.measuring.ended):
        benches.waiting.clear()
    assert not tab.progress.isVisible()
    assert ready.focusWidget() is tab.again
    assert [row.is_measured for row in tab.view.result.rows] == [True, True, False]
    assert (shares[-1], 0.5 in shares) == (None, True)
    assert "Test GPU" in ready.head.text()
    tab.view.copy_markdown.click()
    assert "| Plain |" in QApplication.clipboard().text()
    assert "Markdown" in tab.strip.accessibleName()
    tab.again.click()
    assert tab.card.isVisible()


def test_cancelling_keeps_its_message_in_view(qtbot, ready, benches):
    benches.waiting.add("bf16")
    ready.resize(900, 300)
    ready.start()
    tab = ready.methods
    qtbot.waitUntil(lambda: tab.doing.text() == "Measuring: Bf16")
    bar = tab.findChild(PageScroll).verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    with qtbot.waitSignal(ready.measuring.ended):
        tab.cancel.setFocus()
        tab.cancel.click()
        assert bar.value() == 0
    assert bar.value() == 0
    assert ready.focusWidget() is tab.again
    assert tab.strip.accessibleName() == "The benchmark was cancelled"


# --- While something else computes


def test_on_a_device_that_is_taken_it_can_be_measured_all_the_same(qtbot, ready, benches):
    keeper = KeeperRecord.of(os.getpid())
    queue.measure(
        queue.Entry(run="/elsewhere", device="auto", keeper=keeper, benchmark="Another"), beside=True
    )
    with qtbot.waitSignal(ready.measuring.ended):
        ready.start()
    strip = ready.methods.strip
    assert strip.isVisible()
    beside = next(button for button in strip.findChildren(QPushButton) if "same time" in button.text())
    with qtbot.waitSignal(ready.measuring.ended):
        beside.click()
    assert benches.beside == [False, True]
    assert ready.methods.view.result.is_whole


# --- In the window


@pytest.fixture
def window(qtbot, make_window, benches, monkeypatch):
    def ask(question):
        window.asked.append(question.text())
        return window.answer

    window = make_window(on_close=ask)
    window.asked, window.answer = [], Closing.KEEP_TRAINING
    made = partial(BenchmarkPage, tools=benches.tools)
    monkeypatch.setattr("gui.benchmark.page.BenchmarkPage", made)
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    window.pages.go_to(Place.BENCHMARK)
    qtbot.waitUntil(window.pages.benchmark.methods.start.isEnabled)
    return window


def test_a_measured_variant_fills_the_form_and_can_be_undone(qtbot, window, benches):
    changes = {"training.learning_rate": 0.5, "memory.batch_size": 3}
    fast = Variant(name="bf16", title="bf16", asked={"device": {"name": "cpu"}}, changes=changes)
    benches.plan = plan(fast, passes=1)
    start = next(action for action in window.actions() if action.shortcut().toString() == "Ctrl+Return")
    with qtbot.waitSignal(window.pages.benchmark.measuring.ended):
        start.trigger()
    before = window.pages.new_run.tree()
    window.pages.benchmark.methods.view.table.opened.emit("bf16")
    assert window.pages.currentWidget() is window.pages.new_run
    tree = window.pages.new_run.tree()
    assert (tree["training"]["learning_rate"], tree["memory"]["batch_size"]) == (0.5, 3)
    strip = window.pages.new_run._changes
    assert strip.isVisible()
    assert len(strip.changes) == 2
    press(strip, "Undo")
    assert window.pages.new_run.tree() == before


def test_the_sidebar_shows_the_progress_and_closing_asks_and_keeps_what_is_measured(qtbot, window, benches):
    benches.waiting.add("bf16")
    window.pages.benchmark.start()
    button = window.sidebar._buttons[Place.BENCHMARK]
    qtbot.waitUntil(lambda: button.text() == "Benchmark (50 %)")
    window.answer = Closing.CANCEL
    assert not window.close()
    assert window.asked == ["A benchmark is running"]
    assert window.pages.benchmark.measuring.is_running
    window.answer = Closing.KEEP_TRAINING
    assert window.close()
    assert [row.is_measured for row in benches.kept[-1].rows] == [True, False, False]


def test_without_stand_ins_the_page_plans_for_this_machine(qtbot, make_window):
    window = make_window()
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    window.pages.go_to(Place.BENCHMARK)
    tab = window.pages.benchmark.methods
    qtbot.waitUntil(tab.start.isEnabled)
    assert "512 examples of 512 tokens" in tab.status.text()
