"""What chat and preferences share: a model that writes, its tokenizer with a template, and what is told of the data."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import Fix
from core.engine.data.batches import pad_as
from core.engine.data.chat_samples import ANSWERS_CUT, ANSWERS_GONE, Conversations
from core.engine.data.chat_tokens import set_template
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tokens import encode_texts, length_limit, load_random_texts, row_length, texts_of
from core.engine.models import text
from core.engine.models.parts import apply_method
from core.engine.models.scratch import sample
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.options import RunOptions
from core.options.choices import ChatTemplate
from core.options.sources import parse_synthetic
from core.runs.events import Phase

# --- What tasks share that read a text and say something of it: its class, a number


Metrics = Callable[[Any], dict[str, float]]


def prepare_encoder(
    options: RunOptions,
    reporter: Reporter,
    metrics: Callable[[tuple[str, ...]], Metrics],
    check_tokenizer: Callable[[str, Any], None] = lambda _source, _tokenizer: None,
) -> Prepared:
    """Load data and model, the model with the head of the task.

    Args:
        options: What is asked.
        reporter: Hears of the phases, and of what a person should know.
        metrics: Makes of the labels what computes metrics.
        check_tokenizer: Refuses a tokenizer that doesn't do, given where it is from.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found or loaded, or has no tokenizer that does.
    """
    reporter.phase(Phase.LOADING_MODEL, options.model.source)  # its config, maybe from the Hub
    config = text.load_config(options)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    data = None if parse_synthetic(options.data.train) else load_labelled_texts(options)
    tokenizer = text.tokenizer_for(options, lambda: () if data is None else sample(texts_of(data.train)))
    check_tokenizer(options.model.source, tokenizer)
    longest = text.longest_text(config, tokenizer)
    encoded = load_random_texts(options, config.vocab_size, longest)
    if encoded is None:
        assert data is not None, "where there are no random texts there are real ones"
        for index, note in enumerate(data.notes):
            reporter.note(f"data-{index}", note)
        reporter.phase(Phase.TOKENIZING)
        encoded = encode_texts(options, data, tokenizer, longest, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    loaded = text.load_model(options, config, encoded.labels, tokenizer)
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


# --- What chat and preferences share: a model that writes, its tokenizer with a template


CUT = (ANSWERS_CUT.code, ANSWERS_GONE.code)
"""What is found where rows are longer than is allowed."""


@dataclass(frozen=True)
class ReadyTokenizer:
    """A tokenizer with its chat template, and the config of its model.

    `longest` is the most tokens the model can see, `length` the most that a row gets.
    """

    tokenizer: Any
    config: Any
    longest: int
    length: int

    @property
    def vocabulary(self) -> int:
        """Token ids are below."""
        return int(self.config.get_text_config().vocab_size)


def ready_tokenizer(options: RunOptions, reporter: Reporter) -> ReadyTokenizer:
    """Load a tokenizer, give it the template that was asked for, and say which that is.

    Raises:
        ModelError: The model or its tokenizer can't be read, or it doesn't write.
    """
    source = options.model.source
    reporter.phase(Phase.LOADING_MODEL, source)
    config = text.load_config(options)
    # from scratch, rules let pass but random conversations: bytes alone are its tokens
    tokenizer = text.tokenizer_for(options, tuple)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    if set_template(tokenizer, options.data.chat_template) is ChatTemplate.CHATML:
        asked = options.data.chat_template is ChatTemplate.CHATML
        reporter.note(
            "chat-template",
            "Conversations are written in ChatML",
            "As asked."
            if asked
            else "The model has no chat template of its own. It is saved with the model.",
        )
    longest = text.longest_text(config, tokenizer)
    return ReadyTokenizer(tokenizer, config, longest, length_limit(options, longest))


def load_writer(options: RunOptions, ready: ReadyTokenizer, reporter: Reporter, turn_end: int | None) -> Any:
    """Load the model; it will stop writing at `turn_end`, the token that answers end with.

    Raises:
        ModelError: It can't be loaded.
    """
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model: Any = text.load_model(options, ready.config, (), ready.tokenizer).model
    model.generation_config.pad_token_id = ready.tokenizer.pad_token_id
    if turn_end in ready.tokenizer.added_tokens_decoder:
        stop_at(model, turn_end)
    return model


def stop_at(model: Any, token: int | None) -> None:
    """Let a model stop writing at a token, beside those it stops at already."""
    known = model.generation_config.eos_token_id
    ends = [] if known is None else [known] if isinstance(known, int) else list(known)
    if token is not None and token not in ends:
        model.generation_config.eos_token_id = [*ends, token] if ends else token


def tell(found: Conversations, ready: ReadyTokenizer, reporter: Reporter) -> None:
    """Say what was found in the data that lets the run pass."""
    most = min(2 * ready.length, ready.longest)
    longer = (Fix(f"Allow {most:,} tokens", {"data.max_length": most}),) if most > ready.length else ()
    for index, note in enumerate(found.notes):
        reporter.note(f"data-{index}", note)
    for index, finding in enumerate(found.findings):
        where = f"{finding.where[:1].upper()}{finding.where[1:]}." if finding.where else ""
        if finding.code in CUT and ready.length == ready.longest:
            where = f"{where} The model can't see more than {ready.longest:,} tokens.".strip()
        fixes = (*longer, *finding.fixes) if finding.code in CUT else finding.fixes
        reporter.warn(f"data-{finding.code}-{index}", finding.message.rstrip("."), where, fixes)
