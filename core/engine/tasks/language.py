"""Tasks of causal language models: text generation, and chat and preferences by TRL's trainers."""

import copy
from dataclasses import dataclass, replace
from typing import Any

from core.base.formats import capitalized, paragraph, without_stop
from core.base.language import _, ngettext
from core.engine.data import LIKED
from core.engine.data.batches import (
    Collator,
    PadConversations,
    PadPairs,
    PadRated,
    PadTexts,
    StackBlocks,
)
from core.engine.data.chat_samples import (
    ANSWERS_CUT,
    ANSWERS_GONE,
    Conversations,
    kto_weights,
    load_conversations,
)
from core.engine.data.chat_tokens import WITH_TEMPLATE, Renderer, chatml_end, set_template
from core.engine.data.checks import longer
from core.engine.data.labelled_texts import length_limit, row_padding
from core.engine.data.running_text import (
    Blocks,
    RunningText,
    all_pieces,
    load_running_text,
    make_blocks,
    texts_of_conversations,
    too_short,
)
from core.engine.data.splits import NOTHING_HELD_OUT
from core.engine.models import text as text_models
from core.engine.models.method import apply_method
from core.engine.models.text import sample, warn_if_packing_leaks
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.metrics import ValidationSize
from core.engine.tasks.text import random_samples
from core.options import RunOptions
from core.options.choices import ChatTemplate, Method, PreferenceLoss, Task
from core.options.sources import is_scratch, parse_synthetic
from core.runs.events import Phase
from core.runs.models import trained_length


@dataclass(frozen=True)
class LanguageData:
    """What a language model is trained on, by any engine.

    Attributes:
        config: The model's.
        longest: The most tokens that the model can see.
        length: The most tokens in a row.
        train: Token ids, and what `collator` makes batches of.
        eval: Likewise, the validation split.
        ends: Tokens that end a text, besides the model's own.
        held_out: The size of the validation text, of running text.
        weights: Those of liked and of other answers in KTO's loss.
    """

    config: Any
    tokenizer: Any
    longest: int
    length: int
    train: Any
    eval: Any | None
    collator: Collator
    ends: frozenset[int] = frozenset()
    held_out: ValidationSize | None = None
    weights: tuple[float, float] = (1.0, 1.0)


def load_data(options: RunOptions, reporter: Reporter) -> LanguageData:
    """Loads config, tokenizer and rows; the model itself is not loaded.

    Raises:
        DataError: The texts, conversations or answers can't be used.
        ModelError: The config or the tokenizer can't be read, or the model is no causal language model.
    """
    read = {Task.CAUSAL_LM: _read_texts, Task.CHAT: _read_chats, Task.PREFERENCE: _read_preferences}
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    return read[options.task](options, text_models.load_config(options), reporter)


def _load_model(options: RunOptions, data: LanguageData, reporter: Reporter) -> Any:
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model: Any = text_models.load_model(options, data.config, (), data.tokenizer).model
    return model


def _ends_of(known: int | list[int] | None, more: frozenset[int]) -> int | list[int] | None:
    """Returns a generation config's `eos_token_id` with more tokens."""
    ends = [] if known is None else [known] if isinstance(known, int) else list(known)
    ends += sorted(more.difference(ends))
    return ends if len(ends) > 1 else ends[0] if ends else None


# --- Text generation


def prepare_causal_lm(options: RunOptions, reporter: Reporter) -> Prepared:
    """Loads texts and model.

    Raises:
        DataError: The texts can't be used.
        ModelError: The model can't be found, loaded or trained, or is no causal language model.
    """
    data = load_data(options, reporter)
    model = _load_model(options, data, reporter)
    return prepared_with(apply_method(model, options), model.generation_config, data)


def prepared_with(model: Any, generation: Any, data: LanguageData, reference: Any = None) -> Prepared:
    """Puts data and model together; `generation`, the model's generation config, learns where a text ends."""
    generation.pad_token_id = data.tokenizer.pad_token_id
    generation.eos_token_id = _ends_of(generation.eos_token_id, data.ends)
    return Prepared(
        model=model,
        train=data.train,
        eval=data.eval,
        collator=data.collator,
        save_extras=generation.save_pretrained,
        processing_class=data.tokenizer,
        held_out=data.held_out,
        reference=reference,
        weights=data.weights,
    )


