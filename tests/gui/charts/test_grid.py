"""All charts of a run together, with invented runs."""

import csv
import math

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel

from core.base import formats
from core.base.settings import Appearance
from core.runs.event_log import EventReader
from core.runs.events import Level, MessageRaised, RunPlanned, RunStarted, StepFinished
from gui.base.theme import Theme
from gui.charts.axes import XKind
from gui.charts.chart import Chart
from gui.charts.grid import RunCharts
from gui.charts.history import BatchBuilder, MarkKind, RunHistory, Smoothing
from tests.fakes.charts import box_at, legend_of
from tests.fakes.runs import Plot, make_folder, make_memory_run, write_on_card, write_story

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
    """The events of 4 minutes on a graphics card, which was synchronized in one step of 20."""
    run = make_memory_run(
        tmp_path_factory.mktemp("card") / "run", lambda run, start, minutes: write_on_card(run, START, 4.0)
    )
    return events_of(run)


def events_of(run):
    events = [event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()]
    return sorted(events, key=lambda event: event.time)


@pytest.fixture
def show(qtbot):
    def shown(events, steps=STEPS):
        builder, history = BatchBuilder(), RunHistory()
        builder.add(events)
        for batch in builder.build():
            history.add(batch)
        charts = RunCharts(Theme(Appearance.LIGHT), history)
        qtbot.addWidget(charts)
        charts.resize(900, 900)
        charts.show()
        qtbot.waitExposed(charts)
        charts.refresh(steps, is_over=False)
        for chart in charts.charts:
            chart.redraw()
        return charts

    return shown


def x_range(chart):
    chart.redraw()
    return pytest.approx(tuple(chart._canvas._view.viewRange()[0]), abs=0.5)


@pytest.mark.parametrize("kind", list(XKind))
def test_charts_cursor_and_marks_over_steps_epochs_or_time(digits, show, kind):
    charts = show(digits)
    history = charts.loss.history
    end, moment = history.last_clock, history.step_clock.between(200)
    width, cursor = {
        XKind.STEP: (1.015 * STEPS, 200.0),
        XKind.EPOCH: (1.015 * 8, 200 * 8 / STEPS),
        XKind.TIME: (end, moment),
    }[kind]
    steps = [45.0 * number for number in range(1, 9)]
    marks = {
        XKind.STEP: steps,
        XKind.EPOCH: list(range(1, 9)),
        XKind.TIME: history.step_clock.interpolate(steps),
    }
    charts.view.set_x_kind(kind)
    for chart in (charts.loss, charts.step_time, charts.throughput, charts.learning_rate):
        assert x_range(chart) == (0.0, width)
    for chart in (charts.memory, charts.device):
        assert x_range(chart) == (0.0, end)
    shown = charts.loss._mark_items._items[MarkKind.CHECKPOINT].data["x"]
    assert shown == pytest.approx(np.array(marks[kind], float))
    charts.view.set_cursor(moment)
    assert legend_of(charts.loss).endswith("step 200")
    assert charts.loss._cursor.value() == pytest.approx(cursor)


def test_parts_of_steps_are_stacked_and_pauses_stand_between(digits, show):
    charts = show(digits)
    chart, parts = charts.step_time, charts.step_time._parts
    assert (np.diff(parts.tops, axis=0) >= 0).all()
    assert parts.tops[-1][-1] == pytest.approx(chart.history.step_seconds.last, rel=1e-5)
    assert "backward 5" in legend_of(chart)
    assert {"step", "epoch", "data", "forward", "backward", "optimizer", "the rest"} <= box_at(
        chart, 50.0
    ).keys()
    lines = chart._pauses
    assert sorted({*lines.xData}) == [45.0 * number for number in range(1, 9)]
    assert lines.yData.max() == pytest.approx(0.6)  # the longer of evaluation and checkpoint
    begin, end = (chart.history.step_clock.between(step) for step in (0, STEPS))
    assert chart._pause_share == pytest.approx(8 * (0.6 + 0.2) / (end - begin))
    assert "of all time" in legend_of(chart)
    paused = {"evaluation after it": "600 ms", "checkpoint after it": "200 ms"}
    assert paused.items() <= box_at(chart, 90.0).items()
    assert "evaluation after it" not in box_at(chart, 91.0)


def test_on_a_gpu_only_synchronized_steps_are_stacked(on_card, show):
    charts = show(on_card)
    steps = charts.step_time.history.step_seconds
    assert 0 < len(charts.step_time._parts.x) < len(steps) / 15
    charts.view.zoom((40.0, 60.0))
    charts.step_time.redraw()
    assert set(charts.step_time._parts.x % 20) == {0.0}
    assert set(box_at(charts.step_time, 21.0)) == {"step", "epoch", "after", "step time", "data"}


