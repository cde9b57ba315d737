"""Events as lines, their files, attempts, and following a run."""

import math
import os

import msgspec
import pytest

from core.base.errors import Fix, FixAction
from core.runs import event_log
from core.runs.event_log import EventReader, EventWriter, RunFollower
from core.runs.events import (
    Action,
    Evaluated,
    Event,
    Level,
    MemorySampled,
    MessageRaised,
    Outcome,
    RunFinished,
    RunStarted,
    Source,
    StepFinished,
    decode,
    encode,
    split_non_finite,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import State
from core.runs.summary import current_attempt
from tests.fakes.machines import FakeClock
from tests.fakes.runs import plan, record_keeper, step, write_events

FIXES = (Fix("x", {"memory.batch_size": 4}), Fix("y", action=FixAction.END))
STARTED = encode(RunStarted())


def lines(*events: Event) -> bytes:
    return b"".join(map(encode, events))


def numbers(events: list[Event]) -> list[int]:
    return [event.step for event in events]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


# --- Lines and files


@pytest.mark.parametrize(
    "event",
    [
        RunStarted(pid=3, versions={"torch": "2.13.0"}),
        Evaluated(step=3, epoch=1, metrics={"eval_loss": 0.5, "eval_f1": None}, seconds=1),
        MessageRaised(id="nan", level=Level.ERROR, title="two\nlines", fixes=FIXES),
    ],
)
def test_an_event_is_one_line_and_read_as_it_was_written(event):
    line = encode(event)
    assert (line[-1:], line.count(b"\n")) == (b"\n", 1)
    assert decode(line) == event


@pytest.mark.parametrize(
    ("value", "written", "read"),
    [
        (math.nan, None, "nan"),
        (math.inf, None, "inf"),
        (-math.inf, None, "inf"),
        (0.5, 0.5, "0.5"),
        (None, None, "None"),
    ],
)
def test_a_loss_that_is_not_finite_is_null_in_json(value, written, read):
    loss, non_finite = split_non_finite(value)
    line = encode(step(1, loss=loss, non_finite=non_finite))
    assert (msgspec.json.decode(line)["loss"], str(decode(line).loss_value)) == (written, read)


@pytest.mark.parametrize(
    ("content", "skipped"),
    [
        (b'{"type":"of_tomorrow","time":1}\n', 1),
        (b'not json\n{"type":"step_finished","step":"four"}\n[1]\n\n', 3),
        (STARTED.replace(b'"pid":0', b'"pid":-1'), 1),
        (STARTED.replace(b'"from_step":0', b'"from_step":' + b"9" * 30), 1),
        (b'{"type":"run_started","time":1e300}\n', 1),
        (b'{"type":"run_started","versions":' + b'{"a":' * 100_000 + b"}\n", 1),
        (b'{"type":"phase_changed","phase":"training","detail":"\xff"}\n', 1),
        (bytes(33 << 20) + b"\n", 1),
    ],
    ids=["newer", "nonsense", "negative", "too large", "no date", "nested", "no text", "without end"],
)
def test_a_line_that_is_no_event_is_counted_and_the_rest_is_read(path, content, skipped):
    path.write_bytes(lines(step(1)) + content + lines(step(2)))
    reader = EventReader(path)
    assert numbers(reader.read_all()) == [1, 2]
    assert (reader.skipped, reader.is_at_end) == (skipped, True)


def test_a_torn_last_line_is_read_once_it_is_whole(path):
    line = lines(step(2))
    path.write_bytes(lines(step(1)) + line[:20])
    reader = EventReader(path)
    assert numbers(reader.read_all()) == [1]
    assert (reader.read(), reader.skipped) == ([], 0)
    with path.open("ab") as file:
        file.write(line[20:])
    assert numbers(reader.read()) == [2]


def test_a_writer_moves_a_torn_line_aside_and_a_reader_may_start_at_the_end(path):
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
    assert numbers(late.read()) == [2, 3]
    assert path.with_name("events.jsonl.torn").read_bytes() == b'{"type":"step_fin\n'


def test_a_file_is_read_in_parts_and_a_line_longer_than_a_part_whole(path):
    path.write_bytes(lines(*map(step, range(100))))
    reader = EventReader(path)
    first = reader.read(limit=1000)
    assert (0 < len(first) < 100, reader.is_at_end) == (True, False)
    assert len(first) + len(reader.read_all()) == 100
    path.write_bytes(lines(MessageRaised(id="x", level=Level.INFO, title="T" * 5000), step(1)))
    assert len(EventReader(path).read(limit=100)) == 1


# --- Attempts


def test_the_number_of_an_attempt_is_found_from_the_end_of_the_file(run):
    assert current_attempt(run) == 1
    write_events(run.events_file, RunStarted())
    assert current_attempt(run) == 2
    with run.events_file.open("r+b") as file:
        file.truncate(1 << 33)  # a hole of 8 GB, which reading from the beginning would take minutes for
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    write_events(run.events_file, RunStarted(), attempt=7)
    with run.events_file.open("ab") as file:
        file.write(b'nonsense\n{"attempt": "x"}\n[]\n\xff\n{"attempt":9,"torn')
    assert current_attempt(run) == 8


def test_keeper_and_engine_take_the_number_that_the_starter_gave(run):
    write_events(run.events_file, RunStarted())
    record_keeper(run)
    assert current_attempt(run) == 2
    record_keeper(run, attempt=5)
    assert current_attempt(run) == 5


# --- Following


def test_the_state_follows_events_requests_and_the_end(run):
    record_keeper(run)
    events, follower = EventWriter(run.events_file), RunFollower(run)
    for act, state in (
        (lambda: None, State.STARTING),
        (lambda: events.write(RunStarted(), plan()), State.TRAINING),
        (lambda: run.request(Action.STOP), State.STOPPING),
        (lambda: events.write(RunFinished(state=Outcome.STOPPED)), State.STOPPED),
    ):
        act()
        follower.poll()
        assert (follower.state, follower.is_over) == (state, False)
    run.record_exit(ExitRecord(time=1, code=0))
    follower.poll()
    assert follower.is_over


def test_processes_are_checked_now_and_then_and_not_with_every_poll(run, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(event_log, "time", clock)
    checks: list[float] = []
    monkeypatch.setattr(RunFolder, "is_alive", lambda run: not checks.append(clock.now))
    run.events_file.write_text("nonsense\n")
    follower = RunFollower(run)
    for tenth in range(20):
        clock.now = tenth / 10
        follower.poll()
    assert checks == [0.0, 0.5, 1.0, 1.5]
    assert follower.status.skipped == 1


@pytest.mark.parametrize("times", [list(range(3000)), [*range(1000), *range(500, 1500)]])
def test_two_long_files_are_read_side_by_side_even_if_the_clock_was_set_back(run, times):
    steps = [step(number, time=at) for number, at in enumerate(times)]
    samples = [MemorySampled(source=Source.SYSTEM, bytes=1, time=at + 0.5) for at in times[::3]]
    run.events_file.write_bytes(lines(*steps, RunFinished(state=Outcome.FINISHED, time=times[-1])))
    run.machine_file.write_bytes(b"nonsense\n" * 3000 + lines(*samples))
    run.record_exit(ExitRecord(time=1, code=0))
    follower, found, states = RunFollower(run), [], []
    while not follower.is_over:
        found += follower.poll(5000)
        states.append(follower.state)
    assert [event for event in found if isinstance(event, StepFinished)] == steps
    assert len(found) == len(steps) + len(samples) + 1
    if times == sorted(times):
        assert found == sorted(found, key=lambda event: event.time)
    assert not any(state.is_over for state in states[:-1]), "it ended long ago, but isn't read yet"
    assert (follower.is_caught_up, follower.state) == (True, State.FINISHED)


def test_an_end_written_while_events_wait_for_the_other_file_is_read_before_the_run_counts_as_over(run):
    record_keeper(run)
    run.events_file.write_bytes(
        lines(RunStarted(time=0), plan(), *(step(number, time=9) for number in (1, 2)))
    )
    samples = [MemorySampled(source=Source.SYSTEM, bytes=1, time=at / 100) for at in range(1000)]
    run.machine_file.write_bytes(lines(*samples))
    follower = RunFollower(run)
    follower.poll(2000)  # all events, but only the first samples: events wait
    EventWriter(run.events_file).write(RunFinished(state=Outcome.PAUSED, time=10))
    run.record_exit(ExitRecord(time=11, code=0))
    states = [follower.poll() and follower.state for _ in range(3)]
    assert State.CRASHED not in states
    assert (follower.is_over, follower.state) == (True, State.PAUSED)
