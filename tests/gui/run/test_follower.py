import sys
import time
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from core.runs import start
from core.runs.event_log import EventWriter
from core.runs.events import RunFinished, TurnAwaited
from core.runs.folder import Action, ExitRecord
from core.runs.library import read_status
from core.runs.status import RunStatus, State
from gui.charts.history import RunHistory
from gui.run import follower
from gui.run.follower import FIRST_BYTES, JobThread, LogTail
from tests.fakes.runs import Plot, crash, finish, keep_alive, make_folder, opening, write_story

KEEPER = Path(__file__).resolve().parents[2] / "fakes" / "keeper.py"


class Listener(QObject):
    """Keeps all that a thread tells, in order. Of a QObject Qt knows when it is gone, and calls it no more."""

    def __init__(self, thread):
        super().__init__()
        self.history, self.status, self.news = RunHistory(), RunStatus(), 0
        self.states, self.log, self.failures, self.order = [], "", [], []
        thread.updated.connect(self.on_update)
        thread.state_changed.connect(self.on_state)
        thread.log_arrived.connect(self.on_log)
        thread.job_failed.connect(self.on_failure)
        thread.ended.connect(self.on_end)

    def on_update(self, news):
        self.news += 1
        self.status = news.status
        for batch in news.batches:
            self.history.add(batch)
        self.order.append("news")

    def on_state(self, state):
        self.states.append(state)
        self.order.append(state)

    def on_log(self, text):
        self.log += text

    def on_failure(self, error):
        self.failures.append(error)

    def on_end(self, record):
        self.order.append(record)


@pytest.fixture
def live(tmp_path):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    return run


@pytest.fixture
def follow(qtbot):
    threads = []

    def make(run, **how):
        thread = JobThread(run, **how)
        threads.append(thread)
        return thread, Listener(thread)

    yield make
    for thread in threads:
        thread.stop_following()
        assert thread.wait(5000)


def test_reads_a_run_that_is_long_over_and_ends(qtbot, tmp_path, follow):
    run = make_folder(tmp_path / "run")
    plot = Plot()
    finish(run, plot, write_story(run, plot))
    run.log_file.write_text("first\nlast, without a newline")
    thread, listener = follow(run)
    with qtbot.waitSignal(thread.finished, timeout=5000):
        thread.start()
    qtbot.waitUntil(lambda: listener.states == [State.FINISHED], timeout=2000)
    assert (listener.status.step, len(listener.history.step_seconds)) == (plot.reached, plot.reached)
    assert listener.log == "first\nlast, without a newline"
    assert [said for said in listener.order if said != "news"] == [run.exit_record(), State.FINISHED]
    assert listener.status.finished is not None


def test_follows_a_run_as_it_is_written(qtbot, live, follow):
    plot = Plot(reached=0, start=time.time())
    writer = EventWriter(live.events_file)
    for event in opening(plot)[:2]:
        writer.write(event)
    thread, listener = follow(live)
    with qtbot.waitSignal(thread.state_changed, timeout=5000):
        thread.start()
    assert listener.states == [State.STARTING]
    with qtbot.waitSignal(thread.state_changed, timeout=5000):
        for event in opening(plot)[2:]:
            writer.write(event)
    assert listener.states == [State.STARTING, State.TRAINING]
    with qtbot.waitSignal(thread.finished, timeout=5000):
        writer.write(RunFinished(state="finished", steps=0))
        live.record_exit(ExitRecord(time=time.time(), code=0))
    writer.close()
    qtbot.waitUntil(lambda: listener.states[-1] is State.FINISHED, timeout=2000)


def test_a_stop_is_passed_on_and_a_killed_engine_is_reported_within_two_seconds(qtbot, live, follow):
    write_story(live, Plot(reached=20, start=time.time()))
    thread, listener = follow(live)
    with qtbot.waitSignal(thread.state_changed, timeout=5000):
        thread.start()
    with qtbot.waitSignal(thread.state_changed, timeout=5000):
        thread.request(Action.STOP)
    assert [request.action for request in live.open_requests()] == [Action.STOP]
    with qtbot.waitSignal(thread.ended, timeout=2000):
        crash(live, time.time())
    qtbot.waitUntil(lambda: listener.states == [State.TRAINING, State.STOPPING, State.CRASHED], timeout=2000)


