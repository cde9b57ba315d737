"""Starting runs and staying with them: train, resume, follow, stop, pause and queue, with a fake engine."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from core.base import settings
from core.base.errors import UserError
from core.cli.main import main
from core.cli.train import REMOVED, Attendance, Interrupts
from core.engine.reporter import Reporter
from core.options.device_support import DeviceReport, MachineReport
from core.runs import queue
from core.runs import start as runs_start
from core.runs.event_log import RunFollower
from core.runs.events import Event, RunPlanned, RunStarted, encode
from core.runs.folder import Action, ExitRecord, RunFolder
from core.runs.library import run_title
from core.runs.status import State
from tests.fakes import runs
from tests.fakes.runs import FAKES, digits_options, follow_until, save_checkpoint, start, write_events

ROOT = FAKES.parents[1]
DIGITS = str(ROOT / "resources" / "examples" / "digits.hone")
POSIX = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")
Hone = Callable[..., int]
Begin = Callable[..., RunFollower]


class TestTrain:
    def test_a_run_that_finishes(self, hone, tmp_path, capfd):
        folder = tmp_path / "run"
        assert hone("train", DIGITS, "--run-dir", str(folder), "--set", "output.name=Digits") == 0
        assert RunFolder(folder).options().output == digits_options().output
        out, err = capfd.readouterr()
        assert out == ""
        for said in (
            str(folder),
            "3 steps, 4 samples each, on cpu: 12 training samples, 4 held out",
            "Step 3, evaluated: accuracy 0.75, loss 0.5",
            "Finished after 3 steps",
        ):
            assert said in err

    @pytest.mark.parametrize("given", [(), ("--offline",)])
    def test_a_model_that_is_not_here_is_refused_offline_before_there_is_a_run(
        self, given, hone, tmp_path, monkeypatch, capfd
    ):
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.delenv("HF_HUB_OFFLINE")
        settings.save(settings.Settings(offline=not given))
        file = tmp_path / "a.hone"
        file.write_text(
            'task = "text-classification"\n[model]\nsource = "org/tiny"\n[data]\ntrain = "synthetic:8x8"\n'
        )
        assert hone("train", str(file), "--run-dir", str(tmp_path / "run"), *given) == 1
        err = capfd.readouterr().err
        assert "org/tiny isn't on this computer" in err
        assert ("--offline" if given else "“Work offline” in Settings forbids") in err
        assert not (tmp_path / "run").exists()

    def test_events_as_json_lines(self, hone, capfdbinary):
        assert hone("train", DIGITS, "--json") == 0
        kinds = [msgspec.json.decode(line)["type"] for line in capfdbinary.readouterr().out.splitlines()]
        assert kinds.count("step_finished") == 3
        assert {"run_started", "evaluated", "memory_sampled", "run_finished"} <= set(kinds)

    @pytest.mark.parametrize(
        ("scenario", "said"),
        [
            (
                "fail",
                [
                    "The data has one class only",
                    "holds 'yes' in all rows",
                    "Try: Choose another label column",
                ],
            ),
            (
                "bug",
                [
                    "The training process ended before the run was over.",
                    "RuntimeError: a bug in the fake engine",
                    "log.txt",
                ],
            ),
        ],
    )
    def test_a_run_that_fails_or_crashes_says_why(self, scenario, said, hone, capfd):
        assert hone("train", DIGITS, scenario=scenario) == 1
        err = capfd.readouterr().err
        assert all(words in err for words in said)
        assert err.count(said[0]) == 1

    def test_a_run_that_does_not_fit_ends_before_it_trains_unless_somebody_agrees(
        self, hone, capfd, monkeypatch
    ):
        assert hone("train", DIGITS, scenario="large") == 3
        assert "It doesn't fit into memory" in capfd.readouterr().err
        assert hone("train", DIGITS, "--queue", "--yes", scenario="large") == 0
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        for answer, status in (("", 3), ("n", 3), ("y", 0)):
            monkeypatch.setattr("builtins.input", lambda _question, said=answer: said)
            assert hone("train", DIGITS, scenario="large") == status
        assert hone("train", DIGITS, "--json", scenario="large") == 3  # a program reads: it isn't asked

    def test_a_wrong_request_lists_all_problems_and_makes_no_run(self, hone, home, tmp_path, capfd):
        wrong = ["--set", "memory.batch_size=0", "--set", "training.epochs=-1"]
        assert hone("train", DIGITS, *wrong) == 2
        lines = capfd.readouterr().err.splitlines()
        assert lines[0].endswith("has 2 problems")
        assert [line.split(":")[0].strip() for line in lines[1:]] == ["memory.batch_size", "training.epochs"]
        assert hone("train", "nothing.hone") == 2
        assert "nothing.hone" in capfd.readouterr().err
        assert not home.exists()
        (tmp_path / "mine").write_text("precious")
        assert hone("train", DIGITS, "--run-dir", str(tmp_path)) == 2
        assert "not empty" in capfd.readouterr().err

    def test_what_is_worth_knowing_is_said_before_the_run(self, hone, capfd, monkeypatch):
        caution = "Without a ceiling, the whole Mac may halt."
        mac = DeviceReport(
            name="mps",
            title="Apple M3 Max",
            available=True,
            cautions={"device.mps_memory_limit": {"0.0": caution}},
        )
        machine = MachineReport(devices=(mac,), automatic="mps")
        monkeypatch.setattr("core.cli.train.run_job", lambda *_: machine)
        asked = (
            "training.optimizer=sgd",
            "device.name=mps",
            "device.mps_memory_limit=0",
            "training.learning_rate=1e-4",
        )
        assert hone("train", DIGITS, *(part for option in asked for part in ("--set", option))) == 0
        notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Note: ")]
        paths = ["training.learning_rate", "device.mps_memory_limit"]
        assert [note.split(": ")[1] for note in notes] == paths
        assert notes[1].endswith(caution)


@contextlib.contextmanager
def terminal(scenario: str, run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """`hone train --json` in a process of its own, once its run has begun to train."""
    command = [sys.executable, str(FAKES / "hone.py"), scenario, "train", DIGITS, "--json"]
    process = subprocess.Popen(
        [*command, "--run-dir", str(run_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stdout is not None
        assert any("step_finished" in line for line in process.stdout)
        yield process
        process.kill()


@POSIX
class TestInterrupted:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_once_stops_and_keeps(self, number, tmp_path):
        with terminal("wait", tmp_path / "run") as process:
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert '"state":"stopped"' in out
        assert "what is trained is kept" in err
        assert "Stopped after" in err

    def test_twice_ends_a_run_that_does_not_stop(self, tmp_path):
        with terminal("stubborn", tmp_path / "run") as process:
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert any("Stopping" in line for line in process.stderr)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Ended at once, as asked." in err
        record = RunFolder(tmp_path / "run").exit_record()
        assert record is not None
        assert "as asked" in record.reason

    def test_a_closed_pipe_stops_it_too(self, tmp_path):
        with terminal("wait", tmp_path / "run") as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(20) == 130
        assert RunFolder(tmp_path / "run").exit_record() is not None

    def test_while_the_run_is_being_started_it_stops(self, tmp_path):
        def interrupted_start(run: RunFolder, *, queued: bool) -> subprocess.Popen[bytes]:
            signal.raise_signal(signal.SIGINT)
            return runs.start(run, "wait")

        assert main(["train", DIGITS, "--run-dir", str(tmp_path / "run")], start=interrupted_start) == 130
        record = RunFolder(tmp_path / "run").exit_record()
        assert record is not None
        assert record.code == 0

    def test_interrupts_are_counted_and_the_old_handlers_come_back(self):
        before = signal.getsignal(signal.SIGINT)
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            assert interrupts.count == 2
        assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def kept(run):
    """A run whose keeper is this process, and that nobody ends."""
    run.record_keeper(os.getpid())
    plan = RunPlanned(total_steps=9, epochs=1, train_samples=9, eval_samples=0, effective_batch=1)
    write_events(run.events_file, RunStarted(), plan)
    return run


def interrupted(times: int) -> Interrupts:
    interrupts = Interrupts()
    interrupts.count = times
    return interrupts


def remove_at_first_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete a run's folder once it is waited for; the large `checkpoints` are still being deleted."""
    poll = RunFollower.poll

    def remove_and_poll(follower: RunFollower) -> list[Event]:
        events = poll(follower)
        shutil.rmtree(follower.run.path)
        (follower.run.checkpoints / "checkpoint-1").mkdir(parents=True)
        return events

    monkeypatch.setattr(RunFollower, "poll", remove_and_poll)


