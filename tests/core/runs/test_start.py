"""Going on with runs that ended before they were done, and training finished ones further."""

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import msgspec
import psutil
import pytest

from core.base.errors import RunFolderError
from core.cli.main import main
from core.options import run_file
from core.runs import start as runs_start
from core.runs.event_log import EventReader, EventWriter, RunFollower, current_attempt, next_attempt
from core.runs.events import MemorySampled, Outcome, RunFinished, RunPlanned, RunStarted, StepFinished
from core.runs.folder import Action, ExitRecord, KeeperRecord, RunFolder
from core.runs.library import read_status
from core.runs.queue import LiveRuns
from core.runs.start import CantResume
from core.runs.status import State
from core.runs.summary import summarize
from tests.fakes.runs import follow_until, keeper_command, new_run, save_checkpoint, start, write_events

posix = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")
PLAN = RunPlanned(total_steps=9, epochs=3, train_samples=9, eval_samples=1, effective_batch=1)


def step(number: int) -> StepFinished:
    return StepFinished(step=number, epoch=number / 3, seconds=0.1, learning_rate=1, samples=1)


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path)


def end(run: RunFolder, outcome: Outcome | None, steps: int = 5) -> RunFolder:
    """Let a first attempt be over; None: it crashed."""
    record = KeeperRecord.of(os.getpid())
    gone = msgspec.structs.replace(record, started=record.started - 1000)
    run.keeper_file.write_bytes(msgspec.json.encode(gone))
    told = [step(number) for number in range(1, steps + 1)]
    write_events(run.events_file, RunStarted(), PLAN, *told)
    if outcome is not None:
        write_events(run.events_file, RunFinished(state=outcome, steps=steps))
    if outcome is Outcome.FINISHED:
        save_checkpoint(run, steps)
    run.record_exit(ExitRecord(time=1, code=0, reason="The first attempt's end."))
    return run


def state(run: RunFolder) -> State:
    return run.state(read_status(run))


@pytest.fixture
def keepers():
    """Keepers that are ended at the end of a test, with their engines."""
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for keeper in made:
        children = psutil.Process(keeper.pid).children() if keeper.poll() is None else []
        keeper.kill()
        keeper.wait()
        for child in children:
            child.kill()


@posix
def test_a_run_is_starting_from_the_moment_it_is_resumed_whoever_looks(run, keepers, tmp_path):
    end(run, Outcome.PAUSED)
    assert state(run) is summarize(run).state is State.PAUSED
    attached, runs = RunFollower(run), LiveRuns()
    attached.poll()
    assert attached.is_over
    keepers.append(runs_start.resume(run, [sys.executable, "-c", "import time; time.sleep(60)"]))
    assert state(run) is summarize(run).state is State.STARTING
    assert (run.attempt_kept(), run.exit_record()) == (2, None)
    late = RunFollower(run)
    for follower in (late, attached):
        follow_until(follower, keepers[0], lambda follower=follower: follower.attempt == 2)
        assert (follower.state, follower.is_over, follower.exit_record) == (State.STARTING, False, None)
    assert runs.look(tmp_path) == []
    assert [live.run for live in runs.live] == [run]
    keepers[0].kill()
    keepers[0].wait()
    for follower in (late, attached):
        follow_until(follower, keepers[0], lambda follower=follower: follower.is_over)
        assert follower.state is State.CRASHED
    assert [ended.state for ended in runs.look(tmp_path)] == [State.CRASHED]


@posix
def test_a_crash_before_the_engine_said_anything_is_told_with_its_own_reason(run, keepers, capsys):
    end(run, Outcome.FINISHED)
    keepers.append(runs_start.resume(run, keeper_command(run, "no such scenario"), epochs=9))
    keepers[0].wait(10)
    follower = RunFollower(run)
    follow_until(follower, keepers[0], lambda: follower.is_over)
    assert follower.state is state(run) is State.CRASHED
    assert follower.exit_record.attempt == 2
    main(["show", str(run.path)])
    shown = capsys.readouterr().out
    assert "crashed" in shown
    assert "The first attempt's end." not in shown
    again = runs_start.resume(run, keeper_command(run, "finish"))
    keepers.append(again)
    follow_until(follower := RunFollower(run), again, lambda: follower.is_over)
    assert (follower.state, follower.attempt) == (State.FINISHED, 3)


