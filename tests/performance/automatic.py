"""Is "automatic" fast? The published script's settings against what Hone chooses by itself, in one invocation.

MRPC, batch 32, learning rate 2e-5, on the CPU. Each rung is a run of `hone train`, one after the other: first as the
guide's script has it (fp32, every row padded to 128 tokens, random order), then with one thing more left to Hone at a
time, last with nothing chosen at all.

62 steps are two of the chunks within which rows are sorted by length: as many long rows are among them as in an epoch.
They are half of the rows, and not the same half in every order, so that mean losses differ a little; 128 steps are all.
The goals hold on a CPU with bf16 units that does nothing else.
"""

import argparse
import tempfile
from pathlib import Path

from tests.performance.figures import (
    EXAMPLES,
    Figure,
    at_most,
    figure,
    main,
    minilm,
    of_type,
    progress,
    ratio_at_least,
    train,
)

WARM_STEPS = 2
PARTS = ("data", "forward", "backward", "optimizer")
RUNGS: dict[str, dict[str, str]] = {
    "as published": {"data.padding": "fixed", "device.precision": "fp32"},
    "+ dynamic padding": {"data.group_by_length": "off", "device.precision": "fp32"},
    "+ bf16": {"data.group_by_length": "off", "device.precision": "bf16"},
    "+ grouped by length": {"data.group_by_length": "on", "device.precision": "bf16"},
    "nothing chosen": {},
}
"""What each rung sets; whatever it doesn't is left to Hone."""


def measure(arguments: argparse.Namespace) -> list[Figure]:
    paces, losses = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for rung in RUNGS:
            paces[rung], losses[rung] = run(arguments, rung, Path(folder))
    first, last = "as published", "nothing chosen"
    figures = [
        figure(f"samples a second, {rung}", pace, peer=paces[first])
        for rung, pace in paces.items()
        if rung != last
    ]
    goal = ratio_at_least(5.0)
    return [
        *figures,
        figure(f"samples a second, {last}", paces[last], peer=paces[first], goal=goal),
        figure("mean losses apart", abs(losses[last] - losses[first]), goal=at_most(0.01)),
    ]


def run(arguments: argparse.Namespace, rung: str, folder: Path) -> tuple[float, float]:
    """Samples a second, and the mean loss of all steps."""
    example = folder / "mrpc.hone"
    lines = (EXAMPLES / "mrpc.hone").read_text().splitlines()
    example.write_text("\n".join(line for line in lines if not line.startswith("eval = ")) + "\n")
    settings = {
        "model.source": arguments.model or minilm(),
        "data.train": arguments.data / "msr_paraphrase_train.txt",
        "data.eval_fraction": 0,
        "device.name": "cpu",
        "output.keep_checkpoints": 0,
        "training.max_steps": arguments.steps,
        **RUNGS[rung],
    }
    steps = of_type(train(example, folder / rung.replace(" ", "-"), settings), "step_finished")
    steady = steps[WARM_STEPS:]
    seconds, samples = (sum(step[name] for step in steady) for name in ("seconds", "samples"))
    shares = [
        f"{part} {sum(step.get(f'{part}_seconds') or 0 for step in steady) / seconds:.1%}" for part in PARTS
    ]
    progress(f"{rung}: {samples / seconds:.1f} samples a second, of a step's time {', '.join(shares)}")
    loss = sum(step["loss"] * step["samples"] for step in steps) / sum(step["samples"] for step in steps)
    return samples / seconds, loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with msr_paraphrase_train.txt")
    parser.add_argument("--model", type=Path, help="in place of MiniLM")


if __name__ == "__main__":
    main(__doc__, measure, {"steps": 62}, add_arguments)
