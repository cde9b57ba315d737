"""Turns of charts that are redrawn, the legend, and the charts of step times, the loss and the evaluations."""

import pytest

from core.base.settings import Appearance
from core.runs.events import Evaluated, StepFinished
from gui.base.theme import Theme
from gui.charts import chart as charts_chart
from gui.charts.axes import SharedView
from gui.charts.chart import HURRIED_TURN_MS, LONGEST_TURN_MS, PAINTING, SHARE, TURN_MS, RepaintQueue, Stage
from gui.charts.history import MarkKind
from gui.charts.overlays import MARK_LOOKS
from gui.charts.training import LossChart, MetricsChart, StepTimeChart
from tests.fakes.charts import EventHistory, legend_of
from tests.fakes.machines import FakeClock


class FakeChart:
    def __init__(self, name, turns, *, shown=True, clock=None, cost=0.0):
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
    queue, turns = RepaintQueue(), []
    charts = [FakeChart(name, turns, shown=name != "c") for name in "abcd"]
    for chart in (*charts, charts[0]):
        queue.request(chart)
    assert turns == []
    queue.turn.timeout.emit()
    assert turns == ["a"]
    qtbot.waitUntil(lambda: not queue.turn.isActive())
    assert turns == ["a", "b", "d"]


def test_a_chart_is_redrawn_ten_times_a_second_at_most_and_does_not_hold_up_others(qtbot, clock):
    queue, turns = RepaintQueue(), []
    busy, other = FakeChart("busy", turns), FakeChart("other", turns)
    for hundredth in range(100):
        clock.now = 100.0 + hundredth / 100
        queue.request(busy)
        queue.turn.timeout.emit()
    assert len(turns) == 10
    queue.request(other)
    queue.turn.timeout.emit()
    assert turns[-1] == "other"
    assert queue.turn.isActive(), "the busy one still waits"


@pytest.mark.parametrize(
    ("cost", "interval"),
    [(0.0, TURN_MS), (0.002, round(1000 * PAINTING * 0.002 / SHARE)), (3.0, LONGEST_TURN_MS)],
)
def test_the_cost_of_a_redraw_delays_the_next_one_unless_hurried(qtbot, clock, cost, interval):
    queue, chart = RepaintQueue(), FakeChart("a", [], clock=clock, cost=cost)
    clock.now += 10.0
    queue.request(chart)
    queue.turn.timeout.emit()
    assert queue.turn.interval() == interval
    queue.hurry()
    assert queue.turn.interval() == HURRIED_TURN_MS


def chart_of(qtbot, kind):
    stage = Stage(Theme(Appearance.LIGHT), RepaintQueue(), SharedView())
    chart = kind(stage, EventHistory())
    stage.queue.setParent(chart)
    qtbot.addWidget(chart)
    return chart


@pytest.fixture
def chart(qtbot):
    return chart_of(qtbot, StepTimeChart)


def add_steps(chart, seconds):
    first = 1 + len(chart.history.step_seconds)
    for step, value in enumerate(seconds, start=first):
        figures = {"epoch": 0.1, "learning_rate": 1e-3, "samples": 8}
        chart.history.apply(StepFinished(time=step, step=step, seconds=value, **figures))


def test_a_single_slow_step_does_not_squash_the_rest_and_uneven_steps_all_fit(chart):
    add_steps(chart, [6.0, *[0.2] * 200])
    assert chart.y_span((0.2, 6.0)) == pytest.approx((0.0, 0.3))
    assert "longest 6.00 s" in legend_of(chart)
    add_steps(chart, [0.1, 0.9, 0.4, 1.2] * 400)
    assert chart.y_span((0.1, 1.2))[1] > 1.2


def test_a_run_of_no_step_says_so_and_one_step_is_a_dot(chart):
    assert chart.empty_text() == "No steps yet"
    chart.is_over = True
    assert chart.empty_text() == "No step was made"
    for symbol in ("o", None):
        add_steps(chart, [0.4])
        chart.redraw()
        assert chart.drawn[1].item.opts["symbol"] == symbol


def test_a_spike_and_the_newest_step_of_a_long_run_are_drawn(chart):
    add_steps(chart, [*[0.2] * 3000, 64.0, *[0.2] * 3000, 0.3])
    chart.redraw()
    x, y = chart.drawn[0].item.getData()
    columns = chart.canvas.columns()
    assert len(x) <= 2 * columns + 1
    assert abs(x[y == 64.0] - 3001).min() <= 2 * 6002 / columns
    assert (x[-1], y[-1]) == pytest.approx((6002, 0.3))


def evaluate(chart, evaluations, **figures):
    for step, metrics in evaluations:
        chart.history.apply(Evaluated(time=step, step=step, epoch=1.0, metrics=metrics, seconds=1.0))
    chart.refresh()
    chart.redraw()


FALLING = [2.6 / (1 + 0.05 * step) for step in range(200)]
OVERFITTED = [max(0.02, 2.5 - 0.03 * step) for step in range(200)]


