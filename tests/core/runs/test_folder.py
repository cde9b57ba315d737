import errno
import json
import os
import platform
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from core.base.errors import OptionsError, RunFolderError
from core.options import run_file
from core.options.data import DataOptions
from core.options.past_runs import asked_title
from core.runs import folder
from core.runs.events import MemorySampled, RunStarted, Source, encode
from core.runs.folder import Action, KeeperRecord, RunFolder
from core.runs.library import create, folder_name, list_runs, read_status
from core.runs.status import RunStatus, State
from tests.fakes.runs import digits_options, new_run, write_events


def test_a_new_run_holds_what_was_asked_under_a_name_with_its_date(tmp_path):
    run = create(digits_options(), tmp_path / "runs")
    assert run.path.parent == tmp_path / "runs"
    assert run.name.startswith(time.strftime("%Y-%m-%d"))
    assert run.name.endswith("-digits")
    assert run.options() == digits_options()


def test_two_runs_of_one_name_get_two_folders(tmp_path):
    first, second = new_run(tmp_path), new_run(tmp_path)
    assert second.name == f"{first.name}-2"


def test_an_empty_folder_of_that_name_belongs_to_a_run_that_is_just_being_made(tmp_path):
    taken = new_run(tmp_path)
    taken.options_file.unlink()
    assert new_run(tmp_path).path != taken.path


def test_a_run_folder_of_ones_own_must_be_empty_or_absent(tmp_path):
    assert create(digits_options(), tmp_path, tmp_path / "new" / "mine").path == tmp_path / "new" / "mine"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert create(digits_options(), tmp_path, empty).path == empty
    (tmp_path / "file").touch()
    for taken in (empty, tmp_path / "file"):
        with pytest.raises(OptionsError, match="1 problem") as caught:
            create(digits_options(), tmp_path, taken)
        assert "not empty" in str(caught.value)


def test_options_are_read_without_a_look_at_data_and_model(tmp_path, monkeypatch):
    run = new_run(tmp_path)
    gone = msgspec.structs.replace(digits_options(), data=DataOptions(train=str(tmp_path / ("x" * 5000))))
    run_file.write(gone, run.options_file)
    monkeypatch.setattr("core.options.validate.why_missing", lambda *_: pytest.fail("the disk was asked"))
    assert run.options() == gone


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError) as caught:
        create(digits_options(), tmp_path / "file" / "runs")
    assert str(tmp_path / "file") in caught.value.detail


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Größe / Test?", "grosse-test"),
        ("Étude n\u00ba 2, cafe\u0301", "etude-no-2-cafe"),
        ("数字", "run"),
        ("???", "run"),
        ("x" * 100, "x" * 48),
    ],
)
def test_folder_names_are_safe_everywhere(name, expected):
    assert folder_name(digits_options(name)).endswith(f"-{expected}")


def test_a_run_without_a_name_is_called_after_model_and_data():
    assert asked_title(digits_options(None)) == "resnet18 on digits"


def test_runs_are_listed_newest_first_damaged_ones_too(tmp_path):
    old, new, damaged = (new_run(tmp_path) for _ in range(3))
    damaged.options_file.unlink()
    damaged.events_file.write_text("?")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "file.txt").touch()
    for age, path in enumerate((new.options_file, old.options_file, damaged.events_file)):
        os.utime(path, (1000 - age, 1000 - age))
    assert list_runs(tmp_path) == [new, old, damaged]
    assert list_runs(tmp_path / "none") == []


def test_a_story_is_told_in_the_order_of_time(tmp_path):
    run = new_run(tmp_path)
    write_events(run.events_file, RunStarted(time=1.0))
    write_events(run.machine_file, MemorySampled(time=2.0, source=Source.PROCESS, bytes=7))
    status = read_status(run)
    assert (status.started, status.peak_bytes) == (1.0, 7)
    assert not status.is_of_newer_hone


def test_a_story_tells_what_could_not_be_read_and_that_a_newer_hone_wrote_it(tmp_path):
    run = new_run(tmp_path)
    run.events_file.write_bytes(encode(RunStarted(schema=2)) + b'{"type":"of_tomorrow"}\n')
    run.machine_file.write_bytes(b"damaged\n")
    status = read_status(run)
    assert status.is_of_newer_hone
    assert status.skipped == 2


