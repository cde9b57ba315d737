"""Images from folders, tables, Parquet, IDX files, the bundled digits and none at all."""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data import image_files, tables
from core.engine.data.image_files import IMAGENET_MEAN, IMAGENET_STD, ImageTransform, check_image, opened
from core.engine.data.images import ImageData, find_images, load_image_data
from core.engine.models.vision import VisionRecipe
from core.options import RunOptions
from core.options.choices import Augmentation, ImageFit, Task
from core.options.data import DataOptions
from core.options.presets import IMAGE_FORMATS

TURNED = Path(__file__).parents[3] / "data" / "turned.heic"
"""64 x 32 pixels, blue on the left and red on the right, to be turned clockwise; written by us with libheif."""
SHADES = {"cat": 0, "dog": 200}


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HONE_HOME", str(home))
    return home


def load(source: Path | str, **data: Any) -> ImageData:
    """The images of a source; all are trained on unless asked otherwise."""
    section = DataOptions(train=str(source), **{"image_size": 32, "eval_fraction": 0.0, **data})
    return load_image_data(RunOptions(task=Task.IMAGE_CLASSIFICATION, data=section))


def refusal(source: Path | str, **data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load(source, **data)
    return caught.value


def counts(data: ImageData) -> tuple[int, int]:
    return len(data.train), len(data.eval or ())


def picture(label: str, number: int = 0) -> Image.Image:
    return Image.new("RGB", (20, 10), (SHADES.get(label, 100), 100, number))


def png(label: str, number: int = 0) -> bytes:
    written = io.BytesIO()
    picture(label, number).save(written, "PNG")
    return written.getvalue()


def check_pixels(data: ImageData) -> None:
    """Each image comes with its own label."""
    for index in range(len(data.train)):
        sample = data.train[index]
        is_dog = bool(sample["pixel_values"][0, 0, 0] > 0)
        assert is_dog == (data.labels[sample["labels"]] == "dog")


class TestTransform:
    def test_pixels_in_memory_and_a_file_are_normalised_alike(self, tmp_path):
        white = ImageTransform(32).from_pil(Image.new("L", (32, 32), 255))[:, 5, 5]
        assert torch.allclose(white, (1 - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD))
        noise = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
        Image.fromarray(np.ascontiguousarray(noise.transpose(1, 2, 0))).save(tmp_path / "a.png")
        for size in (28, 64):
            transform = ImageTransform(size)
            assert torch.equal(transform(noise), transform(tmp_path / "a.png"))

    def test_an_image_on_its_side_is_turned_upright(self):
        image = Image.new("L", (40, 20))
        image.paste(255, (0, 0, 20, 20))  # white on the left
        image.getexif()[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise
        turned = ImageTransform(32).from_pil(image)
        assert turned[0, 2, 16] > 0 > turned[0, 29, 16]  # white on top now

    def test_sixteen_bit_grey_is_scaled_not_clipped(self):
        image = Image.fromarray(np.full((32, 32), 32768, dtype=np.uint16))
        grey = float(ImageTransform(32).from_pil(image)[0, 0, 0])
        assert grey == pytest.approx((127 / 255 - IMAGENET_MEAN[0]) / IMAGENET_STD[0], abs=0.02)

    def test_a_large_jpeg_is_decoded_small_and_shows_the_same(self, tmp_path):
        image = Image.linear_gradient("L").resize((8_000, 5_000))
        image.save(tmp_path / "large.jpg", quality=60)
        with Image.open(tmp_path / "large.jpg") as opened:
            small = ImageTransform(32).from_pil(opened)
            assert opened.size == (1_000, 625)
        assert torch.allclose(small, ImageTransform(32).from_pil(image), atol=4 / 255 / min(IMAGENET_STD))


class TestAugmentation:
    def test_an_epoch_changes_every_image_of_every_source_again_but_no_image_of_an_evaluation(self, tmp_path):
        sources = {
            "folder": folders(tmp_path / "pets", {"cat": 4, "dog": 4}),
            "table": table(tmp_path / "set"),
            "idx": idx(
                tmp_path / "t10k-images-idx3-ubyte", np.arange(20 * 28 * 28).reshape(20, 28, 28) % 251
            ),
            "digits": "builtin:digits",
        }
        idx(tmp_path / "t10k-labels-idx1-ubyte", np.arange(20) % 4)
        for name, source in sources.items():
            data, plain = (
                load(source, eval_fraction=0.5, augmentation=chosen)
                for chosen in (Augmentation.STRONG, Augmentation.OFF)
            )
            first, again, later = (
                [data.train[epoch, index]["pixel_values"] for index in range(len(data.train))][:20]
                for epoch in (0, 0, 1)
            )
            assert all(map(torch.equal, first, again)), name
            assert not any(map(torch.equal, first[:4], later[:4])), name
            assert data.train[1]["labels"] == data.train[1, 1]["labels"] == plain.train[1]["labels"]
            assert data.eval
            assert plain.eval
            assert torch.equal(data.eval[0]["pixel_values"], plain.eval[0]["pixel_values"])

    def test_the_random_numbers_of_training_stay_as_they_were(self):
        train, torch_state = (
            load("builtin:digits", augmentation=Augmentation.LIGHT).train,
            torch.get_rng_state(),
        )
        sent = pickle.loads(pickle.dumps(train))
        assert torch.equal(train[3, 5]["pixel_values"], sent[3, 5]["pixel_values"])
        assert torch.equal(torch.get_rng_state(), torch_state)

    @pytest.mark.parametrize("strength", [Augmentation.LIGHT, Augmentation.STRONG])
    def test_images_are_mirrored_only_if_asked(self, strength):
        image = np.zeros((1, 40, 40), np.uint8)
        image[..., 20:] = 120
        for flips in (False, True):
            transform = ImageTransform(32, augmentation=strength, flips=flips, seed=1)
            made = [transform.augmented(image, epoch, 0)[0] for epoch in range(30)]
            brighter_left = [bool(one[:, :8].mean() > one[:, -8:].mean()) for one in made]
            assert brighter_left.count(True) < 6 if not flips else 6 < brighter_left.count(True) < 24

    def test_parts_lie_within_the_image_and_are_as_large_as_promised(self):
        for least, stretch in image_files.CROPS.values():
            for _ in range(200):
                left, top, right, bottom = image_files._crop((0, 0, 50, 20), least, stretch)
                assert 0 <= left < right <= 50
                assert 0 <= top < bottom <= 20
                across, down = (right - left) / 50, (bottom - top) / 20
                assert across * down > least * 0.86
                assert 0.99 / stretch < across / down < 1.01 * stretch

    @pytest.mark.parametrize("shade", [0, 90, 255])
    def test_what_is_beside_a_turned_image_has_the_shade_of_its_corners(self, shade):
        plain, counts = Image.new("RGB", (32, 32), (shade,) * 3), []
        for fill in (shade, 180):
            change, _erase = image_files._changes(Augmentation.STRONG, False, fill)
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(1)
                counts.append(sum(np.ptp(np.asarray(change(plain))) == 0 for _ in range(60)))
        assert counts[0] > 45 > counts[1], "but where another change came before"


class TestInMemory:
    def test_digits_are_held_out_by_seed_and_reach_workers(self):
        data, again = load("builtin:digits", eval_fraction=0.1), load("builtin:digits", eval_fraction=0.1)
        assert (counts(data), data.labels) == ((1617, 180), tuple("0123456789"))
        assert data.train.labels == again.train.labels
        copy = pickle.loads(pickle.dumps(data.train))
        assert torch.equal(copy[1]["pixel_values"], data.train[1]["pixel_values"])

    def test_synthetic_images_have_their_own_size_two_classes_and_take_little_memory(self):
        data = load("synthetic:64x96", image_size=224, eval_fraction=0.1)
        assert (counts(data), Counter(data.train.labels)) == ((64, 0), {0: 32, 1: 32})
        assert len(load("synthetic:1x32").train) == 1
        data = load("synthetic:5000x224")
        assert data.train[4999]["pixel_values"].shape == (3, 224, 224)
        assert len(pickle.dumps(data.train)) < 80 * 2**20


def folders(root: Path, classes: dict[str, int], ending: str = "png") -> Path:
    """Class folders with so many images each."""
    for name, count in classes.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            picture(name, number).save(root / name / f"{number}.{ending}")
    return root


class TestClassFolders:
    @pytest.mark.parametrize("ending", ["png", "gif", "webp", "tiff", "JPEG"])
    def test_each_class_gives_its_share_of_every_kind_of_image(self, tmp_path, ending):
        data = load(folders(tmp_path / "pets", {"cat": 5, "dog": 5}, ending), eval_fraction=0.2)
        assert (data.labels, Counter(data.train.labels)) == (("cat", "dog"), {0: 4, 1: 4})
        assert Counter(data.eval.labels if data.eval else ()) == {0: 1, 1: 1}
        check_pixels(data)
        limited = load(tmp_path / "pets", max_train_samples=4)
        assert Counter(limited.train.labels) == {0: 2, 1: 2}, "the first few hold every class"

    def test_splits_are_found_and_can_be_chosen(self, tmp_path):
        pets = tmp_path / "pets"
        for number, name in enumerate(("train", "Test", "extra"), 2):
            folders(pets / name, {"cat": number, "dog": number})
        data = load(pets)
        assert (counts(data), "Test is the validation data." in data.notes) == ((4, 6), True)
        assert counts(load(pets, train_split="Extra", eval_split="test")) == (8, 6)
        assert counts(load(pets, train_split="test")) == (6, 0)
        assert counts(load(pets, eval=str(pets / "extra"), max_eval_samples=7)) == (4, 7)
        assert "“train”" in refusal(pets, eval_split="dev").detail

    def test_what_is_passed_over_is_noted(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 3, "dog": 3, "emu": 0})
        for name in ("cat/list.txt", "cat/.DS_Store", "cat/Thumbs.db", "cat/._0.png", "readme.md"):
            (root / name).write_text("no image")
        if os.name != "nt":
            os.mkfifo(root / "dog" / "pipe.png")
        (root / "again").symlink_to(root, target_is_directory=True)
        (root / "cat" / "up").symlink_to(root, target_is_directory=True)
        data = load(root)
        assert data.labels == ("cat", "dog")
        assert any("emu" in note for note in data.notes)
        assert any(
            "“readme.md”, “cat/list.txt”" in note and (os.name == "nt" or "“dog/pipe.png”" in note)
            for note in data.notes
        )

    def test_damaged_images_are_listed_and_named_even_if_they_break_later(self, tmp_path):
        root = folders(tmp_path / "pets", {"cat": 4, "dog": 4})
        data = load(root)
        for path in root.rglob("*.png"):
            path.write_bytes(b"no")
        with pytest.raises(DataError, match=r"\.png can't be read as an image") as caught:
            data.train[0]
        assert str(root) in caught.value.detail
        error = refusal(root)
        assert error.title.startswith("8 images can't be read")
        assert (error.detail.count(".png: "), "3 more" in error.detail) == (5, True)


def idx(path: Path, values: np.ndarray[Any, Any]) -> Path:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


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
        data = load(pair / name)
        assert data.labels == tuple("0123456789")
        for index in range(20):
            shade = ImageTransform(32).normalise(np.full((1, 1, 1), index * 10, dtype=np.uint8))
            assert torch.allclose(data.train[index]["pixel_values"], shade.expand(3, 32, 32))
            assert data.train[index]["labels"] == index % 10

    def test_the_test_pair_of_a_folder_is_held_out(self, pair):
        idx(pair / "train-images.idx3-ubyte", np.zeros((30, 28, 28)))
        idx(pair / "train-labels.idx1-ubyte", np.arange(30) % 10)
        data = load(pair)
        assert (counts(data), "t10k-images-idx3-ubyte.gz" in data.notes[0]) == ((30, 20), True)

    def test_damaged_and_missing_halves_are_refused(self, pair):
        images, labels = pair / "t10k-images-idx3-ubyte.gz", pair / "t10k-labels-idx1-ubyte"
        packed = images.read_bytes()
        for content, words in ((packed[:-20], "is damaged"), (gzip.decompress(packed)[:-20], "is cut off")):
            images.write_bytes(content)
            assert f"t10k-images-idx3-ubyte.gz {words}" in refusal(pair).title
        images.write_bytes(packed)
        idx(labels, np.arange(19))
        assert "20 images" in refusal(pair).detail
        labels.unlink()
        assert labels.name in refusal(pair).detail


ROWS = tuple((str(n + 1), f"images/{n}.png", ("cat", "dog")[n % 2]) for n in range(4))


def table(folder: Path, *rows: Sequence[str], head: Sequence[str] = ("id", "file_name", "kind")) -> Path:
    """A CSV file of paths beside four images."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number, label in enumerate(("cat", "dog", "cat", "dog")):
        picture(label, number).save(folder / "images" / f"{number}.png")
    lines = [",".join(row) for row in (head, *(rows or ROWS))]
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "labels.csv"


class TestTables:
    def test_columns_are_guessed(self, tmp_path):
        columns = find_images(str(table(tmp_path)))
        assert (columns.image_column, columns.label_column) == ("file_name", "kind")
        check_pixels(load(tmp_path / "labels.csv"))
        assert load(tmp_path).labels == ("cat", "dog"), "it is the only table of the folder"

    def test_absolute_paths_those_that_lead_out_of_the_folder_and_those_of_windows(self, tmp_path):
        picture("dog").save(tmp_path / "beside.png")
        rows = [("1", str(tmp_path / "set" / "images" / "0.png"), "cat")]
        rows += [("2", "../beside.png", "dog"), ("3", "images\\2.png", "cat")]
        check_pixels(load(table(tmp_path / "set", *rows)))

    def test_rows_without_label_or_image_are_left_out_only_if_asked(self, tmp_path):
        path = table(tmp_path, *ROWS, ("5", "", "cat"), ("6", "images/0.png", ""), ("7", " ", ""))
        with pytest.raises(DataError, match="can't be used") as refused:
            load(path)
        assert "“file_name” is empty. (row 6)" in refused.value.detail
        assert "“kind” is empty. (row 7)" in refused.value.detail
        assert {"data.skip_bad_rows": True} in [fix.changes for fix in refused.value.fixes]
        data = load(path, skip_bad_rows=True)
        assert len(data.train) == 4
        assert [note[-7:] for note in data.notes] == ["(row 6)", "(row 7)", "(row 8)"]

    def test_those_of_validation_data_stop_a_run_too(self, tmp_path):
        train, other = table(tmp_path, *ROWS), table(tmp_path / "other", *ROWS, ("5", "images/0.png", ""))
        with pytest.raises(DataError, match="“kind” is empty"):
            load(train, eval=str(other))
        assert len(load(train, eval=str(other), skip_bad_rows=True).eval) == 4

    def test_rows_with_nothing_in_them_stop_no_run(self, tmp_path):
        assert len(load(table(tmp_path, *ROWS, ("5", "", ""))).train) == 4

    def test_rows_of_another_width_are_left_out_only_if_asked(self, tmp_path):
        path = table(tmp_path, *ROWS)
        path.write_text(path.read_text().rstrip() + "\n5,images/0.png,cat,dog\n")
        with pytest.raises(DataError, match="row 6"):
            load(path)
        assert len(load(path, skip_bad_rows=True).train) == 4


CLASSES = {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["cat", "dog"]}}}})}


def stored(path: Path, labels: Sequence[Any], images: Sequence[Any] | None = None, **options: Any) -> Path:
    """A Parquet file as `datasets` writes it: a pair of bytes and path, and a number for each class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["cat" if label in (0, "cat") else "dog" for label in labels]
    pairs = images or [{"bytes": png(name, i), "path": f"{i}.png"} for i, name in enumerate(names)]
    made = pa.table({"label": labels, "image": pairs}).replace_schema_metadata(CLASSES)
    parquet.write_table(made, path, **options)
    return path


class TestStoredImages:
    def test_the_form_of_the_hub_with_names_of_classes(self, tmp_path):
        path = stored(tmp_path / "train.parquet", [0, -1, 1, 0], row_group_size=3)
        with pytest.raises(DataError, match=r"“label” stands for no label\. \(row 2\)"):
            load(path)
        data = load(path, skip_bad_rows=True)
        assert (data.labels, len(data.train)) == (("cat", "dog"), 3)
        check_pixels(data)

    def test_plain_bytes_and_paths_without_bytes(self, tmp_path):
        check_pixels(load(stored(tmp_path / "a.parquet", ["cat", "dog"], [png("cat"), png("dog")])))
        picture("cat").save(tmp_path / "0.png")
        pairs = [{"bytes": None, "path": "0.png"}, {"bytes": png("dog"), "path": None}]
        check_pixels(load(stored(tmp_path / "b.parquet", ["cat", "dog"], pairs)))

    def test_the_files_of_a_split_are_one_data_set(self, tmp_path):
        for name, labels in (("train-0", ["cat", "dog"]), ("train-1", ["dog", "cat"]), ("test-0", ["dog"])):
            stored(tmp_path / "set" / "data" / f"{name}.parquet", labels)
        data = load(tmp_path / "set")
        assert (counts(data), Counter(data.train.labels)) == ((4, 1), {0: 2, 1: 2})
        check_pixels(data)
        assert "no split called “dev”" in refusal(tmp_path / "set", train_split="dev").title

    def test_large_files_are_unpacked_once_to_the_cache_and_read_there_by_workers(
        self, tmp_path, own_home, monkeypatch
    ):
        monkeypatch.setattr(tables, "LARGE_BYTES", 0)
        monkeypatch.setattr(tables, "BATCH_BYTES", 1 << 20)
        pairs = [{"bytes": png("cat") + bytes(2**18), "path": None}, {"bytes": png("dog"), "path": None}] * 8
        data = load(stored(tmp_path / "a.parquet", ["cat", "dog"] * 8, pairs))
        assert len(list((own_home / "cache" / "tables").iterdir())) == 1
        sent = pickle.dumps(data.train)
        assert len(sent) < 2**14
        assert torch.equal(pickle.loads(sent)[3]["pixel_values"], data.train[3]["pixel_values"])
        check_pixels(data)


Lay = Callable[[Path], Path]


def parquet_of(image: bytes | None, labels: Sequence[Any] = ("cat", "dog"), end: int | None = None) -> Lay:
    """Lays a file of a good image and another, cut off at `end`."""

    def lay(folder: Path) -> Path:
        pairs = [{"bytes": png("cat"), "path": None}, {"bytes": image, "path": None}]
        path = stored(folder / "a.parquet", labels, pairs)
        path.write_bytes(path.read_bytes()[:end])
        return path

    return lay


def zipped(folder: Path) -> Path:
    path = folder / "photos.zip"
    path.write_bytes(b"PK\x03\x04" + bytes(40))
    return path


def classes(**counts: int) -> Lay:
    return lambda folder: folders(folder, counts)


def rows(*rows: Sequence[str], head: Sequence[str] = ("id", "file_name", "kind")) -> Lay:
    return lambda folder: table(folder, *rows, head=head)


COLUMNS = {"image_column": "file_name", "label_column": "kind"}
NO_ROW = [("1", "images/0.png", ""), ("2", "", "cat")]
CHOSEN = {"label_column": "label"}
REFUSED: dict[str, tuple[Lay, dict[str, Any], str]] = {
    "no folders": (lambda folder: folder, {}, " has no class folders"),
    "an archive": (zipped, {}, "photos.zip has to be unpacked first"),
    "empty folders": (classes(cat=0, dog=0), {}, " has no images in its class folders"),
    "one class": (classes(cat=3), {}, "has a single label"),
    "nowhere": (lambda folder: folder / "nowhere", {}, "There is no"),
    "a device": (rows(*ROWS, ("5", os.devnull, "dog")), {}, "Not an ordinary file"),
    "no file": (rows(*ROWS, ("5", "images/no.png", "dog")), {}, "row 6 of labels.csv: "),
    "no images": (rows(("one", "x"), ("two", "y"), head="ab"), {}, "no column of images"),
    "no labels": (rows(["images/0.png"], ["images/1.png"], head=["file"]), {}, "no column of labels"),
    "no row": (rows(*NO_ROW), COLUMNS, "no usable examples"),
    "no image column": (table, {"image_column": "pictures"}, "{'data.image_column': 'file_name'}"),
    "no label column": (table, {"label_column": "breed"}, "{'data.label_column': 'kind'}"),
    "cut off": (parquet_of(png("dog"), end=-20), CHOSEN, "a.parquet is damaged"),
    "damaged": (parquet_of(b"no image"), CHOSEN, "row 2 of a.parquet: "),
    "no image": (parquet_of(None), CHOSEN, "row 2 of a.parquet: there is no image"),
    "no class": (parquet_of(png("dog"), [-1, -1]), CHOSEN, "a.parquet has no usable examples"),
}


@pytest.mark.parametrize(("lay", "data", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_its_place_or_remedy(tmp_path, lay, data, words):
    (tmp_path / "pets").mkdir()
    error = refusal(lay(tmp_path / "pets"), **data)
    assert words in f"{error.title} {error.detail} {[fix.changes for fix in error.fixes]}"


class TestFit:
    """Photographs are squashed to a square, or their middle is used; in training, in tests and in Try it alike."""

    def test_the_middle_is_used_in_its_proportions(self):
        wide = Image.new("RGB", (90, 30), "red")
        wide.paste((0, 0, 255), (30, 0, 60, 30))
        transform = ImageTransform(30, (0.0,) * 3, (1.0,) * 3, ImageFit.CROP)
        seen = transform.from_pil(wide)
        assert seen[2].min() == 1.0, "only the blue middle"
        assert replace(transform, fit=ImageFit.SQUASH).from_pil(wide)[0].max() == 1.0
        tall = wide.transpose(Image.Transpose.ROTATE_90)
        assert transform.from_pil(tall)[2].min() == 1.0

    def test_a_random_part_is_one_of_the_middle(self):
        wide = Image.new("RGB", (90, 30), "red")
        wide.paste((0, 0, 255), (30, 0, 60, 30))
        transform = ImageTransform(
            30, (0.0,) * 3, (1.0,) * 3, ImageFit.CROP, augmentation=Augmentation.LIGHT, seed=1
        )
        stored = np.asarray(wide).transpose(2, 0, 1)
        assert all(transform.augmented(stored, epoch, 0)[0].max() < 0.1 for epoch in range(9))

    def test_a_run_of_an_older_hone_squashes(self):
        old = b'{"architecture":"resnet18","labels":["a"],"image_size":32,"mean":[0,0,0],"std":[1,1,1]}'
        assert msgspec.json.decode(old, type=VisionRecipe).transform.fit is ImageFit.SQUASH


@pytest.mark.parametrize(("ending", "kind"), [("heic", "HEIF"), ("avif", "AVIF")])
def test_what_phones_save_is_read_and_turned_once(tmp_path, ending, kind):
    photo, exif = Image.new("RGB", (64, 32), "red"), Image.Exif()
    photo.paste((0, 0, 255), (0, 0, 32, 32))
    exif[0x0112] = 6  # to be turned clockwise by 90 degrees
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / f"photo.{ending}"
    if kind == "AVIF":
        photo.save(path, kind, exif=exif.tobytes(), quality=95)
    else:
        shutil.copy(TURNED, path)
    assert check_image(path).is_usable
    transform = ImageTransform(32, (0.0,) * 3, (1.0,) * 3)
    with opened(path) as image:
        assert image.format == kind
    seen = transform(path)
    assert seen[:, 3, 16].argmax() == 2, "blue, which was left, is above"
    assert seen[:, 28, 16].argmax() == 0
    assert IMAGE_FORMATS[f".{ending}"] == kind
