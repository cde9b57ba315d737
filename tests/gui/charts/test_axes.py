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
    ("span", "ticks", "step"), [(2.3, 5, 0.5), (1.0, 5, 0.2), (97, 5, 20), (1000, 10, 100)]
)
def test_ticks_are_round(span, ticks, step):
    assert decimal_step(span, ticks) == pytest.approx(step)


def test_there_is_no_half_training_step():
    assert whole_step(2, 8) == 1.0


def test_memory_ticks_are_round_in_their_unit():
    assert memory_step(16 * 1024**3, 4) == 5 * 1024**3
    assert memory_step(900 * 1024**2, 5) == 200 * 1024**2
    assert memory_step(3.9 * 1024**3, 4) == 1024**3
    assert memory_tick(1000 * 1024**2) == "1,000 MB"


@pytest.mark.parametrize(("span", "step"), [(60, 15), (600, 120), (86_400 * 30, 86_400 * 8)])
def test_time_ticks_are_those_of_a_clock(span, step):
    assert clock_step(span, 4 if span != 600 else 5) == step


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


def values(ticks):
    return pytest.approx([10**tick for tick in ticks])


def test_within_few_decades_there_are_ticks_between_the_powers_of_ten():
    assert values(axes.log_ticks(0.0, 1.0, 4)) == [1, 2, 5, 10]
    assert values(axes.log_ticks(-1.0, 1.0, 5)) == [0.1, 0.3, 1, 3, 10]


def test_over_many_decades_some_are_left_out():
    assert axes.log_ticks(-8.0, 0.0, 3) == [-8.0, -5.0, -2.0]


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


def test_following_shows_the_newest_part_and_moves_with_it(view):
    view.advance(1000.0)
    view.follow(True)
    assert view.stretch == Stretch(800.0, 1000.0)
    view.advance(1030.0)
    assert view.stretch == Stretch(830.0, 1030.0)


def test_following_keeps_the_width_that_was_chosen(view):
    view.advance(1000.0)
    view.zoom_to(Stretch(100.0, 130.0))
    view.follow(True)
    assert view.stretch == Stretch(970.0, 1000.0)


def test_zooming_lets_go_of_the_end_and_so_does_the_whole_run(view):
    view.advance(500.0)
    view.follow(True)
    view.zoom_to(Stretch(10.0, 20.0))
    view.advance(600.0)
    assert (view.follows, view.stretch) == (False, Stretch(10.0, 20.0))
    view.follow(True)
    view.zoom_to(None)
    view.advance(700.0)
    assert (view.follows, view.stretch) == (False, None)


def test_a_young_run_has_no_time_before_its_start(view):
    view.advance(20.0)
    view.follow(True)
    assert view.stretch == Stretch(0.0, 60.0)
    view.advance(90.0)
    assert view.stretch == Stretch(30.0, 90.0)


def test_letting_go_leaves_the_view_where_it_is(view):
    view.advance(300.0)
    view.follow(True)
    view.follow(False)
    view.advance(900.0)
    assert view.stretch == Stretch(240.0, 300.0)


def test_everyone_hears_of_a_change_and_of_nothing_else(view, qtbot):
    with qtbot.waitSignal(view.changed):
        view.lie_over(XKind.TIME)
    with qtbot.assertNotEmitted(view.changed):
        view.lie_over(XKind.TIME)
        view.zoom_to(None)
        view.point_at(None)
