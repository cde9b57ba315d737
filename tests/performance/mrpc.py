"""Hone against a plain Trainer script on MRPC, same arguments, in one invocation.

MiniLM stands in for bert-base-cased where no Hub can be reached.
"""

import argparse
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.performance.figures import (
    EXAMPLES,
    Figure,
    apart,
    at_most,
    figure,
    main,
    minilm,
    of_type,
    own_home,
    ratio_at_least,
    train,
)

FILES = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
LEARNING_RATE, BATCH, LENGTH, SEED = 2e-5, 32, 128, 42
OPERATORS: list[Any] = []
"""Libraries of operators: torch drops the operators of one that is collected."""


def measure(arguments: argparse.Namespace) -> list[Figure]:
    arguments.model = arguments.model or minilm()
    arguments.data = arguments.data.resolve()
    with own_home() as folder:
        hone = run_hone(arguments, folder)
        begun = time.perf_counter()
        plain = apart(run_plain, arguments, folder, seconds=24 * 3600)
        plain["wall"] = time.perf_counter() - begun
    pairs = zip(hone["losses"], plain["losses"], strict=True)
    return [
        figure("samples a second", hone["pace"], peer=plain["pace"], goal=ratio_at_least(0.99)),
        figure("largest difference of a step's loss", max(abs(a - b) for a, b in pairs), goal=at_most(0.0)),
        figure("the whole process", hone["wall"], "s", peer=plain["wall"]),
        figure("accuracy", hone["eval_accuracy"], peer=plain["eval_accuracy"]),
        figure("F1", hone["eval_f1"], peer=plain["eval_f1"]),
    ]


def run_hone(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    settings = {
        "model.source": arguments.model,
        "data.train": arguments.data / FILES[0],
        "data.eval": arguments.data / FILES[1],
        "device.name": "cpu",
        "device.precision": arguments.precision,
        "training.epochs": arguments.epochs,
    }
    if arguments.rows:
        settings |= {"data.max_train_samples": arguments.rows, "data.max_eval_samples": arguments.rows}
    begun = time.perf_counter()
    events = train(EXAMPLES / "mrpc.hone", folder / "run", settings)
    finished, steps = events[-1], of_type(events, "step_finished")
    return {
        **finished["metrics"],
        "pace": sum(step["samples"] for step in steps) / finished["seconds"],
        "wall": time.perf_counter() - begun,
        "losses": [step["loss"] for step in steps],
    }


def run_plain(arguments: argparse.Namespace, folder: Path, to: Connection) -> None:
    """The script that a person would write by hand, in a process without Hone."""
    import torch

    OPERATORS.append(library := torch.library.Library("torchvision", "DEF"))
    if not hasattr(torch.ops.torchvision, "nms"):  # transformers can't import torchvision without them
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from sklearn.metrics import accuracy_score, f1_score
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    tokenizer = AutoTokenizer.from_pretrained(arguments.model)

    def encoded(name: str) -> list[dict[str, Any]]:
        text = (arguments.data / name).read_text(encoding="utf-8-sig")
        rows = [line.rstrip("\r").split("\t") for line in text.split("\n")[1:] if line]
        return [
            {**tokenizer(row[3], row[4], truncation=True, max_length=LENGTH), "labels": int(row[0])}
            for row in rows[: arguments.rows or None]
        ]

    def metrics(prediction: Any) -> dict[str, float]:
        guesses, truth = prediction.predictions.argmax(-1), prediction.label_ids
        return {"accuracy": accuracy_score(truth, guesses), "f1": f1_score(truth, guesses)}

    rows = encoded(FILES[0])
    set_seed(SEED)
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(
            arguments.model, num_labels=2, dtype=torch.float32
        ),
        args=TrainingArguments(
            output_dir=f"{folder}/plain",
            use_cpu=True,
            bf16=arguments.precision == "bf16",
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            num_train_epochs=arguments.epochs,
            learning_rate=LEARNING_RATE,
            train_sampling_strategy="group_by_length",
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            seed=SEED,
        ),
        train_dataset=rows,
        eval_dataset=encoded(FILES[1]),
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=metrics,
    )
    begun = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begun
    history = trainer.state.log_history
    last = [entry for entry in history if "eval_accuracy" in entry][-1]
    losses = [entry["loss"] for entry in history if "loss" in entry]
    to.send({**last, "pace": len(rows) * arguments.epochs / seconds, "losses": losses})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {' and '.join(FILES)}")
    parser.add_argument("--model", type=Path, help="in place of MiniLM")


if __name__ == "__main__":
    main(__doc__, measure, {"epochs": 3.0, "rows": 0, "precision": "bf16"}, add_arguments)