def test_the_device_is_drawn_against_its_limits_with_what_holds_it_back(on_card, show):
    charts = show(on_card)
    device = charts.device
    power = next(drawn for drawn in device._lines if drawn.line.column == "power_watts")
    assert power.item.yData.max() == pytest.approx(100 * 348 / 350, rel=0.01)
    assert device._band.isVisible()
    values = box_at(device, 0.55 * 240)
    assert values["held back by"] == "great heat"
    assert values["power"].endswith("of 350 W")
    assert "held back by" not in box_at(device, 200.0)


def test_checkpoints_evaluations_and_messages_are_marked(digits, show):
    warned = MessageRaised(time=START + 30.0, id="hot", level=Level.WARNING, title="The GPU is hot")
    charts = show(sorted([*digits, warned], key=lambda event: event.time))
    shown = {kind.value: item.data["x"].tolist() for kind, item in charts.loss._mark_items._items.items()}
    assert shown["checkpoint"] == shown["evaluation"] == [45.0 * number for number in range(1, 9)]
    clock = charts.loss.history.step_clock
    assert shown["warning"] == pytest.approx([clock.inverse(START + 30.0 - digits[0].time)])
    charts.loss._on_hovered(90.0)
    charts.loss.redraw()
    texts = charts.loss._mark_items.texts_near(90.0, (0.0, 360.0))
    assert texts == [("checkpoint", "step 90"), ("evaluated", "step 90")]
    assert "checkpoint" in charts.loss._box.toPlainText()


@pytest.mark.parametrize(("step", "evaluated"), [(44, None), (45, 45), (89, 45), (STEPS, STEPS)])
def test_the_evaluation_at_the_cursor_is_never_a_later_one(digits, show, step, evaluated):
    charts = show(digits)
    history = charts.loss.history
    charts.view.set_cursor(history.step_clock.between(step))
    expected = None if evaluated is None else formats.loss(history.eval_loss.at(evaluated))
    assert box_at(charts.loss, float(step)).get("eval") == expected
    assert ("eval" in legend_of(charts.loss)) == (evaluated is not None)


def test_zoomed_in_the_y_axis_fits_what_is_seen(digits, show):
    charts = show(digits)
    history = charts.loss.history
    charts.view.zoom((history.step_clock.between(300), history.step_clock.between(310)))
    charts.loss.redraw()
    seen = history.loss.y[299:310].max()
    assert charts.loss._canvas._view.viewRange()[1][1] < 3 * seen < history.loss.extremes()[1]


def test_a_run_that_ended_early_is_shown_to_its_end_and_a_young_one_large_enough(digits, show):
    charts = show([event for event in digits if getattr(event, "step", 0) <= 9])
    charts.refresh(10_000, is_over=False)
    assert x_range(charts.loss) == (0.0, 1.015 * 10_000 / 2**8)
    charts.refresh(10_000, is_over=True)
    assert x_range(charts.loss) == (0.0, 1.015 * 9)


def test_smoothing_changes_what_is_drawn_not_what_is_read(digits, show):
    charts = show(digits)
    history, drawn = charts.loss.history, {}
    assert "smoothed" in legend_of(charts.loss)
    for smoothing in Smoothing:
        charts.view.set_smoothing(smoothing)
        drawn[smoothing] = [line.series for line in charts.loss.lines]
    assert drawn[Smoothing.OFF] == [history.loss, history.eval_loss]
    assert drawn[Smoothing.STRONG] == [history.loss, history.smoother_loss, history.eval_loss]
    charts.view.set_cursor(history.step_clock.between(100))
    assert f"train {history.loss.at(100):.3g}" in legend_of(charts.loss)


def test_a_logarithmic_axis_has_logarithms_with_texts_of_values(digits, show):
    charts = show(digits)
    charts.loss.set_log(True)
    charts.loss.redraw()
    heights = charts.loss._lines[0].item.yData
    assert np.nanmax(heights) == pytest.approx(np.log10(charts.loss.history.loss.extremes()[1]))
    low, high = charts.loss._canvas._view.viewRange()[1]
    assert "1" in charts.loss._canvas.y_axis.texts_between(low, high, 200)
    assert low <= np.nanmin(heights)
    charts.memory.set_log(True)
    assert not charts.memory.is_log


def test_tokens_are_counted_if_there_are_any(on_card, digits, show):
    charts = show(on_card)
    assert "rows/s · " in legend_of(charts.throughput)
    charts.throughput.count_tokens(True)
    charts.throughput.redraw()
    assert charts.throughput._lines[0].item.yData.max() > 5000
    images = show(digits)
    images.throughput.count_tokens(True)
    assert images.throughput.empty_text() == "This run has no tokens"


