"""Tables are read as they are, whatever their delimiter, quoting, encoding or ending, or refused with the place."""

import errno
import gzip
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data import delimited, tables, text_files
from core.engine.data.columns import guess_pair
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import Table, read_files, read_table
from core.options import RunOptions
from core.options.choices import Task, Toggle
from core.options.data import DataOptions

ROWS = [{"text": "good, really", "label": "pos"}, {"text": 'a "fine" one', "label": "neg"}]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def csv(*lines: str, header: str = "text,label") -> str:
    return "\n".join([header, *lines])


def rows(table: Table) -> list[dict[str, Any]]:
    return list(table.rows.to_pylist())


def refusal(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_table(path)
    assert path.name in caught.value.title
    assert str(path) in caught.value.detail
    return caught.value


def test_a_table_with_quotes_that_are_text_is_read_row_by_row(data_sets):
    path = data_sets / "pairs-test.txt"
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    by_hand = [line.rstrip("\r").split("\t") for line in lines if line]
    table = read_table(path)
    assert (table.format, list(table.columns)) == ("TSV", by_hand[0])
    assert [list(row.values()) for row in rows(table)] == by_hand[1:]


QUOTED = 'text,label\n"good, really",pos\n"a ""fine"" one",neg\n'
TABS = 'text\tlabel\ngood, really\tpos\na "fine" one\tneg\n'
COLUMNS = {name: [row[name] for row in ROWS] for name in ("text", "label")}
BY_NUMBER = {name: dict(enumerate(values)) for name, values in COLUMNS.items()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", QUOTED),
        ("a.csv", "\ufeff" + QUOTED.replace("\n", "\r\n").rstrip()),
        ("a.csv", QUOTED.replace("\n", "\r")),
        ("a.csv", f"\n\n{QUOTED}"),
        ("a.csv.gz", gzip.compress(QUOTED.encode(), mtime=0)),
        *(("a.csv", QUOTED.encode(encoding)) for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        *(("a.csv", QUOTED.replace('",', f'"{mark}').replace("text,", f"text{mark}")) for mark in "\t;|"),
        ("a.csv", f"sep=;\n{QUOTED}".replace('",', '";').replace("text,", "text;")),
        ("a.tsv", TABS),
        ("a.txt", TABS),
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps({"version": 2, "data": ROWS}, indent=2)),
        ("a.json", "\n".join(json.dumps(row) for row in ROWS)),
        ("a.json", json.dumps(COLUMNS)),
        ("a.json", json.dumps(BY_NUMBER)),
        ("a.jsonl", "\n\ufeff\n".join(json.dumps(row) for row in ROWS) + "\n"),
        ("a.jsonl", json.dumps(ROWS)),
        ("a.jsonl", json.dumps({"data": ROWS}, indent=2)),
        ("a.data", json.dumps(ROWS)),
        ("a.parquet", None),
        ("a", None),
    ],
)
def test_every_form_gives_the_same_rows(tmp_path, name, content):
    path = tmp_path / name
    if content is None:
        parquet.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        write(tmp_path, name, content)
    assert rows(read_table(path)) == ROWS
    assert [left for left in tmp_path.iterdir() if left.name != "home"] == [path]


UNQUOTED = [f"good row {number},neg" for number in range(1000)]
QUOTED_LINES = [f'"text, {number}",{number % 2}' for number in range(300)]
OPEN = csv(*QUOTED_LINES[:100], '"text, left open,1', *QUOTED_LINES[101:])
STRAYS = ['"never closed,neg', *["good row,neg"] * 7, 'closed",neg'] * 20
IN_CELL = csv('"hello, i",pos', '"never closed,pos', *UNQUOTED, 'of 5",neg')
INSIDE = "lines that look like rows are inside cells, first in row"
KINDS = '{"text": "a", "label": 1}\n{"text": "b", "label": "x"}\n'
NOTED: dict[str, tuple[str, str | bytes, int, str]] = {
    "one column": ("a.csv", "text label\nfine pos\nbad neg\n", 2, "one column only"),
    "no name": ("a.csv", ",text,label\n0,good,pos\n1,bad,neg\n", 2, "“column 1”"),
    "Windows-1252": ("a.csv", "text,label\nnaïve café,fr\n".encode("cp1252"), 1, "(line 2)"),
    "damaged bytes": ("a.csv", "text,label\ncafé,a\n".encode() + b"na\xefve,b\nna\xc3,c", 3, "line 3"),
    "the list": ("a.json", '{"version": 2, "data": [{"text": "a"}]}', 1, "“data”"),
    "columns": ("a.json", '{"text": ["a", "b"], "label": [0, 1]}', 2, "columns"),
    "kinds": ("a.jsonl", KINDS, 2, "“label”"),
    "open quote": ("a.csv", OPEN, 298, "ine 102"),
    "fewer lost": ("a.csv", csv(*['"hello, i",pos'] * 10, '"never closed,pos', *UNQUOTED), 1001, "ine 12"),
    "quotes are text": ("a.csv", csv(*['"hello",pos'] * 10, '"never closed,pos', *UNQUOTED), 1011, "line 12"),
    "rows in a cell": ("a.csv", IN_CELL, 2, f"1,001 {INSIDE} 3"),
    "rows in cells": ("a.csv", csv(*UNQUOTED[:100], *STRAYS, *UNQUOTED[:100]), 220, f"160 {INSIDE} 102"),
}


