"""Which runs train, how far they are, and how they ended."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from core.memory.model import Basis, Parts
from core.runs.event_log import EventWriter
from core.runs.events import (
    Level,
    MemoryForecast,
    MessageRaised,
    Outcome,
    RunFinished,
    RunPlanned,
    RunStarted,
    StepFinished,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.queue import LiveRuns
from core.runs.status import State
from core.runs.summary import BLOCK_BYTES, story_at_end
from tests.fakes.runs import new_run, write_events

PLAN = RunPlanned(total_steps=1000, epochs=2, train_samples=80, eval_samples=8, effective_batch=8)
FORECAST = MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=Parts(weights=1 << 20))


def step(number: int) -> StepFinished:
    return StepFinished(step=number, epoch=0.5, seconds=0.1, learning_rate=1e-3, samples=8, loss=1.0)


def keep_alive(run: RunFolder) -> RunFolder:
    """This very process is the run's keeper."""
    run.record_keeper(os.getpid())
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return keep_alive(new_run(tmp_path))


def shares(runs: LiveRuns) -> list[float | None]:
    return [live.share for live in runs.live]


def test_a_run_that_nobody_opened_is_found_and_told_until_it_ends(run: RunFolder, tmp_path: Path) -> None:
    runs = LiveRuns()
    assert runs.look(tmp_path) == []
    assert [(live.run, live.title, live.share) for live in runs.live] == [(run, "Digits", None)]
    write_events(run.events_file, RunStarted(), PLAN, step(250))
    assert runs.look(tmp_path) == []
    assert shares(runs) == [0.25]
    write_events(run.events_file, RunFinished(state=Outcome.FINISHED, metrics={"eval_f1": 0.5}, steps=250))
    [end] = runs.look(tmp_path)
    assert (end.run, end.title, end.state, end.story.metrics) == (
        run,
        "Digits",
        State.FINISHED,
        {"eval_f1": 0.5},
    )
    assert runs.live == ()
    assert runs.look(tmp_path) == []


def test_one_that_fails_before_its_first_step_is_told_too(run: RunFolder, tmp_path: Path) -> None:
    runs = LiveRuns()
    runs.look(tmp_path)
    why = MessageRaised(id="failed", level=Level.ERROR, title="The data can't be read")
    write_events(run.events_file, RunStarted(), why, RunFinished(state=Outcome.FAILED))
    [end] = runs.look(tmp_path)
    assert (end.state, list(end.story.messages)) == (State.FAILED, ["failed"])


def test_one_that_is_killed_is_told_as_a_crash(run: RunFolder, tmp_path: Path) -> None:
    runs = LiveRuns()
    runs.look(tmp_path)
    run.record_exit(ExitRecord(time=time.time(), code=-9))
    assert [end.state for end in runs.look(tmp_path)] == [State.CRASHED]


def test_several_are_told_the_newest_first_and_each_ends_by_itself(tmp_path: Path) -> None:
    begun = [keep_alive(new_run(tmp_path)) for _ in range(2)]
    runs = LiveRuns()
    runs.look(tmp_path)
    runs._live = {
        run.path: live.__class__(run, live.title, float(place), live.state)
        for place, (run, live) in enumerate(zip(begun, runs.live, strict=True))
    }
    assert [live.run for live in runs.live] == begun[::-1]
    write_events(begun[1].events_file, RunStarted(), RunFinished(state=Outcome.STOPPED))
    assert [end.run for end in runs.look(tmp_path)] == [begun[1]]
    assert [live.run for live in runs.live] == [begun[0]]


def test_one_that_is_over_already_is_nobodys_news(run: RunFolder, tmp_path: Path) -> None:
    write_events(run.events_file, RunStarted(), RunFinished(state=Outcome.FINISHED))
    run.record_exit(ExitRecord(time=time.time(), code=0))
    runs = LiveRuns()
    runs.follow(run)
    assert runs.look(tmp_path) == []
    assert runs.live == ()


def test_one_that_was_started_here_and_is_over_at_once_is_told(run: RunFolder, tmp_path: Path) -> None:
    run.record_exit(ExitRecord(time=time.time(), code=None))
    runs = LiveRuns()
    runs.follow(run, starts=True)
    assert [end.state for end in runs.look(tmp_path)] == [State.CRASHED]


def test_one_outside_the_folder_is_followed_where_it_is(run: RunFolder, tmp_path: Path) -> None:
    runs = LiveRuns()
    runs.follow(run)
    assert runs.look(tmp_path / "elsewhere") == []
    assert [live.run for live in runs.live] == [run]


