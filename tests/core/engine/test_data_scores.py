"""Texts with numbers: the column found, every value a number, wrong input refused by name."""

from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.scores import guess_score_columns, load_scored_texts
from core.engine.data.tables import read_table
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

ROWS = 20
PAIRS = "idx,sentence1,sentence2,score\n" + "".join(
    f"{n},the first text {n},a second text {n},{n / 4}\n" for n in range(ROWS)
)


def options(**data: Any) -> RunOptions:
    return RunOptions(task=Task.TEXT_REGRESSION, data=DataOptions(**data))


def write(folder: Path, content: str, name: str = "a.csv") -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def refusal(**data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load_scored_texts(options(**data))
    return caught.value


def changes(error: DataError) -> list[dict[str, Any]]:
    return [fix.changes for fix in error.fixes if fix.changes]


def test_pairs_with_a_number_each_are_split_by_seed(tmp_path: Path) -> None:
    source = write(tmp_path, PAIRS)
    data = load_scored_texts(options(train=source, eval_fraction=0.25))
    again = load_scored_texts(options(train=source, eval_fraction=0.25))
    assert (data.text_columns, data.label_column, data.labels) == (("sentence1", "sentence2"), "score", ())
    assert data.eval is not None
    assert again.eval is not None
    assert data.train.column_names == ["text", "text_pair", "label"]
    assert (len(data.train), len(data.eval)) == (15, 5)
    both = [*data.train["label"], *data.eval["label"]]
    assert sorted(both) == [n / 4 for n in range(ROWS)]
    assert data.eval["label"][:] == again.eval["label"][:]
    assert data.notes == ()


def test_evaluation_data_of_its_own(tmp_path: Path) -> None:
    evaluation = write(tmp_path, "sentence1,sentence2,score\na b,c d,9.5\n", "test.csv")
    data = load_scored_texts(options(train=write(tmp_path, PAIRS), eval=evaluation))
    assert data.eval is not None
    assert (len(data.train), data.eval["label"][:]) == (ROWS, [9.5])


def test_rows_without_a_number_are_left_out_and_told(tmp_path: Path) -> None:
    content = "text,stars\n" + "".join(f"some words {n},{n if n % 5 else ''}\n" for n in range(ROWS))
    data = load_scored_texts(options(train=write(tmp_path, content), eval_fraction=0.0))
    assert len(data.train) == 16
    assert data.notes == ("Left out: no “stars” in 4 rows, the first is row 2 of a.csv.",)


@pytest.mark.parametrize(
    ("header", "row", "score"),
    [
        ("text,label", "words go here,{n}.5", "label"),
        ("id,text,Rating", "{n},words go here,{r}", "Rating"),
        ("user_id,text,how much", "{r},words go here,0.{n}", "how much"),
        ("text,label,similarity", "words go here,yes,0.{n}", "similarity"),
        ("id,text", "{n},words go here", None),
    ],
)
def test_the_column_of_numbers_is_found(tmp_path: Path, header: str, row: str, score: str | None) -> None:
    content = f"{header}\n" + "".join(f"{row.format(n=n, r=n % 3)}\n" for n in range(1, 9))
    found = guess_score_columns(read_table(Path(write(tmp_path, content))))
    assert (found.label, found.text) == (score, ("text",))


class TestRefused:
    def test_a_value_that_is_no_number(self, tmp_path: Path) -> None:
        content = PAIRS.replace(",1.5\n", ",high\n").replace(",2.5\n", ",?\n")
        error = refusal(train=write(tmp_path, content))
        assert error.title == '“score” is not a number in row 8 of a.csv: "high"'
        assert 'in 2 rows: "high" in row 8, "?" in row 12.' in error.detail
        assert {"data.skip_bad_rows": True} in changes(error)

    @pytest.mark.parametrize("name", ["score", "how much"])
    @pytest.mark.parametrize("first", ["3,5", "nan", "high"])
    def test_a_first_value_that_is_no_number(self, tmp_path: Path, name: str, first: str) -> None:
        rows = [f"some words {n}\t{first if n in (0, 4) else n / 2}\n" for n in range(9)]
        path = write(tmp_path, "".join((f"text\t{name}\n", *rows)), "a.tsv")
        error = refusal(train=path)
        assert error.title == f'“{name}” is not a number in row 2 of a.tsv: "{first}"'
        assert ("need a point, not a comma" in error.detail) == (first == "3,5")
        kept = load_scored_texts(options(train=path, skip_bad_rows=True, eval_fraction=0.0))
        assert len(kept.train) == 7
        assert kept.notes[0].startswith("Left out as asked: 2 rows with something else than a number")

    @pytest.mark.parametrize("value", ["nan", "inf", "1e300", "1_000", "٣"])
    def test_a_value_no_model_computes_with(self, tmp_path: Path, value: str) -> None:
        error = refusal(train=write(tmp_path, PAIRS.replace(",1.5\n", f",{value}\n")), label_column="score")
        assert value in error.title

    def test_decimals_with_a_comma(self, tmp_path: Path) -> None:
        content = "text;score\n" + "".join(f"some words {n};{n},5\n" for n in range(9))
        error = refusal(train=write(tmp_path, content), label_column="score")
        assert "holds no numbers" in error.title
        assert "need a point, not a comma" in error.detail

    def test_a_column_of_classes(self, tmp_path: Path) -> None:
        content = "text,label\n" + "".join(f"some words {n},{('good', 'bad')[n % 2]}\n" for n in range(9))
        named = refusal(train=write(tmp_path, content), label_column="label")
        assert named.title == "Column “label” of a.csv holds no numbers"
        assert {"task": "text-classification"} in changes(named)
        assert refusal(train=write(tmp_path, content)).title == "a.csv has no column of numbers"

    def test_a_column_that_is_not_there(self, tmp_path: Path) -> None:
        error = refusal(train=write(tmp_path, PAIRS), label_column="grading")
        assert "no column “grading”" in error.title
        assert changes(error) == [{"data.label_column": "score"}]

    def test_an_empty_column(self, tmp_path: Path) -> None:
        content = "text,score,other\n" + "".join(f"some words {n},,{n / 2}\n" for n in range(9))
        error = refusal(train=write(tmp_path, content), label_column="score")
        assert "“score” is empty" in error.title
        assert changes(error) == [{"data.label_column": "other"}]

    def test_the_same_number_everywhere(self, tmp_path: Path) -> None:
        content = "text,score\n" + "".join(f"some words {n},3.5\n" for n in range(9))
        error = refusal(train=write(tmp_path, content))
        assert "the same number in every row" in error.title
        assert "3.5 in 9 rows" in error.detail

    def test_an_evaluation_file_with_something_else(self, tmp_path: Path) -> None:
        evaluation = write(tmp_path, "sentence1,sentence2,score\na b,c d,good\n", "test.csv")
        error = refusal(train=write(tmp_path, PAIRS), eval=evaluation)
        assert "row 2 of test.csv" in error.title
        assert changes(error) == [{"data.skip_bad_rows": True}, {"data.eval": None}]

    def test_an_evaluation_file_without_the_column(self, tmp_path: Path) -> None:
        evaluation = write(tmp_path, "sentence1,sentence2,mark\na b,c d,1\n", "test.csv")
        assert "no column “score”" in refusal(train=write(tmp_path, PAIRS), eval=evaluation).title


def test_large_numbers_are_told(tmp_path: Path) -> None:
    content = "text,price\n" + "".join(f"some words {n},{n * 1000}\n" for n in range(9))
    data = load_scored_texts(options(train=write(tmp_path, content), label_column="price"))
    assert any("goes up to 8,000" in note for note in data.notes)
