"""A first row of data is no header, a first row of names is one, and the person may say which it is."""

from pathlib import Path

import pytest

from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import read_table
from core.options import RunOptions
from core.options.choices import Task, Toggle
from core.options.data import DataOptions

LONG = "a sentence of some length that nobody would call a column"


@pytest.mark.parametrize(
    ("row", "header"),
    [
        ("{0},pos{1}", ""),
        ("{0}.5,words {0}", ""),
        (LONG + " {0},x{0}", ""),
        ('"{0}, and more",{1}', ""),
        ("words {0},yes{1}", "what,which"),
        ("words {0},{1}", "what,which"),
        ("words {0},label{1}", "text,label0"),
        ("{0},{1},words {0}", ",,what"),
        ("{0}\twords", "Quality\t#1 String"),
        (LONG + " {0},k{0}", "what,which"),
    ],
)
@pytest.mark.parametrize("count", [4, 300])
def test_header_or_none(tmp_path: Path, row: str, header: str, count: int) -> None:
    lines = [row.format(number, number % 2) for number in range(count)]
    (tmp_path / "a.csv").write_text("\n".join([header, *lines] if header else lines), encoding="utf-8")
    table = read_table(tmp_path / "a.csv")
    assert table.rows.num_rows == count
    assert table.where(0) == f"row {2 if header else 1} of a.csv"
    assert any("has no header" in note for note in table.notes) is (not header)
    if not header:
        assert table.columns == ("column 1", "column 2")


def test_a_header_that_stands_twice_is_none_the_less(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("what,which\na,x\nb,y\nc,x\nd,y\nwhat,which\n", encoding="utf-8")
    assert read_table(tmp_path / "a.csv").columns == ("what", "which")


def test_the_person_says_which(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x\n2,x\n3,x\n4,x\n", encoding="utf-8")
    assert read_table(tmp_path / "a.csv", header=True).columns == ("1", "x")
    assert read_table(tmp_path / "a.csv").columns == ("column 1", "column 2")
    (tmp_path / "b.csv").write_text("text,label\n", encoding="utf-8")
    table = read_table(tmp_path / "b.csv", header=False)
    assert table.rows.to_pylist() == [{"column 1": "text", "column 2": "label"}]
    (tmp_path / "c.csv").write_text("a,a\nb,c\nd,e\n", encoding="utf-8")
    ragged = read_table(tmp_path / "c.csv", header=False)
    assert ragged.rows.num_rows == 3


@pytest.mark.parametrize(("header", "rows"), [(Toggle.AUTO, 12), (Toggle.ON, 12), (Toggle.OFF, 13)])
def test_a_run_reads_training_and_evaluation_data_as_asked(tmp_path: Path, header: Toggle, rows: int) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"{'good' if row % 2 else 'bad'} film number {row},{row % 2}" for row in range(12)]
    path.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    named = {"text_columns": ("column 1",), "label_column": "column 2"} if header is Toggle.OFF else {}
    data = DataOptions(train=str(path), eval=str(path), header=header, **named)
    found = load_labelled_texts(RunOptions(task=Task.TEXT_CLASSIFICATION, data=data))
    assert found.eval is not None
    assert (len(found.train), len(found.eval)) == (rows, rows)
