"""Texts and labels: columns found, rows cleaned, and every wrong input refused by name."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.base.errors import DataError
from core.engine.data.columns import as_text, guess_columns
from core.engine.data.labelled_texts import load_text_data
from core.engine.data.tables import read_table
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

REVIEWS = "text,label\n" + "".join(
    f"a review number {n} of many,{('good', 'bad')[n % 2]}\n" for n in range(40)
)


def options(**data: Any) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(**data))


def write(folder: Path, content: str, name: str = "a.csv") -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def refusal(**data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load_text_data(options(**data))
    return caught.value


def changes(error: DataError) -> list[dict[str, Any]]:
    return [fix.changes for fix in error.fixes if fix.changes]


@pytest.mark.data
def test_mrpc_pairs(shared_data: Path) -> None:
    folder = shared_data / "mrpc"
    data = load_text_data(
        options(train=str(folder / "msr_paraphrase_train.txt"), eval=str(folder / "msr_paraphrase_test.txt"))
    )
    assert data.text_columns == ("#1 String", "#2 String")
    assert data.label_column == "Quality"
    assert data.labels == ("0", "1")
    assert data.notes == ()
    assert data.train.column_names == ["text", "text_pair", "label"]
    assert Counter(data.train["label"]) == {1: 2753, 0: 1323}
    assert data.eval is not None
    assert Counter(data.eval["label"]) == {1: 1147, 0: 578}


def test_a_part_is_held_out_by_class_and_seed(tmp_path: Path) -> None:
    source = write(tmp_path, REVIEWS)
    data = load_text_data(options(train=source, eval_fraction=0.25))
    again = load_text_data(options(train=source, eval_fraction=0.25))
    assert data.labels == ("bad", "good")
    assert data.eval is not None
    assert again.eval is not None
    assert Counter(data.eval["label"]) == {0: 5, 1: 5}
    assert data.eval["text"][:] == again.eval["text"][:]
    assert not set(data.eval["text"]) & set(data.train["text"])
    assert len(data.train) == 30


def test_no_evaluation_when_nothing_is_held_out(tmp_path: Path) -> None:
    assert load_text_data(options(train=write(tmp_path, REVIEWS), eval_fraction=0.0)).eval is None
    few = load_text_data(options(train=write(tmp_path, "text,label\none text,a\nother text,b\n")))
    assert few.eval is None
    assert any("too few" in note for note in few.notes)


def test_limits_take_the_first_rows(tmp_path: Path) -> None:
    source = write(tmp_path, REVIEWS)
    data = load_text_data(options(train=source, eval=source, max_train_samples=6, max_eval_samples=3))
    assert data.train["text"][:] == [f"a review number {n} of many" for n in range(6)]
    assert data.eval is not None
    assert len(data.eval) == 3


def test_whole_numbers_sort_by_value(tmp_path: Path) -> None:
    content = "text,stars\n" + "".join(f"words and words {n},{n % 11}\n" for n in range(60))
    data = load_text_data(options(train=write(tmp_path, content)))
    assert data.labels == tuple(str(n) for n in range(11))


def test_json_labels_of_other_types(tmp_path: Path) -> None:
    content = (
        '[{"text": "a b", "label": true}, {"text": "c d", "label": false}, {"text": "e f", "label": null}]'
    )
    data = load_text_data(options(train=write(tmp_path, content, "a.json"), eval_fraction=0.0))
    assert data.labels == ("false", "true")
    assert any("record 3" in note for note in data.notes)


def test_rows_without_text_or_label_are_left_out_and_counted(tmp_path: Path) -> None:
    content = "text,label\nfine words,a\n,b\nmore words, \nlast words,b\n  ,a\n"
    data = load_text_data(options(train=write(tmp_path, content), eval_fraction=0.0))
    assert data.train["text"][:] == ["fine words", "last words"]
    note = next(note for note in data.notes if note.startswith("Left out"))
    assert "no “text” in 2 rows, the first is row 3 of a.csv" in note
    assert "no “label” in 1 row, the first is row 4 of a.csv" in note


def test_no_row_with_both(tmp_path: Path) -> None:
    error = refusal(train=write(tmp_path, "text,label\nsome words,\n,a\n,b\n"))
    assert "no usable rows" in error.title


def test_data_sets_travel_to_workers_and_map(tmp_path: Path) -> None:
    data = load_text_data(options(train=write(tmp_path, REVIEWS)))
    copy = pickle.loads(pickle.dumps(data.train))
    assert copy[0] == data.train[0]
    mapped = data.train.map(lambda row: {"size": len(row["text"])}, keep_in_memory=True)
    assert mapped["size"][0] == len(data.train["text"][0])
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, None, 2.0], ["1", None, "2"]),
        ([1.5, float("nan")], ["1.5", None]),
        ([float("inf"), 2.0], ["inf", "2"]),
        ([True, False], ["true", "false"]),
        ([["ä"]], ['["ä"]']),
        ([pa.MonthDayNano([1, 2, 0])], ["MonthDayNano(months=1, days=2, nanoseconds=0)"]),
        ([b"x"], ["b'x'"]),
        ([None], [None]),
    ],
)
def test_values_of_every_kind_as_text(values: list[Any], texts: list[str | None]) -> None:
    assert as_text(pa.chunked_array([pa.array(values)])).to_pylist() == texts


class TestGuesses:
    @pytest.mark.parametrize(
        ("header", "row", "text", "label"),
        [
            ("text,label", "some words,{0}", ("text",), "label"),
            ("id,review,sentiment", "{1},some {1} words,{0}", ("review",), "sentiment"),
            (
                "idx,sentence1,sentence2,label",
                "{1},some {1},words {1},{0}",
                ("sentence1", "sentence2"),
                "label",
            ),
            ("text_a,text_b,gold_label", "some {1},words {1},{0}", ("text_a", "text_b"), "gold_label"),
            ("premise,hypothesis,y", "some {1},words {1},{0}", ("premise", "hypothesis"), "y"),
            ("kind,what", "k{0},some long words {1}", ("what",), "kind"),
            ("Label,Tweet", "{0},some words {1}", ("Tweet",), "Label"),
        ],
    )
    def test_columns(self, tmp_path: Path, header: str, row: str, text: tuple[str, ...], label: str) -> None:
        lines = [row.format(number % 2, number) for number in range(100)]
        guess = guess_columns(read_table(Path(write(tmp_path, "\n".join([header, *lines])))))
        assert (guess.text, guess.label) == (text, label)

    def test_a_chosen_column_is_kept(self, tmp_path: Path) -> None:
        table = read_table(Path(write(tmp_path, REVIEWS)))
        assert guess_columns(table, ("label",), "text").label == "text"


class TestRefusals:
    def test_missing_label_column(self, tmp_path: Path) -> None:
        error = refusal(train=write(tmp_path, REVIEWS), label_column="lable")
        assert "a.csv has no column “lable”" in error.title
        assert "“text”, “label”" in error.detail
        assert changes(error) == [{"data.label_column": "label"}]

    def test_missing_text_column_keeps_the_other(self, tmp_path: Path) -> None:
        content = "first,second,same\n" + "".join(f"a {n},b {n},{n % 2}\n" for n in range(9))
        error = refusal(train=write(tmp_path, content), text_columns=("first", "Secnd"))
        assert changes(error) == [{"data.text_columns": ["first", "second"]}]

    def test_a_text_column_of_numbers(self, tmp_path: Path) -> None:
        content = "id,text,label\n" + "".join(f"{n}.5,words {n},{n % 2}\n" for n in range(9))
        error = refusal(train=write(tmp_path, content), text_columns=("id",))
        assert error.title == "Text column “id” of a.csv holds numbers"
        assert "row 2" in error.detail
        assert changes(error) == [{"data.text_columns": ["text"]}]

    def test_no_text_at_all(self, tmp_path: Path) -> None:
        assert "no column of texts" in refusal(train=write(tmp_path, "a,label\n1,0\n2,1\n")).title

    def test_one_class_only(self, tmp_path: Path) -> None:
        error = refusal(train=write(tmp_path, "text,label\nsome words,a\nother words,a\n"))
        assert "only one class" in error.title
        assert '"a"' in error.detail

    def test_one_class_only_because_of_a_limit(self, tmp_path: Path) -> None:
        content = "text,label\n" + "some words,a\n" * 9 + "other words,b\n" * 9
        error = refusal(train=write(tmp_path, content), max_train_samples=5)
        assert changes(error) == [{"data.max_train_samples": None}]

    def test_a_label_as_varied_as_the_rows(self, tmp_path: Path) -> None:
        content = "id,text,kind\n" + "".join(f"{n},words,{n % 3}\n" for n in range(80))
        error = refusal(train=write(tmp_path, content), label_column="id")
        assert "too many different values" in error.title
        assert "80 different values in 80 rows" in error.detail
        assert changes(error) == [{"data.label_column": "kind"}]

    def test_an_empty_label_column(self, tmp_path: Path) -> None:
        content = "text,label,kind\n" + "".join(f"words,,{n % 3}\n" for n in range(9))
        error = refusal(train=write(tmp_path, content), label_column="label")
        assert "“label” is empty" in error.title
        assert changes(error) == [{"data.label_column": "kind"}]

    def test_a_label_unseen_in_training(self, tmp_path: Path) -> None:
        evaluation = "text,label\nwords,good\n,good\nwords,awful\nwords,awful\n"
        error = refusal(train=write(tmp_path, REVIEWS), eval=write(tmp_path, evaluation, "test.csv"))
        assert '"awful"' in error.title
        assert "row 4 of test.csv" in error.detail
        assert "2 samples" in error.detail
        assert {"data.eval": None} in changes(error)

    def test_an_evaluation_file_without_the_column(self, tmp_path: Path) -> None:
        error = refusal(
            train=write(tmp_path, REVIEWS), eval=write(tmp_path, "words,label\na b,good\n", "test.csv")
        )
        assert "test.csv has no column “text”" in error.title

    def test_an_evaluation_file_with_numbers_for_texts(self, tmp_path: Path) -> None:
        evaluation = write(tmp_path, "text,label\n12,good\n13.5,bad\n", "test.csv")
        error = refusal(train=write(tmp_path, REVIEWS), eval=evaluation)
        assert error.title == "Text column “text” of test.csv holds numbers"
        assert changes(error) == [{"data.eval": None}]

    def test_an_evaluation_file_without_labels(self, tmp_path: Path) -> None:
        evaluation = write(tmp_path, "text,label\nsome words,\nmore words,\n", "test.csv")
        assert refusal(train=write(tmp_path, REVIEWS), eval=evaluation).title == "test.csv has no usable rows"

    @pytest.mark.parametrize("source", ["synthetic:4x16", "builtin:digits"])
    def test_real_texts_evaluated_on_something_else(self, tmp_path: Path, source: str) -> None:
        error = refusal(train=write(tmp_path, REVIEWS), eval=source)
        assert source in error.title
        assert changes(error) == [{"data.eval": None}]
