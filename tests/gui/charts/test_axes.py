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
    Stretch,
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
        (decimal_step, 1.0, 5, 0.2),
        (decimal_step, 97, 5, 20),
        (decimal_step, 1000, 10, 100),
        (whole_step, 2, 8, 1),
        (memory_step, 16 * 1024**3, 4, 5 * 1024**3),
        (memory_step, 900 * 1024**2, 5, 200 * 1024**2),
        (memory_step, 3.9 * 1024**3, 4, 1024**3),
        (clock_step, 60, 4, 15),
        (clock_step, 600, 5, 120),
        (clock_step, 86_400 * 30, 4, 86_400 * 8),
    ],
)
def test_ticks_are_round(rule, span, ticks, step):
    assert rule(span, ticks) == pytest.approx(step)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (30, "30 s"), (90, "1:30"), (300, "5 min"), (3600, "1 h"), (5400, "1 h 30")],
)
def test_clock_texts(seconds, text):
    assert clock_text(seconds) == text


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (6.9781, 6.9784, ["6.978", "6.9781", "6.9782", "6.9783", "6.9784"]),
        (0.5, 2.0, ["0.5", "1", "1.5", "2"]),
    ],
)
def test_ticks_of_values_that_lie_close_differ(qapp, low, high, texts):
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


@pytest.mark.parametrize("pixels", [10, 11, 18, 30])
def test_a_thousand_megabytes_fit_in_any_size_of_letters(make_canvas, pixels):
    canvas = make_canvas(memory_step, memory_tick)
    font = QFont(canvas.font())
    font.setPixelSize(pixels)
    canvas.set_axis_font(font)
    canvas.set_ranges(0, 60, 0, 1000 * 1024**2)
    texts = canvas.y_axis.texts_between(0, 1000 * 1024**2, canvas.rows())
    assert texts[-1] == "1,000 MB"
    assert canvas.y_axis.minimumWidth() >= QFontMetrics(font).horizontalAdvance(texts[-1]) + TEXT_OFFSET
    assert canvas.x_axis.minimumHeight() >= QFontMetrics(font).height() + TEXT_OFFSET


def test_wider_values_take_more_room_as_long_as_they_are_seen(make_canvas):
    canvas = make_canvas(decimal_step, lambda value: f"{value:,.0f} of something")
    canvas.set_ranges(0, 60, 0, 1)
    narrow = canvas.y_axis.minimumWidth()
    canvas.set_ranges(0, 60, 0, 10_000_000)
    assert canvas.y_axis.minimumWidth() > narrow
    canvas.set_ranges(0, 60, 0, 1)
    assert canvas.y_axis.minimumWidth() == narrow


@pytest.mark.parametrize(
    ("low", "high", "most", "values"),
    [(0, 1, 4, [1, 2, 5, 10]), (-1, 1, 5, [0.1, 0.3, 1, 3, 10]), (-8, 0, 3, [1e-8, 1e-5, 1e-2])],
)
def test_logarithmic_ticks_are_round_and_no_more_than_fit(low, high, most, values):
    assert [10**tick for tick in axes.log_ticks(low, high, most)] == pytest.approx(values)


@pytest.mark.parametrize(("low", "high"), [(0.13, 0.9), (2.2e-5, 3.1e-3), (1.0, 1.0), (1e-8, 1e4)])
def test_a_frame_holds_what_is_drawn_and_stands_on_ticks(low, high):
    bottom, top = axes.log_frame(math.log10(low), math.log10(high), 5)
    assert bottom <= math.log10(low)
    assert math.log10(high) <= top
    assert top - bottom >= math.log10(2) - 1e-9
    ticks = axes.log_ticks(bottom, top, 5)
    assert ticks[0] == pytest.approx(bottom)


@pytest.fixture
def view(qapp):
    return SharedView()


@pytest.mark.parametrize(
    ("end", "chosen", "shown", "later", "then"),
    [
        (1000.0, None, (800.0, 1000.0), 1030.0, (830.0, 1030.0)),
        (1000.0, (100.0, 130.0), (970.0, 1000.0), 1010.0, (980.0, 1010.0)),
        (20.0, None, (0.0, 60.0), 90.0, (30.0, 90.0)),
    ],
)
def test_following_shows_the_newest_part_and_moves_with_it(view, *, end, chosen, shown, later, then):
    view.advance(end)
    view.zoom_to(chosen and Stretch(*chosen))
    view.follow(True)
    assert view.stretch == Stretch(*shown)
    view.advance(later)
    assert view.stretch == Stretch(*then)
    view.follow(False)
    view.advance(2 * later)
    assert view.stretch == Stretch(*then), "it stays where it is"


@pytest.mark.parametrize("stretch", [Stretch(10.0, 20.0), None])
def test_zooming_lets_go_of_the_end(view, stretch):
    view.advance(500.0)
    view.follow(True)
    view.zoom_to(stretch)
    view.advance(600.0)
    assert (view.follows, view.stretch) == (False, stretch)


def test_a_change_is_signalled_and_nothing_else(view, qtbot):
    with qtbot.waitSignal(view.changed):
        view.lie_over(XKind.TIME)
    with qtbot.assertNotEmitted(view.changed):
        view.lie_over(XKind.TIME)
        view.zoom_to(None)
        view.point_at(None)
