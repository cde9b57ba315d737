import numpy as np
import pytest

from gui.plots.reduction import reduce, visible_slice


@pytest.mark.parametrize("count", [1001, 4096, 99_999, 1_000_000])
def test_at_most_two_points_a_column_and_the_newest_one(count):
    x = np.arange(count, dtype=float)
    y = np.random.default_rng(3).normal(size=count)
    few_x, few_y = reduce(x, y, 400)
    assert len(few_x) <= 2 * 400 + 1
    assert (few_x[-1], few_y[-1]) == (x[-1], y[-1])
    assert np.all(np.diff(few_x) >= 0)


def test_keeps_a_spike_one_sample_wide():
    y = np.zeros(100_000)
    y[71_234], y[31_007] = 50.0, -50.0
    few_x, few_y = reduce(np.arange(100_000.0), y, 300)
    assert few_x[few_y == 50.0].tolist() == [71_234.0]
    assert few_x[few_y == -50.0].tolist() == [31_007.0]


def test_a_lone_nan_does_not_blank_its_column_but_a_long_gap_stays_one():
    y = np.ones(10_000)
    y[5] = np.nan
    y[4000:6000] = np.nan
    few_x, few_y = reduce(np.arange(10_000.0), y, 100)
    assert np.isfinite(few_y[few_x < 3800]).all()
    assert np.isnan(few_y[(few_x > 4200) & (few_x < 5800)]).all()
    assert np.isfinite(few_y[few_x > 6200]).all()


def test_a_growing_line_does_not_shimmer():
    y = np.random.default_rng(5).normal(size=20_001)
    x = np.arange(20_001.0)
    before, after = reduce(x[:20_000], y[:20_000], 300)[0], reduce(x, y, 300)[0]
    assert np.isin(before[before < 19_000], after).all()


def test_few_points_are_drawn_as_they_are():
    x, y = np.arange(10.0), np.arange(10.0)
    assert reduce(x, y, 100)[0] is x


def test_the_visible_part_runs_out_of_the_picture():
    x = np.arange(100.0)
    assert x[visible_slice(x, 10.5, 20.5)].tolist() == [float(number) for number in range(10, 22)]
    assert len(x[visible_slice(x, 500, 600)]) == 1