def _read_texts(options: RunOptions, config: Any, reporter: Reporter) -> LanguageData:
    reporter.phase(Phase.LOADING_DATA, options.data_name)
    text = None if parse_synthetic(options.data.train) else load_running_text(options)
    reporter.phase(Phase.TOKENIZING)
    tokenizer = text_models.tokenizer_for(options, lambda: sample(all_pieces(text.train)) if text else ())
    if is_scratch(options.model.source) and text:
        title = _("A tokenizer of {count:,} tokens was trained on the text").format(count=len(tokenizer))
        is_smaller = len(tokenizer) < options.model.vocabulary
        reporter.note("vocabulary", title, _("No more tokens occur twice in the text.") if is_smaller else "")
    longest = text_models.longest_text(config, tokenizer)
    length = length_limit(options, longest)
    evaluation, held_out = None, None
    if text:
        train, evaluation, held_out = _rows(options, text, tokenizer, length, reporter)
    else:
        train = random_samples(options, config.get_text_config().vocab_size, longest)
    return LanguageData(
        config, tokenizer, longest, length, train, evaluation, StackBlocks(), held_out=held_out
    )


def _rows(
    options: RunOptions, text: RunningText, tokenizer: Any, length: int, reporter: Reporter
) -> tuple[Any, Any, ValidationSize | None]:
    """Returns training blocks, validation blocks and the size of the validation text; the last two may be None."""
    for index, note in enumerate(text.notes):
        reporter.note(f"data-{index}", note.message)
    train = make_blocks(text.train, tokenizer, length)
    if train is None:
        raise too_short(options.data.train)
    rows = _first(train.rows, options.data.max_train_samples)
    held_out = make_blocks(text.eval, tokenizer, length) if text.eval else None
    _report_blocks((not options.tells_of_training and held_out) or train, options, reporter)
    if held_out is None:
        if text.eval is not None:
            reporter.note("held-out", NOTHING_HELD_OUT)
        return rows, None, None
    size = ValidationSize(held_out.tokens, sum(map(len, text.eval or ())))
    return rows, _first(held_out.rows, options.data.max_eval_samples), size


def _first(rows: Any, count: int | None) -> Any:
    return rows if count is None or count >= len(rows) else rows.select(range(count))


def _report_blocks(train: Blocks, options: RunOptions, reporter: Reporter) -> None:
    if train.tokens < train.length:
        title = _("The text is one block of {tokens:,} tokens").format(tokens=train.tokens)
        reporter.note("blocks", title, _("A block has at most {length:,}.").format(length=train.length))
        return
    title = ngettext(
        "The text is split into {count:,} block of {length:,} tokens",
        "The text is split into {count:,} blocks of {length:,} tokens",
        len(train.rows),
    ).format(count=len(train.rows), length=train.length)
    details = []
    if train.left_over:
        details.append(
            ngettext(
                "The last token is dropped.",
                "The last {count:,} tokens are dropped.",
                train.left_over,
            ).format(count=train.left_over)
        )
    if train.length < options.data.max_length:
        details.append(_("This is the model's maximum length."))
    reporter.note("blocks", title, paragraph(*details))


# --- Chat and preferences, by TRL's trainers


def prepare_chat(options: RunOptions, reporter: Reporter) -> Prepared:
    """Loads conversations and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or is no causal language model.
    """
    data = load_data(options, reporter)
    model = _load_model(options, data, reporter)
    adapted = apply_method(model, options)
    if is_packed(options):
        warn_if_packing_leaks(adapted, reporter)
    return prepared_with(adapted, model.generation_config, data)


def prepare_preference(options: RunOptions, reporter: Reporter) -> Prepared:
    """Loads answers and model. The reference is the model with the adapter disabled; for full training, a copy.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or is no causal language model.
    """
    data = load_data(options, reporter)
    model, reference = _load_model(options, data, reporter), None
    if options.model.method is Method.FULL and options.has_reference:
        reference = copy.deepcopy(model)
        note_copy(reporter)
    return prepared_with(apply_method(model, options), model.generation_config, data, reference)


def note_copy(reporter: Reporter) -> None:
    """Notes that the reference of preference tuning is a copy of the model."""
    title = _("A copy of the model is kept as the reference")
    reporter.note("reference-copy", title, _("With LoRA this needs no extra memory."))


