"""The room that a chart keeps for the values of its axes."""

import pytest
from PySide6.QtGui import QFont, QFontMetrics

from core.base.format import memory_tick
from gui.charts.axes import CLOCK, TEXT_OFFSET, AxisUnit, Canvas, RoundAxis, decimal_step, memory_step


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
