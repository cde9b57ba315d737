import math
import random

import numpy as np
import pytest

from gui.charts.series import BLOCK, Series, group_size


def filled(count):
    series = Series()
    for number in range(count):
        series.append(number, number * 10.0)
    return series


def of(y, x=None):
    """A series of all these values at once, at 0, 1, 2, … unless told otherwise."""
    series = Series()
    series.extend(np.arange(float(len(y))) if x is None else x, np.asarray(y, float))
    return series


def test_keeps_everything_while_it_grows():
    series = filled(5000)
    assert len(series) == 5000
    np.testing.assert_array_equal(series.x, np.arange(5000))
    np.testing.assert_array_equal(series.y, np.arange(5000) * 10.0)
    assert (series.last_x, series.last) == (4999.0, 49_990.0)


@pytest.mark.parametrize("stride", [1.0, 10.0, 0.5])
def test_many_points_are_the_same_however_they_came(stride):
    chance = random.Random(1)
    x = np.arange(1, 150_001) * stride
    y = np.random.default_rng(1).normal(size=150_000)
    series, first = Series(), 0
    while first < len(x):
        last = min(len(x), first + chance.choice((1, 63, 5000, 64, 70_000)))
        series.extend(x[first:last], y[first:last])
        first = last
    np.testing.assert_array_equal(series.x, x)
    np.testing.assert_array_equal(series.y, y)
    for row in (0, BLOCK - 1, BLOCK, 2 * BLOCK, 149_999):
        assert series.at(x[row]) == y[row]
        assert series.at(x[row] + stride / 4) == (y[row] if row < 149_999 else None)


def test_forgets_what_a_later_attempt_takes_back():
    series = filled(100)
    series.cut_after(39)
    series.append(40, -1.0)
    assert series.x[-2:].tolist() == [39, 40]
    assert series.y[-2:].tolist() == [390.0, -1.0]


@pytest.mark.parametrize("kept", [0, 1, 5000, 63, 64, 65, 65_613])
def test_a_long_series_that_was_cut_is_drawn_as_what_is_left_of_it(kept):
    y = np.random.default_rng(2).normal(size=150_000)
    series = of(y)
    series.means(0, 150_000, 10)
    series.cut_after(kept - 1)
    again = np.random.default_rng(3).normal(size=70_000)
    series.extend(np.arange(kept, kept + 70_000.0), again)
    other = of(np.concatenate((y[:kept], again)))
    for found, expected in (
        (series.reduced(0, 1e9, 300), other.reduced(0, 1e9, 300)),
        (series.means(0, 1e9, 300), other.means(0, 1e9, 300)),
        ((series.x, series.y), (other.x, other.y)),
    ):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("x", "value"), [(0, 0.0), (4.4, 40.0), (4.6, 50.0), (9, 90.0), (-0.1, None), (9.1, None)]
)
def test_reads_the_nearest_point(x, value):
    assert filled(10).at(x) == value


def test_an_empty_series_has_no_values():
    series = Series()
    assert series.last is series.last_x is series.at(0) is series.extremes() is None
    assert series.between(1.0) is series.place_of(1.0) is None
    assert [len(part) for part in (*series.reduced(0, 1, 100), *series.means(0, 1, 100))] == [0, 0, 0, 0]


@pytest.mark.parametrize("is_even", [True, False])
def test_reads_between_points(is_even):
    generator = np.random.default_rng(4)
    x = np.arange(150_000.0) if is_even else np.cumsum(generator.random(150_000))
    y = np.cumsum(generator.random(150_000))
    series = of(y, x)
    wanted = np.sort(generator.uniform(-10, x[-1] + 10, 500))
    np.testing.assert_allclose(series.along(wanted), np.interp(wanted, x, y))
    assert math.isclose(series.between(x[777] + 0.25), np.interp(x[777] + 0.25, x, y))
    for value in (-1.0, 0.0, 30_000.3, y[BLOCK], 1e9):
        assert math.isclose(series.place_of(value), np.interp(value, y, x), abs_tol=1e-9)


def test_a_single_point_reads_the_same_everywhere():
    series = of([5.0], np.array([3.0]))
    assert series.between(0.0) == series.between(9.0) == 5.0
    assert series.place_of(0.0) == series.place_of(9.0) == 3.0


def test_extremes_of_a_part():
    y = np.random.default_rng(6).normal(size=100_000)
    y[500:900] = np.nan
    series = of(y)
    for low, high in ((0, 99_999), (70, 71), (63, 64), (130.5, 8000.5), (400, 5000), (99_990, 1e9)):
        part = y[math.ceil(low) : int(min(high, 99_999)) + 1]
        assert series.extremes(low, high) == (np.nanmin(part), np.nanmax(part))
    assert series.extremes(500, 899) is series.extremes(3.2, 3.8) is None
    assert series.extremes() == (np.nanmin(y), np.nanmax(y))


