"""Tables that name images, and Parquet files that hold them."""

import io
import json
import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data import parquet_images
from core.engine.data.images import ImageData, load_image_data, read_image_table
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

SHADES = {"cat": 0, "dog": 200}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("HONE_HOME", str(home))
    return home


def picture(label: str, number: int = 0) -> Image.Image:
    return Image.new("RGB", (20, 10), (SHADES[label], 100, number))


def png(label: str, number: int = 0) -> bytes:
    written = io.BytesIO()
    picture(label, number).save(written, "PNG")
    return written.getvalue()


def load(path: Path, **data: Any) -> ImageData:
    asked = DataOptions(train=str(path), image_size=32, **data)
    return load_image_data(RunOptions(task=Task.IMAGE_CLASSIFICATION, data=asked))


def refusal(path: Path, **data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load(path, **data)
    return caught.value


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Four files of images in a folder of their own."""
    folder = tmp_path / "set" / "images"
    folder.mkdir(parents=True)
    for number, label in enumerate(("cat", "dog", "cat", "dog")):
        picture(label, number).save(folder / f"{number}.png")
    return folder


def table(pictures: Path, rows: Sequence[Sequence[str]], name: str = "labels.csv") -> Path:
    path = pictures.parent / name
    mark = "\t" if name.endswith(".tsv") else ","
    path.write_text("".join(mark.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


ROWS = (
    ("id", "file_name", "kind"),
    ("1", "images/0.png", "cat"),
    ("2", "images/1.png", "dog"),
    ("3", "images/2.png", "cat"),
    ("4", "images/3.png", "dog"),
)


def check_pixels(data: ImageData) -> None:
    """Each image comes with its own label."""
    for index in range(len(data.train)):
        sample = data.train[index]
        is_dog = bool(sample["pixel_values"][0, 0, 0] > 0)
        assert is_dog == (data.labels[sample["labels"]] == "dog")


class TestPaths:
    @pytest.mark.parametrize("name", ["labels.csv", "labels.tsv"])
    def test_columns_are_guessed(self, pictures: Path, name: str) -> None:
        path = table(pictures, ROWS, name)
        found = read_image_table(path)
        assert (found.image_column, found.label_column) == ("file_name", "kind")
        assert [column.name for column in found.columns] == ["id", "file_name", "kind"]
        check_pixels(load(path, eval_fraction=0.0))

    def test_columns_can_be_chosen(self, pictures: Path) -> None:
        rows = [("a", "b", "x", "y"), *((row[1], "images/3.png", row[2], row[0]) for row in ROWS[1:])]
        path = table(pictures, rows)
        data = load(path, image_column="b", label_column="y", eval_fraction=0.0)
        assert data.labels == ("1", "2", "3", "4")
        assert all(
            torch.equal(data.train[i]["pixel_values"], data.train[3]["pixel_values"]) for i in range(4)
        )

    def test_json_lines(self, pictures: Path) -> None:
        path = pictures.parent / "labels.jsonl"
        path.write_text("".join(json.dumps({"image": row[1], "label": row[2]}) + "\n" for row in ROWS[1:]))
        check_pixels(load(path, eval_fraction=0.0))

    def test_parquet_of_paths(self, pictures: Path) -> None:
        path = pictures.parent / "labels.parquet"
        columns = {"image": [row[1] for row in ROWS[1:]], "label": [row[2] for row in ROWS[1:]]}
        parquet.write_table(pa.table(columns), path)
        check_pixels(load(path, eval_fraction=0.0))

    def test_absolute_ones_those_that_lead_out_of_the_folder_and_those_of_windows(
        self, pictures: Path
    ) -> None:
        beside = pictures.parent.parent / "beside.png"
        picture("dog").save(beside)
        rows = [ROWS[0], ("1", str(pictures / "0.png"), "cat"), ("2", "../beside.png", "dog")]
        rows.append(("3", "images\\2.png", "cat"))
        check_pixels(load(table(pictures, rows), eval_fraction=0.0))

    def test_a_folder_with_one_table_in_it(self, pictures: Path) -> None:
        table(pictures, ROWS)
        assert load(pictures.parent, eval_fraction=0.0).labels == ("cat", "dog")

    def test_labels_with_spaces_emoji_and_right_to_left(self, pictures: Path) -> None:
        labels = ("my cat", "🐕", "שלום", "my cat")
        rows = [ROWS[0], *((row[0], row[1], label) for row, label in zip(ROWS[1:], labels, strict=True))]
        assert set(load(table(pictures, rows), eval_fraction=0.0).labels) == set(labels)

    def test_rows_without_label_or_image_are_left_out_with_a_note(self, pictures: Path) -> None:
        rows = [*ROWS, ("5", "", "cat"), ("6", "images/0.png", "")]
        data = load(table(pictures, rows), eval_fraction=0.0)
        assert len(data.train) == 4
        assert "row 6 of labels.csv" in data.notes[0]
        assert "row 7 of labels.csv" in data.notes[0]


class TestPathsRefused:
    def test_a_missing_file_is_told_with_its_row(self, pictures: Path) -> None:
        (pictures / "2.png").unlink()
        error = refusal(table(pictures, ROWS))
        assert error.title == "1 image can't be read: 2.png"
        assert error.detail.startswith("row 4 of labels.csv: ")
        assert "there is no such file" in error.detail

    def test_a_folder_in_place_of_a_file(self, pictures: Path) -> None:
        error = refusal(table(pictures, [*ROWS, ("5", "images", "dog")]))
        assert "row 6 of labels.csv" in error.detail

    def test_no_column_of_images(self, pictures: Path) -> None:
        error = refusal(table(pictures, [("a", "b"), ("one", "x"), ("two", "y")]))
        assert error.title == "labels.csv has no column of images"
        assert "“a”, “b”" in error.detail

    @pytest.mark.parametrize(
        ("data", "fix"),
        [
            ({"image_column": "pictures"}, {"data.image_column": "file_name"}),
            ({"label_column": "breed"}, {"data.label_column": "kind"}),
        ],
    )
    def test_a_column_that_is_not_there(
        self, pictures: Path, data: dict[str, Any], fix: dict[str, Any]
    ) -> None:
        error = refusal(table(pictures, ROWS), **data)
        assert "has no column" in error.title
        assert fix in [found.changes for found in error.fixes]

    def test_no_column_of_labels(self, pictures: Path) -> None:
        error = refusal(table(pictures, [("file_name",), ("images/0.png",), ("images/1.png",)]))
        assert error.title == "labels.csv has no column of labels"

    def test_no_row_is_complete(self, pictures: Path) -> None:
        error = refusal(
            table(pictures, [ROWS[0], ("1", "images/0.png", ""), ("2", "", "cat")]),
            image_column="file_name",
            label_column="kind",
        )
        assert error.title == "labels.csv has no usable rows"


CLASSES = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}


def stored(path: Path, labels: Sequence[Any], images: Sequence[Any] | None = None, **options: Any) -> Path:
    """A Parquet file as `datasets` writes it: a pair of bytes and path, and a number for each class."""
    names = ["cat" if label in (0, "cat") else "dog" for label in labels]
    pairs = images or [{"bytes": png(name, i), "path": f"{i}.png"} for i, name in enumerate(names)]
    made = pa.table({"label": labels, "image": pairs})
    parquet.write_table(made.replace_schema_metadata(options.pop("metadata", None)), path, **options)
    return path


class TestStoredImages:
    def test_the_form_of_the_hub_with_names_of_classes(self, tmp_path: Path) -> None:
        metadata = {"huggingface": json.dumps(CLASSES)}
        path = stored(tmp_path / "train.parquet", [0, 1, 1, 0], metadata=metadata, row_group_size=3)
        data = load(path, eval_fraction=0.0)
        assert data.labels == ("cat", "dog")
        check_pixels(data)
        found = read_image_table(path)
        assert [column.name for column in found.columns] == ["image", "label"]
        assert found.preview[:2] == (("", "0"), ("", "1"))

    def test_plain_bytes(self, tmp_path: Path) -> None:
        path = stored(tmp_path / "a.parquet", ["cat", "dog"], [png("cat"), png("dog")])
        check_pixels(load(path, eval_fraction=0.0))

    def test_without_bytes_the_path_counts(self, tmp_path: Path) -> None:
        picture("cat").save(tmp_path / "0.png")
        pairs = [{"bytes": None, "path": "0.png"}, {"bytes": png("dog"), "path": None}]
        check_pixels(load(stored(tmp_path / "a.parquet", ["cat", "dog"], pairs), eval_fraction=0.0))

    def test_rows_without_a_class_are_left_out(self, tmp_path: Path) -> None:
        metadata = {"huggingface": json.dumps(CLASSES)}
        data = load(stored(tmp_path / "a.parquet", [0, -1, 1], metadata=metadata), eval_fraction=0.0)
        assert len(data.train) == 2
        assert "row 2 of a.parquet" in data.notes[0]
        check_pixels(data)

    def test_any_image_can_be_had_without_unpacking(self, tmp_path: Path, own_home: Path) -> None:
        labels = ["cat", "dog"] * 50
        found = read_image_table(stored(tmp_path / "a.parquet", labels, row_group_size=40)).train
        assert [found.encoded(i) for i in (99, 0, 41)] == [png("dog", 99), png("cat", 0), png("dog", 41)]
        assert list(found.each()) == [png(label, i) for i, label in enumerate(labels)]
        assert not own_home.exists()

    def test_a_folder_of_several_with_those_held_out(self, tmp_path: Path) -> None:
        folder = tmp_path / "set" / "data"
        folder.mkdir(parents=True)
        stored(folder / "train-00000-of-00002.parquet", ["cat", "dog"])
        stored(folder / "train-00001-of-00002.parquet", ["dog", "cat", "dog"])
        stored(folder / "test-00000-of-00001.parquet", ["dog", "cat"])
        data = load(folder.parent)
        assert Counter(data.train.labels) == {0: 2, 1: 3}
        assert data.eval is not None
        assert list(data.eval.labels) == [1, 0]
        check_pixels(data)

    def test_splits_of_a_folder_of_several(self, tmp_path: Path) -> None:
        folder = tmp_path / "set"
        folder.mkdir()
        for name, labels in (
            ("train", ["cat", "dog"]),
            ("test", ["dog", "cat", "cat"]),
            ("extra", ["dog"] * 4),
        ):
            stored(folder / f"{name}-00000-of-00001.parquet", labels)
        data = load(folder, train_split="test", eval_split="extra")
        assert (list(data.train.labels), list(data.eval.labels if data.eval else ())) == ([1, 0, 0], [1] * 4)
        assert len(load(folder, train_split="train", eval_fraction=0.0).train) == 2
        assert refusal(folder, train_split="dev").title == "set has no split dev"

    def test_a_data_set_of_the_hub_in_the_cache(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        repo = tmp_path / "hub" / "datasets--org--pets"
        folder = repo / "snapshots" / "abc" / "data"
        folder.mkdir(parents=True)
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text("abc")
        stored(folder / "train-00000-of-00001.parquet", ["cat", "dog", "dog"])
        stored(folder / "test-00000-of-00001.parquet", ["dog", "cat"])
        data = load(Path("hub:org") / "pets", eval_split="test")
        assert (len(data.train), len(data.eval or ())) == (3, 2)
        check_pixels(data)

    def test_images_go_to_workers_as_a_file(self, tmp_path: Path) -> None:
        pairs = [{"bytes": png("cat") + bytes(2**18), "path": None}, {"bytes": png("dog"), "path": None}] * 4
        data = load(stored(tmp_path / "a.parquet", ["cat", "dog"] * 4, pairs), eval_fraction=0.0)
        sent = pickle.dumps(data.train)
        assert len(sent) < 2**14
        copy = pickle.loads(sent)
        assert torch.equal(copy[3]["pixel_values"], data.train[3]["pixel_values"])

    def test_unpacking_happens_once_and_again_when_the_file_changes(
        self, tmp_path: Path, own_home: Path
    ) -> None:
        path = stored(tmp_path / "a.parquet", ["cat", "dog"])
        load(path, eval_fraction=0.0)
        (kept,) = (own_home / "cache" / "images").iterdir()
        written = kept.read_bytes()
        kept.write_bytes(written + b"\0")  # told apart from one written anew
        load(path, eval_fraction=0.0)
        assert kept.read_bytes() == written + b"\0"
        stored(path, ["dog", "cat", "dog"])
        check_pixels(load(path, eval_fraction=0.0))
        assert len(list((own_home / "cache" / "images").iterdir())) == 2


class TestStoredImagesRefused:
    def test_a_file_cut_short(self, tmp_path: Path) -> None:
        path = stored(tmp_path / "a.parquet", ["cat", "dog"])
        path.write_bytes(path.read_bytes()[:-20])
        assert refusal(path).title == "a.parquet is damaged or cut off"

    def test_a_damaged_image_is_told_with_its_row(self, tmp_path: Path, own_home: Path) -> None:
        pairs = [{"bytes": png("cat"), "path": None}, {"bytes": b"no image", "path": None}]
        error = refusal(stored(tmp_path / "a.parquet", ["cat", "dog"], pairs))
        assert "row 2 of a.parquet: not an image" in error.detail
        assert not own_home.exists()

    def test_a_row_without_an_image(self, tmp_path: Path) -> None:
        pairs = [{"bytes": png("cat"), "path": None}, {"bytes": None, "path": None}]
        error = refusal(stored(tmp_path / "a.parquet", ["cat", "dog"], pairs))
        assert "row 2 of a.parquet: there is no image" in error.detail

    def test_labels_that_are_all_missing(self, tmp_path: Path) -> None:
        metadata = {"huggingface": json.dumps(CLASSES)}
        path = stored(tmp_path / "a.parquet", [-1, -1], metadata=metadata)
        assert refusal(path, label_column="label").title == "a.parquet has no labels"

    def test_no_room_on_the_disk_leaves_nothing_behind(
        self, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parquet_images, "SPARE_BYTES", 1 << 60)
        error = refusal(stored(tmp_path / "a.parquet", ["cat", "dog"]))
        assert "no room" in error.title
        assert list((own_home / "cache" / "images").iterdir()) == []
