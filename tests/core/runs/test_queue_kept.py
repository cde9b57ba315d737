"""Runs that wait with real keepers: they train in their order, whoever dies, pauses or fails."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from core.options.sections import DeviceOptions
from core.runs import queue
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import Action, RequestAnswered
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.library import create, read_status
from core.runs.notes import title_of
from core.runs.queue import Move
from core.runs.status import State
from tests.fakes.runs import digits_options, follow_until, keeper_command, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")


@dataclass
class Keepers:
    """Runs with real keepers and fake engines, ended at the end of a test."""

    folder: Path
    processes: dict[Path, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def add(
        self,
        name: str,
        scenario: str = "wait",
        *,
        device: str = "cpu",
        queued: bool = True,
        source: RunFollower | None = None,
    ) -> RunFollower:
        options = replace(digits_options(name), device=DeviceOptions(name=device))
        if source is not None:
            options = replace(options, model=replace(options.model, source=f"run:{source.run.path}"))
        run = create(options, self.folder)
        self.processes[run.path] = start(run, scenario, queued=queued)
        return RunFollower(run)

    def resume(self, follower: RunFollower, scenario: str = "wait", *, queued: bool = False) -> RunFollower:
        run = follower.run
        self.processes[run.path].wait(10)
        command = keeper_command(run, scenario, queued=queued)
        self.processes[run.path] = runs_start.resume(run, command, queued=queued)
        return RunFollower(run)

    def until(self, follower: RunFollower, *states: State) -> None:
        follow_until(follower, self.processes[follower.run.path], lambda: follower.state in states)

    def until_over(self, follower: RunFollower) -> None:
        follow_until(follower, self.processes[follower.run.path], lambda: follower.is_over)

    def stop(self, follower: RunFollower) -> None:
        follower.run.request(Action.STOP)
        self.until_over(follower)


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


@pytest.fixture
def held():
    """A run that holds the device until it leaves the queue."""
    run = RunFolder(Path("/runs/held").absolute())
    queue.hold(run, "cpu", KeeperRecord.of(os.getpid()))
    return run


def test_queued_runs_train_one_after_the_other_and_one_that_fails_stops_none(keepers):
    followers = [
        keepers.add(name, scenario) for name, scenario in (("a", "finish"), ("b", "fail"), ("c", "finish"))
    ]
    for follower in followers:
        keepers.until_over(follower)
    assert [follower.state for follower in followers] == [State.FINISHED, State.FAILED, State.FINISHED]
    statuses = [follower.status for follower in followers]
    assert all(before.ended <= after.started for before, after in pairwise(statuses))
    assert queue.training() == queue.waiting() == []


def test_a_run_waits_for_one_that_was_started_without_waiting_and_elsewhere(keepers, tmp_path):
    elsewhere = Keepers(tmp_path / "elsewhere", keepers.processes)
    trains = elsewhere.add("trains", queued=False)
    keepers.until(trains, State.TRAINING)
    waits = keepers.add("waits")
    keepers.until(waits, State.QUEUED)
    awaited = waits.status.awaited
    assert (awaited.ahead, awaited.behind) == (1, trains.run.name)
    assert awaited.title == title_of(trains.run.path, trains.run.options())
    assert waits.run.state(read_status(waits.run)) is State.QUEUED
    other = keepers.add("another device", device="mps")
    at_once = keepers.add("at once", queued=False)
    keepers.until(other, State.TRAINING)
    keepers.until(at_once, State.TRAINING)
    for follower in (trains, at_once):  # the one that jumped the queue, too
        waits.poll()
        assert waits.state is State.QUEUED
        keepers.stop(follower)
    keepers.until(waits, State.TRAINING)
    other.poll()
    assert (waits.status.awaited, other.state) == (None, State.TRAINING)


def test_a_run_waits_until_the_run_is_over_that_it_starts_from_and_is_in_nobodys_way(keepers):
    first = keepers.add("first")
    keepers.until(first, State.TRAINING)
    second = keepers.add("second", device="mps", source=first)
    keepers.until(second, State.QUEUED)
    assert second.status.awaited.behind == first.run.name
    first.run.request(Action.PAUSE)
    keepers.until_over(first)
    other = keepers.add("other", "finish", device="mps")
    keepers.until_over(other)
    second.poll()
    assert (first.state, second.state) == (State.PAUSED, State.QUEUED)
    keepers.stop(keepers.resume(first))
    keepers.until(second, State.TRAINING)


def test_the_order_holds_when_the_run_ends_whose_model_the_next_one_awaits(keepers):
    paused = keepers.add("paused")
    keepers.until(paused, State.TRAINING)
    waits = keepers.add("waits for a paused one", source=paused)
    paused.run.request(Action.PAUSE)
    keepers.until_over(paused)
    first = keepers.add("first")
    keepers.until(first, State.TRAINING)
    second, third = keepers.add("second", source=first), keepers.add("third")
    keepers.until(third, State.QUEUED)
    follow_until(waits, keepers.processes[waits.run.path], lambda: waits.status.awaited.is_paused)
    keepers.processes[second.run.path].send_signal(signal.SIGSTOP)  # it looks less often than the third one
    try:
        keepers.stop(first)
        follow_until(
            third,
            keepers.processes[third.run.path],
            lambda: third.status.awaited is None or third.status.awaited.behind == second.run.name,
        )
        time.sleep(2 * queue.LOOK_SECONDS)
        third.poll()
        assert third.state is State.QUEUED
    finally:
        keepers.processes[second.run.path].send_signal(signal.SIGCONT)
    keepers.until(second, State.TRAINING)
    third.poll()
    waits.poll()
    assert (third.state, waits.state) == (State.QUEUED, State.QUEUED)


def test_a_run_taken_out_of_the_queue_has_trained_nothing_and_can_be_started_later(keepers, held):
    stopped, killed, paused, ended, last = (keepers.add(name, "finish") for name in "abcde")
    for waits in (stopped, killed, paused, ended, last):
        keepers.until(waits, State.QUEUED)
    assert (last.status.awaited.ahead, last.status.awaited.behind) == (5, ended.run.name)
    saving = stopped.run.request(Action.SAVE)
    ended.run.request(Action.SAVE)
    for waits in (stopped, ended):  # once they answer, they end as they are told to
        follow_until(waits, keepers.processes[waits.run.path], lambda run=waits.run: not run.open_requests())
    keepers.processes[ended.run.path].terminate()
    for waits, action, state in (
        (stopped, Action.STOP, State.STOPPED),
        (killed, Action.KILL, State.STOPPED),
        (paused, Action.PAUSE, State.PAUSED),
        (ended, None, State.STOPPED),
    ):
        if action is not None:
            waits.run.request(action)
        keepers.until_over(waits)
        assert waits.state is waits.run.state(read_status(waits.run)) is state
        assert not waits.run.events_file.exists()
        assert (waits.exit_record.code, waits.exit_record.signal) == (None, None)
    events = EventReader(stopped.run.machine_file).read_all()
    answers = [(event.request, event.accepted) for event in events if isinstance(event, RequestAnswered)]
    assert answers[0] == (saving.id, False), "there is nothing to save yet"
    assert [accepted for _, accepted in answers] == [False, True]
    follow_until(last, keepers.processes[last.run.path], lambda: last.status.awaited.ahead == 1)
    again = keepers.resume(stopped, "finish")
    keepers.until_over(again)
    assert again.state is State.FINISHED
    assert last.run.state(read_status(last.run)) is State.QUEUED


def test_waiting_runs_are_moved_and_one_that_leaves_keeps_the_record_of_its_crash(keepers, held):
    crashed = keepers.add("a", "crash", queued=False)
    keepers.until_over(crashed)
    first, second = keepers.add("first"), keepers.resume(crashed, queued=True)
    keepers.until(first, State.QUEUED)
    keepers.until(second, State.QUEUED)
    queue.move(second.run, Move.FIRST)
    follow_until(
        first,
        keepers.processes[first.run.path],
        lambda: first.status.awaited.behind == second.run.name,
    )
    keepers.stop(second)
    assert (second.state, second.exit_record.before) == (State.STOPPED, crashed.exit_record)
    queue.leave(held)
    keepers.until(first, State.TRAINING)


def test_a_queue_that_is_deleted_and_runs_that_are_renamed_find_their_places_again(keepers):
    trains, waits = keepers.add("trains"), keepers.add("waits")
    keepers.until(trains, State.TRAINING)
    keepers.until(waits, State.QUEUED)
    queue._file().write_bytes(b"nonsense")
    follow_until(
        waits,
        keepers.processes[waits.run.path],
        lambda: (queue.training(), queue.waiting()) == ([trains.run], [waits.run]),
    )
    for old, places in ((trains, queue.training), (waits, queue.waiting)):
        process = keepers.processes[old.run.path]
        moved = RunFollower(RunFolder(old.run.path.rename(old.run.path.with_name(f"new-{old.run.name}"))))
        keepers.processes[moved.run.path] = process
        follow_until(moved, process, lambda run=moved.run, places=places: places() == [run])
    queue.training()[0].request(Action.STOP)
    keepers.until(moved, State.TRAINING)