@pytest.mark.parametrize(
    ("losses", "evaluated", "top", "marked"),
    [
        (FALLING, [17.7], 3.0, [10]),
        (FALLING, [17.7, 0.5, 0.4], 3.0, [10]),
        (FALLING, [1.1, 0.5, 0.4], 3.0, []),
        (OVERFITTED, [0.9, 1.4, 2.1, 3.5], 4.0, []),
        ([], [17.7, 0.5], 40.0, []),
    ],
)
def test_an_outlier_is_marked_at_the_edge_and_does_not_flatten_the_loss(
    qtbot, losses, evaluated, top, marked
):
    chart = chart_of(qtbot, LossChart)
    for step, loss in enumerate(losses, start=1):
        figures = {"epoch": 0.1, "learning_rate": 1e-3, "samples": 8}
        chart.history.apply(StepFinished(time=step, step=step, seconds=0.2, loss=loss, **figures))
    evaluate(chart, [(10 + 60 * place, {"eval_loss": loss}) for place, loss in enumerate(evaluated)])
    highest = max([*losses, *evaluated])
    assert chart.canvas.view_box.viewRange()[1][1] <= top
    assert chart.outliers.isVisible() == bool(marked)
    assert not marked or list(chart.outliers.data["x"]) == marked
    chart.show_all(True)
    chart.redraw()
    assert chart.canvas.view_box.viewRange()[1][1] >= highest
    assert not chart.outliers.isVisible()


@pytest.mark.parametrize(
    ("metrics", "legend", "ticks"),
    [
        ({"eval_accuracy": 0.9, "eval_f1": 0.8, "eval_loss": 0.4}, "Accuracy 90.0 % · F1 80.0 %", " %"),
        ({"eval_perplexity": 519.0, "eval_loss": 6.25}, "Perplexity 519", ""),
        (
            {"eval_pearson": 0.7, "eval_spearman": -0.1, "eval_mae": 3.0},
            "Pearson 0.700 · Spearman -0.100",
            "",
        ),
        ({"eval_loss": 2.5}, "Loss 2.50", ""),
    ],
)
def test_the_evaluation_chart_shows_the_metric_by_which_a_run_is_judged(qtbot, metrics, legend, ticks):
    chart = chart_of(qtbot, MetricsChart)
    evaluate(chart, [(10, metrics), (20, metrics)])
    chart.resize(900, 200)
    assert chart.empty_text() == ""
    assert legend_of(chart) == legend
    texts = chart.canvas.y_axis.texts_between(*chart.canvas.view_box.viewRange()[1], 200)
    assert all(text.endswith(ticks) and ("%" in text) == bool(ticks) for text in texts)


@pytest.mark.parametrize(("accuracies", "is_room"), [((0.6, 1.0), True), ((0.6, 0.97), False)])
def test_a_dot_at_the_edge_of_the_plot_is_not_cut(qtbot, accuracies, is_room):
    chart = chart_of(qtbot, MetricsChart)
    chart.resize(400, 200)
    add_steps(chart, [0.2] * 20)
    evaluate(chart, [(step, {"eval_accuracy": one}) for step, one in zip((5, 15), accuracies, strict=True)])
    high = chart.canvas.view_box.viewRange()[1][1]
    assert (high > 1.0) == is_room
    assert high < 1.1


def test_metrics_are_told_apart_by_shape_and_equal_ones_show_round_each_other(qtbot):
    chart = chart_of(qtbot, MetricsChart)
    metrics = {"eval_accuracy": 0.9, "eval_f1": 0.9, "eval_precision": 0.9, "eval_recall": 0.9}
    chart.history.apply(Evaluated(time=1.0, step=1, epoch=1.0, seconds=0.1, metrics=metrics))
    legend_of(chart)
    looks = [(drawn.item.opts["symbol"], drawn.item.opts["symbolSize"]) for drawn in chart.drawn]
    assert len({symbol for symbol, _size in looks}) == len(looks) == 4
    sizes = [size for _symbol, size in looks]
    assert sizes == sorted(sizes, reverse=True)  # the smallest is drawn last, on top
    for shape in "●■◆▼":
        assert shape in chart.legend.text() or shape in chart.legend.toolTip() or chart.width() < 700


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_a_line_is_as_thick_on_a_fine_screen(qtbot, monkeypatch, ratio):
    chart = chart_of(qtbot, LossChart)
    monkeypatch.setattr(chart.canvas, "devicePixelRatioF", lambda: ratio)
    for step in (1, 2, 3):
        chart.history.apply(
            StepFinished(
                time=step, step=step, seconds=0.1, epoch=0.1, learning_rate=1e-3, samples=8, loss=1.0
            )
        )
    chart.redraw()
    assert {drawn.item.opts["pen"].widthF() for drawn in chart.drawn} == {ratio}
    assert chart.picture().devicePixelRatio() == 2
    assert {drawn.item.opts["pen"].widthF() for drawn in chart.drawn} == {2.0}


def test_marks_at_the_same_step_do_not_cover_each_other():
    checkpoint, evaluation = MARK_LOOKS[MarkKind.CHECKPOINT], MARK_LOOKS[MarkKind.EVALUATION]
    assert evaluation.inset - evaluation.size / 2 > checkpoint.inset + checkpoint.size / 2


def test_no_steps_yet_stands_as_high_in_every_chart(qtbot):
    heights = set()
    for kind in (LossChart, StepTimeChart):
        chart = chart_of(qtbot, kind)
        chart.resize(400, 220)
        chart.is_over = None
        chart.show()
        chart.is_over = False
        chart.redraw()
        chart.canvas.layout().activate()
        heights.add(chart.empty.mapTo(chart, chart.empty.rect().center()).y())
    assert max(heights) - min(heights) <= 1
