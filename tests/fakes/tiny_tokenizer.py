"""A byte-level BPE trained on a few sentences, made in milliseconds and without a network."""

from collections.abc import Sequence
from typing import Any

from core.engine.environment import prepare_torchvision

SENTENCES = (
    *("What is the capital of France? The capital of France is Paris.", "Say hello to the user, please."),
    *("user assistant system tool", "Hello there, how are you? I am fine.", "one two three four five six"),
)


def tiny_tokenizer(template: str | None = None, special: Sequence[str] = (), **kwargs: Any) -> Any:
    """A tokenizer of at most 400 tokens with `<|endoftext|>` as its end of text."""
    prepare_torchvision()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(SENTENCES, trainer)
    options = {"eos_token": "<|endoftext|>", **kwargs}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, **options)
    tokenizer.chat_template = template
    return tokenizer


def metaspace_tokenizer(
    template: str | None = None, special: Sequence[str] = (), bos: str = "", eos_token: str = "</s>"
) -> Any:
    """The same in the way of Llama's: words and texts begin with ▁, and unknown letters are spelt as bytes."""
    prepare_torchvision()
    from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    first = ["<unk>", eos_token, *([bos] if bos else []), *special]
    spelt = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=[*dict.fromkeys(first), *spelt], show_progress=False
    )
    bpe.train_from_iterator(SENTENCES, trainer)
    if bos:
        bpe.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, bpe.token_to_id(bos))]
        )
    begin = {"bos_token": bos} if bos else {}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=eos_token, unk_token="<unk>", **begin)
    tokenizer.chat_template = template
    return tokenizer
