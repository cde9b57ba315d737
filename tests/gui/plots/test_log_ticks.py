import math

import pytest

from gui.charts import axes


def values(ticks):
    return pytest.approx([10**tick for tick in ticks])


def test_within_few_decades_there_are_ticks_between_the_powers_of_ten():
    assert values(axes.between(0.0, 1.0, 4)) == [1, 2, 5, 10]
    assert values(axes.between(-1.0, 1.0, 5)) == [0.1, 0.3, 1, 3, 10]


def test_over_many_decades_some_are_left_out():
    assert axes.between(-8.0, 0.0, 3) == [-8.0, -5.0, -2.0]


@pytest.mark.parametrize(("low", "high"), [(0.13, 0.9), (2.2e-5, 3.1e-3), (1.0, 1.0), (1e-8, 1e4)])
def test_a_frame_holds_what_is_drawn_and_stands_on_ticks(low, high):
    bottom, top = axes.frame(math.log10(low), math.log10(high), 5)
    assert bottom <= math.log10(low)
    assert math.log10(high) <= top
    assert top - bottom >= math.log10(2) - 1e-9
    ticks = axes.between(bottom, top, 5)
    assert ticks[0] == pytest.approx(bottom)