class TestAttendance:
    def test_the_first_stops_the_second_kills_the_third_leaves(self, kept, capsys):
        attendance = Attendance(kept, interrupted(3), (Action.STOP, Action.KILL))
        assert attendance.stay() == 130
        assert attendance.has_left
        assert {request.action for request in kept.open_requests()} == {Action.STOP, Action.KILL}
        err = capsys.readouterr().err
        assert "what is trained is kept" in err
        assert f"`hone stop {kept.name}`" in err

    def test_who_only_follows_leaves_at_the_first(self, kept, tmp_path, capsys):
        assert Attendance(kept, interrupted(1)).stay() == 130
        assert kept.open_requests() == []
        elsewhere = RunFolder(shutil.copytree(kept.path, tmp_path / "elsewhere"))
        elsewhere.record_keeper(os.getpid())
        Attendance(elsewhere, interrupted(1)).stay()
        assert f"hone follow {elsewhere.path}`" in capsys.readouterr().err

    def test_a_run_that_cannot_be_asked_can_be_left(self, kept, capsys):
        kept.requests.touch()
        assert Attendance(kept, interrupted(3), (Action.STOP, Action.KILL)).stay() == 130
        assert capsys.readouterr().err.count("The run can't be asked to end") == 2

    def test_a_run_that_paused_by_itself_failed(self, run, capsys):
        run.record_keeper(os.getpid())
        reporter = Reporter(run)
        reporter.start({})
        reporter.pause(UserError("Paused: the disk is full", "Make room and resume."))
        run.record_exit(ExitRecord(time=1.0, code=0))
        assert main(["follow", run.name]) == 1
        assert "the disk is full" in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["follow", "stop"])
    def test_a_removed_run_is_waited_for_no_longer(self, command, kept, monkeypatch, capsys):
        remove_at_first_poll(monkeypatch)
        assert main([command, kept.name]) == 1
        assert capsys.readouterr().err.endswith(f"{REMOVED}\n")

    @POSIX
    def test_a_run_removed_while_it_trains_ends(self, tmp_path, monkeypatch, capsys):
        keepers = []

        def start_and_keep(run: RunFolder, *, queued: bool) -> subprocess.Popen[bytes]:
            keepers.append(runs.start(run, "wait"))
            follow_until(follower := RunFollower(run), keepers[0], lambda: follower.status.step > 0)
            remove_at_first_poll(monkeypatch)
            return keepers[0]

        assert main(["train", DIGITS, "--run-dir", str(tmp_path / "run")], start=start_and_keep) == 1
        assert capsys.readouterr().err.endswith(f"{REMOVED}\n")
        assert keepers[0].poll() is not None


