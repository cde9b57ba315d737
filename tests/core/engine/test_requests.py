"""A stop is heard while the engine loads, in the middle of work that knows nothing of requests."""

import threading
from pathlib import Path

import pytest

from core.engine.reporter import Reporter
from core.engine.requests import BETWEEN_LOOKS, RequestBox, StopRequested, StopWhileLoading
from core.event_files import EventReader
from core.events import RequestAnswered
from core.run_folder import Action, RunFolder
from tests.fakes.clock import FakeClock


def box(folder: Path) -> tuple[RunFolder, RequestBox]:
    run = RunFolder(folder)
    return run, RequestBox(run, Reporter(run))


def load_for_ever() -> None:
    never = threading.Event()
    while not never.wait(0.05):
        pass


def test_a_stop_interrupts_loading_and_is_answered(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    run.ask(Action.STOP)
    with pytest.raises(StopRequested), StopWhileLoading(run, requests):
        load_for_ever()
    [answer] = [
        event for event in EventReader(run.events_file).read_all() if isinstance(event, RequestAnswered)
    ]
    assert answer.accepted
    assert run.open_requests() == []


def test_loading_that_nobody_stops_goes_through(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    with StopWhileLoading(run, requests):
        loaded = 1
    assert loaded == 1
    assert not requests.stop_accepted


def test_an_error_while_loading_stays_what_it_is(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    with pytest.raises(ValueError, match="damaged"), StopWhileLoading(run, requests):
        raise ValueError("damaged")


def test_the_folder_is_looked_into_a_few_times_a_second_and_a_stop_stays_heard(tmp_path: Path) -> None:
    run, clock = RunFolder(tmp_path), FakeClock(100.0)
    requests = RequestBox(run, Reporter(run), clock.monotonic)
    assert not requests.stop_is_asked()
    run.ask(Action.STOP)
    clock.now += BETWEEN_LOOKS / 2
    assert not requests.stop_is_asked()
    clock.now += BETWEEN_LOOKS
    assert requests.stop_is_asked()
    assert requests.stop_is_asked()
