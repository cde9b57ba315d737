"""All charts of a run together, with invented runs."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel, QToolTip

from core.base import formats
from core.base.settings import Appearance
from core.runs.event_log import EventReader
from core.runs.events import Level, MessageRaised
from gui.base.theme import Theme
from gui.charts.axes import XKind
from gui.charts.grid import RunCharts
from gui.charts.history import BatchBuilder, MarkKind, RunHistory, Smoothing
from tests.fakes.charts import box_at, legend_of
from tests.fakes.runs import Plot, make_folder, make_memory_run, write_events, write_on_card, write_story

STEPS = 360
START = 1_795_230_000.0
EVALUATED = [45.0 * number for number in range(1, 9)]


def events_of(run):
    events = [event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()]
    return sorted(events, key=lambda event: event.time)


def charts_of(run):
    builder, history = BatchBuilder(), RunHistory()
    builder.add(events_of(run))
    for batch in builder.build():
        history.add(batch)
    charts = RunCharts(Theme(Appearance.LIGHT), history)
    charts.resize(900, 900)
    charts.show()
    return charts


def redraw(charts, steps=STEPS, *, is_over=False):
    charts.refresh(steps, is_over=is_over)
    for chart in charts.charts:
        chart.redraw()
    return charts


def close(charts):
    charts.end_work()
    charts.close()
    charts.deleteLater()


@pytest.fixture(scope="module")
def of_digits(qapp, tmp_path_factory):
    run = make_folder(tmp_path_factory.mktemp("digits") / "run")
    write_story(run, Plot(steps=STEPS, reached=STEPS, start=START))
    warned = MessageRaised(time=START + 30.0, id="hot", level=Level.WARNING, title="The GPU is hot")
    write_events(run.machine_file, warned)
    charts = charts_of(run)
    yield charts
    close(charts)


@pytest.fixture
def digits(of_digits):
    """All charts of the digits example, as they open."""
    charts, view = of_digits, of_digits.view
    charts.resize(900, 900)
    charts.showNormal()
    view.set_x_kind(XKind.STEP)
    view.set_smoothing(Smoothing.LIGHT)
    view.set_cursor(None)
    view.zoom(None)
    charts.loss.set_log(False)
    return redraw(charts)


@pytest.fixture(scope="module")
def on_card(qapp, tmp_path_factory):
    """4 minutes on a graphics card, which was synchronized in one step of 20."""
    folder = tmp_path_factory.mktemp("card") / "run"
    run = make_memory_run(folder, lambda run, start, minutes: write_on_card(run, START, 4.0))
    charts = redraw(charts_of(run))
    yield charts
    close(charts)


def x_range(chart):
    chart.redraw()
    return pytest.approx(tuple(chart.canvas.view_box.viewRange()[0]), abs=0.5)


@pytest.mark.parametrize("kind", XKind)
def test_axes_cursor_and_marks_over_steps_epochs_or_time(digits, kind):
    history = digits.loss.history
    end, moment, clock = history.last_clock, history.step_clock.between(200), history.step_clock
    width, cursor, marks = {
        XKind.STEP: (1.015 * STEPS, 200.0, EVALUATED),
        XKind.EPOCH: (1.015 * 8, 200 * 8 / STEPS, range(1, 9)),
        XKind.TIME: (end, moment, clock.interpolate(EVALUATED)),
    }[kind]
    digits.view.set_x_kind(kind)
    for chart in (digits.loss, digits.step_time, digits.throughput, digits.learning_rate):
        assert x_range(chart) == (0.0, width)
    for chart in (digits.memory, digits.device):
        assert x_range(chart) == (0.0, end)
    drawn = {mark: item.data["x"] for mark, item in digits.loss._mark_items._items.items()}
    assert drawn[MarkKind.CHECKPOINT] == pytest.approx(np.array(marks, float))
    assert drawn[MarkKind.EVALUATION] == pytest.approx(np.array(marks, float))
    assert len(drawn[MarkKind.WARNING]) == 1
    digits.view.set_cursor(moment)
    assert legend_of(digits.loss).endswith("step 200")
    assert digits.loss._cursor.value() == pytest.approx(cursor)


def test_the_guide_explains_the_charts_by_their_titles(digits):
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "charts.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \*\*(.+?)\*\*", guide, re.MULTILINE)
    assert sorted(named) == sorted(chart.title for chart in digits.charts)


@pytest.mark.qt_log_ignore("plugin does not support")  # no screen
def test_the_legend_of_step_times_names_its_line_and_all_parts_of_a_narrow_chart(qtbot, digits):
    chart = digits.step_time
    chart.resize(363, 200)  # as in a window of 1024 pixels
    chart._show_legend(chart.readings(None), None, "")
    names = ("recently", "backward", "forward", "optimizer", "pauses")
    shown = chart.legend.text()
    assert [name for name in names if f"●</span>&nbsp;{name}" not in shown] == [], shown
    assert "…" not in chart.legend.text()


@pytest.mark.qt_log_ignore("plugin does not support")  # no screen
def test_parts_of_steps_are_stacked_and_pauses_are_drawn_between(digits):
    chart, parts = digits.step_time, digits.step_time.parts
    assert (np.diff(parts.tops, axis=0) >= 0).all()
    assert parts.tops[-1][-1] == pytest.approx(chart.history.step_seconds.last, rel=1e-5)
    assert "backward 5" in legend_of(chart)
    assert {"data", "forward", "backward", "optimizer", "other"} <= box_at(chart, 50.0).keys()
    assert sorted({*chart.pauses.xData}) == EVALUATED
    assert chart.pauses.yData.max() == pytest.approx(0.6)  # the longer of evaluation and checkpoint
    parts = [one for one in chart.readings(None) if one.value.endswith(" %")]
    assert sum(int(one.value.removesuffix(" %")) for one in parts) == 100, "without the pauses"
    assert re.search(r"pauses \d+ % of the whole time", legend_of(chart))
    paused = {"evaluation after it": "600 ms", "checkpoint after it": "200 ms"}
    assert paused.items() <= box_at(chart, 90.0).items()
    assert "evaluation after it" not in box_at(chart, 91.0)
    digits.loss.canvas.hovered.emit(90.0)
    digits.loss.redraw()
    assert "checkpoint" in QToolTip.text()
    digits.loss.canvas.hovered.emit(None)


def test_a_run_on_a_gpu(on_card, digits):
    step_time, device, throughput = on_card.step_time, on_card.device, on_card.throughput
    assert 0 < len(step_time.parts.x) < len(step_time.history.step_seconds) / 15
    on_card.view.zoom((40.0, 60.0))
    step_time.redraw()
    assert set(step_time.parts.x % 20) == {0.0}, "only synchronized steps are stacked"
    assert set(box_at(step_time, 21.0)) == {"step", "epoch", "after", "step time", "data"}
    on_card.view.zoom(None)
    device.redraw()
    power = next(drawn for drawn in device.drawn if drawn.line.column == "power_watts")
    assert power.item.yData.max() == pytest.approx(100 * 348 / 350, rel=0.01), "in percent of its limit"
    assert device.band.isVisible()
    values = box_at(device, 0.55 * 240)
    assert values["held back by"] == "great heat"
    assert values["power"].endswith("of 350 W")
    assert "held back by" not in box_at(device, 200.0)
    assert "examples/s · " in legend_of(throughput)
    throughput.count_tokens(True)
    throughput.redraw()
    assert throughput.drawn[0].item.yData.max() > 5000
    digits.throughput.count_tokens(True)
    digits.throughput.redraw()
    assert digits.throughput.empty_text() == "This run has no tokens"
    digits.throughput.count_tokens(False)


@pytest.mark.parametrize(("step", "evaluated"), [(44, None), (45, 45), (89, 45), (STEPS, STEPS)])
def test_the_evaluation_at_the_cursor_is_never_a_later_one(digits, step, evaluated):
    history = digits.loss.history
    digits.view.set_cursor(history.step_clock.between(step))
    expected = None if evaluated is None else formats.loss(history.eval_loss.at(evaluated))
    assert box_at(digits.loss, float(step)).get("validation") == expected
    assert ("validation" in legend_of(digits.loss)) == (evaluated is not None)


def test_the_y_axis_fits_what_is_seen_and_may_be_logarithmic(digits):
    history, loss = digits.loss.history, digits.loss
    digits.view.zoom((history.step_clock.between(300), history.step_clock.between(310)))
    loss.redraw()
    assert (
        loss.canvas.view_box.viewRange()[1][1]
        < 3 * history.loss.y[299:310].max()
        < history.loss.extremes()[1]
    )
    digits.view.zoom(None)
    loss.set_log(True)
    loss.redraw()
    heights, (low, high) = loss.drawn[0].item.yData, loss.canvas.view_box.viewRange()[1]
    assert np.nanmax(heights) == pytest.approx(np.log10(history.loss.extremes()[1]))
    assert low <= np.nanmin(heights)
    assert "1" in loss.canvas.y_axis.texts_between(low, high, 200)
    digits.memory.set_log(True)
    assert not digits.memory.is_log


def test_new_steps_cost_a_chart_nothing_until_it_is_its_turn(digits, monkeypatch):
    asked = []
    monkeypatch.setattr(digits.loss, "wanted_lines", lambda: asked.append("lines") or [])
    digits.refresh(STEPS, is_over=False)
    assert not asked
    redraw(digits)
    assert asked == ["lines"]


def test_smoothing_changes_what_is_drawn_and_not_what_is_read(digits):
    history, drawn = digits.loss.history, {}
    assert "smoothed" in legend_of(digits.loss)
    for smoothing in Smoothing:
        digits.view.set_smoothing(smoothing)
        digits.loss.redraw()
        drawn[smoothing] = [line.series for line in digits.loss.lines]
    assert drawn[Smoothing.OFF] == [history.loss, history.eval_loss]
    assert drawn[Smoothing.STRONG] == [history.loss, history.smoother_loss, history.eval_loss]
    digits.view.set_cursor(history.step_clock.between(100))
    assert f"train {history.loss.at(100):.3g}" in legend_of(digits.loss)


def test_a_chart_is_saved_as_a_table_or_an_image_and_copied(digits, tmp_path):
    history = digits.loss.history
    digits.view.zoom((history.step_clock.between(41), history.step_clock.between(50)))
    digits.loss.save_table(tmp_path / "loss.csv")
    digits.view.zoom(None)
    digits.memory.save_table(tmp_path / "memory.csv")
    digits.end_work()
    rows = list(csv.DictReader((tmp_path / "loss.csv").open()))
    assert [int(row["step"]) for row in rows] == list(range(41, 51))
    assert float(rows[4]["train_loss"]) == pytest.approx(history.loss.at(45), rel=1e-6)
    assert [row["eval_loss"] != "" for row in rows] == [step == 45 for step in range(41, 51)]
    assert float(rows[4]["seconds"]) == pytest.approx(history.step_clock.between(45), rel=1e-6)
    header = next(csv.reader((tmp_path / "memory.csv").open()))
    assert header == ["seconds", "all_programs_bytes", "this_run_bytes"]
    digits.loss.copy_image()
    assert QGuiApplication.clipboard().image().width() == 2 * digits.loss.width()
    digits.loss.save_image(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 0


def test_a_file_that_cannot_be_saved_is_a_message_in_plain_text(qtbot, digits, tmp_path):
    digits.loss.save_table(tmp_path / "<b>" / "loss.csv")
    qtbot.waitUntil(lambda: QApplication.activeModalWidget() is not None)
    box = QApplication.activeModalWidget()
    assert str(tmp_path / "<b>") in box.informativeText()
    shown = [label for label in box.findChildren(QLabel) if "<b>" in label.text()]
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in shown)
    box.close()


def test_the_bar_shows_and_changes_the_view(qtbot, digits):
    bar, view = digits.bar, digits.view
    assert bar.show_all.isHidden()
    qtbot.mouseClick(bar.x_kind.buttons()[XKind.TIME], Qt.MouseButton.LeftButton)
    assert view.x_kind is XKind.TIME
    qtbot.mouseClick(bar.follow, Qt.MouseButton.LeftButton)
    assert (view.follows, bar.show_all.isVisible()) == (True, True)
    digits.loss.canvas.selected.emit(10.0, 20.0)
    assert not bar.follow.isChecked()
    qtbot.mouseClick(bar.show_all, Qt.MouseButton.LeftButton)
    assert view.span is None
    digits.refresh(STEPS, is_over=True)
    assert not bar.follow.isVisible()


def test_charts_are_drawn_when_they_are_scrolled_into_view(qtbot, digits):
    digits.resize(900, 420)
    last = digits.gradient_norm
    qtbot.waitUntil(lambda: not last.is_shown())
    digits.view.zoom((10.0, 20.0))
    qtbot.waitUntil(lambda: not digits.queue.waiting)
    before = last.canvas.view_box.viewRange()[0]
    bar = digits.area.verticalScrollBar()
    bar.setValue(bar.maximum())
    qtbot.waitUntil(lambda: last.canvas.view_box.viewRange()[0] != before)


def test_a_live_run_is_shown_large_enough_and_one_that_is_over_to_its_end(digits):
    for is_over, width in ((False, 1.015 * 100_000 / 2**6), (True, 1.015 * STEPS)):
        digits.refresh(100_000, is_over=is_over)
        assert x_range(digits.loss) == (0.0, width)
