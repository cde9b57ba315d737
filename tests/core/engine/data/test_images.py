"""Images from folders, tables, Parquet, IDX files, the bundled digits and none at all."""

import gzip
import io
import json
import pickle
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data import tables
from core.engine.data.image_files import IMAGENET_MEAN, IMAGENET_STD, ImageTransform
from core.engine.data.images import ImageData, find_images, load_image_data
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions

SHADES = {"cat": 0, "dog": 200}
EXAMPLES = Path(__file__).parents[4] / "resources" / "examples"


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def load(source: Path | str, **data: Any) -> ImageData:
    section = DataOptions(train=str(source), **{"image_size": 32, **data})
    return load_image_data(RunOptions(task=Task.IMAGE_CLASSIFICATION, data=section))


def refusal(source: Path | str, **data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load(source, **data)
    return caught.value


def picture(label: str, number: int = 0, size: tuple[int, int] = (20, 10)) -> Image.Image:
    return Image.new("RGB", size, (SHADES.get(label, 100), 100, number))


def png(label: str, number: int = 0) -> bytes:
    written = io.BytesIO()
    picture(label, number).save(written, "PNG")
    return written.getvalue()


def folders(root: Path, classes: dict[str, int], ending: str = "png", **options: Any) -> Path:
    """Class folders with so many images each."""
    for name, count in classes.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            picture(name, number, **options).save(root / name / f"{number}.{ending}")
    return root


def idx(path: Path, values: np.ndarray[Any, Any]) -> Path:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def check_pixels(data: ImageData) -> None:
    """Each image comes with its own label."""
    for index in range(len(data.train)):
        sample = data.train[index]
        is_dog = bool(sample["pixel_values"][0, 0, 0] > 0)
        assert is_dog == (data.labels[sample["labels"]] == "dog")


class TestTransform:
    @pytest.mark.parametrize("shade", [0, 255])
    def test_normalised(self, shade):
        found = ImageTransform(32).from_pil(Image.new("L", (32, 32), shade))
        expected = (shade / 255 - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)
        assert torch.allclose(found[:, 5, 5], expected)

    def test_pixels_in_memory_and_a_file_give_the_same(self, tmp_path):
        noise = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
        Image.fromarray(np.ascontiguousarray(noise.transpose(1, 2, 0))).save(tmp_path / "a.png")
        for size in (28, 64):
            transform = ImageTransform(size)
            assert torch.equal(transform(noise), transform(tmp_path / "a.png"))

    def test_an_image_on_its_side_is_turned_upright(self):
        image = Image.new("L", (40, 20))
        image.paste(255, (0, 0, 20, 20))  # white on the left
        image.getexif()[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise
        found = ImageTransform(32).from_pil(image)
        assert found[0, 2, 16] > 0 > found[0, 29, 16]  # white on top now

    def test_sixteen_bit_grey_is_scaled_not_clipped(self):
        image = Image.fromarray(np.full((32, 32), 32768, dtype=np.uint16))
        found = ImageTransform(32).from_pil(image)[0, 0, 0]
        assert float(found) == pytest.approx((127 / 255 - IMAGENET_MEAN[0]) / IMAGENET_STD[0], abs=0.02)

    @pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "LA"])
    def test_every_mode_becomes_three_channels(self, mode):
        assert ImageTransform(32).from_pil(Image.new(mode, (10, 20))).shape == (3, 32, 32)

    def test_a_large_jpeg_is_decoded_small_and_shows_the_same(self, tmp_path):
        image = Image.linear_gradient("L").resize((8_000, 5_000))
        image.save(tmp_path / "large.jpg", quality=60)
        with Image.open(tmp_path / "large.jpg") as opened:
            found = ImageTransform(32).from_pil(opened)
            assert opened.size == (1_000, 625)
        assert torch.allclose(found, ImageTransform(32).from_pil(image), atol=4 / 255 / min(IMAGENET_STD))


