import pytest

from core.base.settings import Appearance
from core.runs.events import StepFinished
from gui.base.theme import Theme
from gui.charts import chart as charts_chart
from gui.charts.axes import SharedView
from gui.charts.chart import (
    HURRIED_TURN_MS,
    LONGEST_TURN_MS,
    PAINTING,
    PERIOD_SECONDS,
    SHARE,
    TURN_MS,
    RepaintQueue,
    Stage,
)
from gui.charts.history import RunHistory
from gui.charts.overlays import Legend, Reading
from gui.charts.training import StepTimeChart
from tests.fakes.charts import legend_of
from tests.fakes.machines import FakeClock


class FakeChart:
    def __init__(self, name, turns, shown=True, clock=None, cost=0.0):
        self.name, self.turns, self.shown, self.clock, self.cost = name, turns, shown, clock, cost

    def redraw(self):
        self.turns.append(self.name)
        if self.clock is not None:
            self.clock.now += self.cost

    def is_shown(self):
        return self.shown


@pytest.fixture
def clock(monkeypatch):
    fake = FakeClock(100.0)
    monkeypatch.setattr(charts_chart, "time", fake)
    return fake


def test_each_turn_redraws_one_visible_chart_in_the_order_of_requests(qtbot):
    turns = []
    queue = RepaintQueue()
    charts = [FakeChart(name, turns, shown=name != "c") for name in "abcd"]
    for chart in (*charts, charts[0]):
        queue.request(chart)
    assert turns == []
    queue._turn.timeout.emit()
    assert turns == ["a"]
    qtbot.waitUntil(lambda: turns == ["a", "b", "d"], timeout=2000)
    qtbot.waitUntil(lambda: not queue._turn.isActive(), timeout=2000)


def test_a_chart_is_redrawn_ten_times_a_second_at_most_and_does_not_hold_up_others(qtbot, clock):
    turns = []
    queue, busy, other = RepaintQueue(), FakeChart("busy", turns), FakeChart("other", turns)
    for tenth in range(100):
        clock.now = 100.0 + tenth / 100
        queue.request(busy)
        queue._turn.timeout.emit()
    assert len(turns) == round(1 / PERIOD_SECONDS)
    queue.request(other)
    queue._turn.timeout.emit()
    assert turns[-1] == "other"
    assert queue._turn.isActive(), "the busy one still waits"


@pytest.mark.parametrize(
    ("cost", "interval"),
    [(0.0, TURN_MS), (0.002, round(1000 * PAINTING * 0.002 / SHARE)), (3.0, LONGEST_TURN_MS)],
)
def test_the_cost_of_a_redraw_delays_the_next_one_unless_hurried(qtbot, clock, cost, interval):
    queue, chart = RepaintQueue(), FakeChart("a", [], clock=clock, cost=cost)
    clock.now += 10.0
    queue.request(chart)
    queue._turn.timeout.emit()
    assert queue._turn.interval() == interval
    queue.hurry()
    assert queue._turn.interval() == HURRIED_TURN_MS
    if cost < 1.0:
        clock.now += 0.2
        queue.request(chart)
        queue._turn.timeout.emit()
        assert queue._turn.interval() == HURRIED_TURN_MS


@pytest.mark.parametrize(("letters", "shows_values"), [(100, True), (31, False)])
def test_a_narrow_legend_names_all_colours_rather_than_cut(qtbot, letters, shows_values):
    legend = Legend()
    qtbot.addWidget(legend)
    readings = [
        Reading("91.2 %", "run", "Accuracy"),
        Reading("90.1 %", "gradients", "F1"),
        Reading("99.9 %", "optimizer", "Top-5 accuracy"),
    ]
    width = legend.fontMetrics().horizontalAdvance("m") * letters
    legend.show_readings(readings, width, Theme(Appearance.LIGHT).tokens)
    text = legend.text().replace("&nbsp;", " ")
    assert ("91.2 %" in text) == shows_values
    assert all(reading.name in text for reading in readings)


@pytest.fixture
def chart(qtbot):
    stage = Stage(Theme(Appearance.LIGHT), RepaintQueue(), SharedView())
    chart = StepTimeChart(stage, RunHistory())
    stage.queue.setParent(chart)
    qtbot.addWidget(chart)
    return chart


def add_steps(chart, seconds):
    for number, value in enumerate(seconds, start=1):
        step = StepFinished(time=number, step=number, epoch=0.1, seconds=value, learning_rate=1e-3, samples=8)
        chart.history.apply(step)


def test_a_single_slow_step_does_not_squash_the_rest(chart):
    add_steps(chart, [6.0, *[0.2] * 200])
    assert chart.y_span((0.2, 6.0)) == pytest.approx((0.0, 0.3))
    assert "longest 6.00 s" in legend_of(chart)


def test_uneven_steps_all_stay_in_the_plot(chart):
    add_steps(chart, [0.1, 0.9, 0.4, 1.2] * 50)
    low, high = chart.y_span((0.1, 1.2))
    assert (low, 1.2 < high < 1.3) == (0.0, True)


def test_a_run_of_one_step_is_a_dot_and_a_run_of_none_says_so(chart):
    assert chart.empty_text() == "No steps yet"
    chart.is_over = True
    assert chart.empty_text() == "No step was made"
    symbols = []
    for steps in ([0.4], [0.4, 0.5]):
        add_steps(chart, steps)
        chart.redraw()
        symbols.append(chart._lines[1].item.opts["symbol"])
    assert symbols == ["o", None]
