"""The page Benchmark: chosen, started, followed, cancelled, and what came of it carried into New run."""

import os

import pytest
from PySide6.QtWidgets import QApplication, QPushButton

from core.base.settings import Appearance
from core.options import RunOptions
from core.options.choices import Task
from core.runs import queue
from core.runs.events import TurnAwaited
from core.runs.folder import KeeperRecord
from gui.base.theme import Theme
from gui.benchmark.page import BenchmarkPage, BenchTurn, question_about
from gui.run import words
from gui.run.words import Turn
from gui.widgets.layout import PageScroll
from tests.fakes.asking import CPU_ONLY
from tests.fakes.bench import devices_result
from tests.fakes.held_bench import HeldBenches

AHEAD = TurnAwaited(ahead=1, behind="2026-digits", title="Digits", time=0.0, attempt=1)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def benches():
    return HeldBenches()


class Form:
    """What New run holds."""

    def __init__(self):
        self.options = None

    def __call__(self):
        return self.options


class Answer:
    """Stands in for the question about a run that trains."""

    def __init__(self):
        self.turn = BenchTurn.NEVER
        self.asked = []

    def __call__(self, awaited, _parent):
        self.asked.append(awaited)
        return self.turn


@pytest.fixture
def page(qtbot, benches):
    form, answer = Form(), Answer()
    page = BenchmarkPage(Theme(Appearance.LIGHT), form, benches.tools, ask_turn=answer)
    page.form, page.answer = form, answer
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    yield page
    page.end_work()


@pytest.fixture
def ready(qtbot, page):
    """A page that knows the machine and what it would measure."""
    page.set_machine(CPU_ONLY)
    settle(qtbot, page.methods)
    return page


def settle(qtbot, tab):
    qtbot.waitUntil(lambda: tab._planned is not None or bool(tab.wish.obstacle()))


def measure(qtbot, page):
    with qtbot.waitSignal(page.measuring.ended):
        page.start()


def test_before_the_machine_is_known_it_says_what_it_waits_for(qtbot, page, benches):
    tab = page.methods
    assert not tab.start.isEnabled()
    assert tab.said.text() == "Looking at what this machine can do…"
    assert "The guide's ladder" in tab.words.text()
    page.start()
    assert not page.measuring.is_running
    page.set_machine(CPU_ONLY)
    qtbot.waitUntil(tab.start.isEnabled)
    assert tab.said.text().startswith("Tiny BERT, 64 rows: 2 rows, one pass of 4 timed steps; one more")


def test_figures_come_row_by_row_with_the_rung_under_way_named(qtbot, ready, benches):
    benches.waiting.add("bf16")
    shares = []
    ready.progressed.connect(shares.append)
    ready.start()
    tab = ready.methods
    qtbot.waitUntil(lambda: tab.progress.doing == "Measuring: Bf16")
    assert tab.progress.isVisible()
    assert not tab.card.isVisible()
    assert ready.head.text() == "Tiny BERT, 64 rows · 1 of 2 rows"
    assert [row.is_measured for row in tab.view.result.rows] == [True, False, False]
    with qtbot.waitSignal(ready.measuring.ended):
        benches.waiting.clear()
    assert not tab.progress.isVisible()
    assert all(row.is_measured for row in tab.view.result.rows[:2])
    assert shares[-1] is None
    assert 0.5 in shares
    assert "Test GPU" in ready.head.text()


def test_what_is_chosen_is_what_is_planned(qtbot, ready, benches):
    wish = ready.methods.wish
    wish.models.setCurrentIndex(wish.models.findData("minilm"))
    wish.devices.setCurrentIndex(wish.devices.findData("cpu"))
    wish.passes.setValue(2)
    wish.steps.setValue(7)
    qtbot.waitUntil(lambda: benches.asked[-1]["steps"] == 7)
    asked = benches.asked[-1]
    assert asked["size"] == "minilm"
    assert (asked["device"], asked["passes"], asked["steps"]) == ("cpu", 2, 7)
    assert asked["with_compile"] is False  # this machine has no compiler, and says so
    assert wish.compiled.toolTip() == "needs a compiler"


