"""Runs compared: their curves on the same axes, what differs in their options, and reading while it is visible."""

import time
from dataclasses import replace

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QShowEvent
from PySide6.QtWidgets import QMenu, QStyleOptionComboBox

from core.base.settings import Appearance
from core.options import run_file
from core.options.catalogue import with_changes
from core.options.data import DataOptions
from core.options.past_runs import RunNotes
from core.options.sections import MemoryOptions, TrainingOptions
from core.runs import notes
from core.runs.compare import compare
from core.runs.events import Evaluated, Outcome, RunFinished, RunStarted
from core.runs.folder import RunFolder
from gui.base.theme import Theme
from gui.charts.axes import XKind
from gui.charts.history import Smoothing
from gui.run.export_dialog import ExportSheet
from gui.runs.compare import ComparePage, CompareReader, CompareTable
from tests.fakes.bench import make_benchmark
from tests.fakes.charts import box_at, legend_of
from tests.fakes.runs import (
    OPTIONS,
    Plot,
    crash,
    finish,
    keep_alive,
    make_folder,
    plan,
    write_events,
    write_story,
)

SLOW = Plot(steps=60, reached=60, epochs=3, step_seconds=0.5)
QUICK = Plot(steps=60, reached=30, epochs=3, step_seconds=0.2, pace=2.0, seed=8)
NAMES = ["Handwritten digits · first", "Handwritten digits · second"]


@pytest.fixture
def runs(tmp_path):
    other = msgspec.structs.replace(OPTIONS, memory=MemoryOptions(batch_size=8))
    first, second = make_folder(tmp_path / "first"), make_folder(tmp_path / "second", other)
    finish(first, SLOW, write_story(first, SLOW))
    crash(second, write_story(second, QUICK))
    return [first, second]


@pytest.fixture
def page(qtbot):
    page = ComparePage(Theme(Appearance.LIGHT))
    qtbot.addWidget(page)
    page.resize(1024 - 204, 660)  # the smallest window, beside the sidebar
    page.show()
    yield page
    page.end_work()


@pytest.fixture
def shown(qtbot, page, runs):
    page.show_runs(runs)
    wait_until_read(qtbot, page)
    qtbot.waitUntil(lambda: len(page.histories[0].loss) == 60, timeout=5000)
    for chart in page.charts.charts:
        chart.redraw()
    return page


def wait_until_read(qtbot, page):
    qtbot.waitUntil(lambda: page.reader is not None and page.reader.isFinished(), timeout=5000)


def rows(page):
    model = page.table.model
    columns = range(model.columnCount())
    texts = ([model.index(row, column).data() for column in columns] for row in range(model.rowCount()))
    return {title: tuple(values) for title, *values in texts}


def test_curves_of_all_runs_lie_on_the_same_axes_over_steps_time_and_epochs(qtbot, shown):
    charts, loss, view = shown.charts, shown.charts.loss, shown.charts.view

    def ends():
        loss.redraw()
        return [drawn.item.getData()[0].max() for drawn in loss.drawn]

    assert [(line.name, line.colour) for line in loss.lines] == list(
        zip(NAMES, ("curve1", "curve2"), strict=True)
    )
    assert [len(line.series) for line in loss.lines] == [60, 30]
    assert ends() == [60, 30]
    assert charts.evaluation.title == "Accuracy"
    assert charts.step_time.y_span((0.1, 4.0))[1] < 2.0  # the first step takes eight times as long
    assert all(not chart.empty_text() for chart in charts.charts)
    view.zoom((10.0, 20.0))
    assert ends()[0] <= 21
    view.set_x_kind(XKind.EPOCH)
    assert view.span is None, "a range of steps is none of epochs"
    assert ends() == pytest.approx([3.0, 1.5])
    view.set_x_kind(XKind.TIME)
    assert ends() == pytest.approx([history.step_clock.last for history in shown.histories])
    for button in charts.bar.x_kind.buttons().values():
        qtbot.waitUntil(lambda button=button: button.width() >= button.sizeHint().width(), timeout=2000)


def test_the_cursor_reads_each_run_by_name_and_a_click_on_a_name_hides_it(shown):
    loss = shown.charts.loss
    shown.charts.view.set_smoothing(Smoothing.OFF)
    shown.charts.view.set_cursor(12.0)
    first, second = (history.loss.at(12.0) for history in shown.histories)
    assert legend_of(loss) == f"{loss.write(first)} · {loss.write(second)} · step 12"
    assert box_at(loss, 12.0)[NAMES[0]] == loss.write(first)
    assert NAMES[1] not in box_at(loss, 45.0)  # it ended at step 30
    evaluation = shown.charts.evaluation
    evaluation.redraw()
    assert [line.symbol for line in evaluation.lines] == ["o", "s"]
    shown.charts.names.buttons[0].click()
    for chart in (loss, evaluation):
        chart.redraw()
    assert [line.symbol for line in evaluation.lines] == ["s"], "shapes stay with their runs"
    assert [line.colour for line in loss.lines] == ["curve2"]
    shown.charts.names.buttons[0].click()
    loss.redraw()
    assert [line.colour for line in loss.lines] == ["curve1", "curve2"]


