"""All that is told of images before a run, at once."""

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.base.errors import DataError
from core.engine.data.image_checks import report_on_images
from core.engine.data.images import load_image_data
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.services.inspect import DataReport


def asked(train: Path | str, **data: Any) -> RunOptions:
    section = DataOptions(train=str(train), image_size=32, **data)
    return RunOptions(task=Task.IMAGE_CLASSIFICATION, data=section)


def report(train: Path | str, **data: Any) -> DataReport:
    return report_on_images(asked(train, **data))


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Five images of each of two classes, each of its own shade."""
    for place, name in enumerate(("cat", "dog")):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (40, 20), (100 * place, 20 * number, 0)).save(
                tmp_path / "pets" / name / f"{number}.png"
            )
    return tmp_path / "pets"


def test_a_folder(pets: Path) -> None:
    found = report(pets, eval_fraction=0.2)
    assert (found.format, found.rows, found.labels) == ("class folders", 10, {"cat": 5, "dog": 5})
    data = load_image_data(asked(pets, eval_fraction=0.2))
    assert (found.train_rows, found.eval_rows) == (len(data.train), len(data.eval or ()))
    assert (found.problems, found.findings) == ((), ())
    assert [seen.label for seen in found.seen[:2]] == ["cat", "dog"]
    assert len(found.seen) == 8
    assert Image.open(io.BytesIO(found.seen[0].image)).size == (32, 32)
    assert Image.open(io.BytesIO(found.seen[0].original)).size == (40, 20)


def test_a_table_with_its_columns(pets: Path) -> None:
    path = pets / "labels.csv"
    path.write_text("picture,kind\ncat/0.png,cat\ndog/0.png,dog\ncat/none.png,cat\n")
    found = report(path)
    assert [column.name for column in found.columns] == ["picture", "kind"]
    assert (found.columns_by_role, found.label_column) == ({"image": "picture"}, "kind")
    assert found.preview[1] == ("dog/0.png", "dog")
    assert found.preview_rows == (2, 3, 4)
    assert [finding.code for finding in found.findings] == ["image-missing", "class-of-one"]
    assert [(seen.row, seen.label) for seen in found.seen] == [(2, "cat"), (3, "dog")]


def test_all_at_once(pets: Path, tmp_path: Path) -> None:
    (pets / "cat" / "bad.png").write_text("no image")
    (pets / "cat" / "again.png").write_bytes((pets / "cat" / "0.png").read_bytes())
    (tmp_path / "test" / "emu").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "test" / "emu" / "0.png")
    found = report(pets, eval=str(tmp_path / "test"))
    assert [finding.code for finding in found.findings] == ["not-an-image", "image-repeated"]
    (problem,) = found.problems
    assert problem.path == "data.eval"
    assert "emu" in problem.message
    assert found.eval_rows is None


def test_evaluation_data_of_its_own_is_compared_with_what_is_trained_on(pets: Path, tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "test" / name).mkdir(parents=True)
        (tmp_path / "test" / name / "0.png").write_bytes((pets / name / "0.png").read_bytes())
    found = report(pets, eval=str(tmp_path / "test"))
    assert (found.train_rows, found.eval_rows) == (10, 2)
    assert [(finding.code, finding.count) for finding in found.findings] == [("image-in-both", 2)]


def test_one_class_only(tmp_path: Path) -> None:
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "pets" / "cat" / "0.png")
    (problem,) = report(tmp_path / "pets").problems
    assert "only one class" in problem.message


def test_digits_and_random_images() -> None:
    digits = report("builtin:digits")
    assert (digits.rows, digits.findings, len(digits.seen)) == (1797, (), 8)
    assert [seen.label for seen in digits.seen] == list("01234567")
    random = report("synthetic:64x48")
    assert (random.rows, random.train_rows, random.eval_rows, random.problems) == (64, 64, 0, ())


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no"):
        report(tmp_path / "gone")


def test_splits_there_are_to_choose_from(pets: Path, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        (tmp_path / "sets").mkdir(exist_ok=True)
        (tmp_path / "sets" / name).symlink_to(pets, target_is_directory=True)
    found = report(tmp_path / "sets", eval_split="dev")
    assert found.splits == ("dev", "train")
    assert (found.train_rows, found.eval_rows) == (10, 10)
    assert report(pets).splits == ()
