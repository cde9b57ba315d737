"""Starting runs and following them: train, resume, follow, stop, pause and queue, with a fake engine."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from core.base import settings
from core.base.errors import UserError
from core.cli.main import main
from core.cli.train import REMOVED, Interrupts, attend
from core.engine.reporter import Reporter
from core.options.device_support import DeviceReport, MachineReport
from core.runs import queue
from core.runs import start as runs_start
from core.runs.event_log import RunFollower
from core.runs.events import RunPlanned, RunStarted, encode
from core.runs.folder import Action, ExitRecord, RunFolder
from core.runs.library import run_title
from core.runs.status import State
from tests.fakes import runs
from tests.fakes.runs import FAKES, digits_options, follow_until, save_checkpoint, start, write_events

ROOT = FAKES.parents[1]
DIGITS = str(ROOT / "resources" / "examples" / "digits.hone")
POSIX = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")


class TestTrain:
    def test_a_run_that_finishes(self, hone, tmp_path, capfdbinary):
        folder = tmp_path / "run"
        assert hone("train", DIGITS, "--json", "--run-dir", str(folder), "--set", "output.name=Digits") == 0
        assert RunFolder(folder).options().output == digits_options().output
        out, err = capfdbinary.readouterr()
        kinds = [msgspec.json.decode(line)["type"] for line in out.splitlines()]
        assert kinds.count("step_finished") == 3
        assert {"run_started", "evaluated", "memory_sampled", "run_finished"} <= set(kinds)
        for text in (
            str(folder),
            "12 training samples, 4 for validation",
            "accuracy 0.75",
            "Finished after 3",
        ):
            assert text in err.decode()

    @pytest.mark.parametrize("given", [(), ("--offline",)], ids=["setting", "flag"])
    def test_a_missing_model_is_refused_offline(self, given, hone, tmp_path, monkeypatch, capfd):
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.delenv("HF_HUB_OFFLINE")
        settings.save(settings.Settings(offline=not given))
        file = tmp_path / "a.hone"
        file.write_text(
            'task = "text-classification"\n[model]\nsource = "org/tiny"\n[data]\ntrain = "synthetic:8x8"\n'
        )
        assert hone("train", str(file), "--run-dir", str(tmp_path / "run"), *given) == 1
        assert ("--offline" if given else "“Work offline”") in capfd.readouterr().err
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("scenario", "texts"),
        [
            (
                "fail",
                ["The data has one class only", "holds 'yes' in all rows", "Choose another label column"],
            ),
            ("bug", ["RuntimeError: a bug in the fake engine", "log.txt"]),
        ],
    )
    def test_a_run_that_fails_or_crashes_says_why_once(self, scenario, texts, hone, capfd):
        assert hone("train", DIGITS, scenario=scenario) == 1
        err = capfd.readouterr().err
        assert [err.count(text) for text in texts] == [1] * len(texts)

    def test_a_run_that_does_not_fit_is_started_if_confirmed(self, hone, monkeypatch):
        assert hone("train", DIGITS, scenario="large") == 3
        assert hone("train", DIGITS, "--queue", "--yes", scenario="large") == 0
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        for answer, status in (("n", 3), ("y", 0)):
            monkeypatch.setattr("builtins.input", lambda _question, answer=answer: answer)
            assert hone("train", DIGITS, scenario="large") == status
        assert hone("train", DIGITS, "--json", scenario="large") == 3  # a program reads: it isn't asked

    def test_a_wrong_request_makes_no_run(self, hone, home, tmp_path, capfd):
        assert hone("train", DIGITS, "--set", "memory.batch_size=0", "--set", "training.epochs=-1") == 2
        lines = capfd.readouterr().err.splitlines()[1:]
        assert [line.split(":")[0].strip() for line in lines] == ["memory.batch_size", "training.epochs"]
        (tmp_path / "mine").write_text("precious")
        for arguments, text in (
            (("nothing.hone",), "nothing.hone"),
            (("data.json",), "data.train=data.json"),
            (("x.csv.gz",), "hone new"),
            ((DIGITS, "--run-dir", str(tmp_path)), "not empty"),
        ):
            assert hone("train", *arguments) == 2
            assert text in capfd.readouterr().err
        assert not home.exists()

    def test_notes_are_printed_before_the_run(self, hone, capfd, monkeypatch):
        cautions = {"device.mps_memory_limit": {"0.0": "Without a ceiling, the whole Mac may halt."}}
        mac = DeviceReport(name="mps", title="Apple M3 Max", available=True, cautions=cautions)
        machine = MachineReport(devices=(mac,), automatic="mps")
        monkeypatch.setattr("core.cli.train.run_job", lambda *_: machine)
        options = ("training.optimizer=sgd", "training.learning_rate=1e-4")
        options += ("device.name=mps", "device.mps_memory_limit=0")
        assert hone("train", DIGITS, *(part for option in options for part in ("--set", option))) == 0
        notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Note: ")]
        assert [note.split(": ")[1] for note in notes] == [
            "training.learning_rate",
            "device.mps_memory_limit",
        ]


@contextlib.contextmanager
def terminal(scenario, run_dir):
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
        assert any("step_finished" in line for line in process.stdout)
        yield process
        process.kill()


@POSIX
class TestInterrupted:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_once_stops_the_run(self, number, tmp_path):
        with terminal("wait", tmp_path / "run") as process:
            process.send_signal(number)
            out, _ = process.communicate(timeout=20)
        assert process.returncode == 130
        assert '"state":"stopped"' in out

    def test_twice_ends_a_run_that_does_not_stop(self, tmp_path):
        with terminal("stubborn", tmp_path / "run") as process:
            process.send_signal(signal.SIGINT)
            assert any("Stopping" in line for line in process.stderr)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        assert process.returncode == 130
        assert "as requested" in RunFolder(tmp_path / "run").exit_record().reason

    def test_a_closed_pipe_stops_the_run(self, tmp_path):
        with terminal("wait", tmp_path / "run") as process:
            process.stdout.close()
            assert process.wait(20) == 130
        assert RunFolder(tmp_path / "run").exit_record() is not None

    def test_while_the_run_is_started(self, tmp_path, monkeypatch):
        def interrupted_start(run, *, queued):
            signal.raise_signal(signal.SIGINT)
            return runs.start(run, "wait")

        before = signal.getsignal(signal.SIGINT)
        monkeypatch.setattr("core.cli.train.runs_start", SimpleNamespace(start=interrupted_start))
        assert main(["train", DIGITS, "--run-dir", str(tmp_path / "run")]) == 130
        assert RunFolder(tmp_path / "run").exit_record().code == 0
        assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def endless(run):
    """A run whose keeper is this process, and that nobody ends."""
    run.record_keeper(os.getpid())
    plan = RunPlanned(total_steps=9, epochs=1, train_samples=9, eval_samples=0, effective_batch=1)
    write_events(run.events_file, RunStarted(), plan)
    return run


def interrupted(times):
    interrupts = Interrupts()
    interrupts.count = times
    return interrupts


def remove_at_first_poll(monkeypatch):
    """Delete a run's folder once it is followed; the large `checkpoints` are still being deleted."""
    poll = RunFollower.poll

    def remove_and_poll(follower):
        events = poll(follower)
        shutil.rmtree(follower.run.path)
        (follower.run.checkpoints / "checkpoint-1").mkdir(parents=True)
        return events

    monkeypatch.setattr(RunFollower, "poll", remove_and_poll)


