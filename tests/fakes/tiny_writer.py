"""A Llama or GPT-2 of a few thousand weights, saved as a model folder is, made in milliseconds; and a text for it."""

from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision
from tests.fakes.tiny_tokenizer import tiny_tokenizer

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
