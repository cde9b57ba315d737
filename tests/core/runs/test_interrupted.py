"""Runs that ended without a word while nobody looked."""

import os
import time

import pytest

from core.runs import crash as runs_crash
from tests.fakes.run_stories import Plot, crash, finish, keep_alive, make_folder, write_story


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def kept_by_nobody(run):
    """As if the computer had been switched off: a keeper is named, and it is gone."""
    keep_alive(run)
    record = run.keeper_record()
    run.keeper_file.write_bytes(
        run.keeper_file.read_bytes().replace(f'"pid":{record.pid}'.encode(), b'"pid":999999999')
    )


def test_those_that_ended_without_a_word_are_found_the_newest_first(tmp_path):
    folder = tmp_path / "runs"
    lost, killed, done, alive = (make_folder(folder / name) for name in ("lost", "killed", "done", "alive"))
    write_story(lost, Plot(reached=100))
    kept_by_nobody(lost)
    kept_by_nobody(killed)
    crash(killed, write_story(killed, Plot(reached=20)))
    kept_by_nobody(done)
    finish(done, Plot(), write_story(done, Plot()))
    keep_alive(alive)
    write_story(alive, Plot(reached=20))
    for number, run in enumerate((killed, lost)):
        for path in run.path.iterdir():
            os.utime(path, (time.time() + number, time.time() + number))
    found = runs_crash.find(folder, since=0.0)
    assert [(one.run, one.step) for one in found] == [(lost, 90), (killed, None)]
    assert found[0].title == "Handwritten digits"


def test_what_was_seen_once_is_not_told_again(tmp_path):
    run = make_folder(tmp_path / "runs" / "lost")
    write_story(run, Plot(reached=100))
    kept_by_nobody(run)
    assert runs_crash.find(tmp_path / "runs", runs_crash.seen_until())
    runs_crash.mark_seen()
    later = time.time() + 60
    os.utime(runs_crash.settings.home() / "seen", (later, later))
    assert runs_crash.find(tmp_path / "runs", runs_crash.seen_until()) == []


def test_a_run_whose_options_are_damaged_is_not_offered(tmp_path):
    run = make_folder(tmp_path / "runs" / "lost")
    write_story(run, Plot(reached=100))
    kept_by_nobody(run)
    run.options_file.write_text("task = [")
    assert runs_crash.find(tmp_path / "runs", 0.0) == []
