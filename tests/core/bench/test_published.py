"""Figures published by others stand beside the rungs they belong to, and beside no other."""

import pytest

from core.benchmark.device_plan import ARTICLE as MODELS
from core.benchmark.device_plan import devices_plan
from core.benchmark.plan import methods_plan
from core.benchmark.published import ARTICLE, GUIDE, article_row, guide_row
from core.engine.devices import report
from core.memory.model import Room
from core.options.validate import read_options
from tests.fakes.machines import M2_8GB, M3_MAX, SERVER

ENOUGH = Room(free=1 << 36, ceiling=1 << 36)


@pytest.mark.parametrize("facts", [SERVER, M2_8GB])
def test_the_guides_nine_rows_are_the_first_nine(facts: object) -> None:
    rows = [guide_row(rung) for rung in methods_plan(report(facts), room=ENOUGH).rungs]
    assert rows[:9] == list(GUIDE.values())
    assert rows[9:] == [None] * 7


def test_a_persons_own_data_has_no_published_figures() -> None:
    options, _ = read_options(
        {"task": "text-classification", "model": {"source": "some/bert"}, "data": {"train": "hub:a/b"}}
    )
    rungs = methods_plan(report(SERVER), options=options).rungs
    assert [guide_row(rung) for rung in rungs] == [None] * len(rungs)


def test_the_guides_figures_go_together() -> None:
    for row in GUIDE.values():
        assert row.seconds * row.samples_per_second == pytest.approx(512, rel=0.002)
    assert GUIDE["half"].speed == pytest.approx(2.1, abs=0.01)
    assert GUIDE["all-adafactor"].memory == pytest.approx(0.324, abs=0.001)


def test_the_articles_rows_are_those_of_its_models() -> None:
    plan = devices_plan(report(M3_MAX))
    found = {rung.group: article_row(rung) for rung in plan.rungs}
    assert {group for group, row in found.items() if row} == set(ARTICLE)
    assert len(ARTICLE) == 2 * len(MODELS)
    assert found["minilm-4"] is None
    assert ARTICLE["efficientnet_b0-64"].speed == pytest.approx(19.2, abs=0.05)
