"""Classify a text, or a pair of texts, with an encoder or a causal model with a head."""

from pathlib import Path
from typing import Any

from core.checks import parse_synthetic
from core.engine.data.text import TextData, load_synthetic_text, load_text_data
from core.engine.models import text_models
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.events import Phase
from core.options import RunOptions


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a text classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded.
    """
    from transformers import DataCollatorWithPadding

    synthetic = parse_synthetic(options.data.train)
    config = text_models.load_config(options.model)
    tokenizer = text_models.load_tokenizer(options.model.source)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    if synthetic is not None:
        samples, length = synthetic
        train = load_synthetic_text(samples, length, config.vocab_size, options.training.seed)
        evaluation, labels = None, ("0", "1")
    else:
        data = load_text_data(options)
        _tell_notes(data, reporter)
        reporter.phase(Phase.TOKENIZING)
        length = _length_limit(options, tokenizer, config, reporter)
        train, evaluation = (_tokenize(part, tokenizer, length) for part in (data.train, data.eval))
        labels = data.labels
        _tell_cut_texts(train, length, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model = text_models.load_classifier(options.model, config, labels, tokenizer, options.training.seed)
    return Prepared(
        model=model,
        train=train,
        eval=evaluation,
        collator=DataCollatorWithPadding(tokenizer),
        labels=labels,
        save_extras=lambda _folder: None,  # config and tokenizer are saved by Trainer itself
        processing_class=tokenizer,
    )


def _tokenize(part: Any, tokenizer: Any, length: int) -> Any:
    """Replace texts by token ids, cut off at `length`; padding is left to the collator, batch by batch."""
    if part is None:
        return None
    columns = ["text", "text_pair"] if "text_pair" in part.column_names else ["text"]

    def encode(rows: dict[str, list[Any]]) -> dict[str, Any]:
        encoded = tokenizer(*(rows[column] for column in columns), truncation=True, max_length=length)
        return {**encoded, "labels": rows["label"]}

    return part.map(encode, batched=True, remove_columns=part.column_names, keep_in_memory=True)


def _length_limit(options: RunOptions, tokenizer: Any, config: Any, reporter: Reporter) -> int:
    """The length asked for, or the model's own limit where that is shorter."""
    asked = options.data.max_length
    limit = min(asked, tokenizer.model_max_length, getattr(config, "max_position_embeddings", asked))
    if limit < asked:
        reporter.warn(
            "length-limit",
            f"Texts are cut off at {limit} tokens",
            f"The model can't see more; {asked} were asked for.",
        )
    return int(limit)


def _tell_notes(data: TextData, reporter: Reporter) -> None:
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)


def _tell_cut_texts(train: Any, length: int, reporter: Reporter) -> None:
    cut = sum(len(ids) >= length for ids in train["input_ids"])
    if cut:
        reporter.note(
            "texts-cut",
            f"{cut:,} of {len(train):,} texts reach {length} tokens",
            "Anything beyond is cut off.",
        )
