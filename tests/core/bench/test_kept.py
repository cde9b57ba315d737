"""Results as files: names, damage, newer layouts, the order of the list, the bin."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from core.benchmark import result as benchmark_result
from core.benchmark.plan import Kind
from core.benchmark.result import CantRead
from core.runs.bin import NoBinError
from tests.fakes.bench import measured, result, rung

FOUND = result(measured(rung("plain")), measured(rung("bf16"), 0.2))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_result_comes_back_as_it_went() -> None:
    path = benchmark_result.save(FOUND)
    assert benchmark_result.load(path) == FOUND
    assert [(one.path, one.result, one.problem) for one in benchmark_result.kept()] == [(path, FOUND, "")]
    assert json.loads(path.read_text())["plan"]["rungs"][0]["name"] == "plain"


def test_its_name_tells_when_and_what_it_was_and_stays_while_it_grows() -> None:
    path = benchmark_result.save(FOUND)
    assert re.fullmatch(r"2025-10-09-\d{6}-methods-tiny\.json", path.name)
    grown = msgspec.structs.replace(FOUND, rows=FOUND.rows[:1], ended=None)
    assert benchmark_result.save(grown) == path
    assert benchmark_result.load(path) == grown
    assert [one.name for one in benchmark_result.folder().iterdir()] == [path.name]


@pytest.mark.parametrize("model", ["../../etc/passwd", "Own/Model:1 b", "..", "x" * 300])
def test_no_model_leads_out_of_the_folder(model: str) -> None:
    path = benchmark_result.save(result(measured(rung("a")), model=model))
    assert path.parent == benchmark_result.folder()
    assert len(path.name) < 90
    assert path.is_file()


def test_devices_without_a_model_have_a_name_too() -> None:
    assert benchmark_result.path_of(result(kind=Kind.DEVICES, model="")).name.endswith("-devices.json")


def test_the_newest_stands_first() -> None:
    begun = [1_760_000_000.0, 1_760_009_000.0, 1_760_005_000.0]
    for moment in begun:
        benchmark_result.save(result(measured(rung("a")), begun=moment))
    assert [one.begun for one in benchmark_result.kept()] == sorted(begun, reverse=True)


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b"\xff\xfe\x00", b"[]", b"{}", b'{"schema": 1}', b'{"schema": "one"}', b"[" * 100_000],
)
def test_a_damaged_file_is_listed_with_the_reason_and_costs_no_other(content: bytes) -> None:
    benchmark_result.save(FOUND)
    broken = benchmark_result.folder() / "2024-01-01-000000-methods-tiny.json"
    broken.write_bytes(content)
    whole, other = benchmark_result.kept()  # a damaged one stands last, however late it was changed
    assert whole.result == FOUND
    assert (other.path, other.result) == (broken, None)
    assert other.problem.startswith("is damaged. It isn't")
    with pytest.raises(CantRead):
        benchmark_result.load(broken)


def test_a_file_of_a_newer_hone_says_so_whatever_else_it_holds() -> None:
    benchmark_result.folder().mkdir(parents=True)
    path = benchmark_result.folder() / "later.json"
    path.write_text('{"schema": 7, "rows": "in another shape"}')
    with pytest.raises(CantRead, match="newer Hone") as caught:
        benchmark_result.load(path)
    assert "layout 7" in caught.value.detail
    assert caught.value.fixes[0].label == "Update Hone"
    assert "newer Hone" in benchmark_result.kept()[0].problem


def test_what_is_no_file_is_no_crash(tmp_path: Path) -> None:
    assert benchmark_result.kept() == []
    benchmark_result.save(FOUND)
    (benchmark_result.folder() / "folder.json").mkdir()
    (benchmark_result.folder() / "notes.txt").write_text("mine")
    (benchmark_result.folder() / ".half-written.json").write_text("{")
    assert sorted(one.path.name for one in benchmark_result.kept() if one.problem) == ["folder.json"]
    with pytest.raises(CantRead, match="can't be read"):
        benchmark_result.load(tmp_path / "gone.json")


def test_one_goes_to_the_bin() -> None:
    path = benchmark_result.save(FOUND)
    gone: list[Path] = []
    benchmark_result.remove(path, gone.append)
    assert gone == [path]

    def refuse(_path: Path) -> None:
        raise OSError("full")

    with pytest.raises(NoBinError, match="bin didn't take it"):
        benchmark_result.remove(path, refuse)
