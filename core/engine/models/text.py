"""Text models and tokenizers from a folder, the Hub, a past run or scratch; safetensors only, no code executed."""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from core.base.errors import Fix, ModelError
from core.base.language import _
from core.engine.data.chat_tokens import TURN_END, TURN_START
from core.engine.models import refusals
from core.engine.models.parts import (
    base_of,
    frozen_dtype,
    hold_frozen,
    left_unpacked,
    loading_frozen_in,
    owners,
    quantization_arguments,
)
from core.engine.models.past_runs import check_run, config_in, weights_in
from core.engine.models.pretrained import load_tokenizer, read_pretrained, tokenizer_in
from core.engine.reporter import Reporter
from core.options import RunOptions, hub
from core.options.choices import Attention, Method, Task
from core.options.sources import ScratchModel, is_scratch, positions_of, scratch_model

# --- Models from scratch and their tokenizers


END, PAD = "<|endoftext|>", "<|pad|>"
CAUSAL_TOKENS = (END, PAD, TURN_START, TURN_END)
"""The last two are ChatML's, so that the model can be trained to chat later."""
ENCODER_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")

SAMPLE_CHARACTERS = 10_000_000
"""Characters that train the tokenizer: more change hardly a token and take minutes."""
QUICK_CHARACTERS = 500_000
"""Characters for a preview: a tokenizer of 1,024 tokens takes 0.3 s, and most of its tokens are the run's."""


def scratch_config(options: RunOptions) -> Any:
    from transformers import BertConfig, LlamaConfig

    sizes = _sizes(options)
    widths: dict[str, Any] = {
        "vocab_size": options.model.vocabulary,
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.inner,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "max_position_embeddings": positions_of(options.data.max_length),
    }
    if not sizes.writes:
        return BertConfig(**widths, pad_token_id=ENCODER_TOKENS.index("[PAD]"))
    end = CAUSAL_TOKENS.index(END)
    return LlamaConfig(
        **widths,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=CAUSAL_TOKENS.index(PAD),
        tie_word_embeddings=True,
    )


def _sizes(options: RunOptions) -> ScratchModel:
    sizes = scratch_model(options.model.source)
    assert sizes is not None, "validated"
    return sizes


