"""How an engine ended is written down where the disk is full, too."""

import sys
from pathlib import Path

import pytest

from core.monitor.keeper import SPARE_BYTES, LastWord
from core.runs.event_log import EventWriter
from core.runs.folder import ExitRecord, RunFolder
from tests.fakes.runs import new_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return new_run(tmp_path / "runs")


def test_a_disk_that_is_full_costs_neither_the_run_nor_its_end(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from core.monitor import keeper as keeping
    from core.monitor import keeper as monitor_keeper

    full = OSError(28, "No space left on device")
    failing = {"left": 4}  # with the end of the log and without it, twice

    def write(run: RunFolder, record: ExitRecord) -> None:
        if failing["left"]:
            failing["left"] -= 1
            raise full
        written.append(record)

    written: list[ExitRecord] = []
    monkeypatch.setattr(RunFolder, "record_exit", write)
    monkeypatch.setattr(keeping.time, "sleep", lambda _: None)
    monkeypatch.setattr(EventWriter, "write", lambda *_: (_ for _ in ()).throw(full))
    keeper = keeping.Keeper(run, [sys.executable, "-c", "pass"])
    assert keeper.keep().code == 0
    assert [record.attempt for record in written] == [1]
    failing["left"] = 10**9
    monkeypatch.setattr(monitor_keeper, "LAST_WORD_SECONDS", 0.0)
    keeping.Keeper(run, [sys.executable, "-c", "pass"]).keep()
    assert "exit.json can't be written" in capfd.readouterr().err


def test_the_last_word_has_room_kept_for_it(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = RunFolder.record_exit, []

    def write_where_there_is_room(run: RunFolder, record: ExitRecord) -> None:
        left.append(run.spare_file.exists())
        if left[-1]:
            raise OSError(28, "No space left on device")
        write(run, record)

    last = LastWord(run)
    assert run.spare_file.stat().st_size == SPARE_BYTES
    monkeypatch.setattr(RunFolder, "record_exit", write_where_there_is_room)
    last.say(ExitRecord(time=1.0, code=1, log_tail="Lines of a log."))
    assert left == [False]
    assert run.last_exit_record() == ExitRecord(time=1.0, code=1, log_tail="Lines of a log.")


def test_where_the_end_of_the_log_has_no_room_the_last_word_does_without(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RunFolder.record_exit

    def write_a_little(run: RunFolder, record: ExitRecord) -> None:
        if record.log_tail:
            raise OSError(27, "File too large")
        write(run, record)

    monkeypatch.setattr(RunFolder, "record_exit", write_a_little)
    LastWord(run).say(ExitRecord(time=1.0, code=1, reason="It was ended.", log_tail="Lines of a log."))
    assert run.last_exit_record() == ExitRecord(time=1.0, code=1, reason="It was ended.")
