"""Look into files of a million rows of every kind, as `hone inspect` does, and print the time and memory that takes.

Usage: `python tests/performance/check_million.py [--rows N] [--kind KIND] [--model FOLDER]`

Each file is made in a temporary folder and looked into by an engine process of its own, whose private memory (what it
holds apart from files that are mapped) is read ten times a second. A thousandth of the rows is looked into before, so
that what grows with the rows can be told from what doesn't.
"""

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from core.base.jobs import EngineJob, JobProgress
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.inspect import DataReport, inspect_request
from tests.performance.suite.figures import add_json, figure, hand_over

WORDS = tuple(
    f"{a}{b}" for a in ("re", "un", "over", "out", "in", "") for b in ("view", "do", "come", "line", "set")
)
LOOK_SECONDS = 0.1
MB = 1e6


def sentence(chance: random.Random, words: int = 20) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def csv_row(chance: random.Random, _: int) -> str:
    return f"{sentence(chance)},{chance.choice(('good', 'bad', 'fair'))}"


def score_row(chance: random.Random, _: int) -> str:
    return f"{sentence(chance)},{chance.random():.3f}"


def labelled_row(chance: random.Random, _: int) -> str:
    return json.dumps({"text": sentence(chance), "label": chance.choice(("good", "bad", "fair"))})


def word_row(chance: random.Random, _: int) -> str:
    words = sentence(chance, 12).split()
    return json.dumps({"tokens": words, "ner_tags": [chance.choice(("O", "B-X")) for _ in words]})


def text_row(chance: random.Random, _: int) -> str:
    return json.dumps({"text": sentence(chance, 30)})


def chat_row(chance: random.Random, _: int) -> str:
    said = [{"role": role, "content": sentence(chance, 15)} for role in ("user", "assistant")]
    return json.dumps({"messages": said})


def pair_row(chance: random.Random, _: int) -> str:
    return json.dumps({name: sentence(chance, 12) for name in ("prompt", "chosen", "rejected")})


Row = Callable[[random.Random, int], str]
KINDS: dict[str, tuple[Task, str, str, Row]] = {
    "labels-csv": (Task.TEXT_CLASSIFICATION, ".csv", "text,label", csv_row),
    "labels-jsonl": (Task.TEXT_CLASSIFICATION, ".jsonl", "", labelled_row),
    "scores-csv": (Task.TEXT_REGRESSION, ".csv", "text,score", score_row),
    "words-jsonl": (Task.TOKEN_CLASSIFICATION, ".jsonl", "", word_row),
    "texts-jsonl": (Task.CAUSAL_LM, ".jsonl", "", text_row),
    "chat-jsonl": (Task.CHAT, ".jsonl", "", chat_row),
    "pairs-jsonl": (Task.PREFERENCE, ".jsonl", "", pair_row),
}


@dataclass(frozen=True)
class Measured:
    """What a look took."""

    report: DataReport
    seconds: float
    peak_bytes: int
    told: int


def lines(kind: str, rows: int) -> Iterator[str]:
    _, _, header, row = KINDS[kind]
    if header:
        yield f"{header}\n"
    chance = random.Random(1)
    for number in range(rows):
        yield f"{row(chance, number)}\n"


def private_bytes(pid: int) -> int:
    """What a process holds that no file backs."""
    try:
        with Path(f"/proc/{pid}/status").open(encoding="ascii") as status:
            anonymous = next(line for line in status if line.startswith("RssAnon"))
        return int(anonymous.split()[1]) * 1024
    except FileNotFoundError:
        return int(psutil.Process(pid).memory_info().rss)
    except (OSError, StopIteration):
        return 0


def measure(path: Path, task: Task, model: str) -> Measured:
    options = RunOptions(task=task, model=ModelOptions(source=model), data=DataOptions(train=str(path)))
    told: list[JobProgress] = []
    peak = [0]
    done = threading.Event()
    begun = time.monotonic()
    job = EngineJob("inspect")

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            peak[0] = max(peak[0], private_bytes(job.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        answer = job.ask(msgspec.json.encode(inspect_request(options)), tell=told.append)
    finally:
        done.set()
        watcher.join()
    report = msgspec.json.decode(answer, type=DataReport)
    return Measured(report, time.monotonic() - begun, peak[0], len(told))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--model", default="", help="a model's folder, whose tokenizer measures the rows")
    add_json(parser)
    asked = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HONE_HOME"] = f"{folder}/home"
        for kind in asked.kind or KINDS:
            task, ending, _, _ = KINDS[kind]
            few = Path(folder, f"few{ending}")
            few.write_text("".join(lines(kind, max(100, asked.rows // 1000))), encoding="utf-8")
            before = measure(few, task, asked.model)
            path = Path(folder, f"many{ending}")
            with path.open("w", encoding="utf-8") as file:
                file.writelines(lines(kind, asked.rows))
            size = path.stat().st_size
            found = measure(path, task, asked.model)
            growth = found.peak_bytes - before.peak_bytes
            print(
                f"{kind}: {found.report.rows:,} rows, {size >> 20:,} MiB: {found.seconds:.1f} s, peak "
                f"{found.peak_bytes >> 20:,} MiB private ({growth / asked.rows:+.0f} bytes a row over "
                f"{before.report.rows:,} rows), {found.told} words on progress, "
                f"{len(found.report.findings)} findings",
                flush=True,
            )
            path.unlink()
            figures += [
                figure(f"{kind}: seconds", found.seconds, "s", peer=before.seconds),
                figure(f"{kind}: most memory", found.peak_bytes / MB, "MB", peer=before.peak_bytes / MB),
            ]
    hand_over(asked.json, figures)


if __name__ == "__main__":
    main()
