"""No watcher says a word where nothing is wrong: in ten made-up runs, and in one that was."""

from pathlib import Path

import pytest

from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from tests.fakes.healthy_runs import HEALTHY, told
from tests.fakes.told_run import FakeActivity, watch

DIGITS = Path(__file__).parents[2] / "data" / "runs" / "digits-on-a-crowded-computer.jsonl"
"""ResNet-18 on the digits, on two cores that eight other programs wanted: steps of 0.1 to 15 s. Both streams of the
run, with each fourth second of the machine's."""


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_hears_nothing(name: str) -> None:
    assert watch(told(name), activity=FakeActivity(0.9)).messages == []


def test_a_real_run_on_a_crowded_computer_hears_nothing() -> None:
    events = EventReader(DIGITS).read_all()
    seconds = [event.seconds for event in events if isinstance(event, StepFinished)]
    assert max(seconds) > 100 * min(seconds), "slow enough to be taken for paging, were memory full"
    assert watch(events, activity=FakeActivity(0.9)).messages == []