def test_the_other_table_waits_while_one_is_measured(qtbot, ready, benches):
    benches.waiting.add("plain")
    ready.start()
    ready.tabs.setCurrentWidget(ready.devices)
    assert not ready.devices.start.isEnabled()
    assert ready.devices.said.text() == "Methods is being measured; one at a time."
    ready.methods.progress.cancel.click()
    with qtbot.waitSignal(ready.measuring.ended):
        pass
    qtbot.waitUntil(ready.devices.start.isEnabled)


def test_a_failed_rung_is_shown_with_its_reason_and_the_rest_go_on(qtbot, ready, benches):
    benches.failing.add("plain")
    measure(qtbot, ready)
    rows = ready.methods.view.result.rows
    assert rows[0].reason == "The engine ended by itself."
    assert rows[1].is_measured


def test_cancelling_keeps_what_is_done_and_says_so(qtbot, ready, benches):
    benches.waiting.add("bf16")
    ready.start()
    tab = ready.methods
    qtbot.waitUntil(lambda: tab.progress.doing == "Measuring: Bf16")
    with qtbot.waitSignal(ready.measuring.ended):
        tab.progress.cancel.click()
        assert not tab.progress.cancel.isEnabled()
    assert tab.strip.isVisible()
    assert "kept under Earlier results" in tab.strip._detail.text()
    assert [row.is_measured for row in tab.view.result.rows] == [True, False, False]
    tab.again.click()
    assert tab.card.isVisible()
    benches.waiting.clear()
    qtbot.waitUntil(tab.start.isEnabled)
    measure(qtbot, ready)
    assert tab.view.result.is_whole
    assert not tab.strip.isVisible()


def test_what_cant_be_planned_stands_beside_the_button(qtbot, page, benches):
    benches.refuses = "isn't there"
    page.set_machine(CPU_ONLY)
    settle(qtbot, page.methods)
    assert not page.methods.start.isEnabled()
    assert "isn't there" in page.methods.said.text()


def test_own_options_have_to_be_right(qtbot, ready, tmp_path, benches):
    wish, tab = ready.methods.wish, ready.methods
    wish.models.setCurrentIndex(wish.models.findData("form"))
    assert "mend it there" in tab.said.text()
    ready.form.options = RunOptions(task=Task.IMAGE_CLASSIFICATION)
    ready.hide()
    ready.show()
    qtbot.waitUntil(lambda: benches.asked[-1]["options"] == ready.form.options)
    assert tab.start.isEnabled()
    wish.models.setCurrentIndex(wish.models.findData("file"))
    assert wish.file.isVisible()
    assert tab.said.text() == "Choose a run file."
    broken = tmp_path / "mine.hone"
    broken.write_text("task = 7\n")
    wish.file.setText(str(broken))
    assert "task" in tab.said.text()
    assert not tab.start.isEnabled()
    broken.write_text(
        'task = "image-classification"\n[model]\nsource = "resnet18"\n[data]\ntrain = "builtin:digits"\n'
    )
    wish.file.setText(f"{broken} ")
    assert tab.start.isEnabled(), tab.said.text()
    qtbot.waitUntil(lambda: benches.asked[-1]["options"] not in (None, ready.form.options))
    assert benches.asked[-1]["options"].data.train == "builtin:digits"


@pytest.mark.parametrize(
    ("batches", "said"), [("4, x", "Batches are whole numbers"), ("0", "Batches"), ("", "Batches")]
)
def test_batches_have_to_be_numbers(ready, batches, said):
    wish = ready.devices.wish
    wish.batches.setText(batches)
    assert ready.devices.said.text().startswith(said)
    assert not ready.devices.start.isEnabled()


def test_devices_are_planned_as_chosen(qtbot, ready, benches, tmp_path):
    settle(qtbot, ready.devices)
    wish = ready.devices.wish
    for name, box in wish.models.items():
        box.setChecked(name in ("resnet18", "alexnet"))
    wish.batches.setText("8,16, 8")
    wish.images.setValue(64)
    qtbot.waitUntil(lambda: benches.asked_devices[-1]["images"] == 64)
    assert benches.asked_devices[-1]["batches"] == (8, 16)
    assert set(benches.asked_devices[-1]["models"]) == {"resnet18", "alexnet"}
    wish.data.setCurrentIndex(wish.data.findData("folder"))
    assert ready.devices.said.text() == "Choose a folder of images that is there."
    wish.folder.setText(str(tmp_path))
    qtbot.waitUntil(lambda: benches.asked_devices[-1]["data"] == str(tmp_path))
    for box in wish.models.values():
        box.setChecked(False)
    assert ready.devices.said.text() == "Choose a model."


