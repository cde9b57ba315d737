import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.runs import event_log
from core.runs.event_log import EventWriter, RunFollower
from core.runs.events import (
    MemorySampled,
    Outcome,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    encode,
)
from core.runs.folder import Action, ExitRecord, RunFolder
from core.runs.status import State
from tests.fakes.clock import FakeClock
from tests.fakes.runs import new_run

PLAN = RunPlanned(total_steps=9, epochs=1, train_samples=9, eval_samples=1, effective_batch=1)


def step(number: int, at: float = 0.0) -> StepFinished:
    return StepFinished(step=number, epoch=1, seconds=0.1, learning_rate=1, samples=1, time=at)


def test_new_events_of_both_files_come_in_the_order_of_time_and_once(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.record_keeper(os.getpid())
    events, machine = EventWriter(run.events_file), EventWriter(run.machine_file)
    follower = RunFollower(run)
    assert follower.poll() == []
    events.write(step(1, at=1))
    events.write(step(2, at=3))
    machine.write(MemorySampled(source=Source.SYSTEM, bytes=1, time=2))
    assert [event.time for event in follower.poll()] == [1, 2, 3]
    assert follower.poll() == []
    events.write(step(3, at=4))
    assert [event.step for event in follower.poll()] == [3]
    assert follower.story.step == 3
    events.close()
    machine.close()


def test_the_state_follows_events_requests_and_the_end(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.record_keeper(os.getpid())
    events = EventWriter(run.events_file)
    follower = RunFollower(run)
    follower.poll()
    assert follower.state is State.STARTING
    events.write(RunStarted())
    events.write(PLAN)
    follower.poll()
    assert follower.state is State.TRAINING
    run.request(Action.STOP)
    follower.poll()
    assert follower.state is State.STOPPING
    events.write(RunFinished(state=Outcome.STOPPED))
    follower.poll()
    assert follower.state is State.STOPPED
    assert not follower.is_over  # the keeper still has its last word
    run.record_exit(ExitRecord(time=1, code=0))
    follower.poll()
    assert follower.is_over
    events.close()


def test_an_old_run_with_a_long_file_is_not_called_crashed_while_it_is_being_read(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    lines = b"".join(encode(step(number)) for number in range(20_000))
    run.events_file.write_bytes(
        encode(RunStarted()) + encode(PLAN) + lines + encode(RunFinished(state=Outcome.FINISHED))
    )
    run.record_exit(ExitRecord(time=1, code=0))
    follower = RunFollower(run)
    states = []
    while not follower.is_over:
        assert follower.poll()
        states.append(follower.state)
    assert len(states) > 2
    assert set(states[:-1]) == {State.TRAINING}
    assert states[-1] is State.FINISHED


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.events_file.write_text('{"type":"of_tomorrow"}\nnonsense\n')
    follower = RunFollower(run)
    follower.poll()
    assert follower.story.skipped == 2


def test_the_process_table_is_asked_now_and_then_and_not_with_every_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(event_log, "time", clock)
    looks: list[float] = []
    monkeypatch.setattr(RunFolder, "is_alive", lambda run: not looks.append(clock.now))
    follower = RunFollower(new_run(tmp_path))
    for tenth in range(20):
        clock.now = tenth / 10
        follower.poll()
    assert looks == [0.0, 0.5, 1.0, 1.5]


def test_of_two_long_files_neither_is_told_further_than_the_other_is_read(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    sample = MemorySampled(source=Source.SYSTEM, bytes=1)
    steps = [step(number, at=number) for number in range(3000)]
    samples = [replace(sample, time=number + 0.5) for number in range(0, 3000, 3)]
    run.events_file.write_bytes(b"".join(map(encode, steps)))
    run.machine_file.write_bytes(b"nonsense\n" * 3000 + b"".join(map(encode, samples)))
    run.record_exit(ExitRecord(time=1, code=0))
    follower = RunFollower(run)
    told = []
    while not follower.is_over:
        told += follower.poll(5000)
    assert told == sorted([*steps, *samples], key=lambda event: event.time)
    assert follower.is_caught_up


def test_a_clock_that_was_set_back_stops_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    times = [*range(1000), *range(500, 1500)]
    run.events_file.write_bytes(b"".join(encode(step(number, at=at)) for number, at in enumerate(times)))
    samples = [MemorySampled(source=Source.SYSTEM, bytes=1, time=at) for at in times]
    run.machine_file.write_bytes(b"".join(map(encode, samples)))
    run.record_exit(ExitRecord(time=1, code=0))
    follower = RunFollower(run)
    told = []
    while not follower.is_over:
        told += follower.poll(5000)
    assert [event.step for event in told if isinstance(event, StepFinished)] == list(range(2000))
    assert len(told) == 4000
