"""Damaged and odd tables: each is read, or refused with what is wrong where and what to do, leaving nothing behind."""

import errno
import gzip
import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data.columns import guess_pair
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import Table, read_table
from core.engine.data.text_files import refuse_repeated
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

DEEP = f"{'[' * 50}{{}}{']' * 50}"
REVIEWS = [("good, really good", "pos"), ("bad", "neg"), ("so so", "pos"), ("never again", "neg")]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own; nothing that isn't whole may be left in it."""
    home = tmp_path / "home"
    monkeypatch.setenv("HONE_HOME", str(home))
    yield home
    assert [path for path in home.rglob("*") if path.is_file() and path.suffix != ".arrow"] == []


@pytest.fixture(params=["in memory", "on disk"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read small files as large ones are read, too."""
    if request.param == "on disk":
        monkeypatch.setattr("core.engine.data.tables.LARGE_BYTES", 0)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(table: Table) -> list[dict[str, Any]]:
    return list(table.rows.to_pylist())


def refusal(path: Path, **asked: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read_table(path, **asked)
    assert path.name in caught.value.title
    assert str(path) in caught.value.detail
    return caught.value


def delimited(delimiter: str) -> str:
    quoted = [f'"{text}"{delimiter}{label}' for text, label in REVIEWS]
    return "\n".join([f"text{delimiter}label", *quoted, ""])


@pytest.mark.parametrize("delimiter", ["\t", ";", "|"])
@pytest.mark.parametrize("lead", ["", "sep={}\n"])
def test_another_delimiter_than_the_ending_says(tmp_path: Path, delimiter: str, lead: str) -> None:
    table = read_table(write(tmp_path, "a.csv", lead.format(delimiter) + delimited(delimiter)))
    assert rows(table) == [{"text": text, "label": label} for text, label in REVIEWS]
    assert table.where(0) == f"row {3 if lead else 2} of a.csv"


def test_a_table_divided_by_spaces_says_that_it_has_one_column(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", "text label\nfine pos\nbad neg\n"))
    assert table.columns == ("text label",)
    assert any("one column only" in note for note in table.notes)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("name", "content", "title", "detail"),
    [
        ("a.csv", "text,label\nfine,a\nbad\x00,b\n", "not a CSV", "zero bytes, the first in line 3"),
        (
            "a.csv",
            "text,label\n" + "a,b\n" * 9 + "c,d,e,f\n",
            "row 11 has 4 columns, the header 2",
            "begins: c,d,e,f",
        ),
        ("a.csv", "\n\ntext,label\na,b\nc\n", "row 5 has 1 column, the header 2", "begins: c"),
        ("a.csv", " text,text \na,b\n", "two columns called “text”", "columns 1 and 2"),
        ("a.csv", "text,label\n,\n,\n", "no rows", "names columns"),
        ("a.json", '[{"text": "a"},\n {"text": "b",}]', "line 2, column 14", "a comma too many before }"),
        ("a.json", '[{"text": "a"},\n {"text": "b"},\n]\n', "line 2, column 15", "a comma too many before ]"),
        ("a.json", '[{"text": "a"}', "line 1, column 15", "not closed"),
        ("a.json", "[{'text': 'a'}]", "line 1, column 3", "double quotes"),
        ("a.json", '[["a", "b"], ["c", "d"]]', "record 1 is not an object", '["a", "b"]'),
        ("a.json", '{"data": []}', "no rows", "no object"),
        ("a.json", '{"train": [{"a": 1}], "test": [{"a": 2}]}', "several lists", "“train”, “test”"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b}\n{"text": "c"}\n', "line 2, column 10", "Near"),
        ("a.jsonl", '{"text": "a"}\n\n["b"]\n', "line 3 is not an object", '["b"]'),
        ("a.jsonl", '{"text": "a", "b": ' + "[" * 5000 + "]" * 5000 + "}\n", "nested too deeply", "line 1"),
        ("a.json", "[" * 100_000, "nested too deeply", "brackets"),
        (
            "a.jsonl",
            f'{{"text": "a"}}\n{{"text": {"1" * 5000}}}\n',
            "line 2 has a number that is too long",
            "digits",
        ),
        (
            "a.json",
            f'[{{"text": "a"}}, {{"text": {"1" * 5000}}}]',
            "record 2 has a number that is too long",
            "digits",
        ),
        (
            "a.json",
            f'{{"data": [{{"text": {"1" * 5000}}}]}}',
            "the file has a number that is too long",
            "digits",
        ),
        ("a.conll", "Paris B-LOC\nis O\n\nso O x\n", "line 4 has 3 columns, line 1 has 2", "so O x"),
        ("a.conll", "Paris\nis\n", "line 1 has a token and no tag", "Paris B-LOC"),
        ("a.csv.gz", gzip.compress(b"text,label\n" * 99, mtime=0)[:-12], "damaged", "gzip"),
        ("a.csv", b"\xff\xfet\x00e\x00x", "not a CSV", "UTF-16"),
        ("a.xlsx", b"PK\x03\x04" + bytes(40), "neither a table nor a text", "Excel"),
        ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(40), "neither a table nor a text", "old Excel"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, name: str, content: str | bytes, title: str, detail: str
) -> None:
    error = refusal(write(tmp_path, name, content))
    assert title in error.title
    assert detail in error.detail


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_two_and_four_bytes_a_character(tmp_path: Path, encoding: str) -> None:
    table = read_table(write(tmp_path, "a.csv", delimited(",").encode(encoding)))
    assert rows(table) == [{"text": text, "label": label} for text, label in REVIEWS]
    assert any("without the mark" in note for note in table.notes) is encoding.endswith(("le", "be"))


def test_a_few_damaged_bytes_spoil_no_other_letters(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", "text,label\ncafé,a\n".encode() + b"na\xefve,b\nna\xc3,c"))
    assert [row["text"] for row in rows(table)][:2] == ["café", "na�ve"]
    assert any("line 3" in note and "�" in note for note in table.notes)


@pytest.mark.parametrize(("ending", "first"), [("\r\n", 2), ("\r", 2)])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.conll"])
def test_ends_of_lines(tmp_path: Path, ending: str, first: int, name: str) -> None:
    lines = {
        "a.csv": ["text,label", "one,a", "two,b", ""],
        "a.jsonl": ["", '{"text": "one"}', '{"text": "two"}', ""],
        "a.conll": ["", "one O", "", "two B-X", ""],
    }
    table = read_table(write(tmp_path, name, ending.join(lines[name])))
    assert table.rows.num_rows == 2
    assert table.where(0).startswith(("row 2 ", "line 2 "))


def test_marks_inside_where_files_were_put_together(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.jsonl", '\ufeff{"text": "a"}\n\ufeff{"text": "b"}\n'))
    assert [row["text"] for row in rows(table)] == ["a", "b"]
    assert any("byte order mark" in note and "line 2" in note for note in table.notes)


def test_a_json_object_with_one_list_of_rows(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.json", '{"version": 2, "data": [{"text": "a"}]}'))
    assert rows(table) == [{"text": "a"}]
    assert table.notes == ("The rows are those of “data” in a.json.",)


@pytest.mark.parametrize(
    "content",
    ['{"text": ["a", "b"], "label": [0, 1]}', '{"text": {"0": "a", "1": "b"}, "label": {"0": 0, "1": 1}}'],
)
def test_json_by_columns(tmp_path: Path, content: str) -> None:
    table = read_table(write(tmp_path, "a.json", content))
    assert rows(table) == [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
    assert any("columns" in note for note in table.notes)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_one_conversation_is_a_row_and_its_turns_are_none(tmp_path: Path, name: str) -> None:
    table = read_table(write(tmp_path, name, '{"messages": [{"role": "user", "content": "Hi"}]}'))
    assert table.columns == ("messages",)


def test_an_object_over_several_lines_named_jsonl(tmp_path: Path) -> None:
    found = {"data": [{"text": "a"}, {"text": "b"}]}
    assert read_table(write(tmp_path, "a.jsonl", json.dumps(found, indent=2))).rows.num_rows == 2


def test_parquet_cut_short_or_with_two_columns_of_a_name(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    parquet.write_table(pa.table({"text": ["a"] * 99}), whole)
    assert "damaged" in refusal(write(tmp_path, "cut.parquet", whole.read_bytes()[:-20])).title
    parquet.write_table(pa.Table.from_arrays([["a"], ["b"]], names=["text", "text"]), whole)
    assert "two columns called “text”" in refusal(whole).title


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own on Windows")
def test_links_that_lead_nowhere_or_in_a_circle(tmp_path: Path) -> None:
    circle, lost = tmp_path / "circle.csv", tmp_path / "lost.csv"
    circle.symlink_to(circle)
    lost.symlink_to(tmp_path / "gone.csv")
    assert "a link that leads in a circle" in refusal(circle).detail
    assert "gone.csv, which doesn't exist" in refusal(lost).detail


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_is_refused_and_waited_for_by_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert refusal(tmp_path / "pipe.csv").fixes


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="needs a person whom a file can be closed to"
)
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", delimited(","))
    path.chmod(0)
    assert os.strerror(errno.EACCES) in refusal(path).detail


def test_a_device_is_no_file() -> None:
    if Path("/dev/zero").exists():
        assert "zero is no file" in refusal(Path("/dev/zero")).title


@pytest.mark.usefixtures("both_ways")
def test_values_of_several_kinds_in_a_column_of_json(tmp_path: Path) -> None:
    values: list[Any] = [1, "1", 1.0, True, {"a": 1}, None, ["x"]]
    lines = [json.dumps({"text": "words", "label": value}) for value in values]
    table = read_table(write(tmp_path, "a.jsonl", "\n".join(lines)))
    assert [row["label"] for row in rows(table)] == ["1", "1", "1", "true", '{"a": 1}', None, '["x"]']
    assert table.notes == ("Column “label” mixes kinds of values; they are read as text.",)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("values", "read", "noted"),
    [
        ("[18446744073709551616, 5]", ["18446744073709551616", "5"], "64 bits"),
        ("[1152921504606846977, 0.5]", ["1152921504606846977", "0.5"], "mixes"),
        ("[NaN, 1.5]", ["nan", "1.5"], ""),
        ("[Infinity, -Infinity]", ["inf", "-inf"], ""),
        ('["2026-11-21", "x"]', ["2026-11-21", "x"], ""),
        ('["\\ud83d", "a\\ud83d\\ude00"]', ["�", "a😀"], "Half a character"),
        (f"[{DEEP.format(1)}, {DEEP.format(2)}]", [DEEP.format(1), DEEP.format(2)], "nested very deeply"),
        ("[[], {}]", ["[]", "{}"], "mixes"),
    ],
)
def test_values_that_json_has_and_arrow_has_not(
    tmp_path: Path, values: str, read: list[str], noted: str
) -> None:
    items = values[1:-1].rsplit(", ", 1) if "[[" in values else [json.dumps(v) for v in json.loads(values)]
    content = "".join(f'{{"text": "words", "value": {item}}}\n' for item in items)
    table = read_table(write(tmp_path, "a.jsonl", content))
    assert [str(row["value"]) for row in rows(table)] == read
    assert any(noted in note for note in table.notes) if noted else not table.notes


def test_objects_that_all_have_other_names(tmp_path: Path) -> None:
    lines = [json.dumps({"text": "words", "meta": {f"user {n}": n}}) for n in range(400)]
    table = read_table(write(tmp_path, "a.jsonl", "\n".join(lines)))
    assert rows(table)[7]["meta"] == '{"user 7": 7}'
    assert any("different names" in note for note in table.notes)
    wide = [json.dumps({f"user {n}": n}) for n in range(2500)]
    assert "more than 2,000 columns" in refusal(write(tmp_path, "b.jsonl", "\n".join(wide))).title


def test_a_single_line_of_10_mb(tmp_path: Path) -> None:
    long = "many words " * 950_000
    assert rows(read_table(write(tmp_path, "a.csv", f"text,label\n{long},a\nb,c\n")))[0]["text"] == long
    assert rows(read_table(write(tmp_path, "a.jsonl", json.dumps({"text": long})))) == [{"text": long}]


@pytest.mark.usefixtures("both_ways")
def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    lines = [f'"words, and {n}",{n % 2}' for n in range(300)]
    lines[298] = '"words, and no end,1'
    table = read_table(write(tmp_path, "a.csv", "\n".join(["text,label", *lines])))
    assert rows(table)[:298] == [{"text": f"words, and {n}", "label": str(n % 2)} for n in range(298)]
    assert any("row 300" in note for note in table.notes)


@pytest.mark.usefixtures("both_ways")
def test_lines_of_nothing_but_delimiters_and_blanks_are_no_rows(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", "text,label\na,b\n,,,\n   \nc,d\n\n,\n"))
    assert rows(table) == [{"text": "a", "label": "b"}, {"text": "c", "label": "d"}]
    assert table.where(1) == "row 5 of a.csv"
    assert table.notes == ()


def test_a_packed_file_is_read_as_long_as_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.engine.data.tables.LARGE_BYTES", 2**20)
    path = write(tmp_path, "a.csv.gz", gzip.compress(b"text,label\n" + b"a,b\n" * 10**6))
    assert read_table(path).rows.num_rows == 10**6
    full = SimpleNamespace(free=2**20, total=2**40)
    monkeypatch.setattr("core.engine.data.text_files.shutil.disk_usage", lambda _path: full)
    with pytest.raises(DataError, match="no room"):
        read_table(path.rename(tmp_path / "b.csv.gz"))


def test_packed_files_are_read(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv.gz", gzip.compress(delimited(",").encode())))
    assert rows(table) == [{"text": text, "label": label} for text, label in REVIEWS]
    assert any("unpacked" in note for note in table.notes)


def test_labels_of_emoji_and_spaces_and_texts_from_right_to_left(tmp_path: Path) -> None:
    lines = [f"שלום עולם {n},{'😀 very good' if n % 2 else 'not good'}" for n in range(20)]
    path = write(tmp_path, "a.csv", "\n".join(["text,label", *lines]))
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(train=str(path), eval_fraction=0.0))
    data = load_labelled_texts(options)
    assert set(data.labels) == {"😀 very good", "not good"}
    assert data.train["text"][0] == "שלום עולם 0"


def test_a_column_of_only_empty_values(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.jsonl", '{"text": "a", "b": null}\n{"text": "c", "b": null}\n'))
    assert [row["b"] for row in rows(table)] == [None, None]
    assert read_table(write(tmp_path, "a.csv", "text,b\na,\nc,\n")).rows["b"].to_pylist() == ["", ""]


def test_of_many_columns_a_message_names_the_first_few(tmp_path: Path) -> None:
    names = ["x" * 500, *(f"n{number}" for number in range(20_000))]
    path = write(tmp_path, "a.csv", ",".join(names) + "\n")
    assert len(refusal(path).detail) < 500


@pytest.mark.timeout(120)  # each pair of names compared would take hours
def test_many_columns_cost_by_their_number(tmp_path: Path) -> None:
    names = ["".join(letters) for letters in product("cdefghij", repeat=6)]
    refuse_repeated(tmp_path / "a.csv", names)
    assert guess_pair(names) == ()
    assert guess_pair(["text", *names, "sentence1", "sentence2"]) == ("sentence1", "sentence2")
