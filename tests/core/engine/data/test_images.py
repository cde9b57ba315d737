"""Images from folders, IDX files, the bundled digits and none at all."""

import gzip
import pickle
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from core.base.errors import DataError
from core.engine.data.image_files import IMAGENET_MEAN, IMAGENET_STD, ImageTransform
from core.engine.data.images import ImageData, load_image_data
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions


def load(train: Path | str, **data: Any) -> ImageData:
    data.setdefault("image_size", 32)
    asked = DataOptions(
        train=str(train), **{key: str(v) if isinstance(v, Path) else v for key, v in data.items()}
    )
    return load_image_data(RunOptions(task=Task.IMAGE_CLASSIFICATION, data=asked))


def refusal(train: Path | str, **data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load(train, **data)
    return caught.value


def tree(root: Path, classes: dict[str, int], ending: str = "png", size: tuple[int, int] = (40, 30)) -> Path:
    """Class folders of images of one colour a class."""
    for shade, (name, count) in enumerate(classes.items()):
        folder = root / name
        folder.mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", size, (40 * shade, 100, number)).save(folder / f"{number}.{ending}")
    return root


def idx(path: Path, values: np.ndarray[Any, Any]) -> Path:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def labels_of(images: Any) -> list[int]:
    return [images[index]["labels"] for index in range(len(images))]


class TestDigits:
    def test_split_and_values(self) -> None:
        data = load("builtin:digits")
        assert (len(data.train), len(data.eval or ())) == (1617, 180)
        assert data.labels == tuple("0123456789")
        sample = data.train[0]
        assert sample["pixel_values"].shape == (3, 32, 32)
        assert sample["pixel_values"].dtype == torch.float32
        assert isinstance(sample["labels"], int)

    def test_the_same_seed_gives_the_same_split(self) -> None:
        first, second = load("builtin:digits"), load("builtin:digits")
        assert labels_of(first.eval) == labels_of(second.eval)
        assert torch.equal(first.train[7]["pixel_values"], second.train[7]["pixel_values"])

    def test_resized_at_once_or_one_by_one_is_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        at_once = load("builtin:digits", image_size=48)
        monkeypatch.setattr("core.engine.data.image_files.RESIZED_AT_ONCE_BYTES", 0)
        one_by_one = load("builtin:digits", image_size=48)
        assert torch.equal(at_once.train[3]["pixel_values"], one_by_one.train[3]["pixel_values"])


class TestTransform:
    def test_black_and_white_are_normalised(self) -> None:
        transform = ImageTransform(32)
        for shade in (0, 255):
            found = transform.from_pil(Image.new("L", (32, 32), shade))
            expected = (shade / 255 - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)
            assert torch.allclose(found[:, 5, 5], expected)

    def test_a_file_and_its_pixels_give_the_same(self) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
        from_pil = ImageTransform(64).from_pil(Image.fromarray(noise))
        from_pixels = ImageTransform(64).from_pixels(torch.from_numpy(noise)[None])
        one_level = 1 / 255 / min(IMAGENET_STD)
        assert torch.allclose(from_pil, from_pixels, atol=1.01 * one_level)

    def test_an_image_on_its_side_is_turned_upright(self, tmp_path: Path) -> None:
        image = Image.new("L", (40, 20))
        image.paste(255, (0, 0, 20, 20))  # white on the left
        exif = Image.Exif()
        exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise
        image.save(tmp_path / "a.png", exif=exif)
        found = ImageTransform(32).from_pil(Image.open(tmp_path / "a.png"))
        assert found[0, 2, 16] > 0 > found[0, 29, 16]  # white on top now

    def test_sixteen_bit_grey_is_scaled_not_clipped(self) -> None:
        image = Image.fromarray(np.full((32, 32), 32768, dtype=np.uint16))
        found = ImageTransform(32).from_pil(image)[0, 0, 0]
        assert float(found) == pytest.approx((127 / 255 - IMAGENET_MEAN[0]) / IMAGENET_STD[0], abs=0.02)

    @pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "LA"])
    def test_every_mode_becomes_three_channels(self, mode: str) -> None:
        assert ImageTransform(32).from_pil(Image.new(mode, (10, 20))).shape == (3, 32, 32)


