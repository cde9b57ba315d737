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
from tests.fakes.clock import FakeClock


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


def test_each_turn_redraws_one_chart_in_the_order_of_asking(qtbot):
    turns = []
    queue = RepaintQueue()
    charts = [FakeChart(name, turns) for name in "abcd"]
    for chart in (*charts, charts[0]):
        queue.request(chart)
    assert turns == []
    queue._turn.timeout.emit()
    assert turns == ["a"]
    qtbot.waitUntil(lambda: turns == ["a", "b", "c", "d"], timeout=2000)


def test_hidden_charts_cost_nothing(qtbot):
    turns = []
    queue = RepaintQueue()
    for chart in (FakeChart("hidden", turns, shown=False), FakeChart("seen", turns)):
        queue.request(chart)
    qtbot.waitUntil(lambda: turns == ["seen"], timeout=2000)
    qtbot.waitUntil(lambda: not queue._turn.isActive(), timeout=2000)


def test_no_chart_is_redrawn_more_often_than_ten_times_a_second(qtbot, clock):
    turns = []
    queue, chart = RepaintQueue(), FakeChart("a", turns)
    for tenth in range(100):
        clock.now = 100.0 + tenth / 100
        queue.request(chart)
        queue._turn.timeout.emit()
    assert len(turns) == round(1 / PERIOD_SECONDS)


def test_who_was_drawn_just_now_does_not_hold_up_the_others(qtbot, clock):
    turns = []
    queue, busy, other = RepaintQueue(), FakeChart("busy", turns), FakeChart("other", turns)
    queue.request(busy)
    queue._turn.timeout.emit()
    for chart in (busy, other):
        queue.request(chart)
    queue._turn.timeout.emit()
    assert turns == ["busy", "other"]
    assert queue._turn.isActive(), "the busy one still waits"


def test_what_a_redraw_costs_makes_the_next_turn_wait_unless_somebody_hurries(qtbot, clock):
    turns = []
    queue = RepaintQueue()
    cheap, dear = FakeChart("cheap", turns, clock=clock), FakeChart("dear", turns, clock=clock, cost=0.004)
    clock.now += 10.0
    queue.request(dear)
    queue._turn.timeout.emit()
    assert queue._turn.interval() == round(1000 * PAINTING * 0.004 / SHARE)
    queue.hurry()
    assert queue._turn.interval() == HURRIED_TURN_MS
    clock.now += 0.2
    queue.request(dear)
    queue._turn.timeout.emit()
    assert queue._turn.interval() == HURRIED_TURN_MS
    clock.now += 10.0
    queue.request(cheap)
    queue._turn.timeout.emit()
    assert queue._turn.interval() == TURN_MS


def test_a_hiccup_does_not_stop_the_drawing(qtbot, clock):
    queue = RepaintQueue()
    clock.now += 10.0
    queue.request(FakeChart("slow", [], clock=clock, cost=3.0))
    queue._turn.timeout.emit()
    assert queue._turn.interval() == LONGEST_TURN_MS


READINGS = [
    Reading("Accuracy 91.2 %", "run", "Accuracy"),
    Reading("F1 90.1 %", "gradients", "F1"),
    Reading("Top-5 accuracy 99.9 %", "optimizer", "Top-5 accuracy"),
]


@pytest.fixture
def shown(qtbot):
    legend = Legend()
    qtbot.addWidget(legend)
    tokens = Theme(Appearance.LIGHT).tokens

    def show(lines):
        room = legend.fontMetrics().horizontalAdvance("m") * lines
        legend.show_readings(READINGS, room, tokens)
        return legend.text().replace("&nbsp;", " ")

    return show


def test_every_dot_is_named_before_its_figure_is_told(shown):
    assert "91.2 %" in shown(100)
    narrow = shown(31)
    assert "%" not in narrow
    assert all(reading.name in narrow for reading in READINGS)


@pytest.fixture
def chart(qtbot):
    stage = Stage(Theme(Appearance.LIGHT), RepaintQueue(), SharedView())
    chart = StepTimeChart(stage, RunHistory())
    stage.queue.setParent(chart)  # as on the page: whoever draws goes away together with its turns
    qtbot.addWidget(chart)
    return chart


def take(chart, seconds):
    for number, value in enumerate(seconds, start=1):
        step = StepFinished(time=number, step=number, epoch=0.1, seconds=value, learning_rate=1e-3, samples=8)
        chart.history.apply(step)


def test_a_lone_slow_step_does_not_squash_the_rest(chart):
    take(chart, [6.0, *[0.2] * 200])
    assert chart.y_span((0.2, 6.0)) == pytest.approx((0.0, 0.3))
    assert "longest 6.00 s" in chart.legend_text


def test_uneven_steps_all_stay_in_the_picture(chart):
    take(chart, [0.1, 0.9, 0.4, 1.2] * 50)
    low, high = chart.y_span((0.1, 1.2))
    assert (low, 1.2 < high < 1.3) == (0.0, True)


def test_a_run_of_one_step_is_a_dot_and_a_run_of_none_says_so(chart):
    assert chart.empty_text() == "No steps yet"
    chart.is_over = True
    assert chart.empty_text() == "No step was made"
    take(chart, [0.4])
    chart.redraw()
    median = chart._lines[1].item
    assert median.opts["symbol"] == "o"
    take(chart, [0.4, 0.5])
    chart.redraw()
    assert median.opts["symbol"] is None
