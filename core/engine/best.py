"""The best of a run's evaluations, where its checkpoint is to be kept and to become the trained model."""

import math
from typing import Any

from transformers import TrainerCallback

from core.checkpoint_files import is_undamaged
from core.engine.reporter import Reporter
from core.metrics import METRICS


class BestCallback(TrainerCallback):
    """Has a checkpoint saved after each evaluation that was better than all before."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Compare; Trainer has noted this evaluation already."""
        if best_step(state.log_history) == state.global_step:
            control.should_save = True


def best_step(history: list[dict[str, Any]]) -> int | None:
    """The step of the best evaluation in Trainer's log, the first of equals; None where there was none.

    The log is in each checkpoint, so that the best is known when a run goes on. Evaluations are compared by the first
    metric that a run is judged by and that the first of them had as a number.
    """
    evaluations = [entry for entry in history if "eval_loss" in entry]
    metric = next(
        (one for one in METRICS for entry in evaluations[:1] if _is_number(entry.get(one.name))), None
    )
    if metric is None:
        return None
    judged = [entry for entry in evaluations if _is_number(entry.get(metric.name))]
    best = metric.best([entry[metric.name] for entry in judged])
    return next(int(entry["step"]) for entry in judged if entry[metric.name] == best)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def take_best(trainer: Any, reporter: Reporter) -> int:
    """Give the model the weights that were best at an evaluation.

    Returns:
        The step they are of: the last, where that was the best or the best is gone.
    """
    last: int = trainer.state.global_step
    best = best_step(trainer.state.log_history)
    if best is None or best == last:
        return last
    folder = trainer.checkpoint_at(best)
    if not is_undamaged(folder):
        reporter.warn(
            "best-gone",
            "The best checkpoint is gone: the model is the last one",
            f"{folder.name} was the best, and is missing or damaged.",
        )
        return last
    trainer.load_weights(folder)
    reporter.note(
        "best-kept",
        f"The model is that of step {best:,}, which was the best",
        f"Training went on to step {last:,}; no evaluation after step {best:,} was better.",
    )
    return best
