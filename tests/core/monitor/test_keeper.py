"""The real keeper with a fake engine, as processes."""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from core.base.processes import NICENESS
from core.cli.main import main
from core.monitor import keeper as keeping
from core.monitor.keeper import SAMPLE_SECONDS, SPARE_BYTES, Keeper, reserve_space, write_exit_record
from core.runs import event_log
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import (
    DeviceSampled,
    DiskSampled,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    RequestAnswered,
    RunFinished,
    RunStarted,
    Source,
)
from core.runs.folder import Action, ExitRecord, RunFolder, is_same_process
from core.runs.status import State
from tests.fakes.machines import FakeClock
from tests.fakes.runs import FAKES, follow_until, new_run, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path)


def wait_for_steps(follower: RunFollower, keeper: object, steps: int = 3) -> None:
    follow_until(follower, keeper, lambda: follower.status.step >= steps)


def machine(run: RunFolder) -> list[object]:
    return EventReader(run.machine_file).read_all()


def test_a_run_goes_from_its_first_to_its_last_event(run):
    keeper = start(run, "finish")
    follower = RunFollower(run)
    follow_until(follower, keeper, lambda: follower.is_over)
    assert keeper.wait() == 0
    assert follower.state is State.FINISHED
    assert follower.status.metrics["eval_accuracy"] == 0.75
    assert follower.exit_record is not None
    assert (follower.exit_record.code, follower.exit_record.signal) == (0, None)
    assert run.log_file.read_text() == "The fake engine is here.\n"


def test_the_machine_is_sampled_at_once(run):
    keeper = start(run, "finish")
    keeper.wait(10)
    sources = {event.source: event for event in machine(run) if isinstance(event, MemorySampled)}
    assert set(sources) >= {Source.SYSTEM, Source.PROCESS}
    assert 0 < sources[Source.PROCESS].bytes < sources[Source.SYSTEM].ceiling


def test_the_machine_is_sampled_again_and_again_at_most_once_a_second(run):
    started = time.monotonic()
    keeper = start(run, "wait")
    follower = RunFollower(run)

    def samples(kind: type[MemorySampled | DeviceSampled]) -> list[object]:
        return [event for event in machine(run) if isinstance(event, kind) and event.source is Source.SYSTEM]

    follow_until(follower, keeper, lambda: len(samples(MemorySampled)) >= 2)
    run.request(Action.STOP)
    keeper.wait(10)
    assert len(samples(MemorySampled)) <= 1 + (time.monotonic() - started) / SAMPLE_SECONDS
    loads = samples(DeviceSampled)
    assert loads
    assert all(0 <= load.busy <= 1 for load in loads)


