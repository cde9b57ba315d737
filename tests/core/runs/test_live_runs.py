"""Which runs train, how far they are, and how they ended; read from the ends of their files."""

import os
import time

import pytest

from core.runs.events import Event, Outcome, RunFinished, RunStarted
from core.runs.folder import ExitRecord, RunFolder
from core.runs.queue import LiveRuns
from core.runs.status import State
from core.runs.summary import BLOCK_BYTES, status_at_end
from tests.fakes.runs import new_run, plan, record_keeper, step, write_events

PLAN = plan(total_steps=1000)
FILLING = b"nonsense\n" * (3 * BLOCK_BYTES // 9)


def append(run: RunFolder, *parts: bytes | Event, attempt: int = 1) -> None:
    for part in parts:
        if isinstance(part, bytes):
            with run.events_file.open("ab") as file:
                file.write(part)
        else:
            write_events(run.events_file, part, attempt=attempt)


@pytest.fixture
def run(run):
    record_keeper(run)
    return run


@pytest.fixture
def folder(run):
    return run.path.parent


@pytest.fixture
def runs():
    return LiveRuns()


def test_a_run_that_nobody_opened_is_found_and_tracked_until_it_ends(run, runs, folder):
    assert runs.look(folder / "gone") == []
    assert runs.look(folder) == []
    assert [(live.run, live.title, live.share) for live in runs.live] == [(run, "Digits", None)]
    append(run, RunStarted(), PLAN, step(250))
    assert runs.look(folder) == []
    assert [live.share for live in runs.live] == [0.25]
    append(run, FILLING)  # its newest step is out of sight
    runs.look(folder)
    assert [live.share for live in runs.live] == [0.25]
    append(run, RunFinished(state=Outcome.FINISHED, metrics={"eval_f1": 0.5}, steps=250))
    [end] = runs.look(folder)
    assert (end.run, end.title, end.state) == (run, "Digits", State.FINISHED)
    assert end.status.metrics == {"eval_f1": 0.5}
    assert (runs.live, runs.look(folder)) == ((), [])


@pytest.mark.parametrize("state", [State.FAILED, State.CRASHED])
def test_how_a_run_ended_and_that_it_was_resumed(run, runs, folder, state):
    runs.look(folder)
    if state is State.FAILED:
        append(run, RunStarted(), RunFinished(state=Outcome.FAILED))
    run.record_exit(ExitRecord(time=time.time(), code=-9))
    assert [end.state for end in runs.look(folder)] == [state]
    run.exit_file.unlink()
    append(run, RunStarted(attempt=2, from_step=5), attempt=2)
    runs.look(folder)
    assert [live.run for live in runs.live] == [run]


def test_the_newest_comes_first_and_each_ends_by_itself(run, runs, folder):
    other = new_run(folder)
    record_keeper(other, started=run.keeper_record().started - 0.5)
    other.options_file.write_text("nonsense")
    runs.look(folder)
    assert [(live.run, live.title) for live in runs.live] == [(run, "Digits"), (other, other.name)]
    append(run, RunStarted(), RunFinished(state=Outcome.STOPPED))
    assert [end.run for end in runs.look(folder)] == [run]
    assert [live.run for live in runs.live] == [other]


@pytest.mark.parametrize("starts", [False, True])
def test_a_run_that_is_over_is_reported_only_if_it_was_started_here(run, runs, folder, starts):
    run.record_exit(ExitRecord(time=time.time(), code=None))
    runs.follow(run, starts=starts)
    assert [end.state for end in runs.look(folder / "elsewhere")] == [State.CRASHED] * starts


def test_a_folder_in_which_nothing_has_changed_is_not_read_again(runs, tmp_path):
    run = new_run(tmp_path)
    os.utime(run.path, (1e9, 1e9))
    runs.look(tmp_path)
    record_keeper(run)
    os.utime(run.path, (1e9, 1e9))  # as if nothing had come into it
    runs.look(tmp_path)
    assert runs.live == ()
    os.utime(run.path, (2e9, 2e9))
    runs.look(tmp_path)
    assert [live.run for live in runs.live] == [run]


def test_the_new_length_of_a_long_run_counts(run, runs, folder):
    append(run, RunStarted(), PLAN, step(1000), RunFinished(state=Outcome.FINISHED), FILLING)
    append(run, RunStarted(from_step=1000), plan(total_steps=2000), FILLING, step(1500), attempt=2)
    record_keeper(run, attempt=2)
    runs.look(folder)
    assert [(live.share, live.state) for live in runs.live] == [(0.75, State.TRAINING)]
    assert status_at_end(run, and_beginning=True).plan.total_steps == 2000


def test_the_halves_of_two_lines_around_what_is_skipped_are_no_event(run):
    head = b'{"type":"step_finished","step":1'
    tail = b'99,"epoch":1,"seconds":1,"learning_rate":1,"samples":8}\n'
    filling, rest = b" " * (BLOCK_BYTES - len(head)), b" " * (BLOCK_BYTES - len(tail))
    run.events_file.write_bytes(filling + head + b"0" * 100 + tail + rest)
    assert status_at_end(run, and_beginning=True).step == 0