def test_what_is_shown_is_saved_row_by_row(qtbot, digits, show, tmp_path):
    charts = show(digits)
    history = charts.loss.history
    charts.view.zoom((history.step_clock.between(41), history.step_clock.between(50)))
    charts.loss.save_table(tmp_path / "loss.csv")
    charts.loss.end_work()
    rows = list(csv.DictReader((tmp_path / "loss.csv").open()))
    assert [int(row["step"]) for row in rows] == list(range(41, 51))
    assert float(rows[4]["train_loss"]) == pytest.approx(history.loss.at(45), rel=1e-6)
    assert [row["eval_loss"] != "" for row in rows] == [step == 45 for step in range(41, 51)]
    assert float(rows[4]["seconds"]) == pytest.approx(history.step_clock.between(45), rel=1e-6)
    charts.view.zoom(None)
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
    assert str(tmp_path / "<b>") in box.informativeText()
    shown = [label for label in box.findChildren(QLabel) if "<b>" in label.text()]
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in shown)
    box.close()


def test_a_chart_is_copied_without_its_button(digits, show):
    charts = show(digits)
    charts.loss.copy_image()
    image = QGuiApplication.clipboard().image()
    assert image.width() == 2 * charts.loss.width()
    button = charts.loss.menu_button
    assert button.isVisible()
    corner = 2 * button.mapTo(charts.loss, button.rect().topLeft())
    pixels = ((x, y) for x in range(2 * button.width()) for y in range(2 * button.height()))
    assert len({image.pixel(corner.x() + x, corner.y() + y) for x, y in pixels}) == 1


def test_charts_are_drawn_when_they_are_scrolled_into_view(qtbot, digits, show):
    charts = show(digits)
    charts.resize(800, 420)
    last = charts.gradient_norm
    qtbot.waitUntil(lambda: not last.is_shown())
    charts.view.zoom((10.0, 20.0))
    qtbot.waitUntil(lambda: not charts.queue._turn.isActive(), timeout=3000)
    before = last._canvas._view.viewRange()[0]
    bar = charts._area.verticalScrollBar()
    bar.setValue(bar.maximum())
    qtbot.waitUntil(lambda: last._canvas._view.viewRange()[0] != before, timeout=3000)
    charts.showMinimized()
    qtbot.waitUntil(lambda: not last.is_shown())


@pytest.mark.parametrize(("width", "columns"), [(1500, 4), (900, 2)])
def test_as_many_charts_are_side_by_side_as_fit(qtbot, digits, show, width, columns):
    charts = show(digits)
    charts.resize(width, 600)

    def rows():
        return {chart.mapTo(charts, chart.rect().topLeft()).y() for chart in charts.charts}

    qtbot.waitUntil(lambda: len(rows()) == 8 // columns)


def test_the_bar_shows_and_changes_the_view(qtbot, digits, show):
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
    assert charts.view.span is None
    charts.refresh(STEPS, is_over=True)
    assert not bar.follow.isVisible()


LONG = 40_000
SPIKES = {1: 61.0, 27_183: 64.0, LONG: 62.0}
"""Losses of single steps; all others are about 1."""


@pytest.fixture(scope="module")
def long_run():
    plan = RunPlanned(
        total_steps=LONG, epochs=40, train_samples=8000, eval_samples=0, effective_batch=8, device="cpu"
    )
    steps = [
        StepFinished(
            time=number / 10,
            step=number,
            epoch=number / 1000,
            seconds=0.1,
            learning_rate=1e-3,
            samples=8,
            loss=SPIKES.get(number, 1.0 + 0.1 * math.sin(number)),
            grad_norm=SPIKES.get(number, 1.0),
        )
        for number in range(1, LONG + 1)
    ]
    return [RunStarted(time=0.0), plan, *steps]


def test_every_spike_and_the_newest_step_of_a_long_run_are_drawn(long_run, show):
    charts = show(long_run, LONG)
    history = charts.loss.history
    for chart in (charts.loss, charts.gradient_norm):
        x, y = chart._lines[0].item.getData()
        for step, value in SPIKES.items():
            assert np.abs(x[y == value] - step).min() <= 2 * LONG / chart._canvas.columns()
        assert (x[-1], y[-1]) == (LONG, SPIKES[LONG])
    for chart in charts.charts:
        for line in chart._lines:
            x, _ = line.item.getData()
            assert x is None or len(x) <= 2 * chart._canvas.columns() + 1
    for width in (3000.0, 400.0, 3.0):
        middle = history.step_clock.between(27_183)
        charts.view.zoom((middle - width / 2, middle + width / 2))
        charts.loss.redraw()
        x, y = charts.loss._lines[0].item.getData()
        assert np.abs(x[y == 64.0] - 27_183).min() <= 2 * 10 * width / charts.loss._canvas.columns()
