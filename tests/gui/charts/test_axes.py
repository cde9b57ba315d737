"""Axes: round ticks, texts that fit, and the part of the run that all charts show."""

import math

import pyqtgraph as pg
import pytest
from PySide6.QtGui import QFont, QFontMetrics

from gui.charts.axes import (
    BYTES,
    CLOCK,
    STEP,
    TEXT_OFFSET,
    VALUES,
    Canvas,
    DirectAxis,
    RoundAxis,
    SharedView,
    clock_step,
    clock_text,
    decimal_step,
    log_frame,
    log_ticks,
    memory_step,
)


@pytest.mark.parametrize(
    ("rule", "span", "ticks", "step"),
    [
        (decimal_step, 2.3, 5, 0.5),
        (decimal_step, 97, 5, 20),
        (decimal_step, 1000, 10, 100),
        (STEP.step, 2, 8, 1),
        (memory_step, 16 * 1024**3, 4, 5 * 1024**3),
        (memory_step, 900 * 1024**2, 5, 200 * 1024**2),
        (clock_step, 60, 4, 15),
        (clock_step, 86_400 * 30, 4, 86_400 * 8),
    ],
)
def test_ticks_are_round(rule, span, ticks, step):
    assert rule(span, ticks) == pytest.approx(step)


@pytest.mark.parametrize(("low", "high"), [(0.13, 0.9), (2.2e-5, 3.1e-3), (1.0, 1.0), (1e-8, 1e4)])
def test_a_logarithmic_frame_ends_at_ticks_around_the_values(low, high):
    bottom, top = log_frame(math.log10(low), math.log10(high), 5)
    assert bottom <= math.log10(low) <= math.log10(high) <= top
    assert top - bottom >= math.log10(2) - 1e-9
    ticks = log_ticks(bottom, top, 5)
    assert len(ticks) <= 5
    assert ticks[0] == pytest.approx(bottom)


def test_texts_of_ticks(qapp):
    clocks = {0: "0", 30: "30 s", 90: "1:30", 300: "5 min", 3600: "1 h", 5400: "1 h 30"}
    assert {seconds: clock_text(seconds) for seconds in clocks} == clocks
    close = RoundAxis("left", VALUES).texts_between(6.9781, 6.9784, 140)
    assert len(set(close)) == len(close) > 1
    assert RoundAxis("left", VALUES).texts_between(0.5, 2.0, 140) == ["0.5", "1", "1.5", "2"]


@pytest.mark.parametrize("rows", [64, 90, 140, 200])
@pytest.mark.parametrize(
    ("low", "high"), [(0.55, 0.98), (0.0, 2.0005), (0.02, 2.3), (0.9, 2.1), (0.501, 0.999), (0.83, 0.937)]
)
def test_an_axis_has_three_ticks_and_room_for_their_texts(qapp, low, high, rows):
    axis = RoundAxis("left", VALUES)
    low, high = axis.frame(low, high, rows)
    room = 7 * (high - low) / rows
    assert len(axis.texts_between(low - room, high + room, rows)) >= 3  # as for dots at the edge
    ticks = len(axis.texts_between(low, high, rows))
    assert ticks >= 3
    assert rows / (ticks - 1) >= 12


@pytest.mark.parametrize("pixels", [10, 30])
def test_a_thousand_megabytes_fit_at_any_font_size(qtbot, pixels):
    canvas = Canvas(RoundAxis("bottom", CLOCK), RoundAxis("left", BYTES))
    qtbot.addWidget(canvas)
    font = QFont(canvas.font())
    font.setPixelSize(pixels)
    canvas.set_axis_font(font)
    canvas.set_ranges(0, 60, 0, 1000 * 1024**2)
    text = canvas.y_axis.texts_between(0, 1000 * 1024**2, canvas.rows())[-1]
    assert text == "1,000 MB"
    assert canvas.y_axis.minimumWidth() >= QFontMetrics(font).horizontalAdvance(text) + TEXT_OFFSET
    assert canvas.x_axis.minimumHeight() >= QFontMetrics(font).height() + TEXT_OFFSET


@pytest.mark.parametrize(
    ("end", "zoomed", "shown", "later", "then"),
    [
        (1000.0, None, (800.0, 1000.0), 1030.0, (830.0, 1030.0)),
        (1000.0, (100.0, 130.0), (970.0, 1000.0), 1010.0, (980.0, 1010.0)),
        (20.0, None, (0.0, 60.0), 90.0, (30.0, 90.0)),
    ],
)
def test_following_shows_the_newest_part_until_it_ends_or_the_view_is_zoomed(end, zoomed, shown, later, then):
    view = SharedView()
    view.set_end(end)
    view.zoom(zoomed)
    view.follow(True)
    assert view.span == shown
    view.set_end(later)
    assert view.span == then
    view.follow(False)
    view.set_end(2 * later)
    assert view.span == then
    for span in ((10.0, 20.0), None):
        view.follow(True)
        view.zoom(span)
        view.set_end(3 * later)
        assert (view.follows, view.span) == (False, span)


def test_words_keep_their_distance_from_a_number_that_runs_the_other_way(qtbot):
    """In an axis of pyqtgraph they don't; once they do, the class has no purpose."""

    def width(kind):
        plot = pg.PlotWidget(axisItems={"bottom": (axis := kind("bottom"))})
        qtbot.addWidget(plot)
        plot.resize(400, 60)
        plot.hideAxis("left")
        plot.setBackground("white")
        axis.setTextPen("black")
        axis.setPen(None)
        axis.setTicks([[(0.5, "الخطوة 0")]])
        image = plot.grab().toImage()
        inked = [x for x in range(400) for y in range(60) if image.pixelColor(x, y).lightness() < 128]
        return max(inked) - min(inked)

    assert width(DirectAxis) > width(pg.AxisItem)