@pytest.mark.parametrize(("name", "content", "count", "note"), NOTED.values(), ids=NOTED)
def test_what_is_odd_is_noted(tmp_path, name, content, count, note):
    table = read_table(write(tmp_path, name, content))
    assert table.rows.num_rows == count
    assert any(note in message for message in table.messages), table.messages


REVIEW = '\t"설마끝이겠어?" 설마가\t'
AMONG_TABS = [f"{number}\tfine\t{number % 2}" for number in range(300)]
PLAIN_QUOTES = {
    "all rows whole": [f"1{REVIEW}0", *AMONG_TABS],
    "a row cut in two": [f"1{REVIEW}0", *AMONG_TABS, "7\tfirst half", *AMONG_TABS],
    "one that is never closed": ['1\t"so it began\t0', *AMONG_TABS],
}


@pytest.mark.parametrize("lines", PLAIN_QUOTES.values(), ids=PLAIN_QUOTES)
def test_nothing_is_said_about_quotes_that_are_plain_text_among_tabs(tmp_path, lines):
    table = read_table(write(tmp_path, "a.txt", csv(*lines, header="id\tdocument\tlabel")))
    assert table.reading["quoting"] == "no quoting"
    assert not any("quote" in message.lower() for message in table.messages), table.messages


def test_a_tab_file_with_too_many_bad_rows_is_not_blamed_on_a_quote(tmp_path):
    lines = [f"1{REVIEW}0", *AMONG_TABS, *["half a row"] * 400]
    error = refusal(write(tmp_path, "a.tsv", csv(*lines, header="id\tdocument\tlabel")))
    assert "row 303 has 1 column" in error.title


CUT = ["7\tthe first half", "the second half\t1"]
THREE = ["7\tone", "two", "three\t1"]
REVIEWS = "id\tdocument\tlabel"
OBJECTS = [json.dumps(row) for row in ROWS] * 10
BROKEN_LINE = "\n".join([*OBJECTS[:3], '{"text": "cut', *OBJECTS[3:]])
UNREAD = {
    "one too many": ("a.csv", csv(*UNQUOTED[:9], "one, two, three", *UNQUOTED[:9]), {"row-width": (11,)}),
    "one of two": ("a.csv", csv(*UNQUOTED[:9], "one", "two"), {"row-width": (11, 12)}),
    "open quote": ("a.csv", csv(*QUOTED_LINES[:298], '"no end,1', *QUOTED_LINES[:1]), {"row-width": (300,)}),
    "cut": ("a.txt", csv(*AMONG_TABS[:4], *CUT, *CUT, header=REVIEWS), {"line-break": (6, 7, 8, 9)}),
    "cut twice": ("a.tsv", csv(*AMONG_TABS[:4], *THREE, header=REVIEWS), {"line-break": (6, 7, 8)}),
    "half": (
        "a.tsv",
        csv(*AMONG_TABS[:4], *CUT, "7\thalf", *AMONG_TABS, header=REVIEWS),
        {"line-break": (6, 7), "row-width": (8,)},
    ),
    "not JSON": ("a.jsonl", BROKEN_LINE, {"not-json": (4,)}),
    "blank rows": ("a.csv", csv(*UNQUOTED[:9], ",,", "", *UNQUOTED[:9]), {}),
    "lines within quotes": ("a.csv", csv(*QUOTED_LINES[:9], '"one\ntwo",1'), {}),
}


