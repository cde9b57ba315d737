"""Runs whose processes ended without reporting it: why, and which of them ended while Hone was closed."""

import os

import pytest
from msgspec.structs import replace

from core.runs import crash as runs_crash
from core.runs.crash import crash_of, seen_until
from core.runs.events import Outcome, RunFinished, RunStarted, TurnAwaited
from core.runs.folder import ExitRecord
from core.runs.library import read_status
from core.runs.status import RunStatus, State
from tests.fakes.runs import keep_alive, new_run, record_keeper, save_checkpoint, step, write_events


@pytest.mark.parametrize(
    ("changes", "reason", "reason_waiting"),
    [
        ({"booted": 1000.0}, runs_crash.SWITCHED_OFF, runs_crash.SWITCHED_OFF_WAITING),
        ({}, runs_crash.KEEPER_GONE, runs_crash.KEEPER_GONE_WAITING),
        ({"host": "the-other-one", "booted": 0.0}, "the-other-one", "the-other-one"),
    ],
    ids=["switched off", "killed", "elsewhere"],
)
def test_why_a_keeper_is_gone(run, changes, reason, reason_waiting):
    write_events(run.events_file, RunStarted(), step(3))
    record_keeper(run, **{"started": 0.0, **changes})
    status, waiting = read_status(run), RunStatus()
    waiting.apply(TurnAwaited(ahead=1))
    assert reason in crash_of(run, status, None).reason
    assert reason_waiting in crash_of(run, waiting, None).reason


def test_what_the_keeper_recorded_and_the_newest_complete_checkpoint(run):
    assert crash_of(run, RunStatus(), None).reason == runs_crash.NEVER_KEPT
    record = ExitRecord(time=1, code=-9, signal="SIGKILL", reason="Why.", log_tail="the end")
    found = crash_of(run, RunStatus(), record)
    assert "SIGKILL" in found.title
    assert (found.reason, found.log_tail, found.step) == ("Why.", "the end", None)
    save_checkpoint(run, 20)
    save_checkpoint(run, 40)
    (run.checkpoints / "checkpoint-60").mkdir()
    found = crash_of(run, RunStatus(), replace(record, out_of_memory=True))
    assert (found.step, found.out_of_memory, "lack of memory" in found.title) == (40, True, True)


def test_crashed_runs_that_could_be_resumed_are_found_newest_first_until_they_have_been_shown(tmp_path):
    folder = tmp_path / "runs"
    lost, killed, done, alive, damaged = (new_run(folder) for _ in range(5))
    for run in (lost, killed, done, alive, damaged):
        write_events(run.events_file, RunStarted(), step(1))
        record_keeper(run, started=0.0)
    save_checkpoint(lost, 90)
    killed.record_exit(ExitRecord(time=1, code=-9))
    write_events(done.events_file, RunFinished(state=Outcome.FINISHED))
    keep_alive(alive)
    damaged.options_file.write_text("task = [")
    now = seen_until() + runs_crash.FIRST_SECONDS
    for age, run in enumerate((lost, killed)):
        for path in run.path.iterdir():
            os.utime(path, (now - age, now - age))
    assert killed.state(read_status(killed)) is State.CRASHED
    found = runs_crash.find(folder, seen_until())
    assert [(crash.run, crash.title, crash.step) for crash in found] == [
        (lost, "Digits", 90),
        (killed, "Digits", None),
    ]
    assert not found[0].is_paused
    runs_crash.mark_seen()
    os.utime(runs_crash.settings.home() / "seen", (now + 60, now + 60))
    assert runs_crash.find(folder, seen_until()) == []
    write_events(done.events_file, RunFinished(state=Outcome.PAUSED))
    for path in done.path.iterdir():
        os.utime(path, (now + 90, now + 90))
    (paused,) = runs_crash.find(folder, seen_until())
    assert (paused.run, paused.is_paused) == (done, True)
