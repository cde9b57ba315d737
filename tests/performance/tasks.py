"""One run of each task on real data, by its example file, and its metric against the goal.

The folder of `--data` holds the data of all tasks: `text/`, `mrpc/`, `mnist/`, `instruct/`. Without names all `TASKS`
run, one after the other; one that starts from another one's model has that run first. `--model` stands in for an
encoder of the Hub. Goals hold for two CPU cores that do nothing else.
"""

import argparse
import re
import time
from pathlib import Path
from typing import NamedTuple

from tests.performance.figures import (
    EXAMPLES,
    Figure,
    Goal,
    at_least,
    at_most,
    figure,
    main,
    minilm,
    of_type,
    own_home,
    ratio_at_most,
    train,
)

LINES = 3000
"""How many lines of the plays get labels by word."""


class Task(NamedTuple):
    """One task on real data. `files` are options with the place of their file below the data folder.

    `seconds` is the most the command may take; `starts_from` names the task whose model is trained on; `is_encoder`:
    `--model` stands in for its model.
    """

    name: str
    example: str
    metric: str
    goal: Goal | None = None
    seconds: float | None = None
    files: dict[str, str] = {}
    settings: dict[str, object] = {}
    starts_from: str | None = None
    is_encoder: bool = False


MRPC = {"data.train": "mrpc/msr_paraphrase_train.txt", "data.eval": "mrpc/msr_paraphrase_test.txt"}
MNIST = {"data.train": "mnist/t10k-images-idx3-ubyte.gz"}
ARTICLE = {
    "data.max_train_samples": 1250,
    "data.image_size": 224,
    "memory.batch_size": 4,
    "training.epochs": 1,
}
ARTICLE |= {"training.optimizer": "adam", "training.schedule": "constant", "training.warmup": 0}
PLAYS = {"data.train": "text/tinyshakespeare.txt"}
SCORES = {"data.text_columns": "#1 String,#2 String", "data.label_column": "Quality", "training.epochs": 2}
CHAT = {"data.train": "instruct/alpaca_en_demo.json"}
PAIRS = {"data.train": "instruct/dpo_en_demo.json"}
MODELS = {"resnet18": 0.7, "mobilenet_v2": None, "efficientnet_b0": None, "alexnet": None, "vgg16": None}
"""The article's models, quickest first. Those without a goal learn little or nothing in 250 steps."""

TASKS = (
    Task("digits", "digits.hone", "accuracy", at_least(0.95), seconds=90),
    Task("shakespeare", "tinyshakespeare.hone", "nats_per_character", at_most(2.0), seconds=300, files=PLAYS),
    # always saying "the same" gives 0.665
    Task("mrpc", "mrpc.hone", "accuracy", at_least(0.70), files=MRPC, is_encoder=True),
    Task("scores", "sts-b.hone", "pearson", at_least(0.35), files=MRPC, settings=SCORES, is_encoder=True),
    Task("words", "ner.hone", "f1", at_least(0.80), settings={"data.eval": ""}, is_encoder=True),
    Task(
        "alpaca",
        "alpaca-lora.hone",
        "loss",
        ratio_at_most(1.0),
        files=CHAT,
        settings={"data.max_length": 256, "training.learning_rate": "2e-3"},
        starts_from="shakespeare",
    ),
    Task(
        "preferences",
        "dpo-lora.hone",
        "reward_accuracy",
        files=PAIRS,
        settings={"data.max_length": 256, "training.learning_rate": "5e-4"},
        starts_from="alpaca",
    ),
    *(
        Task(
            f"mnist-{name}",
            "digits.hone",
            "accuracy",
            at_least(goal) if goal else None,
            files=MNIST,
            settings={"model.source": f"torchvision:{name}", **ARTICLE},
        )
        for name, goal in MODELS.items()
    ),
)


def measure(arguments: argparse.Namespace) -> list[Figure]:
    wanted = set(arguments.names) or {task.name for task in TASKS}
    for task in reversed(TASKS):  # a task stands after the one it starts from
        if task.name in wanted and task.starts_from:
            wanted.add(task.starts_from)
    with own_home() as folder:
        return [row for task in TASKS if task.name in wanted for row in run(task, arguments, folder)]


def run(task: Task, arguments: argparse.Namespace, folder: Path) -> list[Figure]:
    settings: dict[str, object] = {path: arguments.data / file for path, file in task.files.items()}
    settings |= task.settings
    if task.name == "words":
        settings["data.train"] = speakers(arguments.data / PLAYS["data.train"], folder)
    if task.starts_from:
        settings["model.source"] = f"run:{folder / task.starts_from}"
    elif task.is_encoder:
        settings["model.source"] = arguments.model or minilm()
    begun = time.monotonic()
    events = train(EXAMPLES / task.example, folder / task.name, settings)
    seconds = time.monotonic() - begun
    values = [event["metrics"][f"eval_{task.metric}"] for event in of_type(events, "evaluated")]
    in_time = at_most(task.seconds) if task.seconds is not None else None
    return [
        figure(f"{task.name}: {task.metric}", values[-1], peer=values[0], goal=task.goal),
        figure(f"{task.name}: the whole command", seconds, "s", goal=in_time),
    ]


def speakers(plays: Path, folder: Path) -> Path:
    """A CoNLL file of the lines of the plays that name one of their speakers: words, and B-PER for the names.

    A rule makes the labels, because no data with real ones may be distributed.
    """
    text = plays.read_text("utf-8")
    names = {name.title() for name in re.findall(r"\n\n([A-Z]\w{3,}):\n", text)}
    lines = [re.findall(r"\w+|[^\w\s]", line) for line in text.splitlines() if not line.endswith(":")]
    path = folder / "speakers.conll"
    with path.open("w", encoding="utf-8") as file:
        for words in [words for words in lines if names & set(words)][:LINES]:
            file.writelines(f"{word} {'B-PER' if word in names else 'O'}\n" for word in words)
            file.write("\n")
    return path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *(task.name for task in TASKS)])
    parser.add_argument("--data", type=Path, default=Path(), help="folder with the data of all tasks")
    parser.add_argument("--model", type=Path, help="in place of an encoder")


if __name__ == "__main__":
    main(__doc__, measure, add=add_arguments)
