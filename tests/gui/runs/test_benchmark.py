"""A benchmark on the page Compare: its bars and table, what its rows say, and what can be copied."""

from threading import Event

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QHideEvent

from core.base.settings import Appearance
from core.benchmark.figures import read_result
from core.benchmark.plan import BenchmarkKind
from gui.base.background import end_left
from gui.base.theme import Theme
from gui.runs import benchmark
from gui.runs.compare import ComparePage
from tests.fakes.bench import DEVICES, LADDER, make_benchmark, write_measured


@pytest.fixture
def page(qtbot):
    page = ComparePage(Theme(Appearance.LIGHT))
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    yield page
    page.end_work()


def show(qtbot, page, runs):
    page.benchmark.result = None
    page.show_runs(runs)
    qtbot.waitUntil(lambda: page.benchmark.result is not None, timeout=5000)
    return page.benchmark


def texts(view, row):
    return [view.table.items.index(row, column).data() for column in range(view.table.items.columnCount())]


def test_one_run_of_a_benchmark_shows_all_of_it(qtbot, page, tmp_path):
    measured = make_benchmark(tmp_path)
    view = show(qtbot, page, [measured.runs["bf16"]])
    assert (page.title.text(), page.difference.text()) == ("Methods, BERT-large", measured.benchmark.title)
    assert (view.isVisible(), page.tabs.isVisible(), page.chooser.isVisible()) == (True, False, False)
    assert view.table.items.rowCount() == len(LADDER)
    assert texts(view, 3)[:4] == ["bf16", "1 min 29 s", "694 ms", "5.77"]
    refused = next(place for place, one in enumerate(LADDER) if one.row.refusal)
    assert texts(view, refused)[1].startswith("not measured: needs an NVIDIA GPU")
    assert view.table.columnSpan(refused, 1) == view.table.items.columnCount() - 1
    assert view.conclusion.text().startswith(
        "Fastest, and with the least memory of all that are at least as fast as the baseline: LoRA, bf16, "
        "2.84 times as fast"
    )
    assert view.speed.texts[:2] == ["3.04", "2.74"]
    assert "2.84 †" in view.speed.texts, "it was slowed down"
    assert view.note.text().startswith("† Heat or a power cap reduced the clock, or other programs")
    assert view.memory.texts[0] == "14.6 GB"
    assert "LoRA, bf16: 8.62" in view.speed.plot.accessibleName()
    others = [run for name, run in measured.runs.items() if name != "bf16"]
    assert show(qtbot, page, others).table.items.rowCount() == len(LADDER)


def test_runs_of_two_benchmarks_are_compared_as_any_others(qtbot, page, tmp_path):
    first, second = make_benchmark(tmp_path), make_benchmark(tmp_path)
    page.show_runs([first.runs["bf16"], second.runs["bf16"]])
    qtbot.waitUntil(lambda: page.reader is not None)
    assert (page.benchmark.isVisible(), page.tabs.isVisible()) == (False, True)
    qtbot.waitUntil(lambda: page.table.model.rowCount() > 0, timeout=5000)


def test_devices_have_speed_ups_and_published_figures(qtbot, page, tmp_path):
    view = show(qtbot, page, [*make_benchmark(tmp_path, BenchmarkKind.DEVICES).runs.values()])
    assert view.speed.title == "Speed-up of MPS over CPU"
    assert len(view.speed.texts) == len(DEVICES) // 2
    assert view.speed.texts[0] == "7.38 ×"
    assert not view.memory.isVisible()
    assert not view.use.isVisible()
    columns = view.table.items.columnCount()
    view.published.setChecked(True)
    assert view.table.items.columnCount() == columns + 1
    assert texts(view, 0)[-1] == "CPU 3 min 08 s"
    assert "Apple M1 Max" in view.note.text()


def test_a_result_that_comes_late_is_not_shown_below_another_title(qtbot, page, tmp_path, monkeypatch):
    first, second = make_benchmark(tmp_path), make_benchmark(tmp_path, BenchmarkKind.DEVICES)
    asked, may_answer, answered = Event(), Event(), []

    def read_late(measured):
        if measured.benchmark.name == first.benchmark.name:
            asked.set()
            answered.append(may_answer.wait(5))
        return read_result(measured)

    monkeypatch.setattr(benchmark, "read_result", read_late)
    page.show_runs([first.runs["plain"]])
    qtbot.waitUntil(asked.is_set)
    view = show(qtbot, page, [*second.runs.values()][:1])
    may_answer.set()
    end_left()
    qtbot.wait(20)
    assert answered == [True], "nobody waited for it"
    assert view.result.benchmark.name == page.title.text() == second.benchmark.name


class Minimized(QHideEvent):
    """What the window system sends; Qt's own can't be made."""

    def spontaneous(self):
        return True


def test_the_figures_of_runs_that_go_on_come_by_themselves(qtbot, page, tmp_path):
    measured = make_benchmark(tmp_path, done=2)
    view = show(qtbot, page, [*measured.runs.values()])
    view.again.setInterval(20)
    assert texts(view, 3)[:2] == ["bf16", "queued"]
    view.hideEvent(Minimized())
    assert view.again.isActive()
    write_measured(measured.runs["bf16"], LADDER[3])
    qtbot.waitUntil(lambda: texts(view, 3)[3] == "5.77", timeout=5000)
    page.hide()
    assert not view.again.isActive()


def test_a_row_is_opened_used_and_the_table_copied(qtbot, page, tmp_path):
    measured = make_benchmark(tmp_path)
    view = show(qtbot, page, [*measured.runs.values()])
    assert not view.use.isEnabled()
    view.table.selectRow(3)
    with qtbot.waitSignal(page.use_requested) as used:
        view.use.click()
    assert used.args[0].changes == {"device.precision": "bf16"}
    with qtbot.waitSignal(page.run_opened) as opened:
        qtbot.keyClick(view.table, Qt.Key.Key_Return)
    assert opened.args == [measured.runs["bf16"]]
    view.table.selectRow(6)  # which is refused
    assert not view.use.isEnabled()
    view.copy_markdown.click()
    assert QGuiApplication.clipboard().text().startswith("### BERT-large")
    view.copy_csv.click()
    assert QGuiApplication.clipboard().text().startswith("begun,device,benchmark")
