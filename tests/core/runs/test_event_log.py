"""Events as lines, their files, and following a run by them."""

import math
import os

import msgspec
import pytest
from msgspec.structs import replace

from core.base.errors import Fix, FixAction
from core.runs import event_log
from core.runs.event_log import EventReader, EventWriter, RunFollower
from core.runs.events import (
    Evaluated,
    Event,
    Level,
    MemorySampled,
    MessageRaised,
    Outcome,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    decode,
    encode,
    split_non_finite,
)
from core.runs.folder import Action, ExitRecord, RunFolder
from core.runs.status import State
from tests.fakes.machines import FakeClock
from tests.fakes.runs import new_run

PLAN = RunPlanned(total_steps=9, epochs=1, train_samples=9, eval_samples=1, effective_batch=1)
SAMPLE = MemorySampled(source=Source.SYSTEM, bytes=1, time=2)


def step(number: int, at: float = 12.5, **values: object) -> StepFinished:
    return StepFinished(step=number, epoch=0.5, seconds=0.1, learning_rate=1e-3, samples=8, time=at, **values)


def lines(*events: Event) -> bytes:
    return b"".join(map(encode, events))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


# --- Lines


@pytest.mark.parametrize(
    "event",
    [
        RunStarted(pid=3, versions={"torch": "2.13.0"}),
        step(4, loss=0.25, tokens=100),
        MemorySampled(source=Source.SYSTEM, bytes=1 << 40, ceiling=1 << 41, swap=0),
        Evaluated(step=3, epoch=1, metrics={"eval_loss": 0.5, "eval_f1": None}, seconds=1),
        MessageRaised(id="nan", level=Level.ERROR, title="T", fixes=(Fix("x", {"memory.batch_size": 4}),)),
        MessageRaised(id="a", level=Level.INFO, title="T", fixes=(Fix("x", action=FixAction.END), Fix("y"))),
    ],
)
def test_an_event_is_read_as_it_was_written(event):
    line = encode(event)
    assert (line[-1:], line.count(b"\n")) == (b"\n", 1)
    assert decode(line) == event


@pytest.mark.parametrize(
    ("value", "name"),
    [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "inf"), (0.5, "0.5"), (None, "None")],
)
def test_a_loss_that_is_not_finite_is_null_in_json(value, name):
    loss, non_finite = split_non_finite(value)
    line = encode(step(1, loss=loss, non_finite=non_finite))
    assert msgspec.json.decode(line)["loss"] == (0.5 if value == 0.5 else None)
    assert str(decode(line).loss_value) == name


# --- Files


@pytest.mark.parametrize(
    ("content", "steps", "skipped"),
    [
        (lines(step(1)) + b'{"type":"of_tomorrow","time":1}\n' + lines(step(2)), [1, 2], 1),
        (b'not json\n{"type":"step_finished","step":"four"}\n[1]\n\n' + lines(step(1)), [1], 3),
        (lines(step(1), step(2))[:-5], [1], 0),
        (b"", [], 0),
    ],
)
def test_lines_that_are_no_events_are_counted(path, content, steps, skipped):
    path.write_bytes(content)
    reader = EventReader(path)
    assert [event.step for event in reader.read_all()] == steps
    assert (reader.skipped, reader.is_at_end) == (skipped, True)


def test_a_torn_last_line_is_waited_for(path):
    line = lines(step(2))
    path.write_bytes(lines(step(1)) + line[:20])
    reader = EventReader(path)
    assert [event.step for event in reader.read()] == [1]
    assert reader.read() == []
    with path.open("ab") as file:
        file.write(line[20:])
    assert [event.step for event in reader.read()] == [2]


def test_a_writer_cuts_a_torn_line_off_and_a_reader_may_start_at_the_end(path):
    absent = EventReader(path)
    absent.start_at_end()
    assert (absent.read(), absent.is_at_end) == ([], True)
    path.write_bytes(lines(step(1)) + b'{"type":"step_fin')
    late = EventReader(path)
    late.start_at_end()
    writer = EventWriter(path, attempt=2)
    writer.write(step(2), step(3))
    writer.close()
    found = [(event.step, event.attempt) for event in EventReader(path).read_all()]
    assert found == [(1, 1), (2, 2), (3, 2)]
    assert [event.step for event in late.read()] == [2, 3]
    assert path.with_name("events.jsonl.torn").read_bytes() == b'{"type":"step_fin\n'


