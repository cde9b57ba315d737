"""Runs are moved to the trash or deleted: never one that trains, never through a link."""

import io
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.base.errors import RunFolderError
from core.base.files import locked
from core.cli import main
from core.options.sections import ModelOptions
from core.runs import start, trash
from core.runs.events import Outcome, RunFinished, RunStarted
from core.runs.library import create
from tests.fakes.runs import digits_options, keep_alive, new_run, write_events


@pytest.fixture
def runs(home):
    return home / "runs"


@pytest.fixture
def run(runs):
    """A run that has finished."""
    run = new_run(runs)
    write_events(run.events_file, RunStarted(time=100), RunFinished(state=Outcome.FINISHED, time=160))
    run.model.mkdir()
    (run.model / "model.safetensors").write_bytes(bytes(5000))
    return run


def refuse(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_the_plan_names_sizes_what_trains_and_which_runs_start_from_a_model(run, runs):
    live = new_run(runs)
    keep_alive(live)
    sources = {"By name": f"run:{run.name}", "By path": str(run.model)}
    others = [
        create(replace(digits_options(title), model=ModelOptions(source=source)), runs)
        for title, source in sources.items()
    ]
    planned = trash.plan([run, live], runs)
    assert [item.run for item in planned.going] == [run]
    assert planned.busy == ("Digits",)
    assert sorted(planned.needed[0].needed_by) == ["By name", "By path"]
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert planned.size == sum(path.stat().st_size for path in files) > 5000
    for other in others:
        write_events(other.events_file, RunFinished(state=Outcome.FINISHED, time=160))
    assert trash.plan([run, *others], runs).needed == (), "they go with it"


def test_a_run_that_was_started_meanwhile_is_refused(runs):
    run = new_run(runs)
    keep_alive(run)
    for take_away in (lambda: trash.move(run, lambda _: pytest.fail("moved")), lambda: trash.delete(run)):
        with pytest.raises(RunFolderError, match="isn't over"):
            take_away()
    assert run.path.is_dir()


@pytest.mark.skipif(os.name == "nt", reason="Windows moves no folder with an open file in it")
def test_a_run_can_not_be_started_while_it_is_moved(run):
    def move(path: Path) -> None:
        with pytest.raises(TimeoutError), locked(path, 0.0):
            pytest.fail("it could have been started")
        path.rename(path.with_name("gone"))

    trash.move(run, move)
    with pytest.raises(RunFolderError):
        start.resume(run, [sys.executable, "-c", "pass"])
    assert not run.path.exists()


def test_deleting_takes_all_of_it_and_follows_no_link(run, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "data.csv").write_text("a")
    (run.path / "link").symlink_to(kept)
    trash.delete(run)
    assert not run.path.exists()
    assert (kept / "data.csv").is_file()
    with pytest.raises(RunFolderError, match="no longer exists"):
        trash.delete(run)


def test_the_command_asks_for_a_yes_and_deletes_permanently_only_on_request(run, monkeypatch, capsys):
    moved = []
    command = ["runs", "--delete", run.name]
    monkeypatch.setattr("send2trash.send2trash", moved.append)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main.main(command) == 2
    assert moved == []
    assert main.main([*command, "--yes"]) == 0
    assert moved == [run.path]
    monkeypatch.setattr("send2trash.send2trash", refuse)
    assert main.main([*command, "--yes"]) == 1
    error = capsys.readouterr().err
    assert "Permission denied" in error
    assert "--permanently" in error
    assert run.options_file.is_file()
    assert main.main([*command, "--yes", "--permanently"]) == 0
    assert not run.path.exists()