class TestFollow:
    def test_until_it_is_over(self, run, capfd):
        keeper = start(run, "finish")
        assert main(["follow", run.name]) == 0
        keeper.wait()
        out, err = capfd.readouterr()
        assert out == ""
        assert "Finished after 3 steps" in err
        with run.events_file.open("ab") as file:
            file.write(b'{"type":"of_tomorrow"}\n')
        assert main(["follow", run.name]) == 0
        assert "1 line of what happened can't be read" in capfd.readouterr().err
        with run.events_file.open("ab") as file:
            file.write(encode(RunStarted(schema=2)))
        assert main(["show", run.name]) == 0
        assert "a newer Hone wrote this run" in capfd.readouterr().out

    def test_a_run_that_failed(self, run, capfdbinary):
        start(run, "fail").wait()
        assert main(["follow", str(run.path), "--json"]) == 1
        assert b'"type":"run_finished"' in capfdbinary.readouterr().out

    @pytest.mark.parametrize("command", ["follow", "stop", "pause", "resume"])
    def test_no_such_run(self, command, capsys):
        for name in ("nothing", "x" * 5000):
            assert main([command, name]) == 2
        assert "there is no run nothing" in capsys.readouterr().err


@POSIX
class TestStop:
    @pytest.mark.parametrize(
        ("scenario", "how", "said"),
        [("wait", [], "Stopped after"), ("stubborn", ["--now"], "Ended at once, as asked.")],
    )
    def test_a_run_that_trains(self, scenario, how, said, run, capfd):
        keeper = start(run, scenario)
        assert main(["stop", run.name, *how]) == 0
        keeper.wait()
        assert said in capfd.readouterr().err
        assert run.open_requests() == []

    def test_a_run_that_is_over(self, run, capfd):
        start(run, "crash").wait()
        assert main(["stop", run.name]) == 0
        assert f"It is over already: {State.CRASHED}" in capfd.readouterr().err
        assert not run.requests.exists()

    def test_a_run_that_ends_otherwise(self, kept, monkeypatch, capfd):
        monkeypatch.setattr(RunFolder, "is_alive", lambda *_: Action.STOP not in kept.requested())
        assert main(["stop", kept.name]) == 1
        assert "nobody was left to see how" in capfd.readouterr().err
        assert kept.open_requests() == []


