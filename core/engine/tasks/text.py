"""Give a text, or a pair of texts, a number, with an encoder or a causal model with a head of one output."""

from dataclasses import replace

from core.engine.models.refusals import check_tells_words
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.base import prepare_encoder
from core.engine.tasks.metrics import classification_metrics, most_likely, regression_metrics, tag_metrics
from core.options import RunOptions

# --- Classify a text, or a pair of texts, with an encoder or a causal model with a head


def prepare_classification(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a text classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded.
    """
    return prepare_encoder(options, reporter, lambda _labels: classification_metrics)


# --- Give a text, or a pair of texts, a number


def prepare_regression(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a text regression run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded.
    """
    return prepare_encoder(options, reporter, lambda _labels: regression_metrics)


# --- Give each word of a text a label: names in it, parts of speech


def prepare_token_classification(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a token classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded, or its tokenizer can't tell which word a token is from.
    """
    prepared = prepare_encoder(options, reporter, tag_metrics, check_tells_words)
    return replace(prepared, condense=most_likely)
