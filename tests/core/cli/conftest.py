"""The command line with a home of its own, fake engines, and an engine that answers from a table."""

import contextlib
import json
import subprocess
from typing import Any, NamedTuple

import pytest

from core.base import settings
from core.cli import memory
from core.cli.main import main
from core.runs.event_log import RunFollower
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.status import State
from tests.fakes import runs
from tests.fakes.memory import Engine
from tests.fakes.runs import follow_until, new_run


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run(home):
    return new_run(home / "runs")


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def hone(monkeypatch, capfd):
    """Runs a command, which has to end with `status`; `scenario` is what the engine of a started run does."""

    def command(*arguments: object, status: int = 0, scenario: str = "finish") -> Printed:
        runs.play(scenario, monkeypatch)
        capfd.readouterr()
        try:
            ended = main(list(map(str, arguments)))
        except SystemExit as error:  # a wrong argument
            ended = error.code
        printed = Printed(*capfd.readouterr())
        assert ended == status, printed
        return printed

    return command


@pytest.fixture
def begin():
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
        with contextlib.suppress(OSError):
            run.request(Action.KILL)
        keeper.wait(10)


@pytest.fixture
def engine(monkeypatch):
    answering = Engine()
    monkeypatch.setattr(memory, "run_job", answering.run_job)
    monkeypatch.setattr(memory, "room_of", lambda *_, **__: answering.room)
    return answering