@pytest.mark.parametrize(("name", "content", "expected"), UNREAD.values(), ids=UNREAD)
def test_rows_that_cant_be_read_are_named_with_the_reason(tmp_path, name, content, expected):
    table = read_table(write(tmp_path, name, content))
    assert {str(unread.code): unread.numbers for unread in table.unread} == expected


def test_rows_that_cant_be_read_are_known_in_parts_and_in_several_files(tmp_path):
    first = write(tmp_path, "a.csv", csv(*UNQUOTED[:5], "x,y,z", *UNQUOTED[:5], "x,y,z"))
    table = read_table(first)
    assert [unread.numbers for unread in table.first(6).unread] == [(7,)]
    assert table.first(5).unread == ()
    both = read_files([first, write(tmp_path, "b.csv", csv("x,y,z", *UNQUOTED[:3]))])
    rest = int(table.numbers[-1]) + 2
    assert [unread.numbers for unread in both.unread] == [(7, 13), (rest,)]
    assert both.where(len(both.numbers) - 1) == "row 5 of b.csv"


def test_only_some_lines_may_be_no_json(tmp_path):
    error = refusal(write(tmp_path, "a.jsonl", "\n".join(['{"text": "cut'] * 3 + OBJECTS[:2])))
    assert "line 1" in error.title


IN_QUOTES = {
    "long and short": ("text", ['"first line\nsecond, or so\nthird line"', "short"] * 50),
    "a few": ("text", ["short"] * 100 + ['"first line\nsecond line\nthird line"'] * 5),
    "addresses": ("text,label", ['"1 Street\nTown, XY\nLand",a', "short,b"] * 50),
    "blank lines": ("text,label", ['"one\ntwo, perhaps\nand three, too",a', '"a\n\nc",b'] * 50),
}


@pytest.mark.parametrize(("header", "lines"), IN_QUOTES.values(), ids=IN_QUOTES)
def test_texts_of_several_lines_are_not_noted(tmp_path, header, lines):
    table = read_table(write(tmp_path, "a.csv", csv(*lines, header=header)))
    assert table.rows.num_rows == len(lines)
    assert not any("look like rows" in message for message in table.messages)


def packed(*names: str) -> bytes:
    """A Parquet file with columns of these names."""
    written = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays([["a"] * 99] * len(names), names=names), written)
    return written.getvalue().to_pybytes()


