import random
from itertools import pairwise

import pytest

from core.monitor.recent import MOST_BLOCKS, Block, LossCurve, trend


def test_a_million_losses_take_little_room_and_none_is_lost() -> None:
    curve = LossCurve()
    for step in range(1, 100_001):
        curve.add(step, float(step))
    blocks = curve.since(0)
    assert len(blocks) <= MOST_BLOCKS
    assert curve.last == 100_000
    assert blocks[0].first == 1
    assert all(one.last + 1 == other.first for one, other in pairwise(blocks))
    assert all(block.mean == pytest.approx(block.middle) for block in blocks)
    assert curve.start == 3.0, "the first five on their own"


def test_only_whole_blocks_from_a_step_on_are_given() -> None:
    curve = LossCurve()
    for step in range(1, MOST_BLOCKS + 4):
        curve.add(step, 1.0)
    blocks = curve.since(100)
    assert {block.count for block in blocks} == {2}
    assert blocks[0].first == 101


def blocks(change: float, noise: float) -> list[Block]:
    chance = random.Random(3)
    return [
        Block(step, step, 1, 2.0 + change * step / 100 + noise * chance.gauss(0, 1)) for step in range(101)
    ]


def test_a_straight_line_is_known_exactly() -> None:
    found = trend(blocks(-0.5, 0.0))
    assert (found.change, found.mean) == (pytest.approx(-0.5), pytest.approx(1.75))
    assert found.uncertainty == pytest.approx(0.0, abs=1e-9)
    assert (found.most, found.least) == (pytest.approx(0.5 / 1.75), pytest.approx(0.5 / 1.75))


def test_noise_makes_a_trend_uncertain() -> None:
    found = trend(blocks(-0.05, 0.3))
    assert found.least == 0.0
    assert found.most > 0.05
    assert abs(found.change + 0.05) < found.uncertainty