def is_packed(options: RunOptions) -> bool:
    return options.task is Task.CHAT and options.data.packing and not options.only_evaluates


def _read_chats(options: RunOptions, config: Any, reporter: Reporter) -> LanguageData:
    data = _read_conversations(options, config, reporter)
    if is_packed(options):
        from trl import pack_dataset

        reporter.phase(Phase.TOKENIZING)
        packed = pack_dataset(data.train, data.length, "bfd")
        reporter.note(
            "packed",
            _(
                "{conversations:,} conversations are packed into {rows:,} blocks of up to {length:,} tokens"
            ).format(conversations=len(data.train), rows=len(packed), length=data.length),
        )
        return replace(data, train=packed)
    return data


def _read_preferences(options: RunOptions, config: Any, reporter: Reporter) -> LanguageData:
    data = _read_conversations(options, config, reporter)
    if options.preference is not PreferenceLoss.KTO:
        return data
    liked = sum(data.train[LIKED])
    others = len(data.train) - liked
    weights = kto_weights(liked, others)
    title = _("{liked:,} answers are liked, {others:,} are not").format(liked=liked, others=others)
    detail = _("In the loss, a liked answer counts {liked:.2f} times, one that isn't {others:.2f} times.")
    if weights == (1.0, 1.0):
        detail = _("Each counts once in the loss.")
    reporter.note("ratings", title, detail.format(liked=weights[0], others=weights[1]))
    return replace(data, weights=weights)


def _read_conversations(options: RunOptions, config: Any, reporter: Reporter) -> LanguageData:
    """Loads tokenizer and conversations; sets the chosen chat template, and where generation stops.

    Raises:
        DataError: The data can't be used.
        ModelError: The model's tokenizer can't be read.
    """
    tokenizer = text_models.tokenizer_for(
        options, lambda: sample(all_pieces(texts_of_conversations(options)))
    )
    reporter.phase(Phase.LOADING_DATA, options.data_name)
    template = set_template(tokenizer, options.data.chat_template)
    if template is ChatTemplate.CHATML:
        was_chosen = options.data.chat_template is ChatTemplate.CHATML
        detail = () if was_chosen else (_("The model has no chat template of its own."), WITH_TEMPLATE)
        reporter.note("chat-template", _("Conversations are formatted as ChatML"), paragraph(*detail))
    longest = text_models.longest_text(config, tokenizer)
    length = length_limit(options, longest)
    random = random_samples(options, config.get_text_config().vocab_size, longest)
    if random is not None:
        data = Conversations(random, None)
    else:
        data = load_conversations(options, Renderer(tokenizer, options.data.loss_on), length)
        _report_data(data, length, longest, reporter, trained_length(options.model.source, longest))
        reporter.warn_if_in_both(*data.in_both, options)
    is_chatml = template is ChatTemplate.CHATML and random is None
    of_turns = {data.turn_end, chatml_end(tokenizer) if is_chatml else None}
    ends = frozenset(end for end in of_turns if end is not None and end in tokenizer.added_tokens_decoder)
    kind: type[PadTexts] = PadConversations
    if options.task is Task.PREFERENCE:
        kind = PadRated if options.preference is PreferenceLoss.KTO else PadPairs
    collator = kind(tokenizer.pad_token_id, **row_padding(options, longest))
    return LanguageData(config, tokenizer, longest, length, data.train, data.eval, collator, ends)


def _report_data(data: Conversations, length: int, longest: int, reporter: Reporter, trained: int) -> None:
    """Reports findings in the data; the model can read `longest` tokens, and was trained on up to `trained`."""
    for index, note in enumerate(data.notes):
        reporter.note(f"data-{index}", note)
    for index, finding in enumerate(data.findings):
        detail = paragraph(capitalized(finding.where))
        fixes = finding.fixes
        if finding.code in (ANSWERS_CUT.code, ANSWERS_GONE.code):
            fixes = (*longer(data.lengths, length, trained), *fixes)
            if max(data.lengths) > trained:
                limit = _("The model can read at most {trained:,} tokens.")
                if trained < longest:
                    limit = _("The model was trained on texts of at most {trained:,} tokens.")
                detail = paragraph(detail, limit.format(trained=trained))
        reporter.warn(f"data-{finding.code}-{index}", without_stop(finding.message), detail, fixes)
