"""Runs that wait with real keepers: they train in their order, whoever dies, pauses or fails."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
import pytest

from core.options.past_runs import title_of
from core.runs import queue
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import RequestAnswered
from core.runs.folder import Action, KeeperRecord, RunFolder
from core.runs.library import create, read_status
from core.runs.queue import Move
from core.runs.status import State
from tests.fakes.runs import digits_options, follow_until, keeper_command, start

posix = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")

SELF = KeeperRecord.of(os.getpid())


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own: the queue of other tests is none of this test's."""
    path = tmp_path / "home"
    monkeypatch.setenv("HONE_HOME", str(path))
    return path


def order() -> list[str]:
    return [run.name for run in queue.waiting()]


def asking(folder: Path, device: str, name: str) -> RunFolder:
    options = digits_options(name)
    options = msgspec.structs.replace(options, device=msgspec.structs.replace(options.device, name=device))
    return create(options, folder)


@dataclass
class Keepers:
    """Runs with real keepers and fake engines, ended at the end of a test."""

    folder: Path
    processes: dict[Path, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def add(
        self, name: str, scenario: str = "wait", *, device: str = "cpu", queued: bool = True
    ) -> RunFollower:
        run = asking(self.folder, device, name)
        self.processes[run.path] = start(run, scenario, queued=queued)
        return RunFollower(run)

    def until(self, follower: RunFollower, state: State) -> None:
        follow_until(follower, self.processes[follower.run.path], lambda: follower.state is state)

    def until_over(self, follower: RunFollower) -> None:
        follow_until(follower, self.processes[follower.run.path], lambda: follower.is_over)

    def resume(self, follower: RunFollower, scenario: str = "wait", *, queued: bool = False) -> RunFollower:
        run = follower.run
        self.processes[run.path].wait(10)
        command = keeper_command(run, scenario, queued=queued)
        self.processes[run.path] = runs_start.resume(run, command, queued=queued)
        return RunFollower(run)


@pytest.fixture
def keepers(tmp_path):
    made = Keepers(tmp_path / "runs")
    yield made
    for path, process in made.processes.items():
        process.kill()
        process.wait()
        run = RunFolder(path)
        if run.is_worked_on():
            psutil.Process(read_status(run).engine_pid).kill()


def spans(followers: list[RunFollower]) -> list[tuple[float, float]]:
    """From when to when each of them trained."""
    statuses = [read_status(follower.run) for follower in followers]
    return sorted((status.started or 0.0, status.ended or 0.0) for status in statuses)


@posix
def test_queued_runs_train_one_after_the_other_in_their_order(keepers):
    followers = [keepers.add(f"run {number}", "fail" if number == 1 else "finish") for number in range(3)]
    for follower in followers:
        keepers.until_over(follower)
    assert [follower.state for follower in followers] == [
        State.FINISHED,
        State.FAILED,  # which stops nobody else
        State.FINISHED,
    ]
    trained = spans(followers)
    assert [begun for begun, _ in trained] == [follower.status.started for follower in followers]
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(trained))
    assert queue.training() == queue.waiting() == []


@posix
def test_a_run_waits_for_one_that_was_started_without_waiting_and_elsewhere(keepers, tmp_path):
    elsewhere = Keepers(tmp_path / "elsewhere", keepers.processes)
    trains = elsewhere.add("trains", queued=False)
    keepers.until(trains, State.TRAINING)
    waits = keepers.add("waits")
    keepers.until(waits, State.QUEUED)
    assert (waits.status.awaited.ahead, waits.status.awaited.behind) == (1, trains.run.name)
    assert waits.status.awaited.title == title_of(trains.run.path, trains.run.options())
    assert waits.run.state(read_status(waits.run)) is State.QUEUED
    other = keepers.add("another device", device="mps")
    keepers.until(other, State.TRAINING)
    at_once = keepers.add("at once", queued=False)
    keepers.until(at_once, State.TRAINING)
    for follower in (trains, at_once):  # on the same device, the one that jumped the queue, too
        waits.poll()
        assert waits.state is State.QUEUED
        follower.run.request(Action.STOP)
        keepers.until_over(follower)
    keepers.until(waits, State.TRAINING)
    assert waits.status.awaited is None
    other.poll()
    assert other.state is State.TRAINING  # nobody waited for another device


