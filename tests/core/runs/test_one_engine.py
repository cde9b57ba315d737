"""No second engine works on a run whose engine lives, whatever the records and the clock say."""

import os
import sys

import msgspec
import psutil
import pytest

from core.base.files import ENGINE_LOCK, locked
from core.engine import __main__
from core.monitor import keeper
from core.runs import start
from core.runs.events import RunStarted
from core.runs.folder import ExitRecord, KeeperRecord
from core.runs.start import CantResume
from tests.fakes.runs import new_run, write_events


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path)


def test_an_engine_that_works_keeps_all_others_out_whatever_the_records_say(run, monkeypatch, capsys):
    record = KeeperRecord.of(os.getpid())
    gone = msgspec.structs.replace(record, started=record.started - 1000)
    run.keeper_file.write_bytes(msgspec.json.encode(gone))
    write_events(run.events_file, RunStarted())
    run.record_exit(ExitRecord(time=1, code=1))
    monkeypatch.setattr(__main__, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(__main__, "LenientStream", lambda stream: stream)
    told = run.events_file.read_bytes()
    assert not run.is_alive()
    with locked(run.path, name=ENGINE_LOCK):
        assert run.is_alive()
        for begin in (start.resume, start.start):
            with pytest.raises(CantResume, match="under way already"):
                begin(run, [sys.executable, "-c", "pass"])
        assert __main__._train(run) == 1
        assert keeper.main([str(run.path)]) == 1
    assert "works on this run already" in capsys.readouterr().err
    assert run.keeper_record() == gone
    assert (run.attempt_kept(), run.events_file.read_bytes()) == (1, told)


def test_setting_the_clock_makes_no_process_another_one(monkeypatch):
    before = KeeperRecord.of(os.getpid())
    created, booted = psutil.Process.create_time, psutil.boot_time()
    for hours in (1, -1):
        monkeypatch.setattr(psutil, "boot_time", lambda by=hours: booted + 3600 * by)
        monkeypatch.setattr(psutil.Process, "create_time", lambda self, by=hours: created(self) + 3600 * by)
        assert before.is_alive
        assert not msgspec.structs.replace(before, started=before.started - 1000).is_alive
