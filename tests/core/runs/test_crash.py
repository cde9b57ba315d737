"""What is said of runs whose processes ended without a word."""

import os

import msgspec
import pytest

from core.runs import crash
from core.runs.crash import crash_of
from core.runs.events import RunStarted, StepFinished, TurnAwaited
from core.runs.folder import ExitRecord, KeeperRecord, RunFolder
from core.runs.library import read_status
from core.runs.status import RunStatus, State
from tests.fakes.runs import new_run, save_checkpoint, write_events


@pytest.fixture
def run(tmp_path):
    run = new_run(tmp_path)
    step = StepFinished(step=3, epoch=1, seconds=1, learning_rate=1, samples=1)
    write_events(run.events_file, RunStarted(), step)
    return run


def keep(run: RunFolder, **changes: object) -> None:
    """Let a process that is gone be its keeper."""
    record = KeeperRecord.of(os.getpid())
    changes = {"started": record.started - 1000, **changes}
    run.keeper_file.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, **changes)))


def test_a_computer_that_was_switched_off_is_the_reason_and_the_run_can_go_on(run):
    keep(run, booted=1000.0)
    status = read_status(run)
    assert run.state(status) is State.CRASHED
    assert run.state(status).can_resume
    assert crash_of(run, status, None).reason == crash.SWITCHED_OFF.format("trained")
    waiting = RunStatus()
    waiting.apply(TurnAwaited(ahead=1))
    assert crash_of(run, waiting, None).reason == crash.SWITCHED_OFF.format("waited for its turn")


def test_a_keeper_that_was_killed_is_the_reason(run):
    keep(run)
    status = read_status(run)
    assert run.state(status) is State.CRASHED
    assert crash_of(run, status, None).reason == crash.KEEPER_GONE


def test_another_computer_is_named(run):
    keep(run, host="the-other-one", booted=0.0)
    assert "the-other-one" in crash_of(run, read_status(run), None).reason


def test_the_keepers_word_and_the_newest_complete_checkpoint_are_told(run):
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
