"""Text classification, regression and token classification; random tokens for timing.

Random tokens are `synthetic:EXAMPLESxLENGTH`, or `synthetic:EXAMPLESxSHORTEST-LONGEST`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data import CHOSEN, COMPLETION, LIKED, NO_LABEL, PROMPT, REJECTED, TOKENS
from core.engine.data.splits import NO_EVALUATION
from core.options import RunOptions
from core.options.choices import PreferenceLoss, Task
from core.options.sources import parse_synthetic, synthetic, synthetic_lengths

if TYPE_CHECKING:
    from datasets import Dataset

from core.engine.data.batches import pad_as
from core.engine.data.labelled_texts import (
    encode_texts,
    length_limit,
    load_labelled_texts,
    row_padding,
    texts_in,
    texts_of,
)
from core.engine.models import text
from core.engine.models.method import apply_method
from core.engine.models.refusals import check_word_ids
from core.engine.models.text import sample
from core.engine.reporter import Reporter
from core.engine.tasks import SHOWN_CHARACTERS, Prepared, named, refuse_other_labels
from core.engine.tasks.metrics import classification_metrics, most_likely, regression_metrics, tag_metrics
from core.runs.events import Example, Phase

# --- Random tokens


CLASSES = ("0", "1")


def random_samples(options: RunOptions, vocabulary: int, longest: int) -> "Dataset | None":
    """Returns the random samples of a run, as its task's collator takes them; None if it trains on real ones.

    Labels are half 0 and half 1, random numbers, or one of two classes for each token. In conversations the first half
    of a row is the prompt, in pairs the prompt of two answers.

    Raises:
        DataError: They are longer than `longest`, the most tokens the model can see, or there is evaluation data.
    """
    from datasets import Dataset

    data, task = options.data, options.task
    parsed = parse_synthetic(data.train)
    if parsed is None:
        return None
    samples, length = parsed
    shortest, _rest = synthetic_lengths(data.train) or (length, length)
    if data.eval:
        raise DataError(
            _("Random texts can't be evaluated"),
            _("{train} has made-up labels, which {eval} can't have.").format(
                train=data.train, eval=data.eval
            ),
            (NO_EVALUATION,),
        )
    if length > longest:
        fitting = synthetic(samples, longest, min(shortest, longest))
        raise DataError(
            _("Random texts of {length:,} tokens are too long for this model").format(length=length),
            _("{train}: the model's maximum length is {longest:,} tokens.").format(
                train=data.train, longest=longest
            ),
            (Fix(_("Use texts of {longest:,} tokens").format(longest=longest), {"data.train": fitting}),),
        )
    samples = min(samples, data.max_train_samples or samples)
    random = np.random.default_rng(options.training.seed)
    prompt = length // 2
    if task is Task.PREFERENCE:
        is_kto = options.preference is PreferenceLoss.KTO
        answers = (COMPLETION,) if is_kto else (CHOSEN, REJECTED)
        widths = {PROMPT: prompt, **dict.fromkeys(answers, length - prompt)}
        ratings = {LIKED: np.arange(samples) % 2 == 0} if is_kto else {}
        return Dataset.from_dict(
            {name: list(random.integers(0, vocabulary, (samples, width))) for name, width in widths.items()}
            | ratings
        )
    ids = random.integers(0, vocabulary, (samples, length))
    if task is Task.CAUSAL_LM:
        return Dataset.from_dict({TOKENS: list(ids)})
    if task is Task.CHAT:
        learned = np.where(np.arange(length) < prompt, NO_LABEL, ids)
        return Dataset.from_dict({TOKENS: list(ids), "labels": list(learned)})
    labels: Any = random.permutation(np.arange(samples) % len(CLASSES))
    if task is Task.TEXT_REGRESSION:
        labels = random.random(samples)
    columns: dict[str, Any] = {TOKENS: list(ids), "attention_mask": list(np.ones_like(ids)), "labels": labels}
    if task is Task.TOKEN_CLASSIFICATION:
        columns["labels"] = list(random.integers(0, len(CLASSES), ids.shape))
    if shortest < length:
        sizes = random.integers(shortest, length + 1, samples)
        for name, rows in columns.items():
            if isinstance(rows, list):
                columns[name] = [row[:size] for row, size in zip(rows, sizes, strict=True)]
    return Dataset.from_dict(columns)


# --- The tasks


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Loads data and model, an encoder or a causal model with the head of the task.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded, or its tokenizer can't map tokens to words.
    """
    reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config
    config = text.load_config(options)
    reporter.phase(Phase.LOADING_DATA, options.data_name)
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
        reporter.warn_if_in_both(data.in_both, len(data.eval or ()), options)
        reporter.phase(Phase.TOKENIZING)
        labels = named(data.labels, options)
        train, evaluation = encode_texts(options, data, tokenizer, longest, reporter)

    def origin(index: int) -> Example:
        if not (data and data.eval and evaluation and len(data.eval) == len(evaluation)):
            return Example()  # words without any token are left out
        texts, length = texts_in(data.eval[index]), length_limit(options, longest)
        is_cut = len(evaluation[index]["input_ids"]) >= length  # or it has exactly as many
        if is_cut:
            starts = (text[: 20 * length] for text in texts)  # tokens are shorter than 20 characters
            is_cut = len(tokenizer(*starts, verbose=False)["input_ids"]) > length
        shown = tuple(text[:SHOWN_CHARACTERS] for text in texts)
        return Example(texts=shown, where=data.where(index), is_cut=is_cut)

    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    if labels:
        refuse_other_labels(labels, config.id2label.values(), options)
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
        collator=pad_as(tokenizer, **row_padding(options, longest)),
        labels=labels,
        save_extras=lambda _folder: None,  # Trainer saves config and tokenizer
        processing_class=tokenizer,
        metrics=metrics,
        condense=condense,
        origin=origin,
    )