def test_a_killed_engine_is_a_crash_with_its_signal_and_the_end_of_the_log(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    os.kill(follower.status.engine_pid, signal.SIGKILL)
    assert keeper.wait(10) == 0
    follower.poll()
    assert follower.is_over
    assert follower.state is State.CRASHED
    record = follower.exit_record
    assert record is not None
    assert (record.code, record.signal) == (-9, "SIGKILL")
    assert "memory" in record.reason
    assert record.log_tail == "The fake engine is here."


def test_with_its_keeper_killed_too_a_killed_engine_is_still_a_crash_within_2_s(run, monkeypatch):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    engine = psutil.Process(follower.status.engine_pid)
    created = engine.create_time()
    keeper.kill()
    keeper.wait()
    engine.kill()
    follow_until(follower, keeper, lambda: not is_same_process(engine.pid, created))
    monkeypatch.setattr(event_log, "time", FakeClock(time.monotonic() + 2.0))
    follower.poll()
    assert follower.is_over
    assert follower.state is State.CRASHED
    assert follower.exit_record is None
    assert run.state(follower.status) is State.CRASHED


def test_an_engine_that_lost_its_keeper_is_still_training_and_can_be_stopped(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    keeper.kill()
    keeper.wait()
    before = follower.status.step
    wait_for_steps(follower, keeper, before + 40)
    assert follower.state is State.TRAINING
    assert run.state(follower.status) is State.TRAINING
    run.request(Action.STOP)
    follow_until(follower, keeper, lambda: follower.is_over)
    assert follower.state is State.STOPPED


def test_a_stop_request_ends_the_run_and_is_answered(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    run.request(Action.STOP)
    follow_until(follower, keeper, lambda: follower.is_over)
    assert follower.state is State.STOPPED
    assert run.open_requests() == []


def test_a_keeper_that_is_asked_to_end_asks_the_engine_to_stop(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    keeper.terminate()
    follow_until(follower, keeper, lambda: follower.is_over)
    assert keeper.wait(10) == 0
    assert follower.state is State.STOPPED


def test_a_kill_request_ends_the_engine_and_its_children_and_is_no_crash(run):
    keeper = start(run, "child")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    child = psutil.Process(int((run.path / "child.pid").read_text()))
    created = child.create_time()
    run.requests.mkdir()
    (run.requests / "other.json").write_text("{")
    request = run.request(Action.KILL)
    follow_until(follower, keeper, lambda: follower.is_over)
    keeper.wait(10)
    assert follower.state is State.STOPPED
    answers = [event for event in machine(run) if isinstance(event, RequestAnswered)]
    assert [(answer.request, answer.accepted) for answer in answers] == [(request.id, True)]
    assert not any(run.requests.iterdir())
    follow_until(follower, keeper, lambda: not is_same_process(child.pid, created))


def test_what_a_killed_engine_had_started_is_ended_too(run):
    keeper = start(run, "child")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    child = psutil.Process(int((run.path / "child.pid").read_text()))
    created = child.create_time()
    os.kill(follower.status.engine_pid, signal.SIGKILL)
    keeper.wait(10)
    follow_until(follower, keeper, lambda: not is_same_process(child.pid, created))


def test_a_bug_is_a_crash_with_its_traceback(run):
    start(run, "bug").wait(10)
    follower = RunFollower(run)
    follower.poll()
    assert follower.state is State.CRASHED
    assert follower.exit_record is not None
    assert follower.exit_record.code == 1
    assert follower.exit_record.log_tail.endswith("RuntimeError: a bug in the fake engine")


def test_the_engine_steps_back_behind_the_window(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    engine = psutil.Process(follower.status.engine_pid)
    niceness = engine.nice()
    run.request(Action.STOP)
    keeper.wait(10)
    assert niceness >= NICENESS


def test_an_engine_that_cannot_be_started_is_told(run):
    record = Keeper(run, [str(run.path / "no-such-program")]).keep()
    assert record == run.exit_record()
    assert record.code is None
    assert "no-such-program" in record.reason


def test_the_second_attempt_carries_its_number(run):
    Keeper(run, [sys.executable, "-P", str(FAKES / "engine.py"), "crash", str(run.path)]).keep()
    run.machine_file.unlink()
    Keeper(run, [sys.executable, "-P", str(FAKES / "engine.py"), "crash", str(run.path)]).keep()
    assert {event.attempt for event in machine(run)} == {2}
    assert any(isinstance(event, RunStarted) for event in EventReader(run.events_file).read_all())


def test_a_run_that_pages_is_told_of_while_it_does_and_no_longer(run, capsys):
    keeper = start(run, "page")
    follower = RunFollower(run)
    follow_until(follower, keeper, lambda: "paging" in follower.status.messages)
    message = follower.status.messages["paging"]
    assert "97 % of the memory (16 GB) was in use" in message.detail
    assert message.fixes[0].changes["memory.batch_size"] == 8, "what helps the options asked for"
    main(["show", str(run.path)])
    assert f"Warning: {message.title}" in capsys.readouterr().out
    follow_until(follower, keeper, lambda: "paging" not in follower.status.messages)
    run.request(Action.STOP)
    follow_until(follower, keeper, lambda: follower.is_over)
    told = [type(event) for event in machine(run) if isinstance(event, MessageRaised | MessageWithdrawn)]
    assert told == [MessageRaised, MessageWithdrawn]


def test_a_run_without_steps_is_told_of_until_the_next(run):
    keeper = start(run, "stuck")
    follower = RunFollower(run)
    follow_until(follower, keeper, lambda: "silence" in follower.status.messages)
    message = follower.status.messages["silence"]
    assert "The last event was step 10 at " in message.detail
    assert "Its process is alive and " in message.detail
    follow_until(follower, keeper, lambda: "silence" not in follower.status.messages)
    run.request(Action.STOP)
    follow_until(follower, keeper, lambda: follower.is_over)
    assert follower.status.messages == {}


def test_the_disk_of_the_run_is_looked_after(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)

    def disks() -> list[DiskSampled]:
        return [event for event in machine(run) if isinstance(event, DiskSampled)]

    follow_until(follower, keeper, lambda: bool(disks()))
    run.request(Action.STOP)
    keeper.wait(10)
    assert 0 < disks()[0].free < disks()[0].total


@pytest.mark.parametrize("end", ["kill", "terminate", "remove"])
def test_a_driver_and_a_disk_that_hang_keep_nobody_from_ending_the_run(run, end):
    keeper = start(run, "hang")
    follower = RunFollower(run)
    follow_until(follower, keeper, lambda: len(machine(run)) > 10)
    assert not [event for event in machine(run) if isinstance(event, DiskSampled)]
    if end == "kill":
        run.request(Action.KILL)
    elif end == "terminate":
        keeper.terminate()
    else:
        shutil.rmtree(run.path)
    assert keeper.wait(10) == 0


def test_the_computer_is_kept_awake_for_as_long_as_the_engine_runs(run, monkeypatch):
    told: list[list[type]] = []

    def engine_told() -> list[type]:
        return [type(event) for event in EventReader(run.events_file).read_all()]

    @contextlib.contextmanager
    def keep_awake() -> Iterator[bool]:
        told.append([])
        yield True
        told.append(engine_told())

    monkeypatch.setattr(keeping, "awake", keep_awake)
    Keeper(run, [sys.executable, "-P", str(FAKES / "engine.py"), "finish", str(run.path)]).keep()
    assert len(told) == 2
    assert RunFinished in told[1]


def test_a_run_whose_folder_is_renamed_goes_on_in_it(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    moved = RunFolder(run.path.rename(run.path.with_name("moved")))
    follower, last = RunFollower(moved), follower.status.step
    wait_for_steps(follower, keeper, last + 5)
    moved.request(Action.SAVE)
    moved.request(Action.STOP)
    follow_until(follower, keeper, lambda: follower.is_over)
    assert keeper.wait(10) == 0
    assert (follower.state, moved.exit_record().code) == (State.STOPPED, 0)
    assert not run.path.exists()


def test_a_run_whose_folder_is_removed_ends(run):
    keeper = start(run, "wait")
    follower = RunFollower(run)
    wait_for_steps(follower, keeper)
    engine = psutil.Process(follower.status.engine_pid)
    shutil.rmtree(run.path)
    keeper.wait(10)
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE


def test_exit_json_is_written_into_reserved_space_even_if_the_disk_is_full(run, monkeypatch, capfd):
    write, records = RunFolder.record_exit, []

    def write_where_there_is_room(run: RunFolder, record: ExitRecord) -> None:
        records.append(record)
        if run.spare_file.exists() or record.log_tail or len(records) <= failures:
            raise OSError(28, "No space left on device")
        write(run, record)

    failures = 4
    reserve_space(run)
    assert run.spare_file.stat().st_size == SPARE_BYTES
    monkeypatch.setattr(keeping.time, "sleep", lambda _: None)
    monkeypatch.setattr(RunFolder, "record_exit", write_where_there_is_room)
    write_exit_record(run, ExitRecord(time=1.0, code=1, reason="It was ended.", log_tail="Lines of a log."))
    assert run.last_exit_record() == ExitRecord(time=1.0, code=1, reason="It was ended.")
    failures = 10**9
    monkeypatch.setattr(keeping, "EXIT_RECORD_SECONDS", 0.0)
    write_exit_record(run, ExitRecord(time=2.0, code=1))
    assert "exit.json can't be written" in capfd.readouterr().err
