"""A terminal staying with a run, and what Ctrl-C means to it."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.cli.main import main
from core.cli.train import REMOVED, Attendance, Interrupts
from core.engine.reporter import Reporter
from core.runs.event_log import RunFollower
from core.runs.events import Event, RunPlanned, RunStarted, encode
from core.runs.folder import Action, ExitRecord, RunFolder
from core.runs.status import State
from tests.fakes import runs
from tests.fakes.runs import FAKES, follow_until, new_run, start, write_events

DIGITS = str(FAKES.parents[1] / "resources" / "examples" / "digits.hone")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> RunFolder:
    return new_run(home / "runs")


@pytest.fixture
def kept(run: RunFolder) -> RunFolder:
    """A run that somebody keeps and that nobody ends."""
    run.record_keeper(os.getpid())
    plan = RunPlanned(total_steps=9, epochs=1, train_samples=9, eval_samples=0, effective_batch=1)
    write_events(run.events_file, RunStarted(), plan)
    return run


def interrupted(times: int) -> Interrupts:
    interrupts = Interrupts()
    interrupts.count = times
    return interrupts


def test_the_first_stops_the_second_kills_the_third_leaves(
    kept: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    attendance = Attendance(kept, interrupted(3), (Action.STOP, Action.KILL))
    assert attendance.stay() == 130
    assert attendance.has_left
    assert {request.action for request in kept.open_requests()} == {Action.STOP, Action.KILL}
    err = capsys.readouterr().err
    assert "what is trained is kept" in err
    assert f"`hone stop {kept.name}`" in err


def test_a_run_that_cannot_be_asked_is_told_of_and_can_be_left(
    kept: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.requests.touch()
    assert Attendance(kept, interrupted(3), (Action.STOP, Action.KILL)).stay() == 130
    assert capsys.readouterr().err.count("The run can't be asked to end") == 2


def test_a_run_that_paused_by_itself_did_not_come_to_what_was_asked_for(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    run.record_keeper(os.getpid())
    reporter = Reporter(run)
    reporter.start({})
    reporter.pause(UserError("Paused: the disk is full", "Make room and resume."))
    run.record_exit(ExitRecord(time=1.0, code=0))
    assert main(["follow", run.name]) == 1
    assert "the disk is full" in capsys.readouterr().err


def test_who_only_follows_leaves_at_the_first(kept: RunFolder) -> None:
    assert Attendance(kept, interrupted(1)).stay() == 130
    assert kept.open_requests() == []


def test_a_run_elsewhere_is_named_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = new_run(tmp_path / "elsewhere")
    run.record_keeper(os.getpid())
    Attendance(run, interrupted(1)).stay()
    assert f"hone follow {run.path}`" in capsys.readouterr().err


def test_interrupts_are_counted_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.count == 2
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_an_interrupt_while_the_run_is_being_started_stops_it(tmp_path: Path) -> None:
    def interrupted_start(run: RunFolder, *, queued: bool) -> subprocess.Popen[bytes]:
        signal.raise_signal(signal.SIGINT)
        return runs.start(run, "wait")

    assert main(["train", DIGITS, "--run-dir", str(tmp_path / "run")], start=interrupted_start) == 130
    record = RunFolder(tmp_path / "run").exit_record()
    assert record is not None
    assert record.code == 0


def remove_at_first_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete a run's folder once somebody waits for it; the large `checkpoints` are still being deleted."""
    poll = RunFollower.poll

    def remove_and_poll(follower: RunFollower) -> list[Event]:
        events = poll(follower)
        shutil.rmtree(follower.run.path)
        (follower.run.checkpoints / "checkpoint-1").mkdir(parents=True)
        return events

    monkeypatch.setattr(RunFollower, "poll", remove_and_poll)


@pytest.mark.parametrize("command", ["follow", "stop"])
def test_a_run_whose_folder_is_removed_is_waited_for_no_longer(
    command: str, kept: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_at_first_poll(monkeypatch)
    assert main([command, kept.name]) == 1
    assert capsys.readouterr().err.endswith(f"{REMOVED}\n")


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps a folder whose files are open")
def test_a_run_removed_while_it_is_trained_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keepers = []

    def start_and_keep(run: RunFolder, *, queued: bool) -> subprocess.Popen[bytes]:
        keepers.append(runs.start(run, "wait"))
        follow_until(follower := RunFollower(run), keepers[0], lambda: follower.story.step > 0)
        remove_at_first_poll(monkeypatch)
        return keepers[0]

    assert main(["train", DIGITS, "--run-dir", str(tmp_path / "run")], start=start_and_keep) == 1
    assert capsys.readouterr().err.endswith(f"{REMOVED}\n")
    assert keepers[0].poll() is not None


class TestFollow:
    def test_until_it_is_over(self, run: RunFolder, capfd: pytest.CaptureFixture[str]) -> None:
        keeper = start(run, "finish")
        assert main(["follow", run.name]) == 0
        keeper.wait()
        out, err = capfd.readouterr()
        assert out == ""
        assert "Finished after 3 steps" in err

    def test_a_run_that_failed(self, run: RunFolder, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        start(run, "fail").wait()
        assert main(["follow", str(run.path), "--json"]) == 1
        assert b'"type":"run_finished"' in capfdbinary.readouterr().out

    def test_what_cannot_be_read_is_told(self, run: RunFolder, capfd: pytest.CaptureFixture[str]) -> None:
        start(run, "finish").wait()
        with run.events_file.open("ab") as file:
            file.write(b'{"type":"of_tomorrow"}\n')
        assert main(["follow", run.name]) == 0
        assert "1 line of what happened can't be read" in capfd.readouterr().err
        with run.events_file.open("ab") as file:
            file.write(encode(RunStarted(schema=2)))
        assert main(["show", run.name]) == 0
        assert "a newer Hone wrote this run" in capfd.readouterr().out

    def test_no_such_run(self) -> None:
        for name in ("nothing", "x" * 5000):
            assert main(["follow", name]) == 2
            assert main(["stop", name]) == 2


@pytest.mark.skipif(os.name != "posix", reason="a keeper's process group is POSIX")
class TestStop:
    def test_a_run_that_trains(self, run: RunFolder, capfd: pytest.CaptureFixture[str]) -> None:
        keeper = start(run, "wait")
        assert main(["stop", run.name]) == 0
        keeper.wait()
        assert "Stopped after" in capfd.readouterr().err
        assert run.open_requests() == []

    def test_at_once(self, run: RunFolder, capfd: pytest.CaptureFixture[str]) -> None:
        keeper = start(run, "stubborn")
        assert main(["stop", run.name, "--now"]) == 0
        keeper.wait()
        assert "Ended at once, as asked." in capfd.readouterr().err

    def test_a_run_that_is_over(self, run: RunFolder, capfd: pytest.CaptureFixture[str]) -> None:
        start(run, "crash").wait()
        assert main(["stop", run.name]) == 0
        assert f"It is over already: {State.CRASHED}" in capfd.readouterr().err
        assert not run.requests.exists()

    def test_a_run_that_ends_otherwise(
        self, kept: RunFolder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(RunFolder, "is_alive", lambda *_: not kept.stop_is_asked())
        assert main(["stop", kept.name]) == 1
        assert "nobody was left to see how" in capfd.readouterr().err
        assert kept.open_requests() == []
