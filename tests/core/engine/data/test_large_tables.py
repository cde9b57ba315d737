"""What is large goes through a file of the cache: the same rows, notes and errors, and nothing half-done."""

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data import delimited, tables, text_files
from core.engine.data.columns import describe
from core.engine.data.tables import Table, make_room, read_table

COUNT = 3000


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache, through which everything goes in blocks so small that there are many."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tables, "LARGE_BYTES", 0)
    monkeypatch.setattr(tables, "BATCH_ROWS", 100)
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(delimited, "BLOCK_SENTENCES", 100)
    return tmp_path / "home" / "cache" / "tables"


QUOTED = [f'"text, ""{number}"" é",{number % 3}' for number in range(COUNT)]
ODD = [*QUOTED[:1500], "too,many,columns", *QUOTED[1501:2000], "", *QUOTED[2001:]]
OPEN = [*QUOTED[:1500], '"text, left open,1', *QUOTED[1501:]]
RECORDS = [{"text": f"[{{,] {number}", "label": number, "more": {"a": [number]}} for number in range(COUNT)]
LATE = [
    *RECORDS[:1500],
    {"late": 1.5, "more": {"b": "x"}},
    *RECORDS[1500:],
    {"label": "two", "text": "\ud83d"},
]
CONTENTS = {
    "a.csv": "\n".join(["", "text,label", *ODD]),
    "b.csv": "\n".join(["text,label", *OPEN]),
    "a.jsonl": "\n".join(map(json.dumps, LATE)),
    "a.json": json.dumps(LATE, indent=1),
    "a.conll": "\n\n".join(f"word{number} O\nthere B-LOC" for number in range(COUNT)),
}


def write(folder: Path, name: str = "a.csv") -> Path:
    path = folder / name
    if path.suffix == ".parquet":
        labels = pa.chunked_array([pa.array(["", None, "a"] * 1000).dictionary_encode()])
        table = pa.table({"text": [f"text {number}" for number in range(COUNT)], "label": labels})
        parquet.write_table(table.replace_schema_metadata({"huggingface": "{}"}), path, row_group_size=700)
    else:
        path.write_text(CONTENTS[name], encoding="utf-16" if name == "b.csv" else "utf-8")
    return path


def facts(table: Table) -> tuple[object, ...]:
    """Everything that a reader of a table sees."""
    rows = table.rows.combine_chunks()
    notes = [note.replace(table.path.name, "") for note in table.messages]
    return (
        rows.to_pylist(),
        rows.schema,
        table.numbers.tolist(),
        table.format,
        table.row_word,
        notes,
        describe(table),
    )


@pytest.mark.parametrize("name", [*CONTENTS, "a.parquet"])
def test_a_table_is_the_same_whichever_way_it_is_read(tmp_path, cache, monkeypatch, name):
    path, reported = write(tmp_path, name), list[tuple[int, int]]()
    large = facts(read_table(path, lambda done, total: reported.append((done, total))))
    assert len(reported) > 5
    assert reported == sorted(reported)
    assert reported[-1][0] == reported[-1][1]
    assert facts(read_table(path)) == large
    monkeypatch.setattr(tables, "LARGE_BYTES", 2**30)
    small = read_table(path.rename(path.with_stem("in memory")))
    assert facts(small) == large
    assert small.rows.num_rows >= COUNT - 3
    assert len(list(cache.iterdir())) == 1


def test_what_changed_is_read_again(tmp_path, cache):
    path = tmp_path / "a.csv"
    path.write_text("text,label\none,a\n", encoding="utf-8")
    assert read_table(path).rows["text"].to_pylist() == ["one"]
    path.write_text("text,label\ntwo,a\n", encoding="utf-8")
    os.utime(path, (1, 1))
    assert read_table(path).rows["text"].to_pylist() == ["two"]
    assert read_table(path, header=False).rows["column 1"].to_pylist() == ["text", "two"]
    assert len(list(cache.iterdir())) == 3


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, cache):
    path = write(tmp_path)
    with pytest.raises(DataError, match="changed while it was read"):
        read_table(path, lambda _done, _total: os.utime(path, ns=(1, 1)))
    assert list(cache.iterdir()) == []


def test_a_damaged_file_of_the_cache_is_made_again(tmp_path, cache):
    first = facts(read_table(write(tmp_path)))
    (stored,) = cache.iterdir()
    whole = stored.read_bytes()
    stored.unlink()  # it may be mapped into memory
    stored.write_bytes(whole[:-1000])
    assert facts(read_table(tmp_path / "a.csv")) == first
    assert stored.stat().st_size == len(whole)


def test_a_packed_file_is_read_as_long_as_the_disk_has_space(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LARGE_BYTES", 2**20)
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 2**20)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 2**23)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * 300_000))
    assert read_table(path).rows.num_rows == 300_000
    full = SimpleNamespace(free=2**20, total=2**40)
    monkeypatch.setattr(text_files.shutil, "disk_usage", lambda _path: full)
    with pytest.raises(DataError, match="no space"):
        read_table(path.rename(tmp_path / "b.csv.gz"))


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(DataError, match="can't be stored") as caught:
        read_table(write(tmp_path))
    assert str(tmp_path / "home") in caught.value.detail


def test_the_oldest_files_go_where_there_are_too_many(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(tables, "UNFINISHED_SECONDS", -1.0)
    cache.mkdir(parents=True)
    (cache / "x.unfinished").write_text("of an engine that was killed")
    for number in range(3):
        read_table(write(tmp_path).rename(tmp_path / f"{number}.csv"))
    files = sorted(cache.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert [file.suffix for file in files] == [".arrow"] * 3
    os.utime(files[0], (1, 1))
    os.utime(files[1], (2, 2))
    make_room(cache, limit=2 * files[0].stat().st_size)
    assert set(cache.iterdir()) == set(files[1:])
    make_room(cache, limit=1)
    assert list(cache.iterdir()) == [files[2]]
