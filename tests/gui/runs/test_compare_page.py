import time

import msgspec
import pytest
from PySide6.QtCore import Qt

from core.base.settings import Appearance
from core.options import run_file
from core.options.sections import MemoryOptions
from core.runs.folder import RunFolder
from gui.base.theme import Theme
from gui.charts.axes import XKind
from gui.charts.history import Smoothing
from gui.runs.compare import ComparePage, CompareReader
from tests.fakes.charts import box_at, legend_of
from tests.fakes.runs import OPTIONS, Plot, crash, finish, keep_alive, make_folder, write_story

SLOW = Plot(steps=60, reached=60, epochs=3, step_seconds=0.5)
QUICK = Plot(steps=60, reached=30, epochs=3, step_seconds=0.2, pace=2.0, seed=8)


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
    page.resize(1100, 760)
    page.show()
    yield page
    page.end_work()


@pytest.fixture
def shown(qtbot, page, runs):
    page.show_runs(runs)
    qtbot.waitUntil(page._reader.isFinished, timeout=5000)
    qtbot.waitUntil(lambda: len(page._histories[0].loss) == 60, timeout=5000)
    return page


def rows(page):
    model = page.table.model
    columns = range(model.columnCount())
    texts = ([model.index(row, column).data() for column in columns] for row in range(model.rowCount()))
    return {title: tuple(values) for title, *values in texts}


def test_curves_of_all_runs_lie_on_the_same_axes(shown):
    charts = shown.charts
    for chart in charts.charts:
        chart.redraw()
    assert [line.name for line in charts.loss.lines] == [
        "Handwritten digits · first",
        "Handwritten digits · second",
    ]
    assert [line.colour for line in charts.loss.lines] == ["curve1", "curve2"]
    assert [len(line.series) for line in charts.loss.lines] == [60, 30]
    assert charts.loss.x_span()[1] == pytest.approx(60, rel=0.02)
    first, second = (drawn.item.getData() for drawn in charts.loss._lines)
    assert (first[0].max(), second[0].max()) == (60, 30)
    assert charts.evaluation.title == "Accuracy"
    assert charts.step_time.y_span((0.1, 4.0))[1] < 2.0  # the first step takes eight times as long
    assert all(not chart.empty_text() for chart in charts.charts)


def test_over_time_each_run_lies_by_its_own_clock(shown):
    charts = shown.charts
    charts.view.set_x_kind(XKind.TIME)
    charts.loss.redraw()
    slow, quick = (drawn.item.getData()[0].max() for drawn in charts.loss._lines)
    assert slow == pytest.approx(shown._histories[0].step_clock.last)
    assert quick == pytest.approx(shown._histories[1].step_clock.last)
    assert quick < slow / 3
    charts.view.set_x_kind(XKind.EPOCH)
    charts.loss.redraw()
    assert [drawn.item.getData()[0].max() for drawn in charts.loss._lines] == pytest.approx([3.0, 1.5])


def test_a_stretch_of_steps_is_none_of_epochs(shown):
    view = shown.charts.view
    view.zoom((10.0, 20.0))
    shown.charts.loss.redraw()
    assert shown.charts.loss._lines[0].item.getData()[0].max() <= 21
    view.set_x_kind(XKind.EPOCH)
    assert view.span is None


def test_the_cursor_reads_each_run_with_its_name(shown):
    loss = shown.charts.loss
    shown.charts.view.set_smoothing(Smoothing.OFF)
    shown.charts.view.set_cursor(12.0)
    first, second = (history.loss.at(12.0) for history in shown._histories)
    words = legend_of(loss)
    assert words == f"{loss.write(first)} · {loss.write(second)} · step 12"
    named = box_at(loss, 12.0)
    assert named["Handwritten digits · first"] == loss.write(first)
    assert "Handwritten digits · second" not in box_at(loss, 45.0)  # it ended at step 30


def test_only_what_differs_stands_in_the_table(shown):
    assert shown.difference.text() == "They differ in: Batch size"
    assert rows(shown)["Batch size"] == ("32", "8")
    assert rows(shown)["State"] == ("Finished", "Crashed")
    assert rows(shown)["Steps"] == ("60", "30")
    assert rows(shown)["Best: Accuracy"][0] == "98.1 %"
    assert "Learning rate" not in rows(shown)
    names = [shown.table.model.headerData(place, Qt.Orientation.Horizontal) for place in range(3)]
    assert names == ["", "Handwritten digits · first", "Handwritten digits · second"]


def test_a_press_on_a_name_hides_the_run(qtbot, shown):
    shown.names.buttons[0].click()
    assert [line.colour for line in shown.charts.loss.lines] == ["curve2"]
    shown.names.buttons[0].click()
    assert [line.colour for line in shown.charts.loss.lines] == ["curve1", "curve2"]


def test_another_metric_can_be_chosen(qtbot, shown):
    box = shown.charts.metrics
    qtbot.waitUntil(lambda: box.findData("eval_f1") >= 0, timeout=2000)
    box.setCurrentIndex(box.findData("eval_f1"))
    box.activated.emit(box.currentIndex())
    assert shown.charts.evaluation.title == "F1"
    assert [len(line.series) for line in shown.charts.evaluation.lines] == [3, 1]


def test_runs_asked_the_same_and_run_files_that_cant_be_read(qtbot, page, runs):
    run_file.write(OPTIONS, runs[1].options_file)
    page.show_runs(runs)
    qtbot.waitUntil(lambda: page.difference.text() == "No option differs.", timeout=5000)
    runs[1].options_file.write_text("task = [")
    page.show_runs(runs)
    qtbot.waitUntil(lambda: "run files can't be read" in page.difference.text(), timeout=5000)
    assert rows(page)["Run file"] == ("", "can't be read")


def test_a_run_that_trains_is_followed_until_it_is_over(qtbot, tmp_path, runs):
    live = make_folder(tmp_path / "live")
    plot = Plot(steps=60, reached=10, epochs=3, start=time.time() - 5)
    clock = write_story(live, plot)
    keep_alive(live)
    reader = CompareReader([runs[0], live])
    steps = [0, 0]

    def count(index, batches):
        steps[index] += sum(len(batch.steps) for batch in batches)

    reader.batches_read.connect(count)
    with qtbot.waitSignal(reader.caught_up, timeout=5000):
        reader.start()
    qtbot.waitUntil(lambda: steps == [60, 10], timeout=2000)
    assert not reader.isFinished()
    with qtbot.waitSignal(reader.finished, timeout=5000):
        crash(RunFolder(live.path), clock)
    reader.stop()


def test_a_page_that_nobody_sees_reads_no_longer(qtbot, page, tmp_path):
    live = make_folder(tmp_path / "live")
    keep_alive(live)
    write_story(live, Plot(reached=30, start=time.time() - 60))
    page.show_runs([live, make_folder(tmp_path / "other")])
    qtbot.waitUntil(lambda: len(page._histories[0].loss) == 30, timeout=5000)
    page.hide()
    assert page._reader is None
    page.show()
    assert page._reader is not None
    qtbot.waitUntil(lambda: len(page._histories[0].loss) == 30, timeout=5000)


def test_all_that_is_chosen_for_the_charts_fits_the_smallest_window(qtbot, shown):
    shown.resize(1024 - 204, 660)  # beside the sidebar
    for button in shown.charts.bar.x_kind.buttons().values():
        qtbot.waitUntil(lambda button=button: button.width() >= button.sizeHint().width(), timeout=2000)
