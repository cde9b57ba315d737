"""Models from nothing: a small config by its name, and a tokenizer trained on the data of the run.

The tokenizer is a byte-level BPE, so that it can write any text; it is trained on what is trained on, never on what is
held out. Its special tokens come first, so that their numbers are known before there is any data.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from core.base.errors import ModelError
from core.base.language import _
from core.engine.data.chat_tokens import TURN_END, TURN_START
from core.options import RunOptions
from core.options.sources import SCRATCH_MODELS, ScratchModel, positions_of, scratch_model

END, PAD = "<|endoftext|>", "<|pad|>"
WRITING = (END, PAD, TURN_START, TURN_END)
"""Those of a model that writes: the last two are ChatML's, so that it can learn to chat later."""

READING = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
"""Those of a model that reads."""

SAMPLE_CHARACTERS = 10_000_000
"""So much of a text trains the tokenizer, spread over all of it: more changes hardly a token and takes minutes."""

QUICK_CHARACTERS = 500_000
"""So much for a first look: a tokenizer of 1,024 tokens takes 0.3 s, and most of its tokens are those of the whole."""


def scratch_config(options: RunOptions) -> Any:
    """The config of the model, as wide as its name says.

    Raises:
        ModelError: There is no such model.
    """
    from transformers import BertConfig, LlamaConfig

    asked = known_model(options.model.source)
    widths = {
        "vocab_size": options.model.vocabulary,
        "hidden_size": asked.hidden,
        "intermediate_size": asked.inner,
        "num_hidden_layers": asked.layers,
        "num_attention_heads": asked.heads,
        "max_position_embeddings": positions_of(options.data.max_length),
    }
    if not asked.writes:
        return BertConfig(**widths, pad_token_id=READING.index("[PAD]"))
    end = WRITING.index(END)
    return LlamaConfig(
        **widths,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=WRITING.index(PAD),
        tie_word_embeddings=True,
    )


def known_model(source: str) -> ScratchModel:
    """The model that `scratch:NAME` names.

    Raises:
        ModelError: There is no such model.
    """
    found = scratch_model(source)
    if found is None:
        raise ModelError(
            _("There is no model {source}").format(source=source),
            _("From scratch there are {scratch_models}.").format(scratch_models=", ".join(SCRATCH_MODELS)),
        )
    return found


def train_tokenizer(options: RunOptions, texts: Iterable[str]) -> Any:
    """A tokenizer of at most `model.vocabulary` tokens, fewer where the texts hold no more that come twice.

    The same texts in the same order give the same tokenizer.

    Args:
        options: What is asked.
        texts: What is trained on, in pieces of any length; gone through once. None at all: bytes are its tokens.

    Raises:
        ModelError: There is no such model.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    writes = known_model(options.model.source).writes
    special = WRITING if writes else READING
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.model.vocabulary,
        min_frequency=2,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _as_writer(tokenizer, options) if writes else _as_reader(tokenizer, options)


def quick_tokenizer(options: RunOptions, texts: Sequence[str]) -> Any:
    """About the tokenizer that a run would train, in well under a second, for a look at what the model will see.

    Args:
        options: What is asked.
        texts: Some of what is trained on.

    Raises:
        ModelError: There is no such model.
    """
    return train_tokenizer(options, sample(texts, QUICK_CHARACTERS))


def _as_writer(tokenizer: Any, options: RunOptions) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=[TURN_START, TURN_END],
        model_max_length=positions_of(options.data.max_length),
        model_input_names=["input_ids", "attention_mask"],
    )


def _as_reader(tokenizer: Any, options: RunOptions) -> Any:
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, READING.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=positions_of(options.data.max_length),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def sample(texts: Sequence[str], characters: int = SAMPLE_CHARACTERS) -> Iterator[str]:
    """So much of `texts` at most, evenly spread over them: whole ones, each by its place and not by chance.

    Args:
        texts: Pieces of a text, or rows; long ones are better cut into pieces before.
        characters: The most to give.
    """
    total = sum(map(len, texts))
    share = min(1.0, characters / max(1, total))
    taken = seen = 0.0
    for text in texts:
        seen += len(text)
        if taken + len(text) / 2 <= share * seen or share == 1.0:
            taken += len(text)
            yield text
