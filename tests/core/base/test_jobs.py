import sys
import threading
import time

import pytest

from core.base import jobs
from core.base.errors import RunFolderError, UserError
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, engine_command
from core.runs import start
from core.runs.start import keeper_command
from core.runs.status import RunStatus, State
from core.services.inspect import DataReport
from tests.fakes.runs import FAKES, new_run


def job(scenario: str) -> EngineJob:
    return EngineJob(scenario, [sys.executable, "-P", str(FAKES / "job.py"), scenario])


def test_an_answer_comes_back_clean_of_what_libraries_print():
    assert job("echo").ask(b'{"source":"\xc3\xa4"}') == b'{"source":"\xc3\xa4"}'


def test_what_is_told_on_the_way_is_no_part_of_the_answer():
    told: list[float] = []
    assert job("progress").ask(b"{}", tell=lambda progress: told.append(progress.share)) == b"{}"
    assert told == [0.5, 1.0]
    assert job("progress").ask(b"[]") == b"[]"


def test_what_a_person_can_mend_is_raised_as_it_was_in_the_engine():
    with pytest.raises(UserError) as caught:
        job("refuse").ask()
    error = caught.value
    assert (error.title, error.detail) == ("The file can't be read", "data.csv, row 3")
    assert [fix.label for fix in error.fixes] == ["Save it as UTF-8"]


def test_a_bug_is_raised_with_all_that_was_printed():
    with pytest.raises(EngineCrashed) as caught:
        job("bug").ask()
    assert caught.value.code == 1
    assert caught.value.report.rstrip().endswith("RuntimeError: a bug in the fake job")
    assert "a library says hello" in caught.value.report


def test_a_job_can_be_cancelled_from_another_thread():
    asked = job("hang")
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            asked.ask()
        except JobCancelled as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    before = time.monotonic()
    thread.start()
    asked.kill()
    thread.join(10)
    assert time.monotonic() - before < 5
    assert len(caught) == 1


def test_a_job_that_ends_before_it_has_read_its_request_is_a_crash():
    command = (sys.executable, "-c", "import sys; sys.exit('no time for that')")
    with pytest.raises(EngineCrashed, match="no time for that"):
        EngineJob("inspect", command).ask(b"x" * (8 << 20))


def test_a_job_that_hangs_is_given_up():
    with pytest.raises(UserError, match="No answer"):
        job("hang").ask(timeout=0.3)


def test_an_answer_that_is_none_is_a_crash_and_not_a_riddle():
    with pytest.raises(EngineCrashed, match="can't be read"):
        jobs.decoded("inspect", b"surprise", DataReport)


def test_a_run_whose_keeper_cannot_be_started_is_crashed_with_the_reason(tmp_path):
    run = new_run(tmp_path)
    with pytest.raises(RunFolderError, match="can't be started"):
        start.start(run, [str(tmp_path / "nothing")])
    record = run.exit_record()
    assert record is not None
    assert "nothing" in record.reason
    assert run.state(RunStatus()) is State.CRASHED


class TestCommands:
    def test_from_source_python_runs_the_modules_and_keeps_the_working_folder_out(self, tmp_path):
        assert engine_command("train", "x") == [sys.executable, "-P", "-m", "core.engine", "train", "x"]
        assert keeper_command(tmp_path) == [sys.executable, "-P", "-m", "core.monitor.keeper", str(tmp_path)]

    def test_in_a_bundle_the_program_runs_itself(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        assert engine_command("devices") == [sys.executable, "--engine", "devices"]
        assert keeper_command(tmp_path) == [sys.executable, "--keeper", str(tmp_path)]

    def test_on_windows_the_program_with_standard_streams_does_the_work(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(sys, "platform", "win32")
        monkeypatch.setattr(sys, "executable", str(tmp_path / "Hone.exe"))
        assert engine_command("devices")[0] == str(tmp_path / "Hone.exe")
        (tmp_path / "hone-cli.exe").touch()
        assert engine_command("devices")[0] == str(tmp_path / "hone-cli.exe")
        assert keeper_command(tmp_path)[0] == str(tmp_path / "hone-cli.exe")
