"""Numbers for texts and labels for words, from the files to a saved model, with every method."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from core.base.errors import DataError
from core.engine.memory.forecast import forecast
from core.engine.memory.model_check import check_model
from core.engine.models.parts import base_of
from core.engine.reporter import Reporter
from core.engine.tasks import named
from core.engine.training.build import prepare
from core.memory.model import Basis
from core.options.choices import Method, Precision, Task
from core.runs.events import ConfusionCounted, Evaluated
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TAGS, TinyRun, run_options, train, write_data, write_reviews

NUMBERS, LABELS = Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION
HEADS = {NUMBERS: 1, LABELS: len(TAGS)}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("model") / "bert")


def run(folder: Path, task: Task, source: Path, *, rows: int = 24, **changes: Any) -> TinyRun:
    """Train for an epoch, unless more are chosen."""
    usual = {"train": write_data(folder, task, rows), "max_length": 16, "eval_fraction": 0.25}
    none = {"keep_checkpoints": 0, "predictions": 0}
    done = train(folder / "run", task=task, source=source, **{**usual, **none, **changes})
    assert done.status == 0, done.messages
    return done


def check_saved(done: TinyRun, task: Task, tolerance: float = 1e-5) -> None:
    """The saved model, loaded as anybody would, answers as the live one."""
    import peft
    import transformers

    kind, folder = "TokenClassification" if task is LABELS else "SequenceClassification", done.run.model
    if (folder / "adapter_config.json").is_file():
        loads = getattr(peft, f"AutoPeftModelFor{kind}").from_pretrained
        # the model it was trained beside has a head of its own here, for two labels
        loaded = loads(folder, num_labels=HEADS[task], ignore_mismatched_sizes=True).eval()
    else:
        loaded = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder).eval()
    batch = done.trainer.data_collator([done.trainer.train_dataset[0], done.trainer.train_dataset[1]])
    batch.pop("labels")
    with torch.no_grad():
        live, again = done.trainer.model.eval()(**batch)["logits"], loaded(**batch)["logits"]
    assert live.shape[-1] == HEADS[task]
    torch.testing.assert_close(again, live, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        (NUMBERS, ("pearson", "spearman", "mae", "loss")),
        (LABELS, ("f1", "precision", "recall", "token_accuracy", "loss")),
    ],
)
def test_a_task_is_learned_judged_and_saved(task, metrics, bert, tmp_path):
    done = run(tmp_path, task, bert, rows=160, epochs=2.0, learning_rate=2e-2)
    found = [event for event in done.events if isinstance(event, Evaluated)][-1].metrics
    assert set(found) == {f"eval_{name}" for name in metrics}
    assert found[f"eval_{metrics[0]}"] > 0.8
    config = done.trainer.model.config
    if task is NUMBERS:
        assert (config.num_labels, config.problem_type) == (1, "regression")
    else:
        assert config.id2label == {0: "B-GOOD", 1: "I-GOOD", 2: "O"}
    check_saved(done, task)


def test_labels_get_the_names_they_are_given_in_the_model_and_in_the_confusion_matrix(bert, tmp_path):
    train, names = str(write_reviews(tmp_path / "reviews.csv")), {"no": "negative"}
    done = run(tmp_path, Task.TEXT_CLASSIFICATION, bert, train=train, label_names=names)
    assert done.trainer.model.config.id2label == {0: "negative", 1: "yes"}
    counted = next(event for event in done.events if isinstance(event, ConfusionCounted))
    assert counted.labels == ("negative", "yes")
    with pytest.raises(DataError):
        named(("no", "yes"), run_options(label_names={"no": "yes"}))


@pytest.mark.parametrize(("task", "peft_type"), [(NUMBERS, "SEQ_CLS"), (LABELS, "TOKEN_CLS")])
def test_lora_is_saved_with_its_head(task, peft_type, bert, tmp_path):
    done = run(tmp_path, task, bert, method=Method.LORA, lora_rank=2)
    check_saved(done, task)
    assert json.loads((done.run.model / "adapter_config.json").read_text())["task_type"] == peft_type


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
def test_qlora_is_saved_with_its_head(bert, tmp_path):
    done = run(tmp_path, LABELS, bert, method=Method.QLORA, lora_rank=2)
    check_saved(done, LABELS, tolerance=0.05)  # it is loaded back unquantized


def test_the_last_layer_alone_is_trained_in_bf16(bert, tmp_path):
    done = run(tmp_path, NUMBERS, bert, method=Method.HEAD, precision=Precision.BF16)
    moving = [name for name, weight in done.trainer.model.named_parameters() if weight.requires_grad]
    assert moving == ["classifier.weight", "classifier.bias"]
    assert all(step.loss is not None for step in done.steps)


@pytest.mark.parametrize("task", HEADS)
def test_a_model_is_described_and_its_memory_forecast_before_it_runs(task, bert, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))  # no earlier run corrects the forecast
    rows = {"train": write_data(tmp_path, task), "max_length": 16}
    options = run_options(task, source=bert, method=Method.LORA, lora_rank=2, **rows)
    report = check_model(options, HEADS[task])
    model = prepare(options, Reporter(None)).model
    learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert (report.problems, report.trainable_parameters) == ((), learning)
    assert report.architecture == type(base_of(model)).__name__
    found = forecast(options, HEADS[task])
    assert (found.basis, found.length) == (Basis.FORMULA, 8)  # six words between two special tokens
    assert found.parts.weights == pytest.approx(4 * report.total_parameters, rel=0.1)
