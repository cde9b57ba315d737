"""Only a run that this Hone started on another computer, from this very folder, is followed there or deleted there."""

import os
import shutil

import pytest

from core.cli.main import main
from core.hosts.computers import Computer, save
from core.hosts.mirror import removal_there
from core.options import run_file
from core.options.catalogue import with_changes
from core.runs import elsewhere
from core.runs import start as runs_start
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.start import CantResume
from core.runs.status import State
from core.runs.summary import status_at_end
from core.runs.words import ending_text
from tests.fakes.runs import link, record_keeper


@pytest.fixture
def started(monkeypatch):
    """The folders whose keepers were started; none really is."""

    def start(_command, _log, folder):
        folders.append(folder)
        raise OSError("not in this test")

    folders = []
    monkeypatch.setattr(runs_start, "start_detached", start)
    return folders


def copied(run):
    return RunFolder(shutil.copytree(run.path, run.path.with_name("copy")))


def renamed(run):
    return RunFolder(run.path.rename(run.path.with_name("renamed")))


def moved_to_another_disk(run):
    copy = copied(run)
    shutil.rmtree(run.path)
    return copy


def put_back(run):
    copy = copied(run)
    shutil.rmtree(run.path)
    return RunFolder(copy.path.rename(run.path))


def damaged(run):
    for record in (run.path.parents[1] / "home" / "elsewhere").iterdir():
        record.write_bytes(b"{")
    return run


FOLDERS = pytest.mark.parametrize(
    ("change", "is_own"),
    [
        (lambda run: run, True),
        (renamed, True),
        (put_back, True),
        (copied, False),
        (moved_to_another_disk, False),
        (damaged, False),
    ],
)


@FOLDERS
def test_whose_run_it_is(change, is_own, run, started):
    record_keeper(run, started=0.0)
    link(run)
    run = change(run)
    assert run.is_own(run.connection()) is is_own
    assert run.is_alive() is is_own
    if is_own:
        with pytest.raises(runs_start.RunFolderError, match="can't be followed"):
            runs_start.follow_again(run)
    else:
        assert not runs_start.follow_again(run)
        assert not runs_start.follow_again(run, at_once=True)
    assert started == [run.path] * is_own


def test_a_folder_with_the_number_of_one_that_is_still_there_is_another_one(run, monkeypatch):
    link(run)
    copy = copied(run)
    monkeypatch.setattr(elsewhere, "_inode", lambda _path: run.path.stat().st_ino)  # it is on another disk
    assert run.is_own(run.connection())
    assert not copy.is_own(run.connection())


@pytest.mark.skipif(os.name != "posix", reason="links need a right of their own on Windows")
def test_to_delete_a_link_to_a_run_deletes_nothing_there(run):
    link(run)
    other = RunFolder(run.path.with_name("link"))
    other.path.symlink_to(run.path)
    assert "not the one that the run was started from" in removal_there(other)()


@FOLDERS
def test_what_is_deleted_there(change, is_own, run, started):
    link(run)
    run = change(run)
    stays = removal_there(run)
    shutil.rmtree(run.path)
    # no computer is called so: its own folder would be deleted there
    reason = "There is no computer called workshop" if is_own else "not the one that the run was started from"
    assert reason in stays()


@pytest.mark.parametrize("device", ["cpu", "cpu@workshop"])
@pytest.mark.parametrize(
    "claims",
    [
        {"folder": "", "attempt": 0, "connected": False, "heard": 0.0},
        {"folder": "digits-1234", "attempt": 0},
        {"folder": "digits-1234", "attempt": 7, "connected": False},
        {"folder": "../../x", "attempt": 1_000_000},
    ],
)
def test_to_look_at_a_strangers_folder_starts_nothing(device, claims, run, started, capfd):
    save(Computer(name="workshop", address="workshop"))
    run_file.write(with_changes(run.options(), {"device.name": device}), run.options_file)
    link(run, is_own=False, **claims)
    run.events_file.write_bytes(b"")
    for keeper in ({"started": 0.0}, {"started": 1.0, "host": "elsewhere", "booted": 1.0, "pid": 999_999}):
        record_keeper(run, **keeper)
        assert not runs_start.follow_again(run)
        assert not runs_start.follow_again(run, at_once=True)
    record_keeper(run, started=0.0)
    for command in (["runs"], ["follow", str(run.path)], ["show", str(run.path)], ["queue"]):
        main(command)
    assert "doesn't follow it there" in capfd.readouterr().err
    assert started == []


def test_a_run_that_hadnt_begun_there_isnt_begun_by_looking(run, started):
    run_file.write(with_changes(run.options(), {"device.name": "cpu@workshop"}), run.options_file)
    record_keeper(run, started=0.0, attempt=2)
    link(run, attempt=1, connected=False)  # the first attempt was paused there
    assert not runs_start.follow_again(run)
    assert started == []
    status = status_at_end(run)
    assert "had not begun on workshop" in ending_text(run, status, State.CRASHED, None)


def test_a_copy_isnt_resumed_beside_the_run_it_is_of(run, started):
    run_file.write(with_changes(run.options(), {"device.name": "cpu@workshop"}), run.options_file)
    record_keeper(run, started=0.0)
    link(run, over=True)
    copy = copied(run)
    with pytest.raises(CantResume, match="can't be resumed") as refused:
        runs_start.resume(copy)
    assert f"belongs to {run.path}" in refused.value.detail
    run = renamed(run)
    with pytest.raises(CantResume, match="can't be resumed") as refused:
        runs_start.resume(copy)
    assert f"belongs to {run.path}" in refused.value.detail
    assert started == []
    shutil.rmtree(run.path)  # it was moved to another disk
    with pytest.raises(runs_start.RunFolderError, match="can't be started"):
        runs_start.resume(copy)
    assert started == [copy.path]
    assert copy.is_own(copy.connection())


@pytest.mark.parametrize(
    ("claims", "attempt"),
    [
        ({"attempt": 1}, 1),
        ({"attempt": 1, "over": True, "connected": True}, 2),
        ({"attempt": 0, "folder": ""}, 2),
    ],
)
def test_resume_goes_on_with_a_run_that_an_earlier_version_began_there(claims, attempt, run, started):
    """It asks there for the attempt that may still be under way."""
    run_file.write(with_changes(run.options(), {"device.name": "cpu@workshop"}), run.options_file)
    record_keeper(run, started=0.0)
    link(run, is_own=False, **claims)
    assert run.state(read_status(run)) is State.CRASHED
    attempts = []
    before = runs_start.RunFolder.record_keeper
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "record_keeper", lambda *given: (attempts.append(given[2]), before(*given)))
        with pytest.raises(runs_start.RunFolderError):
            runs_start.resume(run)
    assert attempts == [attempt]
    assert run.is_own(run.connection())
    assert run.connection().folder


def test_a_run_that_is_resumed_on_another_computer_begins_there_anew(run, started):
    run_file.write(with_changes(run.options(), {"device.name": "cpu@workshop+attic"}), run.options_file)
    record_keeper(run, started=0.0)
    link(run, computer="rented", folder="digits-1234", over=True)
    with pytest.raises(runs_start.RunFolderError):
        runs_start.resume(run)
    now = run.connection()
    assert (now.computer, now.others, now.attempt) == ("workshop", ("attic",), 0)
    assert now.folder != "digits-1234"
    assert elsewhere.owner("workshop", now.folder) == run.path
