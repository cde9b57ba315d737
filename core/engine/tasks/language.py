"""Tasks of language models: continue a text, chat, preferences; the latter two by TRL's trainers.

With preferences, the model is held to what it was: with LoRA, the adapter switched off, which takes no memory; where
all weights move, a copy of them.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import Fix
from core.engine.data.batches import PadConversations, PadPairs, StackBlocks
from core.engine.data.chat_samples import ANSWERS_CUT, ANSWERS_GONE, Conversations, load_conversations
from core.engine.data.chat_tokens import Renderer, set_template
from core.engine.data.running_text import (
    NOTHING_HELD_OUT,
    Blocks,
    Documents,
    RunningText,
    load_running_text,
    make_blocks,
    too_short,
)
from core.engine.data.tokens import (
    asked_samples,
    length_limit,
    random_conversations,
    random_pairs,
    random_tokens,
    row_length,
    tokenizer_print,
)
from core.engine.models import text as text_models
from core.engine.models.parts import apply_method
from core.engine.models.scratch import sample
from core.engine.models.text import warn_if_neighbours_show
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared, TrainedBy
from core.engine.tasks.metrics import HeldOut
from core.engine.training.trainer import LanguageTrainer
from core.options import RunOptions
from core.options.choices import ChatTemplate, Method
from core.options.sources import is_scratch, parse_synthetic
from core.runs.events import Phase

# --- What chat and preferences share: a tokenizer with a template, and what is told of the data


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
    config = text_models.load_config(options)
    # from scratch, rules let pass but random conversations: bytes alone are its tokens
    tokenizer = text_models.tokenizer_for(options, tuple)
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
    longest = text_models.longest_text(config, tokenizer)
    return ReadyTokenizer(tokenizer, config, longest, length_limit(options, longest))


def load_writer(options: RunOptions, ready: ReadyTokenizer, reporter: Reporter, turn_end: int | None) -> Any:
    """Load the model; it will stop writing at `turn_end`, the token that answers end with.

    Raises:
        ModelError: It can't be loaded.
    """
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model: Any = text_models.load_model(options, ready.config, (), ready.tokenizer).model
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


# --- Go on writing a text, with a causal language model


@dataclass(frozen=True)
class _Rows:
    """Blocks to train on, those held out, and how long the held-out text is; None where nothing is."""

    train: Any
    eval: Any = None
    held_out: HeldOut | None = None


def prepare_causal_lm(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load texts and model.

    Raises:
        DataError: The texts can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    from transformers import TrainingArguments

    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    config = text_models.load_config(options)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    text = None if parse_synthetic(options.data.train) else load_running_text(options)
    tokenizer = _tokenizer(options, text, reporter)
    longest = text_models.longest_text(config, tokenizer)
    rows = (
        _random_rows(options, config, longest)
        if text is None
        else _rows(options, text, tokenizer, length_limit(options, longest), reporter)
    )
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model: Any = text_models.load_model(options, config, (), tokenizer).model
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return Prepared(
        model=apply_method(model, options),
        train=rows.train,
        eval=rows.eval,
        collator=StackBlocks(),
        labels=(),
        save_extras=model.generation_config.save_pretrained,
        processing_class=tokenizer,
        trained_by=TrainedBy(LanguageTrainer, TrainingArguments, more={"held_out": rows.held_out}),
    )


def _tokenizer(options: RunOptions, text: RunningText | None, reporter: Reporter) -> Any:
    """The model's tokenizer; trained on the training part of the text where the model comes from nothing."""
    reporter.phase(Phase.TOKENIZING)
    tokenizer = text_models.tokenizer_for(
        options, lambda: sample(list(text.train.pieces())) if text is not None else ()
    )
    if is_scratch(options.model.source) and text is not None:
        _tell_vocabulary(len(tokenizer), options, reporter)
    return tokenizer


def _tell_vocabulary(tokens: int, options: RunOptions, reporter: Reporter) -> None:
    asked = options.model.vocabulary
    trained = f"A tokenizer of {tokens:,} tokens was trained on the text"
    if tokens < asked:
        reporter.note("vocabulary", trained, f"{asked:,} were asked for; it holds no more that come twice.")
    else:
        reporter.note("vocabulary", trained, "It is saved with the model.")


def _rows(options: RunOptions, text: RunningText, tokenizer: Any, length: int, reporter: Reporter) -> _Rows:
    for index, note in enumerate(text.notes):
        reporter.note(f"data-{index}", note)
    train = _blocks(text.train, tokenizer, length)
    if train is None:
        raise too_short(options.data.train)
    _tell_blocks(train, options, reporter)
    rows = _first(train.rows, options.data.max_train_samples)
    if text.eval is None:
        return _Rows(rows)
    held_out = _blocks(text.eval, tokenizer, length)
    if held_out is None:
        reporter.note("held-out", NOTHING_HELD_OUT)
        return _Rows(rows)
    measured = HeldOut(held_out.tokens, text.eval.characters)
    return _Rows(rows, _first(held_out.rows, options.data.max_eval_samples), measured)