def test_stops_following_at_once_and_leaves_the_run_alone(qtbot, live, follow):
    write_story(live, Plot(reached=20, start=time.time()))
    thread, _ = follow(live)
    with qtbot.waitSignal(thread.state_changed, timeout=5000):
        thread.start()
    before = time.monotonic()
    thread.stop_following()
    assert thread.wait(2000)
    assert time.monotonic() - before < 0.5
    assert live.exit_record() is None
    assert live.open_requests() == []


def test_starts_the_run_when_asked(qtbot, tmp_path, follow):
    run = make_folder(tmp_path / "run")
    thread, listener = follow(
        run, begin=partial(start.start, run, [sys.executable, "-P", str(KEEPER), "finish", str(run.path)])
    )
    with qtbot.waitSignal(thread.finished, timeout=10_000):
        thread.start()
    qtbot.waitUntil(lambda: State.FINISHED in listener.states, timeout=2000)
    assert listener.failures == []
    assert "The fake engine is here." in listener.log
    assert (listener.status.step, len(listener.history.step_seconds)) == (3, 3)


def test_a_long_past_comes_in_several_parts_and_whole(qtbot, tmp_path, follow, monkeypatch):
    monkeypatch.setattr(follower, "POLL_SECONDS", 0.0)
    run = make_folder(tmp_path / "run")
    plot = Plot(steps=4000, reached=4000)
    finish(run, plot, write_story(run, plot))
    thread, listener = follow(run)
    with qtbot.waitSignal(thread.finished, timeout=20_000):
        thread.start()
    qtbot.waitUntil(lambda: listener.status.finished is not None, timeout=2000)
    assert listener.news > 5
    assert listener.order[:3] == ["news", run.exit_record(), State.FINISHED], (
        "known from the end of the file, before all of it is read"
    )
    assert listener.states == [State.FINISHED]
    assert listener.history.loss.x.tolist() == list(range(1, 4001))
    assert len(listener.history.evaluations) == plot.epochs
    status = read_status(run)
    assert listener.status == status


def test_a_run_that_waits_with_a_long_past_is_listener_as_waiting_from_the_first_moment(
    qtbot, tmp_path, follow, monkeypatch
):
    monkeypatch.setattr(follower, "POLL_SECONDS", 0.0)
    run = make_folder(tmp_path / "run")
    plot = Plot(steps=4000, reached=2000)
    write_story(run, plot)
    keep_alive(run, attempt=2)
    keeper = EventWriter(run.machine_file, attempt=2)
    keeper.write(TurnAwaited(ahead=1, behind="other"))
    keeper.close()
    thread, listener = follow(run)
    wholes = []
    thread.updated.connect(lambda news: wholes.append((news.is_complete, news.status.step)))
    thread.start()
    qtbot.waitUntil(lambda: (True, 2000) in wholes, timeout=20_000)
    assert listener.states == [State.QUEUED]
    assert listener.order[:2] == ["news", State.QUEUED]
    assert wholes[0] == (False, 2000), "how far it is, from the ends of its files"
    assert {step for _, step in wholes} == {2000}, "never further back meanwhile"


def test_a_log_is_read_in_whole_lines_of_which_only_the_last_state_is_kept(tmp_path):
    path = tmp_path / "log.txt"
    tail = LogTail(path)
    assert tail.read() == ""
    path.write_bytes(b"one\ntw")
    assert tail.read() == "one\n"
    with path.open("ab") as file:
        file.write("o – ü\n\r 10%\r100%\n\x1b[31mred\x1b[0m\nno newline".encode())
    assert tail.read() == "two – ü\n100%\nred\n"
    assert tail.read_rest() == "no newline"


def test_of_a_long_log_the_end(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 99 + b"\n" + b"".join(b"%07d\n" % number for number in range(FIRST_BYTES // 8)))
    text = LogTail(path).read()
    assert text.endswith(f"{FIRST_BYTES // 8 - 1:07d}\n")
    assert text.startswith("0000001\n")
