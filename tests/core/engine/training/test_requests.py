"""A stop is heard while the engine loads, in the middle of work that knows nothing of requests; signals end it, too."""

import os
import signal
import threading
from pathlib import Path

import pytest

from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.engine.training.requests import (
    POLL_INTERVAL,
    EndRequested,
    RequestBox,
    end_while_loading,
    on_signals,
)
from core.options import RunOptions
from core.options.choices import Task
from core.runs.event_log import EventReader
from core.runs.events import Event, Outcome, RequestAnswered, RunFinished
from core.runs.folder import Action, RunFolder
from tests.fakes.machines import FakeClock

posix = pytest.mark.skipif(os.name != "posix", reason="Windows sends no signals")


class Asked:
    """A run, its requests, and a clock for looks into its folder."""

    def __init__(self, folder: Path) -> None:
        self.run, self.clock = RunFolder(folder), FakeClock(100.0)
        self.requests = RequestBox(self.run, Reporter(self.run), self.clock.monotonic)

    def ask(self, *actions: Action) -> None:
        for action in actions:
            self.run.request(action)
        self.clock.now += POLL_INTERVAL * 2

    @property
    def answers(self) -> list[tuple[str, bool]]:
        events = EventReader(self.run.events_file).read_all()
        return [(event.action, event.accepted) for event in events if isinstance(event, RequestAnswered)]


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path)


class TestSignals:
    @posix
    def test_the_same_signal_once_more_ends_the_engine_at_once(self, asked):
        with on_signals(asked.requests.stop_at_signal):
            os.kill(os.getpid(), signal.SIGTERM)
            assert asked.requests.ending is Outcome.STOPPED
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            os.kill(os.getpid(), signal.SIGHUP)  # systemd's second one is another
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)

    @posix
    def test_a_signal_that_the_engine_was_started_to_ignore_stays_ignored(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        try:
            with on_signals(signal.default_int_handler):
                assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
                assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGHUP, before)

    @posix
    def test_a_second_signal_does_not_take_the_place_of_the_ending(self, tmp_path, monkeypatch):
        prepare_torchvision()
        from core.engine.training.train import train_run

        class Reporting(Reporter):
            def write(self, *events: Event) -> None:
                os.kill(os.getpid(), signal.SIGHUP)
                super().write(*events)

        monkeypatch.setattr(
            "core.engine.training.train._train", lambda *_: os.kill(os.getpid(), signal.SIGTERM)
        )
        run, options = RunFolder(tmp_path), RunOptions(task=Task.TEXT_CLASSIFICATION)
        before = signal.signal(signal.SIGHUP, signal.default_int_handler)  # by default it would end the tests
        try:
            assert train_run(run, options, Reporting(run)) == 0
        finally:
            signal.signal(signal.SIGHUP, before)
        [ended] = [one for one in EventReader(run.events_file).read_all() if isinstance(one, RunFinished)]
        assert ended.state is Outcome.STOPPED


def load_for_ever() -> None:
    while not threading.Event().wait(0.05):
        pass


class TestLoading:
    @pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
    def test_a_stop_interrupts_it_also_where_it_ignores_ctrl_c(self, handler, asked):
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

    @pytest.mark.parametrize("error", [ValueError("damaged"), KeyboardInterrupt()])
    def test_an_error_stays_what_it_is(self, error, asked):
        with pytest.raises(type(error)), end_while_loading(asked.run, asked.requests):
            raise error


class TestAnswers:
    def test_the_folder_is_looked_into_a_few_times_a_second_and_a_stop_stays_heard(self, asked):
        assert not asked.requests.end_requested()
        asked.run.request(Action.STOP)
        asked.clock.now += POLL_INTERVAL / 2
        assert not asked.requests.end_requested()
        asked.clock.now += POLL_INTERVAL
        assert asked.requests.end_requested()
        assert asked.requests.end_requested()

    def test_a_checkpoint_is_refused_before_there_is_anything_to_save_and_once_the_run_ends(self, asked):
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

    def test_a_stop_takes_the_place_of_a_pause_and_not_the_other_way_round(self, asked):
        endings = []
        for action in (Action.PAUSE, Action.STOP, Action.PAUSE, Action.STOP):
            asked.ask(action)
            assert asked.requests.end_requested()
            endings.append(asked.requests.ending)
        assert endings == [Outcome.PAUSED, *[Outcome.STOPPED] * 3]
        assert asked.answers == [("pause", True), ("stop", True), ("pause", False), ("stop", True)]

    def test_what_comes_too_late_is_answered_and_a_kill_is_left_to_the_keeper(self, asked):
        asked.ask(Action.PAUSE, Action.KILL)
        asked.requests.refuse_rest()
        assert asked.answers == [("pause", False)]
        assert [request.action for request in asked.run.open_requests()] == [Action.KILL]
