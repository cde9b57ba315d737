import random

import numpy as np
import pytest

from gui.charts.series import BLOCK, Series


def of(y, x=None):
    """A series of all these values at once, at 0, 1, 2, … unless told otherwise."""
    series = Series()
    series.extend(np.arange(float(len(y))) if x is None else x, np.asarray(y, float))
    return series


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other)


def test_points_are_the_same_however_they_came():
    chance = random.Random(1)
    x = np.arange(150_000) * 0.5
    y = np.random.default_rng(1).normal(size=150_000)
    series, first = Series(), 0
    while first < len(x):
        last = min(len(x), first + chance.choice((1, 63, 5000, 64, 70_000)))
        series.extend(x[first:last], y[first:last])
        first = last
    assert_same((series.x, series.y), (x, y))
    assert (series.last_x, series.last) == (x[-1], y[-1])
    assert_same(series.reduced(0, 1e9, 300), of(y, x).reduced(0, 1e9, 300))
    assert_same(series.means(0, 1e9, 300), of(y, x).means(0, 1e9, 300))


@pytest.mark.parametrize("kept", [0, 1, 64, 65, 65_613])
def test_a_series_that_was_cut_is_drawn_as_what_is_left_of_it(kept):
    y = np.random.default_rng(2).normal(size=150_000)
    series = of(y)
    series.cut_after(kept - 1)
    again = np.random.default_rng(3).normal(size=70_000)
    series.extend(np.arange(kept, kept + 70_000.0), again)
    other = of(np.concatenate((y[:kept], again)))
    assert_same((series.x, series.y), (other.x, other.y))
    assert_same(series.reduced(0, 1e9, 300), other.reduced(0, 1e9, 300))
    assert_same(series.means(0, 1e9, 300), other.means(0, 1e9, 300))


@pytest.mark.parametrize(
    ("x", "nearest", "before"),
    [
        (None, 90.0, 90.0),
        (0, 0.0, 0.0),
        (4.4, 40.0, 40.0),
        (4.6, 50.0, 40.0),
        (9, 90.0, 90.0),
        (-0.1, None, None),
        (9.1, None, 90.0),
    ],
)
def test_reads_the_nearest_point_and_the_last_one_before(x, nearest, before):
    series = of(np.arange(10) * 10.0)
    assert (series.at(x), series.up_to(x)) == (nearest, before)


def test_an_empty_series_has_no_values():
    series = Series()
    assert [series.last, series.last_x, series.at(0), series.up_to(0), series.extremes()] == [None] * 5
    assert series.between(1.0) is series.inverse(1.0) is None
    assert [len(part) for part in (*series.reduced(0, 1, 100), *series.means(0, 1, 100))] == [0, 0, 0, 0]


def test_reads_between_points_and_holds_to_the_ends():
    series = of([0.0, 2.0, 4.0], np.array([1.0, 2.0, 4.0]))
    assert series.interpolate(np.array([0.0, 1.5, 3.0, 9.0])).tolist() == [0.0, 1.0, 3.0, 4.0]
    assert [series.between(3.0), series.inverse(3.0), series.inverse(99.0)] == [3.0, 3.0, 4.0]


@pytest.mark.parametrize("count", [10, BLOCK, 100_000])
def test_extremes_pass_over_gaps(count):
    y = np.random.default_rng(6).normal(size=count)
    y[3:8] = np.nan
    assert of(y).extremes() == (np.nanmin(y), np.nanmax(y))
    assert of(np.full(count, np.nan)).extremes() is None


@pytest.mark.parametrize("count", [801, 4096, 99_999, 1_000_000])
@pytest.mark.parametrize("columns", [1, 400])
def test_at_most_two_points_a_column_and_the_newest_one(count, columns):
    y = np.random.default_rng(3).normal(size=count)
    x, found = of(y).reduced(0, count, columns)
    assert len(x) <= 2 * columns + 1
    assert (x[-1], found[-1]) == (count - 1, y[-1])
    assert np.all(np.diff(x) >= 0)
    assert (found.min(), found.max()) == (y.min(), y.max())


@pytest.mark.parametrize("place", [0, 63, 64, 31_007, 99_999])
@pytest.mark.parametrize("height", [50.0, -50.0])
def test_a_spike_one_sample_wide_is_seen_where_it_is(place, height):
    y = np.zeros(100_000)
    y[place] = height
    series = of(y)
    for low, high in (
        (0, 99_999),
        (place - 30_000, place + 10.5),
        (place, place),
        (place - 300, place + 500),
    ):
        x, found = series.reduced(low, high, 300)
        column = (min(high, 99_999) - max(low, 0)) / 300
        seen = x[found == height]
        assert len(seen)
        assert np.all(np.abs(seen - place) <= 2 * column)


def test_a_spike_is_seen_as_soon_as_it_is_there():
    series = Series()
    series.extend(np.arange(70_000.0), np.zeros(70_000))
    for number in range(70_000, 70_100):
        series.append(number, float(number))
        assert series.reduced(0, 1e9, 300)[1][-1] == number


def test_a_lone_nan_does_not_blank_its_column_but_a_long_gap_stays_one():
    y = np.ones(500_000)
    y[5] = np.nan
    y[200_000:300_000] = np.nan
    for x, found in (of(y).reduced(0, len(y), 100), of(y).means(0, len(y), 50)):
        assert np.isnan(found[(x > 220_000) & (x < 280_000)]).all()
        assert (found[(x < 180_000) | (x > 320_000)] == 1.0).all()


def test_a_growing_or_moving_line_does_not_shimmer():
    series = of(np.random.default_rng(5).normal(size=20_001))
    before = series.reduced(0, 20_000, 300)[0]
    series.extend(np.array([20_001.0, 20_002.0]), np.array([0.0, 0.0]))
    after, moved = series.reduced(0, 20_002, 300)[0], series.reduced(100, 20_002, 300)[0]
    assert np.isin(before[before < 19_000], after).all()
    assert np.isin(before[(before > 300) & (before < 19_000)], moved).all()


def test_few_points_are_drawn_as_they_are_and_run_out_of_the_picture():
    series = of(np.arange(100.0))
    assert series.reduced(10.5, 20.5, 100)[0].tolist() == [float(number) for number in range(10, 22)]
    assert len(series.reduced(500, 600, 100)[0]) == 1


@pytest.mark.parametrize(("count", "size"), [(500, 1), (7000, 32), (200_000, 1024)])
def test_means_are_those_of_neighbours(count, size):
    y = np.random.default_rng(7).normal(3.0, 1.0, size=count)
    y[100:130] = np.nan
    x, means = of(y).means(0, count, 300)
    groups = [y[first : first + size] for first in range(0, count, size)]
    np.testing.assert_array_equal(x[:2], [(size - 1) / 2, (size - 1) / 2 + size])
    expected = [np.nan if np.isnan(group).all() else np.nanmean(group) for group in groups]
    np.testing.assert_allclose(means, expected)