@posix
def test_pausing_lets_the_next_one_in_and_the_paused_one_may_queue_again(keepers):
    first, second = keepers.add("first"), keepers.add("second")
    follow_until(first, keepers.processes[first.run.path], lambda: first.status.step >= 3)
    keepers.until(second, State.QUEUED)
    first.run.request(Action.PAUSE)
    keepers.until_over(first)
    assert first.state is State.PAUSED
    keepers.until(second, State.TRAINING)
    again = keepers.resume(first, queued=True)
    keepers.until(again, State.QUEUED)
    second.run.request(Action.STOP)
    keepers.until(again, State.TRAINING)
    assert again.status.attempt == 2
    assert again.status.step >= first.status.step


@pytest.fixture
def held():
    """A run that holds the device for as long as this process lives, or until it leaves the queue."""
    run = RunFolder(Path("/runs/held").absolute())
    queue.hold(run, "cpu", SELF)
    return run


@posix
def test_a_waiting_run_that_is_taken_out_has_trained_nothing_and_can_be_started_later(keepers, held):
    stopped, killed, paused, last = (keepers.add(name, "finish") for name in ("a", "b", "c", "d"))
    for waits in (stopped, killed, paused, last):
        keepers.until(waits, State.QUEUED)
    assert (last.status.awaited.ahead, last.status.awaited.behind) == (4, paused.run.name)
    saving = stopped.run.request(Action.SAVE)
    follow_until(stopped, keepers.processes[stopped.run.path], lambda: not stopped.run.open_requests())
    asked = {
        stopped.run: (Action.STOP, State.STOPPED),
        killed.run: (Action.KILL, State.STOPPED),
        paused.run: (Action.PAUSE, State.PAUSED),
    }
    for run, (action, _) in asked.items():
        run.request(action)
    for waits in (stopped, killed, paused):
        keepers.until_over(waits)
        assert waits.state is waits.run.state(read_status(waits.run)) is asked[waits.run][1]
        assert not waits.run.events_file.exists()
        assert (waits.exit_record.code, waits.exit_record.signal) == (None, None)
    told = EventReader(stopped.run.machine_file).read_all()
    answers = [(event.request, event.accepted) for event in told if isinstance(event, RequestAnswered)]
    assert answers[0] == (saving.id, False)
    assert [accepted for _, accepted in answers] == [False, True]
    follow_until(last, keepers.processes[last.run.path], lambda: last.status.awaited.ahead == 1)
    again = keepers.resume(stopped, "finish")
    assert again.run.state(read_status(again.run)) is State.STARTING
    keepers.until_over(again)
    assert again.state is State.FINISHED
    assert last.run.state(read_status(last.run)) is State.QUEUED


@posix
def test_what_leaves_the_queue_keeps_how_it_crashed_before(keepers, held):
    crashed = keepers.add("a", "crash", queued=False)
    keepers.until_over(crashed)
    waits = keepers.resume(crashed, queued=True)
    keepers.until(waits, State.QUEUED)
    waits.run.request(Action.STOP)
    keepers.until_over(waits)
    assert (waits.state, waits.exit_record.before) == (State.STOPPED, crashed.exit_record)


@posix
def test_waiting_runs_are_moved_and_a_keeper_that_is_told_to_end_takes_its_run_out(keepers, held):
    first, second, third = (keepers.add(name) for name in ("first", "second", "third"))
    for waits in (first, second, third):
        keepers.until(waits, State.QUEUED)
    assert queue.waiting() == [first.run, second.run, third.run]
    queue.move(third.run, Move.FIRST)
    follow_until(
        first, keepers.processes[first.run.path], lambda: first.status.awaited.behind == third.run.name
    )
    keepers.processes[second.run.path].terminate()
    keepers.until_over(second)
    assert second.state is State.STOPPED
    queue.leave(held)
    keepers.until(third, State.TRAINING)
    assert first.run.state(read_status(first.run)) is State.QUEUED


