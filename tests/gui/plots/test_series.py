import numpy as np
import pytest

from gui.plots.series import Series


def filled(count):
    series = Series()
    for number in range(count):
        series.append(number, number * 10.0)
    return series


def test_keeps_everything_while_it_grows():
    series = filled(5000)
    assert len(series) == 5000
    np.testing.assert_array_equal(series.x, np.arange(5000))
    np.testing.assert_array_equal(series.y, np.arange(5000) * 10.0)
    assert series.last == 49_990.0


def test_forgets_what_a_later_attempt_takes_back():
    series = filled(100)
    series.cut_after(39)
    series.append(40, -1.0)
    assert list(series.x[-2:]) == [39, 40]
    assert list(series.y[-2:]) == [390.0, -1.0]


@pytest.mark.parametrize(
    ("x", "value"), [(0, 0.0), (4.4, 40.0), (4.6, 50.0), (9, 90.0), (-0.1, None), (9.1, None)]
)
def test_reads_the_nearest_point(x, value):
    assert filled(10).at(x) == value


def test_an_empty_series_has_no_values():
    assert Series().last is None
    assert Series().at(0) is None
