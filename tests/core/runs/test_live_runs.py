"""Which runs train, how far they are, and how they ended."""

import os
import time

import msgspec
import pytest

from core.memory.model import Basis, Parts
from core.runs.event_log import EventWriter
from core.runs.events import (
    Event,
    MemoryForecast,
    Outcome,
    RunFinished,
    RunPlanned,
    RunStarted,
    StepFinished,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.queue import LiveRuns
from core.runs.status import State
from core.runs.summary import BLOCK_BYTES, status_at_end
from tests.fakes.runs import new_run

PLAN = RunPlanned(total_steps=1000, epochs=2, train_samples=80, eval_samples=8, effective_batch=8)
FORECAST = MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=Parts(weights=1 << 20))
FILLING = b"nonsense\n" * (3 * BLOCK_BYTES // 9)


def step(number: int) -> StepFinished:
    return StepFinished(step=number, epoch=0.5, seconds=0.1, learning_rate=1e-3, samples=8, loss=1.0)


def append(run: RunFolder, *parts: bytes | Event, attempt: int = 1) -> None:
    writer = EventWriter(run.events_file, attempt)
    for part in parts:
        if isinstance(part, bytes):
            with run.events_file.open("ab") as file:
                file.write(part)
        else:
            writer.write(part)
    writer.close()


@pytest.fixture
def run(tmp_path):
    """A run whose keeper is this very process."""
    run = new_run(tmp_path)
    run.record_keeper(os.getpid())
    return run


@pytest.fixture
def runs():
    return LiveRuns()


def shares(runs: LiveRuns) -> list[float | None]:
    return [live.share for live in runs.live]


def test_a_run_that_nobody_opened_is_found_and_tracked_until_it_ends(run, runs, tmp_path):
    assert runs.look(tmp_path / "gone") == []
    assert runs.look(tmp_path) == []
    assert [(live.run, live.title, live.share) for live in runs.live] == [(run, "Digits", None)]
    append(run, RunStarted(), PLAN, step(250))
    assert runs.look(tmp_path) == []
    assert shares(runs) == [0.25]
    append(run, FILLING)  # its newest step is out of sight
    runs.look(tmp_path)
    assert shares(runs) == [0.25]
    append(run, RunFinished(state=Outcome.FINISHED, metrics={"eval_f1": 0.5}, steps=250))
    [end] = runs.look(tmp_path)
    assert (end.run, end.title, end.state) == (run, "Digits", State.FINISHED)
    assert end.status.metrics == {"eval_f1": 0.5}
    assert (runs.live, runs.look(tmp_path)) == ((), [])


@pytest.mark.parametrize("state", [State.FAILED, State.CRASHED])
def test_how_a_run_ended_and_that_it_was_resumed(run, runs, tmp_path, state):
    runs.look(tmp_path)
    if state is State.FAILED:
        append(run, RunStarted(), RunFinished(state=Outcome.FAILED))
    run.record_exit(ExitRecord(time=time.time(), code=-9))
    assert [end.state for end in runs.look(tmp_path)] == [state]
    run.exit_file.unlink()
    append(run, RunStarted(attempt=2, from_step=5), attempt=2)
    runs.look(tmp_path)
    assert [live.run for live in runs.live] == [run]


def test_the_newest_comes_first_and_each_ends_by_itself(run, runs, tmp_path):
    other = new_run(tmp_path)
    record = msgspec.structs.replace(run.keeper_record(), started=run.keeper_record().started - 0.5)
    other.keeper_file.write_bytes(msgspec.json.encode(record))
    other.options_file.write_text("nonsense")
    runs.look(tmp_path)
    assert [(live.run, live.title) for live in runs.live] == [(run, "Digits"), (other, other.name)]
    append(run, RunStarted(), RunFinished(state=Outcome.STOPPED))
    assert [end.run for end in runs.look(tmp_path)] == [run]
    assert [live.run for live in runs.live] == [other]


@pytest.mark.parametrize("starts", [False, True])
def test_one_that_is_over_is_reported_only_if_it_was_started_here(run, runs, tmp_path, starts):
    run.record_exit(ExitRecord(time=time.time(), code=None))
    runs.follow(run, starts=starts)
    assert [end.state for end in runs.look(tmp_path)] == [State.CRASHED] * starts


def test_one_outside_the_folder_is_followed_where_it_is(run, runs, tmp_path):
    runs.follow(run)
    assert runs.look(tmp_path / "elsewhere") == []
    assert [live.run for live in runs.live] == [run]


def test_a_folder_in_which_nothing_has_changed_is_not_looked_into(runs, tmp_path):
    run = new_run(tmp_path)
    os.utime(run.path, (1e9, 1e9))
    runs.look(tmp_path)
    run.record_keeper(os.getpid())
    os.utime(run.path, (1e9, 1e9))  # as if nothing had come into it
    runs.look(tmp_path)
    assert runs.live == ()
    os.utime(run.path, (2e9, 2e9))
    runs.look(tmp_path)
    assert [live.run for live in runs.live] == [run]


def test_of_a_long_run_only_the_ends_are_read(run, runs, tmp_path):
    append(run, RunStarted(), PLAN, FORECAST, step(1))
    line = run.events_file.read_bytes().splitlines(keepends=True)[-1]
    append(run, FILLING + line * 2000, step(900))
    runs.look(tmp_path)
    assert shares(runs) == [0.9]
    whole = status_at_end(run, and_beginning=True)
    assert (whole.step, whole.forecast is not None, status_at_end(run).forecast) == (900, True, None)
    ends = status_at_end(run, and_beginning=True, and_between=False)
    assert (ends.step, ends.forecast) == (900, whole.forecast)


def test_the_new_length_of_a_long_run_counts(run, runs, tmp_path):
    append(run, RunStarted(), PLAN, step(1000), RunFinished(state=Outcome.FINISHED), FILLING)
    longer = msgspec.structs.replace(PLAN, total_steps=2000)
    append(run, RunStarted(from_step=1000), longer, FILLING, step(1500), attempt=2)
    run.record_keeper(os.getpid(), 2)
    runs.look(tmp_path)
    assert [(live.share, live.state) for live in runs.live] == [(0.75, State.TRAINING)]
    assert status_at_end(run, and_beginning=True).plan.total_steps == 2000


def test_two_halves_of_two_lines_are_no_event(run):
    """Where the middle of a file is left out, a line is cut on either side."""
    head = b'{"type":"step_finished","step":1'
    tail = b'99,"epoch":1,"seconds":1,"learning_rate":1,"samples":8}\n'
    filling, rest = b" " * (BLOCK_BYTES - len(head)), b" " * (BLOCK_BYTES - len(tail))
    run.events_file.write_bytes(filling + head + b"0" * 100 + tail + rest)
    assert status_at_end(run, and_beginning=True).step == 0
