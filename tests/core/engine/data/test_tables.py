"""Tables are read as they are, whatever their delimiter, quoting, encoding or ending."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data.tables import Table, read_table

ROWS = [{"text": "good, really", "label": "pos"}, {"text": 'a "fine" one', "label": "neg"}]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(table: Table) -> list[dict[str, object]]:
    return list(table.rows.to_pylist())


def refusal(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_table(path)
    assert path.name in caught.value.title
    assert str(path) in caught.value.detail
    return caught.value


@pytest.mark.data
@pytest.mark.parametrize(("part", "count"), [("train", 4076), ("test", 1725)])
def test_mrpc_is_read_row_by_row(shared_data: Path, part: str, count: int) -> None:
    path = shared_data / "mrpc" / f"msr_paraphrase_{part}.txt"
    table = read_table(path)
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    by_hand = [line.rstrip("\r").split("\t") for line in lines if line]
    assert table.format == "TSV"
    assert table.rows.num_rows == count
    assert list(table.columns) == by_hand[0]
    assert [list(row.values()) for row in rows(table)] == by_hand[1:]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"good, really",pos\n"a ""fine"" one",neg\n'),
        ("a.csv", '\ufefftext,label\r\n"good, really",pos\r\n"a ""fine"" one",neg'),
        ("a.csv", 'text;label\ngood, really;pos\n"a ""fine"" one";neg\n'),
        ("a.tsv", 'text\tlabel\ngood, really\tpos\na "fine" one\tneg\n'),
        ("a.txt", 'text\tlabel\ngood, really\tpos\na "fine" one\tneg\n'),
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps({"data": ROWS}, indent=2)),
        ("a.json", "\n".join(json.dumps(row) for row in ROWS)),
        ("a.jsonl", "\n\n".join(json.dumps(row) for row in ROWS) + "\n"),
        ("a.jsonl", json.dumps(ROWS)),
        ("a.csv", 'text,label\r"good, really",pos\r"a ""fine"" one",neg\r'),
        ("a.csv", '\n\ntext,label\n"good, really",pos\n"a ""fine"" one",neg\n'),
        ("a.data", json.dumps(ROWS)),
    ],
)
def test_every_form_gives_the_same_rows(tmp_path: Path, name: str, content: str) -> None:
    assert rows(read_table(write(tmp_path, name, content))) == ROWS


@pytest.mark.parametrize("name", ["a.parquet", "a"])
def test_parquet(tmp_path: Path, name: str) -> None:
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / name)
    assert rows(read_table(tmp_path / name)) == ROWS


def test_values_stay_as_written(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", "text,label\nNA,007\n true ,1.50\n"))
    assert rows(table) == [{"text": "NA", "label": "007"}, {"text": " true ", "label": "1.50"}]


def test_rows_that_open_a_quote_and_never_close_it(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.tsv", 'text\tlabel\n"Stop!" he said\t1\n"Go\t0\nso"\t1\n'))
    assert [row["text"] for row in rows(table)] == ['"Stop!" he said', '"Go', 'so"']


def test_quoted_text_over_several_lines_counts_as_one_row(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", 'text,label\n"two\nlines",a\n\nlast,b\n'))
    assert rows(table) == [{"text": "two\nlines", "label": "a"}, {"text": "last", "label": "b"}]
    assert table.where(1) == "row 4 of a.csv"


@pytest.mark.parametrize(
    ("encoding", "noted"), [("utf-8", False), ("utf-8-sig", False), ("utf-16", False), ("cp1252", True)]
)
def test_encodings(tmp_path: Path, encoding: str, noted: bool) -> None:
    table = read_table(write(tmp_path, "a.csv", "text,label\nnaïve café,fr\n".encode(encoding)))
    assert rows(table) == [{"text": "naïve café", "label": "fr"}]
    assert any("line 2" in note and "Windows-1252" in note for note in table.notes) is noted


def test_objects_with_different_keys_and_mixed_values(tmp_path: Path) -> None:
    content = '{"text": "a", "label": 1}\n{"text": "b", "label": "x", "more": 2}\n'
    table = read_table(write(tmp_path, "a.jsonl", content))
    assert table.columns == ("text", "label", "more")
    assert [row["label"] for row in rows(table)] == ["1", "x"]
    assert any("label" in note for note in table.notes)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("reviews.csv", b"PAR1....PAR1", "Parquet"),
        ("reviews.csv", b"PK\x03\x04....", "Excel"),
        ("reviews.csv", b"%PDF-1.7", "PDF"),
        ("reviews.json", b"\x89PNG\r\n\x1a\n", "PNG"),
        ("reviews.csv", b"\x1f\x8b\x08\x00", "gzip"),
        ("reviews.tsv", b"<!DOCTYPE html><html>", "web page"),
        ("reviews.csv", b'[{"text": "a"}]', "JSON"),
        ("reviews.csv", b'{"text": "a"}\n{"text": "b"}', "JSON"),
        ("reviews.parquet", b"text,label\na,b\n", "something else"),
        ("reviews.csv", b"text,label\x00\x01\x02", "zero bytes"),
        ("reviews.txt", b"Once upon a time, there was\na file\nof prose, long, and so on\n", "neither"),
    ],
)
def test_a_file_that_is_not_what_its_ending_says(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    error = refusal(write(tmp_path, name, content))
    assert what in error.detail
    assert error.fixes


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.csv", "", "empty"),
        ("a.csv", "\ufeff \n\n", "empty"),
        ("a.jsonl", "\n\n", "empty"),
        ("a.csv", "text,label\n", "header but no rows"),
        ("a.json", "[]", "no rows"),
        ("a.csv", "text,label,text\na,b,c\n", "two columns called “text”"),
        ("a.csv", "text,label\na,b\nc,d,e\n", "row 3 has 3 columns, the header 2"),
        ("a.csv", "text,label\na,b\n\nc\n", "row 4 has 1 column, the header 2"),
        ("a.json", '[{"text": "a"},\n {"text": }]', "line 2"),
        ("a.json", "text,label\na,b\n", "line 1"),
        ("a.json", '["a", "b"]', "record 1 is not an object"),
        ("a.json", "3", "is not an object"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', "line 2"),
        ("a.parquet", "PAR1 and no more", "damaged"),
    ],
)
def test_what_cannot_be_read_names_the_place(tmp_path: Path, name: str, content: str, where: str) -> None:
    assert where in refusal(write(tmp_path, name, content)).title


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "There is no" in refusal(tmp_path / "nothing.csv").title
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "is a folder" in refusal(folder).title


def test_a_few_ragged_rows_are_left_out_and_noted(tmp_path: Path) -> None:
    lines = [f"text {number},{number % 2}" for number in range(300)]
    lines[100] = "one, two, three"
    table = read_table(write(tmp_path, "a.csv", "\n".join(["text,label", *lines])))
    assert table.rows.num_rows == 299
    assert table.where(100) == "row 103 of a.csv"
    assert any("1 row was left out of a.csv" in note and "row 102" in note for note in table.notes)


def test_row_numbers_hold_beyond_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.engine.data.delimited.BLOCK_BYTES", 4096)
    lines = [f"text {number},{number % 2}" for number in range(3000)]
    lines[2000] = "one, two, three"
    table = read_table(write(tmp_path, "a.csv", "\n".join(["", "text,label", *lines])))
    assert rows(table)[2000] == {"text": "text 2001", "label": "1"}
    assert table.where(2000) == "row 2,004 of a.csv"
    assert any("row 2,003" in note for note in table.notes)


def test_one_quote_left_open_in_a_quoted_file(tmp_path: Path) -> None:
    lines = [f'"text, {number}",{number % 2}' for number in range(300)]
    lines[100] = '"text, left open,1'
    table = read_table(write(tmp_path, "a.csv", "\n".join(["text,label", *lines])))
    whole = [{"text": f"text, {number}", "label": str(number % 2)} for number in range(300)]
    assert rows(table) == whole[:100] + whole[102:]  # the open quote takes the next line with it
    assert any("1 row was left out" in note and "row 102" in note for note in table.notes)


UNQUOTED = [f"good row {number},neg" for number in range(1000)]


@pytest.mark.parametrize("plain", [UNQUOTED, ["ab,n"] * 100_000])
def test_lines_that_an_open_quote_takes_are_counted_and_its_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: list[str]
) -> None:
    monkeypatch.setattr("core.engine.data.delimited.RAGGED_SHARE", 0.0005)
    lines = ["text,label", *['"hello, i",pos'] * 100, '"never closed,pos', *plain]
    assert "line 102" in refusal(write(tmp_path, "a.csv", "\n".join(lines))).title


def test_the_reading_that_loses_fewer_lines_counts(tmp_path: Path) -> None:
    lines = ["text,label", *['"hello, i",pos'] * 10, '"never closed,pos', *UNQUOTED]
    table = read_table(write(tmp_path, "a.csv", "\n".join(lines)))
    assert table.rows.num_rows == 1001
    assert any("line 12" in note.lower() for note in table.notes)


def test_quotes_are_text_where_all_lines_are_rows_that_way(tmp_path: Path) -> None:
    lines = ["text,label", *['"hello",pos'] * 10, '"never closed,pos', *UNQUOTED]
    table = read_table(write(tmp_path, "a.csv", "\n".join(lines)))
    assert table.rows.num_rows == 1011
    assert any("line 12" in note for note in table.notes)


def test_rows_in_a_cell_are_noted_though_its_quotes_are_in_order(tmp_path: Path) -> None:
    lines = ["text,label", '"hello, i",pos', '"never closed,pos', *UNQUOTED, 'of 5",neg']
    table = read_table(write(tmp_path, "a.csv", "\n".join(lines)))
    assert any("row 3" in note and "1,001 lines" in note for note in table.notes)
    prose = '"' + "\n".join(f"line {n} of a text, or{', perhaps' * (n % 3)}" for n in range(90)) + '",pos'
    assert read_table(write(tmp_path, "b.csv", f"text,label\n{prose}\n")).notes == ()


@pytest.mark.parametrize("header", ["text", "text,label"])
def test_rows_in_cells_are_noted_over_the_whole_file(tmp_path: Path, header: str) -> None:
    end = ",neg" * header.count(",")
    plain = [f"good row {number}{end}" for number in range(100)]
    strays = [*[f'"never closed{end}', *[f"good row{end}"] * 7, f'closed"{end}'] * 20]
    lines = [header, *plain, *strays, *plain]
    table = read_table(write(tmp_path, "a.csv", "\n".join(lines if end else [*lines, *strays])))
    assert any("row 102" in note and f"{160 if end else 320} lines" in note for note in table.notes)


def test_one_long_cell_of_the_only_column_is_noted(tmp_path: Path) -> None:
    plain = [f"good row {number}" for number in range(500)]
    lines = ["text", *plain[:100], '"never closed', *plain, 'closed"', *plain[:100]]
    notes = read_table(write(tmp_path, "a.csv", "\n".join(lines))).notes
    assert any("row 102" in note and "501 lines" in note for note in notes)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("text", ['"first line\nsecond line\nthird line"'] * 50),
        ("text", ['"first line\nsecond, or so\nthird line"', "short"] * 50),
        ("text", ["short"] * 100 + ['"first line\nsecond line\nthird line"'] * 5),
        ("text,label", ['"1 Street\nTown, XY\nLand",a', "short,b"] * 50),
        (
            "text,label",
            ['"verse one\nverse two, perhaps\nand three, too",a', '"a\nb\nc",b', '"a\n\nc",b'] * 50,
        ),
    ],
)
def test_texts_of_several_lines_are_not_noted(tmp_path: Path, header: str, rows: list[str]) -> None:
    table = read_table(write(tmp_path, "a.csv", "\n".join([header, *rows])))
    assert table.rows.num_rows == len(rows)
    assert not any("look like rows" in note for note in table.notes)


def test_a_row_too_long_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.engine.data.delimited.BLOCK_BYTES", 4096)
    error = refusal(write(tmp_path, "a.csv", "text,label\na,b\n" + "x" * 20_000 + ",c\n"))
    assert "can't be split into rows" in error.title


def test_a_column_without_a_name_gets_one(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", ",text,label\n0,good,pos\n1,bad,neg\n"))
    assert table.columns == ("column 1", "text", "label")
    assert any("column 1" in note for note in table.notes)


def test_nothing_is_written_beside_the_data(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text,label\na,b\n")
    read_table(path)
    assert list(tmp_path.iterdir()) == [path]
