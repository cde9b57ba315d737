"""A stop is heard while the engine loads, in the middle of work that knows nothing of requests."""

import os
import signal
import threading
from pathlib import Path

import pytest

from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.engine.training.callbacks import BETWEEN_LOOKS, EndRequested, EndWhileLoading, RequestBox
from core.engine.training.loading import on_signals
from core.options import RunOptions
from core.options.choices import Task
from core.runs.event_log import EventReader
from core.runs.events import Event, Outcome, RequestAnswered, RunFinished
from core.runs.folder import Action, RunFolder
from tests.fakes.clock import FakeClock


def box(folder: Path) -> tuple[RunFolder, RequestBox]:
    run = RunFolder(folder)
    return run, RequestBox(run, Reporter(run))


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")
def test_the_same_signal_once_more_ends_the_engine_at_once(tmp_path: Path) -> None:
    box = RequestBox(RunFolder(tmp_path), Reporter(None))
    with on_signals(box.stop_at_signal):
        os.kill(os.getpid(), signal.SIGTERM)
        assert box.ending is Outcome.STOPPED
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGHUP)  # systemd's second one is another
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")
def test_a_signal_that_the_engine_was_started_to_ignore_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with on_signals(signal.default_int_handler):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")
def test_a_second_signal_does_not_take_the_place_of_the_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_torchvision()
    from core.engine.training.train import train_run

    class Reporting(Reporter):
        def write(self, *events: Event) -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            super().write(*events)

    def interrupted(attempt: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("core.engine.training.train._train", interrupted)
    run = RunFolder(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.default_int_handler)  # by default it would end the tests
    try:
        assert train_run(run, RunOptions(task=Task.TEXT_CLASSIFICATION), Reporting(run)) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    [ended] = [event for event in EventReader(run.events_file).read_all() if isinstance(event, RunFinished)]
    assert ended.state is Outcome.STOPPED


def test_a_handler_that_python_did_not_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with on_signals(signal.SIG_IGN):
        monkeypatch.undo()
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN


def load_for_ever() -> None:
    never = threading.Event()
    while not never.wait(0.05):
        pass


def test_a_stop_interrupts_loading_and_is_answered(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    run.ask(Action.STOP)
    with pytest.raises(EndRequested), EndWhileLoading(run, requests):
        load_for_ever()
    [answer] = [
        event for event in EventReader(run.events_file).read_all() if isinstance(event, RequestAnswered)
    ]
    assert answer.accepted
    assert run.open_requests() == []


def test_a_stop_interrupts_loading_that_ignores_ctrl_c(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    run.ask(Action.STOP)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(EndRequested), EndWhileLoading(run, requests):
            load_for_ever()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_loading_that_nobody_stops_goes_through(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    with EndWhileLoading(run, requests):
        loaded = 1
    assert loaded == 1
    assert requests.ending is None


def test_an_error_while_loading_stays_what_it_is(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    with pytest.raises(ValueError, match="damaged"), EndWhileLoading(run, requests):
        raise ValueError("damaged")


def test_the_folder_is_looked_into_a_few_times_a_second_and_a_stop_stays_heard(tmp_path: Path) -> None:
    run, clock = RunFolder(tmp_path), FakeClock(100.0)
    requests = RequestBox(run, Reporter(run), clock.monotonic)
    assert not requests.end_is_asked()
    run.ask(Action.STOP)
    clock.now += BETWEEN_LOOKS / 2
    assert not requests.end_is_asked()
    clock.now += BETWEEN_LOOKS
    assert requests.end_is_asked()
    assert requests.end_is_asked()


def answers(run: RunFolder) -> list[tuple[str, bool]]:
    events = EventReader(run.events_file).read_all()
    return [(event.action, event.accepted) for event in events if isinstance(event, RequestAnswered)]


def test_a_checkpoint_is_refused_before_there_is_anything_to_save_and_once_the_run_ends(
    tmp_path: Path,
) -> None:
    run, clock = RunFolder(tmp_path), FakeClock(100.0)
    requests = RequestBox(run, Reporter(run), clock.monotonic)
    run.ask(Action.SAVE)
    assert not requests.save_is_asked()
    requests.can_save = True
    clock.now += BETWEEN_LOOKS * 2
    run.ask(Action.SAVE)
    assert requests.save_is_asked()
    assert not requests.save_is_asked()  # once
    clock.now += BETWEEN_LOOKS * 2
    run.ask(Action.PAUSE)
    assert requests.end_is_asked()
    clock.now += BETWEEN_LOOKS * 2
    run.ask(Action.SAVE)
    assert not requests.save_is_asked()
    assert answers(run) == [("save", False), ("save", True), ("pause", True), ("save", False)]


def test_a_stop_takes_the_place_of_a_pause_and_not_the_other_way_round(tmp_path: Path) -> None:
    run, clock = RunFolder(tmp_path), FakeClock(100.0)
    requests = RequestBox(run, Reporter(run), clock.monotonic)
    for action, outcome in ((Action.PAUSE, Outcome.PAUSED), (Action.STOP, Outcome.STOPPED)) * 2:
        run.ask(action)
        clock.now += BETWEEN_LOOKS * 2
        assert requests.end_is_asked()
        assert requests.ending in (outcome, Outcome.STOPPED)
    assert answers(run) == [("pause", True), ("stop", True), ("pause", False), ("stop", True)]


def test_what_comes_too_late_is_answered_and_a_kill_is_left_to_the_keeper(tmp_path: Path) -> None:
    run, requests = box(tmp_path)
    run.ask(Action.PAUSE)
    run.ask(Action.KILL)
    requests.refuse_rest()
    assert answers(run) == [("pause", False)]
    assert [request.action for request in run.open_requests()] == [Action.KILL]