class TestClassFolders:
    @pytest.mark.parametrize("ending", ["png", "jpg", "bmp", "gif", "webp", "tiff", "JPEG"])
    def test_every_kind_of_image(self, tmp_path: Path, ending: str) -> None:
        data = load(tree(tmp_path / "pets", {"cat": 5, "dog": 5}, ending), eval_fraction=0.2)
        assert data.labels == ("cat", "dog")
        assert Counter(labels_of(data.train)) == {0: 4, 1: 4}
        assert Counter(labels_of(data.eval)) == {0: 1, 1: 1}
        assert data.train[0]["pixel_values"].shape == (3, 32, 32)

    def test_pixels_belong_to_their_labels(self, tmp_path: Path) -> None:
        data = load(tree(tmp_path / "pets", {"cat": 6, "dog": 6}))
        for index in range(len(data.train)):
            sample = data.train[index]
            is_dog = bool(sample["pixel_values"][0, 0, 0] > load_red(20))
            assert is_dog == (data.labels[sample["labels"]] == "dog")

    def test_the_first_few_hold_every_class(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 9, "dog": 9, "emu": 9})
        assert Counter(labels_of(load(root, max_train_samples=6, eval_fraction=0.0).train)) == {
            0: 2,
            1: 2,
            2: 2,
        }

    @pytest.mark.parametrize("held_out", ["val", "valid", "Test"])
    def test_train_and_validation_below_one_folder(self, tmp_path: Path, held_out: str) -> None:
        tree(tmp_path / "pets" / "train", {"cat": 4, "dog": 4})
        tree(tmp_path / "pets" / held_out, {"cat": 1, "dog": 2})
        data = load(tmp_path / "pets")
        assert (len(data.train), len(data.eval or ())) == (8, 3)
        assert f"{held_out} is used for evaluation." in data.notes

    def test_evaluation_data_that_was_chosen_goes_first(self, tmp_path: Path) -> None:
        tree(tmp_path / "pets" / "train", {"cat": 4, "dog": 4})
        tree(tmp_path / "pets" / "val", {"cat": 1, "dog": 2})
        data = load(tmp_path / "pets", eval=tree(tmp_path / "more", {"cat": 5, "dog": 5}), max_eval_samples=7)
        assert len(data.eval or ()) == 7

    def test_what_is_passed_over_is_noted(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 3, "dog": 3, "emu": 0})
        (root / "cat" / "list.txt").write_text("no image")
        (root / "cat" / ".DS_Store").write_text("")
        (root / "readme.md").write_text("no image")
        data = load(root)
        assert data.labels == ("cat", "dog")
        assert any("emu" in note for note in data.notes)
        assert any(note.startswith("2 files that are no image") for note in data.notes)

    def test_a_single_sample_of_a_class_is_trained_on(self, tmp_path: Path) -> None:
        data = load(tree(tmp_path / "pets", {"cat": 9, "dog": 1}), eval_fraction=0.5)
        assert 1 in labels_of(data.train)

    def test_damaged_images_are_named(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 4, "dog": 4}, "jpg", size=(300, 300))
        whole = (root / "cat" / "0.jpg").read_bytes()
        (root / "cat" / "0.jpg").write_bytes(whole[: len(whole) // 2])
        (root / "cat" / "1.jpg").write_text("this is no image")
        (root / "cat" / "2.jpg").write_bytes(b"")
        error = refusal(root)
        assert error.title.startswith("3 images can't be read")
        for number in range(3):
            assert str(root / "cat" / f"{number}.jpg") in error.detail

    def test_a_damaged_png_is_found_by_its_checksums(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 2, "dog": 2})
        content = bytearray((root / "dog" / "1.png").read_bytes())
        content[len(content) // 2] ^= 0xFF
        (root / "dog" / "1.png").write_bytes(content)
        assert str(root / "dog" / "1.png") in refusal(root).detail

    def test_of_many_damaged_images_five_are_listed(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 4, "dog": 4})
        for path in root.rglob("*.png"):
            path.write_bytes(b"no")
        detail = refusal(root).detail
        assert detail.count(".png: ") == 5
        assert "3 more" in detail

    def test_an_image_that_breaks_later_is_named_too(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 2, "dog": 2})
        data = load(root, eval_fraction=0.0)
        for path in root.rglob("*.png"):
            path.write_bytes(b"no")
        with pytest.raises(DataError, match=r"\.png can't be read as an image") as caught:
            data.train[0]
        assert str(root) in caught.value.detail


def load_red(value: int) -> float:
    return (value / 255 - IMAGENET_MEAN[0]) / IMAGENET_STD[0]


class TestSplits:
    def test_folders_can_be_chosen(self, tmp_path: Path) -> None:
        for number, name in enumerate(("train", "test", "extra"), 2):
            tree(tmp_path / "pets" / name, {"cat": number, "dog": number})
        data = load(tmp_path / "pets", train_split="Extra", eval_split="test")
        assert (len(data.train), len(data.eval or ())) == (8, 6)
        assert load(tmp_path / "pets", train_split="test", eval_fraction=0.0).eval is None
        assert len(load(tmp_path / "pets", eval_split="extra").eval or ()) == 8

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        tree(tmp_path / "pets" / "train", {"cat": 2, "dog": 2})
        error = refusal(tmp_path / "pets", eval_split="dev")
        assert error.title == "pets has no split dev"
        assert "there are “train”" in error.detail


class TestLinks:
    def test_a_link_back_to_the_folder_is_no_class(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 2, "dog": 2})
        (root / "again").symlink_to(root, target_is_directory=True)
        (root / "cat" / "up").symlink_to(root, target_is_directory=True)
        assert load(root).labels == ("cat", "dog")

    def test_a_file_that_links_to_itself_is_named(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 2, "dog": 2})
        (root / "cat" / "round.png").symlink_to(root / "cat" / "round.png")
        assert "round.png" in refusal(root).title


