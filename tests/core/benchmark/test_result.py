"""Results as files: their names and fields, damaged ones, and the order of the list."""

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

RESULT = result(measured(variant("plain")), measured(variant("bf16"), 0.2))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def test_a_result_is_loaded_as_it_was_saved_and_keeps_its_name_while_it_grows():
    path = results.save(RESULT)
    assert re.fullmatch(r"2025-10-09-\d{6}-methods-tiny\.json", path.name)
    assert [(file.path, file.result, file.problem) for file in results.saved()] == [(path, RESULT, "")]
    grown = msgspec.structs.replace(RESULT, rows=RESULT.rows[:1], ended=None)
    assert (results.save(grown), results.load(path)) == (path, grown)
    content = json.loads(path.read_text())  # names as in earlier versions
    assert content["plan"]["rungs"][0]["name"] == content["rows"][0]["rung"]["name"] == "plain"
    assert "surroundings" in content["rows"][0]["passes"][0]


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
    results.save(RESULT)
    damaged = results.folder() / "2099-01-01-000000-methods-tiny.json"
    damaged.write_bytes(content)
    whole, other = results.saved()
    assert whole.result == RESULT
    assert (other.path, other.result) == (damaged, None)
    assert other.problem.startswith("is damaged. It isn't")
    with pytest.raises(CantRead):
        results.load(damaged)


def test_other_entries_of_the_folder_are_no_crash(tmp_path):
    assert results.saved() == []
    results.save(RESULT)
    (results.folder() / "folder.json").mkdir()
    (results.folder() / "notes.txt").write_text("mine")
    (results.folder() / ".half-written.json").write_text("{")
    assert [file.path.name for file in results.saved() if file.problem] == ["folder.json"]
    with pytest.raises(CantRead, match="can't be read"):
        results.load(tmp_path / "gone.json")


def test_a_result_is_running_as_long_as_its_process_lives():
    this = KeeperRecord.of(os.getpid())
    gone = msgspec.structs.replace(this, started=this.started - 3600)
    for whole, ended, process, standing in (
        (True, 2.0, None, Standing.WHOLE),
        (False, 2.0, None, Standing.CANCELLED),
        (False, None, this, Standing.UNDER_WAY),
        (False, None, gone, Standing.BROKEN_OFF),
    ):
        other = msgspec.structs.replace(RESULT, is_whole=whole, ended=ended, measured_by=process)
        assert other.standing is standing
