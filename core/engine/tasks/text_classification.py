"""Classify a text, or a pair of texts, with an encoder or a causal model with a head."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core import settings
from core.choices import Padding
from core.engine.data.batches import pad_as
from core.engine.data.lengths import lengths_of
from core.engine.data.random_texts import load_random_texts
from core.engine.data.text import EncodedTexts, load_text_data
from core.engine.data.token_cache import TokenCache, cache_key, tokenizer_print
from core.engine.models import text_models
from core.engine.models.adapters import apply_method
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
    reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config, maybe from the Hub
    config = text_models.load_config(options.model)
    tokenizer = text_models.load_tokenizer(options.model.source)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    longest = text_models.longest_text(config, tokenizer)
    random = load_random_texts(options, config.vocab_size, longest)
    encoded = random or _read(options, tokenizer, longest, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    loaded = text_models.load_classifier(options, config, encoded.labels, tokenizer)
    return Prepared(
        model=apply_method(loaded.model, options, loaded.fresh),
        train=encoded.train,
        eval=encoded.eval,
        collator=pad_as(tokenizer, _row_length(options, longest)),
        labels=encoded.labels,
        save_extras=lambda _folder: None,  # config and tokenizer are saved by Trainer itself
        processing_class=tokenizer,
    )


def _read(options: RunOptions, tokenizer: Any, longest: int, reporter: Reporter) -> EncodedTexts:
    data = load_text_data(options)
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    reporter.phase(Phase.TOKENIZING)
    length = _length_limit(options, longest, reporter)
    tokenize = _tokenizing(tokenizer, length)
    train = tokenize(data.train)
    evaluation = None if data.eval is None else tokenize(data.eval)
    _tell_cut_texts(train, length, reporter)
    return EncodedTexts(train, evaluation, data.labels)


def _tokenizing(tokenizer: Any, length: int) -> Callable[[Any], Any]:
    """What tokenizes texts, or takes them from an earlier run with the same texts, tokenizer and length."""
    known = tokenizer_print(tokenizer)
    cache = TokenCache(settings.home() / "cache" / "tokens")

    def tokenize(part: Any) -> Any:
        if not known:
            return _tokenize(part, tokenizer, length)
        return cache.get(cache_key(part, known, length), lambda: _tokenize(part, tokenizer, length))

    return tokenize


def _tokenize(part: Any, tokenizer: Any, length: int) -> Any:
    """Replace texts by token ids, cut off at `length`; padding is left to the collator, batch by batch."""
    columns = ["text", "text_pair"] if "text_pair" in part.column_names else ["text"]

    def encode(rows: dict[str, list[Any]]) -> dict[str, Any]:
        encoded = tokenizer(*(rows[column] for column in columns), truncation=True, max_length=length)
        return {**encoded, "labels": rows["label"]}

    return part.map(encode, batched=True, remove_columns=part.column_names, keep_in_memory=True)


def _row_length(options: RunOptions, longest: int) -> int | None:
    """Tokens of every row where padding is fixed; None: each batch decides."""
    return min(options.data.max_length, longest) if options.data.padding is Padding.FIXED else None


def _length_limit(options: RunOptions, longest: int, reporter: Reporter) -> int:
    """The length asked for, or the model's own limit where that is shorter."""
    asked = options.data.max_length
    if longest < asked:
        reporter.warn(
            "length-limit",
            f"Texts are cut off at {longest} tokens",
            f"The model can't see more; {asked} were asked for.",
        )
    return min(asked, longest)


def _tell_cut_texts(train: Any, length: int, reporter: Reporter) -> None:
    cut = sum(tokens >= length for tokens in lengths_of(train) or ())
    if cut:
        reporter.note(
            "texts-cut",
            f"{cut:,} of {len(train):,} texts reach {length} tokens",
            "Anything beyond is cut off.",
        )
