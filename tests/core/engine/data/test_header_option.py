"""Whether the first row is a header: judged by the file, or said by the person."""

from pathlib import Path

import pytest

from core.engine.data.labelled_texts import load_labelled_texts
from core.options import RunOptions
from core.options.choices import Task, Toggle
from core.options.data import DataOptions


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    rows = [f"{'good' if row % 2 else 'bad'} film number {row},{row % 2}" for row in range(12)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


def load(table: Path, **data: object) -> tuple[int, tuple[str, ...]]:
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION, data=DataOptions(train=str(table), eval_fraction=0.0, **data)
    )
    found = load_labelled_texts(options)
    return len(found.train), found.labels


@pytest.mark.parametrize("header", [Toggle.AUTO, Toggle.ON])
def test_a_header_is_no_row(table: Path, header: Toggle) -> None:
    assert load(table, header=header) == (12, ("0", "1"))


def test_a_person_says_whether_the_first_row_names_the_columns(table: Path) -> None:
    named = {"text_columns": ("column 1",), "label_column": "column 2"}
    assert load(table, header=Toggle.OFF, **named) == (13, ("0", "1", "label"))


def test_evaluation_data_is_read_the_same_way(table: Path) -> None:
    named = {"text_columns": ("column 1",), "label_column": "column 2"}
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        data=DataOptions(train=str(table), eval=str(table), header=Toggle.OFF, **named),
    )
    found = load_labelled_texts(options)
    assert found.eval is not None
    assert len(found.eval) == 13
