"""Starting runs and following them: train, resume, follow, stop, pause and queue, with a fake engine."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import msgspec
import pytest

from core.base import settings
from core.base.errors import Fix, Problem, UserError
from core.base.jobs import EngineCrashed
from core.cli.train import REMOVED, Interrupts, attend
from core.engine.reporter import Reporter
from core.jobs.inspect import DataFinding, DataReport, FindingLevel
from core.memory.model import ModelReport
from core.options import run_file
from core.options.catalogue import with_changes
from core.options.device_support import DeviceReport, MachineReport
from core.runs import queue
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import Action, RunPlanned, RunStarted
from core.runs.folder import ExitRecord, KeeperRecord, RunFolder
from core.runs.library import list_runs, read_status, run_title
from core.runs.status import State
from tests.fakes import runs
from tests.fakes.runs import FAKES, digits_options, save_checkpoint, start, write_events

ROOT = FAKES.parents[1]
DIGITS = str(ROOT / "resources" / "examples" / "digits.hone")
LORA = [f"--set=model.{option}" for option in ("pretrained=true", "method=lora", "lora_targets=q_proj")]
POSIX = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")


# --- hone train


@pytest.fixture
def jobs(monkeypatch):
    """Engine jobs answer from `jobs`, by name; an answer may be an error to raise."""
    answers = {}

    def run_job(name, *_):
        if isinstance(answers[name], Exception):
            raise answers[name]
        return answers[name]

    monkeypatch.setattr("core.cli.train.run_job", run_job)
    return answers


@pytest.mark.usefixtures("jobs")  # none is asked where the options suit every model and machine
def test_a_run_that_finishes(tmp_path, hone):
    folder = tmp_path / "run"
    out, err = hone("train", DIGITS, "--json", "--run-dir", folder, "--set", "output.name=Digits")
    assert RunFolder(folder).options().output == digits_options().output
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert kinds.count("step_finished") == 3
    assert {"run_started", "evaluated", "memory_sampled", "run_finished"} <= set(kinds)
    for text in (str(folder), "12 training examples, 4 for validation", "accuracy 0.75", "Finished after 3"):
        assert text in err


@pytest.mark.parametrize("flags", [(), ("--offline",)], ids=["setting", "flag"])
def test_a_missing_model_is_refused_offline(flags, tmp_path, monkeypatch, hone):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    settings.save(settings.Settings(offline=not flags))
    file = tmp_path / "a.hone"
    file.write_text('task = "chat"\nmodel.source = "org/tiny"\ndata.train = "synthetic:8x8"\n')
    err = hone("train", file, "--run-dir", tmp_path / "run", *flags, status=1).err
    assert ("--offline" if flags else "“Work offline”") in err
    assert not (tmp_path / "run").exists()


def test_a_model_is_tested_on_a_file(home, tmp_path, hone):
    trained = runs.make_folder(tmp_path / "trained")
    (trained.model).mkdir()
    (trained.model / "model.safetensors").touch()
    (tmp_path / "test.csv").write_text("text,label\n")
    assert "test2.csv" in hone("test", trained.path, tmp_path / "test2.csv", status=2).err
    assert not home.exists()
    hone("test", trained.path, tmp_path / "test.csv")
    (run,) = list_runs(home / "runs")
    assert run.options().only_evaluates
    assert run.options().data.eval == str(tmp_path / "test.csv")


def test_a_run_that_fails_says_why_once(hone):
    err = hone("train", DIGITS, scenario="fail", status=1).err
    for text in ("The data has one class only", "holds 'yes' in all rows", "Choose another label column"):
        assert err.count(text) == 1


def test_a_run_that_does_not_fit_is_started_if_confirmed(monkeypatch, hone):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", pytest.fail)
    hone("train", DIGITS, "--json", scenario="large", status=3)  # a program reads: it isn't asked
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    hone("train", DIGITS, scenario="large")
    monkeypatch.setattr(
        "core.cli.train.start_and_show", lambda _arguments, _run, *, forced: 0 if forced else 3
    )
    monkeypatch.setattr("builtins.input", lambda _question: "")
    hone("train", DIGITS, status=3)
    hone("train", DIGITS, "--yes")


def test_pretraining_does_not_begin_for_conversations_that_cannot_be_used(home, tmp_path, jobs, hone):
    (tmp_path / "talks.jsonl").write_text('{"prompt": "a", "response": ""}\n')
    pair = f'task = "chat"\nmodel.source = "scratch:llama-tiny"\ndata.train = "{tmp_path / "talks.jsonl"}"\n'
    (tmp_path / "pair.hone").write_text(pair)
    rows = {"message": "1 example: an empty answer.", "count": 1, "rows": (1,)}
    sound = DataReport(source="", format="JSONL", rows=9)
    for level, status, made in ((FindingLevel.PROBLEM, 1, 0), (FindingLevel.WARNING, 0, 2)):
        finding = DataFinding(code="empty-answer", level=level, **rows)
        jobs["inspect"] = msgspec.structs.replace(sound, findings=(finding,))
        err = hone("train", tmp_path / "pair.hone", status=status).err
        assert ("an empty answer. (row 1)" in err) is bool(status)
        assert len(list_runs(home / "runs")) == made


def test_a_wrong_request_makes_no_run(home, tmp_path, jobs, hone):
    (tmp_path / "mine").write_text("precious")
    fix = Fix("Let Hone choose", {"model.lora_targets": ()})
    jobs["check-model"] = ModelReport(problems=(Problem("model.lora_targets", "matches no layer", (fix,)),))
    for arguments, texts in (
        (("nothing.hone",), ["nothing.hone"]),
        (("data.json",), ["data.train=data.json"]),
        (("x.csv.gz",), ["hone new"]),
        ((DIGITS, "--run-dir", tmp_path), ["not empty"]),
        (
            (DIGITS, "--set=memory.batch_size=0", "--set=training.epochs=-1"),
            ["memory.batch_size:", "training.epochs:"],
        ),
        ((DIGITS, "--sweep=memory.batch_size=8,0"), ["Batch size 0: must be"]),
        ((DIGITS, "--sweep=memory.batch_size=8,9", "--run-dir", tmp_path / "run"), ["--run-dir"]),
        ((DIGITS, "--sweep=model.lora_targets=a,b", *LORA), ["several values of it can't be tried"]),
        ((DIGITS, "--sweep=memory.batch_size=8", "--sweep=memory.batch_size=0"), ["Batch size 0: must be"]),
        ((DIGITS, *LORA), ["model.lora_targets: matches no layer", "Let Hone choose"]),
    ):
        err = hone("train", *arguments, status=2).err
        assert [text for text in texts if text not in err] == []
    assert not home.exists()


@pytest.mark.parametrize(("scenario", "status"), [("finish", 0), ("fail", 1)])
def test_a_sweep_trains_one_run_after_the_other_also_if_one_fails_and_compares_them(scenario, status, hone):
    out = hone(
        "train", DIGITS, "--sweep", "training.learning_rate=1e-5,1e-3", scenario=scenario, status=status
    ).out
    made = list_runs(settings.runs_folder())[::-1]
    assert [run.options().training.learning_rate for run in made] == [1e-5, 1e-3]
    assert all(run.exit_record() for run in made)
    first, second = ([event.time for event in EventReader(run.events_file).read_all()] for run in made)
    assert first[-1] <= second[0]  # no race for the device
    assert [text for text in ("lr 1e-5", "lr 0.001") if text not in out] == []


def test_what_the_machine_refuses_is_said_once_for_all_runs_of_a_sweep(jobs, hone):
    refusals = {"training.optimizer": {"adamw-8bit": "needs an NVIDIA GPU"}}
    cpu = DeviceReport(name="cpu", title="CPU", available=True, refusals=refusals)
    jobs["devices"] = MachineReport(devices=(cpu,), automatic="cpu")
    refused = ("--set=training.optimizer=adamw-8bit", "--sweep=memory.batch_size=8,16")
    assert hone("train", DIGITS, *refused, status=2).err.count("needs an NVIDIA GPU") == 1


def test_hints_are_printed_before_the_run_also_that_the_model_was_not_checked(jobs, tmp_path, hone):
    cautions = {"device.mps_memory_limit": {"0.0": "Without a ceiling, the whole Mac may halt."}}
    mac = DeviceReport(name="mps", title="Apple M3 Max", available=True, cautions=cautions)
    jobs["devices"] = MachineReport(devices=(mac,), automatic="mps")
    jobs["check-model"] = EngineCrashed("check-model", -11, "Segmentation fault")
    options = (
        "device.name=mps",
        "device.mps_memory_limit=0",
        "training.optimizer=sgd",
        "training.learning_rate=1e-4",
    )
    (tmp_path / "run").touch()  # so that the run isn't started
    overrides = [f"--set={option}" for option in options]
    err = hone("train", DIGITS, *LORA, *overrides, "--run-dir", tmp_path / "run", status=2).err
    for hint in ("the model could not be checked", "training.learning_rate: ", "device.mps_memory_limit: "):
        assert f"Note: {hint}" in err


# --- Interrupting it


@contextlib.contextmanager
def terminal(scenario, run_dir):
    """`hone train --json` in a process of its own, once its run has begun to train."""
    command = [sys.executable, str(FAKES / "hone.py"), scenario, "train", DIGITS, "--json"]
    process = subprocess.Popen(
        [*command, "--run-dir", str(run_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
    )
    with process:
        assert any("step_finished" in line for line in process.stdout)
        yield process
        process.kill()


@POSIX
def test_a_signal_stops_the_run_and_a_second_ends_one_that_does_not_stop(tmp_path):
    with terminal("stubborn", tmp_path / "run") as process:
        process.send_signal(signal.SIGTERM)
        assert any("Stopping" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert "as requested" in RunFolder(tmp_path / "run").exit_record().reason


@POSIX
@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="+".join)
def test_a_closed_pipe_stops_the_run(closed, tmp_path):
    """The status is 130, whatever Python still has to write, which would make it 120."""
    with terminal("wait", tmp_path / "run") as process:
        for name in closed:
            getattr(process, name).close()
        if "stdout" not in closed:
            process.send_signal(signal.SIGINT)  # as to all that a pipe joins: what reads it ends first
        assert process.wait(20) == 130
    run = RunFolder(tmp_path / "run")
    assert (run.state(read_status(run)), run.exit_record().code) == (State.STOPPED, 0)


@POSIX
def test_a_signal_while_the_run_is_started_stops_it(tmp_path, monkeypatch, hone):
    def interrupted_start(made, *, queued):
        signal.raise_signal(signal.SIGINT)
        return [runs.start(run, "wait") for run in made]

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("core.cli.train.runs_start.start_all", interrupted_start)
    hone("train", DIGITS, "--run-dir", tmp_path / "run", status=130)
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


KEEPER = subprocess.Popen  # anything but None: attend leaves it alone when it is interrupted three times


def test_the_first_interrupt_stops_the_second_kills_the_third_leaves(endless, capsys):
    assert attend(endless, interrupted(3), KEEPER) == 130
    assert {request.action for request in endless.open_requests()} == {Action.STOP, Action.KILL}
    assert f"`hone stop {endless.name}`" in capsys.readouterr().err


def test_who_only_follows_leaves_at_the_first_interrupt(endless, tmp_path, capsys):
    elsewhere = RunFolder(shutil.copytree(endless.path, tmp_path / "elsewhere"))
    elsewhere.record_keeper(os.getpid())
    assert attend(elsewhere, interrupted(1)) == 130
    assert elsewhere.open_requests() == []
    assert f"hone follow {elsewhere.path}`" in capsys.readouterr().err


@POSIX
def test_a_signal_is_acted_on_at_once_and_not_at_the_next_look_at_the_run(endless, monkeypatch):
    """A run of short steps would take many more meanwhile."""
    monkeypatch.setattr("core.cli.train.POLL_SECONDS", 20)
    sending = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM])
    with Interrupts() as interrupts:
        sending.start()
        assert attend(endless, interrupts) == 130
    sending.join()


def test_a_run_that_cannot_be_stopped_can_be_left(endless, capsys):
    endless.requests.touch()
    assert attend(endless, interrupted(3), KEEPER) == 130
    assert capsys.readouterr().err.count("The run can't be stopped") == 2


# --- hone follow and stop


def remove_at_first_poll(monkeypatch):
    """Delete a run's folder once it is followed; the large `checkpoints` are still being deleted."""
    poll = RunFollower.poll

    def remove_and_poll(follower):
        events = poll(follower)
        shutil.rmtree(follower.run.path)
        (follower.run.checkpoints / "checkpoint-1").mkdir(parents=True)
        return events

    monkeypatch.setattr(RunFollower, "poll", remove_and_poll)


