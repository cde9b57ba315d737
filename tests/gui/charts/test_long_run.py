"""What a person sees of a long run: every spike, the newest step, and no more points than pixels can show."""

import math

import numpy as np
import pytest

from core.base.settings import Appearance
from core.runs.events import DeviceSampled, MemorySampled, RunPlanned, RunStarted, Source, StepFinished
from gui.base.theme import Theme
from gui.charts.axes import Stretch
from gui.charts.grid import RunCharts
from gui.charts.history import NewsReader, RunHistory

STEPS = 40_000
SPIKES = {1: 61.0, 27_183: 64.0, STEPS: 62.0}
"""Losses of single steps, exact in every format; all others are 1."""


def step(number):
    return StepFinished(
        time=number / 10,
        step=number,
        epoch=number / 1000,
        seconds=0.1,
        learning_rate=1e-3,
        samples=8,
        tokens=64,
        data_seconds=0.01,
        forward_seconds=0.03,
        backward_seconds=0.04,
        optimizer_seconds=0.01,
        loss=SPIKES.get(number, 1.0 + 0.1 * math.sin(number)),
        grad_norm=SPIKES.get(number, 1.0),
    )


@pytest.fixture(scope="module")
def events():
    plan = RunPlanned(
        total_steps=STEPS, epochs=40, train_samples=8000, eval_samples=0, effective_batch=8, device="cpu"
    )
    samples = []
    for second in range(0, STEPS // 10, 2):
        memory = MemorySampled(time=float(second), source=Source.SYSTEM, bytes=9_000_000, ceiling=16_000_000)
        samples += [memory, DeviceSampled(time=float(second), source=Source.SYSTEM, name="CPU", busy=0.5)]
    return [RunStarted(time=0.0), plan, *samples, *map(step, range(1, STEPS + 1))]


@pytest.fixture
def charts(qtbot, events):
    maker, history = NewsReader(), RunHistory()
    maker.add(events)
    for batch in maker.take():
        history.take(batch)
    charts = RunCharts(Theme(Appearance.LIGHT), history)
    qtbot.addWidget(charts)
    charts.resize(1200, 800)
    charts.refresh(STEPS, is_over=True)
    charts.show()
    return charts


def drawn(chart, series):
    """What stands in the picture of one of a chart's series."""
    chart.redraw()
    [line] = [line for line in chart._lines if line.line.series is series][:1]
    return line.item.getData()


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_every_spike_is_drawn_the_newest_step_included(charts, name):
    history = charts.loss.history
    chart = charts.loss if name == "loss" else charts.gradient_norm
    x, y = drawn(chart, getattr(history, name))
    column = STEPS / chart._canvas.columns()
    for step, value in SPIKES.items():
        assert np.abs(x[y == value] - step).min() <= 2 * column
    assert (x[-1], y[-1]) == (STEPS, SPIKES[STEPS])


def test_a_spike_stays_in_the_picture_however_near_one_looks(charts):
    history = charts.loss.history
    for width in (3000.0, 400.0, 3.0):
        middle = history.clock_of_step(27_183)
        charts.view.zoom_to(Stretch(middle - width / 2, middle + width / 2))
        x, y = drawn(charts.loss, history.loss)
        steps_a_column = 10 * width / charts.loss._canvas.columns()
        assert np.abs(x[y == 64.0] - 27_183).min() <= 2 * steps_a_column


def test_no_line_has_more_than_two_points_a_pixel(charts):
    for chart in charts.charts:
        chart.redraw()
        for line in chart._lines:
            x, _ = line.item.getData()
            assert x is None or len(x) <= 2 * chart._canvas.columns() + 1
    assert len(charts.loss._lines[0].item.getData()[0]) > 300
