"""Tasks of language models: continue a text, chat, preferences; the latter two by TRL's trainers."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import Fix
from core.base.language import _
from core.engine.data.batches import PadConversations, PadPairs, StackBlocks
from core.engine.data.chat_samples import ANSWERS_CUT, ANSWERS_GONE, Conversations, load_conversations
from core.engine.data.chat_tokens import Renderer, set_template
from core.engine.data.labelled_texts import length_limit, row_length
from core.engine.data.running_text import (
    NOTHING_HELD_OUT,
    Blocks,
    RunningText,
    all_pieces,
    load_running_text,
    make_blocks,
    too_short,
)
from core.engine.models import text as text_models
from core.engine.models.parts import apply_method
from core.engine.models.scratch import sample
from core.engine.models.text import warn_if_packing_leaks
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared, TrainedBy
from core.engine.tasks.metrics import HeldOut
from core.engine.tasks.synthetic import random_samples
from core.engine.training.trainer import LanguageTrainer
from core.options import RunOptions
from core.options.choices import ChatTemplate, Method
from core.options.sources import is_scratch, parse_synthetic
from core.runs.events import Phase

# --- Continue a text


def prepare_causal_lm(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load texts and model.

    Raises:
        DataError: The texts can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    from transformers import TrainingArguments

    source = options.model.source
    reporter.phase(Phase.LOADING_MODEL, source)
    config = text_models.load_config(options)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    text = None if parse_synthetic(options.data.train) else load_running_text(options)
    reporter.phase(Phase.TOKENIZING)
    tokenizer = text_models.tokenizer_for(options, lambda: sample(all_pieces(text.train)) if text else ())
    if is_scratch(source) and text:
        fewer = f"{options.model.vocabulary:,} were asked for; it holds no more that come twice."
        is_full = len(tokenizer) >= options.model.vocabulary
        trained = _("A tokenizer of {tokenizer:,} tokens was trained on the text").format(
            tokenizer=len(tokenizer)
        )
        reporter.note("vocabulary", trained, _("It is saved with the model.") if is_full else fewer)
    longest = text_models.longest_text(config, tokenizer)
    train, evaluation, held_out = (
        _rows(options, text, tokenizer, length_limit(options, longest), reporter)
        if text
        else (random_samples(options, config.get_text_config().vocab_size, longest), None, None)
    )
    reporter.phase(Phase.LOADING_MODEL, source)
    model: Any = text_models.load_model(options, config, (), tokenizer).model
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return Prepared(
        model=apply_method(model, options),
        train=train,
        eval=evaluation,
        collator=StackBlocks(),
        labels=(),
        save_extras=model.generation_config.save_pretrained,
        processing_class=tokenizer,
        trained_by=TrainedBy(LanguageTrainer, TrainingArguments, more={"held_out": held_out}),
    )


def _rows(
    options: RunOptions, text: RunningText, tokenizer: Any, length: int, reporter: Reporter
) -> tuple[Any, Any, HeldOut | None]:
    """Blocks to train on, those held out, and how long the held-out text is; None where nothing is."""
    for index, note in enumerate(text.notes):
        reporter.note(f"data-{index}", note)
    train = make_blocks(text.train, tokenizer, length)
    if train is None:
        raise too_short(options.data.train)
    _report_blocks(train, options, reporter)
    rows = _first(train.rows, options.data.max_train_samples)
    held_out = make_blocks(text.eval, tokenizer, length) if text.eval else None
    if held_out is None:
        if text.eval is not None:
            reporter.note("held-out", NOTHING_HELD_OUT)
        return rows, None, None
    measured = HeldOut(held_out.tokens, sum(map(len, text.eval or ())))
    return rows, _first(held_out.rows, options.data.max_eval_samples), measured


def _first(rows: Any, count: int | None) -> Any:
    return rows if count is None or count >= len(rows) else rows.select(range(count))


def _report_blocks(train: Blocks, options: RunOptions, reporter: Reporter) -> None:
    if train.tokens < train.length:
        reporter.note(
            "blocks",
            _("The text is one row of {tokens:,} tokens").format(tokens=train.tokens),
            _("It is shorter than the {length:,} tokens that a row may have.").format(length=train.length),
        )
        return
    rows = "1 row" if len(train.rows) == 1 else f"{len(train.rows):,} rows"
    left = f"; {train.left_over:,} at its end fill no row" if train.left_over else ""
    asked = options.data.max_length
    why = f"The model can't see more at once; {asked:,} were asked for." if train.length < asked else ""
    reporter.note(
        "blocks",
        _("The text is cut into {rows} of {length:,} tokens{left}").format(
            rows=rows, length=train.length, left=left
        ),
        why,
    )


# --- Chat, by TRL's SFTTrainer, and preferences, by its DPOTrainer


def prepare_chat(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load conversations and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    from trl import SFTConfig, pack_dataset

    from core.engine.tasks.trl_trainers import ChatTrainer

    ready = _ready(options, reporter)
    model = apply_method(ready.model, options)
    train, length = ready.data.train, ready.length
    if options.data.packing:
        reporter.phase(Phase.TOKENIZING)
        train = pack_dataset(train, length, "bfd")
        reporter.note(
            "packed",
            _("{train:,} conversations are packed into {train_2:,} rows of {length:,} tokens at most").format(
                train=len(ready.data.train), train_2=len(train), length=length
            ),
            _("An epoch has fewer steps by that."),
        )
        warn_if_packing_leaks(model, reporter)
    return Prepared(
        model=model,
        train=train,
        eval=ready.data.eval,
        collator=PadConversations(ready.tokenizer.pad_token_id, length=row_length(options, ready.longest)),
        labels=(),
        save_extras=ready.model.generation_config.save_pretrained,
        processing_class=ready.tokenizer,
        trained_by=TrainedBy(
            ChatTrainer,
            SFTConfig,
            {
                "dataset_kwargs": {
                    "skip_prepare_dataset": True
                },  # samples are tokens already, those of the preview
                "max_length": None,
                "activation_offloading": False,
            },
        ),
    )


def prepare_preference(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load pairs and model, which is held to what it was: with LoRA, the adapter switched off; otherwise a copy of it.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    from trl import DPOConfig

    from core.engine.tasks.trl_trainers import PreferenceTrainer

    ready = _ready(options, reporter)
    more: dict[str, Any] = {}
    if options.model.method is Method.FULL:
        more["ref_model"] = copy.deepcopy(ready.model)
        reporter.note(
            "reference-copy",
            _("A copy of the model is kept beside it"),
            _("It is held to what it was. With LoRA, that takes no memory."),
        )
    return Prepared(
        model=apply_method(ready.model, options),
        train=ready.data.train,
        eval=ready.data.eval,
        collator=PadPairs(ready.tokenizer.pad_token_id, length=row_length(options, ready.longest)),
        labels=(),
        save_extras=ready.model.generation_config.save_pretrained,
        processing_class=ready.tokenizer,
        trained_by=TrainedBy(
            PreferenceTrainer,
            DPOConfig,
            {"beta": options.training.beta, "max_length": None, "disable_dropout": False},
            more,
        ),
    )


@dataclass(frozen=True)
class _Ready:
    """Data, tokenizer and model. `longest` is the most tokens the model can see, `length` the most that a row gets."""

    data: Conversations
    tokenizer: Any
    model: Any
    longest: int
    length: int


def _ready(options: RunOptions, reporter: Reporter) -> _Ready:
    """Load a tokenizer and give it the chosen template; read the data; load the model, which stops where answers end.

    Raises:
        DataError: The data can't be used.
        ModelError: The model or its tokenizer can't be read, or it doesn't write.
    """
    source, asked = options.model.source, options.data.chat_template
    reporter.phase(Phase.LOADING_MODEL, source)
    config = text_models.load_config(options)
    # from scratch, rules let pass but random conversations: bytes alone are its tokens
    tokenizer = text_models.tokenizer_for(options, tuple)
    reporter.phase(Phase.LOADING_DATA, Path(options.data.train).name)
    if set_template(tokenizer, asked) is ChatTemplate.CHATML:
        lent = _("The model has no chat template of its own. It is saved with the model.")
        why = _("As asked.") if asked is ChatTemplate.CHATML else lent
        reporter.note("chat-template", _("Conversations are written in ChatML"), why)
    longest = text_models.longest_text(config, tokenizer)
    length = length_limit(options, longest)
    random = random_samples(options, config.get_text_config().vocab_size, longest)
    if random is not None:
        data = Conversations(random, None)
    else:
        data = load_conversations(options, Renderer(tokenizer, options.data.loss_on), length)
        _report_data(data, length, longest, reporter)
    reporter.phase(Phase.LOADING_MODEL, source)
    model: Any = text_models.load_model(options, config, (), tokenizer).model
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    if data.turn_end in tokenizer.added_tokens_decoder:
        known = model.generation_config.eos_token_id
        ends = [] if known is None else [known] if isinstance(known, int) else list(known)
        if data.turn_end not in ends:
            model.generation_config.eos_token_id = [*ends, data.turn_end] if ends else data.turn_end
    return _Ready(data, tokenizer, model, longest, length)


def _report_data(data: Conversations, length: int, longest: int, reporter: Reporter) -> None:
    """Report what was found in the data that doesn't stop the run."""
    most = min(2 * length, longest)
    longer = (
        (Fix(_("Allow {most:,} tokens").format(most=most), {"data.max_length": most}),)
        if most > length
        else ()
    )
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    for index, finding in enumerate(data.findings):
        where = f"{finding.where[:1].upper()}{finding.where[1:]}." if finding.where else ""
        fixes = finding.fixes
        if finding.code in (ANSWERS_CUT.code, ANSWERS_GONE.code):
            fixes = (*longer, *fixes)
            if length == longest:
                where = f"{where} The model can't see more than {longest:,} tokens.".strip()
        reporter.warn(f"data-{finding.code}-{index}", finding.message.rstrip("."), where, fixes)