class TestRequests:
    def test_are_files_until_they_are_closed(self, tmp_path):
        run = new_run(tmp_path)
        assert run.open_requests() == []
        stop, kill = run.request(Action.STOP), run.request(Action.KILL)
        assert {request.id for request in run.open_requests()} == {stop.id, kill.id}
        assert run.requested() == {Action.STOP, Action.KILL}
        run.close_request(stop)
        run.close_request(stop)
        assert run.open_requests() == [kill]
        assert run.requested() == {Action.KILL}

    def test_a_file_that_is_no_request_is_passed_over(self, tmp_path):
        run = new_run(tmp_path)
        request = run.request(Action.STOP)
        (run.requests / "other.json").write_text("{")
        assert run.open_requests() == [request]

    @pytest.mark.parametrize("own_id", ["../../mine", "{outside}", "zzz", "0" * 32, "A" * 32, ""])
    def test_one_that_a_stranger_wrote_names_no_other_file(self, own_id, tmp_path):
        run = new_run(tmp_path / "runs")
        asked = run.request(Action.SAVE)
        outside = tmp_path / "mine.json"
        outside.write_text("{}")
        strange = run.requests / "a.json"
        strange.write_text(json.dumps({"id": own_id.format(outside=tmp_path / "mine"), "action": "kill"}))
        assert run.open_requests() == [asked]
        assert strange.exists()
        assert run.open_requests(clean=True) == [asked]
        assert [path.name for path in run.requests.iterdir()] == [f"{asked.id}.json"]
        assert outside.exists()

    def test_what_can_not_be_read_is_removed_but_for_folders(self, tmp_path):
        run = new_run(tmp_path)
        asked = run.request(Action.SAVE)
        locked = run.requests / "locked.json"
        locked.write_text("{}")
        locked.chmod(0)
        (run.requests / "folder.json").mkdir()
        if os.name == "posix":
            os.mkfifo(run.requests / "pipe.json")
            for name, target in (("device", "/dev/zero"), ("nowhere", "nowhere"), ("circle", "circle.json")):
                (run.requests / f"{name}.json").symlink_to(target)
        assert run.open_requests() == [asked]
        assert run.open_requests(clean=True) == [asked]
        assert {path.name for path in run.requests.iterdir()} == {f"{asked.id}.json", "folder.json"}

    def test_one_that_can_not_be_read_for_a_moment_stays(self, tmp_path, monkeypatch):
        run = new_run(tmp_path)
        asked = run.request(Action.STOP)

        def fail(path: Path) -> bytes:
            raise OSError(errno.EIO, "Input/output error", str(path))

        with monkeypatch.context() as patched:
            patched.setattr("core.runs.folder.read_small", fail)
            assert run.open_requests(clean=True) == []
        assert run.open_requests() == [asked]


class TestSignsOfLife:
    def test_the_keeper_is_the_process_that_was_recorded(self, tmp_path):
        run = new_run(tmp_path)
        assert not run.keeper_is_alive()
        run.record_keeper(os.getpid())
        assert run.keeper_is_alive()

    def test_another_process_with_its_number_is_not_the_keeper(self, tmp_path):
        run = new_run(tmp_path)
        self.record(run, started=psutil.Process().create_time() - 100)
        assert not run.keeper_is_alive()
        assert run.state(RunStatus()) is State.CRASHED

    def test_a_keeper_on_another_computer_cannot_be_seen_here(self, tmp_path):
        run = new_run(tmp_path)
        self.record(run, started=psutil.Process().create_time(), host="elsewhere", booted=0.0)
        assert not run.keeper_is_alive()
        assert run.is_alive()  # its files tell that somebody has just written
        for path in (run.keeper_file, run.events_file):
            path.touch()
            os.utime(path, (0, time.time() - folder.SILENCE_SECONDS - 1))
        assert not run.is_alive()
        run.machine_file.touch()
        assert run.is_alive()

    def test_a_computer_that_got_another_name_meanwhile_is_the_same(self, tmp_path):
        run = new_run(tmp_path)
        self.record(run, started=psutil.Process().create_time(), host="renamed.local")
        assert run.keeper_is_alive()
        assert run.is_alive()

    def test_a_new_folder_is_starting_an_old_one_without_a_keeper_never_did(self, tmp_path):
        run = new_run(tmp_path)
        assert run.state(RunStatus()) is State.STARTING
        long_ago = time.time() - folder.STARTING_SECONDS - 1
        os.utime(run.options_file, (long_ago, long_ago))
        assert run.state(RunStatus()) is State.CRASHED

    def record(
        self,
        run: RunFolder,
        pid: int | None = None,
        started: float = 0,
        host: str | None = None,
        booted: float | None = None,
    ) -> None:
        record = KeeperRecord(
            pid=pid or os.getpid(),
            started=started,
            host=host or platform.node(),
            booted=psutil.boot_time() if booted is None else booted,
        )
        run.keeper_file.write_bytes(msgspec.json.encode(record))
