import math

import pytest
from PySide6.QtGui import QFont, QFontMetrics

from core.base.formats import memory_tick
from gui.charts import axes
from gui.charts.axes import (
    CLOCK,
    TEXT_OFFSET,
    VALUES,
    AxisUnit,
    Canvas,
    RoundAxis,
    SharedView,
    XKind,
    clock_step,
    clock_text,
    decimal_step,
    memory_step,
    whole_step,
)


@pytest.mark.parametrize(
    ("rule", "span", "ticks", "step"),
    [
        (decimal_step, 2.3, 5, 0.5),
        (decimal_step, 97, 5, 20),
        (decimal_step, 1000, 10, 100),
        (whole_step, 2, 8, 1),
        (memory_step, 16 * 1024**3, 4, 5 * 1024**3),
        (memory_step, 900 * 1024**2, 5, 200 * 1024**2),
        (clock_step, 60, 4, 15),
        (clock_step, 86_400 * 30, 4, 86_400 * 8),
    ],
)
def test_ticks_are_round(rule, span, ticks, step):
    assert rule(span, ticks) == pytest.approx(step)


def test_clock_texts():
    texts = {0: "0", 30: "30 s", 90: "1:30", 300: "5 min", 3600: "1 h", 5400: "1 h 30"}
    assert {seconds: clock_text(seconds) for seconds in texts} == texts


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (6.9781, 6.9784, ["6.978", "6.9781", "6.9782", "6.9783", "6.9784"]),
        (0.5, 2.0, ["0.5", "1", "1.5", "2"]),
    ],
)
def test_ticks_of_close_values_differ(qapp, low, high, texts):
    shown = RoundAxis("left", VALUES).texts_between(low, high, 140)
    assert len(set(shown)) == len(shown) > 1
    assert set(shown) <= set(texts)


@pytest.fixture
def make_canvas(qtbot):
    def make(rule, write):
        canvas = Canvas(RoundAxis("bottom", CLOCK), RoundAxis("left", AxisUnit(rule, write, 26)))
        qtbot.addWidget(canvas)
        return canvas

    return make


@pytest.mark.parametrize("pixels", [10, 30])
def test_a_thousand_megabytes_fit_at_any_font_size(make_canvas, pixels):
    canvas = make_canvas(memory_step, memory_tick)
    font = QFont(canvas.font())
    font.setPixelSize(pixels)
    canvas.set_axis_font(font)
    canvas.set_ranges(0, 60, 0, 1000 * 1024**2)
    texts = canvas.y_axis.texts_between(0, 1000 * 1024**2, canvas.rows())
    assert texts[-1] == "1,000 MB"
    assert canvas.y_axis.minimumWidth() >= QFontMetrics(font).horizontalAdvance(texts[-1]) + TEXT_OFFSET
    assert canvas.x_axis.minimumHeight() >= QFontMetrics(font).height() + TEXT_OFFSET


def test_wide_values_widen_the_axis_while_they_are_shown(make_canvas):
    canvas = make_canvas(decimal_step, lambda value: f"{value:,.0f} of something")
    widths = []
    for high in (1, 10_000_000, 1):
        canvas.set_ranges(0, 60, 0, high)
        widths.append(canvas.y_axis.minimumWidth())
    assert widths[1] > widths[0] == widths[2]


@pytest.mark.parametrize(
    ("low", "high", "most", "values"),
    [(0, 1, 4, [1, 2, 5, 10]), (-1, 1, 5, [0.1, 0.3, 1, 3, 10]), (-8, 0, 3, [1e-8, 1e-5, 1e-2])],
)
def test_logarithmic_ticks_are_round_and_no_more_than_fit(low, high, most, values):
    assert [10**tick for tick in axes.log_ticks(low, high, most)] == pytest.approx(values)


@pytest.mark.parametrize(("low", "high"), [(0.13, 0.9), (2.2e-5, 3.1e-3), (1.0, 1.0), (1e-8, 1e4)])
def test_a_logarithmic_frame_ends_at_ticks_around_the_values(low, high):
    bottom, top = axes.log_frame(math.log10(low), math.log10(high), 5)
    assert bottom <= math.log10(low)
    assert math.log10(high) <= top
    assert top - bottom >= math.log10(2) - 1e-9
    assert axes.log_ticks(bottom, top, 5)[0] == pytest.approx(bottom)


@pytest.fixture
def view(qapp):
    return SharedView()


@pytest.mark.parametrize(
    ("end", "zoomed", "shown", "later", "then"),
    [
        (1000.0, None, (800.0, 1000.0), 1030.0, (830.0, 1030.0)),
        (1000.0, (100.0, 130.0), (970.0, 1000.0), 1010.0, (980.0, 1010.0)),
        (20.0, None, (0.0, 60.0), 90.0, (30.0, 90.0)),
    ],
)
def test_following_shows_the_newest_part_and_moves_with_it(view, *, end, zoomed, shown, later, then):
    view.set_end(end)
    view.zoom(zoomed)
    view.follow(True)
    assert view.span == shown
    view.set_end(later)
    assert view.span == then
    view.follow(False)
    view.set_end(2 * later)
    assert view.span == then


@pytest.mark.parametrize("span", [(10.0, 20.0), None])
def test_zooming_ends_following(view, span):
    view.set_end(500.0)
    view.follow(True)
    view.zoom(span)
    view.set_end(600.0)
    assert (view.follows, view.span) == (False, span)


def test_only_changes_are_signalled(view, qtbot):
    with qtbot.waitSignal(view.changed):
        view.set_x_kind(XKind.TIME)
    with qtbot.assertNotEmitted(view.changed):
        view.set_x_kind(XKind.TIME)
        view.zoom(None)
        view.set_cursor(None)
