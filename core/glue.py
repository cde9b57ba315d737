"""GLUE's nine tasks, as transformers' example script run_glue.py trains and judges them.

Columns are those of the data set glue on the Hugging Face Hub, settings those of the script's own page
(examples/pytorch/text-classification/README.md in transformers): bert-base-cased, 128 tokens, batches of 32, a learning
rate of 2e-5, three epochs, five on the two smallest.
"""

from dataclasses import dataclass

from core.choices import Task
from core.options import Tree

MODEL = "bert-base-cased"


@dataclass(frozen=True)
class GlueTask:
    """One of them. `name` is what run_glue calls it; `asks` says what is learned, `judged_by` what counts there."""

    name: str
    title: str
    columns: tuple[str, ...]
    asks: str
    judged_by: str
    epochs: float = 3.0
    task: Task = Task.TEXT_CLASSIFICATION

    @property
    def preset(self) -> str:
        """The name of its preset, such as `glue-cola`."""
        return f"glue-{self.name}"

    @property
    def help(self) -> str:
        """What it is, in three sentences."""
        return f"{self.asks} Judged by {self.judged_by}. Choose your copy of its files as the data."

    def tree(self) -> Tree:
        """Its options; the data is left to be chosen."""
        return {
            "task": self.task.value,
            "model": {"source": MODEL, "pretrained": True, "method": "full"},
            "data": {"text_columns": list(self.columns), "label_column": "label", "max_length": 128},
            "memory": {"batch_size": 32, "gradient_accumulation_steps": 1},
            "training": {
                "epochs": self.epochs,
                "learning_rate": 2e-5,
                "optimizer": "adamw",
                "schedule": "linear",
                "warmup": 0.0,
                "weight_decay": 0.0,
            },
        }


SENTENCES = ("sentence1", "sentence2")
TASKS = (
    GlueTask("cola", "CoLA", ("sentence",), "Is this sentence good English?", "Matthews correlation"),
    GlueTask("sst2", "SST-2", ("sentence",), "Does this sentence of a review praise the film?", "accuracy"),
    GlueTask("mrpc", "MRPC", SENTENCES, "Do two sentences of the news say the same?", "accuracy and F1", 5.0),
    GlueTask(
        "stsb",
        "STS-B",
        SENTENCES,
        "How alike are two sentences, from 0 to 5?",
        "Pearson and Spearman correlation",
        task=Task.TEXT_REGRESSION,
    ),
    GlueTask("qqp", "QQP", ("question1", "question2"), "Do two questions ask the same?", "accuracy and F1"),
    GlueTask(
        "mnli",
        "MNLI",
        ("premise", "hypothesis"),
        "Does the second sentence follow from the first, contradict it, or neither?",
        "accuracy, on texts from the sources trained on (matched) and on others (mismatched)",
    ),
    GlueTask("qnli", "QNLI", ("question", "sentence"), "Does this sentence answer the question?", "accuracy"),
    GlueTask("rte", "RTE", SENTENCES, "Does the second sentence follow from the first?", "accuracy"),
    GlueTask(
        "wnli", "WNLI", SENTENCES, "Does the sentence still hold with its pronoun replaced?", "accuracy", 5.0
    ),
)


def find_glue(name: str) -> GlueTask | None:
    """The task that run_glue calls so, in whatever case; None: it is none of them."""
    return next((task for task in TASKS if task.name == name.lower()), None)
