"""Short engine jobs: their answers, refusals and crashes, and the commands of Hone's own processes."""

import sys
import threading

import pytest

from core.base import jobs
from core.base.errors import UserError
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, engine_command
from core.jobs.inspect import DataReport
from core.runs.start import keeper_command
from tests.fakes.runs import FAKES


def job(scenario: str) -> EngineJob:
    return EngineJob(scenario, [sys.executable, "-P", str(FAKES / "job.py"), scenario])


def test_an_answer_comes_without_progress_and_what_libraries_print():
    assert job("echo").ask(b'{"source":"\xc3\xa4"}') == b'{"source":"\xc3\xa4"}'
    shares: list[float] = []
    assert job("progress").ask(b"{}", tell=lambda progress: shares.append(progress.share)) == b"{}"
    assert shares == [0.5, 1.0]


def test_a_refusal_is_raised_as_it_was_in_the_engine():
    with pytest.raises(UserError) as caught:
        job("refuse").ask()
    error = caught.value
    assert (error.title, error.detail) == ("The file can't be read", "data.csv, row 3")
    assert [fix.label for fix in error.fixes] == ["Save it as UTF-8"]


def test_a_job_without_an_answer_has_crashed_with_all_that_it_printed():
    with pytest.raises(EngineCrashed) as caught:
        job("bug").ask()
    assert caught.value.code == 1
    assert caught.value.report.rstrip().endswith("RuntimeError: a bug in the fake job")
    assert "a library says hello" in caught.value.report
    before_it_has_read = (sys.executable, "-c", "import sys; sys.exit('no time for that')")
    with pytest.raises(EngineCrashed, match="no time for that"):
        EngineJob("inspect", before_it_has_read).ask(b"x" * (8 << 20))
    with pytest.raises(EngineCrashed, match="can't be read"):
        jobs.decoded("inspect", b"surprise", DataReport)


def test_a_job_that_hangs_ends_by_its_timeout_or_is_cancelled_from_another_thread():
    with pytest.raises(UserError, match="No answer"):
        job("hang").ask(timeout=0.3)
    hanging = job("hang")
    caught: list[JobCancelled] = []

    def ask() -> None:
        try:
            hanging.ask()
        except JobCancelled as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    hanging.kill()
    thread.join(10)
    assert len(caught) == 1


def test_python_runs_the_modules_and_imports_nothing_from_the_working_folder(tmp_path):
    assert engine_command("train", "x") == [sys.executable, "-P", "-m", "core.engine", "train", "x"]
    assert keeper_command(tmp_path) == [sys.executable, "-P", "-m", "core.monitor.keeper", str(tmp_path)]


def test_a_bundle_runs_itself_and_on_windows_its_program_with_standard_streams(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert engine_command("devices") == [sys.executable, "--engine", "devices"]
    assert keeper_command(tmp_path) == [sys.executable, "--keeper", str(tmp_path)]
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "Hone.exe"))
    assert engine_command("devices")[0] == str(tmp_path / "Hone.exe")
    (tmp_path / "hone-cli.exe").touch()
    assert engine_command("devices")[0] == keeper_command(tmp_path)[0] == str(tmp_path / "hone-cli.exe")
