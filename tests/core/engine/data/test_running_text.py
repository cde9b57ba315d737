import csv
from pathlib import Path

import pytest

from core.base.errors import DataError
from core.engine.data.running_text import Documents, load_running_text, pieces
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def asked(train: Path, **data: object) -> RunOptions:
    model = ModelOptions(source="scratch:llama-tiny")
    return RunOptions(task=Task.CAUSAL_LM, model=model, data=DataOptions(train=str(train), **data))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_table(path: Path, rows: int, **more: str) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "story"])
        for row in range(rows):
            writer.writerow([row, f"Once upon a time, in the year {row}, there was a king of the sea."])
    return path


def whole(documents: Documents | None) -> str:
    assert documents is not None
    return "".join(documents)


LINES = "".join(f"This is line {number} of a text.\n" for number in range(200))


def test_the_end_of_a_text_is_held_out_at_the_end_of_a_line(tmp_path: Path) -> None:
    found = load_running_text(asked(write(tmp_path / "a.txt", LINES)))
    assert found.eval is not None
    assert whole(found.train) + whole(found.eval) == LINES
    assert whole(found.eval).startswith("This is line")
    assert found.eval.characters == pytest.approx(len(LINES) / 10, rel=0.05)


def test_of_a_folder_the_end_of_each_text_is_held_out(tmp_path: Path) -> None:
    write(tmp_path / "books" / "b.txt", LINES.upper())
    write(tmp_path / "books" / "a.md", LINES)
    found = load_running_text(asked(tmp_path / "books"))
    assert found.eval is not None
    assert [text[:4] for text in found.train] == ["This", "THIS"], "by the order of their names"
    assert [text[:4] for text in found.eval] == ["This", "THIS"]


def test_rows_stand_alone_so_that_the_seed_chooses_among_them(tmp_path: Path) -> None:
    table = write_table(tmp_path / "stories.csv", 50)
    found = load_running_text(asked(table))
    assert found.eval is not None
    train, held_out = list(found.train), list(found.eval)
    assert len(held_out) == 5
    assert len(train) == 45
    assert not set(train) & set(held_out)
    assert held_out == list(load_running_text(asked(table)).eval or ())
    assert [f"year {row}," in text for row, text in zip(range(45, 50), held_out, strict=True)] != [True] * 5


def test_a_file_of_its_own_is_evaluated_and_nothing_held_out(tmp_path: Path) -> None:
    found = load_running_text(
        asked(write(tmp_path / "a.txt", LINES), eval=str(write(tmp_path / "b.txt", "The test.\n")))
    )
    assert whole(found.train) == LINES
    assert whole(found.eval) == "The test.\n"


def test_nothing_is_held_out_where_nothing_is_wished(tmp_path: Path) -> None:
    found = load_running_text(asked(write(tmp_path / "a.txt", LINES), eval_fraction=0.0))
    assert found.eval is None
    assert found.notes == ()
    assert whole(found.train) == LINES


def test_a_single_row_cannot_be_held_out_of_itself(tmp_path: Path) -> None:
    found = load_running_text(asked(write_table(tmp_path / "a.csv", 3), eval_fraction=0.1))
    assert found.eval is None
    assert "nothing is evaluated" in found.notes[-1]


def test_a_chosen_column_makes_a_table_of_any_text(tmp_path: Path) -> None:
    table = write(tmp_path / "a.txt", "first\tsecond\n" + "one two\tthree four\n" * 20)
    found = load_running_text(asked(table, text_columns=("second",)))
    assert set(found.train) == {"three four"}


def test_a_text_is_no_table_because_of_its_commas(tmp_path: Path) -> None:
    found = load_running_text(asked(write(tmp_path / "a.txt", "one, two\n" * 50)))
    assert whole(found.train).startswith("one, two\none")


@pytest.mark.parametrize(
    ("columns", "message"),
    [(("saga",), "no column “saga”"), (("id", "story"), "one column"), (("empty",), "no column")],
)
def test_a_wrong_column_is_told(tmp_path: Path, columns: tuple[str, ...], message: str) -> None:
    table = write_table(tmp_path / "stories.csv", 20)
    with pytest.raises(DataError, match=message) as raised:
        load_running_text(asked(table, text_columns=columns))
    assert raised.value.fixes[-1].changes == {"data.text_columns": ["story"]}


def test_a_column_of_nothing_is_told(tmp_path: Path) -> None:
    table = write(tmp_path / "a.csv", "id,story\n1,\n2,  \n")
    with pytest.raises(DataError, match="no usable rows"):
        load_running_text(asked(table, text_columns=("story",)))


@pytest.mark.parametrize("content", ["", " \n \n"])
def test_an_empty_text_is_told(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match=r"a\.txt is empty"):
        load_running_text(asked(write(tmp_path / "a.txt", content)))


def test_random_tokens_are_no_evaluation(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't be evaluated on"):
        load_running_text(asked(write(tmp_path / "a.txt", LINES), eval="synthetic:8x8"))


@pytest.mark.parametrize("text", [LINES, "word " * 999, "x" * 5000, "", "\n" * 700])
def test_pieces_are_the_whole_text(text: str) -> None:
    cut = list(pieces(text, 100))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= 100 for piece in cut)


def test_pieces_end_where_a_tokenizer_would_begin_anew() -> None:
    assert all(piece.endswith("\n") for piece in pieces(LINES, 100))
    assert all(piece.startswith(" ") for piece in list(pieces("some words " * 50, 64))[1:])
