"""What is large goes through a file of the cache: the same rows, notes and errors, and nothing half-done."""

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data import tables
from core.engine.data.columns import describe
from core.engine.data.tables import Table, make_room, read_table

COUNT = 3000


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache, in a home of the test's own; blocks are small, so that there are many."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("core.engine.data.text_files.BLOCK_BYTES", 1000)
    monkeypatch.setattr("core.engine.data.delimited.BLOCK_BYTES", 4096)
    monkeypatch.setattr("core.engine.data.tables.BATCH_ROWS", 100)
    monkeypatch.setattr("core.engine.data.delimited.BLOCK_SENTENCES", 100)
    return tmp_path / "home" / "cache" / "tables"


@pytest.fixture
def through_cache(monkeypatch):
    monkeypatch.setattr("core.engine.data.tables.LARGE_BYTES", 0)


def csv_of_quotes(path: Path) -> None:
    lines = [f'"text, ""{number}"" é",{number % 3}' for number in range(COUNT)]
    lines[1500] = "too,many,columns"
    lines[2000] = ""
    path.write_text("\n".join(["", "text,label", *lines]), encoding="utf-8")


def csv_of_broken_quotes(path: Path) -> None:
    lines = [f'"text, {number}",{number % 3}' for number in range(COUNT)]
    lines[1500] = '"text, left open,1'
    path.write_text("\n".join(["text,label", *lines]), encoding="utf-16")


def json_by_lines(path: Path) -> None:
    rows = [{"text": f"text {number}", "label": number, "more": {"a": [number]}} for number in range(COUNT)]
    rows[1500] |= {"late": 1.5, "more": {"b": "x"}}
    rows[2000]["label"] = "two thousand"
    rows[2500]["late"] = 7
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def json_array(path: Path) -> None:
    rows = [
        {"text": f"half \ud83d {number}" if number == 5 else "[{,]", "label": number}
        for number in range(COUNT)
    ]
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def sentences(path: Path) -> None:
    path.write_text("\n\n".join(f"word{number} O\nthere B-LOC" for number in range(COUNT)), encoding="utf-8")


def parquet_of_groups(path: Path) -> None:
    labels = pa.chunked_array([pa.array(["", None, "a"] * 1000).dictionary_encode()])
    table = pa.table({"text": [f"text {number}" for number in range(COUNT)], "label": labels})
    parquet.write_table(table.replace_schema_metadata({"huggingface": "{}"}), path, row_group_size=700)


FILES = [
    ("a.csv", csv_of_quotes),
    ("b.csv", csv_of_broken_quotes),
    ("a.jsonl", json_by_lines),
    ("a.json", json_array),
    ("a.conll", sentences),
    ("a.parquet", parquet_of_groups),
]


def same(one: Table, other: Table) -> bool:
    return (
        one.rows.combine_chunks().equals(other.rows.combine_chunks(), check_metadata=True)
        and np.array_equal(one.numbers, other.numbers)
        and (one.format, one.row_word, one.notes) == (other.format, other.row_word, other.notes)
        and describe(one) == describe(other)
    )


@pytest.mark.parametrize(("name", "make"), FILES)
def test_a_table_is_the_same_whichever_way_it_is_read(tmp_path, cache, monkeypatch, name, make):
    make(tmp_path / name)
    small = read_table(tmp_path / name)
    assert not cache.exists()
    monkeypatch.setattr("core.engine.data.tables.LARGE_BYTES", 0)
    reported: list[tuple[int, int]] = []
    large = read_table(tmp_path / name, lambda done, total: reported.append((done, total)))
    assert len(reported) > 5
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert all(done <= total for done, total in reported)
    assert reported[-1][0] == reported[-1][1]
    assert len(list(cache.iterdir())) == 1
    again = read_table(tmp_path / name)
    assert same(small, large)
    assert same(small, again)
    assert small.rows.num_rows >= COUNT - 3


@pytest.mark.usefixtures("through_cache")
def test_an_array_with_an_open_object_is_refused_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("core.engine.data.json_files.MAX_RECORD", 2000)
    path = tmp_path / "a.json"
    path.write_text('[{"text": "a"},\n{"text": "b,}\n' + '{"text": "c"},\n' * 900, encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_table(path)


@pytest.mark.usefixtures("through_cache")
def test_what_changed_is_read_again(tmp_path, cache):
    path = tmp_path / "a.csv"
    path.write_text("text,label\none,a\n", encoding="utf-8")
    assert read_table(path).rows["text"].to_pylist() == ["one"]
    path.write_text("text,label\ntwo,a\n", encoding="utf-8")
    os.utime(path, (1, 1))
    assert read_table(path).rows["text"].to_pylist() == ["two"]
    assert read_table(path, header=False).rows["column 1"].to_pylist() == ["text", "two"]
    assert len(list(cache.iterdir())) == 3


@pytest.mark.usefixtures("through_cache")
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, cache):
    path = tmp_path / "a.csv"
    csv_of_quotes(path)

    def grow(done: int, total: int) -> None:
        if path.stat().st_mtime_ns != 1:
            os.utime(path, ns=(1, 1))

    with pytest.raises(DataError, match="changed while it was read"):
        read_table(path, grow)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("through_cache")
def test_a_damaged_file_of_the_cache_is_made_again(tmp_path, cache):
    path = tmp_path / "a.csv"
    csv_of_quotes(path)
    first = read_table(path)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.unlink()
    kept.write_bytes(whole[:-1000])
    assert same(first, read_table(path))
    assert kept.stat().st_size == len(whole)


def test_a_packed_file_is_read_as_long_as_the_disk_has_room(tmp_path, monkeypatch):
    monkeypatch.setattr("core.engine.data.tables.LARGE_BYTES", 2**20)
    monkeypatch.setattr("core.engine.data.text_files.BLOCK_BYTES", 2**20)
    monkeypatch.setattr("core.engine.data.delimited.BLOCK_BYTES", 2**23)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * 300_000))
    assert read_table(path).rows.num_rows == 300_000
    full = SimpleNamespace(free=2**20, total=2**40)
    monkeypatch.setattr("core.engine.data.text_files.shutil.disk_usage", lambda _path: full)
    with pytest.raises(DataError, match="no space"):
        read_table(path.rename(tmp_path / "b.csv.gz"))


@pytest.mark.usefixtures("through_cache")
def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "home").write_text("in the way")
    csv_of_quotes(tmp_path / "a.csv")
    with pytest.raises(DataError, match="can't be stored") as caught:
        read_table(tmp_path / "a.csv")
    assert str(tmp_path / "home") in caught.value.detail


@pytest.mark.usefixtures("through_cache")
def test_the_oldest_go_where_there_is_too_much(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(tables, "UNFINISHED_SECONDS", -1.0)
    cache.mkdir(parents=True)
    (cache / "x.unfinished").write_text("of an engine that was killed")
    for number in range(3):
        path = tmp_path / f"{number}.csv"
        csv_of_quotes(path)
        read_table(path)
    files = sorted(cache.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert [file.suffix for file in files] == [".arrow"] * 3
    os.utime(files[0], (1, 1))
    os.utime(files[1], (2, 2))
    make_room(cache, limit=2 * files[0].stat().st_size)
    assert set(cache.iterdir()) == set(files[1:])
    make_room(cache, limit=1)
    assert list(cache.iterdir()) == [files[2]]
