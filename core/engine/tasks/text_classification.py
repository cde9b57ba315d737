"""Classify a text, or a pair of texts, with an encoder or a causal model with a head."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.checks import parse_synthetic
from core.engine.data.text import load_synthetic_text, load_text_data
from core.engine.models import text_models
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.events import Phase
from core.options import RunOptions


@dataclass(frozen=True)
class _Encoded:
    """Token ids and labels: what the model sees."""

    train: Any
    eval: Any | None
    labels: tuple[str, ...]


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load data and model for a text classification run.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded.
    """
    from transformers import DataCollatorWithPadding

    config = text_models.load_config(options.model)
    tokenizer = text_models.load_tokenizer(options.model.source)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    encoded = _random(options, config) or _read(options, config, tokenizer, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model = text_models.load_classifier(
        options.model, config, encoded.labels, tokenizer, options.training.seed
    )
    return Prepared(
        model=model,
        train=encoded.train,
        eval=encoded.eval,
        collator=DataCollatorWithPadding(tokenizer),
        labels=encoded.labels,
        save_extras=lambda _folder: None,  # config and tokenizer are saved by Trainer itself
        processing_class=tokenizer,
    )


def _random(options: RunOptions, config: Any) -> _Encoded | None:
    """Random tokens for `synthetic:SAMPLESxLENGTH`; None for real data."""
    asked = parse_synthetic(options.data.train)
    if asked is None:
        return None
    samples, length = asked
    return _Encoded(
        load_synthetic_text(samples, length, config.vocab_size, options.training.seed), None, ("0", "1")
    )


def _read(options: RunOptions, config: Any, tokenizer: Any, reporter: Reporter) -> _Encoded:
    data = load_text_data(options)
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    reporter.phase(Phase.TOKENIZING)
    length = _length_limit(options, tokenizer, config, reporter)
    train = _tokenize(data.train, tokenizer, length)
    evaluation = None if data.eval is None else _tokenize(data.eval, tokenizer, length)
    _tell_cut_texts(train, length, reporter)
    return _Encoded(train, evaluation, data.labels)


def _tokenize(part: Any, tokenizer: Any, length: int) -> Any:
    """Replace texts by token ids, cut off at `length`; padding is left to the collator, batch by batch."""
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


def _tell_cut_texts(train: Any, length: int, reporter: Reporter) -> None:
    cut = sum(len(ids) >= length for ids in train["input_ids"])
    if cut:
        reporter.note(
            "texts-cut",
            f"{cut:,} of {len(train):,} texts reach {length} tokens",
            "Anything beyond is cut off.",
        )