@pytest.mark.parametrize("command", ["follow", "stop"])
def test_a_removed_run_is_no_longer_waited_for(command, endless, monkeypatch, hone):
    remove_at_first_poll(monkeypatch)
    assert hone(command, endless.name, status=1).err.endswith(f"{REMOVED}\n")


def test_a_run_that_paused_itself_failed(run, hone):
    run.record_keeper(os.getpid())
    reporter = Reporter(run)
    reporter.start({})
    reporter.pause(UserError("Paused: the disk is full", "Make room and resume."))
    run.record_exit(ExitRecord(time=1.0, code=0))
    assert "the disk is full" in hone("follow", run.name, status=1).err


def test_a_run_is_followed_until_it_is_over(run, hone):
    start(run, "finish").wait()
    for line, command, text in (
        (b"", "follow", "Finished after 3 steps"),
        (b'{"type":"of_tomorrow"}\n', "follow", "1 line can't be read and is left out"),
    ):
        with run.events_file.open("ab") as file:
            file.write(line)
        assert text in "".join(hone(command, run.name))


@pytest.mark.parametrize("command", ["follow", "stop", "pause", "resume"])
def test_no_such_run(command, hone):
    for name in ("nothing", "x" * 5000):
        hone(command, name, status=2)


@POSIX
def test_a_run_is_ended_at_once_and_then_is_over(run, hone):
    keeper = start(run, "stubborn")
    assert "Ended at once, as requested." in hone("stop", run.name, "--now").err
    keeper.wait()
    assert run.open_requests() == []
    assert f"It has already ended: {State.STOPPED}" in hone("stop", run.name).err


