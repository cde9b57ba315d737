"""The best of a run's evaluations becomes its model, where that is asked for."""

import torch
from safetensors.torch import load_file

from core.options.sections import MemoryOptions, OutputOptions, TrainingOptions
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.interrupted import attempt, short_run, story_of
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, reviews, write_reviews


def evaluated(step: int, **metrics: float) -> dict[str, float]:
    return {"step": step, "eval_loss": 1.0, **metrics}


def test_the_best_is_the_first_of_equals_by_the_metric_a_run_is_judged_by():
    from core.engine.training.callbacks import (
        best_step,  # transformers, which torchvision is prepared for by the fakes
    )

    log = [
        {"step": 1, "loss": 9.0},
        evaluated(2, eval_accuracy=0.5),
        evaluated(4, eval_accuracy=0.9),
        evaluated(6, eval_accuracy=0.9),
        evaluated(8, eval_accuracy=float("nan")),
    ]
    assert best_step(log) == 4
    assert best_step([evaluated(2, eval_perplexity=9.0), evaluated(4, eval_perplexity=3.0)]) == 4
    assert best_step([{"step": 1, "loss": 9.0}]) is None


def test_the_best_is_kept_and_becomes_the_model(tmp_path):
    """A rate at which it soon gets worse: the last evaluation is not the best."""
    options = short_run(
        model=model(save_tiny_bert(tmp_path / "bert")),
        data=reviews(write_reviews(tmp_path / "reviews.csv", 24), eval_fraction=0.25),
        memory=MemoryOptions(batch_size=8),
        training=TrainingOptions(epochs=5.0, learning_rate=0.05),
        output=OutputOptions(keep_checkpoints=1, keep_best=True, predictions=0),
    )
    run = RunFolder(tmp_path / "run")
    assert attempt(run.path, options) == 0
    status = story_of(run)
    judged = {step: metrics["eval_accuracy"] for step, metrics in status.evaluations.items()}
    best = next(step for step, value in judged.items() if value == max(judged.values()))
    last = max(judged)
    assert best != last
    kept = {folder.name for folder in run.checkpoints.iterdir()}
    assert kept == {f"checkpoint-{best}", f"checkpoint-{last}"}
    trained = load_file(run.model / "model.safetensors")
    assert_same(trained, load_file(run.checkpoints / f"checkpoint-{best}" / "model.safetensors"))
    assert status.last is not None
    assert status.last.metrics["eval_accuracy"] == judged[best]
    assert any(told.id == "best-kept" for told in status.of(MessageRaised))


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