@POSIX
class TestPauseAndQueue:
    def test_a_run_is_saved_paused_and_resumed(self, hone, begin, capsys):
        def said(status: int, *arguments: str) -> str:
            assert hone(*arguments) == status
            return capsys.readouterr().err

        name = begin().run.name
        assert "Saved step " in said(0, "pause", "--save-only", name)
        assert "is under way already" in said(2, "resume", name)
        paused = said(0, "pause", name)
        assert "Paused after " in paused
        assert f"`hone resume {name}` begins anew: it has no complete checkpoint." in paused
        assert "paused already" in said(0, "pause", name)
        assert "nothing is under way, it is paused" in said(2, "pause", "--save-only", name)
        assert hone("runs", "--json") == 0
        assert json.loads(capsys.readouterr().out)[0]["state"] == "paused"
        assert hone("resume", name, "--json") == 0
        told = capsys.readouterr()
        assert {json.loads(line)["attempt"] for line in told.out.splitlines()} == {2}
        assert "Finished after " in told.err
        assert "has finished" in said(2, "resume", name)
        assert "No checkpoint of it is there" in said(2, "resume", name, "--epochs", "100")
        run = RunFolder(settings.runs_folder() / name)
        save_checkpoint(run, 3)
        assert "name more" in said(2, "resume", name, "--max-steps", "1")
        said(0, "resume", name, "--epochs", "100", "--queue")
        assert run.options().training.epochs == 100

    def test_runs_wait_are_moved_and_taken_out(self, hone, begin, capsys):
        assert hone("queue") == 0
        assert "No run trains or waits" in capsys.readouterr().out
        trains = begin(queued=True)
        first, second = (begin("finish", queued=True, until=State.QUEUED) for _ in range(2))
        assert hone("queue", "--move", second.run.name, "1") == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert rows[1][:2] == [trains.run.name, "training"]
        order = [["1", second.run.name, "queued"], ["2", first.run.name, "queued"]]
        assert [row[:3] for row in rows[2:]] == order
        assert hone("queue", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert [run["folder"] for run in told["waiting"]] == [str(second.run.path), str(first.run.path)]
        assert [run["state"] for run in (*told["training"], *told["waiting"])] == [
            *("training", "queued", "queued")
        ]
        assert hone("stop", second.run.name) == 0
        assert "taken out of the queue, as asked" in capsys.readouterr().err
        assert hone("queue", "--move", trains.run.name, "last") == 2
        assert hone("queue", "--move", second.run.name, "0") == 2
        assert "first, up, down, last, or a number from 1 on; got '0'" in capsys.readouterr().err
        assert hone("pause", "--save-only", first.run.name) == 1
        assert "nothing to save yet" in capsys.readouterr().err
        assert hone("stop", first.run.name) == 0
        assert queue.waiting() == []
        assert hone("show", second.run.name) == 0
        assert f"`hone resume {second.run.name}` begins anew" in capsys.readouterr().out
        trains.run.request(Action.STOP)
        assert hone("resume", second.run.name, "--queue") == 0

    def test_a_new_run_waits_where_it_is_told_to(self, begin, tmp_path, capsys):
        trains = begin(queued=True)
        file = tmp_path / "run.hone"
        file.write_bytes(trains.run.options_file.read_bytes())

        def start(run: RunFolder, *, queued: bool = False) -> subprocess.Popen[bytes]:
            assert queued
            keeper = runs.start(run, "finish", queued=queued)
            follow_until(follower := RunFollower(run), keeper, lambda: follower.state is State.QUEUED)
            trains.run.request(Action.STOP)
            return keeper

        assert main(["train", str(file), "--queue"], start=start) == 0
        said = capsys.readouterr().err
        assert f"Waiting for its turn, 1 run ahead; it comes after {run_title(trains.run)}" in said
        assert said.index("Its turn has come") < said.index("Finished after 3 steps")
        assert runs_start.keeper_command(tmp_path, queued=True)[-2:] == [str(tmp_path), "--queue"]
