"""Texts whose number, or the tags of whose words, follow from their words: small models learn that in seconds."""

import json
from pathlib import Path

from core.options.choices import Task
from tests.fakes.tiny_bert import WORDS

TAGS = ("O", "B-GOOD", "I-GOOD")


def words_of(row: int) -> list[str]:
    """The words of a row; rows differ in length."""
    return [WORDS[(row + place) % 5] for place in range(2 + row % 5)]


def write_data(folder: Path, task: Task, rows: int = 24) -> str:
    """Write them as JSON lines; the path."""
    path = folder / "data.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            words = words_of(row)
            tags = [TAGS[(word == "good") + 2 * (word == "bad")] for word in words]
            made = {"tokens": words, "tags": tags} if task is Task.TOKEN_CLASSIFICATION else {}
            made = made or {"text": " ".join(words), "score": words.count("good") + len(words) / 4}
            file.write(f"{json.dumps(made)}\n")
    return str(path)
