"""What torch.compile costs and brings, for texts of many lengths: the same run uncompiled and compiled, by turns.

The best of the rounds counts: other programs can only slow a run.
"""

import argparse
import csv
import random
import statistics
import tempfile
from pathlib import Path

from tests.performance.figures import Figure, figure, main, minilm, of_type, progress, train

BATCH, LENGTH, SEED = 16, 128, 42
WORDS = ("the", "film", "is", "a", "quiet", "story", "of", "two", "people", "who", "never", "meet")


def measure(arguments: argparse.Namespace) -> list[Figure]:
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        texts = write_texts(Path(folder) / "texts.csv", arguments.steps * BATCH)
        for number in range(arguments.rounds):
            for is_compiled, results in found.items():
                progress(f"round {number + 1} of {arguments.rounds}, compiled: {is_compiled} ...")
                results.append(run(arguments, texts, Path(folder), f"{is_compiled}-{number}", is_compiled))
    plain, compiled = (min(results, key=lambda one: one["step"]) for results in found.values())
    saved = plain["step"] - compiled["step"]
    paid = [figure("steps after which compiling has paid", compiled["compile"] / saved)] if saved > 0 else []
    return [
        figure("steps a second", 1 / compiled["step"], peer=1 / plain["step"]),
        figure("compiling", compiled["compile"], "s"),
        *paid,
        figure("last loss", compiled["loss"], peer=plain["loss"]),
    ]


def write_texts(path: Path, rows: int) -> Path:
    chance = random.Random(SEED)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(rows):
            words = [chance.choice(WORDS) for _ in range(chance.randint(10, LENGTH - 2))]
            writer.writerow([" ".join(words), chance.choice(("no", "yes"))])
    return path


def run(
    arguments: argparse.Namespace, texts: Path, folder: Path, name: str, is_compiled: bool
) -> dict[str, float]:
    file = folder / f"{name}.hone"
    file.write_text('schema = 1\ntask = "text-classification"\n')
    settings = {
        "model.source": arguments.model or minilm(),
        "data.train": texts,
        "data.eval_fraction": 0,
        "data.max_length": LENGTH,
        "data.group_by_length": "off",
        "device.name": "cpu",
        "device.precision": arguments.precision,
        "device.compile": str(is_compiled).lower(),
        "memory.batch_size": BATCH,
        "training.max_steps": arguments.steps,
        "training.seed": SEED,
    }
    steps = of_type(train(file, folder / name, settings), "step_finished")
    return {
        "compile": sum(step.get("compile_seconds", 0.0) for step in steps),
        "step": statistics.median(step["seconds"] for step in steps if not step.get("compile_seconds")),
        "loss": steps[-1]["loss"],
    }


if __name__ == "__main__":
    main(__doc__, measure, {"model": "", "steps": 60, "precision": "bf16", "rounds": 2})