class TestAttend:
    KEEPER = subprocess.Popen  # anything but None: attend leaves it alone when it is interrupted three times

    def test_the_first_stops_the_second_kills_the_third_leaves(self, endless, capsys):
        assert attend(endless, interrupted(3), self.KEEPER) == 130
        assert {request.action for request in endless.open_requests()} == {Action.STOP, Action.KILL}
        assert f"`hone stop {endless.name}`" in capsys.readouterr().err

    def test_who_only_follows_leaves_at_the_first(self, endless, tmp_path, capsys):
        elsewhere = RunFolder(shutil.copytree(endless.path, tmp_path / "elsewhere"))
        elsewhere.record_keeper(os.getpid())
        assert attend(elsewhere, interrupted(1)) == 130
        assert elsewhere.open_requests() == []
        assert f"hone follow {elsewhere.path}`" in capsys.readouterr().err

    def test_a_run_that_cannot_be_stopped_can_be_left(self, endless, capsys):
        endless.requests.touch()
        assert attend(endless, interrupted(3), self.KEEPER) == 130
        assert capsys.readouterr().err.count("The run can't be stopped") == 2

    def test_a_run_that_paused_itself_failed(self, run, capsys):
        run.record_keeper(os.getpid())
        reporter = Reporter(run)
        reporter.start({})
        reporter.pause(UserError("Paused: the disk is full", "Make room and resume."))
        run.record_exit(ExitRecord(time=1.0, code=0))
        assert main(["follow", run.name]) == 1
        assert "the disk is full" in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["follow", "stop"])
    def test_a_removed_run_ends_it(self, command, endless, monkeypatch, capsys):
        remove_at_first_poll(monkeypatch)
        assert main([command, endless.name]) == 1
        assert capsys.readouterr().err.endswith(f"{REMOVED}\n")

    @POSIX
    def test_a_run_removed_while_it_trains_ends(self, tmp_path, monkeypatch):
        keepers = []

        def start_and_remove(run, *, queued):
            keepers.append(runs.start(run, "wait"))
            follow_until(follower := RunFollower(run), keepers[0], lambda: follower.status.step > 0)
            remove_at_first_poll(monkeypatch)
            return keepers[0]

        monkeypatch.setattr("core.cli.train.runs_start", SimpleNamespace(start=start_and_remove))
        assert main(["train", DIGITS, "--run-dir", str(tmp_path / "run")]) == 1
        assert keepers[0].poll() is not None


