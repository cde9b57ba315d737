"""A run on another computer: an sshd on this one, and the real keeper there, with the real engine or a fake one."""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from core.base.errors import ComputerError, DataError, UserError
from core.base.jobs import JobCancelled
from core.hosts import computers, far
from core.hosts.far import hash_of
from core.hosts.link import Link
from core.hosts.mirror import removal_there
from core.hosts.sending import agree
from core.options import past_runs
from core.options.catalogue import with_changes
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import Action, StepFinished
from core.runs.folder import RunFolder
from core.runs.library import create
from core.runs.status import State
from core.services.memory import DryRun
from tests.fakes.network import ROOT, Sshd, ssh_config, without_sshd
from tests.fakes.runs import digits_options

pytestmark = pytest.mark.skipif(bool(without_sshd()), reason=without_sshd() or "-")

STREAMS = ("events.jsonl", "machine.jsonl", "log.txt")


@pytest.fixture
def workshop(tmp_path, own_home):
    """Another computer, known and with this Hone."""
    server = Sshd(tmp_path / "there").prepare()
    ssh_config(tmp_path, server)
    with server:
        computers.save(server.computer)
        yield server


def run_on(server: Sshd, home: Path, **changes) -> RunFolder:
    options = with_changes(digits_options(), {"device.name": f"cpu@{server.name}", **changes})
    agree([options])
    return create(options, home / "runs")


def end(run: RunFolder, state: State) -> RunFollower:
    """Wait for a run's end, and for that of its keeper."""
    follower = until(run, lambda follower: follower.is_over)
    assert follower.state is state
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(run.keeper_record().pid).wait(10)
    return follower


def until(run: RunFolder, condition, seconds: float = 300.0) -> RunFollower:
    follower = RunFollower(run)
    deadline = time.monotonic() + seconds
    while True:
        follower.poll()
        if condition(follower):
            return follower
        assert time.monotonic() < deadline, (run.connection(), follower.state, follower.status.step)
        time.sleep(0.05)


def there(server: Sshd, run: RunFolder) -> RunFolder:
    return RunFolder(server.far / "home" / "runs" / run.connection().folder)


def is_equal(server: Sshd, run: RunFolder) -> bool:
    far = there(server, run)
    return all((run.path / name).read_bytes() == (far.path / name).read_bytes() for name in STREAMS)


def play(server: Sshd, scenario: str) -> None:
    """Let the runs there play a scenario of the fake engine."""
    if (server.far / "env").is_symlink():
        (server.far / "env").unlink()
    python = server.far / "env" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    fake = ROOT / "tests" / "fakes" / "far.py"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{fake}" {scenario} "$@"\n')
    python.chmod(0o755)


