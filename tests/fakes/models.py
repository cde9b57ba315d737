"""A Llama or GPT-2 of a few thousand weights, saved as a model folder is, made in milliseconds; and a text for it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision

# --- A Bert of a few thousand weights, saved as a model folder is, made in milliseconds


WORDS = ("good", "bad", "fine", "poor", "a", "the", "story", "film", "very", "not")
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def save_tiny_bert(folder: Path, **config: Any) -> Path:
    """Write config, weights and tokenizer; without dropout, so that two ways of computing can be compared."""
    prepare_torchvision()
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, set_seed

    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 64}
    set_seed(0)
    sizes = {"vocab_size": len(vocabulary), **SIZES}
    model = BertForSequenceClassification(BertConfig(**{**sizes, **plain, **config}))
    model.save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate(vocabulary)})
    tokenizer.save_pretrained(folder)
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    """Change fields of a saved config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# --- A byte-level BPE trained on a few sentences, made in milliseconds and without a network


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


# --- Vision models of a few thousand weights, saved as model folders are, made in milliseconds


SIZE = 32
VIT = {
    "image_size": SIZE,
    "patch_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
CONFIGS = {
    "vit": VIT,
    "deit": VIT,
    "convnext": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "swin": {
        "image_size": SIZE,
        "patch_size": 4,
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 4,
    },
}


def save_tiny_vision(
    folder: Path,
    kind: str = "vit",
    mean: Sequence[float] | None = (0.5, 0.5, 0.5),
    std: Sequence[float] = (0.5, 0.5, 0.5),
    **config: object,
) -> Path:
    """Write config, weights for two labels and, unless `mean` is None, what says how images are normalized."""
    prepare_torchvision()
    from transformers import AutoConfig, AutoModelForImageClassification, set_seed

    set_seed(0)
    made = AutoConfig.for_model(kind, **{**CONFIGS[kind], **config})
    made.architectures = []  # DeiT has two forms: the first
    AutoModelForImageClassification.from_config(made).save_pretrained(folder)
    if mean is not None:
        told = {"do_normalize": True, "image_mean": list(mean), "image_std": list(std)}
        (folder / "preprocessor_config.json").write_text(json.dumps(told))
    return folder


# --- A Llama or GPT-2 of a few thousand weights, saved as a model folder is


LINES = (
    "The river runs down to the sea, and the sea gives nothing back.",
    "Who goes there? A friend, and a friend of the house.",
    "Then let the door be opened, and let the fire be lit.",
    "",
)


def write_text(path: Path, lines: int = 40) -> Path:
    """A text of so many lines, no two the same."""
    written = (f"{number}. {LINES[number % len(LINES)]}" for number in range(lines))
    path.write_text("\n".join(written) + "\n", encoding="utf-8")
    return path


def save_tiny_llama(folder: Path, *, tied: bool = True, **config: Any) -> Path:
    """Write config, weights and tokenizer."""
    prepare_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    tokenizer = tiny_tokenizer()
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    set_seed(7)
    asked = LlamaConfig(
        **{"vocab_size": len(tokenizer), "max_position_embeddings": 64, **sizes, **config},
        tie_word_embeddings=tied,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(asked).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_gpt2(folder: Path) -> Path:
    """The same of GPT-2's kind, whose linear layers are none of torch's, without dropout."""
    prepare_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel, set_seed

    tokenizer = tiny_tokenizer()
    end = tokenizer.eos_token_id
    set_seed(7)
    asked = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=end,
        eos_token_id=end,
    )
    GPT2LMHeadModel(asked).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# --- A Llama of a few thousand weights with a tokenizer, saved as a model folder is


TALKER_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
}


def save_tiny_talker(folder: Path, template: str | None = None, **config: Any) -> Path:
    """Write config, weights and tokenizer; without a chat template unless one is given."""
    prepare_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    tokenizer = tiny_tokenizer(template)
    ends = tokenizer.eos_token_id
    set_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), bos_token_id=None, eos_token_id=ends, **{**TALKER_SIZES, **config}
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def instructions(rows: int = 40) -> list[dict[str, str]]:
    """Questions and answers of uneven lengths."""
    return [
        {
            "instruction": f"Count to {row % 7 + 1}, please.",
            "input": "",
            "output": " ".join("12345678"[: row % 7 + 1]),
        }
        for row in range(rows)
    ]


def pairs(rows: int = 24) -> list[dict[str, Any]]:
    """ShareGPT's form of better and worse answers."""
    return [
        {
            "conversations": [{"from": "human", "value": f"Say hello to number {row}."}],
            "chosen": {"from": "gpt", "value": f"Hello, number {row}!"},
            "rejected": {"from": "gpt", "value": "No." if row % 2 else "I will not say that, I am tired."},
        }
        for row in range(rows)
    ]


def rated(rows: int = 24) -> list[dict[str, Any]]:
    """TRL's form of single answers that are liked or not; every third one is."""
    return [
        {
            "prompt": f"Say hello to number {row}.",
            "completion": f"Hello, number {row}!"
            if row % 3 == 0
            else "No, I am tired."
            if row % 2
            else "No.",
            "label": row % 3 == 0,
        }
        for row in range(rows)
    ]


def write_json(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The rows as a JSON list."""
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path
