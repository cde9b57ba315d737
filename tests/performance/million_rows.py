"""Inspect files of a million rows of every kind, as `hone inspect` does: seconds and memory.

Each file is made in a temporary folder and inspected by an engine process of its own, whose private memory (what it
holds apart from files that are mapped) is read ten times a second. The peer is a thousandth of the rows.
"""

import argparse
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from core.base.jobs import EngineJob
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.inspect import inspect_request
from tests.performance.figures import MB, Figure, figure, main, progress, use_home

WORDS = tuple(
    f"{a}{b}" for a in ("re", "un", "over", "out", "in", "") for b in ("view", "do", "come", "line", "set")
)
INTERVAL_SECONDS = 0.1
CLASSES = ("good", "bad", "fair")


class Kind(NamedTuple):
    """A kind of file: its task, its ending, its header, and how a row is made of `sentence(words)` and a generator."""

    task: Task
    ending: str
    header: str
    row: Callable[[random.Random, Callable[[int], str]], str]


KINDS = {
    "labels-csv": Kind(
        Task.TEXT_CLASSIFICATION,
        ".csv",
        "text,label",
        lambda chance, sentence: f"{sentence(20)},{chance.choice(CLASSES)}",
    ),
    "labels-jsonl": Kind(
        Task.TEXT_CLASSIFICATION,
        ".jsonl",
        "",
        lambda chance, sentence: json.dumps({"text": sentence(20), "label": chance.choice(CLASSES)}),
    ),
    "scores-csv": Kind(
        Task.TEXT_REGRESSION,
        ".csv",
        "text,score",
        lambda chance, sentence: f"{sentence(20)},{chance.random():.3f}",
    ),
    "words-jsonl": Kind(
        Task.TOKEN_CLASSIFICATION,
        ".jsonl",
        "",
        lambda chance, sentence: json.dumps(
            {"tokens": sentence(12).split(), "ner_tags": chance.choices(("O", "B-X"), k=12)}
        ),
    ),
    "texts-jsonl": Kind(
        Task.CAUSAL_LM, ".jsonl", "", lambda _chance, sentence: json.dumps({"text": sentence(30)})
    ),
    "chat-jsonl": Kind(
        Task.CHAT,
        ".jsonl",
        "",
        lambda _chance, sentence: json.dumps(
            {"messages": [{"role": role, "content": sentence(15)} for role in ("user", "assistant")]}
        ),
    ),
    "pairs-jsonl": Kind(
        Task.PREFERENCE,
        ".jsonl",
        "",
        lambda _chance, sentence: json.dumps(
            {name: sentence(12) for name in ("prompt", "chosen", "rejected")}
        ),
    ),
}


def measure(arguments: argparse.Namespace) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        use_home(f"{folder}/home")
        for name in arguments.kind or KINDS:
            progress(f"{name} ...")
            rows = max(100, arguments.rows // 1000)
            (few, least), (seconds, most) = (
                inspected(KINDS[name], count, Path(folder), arguments.model)
                for count in (rows, arguments.rows)
            )
            figures += [
                figure(f"{name}: seconds", seconds, "s", peer=few),
                figure(f"{name}: most memory", most / MB, "MB", peer=least / MB),
            ]
    return figures


def inspected(kind: Kind, rows: int, folder: Path, model: str) -> tuple[float, int]:
    """Seconds, and the most bytes of private memory."""
    path, chance = folder / f"rows{kind.ending}", random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{kind.header}\n" if kind.header else "")
        for _ in range(rows):
            file.write(kind.row(chance, lambda words: " ".join(chance.choices(WORDS, k=words))) + "\n")
    options = RunOptions(task=kind.task, model=ModelOptions(source=model), data=DataOptions(train=str(path)))
    peak, done, job, begun = 0, threading.Event(), EngineJob("inspect"), time.monotonic()

    def watch() -> None:
        nonlocal peak
        while not done.wait(INTERVAL_SECONDS):
            peak = max(peak, private_bytes(job.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        job.ask(msgspec.json.encode(inspect_request(options)))
    finally:
        done.set()
        watcher.join()
        path.unlink()
    return time.monotonic() - begun, peak


def private_bytes(pid: int) -> int:
    """What a process holds that no file backs; 0 once it has ended."""
    try:
        with Path(f"/proc/{pid}/status").open(encoding="ascii") as status:
            anonymous = next(line for line in status if line.startswith("RssAnon"))
        return int(anonymous.split()[1]) * 1024
    except (OSError, StopIteration):
        return int(psutil.Process(pid).memory_info().rss) if psutil.pid_exists(pid) else 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=KINDS, action="append")


if __name__ == "__main__":
    # `model`: the folder of a model whose tokenizer measures the rows
    main(__doc__, measure, {"rows": 1_000_000, "model": ""}, add_arguments)
