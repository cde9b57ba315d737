"""Starting runs, resuming those that ended before they were done, and training finished ones further."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from core.base.errors import RunFolderError
from core.base.files import ENGINE_LOCK, locked
from core.cli.main import main
from core.engine import __main__
from core.monitor import keeper
from core.options import run_file
from core.options.catalogue import with_changes
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import (
    Action,
    Evaluated,
    MemorySampled,
    Outcome,
    RunFinished,
    RunStarted,
    TurnAwaited,
    TurnCame,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import read_status
from core.runs.queue import LiveRuns
from core.runs.start import CantResume, Extension
from core.runs.status import State
from core.runs.summary import summarize
from tests.fakes.runs import (
    follow_until,
    keeper_command,
    link,
    plan,
    record_keeper,
    save_checkpoint,
    step,
    write_events,
)

posix = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")
SLEEPING = [sys.executable, "-c", "import time; time.sleep(60)"]


def end(run: RunFolder, outcome: Outcome | None, steps: int = 5) -> None:
    """Let a first attempt be over; None: it crashed."""
    record_keeper(run, started=0.0)
    done = [step(number, epoch=number / 3) for number in range(1, steps + 1)]
    write_events(run.events_file, RunStarted(), plan(epochs=3), *done)
    if outcome is not None:
        write_events(run.events_file, RunFinished(state=outcome, steps=steps))
    if outcome is Outcome.FINISHED:
        save_checkpoint(run, steps)
    run.record_exit(ExitRecord(time=1, code=0, reason="The first attempt's end."))


def state(run: RunFolder) -> State:
    return run.state(read_status(run))


@pytest.fixture
def keepers():
    """Keepers that are ended at the end of a test, with their engines."""
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        children = psutil.Process(process.pid).children() if process.poll() is None else []
        process.kill()
        process.wait()
        for child in children:
            child.kill()


def test_a_run_whose_keeper_cannot_be_started_has_crashed_with_the_reason(run, tmp_path):
    with pytest.raises(RunFolderError, match="can't be started"):
        runs_start.start(run, [str(tmp_path / "nothing")])
    assert "nothing" in run.exit_record().reason
    assert state(run) is State.CRASHED


@posix
def test_a_run_behind_another_is_queued_before_its_keeper_has_written_anything(run, keepers, monkeypatch):
    end(run, Outcome.PAUSED)
    ahead = TurnAwaited(ahead=1, behind="other", title="Other")
    monkeypatch.setattr("core.runs.queue.ahead_of", lambda *_asked: ahead)
    keepers.append(runs_start.resume(run, SLEEPING, queued=True))
    assert state(run) is summarize(run).state is State.QUEUED
    write_events(run.machine_file, TurnCame(), attempt=2)
    assert state(run) is State.STARTING


@posix
def test_a_run_is_starting_from_the_moment_it_is_resumed_for_every_reader(run, keepers, capsys):
    end(run, Outcome.PAUSED)
    assert state(run) is summarize(run).state is State.PAUSED
    attached, runs = RunFollower(run), LiveRuns()
    attached.poll()
    assert attached.is_over
    keepers.append(runs_start.resume(run, SLEEPING))
    assert state(run) is summarize(run).state is State.STARTING
    assert (run.attempt_kept(), run.exit_record()) == (2, None)
    late = RunFollower(run)
    for follower in (late, attached):
        follow_until(follower, keepers[0], lambda follower=follower: follower.attempt == 2)
        assert (follower.state, follower.is_over, follower.exit_record) == (State.STARTING, False, None)
    assert runs.look(run.path.parent) == []
    assert [live.run for live in runs.live] == [run]
    keepers[0].kill()
    keepers[0].wait()
    for follower in (late, attached):
        follow_until(follower, keepers[0], lambda follower=follower: follower.is_over)
        assert follower.state is State.CRASHED
    assert [ended.state for ended in runs.look(run.path.parent)] == [State.CRASHED]
    main(["show", str(run.path)])
    assert "The first attempt's end." not in capsys.readouterr().out


@posix
def test_a_resumed_run_keeps_all_earlier_events_and_drops_earlier_requests(run, keepers):
    end(run, None)
    before = EventReader(run.events_file).read_all()
    run.request(Action.STOP)
    keepers.append(runs_start.resume(run, keeper_command(run, "wait")))
    follower = RunFollower(run)
    follow_until(follower, keepers[0], lambda: follower.attempt == 2 and follower.status.step > 8)
    assert not any(run.requests.iterdir())
    assert follower.state is State.TRAINING
    assert EventReader(run.events_file).read_all()[: len(before)] == before
    samples = EventReader(run.machine_file).read_all()
    assert {event.attempt for event in samples if isinstance(event, MemorySampled)} == {2}


def test_of_those_who_resume_at_once_one_does(run, keepers):
    end(run, None)

    def resume(_: int) -> str | None:
        try:
            keepers.append(runs_start.resume(run, SLEEPING))
        except CantResume as error:
            return error.title
        return None

    with ThreadPoolExecutor(4) as windows:
        results = list(windows.map(resume, range(4)))
    assert sorted(results, key=str) == [None, *["The run is under way already"] * 3]
    assert len(keepers) == 1
    with pytest.raises(CantResume):
        runs_start.resume(run, SLEEPING, longer=Extension(epochs=100))
    assert run.options().training.epochs == 3


@pytest.mark.parametrize("outcome", [Outcome.FINISHED, Outcome.PAUSED])
def test_where_the_keeper_can_not_be_started_the_run_is_as_it_was(run, outcome, tmp_path):
    end(run, outcome)
    before = run.options_file.read_bytes()
    with pytest.raises(RunFolderError, match="can't be started"):
        runs_start.resume(run, [str(tmp_path / "nothing")], longer=Extension(epochs=5))
    assert run.options_file.read_bytes() == before
    assert state(run).value == outcome.value
    assert run.exit_record().reason == "The first attempt's end."


def test_a_damaged_run_file_is_named_and_nothing_is_started(run):
    end(run, None)
    run.options_file.write_text("nonsense")
    with pytest.raises(CantResume) as caught:
        runs_start.resume(run, SLEEPING)
    assert str(run.options_file) in caught.value.detail
    assert run.attempt_kept() == 1


# --- One engine


def test_an_engine_that_works_keeps_all_others_out_whatever_the_records_say(run, monkeypatch, capsys):
    gone = record_keeper(run, started=0.0)
    write_events(run.events_file, RunStarted())
    run.record_exit(ExitRecord(time=1, code=1))
    monkeypatch.setattr(__main__, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(__main__, "LenientStream", lambda stream: stream)
    before = run.events_file.read_bytes()
    assert not run.is_alive()
    with locked(run.path, name=ENGINE_LOCK):
        assert run.is_alive()
        for begin in (runs_start.resume, runs_start.start):
            with pytest.raises(CantResume, match="under way already"):
                begin(run, [sys.executable, "-c", "pass"])
        assert __main__._train(run) == 1
        assert keeper.main([str(run.path)]) == 1
    assert "works on this run already" in capsys.readouterr().err
    assert (run.keeper_record(), run.events_file.read_bytes()) == (gone, before)


# --- Longer


@pytest.fixture
def no_keeper(monkeypatch):
    monkeypatch.setattr("core.runs.start._start", lambda *_, **__: None)


@pytest.mark.usefixtures("no_keeper")
def test_only_the_length_is_changed_also_in_a_file_with_trainers_names(run):
    end(run, Outcome.STOPPED)
    before = run.options()
    text = run_file.dumps(before).replace("epochs = 3.0", "num_train_epochs = 3.0")
    run.options_file.write_text(text)
    runs_start.resume(run, longer=Extension(epochs=4))
    runs_start.resume(run, longer=Extension(max_steps=50))
    after = run_file.to_tree(run.options())
    assert (after["training"].pop("max_steps"), after["training"].pop("epochs")) == (50, 4.0)
    assert after == run_file.to_tree(before) | {"training": after["training"]}


@pytest.mark.usefixtures("no_keeper")
@pytest.mark.parametrize(
    ("longer", "reason"),
    [
        ({}, "has finished"),
        ({"epochs": 3}, "3 epochs already"),
        ({"epochs": float("nan")}, "3 epochs already"),
        ({"epochs": 1e9}, "training.epochs"),
        ({"max_steps": 5}, "5 steps already"),
    ],
)
def test_a_finished_run_can_only_be_trained_further_than_before(run, longer, reason):
    end(run, Outcome.FINISHED)
    before = run.options_file.read_bytes()
    with pytest.raises(CantResume, match=reason):
        runs_start.resume(run, longer=Extension(**longer) if longer else None)
    assert run.options_file.read_bytes() == before
    assert state(run) is State.FINISHED


@pytest.mark.usefixtures("no_keeper")
@pytest.mark.parametrize("longer", [{"epochs": 5}, {"max_steps": 20}])
def test_a_length_that_was_requested_and_not_trained_may_be_requested_again(run, longer):
    end(run, Outcome.FINISHED, 9)
    runs_start.resume(run, longer=Extension(**longer))
    requested = run.options_file.read_bytes()
    runs_start.resume(run, longer=Extension(**longer))  # no keeper was started
    assert run.options_file.read_bytes() == requested
    write_events(run.events_file, plan(epochs=5, total_steps=20), step(20, epoch=5.0))
    write_events(run.events_file, RunFinished(state=Outcome.FINISHED, steps=20))
    with pytest.raises(CantResume, match="already"):
        runs_start.resume(run, longer=Extension(**longer))


@pytest.mark.usefixtures("no_keeper")
@pytest.mark.parametrize("evaluations", [(), (Evaluated(step=9, epoch=3, metrics={}, seconds=1.0),)])
def test_a_run_that_evaluates_keeps_its_best_model_when_it_trains_longer(run, evaluations):
    end(run, Outcome.FINISHED, 9)
    write_events(run.events_file, *evaluations)
    runs_start.resume(run, longer=Extension(epochs=5))
    assert run.options().output.keep_best is bool(evaluations)


@pytest.mark.usefixtures("no_keeper")
def test_a_run_whose_length_is_in_steps_is_extended_by_steps_and_only_from_a_checkpoint(run):
    end(run, Outcome.FINISHED)
    runs_start.resume(run, longer=Extension(max_steps=7))
    with pytest.raises(CantResume, match=r"7 steps, whatever the epochs.*--max-steps"):
        runs_start.resume(run, longer=Extension(epochs=10))
    shutil.rmtree(run.checkpoints)
    with pytest.raises(CantResume, match=f"run:{run.name}"):
        runs_start.resume(run, longer=Extension(max_steps=9))
    assert run.options().training.max_steps == 7
    measures = with_changes(run.options(), {"output.save_model": False})
    run.options_file.write_text(run_file.dumps(measures), encoding="utf-8")
    with pytest.raises(CantResume, match="neither checkpoints nor a model"):
        runs_start.resume(run, longer=Extension(max_steps=9))


@posix
def test_a_run_elsewhere_is_followed_by_one_keeper_here_which_tries_at_once_if_asked(
    run, keepers, monkeypatch
):
    def start_one(*_how):
        keepers.append(subprocess.Popen(SLEEPING))
        return keepers[-1]

    monkeypatch.setattr(runs_start, "start_detached", start_one)
    record_keeper(run, started=0.0)
    assert not runs_start.follow_again(run), "it trains here"
    link(run, connected=False)
    assert runs_start.follow_again(run)
    assert not runs_start.follow_again(run), "it is followed"
    first = run.keeper_record().pid
    assert runs_start.follow_again(run, at_once=True)
    assert not psutil.pid_exists(first) or keepers[0].wait(5) is not None
    assert run.keeper_record().pid == keepers[1].pid
    link(run)
    assert not runs_start.follow_again(run, at_once=True), "it is connected"