def test_a_run_that_trains_is_asked_about(qtbot, ready, benches):
    benches.ahead = AHEAD
    ready.start()
    assert ready.answer.asked == [AHEAD]
    assert not ready.measuring.is_running
    ready.answer.turn = BenchTurn.BESIDE
    measure(qtbot, ready)
    assert benches.beside == [True]


def test_a_device_that_is_taken_meanwhile_is_said_with_a_way_out(qtbot, ready, benches):
    taken = KeeperRecord.of(os.getpid())
    queue.measure(
        queue.Entry(run="/elsewhere", device="auto", keeper=taken, benchmark="Another"), beside=True
    )
    measure(qtbot, ready)
    strip = ready.methods.strip
    assert strip.isVisible()
    beside = next(button for button in strip.findChildren(QPushButton) if "beside" in button.text())
    with qtbot.waitSignal(ready.measuring.ended):
        beside.click()
    assert benches.beside == [False, True]
    assert ready.methods.view.result.is_whole


def test_the_keyboard_stays_where_it_is_needed(qtbot, ready, benches):
    benches.waiting.add("plain")
    ready.methods.start.setFocus()
    ready.methods.start.click()
    assert ready.focusWidget() is ready.methods.progress.cancel
    with qtbot.waitSignal(ready.measuring.ended):
        benches.waiting.clear()
    assert ready.focusWidget() is ready.methods.again


def test_cancelling_leaves_in_view_what_is_said_of_it(qtbot, ready, benches):
    benches.waiting.add("bf16")
    ready.resize(900, 300)
    ready.start()
    tab = ready.methods
    qtbot.waitUntil(lambda: tab.progress.doing == "Measuring: Bf16")
    bar = tab.findChild(PageScroll).verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    with qtbot.waitSignal(ready.measuring.ended):
        tab.progress.cancel.setFocus()
        tab.progress.cancel.click()
        assert bar.value() == 0
    assert bar.value() == 0
    assert ready.focusWidget() is tab.again


def test_a_run_can_be_paused_first(qtbot, ready, benches):
    benches.ahead = AHEAD
    ready.answer.turn = BenchTurn.AFTER_PAUSE
    ready.start()
    assert benches.paused == [AHEAD]
    assert ready.methods.progress.doing == "Waiting until “Digits” has paused…"
    ready.methods.progress.cancel.click()
    assert ready.methods.card.isVisible()
    ready.start()
    benches.ahead = None
    with qtbot.waitSignal(ready.measuring.ended):
        ready._pausing.look()
    assert benches.beside == [False]


def test_a_run_started_meanwhile_is_told_of_the_benchmark(qtbot):
    asked = words.question_about(TurnAwaited(ahead=1, behind=queue.BENCHMARK, time=0.0, attempt=1), None)
    qtbot.addWidget(asked)
    assert asked.text() == "A benchmark is being measured"
    assert set(asked.says().values()) == {Turn.WAIT, Turn.NOW}


def test_the_question_offers_a_pause_only_where_that_helps(qtbot):
    both = question_about(AHEAD, None)
    qtbot.addWidget(both)
    assert set(both.says().values()) == {BenchTurn.AFTER_PAUSE, BenchTurn.BESIDE}
    several = question_about(TurnAwaited(ahead=2, behind="x", time=0.0, attempt=1), None)
    qtbot.addWidget(several)
    assert set(several.says().values()) == {BenchTurn.BESIDE}


def test_what_went_well_is_copied_as_markdown(qtbot, ready, benches):
    assert not ready.methods.saving.isVisible()
    measure(qtbot, ready)
    ready.methods.saving.copy.click()
    assert "| Plain |" in QApplication.clipboard().text()
    assert "clipboard" in ready.methods.strip._title.text()


def test_published_figures_that_are_shown_are_copied_too(qtbot, page):
    page.devices.show_result(devices_result())
    page.devices.view.published.click()
    page.devices.saving.copy.click()
    assert "Published by others" in QApplication.clipboard().text()