class TestFollow:
    def test_until_it_is_over(self, run, capfd):
        start(run, "finish").wait()
        for line, command, text in (
            (b"", "follow", "Finished after 3 steps"),
            (b'{"type":"of_tomorrow"}\n', "follow", "1 line of the run's events can't be read"),
            (encode(RunStarted(schema=2)), "show", "a newer Hone wrote this run"),
        ):
            with run.events_file.open("ab") as file:
                file.write(line)
            assert main([command, run.name]) == 0
            assert text in "".join(capfd.readouterr())

    def test_a_run_that_failed(self, run, capfdbinary):
        start(run, "fail").wait()
        assert main(["follow", str(run.path), "--json"]) == 1
        assert b'"type":"run_finished"' in capfdbinary.readouterr().out

    @pytest.mark.parametrize("command", ["follow", "stop", "pause", "resume"])
    def test_no_such_run(self, command):
        assert [main([command, name]) for name in ("nothing", "x" * 5000)] == [2, 2]


@POSIX
class TestStop:
    @pytest.mark.parametrize(
        ("scenario", "flags", "text"),
        [("wait", [], "Stopped after"), ("stubborn", ["--now"], "Ended at once, as requested.")],
    )
    def test_a_run_that_trains(self, scenario, flags, text, run, capfd):
        keeper = start(run, scenario)
        assert main(["stop", run.name, *flags]) == 0
        keeper.wait()
        assert text in capfd.readouterr().err
        assert run.open_requests() == []

    def test_a_run_that_is_over(self, run, capfd):
        start(run, "crash").wait()
        assert main(["stop", run.name]) == 0
        assert f"It has already ended: {State.CRASHED}" in capfd.readouterr().err
        assert not run.requests.exists()

    def test_a_run_that_crashes_meanwhile(self, endless, monkeypatch):
        monkeypatch.setattr(RunFolder, "is_alive", lambda *_: Action.STOP not in endless.requested())
        assert main(["stop", endless.name]) == 1
        assert endless.open_requests() == []


