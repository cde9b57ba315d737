"""Requests and signals that end a run, while it loads and while it trains."""

import os
import signal
import threading
from pathlib import Path

import pytest

from core.engine.reporter import Reporter
from core.engine.run.requests import EndRequested, RequestBox, end_while_loading, on_signals
from core.engine.train import train_run
from core.options import RunOptions
from core.options.choices import Task
from core.runs.event_log import EventReader
from core.runs.events import Action, Event, Outcome, RequestAnswered, RunFinished
from core.runs.folder import RunFolder

posix = pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")


class Asked:
    """A run and its requests."""

    def __init__(self, folder: Path) -> None:
        self.run = RunFolder(folder)
        self.requests = RequestBox(self.run, Reporter(self.run))

    def ask(self, *actions: Action) -> None:
        for action in actions:
            self.run.request(action)

    @property
    def answers(self) -> list[tuple[str, bool]]:
        events = EventReader(self.run.events_file).read_all()
        return [(event.action, event.accepted) for event in events if isinstance(event, RequestAnswered)]


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path)


def test_a_stop_is_seen_at_the_next_question_however_soon_and_stays_requested(asked):
    assert not asked.requests.end_requested()
    asked.ask(Action.STOP)
    assert [asked.requests.end_requested() for _ in range(2)] == [True, True]


def test_a_checkpoint_is_refused_before_there_is_anything_to_save_and_once_the_run_ends(asked):
    asked.ask(Action.SAVE)
    assert not asked.requests.save_requested()
    asked.requests.can_save = True
    asked.ask(Action.SAVE)
    assert [asked.requests.save_requested() for _ in range(2)] == [True, False]
    asked.ask(Action.PAUSE)
    assert asked.requests.end_requested()
    asked.ask(Action.SAVE)
    assert not asked.requests.save_requested()
    assert asked.answers == [("save", False), ("save", True), ("pause", True), ("save", False)]


def test_a_stop_takes_the_place_of_a_pause_and_not_the_other_way_round(asked):
    endings = []
    for action in (Action.PAUSE, Action.STOP, Action.PAUSE, Action.STOP):
        asked.ask(action)
        assert asked.requests.end_requested()
        endings.append(asked.requests.ending)
    assert endings == [Outcome.PAUSED, *[Outcome.STOPPED] * 3]
    assert asked.answers == [("pause", True), ("stop", True), ("pause", False), ("stop", True)]


def test_a_stop_leaves_time_for_an_evaluation_until_a_second_one_and_a_pause_does_not(asked):
    cuts = []
    for action in (Action.PAUSE, Action.STOP, Action.STOP):
        asked.ask(action)
        cuts.append(asked.requests.cuts_short())
    assert cuts == [True, False, True]


def test_a_request_that_comes_too_late_is_refused_and_a_kill_is_left_to_the_keeper(asked):
    asked.ask(Action.PAUSE, Action.KILL)
    asked.requests.refuse_rest()
    assert asked.answers == [("pause", False)]
    assert [request.action for request in asked.run.open_requests()] == [Action.KILL]


def load_for_ever() -> None:
    while not threading.Event().wait(0.05):
        pass


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["usual", "ignored"])
def test_a_stop_interrupts_loading_also_where_ctrl_c_is_ignored(handler, asked):
    asked.run.request(Action.STOP)
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(EndRequested), end_while_loading(asked.run, asked.requests):
            load_for_ever()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked.answers == [("stop", True)]
    assert asked.run.open_requests() == []


@pytest.mark.parametrize("error", [ValueError("damaged"), KeyboardInterrupt()], ids=repr)
def test_an_error_while_loading_stays_what_it_is(error, asked):
    with pytest.raises(type(error)), end_while_loading(asked.run, asked.requests):
        raise error


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where these tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@posix
def test_the_same_signal_once_more_ends_the_engine_at_once(asked, interruptible):
    with on_signals(asked.requests.stop_at_signal):
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.requests.ending is Outcome.STOPPED
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGHUP)  # systemd's second one is another
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@posix
def test_a_signal_that_the_engine_was_started_to_ignore_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with on_signals(signal.default_int_handler):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


@posix
def test_a_second_signal_while_the_ending_is_written_changes_nothing(tmp_path, monkeypatch):
    class Interrupted(Reporter):
        def write(self, *events: Event) -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            super().write(*events)

    monkeypatch.setattr("core.engine.train._train", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    run, options = RunFolder(tmp_path), RunOptions(task=Task.TEXT_CLASSIFICATION)
    before = signal.signal(signal.SIGHUP, signal.default_int_handler)  # by default it would end the tests
    try:
        assert train_run(run, options, Interrupted(run)) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    ended = [event for event in EventReader(run.events_file).read_all() if isinstance(event, RunFinished)]
    assert [event.state for event in ended] == [Outcome.STOPPED]
