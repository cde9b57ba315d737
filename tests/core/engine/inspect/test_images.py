"""Every kind of bad or odd image is named before a run, and the report of image data."""

import io
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from core.base.errors import DataError, Fix
from core.engine.data import image_files
from core.engine.data.alike import are_alike, look_of, pairs_alike
from core.engine.data.image_files import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Images,
    ImageTransform,
    check_image,
    readable,
)
from core.engine.data.images import find_images, load_image_data
from core.engine.inspect import images
from core.engine.inspect.images import check_all, findings_of, inspect_images
from core.jobs.inspect import DataFinding, DataReport, FindingLevel, FoundFile
from core.options import RunOptions
from core.options.choices import Augmentation, ImageFit, Task
from core.options.data import DataOptions

Writes = Callable[[Path], Any]


def noise(seed: int, size: tuple[int, int] = (24, 16), mode: str = "RGB") -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def bytes_of(image: Image.Image, kind: str = "PNG") -> bytes:
    written = io.BytesIO()
    image.save(written, kind)
    return written.getvalue()


def folders(root: Path, *names: str, count: int = 5) -> Path:
    """Good images of each class, no two the same."""
    for place, name in enumerate(names):
        (root / name).mkdir(parents=True)
        for number in range(count):
            noise(10 * place + number).save(root / name / f"{number}.png")
    return root


@pytest.fixture
def pets(tmp_path):
    return folders(tmp_path / "pets", "cat", "dog")


def options_of(train: Path, **data: Any) -> RunOptions:
    section = DataOptions(train=str(train), **{"image_size": 32, "image_fit": ImageFit.CROP, **data})
    return RunOptions(task=Task.IMAGE_CLASSIFICATION, data=section)


def report(train: Path, **data: Any) -> DataReport:
    return inspect_images(options_of(train, **data))


def checked(train: Images, held_out: Images | None = None) -> list[DataFinding]:
    sets = [train] if held_out is None else [train, held_out]
    return list(findings_of(train, held_out, check_all(sets, check_image, lambda _done, _total: None)))


def check(root: Path) -> list[DataFinding]:
    found = find_images(str(root))
    return checked(found.train, found.eval)


def codes(findings: Sequence[DataFinding]) -> list[str]:
    return [finding.code for finding in findings]