def test_a_run_that_crashes_before_it_is_stopped_keeps_no_request(endless, monkeypatch, hone):
    monkeypatch.setattr(RunFolder, "is_alive", lambda *_: Action.STOP not in endless.requested())
    hone("stop", endless.name, status=1)
    assert endless.open_requests() == []


# --- hone pause, resume and queue


@POSIX
def test_a_run_is_saved_paused_resumed_and_extended(begin, hone):
    name = begin().run.name

    def check(status, text, *arguments):
        assert text in hone(*arguments, status=status).err

    check(0, "Saved step ", "pause", "--save-only", name)
    check(2, "is under way already", "resume", name)
    check(0, f"`hone resume {name}` starts again: it has no complete checkpoint.", "pause", name)
    check(0, "already paused", "pause", name)
    check(2, "it is paused", "pause", "--save-only", name)
    out, err = hone("resume", name, "--json")
    assert {json.loads(line)["attempt"] for line in out.splitlines()} == {2}
    assert "Finished after " in err
    check(2, f"`hone resume {name} --epochs N` or `--max-steps N`", "resume", name)
    check(2, "no checkpoint to resume from", "resume", name, "--epochs", "100")
    run = RunFolder(settings.runs_folder() / name)
    save_checkpoint(run, 3)
    check(2, "name more", "resume", name, "--max-steps", "1")
    check(0, "", "resume", name, "--epochs", "100", "--queue")
    assert run.options().training.epochs == 100