class TestInMemory:
    def test_digits(self):
        data, again = load("builtin:digits"), load("builtin:digits")
        assert (len(data.train), len(data.eval or ())) == (1617, 180)
        assert data.labels == tuple("0123456789")
        assert data.train.labels == again.train.labels
        assert data.train[0]["pixel_values"].shape == (3, 32, 32)

    def test_synthetic_images_have_their_own_size_and_two_classes(self):
        data = load("synthetic:64x96", image_size=224)
        assert (len(data.train), data.eval) == (64, None)
        assert data.train[0]["pixel_values"].shape == (3, 96, 96)
        assert Counter(data.train.labels) == {0: 32, 1: 32}
        assert len(load("synthetic:1x32").train) == 1

    def test_many_synthetic_images_take_little_memory(self):
        data = load("synthetic:5000x224")
        assert data.train[4999]["pixel_values"].shape == (3, 224, 224)
        assert len(pickle.dumps(data.train)) < 80 * 2**20


class TestClassFolders:
    @pytest.mark.parametrize("ending", ["png", "gif", "webp", "tiff", "JPEG"])
    def test_every_kind_of_image(self, tmp_path, ending):
        data = load(folders(tmp_path / "pets", {"cat": 5, "dog": 5}, ending), eval_fraction=0.2)
        assert data.labels == ("cat", "dog")
        assert Counter(data.train.labels) == {0: 4, 1: 4}
        assert data.eval is not None
        assert Counter(data.eval.labels) == {0: 1, 1: 1}
        check_pixels(data)

    def test_the_first_few_hold_every_class(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 9, "dog": 9, "emu": 9})
        data = load(root, max_train_samples=6, eval_fraction=0.0)
        assert Counter(data.train.labels) == {0: 2, 1: 2, 2: 2}

    @pytest.mark.parametrize("held_out", ["val", "valid", "Test"])
    def test_train_and_validation_below_one_folder(self, tmp_path, held_out):
        folders(tmp_path / "pets" / "train", {"cat": 4, "dog": 4})
        folders(tmp_path / "pets" / held_out, {"cat": 1, "dog": 2})
        data = load(tmp_path / "pets")
        assert (len(data.train), len(data.eval or ())) == (8, 3)
        assert f"{held_out} is used for evaluation." in data.notes
        more = folders(tmp_path / "more", {"cat": 5, "dog": 5})
        assert len(load(tmp_path / "pets", eval=str(more), max_eval_samples=7).eval or ()) == 7

    def test_splits_can_be_chosen(self, tmp_path):
        for number, name in enumerate(("train", "test", "extra"), 2):
            folders(tmp_path / "pets" / name, {"cat": number, "dog": number})
        data = load(tmp_path / "pets", train_split="Extra", eval_split="test")
        assert (len(data.train), len(data.eval or ())) == (8, 6)
        assert load(tmp_path / "pets", train_split="test", eval_fraction=0.0).eval is None
        assert len(load(tmp_path / "pets", eval_split="extra").eval or ()) == 8
        assert "“train”" in refusal(tmp_path / "pets", eval_split="dev").detail

    def test_what_is_passed_over_is_noted(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 3, "dog": 3, "emu": 0})
        for name in ("cat/list.txt", "cat/.DS_Store", "cat/Thumbs.db", "cat/._0.png", "readme.md"):
            (root / name).write_text("no image")
        (root / "again").symlink_to(root, target_is_directory=True)
        (root / "cat" / "up").symlink_to(root, target_is_directory=True)
        data = load(root)
        assert data.labels == ("cat", "dog")
        assert any("emu" in note for note in data.notes)
        assert any(note.startswith("2 files") for note in data.notes)

    def test_of_many_damaged_images_five_are_listed(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 4, "dog": 4})
        for path in root.rglob("*.png"):
            path.write_bytes(b"no")
        error = refusal(root)
        assert error.title.startswith("8 images can't be read")
        assert error.detail.count(".png: ") == 5
        assert "3 more" in error.detail

    def test_an_image_that_breaks_later_is_named_too(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 2, "dog": 2})
        data = load(root, eval_fraction=0.0)
        for path in root.rglob("*.png"):
            path.write_bytes(b"no")
        with pytest.raises(DataError, match=r"\.png can't be read as an image") as caught:
            data.train[0]
        assert str(root) in caught.value.detail

    @pytest.mark.parametrize(
        ("classes", "title"),
        [
            ({}, "pets has no class folders"),
            ({"cat": 0, "dog": 0}, "pets has no images in its class folders"),
            ({"cat": 3}, "pets has only one class"),
        ],
    )
    def test_refused(self, tmp_path, classes, title):
        (tmp_path / "pets").mkdir()
        assert refusal(folders(tmp_path / "pets", classes)).title == title

    def test_images_without_class_folders(self, tmp_path):
        picture("cat").save(tmp_path / "a.png")
        assert "image files: 1" in refusal(tmp_path).detail

    def test_a_class_unseen_in_training(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 3, "dog": 3})
        held_out = folders(tmp_path / "test", {"cat": 1, "emu": 1})
        error = refusal(root, eval=str(held_out))
        assert "emu" in error.title
        assert str(held_out / "emu" / "0.png") in error.detail
        assert {"data.eval": None} in [fix.changes for fix in error.fixes]

    def test_a_missing_path_and_a_file_of_something_else(self, tmp_path):
        assert "There is no" in refusal(tmp_path / "nowhere").title
        (tmp_path / "a.doc").write_text("a letter")
        assert "a.doc has no images" in refusal(tmp_path / "a.doc").title