@posix
def test_what_was_told_before_is_all_there_and_a_request_of_old_ends_nothing(run, keepers):
    keepers.append(start(run, "wait"))
    follower = RunFollower(run)
    follow_until(follower, keepers[0], lambda: follower.status.step >= 3)
    os.kill(follower.status.engine_pid, signal.SIGKILL)
    keepers[0].wait(10)
    follow_until(follower, keepers[0], lambda: follower.is_over)
    before = EventReader(run.events_file).read_all()
    run.request(Action.STOP)
    mine = run.path.with_name("mine.json")
    mine.write_text("{}")
    (run.requests / "a.json").write_text('{"id": "../../mine", "action": "kill"}')
    keepers.append(runs_start.resume(run, keeper_command(run, "wait")))
    assert mine.exists()
    follower = RunFollower(run)
    last = follower.status.step
    follow_until(
        follower, keepers[1], lambda: follower.status.attempt == 2 and follower.status.step > last + 3
    )
    assert not any(run.requests.iterdir())
    assert follower.state is State.TRAINING or follower.status.plan.attempt == 2
    assert EventReader(run.events_file).read_all()[: len(before)] == before
    kept = {
        event.attempt
        for event in EventReader(run.machine_file).read_all()
        if isinstance(event, MemorySampled)
    }
    assert kept == {1, 2}
    run.request(Action.PAUSE)
    follow_until(follower, keepers[1], lambda: follower.is_over)
    assert follower.state is State.PAUSED


def test_of_two_who_resume_at_once_one_does(run, keepers):
    end(run, None)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]

    def press(_: int) -> object:
        try:
            keepers.append(runs_start.resume(run, sleeping))
        except CantResume as error:
            return error.title
        return None

    with ThreadPoolExecutor(4) as windows:
        told = list(windows.map(press, range(4)))
    assert sorted(told, key=str) == [None, *["The run is under way already"] * 3]
    assert len(keepers) == 1
    with pytest.raises(CantResume):
        runs_start.resume(run, sleeping, epochs=100)
    assert run.options().training.epochs == 3


def test_a_run_that_has_finished_is_not_gone_on_with_unless_it_is_to_train_longer(run):
    end(run, Outcome.FINISHED)
    with pytest.raises(CantResume, match="has finished"):
        runs_start.resume(run)
    assert state(run) is State.FINISHED


@pytest.mark.parametrize("outcome", [Outcome.FINISHED, Outcome.PAUSED])
def test_where_nothing_can_be_started_the_run_is_as_it_was(run, outcome, tmp_path):
    end(run, outcome)
    before = run.options_file.read_bytes()
    with pytest.raises(RunFolderError, match="can't be started"):
        runs_start.resume(run, [str(tmp_path / "nothing")], epochs=5)
    assert run.options_file.read_bytes() == before
    assert state(run).value == outcome.value
    assert run.exit_record().reason == "The first attempt's end."


def test_a_damaged_run_file_is_told(run):
    end(run, None)
    run.options_file.write_text("nonsense")
    with pytest.raises(CantResume, match="can't be resumed"):
        runs_start.resume(run)
    assert run.attempt_kept() == 1


@posix
@pytest.mark.parametrize(
    "name", ["log.txt", "events.jsonl", "requests", "checkpoints", ".lock", ".engine.lock"]
)
def test_a_folder_that_leads_elsewhere_is_not_written_through(run, name, tmp_path):
    end(run, None)
    outside = tmp_path / "outside"
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(outside)
    with pytest.raises(RunFolderError):
        runs_start.resume(run, [sys.executable, "-c", "print('here')"])
    assert not outside.exists()


@posix
def test_a_pipe_in_a_strangers_folder_is_not_waited_for(run):
    end(run, None)
    run.log_file.unlink(missing_ok=True)
    os.mkfifo(run.log_file)
    with pytest.raises(CantResume, match="neither a file nor a folder"):
        runs_start.resume(run, [sys.executable, "-c", "print('here')"])
    assert run.attempt_kept() == 1


