"""All charts of a run together, told of invented runs."""

import csv

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel

from core.base import formats
from core.base.settings import Appearance
from core.runs.event_log import EventReader
from core.runs.events import Level, MessageRaised
from gui.base.theme import Theme
from gui.charts.axes import Stretch, XKind
from gui.charts.chart import Chart
from gui.charts.grid import RunCharts
from gui.charts.history import MarkKind, RunHistory, Smoothing
from tests.fakes.run_stories import Plot, make_folder, make_memory_run, write_on_card, write_story

STEPS = 360
START = 1_795_230_000.0


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The events of the digits example on a CPU, all steps in parts."""
    run = make_folder(tmp_path_factory.mktemp("digits") / "run")
    write_story(run, Plot(steps=STEPS, reached=STEPS, start=START))
    return events_of(run)


@pytest.fixture(scope="module")
def on_card(tmp_path_factory):
    """The events of 4 minutes on a graphics card, which was waited for in one step of 20."""
    run = make_memory_run(
        tmp_path_factory.mktemp("card") / "run", lambda run, start, minutes: write_on_card(run, START, 4.0)
    )
    return events_of(run)


def events_of(run):
    events = [event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()]
    return sorted(events, key=lambda event: event.time)


@pytest.fixture
def show(qtbot):
    def shown(events):
        history = RunHistory()
        for event in events:
            history.apply(event)
        charts = RunCharts(Theme(Appearance.LIGHT), history)
        qtbot.addWidget(charts)
        charts.resize(900, 900)
        charts.show()
        qtbot.waitExposed(charts)
        charts.refresh(STEPS, is_over=False)
        for chart in charts.charts:
            chart.redraw()
        return charts

    return shown


def x_range(chart):
    chart.redraw()
    return pytest.approx(tuple(chart._canvas._view.viewRange()[0]), abs=0.5)


def test_training_charts_lie_over_steps_epochs_or_time(digits, show):
    charts = show(digits)
    end = charts.loss.history.last_clock
    for chart in (charts.loss, charts.step_time, charts.throughput, charts.learning_rate):
        charts.view.lie_over(XKind.STEP)
        assert x_range(chart) == (0.0, 1.015 * STEPS)
        charts.view.lie_over(XKind.EPOCH)
        assert x_range(chart) == (0.0, 1.015 * 8)
        charts.view.lie_over(XKind.TIME)
        assert x_range(chart) == (0.0, end)
    assert x_range(charts.memory) == (0.0, end)
    assert x_range(charts.device) == (0.0, end)
    curve = charts.loss._lines[0].item
    assert curve.xData[-1] == pytest.approx(charts.loss.history.step_clock.last)


def test_the_cursor_is_at_one_moment_whatever_the_charts_lie_over(digits, show):
    charts = show(digits)
    moment = charts.loss.history.clock_of_step(200)
    for kind, place in ((XKind.STEP, 200.0), (XKind.EPOCH, 200 * 8 / STEPS), (XKind.TIME, moment)):
        charts.view.lie_over(kind)
        charts.view.point_at(moment)
        charts.loss.redraw()
        assert charts.loss._cursor.value() == pytest.approx(place)
        assert charts.loss.legend_text.endswith("step 200")


def test_steps_are_stacked_by_part_and_the_legend_says_what_takes_how_much(digits, show):
    charts = show(digits)
    parts = charts.step_time._parts
    whole = parts.tops[-1]
    assert (np.diff(parts.tops, axis=0) >= 0).all()
    assert whole[-1] == pytest.approx(charts.step_time.history.step_seconds.last, rel=1e-5)
    assert "backward 5" in charts.step_time.legend_text
    charts.view.point_at(charts.loss.history.clock_of_step(50))
    details = dict(charts.step_time.details(50.0))
    assert {"step", "epoch", "data", "forward", "backward", "optimizer", "the rest"} <= details.keys()


def test_on_a_gpu_only_steps_that_were_waited_for_are_stacked(on_card, show):
    charts = show(on_card)
    steps = charts.step_time.history.step_seconds
    timed = charts.step_time._parts.x
    assert 0 < len(timed) < len(steps) / 15
    charts.view.zoom_to(Stretch(40.0, 60.0))
    charts.step_time.redraw()
    assert set(charts.step_time._parts.x % 20) == {0.0}
    assert set(dict(charts.step_time.details(21.0))) == {"step", "epoch", "after", "step time", "data"}


def test_the_device_is_drawn_against_its_limits_and_says_what_holds_it_back(on_card, show):
    charts = show(on_card)
    device = charts.device
    power = next(drawn for drawn in device._lines if drawn.line.column == "power_watts")
    assert power.item.yData.max() == pytest.approx(100 * 348 / 350, rel=0.01)
    assert "W" in device.legend_text
    charts.view.point_at(0.55 * 240)
    assert "held back: great heat" in device.legend_text
    assert dict(device.details(0.55 * 240))["held back"] == "great heat"
    assert device._band.isVisible()
    charts.view.point_at(200.0)
    assert "held back" not in device.legend_text


def test_checkpoints_evaluations_and_messages_are_marked(digits, show):
    warned = MessageRaised(time=START + 30.0, id="hot", level=Level.WARNING, title="The GPU is hot")
    charts = show(sorted([*digits, warned], key=lambda event: event.time))
    charts.loss.redraw()
    shown = {kind.value: item.data["x"].tolist() for kind, item in charts.loss._mark_items._items.items()}
    assert shown["checkpoint"] == shown["evaluation"] == [45.0 * number for number in range(1, 9)]
    assert shown["warning"] == pytest.approx([charts.loss.history.step_at(START + 30.0 - digits[0].time)])
    charts.loss._point_at(90.0)
    charts.loss.redraw()
    words = charts.loss._mark_items.words_near(90.0, (0.0, 360.0))
    assert words == [("checkpoint", "step 90"), ("evaluated", "step 90")]
    assert "checkpoint" in charts.loss._box.toPlainText()


def test_marks_stand_where_their_steps_do_whatever_the_charts_lie_over(digits, show):
    charts = show(digits)
    history = charts.loss.history
    steps = [45.0 * number for number in range(1, 9)]
    for kind, places in (
        (XKind.EPOCH, [float(number) for number in range(1, 9)]),
        (XKind.TIME, [history.clock_of_step(step) for step in steps]),
    ):
        charts.view.lie_over(kind)
        charts.loss.redraw()
        found = charts.loss._mark_items._items[MarkKind.CHECKPOINT].data["x"]
        assert found == pytest.approx(places)
    charts.memory.redraw()
    clocks = [mark.clock for mark in history.marks[MarkKind.CHECKPOINT]]
    drawn = charts.memory._mark_items._items[MarkKind.CHECKPOINT].data["x"]
    assert drawn == pytest.approx([clock for clock in clocks if clock <= history.last_clock])


def test_what_steps_waited_for_stands_between_them(digits, show):
    charts = show(digits)
    lines = charts.step_time._pauses
    assert sorted({*lines.xData}) == [45.0 * number for number in range(1, 9)]
    assert lines.yData.max() == pytest.approx(0.6)  # the longer of evaluation and checkpoint
    waited = 8 * (0.6 + 0.2)
    begun, ended = (charts.loss.history.clock_of_step(step) for step in (0, STEPS))
    assert charts.step_time._pause_share == pytest.approx(waited / (ended - begun))
    assert "of all time" in charts.step_time.legend_text
    details = charts.step_time.details(90.0)
    assert {("evaluation after it", "600 ms"), ("checkpoint after it", "200 ms")} <= {*details}
    assert "evaluation after it" not in dict(charts.step_time.details(91.0))


def test_the_evaluation_under_the_cursor_is_never_one_to_come(digits, show):
    charts = show(digits)
    history = charts.loss.history
    for step, evaluated in ((44, None), (45, 45), (89, 45), (STEPS, STEPS)):
        charts.view.point_at(history.clock_of_step(step))
        known = dict(charts.loss.details(float(step))).get("eval")
        assert known == (None if evaluated is None else formats.loss(history.eval_loss.at(evaluated)))
        assert ("eval" in charts.loss.legend_text) == (evaluated is not None)
    charts.loss._point_at(89.7)  # a little before a step the mouse reads that step
    charts.loss.redraw()
    assert formats.loss(history.eval_loss.at(90)) in charts.loss._box.toPlainText()
    assert charts.metrics.legend_text.endswith("step 90")


def test_zoomed_in_the_height_is_that_of_what_is_seen(digits, show):
    charts = show(digits)
    history = charts.loss.history
    charts.view.zoom_to(Stretch(history.clock_of_step(300), history.clock_of_step(310)))
    charts.loss.redraw()
    seen = history.loss.y[299:310].max()
    assert charts.loss._canvas._view.viewRange()[1][1] < 3 * seen < history.loss.extremes()[1]


def test_a_run_that_ended_early_is_shown_to_its_end_and_a_young_one_large_enough(digits, show):
    charts = show([event for event in digits if getattr(event, "step", 0) <= 9])
    charts.refresh(10_000, is_over=False)
    assert x_range(charts.loss) == (0.0, 1.015 * 10_000 / 2**8)
    charts.refresh(10_000, is_over=True)
    assert x_range(charts.loss) == (0.0, 1.015 * 9)


def test_a_minimised_window_draws_nothing(qtbot, digits, show):
    charts = show(digits)
    assert charts.loss.is_shown()
    charts.showMinimized()
    qtbot.waitUntil(lambda: not charts.loss.is_shown())


def test_smoothing_changes_what_is_drawn_not_what_is_read(digits, show):
    charts = show(digits)
    drawn = {}
    assert "smoothed" in charts.loss.legend_text
    for smoothing in Smoothing:
        charts.view.smooth(smoothing)
        drawn[smoothing] = [line.series for line in charts.loss.lines]
    history = charts.loss.history
    assert drawn[Smoothing.OFF] == [history.loss, history.eval_loss]
    assert drawn[Smoothing.STRONG] == [history.loss, history.smoother_loss, history.eval_loss]
    charts.view.point_at(history.clock_of_step(100))
    assert f"train {history.loss.at(100):.3g}" in charts.loss.legend_text


def test_a_logarithmic_height_draws_logarithms_and_writes_values(digits, show):
    charts = show(digits)
    charts.loss.set_log(True)
    charts.loss.redraw()
    heights = charts.loss._lines[0].item.yData
    assert np.nanmax(heights) == pytest.approx(np.log10(charts.loss.history.loss.extremes()[1]))
    low, high = charts.loss._canvas._view.viewRange()[1]
    texts = charts.loss._canvas.y_axis.texts_between(low, high, 200)
    assert "1" in texts
    assert low <= np.nanmin(heights)
    charts.memory.set_log(True)
    assert not charts.memory.is_log


def test_tokens_are_counted_where_there_are_any(on_card, digits, show):
    charts = show(on_card)
    assert "rows/s · " in charts.throughput.legend_text
    charts.throughput.count_tokens(True)
    charts.throughput.redraw()
    assert charts.throughput._lines[0].item.yData.max() > 5000
    images = show(digits)
    images.throughput.count_tokens(True)
    assert images.throughput.empty_text() == "This run has no tokens"


def test_what_is_shown_is_saved_row_by_row(qtbot, digits, show, tmp_path):
    charts = show(digits)
    history = charts.loss.history
    charts.view.zoom_to(Stretch(history.clock_of_step(41), history.clock_of_step(50)))
    charts.loss.save_table(tmp_path / "loss.csv")
    charts.loss.end_work()
    rows = list(csv.DictReader((tmp_path / "loss.csv").open()))
    assert [int(row["step"]) for row in rows] == list(range(41, 51))
    assert float(rows[4]["train_loss"]) == pytest.approx(history.loss.at(45), rel=1e-6)
    assert [row["eval_loss"] != "" for row in rows] == [step == 45 for step in range(41, 51)]
    assert float(rows[4]["seconds"]) == pytest.approx(history.clock_of_step(45), rel=1e-6)
    charts.view.zoom_to(None)
    charts.memory.save_table(tmp_path / "memory.csv")
    charts.memory.end_work()
    header = next(csv.reader((tmp_path / "memory.csv").open()))
    assert header == ["seconds", "all_programs_bytes", "this_run_bytes"]


@pytest.mark.parametrize("save", [Chart.save_table, Chart.save_image])
def test_what_cannot_be_saved_says_so(qtbot, digits, show, tmp_path, save):
    charts = show(digits)
    save(charts.loss, tmp_path / "<b>" / "loss.csv")
    qtbot.waitUntil(lambda: QApplication.activeModalWidget() is not None)
    box = QApplication.activeModalWidget()
    assert box.informativeText() == f"There is no folder at {tmp_path / '<b>'}."
    shown = [label for label in box.findChildren(QLabel) if "<b>" in label.text()]
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in shown)
    box.close()


def test_a_chart_is_copied_without_its_button(digits, show):
    charts = show(digits)
    charts.loss.copy_image()
    image = QGuiApplication.clipboard().image()
    assert image.width() == 2 * charts.loss.width()
    assert charts.loss.menu_button.isVisible()
    button = charts.loss.menu_button
    corner = 2 * button.mapTo(charts.loss, button.rect().topLeft())
    colours = {
        image.pixel(corner.x() + x, corner.y() + y)
        for x in range(2 * button.width())
        for y in range(2 * button.height())
    }
    assert len(colours) == 1


def test_charts_that_were_scrolled_out_of_view_are_drawn_when_they_come_into_it(qtbot, digits, show):
    charts = show(digits)
    charts.resize(800, 420)
    last = charts.gradient_norm
    qtbot.waitUntil(lambda: not last.is_shown())
    charts.view.zoom_to(Stretch(10.0, 20.0))
    qtbot.waitUntil(lambda: not charts.queue._turn.isActive(), timeout=3000)
    before = last._canvas._view.viewRange()[0]
    bar = charts._area.verticalScrollBar()
    bar.setValue(bar.maximum())
    qtbot.waitUntil(lambda: last._canvas._view.viewRange()[0] != before, timeout=3000)
    assert last._canvas._view.viewRange()[0][1] < 150


def tops(charts):
    return {chart.mapTo(charts, chart.rect().topLeft()).y() for chart in charts.charts}


def test_as_many_stand_side_by_side_as_there_is_room_for(qtbot, digits, show):
    charts = show(digits)
    for width, columns in ((1500, 4), (900, 2)):
        charts.resize(width, 600)
        qtbot.waitUntil(lambda n=columns: len(tops(charts)) == 8 // n)


def test_the_bar_says_what_the_view_does_and_changes_it(qtbot, digits, show):
    charts = show(digits)
    bar = charts.bar
    assert not bar.show_all.isEnabled()
    qtbot.mouseClick(bar.x_kind.buttons()[XKind.TIME], Qt.MouseButton.LeftButton)
    assert charts.view.x_kind is XKind.TIME
    qtbot.mouseClick(bar.follow, Qt.MouseButton.LeftButton)
    assert (charts.view.follows, bar.show_all.isEnabled()) == (True, True)
    charts.loss._canvas.selected.emit(10.0, 20.0)
    assert not bar.follow.isChecked()
    qtbot.mouseClick(bar.show_all, Qt.MouseButton.LeftButton)
    assert charts.view.stretch is None
    charts.refresh(STEPS, is_over=True)
    assert not bar.follow.isVisible()
