"""What tasks share that read a text and say something of it: its class, a number, or a label for each word."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.engine.data.batches import pad_as
from core.engine.data.encoding import encode_texts, row_length, texts_of
from core.engine.data.random_texts import load_random_texts
from core.engine.data.text import TextData
from core.engine.models import text_models
from core.engine.models.adapters import apply_method
from core.engine.models.scratch import sample
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.events import Phase
from core.options import RunOptions
from core.sources import parse_synthetic

Load = Callable[[RunOptions], TextData]
Metrics = Callable[[Any], dict[str, float]]


def prepare_encoder(
    options: RunOptions,
    reporter: Reporter,
    load: Load,
    metrics: Callable[[tuple[str, ...]], Metrics],
    check_tokenizer: Callable[[str, Any], None] = lambda _source, _tokenizer: None,
) -> Prepared:
    """Load data and model, the model with the head of the task.

    Args:
        options: What is asked.
        reporter: Hears of the phases, and of what a person should know.
        load: Reads the data.
        metrics: Makes of the labels what computes metrics.
        check_tokenizer: Refuses a tokenizer that doesn't do, given where it is from.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded, or has no tokenizer that does.
    """
    reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config, maybe from the Hub
    config = text_models.load_config(options)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    data = None if parse_synthetic(options.data.train) else load(options)
    tokenizer = text_models.tokenizer_for(
        options, lambda: () if data is None else sample(texts_of(data.train))
    )
    check_tokenizer(options.model.source, tokenizer)
    longest = text_models.longest_text(config, tokenizer)
    encoded = load_random_texts(options, config.vocab_size, longest)
    if encoded is None:
        assert data is not None, "where there are no random texts there are real ones"
        for index, note in enumerate(data.notes):
            reporter.note(f"data-{index}", note)
        reporter.phase(Phase.TOKENIZING)
        encoded = encode_texts(options, data, tokenizer, longest, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    loaded = text_models.load_model(options, config, encoded.labels, tokenizer)
    return Prepared(
        model=apply_method(loaded.model, options, loaded.fresh),
        train=encoded.train,
        eval=encoded.eval,
        collator=pad_as(tokenizer, row_length(options, longest)),
        labels=encoded.labels,
        save_extras=lambda _folder: None,  # config and tokenizer are saved by Trainer itself
        processing_class=tokenizer,
        metrics=metrics(encoded.labels),
    )
