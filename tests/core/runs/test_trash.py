import io
import os
import sys
from pathlib import Path

import msgspec
import pytest

from core.base.errors import RunFolderError
from core.base.files import locked
from core.cli import main
from core.options.sections import ModelOptions
from core.runs import start, trash
from core.runs.events import Outcome, RunFinished, RunStarted
from core.runs.folder import RunFolder
from core.runs.library import create
from tests.fakes.runs import digits_options, keep_alive, new_run, write_events


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    return tmp_path / "runs"


def over(folder: Path) -> RunFolder:
    run = new_run(folder)
    write_events(run.events_file, RunStarted(time=100), RunFinished(state=Outcome.FINISHED, time=160))
    run.model.mkdir()
    (run.model / "model.safetensors").write_bytes(bytes(5000))
    return run


def refuse(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_plan_names_sizes_what_trains_and_what_others_need(runs):
    going, live = over(runs), new_run(runs)
    keep_alive(live)
    source = ModelOptions(source=f"run:{going.name}")
    create(msgspec.structs.replace(digits_options("The next one"), model=source), runs)
    planned = trash.plan([going, live], runs)
    assert [one.run for one in planned.going] == [going]
    assert planned.busy == ("Digits",)
    assert planned.needed[0].needed_by == ("The next one",)
    files = [path for path in going.path.rglob("*") if path.is_file()]
    assert planned.size == sum(path.stat().st_size for path in files) > 5000


def test_a_run_that_needs_another_may_go_with_it(runs):
    first = over(runs)
    source = ModelOptions(source=f"run:{first.path}")
    second = create(msgspec.structs.replace(digits_options(), model=source), runs)
    write_events(second.events_file, RunFinished(state=Outcome.FINISHED, time=160))
    assert trash.plan([first, second], runs).needed == ()


def test_a_model_folder_of_a_run_counts_as_the_run(runs):
    first = over(runs)
    create(
        msgspec.structs.replace(digits_options("By path"), model=ModelOptions(source=str(first.model))), runs
    )
    assert trash.plan([first], runs).needed[0].needed_by == ("By path",)


def test_a_live_run_is_refused_even_if_it_was_asked_about_before(runs):
    run = new_run(runs)
    keep_alive(run)
    moved: list[Path] = []
    for take_away in (lambda: trash.move(run, moved.append), lambda: trash.delete(run)):
        with pytest.raises(RunFolderError, match="isn't over"):
            take_away()
    assert run.path.is_dir()
    assert moved == []


@pytest.mark.skipif(os.name == "nt", reason="Windows moves no folder with an open file in it")
def test_nobody_starts_a_run_while_it_is_taken_away(runs):
    run = over(runs)
    told: list[str] = []

    def move(path: Path) -> None:
        with pytest.raises(TimeoutError), locked(path, 0.0):
            told.append("somebody could have started it")
        path.rename(path.with_name("gone"))

    trash.move(run, move)
    assert told == []
    with pytest.raises(RunFolderError):
        start.resume(run, [sys.executable, "-c", "pass"])
    assert not run.path.exists()


def test_where_there_is_no_bin_the_run_stays(runs):
    run = over(runs)
    with pytest.raises(trash.NoTrashError) as caught:
        trash.move(run, refuse)
    assert "Permission denied" in caught.value.detail
    assert run.options_file.is_file()


def test_deleting_takes_all_of_it_and_follows_no_link(runs, tmp_path):
    run = over(runs)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "data.csv").write_text("a")
    (run.path / "link").symlink_to(kept)
    trash.delete(run)
    assert not run.path.exists()
    assert (kept / "data.csv").is_file()
    with pytest.raises(RunFolderError, match="no longer exists"):
        trash.delete(run)


def test_the_command_asks_for_a_yes_and_moves_to_trash_of_the_system(runs, tmp_path, monkeypatch, capsys):
    run, moved = over(runs), []
    monkeypatch.setattr(trash, "_send_to_trash", moved.append)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main.main(["runs", "--delete", run.name]) == 2
    assert moved == []
    assert main.main(["runs", "--delete", run.name, "--yes"]) == 0
    assert moved == [run.path]
    assert "1 run, " in capsys.readouterr().out
    monkeypatch.setattr(trash, "_send_to_trash", refuse)
    assert main.main(["runs", "--delete", run.name, "--yes"]) == 1
    assert "--permanently" in capsys.readouterr().err
    assert run.path.is_dir()
    assert main.main(["runs", "--delete", run.name, "--yes", "--permanently"]) == 0
    assert not run.path.exists()


@pytest.mark.skipif(
    os.name != "posix" or os.uname().sysname == "Darwin", reason="a bin in a folder of our own"
)
def test_what_lies_in_the_real_bin_can_be_put_back(runs, tmp_path, monkeypatch):
    from send2trash import plat_other

    run = over(runs)
    bin_folder = tmp_path / "Trash"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(plat_other, "HOMETRASH_B", os.fsencode(bin_folder))
    monkeypatch.setattr(plat_other, "XDG_DATA_HOME", os.fsencode(tmp_path))
    trash.move(run, lambda path: plat_other.send2trash(str(path)))
    assert not run.path.exists()
    assert RunFolder(bin_folder / "files" / run.name).options() == digits_options()
