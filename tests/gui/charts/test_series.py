"""Series: growing, cutting, reading, and the reduction to what a screen can show."""

import random

import numpy as np
import pytest

from gui.charts.series import Series


def series_of(y, x=None):
    series = Series()
    series.extend(np.arange(float(len(y))) if x is None else x, np.asarray(y, float))
    return series


def normal(seed, count):
    return np.random.default_rng(seed).normal(size=count)


def assert_same(series, expected):
    """Both have the same points, and are drawn the same."""
    for values in (
        lambda it: (it.x, it.y),
        lambda it: it.reduced(0, 1e9, 300),
        lambda it: it.means(0, 1e9, 300),
    ):
        for found, wanted in zip(values(series), values(expected), strict=True):
            np.testing.assert_allclose(found, wanted)


def test_points_added_in_pieces_are_the_same_as_at_once():
    chance, x, y = random.Random(1), np.arange(150_000) * 0.5, normal(1, 150_000)
    series, first = Series(), 0
    while first < len(x):
        last = min(len(x), first + chance.choice((1, 63, 5000, 64, 70_000)))
        series.extend(x[first:last], y[first:last])
        first = last
    assert_same(series, series_of(y, x))
    assert (series.last_x, series.last) == (x[-1], y[-1])


@pytest.mark.parametrize("left", [0, 1, 64, 65, 65_613])
def test_a_series_that_was_cut_continues_as_what_is_left_of_it(left):
    y, more = normal(2, 150_000), normal(3, 70_000)
    series = series_of(y)
    series.cut_after(left - 1)
    series.extend(np.arange(left, left + 70_000.0), more)
    assert_same(series, series_of(np.concatenate((y[:left], more))))


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
def test_the_nearest_point_and_the_last_one_before(x, nearest, before):
    series = series_of(np.arange(10) * 10.0)
    assert (series.at(x), series.up_to(x)) == (nearest, before)


def test_values_between_points_and_of_an_empty_series():
    series = series_of([0.0, 2.0, 4.0], np.array([1.0, 2.0, 4.0]))
    assert series.interpolate(np.array([0.0, 1.5, 3.0, 9.0])).tolist() == [0.0, 1.0, 3.0, 4.0]
    assert [series.between(3.0), series.inverse(3.0), series.inverse(99.0)] == [3.0, 3.0, 4.0]
    empty = Series()
    values = empty.last, empty.last_x, empty.at(0), empty.up_to(0), empty.extremes(), empty.between(1.0)
    assert [*values, empty.inverse(1.0)] == [None] * 7
    assert [len(part) for part in (*empty.reduced(0, 1, 100), *empty.means(0, 1, 100))] == [0, 0, 0, 0]


@pytest.mark.parametrize(("count", "columns"), [(801, 400), (4096, 1), (99_999, 400), (1_000_000, 400)])
def test_at_most_two_points_a_column_and_the_newest_one_are_drawn(count, columns):
    y = normal(3, count)
    x, drawn = series_of(y).reduced(0, count, columns)
    assert len(x) <= 2 * columns + 1
    assert (x[-1], drawn[-1]) == (count - 1, y[-1])
    assert np.all(np.diff(x) >= 0)
    assert (drawn.min(), drawn.max()) == (y.min(), y.max())


@pytest.mark.parametrize("place", [0, 63, 31_007, 99_999])
@pytest.mark.parametrize("height", [50.0, -50.0])
def test_a_spike_one_sample_wide_is_drawn_where_it_is(place, height):
    y = np.zeros(100_000)
    y[place] = height
    series = series_of(y)
    spans = (0, 99_999), (place - 30_000, place + 10.5), (place, place), (place - 300, place + 500)
    for low, high in spans:
        x, drawn = series.reduced(low, high, 300)
        column = (min(high, 99_999) - max(low, 0)) / 300
        spikes = x[drawn == height]
        assert len(spikes)
        assert np.all(np.abs(spikes - place) <= 2 * column)


def test_a_single_nan_does_not_blank_its_column_but_a_long_gap_stays_one():
    y = np.ones(500_000)
    y[5] = np.nan
    y[200_000:300_000] = np.nan
    for x, drawn in (series_of(y).reduced(0, len(y), 100), series_of(y).means(0, len(y), 50)):
        assert np.isnan(drawn[(x > 220_000) & (x < 280_000)]).all()
        assert (drawn[(x < 180_000) | (x > 320_000)] == 1.0).all()
    assert series_of(y).extremes() == (1.0, 1.0)
    assert series_of(y[200_000:300_000]).extremes() is None


def test_a_growing_or_moving_line_does_not_shimmer():
    series = series_of(normal(5, 20_001))
    before = series.reduced(0, 20_000, 300)[0]
    series.extend(np.array([20_001.0, 20_002.0]), np.array([0.0, 0.0]))
    after, moved = series.reduced(0, 20_002, 300)[0], series.reduced(100, 20_002, 300)[0]
    assert np.isin(before[before < 19_000], after).all()
    assert np.isin(before[(before > 300) & (before < 19_000)], moved).all()


@pytest.mark.parametrize(("count", "size"), [(500, 1), (200_000, 1024)])
def test_means_are_those_of_neighbours(count, size):
    y = normal(7, count) + 3.0
    y[100:130] = np.nan
    x, means = series_of(y).means(0, count, 300)
    groups = [y[first : first + size] for first in range(0, count, size)]
    np.testing.assert_array_equal(x[:2], [(size - 1) / 2, (size - 1) / 2 + size])
    expected = [np.nan if np.isnan(group).all() else np.nanmean(group) for group in groups]
    np.testing.assert_allclose(means, expected)