def test_the_best_run_can_be_opened_and_exported_and_is_best_so_far_while_another_trains(
    qtbot, page, runs, tmp_path
):
    live, worse = make_folder(tmp_path / "live"), make_folder(tmp_path / "worse")
    write_story(live, Plot(steps=60, reached=30, epochs=3, start=time.time() - 5))
    keep_alive(live)
    slower = replace(SLOW, pace=0.2)
    finish(worse, slower, write_story(worse, slower))
    page.show_runs([runs[0], worse, live])
    assert not page.open.isVisible()
    qtbot.waitUntil(lambda: "is best so far: " in page.conclusion.text(), timeout=5000)
    with qtbot.waitSignal(page.run_opened) as opened:
        page.open.click()
    assert opened.args == [runs[0]]
    page.export.click()
    assert page.findChildren(ExportSheet)


def test_the_list_of_metrics_is_filled_again_only_if_they_change(qtbot, shown, runs):
    with qtbot.assertNotEmitted(shown.charts.metrics.model().rowsAboutToBeRemoved):
        shown._on_comparison(shown.reader, compare(runs))
    shown.histories[0].metrics["eval_f1"] = shown.histories[0].eval_loss
    shown._on_comparison(shown.reader, compare(runs))
    assert shown.charts.metrics.findData("eval_f1") >= 0


def test_a_run_keeps_its_colour_and_is_drawn_when_all_are_read_again_in_another_order(qtbot, shown, runs):
    for order in (runs, runs[::-1]):
        shown.show_runs(order)
        wait_until_read(qtbot, shown)
        qtbot.waitUntil(lambda: len(shown.charts.loss.lines) == 2, timeout=5000)
        qtbot.waitUntil(
            lambda: all(len(line.series) for line in shown.charts.loss.wanted_lines()), timeout=5000
        )
        drawn = [(line.name, line.colour) for line in shown.charts.loss.lines]
        assert sorted(drawn) == list(zip(NAMES, ("curve1", "curve2"), strict=True))


def test_a_test_has_no_point_among_curves_of_training(qtbot, page, runs, tmp_path):
    test = make_folder(
        tmp_path / "test", msgspec.structs.replace(OPTIONS, training=TrainingOptions(epochs=0.0))
    )
    metrics = {"eval_accuracy": 0.9, "eval_loss": 0.3}
    result = Evaluated(time=102, step=0, epoch=0, metrics=metrics, seconds=1)
    end = RunFinished(time=103, state=Outcome.FINISHED, steps=0)
    write_events(test.events_file, RunStarted(time=100), plan(time=101, total_steps=0), result, end)
    page.show_runs([runs[0], test])
    qtbot.waitUntil(lambda: page.has_caught_up and "eval_accuracy" in page.histories[1].metrics, timeout=5000)
    assert [line.name for line in page.charts.evaluation.wanted_lines()] == [NAMES[0]]


def test_another_metric_can_be_chosen(qtbot, shown):
    box = shown.charts.metrics
    qtbot.waitUntil(lambda: box.findData("eval_f1") >= 0, timeout=2000)
    box.setCurrentIndex(box.findData("eval_f1"))
    box.activated.emit(box.currentIndex())
    assert shown.charts.evaluation.title == "F1"
    shown.charts.evaluation.redraw()
    assert [len(line.series) for line in shown.charts.evaluation.lines] == [3, 1]


def test_the_table_shows_results_and_only_the_options_that_differ(qtbot, shown, runs):
    assert shown.difference.text() == "They differ in: Batch size"
    found = rows(shown)
    assert found["Batch size"] == ("32", "8")
    assert found["State"] == ("Finished", "Crashed")
    assert found["Steps"] == ("60", "30")
    assert found["Accuracy"][0] == "98.1 %", "they aren't equally far"
    assert "Validation loss" in found
    assert "Learning rate" not in found
    header = [shown.table.model.headerData(column, Qt.Orientation.Horizontal) for column in range(3)]
    assert header == ["", *NAMES]
    run_file.write(OPTIONS, runs[1].options_file)
    shown.show_runs(runs)
    qtbot.waitUntil(lambda: shown.difference.text() == "No option differs.", timeout=5000)
    runs[1].options_file.write_text("task = [")
    shown.show_runs(runs)
    qtbot.waitUntil(lambda: "run files can't be read" in shown.difference.text(), timeout=5000)
    assert rows(shown)["Run file"] == ("", "can't be read")


