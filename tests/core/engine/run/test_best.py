"""What a run is judged by while it trains, as the page judges it, and as transformers stops early."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainerState

from core.engine.run.best import best_kept, best_step, evaluations_without_improvement
from core.options.choices import BestMetric
from core.options.sections import TrainingOptions
from core.runs.events import Evaluated, split_non_finite
from core.runs.summary import summarize
from core.runs.verdict import judged_by
from tests.fakes.runs import make_folder, plan, write_events
from tests.fakes.training import run_options


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("accuracy", [0.5, 0.9, 0.9, float("nan")], 4),  # the first of equals
        ("perplexity", [9.0, 3.0], 4),
        ("accuracy", [], None),
    ],
)
def test_the_best_evaluation_is_found_by_the_metric_a_run_is_judged_by(metric, values, best):
    evaluations = [
        {"step": 2 * number, "eval_loss": 1.0, f"eval_{metric}": value}
        for number, value in enumerate(values, start=1)
    ]
    assert best_step([{"step": 1, "loss": 9.0}, *evaluations]) == best


@pytest.mark.parametrize(
    ("evaluations", "by", "metric", "best"),
    [
        # seen: a constant prediction at first has no correlation; the engine kept step 20, the page named step 30
        ([(math.nan, 0.9), (0.6, 0.4), (0.75, 0.5)], BestMetric.AUTO, "eval_pearson", 30),
        ([(0.6, 0.4), (0.75, 0.5), (math.nan, 0.3)], BestMetric.AUTO, "eval_pearson", 20),
        ([(math.nan, 0.9), (math.nan, 0.4), (math.nan, 0.5)], BestMetric.AUTO, "eval_mae", 20),
        ([(math.nan, 0.9), (math.nan, 0.4), (math.nan, 0.5)], BestMetric.PEARSON, "eval_mae", 20),
        ([(0.5, 0.9), (0.6, 0.4), (0.75, 0.5)], BestMetric.MAE, "eval_mae", 20),
        ([(0.75, 0.9), (0.75, 0.4)], BestMetric.AUTO, "eval_pearson", 10),  # the first of equals
        ([(math.nan, math.nan)], BestMetric.AUTO, None, None),
        ([], BestMetric.AUTO, None, None),
    ],
)
def test_the_engine_keeps_the_step_that_the_page_calls_the_best(tmp_path, evaluations, by, metric, best):
    history, told = [{"step": 1, "loss": 9.0}], []
    for place, values in enumerate(evaluations, 1):
        metrics = dict(zip(("eval_pearson", "eval_mae"), values, strict=True))
        history.append({"step": 10 * place, **metrics})
        plain = {name: split_non_finite(value)[0] for name, value in metrics.items()}
        told.append(Evaluated(step=10 * place, epoch=place, metrics=plain, seconds=1))
    found = judged_by(history, by)
    assert (found and found.name, best_step(history, by)) == (metric, best)
    run = make_folder(tmp_path / "run", run_options(metric_for_best_model=by))
    write_events(run.events_file, plan(), *told)
    summary = summarize(run)
    assert summary.metric == metric
    if best is not None:
        assert summary.best == told[best // 10 - 1].metrics[metric]


@pytest.mark.parametrize("by", [BestMetric.ACCURACY, BestMetric.LOSS])
@pytest.mark.parametrize("least", [0.0, 0.125])
def test_evaluations_without_improvement_are_counted_as_by_transformers(by, least):
    values = torch.tensor([3, 4, 4, 5, 2, math.nan, 6, 5, 8, 8, 1, 1, 0, math.nan, 7]).div(8).tolist()
    counts = []
    for beginning in (values, values[::-1]):
        state, control, history = TrainerState(), TrainerControl(), []
        options = TrainingOptions(metric_for_best_model=by, early_stopping_threshold=least)
        theirs = EarlyStoppingCallback(99, least)
        args = SimpleNamespace(
            metric_for_best_model=by, greater_is_better=by is not BestMetric.LOSS, save_strategy="no"
        )
        trainer = SimpleNamespace(args=args, state=state)
        for value in beginning:
            metrics = {"eval_loss": 0.0, f"eval_{by}": value}
            theirs.on_evaluate(args, state, control, metrics)
            Trainer._determine_best_metric(trainer, metrics, None)
            history.append(metrics)
            counts.append(evaluations_without_improvement(history, options))
            assert counts[-1] == theirs.early_stopping_patience_counter
    assert max(counts) > 2


@pytest.mark.parametrize(("saved", "best"), [((), 30), ((20,), 20), ((10, 20), 10)])
def test_the_best_model_is_sought_among_those_whose_weights_are_there(saved, best, tmp_path):
    for step in saved:
        (tmp_path / f"checkpoint-{step}").mkdir()
    history = [{"step": 10 * (1 + place), "eval_loss": loss} for place, loss in enumerate((0.1, 0.2, 0.3))]
    assert best_kept(history, 30, tmp_path, BestMetric.AUTO) == best