@POSIX
class TestPauseAndQueue:
    def test_a_run_is_saved_paused_resumed_and_extended(self, hone, begin, capsys):
        name = begin().run.name

        def check(status, text, *arguments):
            assert hone(*arguments) == status
            assert text in capsys.readouterr().err

        check(0, "Saved step ", "pause", "--save-only", name)
        check(2, "is under way already", "resume", name)
        check(0, f"`hone resume {name}` starts again: it has no complete checkpoint.", "pause", name)
        check(0, "already paused", "pause", name)
        check(2, "it is paused", "pause", "--save-only", name)
        assert hone("resume", name, "--json") == 0
        out, err = capsys.readouterr()
        assert {json.loads(line)["attempt"] for line in out.splitlines()} == {2}
        assert "Finished after " in err
        check(2, f"`hone resume {name} --epochs N` or `--max-steps N`", "resume", name)
        check(2, "no checkpoint to resume from", "resume", name, "--epochs", "100")
        run = RunFolder(settings.runs_folder() / name)
        save_checkpoint(run, 3)
        check(2, "name more", "resume", name, "--max-steps", "1")
        check(0, "", "resume", name, "--epochs", "100", "--queue")
        assert run.options().training.epochs == 100

    def test_runs_wait_are_moved_and_removed(self, hone, begin, capsys):
        assert hone("queue") == 0
        assert "No run trains or waits" in capsys.readouterr().out
        training = begin(queued=True).run
        first, second = (begin("finish", queued=True, until=State.QUEUED).run for _ in range(2))
        assert hone("queue", "--move", second.name, "1") == 0
        rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()[1:]]
        assert rows[0][:2] == [training.name, "training"]
        assert rows[1:] == [["1", second.name, "queued"], ["2", first.name, "queued"]]
        assert hone("queue", "--json") == 0
        answer = json.loads(capsys.readouterr().out)
        assert [run["folder"] for run in answer["waiting"]] == [str(second.path), str(first.path)]
        assert [run["state"] for run in answer["training"]] == ["training"]
        assert hone("stop", second.name) == 0
        assert hone("queue", "--move", training.name, "last") == 2
        assert hone("queue", "--move", second.name, "0") == 2
        assert "first, up, down, last, or a number from 1 on; got '0'" in capsys.readouterr().err
        assert hone("pause", "--save-only", first.name) == 1
        assert "nothing to save yet" in capsys.readouterr().err
        assert hone("stop", first.name) == 0
        assert queue.waiting() == []
        assert hone("show", second.name) == 0
        assert f"`hone resume {second.name}` starts again" in capsys.readouterr().out
        training.request(Action.STOP)
        assert hone("resume", second.name, "--queue") == 0

    def test_a_new_run_waits_for_its_turn(self, begin, tmp_path, monkeypatch, capsys):
        training = begin(queued=True).run
        file = Path(shutil.copy(training.options_file, tmp_path / "run.hone"))

        def start(run, *, queued):
            assert queued
            keeper = runs.start(run, "finish", queued=queued)
            follow_until(follower := RunFollower(run), keeper, lambda: follower.state is State.QUEUED)
            training.request(Action.STOP)
            return keeper

        monkeypatch.setattr("core.cli.train.runs_start", SimpleNamespace(start=start))
        assert main(["train", str(file), "--queue"]) == 0
        err = capsys.readouterr().err
        assert f"1 run ahead; it comes after {run_title(training)}" in err
        assert err.index("Its turn has come") < err.index("Finished after 3 steps")
        assert runs_start.keeper_command(tmp_path, queued=True)[-2:] == [str(tmp_path), "--queue"]