def test_a_folder_in_which_nothing_has_changed_is_not_looked_into(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    runs = LiveRuns()
    os.utime(run.path, (1e9, 1e9))
    runs.look(tmp_path)
    keep_alive(run)
    os.utime(run.path, (1e9, 1e9))  # as if nothing had come into it
    runs.look(tmp_path)
    assert runs.live == ()
    os.utime(run.path, (2e9, 2e9))
    runs.look(tmp_path)
    assert [live.run for live in runs.live] == [run]


def test_of_a_long_run_only_the_ends_are_read(run: RunFolder, tmp_path: Path) -> None:
    write_events(run.events_file, RunStarted(), PLAN, FORECAST, step(1))
    line = run.events_file.read_bytes().splitlines(keepends=True)[-1]
    runs = LiveRuns()
    with run.events_file.open("ab") as file:
        file.write(b"nonsense\n" * (3 * BLOCK_BYTES // 9) + line * 2000)
    write_events(run.events_file, step(900))
    runs.look(tmp_path)
    assert shares(runs) == [0.9]
    runs.look(tmp_path)  # what was planned is known by now
    assert shares(runs) == [0.9]
    whole = story_at_end(run, and_beginning=True)
    assert (whole.step, whole.forecast is not None, story_at_end(run).forecast) == (900, True, None)


def test_of_a_long_run_that_is_to_train_longer_the_new_length_counts(run: RunFolder, tmp_path: Path) -> None:
    filling = b"nonsense\n" * (3 * BLOCK_BYTES // 9)
    write_events(run.events_file, RunStarted(), PLAN, step(1000), RunFinished(state=Outcome.FINISHED))
    with run.events_file.open("ab") as file:
        file.write(filling)
    writer = EventWriter(run.events_file, attempt=2)
    writer.write(RunStarted(from_step=1000), msgspec.structs.replace(PLAN, total_steps=2000))
    writer.close()
    with run.events_file.open("ab") as file:
        file.write(filling)
    writer = EventWriter(run.events_file, attempt=2)
    writer.write(step(1500))
    writer.close()
    run.record_keeper(os.getpid(), 2)
    runs = LiveRuns()
    runs.look(tmp_path)
    assert [(live.share, live.state) for live in runs.live] == [(0.75, State.TRAINING)]
    assert story_at_end(run, and_beginning=True).plan.total_steps == 2000


def test_two_halves_of_two_lines_are_no_event(run: RunFolder) -> None:
    """Where the middle of a file is left out, a line is cut on either side."""
    head, tail = (
        b'{"type":"step_finished","step":1',
        b'99,"epoch":1,"seconds":1,"learning_rate":1,"samples":8}\n',
    )
    filling = b" " * (BLOCK_BYTES - len(head))
    rest = b" " * (BLOCK_BYTES - len(tail))
    run.events_file.write_bytes(filling + head + b"0" * 100 + tail + rest)
    assert story_at_end(run, and_beginning=True).step == 0


def test_a_run_whose_newest_step_is_out_of_sight_keeps_its_share(run: RunFolder, tmp_path: Path) -> None:
    write_events(run.events_file, RunStarted(), PLAN, step(500))
    runs = LiveRuns()
    runs.look(tmp_path)
    with run.events_file.open("ab") as file:
        file.write(b"nonsense\n" * (2 * BLOCK_BYTES // 9))
    runs.look(tmp_path)
    assert shares(runs) == [0.5]


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    runs = LiveRuns()
    assert runs.look(tmp_path / "gone") == []


def test_a_run_whose_options_are_lost_has_its_folders_name(run: RunFolder, tmp_path: Path) -> None:
    run.options_file.write_text("nonsense")
    runs = LiveRuns()
    runs.look(tmp_path)
    assert [live.title for live in runs.live] == [run.name]


def test_one_that_is_taken_up_again_is_found_again(run: RunFolder, tmp_path: Path) -> None:
    runs = LiveRuns()
    runs.look(tmp_path)
    run.record_exit(ExitRecord(time=time.time(), code=-9))
    assert len(runs.look(tmp_path)) == 1
    run.exit_file.unlink()
    writer = EventWriter(run.events_file, attempt=2)
    writer.write(RunStarted(attempt=2, from_step=5))
    writer.close()
    runs.look(tmp_path)
    assert [live.run for live in runs.live] == [run]
