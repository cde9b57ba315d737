"""Files with a word and its tag a line are tables of sentences."""

from pathlib import Path
from typing import Any

import pytest

from core.engine.data.tables import Table, read_table

TWO = "# a comment\n-DOCSTART- O\n\nParis B-LOC\nis O\n\n\nHi O\n# O\n"


def read(folder: Path, name: str, content: str) -> Table:
    (folder / name).write_text(content, encoding="utf-8")
    return read_table(folder / name)


@pytest.mark.parametrize("name", ["a.conll", "a.bio", "a.iob2", "a.txt", "a.tsv", "a"])
@pytest.mark.parametrize("divider", [" ", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sentences(tmp_path: Path, name: str, divider: str, end: str) -> None:
    content = TWO.replace("# a comment", "#").replace(" ", divider).replace("\n", end)
    table = read(tmp_path, name, content)
    assert (table.format, table.columns) == ("CoNLL", ("tokens", "tags"))
    assert table.rows.to_pylist() == [
        {"tokens": ["Paris", "is"], "tags": ["B-LOC", "O"]},
        {"tokens": ["Hi", "#"], "tags": ["O", "O"]},
    ]
    assert table.where(1) == f"line 8 of {name}"


def test_columns_between_keep_their_places(tmp_path: Path) -> None:
    table = read(tmp_path, "a.txt", "# id = 7\nParis NNP I-NP B-LOC\nis VBZ I-VP O\n")
    assert table.columns == ("tokens", "column 2", "column 3", "tags")
    assert table.rows["column 2"].to_pylist() == [["NNP", "VBZ"]]


def test_tokens_with_spaces_between_tabs(tmp_path: Path) -> None:
    assert read(tmp_path, "a.conll", "New York\tB-LOC\n").rows["tokens"].to_pylist() == [["New York"]]


def test_universal_dependencies_have_words_and_parts_of_speech(tmp_path: Path) -> None:
    lines = [
        "# text = We're",
        "1-2\tWe're" + "\t_" * 8,
        "1\tWe\twe\tPRON" + "\t_" * 6,
        "2\t're\tbe\tAUX" + "\t_" * 6,
    ]
    expected: list[dict[str, Any]] = [{"tokens": ["We", "'re"], "tags": ["PRON", "AUX"]}]
    assert read(tmp_path, "a.conllu", "\n".join(lines)).rows.to_pylist() == expected


def test_a_table_of_texts_is_none(tmp_path: Path) -> None:
    content = "text\tlabel\nsome words\tO\nother words\tB\n"
    assert read(tmp_path, "a.tsv", content).columns == ("text", "label")