class TestFolderRefusals:
    def test_images_without_class_folders(self, tmp_path: Path) -> None:
        Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
        error = refusal(tmp_path)
        assert "has no class folders" in error.title
        assert "It holds 1 image but no folders" in error.detail

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        assert "has no class folders" in refusal(tmp_path).title

    def test_class_folders_without_images(self, tmp_path: Path) -> None:
        assert "no images" in refusal(tree(tmp_path / "pets", {"cat": 0, "dog": 0})).title

    def test_one_class_only(self, tmp_path: Path) -> None:
        error = refusal(tree(tmp_path / "pets", {"cat": 3}))
        assert error.title == "pets has only one class"
        assert '"cat"' in error.detail

    def test_a_class_unseen_in_training(self, tmp_path: Path) -> None:
        root = tree(tmp_path / "pets", {"cat": 3, "dog": 3})
        held_out = tree(tmp_path / "test", {"cat": 1, "emu": 1})
        error = refusal(root, eval=held_out)
        assert '"emu"' in error.title
        assert str(held_out / "emu" / "0.png") in error.detail
        assert {"data.eval": None} in [fix.changes for fix in error.fixes]

    def test_a_missing_path_and_a_file_of_something_else(self, tmp_path: Path) -> None:
        assert "There is no" in refusal(tmp_path / "nowhere").title
        other = tmp_path / "a.doc"
        other.write_text("a letter")
        assert "a.doc holds no images" in refusal(other).title


class TestIdx:
    @pytest.fixture
    def pair(self, tmp_path: Path) -> Path:
        """Twenty images, each of one shade, in ten classes."""
        shades = np.arange(20)[:, None, None].repeat(28, 1).repeat(28, 2) * 10
        idx(tmp_path / "t10k-images-idx3-ubyte.gz", shades)
        idx(tmp_path / "t10k-labels-idx1-ubyte", np.arange(20) % 10)
        return tmp_path

    @pytest.mark.parametrize("name", ["", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"])
    def test_the_folder_or_either_file(self, pair: Path, name: str) -> None:
        data = load(pair / name, eval_fraction=0.0)
        assert data.labels == tuple("0123456789")
        for index in range(20):
            shade = ImageTransform(32).normalise(torch.full((1, 1, 1), index * 10, dtype=torch.uint8))
            assert torch.allclose(data.train[index]["pixel_values"], shade.expand(3, 32, 32))
            assert data.train[index]["labels"] == index % 10

    def test_a_folder_with_training_and_test_pairs(self, pair: Path) -> None:
        idx(pair / "train-images.idx3-ubyte", np.zeros((30, 28, 28)))
        idx(pair / "train-labels.idx1-ubyte", np.arange(30) % 10)
        data = load(pair)
        assert (len(data.train), len(data.eval or ())) == (30, 20)
        assert any("t10k-images-idx3-ubyte.gz" in note for note in data.notes)

    def test_missing_labels(self, pair: Path) -> None:
        (pair / "t10k-labels-idx1-ubyte").unlink()
        error = refusal(pair)
        assert "its labels are missing" in error.title
        assert "t10k-labels-idx1-ubyte" in error.detail

    def test_counts_that_differ(self, pair: Path) -> None:
        idx(pair / "t10k-labels-idx1-ubyte", np.arange(19))
        assert "20 images" in refusal(pair).detail

    @pytest.mark.parametrize("compressed", [True, False])
    def test_a_file_cut_off(self, pair: Path, compressed: bool) -> None:
        path = pair / "t10k-images-idx3-ubyte.gz"
        content = path.read_bytes() if compressed else gzip.decompress(path.read_bytes())
        path.write_bytes(content[: len(content) - 20])
        what = "damaged" if compressed else "cut off"
        assert f"t10k-images-idx3-ubyte.gz is {what}" in refusal(pair).title

    @pytest.mark.data
    def test_mnist(self, shared_data: Path) -> None:
        data = load(shared_data / "mnist", eval_fraction=0.1)
        assert (len(data.train), len(data.eval or ())) == (9000, 1000)
        assert Counter(labels_of(data.eval))[1] == 114  # of 1,135


def test_synthetic_images_have_their_own_size_and_two_classes() -> None:
    data = load("synthetic:64x96", image_size=224)
    assert len(data.train) == 64
    assert data.eval is None
    assert data.train[0]["pixel_values"].shape == (3, 96, 96)
    assert Counter(labels_of(data.train)) == {0: 32, 1: 32}


def test_a_single_synthetic_image_is_allowed() -> None:
    assert len(load("synthetic:1x32").train) == 1


def test_many_synthetic_images_take_little_memory() -> None:
    data = load("synthetic:5000x224")
    assert len(data.train) == 5000
    assert data.train[4999]["pixel_values"].shape == (3, 224, 224)
    assert len(pickle.dumps(data.train)) < 80 * 2**20


def test_data_sets_can_be_sent_to_workers(tmp_path: Path) -> None:
    root = tree(tmp_path / "pets", {"cat": 3, "dog": 3})
    for data in (load(root), load("builtin:digits")):
        copy = pickle.loads(pickle.dumps(data.train))
        assert torch.equal(copy[1]["pixel_values"], data.train[1]["pixel_values"])
        assert len(copy) == len(data.train)