@POSIX
def test_a_run_of_steps_is_trained_further_by_steps(begin, hone):
    name = begin().run.name
    run = RunFolder(settings.runs_folder() / name)
    hone("pause", name)
    hone("resume", name)
    run_file.write(with_changes(run.options(), {"training.max_steps": 3}), run.options_file)
    said = hone("resume", name, status=2).err
    assert f"`hone resume {name} --max-steps N`" in said
    assert "--epochs" not in said


@POSIX
def test_a_waiting_run_is_started_now(begin, hone):
    training = begin(queued=True).run
    waiting = begin("finish", queued=True, until=State.QUEUED).run
    hone("queue", "--move", waiting.name, "now")
    assert queue.waiting() == []
    hone("follow", waiting.name)
    assert [run.path for run in queue.training()] == [training.path]
    training.request(Action.STOP)


def test_a_run_that_needs_a_model_says_which_run_it_waits_for(hone, monkeypatch):
    base, chat = (runs.new_run(settings.runs_folder()) for _ in range(2))
    monkeypatch.setattr(queue, "source_of", lambda run: str(base.path) if run == chat else "")
    for run in (base, chat):
        queue.enter(run, "cpu", KeeperRecord.of(os.getpid()))
    refused = hone("queue", "--move", chat.name, "now", status=1)
    assert refused.out == ""
    assert f"needs the model of “{run_title(base)}”" in refused.err


@POSIX
def test_runs_wait_are_moved_and_removed(begin, hone):
    assert "No run trains or waits" in hone("queue").out
    training = begin(queued=True).run
    first, second = (begin("finish", queued=True, until=State.QUEUED).run for _ in range(2))
    rows = [line.split()[:3] for line in hone("queue", "--move", second.name, "1").out.splitlines()[1:]]
    assert rows[0][:2] == [training.name, "training"]
    assert rows[1:] == [["1", second.name, "queued"], ["2", first.name, "queued"]]
    answer = hone("queue", "--json").json
    assert [run["folder"] for run in answer["waiting"]] == [str(second.path), str(first.path)]
    assert [run["state"] for run in answer["training"]] == ["training"]
    hone("stop", second.name)
    hone("queue", "--move", training.name, "last", status=2)
    refused = hone("queue", "--move", second.name, "0", status=2)
    assert "first, up, down, last, or a number from 1 on, not '0'" in refused.err
    assert "nothing to save yet" in hone("pause", "--save-only", first.name, status=1).err
    hone("stop", first.name)
    assert queue.waiting() == []
    assert f"`hone resume {second.name}` starts again" in hone("show", second.name).out
    training.request(Action.STOP)
    hone("resume", second.name, "--queue")