A = '{"text": "a"},\n'
BIG = f'{{"text": {"1" * 5000}}}'
DAMAGED_JSON = [
    ("a.json", '[{"text": "a"},\n {"text": "b",}]', "line 2, column 1"),
    ("a.json", '[{"text": "a"}', "line 1, column 15"),
    ("a.json", "[{'text': 'a'}]", "line 1, column 3"),
    ("a.json", f"[{A * 900}]", "line 90"),
    ("a.json", "[" + '{"text": "a"}\n' * 900 + "]", "line 2, column 1"),
    ("a.json", f'[{A * 900}{{"text": "b}}]', "line 901, column 10"),
    ("a.json", '[{"text": "a"}]\n' * 900, "line 2, column 1"),
    ("a.json", "text,label\na,b\n", "line 1"),
    ("a.jsonl", '{"text": "a"}\n{"text": "b\n', "line 2, column 10"),
    ("a.json", f"[{A * 900}7]", "example 901 is not an object"),
    ("a.jsonl", '{"text": "a"}\n\n["b"]\n', "line 3 is not an object"),
    ("a.json", "3", "the file is not an object"),
    ("a.json", "[]", "no rows"),
    ("a.json", '{"data": []}', "no object"),
    ("a.json", '{"train": [{"a": 1}], "test": [{"a": 2}]}', "“train”, “test”"),
    ("a.jsonl", f'{{"text": "a", "b": {"[" * 5000}{"]" * 5000}}}\n', "line 1 is nested too deeply"),
    ("a.json", "[" * 100_000, "nested too deeply"),
    ("a.jsonl", f'{{"text": "a"}}\n{BIG}\n', "line 2 can't be read"),
    ("a.json", f"[{A}{BIG}]", "example 2 can't be read"),
    ("a.jsonl", "\n".join(json.dumps({f"user {n}": n}) for n in range(2500)), "more than 2,000 columns"),
]
BAD: list[tuple[str, str | bytes, str]] = [
    *DAMAGED_JSON,
    ("a.csv", "", "a.csv is empty"),
    ("a.jsonl", "\ufeff \n\n", "a.jsonl is empty"),
    ("a.csv", "text,label\n,\n", "no rows"),
    ("a.csv", "text,label\n", "header but no rows"),
    ("a.csv", " text,text \na,b\n", "columns 1, 2"),
    ("a.csv", "text,label\na,b\nc,d,e\n", "row 3 has 3 columns"),
    ("a.csv", "text,label\na,b\nc,d,e\n", "the delimiter must stand in double quotes. Row 3 begins"),
    ("a.tsv", "text\tlabel\na\tb\nc\td\te\n", "the delimiter must stand in double quotes. Row 3 begins"),
    ("a.tsv", 'text\tlabel\n"a" or\tb\nc\td\te\n', "quotes are plain text in this file, so that no text can"),
    ("a.csv", "\n\ntext,label\na,b\nc\n", "row 5 has 1 column "),
    ("a.csv", "text,label\n" + "a,b\n" * 900 + "c\n" * 99, "row 902 has 1 column "),
    ("a.csv", "text,label\n" + "a,b\n" * 900 + "c" * 9000 + ",d\n", "can't be split into rows"),
    ("a.csv", csv(*['"hello, i",pos'] * 100, '"never closed,pos', *UNQUOTED[:900]), "line 102"),
    ("a.conll", "Paris B-LOC\nis O\n\nso O x\n", "line 4"),
    ("a.conll", "word O\n\n" * 900 + "word\n", "line 1,801"),
    ("a.conll", "Paris\nis\n", "line 1"),
    ("a.conll", "# only\n\n# remarks\n", "no rows"),
    ("a.parquet", packed("text")[:-20], "is damaged"),
    ("a.parquet", packed("text", "text"), "two columns"),
    ("a.csv.gz", gzip.compress(b"text,label\n" * 99, mtime=0)[:-12], "can't be unpacked"),
    ("a.csv", b"\xff\xfet\x00e\x00x", "not readable as UTF-16"),
    ("a.csv", "text,label\nfine,a\nbad\x00,b\n", "line 3"),
    ("a.csv", b"PAR1....PAR1", "a Parquet file"),
    *(
        (name, magic + bytes(40), words)
        for magic in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
        for name, words in (
            ("a.docx", "a Word document"),
            ("letter.DOC", "a Word document"),
            ("a.xlsx", "an Excel workbook"),
            ("a.odt", "a document of a word processor"),
            ("a.ods", "a workbook of a spreadsheet program"),
            ("a.pptx", "a presentation"),
            ("a.epub", "an e-book"),
        )
    ),
    ("a.zip", b"PK\x03\x04" + bytes(40), "a ZIP file"),
    ("a.csv", b"PK\x03\x04" + bytes(40), "a ZIP file"),
    ("a.docx.txt", b"%PDF-1.7", "a PDF"),
    ("a.tsv", b"<!DOCTYPE html><html>", "a web page"),
    ("a.csv", b'[{"text": "a"}]', "a JSON file"),
    ("a.parquet", b"text,label\na,b\n", "something else"),
    ("a.txt", b"Once upon a time, there was\na file\nof prose, long, and so on\n", "no common columns"),
]


@pytest.mark.parametrize(("name", "content", "words"), BAD, ids=range(len(BAD)))
def test_what_cannot_be_read_names_the_place_and_leaves_nothing_behind(
    *, tmp_path, home, monkeypatch, name, content, words
):
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(delimited, "RAGGED_SHARE", 0.0005)
    path = write(tmp_path, name, content)
    in_memory = refusal(path)
    assert words in f"{in_memory.title} {in_memory.detail}"
    monkeypatch.setattr(tables, "LARGE_BYTES", 0)
    assert str(refusal(path)) == str(in_memory)
    assert not [left for left in home.rglob("*") if left.is_file() and left.suffix != ".arrow"]


@pytest.mark.parametrize(
    ("name", "start", "advice"),
    [
        ("a.docx", b"PK\x03\x04", ".txt"),
        ("a.xlsx", b"PK\x03\x04", "sheet as CSV"),
        ("a.pdf", b"%PDF", ".txt"),
        ("a.zip", b"PK\x03\x04", "Unpack it"),
    ],
)
def test_what_is_no_table_is_told_what_to_do(tmp_path, name, start, advice):
    error = refusal(write(tmp_path, name, start + bytes(40)))
    assert advice in error.fixes[0].label


