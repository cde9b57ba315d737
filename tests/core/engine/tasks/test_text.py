"""Numbers for texts and labels for words, from the files to a saved model, with every method."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.memory.forecast import forecast
from core.engine.models.check import check_model
from core.engine.models.parts import base_of
from core.engine.reporter import Reporter
from core.engine.tasks import text
from core.memory.model import Basis
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.events import Evaluated
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TAGS, TinyRun, train, write_data

HEADS = {Task.TEXT_REGRESSION: 1, Task.TOKEN_CLASSIFICATION: len(TAGS)}
LEARNING = TrainingOptions(epochs=2, learning_rate=2e-2)
EACH_TASK = pytest.mark.parametrize("task", HEADS)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("model") / "bert")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def run(folder: Path, task: Task, source: Path, rows: int = 24, **sections: Any) -> TinyRun:
    """Train for an epoch, or as `sections` say."""
    usual = {
        "data": DataOptions(train=write_data(folder, task, rows), max_length=16, eval_fraction=0.25),
        "model": ModelOptions(source=str(source)),
        "output": OutputOptions(keep_checkpoints=0, predictions=0),
    }
    return train(folder / "run", task=task, **{**usual, **sections})


def evaluated(done: TinyRun) -> dict[str, float | None]:
    return next(event for event in reversed(done.events) if isinstance(event, Evaluated)).metrics


def load_back(folder: Path, task: Task) -> Any:
    """The saved model, loaded as anybody would."""
    import peft
    import transformers

    kind = "TokenClassification" if task is Task.TOKEN_CLASSIFICATION else "SequenceClassification"
    if (folder / "adapter_config.json").is_file():
        loads = getattr(peft, f"AutoPeftModelFor{kind}").from_pretrained
        # the model it was trained beside has a head of its own here, for two labels
        return loads(folder, num_labels=HEADS[task], ignore_mismatched_sizes=True).eval()
    return getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder).eval()


def check_saved(done: TinyRun, task: Task, tolerance: float = 1e-5) -> None:
    """The model in the run's folder says what the live one does."""
    live = done.trainer.model.eval()
    batch = done.trainer.data_collator([done.trainer.train_dataset[0], done.trainer.train_dataset[1]])
    batch.pop("labels")
    with torch.no_grad():
        told, again = live(**batch)["logits"], load_back(done.run.model, task)(**batch)["logits"]
    assert told.shape[-1] == HEADS[task]
    torch.testing.assert_close(again, told, rtol=tolerance, atol=tolerance)


def test_numbers_are_learned_judged_and_saved(bert, tmp_path):
    done = run(tmp_path, Task.TEXT_REGRESSION, bert, rows=160, training=LEARNING)
    found = evaluated(done)
    assert set(found) == {"eval_loss", "eval_pearson", "eval_spearman", "eval_mae"}
    assert (found["eval_pearson"] or 0) > 0.8
    config = done.trainer.model.config
    assert (config.num_labels, config.problem_type) == (1, "regression")
    check_saved(done, Task.TEXT_REGRESSION)


def test_labels_of_words_are_learned_judged_and_saved(bert, tmp_path):
    done = run(tmp_path, Task.TOKEN_CLASSIFICATION, bert, rows=160, training=LEARNING)
    found = evaluated(done)
    assert set(found) == {"eval_loss", "eval_f1", "eval_precision", "eval_recall", "eval_token_accuracy"}
    assert found["eval_f1"] == 1.0
    assert done.trainer.model.config.id2label == {0: "B-GOOD", 1: "I-GOOD", 2: "O"}
    check_saved(done, Task.TOKEN_CLASSIFICATION)


@EACH_TASK
def test_lora(task, bert, tmp_path):
    done = run(tmp_path, task, bert, model=ModelOptions(source=str(bert), method=Method.LORA, lora_rank=2))
    assert done.status == 0, done.messages
    check_saved(done, task)
    written = json.loads((done.run.model / "adapter_config.json").read_text())
    assert written["task_type"] == ("TOKEN_CLS" if task is Task.TOKEN_CLASSIFICATION else "SEQ_CLS")


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
def test_qlora(bert, tmp_path):
    task = Task.TOKEN_CLASSIFICATION
    done = run(tmp_path, task, bert, model=ModelOptions(source=str(bert), method=Method.QLORA, lora_rank=2))
    assert done.status == 0, done.messages
    check_saved(done, task, tolerance=0.05)  # it is loaded back unpacked


def test_the_last_layer_alone_in_bf16(bert, tmp_path):
    done = run(
        tmp_path,
        Task.TEXT_REGRESSION,
        bert,
        model=ModelOptions(source=str(bert), method=Method.HEAD),
        device=DeviceOptions(name="cpu", precision=Precision.BF16),
    )
    assert done.status == 0, done.messages
    moving = [name for name, weight in done.trainer.model.named_parameters() if weight.requires_grad]
    assert moving == ["classifier.weight", "classifier.bias"]
    assert all(step.loss is not None for step in done.steps)


@EACH_TASK
def test_random_texts(task, bert, tmp_path):
    done = run(tmp_path, task, bert, data=DataOptions(train="synthetic:16x32"))
    assert done.status == 0, done.messages
    assert [step.tokens for step in done.steps] == [8 * 32, 8 * 32]
    assert not any(isinstance(event, Evaluated) for event in done.events)


@EACH_TASK
def test_it_is_looked_at_and_traced_before_it_runs(task, bert, tmp_path):
    options = RunOptions(
        task=task,
        model=ModelOptions(source=str(bert), method=Method.LORA, lora_rank=2),
        data=DataOptions(train=write_data(tmp_path, task), max_length=16),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=8),
    )
    report = check_model(options, HEADS[task])
    assert report.problems == ()
    (tmp_path / "run").mkdir()
    model = text.prepare(options, Reporter(RunFolder(tmp_path / "run"))).model
    learning = [weight.numel() for weight in model.parameters() if weight.requires_grad]
    assert (report.trainable_parameters, report.architecture) == (
        sum(learning),
        type(base_of(model)).__name__,
    )
    traced = forecast(options, HEADS[task])
    assert traced.basis is Basis.FORMULA
    assert traced.length == 8  # six words between two special tokens
    assert traced.parts.weights == pytest.approx(4 * report.total_parameters, rel=0.1)
