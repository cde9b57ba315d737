"""The chart of memory: areas, ceilings, legend, the box at the cursor, pressure."""

import math

import numpy as np
import pytest
from PySide6.QtWidgets import QToolTip

from core.base.settings import Appearance
from core.runs.event_log import EventReader
from core.runs.events import MemorySampled, RunStarted, Source
from gui.base.theme import Theme
from gui.charts.axes import SharedView
from gui.charts.chart import RepaintQueue, Stage
from gui.charts.grid import MemoryChart
from gui.charts.overlays import level_spans
from gui.charts.series import Look
from tests.fakes.charts import EventHistory, box_at, legend_of
from tests.fakes.runs import make_folder, write_on_card, write_paging

MINUTES = 4.0
SECONDS = 60 * MINUTES


@pytest.fixture
def chart(qtbot):
    stage = Stage(Theme(Appearance.LIGHT), RepaintQueue(), SharedView())
    chart = MemoryChart(stage, EventHistory())
    stage.queue.setParent(chart)
    qtbot.addWidget(chart)
    chart.resize(700, 260)
    chart.show()
    qtbot.waitExposed(chart)
    return chart


def draw(chart, folder, write):
    """Draw an invented run."""
    run = make_folder(folder / "run")
    write(run, 1000.0, MINUTES)
    events = [event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()]
    for event in sorted(events, key=lambda event: event.time):
        chart.history.apply(event)
    chart.refresh()
    chart.redraw()


@pytest.mark.qt_log_ignore("plugin does not support")  # no screen
def test_memory_that_is_paged_out(qtbot, chart, tmp_path):
    assert chart.empty_text() == "Not measured yet"
    draw(chart, tmp_path, write_paging)
    assert "pressure critical" in legend_of(chart)
    assert "swap" in legend_of(chart)
    values = box_at(chart, 20.0)
    machine = ["this run", "swap", "free", "other programs", "tensors", "held", "compressed"]
    assert list(values) == ["at", "phase", *machine]
    assert (values["at"], values["phase"], values["swap"]) == ("20 s", "Loading the model", "307 MB")
    assert chart.ceiling.isVisible()
    assert chart.ceiling.value() == 16 << 30
    assert chart.limit.value() == int(10.7 * (1 << 30))

    picture, areas = chart.history.memory.picture, [line for line in chart.lines if line.look is Look.AREA]
    bands = picture.used, picture.run, picture.held, picture.tensors
    assert [area.series for area in areas] == list(bands), "each is drawn over the larger one"
    assert chart.band.isVisible()

    for hovered in (1.0, 0.5 * SECONDS, 0.99 * SECONDS):
        chart.canvas.hovered.emit(hovered)
        chart.redraw()
        assert "compressed" in QToolTip.text()
    chart.canvas.hovered.emit(None)
    chart.redraw()
    qtbot.waitUntil(lambda: not QToolTip.isVisible(), timeout=2000)

    assert picture.used.x[0] < 1.0, "loading is in the picture from the first second"


def test_a_card_is_drawn_with_the_computers_memory_as_a_reading(chart, tmp_path):
    draw(chart, tmp_path, write_on_card)
    assert box_at(chart, 60.0)["main memory"] == "9.10 GB"
    assert "swap" not in legend_of(chart)
    assert chart.ceiling.value() == 24 << 30
    assert not chart.limit.isVisible()
    assert not chart.band.isVisible()


def test_the_axis_fits_a_run_that_takes_little_of_the_memory(chart):
    chart.history.apply(RunStarted(time=99.0))
    for second, own in enumerate((0.2, 0.8)):
        for source, size in ((Source.PROCESS, own), (Source.SYSTEM, 6.0)):
            sample = MemorySampled(
                time=100.0 + second, source=source, bytes=int(size * 2**30), ceiling=24 << 30
            )
            chart.history.apply(sample)
    chart.refresh()
    chart.redraw()
    assert chart.canvas.view_box.viewRange()[1][1] <= 2**30
    assert not chart.ceiling.isVisible()
    assert "5.20 GB" in legend_of(chart)


def test_pressure_lasts_until_the_next_sample():
    levels = np.array([0.0, 1.0, 1.0, math.nan, 2.0, 2.0, 0.0, 1.0])
    begins, ends, values = level_spans(np.arange(8.0), levels)
    assert begins.tolist() == [1.0, 4.0, 7.0]
    assert ends.tolist() == [3.0, 6.0, 8.0]
    assert values.tolist() == [1.0, 2.0, 1.0]
    assert [len(part) for part in level_spans(np.array([]), np.array([]))] == [0, 0, 0]