def _random_rows(options: RunOptions, config: Any, longest: int) -> _Rows:
    asked = asked_samples(options, longest)
    assert asked is not None, "there is no text where random ones are asked for"
    random = random_tokens(*asked, config.get_text_config().vocab_size, options.training.seed)
    return _Rows(random.select_columns(["input_ids"]))


def _blocks(documents: Documents, tokenizer: Any, length: int) -> Blocks | None:
    return make_blocks(documents, tokenizer, length, tokenizer_print(tokenizer))


def _first(rows: Any, count: int | None) -> Any:
    return rows if count is None or count >= len(rows) else rows.select(range(count))


def _tell_blocks(train: Blocks, options: RunOptions, reporter: Reporter) -> None:
    rows = "1 row" if len(train.rows) == 1 else f"{len(train.rows):,} rows"
    if train.tokens < train.length:
        reporter.note(
            "blocks",
            f"The text is one row of {train.tokens:,} tokens",
            f"It is shorter than the {train.length:,} tokens that a row may have.",
        )
        return
    left = f"; {train.left_over:,} at its end fill no row" if train.left_over else ""
    asked = options.data.max_length
    why = f"The model can't see more at once; {asked:,} were asked for." if train.length < asked else ""
    reporter.note("blocks", f"The text is cut into {rows} of {train.length:,} tokens{left}", why)


# --- Learn to answer as in conversations or instructions, by TRL's SFTTrainer


ARGUMENTS = {
    "dataset_kwargs": {"skip_prepare_dataset": True},  # samples are tokens already, those of the preview
    "max_length": None,
    "activation_offloading": False,
}
"""What TRL's `SFTConfig` is told beside Trainer's arguments."""


def prepare_chat(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load conversations and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    from trl import SFTConfig

    from core.engine.tasks.trl_trainers import ChatTrainer

    ready = ready_tokenizer(options, reporter)
    found = _chat_samples(options, ready, reporter)
    loaded = load_writer(options, ready, reporter, found.turn_end)
    model = apply_method(loaded, options)
    train = found.train
    if options.data.packing:
        train = _packed(train, ready.length, reporter)
        warn_if_neighbours_show(model, reporter)
    return Prepared(
        model=model,
        train=train,
        eval=found.eval,
        collator=PadConversations(
            pad_id=ready.tokenizer.pad_token_id, length=row_length(options, ready.longest)
        ),
        labels=(),
        save_extras=loaded.generation_config.save_pretrained,
        processing_class=ready.tokenizer,
        trained_by=TrainedBy(ChatTrainer, SFTConfig, ARGUMENTS),
    )


def _chat_samples(options: RunOptions, ready: ReadyTokenizer, reporter: Reporter) -> Conversations:
    random = random_conversations(options, ready.vocabulary, ready.longest)
    if random is not None:
        return random
    found = load_conversations(options, Renderer(ready.tokenizer, options.data.loss_on), ready.length)
    tell(found, ready, reporter)
    return found


def _packed(samples: Any, length: int, reporter: Reporter) -> Any:
    """Several conversations in each row, by TRL's best fit."""
    from trl import pack_dataset

    reporter.phase(Phase.TOKENIZING)
    packed = pack_dataset(samples, length, "bfd")
    reporter.note(
        "packed",
        f"{len(samples):,} conversations are packed into {len(packed):,} rows of {length:,} tokens at most",
        "An epoch has fewer steps by that.",
    )
    return packed


# --- Learn to prefer the better of two answers, by TRL's DPOTrainer


def prepare_preference(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load pairs and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    from trl import DPOConfig

    from core.engine.tasks.trl_trainers import PreferenceTrainer

    ready = ready_tokenizer(options, reporter)
    found = _preference_samples(options, ready, reporter)
    model = load_writer(options, ready, reporter, found.turn_end)
    more: dict[str, Any] = {}
    if options.model.method is Method.FULL:
        more["ref_model"] = copy.deepcopy(model)
        reporter.note(
            "reference-copy",
            "A copy of the model is kept beside it",
            "It is held to what it was. With LoRA, that takes no memory.",
        )
    return Prepared(
        model=apply_method(model, options),
        train=found.train,
        eval=found.eval,
        collator=PadPairs(pad_id=ready.tokenizer.pad_token_id, length=row_length(options, ready.longest)),
        labels=(),
        save_extras=model.generation_config.save_pretrained,
        processing_class=ready.tokenizer,
        trained_by=TrainedBy(
            PreferenceTrainer,
            DPOConfig,
            {"beta": options.training.beta, "max_length": None, "disable_dropout": False},
            more,
        ),
    )


def _preference_samples(options: RunOptions, ready: ReadyTokenizer, reporter: Reporter) -> Conversations:
    random = random_pairs(options, ready.vocabulary, ready.longest)
    if random is not None:
        return random
    found = load_conversations(options, Renderer(ready.tokenizer), ready.length)
    tell(found, ready, reporter)
    return found
