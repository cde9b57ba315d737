"""Runs paused, saved, gone on with and queued from the command line, with a fake engine."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.base import settings
from core.cli.main import main
from core.runs import queue
from core.runs import start as runs_start
from core.runs.event_log import RunFollower
from core.runs.folder import Action, RunFolder
from core.runs.library import run_title
from core.runs.status import State
from tests.fakes import runs
from tests.fakes.runs import follow_until, new_run, save_checkpoint

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def begin() -> "Iterator[Callable[..., RunFollower]]":
    """Starts runs with real keepers and fake engines, which are ended at the end of a test."""
    begun: list[tuple[RunFolder, subprocess.Popen[bytes]]] = []

    def start(scenario: str = "wait", *, queued: bool = False, until: State = State.TRAINING) -> RunFollower:
        run = new_run(settings.runs_folder())
        keeper = runs.start(run, scenario, queued=queued)
        begun.append((run, keeper))
        follow_until(follower := RunFollower(run), keeper, lambda: follower.state is until)
        return follower

    yield start
    for run, keeper in begun:
        with suppress(OSError):
            run.ask(Action.KILL)
        keeper.wait(10)


def hone(*arguments: str, scenario: str = "finish") -> int:
    return main(arguments, keeper=lambda run, **how: runs.keeper_command(run, scenario, **how))


def test_a_run_is_saved_paused_and_gone_on_with(
    begin: "Callable[..., RunFollower]", capsys: pytest.CaptureFixture[str]
) -> None:
    name = begin().run.name
    assert hone("pause", "--save-only", name) == 0
    assert "Saved step " in capsys.readouterr().err
    assert hone("resume", name) == 2
    assert "is under way already" in capsys.readouterr().err
    assert hone("pause", name) == 0
    said = capsys.readouterr().err
    assert "Paused after " in said
    assert f"`hone resume {name}` begins anew: it has no complete checkpoint." in said
    assert hone("pause", name) == 0
    assert "paused already" in capsys.readouterr().err
    assert hone("pause", "--save-only", name) == 2
    assert "nothing is under way, it is paused" in capsys.readouterr().err
    assert hone("runs", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "paused"
    assert hone("resume", name, "--json") == 0
    told = capsys.readouterr()
    assert {json.loads(line)["attempt"] for line in told.out.splitlines()} == {2}
    assert "Finished after " in told.err
    assert hone("resume", name) == 2
    assert "has finished" in capsys.readouterr().err
    assert hone("resume", name, "--epochs", "100") == 2
    assert "No checkpoint of it is there" in capsys.readouterr().err
    save_checkpoint(RunFolder(settings.runs_folder() / name), 3)
    assert hone("resume", name, "--max-steps", "1") == 2
    assert "name more" in capsys.readouterr().err
    assert hone("resume", name, "--epochs", "100", "--queue") == 0
    assert RunFolder(settings.runs_folder() / name).options().training.epochs == 100


def test_runs_wait_are_moved_and_taken_out(
    begin: "Callable[..., RunFollower]", capsys: pytest.CaptureFixture[str]
) -> None:
    assert hone("queue") == 0
    assert "No run trains or waits" in capsys.readouterr().out
    trains = begin(queued=True)
    first, second = (begin("finish", queued=True, until=State.QUEUED) for _ in range(2))
    assert hone("queue", "--move", second.run.name, "1") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1][:2] == [trains.run.name, "training"]
    assert [row[:3] for row in rows[2:]] == [
        ["1", second.run.name, "queued"],
        ["2", first.run.name, "queued"],
    ]
    assert hone("queue", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["folder"] for run in told["waiting"]] == [str(second.run.path), str(first.run.path)]
    assert [run["state"] for run in told["training"]] == ["training"]
    assert hone("stop", second.run.name) == 0
    assert "taken out of the queue, as asked" in capsys.readouterr().err
    assert hone("queue", "--move", trains.run.name, "last") == 2
    assert hone("queue", "--move", second.run.name, "0") == 2
    assert "first, up, down, last, or a number from 1 on; got '0'" in capsys.readouterr().err
    assert hone("pause", "--save-only", first.run.name) == 1
    assert "nothing to save yet" in capsys.readouterr().err
    assert hone("stop", first.run.name) == 0
    assert queue.waiting() == []
    assert [run["state"] for run in told["waiting"]] == ["queued", "queued"]
    assert hone("show", second.run.name) == 0
    assert f"`hone resume {second.run.name}` begins anew" in capsys.readouterr().out
    trains.run.ask(Action.STOP)
    assert hone("resume", second.run.name, "--queue") == 0


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_run_that_there_is_not_is_a_wrong_request(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hone(command, "nobody") == 2
    assert "there is no run nobody" in capsys.readouterr().err


def test_a_new_run_waits_where_it_is_told_to(
    begin: "Callable[..., RunFollower]", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trains = begin(queued=True)
    file = tmp_path / "run.hone"
    file.write_bytes(trains.run.options_file.read_bytes())
    asked: list[bool] = []

    def start(run: RunFolder, *, queued: bool = False) -> "subprocess.Popen[bytes]":
        asked.append(queued)
        keeper = runs.start(run, "finish", queued=queued)
        follow_until(follower := RunFollower(run), keeper, lambda: follower.state is State.QUEUED)
        trains.run.ask(Action.STOP)
        return keeper

    assert main(["train", str(file), "--queue"], start=start) == 0
    assert asked == [True]
    said = capsys.readouterr().err
    assert f"Waiting for its turn, 1 run ahead; it comes after {run_title(trains.run)}" in said
    assert said.index("Its turn has come") < said.index("Finished after 3 steps")


def test_both_the_keeper_and_the_engine_of_the_program_are_known(tmp_path: Path) -> None:
    assert runs_start.keeper_command(tmp_path, queued=True)[-2:] == [str(tmp_path), "--queue"]