def test_what_is_no_readable_file_is_refused(tmp_path):
    refusal(tmp_path / "nothing.csv")
    refusal(tmp_path)
    if os.name == "nt":
        return
    (tmp_path / "circle.csv").symlink_to(tmp_path / "circle.csv")
    refusal(tmp_path / "circle.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    refusal(tmp_path / "pipe.csv")
    refusal(Path("/dev/zero"))
    if os.geteuid() != 0:
        closed = write(tmp_path, "a.csv", QUOTED)
        closed.chmod(0)
        assert os.strerror(errno.EACCES) in refusal(closed).detail


def test_values_stay_as_written_and_rows_have_the_numbers_of_the_file(tmp_path):
    table = read_table(write(tmp_path, "a.csv", "text,label\nNA,007\n true ,1.50\n,\n,,,\n   \nc,\n"))
    assert [tuple(row.values()) for row in rows(table)] == [("NA", "007"), (" true ", "1.50"), ("c", "")]
    assert (table.where(2), table.notes) == ("row 7 of a.csv", ())
    table = read_table(write(tmp_path, "b.csv", 'text,label\n"two\nlines",a\n\nlast,b\n'))
    assert [row["text"] for row in rows(table)] == ["two\nlines", "last"]
    assert table.where(1) == "row 4 of b.csv"
    table = read_table(write(tmp_path, "a.tsv", 'text\tlabel\n"Stop!" he said\t1\n"Go\t0\nso"\t1\n'))
    assert [row["text"] for row in rows(table)] == ['"Stop!" he said', '"Go', 'so"']
    long = "many words " * 950_000
    assert rows(read_table(write(tmp_path, "c.csv", csv(f"{long},a", "b,c"))))[0]["text"] == long


DEEP = f"{'[' * 50}{{}}{']' * 50}"
KINDS_OF_ONE = ["1", '"1"', "1.0", "true", '{"a": 1}', '["x"]']
VALUES = {
    "64 bits": (True, ["18446744073709551616", "5"], None),
    "exact": (True, ["1152921504606846977", "0.5"], None),
    "kinds": (True, KINDS_OF_ONE, ["1", "1", "1", "true", '{"a": 1}', '["x"]']),
    "deep": (True, [DEEP, DEEP], None),
    "nested": (True, ["[]", "{}"], None),
    "names": (True, [f'{{"{n}": 1}}' for n in range(400)], None),
    "NaN": (False, ["NaN", "1.5"], ["nan", "1.5"]),
    "infinity": (False, ["Infinity", "-Infinity"], ["inf", "-inf"]),
    "dates": (False, ['"2026-11-21"', '"x"'], ["2026-11-21", "x"]),
    "half characters": (False, ['"\\ud83d"', '"a\\ud83d\\ude00"'], ["�", "a😀"]),
    "null": (False, ["null", "null"], ["None", "None"]),
}


@pytest.mark.parametrize(("has_no_type", "written", "expected"), VALUES.values(), ids=VALUES)
def test_values_of_json_that_arrow_has_no_type_for_are_texts(tmp_path, has_no_type, written, expected):
    content = "".join(f'{{"text": "words", "value": {value}}}\n' for value in written)
    table = read_table(write(tmp_path, "a.jsonl", content))
    assert [str(row["value"]) for row in rows(table)] == (expected or written)
    assert [note.column for note in table.notes if note.column] == ["value"] * has_no_type


TWICE, HALF = "“text” stands twice in an object, first in {place}", "half a character, first in {place}, "
ODD = {
    "lines": ("a.jsonl", '{"text": "a"}\n\n{"text": "b", "text": "c"}\n' * 2, TWICE, "line 3"),
    "an array": ("a.json", '[{"text": "a"}, {"text": "b", "text": "c"}]', TWICE, "example 2"),
    "a document": ("a.json", '{"data": [{"text": "a", "text": "b"}]}', TWICE, "the file"),
    "inside": ("a.jsonl", '{"a": "b"}\n{"a": [{"b": 1, "text": "a", "text": "a"}]}', TWICE, "line 2"),
    "a name that is half a character": ("a.jsonl", '{"\\ud83d": 1, "\\ud83d": 2}', "“�” stands twice in", ""),
    "no name": ("a.jsonl", '{"": 1, "": 2}', "“” stands twice in", ""),
    "a long name": ("a.jsonl", f'{{"{"k" * 999}": 1, "{"k" * 999}": 2}}', "k…” stands twice in", ""),
    "half in lines": ("a.jsonl", '{"text": "a"}\n{"text": "b \\ud83d c"}\n', HALF, "line 2"),
    "half in an array": ("a.json", '[{"text": "a"}, {"text": "\\uDE00"}]', HALF, "example 2"),
    "in several rows": ("a.jsonl", '{"text": "1", "other": 2}\n{"other": "text"}\n', TWICE, None),
    "as a value": ("a.jsonl", '{"text": "text", "a": {"text": "\\"text\\": 1"}}\n', TWICE, None),
    "whole characters": ("a.jsonl", '{"text": "\\ud83d\\ude00 \\\\ud83d", "n": NaN}\n', HALF, None),
}


@pytest.mark.parametrize(("name", "content", "note", "place"), ODD.values(), ids=ODD)
def test_what_json_loses_is_noted_once_with_its_place(tmp_path, name, content, note, place):
    found = read_table(write(tmp_path, name, content)).messages
    if place is None:
        assert not any("twice" in message or "half" in message for message in found), found
    else:
        assert sum(note.format(place=place) in message for message in found) == 1, found


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_one_conversation_is_a_row_and_its_turns_are_none(tmp_path, name):
    table = read_table(write(tmp_path, name, '{"messages": [{"role": "user", "content": "Hi"}]}'))
    assert table.columns == ("messages",)


@pytest.mark.timeout(120)  # each pair of names compared would take hours
def test_many_columns_cost_by_their_number(tmp_path):
    names = ["".join(letters) for letters in product("cdefghij", repeat=6)]
    assert guess_pair(["text", *names, "sentence1", "sentence2"]) == ("sentence1", "sentence2")


MANY = ["x" * 500, *(f"n{number}" for number in range(2000))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"{','.join(MANY)}\n" * 2),
        ("a.tsv", "0\t" * 2000 + "0\n"),
        ("a.parquet", pa.table({name: [0] for name in MANY})),
        ("a.jsonl", "\n".join(json.dumps({name: 1}) for name in MANY)),
    ],
    ids=["named", "no header", "Parquet", "names that differ"],
)
def test_more_than_2000_columns_are_refused_in_few_words(tmp_path, name, content):
    if isinstance(content, pa.Table):
        parquet.write_table(content, tmp_path / name)
    else:
        write(tmp_path, name, content)
    error = refusal(tmp_path / name)
    assert "more than 2,000 columns" in error.title
    assert len(error.detail) < 500