class TestIdx:
    @pytest.fixture
    def pair(self, tmp_path):
        """Twenty images, each of one shade, in ten classes."""
        shades = np.arange(20)[:, None, None].repeat(28, 1).repeat(28, 2) * 10
        idx(tmp_path / "t10k-images-idx3-ubyte.gz", shades)
        idx(tmp_path / "t10k-labels-idx1-ubyte", np.arange(20) % 10)
        return tmp_path

    @pytest.mark.parametrize("name", ["", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"])
    def test_the_folder_or_either_file(self, pair, name):
        data = load(pair / name, eval_fraction=0.0)
        assert data.labels == tuple("0123456789")
        for index in range(20):
            shade = ImageTransform(32).normalise(np.full((1, 1, 1), index * 10, dtype=np.uint8))
            assert torch.allclose(data.train[index]["pixel_values"], shade.expand(3, 32, 32))
            assert data.train[index]["labels"] == index % 10

    def test_a_folder_with_training_and_test_pairs(self, pair):
        idx(pair / "train-images.idx3-ubyte", np.zeros((30, 28, 28)))
        idx(pair / "train-labels.idx1-ubyte", np.arange(30) % 10)
        data = load(pair)
        assert (len(data.train), len(data.eval or ())) == (30, 20)
        assert any("t10k-images-idx3-ubyte.gz" in note for note in data.notes)

    def test_refused(self, pair):
        images, labels = pair / "t10k-images-idx3-ubyte.gz", pair / "t10k-labels-idx1-ubyte"
        packed = images.read_bytes()
        images.write_bytes(packed[:-20])
        assert "t10k-images-idx3-ubyte.gz is damaged" in refusal(pair).title
        images.write_bytes(gzip.decompress(packed)[:-20])
        assert "t10k-images-idx3-ubyte.gz is cut off" in refusal(pair).title
        images.write_bytes(packed)
        idx(labels, np.arange(19))
        assert "20 images" in refusal(pair).detail
        labels.unlink()
        assert str(labels.name) in refusal(pair).detail

    @pytest.mark.parametrize("path", sorted(EXAMPLES.glob("mnist-*.hone")), ids=lambda path: path.stem)
    def test_the_mnist_examples_train_on_a_thousand_images(self, tmp_path, path):
        images = idx(tmp_path / "t10k-images-idx3-ubyte", np.zeros((1500, 28, 28)))
        idx(tmp_path / "t10k-labels-idx1-ubyte", np.arange(1500) % 10)
        data = load_image_data(run_file.read(path, (f"data.train={images}",)))
        assert (len(data.train), len(data.eval or ()), data.size) == (1000, 250, 224)
        assert set(Counter(data.train.labels).values()) == {100}

    @pytest.mark.data
    def test_mnist(self, shared_data):
        data = load(shared_data / "mnist", eval_fraction=0.1)
        assert (len(data.train), len(data.eval or ())) == (9000, 1000)
        assert Counter(data.eval.labels if data.eval else ())[1] == 114  # of 1,135


ROWS = (
    ("id", "file_name", "kind"),
    ("1", "images/0.png", "cat"),
    ("2", "images/1.png", "dog"),
    ("3", "images/2.png", "cat"),
    ("4", "images/3.png", "dog"),
)


def table(folder: Path, rows: Sequence[Sequence[str]] = ROWS, name: str = "labels.csv") -> Path:
    """A table of paths beside four images."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number, label in enumerate(("cat", "dog", "cat", "dog")):
        picture(label, number).save(folder / "images" / f"{number}.png")
    path, named = folder / name, [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(named), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in named))
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        path.write_text("".join(mark.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


class TestTables:
    @pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
    def test_columns_are_guessed(self, tmp_path, ending):
        path = table(tmp_path, name=f"labels.{ending}")
        found = find_images(str(path))
        assert (found.image_column, found.label_column) == ("file_name", "kind")
        check_pixels(load(path, eval_fraction=0.0))
        assert load(tmp_path, eval_fraction=0.0).labels == ("cat", "dog")  # the only table of a folder

    def test_columns_can_be_chosen(self, tmp_path):
        rows = [("a", "b", "x", "y"), *((row[1], "images/3.png", row[2], row[0]) for row in ROWS[1:])]
        data = load(table(tmp_path, rows), image_column="b", label_column="y", eval_fraction=0.0)
        assert data.labels == ("1", "2", "3", "4")
        pixels = [data.train[index]["pixel_values"] for index in range(4)]
        assert all(torch.equal(one, pixels[3]) for one in pixels)

    def test_absolute_paths_those_that_lead_out_of_the_folder_and_those_of_windows(self, tmp_path):
        picture("dog").save(tmp_path / "beside.png")
        rows = [ROWS[0], ("1", str(tmp_path / "set" / "images" / "0.png"), "cat")]
        rows += [("2", "../beside.png", "dog"), ("3", "images\\2.png", "cat")]
        check_pixels(load(table(tmp_path / "set", rows), eval_fraction=0.0))

    def test_rows_without_label_or_image_are_left_out_with_a_note(self, tmp_path):
        data = load(table(tmp_path, [*ROWS, ("5", "", "cat"), ("6", "images/0.png", "")]), eval_fraction=0.0)
        assert len(data.train) == 4
        assert "row 6 of labels.csv" in data.notes[0]
        assert "row 7 of labels.csv" in data.notes[1]

    @pytest.mark.parametrize(
        ("rows", "data", "said"),
        [
            ([*ROWS, ("5", "images/no.png", "dog")], {}, "row 6 of labels.csv: "),
            ([*ROWS, ("5", "images", "dog")], {}, "row 6 of labels.csv: "),
            ([("a", "b"), ("one", "x"), ("two", "y")], {}, "no column of images"),
            ([("file_name",), ("images/0.png",), ("images/1.png",)], {}, "no column of labels"),
            (
                [ROWS[0], ("1", "images/0.png", ""), ("2", "", "cat")],
                {"image_column": "file_name", "label_column": "kind"},
                "no usable rows",
            ),
        ],
        ids=["missing file", "folder", "no images", "no labels", "no row"],
    )
    def test_refused(self, tmp_path, rows, data, said):
        error = refusal(table(tmp_path, rows), **data)
        assert said in f"{error.title} {error.detail}"

    @pytest.mark.parametrize(
        ("data", "fix"),
        [
            ({"image_column": "pictures"}, {"data.image_column": "file_name"}),
            ({"label_column": "breed"}, {"data.label_column": "kind"}),
        ],
    )
    def test_a_column_that_is_not_there(self, tmp_path, data, fix):
        assert fix in [found.changes for found in refusal(table(tmp_path), **data).fixes]


CLASSES = {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["cat", "dog"]}}}})}


def stored(path: Path, labels: Sequence[Any], images: Sequence[Any] | None = None, **options: Any) -> Path:
    """A Parquet file as `datasets` writes it: a pair of bytes and path, and a number for each class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["cat" if label in (0, "cat") else "dog" for label in labels]
    pairs = images or [{"bytes": png(name, i), "path": f"{i}.png"} for i, name in enumerate(names)]
    made = pa.table({"label": labels, "image": pairs})
    parquet.write_table(made.replace_schema_metadata(options.pop("metadata", None)), path, **options)
    return path


class TestStoredImages:
    def test_the_form_of_the_hub_with_names_of_classes(self, tmp_path):
        path = stored(tmp_path / "train.parquet", [0, -1, 1, 0], metadata=CLASSES, row_group_size=3)
        data = load(path, eval_fraction=0.0)
        assert (data.labels, len(data.train)) == (("cat", "dog"), 3)
        assert "row 2 of train.parquet" in data.notes[0]
        check_pixels(data)

    def test_plain_bytes_and_paths_without_bytes(self, tmp_path):
        check_pixels(
            load(stored(tmp_path / "a.parquet", ["cat", "dog"], [png("cat"), png("dog")]), eval_fraction=0.0)
        )
        picture("cat").save(tmp_path / "0.png")
        pairs = [{"bytes": None, "path": "0.png"}, {"bytes": png("dog"), "path": None}]
        check_pixels(load(stored(tmp_path / "b.parquet", ["cat", "dog"], pairs), eval_fraction=0.0))

    def test_a_folder_of_several_with_those_held_out(self, tmp_path):
        folder = tmp_path / "set" / "data"
        stored(folder / "train-00000-of-00002.parquet", ["cat", "dog"])
        stored(folder / "train-00001-of-00002.parquet", ["dog", "cat", "dog"])
        stored(folder / "test-00000-of-00001.parquet", ["dog", "cat"])
        data = load(folder.parent)
        assert Counter(data.train.labels) == {0: 2, 1: 3}
        assert data.eval is not None
        assert data.eval.labels == [1, 0]
        check_pixels(data)
        chosen = load(folder.parent, train_split="test", eval_split="train")
        assert (chosen.train.labels, len(chosen.eval or ())) == ([1, 0], 5)
        assert load(folder.parent, train_split="train", eval_fraction=0.0).eval is None
        assert "no split called “dev”" in refusal(folder.parent, train_split="dev").title

    def test_large_files_are_unpacked_once_to_the_cache_and_read_there_by_workers(
        self, tmp_path, own_home, monkeypatch
    ):
        monkeypatch.setattr(tables, "LARGE_BYTES", 0)
        monkeypatch.setattr(tables, "BATCH_BYTES", 1 << 20)
        pairs = [{"bytes": png("cat") + bytes(2**18), "path": None}, {"bytes": png("dog"), "path": None}] * 8
        data = load(stored(tmp_path / "a.parquet", ["cat", "dog"] * 8, pairs), eval_fraction=0.0)
        assert len(list((own_home / "cache" / "tables").iterdir())) == 1
        sent = pickle.dumps(data.train)
        assert len(sent) < 2**14
        copy = pickle.loads(sent)
        assert torch.equal(copy[3]["pixel_values"], data.train[3]["pixel_values"])
        check_pixels(data)

    @pytest.mark.parametrize(
        ("labels", "image", "damage", "said"),
        [
            (["cat", "dog"], png("dog"), lambda content: content[:-20], "a.parquet is damaged"),
            (["cat", "dog"], b"no image", None, "row 2 of a.parquet: "),
            (["cat", "dog"], None, None, "row 2 of a.parquet: there is no image"),
            ([-1, -1], png("dog"), None, "a.parquet has no usable rows"),
        ],
    )
    def test_refused(self, tmp_path, labels, image, damage, said):
        pairs = [{"bytes": png("cat"), "path": None}, {"bytes": image, "path": None}]
        path = stored(tmp_path / "a.parquet", labels, pairs, metadata=CLASSES)
        if damage:
            path.write_bytes(damage(path.read_bytes()))
        error = refusal(path, label_column="label")
        assert said in f"{error.title} {error.detail}"


def test_data_sets_can_be_sent_to_workers(tmp_path):
    for source in (str(folders(tmp_path / "pets", {"cat": 3, "dog": 3})), "builtin:digits"):
        data = load(source)
        copy = pickle.loads(pickle.dumps(data.train))
        assert torch.equal(copy[1]["pixel_values"], data.train[1]["pixel_values"])
        assert len(copy) == len(data.train)
