import math

import numpy as np
import pytest
from PySide6.QtGui import QColor

from core.base.settings import Appearance
from core.runs.event_log import EventReader
from core.runs.events import Phase, PhaseChanged, RunStarted
from gui.base.theme import Theme
from gui.base.tokens import DARK, LIGHT
from gui.charts.axes import SharedView
from gui.charts.chart import RepaintQueue, Stage
from gui.charts.history import RunHistory
from gui.charts.machine import HELD, WHOLE, MemoryChart
from gui.charts.overlays import first_phases, level_spans, placed_moments
from gui.charts.series import mixed
from tests.fakes.charts import box_at, legend_of
from tests.fakes.runs import FIRST_STEP, LOADED, make_folder, write_on_card, write_paging

MINUTES = 4.0
PAGING_FROM = 0.8 * MINUTES * 60
PHASES = [
    (1.0, Phase.LOADING_DATA),
    (10.0, Phase.LOADING_MODEL),
    (20.0, Phase.TRAINING),
    (50.0, Phase.EVALUATING),
]


@pytest.fixture
def theme(qapp):
    return Theme(Appearance.LIGHT)


@pytest.fixture
def chart(qtbot, theme):
    stage = Stage(theme, RepaintQueue(), SharedView())
    chart = MemoryChart(stage, RunHistory())
    stage.queue.setParent(chart)  # as on the page: whoever draws goes away together with its turns
    qtbot.addWidget(chart)
    chart.resize(700, 260)
    chart.show()
    qtbot.waitExposed(chart)
    return chart


@pytest.fixture
def tell(tmp_path, chart):
    """Has an invented run told to the chart, and the chart drawn."""

    def told(write):
        run = make_folder(tmp_path / "run")
        write(run, 1000.0, MINUTES)
        events = [
            event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()
        ]
        for event in sorted(events, key=lambda event: event.time):
            chart.history.apply(event)
        chart.refresh()
        chart.redraw()

    return told


def pixel(chart, clock, gigabytes):
    """The colour of the picture at a moment and a height."""
    canvas = chart._canvas
    scene = canvas._view.mapViewToScene(canvas._view.mapToView(canvas._view.rect().center()))
    scene.setX(canvas.pixel_of(clock))
    low, high = canvas._view.viewRange()[1]
    box = canvas.plot_area()
    scene.setY(box.bottom() - (gigabytes * (1 << 30) - low) / (high - low) * box.height())
    return canvas.grab().toImage().pixelColor(canvas.mapFromScene(scene))


def alike(found, wanted):
    return all(abs(a - b) <= 3 for a, b in zip(found.getRgb()[:3], wanted.getRgb()[:3], strict=True))


@pytest.mark.parametrize("appearance", [Appearance.LIGHT, Appearance.DARK])
def test_the_bands_lie_one_on_the_other_under_the_ceilings(chart, theme, tell, appearance):
    tell(write_paging)
    theme.set_appearance(appearance)
    chart.redraw()
    tokens = DARK if appearance is Appearance.DARK else LIGHT
    clock = 0.92 * MINUTES * 60
    tops = [series.at(clock) / (1 << 30) for series in (
        chart.history.memory.picture.tensors, chart.history.memory.picture.held,
        chart.history.memory.picture.run, chart.history.memory.picture.used,
    )]  # fmt: skip
    run, surface = QColor(tokens.run), QColor(tokens.surface)
    assert alike(pixel(chart, clock, 0.5 * tops[0]), run)
    assert alike(pixel(chart, clock, (tops[1] + tops[0]) / 2), mixed(run, surface, HELD))
    assert alike(pixel(chart, clock, (tops[2] + tops[1]) / 2), mixed(run, surface, WHOLE))
    assert alike(pixel(chart, clock, tops[2] + 0.8 * (tops[3] - tops[2])), QColor(tokens.others))
    assert alike(pixel(chart, 3.0, 13.0), surface), "free"
    assert alike(pixel(chart, clock, 0.15), QColor(tokens.bad)), "pressure is critical"
    assert chart._ceiling.isVisible()
    assert chart._ceiling.value() == 16 << 30
    assert chart._limit.value() == int(10.7 * (1 << 30))
    theme.set_appearance(Appearance.LIGHT)


