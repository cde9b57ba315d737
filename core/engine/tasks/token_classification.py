"""Give each word of a text a label: names in it, parts of speech."""

from dataclasses import replace

from core.engine.data.tags import load_tagged_texts
from core.engine.models.refusals import check_tells_words
from core.engine.reporter import Reporter
from core.engine.tag_metrics import most_likely, tag_metrics
from core.engine.tasks import Prepared
from core.engine.tasks.encoders import prepare_encoder
from core.options import RunOptions


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a token classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded, or its tokenizer can't tell which word a token is from.
    """
    prepared = prepare_encoder(options, reporter, load_tagged_texts, tag_metrics, check_tells_words)
    return replace(prepared, condense=most_likely)
