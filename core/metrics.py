"""The metrics a run is evaluated by: their names as Trainer gives them, their titles, and which way is better."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One metric. `title` is in plain English, as the command line prints it; the window has its own, translated."""

    name: str
    title: str
    less_is_better: bool = False

    def best(self, values: list[float]) -> float:
        """The best of some values."""
        return min(values) if self.less_is_better else max(values)


METRICS = (
    Metric("eval_accuracy", "accuracy"),
    Metric("eval_f1", "F1"),
    Metric("eval_pearson", "Pearson"),
    Metric("eval_spearman", "Spearman"),
    Metric("eval_mae", "mean absolute error", less_is_better=True),
    Metric("eval_reward_accuracy", "reward accuracy"),
    Metric("eval_perplexity", "perplexity", less_is_better=True),
    Metric("eval_loss", "loss", less_is_better=True),
    Metric("eval_matthews", "Matthews correlation"),
    Metric("eval_top5_accuracy", "top-5 accuracy"),
    Metric("eval_token_accuracy", "token accuracy"),
    Metric("eval_precision", "precision"),
    Metric("eval_recall", "recall"),
    Metric("eval_reward_margin", "reward margin"),
    Metric("eval_bits_per_character", "bits a character", less_is_better=True),
    Metric("eval_nats_per_character", "nats a character", less_is_better=True),
)
"""All metrics; a run is judged by the first of these that it has."""

LESS_IS_BETTER = frozenset(metric.name for metric in METRICS if metric.less_is_better)
METRIC_NAMES = tuple(metric.name for metric in METRICS)
METRIC_TITLES = {metric.name: metric.title for metric in METRICS}
