"""Models from scratch: a small config by its name, and a byte-level BPE tokenizer trained on the training data.

The special tokens come first, so that their ids are known before there is any data.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from core.engine.data.chat_tokens import TURN_END, TURN_START
from core.options import RunOptions
from core.options.sources import ScratchModel, positions_of, scratch_model

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
    widths = {
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
    """Train a tokenizer of at most `model.vocabulary` tokens; fewer if no more occur twice. Deterministic.

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


def sample(texts: Sequence[str], characters: int = SAMPLE_CHARACTERS) -> Iterator[str]:
    """Texts of at most about `characters` in all, evenly spread; deterministic."""
    share = min(1.0, characters / max(1, sum(map(len, texts))))
    taken = seen = 0.0
    for text in texts:
        seen += len(text)
        if taken + len(text) / 2 <= share * seen or share == 1.0:
            taken += len(text)
            yield text