def test_float32_is_kept_with_seven_digits():
    series = Series(np.float32)
    series.append(1, 0.1)
    assert math.isclose(series.last, 0.1, rel_tol=1e-7)
    assert series.y.dtype == np.float64


@pytest.mark.parametrize("count", [801, 1001, 4096, 99_999, 1_000_000])
@pytest.mark.parametrize("columns", [1, 400])
def test_at_most_two_points_a_column_and_the_newest_one(count, columns):
    y = np.random.default_rng(3).normal(size=count)
    few_x, few_y = of(y).reduced(0, count, columns)
    assert len(few_x) <= 2 * columns + 1
    assert (few_x[-1], few_y[-1]) == (count - 1, y[-1])
    assert np.all(np.diff(few_x) >= 0)
    assert (few_y.min(), few_y.max()) == (y.min(), y.max())
    np.testing.assert_array_equal(few_y, y[few_x.astype(int)])


@pytest.mark.parametrize("place", [0, 1, 63, 64, 4095, 31_007, 65_535, 65_536, 99_998, 99_999])
@pytest.mark.parametrize("height", [50.0, -50.0])
def test_a_spike_one_sample_wide_is_seen_wherever_it_is(place, height):
    y = np.zeros(100_000)
    y[place] = height
    series = of(y)
    for low, high in (
        (0, 100_000),
        (place - 30_000, place + 10.5),
        (place, place),
        (place - 300, place + 500),
    ):
        few_x, few_y = series.reduced(low, high, 300)
        assert few_x[few_y == height].tolist() == [place] * np.count_nonzero(few_y == height) != []


def test_a_spike_is_seen_as_soon_as_it_is_there():
    series = Series()
    for number in range(70_000):
        series.append(number, 0.0)
        if number > 69_900:
            series.append(number, float(number))
            assert series.reduced(0, 1e9, 300)[1][-1] == number


def test_every_part_keeps_its_extremes():
    generator = np.random.default_rng(8)
    y = generator.normal(size=300_000)
    series = of(y)
    for low, high in generator.integers(0, 300_000, (60, 2)):
        _, few_y = series.reduced(min(low, high) + 0.5, max(low, high) + 0.5, 250)
        part = y[min(low, high) : max(low, high) + 2]
        assert (few_y.min(), few_y.max()) == (part.min(), part.max())


@pytest.mark.parametrize("stretch", [1, 50])
def test_a_lone_nan_does_not_blank_its_column_but_a_long_gap_stays_one(stretch):
    y = np.ones(10_000 * stretch)
    y[5] = np.nan
    y[4000 * stretch : 6000 * stretch] = np.nan
    few_x, few_y = of(y).reduced(0, len(y), 100)
    few_x = few_x / stretch
    assert np.isfinite(few_y[few_x < 3800]).all()
    assert np.isnan(few_y[(few_x > 4200) & (few_x < 5800)]).all()
    assert np.isfinite(few_y[few_x > 6200]).all()


def test_a_growing_or_moving_line_does_not_shimmer():
    series = of(np.random.default_rng(5).normal(size=20_001))
    few_x = series.reduced(0, 20_000, 300)[0]
    series.extend(np.array([20_001.0, 20_002.0]), np.array([0.0, 0.0]))
    assert np.isin(few_x[few_x < 19_000], series.reduced(0, 20_002, 300)[0]).all()
    moved = series.reduced(100, 20_002, 300)[0]
    assert np.isin(few_x[(few_x > 200) & (few_x < 19_000)], moved).all()


def test_few_points_are_drawn_as_they_are_and_run_out_of_the_picture():
    series = of(np.arange(100.0))
    assert series.reduced(10.5, 20.5, 100)[0].tolist() == [float(number) for number in range(10, 22)]
    assert len(series.reduced(500, 600, 100)[0]) == 1


@pytest.mark.parametrize("count", [500, 7000, 200_000])
def test_means_are_those_of_neighbours(count):
    y = np.random.default_rng(7).normal(3.0, 1.0, size=count)
    y[100:130] = np.nan
    series = of(y)
    for first, last in ((0, count), (77, int(0.8 * count))):
        x, means = series.means(first + 0.5, last - 1.5, 300)
        size = group_size(first, last, 300) if last - first > 600 else 1
        groups = np.split(np.arange(first, last), np.arange(-(-first // size) * size, last, size) - first)
        groups = [rows for rows in groups if len(rows)]
        np.testing.assert_array_equal(x, [(rows[0] + rows[-1]) / 2 for rows in groups])
        expected = [np.nan if np.isnan(y[rows]).all() else np.nanmean(y[rows]) for rows in groups]
        np.testing.assert_allclose(means, expected)
        assert len(x) <= 600


def test_a_group_of_nothing_but_nan_has_no_mean():
    y = np.ones(10_000)
    y[2000:4000] = np.nan
    x, means = of(y).means(0, 10_000, 50)
    assert np.isnan(means[(x > 2300) & (x < 3700)]).all()
    assert (means[(x < 1700) | (x > 4300)] == 1.0).all()
