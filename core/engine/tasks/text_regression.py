"""Give a text, or a pair of texts, a number, with an encoder or a causal model with a head of one output."""

from core.engine.data.scores import load_scored_texts
from core.engine.metrics import regression_metrics
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.encoders import prepare_encoder
from core.options import RunOptions


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a text regression run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded.
    """
    return prepare_encoder(options, reporter, load_scored_texts, lambda _labels: regression_metrics)
