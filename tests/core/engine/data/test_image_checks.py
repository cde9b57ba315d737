"""Every kind of bad or odd image: each is named before a run, or trains as a person would expect."""

import io
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

from core.base.errors import DataError
from core.engine.data import image_checks, image_files
from core.engine.data.image_checks import check_images
from core.engine.data.image_files import IMAGENET_MEAN, IMAGENET_STD, ImageTransform
from core.engine.data.images import find_images, preview
from core.services.inspect import Finding, FindingLevel

Writes = Callable[[Path], None]


def noise(seed: int, size: tuple[int, int] = (24, 16), mode: str = "RGB") -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def bytes_of(image: Image.Image, kind: str, **options: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Three good images of each of two classes."""
    root = tmp_path / "pets"
    for place, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for number in range(3):
            noise(10 * place + number).save(root / name / f"{number}.png")
    return root


def check(root: Path) -> tuple[Finding, ...]:
    found = find_images(str(root), open_all=False)
    return check_images(found.train, found.eval)


def codes(findings: Sequence[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def short(kind: str, ending: str) -> Writes:
    def write(path: Path) -> None:
        content = bytes_of(noise(99, (200, 100)), kind)
        path.with_suffix(ending).write_bytes(content[: len(content) * 2 // 3])

    return write


def claims_to_be_huge(path: Path) -> None:
    """A PNG of 100 bytes whose header says 100,000 x 100,000 pixels: 30 GB in memory."""
    header = (100_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(9))), (b"IEND", b""))
    content = b"".join(
        len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
        for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def round_link(path: Path) -> None:
    path.symlink_to(path)


POSTSCRIPT = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"
"""A program, which Pillow would have Ghostscript run."""

PROBLEMS: dict[str, tuple[str, Writes]] = {
    "a text file": ("not-an-image", lambda path: path.write_text("dear diary") and None),
    "no bytes": ("image-empty", lambda path: path.touch()),
    "a PNG cut short": ("image-damaged", short("PNG", ".png")),
    "a JPEG cut short": ("image-damaged", short("JPEG", ".jpg")),
    "a GIF cut short": ("image-damaged", short("GIF", ".gif")),
    "a BMP cut short": ("image-damaged", short("BMP", ".bmp")),
    "a WebP cut short": ("image-damaged", short("WEBP", ".webp")),
    "a TIFF cut short": ("image-damaged", short("TIFF", ".tif")),
    "a decompression bomb": ("image-too-large", claims_to_be_huge),
    "a link to itself": ("image-damaged", round_link),
    "a link to nowhere": ("image-missing", lambda path: path.symlink_to("gone.png")),
    "a web page": ("not-an-image", lambda path: path.write_text("<!doctype html>") and None),
    "PostScript": ("not-an-image", lambda path: path.with_suffix(".jpg").write_text(POSTSCRIPT) and None),
    "zero bytes only": ("not-an-image", lambda path: path.write_bytes(bytes(4096)) and None),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_image_that_does_not_open_is_named(pets: Path, name: str) -> None:
    code, write = PROBLEMS[name]
    write(pets / "cat" / "bad.png")
    (finding,) = check(pets)
    assert (finding.code, finding.level, finding.count) == (code, FindingLevel.PROBLEM, 1)
    assert str(Path("cat", "bad.")) in finding.message
    assert finding.fixes
    with pytest.raises(DataError, match=r"bad\."):
        find_images(str(pets))


def test_all_are_found_at_once_in_order_of_weight(pets: Path) -> None:
    for number, (_, write) in enumerate(
        (PROBLEMS["no bytes"], PROBLEMS["a text file"], PROBLEMS["no bytes"])
    ):
        write(pets / "cat" / f"bad{number}.png")
    (pets / "dog" / "again.png").write_bytes((pets / "dog" / "0.png").read_bytes())
    found = check(pets)
    assert codes(found) == ["image-empty", "not-an-image", "image-repeated"]
    assert found[0].count == 2


def animated(path: Path) -> None:
    frames = [noise(50), noise(51)]
    frames[0].save(path.with_suffix(".gif"), save_all=True, append_images=frames[1:], duration=100)


def transparent(path: Path) -> None:
    image = noise(60, mode="RGBA")
    image.putalpha(100)
    image.save(path)


def palette_with_transparency(path: Path) -> None:
    noise(61).quantize(8).save(path, transparency=0)


def sixteen_bits(path: Path) -> None:
    Image.fromarray(np.full((16, 24), 40_000, dtype=np.uint16)).save(path)


def on_its_side(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    noise(62).save(path.with_suffix(".jpg"), exif=exif)


ODD: dict[str, tuple[list[str], Writes]] = {
    "an animated GIF": (["image-animated"], animated),
    "alpha": (["image-transparent"], transparent),
    "a palette with transparency": (["image-transparent"], palette_with_transparency),
    "a CMYK JPEG": ([], lambda path: noise(70, mode="CMYK").save(path.with_suffix(".jpg"))),
    "16 bits of grey": ([], sixteen_bits),
    "grey": ([], lambda path: noise(71, mode="L").save(path)),
    "black and white": ([], lambda path: noise(72, mode="1").save(path)),
    "turned by its EXIF": ([], on_its_side),
    "one pixel": ([], lambda path: Image.new("RGB", (1, 1), "red").save(path)),
    "50 megapixels": ([], lambda path: Image.new("L", (10_000, 5_000), 90).save(path, compress_level=1)),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_image_trains_and_what_is_left_out_is_told(pets: Path, name: str) -> None:
    expected, write = ODD[name]
    write(pets / "cat" / "odd.png")
    found = find_images(str(pets))
    findings = check_images(found.train)
    assert codes(findings) == expected
    assert all(finding.level is FindingLevel.WARNING for finding in findings)
    odd = next(i for i in range(len(found.train.names)) if "odd" in found.train.where(i))
    sample = found.train.select([odd], [0], ImageTransform(32))[0]
    assert sample["pixel_values"].shape == (3, 32, 32)


def test_a_large_jpeg_is_decoded_small_and_shows_the_same(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    image = noise(3, (8, 5)).resize((8_000, 5_000), Image.Resampling.BILINEAR)
    image.save(path, quality=60)
    plain = ImageTransform(32).from_pil(image)
    with Image.open(path) as opened:
        found = ImageTransform(32).from_pil(opened)
        assert opened.size == (1_000, 625)
    assert torch.allclose(found, plain, atol=4 / 255 / min(IMAGENET_STD))


def test_the_first_frame_of_an_animation_is_used(pets: Path) -> None:
    animated(pets / "cat" / "odd.png")
    with Image.open(pets / "cat" / "odd.gif") as image:
        first = image.convert("RGB")
    found = find_images(str(pets)).train
    odd = next(i for i in range(len(found.names)) if "odd" in found.where(i))
    seen = found.select([odd], [0], ImageTransform(32))[0]["pixel_values"]
    assert torch.equal(seen, ImageTransform(32).from_pil(first))


class TestSameImages:
    def copy(self, pets: Path, to: str) -> None:
        target = pets / to
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((pets / "cat" / "0.png").read_bytes())

    def test_twice_in_one_class(self, pets: Path) -> None:
        self.copy(pets, "cat/9.png")
        (finding,) = check(pets)
        assert finding.code == "image-repeated"
        assert str(Path("cat", "9.png")) in finding.message
        assert str(Path("cat", "0.png")) in finding.message

    def test_twice_with_different_labels(self, pets: Path) -> None:
        self.copy(pets, "dog/9.png")
        assert codes(check(pets)) == ["image-contradicted"]

    def test_in_training_and_in_evaluation(self, pets: Path, tmp_path: Path) -> None:
        train = find_images(str(pets), open_all=False).train
        other = tmp_path / "held"
        for name in ("cat", "dog"):
            (other / name).mkdir(parents=True)
            noise(500 + len(other.name) + ord(name[0])).save(other / name / "0.png")
        (other / "cat" / "same.png").write_bytes((pets / "cat" / "0.png").read_bytes())
        (finding,) = check_images(train, find_images(str(other), open_all=False).train)
        assert (finding.code, finding.in_eval) == ("image-in-both", True)
        assert "same.png" in finding.message

    def test_images_that_share_beginning_and_end_are_told_apart(self, tmp_path: Path) -> None:
        """Two scans with the same wide border, uncompressed: only the middle differs."""
        for name, shade in (("cat", 10), ("dog", 200)):
            scan = Image.new("L", (200, 200), 255)
            scan.paste(shade, (80, 80, 120, 120))
            (tmp_path / name).mkdir()
            scan.save(tmp_path / name / "0.bmp")
        assert set(codes(check(tmp_path))) == {"class-of-one"}


class TestClasses:
    def test_a_class_with_one_image(self, pets: Path) -> None:
        (pets / "emu").mkdir()
        noise(90).save(pets / "emu" / "0.png")
        (finding,) = check(pets)
        assert finding.code == "class-of-one"
        assert "“emu”" in finding.message

    def test_a_class_with_many_times_as_many(self, pets: Path) -> None:
        for number in range(27):
            noise(100 + number).save(pets / "dog" / f"more{number}.png")
        (finding,) = check(pets)
        assert finding.code == "classes-uneven"
        assert "“dog” has 30 images, “cat” 3" in finding.message

    def test_an_empty_class_folder_and_hidden_files(self, pets: Path) -> None:
        (pets / "emu").mkdir()
        for name in (".DS_Store", "Thumbs.db", "._0.png"):
            (pets / "cat" / name).write_bytes(b"junk")
        found = find_images(str(pets), open_all=False)
        assert len(found.train.names) == 6
        assert found.notes == ("Class folders without images are left out: “emu”.",)
        assert check_images(found.train) == ()


class TestTables:
    def test_rows_are_numbered_as_in_the_file(self, pets: Path) -> None:
        path = pets / "labels.csv"
        rows = ["file,kind", "cat/0.png,cat", "cat/gone.png,cat", "dog/0.png,dog", "dog/0.png,dog"]
        path.write_text("\n".join(rows))
        missing, repeated = check(path)
        assert (missing.code, missing.rows, missing.row_word) == ("image-missing", (3,), "row")
        assert (repeated.code, repeated.rows) == ("image-repeated", (5,))

    def test_images_in_parquet(self, tmp_path: Path) -> None:
        images = [
            bytes_of(noise(1), "PNG"),
            b"no image",
            None,
            bytes_of(noise(2), "PNG"),
            bytes_of(noise(1), "PNG"),
        ]
        path = tmp_path / "a.parquet"
        parquet.write_table(pa.table({"image": images, "label": ["a", "a", "b", "b", "b"]}), path)
        found = check(path)
        assert {finding.code: finding.rows for finding in found} == {
            "not-an-image": (2,),
            "image-empty": (3,),
            "image-contradicted": (5,),
        }


def test_pixels_in_memory_have_nothing_to_find() -> None:
    assert check_images(find_images("builtin:digits").train) == ()


def test_progress_is_told_and_can_end_it(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_checks, "TOLD_EVERY", 2)
    told: list[tuple[int, int]] = []
    found = find_images(str(pets), open_all=False).train
    check_images(found, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 6), (4, 6), (6, 6), (6, 6)]

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_images(found, progress=stop)


def test_of_many_images_each_is_opened_a_few_times_and_few_are_held(
    pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What 100,000 images cost follows: time by the opens of each, memory by how many are read ahead."""
    opens = 0
    plain_open = Image.open

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal opens
        opens += 1
        return plain_open(*args, **kwargs)

    monkeypatch.setattr(image_files.Image, "open", counting)
    for number in range(300):
        noise(1000 + number, (8, 8)).save(pets / "cat" / f"n{number}.png")
        noise(2000 + number, (8, 8)).save(pets / "dog" / f"n{number}.png")
    train = find_images(str(pets), open_all=False).train
    assert opens == 0
    assert check_images(train) == ()
    assert opens == 606
    asked = 0

    def images() -> Any:
        nonlocal asked
        for path in (pets / "cat").iterdir():
            asked += 1
            yield path

    next(image_files.looked_at(images(), lambda _image: 0))
    assert asked == image_files.AHEAD


class TestPreview:
    def test_what_the_model_sees_beside_the_original(self, pets: Path) -> None:
        noise(5, (600, 300)).save(pets / "cat" / "wide.png")
        found = find_images(str(pets), open_all=False).train
        wide = next(i for i in range(len(found.names)) if "wide" in found.where(i))
        shown = preview(found, wide, ImageTransform(32))
        assert (shown.width, shown.height) == (600, 300)
        seen, original = (Image.open(io.BytesIO(png)) for png in (shown.seen, shown.original))
        assert (seen.format, seen.size) == ("PNG", (32, 32))
        assert original.size == (256, 128)
        sample = found.select([wide], [0], ImageTransform(32))[0]["pixel_values"]
        mean, std = (torch.tensor(v)[:, None, None] for v in (IMAGENET_MEAN, IMAGENET_STD))
        expected = ((sample * std + mean) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        assert np.array_equal(np.asarray(seen), expected)

    def test_digits_in_memory(self) -> None:
        shown = preview(find_images("builtin:digits").train, 3, ImageTransform(48))
        assert Image.open(io.BytesIO(shown.seen)).size == (48, 48)
        assert Image.open(io.BytesIO(shown.original)).size == (8, 8)

    def test_transparency_is_shown_where_the_original_has_it(self, pets: Path) -> None:
        transparent(pets / "cat" / "odd.png")
        found = find_images(str(pets), open_all=False).train
        odd = next(i for i in range(len(found.names)) if "odd" in found.where(i))
        shown = preview(found, odd, ImageTransform(32))
        assert Image.open(io.BytesIO(shown.original)).mode == "RGBA"
        assert Image.open(io.BytesIO(shown.seen)).mode == "RGB"

    def test_one_of_a_parquet_file_is_read_without_the_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
        images = [bytes_of(noise(number), "PNG") for number in range(2)]
        parquet.write_table(pa.table({"image": images, "label": ["a", "b"]}), tmp_path / "a.parquet")
        found = find_images(str(tmp_path / "a.parquet"), open_all=False).train
        shown = preview(found, 1, ImageTransform(32))
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(shown.original))), np.asarray(noise(1)))
        assert not (tmp_path / "home").exists()

    def test_a_damaged_one_is_named(self, pets: Path) -> None:
        (pets / "cat" / "bad.png").write_bytes(b"no image")
        found = find_images(str(pets), open_all=False).train
        bad = next(i for i in range(len(found.names)) if "bad" in found.where(i))
        with pytest.raises(DataError, match=r"bad\.png"):
            preview(found, bad, ImageTransform(32))