class TestExtending:
    @pytest.fixture(autouse=True)
    def no_keeper(self, monkeypatch):
        monkeypatch.setattr("core.runs.start._start", lambda *_, **__: None)

    def test_steps_are_asked_for_where_there_were_none(self, run):
        end(run, Outcome.STOPPED)
        before = tomllib.loads(run.options_file.read_text())
        runs_start.resume(run, max_steps=50)
        after = tomllib.loads(run.options_file.read_text())
        assert after["training"].pop("max_steps") == 50
        assert after == before
        runs_start.resume(run, max_steps=60)
        assert run.options().training.max_steps == 60

    def test_a_file_in_trainers_words_asks_for_the_same_in_ours(self, run):
        end(run, Outcome.FINISHED)
        text = run_file.dumps(run.options()).replace("epochs = 3.0", "num_train_epochs = 3.0")
        run.options_file.write_text(text)
        runs_start.resume(run, epochs=4)
        assert run.options().training.epochs == 4.0

    @pytest.mark.parametrize(
        ("longer", "why"),
        [
            ({"epochs": 3}, "3 epochs already"),
            ({"epochs": float("nan")}, "3 epochs already"),
            ({"epochs": 1e9}, "training.epochs"),
            ({"max_steps": 5}, "5 steps already"),
        ],
    )
    def test_less_than_was_done_or_asked_is_refused(self, run, longer, why):
        end(run, Outcome.FINISHED)
        before = run.options_file.read_bytes()
        with pytest.raises(CantResume, match=why):
            runs_start.resume(run, **longer)
        assert run.options_file.read_bytes() == before

    @pytest.mark.parametrize("longer", [{"epochs": 5}, {"max_steps": 20}])
    def test_who_was_killed_after_asking_may_ask_for_the_same_again(self, run, longer):
        end(run, Outcome.FINISHED, 9)
        runs_start.resume(run, **longer)
        asked = run.options_file.read_bytes()
        runs_start.resume(run, **longer)  # no keeper was started
        assert run.options_file.read_bytes() == asked
        write_events(run.events_file, msgspec.structs.replace(PLAN, epochs=5, total_steps=20), step(20))
        write_events(run.events_file, RunFinished(state=Outcome.FINISHED, steps=20))
        with pytest.raises(CantResume, match="already"):
            runs_start.resume(run, **longer)

    def test_one_that_kept_no_checkpoint_would_lose_its_model(self, run):
        end(run, Outcome.FINISHED)
        shutil.rmtree(run.checkpoints)
        before = run.options_file.read_bytes()
        with pytest.raises(CantResume, match=f"run:{run.name}"):
            runs_start.resume(run, epochs=9)
        assert run.options_file.read_bytes() == before

    def test_a_run_that_counts_steps_is_extended_by_steps(self, run):
        end(run, Outcome.FINISHED)
        runs_start.resume(run, max_steps=7)
        with pytest.raises(CantResume, match="7 steps, whatever the epochs"):
            runs_start.resume(run, epochs=10)


class TestAttempts:
    def test_the_number_of_an_attempt_is_found_from_the_end_however_long_the_file(self, run):
        assert next_attempt(run.events_file) == 1
        write_events(run.events_file, RunStarted())
        assert next_attempt(run.events_file) == 2
        writer = EventWriter(run.events_file, attempt=7)
        writer.write(RunStarted())
        writer.close()
        with run.events_file.open("ab") as file:
            file.write(
                b"nonsense\n" * 20_000
                + b'{"attempt": "x"}\n{"attempt": 9007199254740992}\n[]\n\xff\n{"attempt":9,"torn'
            )
        assert next_attempt(run.events_file) == 8

    def test_of_a_long_file_only_the_end_is_read(self, run, monkeypatch):
        write_events(run.events_file, RunStarted())
        with run.events_file.open("r+b") as file:
            file.truncate(1 << 33)  # a hole of 8 GB
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        write_events(run.events_file, step(1))
        assert next_attempt(run.events_file) == 2

    def test_keeper_and_engine_take_the_number_that_the_starter_gave(self, run):
        end(run, None)
        assert current_attempt(run) == 2
        run.record_keeper(os.getpid(), 5)
        assert current_attempt(run) == 5
