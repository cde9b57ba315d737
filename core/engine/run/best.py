"""What a run is judged by while it trains: its best evaluation, whose weights are kept, and when it stops early.

A history is a list of what was logged, oldest first. Evaluations have a `step` and metrics, `eval_loss` among them, by
the names of `core.base.formats`; other entries are left out.
"""

import math
from pathlib import Path
from typing import Any

from core.base.formats import METRIC_NAMES
from core.base.language import _
from core.engine.reporter import Reporter
from core.options.choices import BestMetric
from core.options.sections import TrainingOptions
from core.runs.events import split_non_finite
from core.runs.models import is_undamaged, step_of
from core.runs.verdict import best_evaluation, judged_by

History = list[dict[str, Any]]

EXTENDED_TO = "extended_to"
"""Key of an entry of a history: from this step on the run has so many steps."""


def best_step(history: History, by: BestMetric = BestMetric.AUTO) -> int | None:
    """Returns the step of the best evaluation, the first of equals; None if there was none."""
    place = best_evaluation(history, by)
    return None if place is None else int(history[place]["step"])


def best_kept(history: History, step: int, checkpoints: Path, by: BestMetric) -> int | None:
    """Returns `best_step` among the evaluations whose weights exist: the current ones (`step`) and checkpoints.

    A run that keeps the best only since it was extended has no weights of most evaluations before.
    """
    steps = {step, *map(step_of, checkpoints.glob("checkpoint-*"))}
    return best_step([entry for entry in history if entry["step"] in steps], by)


def best_to_load(
    history: History, step: int, checkpoints: Path, training: TrainingOptions, reporter: Reporter
) -> int | None:
    """Returns the step of the best evaluation whose checkpoint is to be loaded; warns if that is damaged.

    Returns:
        None: the current weights, of `step`, stay.
    """
    best = best_kept(history, step, checkpoints, training.metric_for_best_model)
    if best is None or best == step:
        return None
    folder = checkpoints / f"checkpoint-{best}"
    if is_undamaged(folder):
        return best
    reporter.warn(
        "best-gone",
        _("The best checkpoint is damaged: the model has the last weights"),
        _("{name} was the best. Its files have changed since.").format(name=folder.name),
    )
    return None


def evaluations_without_improvement(history: History, training: TrainingOptions) -> int:
    """Returns the last evaluations that were no improvement, counted anew where the run was extended.

    As in transformers' `EarlyStoppingCallback`, the first evaluation is one, and a later one is compared with the best
    so far, even if that was too small an improvement to count.
    """
    metric = judged_by(history, training.metric_for_best_model)
    waited, best, is_first = 0, -math.inf, True
    if metric is None:
        return 0
    for entry in history:
        if EXTENDED_TO in entry:
            waited = 0
        elif "eval_loss" in entry:
            value = entry.get(metric.name, math.nan)
            score = -value if metric.less_is_better else value
            is_better = score > best and score - best > training.early_stopping_threshold
            waited = 0 if is_first or is_better else waited + 1
            best, is_first = score if score > best else best, False
    return waited


def stops_early(history: History, training: TrainingOptions) -> bool:
    """Returns whether the run ends here, for want of improvement."""
    patience = training.early_stopping_patience
    return bool(patience) and patience <= evaluations_without_improvement(history, training)


def is_evaluation(entry: dict[str, Any], step: int) -> bool:
    """Returns whether an entry of a history is the evaluation after `step`."""
    return entry.get("step") == step and "eval_loss" in entry


def metrics_at(step: int, history: History) -> dict[str, float | None]:
    """Returns the metrics of the evaluation after `step`, NaN as None; empty if there was none."""
    for entry in history:
        if is_evaluation(entry, step):
            return {name: split_non_finite(entry[name])[0] for name in METRIC_NAMES if name in entry}
    return {}
