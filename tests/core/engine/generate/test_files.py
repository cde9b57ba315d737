"""Many images, and files of texts, are answered as one by one; what can't be has its reason."""

import csv
import shutil

import pytest

from core.base.errors import DataError, UserError
from core.jobs.chat import Files, FilesPart, Image, Texts
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import Received, ask, examples, load, reviews, tried, write_reviews


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    run = tried(
        folder / "run",
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=str(save_tiny_bert(folder / "bert"))),
        data=reviews(write_reviews(folder / "reviews.csv", 40), eval_fraction=0.25),
    )
    return load(run)


def answered(model, path, folder, received=None, *, in_pairs=False):
    """The answer to a file, and the rows that were written."""
    output = folder / "answers.csv"
    given = Files(paths=(str(path),), output=str(output), in_pairs=in_pairs)
    told = ask(model, given, received)
    with output.open(encoding="utf-8-sig", newline="") as file:
        return told, [*csv.reader(file)]


TABLE = 'id;text;predicted\n1;good film;x\n2;;y\n3;a "very" bad, bad film;z\n'


def test_each_row_of_a_table_has_the_answer_that_its_text_has_alone(reader, tmp_path):
    (tmp_path / "new.csv").write_text(TABLE)
    told, rows = answered(reader, tmp_path / "new.csv", tmp_path)
    assert rows[0] == ["id", "text", "predicted", "predicted_2", "probability", "problem"]
    assert told.added == ("predicted_2", "probability", "problem")
    for row in (rows[1], rows[3]):
        alone = ask(reader, Texts(texts=(row[1],))).chances[0]
        assert row[3:] == [alone.label, f"{alone.chance:.4f}", ""]
    assert rows[2] == ["2", "", "y", "", "", "Write a text first."]
    assert rows[3][:3] == ["3", 'a "very" bad, bad film', "z"]
    assert (told.rows, told.notes) == (2, ("1 has no answer; the reason is in the column “problem”.",))


@pytest.mark.parametrize("ending", ["txt", "md"])
def test_a_text_file_that_is_no_table_is_answered_line_by_line(reader, tmp_path, ending):
    path = tmp_path / f"new.{ending}"
    path.write_text("good film\n\nbad, bad film, really\nso so\n")
    told, rows = answered(reader, path, tmp_path)
    assert [row[0] for row in rows] == ["text", "good film", "bad, bad film, really", "so so"]
    assert (told.rows, told.notes) == (3, ())


def test_pairs_are_read_from_two_columns(reader, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a\tb\tnumber\ngood film\tbad film\t1\nbad\tgood\t2\n")
    _told, rows = answered(reader, tmp_path / "pairs.tsv", tmp_path, in_pairs=True)
    alone = ask(reader, Texts(texts=("good film", "bad film"))).chances[0]
    assert rows[1][3:] == [alone.label, f"{alone.chance:.4f}"]
    (tmp_path / "one.tsv").write_text("a\nfilm\ngood\n")
    with pytest.raises(DataError, match=r"one\.tsv has no two columns of texts"):
        answered(reader, tmp_path / "one.tsv", tmp_path, in_pairs=True)


def test_a_stopped_file_keeps_all_rows(reader, tmp_path):
    (tmp_path / "new.csv").write_text("text,n\n" + "good film,1\n" * 9)
    received = Received(0)
    told, rows = answered(reader, tmp_path / "new.csv", tmp_path, received)
    assert (len(rows), told.rows, told.notes) == (10, 0, ("Stopped: 0 of 9 were answered.",))
    assert rows[1] == ["good film", "1", "", ""]


def test_images_in_folders_are_answered_and_broken_ones_named(tmp_path):
    run = tried(
        tmp_path / "digits",
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:squeezenet1_0", pretrained=False),
        data=DataOptions(train="builtin:digits", image_size=32, max_train_samples=40),
    )
    folder = tmp_path / "new"
    (folder / "b").mkdir(parents=True)
    model, files = load(run), [run.path / example.image for example in examples(run)]
    shutil.copy(files[0], folder / "10.png")
    shutil.copy(files[1], folder / "b" / "9.png")
    (folder / "2.png").write_text("no image")
    (folder / "notes.txt").write_text("no image")
    told, rows = answered(model, folder, tmp_path)
    assert [row[0] for row in rows] == [
        "file",
        *(str(folder / name) for name in ("10.png", "2.png", "b/9.png")),
    ]
    assert rows[2][3] == "a text file."
    for row in (rows[1], rows[3]):
        alone = ask(model, Image(path=row[0])).chances[0]
        assert row[1:] == [alone.label, f"{alone.chance:.4f}", ""]
    assert told.rows == 2
    shutil.rmtree(folder / "b")
    (folder / "10.png").unlink()
    (folder / "2.png").unlink()
    with pytest.raises(DataError, match="There are no images to classify"):
        answered(model, folder, tmp_path)


def test_several_files_of_texts_are_refused(reader, tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(UserError, match="one file at a time"):
        ask(reader, Files(paths=tuple(map(str, paths)), output=str(tmp_path / "o.csv")))


def test_progress_is_told(reader, tmp_path, monkeypatch):
    monkeypatch.setattr("core.engine.generate.files.TELL_SECONDS", 0.0)
    (tmp_path / "new.csv").write_text("text,n\ngood film,1\nbad film,2\n")
    received = Received()
    answered(reader, tmp_path / "new.csv", tmp_path, received)
    assert received.parts == [FilesPart(id=1, done=1, total=2), FilesPart(id=1, done=2, total=2)]


def test_the_reasons_are_said_to_be_in_the_column_that_has_them(reader, tmp_path):
    (tmp_path / "new.csv").write_text("text,problem\ngood film,old\n ,new\n")
    told, rows = answered(reader, tmp_path / "new.csv", tmp_path)
    assert rows[0] == ["text", "problem", "predicted", "probability", "problem_2"]
    assert told.notes == ("1 has no answer; the reason is in the column “problem_2”.",)
