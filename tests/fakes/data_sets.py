"""Small data sets in the forms in which well-known ones are published, with what makes these hard to read."""

import gzip
import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path

PEOPLE = ("Ada", "Bruno", "Chloë", "Dmitri", "Esra", "Farid", "Gwen", "Hàn")
THINGS = (
    "the old bridge",
    "a quiet harbour",
    "3 % of the shares",
    "the team's bus",
    'the so-called "last" train',
)
DEEDS = ("sold", "painted", "looked for", "wrote about", "repaired")
PAIRS, INSTRUCTIONS, PREFERENCES, DIGITS = 240, 60, 40, 120
SIDE = 28


def write_all(folder: Path) -> Path:
    """Write all of them into a folder; returns it."""
    random_ = random.Random(7)
    for name in ("pairs-train.txt", "pairs-test.txt"):
        (folder / name).write_bytes(paraphrases(random_).encode("utf-8-sig"))
    for name, rows in (("alpaca.json", instructions(random_)), ("preferences.json", preferences(random_))):
        (folder / name).write_text(json.dumps(rows, indent=2, ensure_ascii=False), encoding="utf-8")
    (folder / "play.txt").write_text(play(random_), encoding="utf-8")
    write_digits(folder, random_)
    return folder


def sentence(random_: random.Random) -> str:
    who, did, what = map(random_.choice, (PEOPLE, DEEDS, THINGS))
    return f"{who} {did} {what} in {random_.randint(1900, 2020)}."


def paraphrases(random_: random.Random) -> str:
    """As the paraphrases of Microsoft Research: tabs, and quotes that are plain text, some at the begin of a cell."""
    lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    for number in range(PAIRS):
        same = number % 3 != 0
        first, other = sentence(random_), sentence(random_)
        second = f"It is said that {first[:-1]}, again." if same else other
        quoted = f'"{first}' if number % 5 == 0 else first
        lines.append(f"{int(same)}\t{1000 + number}\t{5000 + number}\t{quoted}\t{second}")
    return "\r\n".join(lines) + "\r\n"


def instructions(random_: random.Random) -> list[dict[str, str]]:
    """As Alpaca's: an input that is often empty, and answers of several lines."""
    return [
        {
            "instruction": f"Say what happened on day {number}.",
            "input": sentence(random_) if number % 3 == 0 else "",
            "output": "\n\n".join(f"{line}. {sentence(random_)}" for line in range(1, 2 + number % 4)),
        }
        for number in range(INSTRUCTIONS)
    ]


def preferences(random_: random.Random) -> list[dict[str, object]]:
    """As those of LLaMA-Factory: one to thirteen turns in ShareGPT's form, and two answers."""

    def turn(speaker: str) -> dict[str, str]:
        return {"from": speaker, "value": sentence(random_)}

    return [
        {
            "conversations": [turn("gpt" if place % 2 else "human") for place in range(1 + 2 * (number % 7))],
            "chosen": turn("gpt"),
            "rejected": turn("gpt"),
        }
        for number in range(PREFERENCES)
    ]


def play(random_: random.Random) -> str:
    """As a play's text: names, lines, empty lines between them."""
    return "\n".join(f"{random_.choice(PEOPLE).upper()}:\n{sentence(random_)}\n" for _ in range(400))


def write_digits(folder: Path, random_: random.Random) -> None:
    """As MNIST: compressed IDX files, the labels beside the images."""
    labels = [number % 10 for number in range(DIGITS)]
    pixels = bytes(
        min(255, 20 * label + random_.randint(0, 60)) for label in labels for _ in range(SIDE * SIDE)
    )
    idx(folder / "t10k-images-idx3-ubyte.gz", (DIGITS, SIDE, SIDE), pixels)
    idx(folder / "t10k-labels-idx1-ubyte.gz", (DIGITS,), bytes(labels))


def idx(path: Path, shape: Sequence[int], content: bytes) -> None:
    unsigned_bytes = 8
    header = struct.pack(f">BBBB{len(shape)}I", 0, 0, unsigned_bytes, len(shape), *shape)
    path.write_bytes(gzip.compress(header + content, mtime=0))