def connections(run: RunFolder) -> list[psutil.Process]:
    """The ssh processes of a run's keeper here."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(run.keeper_record().pid).children()
    return []


TINY = {
    "training.max_steps": 6,
    "memory.batch_size": 8,
    "data.max_train_samples": 64,
    "data.max_eval_samples": 16,
}


def test_a_run_elsewhere_is_that_of_this_computer(workshop, tmp_path, own_home):
    local = create(with_changes(digits_options(), {**TINY, "device.name": "cpu"}), own_home / "runs")
    keepers = [runs_start.start(local)]
    run = run_on(workshop, own_home, **TINY)
    keepers.append(runs_start.start(run))
    for one in (local, run):
        assert until(one, lambda follower: follower.is_over).state is State.FINISHED
    losses = [
        [event.loss for event in EventReader(one.events_file).read_all() if isinstance(event, StepFinished)]
        for one in (local, run)
    ]
    assert losses[0] == losses[1]
    assert is_equal(workshop, run)
    for keeper in keepers:
        assert keeper.wait(10) == 0
    for name in ("model.safetensors", "config.json"):
        model = [
            (one.model / name).read_bytes()
            for one in (run, there(workshop, run))
            if (one.model / name).is_file()
        ]
        assert len(model) in (0, 2)
        assert len(set(model)) < 2
    assert list(run.model.iterdir())
    assert run.exit_record() == there(workshop, run).exit_record()
    assert run.connection().over


def test_connections_that_break_lose_nothing_and_double_nothing(workshop, own_home):
    play(workshop, "wait")
    run = run_on(workshop, own_home)
    keeper = runs_start.start(run)
    chance = random.Random(7)
    follower = until(run, lambda follower: follower.status.step > 3)
    for _ in range(6):  # tests/performance/hosts.py does it more often
        time.sleep(chance.uniform(0.0, 0.3))
        for process in connections(run):
            process.kill()
        before = follower.status.step
        until_later = time.monotonic() + 20
        while follower.status.step <= before and time.monotonic() < until_later:
            follower.poll()
            time.sleep(0.02)
        assert follower.state is State.TRAINING
    model = there(workshop, run).model
    model.mkdir()
    (model / "model.safetensors").write_bytes(os.urandom(3 << 20))
    run.request(Action.STOP)
    follower = until(run, lambda follower: follower.is_over)
    assert follower.state is State.STOPPED
    assert keeper.wait(10) == 0
    steps = [one.step for one in EventReader(run.events_file).read_all() if isinstance(one, StepFinished)]
    assert steps == list(range(1, len(steps) + 1))
    assert is_equal(workshop, run)
    assert (run.model / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert not list(run.requests.glob("*.json"))


def test_a_keeper_that_was_killed_is_replaced_and_goes_on(workshop, own_home):
    play(workshop, "wait")
    run = run_on(workshop, own_home)
    runs_start.start(run)
    until(run, lambda follower: follower.status.step > 3)
    for _ in range(3):
        assert not runs_start.follow_again(run), "its keeper lives"
        keeper = psutil.Process(run.keeper_record().pid)
        keeper.kill()
        keeper.wait()
        assert until(run, lambda _follower: True).state is State.TRAINING
        assert runs_start.follow_again(run)
        step = RunFollower(run)
        step.poll()
        until(run, lambda follower, known=step.status.step: follower.status.step > known + 3)
    os.kill(run.keeper_record().pid, signal.SIGTERM)  # this computer is shut down, which ends nothing there
    time.sleep(1)
    with run.events_file.open("ab") as file:
        file.write(b'{"type":"step_fin')  # as of a power cut
    assert runs_start.follow_again(run)
    run.request(Action.PAUSE)
    assert until(run, lambda follower: follower.is_over).state is State.PAUSED
    assert is_equal(workshop, run)
    assert there(workshop, run).exit_record() == run.exit_record()


def test_paused_there_it_is_resumed_there_and_saved(workshop, own_home):
    play(workshop, "wait")
    run = run_on(workshop, own_home)
    runs_start.start(run)
    until(run, lambda follower: follower.status.step > 3)
    run.request(Action.PAUSE)
    paused = end(run, State.PAUSED).status.step
    runs_start.resume(run)
    follower = until(run, lambda follower: follower.status.step > paused + 3)
    assert follower.attempt == 2
    assert follower.status.attempt == 2
    run.request(Action.SAVE)
    until(run, lambda follower: follower.status.last_checkpoint is not None)
    run.request(Action.KILL)
    end(run, State.STOPPED)
    assert is_equal(workshop, run)
    shutil.rmtree(there(workshop, run).path)
    runs_start.resume(run)
    until(run, lambda follower: follower.is_over)
    assert "folder there is gone" in run.exit_record().reason


def test_two_runs_for_one_device_wait_in_the_queue_there(workshop, own_home):
    play(workshop, "wait")
    runs = [run_on(workshop, own_home) for _ in range(2)]
    for run in runs:
        runs_start.start(run)
        until(run, lambda follower: follower.status.step > 3 or follower.state is State.QUEUED)
    assert until(runs[1], lambda _follower: True).state is State.QUEUED
    runs[0].request(Action.STOP)
    until(runs[1], lambda follower: follower.status.step > 3)
    runs[1].request(Action.STOP)
    end(runs[1], State.STOPPED)
    end(runs[0], State.STOPPED)
    copy = RunFolder(runs[0].path.with_name("copy"))
    shutil.copytree(runs[0].path, copy.path)
    folder = there(workshop, runs[0]).path
    assert "not the one that the run was started from" in removal_there(copy)()
    assert folder.exists()
    assert removal_there(runs[0])() == ""
    assert not folder.exists()
    workshop.stop()
    assert runs[1].connection().folder in removal_there(runs[1])()


def test_out_of_reach_it_can_be_ended_here_and_followed_again_later(workshop, own_home):
    play(workshop, "wait")
    run = run_on(workshop, own_home)
    runs_start.start(run)
    until(run, lambda follower: follower.status.step > 3)
    workshop.stop()
    until(run, lambda _follower: run.connection().problem)
    assert not run.connection().connected
    assert until(run, lambda _follower: True).state is State.TRAINING, (
        "a run elsewhere never ends because of that"
    )
    run.request(Action.KILL)
    end(run, State.CRASHED)
    assert "out of reach" in run.exit_record().reason
    workshop.start()
    runs_start.resume(run)
    follower = until(run, lambda follower: follower.state is State.TRAINING and follower.status.step > 10)
    assert follower.attempt == 1, "it has gone on there, in its first attempt"
    run.request(Action.STOP)
    end(run, State.STOPPED)
    assert is_equal(workshop, run)


def test_stopped_before_it_has_begun_there_it_is_stopped(workshop, own_home):
    workshop.stop()
    options = with_changes(digits_options(), {"device.name": "cpu@workshop"})
    run = create(options, own_home / "runs", own_home / "runs" / '-it\'s "mine" ü')
    runs_start.start(run)
    until(run, lambda _follower: run.connection().problem)
    request = run.request(Action.STOP)
    follower = end(run, State.STOPPED)
    assert "before it began on workshop" in run.exit_record().reason
    assert follower.status.accepted == {request.action: 1}
    workshop.start()
    play(workshop, "wait")
    runs_start.resume(run)
    until(run, lambda follower: follower.status.step > 3)
    assert there(workshop, run).name.startswith("it-s-mine-")
    run.request(Action.STOP)
    end(run, State.STOPPED)
    assert is_equal(workshop, run)


@pytest.mark.parametrize("trouble", ["data", "version", "stranger"])
def test_what_cant_begin_there_ends_with_the_remedy(trouble, workshop, own_home, tmp_path):
    play(workshop, "wait")
    data = tmp_path / "data.csv"
    data.write_text("a,b\n")
    run = run_on(workshop, own_home, **{"data.train": str(data)})
    if trouble == "data":
        data.unlink()
    elif trouble == "version":
        (workshop.far / "source").unlink()
        (workshop.far / "source").mkdir()
        shutil.copytree(
            ROOT / "core", workshop.far / "source" / "core", ignore=shutil.ignore_patterns("__pycache__")
        )
        (workshop.far / "source" / "resources").mkdir()
        python = workshop.far / "env" / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    else:
        (tmp_path / "known_hosts").write_text("")
    runs_start.start(run)
    assert until(run, lambda follower: follower.is_over).state is State.CRASHED
    expected = {
        "data": "data.csv can't be sent",
        "version": "hone hosts install workshop",
        "stranger": "host key",
    }
    assert expected[trouble] in run.exit_record().reason


def test_sources_are_sent_once_with_any_name_and_go_on_where_they_were(workshop, own_home, tmp_path):
    folder = tmp_path / 'it\'s "my" data\n;$HOME ü'
    (folder / "cats").mkdir(parents=True)
    for number in range(300):
        (folder / "cats" / f"{number}.txt").write_text(str(number))
    (folder / "big.bin").write_bytes(os.urandom(2 << 20))
    (folder / "again.bin").symlink_to(folder / "big.bin")
    digest = hash_of(folder / "big.bin")
    part = workshop.far / "home" / "store" / "partial" / digest
    part.parent.mkdir(parents=True)
    part.write_bytes((folder / "big.bin").read_bytes()[: 1 << 20])
    told = []
    options = with_changes(
        digits_options(),
        {"device.name": "cpu@workshop", "data.train": str(folder), "model.source": "hub-id/model"},
    )
    with Link(workshop.computer) as link, pytest.raises(UserError, match="haven't agreed"):
        link.send_sources(options, lambda *words: told.append(words))
    assert told == []
    agree([options])
    with Link(workshop.computer) as link:
        sent = link.send_sources(options, lambda *words: told.append(words))
        total = next(total for what, _done, total in told if what.startswith("Sending"))
        assert next(done for what, done, _total in told if what.startswith("Sending")) >= 1 << 20
        assert total < 3 << 20, "equal files are sent once"
        assert (sent.device.name, sent.model.source) == ("cpu", "hub-id/model")
        copy = Path(sent.data.train)
        assert copy.name == folder.name
        assert {path.name for path in (copy / "cats").iterdir()} == {f"{number}.txt" for number in range(300)}
        assert all(hash_of(copy / name) == digest for name in ("big.bin", "again.bin"))
        told.clear()
        assert link.send_sources(options, lambda *words: told.append(words)) == sent
        assert not any(what.startswith("Sending") for what, _done, _total in told)
    (folder / "elsewhere").symlink_to(tmp_path)
    with Link(workshop.computer) as link, pytest.raises(DataError, match="can't be sent"):
        link.send_sources(options, lambda *_words: None)


def test_an_adapter_of_a_run_is_sent_with_its_base_model_and_one_that_comes_back_names_that_of_here(
    workshop, own_home, tmp_path
):
    play(workshop, "wait")
    base = tmp_path / "base model"
    base.mkdir()
    (base / "config.json").write_text('{"model_type": "bert"}')
    (base / "model.safetensors").write_bytes(b"")
    past = run_on(workshop, own_home)
    past.model.mkdir()
    (past.model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    options = with_changes(
        digits_options(), {"model.source": f"run:{past.path}", "device.name": "cpu@workshop"}
    )
    agree([options])
    with Link(workshop.computer) as link:
        sent = link.send_sources(options, lambda *_words: None)
        copy = past_runs.run_folder(sent.model.source)
        assert (copy.name, (copy / "model" / "base" / "model.safetensors").read_bytes()) == (past.name, b"")
        assert RunFolder(copy).options() == past.options()
        home = link.greeting.home
    options = with_changes(options, {"model.source": str(base)})
    agree([options])
    run = create(options, own_home / "runs")
    runs_start.start(run)
    until(run, lambda follower: follower.status.step > 3)
    model = there(workshop, run).model
    model.mkdir()
    (model / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": f"{home}/store/trees/x"})
    )
    (model / "adapter_model.safetensors").write_bytes(b"")
    run.request(Action.STOP)
    end(run, State.STOPPED)
    assert json.loads((run.model / "adapter_config.json").read_text()) == {
        "base_model_name_or_path": str(base)
    }


def test_a_session_stays_in_its_folder_and_ends_with_its_input(workshop):
    (workshop.far / "secret").write_text("x")
    (workshop.far / "home" / "runs" / "one").mkdir(parents=True)
    (workshop.far / "home" / "runs" / "one" / "link").symlink_to(workshop.far / "secret")
    with Link(workshop.computer) as link:
        for path in ("../../secret", "/etc/passwd", "link", "", "."):
            with pytest.raises(UserError):
                link.ask(far.Get(run="one", path=path))
        with pytest.raises(UserError):
            link.ask(far.MakeTree(files={"../out": "0" * 64}), str)
        far_end = psutil.Process(link.ask(far.Hello(), far.Greeting).pid)
    far_end.wait(10)
    with pytest.raises(ComputerError), Link(workshop.computer) as link:
        link.ask(far.Get(run="../..", path="secret"))


def test_a_run_whose_folder_there_is_gone_ends_with_that(workshop, own_home):
    play(workshop, "wait")
    run = run_on(workshop, own_home)
    runs_start.start(run)
    until(run, lambda follower: follower.status.step > 1)
    psutil.Process(run.keeper_record().pid).kill()
    far_run = there(workshop, run)
    psutil.Process(far_run.keeper_record().pid).kill()
    shutil.rmtree(far_run.path)
    until(run, lambda _follower: not run.keeper_is_alive())
    assert runs_start.follow_again(run)
    until(run, lambda follower: follower.is_over, 20)
    assert run.exit_record().reason == "Its folder on workshop is gone."


def test_a_dry_run_elsewhere_measures_there_and_is_ended_there(workshop, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("text,label\n")
    options = with_changes(digits_options(), {"device.name": "cuda@workshop", "data.train": str(data)})
    agree([options])
    play(workshop, "answer")
    found = DryRun(options).run()
    assert (found.device, found.peak) == ("cuda", 100)
    play(workshop, "hang")
    run = DryRun(options)
    ended = []

    def measure() -> None:
        with pytest.raises(JobCancelled) as error:
            run.run()
        ended.append(error)

    thread = threading.Thread(target=measure)
    thread.start()
    deadline = time.monotonic() + 20
    while not (measuring := jobs_there()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run.kill()
    thread.join(10)
    assert ended
    assert not psutil.wait_procs(measuring, 10)[1], "nothing goes on there for nobody"


def jobs_there() -> list[psutil.Process]:
    """The processes of dry runs that hang."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-2:] == [str(ROOT / "tests" / "fakes" / "measuring_job.py"), "hang"]:
                found.append(process)
    return found