def test_2000_columns_are_read(tmp_path):
    table = read_table(write(tmp_path, "a.csv", f"{','.join(MANY[1:])}\n{'0,' * 1999}0\n"))
    assert len(table.columns) == 2000


def bomb(kind: str, path: Path, unpacked: int) -> Path:
    """A file of repetitions that is more than 200 times as large when it is unpacked."""
    if kind == "gzip":
        path.write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * (unpacked // 4), mtime=0))
    elif kind == "many rows":
        parquet.write_table(pa.table({"text": ["a"] * (unpacked // 5)}), path)
    else:
        parquet.write_table(pa.table({"text": ["a" * (unpacked // 8)] * 8}), path, compression="zstd")
    return path


@pytest.mark.parametrize("kind", ["gzip", "many rows", "long cells"])
@pytest.mark.parametrize(("unpacked", "is_refused"), [(8_000_000, True), (900_000, False)])
def test_what_unpacks_to_200_times_its_size_is_refused_above_a_size(
    *, tmp_path, monkeypatch, kind, unpacked, is_refused
):
    monkeypatch.setattr(text_files, "LARGE_BYTES", 1_000_000)
    path = bomb(kind, tmp_path / ("a.csv.gz" if kind == "gzip" else "a.parquet"), unpacked)
    if is_refused:
        assert "200 times its size" in refusal(path).title
    else:
        assert read_table(path).rows.num_rows


def test_a_large_table_of_few_values_is_no_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGE_BYTES", 1000)
    lines = csv(*(f"{number * 7919 % 1000} stars,{number % 3}" for number in range(20_000)))
    table = read_table(write(tmp_path, "a.csv.gz", gzip.compress(lines.encode(), mtime=0)))
    assert table.rows.num_rows == 20_000


LONG = "a sentence of some length that nobody would call a column"


class TestHeaders:
    @pytest.mark.parametrize(
        ("row", "header"),
        [
            ("{0},pos{1}", ""),
            ("{0}.5,words {0}", ""),
            (LONG + " {0},x{0}", ""),
            ('"{0}, and more",{1}', ""),
            ("words {0},yes{1}", "what,which"),
            ("words {0},label{1}", "text,label0"),
            ("{0},{1},words {0}", ",,what"),
            ("{0}\twords", "Quality\t#1 String"),
            (LONG + " {0},k{0}", "what,which"),
        ],
    )
    @pytest.mark.parametrize("count", [4, 300])
    def test_header_or_none(self, tmp_path, row, header, count):
        lines = [row.format(number, number % 2) for number in range(count)]
        table = read_table(write(tmp_path, "a.csv", "\n".join([header, *lines] if header else lines)))
        assert table.rows.num_rows == count
        assert table.where(0) == f"row {2 if header else 1} of a.csv"
        assert any("has no header" in message for message in table.messages) is (not header)
        assert header or table.columns == ("column 1", "column 2")

    def test_the_options_decide(self, tmp_path):
        path = write(tmp_path, "a.csv", "1,x\n2,x\n3,x\n4,x\n")
        assert read_table(path, header=True).columns == ("1", "x")
        only = read_table(write(tmp_path, "b.csv", "text,label\n"), header=False)
        assert rows(only) == [{"column 1": "text", "column 2": "label"}]
        assert read_table(write(tmp_path, "c.csv", "a,a\nb,c\nd,e\n"), header=False).rows.num_rows == 3
        twice = write(tmp_path, "d.csv", "what,which\na,x\nb,y\nc,x\nd,y\nwhat,which\n")
        assert read_table(twice).columns == ("what", "which")

    @pytest.mark.parametrize(("header", "count"), [(Toggle.AUTO, 12), (Toggle.ON, 12), (Toggle.OFF, 13)])
    def test_a_run_reads_training_and_evaluation_data_as_requested(self, tmp_path, header, count):
        lines = [f"{'good' if row % 2 else 'bad'} film number {row},{row % 2}" for row in range(12)]
        path = str(write(tmp_path, "rows.csv", csv(*lines)))
        named = {"text_columns": ("column 1",), "label_column": "column 2"} if header is Toggle.OFF else {}
        data = DataOptions(train=path, eval=path, header=header, **named)
        found = load_labelled_texts(RunOptions(task=Task.TEXT_CLASSIFICATION, data=data))
        assert (len(found.train), len(found.eval or ())) == (count, count)


TWO_SENTENCES = "#\n-DOCSTART- O\n\nParis B-LOC\nis O\n\n\nHi O\n# O\n"
PARIS = {"tokens": ["Paris", "is"], "column 2": ["NNP", "VBZ"], "tags": ["B-LOC", "O"]}
TREES = "# text = We're\n1-2\tWe're\t_\t_{0}\n1\tWe\twe\tPRON{0}\n2\t're\tbe\tAUX{0}\n".format("\t_" * 6)


class TestConll:
    @pytest.mark.parametrize("name", ["a.conll", "a.bio", "a.iob2", "a.txt", "a.tsv", "a"])
    @pytest.mark.parametrize(("divider", "end"), [(" ", "\n"), ("\t", "\r\n"), (" ", "\r")])
    def test_sentences(self, tmp_path, name, divider, end):
        table = read_table(write(tmp_path, name, TWO_SENTENCES.replace(" ", divider).replace("\n", end)))
        assert (table.format, table.where(1)) == ("CoNLL", f"line 8 of {name}")
        assert rows(table) == [
            {"tokens": ["Paris", "is"], "tags": ["B-LOC", "O"]},
            {"tokens": ["Hi", "#"], "tags": ["O", "O"]},
        ]

    @pytest.mark.parametrize(
        ("name", "content", "row"),
        [
            ("a.txt", "# id = 7\nParis NNP B-LOC\nis VBZ O\n", PARIS),
            ("a.conll", "New York\tB-LOC\n", {"tokens": ["New York"], "tags": ["B-LOC"]}),
            ("a.conllu", TREES, {"tokens": ["We", "'re"], "tags": ["PRON", "AUX"]}),
            ("a.tsv", "text\tlabel\nsome words\tO\n", {"text": "some words", "label": "O"}),
        ],
    )
    def test_columns(self, tmp_path, name, content, row):
        assert rows(read_table(write(tmp_path, name, content))) == [row]