def train_tokenizer(options: RunOptions, texts: Iterable[str]) -> Any:
    """Trains a tokenizer of at most `model.vocabulary` tokens; fewer if no more occur twice. Deterministic.

    The training texts, in pieces of any length, are read once. Without any, its tokens are bytes.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    is_causal = _sizes(options).writes
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.model.vocabulary,
        min_frequency=2,
        special_tokens=list(CAUSAL_TOKENS if is_causal else ENCODER_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    longest = positions_of(options.data.max_length)
    if is_causal:
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            bos_token=END,
            eos_token=END,
            pad_token=PAD,
            extra_special_tokens=[TURN_START, TURN_END],
            model_max_length=longest,
            model_input_names=["input_ids", "attention_mask"],
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, ENCODER_TOKENS.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=longest,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


WIDE = 0x7FF
"""The last character that UTF-8 writes in one or two bytes. A byte-level BPE needs up to two tokens to join three."""
BYTES = 300
"""Tokens of the single bytes, and special ones."""
OCCURS = 5
"""Rarer characters may be split."""
PER_WIDE = 1.5
CHARACTERS_PER_TOKEN = 100
SIZES_OF_VOCABULARY = (1024, 2048, 4096, 8192, 16384, 32768)
MOST_BY_SIZE = 8192


def fitting_vocabulary(texts: Sequence[str]) -> tuple[int, int]:
    """Returns the least vocabulary that keeps frequent characters whole, and a usual one for texts of this size.

    Hangul and Chinese characters have three bytes each, and there are thousands of them. A token should occur often
    enough to be learned.
    """
    counts = Counter(chain.from_iterable(sample(texts, QUICK_CHARACTERS)))
    wide = sum(count >= OCCURS and ord(character) > WIDE for character, count in counts.items())
    needed = BYTES + PER_WIDE * wide
    by_size = min(MOST_BY_SIZE, sum(map(len, texts)) / CHARACTERS_PER_TOKEN)

    def rounded(size: float) -> int:
        return next((usual for usual in SIZES_OF_VOCABULARY if usual >= size), SIZES_OF_VOCABULARY[-1])

    return round(needed), rounded(max(needed, by_size))


def sample(texts: Sequence[str], characters: int = SAMPLE_CHARACTERS) -> Iterator[str]:
    """Yields texts of at most about `characters` in all, evenly spread; deterministic."""
    share = min(1.0, characters / max(1, sum(map(len, texts))))
    taken = seen = 0.0
    for text in texts:
        seen += len(text)
        if taken + len(text) / 2 <= share * seen or share == 1.0:
            taken += len(text)
            yield text


# --- Loading


def attention_for(options: RunOptions, config: Any) -> str:
    """Returns the `attn_implementation` for the model of `config`; always given, or its config.json would choose.

    Raises:
        ModelError: The model has no FlashAttention, which was chosen.
    """
    found = refusals.auto_class(options.task)._model_mapping[type(config)]
    model_class = found[0] if isinstance(found, tuple | list) else found
    attention = options.model.attention
    match attention:
        case Attention.SDPA if not model_class._supports_sdpa:  # the default
            return Attention.EAGER.value
        case Attention.FLASH_2 | Attention.FLASH_3 if not model_class._supports_flash_attn:
            raise ModelError(
                _("{source} has no {attention}").format(
                    source=refusals.short_name(options.model.source), attention=attention
                ),
                _("transformers has not implemented it for {name}.").format(name=model_class.__name__),
                (Fix(_("Use sdpa"), {"model.attention": "sdpa"}),),
            )
    return attention.value


# --- Packed conversations


FIRST, SECOND = (1, 2, 3, 4), (5, 6, 7, 8)
"""Two texts of four tokens, which any vocabulary has."""


def leaks_between_packed(model: Any) -> bool:
    """Returns whether a conversation changes the logits of the next one in its row.

    transformers' masks separate conversations by `position_ids` that restart at 0; models with masks or a state of
    their own ignore them. The second text is read alone, after the first as one text, and after it with restarted
    positions, which has to be about as alone.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            alone = _logits(model, SECOND, range(4))
            as_one = _logits(model, FIRST + SECOND, range(8))
            packed = _logits(model, FIRST + SECOND, [*range(4), *range(4)])
    finally:
        model.train(was_training)
    return bool((packed - alone).abs().max() > 0.1 * (as_one - alone).abs().max())


def _logits(model: Any, tokens: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
    """Returns logits of the second text, [4, vocabulary]."""
    device = next(model.parameters()).device
    ids = torch.tensor([list(tokens)], device=device)
    places = torch.tensor([list(positions)], device=device)
    logits: torch.Tensor = model(input_ids=ids, position_ids=places, use_cache=False).logits[0]
    return logits[-len(SECOND) :].float()


def warn_if_packing_leaks(model: Any, reporter: Reporter) -> None:
    if next(model.parameters()).device.type != "meta" and leaks_between_packed(model):
        reporter.warn(
            "packed-neighbours",
            _("Packed conversations attend to each other"),
            _("{name} ignores where a conversation begins in its block.").format(
                name=type(base_of(model)).__name__
            ),
            (Fix(_("Turn packing off"), {"data.packing": False}),),
        )


# --- Configs, tokenizers, models


def load_config(options: RunOptions) -> Any:
    """Loads a model's config.

    Raises:
        ModelError: The folder has no model for the task, or the Hub has none or can't be reached.
    """
    from transformers import AutoConfig

    source = options.model.source
    if is_scratch(source):
        config = scratch_config(options)
    else:
        check_run(source, options.task)
        if Path(source).is_dir():
            refusals.check_folder(Path(source), needs_weights=not options.starts_random)
        with refusals.explained(source):
            config = AutoConfig.from_pretrained(config_in(source), trust_remote_code=False)
    refusals.check_fits_task(source, config, options.task)
    refusals.check_depth(source, config)
    return config


def tokenizer_for(options: RunOptions, texts: Callable[[], Iterable[str]]) -> Any:
    """Loads the model's tokenizer, or trains one for a model from scratch on the training texts.

    Raises:
        ModelError: There is none, or it can't be read.
    """
    if is_scratch(options.model.source):
        return train_tokenizer(options, texts())
    return load_tokenizer(options.model.source)


def tokenizer_at_hand(source: str) -> Any | None:
    """Returns the model's tokenizer if it is on this computer; None also for a model from scratch.

    The cache's files are checked first: from a config alone, transformers makes a tokenizer without words.

    Raises:
        ModelError: A folder has none, or one that can't be read.
    """
    if is_scratch(source):
        return None
    if Path(tokenizer_in(source)).is_dir():
        return load_tokenizer(source)
    if not hub.names_here(source, hub.RepoKind.MODEL).keys() - {hub.CONFIG}:
        return None
    try:
        return load_tokenizer(source)
    except ModelError:
        return None


def longest_text(config: Any, tokenizer: Any) -> int:
    """Returns the most tokens the model can see; a huge number if unlimited."""
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or 0
    limit: int = tokenizer.model_max_length
    return min(limit, positions) if positions > 0 else limit  # XLNet has -1


@dataclass(frozen=True)
class LoadedModel:
    """A model with the head of its task; `fresh` names the modules of its body that the checkpoint lacks."""

    model: torch.nn.Module
    fresh: tuple[str, ...] = ()


def set_labels(config: Any, task: Task, labels: tuple[str, ...]) -> None:
    """Sets in the model's config what its head predicts: labels, or one number for regression."""
    if task is Task.TEXT_REGRESSION:
        config.num_labels = 1
        config.problem_type = "regression"
    if task.has_labels:
        config.num_labels = len(labels)
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: index for index, label in enumerate(labels)}


