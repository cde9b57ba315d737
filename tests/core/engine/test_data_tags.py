"""Words with tags: columns found, tags named, words and tags matched, wrong input refused by name."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data.labelled_texts import load_tagged_texts
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

CONLL = """-DOCSTART- -X- O O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German JJ B-NP B-MISC
call NN I-NP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

BRUSSELS NNP B-NP B-LOC
1996-08-22 CD I-NP O
"""
LABELS = ("B-LOC", "B-MISC", "B-ORG", "B-PER", "I-PER", "O")


def options(**data: Any) -> RunOptions:
    return RunOptions(task=Task.TOKEN_CLASSIFICATION, data=DataOptions(**data))


def write(folder: Path, content: str, name: str) -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def json_lines(folder: Path, *rows: dict[str, Any], name: str = "a.jsonl") -> str:
    return write(folder, "".join(f"{json.dumps(row)}\n" for row in rows), name)


def refusal(**data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load_tagged_texts(options(**data))
    return caught.value


def changes(error: DataError) -> list[dict[str, Any]]:
    return [fix.changes for fix in error.fixes if fix.changes]


def everything(data: Any) -> list[tuple[list[str], list[str]]]:
    """Words and the names of their tags, training data first."""
    parts = [part for part in (data.train, data.eval) if part is not None]
    return [(row["tokens"], [data.labels[index] for index in row["label"]]) for part in parts for row in part]


def test_a_conll_file(tmp_path: Path) -> None:
    data = load_tagged_texts(options(train=write(tmp_path, CONLL, "train.conll"), eval_fraction=0.0))
    assert (data.text_columns, data.label_column, data.labels) == (("tokens",), "tags", LABELS)
    assert everything(data) == [
        (["EU", "rejects", "German", "call"], ["B-ORG", "O", "B-MISC", "O"]),
        (["Peter", "Blackburn"], ["B-PER", "I-PER"]),
        (["BRUSSELS", "1996-08-22"], ["B-LOC", "O"]),
    ]


def test_another_column_of_tags(tmp_path: Path) -> None:
    source = write(tmp_path, CONLL, "train.conll")
    data = load_tagged_texts(options(train=source, label_column="column 2", eval_fraction=0.0))
    assert data.labels == ("CD", "JJ", "NN", "NNP", "VBZ")


def test_a_part_is_held_out_by_seed(tmp_path: Path) -> None:
    rows = [{"words": [f"w{n}", "x"], "tags": ["B-X", "O"]} for n in range(20)]
    source = json_lines(tmp_path, *rows)
    data = load_tagged_texts(options(train=source, eval_fraction=0.25, max_eval_samples=4))
    again = load_tagged_texts(options(train=source, eval_fraction=0.25, max_eval_samples=4))
    assert data.eval is not None
    assert (len(data.train), len(data.eval)) == (15, 4)
    assert everything(data) == everything(again)
    assert not {row["tokens"][0] for row in data.train} & {row["tokens"][0] for row in data.eval}
    assert all(tags == ["B-X", "O"] for _, tags in everything(data))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("sentence,tags", '"EU rejects","B-ORG O"'),
        ("tokens,ner_tags", "\"['EU', 'rejects']\",\"['B-ORG', 'O']\""),
        ("text,labels", '"[""EU"", ""rejects""]","[""B-ORG"", ""O""]"'),
    ],
)
def test_lists_written_as_text(tmp_path: Path, header: str, row: str) -> None:
    data = load_tagged_texts(
        options(train=write(tmp_path, f"{header}\n{row}\n{row}\n", "a.csv"), eval_fraction=0.0)
    )
    assert everything(data)[0] == (["EU", "rejects"], ["B-ORG", "O"])


def test_lists_under_names_nobody_foresaw(tmp_path: Path) -> None:
    row = {"number": [7], "these": ["EU", "rejects"], "those": ["X", "Y"]}
    data = load_tagged_texts(options(train=json_lines(tmp_path, row, row)))
    assert (data.text_columns, data.label_column) == (("these",), "those")


def parquet_file(folder: Path, names: list[str] | None) -> str:
    table = pa.table({"tokens": [["EU", "rejects"], ["Peter"]], "ner_tags": [[1, 0], [2]]})
    if names:
        feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
        written = json.dumps({"info": {"features": {"ner_tags": feature}}})
        table = table.replace_schema_metadata({"huggingface": written})
    parquet.write_table(table, folder / "a.parquet")
    return str(folder / "a.parquet")


def test_numbers_stand_for_the_names_a_data_set_brings(tmp_path: Path) -> None:
    data = load_tagged_texts(
        options(train=parquet_file(tmp_path, ["O", "B-ORG", "B-PER"]), eval_fraction=0.0)
    )
    assert everything(data) == [(["EU", "rejects"], ["B-ORG", "O"]), (["Peter"], ["B-PER"])]


def test_numbers_without_names_are_their_own(tmp_path: Path) -> None:
    data = load_tagged_texts(options(train=parquet_file(tmp_path, None), eval_fraction=0.0))
    assert data.labels == ("0", "1", "2")
    assert everything(data)[0] == (["EU", "rejects"], ["1", "0"])


def test_rows_without_words_are_left_out_and_told(tmp_path: Path) -> None:
    row, empty = {"tokens": ["EU", "x"], "tags": ["B-ORG", "O"]}, {"tokens": [], "tags": []}
    data = load_tagged_texts(options(train=json_lines(tmp_path, empty, row, row), eval_fraction=0.0))
    assert len(data.train) == 2
    assert data.notes == ("Left out: 1 row without a word.",)


class TestRefused:
    GOOD = {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}

    def test_more_words_than_tags(self, tmp_path: Path) -> None:
        error = refusal(
            train=json_lines(tmp_path, self.GOOD, {"tokens": ["a", "b", "c"], "tags": ["O"]}, self.GOOD)
        )
        assert error.title == "Line 2 of a.jsonl has 3 words and 1 tag"
        assert "1 row is like that" in error.detail

    def test_a_tag_unseen_in_training(self, tmp_path: Path) -> None:
        train = json_lines(tmp_path, self.GOOD, self.GOOD)
        seldom = {"tokens": ["Peter", "x", "Paul"], "tags": ["B-PER", "O", "B-PER"]}
        evaluation = json_lines(tmp_path, self.GOOD, seldom, name="test.jsonl")
        error = refusal(train=train, eval=evaluation)
        assert '"B-PER"' in error.title
        assert "line 2 of test.jsonl. 2 words have" in error.detail
        assert {"data.eval": None} in changes(error)

    def test_a_tag_that_is_missing(self, tmp_path: Path) -> None:
        error = refusal(train=json_lines(tmp_path, self.GOOD, {"tokens": ["a", "b"], "tags": ["O", None]}))
        assert error.title == "A value of “tags” is missing in line 2 of a.jsonl"

    def test_a_number_without_a_name(self, tmp_path: Path) -> None:
        error = refusal(train=parquet_file(tmp_path, ["O", "B-ORG"]), eval_fraction=0.0)
        assert error.title == "A value of “ner_tags” is missing in row 2 of a.parquet"

    def test_a_list_that_can_not_be_read(self, tmp_path: Path) -> None:
        source = write(tmp_path, "tokens,tags\n\"['EU', 'x']\",O O\n\"['EU' x']\",O O\n", "a.csv")
        error = refusal(train=source)
        assert error.title == "“tokens” can't be read in row 3 of a.csv"

    def test_no_column_of_tags(self, tmp_path: Path) -> None:
        error = refusal(train=json_lines(tmp_path, {"tokens": ["a", "b"], "id": 3}))
        assert error.title == "a.jsonl has no column of tags"

    def test_a_column_that_is_not_there(self, tmp_path: Path) -> None:
        error = refusal(train=json_lines(tmp_path, self.GOOD), label_column="tag")
        assert changes(error) == [{"data.label_column": "tags"}]

    def test_two_columns_of_words(self, tmp_path: Path) -> None:
        error = refusal(train=json_lines(tmp_path, self.GOOD), text_columns=("tokens", "words"))
        assert changes(error) == [{"data.text_columns": ["tokens"]}]

    def test_a_column_of_numbers(self, tmp_path: Path) -> None:
        row = {"tokens": ["a", "b"], "count": 2}
        assert "holds no lists" in refusal(train=json_lines(tmp_path, row), label_column="count").title

    def test_spans_of_a_text(self, tmp_path: Path) -> None:
        row = {"tokens": ["a", "b"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}
        assert "holds no lists of tags" in refusal(train=json_lines(tmp_path, row)).title

    def test_one_tag_only(self, tmp_path: Path) -> None:
        row = {"tokens": ["a", "b"], "tags": ["O", "O"]}
        assert "only one class" in refusal(train=json_lines(tmp_path, row, row)).title

    def test_nothing_but_empty_rows(self, tmp_path: Path) -> None:
        rows = [{"tokens": [], "tags": [], "id": 1}] * 2
        assert refusal(train=json_lines(tmp_path, *rows)).title == "a.jsonl has no usable rows"

    def test_evaluation_data_of_another_form(self, tmp_path: Path) -> None:
        evaluation = write(tmp_path, "text,label\nwords,good\n", "test.csv")
        assert "no column “tokens”" in refusal(train=json_lines(tmp_path, self.GOOD), eval=evaluation).title
