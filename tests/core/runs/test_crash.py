"""Runs whose processes ended without reporting it: why, and which of them ended while Hone was closed."""

import os
import time

import msgspec
import pytest

from core.runs import crash as runs_crash
from core.runs.crash import crash_of
from core.runs.events import RunStarted, StepFinished, TurnAwaited
from core.runs.folder import ExitRecord, KeeperRecord
from core.runs.library import read_status
from core.runs.status import RunStatus, State
from tests.fakes.runs import (
    Plot,
    crash,
    finish,
    keep_alive,
    make_folder,
    new_run,
    save_checkpoint,
    write_events,
    write_story,
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("changes", "reason", "reason_waiting"),
    [
        ({"booted": 1000.0}, runs_crash.SWITCHED_OFF, runs_crash.SWITCHED_OFF_WAITING),
        ({}, runs_crash.KEEPER_GONE, runs_crash.KEEPER_GONE_WAITING),
        ({"host": "the-other-one", "booted": 0.0}, "the-other-one", "the-other-one"),
    ],
    ids=["switched off", "killed", "elsewhere"],
)
def test_why_a_keeper_is_gone(tmp_path, changes, reason, reason_waiting):
    run = new_run(tmp_path)
    step = StepFinished(step=3, epoch=1, seconds=1, learning_rate=1, samples=1)
    write_events(run.events_file, RunStarted(), step)
    record = KeeperRecord.of(os.getpid())
    record = msgspec.structs.replace(record, **{"started": record.started - 1000, **changes})
    run.keeper_file.write_bytes(msgspec.json.encode(record))
    status, waiting = read_status(run), RunStatus()
    waiting.apply(TurnAwaited(ahead=1))
    assert reason in crash_of(run, status, None).reason
    assert reason_waiting in crash_of(run, waiting, None).reason
    if not changes:
        assert run.state(status) is State.CRASHED


def test_what_a_keeper_recorded_and_the_newest_complete_checkpoint(tmp_path):
    run = new_run(tmp_path)
    record = ExitRecord(time=1, code=-9, signal="SIGKILL", reason="Why.", log_tail="the end")
    before = crash_of(run, RunStatus(), record)
    assert (before.title, before.reason) == ("The training process was ended by SIGKILL.", "Why.")
    assert (before.log_tail, before.step) == ("the end", None)
    save_checkpoint(run, 20)
    save_checkpoint(run, 40)
    (run.checkpoints / "checkpoint-60").mkdir()
    assert crash_of(run, RunStatus(), record).step == 40
    shortage = msgspec.structs.replace(record, out_of_memory=True)
    assert "lack of memory" in crash_of(run, RunStatus(), shortage).title


def lose_keeper(run):
    """As if the computer had been switched off: a keeper is named, and it is gone."""
    keep_alive(run)
    pid = f'"pid":{run.keeper_record().pid}'.encode()
    run.keeper_file.write_bytes(run.keeper_file.read_bytes().replace(pid, b'"pid":999999999'))


def test_crashed_runs_are_found_the_newest_first_and_once(tmp_path):
    folder = tmp_path / "runs"
    names = ("lost", "killed", "done", "alive", "damaged")
    lost, killed, done, alive, damaged = (make_folder(folder / name) for name in names)
    write_story(lost, Plot(reached=100))
    crash(killed, write_story(killed, Plot(reached=20)))
    finish(done, Plot(), write_story(done, Plot()))
    for run in (lost, killed, done, damaged):
        lose_keeper(run)
    damaged.options_file.write_text("task = [")
    keep_alive(alive)
    write_story(alive, Plot(reached=20))
    for number, run in enumerate((killed, lost)):
        for path in run.path.iterdir():
            os.utime(path, (time.time() + number, time.time() + number))
    found = runs_crash.find(folder, since=0.0)
    assert [(run.run, run.step) for run in found] == [(lost, 90), (killed, None)]
    assert found[0].title == "Handwritten digits"
    assert runs_crash.find(folder, runs_crash.seen_until())
    runs_crash.mark_seen()
    later = time.time() + 60
    os.utime(runs_crash.settings.home() / "seen", (later, later))
    assert runs_crash.find(folder, runs_crash.seen_until()) == []
