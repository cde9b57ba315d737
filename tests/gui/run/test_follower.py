"""A run followed by its thread: from its start, while it is written, after its end, and one with a long past."""

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from core.runs.event_log import EventWriter
from core.runs.events import Action, TurnAwaited
from core.runs.library import read_status
from core.runs.status import RunStatus, State
from gui.charts.history import RunHistory
from gui.run import follower
from gui.run.follower import FIRST_BYTES, LogTail, RunFollowerThread
from tests.fakes.runs import Plot, crash, finish, keep_alive, make_folder, step, write_events, write_story

KEEPER = Path(__file__).resolve().parents[2] / "fakes" / "keeper.py"


class Listener(QObject):
    """Collects all that a thread emits, in order. Qt disconnects a QObject when it is deleted."""

    def __init__(self, thread):
        super().__init__()
        self.history, self.status = RunHistory(), RunStatus()
        self.updates, self.states, self.order = [], [], []
        thread.updated.connect(self.on_update)
        thread.state_changed.connect(self.on_state)
        thread.ended.connect(self.on_end)

    def on_update(self, news):
        self.updates.append((news.is_complete, news.status.step))
        self.status = news.status
        for batch in news.batches:
            self.history.add(batch)
        self.order.append("update")

    def on_state(self, state):
        self.states.append(state)
        self.order.append(state)

    def on_end(self, record):
        self.order.append(record)


@pytest.fixture
def run(tmp_path):
    return make_folder(tmp_path / "run")


@pytest.fixture
def follow(qtbot):
    threads = []

    def make(run, **how):
        thread = RunFollowerThread(run, **how)
        threads.append(thread)
        return thread, Listener(thread)

    yield make
    for thread in threads:
        thread.stop_following()
        assert thread.wait(5000)


def test_a_request_is_passed_on_a_killed_engine_is_reported_and_following_stops_at_once(qtbot, run, follow):
    keep_alive(run)
    write_story(run, Plot(reached=20, start=time.time()))
    other, _ = follow(run)
    thread, listener = follow(run)
    with qtbot.waitSignals([thread.state_changed, other.state_changed], timeout=5000):
        thread.start()
        other.start()
    before = time.monotonic()
    other.stop_following()
    assert other.wait(2000)
    assert time.monotonic() - before < 0.5
    assert (run.exit_record(), run.open_requests()) == (None, [])
    with qtbot.waitSignal(thread.state_changed, timeout=5000):
        thread.request(Action.STOP)
    assert [request.action for request in run.open_requests()] == [Action.STOP]
    with qtbot.waitSignal(thread.ended, timeout=2000):
        crash(run, time.time())
    qtbot.waitUntil(lambda: listener.states == [State.TRAINING, State.STOPPING, State.CRASHED], timeout=2000)


def test_a_request_that_came_after_the_end_is_not_one_to_the_next_attempt(qtbot, run, follow):
    finish(run, Plot(), write_story(run, Plot()))
    thread, listener = follow(run)
    with qtbot.waitSignal(thread.finished, timeout=5000):
        thread.start()
    thread.request(Action.PAUSE)

    def resume():
        run.exit_file.unlink()
        keep_alive(run, attempt=2)

    thread.begin(resume)
    qtbot.waitUntil(lambda: State.STARTING in listener.states, timeout=5000)
    assert run.open_requests() == []


def test_steps_wait_for_others_but_not_for_the_run_to_end(qtbot, run, follow, monkeypatch):
    monkeypatch.setattr(follower, "REPORT_SECONDS", 1000.0)
    plot = Plot(steps=40, reached=20, start=time.time())
    keep_alive(run)
    clock = write_story(run, plot)
    thread, listener = follow(run)
    thread.start()
    qtbot.waitUntil(lambda: (True, 20) in listener.updates, timeout=5000)
    before = len(listener.updates)
    for number in (21, 22):
        write_events(run.events_file, step(number, time=clock))
        qtbot.waitUntil(lambda number=number: thread._follower.status.step == number, timeout=5000)
    assert len(listener.updates) == before
    finish(run, plot, clock)
    qtbot.waitUntil(lambda: State.FINISHED in listener.states, timeout=5000)
    assert listener.updates[before] == (True, 22)
    assert listener.history.step_seconds.x.tolist() == list(range(1, 23))


def test_a_long_past_is_read_whole_in_parts_after_the_state(qtbot, run, follow, monkeypatch):
    monkeypatch.setattr(follower, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(follower, "REPORT_SECONDS", 0.0)
    plot = Plot(steps=4000, reached=4000)
    finish(run, plot, write_story(run, plot))
    thread, listener = follow(run)
    with qtbot.waitSignal(thread.finished, timeout=20_000):
        thread.start()
    qtbot.waitUntil(lambda: listener.status.finished is not None, timeout=2000)
    assert len(listener.updates) > 5
    assert listener.order[:3] == ["update", run.exit_record(), State.FINISHED]
    assert listener.states == [State.FINISHED]
    assert listener.history.loss.x.tolist() == list(range(1, 4001))
    assert len(listener.history.evaluations) == plot.epochs
    assert listener.status == read_status(run)


def test_a_waiting_run_with_a_long_past_is_waiting_and_as_far_as_it_is_from_the_start(
    qtbot, run, follow, monkeypatch
):
    monkeypatch.setattr(follower, "POLL_SECONDS", 0.0)
    write_story(run, Plot(steps=4000, reached=2000))
    keep_alive(run, attempt=2)
    keeper = EventWriter(run.machine_file, attempt=2)
    keeper.write(TurnAwaited(ahead=1, behind="other"))
    keeper.close()
    thread, listener = follow(run)
    remains = []
    thread.remains_changed.connect(remains.append)
    thread.start()
    qtbot.waitUntil(lambda: (True, 2000) in listener.updates, timeout=20_000)
    assert len(remains) == 1, "what it will go on with"
    assert listener.order[:2] == ["update", State.QUEUED]
    assert listener.states == [State.QUEUED]
    assert listener.updates[0] == (False, 2000), "how far it is, from the ends of its files"
    assert {step for _, step in listener.updates} == {2000}


def test_a_log_is_read_in_whole_lines_as_a_terminal_would_show_them(tmp_path):
    path = tmp_path / "log.txt"
    tail = LogTail(path)
    assert tail.read() == ""
    path.write_bytes(b"one\ntw")
    assert tail.read() == "one\n"
    with path.open("ab") as file:
        file.write("o – ü\n\r 10%\r100%\n\x1b[31mred\x1b[0m\nno newline".encode())
    assert tail.read() == "two – ü\n100%\nred\n"
    assert tail.read_rest() == "no newline"


def test_of_a_long_log_only_the_end_is_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 99 + b"\n" + b"".join(b"%07d\n" % number for number in range(FIRST_BYTES // 8)))
    text = LogTail(path).read()
    assert text.endswith(f"{FIRST_BYTES // 8 - 1:07d}\n")
    assert text.startswith("0000001\n")
