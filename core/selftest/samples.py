"""Small data in every form Hone reads, made on the fly."""

import csv
import gzip
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.choices import Task

ROWS = 24
LABELS = ("good", "bad")
SIDE = 12
"""Pixels of an image's side."""
IMAGE_ENDINGS = ("png", "jpg", "gif", "bmp", "webp", "tiff")
"""One for each kind of image that Hone reads."""

Row = dict[str, str]


@dataclass(frozen=True)
class Sample:
    """Data in one form: its name, what it is for, how many samples it holds, and what writes it into a folder."""

    name: str
    task: Task
    rows: int
    write: Callable[[Path], Path]


def texts() -> list[Row]:
    """Sentences of a kind and what they are, one as good as another: with quotes, commas and letters beyond ASCII."""
    words = ("über", "“quiet”, or so", "naïve", "日本")
    return [
        {"text": f"It was {words[number % 4]}, number {number}", "label": LABELS[number % 2]}
        for number in range(ROWS)
    ]


def write_csv(folder: Path) -> Path:
    """Commas between, quotes where they are needed."""
    return _delimited(folder / "reviews.csv", ",")


def write_tsv(folder: Path) -> Path:
    """Tabs between."""
    return _delimited(folder / "reviews.tsv", "\t")


def write_csv_gz(folder: Path) -> Path:
    """Commas between, compressed."""
    return _compressed(_delimited(folder / "compressed.csv", ","))


def _delimited(path: Path, between: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ("text", "label"), delimiter=between)
        table.writeheader()
        table.writerows(texts())
    return path


def write_json(folder: Path) -> Path:
    """One list of objects."""
    return _text(folder / "reviews.json", json.dumps(texts(), ensure_ascii=False))


def write_jsonl(folder: Path) -> Path:
    """One object a line."""
    return _lines(folder / "reviews.jsonl", texts())


def write_parquet(folder: Path) -> Path:
    """A table in columns."""
    import pyarrow as pa
    from pyarrow import parquet

    path = folder / "reviews.parquet"
    parquet.write_table(pa.Table.from_pylist(texts()), path)
    return path


def write_conll(folder: Path) -> Path:
    """A word and its tag a line, an empty line after each sentence."""
    sentence = "Ada B-PER\nLovelace I-PER\nlived O\nin O\nLondon B-LOC\n"
    return _text(folder / "names.conll", "\n".join([sentence] * ROWS))


def write_txt(folder: Path) -> Path:
    """Running text."""
    line = "The quick brown fox jumps over the lazy dog, and number {} looks on.\n"
    return _text(folder / "story.txt", "".join(line.format(number) for number in range(40 * ROWS)))


def write_conversations(folder: Path) -> Path:
    """Questions and answers, a conversation a line."""
    return _lines(
        folder / "talks.jsonl",
        [
            {
                "messages": [
                    {"role": "user", "content": f"What comes after {number}?"},
                    {"role": "assistant", "content": f"The quick brown {number + 1}."},
                ]
            }
            for number in range(ROWS)
        ],
    )


def write_pairs(folder: Path) -> Path:
    """Questions with a better and a worse answer."""
    return _lines(
        folder / "pairs.jsonl",
        [
            {"prompt": f"What comes after {number}?", "chosen": f"{number + 1}.", "rejected": "The lazy dog."}
            for number in range(ROWS)
        ],
    )


def write_idx(folder: Path) -> Path:
    """A file of images and one of their labels, as MNIST has them."""
    place = folder / "idx"
    place.mkdir(exist_ok=True)
    images = b"".join(_pixels(number) for number in range(ROWS))
    (place / "train-images-idx3-ubyte").write_bytes(
        struct.pack(">4B3I", 0, 0, 8, 3, ROWS, SIDE, SIDE) + images
    )
    labels = bytes(number % 2 for number in range(ROWS))
    (place / "train-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, ROWS) + labels)
    return place


def write_idx_gz(folder: Path) -> Path:
    """The same compressed, as MNIST ships."""
    place = folder / "compressed"
    place.mkdir(exist_ok=True)
    for path in sorted(write_idx(place).iterdir()):
        _compressed(path)
    return place / "idx"


def write_image_table(folder: Path) -> Path:
    """A CSV file that names images of every kind, and their labels."""
    from PIL import Image

    place = folder / "table"
    place.mkdir(exist_ok=True)
    rows = []
    for number in range(ROWS):
        name = f"{number}.{IMAGE_ENDINGS[number // 2 % len(IMAGE_ENDINGS)]}"
        Image.frombytes("L", (SIDE, SIDE), _pixels(number)).save(place / name)
        rows.append(f"{name},{LABELS[number % 2]}\n")
    return _text(place / "labels.csv", "".join(["image,label\n", *rows]))


def write_parquet_images(folder: Path) -> Path:
    """A table in columns, of which one holds images, as the Hub has them."""
    import pyarrow as pa
    from pyarrow import parquet

    path = folder / "images.parquet"
    rows = [
        {"image": {"bytes": png(_pixels(number)), "path": None}, "label": LABELS[number % 2]}
        for number in range(ROWS)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_class_folders(folder: Path) -> Path:
    """A folder of PNG files for each class."""
    place = folder / "classes"
    for number in range(ROWS):
        path = place / LABELS[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(_pixels(number)))
    return place


def png(pixels: bytes) -> bytes:
    """A PNG file of `SIDE` x `SIDE` grey pixels, a byte each (https://www.w3.org/TR/png-3/)."""
    rows = b"".join(b"\0" + pixels[start : start + SIDE] for start in range(0, SIDE * SIDE, SIDE))
    head = struct.pack(">2I5B", SIDE, SIDE, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _pixels(number: int) -> bytes:
    """Stripes, upright or lying, so that the classes differ and no two images are alike."""
    return bytes(_stripes(number))


def _stripes(number: int) -> Iterator[int]:
    for row in range(SIDE):
        for column in range(SIDE):
            place = column if number % 2 else row
            yield (200 if place % 4 < 2 else 20) + number


def _compressed(path: Path) -> Path:
    """Put a compressed file into the place of one."""
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return packed


def _text(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8", newline="\n")
    return path


def _lines(path: Path, rows: list[Row] | list[dict[str, list[Row]]]) -> Path:
    return _text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


TOLD_APART = Task.TEXT_CLASSIFICATION
SEEN = Task.IMAGE_CLASSIFICATION

SAMPLES = (
    Sample("csv", TOLD_APART, ROWS, write_csv),
    Sample("csv-gz", TOLD_APART, ROWS, write_csv_gz),
    Sample("tsv", TOLD_APART, ROWS, write_tsv),
    Sample("json", TOLD_APART, ROWS, write_json),
    Sample("jsonl", TOLD_APART, ROWS, write_jsonl),
    Sample("parquet", TOLD_APART, ROWS, write_parquet),
    Sample("conll", Task.TOKEN_CLASSIFICATION, ROWS, write_conll),
    Sample("idx", SEEN, ROWS, write_idx),
    Sample("idx-gz", SEEN, ROWS, write_idx_gz),
    Sample("image-table", SEEN, ROWS, write_image_table),
    Sample("parquet-images", SEEN, ROWS, write_parquet_images),
    Sample("class-folders", SEEN, ROWS, write_class_folders),
    Sample("txt", Task.CAUSAL_LM, 0, write_txt),
    Sample("conversations", Task.CHAT, ROWS, write_conversations),
    Sample("preferences", Task.PREFERENCE, ROWS, write_pairs),
)
"""Every form. How many samples running text makes depends on the tokenizer: 0."""
