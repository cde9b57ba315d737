"""Results as files: names, damage, the order of the list."""

import json
import os
import re

import msgspec
import pytest

from core.benchmark import result as results
from core.benchmark.plan import Kind
from core.benchmark.result import CantRead, Standing
from core.runs.folder import KeeperRecord
from tests.fakes.bench import measured, result, variant

FOUND = result(measured(variant("plain")), measured(variant("bf16"), 0.2))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def test_a_result_comes_back_as_it_went_and_keeps_its_name_while_it_grows():
    path = results.save(FOUND)
    assert re.fullmatch(r"2025-10-09-\d{6}-methods-tiny\.json", path.name)
    assert results.load(path) == FOUND
    assert [(one.path, one.result, one.problem) for one in results.saved()] == [(path, FOUND, "")]
    grown = msgspec.structs.replace(FOUND, rows=FOUND.rows[:1], ended=None)
    assert results.save(grown) == path
    assert results.load(path) == grown


def test_the_names_in_the_file_are_those_of_earlier_versions():
    found = json.loads(results.save(FOUND).read_text())
    assert found["plan"]["rungs"][0]["name"] == found["rows"][0]["rung"]["name"] == "plain"
    assert "surroundings" in found["rows"][0]["passes"][0]


@pytest.mark.parametrize("model", ["../../etc/passwd", "Own/Model:1 b", "..", "x" * 300])
def test_no_model_leads_out_of_the_folder(model):
    path = results.save(result(measured(variant("a")), model=model))
    assert path.parent == results.folder()
    assert len(path.name) < 90
    assert results.path_of(result(kind=Kind.DEVICES, model="")).name.endswith("-devices.json")


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b"\xff\xfe\x00", b"[]", b"{}", b'{"schema": 1}', b'{"schema": "one"}', b"[" * 100_000],
)
def test_a_damaged_file_is_listed_last_with_the_reason(content):
    results.save(FOUND)
    broken = results.folder() / "2099-01-01-000000-methods-tiny.json"
    broken.write_bytes(content)
    whole, other = results.saved()
    assert whole.result == FOUND
    assert (other.path, other.result) == (broken, None)
    assert other.problem.startswith("is damaged. It isn't")
    with pytest.raises(CantRead):
        results.load(broken)


def test_what_is_no_file_is_no_crash(tmp_path):
    assert results.saved() == []
    results.save(FOUND)
    (results.folder() / "folder.json").mkdir()
    (results.folder() / "notes.txt").write_text("mine")
    (results.folder() / ".half-written.json").write_text("{")
    assert [one.path.name for one in results.saved() if one.problem] == ["folder.json"]
    with pytest.raises(CantRead, match="can't be read"):
        results.load(tmp_path / "gone.json")


def test_it_runs_as_long_as_its_process_lives():
    now = KeeperRecord.of(os.getpid())
    gone = msgspec.structs.replace(now, started=now.started - 3600)
    states = [
        msgspec.structs.replace(FOUND, is_whole=whole, ended=ended, measured_by=by).standing
        for whole, ended, by in (
            (True, 2.0, None),
            (False, 2.0, None),
            (False, None, now),
            (False, None, gone),
        )
    ]
    assert states == [Standing.WHOLE, Standing.CANCELLED, Standing.UNDER_WAY, Standing.BROKEN_OFF]