def test_a_file_is_read_in_parts_and_a_line_longer_than_a_part_whole(path):
    path.write_bytes(lines(*map(step, range(100))))
    reader = EventReader(path)
    first = reader.read(limit=1000)
    assert (0 < len(first) < 100, reader.is_at_end) == (True, False)
    assert len(first) + len(reader.read_all()) == 100
    path.write_bytes(lines(MessageRaised(id="x", level=Level.INFO, title="T" * 5000), step(1)))
    assert len(EventReader(path).read(limit=100)) == 1


# --- Following


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path)


def test_new_events_of_both_files_come_in_the_order_of_time_and_once(run):
    run.record_keeper(os.getpid())
    events, machine = EventWriter(run.events_file), EventWriter(run.machine_file)
    follower = RunFollower(run)
    assert follower.poll() == []
    events.write(step(1, at=1), step(2, at=3))
    machine.write(SAMPLE)
    assert [event.time for event in follower.poll()] == [1, 2, 3]
    assert follower.poll() == []
    events.write(step(3, at=4))
    assert [event.step for event in follower.poll()] == [3]
    assert follower.status.step == 3


def test_the_state_follows_events_requests_and_the_end(run):
    run.record_keeper(os.getpid())
    events, follower = EventWriter(run.events_file), RunFollower(run)
    for act, state in (
        (lambda: None, State.STARTING),
        (lambda: events.write(RunStarted(), PLAN), State.TRAINING),
        (lambda: run.request(Action.STOP), State.STOPPING),
        (lambda: events.write(RunFinished(state=Outcome.STOPPED)), State.STOPPED),
    ):
        act()
        follower.poll()
        assert (follower.state, follower.is_over) == (state, False)
    run.record_exit(ExitRecord(time=1, code=0))
    follower.poll()
    assert follower.is_over


def test_an_old_run_with_a_long_file_is_not_over_while_it_is_being_read(run):
    end = RunFinished(state=Outcome.FINISHED)
    run.events_file.write_bytes(lines(RunStarted(), PLAN, *map(step, range(20_000)), end))
    run.record_exit(ExitRecord(time=1, code=0))
    follower = RunFollower(run)
    states = []
    while not follower.is_over:
        assert follower.poll()
        states.append(follower.state)
    assert len(states) > 2
    assert (set(states[:-1]), states[-1]) == ({State.TRAINING}, State.FINISHED)


def test_processes_are_checked_now_and_then_and_not_with_every_poll(run, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(event_log, "time", clock)
    checks: list[float] = []
    monkeypatch.setattr(RunFolder, "is_alive", lambda run: not checks.append(clock.now))
    run.events_file.write_text('{"type":"of_tomorrow"}\nnonsense\n')
    follower = RunFollower(run)
    for tenth in range(20):
        clock.now = tenth / 10
        follower.poll()
    assert checks == [0.0, 0.5, 1.0, 1.5]
    assert follower.status.skipped == 2


@pytest.mark.parametrize("times", [list(range(3000)), [*range(1000), *range(500, 1500)]])
def test_of_two_long_files_neither_is_ahead_of_the_other_even_if_the_clock_was_set_back(run, times):
    steps = [step(number, at=at) for number, at in enumerate(times)]
    samples = [replace(SAMPLE, time=at + 0.5) for at in times[::3]]
    run.events_file.write_bytes(lines(*steps))
    run.machine_file.write_bytes(b"nonsense\n" * 3000 + lines(*samples))
    run.record_exit(ExitRecord(time=1, code=0))
    follower, found = RunFollower(run), []
    while not follower.is_over:
        found += follower.poll(5000)
    assert [event for event in found if isinstance(event, StepFinished)] == steps
    assert len(found) == len(steps) + len(samples)
    if times == sorted(times):
        assert found == sorted(found, key=lambda event: event.time)
    assert follower.is_caught_up