@posix
def test_a_killed_keeper_lets_the_next_one_in_only_when_its_engine_has_ended_too(keepers):
    trains, killed, waits = keepers.add("trains"), keepers.add("killed"), keepers.add("waits")
    keepers.until(waits, State.QUEUED)
    keepers.processes[killed.run.path].kill()
    keepers.until_over(killed)
    assert killed.state is State.CRASHED
    keepers.until(trains, State.TRAINING)
    keepers.processes[trains.run.path].kill()
    keepers.processes[trains.run.path].wait()
    keeper = keepers.processes[waits.run.path]
    follow_until(waits, keeper, lambda: waits.status.awaited.behind == trains.run.name)
    trains.run.request(Action.STOP)
    keepers.until(waits, State.TRAINING)
    assert trains.run.state(read_status(trains.run)) is State.STOPPED


@posix
def test_what_is_lost_of_the_queue_the_keepers_enter_again(keepers):
    trains, waits = keepers.add("trains"), keepers.add("waits")
    keepers.until(waits, State.QUEUED)
    keepers.until(trains, State.TRAINING)
    queue._file().write_bytes(b"nonsense")
    keeper = keepers.processes[waits.run.path]
    follow_until(waits, keeper, lambda: (queue.training(), queue.waiting()) == ([trains.run], [waits.run]))
    assert waits.state is State.QUEUED
    trains.run.request(Action.STOP)
    keepers.until(waits, State.TRAINING)


RACER = """

import os, sys
from pathlib import Path
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
name, log = sys.argv[1:]
run, keeper = RunFolder(Path(name)), KeeperRecord.of(os.getpid())
for turn in range(6):
    while queue.take_turn(run, "auto", keeper) is not None:
        pass
    with open(log, "ab", buffering=0) as file:
        file.write(f"begin {name}\\n".encode())
        sum(range(200_000))
        file.write(f"end {name}\\n".encode())
    queue.leave(run)
"""


@posix
def test_a_run_whose_folder_is_renamed_stands_in_the_queue_by_its_new_name(keepers):
    first, second = keepers.add("first"), keepers.add("second")
    keepers.until(first, State.TRAINING)
    keepers.until(second, State.QUEUED)
    for old, is_there in ((first, queue.training), (second, queue.waiting)):
        process = keepers.processes[old.run.path]
        moved = RunFollower(RunFolder(old.run.path.rename(old.run.path.with_name(f"new-{old.run.name}"))))
        keepers.processes[moved.run.path] = process
        follow_until(moved, process, lambda moved=moved, there=is_there: there() == [moved.run])
    RunFolder(queue.training()[0].path).request(Action.STOP)
    keepers.until(moved, State.TRAINING)


@posix
def test_a_home_that_was_moved_is_not_made_anew(keepers, home):
    first, second = keepers.add("first"), keepers.add("second")
    keepers.until(first, State.TRAINING)
    keepers.until(second, State.QUEUED)
    home.rename(home.with_name("moved"))
    first.run.request(Action.STOP)
    keepers.until_over(first)
    assert keepers.processes[first.run.path].wait(10) == 0
    second.run.request(Action.STOP)
    keepers.until_over(second)
    assert not home.exists()


def test_of_processes_that_race_no_two_have_their_turn_at_once(tmp_path):
    log = tmp_path / "log"
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path / str(number)), str(log)])
        for number in range(3)
    ]
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) == 2 * 3 * 6
    for begin, end in zip(lines[::2], lines[1::2], strict=True):
        assert (begin.split()[0], end.split()[0], begin.split()[1]) == ("begin", "end", end.split()[1])
