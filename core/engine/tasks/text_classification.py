"""Classify a text, or a pair of texts, with an encoder or a causal model with a head."""

from core.engine.data.text import load_text_data
from core.engine.metrics import classification_metrics
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.encoders import prepare_encoder
from core.options import RunOptions


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a text classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded.
    """
    return prepare_encoder(options, reporter, load_text_data, lambda _labels: classification_metrics)
