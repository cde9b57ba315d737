"""Text classification, regression and token classification."""

from pathlib import Path
from typing import Any

from core.engine.data.batches import pad_as
from core.engine.data.labelled_texts import (
    encode_texts,
    load_labelled_texts,
    row_length,
    texts_of,
)
from core.engine.models import text
from core.engine.models.parts import apply_method
from core.engine.models.refusals import check_word_ids
from core.engine.models.scratch import sample
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.metrics import classification_metrics, most_likely, regression_metrics, tag_metrics
from core.engine.tasks.synthetic import CLASSES, random_samples
from core.options import RunOptions
from core.options.choices import Task
from core.options.sources import parse_synthetic
from core.runs.events import Phase


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model, an encoder or a causal model with the head of the task.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded, or its tokenizer can't map tokens to words.
    """
    reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config
    config = text.load_config(options)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    data = None if parse_synthetic(options.data.train) else load_labelled_texts(options)
    tokenizer = text.tokenizer_for(options, lambda: () if data is None else sample(texts_of(data.train)))
    if options.task is Task.TOKEN_CLASSIFICATION:
        check_word_ids(options.model.source, tokenizer)
    longest = text.longest_text(config, tokenizer)
    if data is None:
        labels: tuple[str, ...] = CLASSES if options.task.has_labels else ()
        train, evaluation = random_samples(options, config.vocab_size, longest), None
    else:
        for index, note in enumerate(data.notes):
            reporter.note(f"data-{index}", note)
        reporter.phase(Phase.TOKENIZING)
        labels = data.labels
        train, evaluation = encode_texts(options, data, tokenizer, longest, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    loaded = text.load_model(options, config, labels, tokenizer)
    metrics: Any = classification_metrics
    condense = None
    if options.task is Task.TOKEN_CLASSIFICATION:
        metrics, condense = tag_metrics(labels), most_likely
    elif options.task is Task.TEXT_REGRESSION:
        metrics = regression_metrics
    return Prepared(
        model=apply_method(loaded.model, options, loaded.fresh),
        train=train,
        eval=evaluation,
        collator=pad_as(tokenizer, row_length(options, longest)),
        labels=labels,
        save_extras=lambda _folder: None,  # Trainer saves config and tokenizer
        processing_class=tokenizer,
        metrics=metrics,
        condense=condense,
    )
