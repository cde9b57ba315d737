import pytest

from core.base.settings import Appearance
from core.runs.events import StepFinished
from gui.base.theme import Theme
from gui.charts.axes import SharedView
from gui.charts.chart import RepaintQueue, Stage
from gui.charts.history import RunHistory
from gui.charts.training import StepTimeChart


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