def test_the_legend_has_what_matters_and_the_box_has_all(chart, tell):
    tell(write_paging)
    assert "pressure critical" in legend_of(chart)
    assert "swap" in legend_of(chart)
    values = box_at(chart, 20.0)
    assert list(values) == [
        "at", "phase", "this run", "others", "swap", "free", "tensors", "held", "compressed",
    ]  # fmt: skip
    assert (values["at"], values["phase"], values["swap"]) == ("20 s", "loading the model", "307 MB")


def test_a_card_is_drawn_with_the_computers_memory_as_a_reading(chart, tell):
    tell(write_on_card)
    assert box_at(chart, 60.0)["main memory"] == "9.10 GB"
    assert "swap" not in legend_of(chart)
    assert chart._ceiling.value() == 24 << 30
    assert not chart._limit.isVisible()
    assert not chart._band.isVisible()


def test_the_box_stands_at_the_mouse_only_and_within_the_picture(chart, tell):
    tell(write_paging)
    for clock in (1.0, 0.5 * MINUTES * 60, 0.99 * MINUTES * 60):
        chart._canvas.hovered.emit(clock)
        chart.redraw()
        assert chart._box.isVisible()
        assert chart._canvas.plot_area().left() <= chart._box.x()
        assert chart._box.x() + chart._box.boundingRect().width() <= chart._canvas.plot_area().right() + 1
    chart._canvas.hovered.emit(None)
    chart.redraw()
    assert not chart._box.isVisible()


def test_loading_is_in_the_picture_from_the_first_second(chart, tell):
    tell(write_paging)
    chart._view.zoom((0.0, 60.0))
    chart.redraw()
    shown = {line.label.format: line.value() for line in chart._moments._lines if line.isVisible()}
    assert shown["loading the model"] == pytest.approx(LOADED, abs=0.5)
    assert shown["first step"] == pytest.approx(FIRST_STEP, abs=0.5)
    assert chart.history.memory.picture.used.x[0] < 1.0


@pytest.mark.parametrize(
    ("first", "columns", "taken", "shown"),
    [
        (0, 2000, 0, [(20.0, "first step"), (10.0, "loading the model"), (1.0, "loading the data")]),
        (0, 1000, 0, [(20.0, "first step"), (10.0, ""), (1.0, "")]),
        (0, 50, 0, [(20.0, "")]),
        (0, 20, 0, []),
        (2, 200, 60, [(20.0, "first step")]),
        (2, 200, 100, [(20.0, "")]),
    ],
)
def test_moments_without_space_have_no_text_and_then_no_line(first, columns, taken, shown):
    moments = first_phases(PHASES)[first:]
    assert placed_moments(moments, (0.0, 100.0), columns, lambda text: 6 * len(text), taken) == shown


def test_pressure_stands_until_the_next_sample():
    x = np.arange(8.0)
    levels = np.array([0.0, 1.0, 1.0, math.nan, 2.0, 2.0, 0.0, 1.0])
    begins, ends, values = level_spans(x, levels)
    assert begins.tolist() == [1.0, 4.0, 7.0]
    assert ends.tolist() == [3.0, 6.0, 8.0]
    assert values.tolist() == [1.0, 2.0, 1.0]
    assert [len(part) for part in level_spans(np.array([]), np.array([]))] == [0, 0, 0]


def test_an_unmeasured_run_says_so(chart):
    chart.history.apply(RunStarted(time=1.0))
    chart.history.apply(PhaseChanged(time=2.0, phase=Phase.LOADING_DATA))
    assert chart.empty_text() == "Not measured yet"
    assert chart.history.phase_at(0.5) is None
    assert chart.history.phase_at(1.5) is Phase.LOADING_DATA