def load_model(options: RunOptions, config: Any, labels: tuple[str, ...], tokenizer: Any) -> LoadedModel:
    """Loads the model with the head of the task; images need no tokenizer. On the meta device no weights are read.

    Weights that learn are in fp32, frozen ones quantized for QLoRA or as `frozen_dtype` says.

    Raises:
        ModelError: There are no safe weights, they are damaged or don't fit, or the model lacks the chosen attention.
    """
    from transformers import set_seed

    set_labels(config, options.task, labels)
    # not where texts are written: the embedding of the padding would not learn, and it is often that of the end
    if tokenizer is not None and config.pad_token_id is None and not options.task.writes_text:
        config.pad_token_id = tokenizer.pad_token_id
    attention = attention_for(options, config)
    is_light = options.starts_random or torch.get_default_device().type == "meta"
    if not is_light:
        weights_in(options.model.source)  # merging a past run's adapter draws random numbers, the first time
    set_seed(options.training.seed)  # the head's random weights
    with refusals.explained(options.model.source):
        load = _load_quantized if options.model.method is Method.QLORA else _load
        if is_light:
            loaded = LoadedModel(random_model(config, options.task, attn_implementation=attention))
        else:
            with loading_frozen_in(frozen_dtype(options)):
                loaded = load(options, config, attn_implementation=attention)
    hold_frozen(loaded.model, frozen_dtype(options), loaded.fresh)
    return loaded


def random_model(config: Any, task: Task, **more: Any) -> torch.nn.Module:
    """Builds the model with random weights; under `torch.device("meta")` without any, in milliseconds.

    `more` goes to transformers' `from_config`.
    """
    # by default, transformers asks on the terminal whether to run a model's own code
    model: torch.nn.Module = refusals.auto_class(task).from_config(
        config, dtype=torch.float32, trust_remote_code=False, **more
    )
    return model


def _load(options: RunOptions, config: Any, **more: Any) -> LoadedModel:
    source = options.model.source
    model, info = read_pretrained(
        weights_in(source),
        options.task,
        config,
        ignore_mismatched_sizes=True,  # a head for other labels is replaced
        output_loading_info=True,
        **more,
    )
    refusals.check_loaded(source, model, info)
    if options.task.writes_text:
        refusals.check_language_head(source, model, info)
    return LoadedModel(model, owners(refusals.fresh_weights(model, info)))


def _load_quantized(options: RunOptions, config: Any, **more: Any) -> LoadedModel:
    """Loads with quantized weights, but for `left_unpacked`, and for modules that the checkpoint lacks: they learn."""
    with torch.device("meta"):
        unpacked = left_unpacked(random_model(copy.deepcopy(config), options.task), options)
    loaded = _load(options, copy.deepcopy(config), **quantization_arguments(options, unpacked), **more)
    if loaded.fresh:
        loaded = _load(options, config, **quantization_arguments(options, (*unpacked, *loaded.fresh)), **more)
    return loaded