def test_of_tests_only_the_table_is_shown_and_of_a_test_and_a_run_the_curves_too(qtbot, page, tmp_path, runs):
    test = with_changes(OPTIONS, {"training.epochs": 0.0, "training.max_steps": None})
    tests = [make_folder(tmp_path / name, test) for name in ("one", "another")]
    for compared, are_tests in ((tests, True), (runs, False), ([runs[0], tests[0]], False), (tests, True)):
        page.show_runs(compared)
        qtbot.waitUntil(lambda are_tests=are_tests: page.tabs.isTabVisible(0) is not are_tests, timeout=5000)
        assert page.tabs.currentWidget() is (page.table if are_tests else page.charts)
    page.show_runs(runs)
    qtbot.waitUntil(lambda: page.tabs.isTabVisible(0), timeout=5000)
    page.tabs.setCurrentWidget(page.table)
    page.show_runs(runs[:1] + tests[:1])
    qtbot.waitUntil(lambda: bool(page.difference.text()), timeout=5000)
    assert page.tabs.currentWidget() is page.table, "as the person chose"


def test_a_single_run_is_compared_at_once_and_another_partner_can_be_chosen(qtbot, page, tmp_path, runs):
    make_folder(
        tmp_path / "unlike", msgspec.structs.replace(OPTIONS, data=DataOptions(train="builtin:fashion"))
    )
    page.show_runs(runs[:1])
    qtbot.waitUntil(lambda: page.other.count() == 2, timeout=5000)
    assert page.runs == tuple(runs)
    page.other.setCurrentIndex(1)
    page.other.activated.emit(1)
    assert page.runs == (runs[0], RunFolder(tmp_path / "unlike"))


@pytest.mark.parametrize(
    "title", ["resnet18 on signs-heldout · lr 0.0003", "long name " * 10 + "· lr 0.0003"]
)
def test_the_run_to_compare_with_is_named_whole_or_without_its_middle(qtbot, page, runs, title):
    notes.write(runs[1].path, RunNotes(title=title))
    page.show_runs(runs)
    qtbot.waitUntil(lambda: page.other.count() == 1, timeout=5000)

    def is_named():
        option = QStyleOptionComboBox()
        page.other.initStyleOption(option)
        begin, cut, end = option.currentText.partition("…")
        if len(title) < 40:
            return begin == title
        return bool(cut) and title.startswith(begin) and title.endswith(end) and "lr 0.0003" in end

    qtbot.waitUntil(is_named)
    assert page.other.mapTo(page, page.other.rect().topRight()).x() < page.width()


def test_a_run_that_trains_is_followed_until_it_is_over(qtbot, tmp_path, runs):
    live = make_folder(tmp_path / "live")
    clock = write_story(live, Plot(steps=60, reached=10, epochs=3, start=time.time() - 5))
    keep_alive(live)
    reader = CompareReader([runs[0], live])
    steps = [0, 0]

    def count(_reader, index, batches):
        steps[index] += sum(len(batch.steps) for batch in batches)

    reader.batches_read.connect(count)
    with qtbot.waitSignal(reader.caught_up, timeout=5000):
        reader.start()
    qtbot.waitUntil(lambda: steps == [60, 10], timeout=2000)
    assert not reader.isFinished()
    with qtbot.waitSignal(reader.finished, timeout=5000):
        crash(live, clock)
    reader.stop()


def test_a_hidden_page_reads_no_runs(qtbot, page, tmp_path):
    live = make_folder(tmp_path / "live")
    keep_alive(live)
    write_story(live, Plot(reached=30, start=time.time() - 60))
    page.show_runs([live, make_folder(tmp_path / "other")])
    qtbot.waitUntil(lambda: len(page.histories[0].loss) == 30, timeout=5000)
    page.hide()
    assert page.reader is None
    page.show()
    assert not page.histories[0].loss, "it is read again"
    qtbot.waitUntil(lambda: len(page.histories[0].loss) == 30, timeout=5000)


class Restored(QShowEvent):
    """What the window system sends; Qt's own can't be made."""

    def spontaneous(self):
        return True


def test_a_restored_page_is_not_read_again(qtbot, page, tmp_path):
    page.show_runs([*make_benchmark(tmp_path).runs.values()])
    qtbot.waitUntil(lambda: page.benchmark.result is not None, timeout=5000)
    page.benchmark.published.setChecked(True)
    page.showEvent(Restored())
    qtbot.wait(50)
    assert page.benchmark.published.isChecked()


def test_what_was_read_of_other_runs_is_dropped(qtbot, page, tmp_path, runs):
    page.show_runs(runs)
    qtbot.waitUntil(lambda: page.reader is not None)
    page.reader.wait()  # its signals are queued now
    page.show_runs([make_folder(tmp_path / name) for name in ("third", "fourth")])
    qtbot.waitUntil(lambda: bool(page.difference.text()), timeout=5000)
    assert page.difference.text() == "No option differs."
    assert not page.histories[0].loss


def test_after_a_table_is_filled_again_a_menu_has_its_own_actions(qtbot, runs):
    """PySide took actions for the header items that `clear` had deleted, and the window crashed."""
    table, menu, comparison = CompareTable(Theme(Appearance.LIGHT)), QMenu(), compare(runs)
    for widget in (table, menu):
        qtbot.addWidget(widget)
    for number in range(40):
        table.show_comparison(comparison, (f"first {number}", "second"), ("curve1", "curve2"))
        assert {type(menu.addAction("Show")) for _index in range(6)} == {QAction}
