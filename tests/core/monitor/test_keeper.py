"""The real keeper with a fake engine, as processes."""

import contextlib
import os
import shutil
import sys
import time

import psutil
import pytest

from core.base.processes import NICENESS
from core.monitor import keeper as keeping
from core.monitor.keeper import SAMPLE_SECONDS, SPARE_BYTES, Keeper, write_exit_record
from core.runs import event_log
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import (
    Action,
    DeviceSampled,
    DiskSampled,
    Event,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    RequestAnswered,
    RunFinished,
    Source,
)
from core.runs.folder import ExitRecord, RunFolder, is_same_process
from core.runs.status import State
from tests.fakes.machines import FakeClock
from tests.fakes.runs import FAKES, follow_until, new_run, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path)


def machine(run: RunFolder, *kinds: type[Event]) -> list[Event]:
    """What the keeper has written, of these kinds."""
    return [event for event in EventReader(run.machine_file).read_all() if isinstance(event, kinds)]


class Watched:
    """A run with its keeper and a follower, once it has made some steps."""

    def __init__(self, run: RunFolder, scenario: str) -> None:
        self.keeper, self.follower = start(run, scenario), RunFollower(run)
        self.until(lambda: self.follower.status.step >= 3)
        self.engine = psutil.Process(self.follower.status.engine_pid)
        self.processes = [(self.engine.pid, self.engine.create_time())]
        if (run.path / "child.pid").exists():
            child = int((run.path / "child.pid").read_text())
            self.processes.append((child, psutil.Process(child).create_time()))

    def until(self, condition) -> None:
        follow_until(self.follower, self.keeper, condition)

    def end(self) -> State:
        """Wait until the run is over and its keeper gone."""
        self.until(lambda: self.follower.is_over)
        assert self.keeper.wait(10) == 0
        return self.follower.state

    def until_gone(self) -> None:
        """Wait until the engine and what it has started are gone."""
        self.until(lambda: not any(is_same_process(*process) for process in self.processes))


def keep(run: RunFolder, scenario: str) -> ExitRecord:
    """Be the keeper of one attempt."""
    return Keeper(run, [sys.executable, "-P", str(FAKES / "engine.py"), scenario, str(run.path)]).keep()


def test_a_run_from_its_first_to_its_last_event_while_the_computer_is_kept_awake(run, monkeypatch):
    seen = []

    @contextlib.contextmanager
    def keep_awake():
        seen.append(EventReader(run.events_file).read_all())
        yield True
        seen.append(EventReader(run.events_file).read_all())

    monkeypatch.setattr(keeping, "awake", keep_awake)
    record = keep(run, "finish")
    assert (record.code, record.signal) == (0, None)
    assert seen[0] == []
    assert isinstance(seen[1][-1], RunFinished)
    follower = RunFollower(run)
    follower.poll()
    assert (follower.state, follower.exit_record) == (State.FINISHED, record)
    assert follower.status.metrics["eval_accuracy"] == 0.75
    assert run.log_file.read_text() == "The fake engine is here.\n"
    memory = {event.source: event for event in machine(run, MemorySampled)}
    assert 0 < memory[Source.PROCESS].bytes < memory[Source.SYSTEM].ceiling


def test_the_machine_is_sampled_at_most_once_a_second_until_the_run_is_stopped(run):
    started = time.monotonic()
    watched = Watched(run, "wait")
    assert watched.engine.nice() >= NICENESS, "the window comes first"

    def samples(kind):
        return [event for event in machine(run, kind) if event.source is Source.SYSTEM]

    watched.until(
        lambda: len(samples(MemorySampled)) >= 2 and samples(DeviceSampled) and machine(run, DiskSampled)
    )
    run.request(Action.STOP)
    assert watched.end() is State.STOPPED
    assert run.open_requests() == []
    assert len(samples(MemorySampled)) <= 1 + (time.monotonic() - started) / SAMPLE_SECONDS
    assert all(0 <= load.busy <= 1 for load in samples(DeviceSampled))
    assert 0 < machine(run, DiskSampled)[0].free < machine(run, DiskSampled)[0].total


def test_a_killed_engine_is_a_crash_with_its_signal_and_log_and_what_it_started_is_ended(run):
    watched = Watched(run, "child")
    assert len(watched.processes) == 2
    watched.engine.kill()
    assert watched.end() is State.CRASHED
    record = watched.follower.exit_record
    assert (record.code, record.signal, record.log_tail) == (-9, "SIGKILL", "The fake engine is here.")
    assert "memory" in record.reason
    watched.until_gone()


