"""Inspection shows what is in the data, and what would stop a run, before it is started."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.base.errors import DataError
from core.engine.inspect.report import inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.services.inspect import ColumnKind, DataReport


def look(source: Path | str, task: Task = Task.TEXT_CLASSIFICATION, **columns: Any) -> DataReport:
    return inspect(RunOptions(task=task, data=DataOptions(train=str(source), **columns)))


def write(folder: Path, content: str) -> Path:
    path = folder / "a.csv"
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.data
def test_mrpc(shared_data: Path) -> None:
    path = shared_data / "mrpc" / "msr_paraphrase_train.txt"
    report = look(path)
    assert (report.format, report.rows) == ("TSV", 4076)
    assert (report.text_columns, report.label_column) == (("#1 String", "#2 String"), "Quality")
    assert report.labels == {"1": 2753, "0": 1323}
    assert report.problems == ()
    assert len(report.preview) == 200
    kinds = {column.name: column.kind for column in report.columns}
    assert kinds["#1 String"] is ColumnKind.TEXT
    assert kinds["#1 ID"] is ColumnKind.NUMBER


def test_columns_are_described(tmp_path: Path) -> None:
    report = look(write(tmp_path, "text,label\none text,a\none text,b\n,a\n"))
    text, label = report.columns
    assert (text.name, text.distinct, text.empty, text.examples) == ("text", 1, 1, ("one text",))
    assert (label.distinct, label.empty) == (2, 0)
    assert report.preview == (("one text", "a"), ("one text", "b"), ("", "a"))
    empty = next(finding for finding in report.findings if finding.code == "empty")
    assert (empty.message, empty.rows) == ("1 row has no “text” and is left out.", (4,))


def test_every_problem_is_reported_with_its_option(tmp_path: Path) -> None:
    path = write(tmp_path, "id,text,label\n" + "".join(f"{n},words {n},{n % 2}\n" for n in range(9)))
    report = look(path, text_columns=("id",), label_column="lable")
    assert [problem.path for problem in report.problems] == ["data.text_columns", "data.label_column"]
    assert "holds numbers" in report.problems[0].message
    assert report.problems[1].fixes[0].changes == {"data.label_column": "label"}


def test_one_class_only(tmp_path: Path) -> None:
    report = look(write(tmp_path, "text,label\nsome words,a\nother words,a\n"))
    assert "only one class" in report.problems[0].message
    assert report.labels == {"a": 2}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        look(tmp_path / "nothing.csv")


def test_digits() -> None:
    report = look("builtin:digits", Task.IMAGE_CLASSIFICATION)
    assert (report.rows, len(report.labels), report.problems) == (1797, 10, ())


def test_class_folders(tmp_path: Path) -> None:
    for name in ("cat", "cat2"):
        (tmp_path / name).mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "a.png")
    report = look(tmp_path, Task.IMAGE_CLASSIFICATION)
    assert report.labels == {"cat": 1}
    assert report.problems[0].path == "data.train"
    assert any("cat2" in note for note in report.notes)


@pytest.mark.parametrize("task", list(Task))
def test_synthetic_data_has_no_problems(task: Task) -> None:
    report = look("synthetic:64x32", task)
    assert (report.rows, report.problems) == (64, ())


REVIEWS = "text,label\n" + "".join(f"words {n},{('good', 'bad')[n % 2]}\n" for n in range(9))


def look_with_evaluation(folder: Path, content: str) -> DataReport:
    held_out = folder / "test.csv"
    held_out.write_text(content, encoding="utf-8")
    return look(write(folder, REVIEWS), eval=str(held_out))


def test_evaluation_data_is_counted(tmp_path: Path) -> None:
    report = look_with_evaluation(tmp_path, "label,text\ngood,some words\nbad,more words\ngood,\n")
    assert (report.rows, report.eval_rows, report.problems) == (9, 2, ())
    alone = look(tmp_path / "a.csv")
    assert (alone.train_rows, alone.eval_rows) == (8, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "test.csv is empty"),
        ("words,label\nsome,good\n", "no column “text”"),
        ("text,label\n12,good\n", "holds numbers"),
    ],
)
def test_what_is_wrong_with_evaluation_data_is_its_own_problem(
    tmp_path: Path, content: str, words: str
) -> None:
    report = look_with_evaluation(tmp_path, content)
    assert [problem.path for problem in report.problems] == ["data.eval"]
    assert words in report.problems[0].message
    assert report.eval_rows is None
    assert report.labels == {"good": 5, "bad": 4}


def test_evaluation_images(tmp_path: Path) -> None:
    for name in ("train/cat", "train/dog", "test/cat", "test/emu"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "a.png")
    digits = look("builtin:digits", Task.IMAGE_CLASSIFICATION, eval="builtin:digits")
    assert (digits.eval_rows, digits.problems) == (1797, ())
    report = look(tmp_path / "train", Task.IMAGE_CLASSIFICATION, eval=str(tmp_path / "test"))
    assert [problem.path for problem in report.problems] == ["data.eval"]
    assert "emu" in report.problems[0].message
