"""No watcher says a word where nothing is wrong."""

import pytest

from tests.fakes.healthy_runs import HEALTHY, told
from tests.fakes.told_run import FakeActivity, watch


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_hears_nothing(name: str) -> None:
    assert watch(told(name), activity=FakeActivity(0.9)).messages == []