@pytest.mark.parametrize("ended", [State.STOPPED, State.CRASHED])
def test_an_engine_that_lost_its_keeper_trains_until_it_is_stopped_or_killed(run, ended, monkeypatch):
    watched = Watched(run, "wait")
    watched.keeper.kill()
    watched.keeper.wait()
    before = watched.follower.status.step
    watched.until(lambda: watched.follower.status.step >= before + 10)
    assert watched.follower.state is run.state(watched.follower.status) is State.TRAINING
    if ended is State.STOPPED:
        run.request(Action.STOP)
        watched.until(lambda: watched.follower.is_over)
    else:
        watched.engine.kill()
        watched.until_gone()
        monkeypatch.setattr(event_log, "time", FakeClock(time.monotonic() + 2.0))
        watched.follower.poll()
    assert watched.follower.is_over
    assert watched.follower.state is run.state(watched.follower.status) is ended
    assert watched.follower.exit_record is None


def test_a_bug_is_a_crash_with_its_traceback_and_the_next_attempt_carries_its_number(run):
    record = keep(run, "bug")
    follower = RunFollower(run)
    follower.poll()
    assert (follower.state, record.code) == (State.CRASHED, 1)
    assert record.log_tail.endswith("RuntimeError: a bug in the fake engine")
    run.machine_file.unlink()
    keep(run, "crash")
    assert {event.attempt for event in machine(run, Event)} == {2}
    assert {event.attempt for event in EventReader(run.events_file).read_all()} == {1, 2}


def test_an_engine_that_cannot_be_started_is_reported(run):
    record = Keeper(run, [str(run.path / "no-such-program")]).keep()
    assert record == run.exit_record()
    assert record.code is None
    assert "no-such-program" in record.reason


@pytest.mark.parametrize(
    ("scenario", "message_id", "detail"),
    [
        ("page", "paging", "97 % of the memory (16.0 GB) was in use"),
        ("stuck", "silence", "Its process is alive and "),
    ],
)
def test_a_warning_is_raised_while_it_holds_and_withdrawn(run, scenario, message_id, detail):
    watched = Watched(run, scenario)
    watched.until(lambda: message_id in watched.follower.status.messages)
    message = watched.follower.status.messages[message_id]
    assert detail in message.detail
    if scenario == "page":
        assert message.fixes[0].changes["memory.batch_size"] == 8, "computed from the run's options"
    watched.until(lambda: message_id not in watched.follower.status.messages)
    run.request(Action.STOP)
    watched.end()
    messages = machine(run, MessageRaised, MessageWithdrawn)
    assert [type(message) for message in messages] == [MessageRaised, MessageWithdrawn]


@pytest.mark.parametrize("end", ["kill", "terminate", "remove"])
def test_a_driver_and_a_disk_that_hang_do_not_keep_the_run_from_ending(run, end):
    watched = Watched(run, "hang")
    watched.until(lambda: len(machine(run, Event)) > 10)
    assert machine(run, DiskSampled) == []
    match end:
        case "kill":
            run.requests.mkdir()
            (run.requests / "other.json").write_text("{")
            request = run.request(Action.KILL)
            assert watched.end() is State.STOPPED, "no crash"
            [answer] = machine(run, RequestAnswered)
            assert (answer.request, answer.accepted) == (request.id, True)
            assert list(run.requests.iterdir()) == []
        case "terminate":
            watched.keeper.terminate()
            assert watched.end() is State.STOPPED
        case "remove":
            shutil.rmtree(run.path)
            assert watched.keeper.wait(10) == 0
    watched.until_gone()


def test_a_run_whose_folder_is_renamed_continues_in_it(run):
    watched = Watched(run, "wait")
    moved = RunFolder(run.path.rename(run.path.with_name("moved")))
    last = watched.follower.status.step
    watched.follower = RunFollower(moved)
    watched.until(lambda: watched.follower.status.step >= last + 5)
    moved.request(Action.SAVE)
    moved.request(Action.STOP)
    assert (watched.end(), moved.exit_record().code) == (State.STOPPED, 0)
    assert not run.path.exists()


def test_exit_json_is_written_into_reserved_space_even_if_the_disk_is_full(run, monkeypatch, capfd):
    write, records = RunFolder.record_exit, []

    def write_where_there_is_room(run: RunFolder, record: ExitRecord) -> None:
        records.append(record)
        if run.spare_file.exists() or record.log_tail or len(records) <= failures:
            raise OSError(28, "No space left on device")
        write(run, record)

    failures = 4
    Keeper(run, ["engine"])
    assert run.spare_file.stat().st_size == SPARE_BYTES
    monkeypatch.setattr(keeping.time, "sleep", lambda _: None)
    monkeypatch.setattr(RunFolder, "record_exit", write_where_there_is_room)
    write_exit_record(run, ExitRecord(time=1.0, code=1, reason="It was ended.", log_tail="Lines of a log."))
    assert run.last_exit_record() == ExitRecord(time=1.0, code=1, reason="It was ended.")
    failures = 10**9
    monkeypatch.setattr(keeping, "EXIT_RECORD_SECONDS", 0.0)
    write_exit_record(run, ExitRecord(time=2.0, code=1))
    assert "exit.json can't be written" in capfd.readouterr().err