def short(kind: str, ending: str) -> Writes:
    content = bytes_of(noise(99, (200, 100)), kind)
    return lambda path: path.with_suffix(ending).write_bytes(content[: len(content) * 2 // 3])


def wrong_checksum(path: Path) -> None:
    content = bytearray(bytes_of(noise(98)))
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def claims_to_be_huge(path: Path) -> None:
    """A PNG of 100 bytes whose header says 100,000 x 100,000 pixels: 30 GB in memory."""
    header = (100_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(9))), (b"IEND", b""))
    content = b"".join(
        len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
        for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


POSTSCRIPT = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"
"""A program, which Pillow would have Ghostscript run."""

PROBLEMS: dict[str, tuple[str, Writes]] = {
    "a text file": ("not-an-image", lambda path: path.write_text("dear diary")),
    "no bytes": ("image-empty", lambda path: path.touch()),
    "a PNG cut short": ("image-damaged", short("PNG", ".png")),
    "a PNG with a wrong checksum": ("image-damaged", wrong_checksum),
    "a JPEG cut short": ("image-damaged", short("JPEG", ".jpg")),
    "a WebP cut short": ("image-damaged", short("WEBP", ".webp")),
    "a decompression bomb": ("image-too-large", claims_to_be_huge),
    "a link to itself": ("image-damaged", lambda path: path.symlink_to(path)),
    "a link to nowhere": ("image-missing", lambda path: path.symlink_to("gone.png")),
    "PostScript": ("not-an-image", lambda path: path.with_suffix(".jpg").write_text(POSTSCRIPT)),
}


@pytest.mark.parametrize(("code", "write"), PROBLEMS.values(), ids=PROBLEMS)
def test_an_image_that_does_not_open_is_named(pets, code, write):
    write(pets / "cat" / "bad.png")
    (finding,) = check(pets)
    assert (finding.code, finding.level, finding.count) == (code, FindingLevel.PROBLEM, 1)
    assert str(Path("cat", "bad.")) in finding.message
    assert finding.fixes
    with pytest.raises(DataError, match=r"bad\."):
        readable(find_images(str(pets)).train, check_image, skip=False)


def animated(path: Path) -> None:
    noise(50).save(path.with_suffix(".gif"), save_all=True, append_images=[noise(51)], duration=100)


def transparent(path: Path) -> None:
    image = noise(60, mode="RGBA")
    image.putalpha(100)
    image.save(path)


def grey(path: Path) -> None:
    Image.fromarray(np.full((16, 24), 32_768, dtype=np.uint16)).save(path)


ODD: dict[str, tuple[list[str], Writes]] = {
    "an animated GIF": (["image-animated"], animated),
    "alpha": (["image-transparent"], transparent),
    "a palette": (["image-transparent"], lambda path: noise(61).quantize(8).save(path, transparency=0)),
    "a CMYK JPEG": ([], lambda path: noise(70, mode="CMYK").save(path.with_suffix(".jpg"))),
    "16 bits of grey": ([], grey),
    "one pixel": ([], lambda path: Image.new("RGB", (1, 1), "red").save(path)),
    "50 megapixels": ([], lambda path: Image.new("L", (10_000, 5_000), 90).save(path, compress_level=1)),
}


@pytest.mark.parametrize(("expected", "write"), ODD.values(), ids=ODD)
def test_an_odd_image_trains_and_what_is_left_out_is_reported(pets, expected, write):
    write(pets / "cat" / "odd.png")
    train = find_images(str(pets)).train
    findings = checked(train)
    assert codes(findings) == expected
    assert all(finding.level is FindingLevel.WARNING for finding in findings)
    odd = next(train.encoded(index) for index in range(len(train)) if "odd." in train.where(index))
    assert ImageTransform(32)(odd).shape == (3, 32, 32)


@pytest.mark.parametrize(("target", "code"), [("cat/9.png", "duplicates"), ("dog/9.png", "contradictions")])
def test_the_same_image_twice_is_named_with_the_other_one(pets, target, code):
    (pets / target).write_bytes((pets / "cat" / "0.png").read_bytes())
    (finding,) = check(pets)
    assert (finding.code, "1 image: the same as another one" in finding.message) == (code, True)
    assert [fix.label for fix in finding.fixes] == [
        "Delete the one in the wrong folder; where opinions differ, both may stay"
    ] * (code == "contradictions")
    assert str(Path(target)) in finding.message
    assert str(Path("cat", "0.png")) in finding.message


def test_images_that_share_beginning_and_end_are_told_apart(tmp_path):
    """Two scans with the same wide border, uncompressed: only the middle differs."""
    for name, shade in (("cat", 10), ("dog", 200)):
        scan = Image.new("L", (200, 200), 255)
        scan.paste(shade, (80, 80, 120, 120))
        (tmp_path / name).mkdir()
        scan.save(tmp_path / name / "0.bmp")
    assert set(codes(check(tmp_path))) == {"class-of-one"}


def test_classes_of_one_and_classes_much_larger_than_others(pets):
    (pets / "emu").mkdir()
    noise(90).save(pets / "emu" / "0.png")
    (finding,) = check(pets)
    assert (finding.code, "“emu”" in finding.message) == ("class-of-one", True)
    (pets / "emu" / "0.png").unlink()
    for number in range(50):
        noise(100 + number).save(pets / "dog" / f"more{number}.png")
    (finding,) = check(pets)
    assert (finding.code, "“cat” has only 5 images, “dog” 55" in finding.message) == ("classes-uneven", True)


def test_images_in_parquet_are_checked_by_row(tmp_path):
    one, two = (bytes_of(noise(seed)) for seed in (1, 2))
    path = tmp_path / "a.parquet"
    rows = {"image": [one, b"no image", None, two, one], "label": ["a", "a", "b", "b", "b"]}
    parquet.write_table(pa.table(rows), path)
    assert {finding.code: finding.rows for finding in check(path)} == {
        "not-an-image": (2,),
        "empty": (3,),
        "contradictions": (5,),
    }
    assert [
        fix.label for finding in check(path) if finding.code == "contradictions" for fix in finding.fixes
    ] == ["Correct the label in the file if it is wrong; where opinions differ, it may stay"]
    assert report(path).preview[0] == ("", "a")


def test_listed_files_that_qt_cannot_read_have_a_small_picture_and_others_none(pets):
    noise(40, (600, 300)).save(pets / "cat" / "a.avif", "AVIF")
    for name in ("cat/b.avif", "dog/c.avif"):
        shutil.copy(pets / "cat" / "a.avif", pets / name)
    (pets / "dog" / "bad.avif").write_bytes(b"no image")
    shutil.copy(pets / "cat" / "0.png", pets / "cat" / "again.png")
    files = {Path(file.path).name: file for finding in report(pets).findings for file in finding.files}
    assert sorted(files) == ["again.png", "b.avif", "bad.avif", "c.avif"]
    for name in ("b.avif", "c.avif"):
        with Image.open(io.BytesIO(files[name].picture)) as small:
            assert (small.format, small.size) == ("PNG", (144, 72))
    assert files["again.png"].picture == files["bad.avif"].picture == b""


def test_incomplete_rows_of_a_table_are_problems_with_a_button_to_leave_them_out(pets):
    rows = [f"{label}/{n}.png,{label}" for label in ("cat", "dog") for n in range(5)]
    path = pets / "labels.csv"
    path.write_text("\n".join(["file,kind", *rows, "cat/0.png,", "cat/1.png,"]))
    found = report(path)
    assert (found.rows, found.used) == (12, 10)
    problem = found.findings[0]
    assert (problem.level, problem.rows) == (FindingLevel.PROBLEM, (12, 13))
    assert Fix("Leave these 2 out", {"data.skip_bad_rows": True}) in problem.fixes
    found = report(path, skip_bad_rows=True)
    assert found.findings[0].message == "2 examples: “kind” is empty. They are left out."
    held_out = report(pets, eval=str(path)).findings
    assert held_out[0].message == "Validation data: 2 examples: “kind” is empty."
    assert held_out[0].in_eval


def test_each_image_is_opened_once_and_few_are_held(pets, monkeypatch):
    """What 100,000 images cost follows: time by the opens of each, memory by how many are read ahead."""
    opens, plain_open = [0], Image.open

    def counting(*args: Any, **kwargs: Any) -> Any:
        opens[0] += 1
        return plain_open(*args, **kwargs)

    monkeypatch.setattr(image_files.Image, "open", counting)
    monkeypatch.setattr(images, "REPORT_EVERY", 50)
    for number in range(100):
        noise(1000 + number, (8, 8)).save(pets / "cat" / f"n{number}.png")
    train = find_images(str(pets)).train
    assert opens == [0]
    reported: list[tuple[int, int]] = []
    check_all([train], check_image, lambda done, total: reported.append((done, total)))
    assert (opens, reported) == ([110], [(50, 110), (100, 110), (110, 110)])
    next(image_files.check_each(train, check_image))
    assert opens[0] <= 110 + image_files.AHEAD


def test_what_the_model_sees_is_shown_beside_the_original(tmp_path):
    noise(5, (600, 300)).save(tmp_path / "wide.png")
    transform = ImageTransform(32)
    [shown], stored = transform.preview(tmp_path / "wide.png", 0)
    seen, original = (Image.open(io.BytesIO(png)) for png in (shown, stored))
    assert (seen.format, seen.size, original.size) == ("PNG", (32, 32), (256, 128))
    mean, std = (torch.tensor(v)[:, None, None] for v in (IMAGENET_MEAN, IMAGENET_STD))
    pixels = ((transform(tmp_path / "wide.png") * std + mean) * 255).round().to(torch.uint8)
    assert np.array_equal(np.asarray(seen), pixels.permute(1, 2, 0).numpy())


class TestReport:
    def test_a_folder(self, pets):
        found = report(pets, eval_fraction=0.2)
        assert (found.format, found.rows, found.labels) == ("class folders", 10, {"cat": 5, "dog": 5})
        data = load_image_data(options_of(pets, eval_fraction=0.2))
        assert (found.train_rows, found.eval_rows) == (len(data.train), len(data.eval or ()))
        assert (found.problems, found.findings, found.splits) == ((), (), ())
        assert ([seen.label for seen in found.seen[:2]], len(found.seen)) == (["cat", "dog"], 8)
        assert Image.open(io.BytesIO(found.seen[0].images[0])).size == (32, 32)
        assert Image.open(io.BytesIO(found.seen[0].original)).size == (24, 16)

    def test_augmented_images_are_shown_as_the_first_epochs_feed_them(self, pets):
        options = options_of(pets, eval_fraction=0.0, augmentation=Augmentation.LIGHT)
        train, shown = load_image_data(options).train, inspect_images(options).seen[0].images
        place = list(train.chosen).index(0)
        fed = [train.transform.png(train[epoch, place]["pixel_values"]) for epoch in range(3)]
        assert list(shown) == fed
        assert len(set(fed)) == 3

    def test_a_table_with_its_columns_and_the_rows_of_the_file(self, pets):
        path = pets / "labels.csv"
        path.write_text("picture,kind\ncat/0.png,cat\ndog/0.png,dog\ncat/none.png,cat\ndog/0.png,dog\n")
        found = report(path)
        assert (found.columns_by_role, found.label_column) == ({"image": "picture"}, "kind")
        assert (found.preview[1], found.preview_rows) == (("dog/0.png", "dog"), (2, 3, 4, 5))
        rows = [(finding.code, finding.rows) for finding in found.findings]
        assert rows[:2] == [("image-missing", (4,)), ("duplicates", (5,))]
        assert [(seen.row, seen.label) for seen in found.seen[:2]] == [(2, "cat"), (3, "dog")]

    def test_all_at_once_problems_first(self, pets, tmp_path):
        for number, name in enumerate(("no bytes", "a text file", "no bytes")):
            PROBLEMS[name][1](pets / "cat" / f"bad{number}.png")
        (pets / "cat" / "again.png").write_bytes((pets / "cat" / "0.png").read_bytes())
        found = report(pets, eval=str(folders(tmp_path / "test", "emu", count=1)))
        assert codes(found.findings) == ["image-empty", "not-an-image", "duplicates", "in-both"]
        assert found.findings[0].count == 2
        offered = Fix("Leave out all examples that can't be used", {"data.skip_bad_rows": True})
        assert [offered in finding.fixes for finding in found.findings] == [True, True, False, False]
        (problem,) = found.problems
        assert (problem.path, "emu" in problem.message, found.eval_rows) == ("data.eval", True, None)
        (problem,) = report(tmp_path / "test").problems
        assert "single label" in problem.message

    def test_images_that_cannot_be_read_are_not_counted(self, pets, tmp_path):
        whole = report(pets, eval_fraction=0.2)
        for number, name in enumerate(("no bytes", "a text file")):
            PROBLEMS[name][1](pets / "cat" / f"bad{number}.png")
        found = report(pets, eval_fraction=0.2)
        assert (found.rows, found.used, found.labels) == (12, 10, {"cat": 5, "dog": 5})
        assert (found.train_rows, found.eval_rows) == (whole.train_rows, whole.eval_rows) == (8, 2)
        test = folders(tmp_path / "test", "cat", "dog", count=2)
        PROBLEMS["no bytes"][1](test / "cat" / "bad.png")
        found = report(pets, eval=str(test))
        assert (found.train_rows, found.eval_rows) == (10, 4)

    def test_evaluation_data_is_compared_with_what_is_trained_on(self, pets, tmp_path):
        found = report(pets, eval=str(folders(tmp_path / "test", "cat", "dog", count=1)))
        assert (found.train_rows, found.eval_rows) == (10, 2)
        assert [(one.code, one.count, one.in_eval) for one in found.findings] == [("in-both", 2, True)]

    def test_splits_there_are_to_choose_from(self, tmp_path):
        for name in ("train", "dev"):
            folders(tmp_path / "sets" / name, "cat", "dog")
        found = report(tmp_path / "sets", eval_split="dev")
        assert (found.splits, found.train_rows, found.eval_rows) == (("dev", "train"), 10, 10)


def photo(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    """A picture with much on it, as a photograph has."""
    spots = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(spots).resize(size, Image.Resampling.BICUBIC)


def photos(root: Path, classes: int = 2, count: int = 20) -> Path:
    for label in range(classes):
        (root / f"class {label}").mkdir(parents=True)
        for number in range(count):
            photo(100 * label + number).save(root / f"class {label}" / f"{number}.jpg")
    return root


def test_bad_images_are_left_out_only_if_asked_and_are_named(tmp_path):
    root = photos(tmp_path / "photos")
    for name in ("x.jpg", "y.jpg"):
        (root / "class 0" / name).write_text("dear diary")
    (problem,) = report(root).findings
    assert (problem.level, problem.count) == (FindingLevel.PROBLEM, 2)
    assert [Path(file.path).name for file in problem.files] == ["x.jpg", "y.jpg"]
    assert problem.files[0].reason == "a text file"
    assert Fix("Leave these 2 out", {"data.skip_bad_rows": True}) in problem.fixes
    with pytest.raises(DataError, match="2 images can't be read"):
        load_image_data(options_of(root))
    found = report(root, skip_bad_rows=True)
    assert [finding.level for finding in found.findings] == [FindingLevel.WARNING]
    assert found.findings[0].message.endswith("They are left out.")
    assert found.findings[0].fixes == ()
    data = load_image_data(options_of(root, skip_bad_rows=True))
    assert len(data.train) + len(data.eval) == 40 == found.train_rows + found.eval_rows
    (note,) = [note for note in data.notes if "left out" in note]
    assert "2 images that can't be read are left out" in note
    assert "x.jpg: a text file" in note


def test_bad_images_for_validation_are_left_out_too(tmp_path):
    root, held_out = photos(tmp_path / "photos"), photos(tmp_path / "held out", count=3)
    (held_out / "class 1" / "x.jpg").touch()
    with pytest.raises(DataError, match=r"x\.jpg"):
        load_image_data(options_of(root, eval=str(held_out)))
    data = load_image_data(options_of(root, eval=str(held_out), skip_bad_rows=True))
    assert len(data.eval) == 6


def test_images_that_are_not_square_are_told_of_and_those_that_are_not(tmp_path):
    root = photos(tmp_path / "photos")
    (finding,) = report(root, image_fit=ImageFit.SQUASH).findings
    assert finding.message == (
        "40 of 40 images are clearly not square (one side more than 10 % longer than the other) and are squashed to "
        "32 × 32 pixels."
    )
    assert [fix.changes for fix in finding.fixes] == [{"data.image_fit": "crop"}]
    assert report(root, image_fit=ImageFit.CROP).findings == ()
    for number, file in enumerate(root.rglob("*.jpg")):  # nearly square, but a few
        photo(700 + number, (120, 114 if number % 4 else 60)).save(file)
    assert report(root, image_fit=ImageFit.SQUASH).findings == ()
    for number, file in enumerate(root.rglob("*.jpg")):  # those that are nearly square aren't counted
        photo(700 + number, (120, 60 if number % 4 else 114)).save(file)
    (finding,) = report(root, image_fit=ImageFit.SQUASH).findings
    assert finding.message.startswith("30 of 40 images are clearly not square")


def test_a_photo_in_training_and_validation_is_found_in_another_size(tmp_path):
    root, held_out = photos(tmp_path / "photos"), photos(tmp_path / "held out", count=4)
    for number, file in enumerate(sorted(held_out.rglob("*.jpg"))):
        photo(5000 + number).save(file)
    assert report(root, eval=str(held_out)).findings == ()
    with Image.open(root / "class 1" / "7.jpg") as known:
        known.resize((110, 82)).save(held_out / "class 1" / "0.jpg", quality=60)
    (finding,) = report(root, eval=str(held_out)).findings
    assert (finding.code, finding.count, finding.in_eval) == ("alike-in-both", 1, True)
    assert finding.files == (
        FoundFile(str(held_out / "class 1" / "0.jpg"), "", str(root / "class 1" / "7.jpg")),
    )


def test_photos_of_one_burst_on_both_sides_of_the_split_are_counted(tmp_path):
    root = photos(tmp_path / "photos")
    assert report(root).findings == ()
    for number in range(20):
        with Image.open(root / "class 0" / f"{number}.jpg") as one:
            one.crop((0, 0, 159, 120)).save(root / "class 0" / f"{number} again.jpg")
    (finding,) = report(root).findings
    assert finding.code == "alike-in-both"
    data = load_image_data(options_of(root))
    names = {Path(data.eval.images.where(place)).name for place in data.eval.chosen}
    assert {Path(file.path).name for file in finding.files} <= names


def test_a_plain_image_that_is_trained_on_and_evaluated_is_counted_if_it_is_the_same(tmp_path):
    """It has too little on it to be nearly the same as another one."""
    root = folders(tmp_path / "plain", "cat", "dog", count=20)
    for number, file in enumerate(sorted(root.rglob("*.png"))):
        Image.new("RGB", (80, 80), (6 * number, 9, 9)).save(file)
    assert report(root).findings == ()
    for file in sorted((root / "cat").glob("*.png")):
        shutil.copy(file, file.with_stem(f"{file.stem} again"))
    data = load_image_data(options_of(root))
    parts = [
        {one.images.encoded(place).read_bytes() for place in one.chosen} for one in (data.train, data.eval)
    ]
    found = {finding.code: finding.count for finding in report(root).findings}
    assert found["alike-in-both"] == len(parts[0] & parts[1]) > 0


def test_images_of_another_shape_are_not_alike():
    wide = Image.radial_gradient("L")
    tall = wide.resize((200, 300))
    assert are_alike(wide, wide.resize((90, 90)))
    assert not are_alike(wide, tall)


def test_no_digit_is_taken_for_another_one_however_large():
    pixels = np.asarray(find_images("builtin:digits").train.stored)[:, 0]
    scans = [Image.fromarray(one).resize((64, 64), Image.Resampling.BICUBIC) for one in pixels]
    looks = [look_of(scan) for scan in scans]
    pairs = list(pairs_alike(looks[:180], looks[180:]))
    assert pairs, "those that their looks alone would name"
    assert not any(are_alike(scans[place], scans[180 + other]) for place, other in pairs)


def test_what_has_not_changed_is_not_read_again(pets, monkeypatch, own_home):
    checks: list[Path] = []

    def counting(image: Any) -> Any:
        checks.append(image)
        return check_image(image)

    monkeypatch.setattr(image_files, "check_image", counting)
    bad = pets / "cat" / "bad.png"
    bad.touch()
    first = report(pets)
    assert len(checks) == 11
    checks.clear()
    noise(77).save(pets / "dog" / "3.png")
    again = report(pets, augmentation=Augmentation.LIGHT, eval_fraction=0.3)
    assert sorted(checks) == sorted([bad, pets / "dog" / "3.png"])
    assert again.findings == first.findings
    checks.clear()
    bad.unlink()
    load_image_data(options_of(pets))
    assert checks == []


def test_a_class_of_which_no_image_is_left_is_none(pets, tmp_path):
    test = folders(tmp_path / "test", "cat", "dog", count=2)
    for folder in (pets, test):
        (folder / "emu").mkdir()
        (folder / "emu" / "only.png").touch()
    asked = {"eval": str(test), "eval_fraction": 0.0, "skip_bad_rows": True}
    found, data = report(pets, **asked), load_image_data(options_of(pets, **asked))
    assert (found.problems, found.labels) == ((), {"cat": 5, "dog": 5})
    assert (data.labels, len(data.train), len(data.eval or ())) == (("cat", "dog"), 10, 4)


def test_all_images_cannot_be_left_out(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").touch()
    with pytest.raises(DataError) as caught:
        load_image_data(options_of(tmp_path, skip_bad_rows=True))
    assert not any(fix.changes for fix in caught.value.fixes)
    assert report(tmp_path, skip_bad_rows=True).findings[0].level is FindingLevel.PROBLEM
    assert not any(fix.changes for finding in report(tmp_path).findings for fix in finding.fixes)


def test_nothing_is_said_twice_and_no_text_of_a_library_is_told(pets):
    short("JPEG", ".jpg")(pets / "cat" / "short.png")
    (finding,) = check(pets)
    assert finding.message == f"1 image: damaged or cut short: {Path('cat/short.jpg')}."
    (pets / "cat" / "short.jpg").write_text("dear diary")
    (finding,) = check(pets)
    assert finding.message == f"1 image: not an image: {Path('cat/short.jpg')} (a text file)."


def test_digits_and_plain_images_are_not_alike(tmp_path):
    assert report(Path("builtin:digits")).findings == ()
    root = photos(tmp_path / "plain")
    for number, file in enumerate(sorted(root.rglob("*.jpg"))):
        plain = Image.new("RGB", (200, 150), "white")
        plain.paste((200, 4 * number, 9), (20 + number, 20, 90, 90 + number))
        plain.save(file)
    assert [finding.code for finding in report(root).findings] == []
