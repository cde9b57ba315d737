"""The run of `resources/examples/digits.hone` by hand, with transformers' Trainer: what Hone is timed beside.

    python plain_digits.py STEPS THREADS PRECISION EVAL_SAMPLES    (EVAL_SAMPLES 0: all)

It holds out the rows that Hone holds out, so that each step's loss has to come out the same. Writes when its steps
ended and what they lost to steps.json.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

try:  # beside a CPU-only PyTorch, torchvision's operators may not load, and transformers fails without their names
    import torchvision
except RuntimeError:
    operators = torch.library.Library("torchvision", "DEF")
    operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, f1_score
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

STEPS, THREADS, EVAL_SAMPLES = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
SEED, SIZE, BATCH, FRACTION = 42, 32, 32, 0.2
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
torch.set_num_threads(THREADS)


def hold_out(classes):
    """Places to train on and to hold out: shuffled by the seed, each class gives its share, then the largest rests."""
    classes, order = np.asarray(classes), np.random.default_rng(SEED).permutation(len(classes))
    kinds, sizes = np.unique(classes, return_counts=True)
    shares = np.floor(sizes * FRACTION).astype(int)
    missing = round(len(classes) * FRACTION) - shares.sum()
    shares[np.argsort(shares - sizes * FRACTION, kind="stable")[: max(0, missing)]] += 1
    chosen = [
        int(row)
        for kind, share in zip(kinds, shares, strict=True)
        for row in order[classes[order] == kind][:share]
    ]
    return sorted(set(range(len(classes))) - set(chosen)), sorted(chosen)


class Samples(torch.utils.data.Dataset):
    def __init__(self, places):
        chosen = images[torch.as_tensor(places)]
        self.images = torch.nn.functional.interpolate(chosen, (SIZE, SIZE), mode="bilinear", antialias=True)
        self.labels = [int(digits.target[place]) for place in places]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, number):
        scaled = self.images[number].numpy().astype(np.float32) / np.float32(255)
        values = (scaled - np.array(MEAN, np.float32)[:, None, None]) / np.array(STD, np.float32)[
            :, None, None
        ]
        return {"pixel_values": torch.from_numpy(values), "labels": self.labels[number]}


def collate(rows):
    return {
        "pixel_values": torch.stack([row["pixel_values"] for row in rows]),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


class Classifier(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pixel_values, labels=None):
        logits = self.network(pixel_values)
        if labels is None:
            return {"logits": logits}
        return {"loss": torch.nn.functional.cross_entropy(logits.float(), labels), "logits": logits}


class Clock(TrainerCallback):
    ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.time())


def metrics(prediction):
    guesses, truth = prediction.predictions.argmax(-1), prediction.label_ids
    return {
        "accuracy": accuracy_score(truth, guesses),
        "f1": f1_score(truth, guesses, average="macro", zero_division=0),
    }


digits = load_digits()
images = torch.from_numpy(digits.images).mul(255 / 16).round().to(torch.uint8)[:, None]
train_places, eval_places = hold_out(digits.target)
set_seed(SEED)
network = torchvision.models.get_model("resnet18", weights=None)
network.fc = torch.nn.Linear(network.fc.in_features, 10)
trainer = Trainer(
    model=Classifier(network),
    args=TrainingArguments(
        output_dir="checkpoints",
        use_cpu=True,
        seed=SEED,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        num_train_epochs=5,
        max_steps=STEPS,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,
        bf16=sys.argv[3] == "bf16",
        dataloader_pin_memory=False,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=1,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        report_to="none",
    ),
    train_dataset=Samples(train_places),
    eval_dataset=Samples(eval_places[: EVAL_SAMPLES or None]),
    data_collator=collate,
    compute_metrics=metrics,
    callbacks=[Clock()],
)
trainer.train()
trainer.save_model("model")
with Path("steps.json").open("w") as file:
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    json.dump({"ends": Clock.ends, "losses": losses}, file)
